package miglab;

import flinklab.Cluster;
import flinklab.HoldSource;
import java.io.File;
import java.nio.file.*;
import java.time.*;
import java.util.*;
import java.util.concurrent.*;
import org.apache.flink.api.common.JobID;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.MapFunction;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.core.execution.SavepointFormatType;
import org.apache.flink.runtime.jobgraph.*;
import org.apache.flink.runtime.minicluster.MiniCluster;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.graph.StreamGraph;
import org.apache.flink.table.api.*;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;
import org.apache.flink.types.Row;

/** The same SQL before and after: operator ids, and whether the state is taken. */
public class Sql {
    static final long HALF = 50, ALL = 100;
    static final Map<String, Queue<String>> OUT = new ConcurrentHashMap<>();
    static final Map<String, String> Q = new LinkedHashMap<>();
    static {
        Q.put("agg", "SELECT k, COUNT(*) c, SUM(v) s, AVG(v) a, MAX(v) m FROM t GROUP BY k");
        Q.put("agg-distinct", "SELECT k, COUNT(DISTINCT v) c, LAST_VALUE(v) l FROM t GROUP BY k");
        Q.put("agg-array", "SELECT k, COLLECT(v) c, LISTAGG(s) l FROM t GROUP BY k");
        Q.put("agg-retract", "SELECT m, COUNT(*) FROM (SELECT k, MAX(v) m FROM t GROUP BY k) GROUP BY m");
        Q.put("distinct", "SELECT DISTINCT s FROM t");
        Q.put("join", "SELECT a.id, b.id bid FROM t a JOIN t b ON a.k = b.k AND a.s = b.s");
        Q.put("left-join", "SELECT a.id, b.id bid FROM t a LEFT JOIN (SELECT * FROM t WHERE id > 40) b ON a.id = b.id");
        Q.put("semi-join", "SELECT id FROM t WHERE k IN (SELECT s FROM t WHERE id > 60)");
        Q.put("interval-join",
                "SELECT a.id, b.id bid FROM t a JOIN t b ON a.k = b.k AND a.ts BETWEEN b.ts - INTERVAL '0.1' SECOND "
                + "AND b.ts");
        Q.put("top-n",
                "SELECT * FROM (SELECT k, v, id, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v DESC, id) rn FROM t) "
                + "WHERE rn <= 2");
        Q.put("dedup-first",
                "SELECT k, id FROM (SELECT k, id, ROW_NUMBER() OVER (PARTITION BY s ORDER BY pt) rn FROM t) WHERE rn = "
                + "1");
        Q.put("dedup-last",
                "SELECT k, id FROM (SELECT k, id, ROW_NUMBER() OVER (PARTITION BY s ORDER BY pt DESC) rn FROM t) WHERE "
                + "rn = 1");
        Q.put("dedup-rowtime",
                "SELECT k, id FROM (SELECT k, id, ROW_NUMBER() OVER (PARTITION BY s ORDER BY ts DESC) rn FROM t) WHERE "
                + "rn = 1");
        Q.put("over",
                "SELECT id, SUM(v) OVER (PARTITION BY k ORDER BY ts ROWS BETWEEN 5 PRECEDING AND CURRENT ROW) s FROM "
                + "t");
        Q.put("over-range",
                "SELECT id, SUM(v) OVER (PARTITION BY k ORDER BY ts RANGE BETWEEN INTERVAL '0.3' SECOND PRECEDING AND "
                + "CURRENT ROW) s FROM t");
        Q.put("tumble-tvf",
                "SELECT k, window_start, COUNT(*) c, SUM(v) s FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' "
                + "SECOND)) GROUP BY k, window_start, window_end");
        Q.put("hop-tvf",
                "SELECT k, window_start, COUNT(*) c FROM TABLE(HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '1' SECOND, "
                + "INTERVAL '2' SECOND)) GROUP BY k, window_start, window_end");
        Q.put("cumulate-tvf",
                "SELECT k, window_end, COUNT(*) c FROM TABLE(CUMULATE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' SECOND, "
                + "INTERVAL '2' SECOND)) GROUP BY k, window_start, window_end");
        Q.put("session-tvf",
                "SELECT k, window_start, COUNT(*) c FROM TABLE(SESSION(TABLE t PARTITION BY k, DESCRIPTOR(ts), "
                + "INTERVAL '1' SECOND)) GROUP BY k, window_start, window_end");
        Q.put("tumble-legacy",
                "SELECT k, TUMBLE_START(ts, INTERVAL '1' SECOND) w, COUNT(*) c FROM t GROUP BY k, TUMBLE(ts, INTERVAL "
                + "'1' SECOND)");
        Q.put("session-legacy",
                "SELECT k, SESSION_START(ts, INTERVAL '1' SECOND) w, COUNT(*) c FROM t GROUP BY k, SESSION(ts, "
                + "INTERVAL '1' SECOND)");
        Q.put("window-top-n",
                "SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY c DESC, k) "
                + "rn FROM (SELECT k, window_start, window_end, COUNT(*) c FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), "
                + "INTERVAL '1' SECOND)) GROUP BY k, window_start, window_end)) WHERE rn <= 1");
        Q.put("window-join",
                "SELECT a.id, b.id bid FROM (SELECT * FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' "
                + "SECOND))) a JOIN (SELECT * FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' SECOND))) b ON "
                + "a.id = b.id AND a.window_start = b.window_start AND a.window_end = b.window_end");
        Q.put("match",
                "SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES A.id AS aid, B.id AS bid AFTER "
                + "MATCH SKIP PAST LAST ROW PATTERN (A B) DEFINE A AS A.v = 3, B AS B.id > 50)");
        Q.put("order-by", "SELECT id FROM t ORDER BY ts");
        Q.put("temporal-join", "SELECT a.id, b.v FROM t a JOIN versioned FOR SYSTEM_TIME AS OF a.ts AS b ON a.k = b.k");
    }

    static class ToRow implements MapFunction<Long, Row> {
        @Override
        public Row map(Long n) {
            return Row.of(n, "k" + n % 3, (int) (n % 7), "s" + n % 11,
                    LocalDateTime.ofEpochSecond((n == ALL - 1 ? 1_000_000 : n * 10) / 1000,
                            (int) ((n * 10) % 1000) * 1_000_000, ZoneOffset.UTC));
        }
    }

    static class Show implements MapFunction<Row, Long> {
        final String name;

        Show(String n) {
            name = n;
        }

        @Override
        public Long map(Row v) {
            OUT.computeIfAbsent(name, k -> new ConcurrentLinkedQueue<>()).add(v.toString());
            return 0L;
        }
    }

    public static void main(String[] a) throws Exception {
        Map<String, String> args = Cluster.args(Arrays.copyOfRange(a, 1, a.length));
        boolean check = a[0].equals("check");
        String backend = args.getOrDefault("backend", "hashmap"), only = args.getOrDefault("only", ".*"),
               uids = args.getOrDefault("uids", "");
        Path out = Paths.get(args.get("out")).toAbsolutePath(),
             in = args.containsKey("in") ? Paths.get(args.get("in")).toAbsolutePath() : null;
        Files.createDirectories(out);
        Path work = Files.createTempDirectory("sql");
        MiniCluster mc = Cluster.start(Cluster.conf(backend, work.toString(), 1, new HashMap<>()), 1);
        Map<String, Object> results = new LinkedHashMap<>();
        for (Map.Entry<String, String> q : Q.entrySet()) {
            String name = q.getKey();
            if (!name.matches(only))
                continue;
            Map<String, Object> r = new LinkedHashMap<>();
            results.put(name, r);
            JobID id = null;
            try {
                StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment(
                        Cluster.conf(backend, work.toString(), 1, new HashMap<>()));
                env.setParallelism(1);
                env.setMaxParallelism(128);
                HoldSource.DONE.remove(name);
                OUT.remove(name);
                TypeInformation<Row> type = Types.ROW_NAMED(new String[] {"id", "k", "v", "s", "ts"}, Types.LONG,
                        Types.STRING, Types.INT, Types.STRING, Types.LOCAL_DATE_TIME);
                DataStream<Row> rows = env.fromSource(new HoldSource(name, check ? ALL : HALF),
                                                  WatermarkStrategy.noWatermarks(), "src", Types.LONG)
                                               .uid("src")
                                               .map(new ToRow())
                                               .returns(type)
                                               .uid("rows");
                StreamTableEnvironment t = StreamTableEnvironment.create(env);
                t.getConfig().set("table.local-time-zone", "UTC");
                if (!uids.isEmpty())
                    t.getConfig().set("table.exec.uid.generation", uids);
                t.createTemporaryView("t", rows,
                        Schema.newBuilder()
                                .column("id", DataTypes.BIGINT())
                                .column("k", DataTypes.STRING())
                                .column("v", DataTypes.INT())
                                .column("s", DataTypes.STRING())
                                .column("ts", DataTypes.TIMESTAMP(3))
                                .columnByExpression("pt", "PROCTIME()")
                                .watermark("ts", "ts - INTERVAL '0.001' SECOND")
                                .build());
                t.executeSql("CREATE TEMPORARY VIEW versioned AS SELECT k, v, ts FROM (SELECT *, ROW_NUMBER() OVER "
                             + "(PARTITION BY k ORDER BY ts DESC) rn FROM t) WHERE rn = 1");
                t.toChangelogStream(t.sqlQuery(q.getValue())).map(new Show(name)).returns(Types.LONG).uid("show");
                StreamGraph sg = env.getStreamGraph(false);
                r.put("ids", Cluster.operatorIds(sg));
                JobGraph g = sg.getJobGraph();
                Path sp = (in == null ? out : in).resolve(name).resolve("savepoint");
                if (check)
                    g.setSavepointRestoreSettings(SavepointRestoreSettings.forPath(sp.toString(), false));
                id = mc.submitJob(g).get().getJobID();
                for (int k = 0; HoldSource.latch(name).getCount() > 0; k++) {
                    if (mc.getJobStatus(id).get().isTerminalState()) {
                        mc.requestJobResult(id).get().toJobExecutionResult(Sql.class.getClassLoader());
                        throw new IllegalStateException("ended");
                    }
                    if (k > 3000)
                        throw new IllegalStateException("too long");
                    Thread.sleep(20);
                }
                Cluster.untilQuiet(() -> OUT.getOrDefault(name, new ConcurrentLinkedQueue<>()).size());
                if (check) {
                    List<String> l = new ArrayList<>(OUT.getOrDefault(name, new ConcurrentLinkedQueue<>()));
                    r.put("outcome", "restored");
                    r.put("out", l);
                } else {
                    String p = mc.triggerSavepoint(
                                         id, out.resolve(name).toUri().toString(), false, SavepointFormatType.CANONICAL)
                                       .get(60, TimeUnit.SECONDS);
                    if (Files.exists(sp))
                        try (java.util.stream.Stream<Path> s = Files.walk(sp)) {
                            s.sorted(Comparator.reverseOrder()).map(Path::toFile).forEach(File::delete);
                        }
                    Files.move(Paths.get(new java.net.URI(p.startsWith("file:") ? p : "file://" + p)), sp);
                    r.put("outcome", "written");
                }
            } catch (Throwable t) {
                r.put("outcome", check ? "FAILED" : "NOT WRITTEN");
                r.put("message", MigLab.text(t));
            }
            try {
                if (id != null && !mc.getJobStatus(id).get().isTerminalState()) {
                    mc.cancelJob(id).get();
                    mc.requestJobResult(id).get();
                }
            } catch (Throwable t) {
                r.put("cancel", MigLab.text(t));
            }
            System.out.println(String.format("%-28s %-12s %s", name, r.get("outcome"),
                    r.containsKey("message") ? r.get("message")
                                             : ((Collection<?>) r.getOrDefault("out", new ArrayList<>())).size()));
        }
        mc.close();
        Cluster.write(out.resolve("sql-results.json"),
                Enc.obj("flink", Cluster.version(), "backend", backend, "queries", results));
        System.exit(0);
    }
}
