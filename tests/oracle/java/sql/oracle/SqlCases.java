package oracle;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Instant;
import java.time.LocalDateTime;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.flink.api.common.JobID;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.MapFunction;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.core.execution.SavepointFormatType;
import org.apache.flink.runtime.jobgraph.JobGraph;
import org.apache.flink.runtime.minicluster.MiniCluster;
import org.apache.flink.runtime.minicluster.MiniClusterConfiguration;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.table.api.DataTypes;
import org.apache.flink.table.api.Expressions;
import org.apache.flink.table.api.Schema;
import org.apache.flink.table.api.bridge.java.StreamStatementSet;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;
import org.apache.flink.table.catalog.Column;
import org.apache.flink.table.functions.UserDefinedFunction;
import org.apache.flink.types.Row;

/**
 * Runs the queries of each line in one cluster, and takes a savepoint of each job when all rows are through: {@code name},
 * {@code tables} (orders, rates, or both), {@code conf}, {@code setup} (statements), and {@code inserts} or a {@code query}, whose
 * rows are kept. An answer is the path of the {@code savepoint}, or an {@code error}.
 */
public final class SqlCases {
    private static final long TIME_LIMIT_SECONDS = 30;
    private static final Map<String, Class<? extends UserDefinedFunction>> FUNCTIONS = Map.of(
            "doubled", Functions.Doubled.class, "joined", Functions.Joined.class, "asked", Functions.Asked.class,
            "parts", Functions.Parts.class, "average", Functions.Average.class, "texts", Functions.Texts.class);

    private SqlCases() {}

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
                Object answer;
                try {
                    answer = Json.object("savepoint", run(cluster, configuration, job, options.out()).toString());
                } catch (Exception e) {
                    answer = Json.object("error", causes(e));
                }
                answers.println(Json.MAPPER.writeValueAsString(answer));
            }
        }
        options.deleteTemporary();
        // Some of Flink's threads are no daemons.
        System.exit(0);
    }

    private static Path run(MiniCluster cluster, Configuration configuration, JsonNode job, Path out) throws Exception {
        String name = job.get("name").asText();
        JobID id = cluster.submitJob(graph(configuration, job)).get().getJobID();
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(TIME_LIMIT_SECONDS);
        while (!isDone(job) || !Snapshots.allRunning(cluster, id)) {
            if (cluster.getJobStatus(id).get().isTerminalState()) {
                throw new IllegalStateException(cluster.requestJobResult(id).get().getSerializedThrowable().orElseThrow());
            }
            if (System.nanoTime() > deadline) {
                cluster.cancelJob(id).get();
                throw new IllegalStateException(name + " did not emit all in " + TIME_LIMIT_SECONDS + " s");
            }
            Thread.sleep(5);
        }
        // Files, and what waits for a moment.
        Thread.sleep(job.path("pause").asLong(0));
        String made = cluster.triggerSavepoint(id, out.resolve("tmp").toUri().toString(), false, SavepointFormatType.CANONICAL)
                .get(TIME_LIMIT_SECONDS, TimeUnit.SECONDS);
        Path savepoint = out.resolve(name);
        Files.move(Snapshots.path(made), savepoint);
        cluster.cancelJob(id).get();
        cluster.requestJobResult(id).get();
        return savepoint;
    }

    private static boolean isDone(JsonNode job) {
        for (JsonNode each : job.path("tables")) {
            if (!CountingSource.isDone(job.get("name").asText() + "-" + each.asText())) {
                return false;
            }
        }
        return true;
    }

    private static JobGraph graph(Configuration configuration, JsonNode job) {
        Configuration own = new Configuration(configuration);
        // Each row brings its watermark.
        own.setString("pipeline.auto-watermark-interval", "0 ms");
        own.setString("table.local-time-zone", "UTC");
        // What is never answered does not keep others from being asked.
        own.setString("table.exec.async-scalar.buffer-capacity", "100");
        job.path("conf").fields().forEachRemaining(entry -> own.setString(entry.getKey(), entry.getValue().asText()));
        StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment(own);
        env.setParallelism(job.path("parallelism").asInt(1));
        env.setMaxParallelism(128);
        StreamTableEnvironment table = StreamTableEnvironment.create(env);
        table.registerCatalog("kept", new Kept.Catalog());
        FUNCTIONS.forEach(table::createTemporarySystemFunction);
        String name = job.get("name").asText();
        for (JsonNode each : job.path("tables")) {
            if (each.asText().equals("orders")) {
                orders(env, table, name);
            } else {
                rates(env, table, name);
            }
        }
        for (JsonNode statement : job.path("setup")) {
            table.executeSql(statement.asText());
        }
        StreamStatementSet all = table.createStatementSet();
        job.path("inserts").forEach(insert -> all.addInsertSql(insert.asText()));
        if (job.hasNonNull("query")) {
            all.addInsertSql(into(table, job.get("query").asText(), job.path("changes").asText("all")));
        }
        all.attachAsDataStream();
        return env.getStreamGraph(false).getJobGraph();
    }

    /** Makes a sink of the columns of a query. */
    private static String into(StreamTableEnvironment table, String query, String changes) {
        StringBuilder columns = new StringBuilder();
        for (Column column : table.sqlQuery(query).getResolvedSchema().getColumns()) {
            columns.append(columns.length() == 0 ? "" : ", ").append('`').append(column.getName()).append("` ");
            columns.append(column.getDataType().getLogicalType().copy(true).asSerializableString());
        }
        table.executeSql("CREATE TABLE kept.shop.`all` (" + columns + ") WITH ('connector' = 'kept', 'changes' = '" + changes + "')");
        return "INSERT INTO kept.shop.`all` " + query;
    }

    private static LocalDateTime time(long seconds) {
        return LocalDateTime.ofInstant(Instant.ofEpochSecond(1_732_000_000L + seconds), ZoneOffset.UTC);
    }

    /** Sixty orders, ten seconds apart; every fifth comes late, every eleventh has no item. */
    private static Row order(int n) {
        String item = n % 11 == 10 ? null : new String[] {"apple", "pear", "plum tart"}[n % 3];
        return Row.of((long) n, "k" + n % 4, n % 7 == 6 ? null : n * n % 13, BigDecimal.valueOf(n * 125L, 2), item,
                Map.of("shop", "s" + n % 2), Row.of((long) n % 5, "nested" + n % 2), time(10L * n - (n % 5 == 4 ? 15 : 0)));
    }

    private static void orders(StreamExecutionEnvironment env, StreamTableEnvironment table, String name) {
        TypeInformation<Row> nested = Types.ROW_NAMED(new String[] {"n", "t"}, Types.LONG, Types.STRING);
        DataStream<Row> rows = numbers(env, name + "-orders", 60)
                .map((MapFunction<Integer, Row>) SqlCases::order)
                .returns(Types.ROW_NAMED(new String[] {"id", "k", "v", "price", "item", "tags", "deep", "ts"}, Types.LONG,
                        Types.STRING, Types.INT, Types.BIG_DEC, Types.STRING, Types.MAP(Types.STRING, Types.STRING), nested,
                        Types.LOCAL_DATE_TIME))
                .uid("orders-rows")
                .setParallelism(1);
        table.createTemporaryView("orders", rows, Schema.newBuilder()
                .column("id", DataTypes.BIGINT())
                .column("k", DataTypes.STRING())
                .column("v", DataTypes.INT())
                .column("price", DataTypes.DECIMAL(10, 2))
                .column("item", DataTypes.STRING())
                .column("tags", DataTypes.MAP(DataTypes.STRING(), DataTypes.STRING()))
                .column("deep", DataTypes.ROW(DataTypes.FIELD("n", DataTypes.BIGINT()), DataTypes.FIELD("t", DataTypes.STRING())))
                .column("ts", DataTypes.TIMESTAMP(3))
                .columnByExpression("pt", "PROCTIME()")
                .watermark("ts", "ts - INTERVAL '5' SECOND")
                .build());
    }

    /** Twelve rates of four keys, a minute apart. */
    private static void rates(StreamExecutionEnvironment env, StreamTableEnvironment table, String name) {
        DataStream<Row> rows = numbers(env, name + "-rates", 12)
                .map((MapFunction<Integer, Row>) n -> Row.of("k" + n % 4, n % 4 + 10 * n, time(60L * n)))
                .returns(Types.ROW_NAMED(new String[] {"rk", "rate", "rts"}, Types.STRING, Types.INT, Types.LOCAL_DATE_TIME))
                .uid("rates-rows")
                .setParallelism(1);
        table.createTemporaryView("rates", rows, Schema.newBuilder()
                .column("rk", DataTypes.STRING().notNull())
                .column("rate", DataTypes.INT())
                .column("rts", DataTypes.TIMESTAMP(3))
                .watermark("rts", "rts")
                .primaryKey("rk")
                .build());
        table.createTemporarySystemFunction(
                "rates_at", table.from("rates").createTemporalTableFunction(Expressions.$("rts"), Expressions.$("rk")));
    }

    private static DataStream<Integer> numbers(StreamExecutionEnvironment env, String name, int count) {
        String uid = name.substring(name.lastIndexOf('-') + 1);
        return env.fromSource(new CountingSource(name, count), WatermarkStrategy.noWatermarks(), uid, Types.INT)
                .uid(uid)
                .setParallelism(1);
    }

    private static String causes(Throwable thrown) {
        List<String> texts = new ArrayList<>();
        for (Throwable cause = thrown; cause != null; cause = cause.getCause()) {
            texts.add(cause.toString());
        }
        return String.join("\n", texts);
    }
}
