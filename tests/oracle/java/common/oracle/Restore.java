package oracle;

import java.util.concurrent.Callable;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.runtime.jobgraph.JobGraph;
import org.apache.flink.runtime.jobgraph.SavepointRestoreSettings;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/** Starts a job of tables from a snapshot, and writes what its operators find as {@code OUT/found.json}. */
public final class Restore {
    private Restore() {}

    public static void main(String[] arguments) throws Exception {
        Options options = Options.parse(arguments);
        Configuration configuration = options.configuration();
        StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment(configuration);
        env.setParallelism(options.number("parallelism"));
        TableJob tables = TableJob.named(options.get("job"));
        tables.buildReaders(env);
        JobGraph job = env.getStreamGraph(false).getJobGraph();
        job.setSavepointRestoreSettings(SavepointRestoreSettings.forPath(options.get("snapshot"), false));
        Callable<Boolean> ready = () -> CountingSource.allDone() && tables.hasRead();
        Snapshots.whileRunning(job, configuration, options, ready, (cluster, id) -> {
            Json.write(options.out().resolve("found.json"), Found.all());
            return null;
        });
        options.deleteTemporary();
        // Some of Flink's threads are no daemons.
        System.exit(0);
    }
}
