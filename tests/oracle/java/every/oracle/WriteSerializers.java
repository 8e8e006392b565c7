package oracle;

import java.io.ByteArrayOutputStream;
import java.io.ObjectOutputStream;
import java.lang.reflect.Method;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.sql.Time;
import java.sql.Timestamp;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.Date;
import java.util.LinkedHashMap;
import java.util.LinkedList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.UUID;
import org.apache.flink.api.common.ExecutionConfig;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.api.common.typeutils.TypeSerializerSnapshotSerializationUtil;
import org.apache.flink.api.common.typeutils.base.BooleanSerializer;
import org.apache.flink.api.common.typeutils.base.DoubleSerializer;
import org.apache.flink.api.common.typeutils.base.EnumSerializer;
import org.apache.flink.api.common.typeutils.base.GenericArraySerializer;
import org.apache.flink.api.common.typeutils.base.IntSerializer;
import org.apache.flink.api.common.typeutils.base.ListSerializer;
import org.apache.flink.api.common.typeutils.base.LongSerializer;
import org.apache.flink.api.common.typeutils.base.MapSerializer;
import org.apache.flink.api.common.typeutils.base.StringSerializer;
import org.apache.flink.api.common.typeutils.base.VoidSerializer;
import org.apache.flink.api.java.tuple.Tuple0;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.api.java.tuple.Tuple3;
import org.apache.flink.api.java.typeutils.runtime.CopyableValueSerializer;
import org.apache.flink.api.java.typeutils.runtime.EitherSerializer;
import org.apache.flink.api.java.typeutils.runtime.NullableSerializer;
import org.apache.flink.api.java.typeutils.runtime.RowSerializer;
import org.apache.flink.api.java.typeutils.runtime.TupleSerializer;
import org.apache.flink.api.java.typeutils.runtime.ValueSerializer;
import org.apache.flink.core.memory.DataOutputView;
import org.apache.flink.core.memory.DataOutputViewStreamWrapper;
import org.apache.flink.runtime.jobgraph.OperatorID;
import org.apache.flink.runtime.state.ArrayListSerializer;
import org.apache.flink.runtime.state.VoidNamespace;
import org.apache.flink.runtime.state.VoidNamespaceSerializer;
import org.apache.flink.runtime.state.ttl.TtlValue;
import org.apache.flink.streaming.api.operators.TimerHeapInternalTimer;
import org.apache.flink.streaming.api.operators.TimerSerializer;
import org.apache.flink.streaming.api.watermark.Watermark;
import org.apache.flink.streaming.api.windowing.windows.GlobalWindow;
import org.apache.flink.streaming.api.windowing.windows.TimeWindow;
import org.apache.flink.streaming.runtime.streamrecord.LatencyMarker;
import org.apache.flink.streaming.runtime.streamrecord.StreamElementSerializer;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;
import org.apache.flink.types.Either;
import org.apache.flink.types.NullValue;
import org.apache.flink.types.Row;

/**
 * Writes the snapshot of every serializer that this release has, and values with it: {@code OUT}. A folder per serializer has
 * {@code serializer-snapshot}, {@code test-data} (the first value), and {@code values.json} with the bytes of all values and
 * what is to be shown of them, or null where only the job's own classes read them. Runs on Flink 1.10 and newer.
 */
public final class WriteSerializers {
    private static final String BASE = "org.apache.flink.api.common.typeutils.base.";
    private static final String CEP = "org.apache.flink.cep.nfa.";
    private static final String TABLE = "org.apache.flink.table.runtime.";
    private static final long NOW = 1_732_000_000_123L;
    private static final String TEXT = "parcel \u00fc\u6f22\ud83d\ude00";
    private static final TypeSerializer<Long> LONG = LongSerializer.INSTANCE;
    private static final TypeSerializer<Integer> INT = IntSerializer.INSTANCE;
    private static final TypeSerializer<String> STRING = StringSerializer.INSTANCE;

    private final Path out;
    private final List<String> missing = new ArrayList<>();

    private WriteSerializers(Path out) {
        this.out = out;
    }

    public static void main(String[] arguments) throws Exception {
        WriteSerializers writer = new WriteSerializers(Paths.get(arguments[0]));
        writer.basics();
        writer.times();
        writer.arrays();
        writer.containers();
        writer.nested();
        writer.classes();
        writer.runtime();
        writer.patterns();
        writer.tables();
        writer.graphs();
        // The names that this release does not have.
        writer.missing.forEach(System.out::println);
    }

    /** Makes a serializer, of a release that may not have it. */
    private interface Maker {
        TypeSerializer<?> make() throws ReflectiveOperationException;
    }

    private interface Values {
        Object[] make() throws ReflectiveOperationException;
    }

    private void put(String name, TypeSerializer<?> serializer, Object... values) throws Exception {
        write(name, serializer, false, values);
    }

    private void where(String name, Maker maker, Values values) throws Exception {
        TypeSerializer<?> serializer;
        Object[] made;
        try {
            serializer = maker.make();
            made = values.make();
        } catch (ClassNotFoundException | NoSuchMethodException | NoSuchFieldException e) {
            missing.add(name);
            return;
        }
        write(name, serializer, false, made);
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    private void write(String name, TypeSerializer<?> serializer, boolean opaque, Object... values) throws Exception {
        Path folder = Files.createDirectories(out.resolve(name));
        StringBuilder json = new StringBuilder();
        for (int i = 0; i < values.length; i++) {
            Object value = values[i] instanceof Shown.As ? ((Shown.As) values[i]).value : values[i];
            Object shown = values[i] instanceof Shown.As ? ((Shown.As) values[i]).shown : values[i];
            ByteArrayOutputStream bytes = new ByteArrayOutputStream();
            ((TypeSerializer) serializer).serialize(value, new DataOutputViewStreamWrapper(bytes));
            if (i == 0) {
                Files.write(folder.resolve("test-data"), bytes.toByteArray());
            }
            json.append(i == 0 ? "[\n  [" : ",\n  [");
            text(json, ((Map<?, ?>) Shown.of(bytes.toByteArray())).get("hex"));
            text(json.append(", "), opaque ? null : Shown.of(shown));
            json.append("]");
        }
        Files.write(folder.resolve("values.json"), json.append("\n]\n").toString().getBytes(StandardCharsets.UTF_8));
        // The snapshot comes last: it names the subclasses that were met.
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        envelope(new DataOutputViewStreamWrapper(bytes), serializer);
        Files.write(folder.resolve("serializer-snapshot"), bytes.toByteArray());
    }

    /** A snapshot as it stands in the metadata of a state. */
    private static void envelope(DataOutputView to, TypeSerializer<?> serializer) throws ReflectiveOperationException {
        Class<?> util = TypeSerializerSnapshotSerializationUtil.class;
        try {
            Reflected.call(util, "writeSerializerSnapshot", to, serializer.snapshotConfiguration());
        } catch (NoSuchMethodException e) {
            Reflected.call(util, "writeSerializerSnapshot", to, serializer.snapshotConfiguration(), serializer);
        }
    }

    /** A value as JSON, in ASCII: half a surrogate pair has no other form. */
    private static void text(StringBuilder json, Object value) {
        if (value instanceof Map) {
            json.append("{");
            String between = "";
            for (Map.Entry<?, ?> entry : ((Map<?, ?>) value).entrySet()) {
                text(json.append(between), entry.getKey());
                text(json.append(": "), entry.getValue());
                between = ", ";
            }
            json.append("}");
        } else if (value instanceof List) {
            json.append("[");
            String between = "";
            for (Object each : (List<?>) value) {
                text(json.append(between), each);
                between = ", ";
            }
            json.append("]");
        } else if (value instanceof String) {
            json.append('"');
            for (char c : ((String) value).toCharArray()) {
                json.append(c < ' ' || c > '~' || c == '"' || c == '\\' ? String.format("\\u%04x", (int) c) : String.valueOf(c));
            }
            json.append('"');
        } else {
            json.append(value);
        }
    }

    private void basics() throws Exception {
        base("boolean", "Boolean", true, false);
        base("byte", "Byte", (byte) 113, Byte.MIN_VALUE, Byte.MAX_VALUE, (byte) 0);
        base("short", "Short", (short) -1234, Short.MIN_VALUE, Short.MAX_VALUE);
        base("int", "Int", 20_241_124, 0, -1, Integer.MIN_VALUE, Integer.MAX_VALUE);
        base("long", "Long", 9_007_199_254_740_993L, 0L, -1L, Long.MIN_VALUE, Long.MAX_VALUE);
        base("float", "Float", 13.625f, 0f, -0f, Float.MIN_VALUE, Float.MAX_VALUE, Float.POSITIVE_INFINITY, Float.NaN);
        base("double", "Double", -0.1, 0.0, -0.0, Double.MIN_VALUE, Double.MAX_VALUE, Double.NEGATIVE_INFINITY, Double.NaN);
        base("char", "Char", '\u00e4', 'a', '\0', '\uffee');
        base("string", "String", TEXT, null, "", "\0", "a", repeated("0123456789\u00e4", 40));
        base("big-int", "BigInt", new BigInteger("-987654321098765432109876543210987"), BigInteger.ZERO, BigInteger.ONE,
                BigInteger.TEN, null, BigInteger.valueOf(-129), BigInteger.valueOf(Long.MIN_VALUE));
        base("big-dec", "BigDec", new BigDecimal("8765432109876543210987.0125"), BigDecimal.ZERO, BigDecimal.ONE,
                BigDecimal.TEN, null, new BigDecimal("-1E-300"), new BigDecimal("0.00"));
        for (String type : new String[] {"Boolean", "Byte", "Short", "Int", "Long", "Float", "Double", "Char", "String"}) {
            values(type);
        }
        base("null-value", "NullValue", NullValue.getInstance());
        put("void-serializer", VoidSerializer.INSTANCE, new Object[] {null});
        put("enum-serializer", new EnumSerializer<>(Parcels.Size.class), Parcels.Size.LARGE, Parcels.Size.SMALL,
                Parcels.Size.BULKY);
    }

    private void base(String name, String type, Object... values) throws Exception {
        where(name + "-serializer", () -> instance(BASE + type + "Serializer"), () -> values);
    }

    private static TypeSerializer<?> instance(String type) throws ReflectiveOperationException {
        return Reflected.constant(Reflected.type(type), "INSTANCE");
    }

    private static String repeated(String text, int times) {
        return String.join("", Collections.nCopies(times, text));
    }

    /** The mutable counterparts of the basic types. */
    private void values(String type) throws Exception {
        Map<String, Object[]> all = new LinkedHashMap<>();
        all.put("Boolean", new Object[] {false, true});
        all.put("Byte", new Object[] {(byte) -7, Byte.MAX_VALUE});
        all.put("Short", new Object[] {(short) 4711, Short.MIN_VALUE});
        all.put("Int", new Object[] {-31_337, Integer.MAX_VALUE});
        all.put("Long", new Object[] {1L << 40, Long.MIN_VALUE});
        all.put("Float", new Object[] {-2.5f, Float.NaN});
        all.put("Double", new Object[] {6.5e-200, Double.POSITIVE_INFINITY});
        all.put("Char", new Object[] {'#', '\u6f22'});
        all.put("String", new Object[] {TEXT, "", repeated("x", 200)});
        List<Object> made = new ArrayList<>();
        for (Object value : all.get(type)) {
            made.add(Reflected.make("org.apache.flink.types." + type + "Value", value));
        }
        base(type.toLowerCase() + "-value", type + "Value", made.toArray());
    }

    private void times() throws Exception {
        base("date", "Date", new Date(NOW), null, new Date(0), new Date(-1), new Date(Long.MAX_VALUE));
        base("sql-date", "SqlDate", new java.sql.Date(NOW), null, new java.sql.Date(-86_400_000L));
        base("sql-time", "SqlTime", new Time(45_296_789L), null, new Time(0));
        Timestamp fine = new Timestamp(NOW);
        fine.setNanos(123_456_789);
        base("sql-timestamp", "SqlTimestamp", fine, new Timestamp(-1), new Timestamp(0));
        base("instant", "Instant", Instant.ofEpochSecond(1_732_000_000L, 987_654_321L), null, Instant.EPOCH, Instant.MIN,
                Instant.MAX);
        base("local-date", "LocalDate", LocalDate.of(2024, 2, 29), null, LocalDate.of(1, 1, 1), LocalDate.MAX);
        base("local-time", "LocalTime", LocalTime.of(13, 37, 59, 123_456_789), null, LocalTime.MIN, LocalTime.MAX);
        base("local-date-time", "LocalDateTime", LocalDateTime.of(2024, 11, 24, 14, 3, 40, 1_000), null,
                LocalDateTime.MIN);
    }

    private void arrays() throws Exception {
        array("boolean", "BooleanPrimitive", new boolean[] {true, false, true}, new boolean[0]);
        array("byte", "BytePrimitive", new byte[] {11, 0, -128, 127}, new byte[0]);
        array("short", "ShortPrimitive", new short[] {-5, 300, Short.MIN_VALUE}, new short[0]);
        array("int", "IntPrimitive", new int[] {7, -77, Integer.MAX_VALUE}, new int[0], new int[300]);
        array("long", "LongPrimitive", new long[] {1L << 33, -2, Long.MIN_VALUE}, new long[0]);
        array("float", "FloatPrimitive", new float[] {0.5f, -0f, Float.NaN}, new float[0]);
        array("double", "DoublePrimitive", new double[] {1.0 / 3, -0.0, Double.NaN}, new double[0]);
        array("char", "CharPrimitive", new char[] {'p', '\u00e9', '\u6f22'}, new char[0]);
        where("string-array-serializer", () -> instance(BASE + "array.StringArraySerializer"), () -> new Object[] {
            new String[] {"one", null, TEXT}, new String[0]});
        put("generic-array-serializer", new GenericArraySerializer<>(Integer.class, INT),
                new Shown.As(new Integer[] {3, null, -3}, Arrays.asList(3, null, -3)),
                new Shown.As(new Integer[0], Collections.emptyList()));
    }

    private void array(String name, String type, Object... values) throws Exception {
        where(name + "-primitive-array-serializer", () -> instance(BASE + "array." + type + "ArraySerializer"), () -> values);
    }

    private static <K, V> Map<K, V> map(K key, V value, K other, V otherValue) {
        Map<K, V> map = new LinkedHashMap<>();
        map.put(key, value);
        map.put(other, otherValue);
        return new TreeMap<>(map);
    }

    private static ArrayList<Object> list(Object... values) {
        return new ArrayList<>(Arrays.asList(values));
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    private void containers() throws Exception {
        put("list-serializer", new ListSerializer<>(STRING), list("van", "ship", TEXT, null), list());
        put("arraylist-serializer", new ArrayListSerializer<>(STRING), list("van", "ship", TEXT, null), list());
        put("map-serializer", new MapSerializer<>(INT, STRING), map(17, "tram", 4, null), new TreeMap<>());
        where("set-serializer", () -> Reflected.make(BASE + "SetSerializer", LONG), () -> new Object[] {
            new java.util.LinkedHashSet<>(Arrays.asList(5L, null, -5L)), new java.util.LinkedHashSet<>()});
        put("tuple-serializer",
                new TupleSerializer<>((Class) Tuple3.class, new TypeSerializer<?>[] {STRING, LONG, DoubleSerializer.INSTANCE}),
                Tuple3.of(TEXT, -6L, 2.25), Tuple3.of(null, Long.MAX_VALUE, -0.0));
        put("tuple0-serializer", instance("org.apache.flink.api.java.typeutils.runtime.Tuple0Serializer"), Tuple0.INSTANCE);
        put("row-serializer", new RowSerializer(new TypeSerializer<?>[] {LONG, STRING, BooleanSerializer.INSTANCE}),
                Row.of(8L, TEXT, true), Row.of(null, null, null), Row.of(-8L, null, false));
        put("either-serializer", new EitherSerializer<>(STRING, LONG), Either.Left("left"), Either.Right(-1L));
        put("nullable-serializer", NullableSerializer.wrapIfNullIsNotSupported(LONG, false), 40L, null, Long.MIN_VALUE);
        put("nullable-padded-serializer", NullableSerializer.wrapIfNullIsNotSupported(LONG, true), 41L, null, Long.MAX_VALUE);
    }

    /** Serializers in serializers in serializers. */
    @SuppressWarnings({"unchecked", "rawtypes"})
    private void nested() throws Exception {
        TypeSerializer<?> pair =
                new TupleSerializer<>((Class) Tuple2.class, new TypeSerializer<?>[] {LONG, new ListSerializer<>(STRING)});
        Tuple2<?, ?> first = Tuple2.of(1L, list("a", null));
        Tuple2<?, ?> second = Tuple2.of(2L, list());
        put("list-serializer-nested", new ListSerializer<>(new ListSerializer(pair)), list(list(first, second), list()), list());
        put("map-serializer-nested", new MapSerializer(STRING, new MapSerializer(LONG, pair)),
                map("near", map(3L, first, 4L, null), "far", new TreeMap<>()));
        put("row-serializer-nested", new RowSerializer(new TypeSerializer<?>[] {pair, new MapSerializer<>(STRING, LONG),
                    new RowSerializer(new TypeSerializer<?>[] {INT, STRING})}),
                Row.of(first, map("x", 1L, "y", null), Row.of(5, null)), Row.of(null, null, null));
        put("tuple-serializer-nested", new TupleSerializer<>((Class) Tuple2.class, new TypeSerializer<?>[] {
                    new EitherSerializer<>(pair, new GenericArraySerializer<>(String.class, STRING)), INT}),
                Tuple2.of(Either.Left(first), 1),
                new Shown.As(Tuple2.of(Either.Right(new String[] {"r", null}), 2),
                        Shown.struct("f0", Shown.struct("left", null, "right", Arrays.asList("r", null)), "f1", 2)));
        put("nullable-serializer-nested", NullableSerializer.wrapIfNullIsNotSupported((TypeSerializer) pair, false), first, null);
        Parcels.Item item = new Parcels.Item(5, 2, "in a list", 0.5);
        put("list-serializer-of-pojos", new ListSerializer(serializer(TypeInformation.of(Parcels.Item.class))),
                list(item, null, item), list());
        put("row-serializer-of-pojos", new RowSerializer(new TypeSerializer<?>[] {
                    serializer(TypeInformation.of(Parcels.Item.class)), new EnumSerializer<>(Parcels.Size.class)}),
                Row.of(item, Parcels.Size.MEDIUM), Row.of(null, null));
    }

    /** What is registered: POJOs, classes for Kryo, and those that have a serializer of their own. */
    private static final class Registered {
        private final Object config;

        Registered() throws ReflectiveOperationException {
            ExecutionConfig all = new ExecutionConfig();
            Object made = all;
            for (Method method : ExecutionConfig.class.getMethods()) {
                if (method.getName().equals("getSerializerConfig")) {
                    made = method.invoke(all);
                }
            }
            config = made;
        }

        Registered pojos(Class<?>... types) throws ReflectiveOperationException {
            for (Class<?> type : types) {
                Reflected.call(config, "registerPojoType", type);
            }
            return this;
        }

        Registered kryo(Class<?>... types) throws ReflectiveOperationException {
            for (Class<?> type : types) {
                Reflected.call(config, "registerKryoType", type);
            }
            return this;
        }

        Registered own(Class<?> type, Class<?> serializer) throws ReflectiveOperationException {
            Reflected.call(config, "registerTypeWithKryoSerializer", type, serializer);
            return this;
        }

        TypeSerializer<?> serializer(TypeInformation<?> type) throws ReflectiveOperationException {
            return Reflected.call(type, "createSerializer", config);
        }
    }

    private static TypeSerializer<?> serializer(TypeInformation<?> type) throws ReflectiveOperationException {
        return new Registered().serializer(type);
    }

    private void classes() throws Exception {
        pojos();
        kryo();
        TypeSerializer<?> weight = new ValueSerializer<>(Parcels.Weight.class);
        write("value-serializer", weight, true, new Parcels.Weight(750, "shop"), new Parcels.Weight());
        TypeSerializer<?> rack = new CopyableValueSerializer<>(Parcels.Rack.class);
        write("copyable-value-serializer", rack, true, new Parcels.Rack(3, -4), new Parcels.Rack());
        put("java-serializer", Reflected.make("org.apache.flink.runtime.state.JavaSerializer"), javaValue(4711),
                javaValue("a text"), javaValue(new int[] {1, 2}));
    }

    private static Shown.As javaValue(Object value) throws java.io.IOException {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        new ObjectOutputStream(bytes).writeObject(value);
        return new Shown.As(value, bytes.toByteArray());
    }

    private static Parcels.Everything everything(boolean full) {
        Parcels.Everything value = new Parcels.Everything();
        if (full) {
            value.sent = true;
            value.zone = -3;
            value.shelf = 512;
            value.mark = '\u00a7';
            value.volume = 1.5f;
            value.floor = 7;
            value.number = -70L;
            value.fragile = false;
            value.price = 9.99;
            value.size = Parcels.Size.MEDIUM;
            value.item = new Parcels.Item(1, 2, TEXT, 3.5);
        }
        value.stops = new int[] {1, 2};
        value.names = new String[] {"n", null};
        return value;
    }

    private void pojos() throws Exception {
        put("pojo-serializer-identical-schema", serializer(TypeInformation.of(Parcels.Item.class)),
                new Parcels.Item(73, 4, TEXT, 12.75), new Parcels.Item(), null, new Parcels.Item(-1, 0, "", Double.NaN));
        put("pojo-serializer-with-different-field-types", serializer(TypeInformation.of(Parcels.Everything.class)),
                everything(true), everything(false), null);
        Class<?>[] both = {Parcels.Crate.class, Parcels.Letter.class};
        Class<?>[] three = {Parcels.Crate.class, Parcels.Letter.class, Parcels.Bag.class};
        Class<?>[] crates = {Parcels.Crate.class};
        Class<?>[] letters = {Parcels.Letter.class};
        Class<?>[] reversed = {Parcels.Letter.class, Parcels.Crate.class};
        Parcels.Item item = new Parcels.Item(6, 1, null, 0);
        Parcels.Box crate = new Parcels.Crate(31, "wood", 1.25);
        Parcels.Box letter = new Parcels.Letter(32, null, true, item);
        Parcels.Box plain = new Parcels.Box(33, "plain");
        Parcels.Box bag = new Parcels.Bag(34, TEXT, 2L);
        boxes("with-different-field-types-in-registered-subclass", both, both, crate, letter, plain, null);
        boxes("with-different-subclass-registration-order", reversed, both, letter, crate);
        boxes("with-missing-registered-subclass", crates, crates, crate, plain);
        boxes("with-modified-schema-in-registered-subclass", letters, letters, letter, plain);
        boxes("with-new-registered-subclass", both, three, bag, crate, letter);
        // A class that a snapshot shows to have no subclass: its fields are columns alone.
        put("pojo-serializer-with-modified-schema", serializer(TypeInformation.of(Parcels.Box.class)), plain,
                new Parcels.Box(0, ""), null);
        put("pojo-serializer-to-record", serializer(Types.POJO(Parcels.Item.class)), new Parcels.Item(8, 9, "later a record", -1));
    }

    private void boxes(String name, Class<?>[] registered, Class<?>[] met, Object... values) throws Exception {
        Object[] shown = new Object[values.length];
        for (int i = 0; i < values.length; i++) {
            shown[i] = values[i] == null ? null : new Shown.As(values[i], Shown.fields(values[i], met));
        }
        put("pojo-serializer-" + name, new Registered().pojos(registered).serializer(TypeInformation.of(Parcels.Box.class)), shown);
    }

    private void kryo() throws Exception {
        TypeInformation<?> stamp = Types.GENERIC(Parcels.Stamp.class);
        Parcels.Stamp domestic = new Parcels.Stamp("DE", 85);
        Parcels.Stamp abroad = new Parcels.Airmail("JP", 125);
        write("kryo-type-serializer-changed-registration-order",
                new Registered().kryo(Parcels.Airmail.class, Parcels.Stamp.class, Parcels.Size.class).serializer(stamp), true,
                domestic, abroad);
        write("kryo-custom-type-serializer-changed-registration-order",
                new Registered().kryo(Parcels.Size.class).own(Parcels.Stamp.class, Parcels.StampSerializer.class).serializer(stamp),
                true, domestic);
        write("kryo-type-serializer-unrelated-config-after-restore", serializer(stamp), true, domestic, abroad);
        put("kryo-serializer-of-a-uuid", serializer(Types.GENERIC(UUID.class)), new UUID(0x123456789abcdef0L, -7), new UUID(7, 0));
    }

    private void runtime() throws Exception {
        put("void-namespace-serializer", VoidNamespaceSerializer.INSTANCE, new Shown.As(VoidNamespace.INSTANCE, null));
        put("global-window-serializer", new GlobalWindow.Serializer(), new Shown.As(GlobalWindow.get(), null));
        put("time-window-serializer", new TimeWindow.Serializer(), window(NOW, NOW + 60_000), window(-60_000, 0),
                window(Long.MIN_VALUE, Long.MAX_VALUE));
        put("timer-serializer", new TimerSerializer<>(STRING, LONG), timer(NOW, "route 7", -2L), timer(Long.MIN_VALUE, "", 0L));
        Object[] ttl = {ttl("fresh", NOW), ttl(null, 0), ttl(TEXT, Long.MAX_VALUE)};
        for (String api : new String[] {"", "v2."}) {
            where("ttl-serializer" + (api.isEmpty() ? "" : "-v2"),
                    () -> Reflected.make("org.apache.flink.runtime.state." + api + "ttl.TtlStateFactory$TtlSerializer", LONG, STRING),
                    () -> ttl);
        }
        where("ttl-aware-serializer-string-value",
                () -> Reflected.make("org.apache.flink.runtime.state.ttl.TtlAwareSerializer", STRING), () -> new Object[] {TEXT, null});
        where("union-serializer-one",
                () -> Reflected.make(joined("UnionSerializer"), STRING, LONG),
                () -> new Object[] {union("one", "left side"), union("two", 64L)});
        where("buffer-entry-serializer",
                () -> Reflected.make("org.apache.flink.streaming.api.operators.co.IntervalJoinOperator$BufferEntrySerializer", STRING),
                () -> new Object[] {entry("kept", true), entry(null, false)});
        streams();
        transactions();
    }

    private static Shown.As window(long start, long end) {
        return new Shown.As(new TimeWindow(start, end), Shown.struct("start", start, "end", end));
    }

    private static Shown.As timer(long time, String key, long namespace) {
        return new Shown.As(new TimerHeapInternalTimer<>(time, key, namespace),
                Shown.struct("timestamp", time, "key", key, "namespace", namespace));
    }

    private static Shown.As ttl(String value, long time) throws ReflectiveOperationException {
        return new Shown.As(Reflected.make(TtlValue.class, value, time), Shown.struct("value", value, "last_access", time));
    }

    private static Class<?> joined(String name) throws ClassNotFoundException {
        return Reflected.type("org.apache.flink.streaming.api.datastream.CoGroupedStreams$" + name, "org.apache.flink.util." + name);
    }

    private static Shown.As union(String side, Object value) throws ReflectiveOperationException {
        return new Shown.As(Reflected.call(joined("TaggedUnion"), side, value),
                Shown.struct("one", side.equals("one") ? value : null, "two", side.equals("two") ? value : null));
    }

    private static Shown.As entry(String element, boolean joined) throws ReflectiveOperationException {
        return new Shown.As(
                Reflected.make("org.apache.flink.streaming.api.operators.co.IntervalJoinOperator$BufferEntry", element, joined),
                Shown.struct("has_been_joined", joined, "element", element));
    }

    private void streams() throws Exception {
        byte[] operator = new byte[16];
        for (int i = 0; i < 16; i++) {
            operator[i] = (byte) (i * 16);
        }
        List<Object> elements = new ArrayList<>();
        elements.add(element(new StreamRecord<>("load", NOW), "record", "timestamp", NOW, "value", "load"));
        elements.add(element(new StreamRecord<>(null, -1L), "record", "timestamp", -1L));
        elements.add(element(new StreamRecord<>(TEXT), "record", "value", TEXT));
        elements.add(element(new Watermark(Long.MIN_VALUE), "watermark", "timestamp", Long.MIN_VALUE));
        elements.add(element(new LatencyMarker(17, new OperatorID(operator), 3), "latency_marker", "timestamp", 17, "operator_id",
                operator, "index", 3));
        Class<?> status = Reflected.type("org.apache.flink.streaming.runtime.watermarkstatus.WatermarkStatus",
                "org.apache.flink.streaming.runtime.streamstatus.StreamStatus");
        elements.add(element(Reflected.constant(status, "IDLE"), "watermark_status", "status", -1));
        elements.add(element(Reflected.constant(status, "ACTIVE"), "watermark_status", "status", 0));
        put("stream-element-serializer", new StreamElementSerializer<>(STRING), elements.toArray());
    }

    private static Shown.As element(Object value, String kind, Object... fields) {
        Map<String, Object> shown = Shown.struct("kind", kind, "timestamp", null, "value", null, "operator_id", null, "index",
                null, "status", null, "is_backlog", null);
        shown.putAll(Shown.struct(fields));
        return new Shown.As(value, shown);
    }

    private void transactions() throws Exception {
        String[] homes = {
            "org.apache.flink.streaming.api.functions.sink.TwoPhaseCommitSinkFunction",
            "org.apache.flink.streaming.api.functions.sink.legacy.TwoPhaseCommitSinkFunction"
        };
        Class<?> home = Reflected.type(homes);
        Class<?> holder = Reflected.type(home.getName() + "$TransactionHolder");
        Object transaction = Reflected.make(holder, "tx-9", NOW);
        Map<String, Object> shown = Shown.struct("handle", "tx-9", "transaction_start_time", NOW);
        Class<?> state = Reflected.type(home.getName() + "$State");
        put("two-phase-commit-serializer", Reflected.make(home.getName() + "$StateSerializer", STRING, INT),
                new Shown.As(Reflected.make(state, transaction, list(transaction, transaction), Optional.of(12)),
                        Shown.struct("pending_transaction", shown, "pending_commit_transactions", list(shown, shown), "context", 12)),
                new Shown.As(Reflected.make(state, transaction, list(), Optional.empty()),
                        Shown.struct("pending_transaction", shown, "pending_commit_transactions", list(), "context", null)));
    }

    /** CEP, whose jar the release may lack. */
    private void patterns() throws Exception {
        String shared = CEP + "sharedbuffer.";
        Map<String, Object> event = Shown.struct("id", 19, "timestamp", NOW);
        Map<String, Object> node = Shown.struct("event_id", event, "page_name", "first:0");
        Map<String, Object> edge = Shown.struct("target", node, "dewey_number", list(1, 0, 2));
        Map<String, Object> start = Shown.struct("target", null, "dewey_number", list(1));
        cep("event-id-serializer", () -> instance(shared + "EventId$EventIdSerializer"), () -> new Object[] {
            new Shown.As(event(), event)});
        cep("dewey-number-serializer", () -> instance(CEP + "DeweyNumber$DeweyNumberSerializer"), () -> new Object[] {
            new Shown.As(dewey(), list(1, 0, 2)), new Shown.As(Reflected.make(CEP + "DeweyNumber", 1), list(1))});
        cep("node-id-serializer", () -> Reflected.make(shared + "NodeId$NodeIdSerializer"), () -> new Object[] {
            new Shown.As(node(), node), null});
        cep("lockable-type-serializer", () -> Reflected.make(shared + "Lockable$LockableTypeSerializer", STRING),
                () -> new Object[] {
                    new Shown.As(Reflected.make(shared + "Lockable", "event", 2), Shown.struct("ref_count", 2, "element", "event"))});
        cep("shared-buffer-edge-serializer", () -> Reflected.make(shared + "SharedBufferEdge$SharedBufferEdgeSerializer"),
                () -> new Object[] {
                    new Shown.As(Reflected.make(shared + "SharedBufferEdge", node(), dewey()), edge),
                    new Shown.As(Reflected.make(shared + "SharedBufferEdge", null, Reflected.make(CEP + "DeweyNumber", 1)), start)});
    }

    private void cep(String name, Maker maker, Values values) throws Exception {
        where(name, maker, values);
    }

    private static Object event() throws ReflectiveOperationException {
        return Reflected.make(CEP + "sharedbuffer.EventId", 19, NOW);
    }

    private static Object node() throws ReflectiveOperationException {
        return Reflected.make(CEP + "sharedbuffer.NodeId", event(), "first:0");
    }

    private static Object dewey() throws ReflectiveOperationException {
        Object two = Reflected.call(Reflected.make(CEP + "DeweyNumber", 1), "addStage");
        return Reflected.call(Reflected.call(two, "addStage"), "increase", 2);
    }

    /** Serializers of SQL that need no types of its own; rows are in the savepoints of SQL jobs. */
    private void tables() throws Exception {
        where("linked-list-serializer", () -> Reflected.make(TABLE + "typeutils.LinkedListSerializer", LONG), () -> new Object[] {
            new LinkedList<>(Arrays.asList(31L, -31L, Long.MIN_VALUE)), new LinkedList<>()});
        where("linked-list-serializer-with-nulls", () -> Reflected.make(TABLE + "typeutils.LinkedListSerializer", LONG, true),
                () -> new Object[] {new LinkedList<>(Arrays.asList(null, 5L, null, null, null, null, null, null, null, 6L))});
        where("sorted-map-serializer", () -> Reflected.make(TABLE + "typeutils.SortedMapSerializer",
                        java.util.Comparator.naturalOrder(), LONG, STRING), () -> new Object[] {
                            map(9L, "nine", -9L, "minus nine"), new TreeMap<>()});
        where("table-time-window-serializer", () -> Reflected.make(TABLE + "operators.window.TimeWindow$Serializer"),
                () -> new Object[] {
                    new Shown.As(Reflected.make(TABLE + "operators.window.TimeWindow", 5_000L, 9_000L),
                            Shown.struct("start", 5_000L, "end", 9_000L))});
        where("table-count-window-serializer", () -> Reflected.make(TABLE + "operators.window.CountWindow$Serializer"),
                () -> new Object[] {new Shown.As(Reflected.make(TABLE + "operators.window.CountWindow", 77L), 77L)});
        where("null-serializer", () -> instance("org.apache.flink.table.dataview.NullSerializer"), () -> new Object[] {null});
    }

    /** Arrays of Gelly's, which is in the package of few releases. */
    private void graphs() throws Exception {
        graph("byte", "Byte", new Shown.As(new byte[] {5, -6}, new byte[] {5, -6}));
        graph("char", "Char", 'g', '\u00e9');
        graph("double", "Double", 0.75, -0.0);
        graph("float", "Float", 0.25f, -1e10f);
        graph("int", "Int", 1_000_000, -1);
        graph("long", "Long", 1L << 50, -1L);
        graph("short", "Short", (short) 999, (short) -1);
        graph("boolean", "Boolean", true, false);
        graph("string", "String", "vertex", "");
        where("null-value-array-serializer", () -> Reflected.make(valueArray("Null") + "Serializer"), () -> {
            Object array = Reflected.make(valueArray("Null"));
            Reflected.call(array, "add", NullValue.getInstance());
            Reflected.call(array, "add", NullValue.getInstance());
            return new Object[] {new Shown.As(array, list(null, null))};
        });
    }

    private static String valueArray(String type) {
        return "org.apache.flink.graph.types.valuearray." + type + "ValueArray";
    }

    private void graph(String name, String type, Object... elements) throws Exception {
        where(name + "-value-array-serializer", () -> Reflected.make(valueArray(type) + "Serializer"), () -> {
            Object array = Reflected.make(valueArray(type));
            Object shown = list(elements);
            Object[] all = elements;
            if (elements[0] instanceof Shown.As) {
                shown = ((Shown.As) elements[0]).shown;
                all = new Object[] {(byte) 5, (byte) -6};
            }
            for (Object element : all) {
                Reflected.call(array, "add", (Object) Reflected.make("org.apache.flink.types." + type + "Value", element));
            }
            return new Object[] {new Shown.As(array, shown), new Shown.As(Reflected.make(valueArray(type)), empty(shown))};
        });
    }

    private static Object empty(Object shown) {
        return shown instanceof byte[] ? (Object) new byte[0] : list();
    }
}
