package oracle;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import org.apache.flink.api.common.ExecutionConfig;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.serialization.SerializerConfig;
import org.apache.flink.api.common.state.ListState;
import org.apache.flink.api.common.state.ListStateDescriptor;
import org.apache.flink.api.common.state.MapState;
import org.apache.flink.api.common.state.MapStateDescriptor;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.runtime.jobgraph.JobGraph;
import org.apache.flink.runtime.jobgraph.SavepointRestoreSettings;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.streaming.api.functions.windowing.ProcessWindowFunction;
import org.apache.flink.streaming.api.windowing.assigners.TumblingEventTimeWindows;
import org.apache.flink.streaming.api.windowing.windows.TimeWindow;
import org.apache.flink.util.Collector;

/**
 * A job with a serializer of its own for keys ({@code keyed}), and for elements of windows ({@code windowed}). Takes the
 * arguments of {@link Foreign}, and writes what a key without a count has in state.
 */
public final class ForeignKeys {
    private static final long CUSTOMERS = 40;

    private ForeignKeys() {}

    /** Texts with a serializer of the job. */
    private static final class TextType extends TypeInformation<String> {
        @Override
        public boolean isBasicType() {
            return false;
        }

        @Override
        public boolean isTupleType() {
            return false;
        }

        @Override
        public int getArity() {
            return 1;
        }

        @Override
        public int getTotalFields() {
            return 1;
        }

        @Override
        public Class<String> getTypeClass() {
            return String.class;
        }

        @Override
        public boolean isKeyType() {
            return true;
        }

        public TypeSerializer<String> createSerializer(SerializerConfig config) {
            return new Foreign.TextSerializer(Foreign.Form.BYTES);
        }

        public TypeSerializer<String> createSerializer(ExecutionConfig config) {
            return new Foreign.TextSerializer(Foreign.Form.BYTES);
        }

        @Override
        public String toString() {
            return "Text";
        }

        @Override
        public boolean equals(Object other) {
            return other instanceof TextType;
        }

        @Override
        public int hashCode() {
            return 7;
        }

        @Override
        public boolean canEqual(Object other) {
            return other instanceof TextType;
        }
    }

    public static void main(String[] arguments) throws Exception {
        Options options = Options.parse(arguments);
        Configuration configuration = options.configuration();
        StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment(configuration);
        env.setParallelism(options.number("parallelism"));
        env.setMaxParallelism(128);
        DataStream<Integer> numbers = env.fromSource(
                        new CountingSource("numbers", options.number("purchases")),
                        WatermarkStrategy.<Integer>forMonotonousTimestamps()
                                .withTimestampAssigner((number, before) -> number * 1000L),
                        "numbers", Types.INT)
                .setParallelism(1)
                .uid("numbers");
        numbers.keyBy(number -> "customer " + number % CUSTOMERS, new TextType()).process(new Keeping()).uid("keyed");
        numbers.map(number -> "number " + number)
                .returns(new TextType())
                .keyBy(text -> Long.parseLong(text.substring(7)) % CUSTOMERS, Types.LONG)
                .window(TumblingEventTimeWindows.of(Duration.ofDays(1)))
                .process(new Windowing())
                .uid("windowed");
        JobGraph job = env.getStreamGraph(false).getJobGraph();
        if (options.named().containsKey("snapshot")) {
            job.setSavepointRestoreSettings(SavepointRestoreSettings.forPath(options.get("snapshot"), false));
        }
        Snapshots.take(job, configuration, options);
        Json.write(options.out().resolve("found.json"), Found.all());
        options.deleteTemporary();
        // Some of Flink's threads are no daemons.
        System.exit(0);
    }

    /** Counts, and sets a timer. */
    private static final class Keeping extends KeyedProcessFunction<String, Integer, Void> {
        @Override
        public void processElement(Integer number, Context context, Collector<Void> out) throws Exception {
            ValueState<Long> count = getRuntimeContext().getState(new ValueStateDescriptor<>("count", Types.LONG));
            ValueState<String> name = getRuntimeContext().getState(new ValueStateDescriptor<>("name", Types.STRING));
            ListState<Long> list = getRuntimeContext().getListState(new ListStateDescriptor<>("list", Types.LONG));
            MapState<String, Long> map = getRuntimeContext().getMapState(new MapStateDescriptor<>(
                    "map", Types.STRING, Types.LONG));
            Long before = count.value();
            if (before == null) {
                List<String> found = new ArrayList<>();
                map.iterator().forEachRemaining(entry -> found.add(entry.getKey() + "=" + entry.getValue()));
                Collections.sort(found);
                Found.add("keyed", "first", List.of(List.of(
                        context.getCurrentKey(), String.valueOf(name.value()), list.get().toString(),
                        found.toString())));
            }
            count.update((before == null ? 0 : before) + 1);
            name.update("name " + number);
            list.add((long) number);
            map.put("k" + number, (long) number);
            context.timerService().registerEventTimeTimer(number * 1000L + 1_000_000_000L);
        }
    }

    private static final class Windowing extends ProcessWindowFunction<String, Void, Long, TimeWindow> {
        @Override
        public void process(Long key, Context context, Iterable<String> texts, Collector<Void> out) {}
    }
}
