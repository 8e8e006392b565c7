package oracle;

import java.math.BigDecimal;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.time.LocalDate;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.AggregateFunction;
import org.apache.flink.api.common.functions.FilterFunction;
import org.apache.flink.api.common.state.ListState;
import org.apache.flink.api.common.state.ListStateDescriptor;
import org.apache.flink.api.common.state.MapState;
import org.apache.flink.api.common.state.MapStateDescriptor;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.connector.source.lib.NumberSequenceSource;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.api.java.tuple.Tuple3;
import org.apache.flink.api.java.tuple.Tuple5;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.core.execution.SavepointFormatType;
import org.apache.flink.runtime.jobgraph.JobGraph;
import org.apache.flink.runtime.jobgraph.SavepointRestoreSettings;
import org.apache.flink.runtime.minicluster.MiniCluster;
import org.apache.flink.runtime.minicluster.MiniClusterConfiguration;
import org.apache.flink.streaming.api.datastream.KeyedStream;
import org.apache.flink.streaming.api.datastream.SingleOutputStreamOperator;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.streaming.api.functions.co.KeyedCoProcessFunction;
import org.apache.flink.streaming.api.functions.co.ProcessJoinFunction;
import org.apache.flink.streaming.api.functions.windowing.ProcessWindowFunction;
import org.apache.flink.streaming.api.windowing.windows.TimeWindow;
import org.apache.flink.types.Row;
import org.apache.flink.util.Collector;

/**
 * Counts words with timers and aggregates windows, with {@code --join} joins, with {@code --accounts} sums amounts of
 * keys of three columns, over numbered records; Spark has the same jobs in {@code engines.py}. Goes on from {@code --snapshot}, whose source has the splits, to their end, or stops
 * with a savepoint after {@code --stop} records. {@code OUT/found.json} has what each operator emitted until then.
 */
public final class Engines {
    /** Numbers of the second partition begin here. */
    private static final long HALF = 100_000;

    private static final long MINUTE = 60_000;
    private static final long DELAY = 10 * MINUTE;
    /** The records of a join are at most this far apart. */
    private static final long NEAR = 20_000;

    private static final int WORDS = 11;
    /** Every fifth offset of a partition has no record. */
    private static final int GAP = 5;

    private static final TypeInformation<Tuple5<Long, Long, Tuple2<Double, Long>, Long, Long>> ACCUMULATOR =
            Types.TUPLE(Types.LONG, Types.LONG, Types.TUPLE(Types.DOUBLE, Types.LONG), Types.LONG, Types.LONG);
    /** Keys of three columns: a text, a day before or after 1970, a decimal with its scale. */
    private static final TypeInformation<Tuple3<String, LocalDate, BigDecimal>> ACCOUNT =
            Types.TUPLE(Types.STRING, Types.LOCAL_DATE, Types.BIG_DEC);

    /** The sum of the amounts, the last day, the number of records. */
    private static final TypeInformation<Tuple3<BigDecimal, LocalDate, Long>> BALANCE =
            Types.TUPLE(Types.BIG_DEC, Types.LOCAL_DATE, Types.LONG);

    private static final List<Long> READ = Collections.synchronizedList(new ArrayList<>());

    private Engines() {}

    public static void main(String[] arguments) throws Exception {
        Options options = Options.parse(arguments);
        Configuration configuration = options.configuration();
        int stop = options.number("stop");
        int parallelism = options.number("parallelism");
        StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment(configuration);
        env.setParallelism(parallelism);
        env.setMaxParallelism(128);
        SingleOutputStreamOperator<Long> records = records(env, stop > 0);
        if (options.named().containsKey("join")) {
            join(records.keyBy(Engines::word, Types.STRING));
        } else if (options.named().containsKey("accounts")) {
            book(records.keyBy(Engines::account, ACCOUNT));
        } else {
            aggregate(records.keyBy(Engines::word, Types.STRING));
        }
        JobGraph job = env.getStreamGraph(false).getJobGraph();
        job.setSavepointRestoreSettings(SavepointRestoreSettings.forPath(options.get("snapshot"), false));
        Files.createDirectories(options.out().resolve("tmp"));
        MiniClusterConfiguration size = new MiniClusterConfiguration.Builder()
                .setConfiguration(configuration)
                .setNumTaskManagers(1)
                .setNumSlotsPerTaskManager(parallelism)
                .build();
        try (MiniCluster cluster = new MiniCluster(size)) {
            cluster.start();
            if (stop == 0) {
                cluster.executeJobBlocking(job);
            } else {
                cluster.submitJob(job).get();
                while (READ.size() < stop || !Snapshots.allRunning(cluster, job.getJobID())) {
                    Thread.sleep(5);
                }
                Path made = Snapshots.path(cluster.stopWithSavepoint(
                                job.getJobID(),
                                options.out().resolve("savepoints").toUri().toString(),
                                false,
                                SavepointFormatType.CANONICAL)
                        .get(90, TimeUnit.SECONDS));
                Files.move(made, options.out().resolve("savepoint"));
            }
        }
        Found.add("source", "read", new ArrayList<>(READ));
        Json.write(options.out().resolve("found.json"), Found.all());
        options.deleteTemporary();
        // Some of Flink's threads are no daemons.
        System.exit(0);
    }

    private static SingleOutputStreamOperator<Long> records(StreamExecutionEnvironment env, boolean slowly) {
        return env.fromSource(
                        new NumberSequenceSource(0, 2 * HALF - 1),
                        WatermarkStrategy.<Long>forBoundedOutOfOrderness(Duration.ofMillis(DELAY))
                                .withTimestampAssigner((split, before) -> number(split) * 1_000),
                        "numbers")
                .uid("numbers")
                .filter((FilterFunction<Long>) split -> {
                    if (slowly) {
                        Thread.sleep(1);
                    }
                    return split % HALF % GAP != 3;
                })
                .uid("gaps")
                .map(Engines::number)
                .returns(Types.LONG)
                .uid("records");
    }

    private static void book(KeyedStream<Long, Tuple3<String, LocalDate, BigDecimal>> records) {
        records.process(new Accounts()).uid("accounts");
        records.window(Compat.tumbling(Duration.ofMillis(MINUTE)))
                .aggregate(new Balance(), new Balanced(), BALANCE, BALANCE, Types.VOID)
                .uid("balances");
    }

    private static void aggregate(KeyedStream<Long, String> records) {
        records.process(new Words()).uid("words");
        records.window(Compat.tumbling(Duration.ofMillis(MINUTE)))
                .aggregate(new Sums(), new Emitted(), ACCUMULATOR, ACCUMULATOR, Types.VOID)
                .uid("windows");
    }

    /** Joins the records with those that are divisible by 3: of the same word, at most {@link #NEAR} apart. */
    private static void join(KeyedStream<Long, String> records) {
        KeyedStream<Long, String> thirds = records.filter((FilterFunction<Long>) number -> {
                    READ.add(number);
                    return number % 3 == 0;
                })
                .uid("thirds")
                .keyBy(Engines::word, Types.STRING);
        records.connect(thirds).process(new Joined()).uid("join");
        Compat.between(records.intervalJoin(thirds), Duration.ofMillis(-NEAR), Duration.ofMillis(NEAR))
                .process(new InInterval())
                .uid("interval-join");
    }

    private static long number(long split) {
        return split % HALF * 2 + split / HALF;
    }

    private static String word(long number) {
        return "w" + number * 7919 % WORDS;
    }

    private static Tuple3<String, LocalDate, BigDecimal> account(long number) {
        return Tuple3.of(
                "a" + number % 3,
                LocalDate.ofEpochDay(number % 2 * 40_000 - 20_000),
                BigDecimal.valueOf(number / 7 % 2 * 12_500 - 5_000, 3));
    }

    private static BigDecimal amount(long number) {
        return BigDecimal.valueOf(number * 37 % 10_007 - 5_000, 2);
    }

    private static LocalDate day(long number) {
        return LocalDate.ofEpochDay(number * 31 % 700 - 350);
    }

    private static List<Object> emitted(Tuple3<String, LocalDate, BigDecimal> account, Object... values) {
        List<Object> row = new ArrayList<>(List.of(account.f0, account.f1.toString(), account.f2.toString()));
        row.addAll(List.of(values));
        return row;
    }

    /** At the end of each minute: the sum of the account, its last day, the amounts of the minute, and the sums by day. */
    private static final class Accounts extends KeyedProcessFunction<Tuple3<String, LocalDate, BigDecimal>, Long, Void> {
        private ValueState<Row> balance() {
            return getRuntimeContext()
                    .getState(new ValueStateDescriptor<>("balance", Types.ROW(Types.BIG_DEC, Types.LOCAL_DATE)));
        }

        private MapState<LocalDate, BigDecimal> byDay() {
            return getRuntimeContext()
                    .getMapState(new MapStateDescriptor<>("by_day", Types.LOCAL_DATE, Types.BIG_DEC));
        }

        private ListState<Row> open() {
            return getRuntimeContext()
                    .getListState(new ListStateDescriptor<>("open", Types.ROW(Types.LONG, Types.BIG_DEC)));
        }

        @Override
        public void processElement(Long number, Context context, Collector<Void> out) throws Exception {
            READ.add(number);
            open().add(Row.of(number, amount(number)));
            context.timerService().registerEventTimeTimer((number * 1_000 / MINUTE + 1) * MINUTE);
        }

        @Override
        public void onTimer(long end, OnTimerContext context, Collector<Void> out) throws Exception {
            Row balance = balance().value();
            BigDecimal sum = balance == null ? BigDecimal.valueOf(0, 2) : (BigDecimal) balance.getField(0);
            LocalDate last = balance == null ? LocalDate.MIN : (LocalDate) balance.getField(1);
            List<Row> later = new ArrayList<>();
            Map<Long, String> closed = new TreeMap<>();
            for (Row row : open().get()) {
                long number = (long) row.getField(0);
                if (number * 1_000 >= end) {
                    later.add(row);
                    continue;
                }
                BigDecimal amount = (BigDecimal) row.getField(1);
                closed.put(number, amount.toString());
                sum = sum.add(amount);
                LocalDate day = day(number);
                last = day.isAfter(last) ? day : last;
                LocalDate from = LocalDate.ofEpochDay(Math.floorDiv(day.toEpochDay(), 100L) * 100);
                BigDecimal before = byDay().get(from);
                byDay().put(from, before == null ? amount : before.add(amount));
            }
            open().update(later);
            balance().update(Row.of(sum, last));
            Map<String, String> sums = new TreeMap<>();
            for (Map.Entry<LocalDate, BigDecimal> entry : byDay().entries()) {
                sums.put(entry.getKey().toString(), entry.getValue().toString());
            }
            List<Object> pairs = new ArrayList<>();
            sums.forEach((day, total) -> pairs.add(day + " " + total));
            Found.add("accounts", "emitted", List.of(emitted(
                    context.getCurrentKey(), end, sum.toString(), last.toString(), new ArrayList<>(closed.values()), pairs)));
        }
    }

    private static final class Balance
            implements AggregateFunction<
                    Long, Tuple3<BigDecimal, LocalDate, Long>, Tuple3<BigDecimal, LocalDate, Long>> {
        @Override
        public Tuple3<BigDecimal, LocalDate, Long> createAccumulator() {
            return Tuple3.of(BigDecimal.valueOf(0, 2), LocalDate.MIN, 0L);
        }

        @Override
        public Tuple3<BigDecimal, LocalDate, Long> add(Long number, Tuple3<BigDecimal, LocalDate, Long> sum) {
            LocalDate day = day(number);
            return Tuple3.of(sum.f0.add(amount(number)), day.isAfter(sum.f1) ? day : sum.f1, sum.f2 + 1);
        }

        @Override
        public Tuple3<BigDecimal, LocalDate, Long> getResult(Tuple3<BigDecimal, LocalDate, Long> sum) {
            return sum;
        }

        @Override
        public Tuple3<BigDecimal, LocalDate, Long> merge(
                Tuple3<BigDecimal, LocalDate, Long> a, Tuple3<BigDecimal, LocalDate, Long> b) {
            throw new UnsupportedOperationException("tumbling windows do not merge");
        }
    }

    private static final class Balanced
            extends ProcessWindowFunction<
                    Tuple3<BigDecimal, LocalDate, Long>, Void, Tuple3<String, LocalDate, BigDecimal>, TimeWindow> {
        @Override
        public void process(
                Tuple3<String, LocalDate, BigDecimal> account,
                Context context,
                Iterable<Tuple3<BigDecimal, LocalDate, Long>> results,
                Collector<Void> out) {
            results.forEach(sum -> Found.add("balances", "emitted", List.of(emitted(
                    account, context.window().getEnd(), sum.f0.toString(), sum.f1.toString(), sum.f2))));
        }
    }

    /** A join with state of its own: the rows of both sides, as Spark keeps them. */
    private static final class Joined extends KeyedCoProcessFunction<String, Long, Long, Void> {
        private ListState<Row> rows(String side) {
            return getRuntimeContext()
                    .getListState(new ListStateDescriptor<>(side, Types.ROW(Types.LONG, Types.STRING, Types.INSTANT)));
        }

        private void processElement(Long number, String own, String other, Context context) throws Exception {
            for (Row row : rows(other).get()) {
                long before = (long) row.getField(0);
                if (Math.abs(number - before) * 1_000 <= NEAR) {
                    long left = own.equals("left") ? number : before;
                    Found.add("join", "emitted", List.of(List.of(context.getCurrentKey(), left, number + before - left)));
                }
            }
            rows(own).add(Row.of(number, context.getCurrentKey(), Instant.ofEpochSecond(number)));
        }

        @Override
        public void processElement1(Long number, Context context, Collector<Void> out) throws Exception {
            processElement(number, "left", "right", context);
        }

        @Override
        public void processElement2(Long number, Context context, Collector<Void> out) throws Exception {
            processElement(number, "right", "left", context);
        }
    }

    private static final class InInterval extends ProcessJoinFunction<Long, Long, Void> {
        @Override
        public void processElement(Long left, Long right, Context context, Collector<Void> out) {
            Found.add("interval-join", "emitted", List.of(List.of(word(left), left, right)));
        }
    }

    /** At the end of each minute: the records of the word in it, in all minutes until then, and their numbers. */
    private static final class Words extends KeyedProcessFunction<String, Long, Void> {
        private ValueState<Long> closed() {
            return getRuntimeContext().getState(new ValueStateDescriptor<>("closed", Types.LONG));
        }

        private MapState<Long, Long> open() {
            return getRuntimeContext().getMapState(new MapStateDescriptor<>("open", Types.LONG, Types.LONG));
        }

        private ListState<Long> seen() {
            return getRuntimeContext().getListState(new ListStateDescriptor<>("seen", Types.LONG));
        }

        @Override
        public void processElement(Long number, Context context, Collector<Void> out) throws Exception {
            READ.add(number);
            long end = (number * 1_000 / MINUTE + 1) * MINUTE;
            Long before = open().get(end);
            open().put(end, before == null ? 1 : before + 1);
            seen().add(number);
            context.timerService().registerEventTimeTimer(end);
        }

        @Override
        public void onTimer(long end, OnTimerContext context, Collector<Void> out) throws Exception {
            long count = open().get(end);
            open().remove(end);
            long total = count + (closed().value() == null ? 0 : closed().value());
            closed().update(total);
            List<Long> numbers = new ArrayList<>();
            List<Long> later = new ArrayList<>();
            for (Long number : seen().get()) {
                (number * 1_000 < end ? numbers : later).add(number);
            }
            Collections.sort(numbers);
            seen().update(later);
            Found.add("words", "emitted", List.of(List.of(context.getCurrentKey(), end, count, total, numbers)));
        }
    }

    private static final class Sums
            implements AggregateFunction<
                    Long,
                    Tuple5<Long, Long, Tuple2<Double, Long>, Long, Long>,
                    Tuple5<Long, Long, Tuple2<Double, Long>, Long, Long>> {
        @Override
        public Tuple5<Long, Long, Tuple2<Double, Long>, Long, Long> createAccumulator() {
            return Tuple5.of(0L, 0L, Tuple2.of(0.0, 0L), Long.MAX_VALUE, Long.MIN_VALUE);
        }

        @Override
        public Tuple5<Long, Long, Tuple2<Double, Long>, Long, Long> add(
                Long number, Tuple5<Long, Long, Tuple2<Double, Long>, Long, Long> sum) {
            return Tuple5.of(
                    sum.f0 + number,
                    sum.f1 + 1,
                    Tuple2.of(sum.f2.f0 + number, sum.f2.f1 + 1),
                    Math.min(sum.f3, number),
                    Math.max(sum.f4, number));
        }

        @Override
        public Tuple5<Long, Long, Tuple2<Double, Long>, Long, Long> getResult(
                Tuple5<Long, Long, Tuple2<Double, Long>, Long, Long> sum) {
            return sum;
        }

        @Override
        public Tuple5<Long, Long, Tuple2<Double, Long>, Long, Long> merge(
                Tuple5<Long, Long, Tuple2<Double, Long>, Long, Long> a,
                Tuple5<Long, Long, Tuple2<Double, Long>, Long, Long> b) {
            throw new UnsupportedOperationException("tumbling windows do not merge");
        }
    }

    private static final class Emitted
            extends ProcessWindowFunction<
                    Tuple5<Long, Long, Tuple2<Double, Long>, Long, Long>, Void, String, TimeWindow> {
        @Override
        public void process(
                String word,
                Context context,
                Iterable<Tuple5<Long, Long, Tuple2<Double, Long>, Long, Long>> results,
                Collector<Void> out) {
            results.forEach(sum -> Found.add("windows", "emitted", List.of(List.of(
                    word, context.window().getEnd(), sum.f0, sum.f1, sum.f2.f0 / sum.f2.f1, sum.f3, sum.f4))));
        }
    }
}
