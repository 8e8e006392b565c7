package oracle;

import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.AggregateFunction;
import org.apache.flink.api.common.functions.FilterFunction;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.core.execution.SavepointFormatType;
import org.apache.flink.runtime.jobgraph.JobGraph;
import org.apache.flink.runtime.jobgraph.SavepointRestoreSettings;
import org.apache.flink.streaming.api.datastream.KeyedStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.windowing.ProcessWindowFunction;
import org.apache.flink.streaming.api.windowing.windows.TimeWindow;
import org.apache.flink.util.Collector;

/**
 * Sessions of numbered records, which are all open: {@code --count} of them, then a savepoint. With {@code --snapshots}
 * it goes on from each savepoint with {@code --count} further records from {@code --from} on, and the end of time, and
 * {@code OUT/found.json} has what the sessions emitted.
 */
public final class Sessions {
    private static final long STEP = 1_000;
    private static final Duration GAP = Duration.ofMillis(8 * STEP);
    private static final TypeInformation<Tuple2<Long, Long>> SUM = Types.TUPLE(Types.LONG, Types.LONG);

    private Sessions() {}

    public static void main(String[] arguments) throws Exception {
        Options options = Options.parse(arguments);
        Configuration configuration = options.configuration();
        if (!options.named().containsKey("snapshots")) {
            JobGraph job = job(options, configuration, "records", Long.MIN_VALUE);
            Path made = Snapshots.whileRunning(job, configuration, options, (cluster, id) ->
                    Snapshots.path(cluster.triggerSavepoint(
                                    id, options.out().toUri().toString(), false, SavepointFormatType.CANONICAL)
                            .get(90, TimeUnit.SECONDS)));
            Json.write(options.out().resolve("written.json"), made.toString());
        } else {
            List<Object> found = new ArrayList<>();
            for (String snapshot : options.get("snapshots").split(",")) {
                JobGraph job = job(options, configuration, "more-" + found.size(), Long.MAX_VALUE);
                job.setSavepointRestoreSettings(SavepointRestoreSettings.forPath(snapshot, true));
                // The savepoint follows the end of time through all operators.
                Snapshots.whileRunning(job, configuration, options, (cluster, id) -> cluster.triggerSavepoint(
                                id, options.out().toUri().toString(), false, SavepointFormatType.CANONICAL)
                        .get(90, TimeUnit.SECONDS));
                found.add(Found.take());
            }
            Json.write(options.out().resolve("found.json"), found);
        }
        options.deleteTemporary();
        // Some of Flink's threads are no daemons.
        System.exit(0);
    }

    private static JobGraph job(Options options, Configuration configuration, String source, long last) {
        int from = options.number("from");
        StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment(configuration);
        env.setParallelism(options.number("parallelism"));
        env.setMaxParallelism(128);
        CountingSource records = new CountingSource(source, options.number("count"), from * STEP, STEP, last);
        KeyedStream<Long, String> keyed = env.fromSource(
                        records, WatermarkStrategy.noWatermarks(), source, TypeInformation.of(Integer.class))
                .uid(source)
                .setParallelism(1)
                .map(number -> (long) (from + number))
                .returns(Types.LONG)
                .filter((FilterFunction<Long>) number -> (number / 20 + number % 5) % 3 != 0)
                .keyBy(number -> "k" + number % 5, Types.STRING);
        keyed.window(Compat.session(GAP)).aggregate(new Sums(), new Emitted("sessions"), SUM, SUM, Types.VOID)
                .uid("sessions");
        keyed.window(Compat.session(GAP)).trigger(Compat.continuous(Duration.ofDays(1)))
                .aggregate(new Sums(), new Emitted("continuous"), SUM, SUM, Types.VOID)
                .uid("continuous");
        return env.getStreamGraph(false).getJobGraph();
    }

    /** The sum of the numbers, and how many there are. */
    private static final class Sums implements AggregateFunction<Long, Tuple2<Long, Long>, Tuple2<Long, Long>> {
        @Override
        public Tuple2<Long, Long> createAccumulator() {
            return Tuple2.of(0L, 0L);
        }

        @Override
        public Tuple2<Long, Long> add(Long number, Tuple2<Long, Long> sum) {
            return Tuple2.of(sum.f0 + number, sum.f1 + 1);
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

    private static final class Emitted extends ProcessWindowFunction<Tuple2<Long, Long>, Void, String, TimeWindow> {
        private final String uid;

        Emitted(String uid) {
            this.uid = uid;
        }

        @Override
        public void process(String key, Context context, Iterable<Tuple2<Long, Long>> sums, Collector<Void> out) {
            for (Tuple2<Long, Long> sum : sums) {
                TimeWindow window = context.window();
                Found.add(uid, "emitted", List.of(List.of(key, window.getStart(), window.getEnd(), sum.f0, sum.f1)));
            }
        }
    }
}
