package oracle;

import java.net.URI;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.flink.api.common.JobStatus;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.core.execution.JobClient;
import org.apache.flink.core.execution.SavepointFormatType;
import org.apache.flink.table.api.CompiledPlan;
import org.apache.flink.table.api.EnvironmentSettings;
import org.apache.flink.table.api.ExplainDetail;
import org.apache.flink.table.api.StatementSet;
import org.apache.flink.table.api.TableEnvironment;

/**
 * Runs queries over generated rows whose columns have ranges of their own (a from 1000, b from 2000, x from 5000), and
 * writes what COMPILE PLAN and EXPLAIN say of them and a savepoint: {@code OUT one-phase|two-phase groups|windows}.
 */
public final class SqlPlans {
    private static final String[][] QUERIES = {
        {"grouped", "SELECT k, COUNT(*), MAX(a), AVG(b), COUNT(DISTINCT c) FROM t GROUP BY k"},
        {"over_rows", "SELECT k, MAX(a) OVER w, AVG(b) OVER w FROM t"
                + " WINDOW w AS (PARTITION BY k ORDER BY ts ROWS BETWEEN 2 PRECEDING AND CURRENT ROW)"},
        {"over_all", "SELECT k, MAX(a) OVER w, SUM(b) OVER w FROM t"
                + " WINDOW w AS (PARTITION BY k ORDER BY ts ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)"},
        {"top", "SELECT k, a, c FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY b DESC) AS r FROM t)"
                + " WHERE r <= 3"},
        {"top_of_groups", "SELECT k, n, m FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY n DESC) AS r FROM"
                + " (SELECT k, a, COUNT(*) AS n, MAX(b) AS m FROM t GROUP BY k, a)) WHERE r <= 2"},
        {"first_rows", "SELECT k, a, c FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts ASC) AS r FROM t)"
                + " WHERE r = 1"},
        {"last_rows", "SELECT k, a, c FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts DESC) AS r FROM t)"
                + " WHERE r = 1"},
        {"windows", "SELECT k, window_start, COUNT(*), MAX(a), SUM(b)"
                + " FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' DAY)) GROUP BY k, window_start, window_end"},
        {"joined", "SELECT t.k, t.a, u.x FROM t JOIN u ON t.k = u.j"},
        {"near", "SELECT t.k, t.a, u.x FROM t JOIN u ON t.k = u.j"
                + " AND t.ts BETWEEN u.us - INTERVAL '1' DAY AND u.us + INTERVAL '1' DAY"},
    };

    private static final String HOURS = "TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' HOUR))";
    private static final String[][] WINDOWS = {
        {"hop", "SELECT k, window_start, COUNT(*), MAX(a), AVG(b), COUNT(DISTINCT c) FROM TABLE(HOP(TABLE t,"
                + " DESCRIPTOR(ts), INTERVAL '10' MINUTE, INTERVAL '30' MINUTE)) GROUP BY k, window_start, window_end"},
        {"cumulate", "SELECT k, window_start, MAX(a), SUM(b) FROM TABLE(CUMULATE(TABLE t, DESCRIPTOR(ts),"
                + " INTERVAL '10' MINUTE, INTERVAL '30' MINUTE)) GROUP BY k, window_start, window_end"},
        {"session", "SELECT k, window_start, COUNT(*), MAX(a), SUM(b) FROM TABLE(SESSION(TABLE t PARTITION BY k,"
                + " DESCRIPTOR(ts), INTERVAL '20' MINUTE)) GROUP BY k, window_start, window_end"},
        {"of_windows", "SELECT window_start, window_end, COUNT(*), MAX(m) FROM (SELECT k, window_start, window_end,"
                + " window_time, MAX(a) AS m FROM TABLE(HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND,"
                + " INTERVAL '30' SECOND)) GROUP BY k, window_start, window_end, window_time)"
                + " GROUP BY window_start, window_end"},
        {"old_session", "SELECT k, SESSION_START(ts, INTERVAL '20' MINUTE), MAX(a), SUM(b) FROM t"
                + " GROUP BY k, SESSION(ts, INTERVAL '20' MINUTE)"},
        {"old_hop", "SELECT k, HOP_START(ts, INTERVAL '10' MINUTE, INTERVAL '30' MINUTE), MAX(a), AVG(b) FROM t"
                + " GROUP BY k, HOP(ts, INTERVAL '10' MINUTE, INTERVAL '30' MINUTE)"},
        {"top", "SELECT k, a, c, window_start FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end,"
                + " k ORDER BY b DESC) AS r FROM " + HOURS + ") WHERE r <= 3"},
        {"last", "SELECT k, a, c, window_start FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start,"
                + " window_end, k ORDER BY ts DESC) AS r FROM " + HOURS + ") WHERE r = 1"},
        {"joined", "SELECT l.k, l.a, r.x, l.window_start FROM (SELECT * FROM " + HOURS + ") l JOIN (SELECT * FROM"
                + " TABLE(TUMBLE(TABLE u, DESCRIPTOR(us), INTERVAL '1' HOUR))) r ON l.k = r.j"
                + " AND l.window_start = r.window_start AND l.window_end = r.window_end"},
        {"versions", "SELECT t.k, t.a, v.x FROM t JOIN v FOR SYSTEM_TIME AS OF t.ts AS v ON t.k = v.j"},
        {"sorted", "SELECT a, b, ts FROM t ORDER BY ts, b"},
        {"matched", "SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES LAST(f.a) AS a, g.b AS b"
                + " AFTER MATCH SKIP PAST LAST ROW PATTERN (f+ g) DEFINE f AS f.a < 1006, g AS g.a = 1006)"},
    };

    private SqlPlans() {}

    public static void main(String[] arguments) throws Exception {
        Path out = Path.of(arguments[0]);
        boolean twoPhase = arguments[1].equals("two-phase");
        Map<String, String> conf = new LinkedHashMap<>();
        conf.put("parallelism.default", "1");
        conf.put("pipeline.max-parallelism", "4");
        conf.put("taskmanager.memory.managed.size", "128m");
        conf.put("rest.port", "0");
        conf.put("rest.bind-port", "0");
        conf.put("table.exec.mini-batch.enabled", String.valueOf(twoPhase));
        conf.put("table.exec.mini-batch.allow-latency", "200 ms");
        conf.put("table.exec.mini-batch.size", "20");
        conf.put("table.optimizer.agg-phase-strategy", twoPhase ? "TWO_PHASE" : "ONE_PHASE");
        TableEnvironment env = TableEnvironment.create(EnvironmentSettings.newInstance()
                .inStreamingMode()
                .withConfiguration(Configuration.fromMap(conf))
                .build());
        env.executeSql(table("t", "id", "k AS MOD(id, 3), a AS 1000 + MOD(id, 7), b AS 2000 + MOD(id, 11),"
                + " c AS 'c' || CAST(MOD(id, 5) AS STRING), ts AS TO_TIMESTAMP_LTZ(id * 1000, 3), WATERMARK FOR ts AS ts"));
        env.executeSql(table("u", "uid", "j AS MOD(uid, 3), x AS 5000 + MOD(uid, 9),"
                + " us AS TO_TIMESTAMP_LTZ(uid * 1000, 3), WATERMARK FOR us AS us"));
        env.executeSql("CREATE VIEW v AS SELECT j, x, us FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY j ORDER BY us DESC)"
                + " AS r FROM u) WHERE r = 1");
        StatementSet all = env.createStatementSet();
        for (String[] query : arguments[2].equals("windows") ? WINDOWS : QUERIES) {
            env.executeSql("CREATE VIEW view_" + query[0] + " AS " + query[1]);
            StringBuilder columns = new StringBuilder();
            env.from("view_" + query[0]).getResolvedSchema().getColumns().forEach(column -> columns
                    .append(columns.length() == 0 ? "" : ", ")
                    .append('`').append(column.getName()).append("` ")
                    .append(column.getDataType().getLogicalType().copy(true).asSerializableString()));
            env.executeSql("CREATE TABLE sink_" + query[0] + " (" + columns + ") WITH ('connector' = 'blackhole')");
            all.addInsertSql("INSERT INTO sink_" + query[0] + " SELECT * FROM view_" + query[0]);
        }
        Files.createDirectories(out);
        Files.writeString(out.resolve("explain.txt"), all.explain(ExplainDetail.JSON_EXECUTION_PLAN));
        CompiledPlan plan = all.compilePlan();
        Files.writeString(out.resolve("plan.json"), plan.asJsonString());
        JobClient client = plan.execute().getJobClient().orElseThrow();
        while (client.getJobStatus().get() != JobStatus.RUNNING) {
            Thread.sleep(100);
        }
        Thread.sleep(6_000);
        String made = client.triggerSavepoint(out.toUri().toString(), SavepointFormatType.CANONICAL)
                .get(90, TimeUnit.SECONDS);
        Files.move(made.startsWith("file:") ? Path.of(URI.create(made)) : Path.of(made), out.resolve("savepoint"));
        client.cancel().get(30, TimeUnit.SECONDS);
        System.exit(0);
    }

    private static String table(String name, String number, String computed) {
        return "CREATE TABLE " + name + " (" + number + " BIGINT, " + computed + ") WITH ('connector' = 'datagen',"
                + " 'rows-per-second' = '20', 'fields." + number + ".kind' = 'sequence',"
                + " 'fields." + number + ".start' = '0', 'fields." + number + ".end' = '3000')";
    }
}
