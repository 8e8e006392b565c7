package rd;

import java.time.*;
import java.util.*;
import org.apache.flink.api.common.functions.*;
import org.apache.flink.api.common.state.*;
import org.apache.flink.api.common.typeinfo.*;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.runtime.state.*;
import org.apache.flink.streaming.api.checkpoint.CheckpointedFunction;
import org.apache.flink.streaming.api.datastream.*;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.util.Collector;

/** Classes as third parties have them. */
public class KryoJob {
    /** No default constructor, private final fields: no POJO. */
    public static class Order {
        private final UUID id;
        private final String customer;
        private final Instant placed;
        private final ArrayList<HashMap<String, Object>> lines;
        private final java.math.BigDecimal total;
        private final Status status;
        private final Money money;
        private final Long nullable;
        private final int qty;
        private final double[] weights;
        private final LocalDate due;
        private final Optional<String> note;

        public Order(long i) {
            id = new UUID(i, ~i);
            customer = "c" + i;
            placed = Instant.ofEpochSecond(1_600_000_000L + i, i);
            lines = new ArrayList<>();
            for (int j = 0; j < i % 3; j++) {
                HashMap<String, Object> m = new HashMap<>();
                m.put("sku", "s" + j);
                m.put("n", j);
                lines.add(m);
            }
            total = java.math.BigDecimal.valueOf(i, 2);
            status = Status.values()[(int) (i % 3)];
            money = new Money(i, "EUR");
            nullable = i % 2 == 0 ? i : null;
            qty = (int) i;
            weights = new double[] {i, i / 2.0};
            due = LocalDate.ofEpochDay(i);
            note = i % 2 == 0 ? Optional.of("n" + i) : Optional.empty();
        }
    }

    public static class Money {
        final long cents;
        final String cur;

        public Money(long c, String s) {
            cents = c;
            cur = s;
        }
    }

    public enum Status { NEW, PAID, SENT }

    /** A POJO whose one field is generic. */
    public static class Mixed {
        public long id;
        public UUID uuid;
        public Order order;
        public List<String> names;
        public Map<String, Long> counts;
        public Set<Integer> set;
        public Optional<String> opt;
        public Object any;
        public Instant at;
        public LocalDate day;
        public Locale loc;
        public java.net.URI uri;
        public ZonedDateTime zdt;
        public Duration dur;
        public java.util.concurrent.ConcurrentHashMap<String, Integer> chm;
        public EnumMap<Status, Integer> em;
        public TreeMap<String, Long> tm;
        public Money[] monies;
        public BitSet bits;

        public Mixed() {}
    }

    static Mixed mixed(long i) {
        Mixed m = new Mixed();
        m.id = i;
        m.uuid = new UUID(i, 1);
        m.order = new Order(i);
        m.names = new ArrayList<>(Arrays.asList("a" + i, "b"));
        m.counts = new HashMap<>(Collections.singletonMap("x", i));
        m.set = new HashSet<>(Arrays.asList((int) i, 7));
        m.opt = Optional.of("o" + i);
        m.any = i;
        m.at = Instant.ofEpochSecond(i);
        m.day = LocalDate.ofEpochDay(i);
        m.loc = Locale.US;
        m.uri = java.net.URI.create("http://x/" + i);
        m.zdt = ZonedDateTime.of(2020, 1, 1, 0, 0, (int) i, 0, ZoneId.of("Europe/Berlin"));
        m.dur = Duration.ofMillis(i);
        m.chm = new java.util.concurrent.ConcurrentHashMap<>(Collections.singletonMap("c", (int) i));
        m.em = new EnumMap<>(Collections.singletonMap(Status.PAID, (int) i));
        m.tm = new TreeMap<>(Collections.singletonMap("t", i));
        m.monies = new Money[] {new Money(i, "X")};
        m.bits = BitSet.valueOf(new long[] {i});
        return m;
    }

    public static class Fn extends KeyedProcessFunction<Long, Long, Long> implements CheckpointedFunction {
        ValueState<Order> order;
        ValueState<UUID> uuid;
        ValueState<Optional> opt;
        ValueState<Instant> inst;
        ValueState<ArrayList> alist;
        ValueState<Mixed> mixed;
        ListState<Order> orders;
        MapState<String, Order> omap;
        ValueState<Object> any;
        ValueState<HashMap> hmap;
        ValueState<Money> money;
        ValueState<ZonedDateTime> zdt;
        ListState<UUID> uuids;
        MapState<UUID, Long> umap;
        ValueState<Long> plain;

        public void snapshotState(FunctionSnapshotContext c) {}

        public void initializeState(FunctionInitializationContext c) throws Exception {
            KeyedStateStore s = c.getKeyedStateStore();
            plain = s.getState(new ValueStateDescriptor<>("a-plain", Types.LONG));
            order = s.getState(new ValueStateDescriptor<>("order", TypeInformation.of(Order.class)));
            uuid = s.getState(new ValueStateDescriptor<>("uuid", UUID.class));
            opt = s.getState(new ValueStateDescriptor<>("opt", Optional.class));
            alist = s.getState(new ValueStateDescriptor<>("alist", ArrayList.class));
            mixed = s.getState(new ValueStateDescriptor<>("mixed", Mixed.class));
            orders = s.getListState(new ListStateDescriptor<>("orders", Order.class));
            omap = s.getMapState(new MapStateDescriptor<>("omap", String.class, Order.class));
            any = s.getState(new ValueStateDescriptor<>("any", Object.class));
            hmap = s.getState(new ValueStateDescriptor<>("hmap", HashMap.class));
            money = s.getState(new ValueStateDescriptor<>("money", Money.class));
            zdt = s.getState(new ValueStateDescriptor<>("zdt", ZonedDateTime.class));
            uuids = s.getListState(new ListStateDescriptor<>("uuids", UUID.class));
            umap = s.getMapState(new MapStateDescriptor<>("umap", UUID.class, Long.class));
        }

        void put(String what, org.apache.flink.util.function.RunnableWithException r) {
            try {
                r.run();
            } catch (Throwable e) {
                System.err.println("KRYO " + what + " " + e);
            }
        }

        public void processElement(Long i, Context ctx, Collector<Long> out) throws Exception {
            plain.update(i);
            put("order", () -> order.update(new Order(i)));
            put("uuid", () -> uuid.update(new UUID(i, i * 3)));
            put("opt", () -> opt.update(i % 2 == 0 ? Optional.of("v" + i) : Optional.empty()));
            ArrayList<Object> l = new ArrayList<>();
            HashMap<String, Object> m = new HashMap<>();
            m.put("k" + i, i);
            m.put("when", new Date(i));
            m.put("u", new UUID(i, 2));
            l.add(m);
            l.add("str");
            l.add(null);
            l.add(1.5);
            l.add(new ArrayList<>(Arrays.asList(1, 2L)));
            put("alist", () -> alist.update(l));
            put("mixed", () -> mixed.update(mixed(i)));
            put("orders", () -> orders.add(new Order(i + 1000)));
            put("omap", () -> omap.put("o" + i % 3, new Order(i)));
            put("any", () -> any.update(i % 3 == 0 ? (Object) i : i % 3 == 1 ? "text" + i : new Money(i, "USD")));
            put("hmap", () -> hmap.update(m));
            put("money", () -> money.update(new Money(i, "GBP")));
            put("zdt", () -> zdt.update(ZonedDateTime.of(2021, 1, 1, 0, 0, (int) (i % 60), 0, ZoneId.of("UTC"))));
            put("uuids", () -> uuids.add(new UUID(5, i)));
            put("umap", () -> umap.put(new UUID(6, i), i));
        }
    }

    public static void main(String[] a) throws Exception {
        Map<String, String> args = H.args(a);
        Configuration conf = H.conf(args);
        StreamExecutionEnvironment env = H.env(args, conf);
        env.addSource(new BaseJob.Src("main", 60, 10, 1), "src", Types.LONG)
                .uid("src")
                .keyBy(i -> i % 30, Types.LONG)
                .process(new Fn())
                .returns(Types.LONG)
                .uid("kryo")
                .name("kryo");
        env.addSource(new BaseJob.Src("second", 60, 10, 1), "src2", Types.LONG)
                .uid("src2")
                .keyBy(i -> new UUID(i % 30, 9), TypeInformation.of(UUID.class))
                .process((KeyedProcessFunction) new Fn2())
                .returns(Types.LONG)
                .uid("uuid-key")
                .name("uuid-key");
        H.run(env.getStreamGraph().getJobGraph(), conf, args, "main", "second");
        System.exit(0);
    }

    public static class Fn2 extends KeyedProcessFunction<UUID, Long, Long> implements CheckpointedFunction {
        ValueState<Long> plain;

        public void snapshotState(FunctionSnapshotContext c) {}

        public void initializeState(FunctionInitializationContext c) throws Exception {
            plain = c.getKeyedStateStore().getState(new ValueStateDescriptor<>("plain", Types.LONG));
        }

        public void processElement(Long i, Context ctx, Collector<Long> out) throws Exception {
            plain.update(i);
            ctx.timerService().registerEventTimeTimer(i);
        }
    }
}
