package oracle;

import java.io.File;
import java.math.BigDecimal;
import java.math.MathContext;
import java.net.InetSocketAddress;
import java.net.URI;
import java.nio.ByteBuffer;
import java.text.DecimalFormat;
import java.text.SimpleDateFormat;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.ZoneId;
import java.time.ZoneOffset;
import java.time.ZonedDateTime;
import java.util.AbstractMap;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.BitSet;
import java.util.Collection;
import java.util.Collections;
import java.util.Comparator;
import java.util.Currency;
import java.util.EnumMap;
import java.util.EnumSet;
import java.util.GregorianCalendar;
import java.util.HashMap;
import java.util.HashSet;
import java.util.IdentityHashMap;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.LinkedList;
import java.util.List;
import java.util.Locale;
import java.util.LongSummaryStatistics;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.PriorityQueue;
import java.util.Random;
import java.util.Set;
import java.util.StringJoiner;
import java.util.TimeZone;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.UUID;
import java.util.WeakHashMap;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentSkipListMap;
import java.util.concurrent.CopyOnWriteArraySet;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.PriorityBlockingQueue;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicIntegerArray;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicLongArray;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.atomic.AtomicReferenceArray;
import java.util.concurrent.atomic.DoubleAdder;
import java.util.concurrent.atomic.LongAccumulator;
import java.util.concurrent.atomic.LongAdder;
import java.util.concurrent.locks.ReentrantLock;
import java.util.zip.CRC32;
import org.apache.flink.api.common.typeinfo.TypeHint;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.types.Either;

/** States that Flink 2 cannot keep as Flink 1 had them, or does not restore: each is a job of its own. */
public final class Upgraded {
    /** Cases by name. */
    static final Map<String, Upgraded> ALL = new LinkedHashMap<>();

    final String kind;
    final TypeInformation<Object> type;
    final List<Object> values;

    @SuppressWarnings("unchecked")
    private Upgraded(String kind, TypeInformation<?> type, List<?> values) {
        this.kind = kind;
        this.type = (TypeInformation<Object>) type;
        this.values = (List<Object>) values;
    }

    private static void add(String name, String kind, TypeInformation<?> type, Object... values) {
        ALL.put(name, new Upgraded(kind, type, new ArrayList<>(Arrays.asList(values))));
    }

    private static void value(String name, TypeInformation<?> type, Object... values) {
        add(name, "value", type, values);
    }

    private static void kryo(String name, Class<?> type, Object... values) {
        value(name, Types.GENERIC(type), values);
    }

    // -- classes ---------------------------------------------------------------------------------------------------

    public enum Size {
        SMALL,
        LARGE
    }

    /** A POJO with a field of each interface that Flink 2 has serializers for. */
    public static class Line {
        public int id;
        public Map<String, Integer> counts;
        public Set<String> tags;
        public Collection<String> marks;

        static Line of(int id, Map<String, Integer> counts, Set<String> tags, Collection<String> marks) {
            Line line = new Line();
            line.id = id;
            line.counts = counts;
            line.tags = tags;
            line.marks = marks;
            return line;
        }
    }

    public static class SpecialLine extends Line {
        public Map<String, Integer> more;
    }

    public static class Order {
        public List<Line> lines;
        public Map<Integer, Line> byId;
    }

    public static class Parcel {
        public Line line;
        public Line[] others;
    }

    public static class Things {
        public List<Object> all;
        public Map<String, Object> named;
        public List<ZonedDateTime> times;
        public List<Outer.Inner> inner;
        public List<Locale> locales;
    }

    public static class Zoned {
        public String name;
        public TimeZone zone;
    }

    public static class Raw {
        public int id;

        @SuppressWarnings("rawtypes")
        public List all;

        @SuppressWarnings("rawtypes")
        public Map named;
    }

    public static class Page<T> {
        public List<T> items;
        public T first;
        public int number;
    }

    public static class Pages {
        public Page<String> texts;
        public Page<Integer> numbers;
    }

    /** Not a POJO: Kryo writes it. */
    public static class Book {
        private final Page<String> page;
        private final double price;

        Book(Page<String> page, double price) {
            this.page = page;
            this.price = price;
        }
    }

    public static class Skipping {
        public ConcurrentSkipListMap<Integer, String> byId;
    }

    public abstract static class Shape {
        double area;
        String name;
    }

    public static class Square extends Shape {
        int side;
        List<String> tags = new ArrayList<>();
    }

    public static class Index extends TreeMap<String, Double> {
        private static final long serialVersionUID = 1;
    }

    public static class OrderedIndex extends TreeMap<String, Double> {
        private static final long serialVersionUID = 1;

        public OrderedIndex() {}

        public OrderedIndex(Comparator<? super String> comparator) {
            super(comparator);
        }
    }

    public static class Names extends TreeSet<String> {
        private static final long serialVersionUID = 1;
    }

    public static class Heap extends PriorityQueue<Integer> {
        private static final long serialVersionUID = 1;
    }

    public static class Words extends ArrayList<String> {
        private static final long serialVersionUID = 1;

        private Words() {}
    }

    public static class Sized extends HashMap<String, Integer> {
        private static final long serialVersionUID = 1;

        public Sized(String first) {
            put(first, 1);
        }
    }

    /** Has the constructor without arguments, and a field, which Kryo does not write. */
    public static class Counts extends HashMap<String, Integer> {
        private static final long serialVersionUID = 1;
        public int written = 1;
    }

    public static class Filed {
        public File file;
        public int number;
    }

    public static class Holding {
        public Index index;
        public int id;
    }

    /** A POJO that can be a key, although its subclasses, which no serializer snapshot lists, have lists. */
    public static class Id {
        public int id;

        @Override
        public int hashCode() {
            return id;
        }

        @Override
        public boolean equals(Object other) {
            return other instanceof Id that && that.id == id && that.getClass() == getClass();
        }
    }

    public static class TaggedId extends Id {
        public List<String> tags;
    }

    public static class LongId extends Id {
        public long more;
    }

    /** A POJO that can be a key, with a field of any POJO. */
    public static class Compound {
        public Id part;
        public Object any;

        @Override
        public int hashCode() {
            return part.hashCode();
        }

        @Override
        public boolean equals(Object other) {
            return other instanceof Compound that && that.part.equals(part);
        }
    }

    /** Not a POJO: Kryo writes it, as a key too. */
    public static final class Code {
        private final String text;
        private final double number;

        Code(String text, double number) {
            this.text = text;
            this.number = number;
        }

        @Override
        public int hashCode() {
            return text.hashCode();
        }

        @Override
        public boolean equals(Object other) {
            return other instanceof Code that && that.text.equals(text) && that.number == number;
        }
    }

    /** Not a POJO: Kryo writes any object, and a number after it. */
    public static class Held {
        private final Object any;
        private final int later;

        Held(Object any, int later) {
            this.any = any;
            this.later = later;
        }
    }

    /** A POJO with a field of any object, before others. */
    public static class Holder {
        public int after;
        public Object any;
        public String text = "t";
    }

    /** Says the type argument of its superclass. */
    public static class TextPage extends Page<String> {
        public Map<String, List<String>> more = new HashMap<>(Map.of("k", list(List.of("v"))));

        TextPage(List<String> items, String first) {
            this.items = items;
            this.first = first;
        }
    }

    /** Collections of collections, raw and generic, in fields of Kryo's. */
    public static class Nested {
        private final List<List<String>> lists = list(List.of(list(List.of("a", "b"))));
        private final Map<String, List<Long>> byName = new HashMap<>(Map.of("a", list(List.of(1L, 2L))));
        private final Map<Size, Double> bySize = new TreeMap<>(Map.of(Size.LARGE, 1.5));
        private final Collection<?> any = list(List.of(1, "b"));
        private final List<? extends Number> numbers = list(List.of(1, 2));
        private final Optional<String> maybe = Optional.of("m");
        private final Comparable<String> compared = "c";

        @SuppressWarnings("rawtypes")
        private final List raw = list(List.of("r", "s"));

        private final double last = 2.5;
    }

    /** A text and a list of a final class. */
    public static class Local {
        private final String name;
        private final List<Integer> numbers;

        Local(String name, List<Integer> numbers) {
            this.name = name;
            this.numbers = numbers;
        }
    }

    // -- values ----------------------------------------------------------------------------------------------------

    private static TreeMap<String, Integer> ordered() {
        TreeMap<String, Integer> map = new TreeMap<>(Comparator.<String>reverseOrder());
        map.putAll(Map.of("a", 1, "b", 2, "c", 3));
        return map;
    }

    private static <M extends Map<String, Double>> M priced(M map) {
        map.put("a", 1.5);
        map.put("b", -2.0);
        return map;
    }

    private static <C extends Collection<E>, E> C filled(C collection, List<E> elements) {
        collection.addAll(elements);
        return collection;
    }

    private static Line line(int id) {
        return Line.of(id, ordered(), new HashSet<>(Set.of("x")), new ArrayList<>(List.of("m")));
    }

    private static Line plain(int id) {
        return Line.of(id, new HashMap<>(Map.of("a", 1)), null, null);
    }

    private static Order order(List<Line> lines, Map<Integer, Line> byId) {
        Order order = new Order();
        order.lines = lines;
        order.byId = byId;
        return order;
    }

    private static <T> Page<T> page(List<T> items, T first) {
        Page<T> page = new Page<>();
        page.items = items;
        page.first = first;
        page.number = 3;
        return page;
    }

    private static <T> ArrayList<T> list(List<T> items) {
        return new ArrayList<>(items);
    }

    static {
        Outer outer = new Outer();
        losses(outer);
        subclasses();
        forecasts(outer);
        inner(outer);
        others();
        hidden();
        keys();
        held(outer);
    }

    /** Values of many classes, each in a field of Kryo's, in one of a POJO, in a list of objects, and alone. */
    private static void held(Outer outer) {
        Map<String, Object> all = new LinkedHashMap<>();
        all.put("as-list", Arrays.asList("a", "b"));
        all.put("as-list-of-numbers", Arrays.asList(1, 2, 3));
        all.put("as-list-empty", Arrays.asList());
        all.put("as-list-nested", Arrays.asList(Arrays.asList("a"), Arrays.asList("b", "c")));
        all.put("array-list", list(List.of("a", "b")));
        all.put("array-list-of-one", list(List.of("a")));
        all.put("array-list-mixed", list(List.of("a", 1, 2.5)));
        all.put("array-list-nulls", list(Arrays.asList(null, null)));
        all.put("array-list-empty", list(List.of()));
        all.put("array-list-of-doubles", list(List.of(1.5, 2.5)));
        all.put("array-list-of-enums", list(List.of(Size.SMALL, Size.LARGE)));
        all.put("linked-list", new LinkedList<>(List.of("a", "b")));
        all.put("deque", new ArrayDeque<>(List.of("a", "b")));
        all.put("list-of", List.of("a", "b", "c"));
        all.put("list-of-two", List.of("a", "b"));
        all.put("map-of", Map.of("a", 1));
        all.put("set-of", Set.of("a"));
        all.put("hash-map", new HashMap<>(Map.of("a", 1)));
        all.put("hash-map-of-lists", new HashMap<>(Map.of("a", list(List.of(1, 2)))));
        all.put("hash-map-by-number", new HashMap<>(Map.of(1, "a", 2, "b")));
        all.put("tree-map", new TreeMap<>(Map.of("a", 1, "b", 2)));
        all.put("tree-set", new TreeSet<>(List.of("a", "b")));
        all.put("linked-hash-set", new LinkedHashSet<>(List.of(3, 1)));
        all.put("empty-list", Collections.emptyList());
        all.put("singleton-list", Collections.singletonList("a"));
        all.put("optional", Optional.of("a"));
        all.put("uuid", new UUID(1, 2));
        all.put("date", LocalDate.of(2020, 2, 3));
        all.put("instant", Instant.ofEpochSecond(5, 6));
        all.put("decimal", new BigDecimal("1.50"));
        all.put("size", Size.LARGE);
        all.put("double", 2.5);
        all.put("short", (short) 300);
        all.put("long", 1L << 40);
        all.put("ints", new int[] {1, 2});
        all.put("doubles", new double[] {1.5});
        all.put("objects", new Object[] {"a", 1, null});
        all.put("texts", new String[] {"a", "b"});
        all.put("lists", new List<?>[] {list(List.of("a"))});
        all.put("sizes", new Size[] {Size.LARGE, null});
        all.put("square", square("t"));
        all.put("anonymous", outer.nameless(1));
        all.put("anonymous-list", new ArrayList<>(List.of("a")) {});
        all.put("inner", outer.inner(1));
        all.put("page", page(list(List.of("a", "b")), "a"));
        all.put("page-of-pages", page(list(List.of(page(list(List.of(1)), 1))), null));
        all.put("text-page", new TextPage(list(List.of("a", "b")), "c"));
        all.put("nested", new Nested());
        all.put("local", new Local("a", list(List.of(1))));
        all.put("skip-list", new ConcurrentSkipListMap<>(Map.of(1, "a")));
        all.put("concurrent-map", new ConcurrentHashMap<>(Map.of("a", list(List.of("b")))));
        all.put("tuple", Tuple2.of("a", list(List.of("b", "c"))));
        all.put("code", new Code("a", 1.5));
        all.forEach((name, value) -> {
            kryo("held-" + name, Held.class, new Held(value, 7));
            Holder holder = new Holder();
            holder.any = value;
            holder.after = 7;
            value("pojo-" + name, TypeInformation.of(Holder.class), holder);
            kryo("list-" + name, ArrayList.class, list(List.of(value, "z")));
            kryo("alone-" + name, Object.class, value);
        });
    }

    private static Square square(String tag) {
        Square square = new Square();
        square.area = 1.5;
        square.side = 3;
        square.tags.add(tag);
        return square;
    }

    private static void keys() {
        TypeInformation<Id> id = TypeInformation.of(Id.class);
        Id plain = new Id();
        plain.id = 1;
        TaggedId tagged = new TaggedId();
        tagged.id = 2;
        tagged.tags = list(List.of("a", "b"));
        LongId longer = new LongId();
        longer.id = 3;
        longer.more = 1L << 40;
        for (String kind : List.of("key", "timer", "map key")) {
            String name = kind.replace(' ', '-');
            add(name + "-subclass-with-list", kind, id, plain, tagged);
            add(name + "-subclass-plain", kind, id, plain, longer);
            add(name + "-compound", kind, TypeInformation.of(Compound.class), compound(tagged, "x"));
            add(name + "-of-kryo", kind, Types.GENERIC(Code.class), new Code("a", 1.5), new Code("b", -2.0));
            add(name + "-of-uuid", kind, Types.GENERIC(UUID.class), new UUID(1, 2), new UUID(-3, 4));
        }
    }

    private static Compound compound(Id part, Object any) {
        Compound compound = new Compound();
        compound.part = part;
        compound.any = any;
        return compound;
    }

    private static void losses(Outer outer) {
        TypeInformation<Line> line = TypeInformation.of(Line.class);
        TypeInformation<Order> order = TypeInformation.of(Order.class);
        value("lost-field", line, line(1));
        value("lost-none", order, order(list(List.of(plain(1))), new HashMap<>(Map.of(1, plain(2)))));
        value("lost-in-list", order, order(list(List.of(line(1))), new HashMap<>()));
        value("lost-in-map", order, order(list(List.of()), new HashMap<>(Map.of(1, line(1)))));
        value("lost-set-in-collection", line, Line.of(1, null, null, new HashSet<>(Set.of("m"))));
        Parcel parcel = new Parcel();
        parcel.line = line(1);
        parcel.others = new Line[] {plain(1)};
        Parcel other = new Parcel();
        other.line = plain(1);
        other.others = new Line[] {plain(1), line(2)};
        value("lost-in-pojo", TypeInformation.of(Parcel.class), parcel);
        value("lost-in-array", TypeInformation.of(Parcel.class), other);
        SpecialLine special = new SpecialLine();
        special.more = ordered();
        value("lost-in-subclass", line, plain(1), special);
        value("lost-in-list-of-subclass", order, order(list(List.of(plain(1), special)), null));
        value("lost-in-tuple", Types.TUPLE(Types.INT, line), Tuple2.of(1, line(1)));
        value("lost-in-either", Types.EITHER(line, Types.INT), Either.Left(line(1)), Either.Right(1));
        value("lost-in-either-plain", Types.EITHER(Types.INT, Types.LIST(line)), Either.Right(list(List.of(line(1)))));
        add("lost-in-list-state", "list", line, plain(1), line(2));
        add("lost-in-map-state", "map", line, plain(1), line(2));
        add("lost-in-operator-list", "operator list", order, order(list(List.of(line(1))), null));
        add("lost-in-broadcast", "broadcast", order, order(list(List.of(line(1))), null));
        Things things = new Things();
        LocalDateTime twice = LocalDateTime.of(2023, 10, 29, 2, 30);
        things.times = list(List.of(ZonedDateTime.ofLocal(twice, ZoneId.of("Europe/Berlin"), ZoneOffset.ofHours(1))));
        value("lost-offset-in-list", TypeInformation.of(Things.class), things);
        things = new Things();
        things.inner = list(List.of(outer.inner(1)));
        value("lost-outer-in-list", TypeInformation.of(Things.class), things);
        things = new Things();
        things.locales = list(List.of(Locale.forLanguageTag("zh-Hans-CN")));
        value("lost-script-in-list", TypeInformation.of(Things.class), things);
        kryo("lost-script", Locale.class, Locale.forLanguageTag("zh-Hans-CN"), Locale.GERMANY);
        things = new Things();
        things.named = new HashMap<>(Map.of("m", new EnumMap<>(Map.of(Size.LARGE, "l"))));
        value("unreadable-enum-map-in-map", TypeInformation.of(Things.class), things);
        things = new Things();
        things.all = list(List.of(Collections.unmodifiableList(list(List.of("a")))));
        value("unreadable-list-in-list", TypeInformation.of(Things.class), things);
    }

    private static void subclasses() {
        kryo("subclass-tree-map", Index.class, priced(new Index()));
        kryo("subclass-tree-map-ordered", OrderedIndex.class, priced(new OrderedIndex(Comparator.reverseOrder())));
        kryo("subclass-tree-set", Names.class, filled(new Names(), List.of("b", "a")));
        kryo("subclass-queue", Heap.class, filled(new Heap(), List.of(3, 1, 2)));
        kryo("subclass-list", Words.class, filled(new Words(), List.of("b", "a")));
        kryo("subclass-map", Sized.class, new Sized("k"));
        Counts counts = new Counts();
        counts.putAll(Map.of("a", 1, "b", 2));
        kryo("subclass-map-without-arguments", Counts.class, counts);
        Holding holding = new Holding();
        holding.index = priced(new Index());
        holding.id = 7;
        value("subclass-in-pojo", TypeInformation.of(Holding.class), holding);
        kryo("subclass-in-list", ArrayList.class, list(List.of(priced(new Index()))));
    }

    private static void forecasts(Outer outer) {
        Square square = new Square();
        square.area = 2.5;
        square.name = "s";
        square.side = 2;
        square.tags.add("t");
        Square untagged = new Square();
        untagged.area = 1;
        untagged.side = 1;
        kryo("abstract", Shape.class, square);
        kryo("abstract-empty", Shape.class, untagged);
        kryo("as-list-in-list", ArrayList.class, list(List.of(Arrays.asList("a", "b"), 1)));
        kryo("as-list-alone-in-list", ArrayList.class, list(List.of(Arrays.asList("a", "b"))));
        Things things = new Things();
        things.all = list(List.of(Arrays.asList("a", "b"), "c"));
        value("as-list-in-pojo", TypeInformation.of(Things.class), things);
        kryo("inner", Outer.Inner.class, outer.inner(1), outer.inner(200));
        kryo("anonymous", Object.class, outer.nameless(1), outer.nameless(300));
        Raw raw = new Raw();
        raw.id = 1;
        raw.all = list(Arrays.asList("a", 1, null));
        raw.named = new HashMap<>(Map.of("k", 2L));
        value("raw", TypeInformation.of(Raw.class), raw);
        Raw texts = new Raw();
        texts.all = list(List.of("a", "b", "c"));
        value("raw-texts", TypeInformation.of(Raw.class), texts);
        Raw empty = new Raw();
        empty.all = list(List.of());
        empty.named = new HashMap<>();
        value("raw-empty", TypeInformation.of(Raw.class), empty);
        Pages pages = new Pages();
        pages.texts = page(list(List.of("a", "b")), "a");
        pages.numbers = page(list(List.of(1, 2)), 1);
        value("pages", TypeInformation.of(Pages.class), pages);
        value("page-hint", TypeInformation.of(new TypeHint<Page<String>>() {}), page(list(List.of("a", "b")), "a"));
        kryo("page", Page.class, page(list(List.of("a", "b")), "a"), page(list(List.of()), "b"));
        kryo("page-of-numbers", Page.class, page(list(List.of(1L, 2L)), 1L));
        kryo("page-in-class", Book.class, new Book(page(list(List.of("a", "b")), "a"), 1.5));
        kryo("page-in-class-empty", Book.class, new Book(page(list(List.of()), null), 1.5));
        kryo("skip-list", ConcurrentSkipListMap.class, new ConcurrentSkipListMap<>(Map.of(1, "a", 2, "b")));
        kryo("skip-list-texts", ConcurrentSkipListMap.class, new ConcurrentSkipListMap<>(Map.of("a", 1)));
        kryo("skip-list-empty", ConcurrentSkipListMap.class, new ConcurrentSkipListMap<>());
        Skipping skipping = new Skipping();
        skipping.byId = new ConcurrentSkipListMap<>(Map.of(1, "a", 2, "b"));
        value("skip-list-in-pojo", TypeInformation.of(Skipping.class), skipping);
    }

    private static void inner(Outer outer) {
        TypeInformation<Outer.Around> around = TypeInformation.of(Outer.Around.class);
        value("inner-in-pojo", around, outer.around("", Size.SMALL), outer.around("abc", Size.LARGE));
        value("inner-in-pojo-empty", around, outer.around("", null));
        kryo("inner-in-list", ArrayList.class, list(Arrays.asList(outer.inner(1), outer.inner(2), null)));
        add("inner-in-list-state", "list", Types.GENERIC(Outer.Inner.class), outer.inner(1), outer.inner(300));
        add("inner-in-map-state", "map", Types.GENERIC(Outer.Inner.class), outer.inner(1), outer.inner(300));
        add("inner-in-operator-list", "operator list", Types.GENERIC(Outer.Inner.class), outer.inner(1), outer.inner(300));
    }

    /** Classes of Java whose state is in fields that are transient, or in those of classes that are not public. */
    private static void hidden() {
        DoubleAdder adder = new DoubleAdder();
        adder.add(2.5);
        kryo("double-adder", DoubleAdder.class, adder);
        LongAccumulator longs = new LongAccumulator(Math::max, 0);
        longs.accumulate(7);
        kryo("long-accumulator", LongAccumulator.class, longs);
        Holding holding = new Holding();
        LongAdder one = new LongAdder();
        one.add(5);
        kryo("long-adder-in-list", ArrayList.class, list(List.of(one)));
        kryo("atomic-integer-array", AtomicIntegerArray.class, new AtomicIntegerArray(new int[] {1, 2}));
        kryo("atomic-reference-array", AtomicReferenceArray.class, new AtomicReferenceArray<>(new String[] {"a"}));
        kryo("atomic-long", AtomicLong.class, new AtomicLong(5));
        kryo("atomic-integer", AtomicInteger.class, new AtomicInteger(5));
        kryo("atomic-boolean", AtomicBoolean.class, new AtomicBoolean(true));
        kryo("atomic-reference", AtomicReference.class, new AtomicReference<>("a"));
        kryo("random", Random.class, new Random(5));
        kryo("optional", Optional.class, Optional.of("a"));
        kryo("optional-int", OptionalInt.class, OptionalInt.of(3));
        kryo("bit-set", BitSet.class, BitSet.valueOf(new long[] {5}));
        kryo("string-joiner", StringJoiner.class, new StringJoiner(",").add("a").add("b"));
        kryo("simple-entry", AbstractMap.SimpleEntry.class, new AbstractMap.SimpleEntry<>("a", 1));
        kryo("map-entry", Object.class, Map.entry("a", 1));
        kryo("identity-map", IdentityHashMap.class, new IdentityHashMap<>(Map.of("a", 1)));
        kryo("weak-map", WeakHashMap.class, new WeakHashMap<>(Map.of("a", 1)));
        kryo("enum-set", Object.class, EnumSet.of(Size.LARGE));
        kryo("statistics", LongSummaryStatistics.class, new LongSummaryStatistics(2, 1, 5, 6));
        kryo("decimal-format", DecimalFormat.class, new DecimalFormat("0.00"));
        kryo("date-format", SimpleDateFormat.class, new SimpleDateFormat("yyyy", Locale.ROOT));
        kryo("calendar", GregorianCalendar.class, new GregorianCalendar(2020, 1, 2));
        kryo("currency", Currency.class, Currency.getInstance("EUR"));
        kryo("uri", URI.class, URI.create("http://a/b"));
        kryo("socket-address", InetSocketAddress.class, InetSocketAddress.createUnresolved("a", 1));
        kryo("string-builder", StringBuilder.class, new StringBuilder("abc"));
        kryo("crc", CRC32.class, new CRC32());
        kryo("lock", ReentrantLock.class, new ReentrantLock());
        kryo("key-set", Object.class, new HashMap<>(Map.of("a", 1)).keySet());
        kryo("concurrent-key-set", Object.class, filled(ConcurrentHashMap.newKeySet(), List.of("a")));
        kryo("copy-on-write-set", CopyOnWriteArraySet.class, new CopyOnWriteArraySet<>(List.of("a")));
        kryo("array-blocking-queue", ArrayBlockingQueue.class, filled(new ArrayBlockingQueue<>(3), List.of("a")));
        kryo("linked-blocking-queue", LinkedBlockingQueue.class, new LinkedBlockingQueue<>(List.of("a")));
        kryo("priority-queue", PriorityQueue.class, new PriorityQueue<>(List.of(3, 1)));
        kryo("priority-queue-in-list", ArrayList.class, list(List.of(new PriorityQueue<>(List.of(3, 1)))));
        kryo("priority-blocking", PriorityBlockingQueue.class, new PriorityBlockingQueue<>(List.of(3, 1)));
        kryo("sub-list", Object.class, list(List.of(1, 2, 3)).subList(0, 2));
        kryo("n-copies", Object.class, Collections.nCopies(2, "a"));
        kryo("descending", Object.class, new TreeMap<>(Map.of(1, "a", 2, "b")).descendingMap());
        kryo("head-map", Object.class, new TreeMap<>(Map.of(1, "a", 2, "b")).headMap(2));
        kryo("tree-map-ordered", TreeMap.class, ordered());
        kryo("zone-id", Object.class, ZoneId.of("Europe/Berlin"));
        kryo("zone-offset", ZoneOffset.class, ZoneOffset.ofHours(2));
        kryo("exception", RuntimeException.class, new RuntimeException("a"));
        kryo("class-object", Class.class, String.class);
        kryo("byte-buffer", Object.class, ByteBuffer.wrap(new byte[] {1, 2}));
        holding.index = null;
        value("subclass-in-pojo-null", TypeInformation.of(Holding.class), holding);
        Filed filed = new Filed();
        filed.file = new File("a", "b");
        filed.number = 3;
        value("file-in-pojo", TypeInformation.of(Filed.class), filed);
        kryo("file-in-list", ArrayList.class, list(List.of(new File("a"), "x")));
        kryo("math-context-in-list", ArrayList.class, list(List.of(MathContext.DECIMAL32, 1)));
    }

    private static void others() {
        Zoned zoned = new Zoned();
        zoned.name = "n";
        zoned.zone = TimeZone.getTimeZone("Europe/Berlin");
        value("time-zone-in-pojo", TypeInformation.of(Zoned.class), zoned);
        kryo("time-zone", TimeZone.class, TimeZone.getTimeZone("UTC"));
        kryo("file", File.class, new File("a", "b"));
        kryo("math-context", MathContext.class, MathContext.DECIMAL64);
        LongAdder adder = new LongAdder();
        adder.add(5);
        kryo("long-adder", LongAdder.class, adder);
        kryo("atomic-long-array", AtomicLongArray.class, new AtomicLongArray(new long[] {1, 2}));
    }
}
