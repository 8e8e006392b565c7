package oracle;

import java.nio.file.Files;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.MapFunction;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.connector.source.lib.NumberSequenceSource;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.runtime.jobgraph.JobGraph;
import org.apache.flink.runtime.jobgraph.SavepointRestoreSettings;
import org.apache.flink.runtime.minicluster.MiniCluster;
import org.apache.flink.runtime.minicluster.MiniClusterConfiguration;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/** Restores a number sequence 0 to 399 from each of {@code --snapshots}, and prints what each run emits, or fails with. */
public final class Numbers {
    private static final List<Long> EMITTED = Collections.synchronizedList(new ArrayList<>());

    private Numbers() {}

    public static void main(String[] arguments) throws Exception {
        Options options = Options.parse(arguments);
        Configuration configuration = options.configuration();
        int parallelism = options.number("parallelism");
        Files.createDirectories(options.out().resolve("tmp"));
        MiniClusterConfiguration size = new MiniClusterConfiguration.Builder()
                .setConfiguration(configuration)
                .setNumTaskManagers(1)
                .setNumSlotsPerTaskManager(parallelism)
                .build();
        List<Object> found = new ArrayList<>();
        try (MiniCluster cluster = new MiniCluster(size)) {
            cluster.start();
            for (String snapshot : options.get("snapshots").split(",")) {
                EMITTED.clear();
                String failure = run(cluster, configuration, parallelism, snapshot);
                List<Long> emitted = new ArrayList<>(EMITTED);
                Collections.sort(emitted);
                found.add(failure == null ? emitted : failure);
            }
        }
        Json.write(options.out().resolve("found.json"), found);
        options.deleteTemporary();
        // Some of Flink's threads are no daemons.
        System.exit(0);
    }

    private static String run(MiniCluster cluster, Configuration configuration, int parallelism, String snapshot)
            throws Exception {
        StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment(configuration);
        env.setParallelism(parallelism);
        env.setMaxParallelism(128);
        env.fromSource(new NumberSequenceSource(0, 399), WatermarkStrategy.noWatermarks(), "seq")
                .uid("source")
                .map((MapFunction<Long, Long>) number -> {
                    EMITTED.add(number);
                    return number;
                })
                .returns(Types.LONG)
                .uid("seen");
        JobGraph job = env.getStreamGraph(false).getJobGraph();
        job.setSavepointRestoreSettings(SavepointRestoreSettings.forPath(snapshot, true));
        try {
            cluster.submitJob(job).get();
            cluster.requestJobResult(job.getJobID()).get(90, TimeUnit.SECONDS)
                    .toJobExecutionResult(Numbers.class.getClassLoader());
            return null;
        } catch (Exception failed) {
            Throwable cause = failed;
            while (cause.getCause() != null) {
                cause = cause.getCause();
            }
            return String.valueOf(cause.getMessage());
        }
    }
}
