package flinklab;

import java.lang.reflect.Array;
import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.util.*;
import org.apache.flink.api.common.typeinfo.BasicTypeInfo;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple;
import org.apache.flink.streaming.api.windowing.windows.GlobalWindow;
import org.apache.flink.streaming.api.windowing.windows.TimeWindow;
import org.apache.flink.types.Either;
import org.apache.flink.types.Row;

/** Type strings ("TUPLE&lt;STRING,INT&gt;") to type informations, and values to JSON-ready objects. */
public final class Specs {
    private final String s;
    private int p;

    private Specs(String s) {
        this.s = s;
    }

    @SuppressWarnings("unchecked")
    public static <T> TypeInformation<T> type(String spec) {
        Specs x = new Specs(spec.replace(" ,", ","));
        TypeInformation<?> t = x.one();
        x.ws();
        if (x.p != x.s.length())
            throw new IllegalArgumentException("trailing text in type " + spec);
        return (TypeInformation<T>) t;
    }

    private void ws() {
        while (p < s.length() && s.charAt(p) == ' ')
            p++;
    }

    private String word() {
        ws();
        int b = p;
        while (p < s.length() && (Character.isJavaIdentifierPart(s.charAt(p)) || s.charAt(p) == '.'))
            p++;
        return s.substring(b, p);
    }

    private void expect(char c) {
        ws();
        if (p >= s.length() || s.charAt(p) != c)
            throw new IllegalArgumentException("expected " + c + " at " + p + " in " + s);
        p++;
    }

    private boolean more() {
        ws();
        if (s.charAt(p) == ',') {
            p++;
            return true;
        }
        expect('>');
        return false;
    }

    private List<TypeInformation<?>> args() {
        List<TypeInformation<?>> l = new ArrayList<>();
        expect('<');
        do
            l.add(one());
        while (more());
        return l;
    }

    private Class<?> cls() {
        expect('<');
        String n = word();
        expect('>');
        try {
            return Model.byName(n);
        } catch (ClassNotFoundException e) {
            throw new IllegalArgumentException(e);
        }
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    private TypeInformation<?> one() {
        String w = word();
        switch (w) {
            case "LONG":
                return Types.LONG;
            case "INT":
            case "INTEGER":
                return Types.INT;
            case "SHORT":
                return Types.SHORT;
            case "BYTE":
                return Types.BYTE;
            case "BOOLEAN":
                return Types.BOOLEAN;
            case "DOUBLE":
                return Types.DOUBLE;
            case "FLOAT":
                return Types.FLOAT;
            case "CHAR":
                return Types.CHAR;
            case "STRING":
                return Types.STRING;
            case "VOID":
                return Types.VOID;
            case "BIG_DEC":
                return Types.BIG_DEC;
            case "BIG_INT":
                return Types.BIG_INT;
            case "LOCAL_DATE":
                return Types.LOCAL_DATE;
            case "LOCAL_TIME":
                return Types.LOCAL_TIME;
            case "LOCAL_DATE_TIME":
                return Types.LOCAL_DATE_TIME;
            case "INSTANT":
                return Types.INSTANT;
            case "DATE":
                return BasicTypeInfo.DATE_TYPE_INFO;
            case "SQL_DATE":
                return Types.SQL_DATE;
            case "SQL_TIME":
                return Types.SQL_TIME;
            case "SQL_TIMESTAMP":
                return Types.SQL_TIMESTAMP;
            case "PRIM":
                return Types.PRIMITIVE_ARRAY(args().get(0));
            case "ARRAY":
                return Types.OBJECT_ARRAY(args().get(0));
            case "BASIC_ARRAY":
                return org.apache.flink.api.common.typeinfo.BasicArrayTypeInfo.getInfoFor(
                        Array.newInstance(args().get(0).getTypeClass(), 0).getClass());
            case "TUPLE":
                return Types.TUPLE(args().toArray(new TypeInformation[0]));
            case "LIST":
                return Types.LIST(args().get(0));
            case "MAP": {
                List<TypeInformation<?>> a = args();
                return Types.MAP(a.get(0), a.get(1));
            }
            case "EITHER": {
                List<TypeInformation<?>> a = args();
                return Types.EITHER(a.get(0), a.get(1));
            }
            case "ENUM":
                return Types.ENUM((Class) cls());
            case "POJO": {
                Class c = cls();
                Map<String, TypeInformation<?>> f = Model.fields(c);
                return f == null ? Types.POJO(c) : Types.POJO(c, f);
            }
            case "AUTO":
                return TypeInformation.of(cls());
            case "KRYO":
                return Types.GENERIC((Class) cls());
            case "ROW": {
                List<String> names = new ArrayList<>();
                List<TypeInformation<?>> ts = new ArrayList<>();
                expect('<');
                do {
                    names.add(word());
                    ts.add(one());
                } while (more());
                return Types.ROW_NAMED(names.toArray(new String[0]), ts.toArray(new TypeInformation[0]));
            }
            default:
                throw new IllegalArgumentException("unknown type " + w + " in " + s);
        }
    }

    // ---------------------------------------------------------------- values

    public static Map<String, Object> obj(Object... kv) {
        Map<String, Object> m = new LinkedHashMap<>();
        for (int i = 0; i < kv.length; i += 2)
            m.put((String) kv[i], kv[i + 1]);
        return m;
    }

    /** A value as maps, lists, strings, numbers, booleans and null (README: "how values are written"). */
    public static Object enc(Object v) {
        if (v == null || v instanceof String || v instanceof Boolean || v instanceof Long || v instanceof Integer
                || v instanceof Short || v instanceof Byte)
            return v;
        if (v instanceof Float || v instanceof Double) {
            double d = ((Number) v).doubleValue();
            if (Double.isNaN(d) || Double.isInfinite(d))
                return String.valueOf(d);
            return d;
        }
        if (v instanceof Character || v instanceof BigDecimal || v instanceof BigInteger)
            return v.toString();
        if (v instanceof java.sql.Timestamp)
            return obj("ms", ((java.sql.Timestamp) v).getTime(), "nanos", ((java.sql.Timestamp) v).getNanos());
        if (v instanceof java.util.Date)
            return obj("ms", ((java.util.Date) v).getTime());
        if (v instanceof java.time.temporal.Temporal)
            return v.toString();
        if (v instanceof Enum)
            return ((Enum<?>) v).name();
        if (v instanceof byte[]) {
            StringBuilder b = new StringBuilder();
            for (byte x : (byte[]) v)
                b.append(String.format("%02x", x));
            return obj("hex", b.toString());
        }
        if (v.getClass().isArray()) {
            List<Object> l = new ArrayList<>();
            for (int i = 0; i < Array.getLength(v); i++)
                l.add(enc(Array.get(v, i)));
            return l;
        }
        if (v instanceof Tuple) {
            List<Object> l = new ArrayList<>();
            for (int i = 0; i < ((Tuple) v).getArity(); i++)
                l.add(enc(((Tuple) v).getField(i)));
            return l;
        }
        if (v instanceof BitSet) {
            List<Object> l = new ArrayList<>();
            ((BitSet) v).stream().forEach(l::add);
            return obj("bits", l);
        }
        if (v instanceof Collection) {
            List<Object> l = new ArrayList<>();
            for (Object o : (Collection<?>) v)
                l.add(enc(o));
            return l;
        }
        if (v instanceof Map) {
            List<Object> l = new ArrayList<>();
            for (Map.Entry<?, ?> e : ((Map<?, ?>) v).entrySet())
                l.add(Arrays.asList(enc(e.getKey()), enc(e.getValue())));
            return obj("map", l);
        }
        if (v instanceof Either) {
            Either<?, ?> e = (Either<?, ?>) v;
            return e.isLeft() ? obj("left", enc(e.left())) : obj("right", enc(e.right()));
        }
        if (v instanceof Row) {
            Row r = (Row) v;
            List<Object> l = new ArrayList<>();
            for (int i = 0; i < r.getArity(); i++)
                l.add(enc(r.getField(i)));
            return obj("kind", r.getKind().shortString(), "row", l);
        }
        if (v instanceof TimeWindow)
            return Arrays.asList(((TimeWindow) v).getStart(), ((TimeWindow) v).getEnd());
        if (v instanceof GlobalWindow)
            return "GLOBAL";
        if (v.getClass().getName().equals("org.apache.flink.runtime.state.VoidNamespace"))
            return null;
        // any other object: its fields, superclass first
        Map<String, Object> f = new LinkedHashMap<>();
        Deque<Class<?>> cs = new ArrayDeque<>();
        for (Class<?> c = v.getClass(); c != Object.class; c = c.getSuperclass())
            cs.push(c);
        try {
            for (Class<?> c : cs)
                for (Field x : c.getDeclaredFields()) {
                    if (Modifier.isStatic(x.getModifiers()))
                        continue;
                    x.setAccessible(true);
                    f.put(x.getName(), enc(x.get(v)));
                }
        } catch (IllegalAccessException e) {
            throw new IllegalStateException(e);
        }
        return obj("class", v.getClass().getName(), "fields", f);
    }
}
