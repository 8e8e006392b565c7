package miglab;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.time.*;
import java.util.*;
import java.util.concurrent.*;
import java.util.concurrent.atomic.*;
import java.util.function.Supplier;
import java.util.regex.Pattern;
import miglab.Model.*;
import org.apache.flink.api.common.typeinfo.*;
import org.apache.flink.api.java.tuple.*;
import org.apache.flink.types.Either;

/** One case: a type and values; every case is a job of its own, so that a failure says which. */
@SuppressWarnings({"unchecked", "rawtypes"})
public final class Cases {
    public static final Map<String, Cases> ALL = new LinkedHashMap<>();
    public String name, kind = "value";
    public Supplier<TypeInformation<?>> type, keyType;
    public List<Object> values = new ArrayList<>();
    public boolean ttl;
    /** Settings of the job: for 1.x and for 2.x. */
    public Map<String, String> conf1 = new LinkedHashMap<>(), conf2 = new LinkedHashMap<>();

    static Cases add(String name, Supplier<TypeInformation<?>> t, Object... vs) {
        Cases c = new Cases();
        c.name = name;
        c.type = t;
        c.values.addAll(Arrays.asList(vs));
        if (ALL.put(name, c) != null)
            throw new IllegalStateException(name);
        return c;
    }

    Cases kind(String k) {
        kind = k;
        return this;
    }

    Cases key(Supplier<TypeInformation<?>> k) {
        keyType = k;
        return this;
    }

    Cases ttl() {
        ttl = true;
        return this;
    }

    Cases conf(String k1, String v1, String v2) {
        if (v1 != null)
            conf1.put(k1, v1);
        if (v2 != null)
            conf2.put("pipeline.serialization-config", v2);
        return this;
    }

    static <T> T with(Class<T> c, int id, Object v) {
        try {
            T t = c.getConstructor().newInstance();
            Model.Base.class.getField("id").setInt(t, id);
            Model.Base.class.getField("name").set(t, id % 4 == 3 ? null : "name" + id);
            c.getField("v").set(t, v);
            return t;
        } catch (ReflectiveOperationException e) {
            throw new IllegalStateException(e);
        }
    }

    static Cases pojo(String name, Class<?> c, Object... vs) {
        Object[] o = new Object[vs.length];
        for (int i = 0; i < vs.length; i++)
            o[i] = with(c, i, vs[i]);
        return add("pojo-" + name, () -> TypeInformation.of(c), o);
    }

    static Cases kryo(String name, Class c, Object... vs) {
        return add("kryo-" + name, () -> Types.GENERIC(c), vs);
    }

    static <T> ArrayList<T> list(T... v) {
        return new ArrayList<>(Arrays.asList(v));
    }

    static <T> LinkedHashSet<T> lset(T... v) {
        return new LinkedHashSet<>(Arrays.asList(v));
    }

    static <T> HashSet<T> set(T... v) {
        return new HashSet<>(Arrays.asList(v));
    }

    static <M extends Map> M map(M m, Object... kv) {
        for (int i = 0; i < kv.length; i += 2)
            m.put(kv[i], kv[i + 1]);
        return m;
    }

    static HashMap hmap(Object... kv) {
        return map(new HashMap(), kv);
    }

    static Addr addr(String s, Integer z) {
        return new Addr(s, z);
    }

    static final String M = "miglab.Model$";

    static {
        // ---- 1. POJO fields
        ArrayList<String> shared = list("s1", "s2");
        pojo("list-string", PListString.class, list("a", "b"), list(), null, list("x", null, "é漢"),
                Arrays.asList("as", "list"), new LinkedList<>(shared), Collections.unmodifiableList(shared),
                Collections.emptyList(), Collections.singletonList("one"), new CopyOnWriteArrayList<>(shared));
        pojo("list-long", PListLong.class, list(1L, -1L, Long.MAX_VALUE), list(), null, list(7L, null));
        pojo("list-pojo", PListPojo.class, list(addr("a", 1), addr(null, null)), list(), null,
                list(addr("x", 5), null, new SubAddr("s", 2, "e")));
        pojo("list-list", PListList.class, list(list("a"), list(), list("b", null)), list(), null,
                list(shared, shared));
        pojo("list-enum", PListEnum.class, list(Color.RED, Color.BLUE), list(), null);
        pojo("list-uuid", PListUuid.class, list(new UUID(1, 2), new UUID(-3, 4)), list(), null);
        pojo("list-array", PListArray.class, list(new String[] {"a", null}, new String[0]), list(), null);
        pojo("list-bytes", PListBytes.class, list(new byte[] {1, 2}, new byte[0]), list(), null);
        pojo("list-object", PListObject.class, list("a", 1, 2L, null), list(), null);
        pojo("list-raw", PListRaw.class, list("a", 1), list(), null);
        pojo("list-wild", PListWild.class, list(1, 2L), list(), null);
        pojo("list-wild-any", PListWildAny.class, list("a", 2L), list(), null);
        pojo("list-local-date", PListLocalDate.class, list(LocalDate.of(2024, 2, 29), LocalDate.of(1, 1, 1)), list(),
                null);
        pojo("list-kryo-class", PListNoDefault.class, list(new KSimple(1, "a"), new KSimple(2, null)), list(), null);
        pojo("map-string-long", PMapStringLong.class, hmap("a", 1L, "b", -2L), new HashMap<>(), null, hmap("n", null),
                new TreeMap<>(hmap("z", 1L, "y", 2L)), map(new LinkedHashMap(), "q", 1L, "p", 2L),
                Collections.unmodifiableMap(hmap("u", 1L)), Collections.singletonMap("k", 1L), Collections.emptyMap(),
                new ConcurrentHashMap<>(hmap("c", 3L)));
        pojo("map-null-key", PMapStringLong.class, hmap(null, 1L, "b", 2L));
        pojo("map-string-pojo", PMapStringPojo.class, hmap("a", addr("x", 1), "b", null), new HashMap<>(), null);
        pojo("map-string-list", PMapStringList.class, hmap("a", list(1L, 2L), "b", list()), new HashMap<>(), null);
        pojo("map-string-map", PMapStringMap.class, hmap("a", hmap("x", 1L)), new HashMap<>(), null);
        pojo("map-enum-long", PMapEnumLong.class, map(new EnumMap(Color.class), Color.RED, 1L), hmap(Color.BLUE, 5L),
                null);
        pojo("map-int-object", PMapIntObject.class, hmap(1, "a", 2, 3L), null);
        pojo("set-string", PSetString.class, set("a", "b"), set(), null, lset("l2", "l1", null), new TreeSet<>(shared));
        pojo("set-long", PSetLong.class, set(1L, 2L), set(), null);
        pojo("set-pojo", PSetPojo.class, lset(addr("a", 1), addr("b", null)), null);
        pojo("collection", PCollection.class, list("a", "b"), set("c"), null, new ArrayDeque<>(shared));
        pojo("iterable", PIterable.class, list("a", "b"), null);
        pojo("queue", PQueue.class, new LinkedList<>(shared), null);
        pojo("array-list", PArrayList.class, list("a", null), list(), null);
        pojo("linked-list", PLinkedList.class, new LinkedList<>(shared), null);
        pojo("hash-map", PHashMap.class, hmap("a", 1L), new HashMap<>(), null);
        pojo("tree-map", PTreeMap.class, new TreeMap<>(hmap("a", 1L, "b", 2L)), null);
        pojo("sorted-map", PSortedMap.class, new TreeMap<>(hmap("a", 1L, "b", 2L)), null);
        pojo("hash-set", PHashSet.class, set("a", "b"), null);
        pojo("sorted-set", PSortedSet.class, new TreeSet<>(shared), null);
        pojo("uuid", PUuid.class, new UUID(1, 2), null, new UUID(-5, 77));
        pojo("optional", POptional.class, Optional.of("x"), Optional.empty(), null);
        pojo("local-date", PLocalDate.class, LocalDate.of(2024, 2, 29), null, LocalDate.of(-5, 12, 1));
        pojo("local-date-time", PLocalDateTime.class, LocalDateTime.of(2024, 2, 29, 1, 2, 3, 4), null);
        pojo("instant", PInstant.class, Instant.ofEpochSecond(1_700_000_000L, 123_456_789), null);
        pojo("duration", PDuration.class, Duration.ofSeconds(5, 6), null);
        pojo("object", PObject.class, "text", 5L, list("a", 1), null);
        pojo("number", PNumber.class, 5, 6L, 1.5, new BigDecimal("1.25"), null);
        pojo("addr", PAddr.class, addr("a", 1), new SubAddr("s", 2, "e"), null);
        pojo("big-dec", PBigDec.class, new BigDecimal("12.30"), null);
        pojo("string-array", PStringArray.class, new String[] {"a", null}, null);
        pojo("addr-array", PAddrArray.class, new Addr[] {addr("a", 1), null}, null);
        PGenericString gs = with(PGenericString.class, 1, "t");
        gs.w = list("w", "w2");
        add("pojo-generic-string", () -> TypeInformation.of(PGenericString.class), gs);
        add("pojo-generic-hint", () -> TypeInformation.of(new TypeHint<PGeneric<String>>() {}), gen("t", list("w")));
        pojo("self-list", PSelfList.class, list(with(PSelfList.class, 5, null)), null);
        PAll all = new PAll();
        all.id = 1;
        all.name = "all";
        all.tags = list("a", "b");
        all.counts = hmap("x", 1L);
        all.seen = lset("q");
        all.addrs = list(addr("s", 1));
        all.uuid = new UUID(1, 2);
        all.day = LocalDate.of(2024, 1, 2);
        all.byCity = hmap("c", list(addr("d", 2)));
        all.at = Instant.ofEpochSecond(5, 6);
        all.color = Color.GREEN;
        all.n = 77;
        add("pojo-all", () -> TypeInformation.of(PAll.class), all, new PAll());
        add("record-list",
                ()
                        -> TypeInformation.of(RList.class),
                new RList("a", 1, list("x"), hmap("k", 1L)), new RList(null, 2, null, null));
        add("record-plain", () -> TypeInformation.of(RPlain.class), new RPlain("a", 1, 2L), new RPlain(null, 2, null));

        // ---- type hints and explicit types
        add("hint-list-string",
                () -> TypeInformation.of(new TypeHint<List<String>>() {}), list("a", "b"), list(), list("x", null));
        add("hint-list-pojo", () -> TypeInformation.of(new TypeHint<List<Addr>>() {}), list(addr("a", 1)), list());
        add("hint-map-string-long",
                () -> TypeInformation.of(new TypeHint<Map<String, Long>>() {}), hmap("a", 1L), hmap(), hmap("n", null));
        add("hint-set-string", () -> TypeInformation.of(new TypeHint<Set<String>>() {}), set("a", "b"), set());
        add("hint-collection", () -> TypeInformation.of(new TypeHint<Collection<String>>() {}), list("a"), set("b"));
        add("hint-array-list", () -> TypeInformation.of(new TypeHint<ArrayList<String>>() {}), list("a", null), list());
        add("hint-hash-map", () -> TypeInformation.of(new TypeHint<HashMap<String, Long>>() {}), hmap("a", 1L));
        add("hint-tuple-list",
                () -> TypeInformation.of(new TypeHint<Tuple2<String, List<Long>>>() {}), Tuple2.of("k", list(1L, 2L)));
        add("hint-tuple-map-of-list",
                ()
                        -> TypeInformation.of(new TypeHint<Tuple2<Long, Map<String, List<Long>>>>() {}),
                Tuple2.of(5L, hmap("a", list(1L))));
        add("hint-array-of-list",
                ()
                        -> TypeInformation.of(new TypeHint<List<String>[]>() {}),
                (Object) new List[] {list("a"), list("b")});
        add("class-list", () -> TypeInformation.of(List.class), list("a", "b"), list());
        add("class-map", () -> TypeInformation.of(Map.class), hmap("a", 1L));
        add("types-list", () -> Types.LIST(Types.STRING), list("a", "b"), list());
        add("types-map", () -> Types.MAP(Types.STRING, Types.LONG), hmap("a", 1L));
        add("generic-list", () -> Types.GENERIC(List.class), list("a", "b"), list());
        add("either-list",
                ()
                        -> TypeInformation.of(new TypeHint<Either<String, List<Long>>>() {}),
                Either.Left("l"), Either.Right(list(1L)));
        // the same types in other kinds of state
        add("liststate-hint-list", () -> TypeInformation.of(new TypeHint<List<String>>() {}), list("a", "b"), list("c"))
                .kind("list");
        add("liststate-pojo-list",
                ()
                        -> TypeInformation.of(PListString.class),
                with(PListString.class, 1, list("a")), with(PListString.class, 2, null))
                .kind("list");
        add("liststate-uuid", () -> TypeInformation.of(UUID.class), new UUID(1, 2), new UUID(3, 4)).kind("list");
        add("mapstate-hint-list", () -> TypeInformation.of(new TypeHint<List<String>>() {}), list("a", "b"), list("c"))
                .kind("map");
        add("mapstate-uuid-key", () -> Types.LONG, 1L, 2L).kind("map").key(() -> TypeInformation.of(UUID.class));
        add("mapstate-list-key", () -> Types.LONG, 1L, 2L)
                .kind("map")
                .key(() -> TypeInformation.of(new TypeHint<List<String>>() {}));
        add("ttl-hint-list", () -> TypeInformation.of(new TypeHint<List<String>>() {}), list("a", "b"), list("c"))
                .ttl();
        add("ttl-pojo-list",
                ()
                        -> TypeInformation.of(PListString.class),
                with(PListString.class, 1, list("a")), with(PListString.class, 2, null))
                .ttl();
        add("oplist-pojo-list",
                ()
                        -> TypeInformation.of(PListString.class),
                with(PListString.class, 1, list("a")), with(PListString.class, 2, null))
                .kind("oplist");
        add("oplist-hint-list", () -> TypeInformation.of(new TypeHint<List<String>>() {}), list("a", "b"), list("c"))
                .kind("oplist");
        add("union-uuid", () -> TypeInformation.of(UUID.class), new UUID(1, 2), new UUID(3, 4)).kind("union");
        add("broadcast-hint-list", () -> TypeInformation.of(new TypeHint<List<String>>() {}), list("a", "b"), list("c"))
                .kind("broadcast");
        add("key-kryo-uuid", () -> Types.LONG, 1L, 2L, 3L).kind("key").key(() -> TypeInformation.of(UUID.class));
        add("key-pojo-list", () -> Types.LONG, 1L, 2L).kind("key").key(() -> TypeInformation.of(PListString.class));
        add("key-kryo-class", () -> Types.LONG, 1L, 2L).kind("key").key(() -> TypeInformation.of(KSimple.class));

        // ---- 2. JDK classes left to Kryo
        kryo("uuid", UUID.class, new UUID(1, 2), new UUID(-5, Long.MAX_VALUE));
        kryo("optional", Optional.class, Optional.of("x"), Optional.empty(), Optional.of(list("a")));
        kryo("optional-int", OptionalInt.class, OptionalInt.of(5), OptionalInt.empty(), OptionalInt.of(-1));
        kryo("optional-long", OptionalLong.class, OptionalLong.of(5), OptionalLong.empty());
        kryo("optional-double", OptionalDouble.class, OptionalDouble.of(1.5), OptionalDouble.empty());
        kryo("local-date", LocalDate.class, LocalDate.of(2024, 2, 29), LocalDate.of(-5, 1, 1));
        kryo("local-time", LocalTime.class, LocalTime.of(1, 2, 3, 4), LocalTime.of(5, 0), LocalTime.MIDNIGHT,
                LocalTime.of(1, 2, 3), LocalTime.of(7, 8), LocalTime.of(0, 0, 0, 9));
        kryo("local-date-time", LocalDateTime.class, LocalDateTime.of(2024, 2, 29, 1, 2, 3, 4),
                LocalDateTime.of(1999, 1, 1, 0, 0));
        kryo("instant", Instant.class, Instant.ofEpochSecond(1_700_000_000L, 123_456_789), Instant.EPOCH,
                Instant.ofEpochSecond(-1, 5));
        kryo("duration", Duration.class, Duration.ofSeconds(5, 6), Duration.ofMillis(-1500));
        kryo("period", Period.class, Period.of(1, 2, -3));
        kryo("zoned-date-time", ZonedDateTime.class,
                ZonedDateTime.of(2024, 2, 29, 1, 2, 3, 4, ZoneId.of("Europe/Berlin")),
                ZonedDateTime.of(2024, 2, 29, 1, 2, 3, 4, ZoneOffset.UTC));
        kryo("zoned-overlap", ZonedDateTime.class,
                ZonedDateTime.ofLocal(
                        LocalDateTime.of(2024, 10, 27, 2, 30), ZoneId.of("Europe/Berlin"), ZoneOffset.ofHours(1)));
        kryo("offset-date-time", OffsetDateTime.class,
                OffsetDateTime.of(2024, 2, 29, 1, 2, 3, 4, ZoneOffset.ofHours(2)),
                OffsetDateTime.of(2024, 2, 29, 1, 2, 0, 0, ZoneOffset.ofTotalSeconds(3601)));
        kryo("offset-time", OffsetTime.class, OffsetTime.of(1, 2, 3, 0, ZoneOffset.ofHours(-5)));
        kryo("zone-id", ZoneId.class, ZoneId.of("Europe/Berlin"), ZoneOffset.UTC, ZoneOffset.ofHours(2));
        kryo("zone-offset", ZoneOffset.class, ZoneOffset.ofHours(2), ZoneOffset.UTC);
        kryo("year", Year.class, Year.of(2024));
        kryo("year-month", YearMonth.class, YearMonth.of(2024, 2));
        kryo("month-day", MonthDay.class, MonthDay.of(2, 29));
        kryo("day-of-week", DayOfWeek.class, DayOfWeek.FRIDAY);
        kryo("month", Month.class, Month.MARCH);
        kryo("big-decimal", BigDecimal.class, new BigDecimal("12.30"), BigDecimal.ZERO, new BigDecimal("-5E+3"),
                new BigDecimal(BigInteger.TEN, -2), BigDecimal.ONE);
        kryo("big-integer", BigInteger.class, BigInteger.ZERO, BigInteger.TEN,
                new BigInteger("-123456789012345678901234567890"));
        kryo("date", Date.class, new Date(1_700_000_000_123L), new Date(-1),
                new java.sql.Timestamp(1_700_000_000_123L));
        kryo("sql-date", java.sql.Date.class, new java.sql.Date(1_700_000_000_000L));
        kryo("sql-time", java.sql.Time.class, new java.sql.Time(3_600_000L));
        java.sql.Timestamp ts = new java.sql.Timestamp(1_700_000_000_123L);
        ts.setNanos(123_456_789);
        kryo("sql-timestamp", java.sql.Timestamp.class, ts);
        kryo("bit-set", BitSet.class, BitSet.valueOf(new long[] {5, 1}), new BitSet());
        kryo("enum-set", EnumSet.class, EnumSet.of(Color.RED, Color.BLUE), EnumSet.noneOf(Color.class));
        kryo("enum-map", EnumMap.class, map(new EnumMap(Color.class), Color.RED, 1L, Color.BLUE, "x"),
                new EnumMap(Color.class));
        kryo("enum", Enum.class, Color.BLUE, Shape.SQUARE, TimeUnit.SECONDS);
        kryo("arrays-as-list", List.class, Arrays.asList("a", "b"), Arrays.asList("a", 1, null), Arrays.asList(),
                Arrays.asList(new Integer[] {1, 2}));
        kryo("array-list", ArrayList.class, list("a", "b"), list("a", 1, 2L, null), list(), list(null, null),
                list("a", null), list(1L, 2L), list(list("n"), list()), list(shared, shared),
                list(addr("a", 1), addr("b", null)), list(Color.RED, Color.RED));
        kryo("linked-list", LinkedList.class, new LinkedList<>(shared), new LinkedList<>());
        kryo("vector", Vector.class, new Vector<>(shared));
        kryo("array-deque", ArrayDeque.class, new ArrayDeque<>(shared), new ArrayDeque<>());
        kryo("hash-set", HashSet.class, set("a", "b"), set(), set((Object) null));
        kryo("linked-hash-set", LinkedHashSet.class, lset("b", "a"));
        kryo("tree-set", TreeSet.class, new TreeSet<>(shared), new TreeSet<>(Comparator.reverseOrder()),
                new TreeSet<>());
        kryo("priority-queue", PriorityQueue.class, new PriorityQueue<>(shared),
                new PriorityQueue<>(Collections.reverseOrder()));
        kryo("hash-map", HashMap.class, hmap("a", 1L, "b", "x"), hmap(), hmap(null, null), hmap("l", list("a")));
        kryo("linked-hash-map", LinkedHashMap.class, map(new LinkedHashMap(), "b", 1, "a", 2));
        kryo("tree-map", TreeMap.class, new TreeMap(hmap("a", 1L, "b", 2L)),
                map(new TreeMap(Comparator.reverseOrder()), "a", 1, "b", 2), new TreeMap());
        kryo("skip-list-map", ConcurrentSkipListMap.class, new ConcurrentSkipListMap(hmap("a", 1L)));
        kryo("concurrent-hash-map", ConcurrentHashMap.class, new ConcurrentHashMap<>(hmap("a", 1L)));
        kryo("unmodifiable-list", List.class, Collections.unmodifiableList(list("a", "b")));
        kryo("unmodifiable-map", Map.class, Collections.unmodifiableMap(hmap("a", 1L)));
        kryo("synchronized-list", List.class, Collections.synchronizedList(list("a", "b")));
        kryo("singleton-list", List.class, Collections.singletonList("a"));
        kryo("singleton-set", Set.class, Collections.singleton("a"));
        kryo("singleton-map", Map.class, Collections.singletonMap("a", 1L));
        kryo("empty-list", List.class, Collections.emptyList());
        kryo("empty-map", Map.class, Collections.emptyMap());
        kryo("empty-set", Set.class, Collections.emptySet());
        kryo("list-of", List.class, List.of("a", "b"), List.of("a", "b", "c"), List.of());
        kryo("set-of", Set.class, Set.of("a"), Set.of("a", "b", "c"));
        kryo("map-of", Map.class, Map.of("a", 1L), Map.of("a", 1L, "b", 2L));
        kryo("int-array", int[].class, new int[] {1, -1, 300}, new int[0]);
        kryo("long-array", long[].class, new long[] {1, -1, Long.MIN_VALUE});
        kryo("double-array", double[].class, new double[] {1.5});
        kryo("byte-array", byte[].class, new byte[] {1, 2});
        kryo("char-array", char[].class, new char[] {'a', '漢'});
        kryo("boolean-array", boolean[].class, new boolean[] {true, false});
        kryo("string-array", String[].class, new String[] {"a", null, "b"}, new String[0]);
        kryo("object-array", Object[].class, new Object[] {"a", 1, null}, new Object[0]);
        kryo("integer-array", Integer[].class, new Integer[] {1, null});
        kryo("int-array-2", int[][].class, new int[][] {{1}, null, {2, 3}});
        kryo("list-array", List[].class, (Object) new List[] {list("a"), null});
        kryo("locale", Locale.class, Locale.GERMANY, Locale.ENGLISH, new Locale("de", "DE", "POSIX"));
        kryo("uri", URI.class, URI.create("http://example.org/a?b#c"));
        kryo("url", java.net.URL.class, url("http://example.org/a"));
        kryo("currency", Currency.class, Currency.getInstance("EUR"));
        kryo("time-zone", TimeZone.class, TimeZone.getTimeZone("Europe/Berlin"));
        GregorianCalendar cal = new GregorianCalendar(TimeZone.getTimeZone("UTC"), Locale.US);
        cal.setTimeInMillis(1_700_000_000_000L);
        kryo("calendar", Calendar.class, cal);
        kryo("pattern", Pattern.class, Pattern.compile("a+b", Pattern.CASE_INSENSITIVE));
        kryo("charset", java.nio.charset.Charset.class, StandardCharsets.UTF_8);
        kryo("class", Class.class, String.class, int.class);
        kryo("simple-date-format", java.text.SimpleDateFormat.class,
                new java.text.SimpleDateFormat("yyyy-MM-dd", Locale.US));
        kryo("inet-socket-address", java.net.InetSocketAddress.class,
                java.net.InetSocketAddress.createUnresolved("h", 80));
        kryo("string-builder", StringBuilder.class, new StringBuilder("ab"));
        kryo("string-buffer", StringBuffer.class, new StringBuffer("ab"));
        kryo("atomic-long", AtomicLong.class, new AtomicLong(5), new AtomicLong(-7));
        kryo("atomic-integer", AtomicInteger.class, new AtomicInteger(5));
        kryo("atomic-boolean", AtomicBoolean.class, new AtomicBoolean(true));
        kryo("atomic-reference", AtomicReference.class, new AtomicReference<>("x"));
        kryo("byte-buffer", java.nio.ByteBuffer.class, java.nio.ByteBuffer.wrap(new byte[] {1, 2}));
        kryo("simple-entry", Map.Entry.class, new AbstractMap.SimpleEntry<>("a", 1L));
        kryo("object", Object.class, "text", 5, 5L, 1.5, 1.5f, true, 'c', (byte) 1, (short) 2, list("a"),
                new BigDecimal("1.5"));
        kryo("tuple", Tuple2.class, Tuple2.of("a", 1L));
        kryo("exception", RuntimeException.class, new KException("boom", 5));
        kryo("random", Random.class, new Random(5));

        // ---- 3. classes of the user's
        kryo("u-simple", KSimple.class, new KSimple(1, "a"), new KSimple(300, null), new KSimple(-7, "é漢"));
        kryo("u-objects", KObjects.class, new KObjects(1), new KObjects(2));
        kryo("u-collections", KCollections.class, new KCollections(1), new KCollections(2));
        kryo("u-maps", KMaps.class, new KMaps(1), new KMaps(2));
        kryo("u-arrays", KArrays.class, new KArrays(1), new KArrays(2));
        kryo("u-times", KTimes.class, new KTimes(1), new KTimes(2));
        kryo("u-derived", KDerived.class, new KDerived(1));
        kryo("u-generics", KHolder.class, new KHolder(1));
        kryo("u-gen", KGen.class, new KGen<>("a"), new KGen<>(5L), new KGen<>(new KLeaf("l", 1)));
        kryo("u-cycle", KCycle.class, new KCycle(1), new KCycle(2));
        kryo("u-inner", KInner.In.class, new KInner(1).new In(2));
        kryo("u-record", RPlain.class, new RPlain("a", 1, 2L));
        kryo("u-list-subclass", KInterfaceList.class, ilist(5, "a", "b"));
        kryo("u-pojo", PListString.class, with(PListString.class, 1, list("a")));
        kryo("u-list-of-class", ArrayList.class, list(new KLeaf("a", 1), new KLeaf("b", 2)),
                list(new KLeaf("a", 1), new KSubLeaf("b", 2, "z"), null));
        kryo("u-shared", ArrayList.class, sharedLeaf());
        kryo("u-interface", Comparable.class, new KSimple(5, "x"));

        // registrations: in 1.x by the options that registerKryoType & co. set, in 2.x by serialization-config
        String reg = "pipeline.registered-kryo-types", regs = "pipeline.default-kryo-serializers";
        kryo("reg-same", KReg.class, new KReg("a"))
                .conf(reg, M + "KLeaf;" + M + "KReg", "[" + M + "KLeaf: {type: kryo}, " + M + "KReg: {type: kryo}]");
        kryo("reg-swapped", KReg.class, new KReg("a"))
                .conf(reg, M + "KLeaf;" + M + "KReg;" + M + "KFinalLeaf",
                        "[" + M + "KFinalLeaf: {type: kryo}, " + M + "KReg: {type: kryo}, " + M
                                + "KLeaf: {type: kryo}]");
        kryo("reg-dropped", KReg.class, new KReg("a")).conf(reg, M + "KLeaf;" + M + "KReg", null);
        kryo("reg-added", KReg.class, new KReg("a"))
                .conf(reg, null, "[" + M + "KLeaf: {type: kryo}, " + M + "KReg: {type: kryo}]");
        kryo("reg-serialization-config-both", KReg.class, new KReg("a"))
                .conf("pipeline.serialization-config", "[" + M + "KLeaf: {type: kryo}]",
                        "[" + M + "KLeaf: {type: kryo}]");
        kryo("default-serializer", KCustom.class, new KCustom("a", 5), new KCustom("bcd", -1))
                .conf(regs, "class:" + M + "KCustom,serializer:miglab.MyKryo",
                        "[" + M + "KCustom: {type: kryo, kryo-type: default, class: miglab.MyKryo}]");
        kryo("registered-serializer", KCustom.class, new KCustom("a", 5))
                .conf("pipeline.serialization-config",
                        "[" + M + "KCustom: {type: kryo, kryo-type: registered, class: miglab.MyKryo}]",
                        "[" + M + "KCustom: {type: kryo, kryo-type: registered, class: miglab.MyKryo}]");
        kryo("default-serializer-dropped", KCustom.class, new KCustom("a", 5))
                .conf(regs, "class:" + M + "KCustom,serializer:miglab.MyKryo", null);
        kryo("java-serializer", KJava.class, new KJava("a", 5))
                .conf(regs,
                        "class:" + M
                                + "KJava,serializer:org.apache.flink.api.java.typeutils.runtime.kryo.JavaSerializer",
                        "[" + M
                                + ("KJava: {type: kryo, kryo-type: default, class: "
                                   + "org.apache.flink.api.java.typeutils.runtime.kryo.JavaSerializer}]"));
    }

    static PGeneric<String> gen(String t, List<String> w) {
        PGeneric<String> g = new PGeneric<>();
        g.id = 1;
        g.name = "g";
        g.v = t;
        g.w = w;
        return g;
    }

    static KInterfaceList ilist(int e, String... s) {
        KInterfaceList l = new KInterfaceList(e);
        l.addAll(Arrays.asList(s));
        return l;
    }

    static Object sharedLeaf() {
        KLeaf l = new KLeaf("same", 1);
        return list(l, l);
    }

    static java.net.URL url(String s) {
        try {
            return new java.net.URL(s);
        } catch (Exception e) {
            throw new IllegalStateException(e);
        }
    }
}
