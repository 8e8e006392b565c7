package oracle;

import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.IntStream;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.typeinfo.PrimitiveArrayTypeInfo;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.api.java.typeutils.GenericTypeInfo;
import org.apache.flink.runtime.state.VoidNamespace;
import org.apache.flink.streaming.api.datastream.AsyncDataStream;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.async.AsyncFunction;
import org.apache.flink.streaming.api.functions.async.ResultFuture;
import org.apache.flink.streaming.api.windowing.windows.TimeWindow;
import org.apache.flink.types.Row;

/**
 * One person in state of every kind: as keys of all types, inside of values, in operator state, and in flight in front of
 * a function that answers slowly. Others look alike.
 */
final class PersonJob extends TableJob {
    static final long ID = 104_729;
    static final String MAIL = "anna@example.org";
    static final UUID TOKEN = UUID.fromString("6ba7b810-9dad-11d1-80b4-00c04fd430c8");
    private static final long FAR = Duration.ofDays(365L * 200).toMillis();
    private static final int CLICKS = 400;
    private static final int LAST_CLICKS = 8;
    private static final int CAPACITY = 3;
    private static final long ANSWER_MILLIS = 500;
    private static final AtomicInteger ARRIVED = new AtomicInteger();

    private static final List<Long> LONGS =
            List.of(ID, 10 * ID, ID / 10, -ID, ID << 8, (1L << 32) + ID, ID + 1, 1L, 10L, 256L, Long.MAX_VALUE);
    private static final List<Integer> INTS =
            List.of((int) ID, (int) (10 * ID), (int) (ID / 10), (int) -ID, (int) ID << 8, (int) ID - 1, 1, 10, 0x0A000000);
    private static final List<String> TEXTS = List.of(MAIL, MAIL + "2", "anna@example.or", "anna", "a", "ab", "1", "10",
            10 * ID + "", "x" + ID + "x", MAIL.toUpperCase(), "");
    private static final List<UUID> TOKENS = List.of(TOKEN, new UUID(TOKEN.getMostSignificantBits(), 1),
            new UUID(1, TOKEN.getLeastSignificantBits()), new UUID(1, 10), new UUID(10, 1));

    @Override
    void define() {
        table("by-long", Types.LONG, LONGS)
                .value("total", Types.LONG, i -> 1000L + i)
                .list("notes", Types.STRING, i -> List.of("note " + i, "more"))
                .map("spent", Types.STRING, Types.DOUBLE, i -> Map.of("EUR", i / 2d, "USD", 1d))
                .timers("user-timers", i -> List.of(
                        new KeyedTable.Timer(VoidNamespace.INSTANCE, FAR - i, true),
                        new KeyedTable.Timer(VoidNamespace.INSTANCE, FAR + i, false)));
        table("by-int", Types.INT, INTS).value("rank", Types.INT, i -> 50 + i);
        table("by-text", Types.STRING, TEXTS)
                .value("name", Types.STRING, i -> "name " + i)
                .list("visits", Types.LONG, i -> List.of(5L, 6L + i));
        table("by-big", Types.BIG_INT, LONGS.stream().map(BigInteger::valueOf).toList()).value("n", Types.INT, i -> i);
        table("by-kryo", new GenericTypeInfo<>(UUID.class), TOKENS)
                .value("n", Types.INT, i -> i)
                .timers("user-timers", i -> List.of(new KeyedTable.Timer(VoidNamespace.INSTANCE, FAR - i, true)));
        table("by-tuple", Types.<Tuple2<String, Long>>TUPLE(Types.STRING, Types.LONG), IntStream.range(0, 24)
                        .mapToObj(i -> Tuple2.of(TEXTS.get(i % TEXTS.size()), LONGS.get(1 + i % 4)))
                        .toList())
                .value("n", Types.INT, i -> i);
        table("by-pojo", Types.POJO(Model.Code.class), INTS.stream().map(i -> new Model.Code("DE", i)).toList())
                .value("n", Types.INT, i -> i);
        table("by-row", Types.ROW_NAMED(new String[] {"name", "number"}, Types.STRING, Types.INT), IntStream.range(0, 9)
                        .mapToObj(i -> Row.of(i == 1 ? null : TEXTS.get(i), INTS.get(8 - i)))
                        .toList())
                .value("n", Types.INT, i -> i);
        addWindows();
        addValues();
        addOperatorStates();
    }

    private void addWindows() {
        table("windows", Types.LONG, LONGS)
                .value("sums", Types.LONG, i -> null)
                .inWindows(i -> Map.of(window(i), 100L + i, window(i + 1), 200L))
                .list("contents", Types.STRING, i -> null)
                .inWindows(i -> Map.of(window(i), List.of("in window " + i)))
                .value("by-name", Types.INT, i -> null)
                .in(Types.STRING, i -> Map.of("n" + i, i, "", 3))
                .windowTimers("window-timers", i -> List.of(new KeyedTable.Timer(window(i), FAR + i, true)));
    }

    private static TimeWindow window(int i) {
        return new TimeWindow(i * 60_000L, i * 60_000L + 60_000);
    }

    /** Keys are of others. */
    private void addValues() {
        TypeInformation<Row> row = Types.ROW_NAMED(new String[] {"id", "friends"}, Types.LONG, Types.LIST(Types.STRING));
        table("values", Types.INT, IntStream.range(0, 8).boxed().toList())
                .value("friend", Types.STRING, i -> who(i))
                .value("friends", Types.LIST(Types.STRING), i -> List.of("zoe", who(i)))
                .value("groups", Types.LIST(Types.LIST(Types.STRING)), i -> List.of(List.of("zoe"), List.of("bob", who(i))))
                .value("pojo", Types.POJO(Model.Node.class), i -> node(i))
                .value("row", row, i -> Row.of(i == 3 ? ID : (Long) (long) i, List.of("zoe", who(i))))
                .value("tuple", Types.<Tuple2<String, Long>>TUPLE(Types.STRING, Types.LONG),
                        i -> Tuple2.of("t" + i, i == 5 ? ID : 10 * ID))
                .value("array", Types.OBJECT_ARRAY(Types.STRING), i -> new String[] {"zoe", who(i), null})
                .value("map", Types.MAP(Types.STRING, Types.LONG), i -> Map.of(who(i), 1L, "zoe", i == 2 ? ID : 2L))
                .list("mails", Types.STRING, i -> Arrays.asList("zoe", who(i), "bob"))
                .map("by-mail", Types.STRING, Types.LONG, i -> Map.of(who(i), 1L, "zoe", 2L))
                .map("mail-of", Types.LONG, Types.STRING, i -> Map.of(1L, "zoe", 2L, who(i)))
                .value("recent", Types.STRING, i -> who(i))
                .expiring()
                .list("recent-mails", Types.STRING, i -> List.of("zoe", who(i), "bob"))
                .expiring()
                .map("recent-by-mail", Types.STRING, Types.LONG, i -> Map.of(who(i), 1L, "zoe", 2L))
                .expiring();
        table("opaque", Types.LONG, LONGS)
                .value("map", kryo(HashMap.class), i -> new HashMap<>(Map.of("mail", i == 0 ? MAIL : "zoe")))
                .value("list", kryo(ArrayList.class), i -> new ArrayList<>(List.of("zoe", i == 0 ? MAIL : "bob")))
                .value("sealed", kryo(Model.Sealed.class), i ->
                        new Model.Sealed(i == 0 ? MAIL : "zoe", i == 0 ? ID : i, null));
    }

    private static String who(int i) {
        return i % 3 == 1 ? MAIL : MAIL + i;
    }

    private static Model.Node node(int i) {
        Model.Leaf leaf = new Model.Leaf();
        leaf.weight = i == 6 ? ID : i;
        leaf.suit = Model.Suit.HEARTS;
        return new Model.Node(who(i), leaf);
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    private static <T> TypeInformation<T> kryo(Class<?> type) {
        return new GenericTypeInfo(type);
    }

    private void addOperatorStates() {
        List<Model.Animal> animals = IntStream.range(0, 5).mapToObj(PersonJob::animal).toList();
        operatorTable("operator-states")
                .list("pending", Types.ROW(Types.STRING, Types.LONG), IntStream.range(0, 7)
                        .mapToObj(i -> Row.of(who(i), i == 2 ? ID : (Long) (long) i))
                        .toList())
                .list("bytes", PrimitiveArrayTypeInfo.BYTE_PRIMITIVE_ARRAY_TYPE_INFO, List.of(
                        "only the job reads zoe".getBytes(StandardCharsets.UTF_8),
                        ("only the job reads " + MAIL).getBytes(StandardCharsets.UTF_8)))
                .union("owners", Types.POJO(Model.Animal.class), animals)
                .broadcast("names", Types.LONG, Types.STRING, Map.of(ID, "first", 1L, "zoe", 10 * ID, MAIL + 1))
                .broadcast("rules", Types.STRING, Types.STRING, Map.of(MAIL, "a", "x", MAIL, MAIL + 2, "b"));
    }

    private static Model.Animal animal(int i) {
        Model.Animal animal = new Model.Animal();
        animal.name = who(i);
        animal.legs = 4;
        return animal;
    }

    // ------------------------------------------------------------------------------------------ in flight

    @Override
    void extend(StreamExecutionEnvironment env, boolean reads) {
        CountingSource source = new CountingSource("clicks", reads ? CLICKS + LAST_CLICKS : CLICKS);
        DataStream<Tuple2<Long, String>> clicks = env.fromSource(
                        source, WatermarkStrategy.noWatermarks(), "clicks", Types.INT)
                .uid("clicks")
                .setParallelism(1)
                .map(number -> Tuple2.of(number % 7 == 0 ? ID : (long) number, "click " + number + " of " + who(number)))
                .returns(Types.TUPLE(Types.LONG, Types.STRING))
                .uid("click-texts")
                .setParallelism(1);
        AsyncDataStream.orderedWait(clicks.rebalance(), new Ask(reads), 1, TimeUnit.DAYS, CAPACITY)
                .uid("ask")
                .map(click -> arrived(click, reads))
                .returns(Types.INT)
                .uid("answered");
    }

    private static Integer arrived(Tuple2<Long, String> click, boolean reads) {
        if (reads) {
            Found.add("ask", "records", List.of(Json.of(click)));
            if (Integer.parseInt(click.f1.split(" ")[1]) >= CLICKS) {
                ARRIVED.incrementAndGet();
            }
        }
        return 1;
    }

    /** What the source sends last has arrived, and with it all that was in flight. */
    @Override
    boolean hasRead() {
        return ARRIVED.get() == LAST_CLICKS;
    }

    private record Ask(boolean atOnce) implements AsyncFunction<Tuple2<Long, String>, Tuple2<Long, String>> {
        @Override
        public void asyncInvoke(Tuple2<Long, String> click, ResultFuture<Tuple2<Long, String>> answer) {
            long wait = atOnce ? 0 : ANSWER_MILLIS;
            Executor later = CompletableFuture.delayedExecutor(wait, TimeUnit.MILLISECONDS);
            later.execute(() -> answer.complete(List.of(click)));
        }
    }
}
