package oracle;

import java.util.Map;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.util.Collector;

/**
 * FLIP-140's WordCount, for benchmarks: {@code --records} of a tenth as many INT keys, counted in a value state, to a
 * savepoint. The seconds from submitting the job to the end of the savepoint are in {@code OUT/found.json}.
 */
public final class WordCount {
    private WordCount() {}

    public static void main(String[] arguments) throws Exception {
        Options options = Options.parse(arguments);
        Configuration configuration = options.configuration();
        int records = options.number("records");
        int keys = records / 10;
        StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment(configuration);
        env.setParallelism(options.number("parallelism"));
        env.setMaxParallelism(128);
        env.getConfig().enableObjectReuse();
        env.fromSource(new CountingSource("words", records), WatermarkStrategy.noWatermarks(), "words", Types.INT)
                .setParallelism(1)
                .uid("words")
                .keyBy(number -> (int) (number * 7919L % keys), Types.INT)
                .process(new Counting())
                .uid("count");
        long start = System.nanoTime();
        Snapshots.take(env.getStreamGraph(false).getJobGraph(), configuration, options);
        Json.write(options.out().resolve("found.json"), Map.of("seconds", (System.nanoTime() - start) / 1e9));
        options.deleteTemporary();
        // Some of Flink's threads are no daemons.
        System.exit(0);
    }

    private static final class Counting extends KeyedProcessFunction<Integer, Integer, Void> {
        private transient ValueState<Long> count;

        @Override
        public void processElement(Integer number, Context context, Collector<Void> out) throws Exception {
            if (count == null) {
                count = getRuntimeContext().getState(new ValueStateDescriptor<>("count", Types.LONG));
            }
            Long before = count.value();
            count.update(before == null ? 1L : before + 1);
        }
    }
}
