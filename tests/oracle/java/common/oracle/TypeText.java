package oracle;

import java.lang.invoke.MethodType;
import java.lang.reflect.Array;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.flink.api.common.typeinfo.BasicArrayTypeInfo;
import org.apache.flink.api.common.typeinfo.BasicTypeInfo;
import org.apache.flink.api.common.typeinfo.PrimitiveArrayTypeInfo;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple;
import org.apache.flink.api.java.typeutils.EnumTypeInfo;
import org.apache.flink.api.java.typeutils.GenericTypeInfo;
import org.apache.flink.api.java.typeutils.ListTypeInfo;
import org.apache.flink.api.java.typeutils.MapTypeInfo;
import org.apache.flink.api.java.typeutils.PojoTypeInfo;
import org.apache.flink.api.java.typeutils.RowTypeInfo;
import org.apache.flink.api.java.typeutils.TupleTypeInfo;
import org.apache.flink.api.java.typeutils.TypeExtractor;
import org.apache.flink.types.Row;

/**
 * Types from our notation, and {@code AUTO<class>} or {@code AUTO<class#field>}: the one that Flink infers. The constants
 * of enums are the class's own.
 */
final class TypeText {
    private static final Map<String, TypeInformation<?>> SIMPLE = Map.ofEntries(
            Map.entry("LONG", Types.LONG), Map.entry("INT", Types.INT), Map.entry("SHORT", Types.SHORT),
            Map.entry("BYTE", Types.BYTE), Map.entry("DOUBLE", Types.DOUBLE), Map.entry("FLOAT", Types.FLOAT),
            Map.entry("BOOLEAN", Types.BOOLEAN), Map.entry("CHAR", Types.CHAR), Map.entry("STRING", Types.STRING),
            Map.entry("BIG_DECIMAL", Types.BIG_DEC), Map.entry("BIG_INTEGER", Types.BIG_INT),
            Map.entry("DATE", BasicTypeInfo.DATE_TYPE_INFO), Map.entry("SQL_DATE", Types.SQL_DATE),
            Map.entry("SQL_TIME", Types.SQL_TIME), Map.entry("SQL_TIMESTAMP", Types.SQL_TIMESTAMP),
            Map.entry("INSTANT", Types.INSTANT), Map.entry("LOCAL_DATE", Types.LOCAL_DATE),
            Map.entry("LOCAL_TIME", Types.LOCAL_TIME), Map.entry("LOCAL_DATE_TIME", Types.LOCAL_DATE_TIME));

    private final String text;
    private final ClassLoader loader;
    private int position;

    private TypeText(String text, ClassLoader loader) {
        this.text = text;
        this.loader = loader;
    }

    @SuppressWarnings("unchecked")
    static TypeInformation<Object> parse(String text, ClassLoader loader) throws ClassNotFoundException {
        return (TypeInformation<Object>) new TypeText(text, loader).type();
    }

    private TypeInformation<?> type() throws ClassNotFoundException {
        String name = word();
        if (SIMPLE.containsKey(name)) {
            return SIMPLE.get(name);
        }
        if (List.of("POJO", "ENUM", "KRYO", "AUTO").contains(name)) {
            expect('<');
            Class<?> type = Class.forName(word(), true, loader);
            if (text.charAt(position) == '#') {
                position++;
                TypeInformation<?> inferred = ofField(type, word());
                expect('>');
                return inferred;
            }
            expect('>');
            if (name.equals("POJO")) {
                return Types.POJO(type, fields('(', ')'));
            }
            skipParentheses();
            return name.equals("KRYO") ? new GenericTypeInfo<>(type) : TypeInformation.of(type);
        }
        if (name.equals("ROW")) {
            Map<String, TypeInformation<?>> fields = fields('<', '>');
            return Types.ROW_NAMED(fields.keySet().toArray(new String[0]), fields.values().toArray(new TypeInformation<?>[0]));
        }
        TypeInformation<?>[] parts = parts().toArray(new TypeInformation<?>[0]);
        return switch (name) {
            case "LIST" -> new ListTypeInfo<>(parts[0]);
            case "MAP" -> new MapTypeInfo<>(parts[0], parts[1]);
            case "TUPLE" -> new TupleTypeInfo<>(parts);
            case "SET" -> Compat.setOf(parts[0]).orElseThrow();
            case "EITHER" -> Types.EITHER(parts[0], parts[1]);
            case "PRIMITIVE_ARRAY" -> PrimitiveArrayTypeInfo.getInfoFor(
                    Array.newInstance(MethodType.methodType(parts[0].getTypeClass()).unwrap().returnType(), 0).getClass());
            case "BASIC_ARRAY" -> BasicArrayTypeInfo.getInfoFor(Array.newInstance(parts[0].getTypeClass(), 0).getClass());
            case "OBJECT_ARRAY" -> Types.OBJECT_ARRAY(parts[0]);
            default -> throw new IllegalArgumentException("not a type: " + text);
        };
    }

    private static TypeInformation<?> ofField(Class<?> type, String name) {
        try {
            return TypeExtractor.createTypeInfo(type.getField(name).getGenericType());
        } catch (NoSuchFieldException e) {
            throw new IllegalArgumentException(e);
        }
    }

    private List<TypeInformation<?>> parts() throws ClassNotFoundException {
        List<TypeInformation<?>> parts = new ArrayList<>();
        do {
            position++;
            parts.add(type());
        } while (text.charAt(position) == ',');
        expect('>');
        return parts;
    }

    /** Types by names: {@code (id LONG, name STRING)}, or {@code <LONG, STRING>} as f0 and f1. */
    private Map<String, TypeInformation<?>> fields(char open, char close) throws ClassNotFoundException {
        Map<String, TypeInformation<?>> fields = new LinkedHashMap<>();
        expect(open);
        while (text.charAt(position) != close) {
            int before = position;
            String name = word();
            if (text.charAt(position) != ' ') {
                name = "f" + fields.size();
                position = before;
            }
            fields.put(name, type());
            if (text.charAt(position) == ',') {
                position++;
            }
        }
        expect(close);
        return fields;
    }

    private String word() {
        while (text.charAt(position) == ' ') {
            position++;
        }
        int start = position;
        while (position < text.length() && (Character.isJavaIdentifierPart(text.charAt(position)) || text.charAt(position) == '.')) {
            position++;
        }
        return text.substring(start, position);
    }

    private void expect(char sign) {
        if (text.charAt(position++) != sign) {
            throw new IllegalArgumentException(sign + " expected at " + (position - 1) + " of " + text);
        }
    }

    private void skipParentheses() {
        if (position < text.length() && text.charAt(position) == '(') {
            int depth = 0;
            do {
                depth += text.charAt(position) == '(' ? 1 : text.charAt(position) == ')' ? -1 : 0;
                position++;
            } while (depth > 0);
        }
    }

    /** A value of a type; of types that can be keys another one for another number. */
    static Object sample(TypeInformation<?> type, int number) {
        Class<?> raw = type.getTypeClass();
        if (type instanceof ListTypeInfo<?> list) {
            return new ArrayList<>(List.of(sample(list.getElementTypeInfo(), number)));
        }
        if (type instanceof MapTypeInfo<?, ?> map) {
            return new HashMap<>(Map.of(sample(map.getKeyTypeInfo(), number), sample(map.getValueTypeInfo(), number)));
        }
        Optional<Object> simple = simple(raw, number);
        if (simple.isPresent()) {
            return simple.get();
        }
        if (type instanceof EnumTypeInfo<?>) {
            return raw.getEnumConstants()[number % raw.getEnumConstants().length];
        }
        if (type instanceof RowTypeInfo row) {
            Row made = new Row(row.getArity());
            for (int i = 0; i < row.getArity(); i++) {
                made.setField(i, sample(row.getTypeAt(i), number));
            }
            return made;
        }
        if (type instanceof TupleTypeInfo<?> tuple) {
            Tuple made = Tuple.newInstance(tuple.getArity());
            for (int i = 0; i < tuple.getArity(); i++) {
                made.setField(sample(tuple.getTypeAt(i), number), i);
            }
            return made;
        }
        if (raw.equals(org.apache.flink.types.Either.class)) {
            return org.apache.flink.types.Either.Left(7);
        }
        try {
            Object made = raw.getDeclaredConstructor().newInstance();
            if (type instanceof PojoTypeInfo<?> pojo) {
                for (int i = 0; i < pojo.getArity(); i++) {
                    pojo.getPojoFieldAt(i).getField().set(made, sample(pojo.getTypeAt(i), number));
                }
            }
            return made;
        } catch (ReflectiveOperationException e) {
            throw new IllegalArgumentException("no value of " + type, e);
        }
    }

    private static Optional<Object> simple(Class<?> raw, int number) {
        Map<Class<?>, Object> values = new HashMap<>();
        values.put(Long.class, (long) number);
        values.put(Integer.class, number);
        values.put(Short.class, (short) number);
        values.put(Byte.class, (byte) number);
        values.put(Double.class, number / 2.0);
        values.put(Float.class, number / 2f);
        values.put(Boolean.class, number % 2 == 0);
        values.put(String.class, "text " + number);
        values.put(java.time.Instant.class, java.time.Instant.ofEpochSecond(number));
        values.put(java.math.BigDecimal.class, java.math.BigDecimal.valueOf(number));
        values.put(long[].class, new long[] {number});
        values.put(int[].class, new int[] {number});
        values.put(String[].class, new String[] {"text " + number});
        // Types that Flink 1 gives to Kryo, and Flink 2 to serializers of its own.
        values.put(List.class, new ArrayList<>(List.of("text " + number)));
        values.put(Map.class, new HashMap<>(Map.of("text " + number, "text")));
        return Optional.ofNullable(values.get(raw));
    }
}
