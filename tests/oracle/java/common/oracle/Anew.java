package oracle;

import java.nio.file.Path;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.apache.flink.api.common.JobID;
import org.apache.flink.api.common.JobStatus;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.connector.source.lib.NumberSequenceSource;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.runtime.jobgraph.JobGraph;
import org.apache.flink.runtime.minicluster.MiniCluster;
import org.apache.flink.runtime.minicluster.MiniClusterConfiguration;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/**
 * Runs a job with the id {@code --job} from its beginning, without state, and takes checkpoints one after the other until
 * one has at least the id {@code --until}. Checkpoints that fail are tried again, as the next.
 */
public final class Anew {
    private static final int TRIES = 100;

    private Anew() {}

    public static void main(String[] arguments) throws Exception {
        Options options = Options.parse(arguments);
        Configuration configuration = options.configuration();
        MiniClusterConfiguration size = new MiniClusterConfiguration.Builder()
                .setConfiguration(configuration)
                .setNumTaskManagers(1)
                .setNumSlotsPerTaskManager(options.number("parallelism"))
                .build();
        try (MiniCluster cluster = new MiniCluster(size)) {
            cluster.start();
            StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment(configuration);
            env.setParallelism(options.number("parallelism"));
            env.enableCheckpointing(TimeUnit.DAYS.toMillis(1));
            env.fromSource(
                            new NumberSequenceSource(0, Long.MAX_VALUE), WatermarkStrategy.noWatermarks(), "numbers")
                    .uid("numbers")
                    .filter(number -> {
                        Thread.sleep(1);
                        return number % 100 == 0;
                    })
                    .keyBy(number -> number % 1000)
                    .reduce(Long::sum)
                    .uid("sums");
            JobGraph job = env.getStreamGraph(false).getJobGraph();
            JobID id = JobID.fromHexString(options.get("job"));
            job.setJobID(id);
            cluster.submitJob(job).get();
            int until = options.number("until");
            int last = 0;
            for (int tries = 0; last < until; tries++) {
                if (tries == TRIES || cluster.getJobStatus(id).get() == JobStatus.FAILED) {
                    throw new IllegalStateException("no checkpoint has id " + until);
                }
                try {
                    Path taken = Snapshots.path(cluster.triggerCheckpoint(id).get(60, TimeUnit.SECONDS));
                    last = Integer.parseInt(taken.getFileName().toString().substring("chk-".length()));
                } catch (ExecutionException failed) {
                    Thread.sleep(200);
                }
            }
            cluster.cancelJob(id).get();
            cluster.requestJobResult(id).get();
        }
        options.deleteTemporary();
        // Some of Flink's threads are no daemons.
        System.exit(0);
    }
}
