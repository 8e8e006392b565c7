package oracle;

import java.io.IOException;
import java.lang.reflect.Method;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.flink.api.common.JobID;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.runtime.jobgraph.JobGraph;
import org.apache.flink.runtime.minicluster.MiniCluster;
import org.apache.flink.runtime.minicluster.MiniClusterConfiguration;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/**
 * Takes snapshots of the jobs of {@link Letters}, on Flink 1.10 and newer: {@code OUT JOB/BACKEND/FORMAT...}, where a backend is
 * filesystem (before 1.13), hashmap, rocksdb, rocksdb_heap_timers or changelog, and a format savepoint, native (1.15 and newer)
 * or checkpoint. A snapshot is taken when all letters are through, so that its content
 * follows from their numbers. It becomes {@code OUT/JOB-BACKEND-FORMAT}.
 */
public final class Migrated {
    private static final int PARALLELISM = 4;
    private static final int TIME_LIMIT_SECONDS = 90;

    private Migrated() {}

    public static void main(String[] arguments) {
        try {
            Path out = Paths.get(arguments[0]).toAbsolutePath();
            for (int i = 1; i < arguments.length; i++) {
                String[] parts = arguments[i].split("/");
                System.out.println(take(out, parts[0], parts[1], parts[2]));
            }
            System.exit(0);
        } catch (Throwable failure) {
            failure.printStackTrace();
            System.exit(1);
        }
    }

    private static Path take(Path out, String name, String backend, String format) throws Exception {
        Path tmp = Files.createTempDirectory("migrated");
        Configuration configuration = configuration(tmp, backend);
        StreamExecutionEnvironment env = StreamExecutionEnvironment.createLocalEnvironment(PARALLELISM, configuration);
        env.setParallelism(name.equals("udf") || name.equals("broadcast") ? PARALLELISM : 1);
        env.setMaxParallelism(128);
        boolean checkpoint = format.equals("checkpoint");
        env.enableCheckpointing(checkpoint ? 300 : 3_600_000);
        retain(env.getCheckpointConfig());
        Letters.build(env, name);
        JobGraph job = env.getStreamGraph().getJobGraph();
        MiniCluster cluster = new MiniCluster(new MiniClusterConfiguration.Builder()
                .setConfiguration(configuration)
                .setNumTaskManagers(1)
                .setNumSlotsPerTaskManager(PARALLELISM)
                .build());
        cluster.start();
        JobID id = job.getJobID();
        cluster.submitJob(job).get(60, TimeUnit.SECONDS);
        until(cluster, id, Letters::allSent);
        Path made;
        if (checkpoint) {
            // One that began before the last letter is followed by one that did not.
            int begun = newest(tmp);
            until(cluster, id, () -> newest(tmp) >= begun + 2);
            cluster.cancelJob(id).get();
            cluster.requestJobResult(id).get();
            made = checkpoints(tmp).get(checkpoints(tmp).size() - 1);
        } else {
            made = savepoint(cluster, id, tmp.resolve("savepoints").toUri().toString(), format, 50);
            cluster.cancelJob(id).get();
            cluster.requestJobResult(id).get();
        }
        cluster.close();
        Path target = out.resolve(name + "-" + backend + "-" + format);
        if (checkpoint) {
            // With the files that checkpoints share, and its folder as it was.
            copy(made.getParent(), target, made);
        } else {
            copy(made, target, made);
        }
        return target;
    }

    private static Configuration configuration(Path tmp, String backend) {
        Configuration configuration = new Configuration();
        Map<String, String> told = new LinkedHashMap<>();
        String kept = backend.equals("changelog") ? "hashmap" : backend.startsWith("rocksdb") ? "rocksdb" : backend;
        told.put("state.backend", kept);
        told.put("state.backend.type", kept);
        if (backend.equals("changelog")) {
            // In memory, and never materialized.
            told.put("state.backend.changelog.enabled", "true");
            told.put("state.changelog.enabled", "true");
        }
        if (backend.equals("rocksdb_heap_timers")) {
            told.put("state.backend.rocksdb.timer-service.factory", "HEAP");
        }
        told.put("state.backend.incremental", "true");
        told.put("execution.checkpointing.incremental", "true");
        told.put("state.checkpoints.dir", tmp.resolve("checkpoints").toUri().toString());
        told.put("execution.checkpointing.dir", tmp.resolve("checkpoints").toUri().toString());
        told.put("execution.checkpointing.externalized-checkpoint-retention", "RETAIN_ON_CANCELLATION");
        told.put("execution.checkpointing.min-pause", "200 ms");
        told.put("state.backend.fs.memory-threshold", "1000");
        told.put("state.storage.fs.memory-threshold", "1000");
        told.put("restart-strategy", "none");
        told.put("restart-strategy.type", "none");
        told.put("taskmanager.memory.managed.size", "64m");
        told.put("taskmanager.memory.network.min", "32m");
        told.put("taskmanager.memory.network.max", "32m");
        told.put("rest.port", "0");
        told.put("rest.bind-port", "0");
        told.put("heartbeat.timeout", "600000");
        told.put("io.tmp.dirs", tmp.resolve("io").toString());
        told.forEach(configuration::setString);
        return configuration;
    }

    /** Before there was an option for it. */
    private static void retain(Object config) throws ReflectiveOperationException {
        for (Method method : config.getClass().getMethods()) {
            if (method.getName().equals("enableExternalizedCheckpoints")) {
                for (Object each : method.getParameterTypes()[0].getEnumConstants()) {
                    if (((Enum<?>) each).name().equals("RETAIN_ON_CANCELLATION")) {
                        method.invoke(config, each);
                    }
                }
            }
        }
    }

    private interface Condition {
        boolean holds() throws Exception;
    }

    private static void until(MiniCluster cluster, JobID id, Condition condition) throws Exception {
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(TIME_LIMIT_SECONDS);
        while (!condition.holds()) {
            if (cluster.getJobStatus(id).get().isGloballyTerminalState()) {
                cluster.requestJobResult(id).get().toJobExecutionResult(Migrated.class.getClassLoader());
                throw new IllegalStateException("the job has ended");
            }
            if (System.nanoTime() > end) {
                throw new IllegalStateException("not ready in " + TIME_LIMIT_SECONDS + " s");
            }
            Thread.sleep(20);
        }
    }

    /** Tries again while not all tasks run. */
    private static Path savepoint(MiniCluster cluster, JobID id, String folder, String format, int tries) throws Exception {
        String made;
        try {
            made = triggered(cluster, id, folder, format).get(60, TimeUnit.SECONDS).toString();
        } catch (ExecutionException e) {
            if (tries == 0) {
                throw e;
            }
            Thread.sleep(200);
            return savepoint(cluster, id, folder, format, tries - 1);
        }
        return made.startsWith("file:") ? Paths.get(URI.create(made.replaceFirst("^file:/*", "file:///"))) : Paths.get(made);
    }

    private static CompletableFuture<?> triggered(MiniCluster cluster, JobID id, String folder, String format) throws Exception {
        for (Method method : MiniCluster.class.getMethods()) {
            if (method.getName().equals("triggerSavepoint") && method.getParameterCount() == 3) {
                return (CompletableFuture<?>) method.invoke(cluster, id, folder, false);
            }
            if (method.getName().equals("triggerSavepoint")) {
                for (Object each : method.getParameterTypes()[3].getEnumConstants()) {
                    if (((Enum<?>) each).name().equals(format.equals("native") ? "NATIVE" : "CANONICAL")) {
                        return (CompletableFuture<?>) method.invoke(cluster, id, folder, false, each);
                    }
                }
            }
        }
        throw new IllegalStateException("MiniCluster.triggerSavepoint");
    }

    private static int newest(Path tmp) throws IOException {
        List<Path> found = checkpoints(tmp);
        return found.isEmpty() ? 0 : number(found.get(found.size() - 1));
    }

    private static List<Path> checkpoints(Path tmp) throws IOException {
        if (!Files.exists(tmp.resolve("checkpoints"))) {
            return List.of();
        }
        try (Stream<Path> found = Files.walk(tmp.resolve("checkpoints"), 3)) {
            return found.filter(path -> path.getFileName().toString().equals("_metadata"))
                    .map(Path::getParent)
                    .sorted(Comparator.comparing(Migrated::number))
                    .collect(Collectors.toList());
        } catch (java.io.UncheckedIOException e) {
            return List.of(); // one was removed meanwhile
        }
    }

    private static int number(Path checkpoint) {
        return Integer.parseInt(checkpoint.getFileName().toString().replace("chk-", ""));
    }

    /** All files but those of other checkpoints. */
    private static void copy(Path from, Path to, Path made) throws IOException {
        try (Stream<Path> all = Files.walk(from)) {
            for (Path path : all.collect(Collectors.toList())) {
                String below = from.relativize(path).toString();
                if (Files.isDirectory(path) || below.startsWith("chk-") && !path.startsWith(made)) {
                    continue;
                }
                Path target = to.resolve(below);
                Files.createDirectories(target.getParent());
                Files.copy(path, target);
            }
        }
    }
}
