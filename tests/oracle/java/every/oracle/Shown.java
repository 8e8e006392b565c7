package oracle;

import java.lang.reflect.Array;
import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Date;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.flink.api.java.tuple.Tuple;
import org.apache.flink.types.BooleanValue;
import org.apache.flink.types.ByteValue;
import org.apache.flink.types.CharValue;
import org.apache.flink.types.DoubleValue;
import org.apache.flink.types.Either;
import org.apache.flink.types.FloatValue;
import org.apache.flink.types.IntValue;
import org.apache.flink.types.LongValue;
import org.apache.flink.types.NullValue;
import org.apache.flink.types.Row;
import org.apache.flink.types.ShortValue;
import org.apache.flink.types.StringValue;

/** Values as they are to be shown, in JSON: times in full, decimals as texts, bytes as {@code {"hex"}}. */
final class Shown {
    private Shown() {}

    /** A value, and what is to be shown where it does not follow from its type. */
    static final class As {
        final Object value;
        final Object shown;

        As(Object value, Object shown) {
            this.value = value;
            this.shown = shown;
        }
    }

    static Map<String, Object> struct(Object... pairs) {
        Map<String, Object> struct = new LinkedHashMap<>();
        for (int i = 0; i < pairs.length; i += 2) {
            struct.put((String) pairs[i], of(pairs[i + 1]));
        }
        return struct;
    }

    static Object of(Object value) {
        if (value == null || value instanceof String || value instanceof Boolean || value instanceof Map && named(value)) {
            return value;
        }
        if (value instanceof Number) {
            return number((Number) value);
        }
        if (value instanceof Character || value instanceof Enum || value instanceof java.util.UUID) {
            return value.toString();
        }
        if (value.getClass().isArray()) {
            return array(value);
        }
        Object time = time(value);
        return time != null ? time : value instanceof org.apache.flink.types.Value ? ofValue(value) : container(value);
    }

    /** Already a struct. */
    private static boolean named(Object value) {
        return value instanceof LinkedHashMap;
    }

    private static Object number(Number value) {
        if (value instanceof Double || value instanceof Float) {
            double number = value.doubleValue();
            return Double.isNaN(number) || Double.isInfinite(number) ? (Object) String.valueOf(number) : (Object) number;
        }
        return value instanceof BigDecimal || value instanceof BigInteger ? (Object) value.toString() : value.longValue();
    }

    private static Object time(Object value) {
        if (value instanceof java.sql.Timestamp) {
            java.sql.Timestamp at = (java.sql.Timestamp) value;
            return struct("seconds", Math.floorDiv(at.getTime(), 1000L), "nanos", at.getNanos());
        }
        if (value instanceof Date) {
            return ((Date) value).getTime();
        }
        if (value instanceof Instant) {
            return struct("seconds", ((Instant) value).getEpochSecond(), "nanos", ((Instant) value).getNano());
        }
        if (value instanceof LocalDate) {
            LocalDate date = (LocalDate) value;
            return struct("year", date.getYear(), "month", date.getMonthValue(), "day", date.getDayOfMonth());
        }
        if (value instanceof LocalDateTime) {
            LocalDateTime at = (LocalDateTime) value;
            Map<String, Object> struct = struct("year", at.getYear(), "month", at.getMonthValue(), "day", at.getDayOfMonth());
            struct.put("nano_of_day", at.toLocalTime().toNanoOfDay());
            return struct;
        }
        return value instanceof LocalTime ? (Object) ((LocalTime) value).toNanoOfDay() : null;
    }

    private static Object ofValue(Object value) {
        if (value instanceof NullValue) {
            return null;
        }
        if (value instanceof BooleanValue) {
            return ((BooleanValue) value).get();
        }
        if (value instanceof CharValue) {
            return String.valueOf(((CharValue) value).getValue());
        }
        if (value instanceof StringValue) {
            return ((StringValue) value).getValue();
        }
        if (value instanceof ByteValue) {
            return (long) ((ByteValue) value).getValue();
        }
        if (value instanceof ShortValue) {
            return (long) ((ShortValue) value).getValue();
        }
        if (value instanceof IntValue) {
            return (long) ((IntValue) value).getValue();
        }
        if (value instanceof LongValue) {
            return ((LongValue) value).getValue();
        }
        if (value instanceof FloatValue) {
            return number(((FloatValue) value).getValue());
        }
        return value instanceof DoubleValue ? number(((DoubleValue) value).getValue()) : container(value);
    }

    private static Object array(Object array) {
        if (array instanceof byte[]) {
            StringBuilder hex = new StringBuilder();
            for (byte each : (byte[]) array) {
                hex.append(String.format("%02x", each));
            }
            return struct("hex", hex.toString());
        }
        List<Object> list = new ArrayList<>();
        for (int i = 0; i < Array.getLength(array); i++) {
            list.add(of(Array.get(array, i)));
        }
        return list;
    }

    private static Object container(Object value) {
        if (value instanceof Tuple) {
            Map<String, Object> struct = new LinkedHashMap<>();
            for (int i = 0; i < ((Tuple) value).getArity(); i++) {
                struct.put("f" + i, of(((Tuple) value).getField(i)));
            }
            return struct;
        }
        if (value instanceof Row) {
            Map<String, Object> struct = new LinkedHashMap<>();
            for (int i = 0; i < ((Row) value).getArity(); i++) {
                struct.put("f" + i, of(((Row) value).getField(i)));
            }
            return struct;
        }
        if (value instanceof Either) {
            Either<?, ?> either = (Either<?, ?>) value;
            return struct("left", either.isLeft() ? either.left() : null, "right", either.isLeft() ? null : either.right());
        }
        if (value instanceof Map) {
            List<Object> entries = new ArrayList<>();
            ((Map<?, ?>) value).forEach((k, v) -> entries.add(Arrays.asList(of(k), of(v))));
            return entries;
        }
        if (value instanceof Collection || value instanceof Iterable) {
            List<Object> list = new ArrayList<>();
            ((Iterable<?>) value).forEach(each -> list.add(of(each)));
            return list;
        }
        return fields(value);
    }

    /** The fields of a POJO, and, as null, those of other classes of its family. */
    static Map<String, Object> fields(Object pojo, Class<?>... others) {
        Map<String, Object> struct = new LinkedHashMap<>();
        for (Class<?> type : others) {
            for (Field field : type.getFields()) {
                struct.put(field.getName(), null);
            }
        }
        for (Field field : pojo.getClass().getFields()) {
            if (!Modifier.isStatic(field.getModifiers())) {
                try {
                    struct.put(field.getName(), of(field.get(pojo)));
                } catch (IllegalAccessException e) {
                    throw new IllegalStateException(e);
                }
            }
        }
        if (others.length > 0) {
            struct.put("__class", pojo.getClass().getName());
        }
        return struct;
    }
}
