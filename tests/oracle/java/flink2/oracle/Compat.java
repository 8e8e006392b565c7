package oracle;

import java.io.IOException;
import java.time.Duration;
import java.util.Optional;
import java.util.Set;
import org.apache.flink.api.common.ExecutionConfig;
import org.apache.flink.api.common.functions.RuntimeContext;
import org.apache.flink.api.common.serialization.SerializerConfig;
import org.apache.flink.api.common.serialization.SerializerConfigImpl;
import org.apache.flink.api.common.state.StateTtlConfig;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.api.java.typeutils.SetTypeInfo;
import org.apache.flink.runtime.jobgraph.JobGraph;
import org.apache.flink.runtime.jobgraph.jsonplan.JsonPlanGenerator;
import org.apache.flink.runtime.rest.util.RestMapperUtils;
import org.apache.flink.streaming.api.datastream.KeyedStream;
import org.apache.flink.streaming.api.datastream.SingleOutputStreamOperator;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.source.legacy.ParallelSourceFunction;
import org.apache.flink.streaming.api.windowing.assigners.EventTimeSessionWindows;
import org.apache.flink.streaming.api.windowing.assigners.ProcessingTimeSessionWindows;
import org.apache.flink.streaming.api.windowing.assigners.SlidingEventTimeWindows;
import org.apache.flink.streaming.api.windowing.assigners.SlidingProcessingTimeWindows;
import org.apache.flink.streaming.api.windowing.assigners.TumblingEventTimeWindows;
import org.apache.flink.streaming.api.windowing.assigners.TumblingProcessingTimeWindows;
import org.apache.flink.streaming.api.windowing.assigners.WindowAssigner;
import org.apache.flink.streaming.api.windowing.triggers.ContinuousEventTimeTrigger;
import org.apache.flink.streaming.api.windowing.windows.TimeWindow;

/** What is written differently in Flink 1.x and 2.x; this is 2.x. */
final class Compat {
    private Compat() {}

    static StateTtlConfig timeToLive(Duration duration) {
        return StateTtlConfig.newBuilder(duration).build();
    }

    static <A, B, K> KeyedStream.IntervalJoined<A, B, K> between(
            KeyedStream.IntervalJoin<A, B, K> join, Duration low, Duration high) {
        return join.between(low, high);
    }

    static TumblingEventTimeWindows tumbling(Duration size) {
        return TumblingEventTimeWindows.of(size);
    }

    static SlidingEventTimeWindows sliding(Duration size, Duration slide) {
        return SlidingEventTimeWindows.of(size, slide);
    }

    static EventTimeSessionWindows session(Duration size) {
        return EventTimeSessionWindows.withGap(size);
    }

    static WindowAssigner<Object, TimeWindow> tumblingProcessing(Duration size) {
        return TumblingProcessingTimeWindows.of(size);
    }

    static WindowAssigner<Object, TimeWindow> slidingProcessing(Duration size, Duration slide) {
        return SlidingProcessingTimeWindows.of(size, slide);
    }

    static WindowAssigner<Object, TimeWindow> sessionProcessing(Duration size) {
        return ProcessingTimeSessionWindows.withGap(size);
    }

    static ContinuousEventTimeTrigger<TimeWindow> continuous(Duration interval) {
        return ContinuousEventTimeTrigger.of(interval);
    }

    static <T> TypeSerializer<T> serializer(TypeInformation<T> type, ExecutionConfig config) {
        return type.createSerializer(config.getSerializerConfig());
    }

    static TypeInformation<Prices.Money> money() {
        return new Prices.MoneyInfo() {
            @Override
            public TypeSerializer<Prices.Money> createSerializer(SerializerConfig config) {
                return serializer();
            }
        };
    }

    static void registerPojo(ExecutionConfig config, Class<?> type) {
        ((SerializerConfigImpl) config.getSerializerConfig()).registerPojoType(type);
    }

    static void registerKryo(ExecutionConfig config, Class<?> type) {
        ((SerializerConfigImpl) config.getSerializerConfig()).registerKryoType(type);
    }

    static int subtask(RuntimeContext context) {
        return context.getTaskInfo().getIndexOfThisSubtask();
    }

    static int parallelism(RuntimeContext context) {
        return context.getTaskInfo().getNumberOfParallelSubtasks();
    }

    static <E> Optional<TypeInformation<Set<E>>> setOf(TypeInformation<E> element) {
        return Optional.of(Types.SET(element));
    }

    /** The notation of a type that only one of the two has; null where there is none. */
    static String notation(TypeInformation<?> type) {
        if (type instanceof SetTypeInfo<?> set) {
            return "SET<" + Notation.of(set.getElementTypeInfo()) + ">";
        }
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
        return RestMapperUtils.getStrictObjectMapper().writeValueAsString(JsonPlanGenerator.generatePlan(graph));
    }
}
