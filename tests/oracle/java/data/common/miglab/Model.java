package miglab;

import java.io.Serializable;
import java.math.BigDecimal;
import java.time.*;
import java.util.*;
import java.util.concurrent.ConcurrentHashMap;

/** The classes that the migration jobs keep in state. */
@SuppressWarnings({"rawtypes", "unused"})
public final class Model {
    private Model() {}

    public enum Color { RED, GREEN, BLUE }

    /** Constants with bodies: each is a class of its own. */
    public enum Shape {
        ROUND {
            @Override
            int n() {
                return 0;
            }
        },
        SQUARE {
            @Override
            int n() {
                return 4;
            }
        };
        abstract int n();
    }

    public static class Addr {
        public String street;
        public Integer zip;

        public Addr() {}

        public Addr(String s, Integer z) {
            street = s;
            zip = z;
        }
    }

    public static class SubAddr extends Addr {
        public String extra;

        public SubAddr() {}

        public SubAddr(String s, Integer z, String e) {
            super(s, z);
            extra = e;
        }
    }

    // ---- POJOs with one field of interest: v
    public static class Base {
        public int id;
        public String name;
    }

    public static class PListString extends Base {
        public List<String> v;
    }

    public static class PListLong extends Base {
        public List<Long> v;
    }

    public static class PListPojo extends Base {
        public List<Addr> v;
    }

    public static class PListList extends Base {
        public List<List<String>> v;
    }

    public static class PListEnum extends Base {
        public List<Color> v;
    }

    public static class PListUuid extends Base {
        public List<UUID> v;
    }

    public static class PListArray extends Base {
        public List<String[]> v;
    }

    public static class PListBytes extends Base {
        public List<byte[]> v;
    }

    public static class PListObject extends Base {
        public List<Object> v;
    }

    public static class PListRaw extends Base {
        public List v;
    }

    public static class PListWild extends Base {
        public List<? extends Number> v;
    }

    public static class PListWildAny extends Base {
        public List<?> v;
    }

    public static class PListLocalDate extends Base {
        public List<LocalDate> v;
    }

    public static class PListNoDefault extends Base {
        public List<KSimple> v;
    }

    public static class PMapStringLong extends Base {
        public Map<String, Long> v;
    }

    public static class PMapStringPojo extends Base {
        public Map<String, Addr> v;
    }

    public static class PMapStringList extends Base {
        public Map<String, List<Long>> v;
    }

    public static class PMapStringMap extends Base {
        public Map<String, Map<String, Long>> v;
    }

    public static class PMapEnumLong extends Base {
        public Map<Color, Long> v;
    }

    public static class PMapIntObject extends Base {
        public Map<Integer, Object> v;
    }

    public static class PMapPojoString extends Base {
        public Map<Addr, String> v;
    }

    public static class PSetString extends Base {
        public Set<String> v;
    }

    public static class PSetLong extends Base {
        public Set<Long> v;
    }

    public static class PSetPojo extends Base {
        public Set<Addr> v;
    }

    public static class PCollection extends Base {
        public Collection<String> v;
    }

    public static class PIterable extends Base {
        public Iterable<String> v;
    }

    public static class PQueue extends Base {
        public Queue<String> v;
    }

    public static class PArrayList extends Base {
        public ArrayList<String> v;
    }

    public static class PLinkedList extends Base {
        public LinkedList<String> v;
    }

    public static class PHashMap extends Base {
        public HashMap<String, Long> v;
    }

    public static class PTreeMap extends Base {
        public TreeMap<String, Long> v;
    }

    public static class PSortedMap extends Base {
        public SortedMap<String, Long> v;
    }

    public static class PHashSet extends Base {
        public HashSet<String> v;
    }

    public static class PSortedSet extends Base {
        public SortedSet<String> v;
    }

    public static class PUuid extends Base {
        public UUID v;
    }

    public static class POptional extends Base {
        public Optional<String> v;
    }

    public static class PLocalDate extends Base {
        public LocalDate v;
    }

    public static class PLocalDateTime extends Base {
        public LocalDateTime v;
    }

    public static class PInstant extends Base {
        public Instant v;
    }

    public static class PDuration extends Base {
        public Duration v;
    }

    public static class PObject extends Base {
        public Object v;
    }

    public static class PNumber extends Base {
        public Number v;
    }

    public static class PAddr extends Base {
        public Addr v;
    }

    public static class PBigDec extends Base {
        public BigDecimal v;
    }

    public static class PStringArray extends Base {
        public String[] v;
    }

    public static class PAddrArray extends Base {
        public Addr[] v;
    }

    public static class PGeneric<T> extends Base {
        public T v;
        public List<T> w;
    }

    public static class PGenericString extends PGeneric<String> {}

    public static class PSelfList extends Base {
        public List<PSelfList> v;
    }

    public static class PAll extends Base {
        public List<String> tags;
        public Map<String, Long> counts;
        public Set<String> seen;
        public List<Addr> addrs;
        public UUID uuid;
        public LocalDate day;
        public Map<String, List<Addr>> byCity;
        public Instant at;
        public Color color;
        public long n;
    }

    public record RList(String a, int b, List<String> tags, Map<String, Long> counts) {}

    public record RPlain(String a, int b, Long c) {}

    // ---- classes that Flink leaves to Kryo: no default constructor
    public static final class KSimple implements Comparable<KSimple> {
        private final int i;
        private final long l;
        private final String s;
        private final double d;
        private final boolean b;
        private final byte y;
        private final short h;
        private final char c;
        private final float f;
        private final Integer bi;
        private final Long bl;
        private final Boolean bb;
        private final Double bd;

        public KSimple(int i, String s) {
            this.i = i;
            this.l = i * 1_000_000_007L;
            this.s = s;
            this.d = i / 4.0;
            this.b = i % 2 == 0;
            this.y = (byte) i;
            this.h = (short) (i * 300);
            this.c = (char) ('a' + (i & 15));
            this.f = i * 0.5f;
            this.bi = i % 3 == 0 ? null : i;
            this.bl = i % 3 == 1 ? null : (long) -i;
            this.bb = i % 2 == 0 ? null : true;
            this.bd = 1.0 * i;
        }

        @Override
        public int compareTo(KSimple o) {
            return Integer.compare(i, o.i);
        }
    }

    public static class KLeaf {
        private final String s;
        private final int n;

        public KLeaf(String s, int n) {
            this.s = s;
            this.n = n;
        }
    }

    public static class KSubLeaf extends KLeaf {
        private final int n;
        private final String z;

        public KSubLeaf(String s, int n, String z) {
            super(s, n);
            this.n = n + 1000;
            this.z = z;
        }
    }

    public static final class KFinalLeaf {
        private final String s;

        public KFinalLeaf(String s) {
            this.s = s;
        }
    }

    public static class KObjects {
        final KLeaf leaf, poly, nul;
        final KFinalLeaf fin, finNull;
        final Object any;
        final Color color;
        final Shape shape;
        final Comparable<?> cmp;
        final Number num;
        final String same, again;

        public KObjects(int i) {
            leaf = new KLeaf("leaf" + i, i);
            poly = i % 2 == 0 ? leaf : new KSubLeaf("sub", i, "z");
            nul = null;
            fin = new KFinalLeaf("fin" + i);
            finNull = null;
            any = i % 2 == 0 ? (Object) ("any" + i) : (Object) (long) i;
            color = Color.values()[i % 3];
            shape = Shape.values()[i % 2];
            cmp = i;
            num = i % 2 == 0 ? (Number) i : (Number) (i * 1.5);
            same = "same" + i;
            again = same;
        }
    }

    public static class KCollections {
        final List<String> tags;
        final List<KLeaf> leaves;
        final List<KFinalLeaf> finals;
        final ArrayList<Long> longs;
        final List<?> wild;
        final List raw;
        final List<List<String>> lists;
        final Set<String> set;
        final Collection<Integer> coll;
        final List<Object> objects;
        final List<String> none;

        public KCollections(int i) {
            tags = new ArrayList<>(Arrays.asList("t" + i, null, "u"));
            leaves = new ArrayList<>(Arrays.asList(new KLeaf("a", i), new KLeaf("b", -i)));
            finals = new LinkedList<>(Arrays.asList(new KFinalLeaf("f"), null, new KFinalLeaf("g" + i)));
            longs = new ArrayList<>(Arrays.asList(1L, (long) i));
            wild = new ArrayList<>(Arrays.asList("w", "w2"));
            raw = new ArrayList(Arrays.asList(1, "x"));
            lists = new ArrayList<>();
            lists.add(new ArrayList<>(tags));
            lists.add(new ArrayList<>());
            set = new LinkedHashSet<>(Arrays.asList("p", "q" + i));
            coll = new ArrayDeque<>(Arrays.asList(7, i));
            objects = new ArrayList<>(Arrays.asList("o", i, null));
            none = null;
        }
    }

    public static class KMaps {
        final Map<String, Long> counts;
        final Map<String, KLeaf> leaves;
        final Map<KFinalLeaf, List<String>> keyed;
        final HashMap<Integer, String> hash;
        final TreeMap<String, Long> tree;
        final Map<String, Map<String, Long>> maps;
        final Map<Color, Long> byColor;
        final Map raw;

        public KMaps(int i) {
            counts = new LinkedHashMap<>();
            counts.put("a", (long) i);
            counts.put("b", null);
            leaves = new LinkedHashMap<>();
            leaves.put("l", new KLeaf("m", i));
            keyed = new LinkedHashMap<>();
            keyed.put(new KFinalLeaf("k"), new ArrayList<>(Arrays.asList("v", "w")));
            hash = new HashMap<>();
            hash.put(i, "h");
            tree = new TreeMap<>();
            tree.put("z", 1L);
            tree.put("y", (long) i);
            maps = new LinkedHashMap<>();
            maps.put("o", new LinkedHashMap<>(counts));
            byColor = new EnumMap<>(Color.class);
            byColor.put(Color.GREEN, (long) i);
            raw = new LinkedHashMap();
            raw.put("r", i);
        }
    }

    public static class KArrays {
        final String[] sa;
        final int[] ia;
        final long[] la;
        final byte[] ba;
        final Object[] oa;
        final KLeaf[] ka;
        final KFinalLeaf[] fa;
        final int[][] iia;
        final Integer[] bia;
        final double[] da;
        final boolean[] za;
        final char[] ca;
        final List<String>[] lsa;
        final Color[] ea;

        @SuppressWarnings("unchecked")
        public KArrays(int i) {
            sa = new String[] {"a" + i, null};
            ia = new int[] {i, -i};
            la = new long[] {i, Long.MIN_VALUE};
            ba = new byte[] {1, (byte) i};
            oa = new Object[] {"o", i, null};
            ka = new KLeaf[] {new KLeaf("x", i), null, new KSubLeaf("y", i, "w")};
            fa = new KFinalLeaf[] {new KFinalLeaf("f" + i), null};
            iia = new int[][] {{1}, null, {i, 3}};
            bia = new Integer[] {i, null};
            da = new double[] {i / 2.0};
            za = new boolean[] {true, false};
            ca = new char[] {'x'};
            lsa = new List[] {new ArrayList<>(Arrays.asList("ls")), null};
            ea = new Color[] {Color.BLUE, null};
        }
    }

    public static class KTimes {
        final UUID uuid;
        final LocalDate day;
        final LocalTime time;
        final LocalDateTime dt;
        final Instant at;
        final Duration dur;
        final ZonedDateTime zdt;
        final OffsetDateTime odt;
        final ZoneId zone;
        final BigDecimal dec;
        final Date date;
        final java.sql.Timestamp ts;
        final Optional<String> opt;
        final OptionalInt oi;
        final Locale loc;
        final UUID nul;

        public KTimes(int i) {
            uuid = new UUID(i, -i);
            day = LocalDate.of(2024, 2, 1 + i % 28);
            time = LocalTime.of(i % 24, 5, 7, i);
            dt = LocalDateTime.of(day, time);
            at = Instant.ofEpochSecond(i * 1000L, 5);
            dur = Duration.ofSeconds(i, 9);
            zone = ZoneId.of("Europe/Berlin");
            zdt = dt.atZone(zone);
            odt = dt.atOffset(ZoneOffset.ofHours(2));
            dec = new BigDecimal(i * 37).movePointLeft(2);
            date = new Date(1_700_000_000_000L + i);
            ts = new java.sql.Timestamp(1_700_000_000_123L);
            opt = i % 2 == 0 ? Optional.of("o" + i) : Optional.empty();
            oi = OptionalInt.of(i);
            loc = Locale.GERMANY;
            nul = null;
        }
    }

    public static class KBase1 {
        private final int x;
        protected final String a;

        KBase1(int x, String a) {
            this.x = x;
            this.a = a;
        }
    }

    public static class KDerived extends KBase1 {
        private final int x;
        public final int m;
        private final transient int t;
        private static final int S = 1;

        public KDerived(int i) {
            super(i, "base");
            x = i + 100;
            m = -i;
            t = 7;
        }
    }

    public static class KGen<T> {
        final T t;
        final List<T> ts;
        final Map<String, T> mt;

        @SuppressWarnings("unchecked")
        public KGen(T t) {
            this.t = t;
            ts = new ArrayList<>(Arrays.asList(t, t));
            mt = new LinkedHashMap<>();
            mt.put("k", t);
        }
    }

    public static class KGenString extends KGen<String> {
        final int q;

        public KGenString(String s) {
            super(s);
            q = 5;
        }
    }

    public static class KHolder {
        final KGen<String> gs;
        final KGen<KLeaf> gl;
        final KGen<Long> gn;
        final KGen<?> gw;
        final KGenString sub;

        public KHolder(int i) {
            gs = new KGen<>("g" + i);
            gl = new KGen<>(new KLeaf("x", i));
            gn = new KGen<>((long) i);
            gw = new KGen<>("wild");
            sub = new KGenString("s" + i);
        }
    }

    public static class KCycle {
        final String n;
        KCycle next;

        public KCycle(int i) {
            n = "n" + i;
            next = i % 2 == 0 ? this : null;
        }
    }

    public static class KInner {
        final int a;

        public KInner(int a) {
            this.a = a;
        }

        public class In {
            final int b;

            public In(int b) {
                this.b = b;
            }
        }
    }

    /** With registered serializers: written by MyKryo. */
    public static class KCustom {
        public final String s;
        public final long n;

        public KCustom(String s, long n) {
            this.s = s;
            this.n = n;
        }
    }

    public static class KReg {
        final String s;
        final List<KLeaf> leaves;

        public KReg(String s) {
            this.s = s;
            leaves = new ArrayList<>(Arrays.asList(new KLeaf("r", 1)));
        }
    }

    public static class KJava implements Serializable {
        final String s;
        final int n;

        public KJava(String s, int n) {
            this.s = s;
            this.n = n;
        }
    }

    public static class KException extends RuntimeException {
        final int code;

        public KException(String m, int c) {
            super(m);
            code = c;
            setStackTrace(new StackTraceElement[0]);
        }
    }

    public static class KInterfaceList extends ArrayList<String> {
        final int extra;

        public KInterfaceList(int e) {
            extra = e;
        }
    }
}
