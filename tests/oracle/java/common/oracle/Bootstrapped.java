package oracle;

import java.nio.file.Files;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.flink.api.common.functions.AggregateFunction;
import org.apache.flink.api.common.state.ListStateDescriptor;
import org.apache.flink.api.common.state.MapStateDescriptor;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.runtime.jobgraph.JobGraph;
import org.apache.flink.runtime.jobgraph.SavepointRestoreSettings;
import org.apache.flink.runtime.minicluster.MiniCluster;
import org.apache.flink.runtime.minicluster.MiniClusterConfiguration;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.datastream.KeyedStream;
import org.apache.flink.streaming.api.datastream.SingleOutputStreamOperator;
import org.apache.flink.streaming.api.datastream.WindowedStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.streaming.api.functions.co.KeyedBroadcastProcessFunction;
import org.apache.flink.streaming.api.functions.co.KeyedCoProcessFunction;
import org.apache.flink.streaming.api.functions.windowing.ProcessWindowFunction;
import org.apache.flink.streaming.api.windowing.assigners.EventTimeSessionWindows;
import org.apache.flink.streaming.api.windowing.assigners.GlobalWindows;
import org.apache.flink.streaming.api.windowing.assigners.ProcessingTimeSessionWindows;
import org.apache.flink.streaming.api.windowing.assigners.WindowAssigner;
import org.apache.flink.streaming.api.windowing.evictors.CountEvictor;
import org.apache.flink.streaming.api.windowing.triggers.EventTimeTrigger;
import org.apache.flink.streaming.api.windowing.triggers.ProcessingTimeoutTrigger;
import org.apache.flink.streaming.api.windowing.triggers.Trigger;
import org.apache.flink.streaming.api.windowing.triggers.TriggerResult;
import org.apache.flink.streaming.api.windowing.windows.GlobalWindow;
import org.apache.flink.streaming.api.windowing.windows.TimeWindow;
import org.apache.flink.streaming.api.windowing.windows.Window;
import org.apache.flink.util.Collector;

/**
 * Starts a job of timers and windows from a snapshot, gives it no records but the end of time, and writes what fires as
 * {@code OUT/found.json}.
 */
public final class Bootstrapped {
    private static final TypeInformation<Tuple2<Long, Long>> RECORD = Types.TUPLE(Types.LONG, Types.LONG);

    private static final MapStateDescriptor<String, Long> RULES =
            new MapStateDescriptor<>("rules", Types.STRING, Types.LONG);

    private Bootstrapped() {}

    public static void main(String[] arguments) throws Exception {
        Options options = Options.parse(arguments);
        Configuration configuration = options.configuration();
        StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment(configuration);
        env.setParallelism(options.number("parallelism"));
        env.setMaxParallelism(128);
        build(env);
        JobGraph job = env.getStreamGraph(false).getJobGraph();
        job.setSavepointRestoreSettings(SavepointRestoreSettings.forPath(options.get("snapshot"), false));
        Files.createDirectories(options.out().resolve("tmp"));
        MiniClusterConfiguration size = new MiniClusterConfiguration.Builder()
                .setConfiguration(configuration)
                .setNumTaskManagers(1)
                .setNumSlotsPerTaskManager(options.number("parallelism"))
                .build();
        try (MiniCluster cluster = new MiniCluster(size)) {
            cluster.start();
            cluster.executeJobBlocking(job);
        }
        Json.write(options.out().resolve("found.json"), Found.all());
        options.deleteTemporary();
        // Some of Flink's threads are no daemons.
        System.exit(0);
    }

    private static void build(StreamExecutionEnvironment env) {
        DataStream<Tuple2<Long, Long>> nothing = env.fromSequence(1, 1)
                .filter(number -> {
                    // Timers of processing time are due, and the job must last until they have fired.
                    Thread.sleep(1_500);
                    return false;
                })
                .map(number -> Tuple2.of(number, number))
                .returns(RECORD);
        KeyedStream<Tuple2<Long, Long>, Long> keyed = nothing.keyBy(record -> record.f0, Types.LONG);
        keyed.process(new Timers()).uid("timers");
        keyed.connect(keyed).process(new Merged()).uid("two-inputs");
        keyed.connect(nothing.broadcast(RULES)).process(new Ruled()).uid("broadcast");
        WindowAssigner<Object, TimeWindow> tumbling = Compat.tumbling(Duration.ofSeconds(10));
        WindowAssigner<Object, TimeWindow> sliding = Compat.sliding(Duration.ofSeconds(10), Duration.ofSeconds(5));
        WindowAssigner<Object, TimeWindow> session = Compat.session(Duration.ofSeconds(3));
        reduced(keyed.window(tumbling), "tumbling-reduce");
        reduced(keyed.window(session), "session-reduce");
        aggregated(keyed.window(sliding), "sliding-aggregate");
        aggregated(keyed.window(session), "session-aggregate");
        keyed.window(tumbling).process(new All<>("tumbling-process"), Types.VOID).uid("tumbling-process");
        keyed.window(session).process(new All<>("session-process"), Types.VOID).uid("session-process");
        keyed.window(tumbling).evictor(CountEvictor.of(2))
                .process(new All<>("tumbling-evictor"), Types.VOID).uid("tumbling-evictor");
        keyed.window(session).evictor(CountEvictor.of(2))
                .process(new All<>("session-evictor"), Types.VOID).uid("session-evictor");
        reduced(keyed.window(tumbling).trigger(Compat.continuous(Duration.ofSeconds(4))), "tumbling-continuous");
        reduced(keyed.window(tumbling).trigger(
                ProcessingTimeoutTrigger.of(EventTimeTrigger.create(), Duration.ofDays(1))), "tumbling-timeout");
        Duration second = Duration.ofSeconds(1);
        reduced(keyed.window(Compat.tumblingProcessing(second)), "tumbling-processing");
        reduced(keyed.window(Compat.slidingProcessing(second.multipliedBy(2), second)), "sliding-processing");
        reduced(keyed.window(Compat.sessionProcessing(second)), "session-processing");
        reduced(keyed.window(ProcessingTimeSessionWindows.<Tuple2<Long, Long>>withDynamicGap(record -> 500 + record.f1)),
                "dynamic-processing");
        reduced(keyed.window(EventTimeSessionWindows.<Tuple2<Long, Long>>withDynamicGap(record -> 3_000)), "dynamic-event");
        reduced(keyed.window(GlobalWindows.create()).trigger(new AtTheEnd()), "global");
    }

    private static <W extends Window> void reduced(WindowedStream<Tuple2<Long, Long>, Long, W> windows, String uid) {
        named(windows.reduce((a, b) -> Tuple2.of(a.f0, a.f1 + b.f1), new All<W>(uid), Types.VOID), uid);
    }

    private static void aggregated(WindowedStream<Tuple2<Long, Long>, Long, TimeWindow> windows, String uid) {
        named(windows.aggregate(new SumAndCount(), new All<>(uid), RECORD, RECORD, Types.VOID), uid);
    }

    private static void named(SingleOutputStreamOperator<Void> operator, String uid) {
        operator.uid(uid);
    }

    /** Writes down every window that fires: key, start, end, elements; of the global window its largest time alone. */
    private static final class All<W extends Window>
            extends ProcessWindowFunction<Tuple2<Long, Long>, Void, Long, W> {
        private final String uid;

        All(String uid) {
            this.uid = uid;
        }

        @Override
        public void process(Long key, Context context, Iterable<Tuple2<Long, Long>> elements, Collector<Void> out) {
            List<Object> found = new ArrayList<>();
            elements.forEach(element -> found.add(List.of(element.f0, element.f1)));
            long end = context.window().maxTimestamp();
            Found.add(uid, "windows", List.of(context.window() instanceof TimeWindow window
                    ? List.of(key, window.getStart(), window.getEnd(), found)
                    : List.of(key, end, found)));
        }
    }

    /** Fires when all records have come: Flink's own trigger of event time is for windows with an end. */
    private static final class AtTheEnd extends Trigger<Object, GlobalWindow> {
        @Override
        public TriggerResult onElement(Object element, long timestamp, GlobalWindow window, TriggerContext context) {
            context.registerEventTimeTimer(window.maxTimestamp());
            return TriggerResult.CONTINUE;
        }

        @Override
        public TriggerResult onEventTime(long time, GlobalWindow window, TriggerContext context) {
            return TriggerResult.FIRE;
        }

        @Override
        public TriggerResult onProcessingTime(long time, GlobalWindow window, TriggerContext context) {
            return TriggerResult.CONTINUE;
        }

        @Override
        public void clear(GlobalWindow window, TriggerContext context) {}
    }

    private static final class SumAndCount
            implements AggregateFunction<Tuple2<Long, Long>, Tuple2<Long, Long>, Tuple2<Long, Long>> {
        @Override
        public Tuple2<Long, Long> createAccumulator() {
            return Tuple2.of(0L, 0L);
        }

        @Override
        public Tuple2<Long, Long> add(Tuple2<Long, Long> record, Tuple2<Long, Long> sum) {
            return Tuple2.of(sum.f0 + record.f1, sum.f1 + 1);
        }

        @Override
        public Tuple2<Long, Long> getResult(Tuple2<Long, Long> sum) {
            return sum;
        }

        @Override
        public Tuple2<Long, Long> merge(Tuple2<Long, Long> a, Tuple2<Long, Long> b) {
            return Tuple2.of(a.f0 + b.f0, a.f1 + b.f1);
        }
    }

    /** Writes down every timer that fires, with what its key has. */
    private static final class Timers extends KeyedProcessFunction<Long, Tuple2<Long, Long>, Void> {
        @Override
        public void processElement(Tuple2<Long, Long> record, Context context, Collector<Void> out) {}

        @Override
        public void onTimer(long timestamp, OnTimerContext context, Collector<Void> out) throws Exception {
            ValueState<Double> total =
                    getRuntimeContext().getState(new ValueStateDescriptor<>("total", Types.DOUBLE));
            List<Object> seen = new ArrayList<>();
            for (Long time : getRuntimeContext().getListState(new ListStateDescriptor<>("seen", Types.LONG)).get()) {
                seen.add(time);
            }
            Found.add("timers", "fired", List.of(List.of(
                    context.getCurrentKey(), timestamp, context.timeDomain().name(), total.value(), seen)));
        }
    }

    /** Writes down every timer of two inputs that fires, with the amounts that its key has. */
    private static final class Merged
            extends KeyedCoProcessFunction<Long, Tuple2<Long, Long>, Tuple2<Long, Long>, Void> {
        @Override
        public void processElement1(Tuple2<Long, Long> record, Context context, Collector<Void> out) {}

        @Override
        public void processElement2(Tuple2<Long, Long> record, Context context, Collector<Void> out) {}

        @Override
        public void onTimer(long timestamp, OnTimerContext context, Collector<Void> out) throws Exception {
            List<Long> came = new ArrayList<>();
            getRuntimeContext().getListState(new ListStateDescriptor<>("came", Types.LONG)).get().forEach(came::add);
            came.sort(null);
            Found.add("two-inputs", "fired", List.of(List.of(context.getCurrentKey(), timestamp, came)));
        }
    }

    /** Writes down every timer that fires beside a broadcast input, with the total of its key and all rules. */
    private static final class Ruled
            extends KeyedBroadcastProcessFunction<Long, Tuple2<Long, Long>, Tuple2<Long, Long>, Void> {
        @Override
        public void processElement(Tuple2<Long, Long> record, ReadOnlyContext context, Collector<Void> out) {}

        @Override
        public void processBroadcastElement(Tuple2<Long, Long> record, Context context, Collector<Void> out) {}

        @Override
        public void onTimer(long timestamp, OnTimerContext context, Collector<Void> out) throws Exception {
            Map<String, Long> byName = new TreeMap<>();
            context.getBroadcastState(RULES).immutableEntries().forEach(each -> byName.put(each.getKey(), each.getValue()));
            List<Object> rules = new ArrayList<>();
            byName.forEach((name, number) -> rules.add(List.of(name, number)));
            Long total = getRuntimeContext().getState(new ValueStateDescriptor<>("total", Types.LONG)).value();
            Found.add("broadcast", "fired", List.of(List.of(context.getCurrentKey(), timestamp, total, rules)));
        }
    }
}
