package oracle;

import java.nio.file.Files;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.connector.sink2.Committer;
import org.apache.flink.api.connector.source.lib.NumberSequenceSource;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.runtime.jobgraph.JobGraph;
import org.apache.flink.runtime.jobgraph.SavepointRestoreSettings;
import org.apache.flink.runtime.minicluster.MiniCluster;
import org.apache.flink.runtime.minicluster.MiniClusterConfiguration;
import org.apache.flink.streaming.api.datastream.AsyncDataStream;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.async.ResultFuture;
import org.apache.flink.streaming.api.functions.async.RichAsyncFunction;

/**
 * Restores a sink (uid "sink") and an asynchronous function (uid "async") from each of {@code --snapshots}, without
 * input of their own, and prints what each run commits and asks, or fails with.
 */
public final class Uncommitted {
    private static final List<String> DONE = Collections.synchronizedList(new ArrayList<>());

    private Uncommitted() {}

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
                DONE.clear();
                String failure = run(cluster, configuration, parallelism, snapshot);
                List<String> done = new ArrayList<>(DONE);
                Collections.sort(done);
                found.add(failure == null ? done : failure);
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
        DataStream<Long> nothing = env.fromSource(
                        new NumberSequenceSource(0, 0), WatermarkStrategy.noWatermarks(), "zero")
                .uid("zero")
                .filter(number -> number > 0)
                .uid("nothing");
        nothing.map(Long::intValue).returns(Types.INT).uid("ints").sinkTo(Sinks.committing()).uid("sink").name("sink");
        AsyncDataStream.orderedWait(nothing, new Ask(), 1, TimeUnit.DAYS, 100)
                .returns(Types.LONG)
                .uid("async")
                .filter(number -> false)
                .uid("answers");
        JobGraph job = env.getStreamGraph(false).getJobGraph();
        job.setSavepointRestoreSettings(SavepointRestoreSettings.forPath(snapshot, true));
        try {
            cluster.submitJob(job).get();
            cluster.requestJobResult(job.getJobID()).get(90, TimeUnit.SECONDS)
                    .toJobExecutionResult(Uncommitted.class.getClassLoader());
            return null;
        } catch (Exception failed) {
            Throwable cause = failed;
            while (cause.getCause() != null) {
                cause = cause.getCause();
            }
            return String.valueOf(cause.getMessage());
        }
    }

    /** Says what it commits. */
    static final class Commit implements Committer<String> {
        @Override
        public void commit(Collection<CommitRequest<String>> requests) {
            for (CommitRequest<String> request : requests) {
                DONE.add("commit " + request.getCommittable());
            }
        }

        @Override
        public void close() {}
    }

    /** Says what it is asked. */
    private static final class Ask extends RichAsyncFunction<Long, Long> {
        private static final long serialVersionUID = 1;

        @Override
        public void asyncInvoke(Long number, ResultFuture<Long> answer) {
            DONE.add("ask " + number);
            answer.complete(Collections.singleton(number));
        }
    }
}
