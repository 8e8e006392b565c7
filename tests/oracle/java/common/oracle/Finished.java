package oracle;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.stream.StreamSupport;
import org.apache.flink.api.common.JobStatus;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.RichMapFunction;
import org.apache.flink.api.common.state.ListState;
import org.apache.flink.api.common.state.ListStateDescriptor;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.connector.source.lib.NumberSequenceSource;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.runtime.execution.ExecutionState;
import org.apache.flink.runtime.jobgraph.JobGraph;
import org.apache.flink.runtime.jobgraph.SavepointRestoreSettings;
import org.apache.flink.runtime.minicluster.MiniCluster;
import org.apache.flink.runtime.minicluster.MiniClusterConfiguration;
import org.apache.flink.runtime.state.FunctionInitializationContext;
import org.apache.flink.runtime.state.FunctionSnapshotContext;
import org.apache.flink.streaming.api.checkpoint.CheckpointedFunction;
import org.apache.flink.streaming.api.datastream.SingleOutputStreamOperator;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.util.Collector;

/**
 * A source of two subtasks, one of which reads all of its numbers and finishes while the other waits: a checkpoint of
 * that moment. A function with a list is in the chain of the source, and one with a sum by key behind it. With
 * {@code --snapshots} each is restored, by a job with a further function in the chain if {@code --more} is true;
 * {@code OUT/found.json} has for each what the list and the sums were in the end, or why Flink refused it.
 */
public final class Finished {
    private static final int NUMBERS = 40;
    private static final long SLOW_MILLIS = 500;
    private static volatile boolean waits;

    private Finished() {}

    public static void main(String[] arguments) throws Exception {
        Options options = Options.parse(arguments);
        Configuration configuration = options.configuration();
        Files.createDirectories(options.out().resolve("tmp"));
        MiniClusterConfiguration size = new MiniClusterConfiguration.Builder()
                .setConfiguration(configuration)
                .setNumTaskManagers(1)
                .setNumSlotsPerTaskManager(2)
                .build();
        try (MiniCluster cluster = new MiniCluster(size)) {
            cluster.start();
            if (options.named().containsKey("snapshots")) {
                List<Object> found = new ArrayList<>();
                for (String snapshot : options.get("snapshots").split(",")) {
                    found.add(restore(cluster, configuration, snapshot, options.named().containsKey("more")));
                }
                Json.write(options.out().resolve("found.json"), found);
            } else {
                Json.write(options.out().resolve("written.json"), write(cluster, configuration).toString());
            }
        }
        options.deleteTemporary();
        // Some of Flink's threads are no daemons.
        System.exit(0);
    }

    private static Path write(MiniCluster cluster, Configuration configuration) throws Exception {
        waits = true;
        JobGraph job = job(configuration, false);
        cluster.submitJob(job).get();
        // A subtask finishes with the checkpoint after its last record.
        while (finished(cluster, job) != 1) {
            if (cluster.getJobStatus(job.getJobID()).get() == JobStatus.RUNNING
                    && Snapshots.allRunning(cluster, job.getJobID())) {
                try {
                    cluster.triggerCheckpoint(job.getJobID()).get(60, TimeUnit.SECONDS);
                } catch (ExecutionException declined) {
                    // A task is closing.
                }
            }
            Thread.sleep(50);
        }
        Path made = Snapshots.path(cluster.triggerCheckpoint(job.getJobID()).get(60, TimeUnit.SECONDS));
        cluster.cancelJob(job.getJobID()).get();
        cluster.requestJobResult(job.getJobID()).get();
        return made;
    }

    private static long finished(MiniCluster cluster, JobGraph job) throws Exception {
        return StreamSupport.stream(
                        cluster.getExecutionGraph(job.getJobID()).get().getAllExecutionVertices().spliterator(), false)
                .filter(vertex -> vertex.getExecutionState() == ExecutionState.FINISHED)
                .count();
    }

    private static Object restore(MiniCluster cluster, Configuration configuration, String snapshot, boolean more)
            throws Exception {
        waits = false;
        Found.take();
        JobGraph job = job(configuration, more);
        job.setSavepointRestoreSettings(SavepointRestoreSettings.forPath(snapshot, false));
        try {
            cluster.submitJob(job).get();
            cluster.requestJobResult(job.getJobID()).get(90, TimeUnit.SECONDS)
                    .toJobExecutionResult(Finished.class.getClassLoader());
            return Found.take();
        } catch (Exception failed) {
            Throwable cause = failed;
            while (cause.getCause() != null) {
                cause = cause.getCause();
            }
            return String.valueOf(cause.getMessage());
        }
    }

    private static JobGraph job(Configuration configuration, boolean more) {
        StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment(configuration);
        env.setParallelism(2);
        env.setMaxParallelism(128);
        env.enableCheckpointing(waits ? 3_600_000 : 200);
        SingleOutputStreamOperator<Long> kept = env.fromSource(
                        new NumberSequenceSource(0, NUMBERS - 1), WatermarkStrategy.noWatermarks(), "numbers")
                .uid("numbers")
                .map(new Kept("kept"))
                .returns(Types.LONG)
                .uid("kept");
        if (more) {
            kept = kept.map(new Kept("more")).returns(Types.LONG).uid("more");
        }
        kept.keyBy(number -> "k" + number % 4, Types.STRING).process(new Sum()).uid("sums");
        return env.getStreamGraph(false).getJobGraph();
    }

    /** Keeps all numbers; those of the second half come slowly while the checkpoint is taken. */
    private static final class Kept extends RichMapFunction<Long, Long> implements CheckpointedFunction {
        private final String uid;
        private transient ListState<Long> state;
        private transient List<Long> numbers;

        Kept(String uid) {
            this.uid = uid;
        }

        @Override
        public Long map(Long number) throws Exception {
            numbers.add(number);
            if (waits && number >= NUMBERS / 2) {
                Thread.sleep(SLOW_MILLIS);
            }
            return number;
        }

        @Override
        public void initializeState(FunctionInitializationContext context) throws Exception {
            state = context.getOperatorStateStore().getListState(new ListStateDescriptor<>("numbers", Types.LONG));
            numbers = new ArrayList<>();
            for (Long number : state.get()) {
                numbers.add(number);
            }
        }

        @Override
        public void snapshotState(FunctionSnapshotContext context) throws Exception {
            state.update(numbers);
        }

        @Override
        public void close() {
            Found.add(uid, "numbers", new ArrayList<>(numbers));
        }
    }

    private static final class Sum extends KeyedProcessFunction<String, Long, Void> {
        @Override
        public void processElement(Long number, Context context, Collector<Void> out) throws Exception {
            ValueState<Long> sum = getRuntimeContext().getState(new ValueStateDescriptor<>("sum", Types.LONG));
            sum.update(number + (sum.value() == null ? 0 : sum.value()));
            Found.add("sums", context.getCurrentKey(), Collections.singletonList(sum.value()));
        }
    }
}
