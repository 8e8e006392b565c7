package oracle;

import java.io.IOException;
import java.time.Duration;
import java.util.Optional;
import java.util.Set;
import org.apache.flink.api.common.ExecutionConfig;
import org.apache.flink.api.common.functions.RuntimeContext;
import org.apache.flink.api.common.state.StateTtlConfig;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.runtime.jobgraph.JobGraph;
import org.apache.flink.runtime.jobgraph.jsonplan.JsonPlanGenerator;
import org.apache.flink.streaming.api.datastream.KeyedStream;
import org.apache.flink.streaming.api.datastream.SingleOutputStreamOperator;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.source.ParallelSourceFunction;
import org.apache.flink.streaming.api.windowing.assigners.EventTimeSessionWindows;
import org.apache.flink.streaming.api.windowing.assigners.ProcessingTimeSessionWindows;
import org.apache.flink.streaming.api.windowing.assigners.SlidingEventTimeWindows;
import org.apache.flink.streaming.api.windowing.assigners.SlidingProcessingTimeWindows;
import org.apache.flink.streaming.api.windowing.assigners.TumblingEventTimeWindows;
import org.apache.flink.streaming.api.windowing.assigners.TumblingProcessingTimeWindows;
import org.apache.flink.streaming.api.windowing.assigners.WindowAssigner;
import org.apache.flink.streaming.api.windowing.time.Time;
import org.apache.flink.streaming.api.windowing.triggers.ContinuousEventTimeTrigger;
import org.apache.flink.streaming.api.windowing.windows.TimeWindow;

/** What is written differently in Flink 1.x and 2.x; this is 1.x. */
final class Compat {
    private Compat() {}

    static StateTtlConfig timeToLive(Duration duration) {
        return StateTtlConfig.newBuilder(org.apache.flink.api.common.time.Time.milliseconds(duration.toMillis()))
                .build();
    }

    static <A, B, K> KeyedStream.IntervalJoined<A, B, K> between(
            KeyedStream.IntervalJoin<A, B, K> join, Duration low, Duration high) {
        return join.between(Time.milliseconds(low.toMillis()), Time.milliseconds(high.toMillis()));
    }

    static TumblingEventTimeWindows tumbling(Duration size) {
        return TumblingEventTimeWindows.of(Time.milliseconds(size.toMillis()));
    }

    static SlidingEventTimeWindows sliding(Duration size, Duration slide) {
        return SlidingEventTimeWindows.of(Time.milliseconds(size.toMillis()), Time.milliseconds(slide.toMillis()));
    }

    static EventTimeSessionWindows session(Duration size) {
        return EventTimeSessionWindows.withGap(Time.milliseconds(size.toMillis()));
    }

    static WindowAssigner<Object, TimeWindow> tumblingProcessing(Duration size) {
        return TumblingProcessingTimeWindows.of(Time.milliseconds(size.toMillis()));
    }

    static WindowAssigner<Object, TimeWindow> slidingProcessing(Duration size, Duration slide) {
        return SlidingProcessingTimeWindows.of(Time.milliseconds(size.toMillis()), Time.milliseconds(slide.toMillis()));
    }

    static WindowAssigner<Object, TimeWindow> sessionProcessing(Duration size) {
        return ProcessingTimeSessionWindows.withGap(Time.milliseconds(size.toMillis()));
    }

    static ContinuousEventTimeTrigger<TimeWindow> continuous(Duration interval) {
        return ContinuousEventTimeTrigger.of(Time.milliseconds(interval.toMillis()));
    }

    static <T> TypeSerializer<T> serializer(TypeInformation<T> type, ExecutionConfig config) {
        return type.createSerializer(config);
    }

    static TypeInformation<Prices.Money> money() {
        return new Prices.MoneyInfo() {
            @Override
            public TypeSerializer<Prices.Money> createSerializer(ExecutionConfig config) {
                return serializer();
            }
        };
    }

    static void registerPojo(ExecutionConfig config, Class<?> type) {
        config.registerPojoType(type);
    }

    static void registerKryo(ExecutionConfig config, Class<?> type) {
        config.registerKryoType(type);
    }

    static int subtask(RuntimeContext context) {
        return context.getIndexOfThisSubtask();
    }

    static int parallelism(RuntimeContext context) {
        return context.getNumberOfParallelSubtasks();
    }

    /** Flink 1.x has no serializer for sets. */
    static <E> Optional<TypeInformation<Set<E>>> setOf(TypeInformation<E> element) {
        return Optional.empty();
    }

    /** The notation of a type that only one of the two has; null where there is none. */
    static String notation(TypeInformation<?> type) {
        return null;
    }

    static SingleOutputStreamOperator<Integer> legacySource(StreamExecutionEnvironment env, String name) {
        return env.addSource(new Nothing(), name, Types.INT);
    }

    private static final class Nothing implements ParallelSourceFunction<Integer> {
        @Override
        public void run(SourceContext<Integer> context) {}

        @Override
        public void cancel() {}
    }

    /** The plan of a job as {@code /jobs/ID/plan} has it. */
    static String plan(JobGraph graph) throws IOException {
        return JsonPlanGenerator.generatePlan(graph);
    }
}
