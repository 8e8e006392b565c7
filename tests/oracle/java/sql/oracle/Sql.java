package oracle;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import org.apache.flink.api.common.JobID;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.MapFunction;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.cep.CEP;
import org.apache.flink.cep.pattern.Pattern;
import org.apache.flink.cep.pattern.conditions.SimpleCondition;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.core.execution.SavepointFormatType;
import org.apache.flink.runtime.jobgraph.JobGraph;
import org.apache.flink.runtime.jobgraph.SavepointRestoreSettings;
import org.apache.flink.runtime.minicluster.MiniCluster;
import org.apache.flink.runtime.minicluster.MiniClusterConfiguration;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.table.api.DataTypes;
import org.apache.flink.table.api.Schema;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;
import org.apache.flink.types.Row;

/**
 * Runs the job of each line in one cluster: the {@code query} over the table {@code t}, or the pattern of
 * {@link #pattern}, over the first {@code count} numbers, from the snapshot {@code restore} where there is one. All
 * numbers are through when it takes the savepoint {@code savepoint}. An answer has what the job {@code emitted}, in
 * order, or the {@code error} of the restore.
 */
public final class Sql {
    private static final long TIME_LIMIT_SECONDS = 120;
    /** The local cluster runs in the same JVM. */
    private static final Map<String, List<String>> EMITTED = new ConcurrentHashMap<>();

    private Sql() {}

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
            for (String line = in.readLine(); line != null; line = in.readLine()) {
                JsonNode job = Json.MAPPER.readTree(line);
                String name = job.get("name").asText();
                EMITTED.put(name, Collections.synchronizedList(new ArrayList<>()));
                String error = run(cluster, configuration, job, options.out().resolve("tmp"));
                Object answer = error == null ? Json.object("emitted", EMITTED.get(name)) : Json.object("error", error);
                answers.println(Json.MAPPER.writeValueAsString(answer));
            }
        }
        options.deleteTemporary();
        // Some of Flink's threads are no daemons.
        System.exit(0);
    }

    private static String run(MiniCluster cluster, Configuration configuration, JsonNode job, Path tmp)
            throws Exception {
        String name = job.get("name").asText();
        JobID id = cluster.submitJob(graph(configuration, job)).get().getJobID();
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(TIME_LIMIT_SECONDS);
        while (!CountingSource.isDone(name) || !Snapshots.allRunning(cluster, id)) {
            if (cluster.getJobStatus(id).get().isTerminalState()) {
                return causes(cluster.requestJobResult(id).get().getSerializedThrowable().orElseThrow());
            }
            if (System.nanoTime() > deadline) {
                throw new IllegalStateException(name + " did not emit all in " + TIME_LIMIT_SECONDS + " s");
            }
            Thread.sleep(5);
        }
        // A savepoint follows every record that the source has emitted.
        String made = cluster.triggerSavepoint(id, tmp.toUri().toString(), false, SavepointFormatType.CANONICAL).get();
        if (job.hasNonNull("savepoint")) {
            Files.move(Snapshots.path(made), Path.of(job.get("savepoint").asText()));
        }
        cluster.cancelJob(id).get();
        cluster.requestJobResult(id).get();
        return null;
    }

    private static JobGraph graph(Configuration configuration, JsonNode job) {
        String name = job.get("name").asText();
        Configuration own = new Configuration(configuration);
        job.path("conf").fields().forEachRemaining(entry -> own.setString(entry.getKey(), entry.getValue().asText()));
        StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment(own);
        env.setParallelism(job.path("parallelism").asInt(1));
        env.setMaxParallelism(128);
        DataStream<Integer> numbers = env.fromSource(
                        new CountingSource(name, job.get("count").asInt()),
                        WatermarkStrategy.noWatermarks(), "numbers", Types.INT)
                .uid("numbers")
                .setParallelism(1);
        DataStream<String> texts = job.hasNonNull("query")
                ? query(env, numbers, job.get("query").asText())
                : pattern(numbers);
        texts.map(new Emitted(name)).returns(Types.STRING).name("emitted").setParallelism(1);
        JobGraph graph = env.getStreamGraph(false).getJobGraph();
        if (job.hasNonNull("restore")) {
            graph.setSavepointRestoreSettings(SavepointRestoreSettings.forPath(job.get("restore").asText(), false));
        }
        return graph;
    }

    /** The changelog of a query over {@code t(id, k, v, s)}; {@code pt} is the processing time. */
    private static DataStream<String> query(StreamExecutionEnvironment env, DataStream<Integer> numbers, String query) {
        DataStream<Row> rows = numbers
                .map((MapFunction<Integer, Row>) n -> Row.of((long) n, "k" + n % 3, n % 7, "s" + n % 5))
                .returns(Types.ROW_NAMED(
                        new String[] {"id", "k", "v", "s"}, Types.LONG, Types.STRING, Types.INT, Types.STRING))
                .uid("rows")
                .setParallelism(1);
        StreamTableEnvironment table = StreamTableEnvironment.create(env);
        table.createTemporaryView("t", rows, Schema.newBuilder()
                .column("id", DataTypes.BIGINT())
                .column("k", DataTypes.STRING())
                .column("v", DataTypes.INT())
                .column("s", DataTypes.STRING())
                .columnByExpression("pt", "PROCTIME()")
                .build());
        return table.toChangelogStream(table.sqlQuery(query)).map(Row::toString).returns(Types.STRING).uid("texts");
    }

    /** Of every key, each number below 12 with the first of 60 and more that follows: {@code first, last}. */
    private static DataStream<String> pattern(DataStream<Integer> numbers) {
        Pattern<Tuple2<String, Long>, ?> pattern = Pattern.<Tuple2<String, Long>>begin("first")
                .where(SimpleCondition.of(event -> event.f1 < 12))
                .followedBy("last")
                .where(SimpleCondition.of(event -> event.f1 >= 60));
        return CEP.pattern(
                        numbers.map((MapFunction<Integer, Tuple2<String, Long>>) n -> Tuple2.of("k" + n % 3, (long) n))
                                .returns(Types.TUPLE(Types.STRING, Types.LONG))
                                .uid("events")
                                .keyBy(event -> event.f0, Types.STRING),
                        pattern)
                .inProcessingTime()
                .select(match -> match.get("first").get(0) + ", " + match.get("last").get(0), Types.STRING)
                .uid("pattern");
    }

    private record Emitted(String name) implements MapFunction<String, String> {
        @Override
        public String map(String text) {
            EMITTED.get(name).add(text);
            return text;
        }
    }

    private static String causes(Throwable thrown) {
        StringBuilder text = new StringBuilder();
        for (Throwable cause = thrown; cause != null; cause = cause.getCause()) {
            text.append(text.length() == 0 ? "" : "\n").append(cause);
        }
        return text.toString();
    }
}
