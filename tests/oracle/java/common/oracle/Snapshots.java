package oracle;

import java.io.IOException;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.Callable;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import java.util.stream.StreamSupport;
import org.apache.flink.api.common.JobID;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.core.execution.SavepointFormatType;
import org.apache.flink.runtime.execution.ExecutionState;
import org.apache.flink.runtime.jobgraph.JobGraph;
import org.apache.flink.runtime.minicluster.MiniCluster;
import org.apache.flink.runtime.minicluster.MiniClusterConfiguration;

/** Runs a job on a cluster inside this JVM until its sources are used up, and may take a snapshot of it. */
final class Snapshots {
    private static final long TIME_LIMIT_SECONDS = Long.getLong("oracle.seconds", 90);

    private Snapshots() {}

    /** What is done with a job once it runs and its input is used up. */
    interface Action<T> {
        T apply(MiniCluster cluster, JobID id) throws Exception;
    }

    /** The path of the snapshot: {@code OUT/savepoint}, or {@code OUT/checkpoints/JOB/chk-N}. */
    static Path take(JobGraph job, Configuration configuration, Options options) throws Exception {
        return take(job, configuration, options, () -> true);
    }

    static Path take(JobGraph job, Configuration configuration, Options options, Callable<Boolean> written)
            throws Exception {
        Callable<Boolean> ready = () -> CountingSource.allDone() && written.call();
        return whileRunning(job, configuration, options, ready, (cluster, id) -> trigger(cluster, id, options));
    }

    static <T> T whileRunning(JobGraph job, Configuration configuration, Options options, Action<T> action)
            throws Exception {
        return whileRunning(job, configuration, options, CountingSource::allDone, action);
    }

    static <T> T whileRunning(
            JobGraph job, Configuration configuration, Options options, Callable<Boolean> ready, Action<T> action)
            throws Exception {
        Files.createDirectories(options.out().resolve("tmp"));
        MiniClusterConfiguration size = new MiniClusterConfiguration.Builder()
                .setConfiguration(configuration)
                .setNumTaskManagers(1)
                .setNumSlotsPerTaskManager(options.number("parallelism"))
                .build();
        try (MiniCluster cluster = new MiniCluster(size)) {
            cluster.start();
            JobID id = cluster.submitJob(job).get().getJobID();
            await(ready, cluster, id);
            T result = action.apply(cluster, id);
            cluster.cancelJob(id).get();
            cluster.requestJobResult(id).get();
            return result;
        }
    }

    private static Path trigger(MiniCluster cluster, JobID id, Options options) throws Exception {
        if (options.isCheckpoint()) {
            return path(cluster.triggerCheckpoint(id).get(TIME_LIMIT_SECONDS, TimeUnit.SECONDS));
        }
        SavepointFormatType format = SavepointFormatType.valueOf(options.get("format").toUpperCase());
        Path parent = Path.of(options.get("staging"));
        String made = cluster.triggerSavepoint(id, parent.toUri().toString(), false, format)
                .get(TIME_LIMIT_SECONDS, TimeUnit.SECONDS);
        return move(path(made), options.out().resolve("savepoint"));
    }

    /** File by file, because the two folders may be on different disks. A savepoint has no folders inside. */
    private static Path move(Path from, Path to) throws IOException {
        Files.createDirectory(to);
        try (Stream<Path> files = Files.list(from)) {
            for (Path file : files.toList()) {
                Files.move(file, to.resolve(file.getFileName()));
            }
        }
        Files.delete(from);
        return to;
    }

    static Path path(String location) {
        return location.startsWith("file:") ? Path.of(URI.create(location)) : Path.of(location);
    }

    /** Barriers follow the records that sources have emitted, so that nothing has to be waited for behind them. */
    private static void await(Callable<Boolean> ready, MiniCluster cluster, JobID id) throws Exception {
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(TIME_LIMIT_SECONDS);
        while (!allRunning(cluster, id) || !ready.call()) {
            if (cluster.getJobStatus(id).get().isTerminalState()) {
                cluster.requestJobResult(id).get().toJobExecutionResult(Snapshots.class.getClassLoader());
                throw new IllegalStateException("the job ended before a snapshot could be taken");
            }
            if (System.nanoTime() > deadline) {
                throw new IllegalStateException("the job was not ready in " + TIME_LIMIT_SECONDS + " s");
            }
            Thread.sleep(20);
        }
    }

    static boolean allRunning(MiniCluster cluster, JobID id) throws Exception {
        return StreamSupport.stream(
                        cluster.getExecutionGraph(id).get().getAllExecutionVertices().spliterator(), false)
                .allMatch(vertex -> vertex.getExecutionState() == ExecutionState.RUNNING);
    }
}
