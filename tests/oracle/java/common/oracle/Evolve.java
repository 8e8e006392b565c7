package oracle;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.flink.api.common.JobID;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.core.execution.SavepointFormatType;
import org.apache.flink.runtime.execution.ExecutionState;
import org.apache.flink.runtime.jobgraph.JobGraph;
import org.apache.flink.runtime.jobgraph.SavepointRestoreSettings;
import org.apache.flink.runtime.minicluster.MiniCluster;
import org.apache.flink.runtime.minicluster.MiniClusterConfiguration;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/**
 * Starts the job of each line (see {@link EvolvedJob}) in one cluster, from the snapshot {@code restore} where there is
 * one, and takes the savepoint {@code savepoint} where that is asked for. An answer is {@code {"ok": true}}, or has the
 * {@code error} of the restore. The answer for a job that only reads ({@code "held": "read"}) has what it {@code found}, and
 * that for one which takes a checkpoint its {@code path}.
 */
public final class Evolve {
    private static final long TIME_LIMIT_SECONDS = 300;

    private final MiniCluster cluster;
    private final Configuration configuration;
    private final Path out;

    private Evolve(MiniCluster cluster, Configuration configuration, Path out) {
        this.cluster = cluster;
        this.configuration = configuration;
        this.out = out;
    }

    public static void main(String[] arguments) throws Exception {
        Options options = Options.parse(arguments);
        Configuration configuration = options.configuration();
        Files.createDirectories(options.out().resolve("tmp"));
        PrintStream answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        MiniClusterConfiguration size = new MiniClusterConfiguration.Builder()
                .setConfiguration(configuration)
                .setNumTaskManagers(1)
                .setNumSlotsPerTaskManager(options.number("parallelism"))
                .build();
        try (MiniCluster cluster = new MiniCluster(size)) {
            cluster.start();
            Evolve evolve = new Evolve(cluster, configuration, options.out());
            for (String line = in.readLine(); line != null; line = in.readLine()) {
                answers.println(Json.MAPPER.writeValueAsString(evolve.answer(Json.MAPPER.readTree(line))));
            }
        }
        options.deleteTemporary();
        System.exit(0);
    }

    private Map<String, Object> answer(JsonNode job) {
        ClassLoader before = Thread.currentThread().getContextClassLoader();
        Path classes = out.resolve("classes-" + Integer.toHexString(job.path("sources").hashCode()));
        try {
            EvolvedJob.compile(job.path("sources"), classes);
            URL url = classes.toUri().toURL();
            try (URLClassLoader loader = new URLClassLoader(new URL[] {url}, before)) {
                Thread.currentThread().setContextClassLoader(loader);
                return start(job, graph(job, loader, url));
            }
        } catch (Exception | LinkageError e) {
            return Json.object("error", causes(e));
        } finally {
            Thread.currentThread().setContextClassLoader(before);
        }
    }

    private JobGraph graph(JsonNode job, ClassLoader loader, URL url) throws ClassNotFoundException {
        Configuration own = new Configuration(configuration);
        String backend = job.path("stateBackend").asText("hashmap");
        own.setString("state.backend.type", backend);
        own.setString("state.backend", backend);
        job.path("conf").fields().forEachRemaining(entry -> own.setString(entry.getKey(), entry.getValue().asText()));
        StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment(own);
        if (isCheckpoint(job)) {
            env.enableCheckpointing(3_600_000);
        }
        new EvolvedJob(env, job, loader).build();
        JobGraph graph = env.getStreamGraph(false).getJobGraph();
        graph.setClasspaths(List.of(url));
        if (job.hasNonNull("restore")) {
            boolean allow = job.path("allowNonRestoredState").asBoolean(false);
            graph.setSavepointRestoreSettings(SavepointRestoreSettings.forPath(job.get("restore").asText(), allow));
        }
        return graph;
    }

    private Map<String, Object> start(JsonNode job, JobGraph graph) throws Exception {
        Found.take();
        JobID id = cluster.submitJob(graph).get().getJobID();
        boolean usesUp = job.hasNonNull("savepoint") || isCheckpoint(job);
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(TIME_LIMIT_SECONDS);
        while (!isRunning(id) || (usesUp && !CountingSource.isDone(job.get("name").asText()))) {
            if (cluster.getJobStatus(id).get().isTerminalState()) {
                Throwable why = cluster.requestJobResult(id).get().getSerializedThrowable().orElseThrow();
                return Json.object("error", causes(why));
            }
            if (System.nanoTime() > deadline) {
                throw new IllegalStateException("the job did not start in " + TIME_LIMIT_SECONDS + " s");
            }
            Thread.sleep(5);
        }
        Map<String, Object> answer = Json.object("ok", true);
        if (job.path("held").asText().equals("read")) {
            answer.put("found", Found.take());
        }
        if (isCheckpoint(job)) {
            answer.put("path", Snapshots.path(cluster.triggerCheckpoint(id).get()).toString());
        } else if (usesUp) {
            SavepointFormatType format = SavepointFormatType.valueOf(job.path("format").asText("CANONICAL"));
            String made = cluster.triggerSavepoint(id, out.resolve("tmp").toUri().toString(), false, format).get();
            Files.move(Snapshots.path(made), Path.of(job.get("savepoint").asText()));
        }
        cluster.cancelJob(id).get();
        cluster.requestJobResult(id).get();
        return answer;
    }

    private static boolean isCheckpoint(JsonNode job) {
        return job.path("format").asText().equals("CHECKPOINT");
    }

    /** While a job is being set up its graph has no vertices. */
    private boolean isRunning(JobID id) throws Exception {
        List<ExecutionState> states = new ArrayList<>();
        cluster.getExecutionGraph(id).get().getAllExecutionVertices()
                .forEach(vertex -> states.add(vertex.getExecutionState()));
        return !states.isEmpty() && states.stream().allMatch(state -> state == ExecutionState.RUNNING);
    }

    private static String causes(Throwable thrown) {
        StringBuilder text = new StringBuilder();
        for (Throwable cause = thrown; cause != null; cause = cause.getCause()) {
            text.append(text.length() == 0 ? "" : "\n").append(cause);
        }
        return text.toString();
    }
}
