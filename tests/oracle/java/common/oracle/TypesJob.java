package oracle;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.sql.Timestamp;
import java.time.Duration;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.UUID;
import java.util.stream.IntStream;
import org.apache.flink.api.common.typeinfo.BasicArrayTypeInfo;
import org.apache.flink.api.common.typeinfo.PrimitiveArrayTypeInfo;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.api.common.typeutils.base.ListSerializer;
import org.apache.flink.api.java.tuple.Tuple;
import org.apache.flink.api.java.tuple.Tuple0;
import org.apache.flink.api.java.tuple.Tuple1;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.api.java.tuple.Tuple25;
import org.apache.flink.api.java.typeutils.runtime.NullableSerializer;
import org.apache.flink.types.Either;
import org.apache.flink.types.Row;
import org.apache.flink.types.RowKind;

/** Every built-in serializer with values at its edges, nested in one another; and namespaces that are no windows. */
final class TypesJob extends TableJob {
    private static final int KEYS = 24;

    @Override
    void define() {
        Compat.registerPojo(config, Model.Cat.class);
        addTimes();
        addNumbers();
        addStrings();
        addArrays();
        addNullables();
        addRows();
        addPojos();
        addTuples();
        addCollections();
        addNamespaces();
        addOperatorStates();
    }

    private KeyedTable table(String uid) {
        return table(uid, Types.INT, IntStream.range(0, KEYS).boxed().toList());
    }

    // ------------------------------------------------------------------------------------------ single values

    private void addTimes() {
        List<Instant> instants = List.of(Instant.EPOCH, Instant.MIN, Instant.MAX, Instant.ofEpochSecond(-1, 1),
                Instant.ofEpochSecond(-1, 999_999_999), Instant.ofEpochSecond(1_700_000_000, 123_456_789));
        List<LocalDate> dates = List.of(LocalDate.EPOCH, LocalDate.MIN, LocalDate.MAX, LocalDate.of(0, 1, 1),
                LocalDate.of(-44, 3, 15), LocalDate.of(1582, 10, 10), LocalDate.of(2024, 2, 29));
        List<LocalTime> times = List.of(LocalTime.MIN, LocalTime.MAX, LocalTime.NOON, LocalTime.of(1, 2, 3, 4));
        List<LocalDateTime> dateTimes = List.of(LocalDateTime.MIN, LocalDateTime.MAX,
                LocalDateTime.of(1969, 12, 31, 23, 59, 59, 999_999_999), LocalDateTime.of(2024, 2, 29, 12, 0));
        table("times")
                .samples("instant", Types.INSTANT, instants)
                .samples("local-date", Types.LOCAL_DATE, dates)
                .samples("local-time", Types.LOCAL_TIME, times)
                .samples("local-date-time", Types.LOCAL_DATE_TIME, dateTimes)
                .value("list-of-instant", Types.LIST(Types.INSTANT), i -> Arrays.asList(pick(instants, i), null))
                .value("list-of-local-date", Types.LIST(Types.LOCAL_DATE), i -> Arrays.asList(null, pick(dates, i)))
                .value("array-of-local-date-time", Types.OBJECT_ARRAY(Types.LOCAL_DATE_TIME),
                        i -> new LocalDateTime[] {pick(dateTimes, i), null, pick(dateTimes, i + 1)})
                .list("elements", Types.LOCAL_TIME, i -> times.subList(0, i % times.size()))
                .map("by-date", Types.LOCAL_DATE, Types.SQL_TIMESTAMP, i -> Map.of(pick(dates, i), timestamp(i)))
                .map("by-name", Types.STRING, Types.INSTANT, i -> {
                    Map<String, Instant> map = new HashMap<>();
                    instants.subList(0, i % instants.size()).forEach(instant -> map.put("at " + instant, instant));
                    return map;
                })
                .value("tuple", Types.TUPLE(Types.SQL_DATE, Types.SQL_TIME), i -> Tuple2.of(
                        i % 5 == 0 ? null : new java.sql.Date((i - 9) * 86_400_000L * 365),
                        i % 7 == 0 ? null : new java.sql.Time(i * 3_600_000L)));
    }

    private static Timestamp timestamp(int i) {
        Timestamp timestamp = new Timestamp((i - 9) * 100_000_000_000L);
        timestamp.setNanos(i * 41_152_263);
        return timestamp;
    }

    private void addNumbers() {
        List<BigDecimal> decimals = Arrays.asList(BigDecimal.ZERO, BigDecimal.ONE, BigDecimal.TEN, null,
                new BigDecimal("0.000"), new BigDecimal("1.0"), new BigDecimal("1E+30"), new BigDecimal("-1E-30"),
                new BigDecimal(BigInteger.TEN.pow(300), 150), new BigDecimal(BigInteger.ONE.negate(), 1000),
                new BigDecimal(BigInteger.valueOf(Long.MIN_VALUE), -3),
                new BigDecimal("99999999999999999999999999999999999999"));
        List<BigInteger> integers = Arrays.asList(BigInteger.ZERO, BigInteger.ONE, BigInteger.TWO, BigInteger.TEN, null,
                BigInteger.ONE.negate(), BigInteger.valueOf(127), BigInteger.valueOf(128), BigInteger.valueOf(-128),
                BigInteger.valueOf(-129), BigInteger.ONE.shiftLeft(4000), BigInteger.ONE.shiftLeft(4000).negate());
        table("numbers")
                .value("decimal", Types.BIG_DEC, i -> pick(decimals, i))
                .value("integer", Types.BIG_INT, i -> pick(integers, i))
                .value("decimals", Types.LIST(Types.BIG_DEC), i -> decimals.subList(0, i % decimals.size()))
                .map("integers", Types.BIG_INT, Types.BIG_DEC, i -> {
                    Map<BigInteger, BigDecimal> map = new HashMap<>();
                    map.put(BigInteger.valueOf(i).pow(20), pick(decimals, i) == null ? BigDecimal.ONE : pick(decimals, i));
                    return map;
                })
                .samples("float", Types.FLOAT, List.of(0f, -0f, Float.MIN_VALUE, Float.MAX_VALUE, Float.MIN_NORMAL,
                        Float.NaN, Float.NEGATIVE_INFINITY, 0.1f, 16_777_217f))
                .samples("double", Types.DOUBLE, List.of(0d, -0d, Double.MIN_VALUE, Double.MAX_VALUE,
                        Double.MIN_NORMAL, Double.NaN, Double.NEGATIVE_INFINITY, 0.1, 9_007_199_254_740_993d))
                .samples("long", Types.LONG, List.of(0L, -1L, Long.MIN_VALUE, Long.MAX_VALUE, 1L << 53, (1L << 53) + 1))
                .samples("short", Types.SHORT, List.of((short) 0, Short.MIN_VALUE, Short.MAX_VALUE))
                .samples("byte", Types.BYTE, List.of((byte) 0, Byte.MIN_VALUE, Byte.MAX_VALUE))
                .samples("char", Types.CHAR, List.of('a', '\0', '\u00e9', '\u4e2d', '\uffff'));
    }

    private void addStrings() {
        table("strings")
                .value("value", Types.STRING, i -> pick(KeysJob.STRINGS, i))
                .list("list", Types.STRING, i -> KeysJob.STRINGS.subList(0, i))
                .map("map", Types.STRING, Types.STRING, i -> Map.of(pick(KeysJob.STRINGS, i), pick(KeysJob.STRINGS, i + 1)))
                .value("nested", Types.LIST(Types.STRING), i -> Arrays.asList(pick(KeysJob.STRINGS, i), null, ""));
        // Java lets a string end in the middle of a character; most others do not.
        table("broken-strings")
                .samples("value", Types.STRING, List.of("\ud800", "\udfff", "a\udc00b", "\ud800\ud800\udc00", "\udc00\ud800"));
    }

    // ------------------------------------------------------------------------------------------ arrays

    private void addArrays() {
        TypeInformation<Model.Leaf> leaf = Types.POJO(Model.Leaf.class);
        table("arrays")
                .value("list-of-bytes", Types.LIST(PrimitiveArrayTypeInfo.BYTE_PRIMITIVE_ARRAY_TYPE_INFO),
                        i -> List.of(new byte[i], new byte[] {(byte) i, -1}))
                .map("map-of-longs", Types.STRING, PrimitiveArrayTypeInfo.LONG_PRIMITIVE_ARRAY_TYPE_INFO,
                        i -> Map.of("empty", new long[0], "some", new long[] {i, Long.MIN_VALUE}))
                .value("large", PrimitiveArrayTypeInfo.BYTE_PRIMITIVE_ARRAY_TYPE_INFO, i -> new byte[i * 500])
                .value("ints-of-ints", Types.OBJECT_ARRAY(PrimitiveArrayTypeInfo.INT_PRIMITIVE_ARRAY_TYPE_INFO),
                        i -> new int[][] {{}, {i}, null, {i, -i}})
                .value("texts-of-texts", Types.OBJECT_ARRAY(Types.OBJECT_ARRAY(Types.STRING)),
                        i -> new String[][] {{}, null, {"a" + i, null, ""}})
                .value("object-longs", Types.OBJECT_ARRAY(Types.LONG), i -> new Long[] {(long) i, null, -1L})
                .value("tuples", Types.OBJECT_ARRAY(Types.<Tuple2<Integer, String>>TUPLE(Types.INT, Types.STRING)),
                        i -> tuples(i))
                .value("pojos", Types.OBJECT_ARRAY(leaf), i -> new Model.Leaf[] {leaf(i), null, leaf(i + 1)})
                .value("booleans", BasicArrayTypeInfo.BOOLEAN_ARRAY_TYPE_INFO, i -> new Boolean[] {i % 2 == 0, true})
                .value("bytes", BasicArrayTypeInfo.BYTE_ARRAY_TYPE_INFO, i -> new Byte[] {(byte) -i, 7})
                .value("shorts", BasicArrayTypeInfo.SHORT_ARRAY_TYPE_INFO, i -> new Short[] {(short) (i * 999)})
                .value("ints", BasicArrayTypeInfo.INT_ARRAY_TYPE_INFO, i -> new Integer[] {null, i, null})
                .value("longs", BasicArrayTypeInfo.LONG_ARRAY_TYPE_INFO, i -> new Long[i % 5])
                .value("floats", BasicArrayTypeInfo.FLOAT_ARRAY_TYPE_INFO, i -> new Float[] {i / 3f, null})
                .value("doubles", BasicArrayTypeInfo.DOUBLE_ARRAY_TYPE_INFO, i -> new Double[] {i / 7d, null})
                .value("chars", BasicArrayTypeInfo.CHAR_ARRAY_TYPE_INFO, i -> new Character[] {(char) (i + 'a'), null});
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    private static Tuple2<Integer, String>[] tuples(int i) {
        return new Tuple2[] {Tuple2.of(i, "t" + i), Tuple2.of(-i, "")};
    }

    private static Model.Leaf leaf(int i) {
        Model.Leaf leaf = new Model.Leaf();
        leaf.weight = i * 1_000_000_007L;
        leaf.suit = i % 5 == 4 ? null : Model.Suit.values()[i % 4];
        return leaf;
    }

    // ------------------------------------------------------------------------------------------ nullable

    private void addNullables() {
        TypeSerializer<Long> padded = NullableSerializer.wrap(Compat.serializer(Types.LONG, config), true);
        TypeSerializer<Long> unpadded = NullableSerializer.wrap(Compat.serializer(Types.LONG, config), false);
        TypeInformation<Tuple2<Integer, String>> pair = Types.TUPLE(Types.INT, Types.STRING);
        TypeSerializer<Tuple2<Integer, String>> tuple =
                NullableSerializer.wrap(Compat.serializer(pair, config), false);
        table("nullables")
                .value("padded", "LIST<NULLABLE<LONG>>", new ListSerializer<>(padded), i -> holes(i))
                .value("unpadded", "LIST<NULLABLE<LONG>>", new ListSerializer<>(unpadded), i -> holes(i))
                .value("tuples", "LIST<NULLABLE<TUPLE<INT,STRING>>>", new ListSerializer<>(tuple),
                        i -> Arrays.asList(Tuple2.of(i, "x" + i), null, Tuple2.of(-i, "")))
                .value("top", "NULLABLE<LONG>", padded, i -> (long) i)
                .map("map", Types.STRING, "NULLABLE<LONG>", padded, i -> {
                    Map<String, Long> map = new HashMap<>();
                    map.put("there", (long) i);
                    map.put("null", null);
                    return map;
                });
    }

    private static List<Long> holes(int i) {
        return IntStream.range(0, i % 6).mapToObj(j -> (i + j) % 3 == 0 ? null : (Long) (long) (i * j)).toList();
    }

    // ------------------------------------------------------------------------------------------ rows

    private void addRows() {
        TypeInformation<Row> inner = Types.ROW_NAMED(
                new String[] {"id", "tags", "when"}, Types.LONG, Types.LIST(Types.STRING), Types.INSTANT);
        TypeInformation<Row> middle = Types.ROW(inner, Types.MAP(Types.STRING, inner), Types.DOUBLE);
        TypeInformation<?>[] wide = new TypeInformation<?>[70];
        Arrays.setAll(wide, i -> i % 2 == 0 ? Types.INT : Types.STRING);
        table("rows")
                .value("by-position", Types.ROW(Types.STRING, Types.INT, Types.BIG_DEC), i -> Row.of(
                        i % 2 == 0 ? null : "r" + i, i % 3 == 0 ? null : i, i % 5 == 0 ? null : BigDecimal.valueOf(i, 2)))
                .value("kinds", Types.ROW(Types.INT), i -> Row.ofKind(RowKind.values()[i % 4], i))
                .value("nested", middle, i -> Row.of(
                        i % 4 == 0 ? null : row(i), i % 3 == 0 ? null : Map.of("a", row(i), "b", row(i + 1)), i / 8d))
                .value("wide", Types.ROW(wide), i -> {
                    Row row = new Row(70);
                    IntStream.range(0, 70).filter(f -> (f + i) % 3 != 0)
                            .forEach(f -> row.setField(f, f % 2 == 0 ? (Object) (f * i) : "f" + f));
                    return row;
                })
                .value("no-fields", Types.ROW(), i -> new Row(0))
                .list("list", inner, i -> IntStream.range(0, i % 4).mapToObj(TypesJob::row).toList());
    }

    private static Row row(int i) {
        return Row.ofKind(RowKind.values()[i % 4], i % 2 == 0 ? null : (long) i,
                i % 3 == 0 ? null : Arrays.asList("t" + i, null), i % 5 == 0 ? null : Instant.ofEpochSecond(i * 99_999_999L));
    }

    // ------------------------------------------------------------------------------------------ POJOs

    private void addPojos() {
        TypeInformation<Model.Animal> animal = Types.POJO(Model.Animal.class);
        TypeInformation<Model.Point> point = TypeInformation.of(Model.Point.class);
        KeyedTable table = table("pojos")
                .value("everything", Types.POJO(Model.Everything.class), TypesJob::everything)
                .value("subclasses", animal, TypesJob::animal)
                .list("animals", animal, i -> IntStream.range(0, i % 5).mapToObj(TypesJob::animal).toList())
                .map("by-suit", Types.ENUM(Model.Suit.class), Types.POJO(Model.Node.class),
                        i -> Map.of(Model.Suit.values()[i % 4], node(i)));
        if (Notation.of(point).startsWith("POJO")) {
            table.value("record", point, i -> new Model.Point(i, i % 2 == 0 ? null : -1L - i, i % 3 == 0 ? null : "p" + i));
        }
        // Some fields go to Kryo here, which ones depends on Flink's version.
        table("inferred").value("pojo", Types.POJO(Model.Inferred.class), TypesJob::inferred);
    }

    private static Model.Everything everything(int i) {
        Model.Everything all = new Model.Everything();
        all.flag = i % 2 == 0;
        all.small = (byte) -i;
        all.medium = (short) (i * 1111);
        all.number = i * 100_000_007;
        all.large = (long) i << 40;
        all.approximate = i / 3f;
        all.precise = i / 3d;
        all.letter = (char) ('a' + i);
        all.flagOrNull = i % 3 == 0 ? null : i % 3 == 1;
        all.numberOrNull = i % 4 == 0 ? null : i;
        all.largeOrNull = i % 5 == 0 ? null : (long) -i;
        all.preciseOrNull = i % 6 == 0 ? null : i * 0.125;
        all.letterOrNull = i % 7 == 0 ? null : (char) ('A' + i);
        all.text = i % 2 == 0 ? null : "text " + i;
        all.amount = i % 3 == 0 ? null : BigDecimal.valueOf(i, 3);
        all.numbers = i % 4 == 0 ? null : new int[] {i, -i};
        all.texts = i % 5 == 0 ? null : new String[] {"a" + i, null};
        all.suit = i % 6 == 0 ? null : Model.Suit.values()[i % 4];
        all.chain = i % 7 == 0 ? null : node(i);
        return all;
    }

    private static Model.Node node(int i) {
        return new Model.Node(i % 3 == 0 ? null : "node " + i, i % 2 == 0 ? null : leaf(i));
    }

    private static Model.Animal animal(int i) {
        Model.Animal animal;
        if (i % 3 == 0) {
            animal = new Model.Animal();
        } else if (i % 3 == 1) {
            Model.Dog dog = new Model.Dog();
            dog.barks = i % 2 == 0;
            animal = dog;
        } else {
            Model.Cat cat = new Model.Cat();
            cat.lives = i % 2 == 0 ? null : i;
            cat.prey = i < 6 ? null : animal(i - 5);
            animal = cat;
        }
        animal.name = i % 4 == 0 ? null : "animal " + i;
        animal.legs = 4;
        return animal;
    }

    private static Model.Inferred inferred(int i) {
        Model.Inferred pojo = new Model.Inferred();
        pojo.list = i % 2 == 0 ? null : new ArrayList<>(Arrays.asList("a" + i, i % 3 == 0 ? null : "b"));
        pojo.map = i % 3 == 0 ? null : new HashMap<>(Map.of("x", i, "y", -i));
        pojo.set = i % 4 == 0 ? null : new java.util.HashSet<>(List.of((long) i, -1L));
        pojo.date = i % 5 == 0 ? null : LocalDate.ofEpochDay(i * 1000L);
        pojo.instant = i % 6 == 0 ? null : Instant.ofEpochSecond(i, i);
        pojo.uuid = i % 7 == 0 ? null : new UUID(i, -i);
        pojo.optional = i % 8 == 0 ? null : i % 2 == 0 ? Optional.empty() : Optional.of("o" + i);
        return pojo;
    }

    // ------------------------------------------------------------------------------------------ tuples, either, enums

    private void addTuples() {
        TypeInformation<?>[] types = new TypeInformation<?>[25];
        Arrays.setAll(types, i -> i % 3 == 0 ? Types.LONG : i % 3 == 1 ? Types.STRING : Types.BOOLEAN);
        TypeInformation<Either<Integer, String>> inner = Types.EITHER(Types.INT, Types.STRING);
        table("tuples")
                .value("none", Types.<Tuple0>TUPLE(), i -> Tuple0.INSTANCE)
                .value("one", Types.<Tuple1<String>>TUPLE(Types.STRING), i -> Tuple1.of("t" + i))
                .value("most", Types.<Tuple25<?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?>>TUPLE(types),
                        TypesJob::tuple25)
                .value("nested", Types.<Tuple2<Tuple1<Tuple1<Long>>, List<Tuple1<String>>>>TUPLE(
                                Types.TUPLE(Types.TUPLE(Types.LONG)), Types.LIST(Types.<Tuple1<String>>TUPLE(Types.STRING))),
                        i -> Tuple2.of(Tuple1.of(Tuple1.of((long) i)), List.of(Tuple1.of("a"), Tuple1.of("b" + i))))
                .value("either", Types.EITHER(inner, Types.LIST(Types.LONG)), i -> i % 3 == 0
                        ? Either.Right(List.of((long) i))
                        : Either.Left(i % 3 == 1 ? Either.Left(i) : Either.Right("right " + i)))
                .value("enum", Types.ENUM(Model.Suit.class), i -> Model.Suit.values()[i % 4])
                .value("enum-with-bodies", Types.ENUM(Model.Operation.class), i -> Model.Operation.values()[i % 2])
                .map("by-tuple", Types.<Tuple2<String, Integer>>TUPLE(Types.STRING, Types.INT), inner,
                        i -> Map.of(Tuple2.of("k", i), i % 2 == 0 ? Either.Left(i) : Either.Right("r")));
    }

    private static Tuple25<?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?> tuple25(int i) {
        Tuple tuple = Tuple.newInstance(25);
        IntStream.range(0, 25).forEach(f -> tuple.setField(
                f % 3 == 0 ? (Object) ((long) f * i) : f % 3 == 1 ? (Object) ("f" + f) : (Object) (i % 2 == 0), f));
        return (Tuple25<?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?>) tuple;
    }

    // ------------------------------------------------------------------------------------------ collections

    private void addCollections() {
        KeyedTable table = table("collections")
                .value("list-of-lists", Types.LIST(Types.LIST(Types.LONG)), i -> IntStream.range(0, i % 4)
                        .mapToObj(j -> IntStream.range(0, j).mapToObj(k -> (long) (i + k)).toList())
                        .toList())
                .value("map-of-maps", Types.MAP(Types.STRING, Types.MAP(Types.INT, Types.LIST(Types.STRING))), i -> Map.of(
                        "empty", Map.of(), "some", Map.of(i, List.of("a", "b"), -1 - i, List.of())))
                .value("map-with-nulls", Types.MAP(Types.STRING, Types.STRING), i -> {
                    Map<String, String> map = new LinkedHashMap<>();
                    map.put("null", null);
                    map.put("key" + i, "value" + i);
                    return map;
                })
                .value("empty-list", Types.LIST(Types.STRING), i -> List.of())
                .value("empty-map", Types.MAP(Types.LONG, Types.LONG), i -> Map.of())
                .list("list-state-of-maps", Types.MAP(Types.STRING, Types.INT),
                        i -> IntStream.range(0, i % 3).mapToObj(j -> Map.of("j", j)).toList())
                .list("many-elements", Types.INT, i -> IntStream.range(0, i * 20).boxed().toList())
                .map("map-state-of-lists", Types.LONG, Types.LIST(Types.INT), i -> Map.of((long) i, List.of(i, i + 1)))
                .map("by-list", Types.LIST(Types.INT), Types.BOOLEAN, i -> Map.of(List.of(i, i), i % 2 == 0));
        Optional<TypeInformation<Set<String>>> set = Compat.setOf(Types.STRING);
        set.ifPresent(type -> table
                .value("set", type, i -> Set.copyOf(KeysJob.STRINGS.subList(0, i % 5)))
                .value("list-of-sets", Types.LIST(type), i -> List.of(Set.of("s" + i), Set.of()))
                .map("map-state-of-sets", Types.INT, type, i -> Map.of(i, Set.of("a", "b"))));
    }

    // ------------------------------------------------------------------------------------------ namespaces

    private void addNamespaces() {
        long far = Duration.ofDays(365L * 200).toMillis();
        table("namespaces")
                .value("by-text", Types.LONG, i -> null)
                .in(Types.STRING, i -> Map.of("", (long) i, "n" + i, -1L, "\u4e2d", 7L))
                .list("lists-by-number", Types.STRING, i -> null)
                .in(Types.LONG, i -> Map.of((long) i, List.of("a", "b" + i), -1L, List.of("c")))
                .map("maps-by-tuple", Types.STRING, Types.INT, i -> null)
                .in(Types.<Tuple2<Integer, String>>TUPLE(Types.INT, Types.STRING),
                        i -> Map.of(Tuple2.of(i, "ns"), Map.of("x", i, "y", -i)))
                .value("plain", Types.INT, i -> i)
                .timers("text-timers", Types.STRING, i -> List.of(
                        new KeyedTable.Timer("t" + i, far + i, true),
                        new KeyedTable.Timer("", far + i, false)))
                .timers("user-timers", i -> List.of(
                        new KeyedTable.Timer(org.apache.flink.runtime.state.VoidNamespace.INSTANCE, far - i, true)));
    }

    private void addOperatorStates() {
        List<Model.Animal> animals = IntStream.range(0, 9).mapToObj(TypesJob::animal).toList();
        operatorTable("operator-states")
                .list("rows", Types.ROW(Types.STRING, Types.INT),
                        IntStream.range(0, 7).mapToObj(i -> Row.of(i % 2 == 0 ? null : "r" + i, i)).toList())
                .list("nothing", Types.LONG, List.of())
                .union("animals", Types.POJO(Model.Animal.class), animals)
                .broadcast("names", Types.LONG, Types.STRING, Map.of(1L, "one", 2L, "two", Long.MIN_VALUE, ""))
                .broadcast("rules", Types.TUPLE(Types.STRING, Types.INT), Types.POJO(Model.Animal.class),
                        Map.of(Tuple2.of("a", 1), animal(1), Tuple2.of("b", 2), animal(2)));
    }

    private static <T> T pick(List<T> from, int i) {
        return from.get(i % from.size());
    }
}
