package oracle;

import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.Function;
import java.util.stream.IntStream;
import java.util.stream.LongStream;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.AggregateFunction;
import org.apache.flink.api.common.functions.RichMapFunction;
import org.apache.flink.api.common.state.KeyedStateStore;
import org.apache.flink.api.common.state.ListState;
import org.apache.flink.api.common.state.ListStateDescriptor;
import org.apache.flink.api.common.state.MapState;
import org.apache.flink.api.common.state.MapStateDescriptor;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.runtime.state.FunctionInitializationContext;
import org.apache.flink.runtime.state.FunctionSnapshotContext;
import org.apache.flink.runtime.state.KeyGroupRangeAssignment;
import org.apache.flink.streaming.api.checkpoint.CheckpointedFunction;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.streaming.api.functions.co.BroadcastProcessFunction;
import org.apache.flink.util.Collector;

/** A job such as a shop may run: accounts, orders per minute, currencies, an export. */
final class ShopJob implements Generate.Job {
    private static final TypeInformation<Shop.Order> ORDER = Types.POJO(Shop.Order.class);
    private static final TypeInformation<Shop.Profile> PROFILE = Types.POJO(Shop.Profile.class);
    private static final TypeInformation<Tuple2<Long, Long>> COUNT_AND_SUM = Types.TUPLE(Types.LONG, Types.LONG);
    private static final TypeInformation<Tuple2<String, Long>> OFFSET = Types.TUPLE(Types.STRING, Types.LONG);
    private static final MapStateDescriptor<String, Double> RATES =
            new MapStateDescriptor<>("rates", Types.STRING, Types.DOUBLE);

    /** How far the stream has come when the savepoint is taken: the windows of the last minutes are still open. */
    private static final long WATERMARK = Shop.OPENING.plusSeconds(470).toEpochMilli();

    private static final Duration WINDOW = Duration.ofMinutes(1);
    private static final Duration PAYMENT_TERM = Duration.ofDays(14);
    private static final long END_OF_CONTRACTS = Instant.parse("2100-01-01T00:00:00Z").toEpochMilli();
    private static final int NOT_YET_EXPORTED = Shop.ORDERS - 20;

    @Override
    public List<Object> build(StreamExecutionEnvironment env, Options options) {
        DataStream<Shop.Order> orders = env.fromSource(
                        new CountingSource("orders", Shop.ORDERS, Shop.OPENING.toEpochMilli(),
                                Shop.MILLIS_BETWEEN_ORDERS, WATERMARK),
                        WatermarkStrategy.noWatermarks(), "orders", Types.INT)
                .uid("orders-source")
                .setParallelism(1)
                .map(Shop::order)
                .returns(ORDER)
                .uid("orders-parser")
                .name("parse orders")
                .setParallelism(1);
        DataStream<Integer> rates = env.fromSource(
                        new CountingSource("rates", Shop.CURRENCIES.length),
                        WatermarkStrategy.noWatermarks(), "rates", Types.INT)
                .uid("rates-source")
                .setParallelism(1);

        orders.keyBy(order -> order.accountId, Types.LONG)
                .process(new Accounts())
                .returns(Types.LONG)
                .uid("accounts")
                .name("accounts");
        orders.keyBy(order -> order.product, Types.STRING)
                .window(Compat.tumbling(WINDOW))
                .aggregate(new CountAndSum(), COUNT_AND_SUM, COUNT_AND_SUM)
                .uid("orders-per-minute")
                .name("orders per minute");
        orders.connect(rates.broadcast(RATES))
                .process(new Converter())
                .returns(Types.DOUBLE)
                .uid("currency-converter")
                .name("currency converter");
        orders.partitionCustom((id, partitions) -> (int) (id % partitions), order -> order.orderId)
                .map(new Export())
                .returns(Types.LONG)
                .uid("warehouse-export")
                .name("warehouse export");
        return List.of(
                expectedAccounts(options.number("max-parallelism")),
                expectedWindows(),
                expectedRates(),
                expectedExport(options.number("parallelism")));
    }

    // ------------------------------------------------------------------------------------------ accounts

    private static final class Accounts extends KeyedProcessFunction<Long, Shop.Order, Long>
            implements CheckpointedFunction {
        private static final long serialVersionUID = 1;
        private transient ValueState<Long> total;
        private transient ValueState<Shop.Profile> profile;
        private transient ListState<Double> recentAmounts;
        private transient MapState<String, Long> spentByCurrency;
        private transient ValueState<String> coupon;

        @Override
        public void initializeState(FunctionInitializationContext context) throws Exception {
            KeyedStateStore store = context.getKeyedStateStore();
            total = store.getState(new ValueStateDescriptor<>("total", Types.LONG));
            profile = store.getState(new ValueStateDescriptor<>("profile", PROFILE));
            recentAmounts = store.getListState(new ListStateDescriptor<>("recent_amounts", Types.DOUBLE));
            spentByCurrency =
                    store.getMapState(new MapStateDescriptor<>("spent_by_currency", Types.STRING, Types.LONG));
            ValueStateDescriptor<String> forgotten = new ValueStateDescriptor<>("coupon", Types.STRING);
            forgotten.enableTimeToLive(Compat.timeToLive(Duration.ofDays(30)));
            coupon = store.getState(forgotten);
        }

        @Override
        public void snapshotState(FunctionSnapshotContext context) {}

        @Override
        public void processElement(Shop.Order order, Context context, Collector<Long> out) throws Exception {
            if (total.value() == null) {
                profile.update(Shop.profile(order.accountId));
                context.timerService().registerEventTimeTimer(due(order));
                context.timerService().registerProcessingTimeTimer(END_OF_CONTRACTS + order.accountId);
                if (Shop.coupon(order.accountId) != null) {
                    coupon.update(Shop.coupon(order.accountId));
                }
            }
            total.update((total.value() == null ? 0 : total.value()) + order.cents);
            recentAmounts.add(order.cents / 100.0);
            Long spent = spentByCurrency.get(order.currency);
            spentByCurrency.put(order.currency, (spent == null ? 0 : spent) + order.cents);
            out.collect(total.value());
        }
    }

    private static long due(Shop.Order order) {
        return order.time.plus(PAYMENT_TERM).toEpochMilli();
    }

    private static Map<Long, List<Shop.Order>> ordersByAccount() {
        Map<Long, List<Shop.Order>> all = new TreeMap<>();
        IntStream.range(0, Shop.ORDERS)
                .mapToObj(Shop::order)
                .forEach(order -> all.computeIfAbsent(order.accountId, id -> new ArrayList<>()).add(order));
        return all;
    }

    private static Object expectedAccounts(int maxParallelism) {
        Map<Long, List<Shop.Order>> accounts = ordersByAccount();
        List<Object> due = new ArrayList<>();
        List<Object> ends = new ArrayList<>();
        List<Object> groups = new ArrayList<>();
        accounts.forEach((id, orders) -> {
            due.add(List.of(id, due(orders.get(0))));
            ends.add(List.of(id, END_OF_CONTRACTS + id));
            groups.add(List.of(id, KeyGroupRangeAssignment.assignToKeyGroup(id, maxParallelism)));
        });
        Map<String, Object> coupons = state("coupon", "value", Types.STRING, accounts, o -> Shop.coupon(o.get(0).accountId));
        coupons.put("ttl", true);
        Map<String, Object> spent = state("spent_by_currency", "map", Types.LONG, accounts, ShopJob::spentByCurrency);
        spent.put("keyType", "STRING");
        return Json.object(
                "uid", "accounts",
                "kind", "keyed",
                "keyType", "LONG",
                "states", List.of(
                        state("total", "value", Types.LONG, accounts, o -> o.stream().mapToLong(x -> x.cents).sum()),
                        state("profile", "value", PROFILE, accounts, o -> Shop.profile(o.get(0).accountId)),
                        state("recent_amounts", "list", Types.DOUBLE, accounts,
                                o -> o.stream().map(x -> x.cents / 100.0).toList()),
                        spent,
                        coupons),
                "timers", List.of(Json.object(
                        "service", "user-timers", "namespace", "VOID", "eventTime", due, "processingTime", ends)),
                "keyGroups", groups);
    }

    private static Map<String, Long> spentByCurrency(List<Shop.Order> orders) {
        Map<String, Long> spent = new TreeMap<>();
        orders.forEach(order -> spent.merge(order.currency, order.cents, Long::sum));
        return spent;
    }

    private static Map<String, Object> state(
            String name,
            String kind,
            TypeInformation<?> type,
            Map<Long, List<Shop.Order>> accounts,
            Function<List<Shop.Order>, Object> value) {
        List<Object> entries = new ArrayList<>();
        accounts.forEach((id, orders) -> {
            Object found = value.apply(orders);
            if (found != null) {
                entries.add(Arrays.asList(id, null, Json.of(found)));
            }
        });
        return Json.object(
                "name", name, "kind", kind, "type", Notation.of(type), "namespace", "VOID", "entries", entries);
    }

    // ------------------------------------------------------------------------------------------ windows

    private static final class CountAndSum
            implements AggregateFunction<Shop.Order, Tuple2<Long, Long>, Tuple2<Long, Long>> {
        private static final long serialVersionUID = 1;

        @Override
        public Tuple2<Long, Long> createAccumulator() {
            return Tuple2.of(0L, 0L);
        }

        @Override
        public Tuple2<Long, Long> add(Shop.Order order, Tuple2<Long, Long> accumulator) {
            return Tuple2.of(accumulator.f0 + 1, accumulator.f1 + order.cents);
        }

        @Override
        public Tuple2<Long, Long> getResult(Tuple2<Long, Long> accumulator) {
            return accumulator;
        }

        @Override
        public Tuple2<Long, Long> merge(Tuple2<Long, Long> a, Tuple2<Long, Long> b) {
            return Tuple2.of(a.f0 + b.f0, a.f1 + b.f1);
        }
    }

    private static Object expectedWindows() {
        CountAndSum sums = new CountAndSum();
        Map<String, Map<Long, Tuple2<Long, Long>>> open = new TreeMap<>();
        IntStream.range(0, Shop.ORDERS).mapToObj(Shop::order).forEach(order -> {
            long time = order.time.toEpochMilli();
            long start = time - time % WINDOW.toMillis();
            if (start + WINDOW.toMillis() - 1 > WATERMARK) {
                open.computeIfAbsent(order.product, product -> new TreeMap<>())
                        .compute(start, (s, sum) -> sums.add(order, sum == null ? sums.createAccumulator() : sum));
            }
        });
        List<Object> entries = new ArrayList<>();
        List<Object> timers = new ArrayList<>();
        open.forEach((product, windows) -> windows.forEach((start, sum) -> {
            List<Long> window = List.of(start, start + WINDOW.toMillis());
            entries.add(List.of(product, window, Json.of(sum)));
            timers.add(List.of(product, window, window.get(1) - 1));
        }));
        return Json.object(
                "uid", "orders-per-minute",
                "kind", "keyed",
                "keyType", "STRING",
                "states", List.of(Json.object(
                        "name", "window-contents", "kind", "aggregating", "type", Notation.of(COUNT_AND_SUM),
                        "namespace", "TIME_WINDOW", "entries", entries)),
                "timers", List.of(Json.object(
                        "service", "window-timers", "namespace", "TIME_WINDOW",
                        "eventTime", timers, "processingTime", List.of())));
    }

    // ------------------------------------------------------------------------------------------ operator state

    private static final class Converter extends BroadcastProcessFunction<Shop.Order, Integer, Double> {
        private static final long serialVersionUID = 1;

        @Override
        public void processElement(Shop.Order order, ReadOnlyContext context, Collector<Double> out) throws Exception {
            Double rate = context.getBroadcastState(RATES).get(order.currency);
            if (rate != null) {
                out.collect(order.cents / rate);
            }
        }

        @Override
        public void processBroadcastElement(Integer i, Context context, Collector<Double> out) throws Exception {
            context.getBroadcastState(RATES).put(Shop.CURRENCIES[i], Shop.RATES[i]);
        }
    }

    private static Object expectedRates() {
        List<Object> entries = new ArrayList<>();
        IntStream.range(0, Shop.CURRENCIES.length).forEach(i -> entries.add(List.of(Shop.CURRENCIES[i], Shop.RATES[i])));
        return Json.object("uid", "currency-converter", "kind", "operator", "states", List.of(Json.object(
                "name", "rates", "kind", "broadcast", "keyType", "STRING", "type", "DOUBLE", "entries", entries)));
    }

    /** Keeps the newest orders, which it has not exported yet, and how far each of its subtasks has come. */
    private static final class Export extends RichMapFunction<Shop.Order, Long> implements CheckpointedFunction {
        private static final long serialVersionUID = 1;
        private final List<Shop.Order> pending = new ArrayList<>();
        private long exported;
        private transient ListState<Shop.Order> pendingState;
        private transient ListState<Tuple2<String, Long>> exportedState;

        @Override
        public void initializeState(FunctionInitializationContext context) throws Exception {
            pendingState = context.getOperatorStateStore()
                    .getListState(new ListStateDescriptor<>("pending_orders", ORDER));
            exportedState = context.getOperatorStateStore()
                    .getUnionListState(new ListStateDescriptor<>("exported_until", OFFSET));
        }

        @Override
        public Long map(Shop.Order order) {
            if (order.orderId < NOT_YET_EXPORTED) {
                exported = order.orderId;
            } else {
                pending.add(order);
            }
            return exported;
        }

        @Override
        public void snapshotState(FunctionSnapshotContext context) throws Exception {
            pendingState.update(pending);
            exportedState.update(List.of(Tuple2.of("warehouse-" + Compat.subtask(getRuntimeContext()), exported)));
        }
    }

    private static Object expectedExport(int parallelism) {
        List<Object> pending = new ArrayList<>();
        IntStream.range(NOT_YET_EXPORTED, Shop.ORDERS).forEach(i -> pending.add(Json.of(Shop.order(i))));
        List<Object> exported = new ArrayList<>();
        for (int subtask = 0; subtask < parallelism; subtask++) {
            int partition = subtask;
            long last = LongStream.range(0, NOT_YET_EXPORTED).filter(i -> i % parallelism == partition).max().orElse(0);
            exported.add(List.of("warehouse-" + subtask, last));
        }
        return Json.object("uid", "warehouse-export", "kind", "operator", "states", List.of(
                Json.object("name", "pending_orders", "kind", "list", "type", Notation.of(ORDER), "entries", pending),
                Json.object("name", "exported_until", "kind", "union", "type", Notation.of(OFFSET), "entries", exported)));
    }
}
