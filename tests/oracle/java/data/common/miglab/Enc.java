package miglab;

import java.lang.reflect.*;
import java.util.*;
import org.apache.flink.api.java.tuple.Tuple;
import org.apache.flink.types.Either;
import org.apache.flink.types.Row;

/** Values as JSON-ready objects; sets and hash maps in an order of their own; cycles as "^". */
public final class Enc {
    private Enc() {}

    public static Map<String, Object> obj(Object... kv) {
        Map<String, Object> m = new LinkedHashMap<>();
        for (int i = 0; i < kv.length; i += 2)
            m.put((String) kv[i], kv[i + 1]);
        return m;
    }

    public static Object enc(Object v) {
        try {
            return enc(v, new IdentityHashMap<>());
        } catch (ReflectiveOperationException e) {
            throw new IllegalStateException(e);
        }
    }

    private static Object enc(Object v, IdentityHashMap<Object, Object> open) throws ReflectiveOperationException {
        if (v == null || v instanceof String || v instanceof Boolean)
            return v;
        if (v instanceof Integer || v instanceof Long || v instanceof Short || v instanceof Byte)
            return v;
        if (v instanceof Float || v instanceof Double) {
            double d = ((Number) v).doubleValue();
            return Double.isNaN(d) || Double.isInfinite(d) ? (Object) String.valueOf(d) : (Object) d;
        }
        if (v instanceof Character || v instanceof java.math.BigDecimal || v instanceof java.math.BigInteger)
            return v.toString();
        if (v instanceof java.sql.Timestamp)
            return obj("ms", ((java.sql.Timestamp) v).getTime(), "nanos", ((java.sql.Timestamp) v).getNanos());
        if (v instanceof Date)
            return obj("ms", ((Date) v).getTime());
        if (v instanceof Enum)
            return ((Enum<?>) v).name();
        if (open.put(v, v) != null)
            return "^";
        try {
            return open(v, open);
        } finally {
            open.remove(v);
        }
    }

    private static Object open(Object v, IdentityHashMap<Object, Object> open) throws ReflectiveOperationException {
        if (v instanceof byte[]) {
            StringBuilder b = new StringBuilder();
            for (byte x : (byte[]) v)
                b.append(String.format("%02x", x));
            return obj("hex", b.toString());
        }
        if (v.getClass().isArray()) {
            List<Object> l = new ArrayList<>();
            for (int i = 0; i < Array.getLength(v); i++)
                l.add(enc(Array.get(v, i), open));
            return l;
        }
        if (v instanceof Tuple) {
            List<Object> l = new ArrayList<>();
            for (int i = 0; i < ((Tuple) v).getArity(); i++)
                l.add(enc(((Tuple) v).getField(i), open));
            return l;
        }
        if (v instanceof BitSet) {
            List<Object> l = new ArrayList<>();
            ((BitSet) v).stream().forEach(l::add);
            return obj("bits", l);
        }
        if (v instanceof Either) return ((Either<?, ?>) v).isLeft() ? obj("left", enc(((Either<?, ?>) v).left(), open)) : obj("right", enc(((Either<?, ?>) v).right(), open));
        if (v instanceof Row) {
            List<Object> l = new ArrayList<>();
            for (int i = 0; i < ((Row) v).getArity(); i++)
                l.add(enc(((Row) v).getField(i), open));
            return obj("kind", ((Row) v).getKind().shortString(), "row", l);
        }
        if (v instanceof Collection && v.getClass().getName().startsWith("java.")) {
            List<Object> l = new ArrayList<>();
            for (Object o : (Collection<?>) v)
                l.add(enc(o, open));
            if (v instanceof Set && !(v instanceof LinkedHashSet) && !(v instanceof SortedSet))
                l.sort(Comparator.comparing(String::valueOf));
            return l;
        }
        if (v instanceof Map && v.getClass().getName().startsWith("java.")) {
            List<Object> l = new ArrayList<>();
            for (Map.Entry<?, ?> e : ((Map<?, ?>) v).entrySet())
                l.add(Arrays.asList(enc(e.getKey(), open), enc(e.getValue(), open)));
            if (!(v instanceof LinkedHashMap) && !(v instanceof SortedMap))
                l.sort(Comparator.comparing(String::valueOf));
            return obj("map", l);
        }
        String n = v.getClass().getName();
        if (v instanceof Throwable)
            return obj("class", n, "text", String.valueOf(((Throwable) v).getMessage()));
        if (v instanceof java.util.concurrent.atomic.AtomicReference)
            return obj("class", n, "value", enc(((java.util.concurrent.atomic.AtomicReference<?>) v).get(), open));
        if (v instanceof Optional)
            return obj("class", n, "value", enc(((Optional<?>) v).orElse(null), open));
        if (v instanceof Calendar)
            return obj(
                    "class", n, "ms", ((Calendar) v).getTimeInMillis(), "zone", ((Calendar) v).getTimeZone().getID());
        if (v instanceof TimeZone)
            return obj("class", n, "zone", ((TimeZone) v).getID());
        if (v instanceof java.text.SimpleDateFormat)
            return obj("class", n, "text", ((java.text.SimpleDateFormat) v).toPattern());
        if (v instanceof java.nio.ByteBuffer || v instanceof Random)
            return obj("class", n);
        if (n.startsWith("java.") || n.startsWith("sun.") || n.startsWith("org.apache.flink.")
                || n.startsWith("scala."))
            return obj("class", n, "text", v.toString());
        Map<String, Object> f = new LinkedHashMap<>();
        Deque<Class<?>> cs = new ArrayDeque<>();
        for (Class<?> c = v.getClass(); c != null && c != Object.class && !c.getName().startsWith("java.");
                c = c.getSuperclass())
            cs.push(c);
        for (Class<?> c : cs)
            for (Field x : c.getDeclaredFields()) {
                if (Modifier.isStatic(x.getModifiers()) || Modifier.isTransient(x.getModifiers()))
                    continue;
                x.setAccessible(true);
                f.put((f.containsKey(x.getName()) ? c.getSimpleName() + "." : "") + x.getName(), enc(x.get(v), open));
            }
        if (v instanceof Collection)
            f.put("elements", enc(new ArrayList<>((Collection<?>) v), open));
        return obj("class", n, "fields", f);
    }
}
