package oracle;

import java.io.IOException;
import java.lang.reflect.Array;
import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.temporal.Temporal;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.BitSet;
import java.util.Collection;
import java.util.Date;
import java.util.Deque;
import java.util.HexFormat;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.stream.IntStream;
import org.apache.flink.api.java.tuple.Tuple;
import org.apache.flink.runtime.state.VoidNamespace;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.core.JsonGenerator;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.flink.streaming.api.windowing.windows.GlobalWindow;
import org.apache.flink.streaming.api.windowing.windows.TimeWindow;
import org.apache.flink.types.Either;
import org.apache.flink.types.Row;

/** Java values as JSON; the rules are in the README beside the harness. */
final class Json {
    /** Escapes everything outside ASCII, because a Java string may hold half a surrogate pair. */
    @SuppressWarnings("deprecation")
    static final ObjectMapper MAPPER = new ObjectMapper().configure(JsonGenerator.Feature.ESCAPE_NON_ASCII, true);

    private Json() {}

    static void write(Path path, Object value) throws IOException {
        Files.writeString(path, MAPPER.writeValueAsString(value) + "\n");
    }

    /** An ordered object from alternating names and values. */
    static Map<String, Object> object(Object... pairs) {
        Map<String, Object> object = new LinkedHashMap<>();
        for (int i = 0; i < pairs.length; i += 2) {
            object.put((String) pairs[i], pairs[i + 1]);
        }
        return object;
    }

    static Object of(Object value) {
        if (value == null || value instanceof VoidNamespace) {
            return null;
        }
        if (value instanceof String || value instanceof Boolean) {
            return value;
        }
        if (value instanceof Number number) {
            return ofNumber(number);
        }
        if (value instanceof Character || value instanceof Temporal || value instanceof java.util.UUID) {
            return value.toString();
        }
        if (value instanceof Date date) {
            return ofDate(date);
        }
        if (value instanceof Enum<?> constant) {
            return constant.name();
        }
        if (value.getClass().isArray()) {
            return ofArray(value);
        }
        return ofContainer(value);
    }

    private static Object ofNumber(Number number) {
        if (number instanceof Double || number instanceof Float) {
            double value = number.doubleValue();
            return Double.isNaN(value) || Double.isInfinite(value) ? (Object) String.valueOf(value) : (Object) value;
        }
        if (number instanceof BigDecimal || number instanceof BigInteger) {
            return number.toString();
        }
        return number.longValue();
    }

    private static Object ofDate(Date date) {
        if (date instanceof java.sql.Timestamp timestamp) {
            return object("ms", timestamp.getTime(), "nanos", timestamp.getNanos());
        }
        return object("ms", date.getTime());
    }

    private static Object ofArray(Object array) {
        if (array instanceof byte[] bytes) {
            return object("hex", HexFormat.of().formatHex(bytes));
        }
        return list(IntStream.range(0, Array.getLength(array)).mapToObj(i -> Array.get(array, i)).iterator());
    }

    private static Object ofContainer(Object value) {
        if (value instanceof Tuple tuple) {
            return list(IntStream.range(0, tuple.getArity()).mapToObj(i -> (Object) tuple.getField(i)).iterator());
        }
        if (value instanceof Row row) {
            List<Object> fields = list(IntStream.range(0, row.getArity()).mapToObj(row::getField).iterator());
            return object("kind", row.getKind().shortString(), "row", fields);
        }
        if (value instanceof Either<?, ?> either) {
            return either.isLeft() ? object("left", of(either.left())) : object("right", of(either.right()));
        }
        if (value instanceof Map<?, ?> map) {
            List<Object> entries = new ArrayList<>();
            map.forEach((k, v) -> entries.add(Arrays.asList(of(k), of(v))));
            return object("map", entries);
        }
        if (value instanceof Set<?> set) {
            return object("set", list(set.iterator()));
        }
        if (value instanceof Collection<?> collection) {
            return list(collection.iterator());
        }
        if (value instanceof BitSet bits) {
            return object("bits", bits.stream().boxed().toList());
        }
        return ofObject(value);
    }

    private static Object ofObject(Object value) {
        if (value instanceof TimeWindow window) {
            return List.of(window.getStart(), window.getEnd());
        }
        if (value instanceof GlobalWindow) {
            return "GLOBAL";
        }
        String name = value.getClass().getName();
        if (value instanceof Optional<?> optional) {
            return object("class", name, "fields", object("value", of(optional.orElse(null))));
        }
        if (name.startsWith("java.")) {
            return object("class", name, "text", value.toString());
        }
        return object("class", name, "fields", fields(value));
    }

    private static Map<String, Object> fields(Object value) {
        Deque<Class<?>> rootFirst = new ArrayDeque<>();
        for (Class<?> type = value.getClass(); type != Object.class; type = type.getSuperclass()) {
            rootFirst.push(type);
        }
        rootFirst.remove(Record.class);
        Map<String, Object> fields = new LinkedHashMap<>();
        for (Class<?> type : rootFirst) {
            for (Field field : type.getDeclaredFields()) {
                if (!Modifier.isStatic(field.getModifiers())) {
                    fields.put(field.getName(), of(get(field, value)));
                }
            }
        }
        return fields;
    }

    private static Object get(Field field, Object owner) {
        try {
            field.setAccessible(true);
            return field.get(owner);
        } catch (IllegalAccessException e) {
            throw new IllegalStateException(e);
        }
    }

    private static List<Object> list(Iterator<?> values) {
        List<Object> list = new ArrayList<>();
        values.forEachRemaining(value -> list.add(of(value)));
        return list;
    }
}
