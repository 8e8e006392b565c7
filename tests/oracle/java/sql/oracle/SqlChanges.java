package oracle;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.DeploymentOptions;
import org.apache.flink.core.execution.JobClient;
import org.apache.flink.core.execution.PipelineExecutor;
import org.apache.flink.core.execution.PipelineExecutorFactory;
import org.apache.flink.core.execution.SavepointFormatType;
import org.apache.flink.runtime.minicluster.MiniCluster;
import org.apache.flink.runtime.minicluster.MiniClusterConfiguration;
import org.apache.flink.runtime.minicluster.MiniClusterJobClient;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.graph.StreamGraph;
import org.apache.flink.table.api.CompiledPlan;
import org.apache.flink.table.api.EnvironmentSettings;
import org.apache.flink.table.api.PlanReference;
import org.apache.flink.table.api.StatementSet;
import org.apache.flink.table.api.TableEnvironment;

/**
 * Runs compiled plans of SQL jobs over a script of changes ({@link Replay}), one job per line, all in one cluster.
 *
 * <p>A line has {@code tables} and {@code inserts} (SQL), {@code plan} (a file: the plan to run, or where the plan of the
 * statements is written), {@code script}, and unless only the plan is wanted {@code until}: the number of changes to
 * play, then the savepoint {@code savepoint} if it is named, and from there {@code end}. A restored job has {@code
 * restore} and {@code from}, {@code quiet} how long it waits for rows. {@code conf} are settings of Flink. The answer has the rows that arrived ({@code [sink,
 * row]}) {@code before} the savepoint and {@code after} it, or the {@code error}.
 */
public final class SqlChanges {
    private static final long TIME_LIMIT_SECONDS = 90;
    private static final String TARGET = "one-cluster";
    private static MiniCluster cluster;

    private SqlChanges() {}

    public static void main(String[] arguments) throws Exception {
        Options options = Options.parse(arguments);
        Files.createDirectories(options.out().resolve("tmp"));
        Context.use();
        Configuration configuration = options.configuration();
        PrintStream answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        cluster = new MiniCluster(new MiniClusterConfiguration.Builder()
                .setConfiguration(configuration)
                .setNumTaskManagers(1)
                .setNumSlotsPerTaskManager(options.number("parallelism"))
                .build());
        cluster.start();
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            Map<String, Object> answer = new HashMap<>();
            try {
                run(configuration, Json.MAPPER.readTree(line), options.out().resolve("tmp"), answer);
            } catch (Exception | Error failed) {
                // The planner asserts. Without an answer, nobody would know that this thread has ended.
                answer.put("error", causes(failed));
            }
            answers.println(Json.MAPPER.writeValueAsString(answer));
        }
        cluster.close();
        options.deleteTemporary();
        // Some of Flink's threads are no daemons.
        System.exit(0);
    }

    private static void run(Configuration common, JsonNode job, Path tmp, Map<String, Object> answer)
            throws Exception {
        TableEnvironment env = TableEnvironment.create(EnvironmentSettings.newInstance()
                .inStreamingMode()
                .withConfiguration(configuration(common, job))
                .build());
        Path file = Path.of(job.get("plan").asText());
        if (!Files.exists(file)) {
            Files.writeString(file, renumbered(compiled(env, job).asJsonString()));
        }
        if (!job.hasNonNull("until")) {
            return;
        }
        Replay.begin(job.get("script"), job.path("from").asInt(0));
        CompiledPlan plan = env.loadPlan(PlanReference.fromFile(file));
        JobClient client = plan.execute().getJobClient().orElseThrow();
        try {
            play(client, job.get("until").asInt(), quiet(job));
            answer.put("before", Replay.arrived());
            if (job.hasNonNull("savepoint")) {
                savepoint(client, Path.of(job.get("savepoint").asText()), format(job), tmp);
            }
            if (job.hasNonNull("end")) {
                int before = Replay.arrived().size();
                play(client, job.get("end").asInt(), quiet(job));
                List<List<String>> all = Replay.arrived();
                answer.put("after", all.subList(before, all.size()));
            }
        } finally {
            stop(client);
        }
    }

    private static Configuration configuration(Configuration common, JsonNode job) {
        Configuration own = new Configuration(common);
        own.setString("execution.target", TARGET);
        own.setString("parallelism.default", "1");
        own.setString("pipeline.max-parallelism", "128");
        // A watermark after each row.
        own.setString("pipeline.auto-watermark-interval", "0 ms");
        own.setString("table.local-time-zone", "UTC");
        if (job.hasNonNull("restore")) {
            // Before and after 1.20.
            own.setString("execution.savepoint.path", job.get("restore").asText());
            own.setString("execution.state-recovery.path", job.get("restore").asText());
        }
        job.path("conf").fields().forEachRemaining(entry -> own.setString(entry.getKey(), entry.getValue().asText()));
        return own;
    }

    private static CompiledPlan compiled(TableEnvironment env, JsonNode job) {
        job.path("tables").forEach(table -> env.executeSql(table.asText()));
        StatementSet all = env.createStatementSet();
        job.path("inserts").forEach(insert -> all.addInsertSql(insert.asText()));
        return all.compilePlan();
    }

    /** A JVM numbers the nodes of all plans that it compiles; these are the numbers of the first one. */
    private static String renumbered(String plan) throws Exception {
        JsonNode root = Json.MAPPER.readTree(plan);
        int least = Integer.MAX_VALUE;
        for (JsonNode node : root.get("nodes")) {
            least = Math.min(least, node.get("id").asInt());
        }
        for (JsonNode node : root.get("nodes")) {
            lower((ObjectNode) node, "id", least - 1);
        }
        for (JsonNode edge : root.get("edges")) {
            lower((ObjectNode) edge, "source", least - 1);
            lower((ObjectNode) edge, "target", least - 1);
        }
        return Json.MAPPER.writeValueAsString(root);
    }

    private static void lower(ObjectNode object, String name, int by) {
        object.put(name, object.get(name).asInt() - by);
    }

    /** For how many times 20 ms nothing must arrive until all is taken to be there: a busy machine needs more. */
    private static int quiet(JsonNode job) {
        return job.path("quiet").asInt(10);
    }

    /** Releases one change after the other, and waits until nothing more arrives. */
    private static void play(JobClient client, int number, int quiet) throws Exception {
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(TIME_LIMIT_SECONDS);
        while (!Snapshots.allRunning(cluster, client.getJobID()) || !Replay.hasReaders()) {
            expectRunning(client, deadline);
            Thread.sleep(5);
        }
        for (int next = 1; next <= number; next++) {
            Replay.release(next);
            while (!Replay.isPlayed(next)) {
                expectRunning(client, deadline);
                Thread.sleep(1);
            }
        }
        int still = 0;
        for (int arrived = -1; still < quiet; arrived = Replay.arrived().size()) {
            expectRunning(client, deadline);
            Thread.sleep(20);
            still = Replay.arrived().size() == arrived ? still + 1 : 0;
        }
    }

    private static void expectRunning(JobClient client, long deadline) throws Exception {
        if (client.getJobStatus().get().isGloballyTerminalState() || client.getJobExecutionResult().isDone()) {
            client.getJobExecutionResult().get(TIME_LIMIT_SECONDS, TimeUnit.SECONDS);
            throw new IllegalStateException("the job has ended");
        }
        if (System.nanoTime() > deadline) {
            throw new IllegalStateException("the job does not go on: " + client.getJobStatus().get());
        }
    }

    /** The canonical format, unless the job asks for another: state that is read without waiting has no canonical one. */
    private static SavepointFormatType format(JsonNode job) {
        return SavepointFormatType.valueOf(job.path("format").asText("CANONICAL"));
    }

    private static void savepoint(JobClient client, Path to, SavepointFormatType format, Path tmp) throws Exception {
        for (int attempt = 0; ; attempt++) {
            try {
                String made = client.triggerSavepoint(tmp.toUri().toString(), format)
                        .get(TIME_LIMIT_SECONDS, TimeUnit.SECONDS);
                Files.move(Snapshots.path(made), to);
                return;
            } catch (ExecutionException notYet) {
                // A checkpoint fails while tasks start.
                if (attempt == 20) {
                    throw notYet;
                }
                Thread.sleep(100);
            }
        }
    }

    private static void stop(JobClient client) throws Exception {
        try {
            client.cancel().get();
            client.getJobExecutionResult().get(TIME_LIMIT_SECONDS, TimeUnit.SECONDS);
        } catch (ExecutionException ended) {
            // Cancelled, or failed before: the error of the job is known.
        }
    }

    private static List<String> causes(Throwable thrown) {
        List<String> causes = new ArrayList<>();
        for (Throwable cause = thrown; cause != null; cause = cause.getCause()) {
            causes.add(String.valueOf(cause));
        }
        return causes;
    }

    /** Before 1.18 an environment without a context runs jobs in a cluster of its own, whatever its target. */
    private static final class Context extends StreamExecutionEnvironment {
        static void use() {
            initializeContextEnvironment(StreamExecutionEnvironment::new);
        }
    }

    /** Executes all jobs in the cluster of this JVM. */
    public static final class OneCluster implements PipelineExecutorFactory {
        @Override
        public String getName() {
            return TARGET;
        }

        @Override
        public boolean isCompatibleWith(Configuration configuration) {
            return TARGET.equals(configuration.get(DeploymentOptions.TARGET));
        }

        @Override
        public PipelineExecutor getExecutor(Configuration configuration) {
            return (pipeline, own, loader) -> cluster.submitJob(((StreamGraph) pipeline).getJobGraph())
                    .thenApply(made -> new MiniClusterJobClient(
                            made.getJobID(),
                            cluster,
                            loader,
                            MiniClusterJobClient.JobFinalizationBehavior.NOTHING));
        }
    }
}
