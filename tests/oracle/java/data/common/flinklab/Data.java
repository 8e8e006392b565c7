package flinklab;

import flinklab.Model.*;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.time.*;
import java.util.*;
import org.apache.flink.api.java.tuple.*;
import org.apache.flink.types.*;

/** Keys and values as pure functions of (operator, state, key index). Null means: this key has no such state. */
public final class Data {
    private Data() {}

    /**
     * Hashmap's canonical savepoint, the changelog, and RocksDB up to 1.18 hand a map's null value to the value's
     * serializer: LONG's then fails.
     */
    public static boolean nullLongs = true;

    public static Object key(String uid, int i) {
        switch (uid) {
            case "kv-long":
                return i == 0    ? Long.MIN_VALUE
                        : i == 1 ? Long.MAX_VALUE
                        : i == 2 ? 0L
                        : i == 3 ? -1L
                                 : i * 7919L - 1_000_000L;
            case "kv-string":
                return i == 0    ? ""
                        : i == 1 ? "\u00e9\u00fc"
                        : i == 2 ? "\u6f22\u5b57"
                        : i == 3 ? "\ud83d\ude00"
                        : i == 4 ? "nul\u0000end"
                                 : "key-" + i;
            case "kv-tuple":
                return Tuple2.of(i % 3 == 0 ? "" : "t\u00e9-" + i % 50, i - 20);
            case "kv-pojo":
                return new KeyPojo(i % 5 == 0 ? null : "p" + i, -i * 13);
            case "kv-kryo":
                return i * 1000 - 5000;
            default:
                return (long) i;
        }
    }

    static String str(int i) {
        switch (i % 8) {
            case 0:
                return "";
            case 1:
                return "value-" + i;
            case 2:
                return "\u00e9\u00df\u0416 " + i;
            case 3:
                return "\u6f22\u5b57\u304b\u306a" + i;
            case 4:
                return "\ud83d\ude00\ud83d\ude80 " + i;
            case 5:
                return null;
            case 6:
                return "tab\t\"quote\" \u0000 \u007f \u0080 \u07ff \u0800 \uffff " + i;
            default:
                if (i != 7)
                    return "x" + i;
                StringBuilder b = new StringBuilder();
                for (int k = 0; k < 2000; k++)
                    b.append("ab\u00e9c").append((char) ('a' + k % 26));
                return b.toString();
        }
    }

    static Object dbl(int i) {
        switch (i % 9) {
            case 0:
                return 0.0;
            case 1:
                return -0.0;
            case 2:
                return Double.NaN;
            case 3:
                return Double.POSITIVE_INFINITY;
            case 4:
                return Double.MIN_VALUE;
            case 5:
                return -Double.MAX_VALUE;
            case 6:
                return null;
            default:
                return i / 7.0;
        }
    }

    static List<Integer> ints(int i) {
        if (i % 5 == 0)
            return null;
        List<Integer> l = new ArrayList<>();
        for (int k = 0; k < 1 + i % 4; k++)
            l.add(k == 3 ? Integer.MIN_VALUE : i * 10 - k * 1000);
        return l;
    }

    static List<String> tags(int i) {
        List<String> l = new ArrayList<>();
        for (int k = 0; k < i % 4; k++)
            l.add("tag" + k + "\u00e9" + i);
        return l;
    }

    static Map<String, Integer> scores(int i) {
        Map<String, Integer> m = new TreeMap<>();
        for (int k = 0; k < i % 3; k++)
            m.put("s" + k, i - k);
        return new HashMap<>(m);
    }

    static Person person(int i) {
        Person p = new Person();
        p.id = i;
        p.name = i % 6 == 0 ? null : "name-" + i;
        p.address = i % 4 == 0 ? null : new Address(i % 7 == 0 ? null : "street " + i, i % 5 == 0 ? null : i);
        p.tags = i % 5 == 1 ? null : tags(i);
        p.scores = i % 5 == 2 ? null : scores(i);
        p.nullable = i % 2 == 0 ? null : -i;
        p.color = i % 9 == 0 ? null : Color.values()[i % 3];
        p.weight = i * 0.25;
        p.active = i % 2 == 1;
        return p;
    }

    static Row row(int i) {
        // By position: a named Row (Row.withNames) cannot be written by the hashmap backend's canonical savepoint.
        Row r = Row.ofKind(i % 7 == 0 ? RowKind.DELETE
                        : i % 7 == 1  ? RowKind.UPDATE_AFTER
                                      : RowKind.INSERT,
                i % 3 == 0 ? null : "r" + i, i % 4 == 0 ? null : (Object) i, (long) i << 33,
                i % 5 == 0 ? null : (Object) (i % 2 == 0),
                i % 6 == 0 ? null : Row.ofKind(RowKind.INSERT, i * 1.5, i % 6 == 1 ? null : "in" + i));
        return r;
    }

    public static final String ROW_TYPE = "ROW<name STRING,n INT,l LONG,flag BOOLEAN,inner ROW<a DOUBLE,b STRING>>";

    public static Object value(String uid, String state, int i) {
        switch (state) {
            case "v-long":
                return i % 11 == 10 ? null : (Object) (i == 4 ? Long.MIN_VALUE : (long) i * i * 1_000_003L);
            case "v-string":
                return str(i);
            case "v-double":
                return dbl(i);
            case "list-int":
                return ints(i);
            case "map-sl": {
                if (i % 6 == 5)
                    return null;
                Map<String, Long> m = new LinkedHashMap<>();
                for (int k = 0; k < 1 + i % 3; k++)
                    m.put("k" + k + (k == 2 ? "\u00e9" : ""), (long) i - k);
                if (i % 4 == 0 && nullLongs)
                    m.put("null-value", null);
                if (i % 7 == 0)
                    m.put("", 7L);
                return m;
            }
            case "map-ss": {
                if (i % 6 == 2)
                    return null;
                Map<String, String> m = new LinkedHashMap<>();
                m.put("null-value", null);
                m.put("k" + i, str(i));
                return m;
            }
            case "reduce-long":
            case "agg-avg": {
                if (i % 9 == 8)
                    return null;
                List<Long> l = new ArrayList<>();
                for (int k = 0; k < 3; k++)
                    l.add((long) i * (k + 1) - 50);
                return l;
            }
            case "ttl-long":
                return i % 3 == 0 ? null : (Object) (i * 5L);
            case "ttl-list":
                return i % 4 == 0 ? null : Arrays.asList("a" + i, "b" + i);
            case "ttl-map": {
                if (i % 5 == 0)
                    return null;
                Map<String, Long> m = new LinkedHashMap<>();
                m.put("x", (long) i);
                m.put("y", -1L); // no null: a time-to-live map hands it to LONG's serializer
                return m;
            }
            case "pojo":
            case "pojo-auto":
                return i % 8 == 3 ? null : person(i);
            case "shape": {
                Shape s = i % 2 == 0 ? new Shape() : new Circle();
                s.label = "shape" + i;
                if (s instanceof Circle)
                    ((Circle) s).radius = i / 2.0;
                return s;
            }
            case "tuple3":
                return i % 7 == 6 ? null : Tuple3.of((long) i, i % 2 == 0 ? null : "s" + i, i * 0.5);
            case "row":
                return i % 9 == 5 ? null : row(i);
            case "list-row":
                return i % 3 == 1 ? null : Arrays.asList(row(i), row(i + 1));
            case "list-string":
                return i % 5 == 4 ? null : tags(i);
            case "map-si":
                return i % 5 == 3 ? null : scores(i);
            case "either":
                return i % 2 == 0 ? Either.Left("left" + i) : Either.Right(i);
            case "enum":
                return Color.values()[i % 3];
            case "map-tuple-pojo": {
                if (i % 3 == 0)
                    return null;
                Map<Tuple2<String, Integer>, Person> m = new LinkedHashMap<>();
                m.put(Tuple2.of("m" + i, i), person(i));
                return m;
            }
            case "count":
                return i % 10 == 9 ? null : (Object) (i * 3);
            case "noid-count":
                return (long) i * 2;
            case "bitset": {
                BitSet b = new BitSet();
                for (int k = 0; k < i % 9; k++)
                    b.set(k * (i + 1));
                return b;
            }
            case "array-list":
                return new ArrayList<>(tags(i));
            case "no-default":
                return i % 4 == 3 ? null : new NoDefault("nd" + i, i, i % 2 == 0 ? null : new ArrayList<>(tags(i)));
            case "hash-map":
                return new HashMap<>(scores(i));
            default:
        }
        if (i % 7 == 3)
            return null;
        Random r = new Random(state.hashCode() * 31L + i);
        switch (state) {
            case "boolean":
                return i % 2 == 0;
            case "byte":
                return (byte) (i * 3);
            case "short":
                return (short) (i * 777);
            case "int":
                return i == 5 ? Integer.MIN_VALUE : i * 1_000_003;
            case "float":
                return i == 5 ? Float.NaN : i / 3.0f;
            case "char":
                return (char) (i == 5 ? '\u6f22' : i == 6 ? '\u0000' : 'a' + i % 26);
            case "big-dec":
                return i % 6 == 0 ? BigDecimal.valueOf(new int[] {0, 1, 10}[i % 3 % 3]).setScale(i % 4)
                                  : new BigDecimal(new BigInteger(90, r), i % 20 - 5);
            case "big-int":
                return i % 6 == 0 ? BigInteger.valueOf(i == 6 ? 0 : i == 12 ? 1 : -1) : new BigInteger(100, r).negate();
            case "date":
                return new java.util.Date(i * 86_400_000L * 40 - 1_000_000_000_000L + i);
            case "sql-date":
                return new java.sql.Date(i * 86_400_000L * 40);
            case "sql-time":
                return new java.sql.Time(i * 1000L);
            case "sql-timestamp": {
                java.sql.Timestamp t = new java.sql.Timestamp(i * 86_400_000L * 30 + 123);
                t.setNanos(123_456_789 - i);
                return t;
            }
            case "local-date":
                return LocalDate.of(1900 + i, 1 + i % 12, 1 + i % 28);
            case "local-time":
                return LocalTime.of(i % 24, i % 60, i % 60, i * 1_000_001);
            case "local-date-time":
                return LocalDateTime.of(1950 + i, 1 + i % 12, 1 + i % 28, i % 24, i % 60, i % 60, i * 1_000_001);
            case "instant":
                return Instant.ofEpochSecond(i * 100_000_000L - 3_000_000_000L, i * 1_000_001L);
            case "bytes": {
                byte[] b = new byte[i % 20];
                r.nextBytes(b);
                return b;
            }
            case "ints": {
                int[] b = new int[i % 6];
                for (int k = 0; k < b.length; k++)
                    b[k] = r.nextInt();
                return b;
            }
            case "longs": {
                long[] b = new long[i % 6];
                for (int k = 0; k < b.length; k++)
                    b[k] = r.nextLong();
                return b;
            }
            case "shorts": {
                short[] b = new short[i % 6];
                for (int k = 0; k < b.length; k++)
                    b[k] = (short) r.nextInt();
                return b;
            }
            case "doubles": {
                double[] b = new double[i % 6];
                for (int k = 0; k < b.length; k++)
                    b[k] = r.nextDouble();
                return b;
            }
            case "floats": {
                float[] b = new float[i % 6];
                for (int k = 0; k < b.length; k++)
                    b[k] = r.nextFloat();
                return b;
            }
            case "booleans": {
                boolean[] b = new boolean[i % 6];
                for (int k = 0; k < b.length; k++)
                    b[k] = r.nextBoolean();
                return b;
            }
            case "chars": {
                char[] b = new char[i % 6];
                for (int k = 0; k < b.length; k++)
                    b[k] = (char) ('A' + r.nextInt(26));
                return b;
            }
            case "strings":
            case "strings-basic": {
                String[] b = new String[i % 5];
                for (int k = 0; k < b.length; k++)
                    b[k] = k == 2 ? null : "e" + k + "\u00e9";
                return b;
            }
            case "map-void": {
                Map<String, Void> m = new LinkedHashMap<>();
                m.put("only", null);
                m.put("k" + i, null);
                return m;
            }
            default:
                throw new IllegalArgumentException(state);
        }
    }
}
