package miglab;

import flinklab.Cluster;
import flinklab.HoldSource;
import java.io.File;
import java.nio.file.*;
import java.util.*;
import java.util.concurrent.TimeUnit;
import org.apache.flink.api.common.JobID;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.typeinfo.*;
import org.apache.flink.api.common.typeutils.*;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.core.execution.SavepointFormatType;
import org.apache.flink.core.memory.DataOutputViewStreamWrapper;
import org.apache.flink.runtime.jobgraph.*;
import org.apache.flink.runtime.minicluster.MiniCluster;
import org.apache.flink.streaming.api.datastream.*;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/**
 * gen: one savepoint per case.  check: restores them, case by case, and says what came of it.
 * bytes: what serializers write, without a cluster. With --next, check takes a savepoint of each job in its turn.
 */
@SuppressWarnings({"unchecked", "rawtypes"})
public class MigLab {
    public static void main(String[] a) throws Exception {
        Map<String, String> args = Cluster.args(Arrays.copyOfRange(a, 1, a.length));
        String only = args.getOrDefault("only", ".*");
        List<Cases> cs = new ArrayList<>();
        for (Cases c : Cases.ALL.values())
            if (c.name.matches(only))
                cs.add(c);
        switch (a[0]) {
            case "bytes":
                bytes(cs, Paths.get(args.get("out")));
                break;
            case "gen":
                jobs(cs, args, false);
                break;
            case "check":
                jobs(cs, args, true);
                break;
            default:
                throw new IllegalArgumentException(a[0]);
        }
        System.exit(0);
    }

    static boolean one() {
        return Cluster.version().startsWith("1.");
    }

    static Configuration conf(Cases c, String backend, String work) {
        Map<String, String> extra = new HashMap<>(one() ? c.conf1 : c.conf2);
        return Cluster.conf(backend, work, 1, extra);
    }

    static String hex(byte[] b) {
        StringBuilder s = new StringBuilder();
        for (byte x : b)
            s.append(String.format("%02x", x));
        return s.toString();
    }

    static String text(Throwable t) {
        List<String> l = new ArrayList<>();
        for (Throwable x = t; x != null && l.size() < 12; x = x.getCause())
            l.add(x.getClass().getSimpleName() + ": " + String.valueOf(x.getMessage()).split("\n")[0]);
        return String.join(" <- ", l);
    }

    static void bytes(List<Cases> cs, Path out) throws Exception {
        Map<String, Object> all = new LinkedHashMap<>();
        for (Cases c : cs) {
            Map<String, Object> m = new LinkedHashMap<>();
            all.put(c.name, m);
            try {
                Configuration conf = conf(c, "hashmap", Files.createTempDirectory("b").toString());
                StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment(conf);
                TypeSerializer s = (TypeSerializer) c.type.get()
                                           .getClass()
                                           .getMethod("createSerializer", serConf())
                                           .invoke(c.type.get(), serConfOf(env));
                m.put("serializer", s.getClass().getName());
                java.io.ByteArrayOutputStream bo = new java.io.ByteArrayOutputStream();
                TypeSerializerSnapshot.writeVersionedSnapshot(
                        new DataOutputViewStreamWrapper(bo), s.snapshotConfiguration());
                m.put("snapshot", hex(bo.toByteArray()));
                List<Object> vs = new ArrayList<>();
                m.put("values", vs);
                for (Object v : c.values) {
                    bo = new java.io.ByteArrayOutputStream();
                    try {
                        s.serialize(v, new DataOutputViewStreamWrapper(bo));
                        vs.add(hex(bo.toByteArray()));
                    } catch (Throwable t) {
                        vs.add("! " + text(t));
                        s = s.duplicate();
                    }
                }
            } catch (Throwable t) {
                m.put("failed", text(t));
            }
        }
        Cluster.write(out, all);
    }

    static Class<?> serConf() throws Exception {
        try {
            TypeInformation.class.getMethod(
                    "createSerializer", Class.forName("org.apache.flink.api.common.serialization.SerializerConfig"));
            return Class.forName("org.apache.flink.api.common.serialization.SerializerConfig");
        } catch (ReflectiveOperationException e) {
            return org.apache.flink.api.common.ExecutionConfig.class;
        }
    }

    static Object serConfOf(StreamExecutionEnvironment env) throws Exception {
        return serConf() == org.apache.flink.api.common.ExecutionConfig.class ? env.getConfig()
                                                                              : env.getConfig()
                                                                                        .getClass()
                                                                                        .getMethod(
                                                                                                "getSerializerConfig")
                                                                                        .invoke(env.getConfig());
    }

    static void jobs(List<Cases> cs, Map<String, String> args, boolean check) throws Exception {
        String backend = args.getOrDefault("backend", "hashmap");
        Path out = Paths.get(args.get("out")).toAbsolutePath();
        Path in = args.containsKey("in") ? Paths.get(args.get("in")).toAbsolutePath() : null;
        Files.createDirectories(out);
        Path work = Files.createTempDirectory("miglab");
        MiniCluster mc = Cluster.start(Cluster.conf(backend, work.toString(), 1, new HashMap<>()), 1);
        Map<String, Object> results = new LinkedHashMap<>();
        for (Cases c : cs) {
            Map<String, Object> r = new LinkedHashMap<>();
            long t0 = System.currentTimeMillis();
            JobID id = null;
            try {
                if (check && !Files.exists(in.resolve(c.name).resolve("savepoint").resolve("_metadata"))) {
                    continue;
                }
                results.put(c.name, r);
                Configuration conf = conf(c, backend, work.toString());
                StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment(conf);
                env.setParallelism(1);
                env.setMaxParallelism(128);
                HoldSource.DONE.remove(c.name);
                DataStream<Long> src = env.fromSource(new HoldSource(c.name, c.values.size()),
                                                  WatermarkStrategy.noWatermarks(), "source", Types.LONG)
                                               .uid("source");
                boolean keyed = !Arrays.asList("oplist", "union", "broadcast").contains(c.kind);
                TypeInformation key = c.kind.equals("key") ? c.keyType.get() : Types.LONG;
                SingleOutputStreamOperator<Long> op = keyed
                        ? src.keyBy(new Op.ByKey(c.name), key).transform("state", Types.LONG, new Op(c.name, check))
                        : src.transform("state", Types.LONG, new Op(c.name, check));
                op.uid("state").print().uid("sink");
                JobGraph g = env.getStreamGraph(false).getJobGraph();
                if (check)
                    g.setSavepointRestoreSettings(SavepointRestoreSettings.forPath(
                            in.resolve(c.name).resolve("savepoint").toString(), false));
                Op.SEEN.remove(c.name);
                id = mc.submitJob(g).get().getJobID();
                for (int k = 0;; k++) {
                    boolean done = check ? Op.SEEN.containsKey(c.name) : HoldSource.latch(c.name).getCount() == 0;
                    if (done)
                        break;
                    if (mc.getJobStatus(id).get().isTerminalState()) {
                        mc.requestJobResult(id).get().toJobExecutionResult(MigLab.class.getClassLoader());
                        throw new IllegalStateException("ended");
                    }
                    if (k > 1500)
                        throw new IllegalStateException("too long");
                    Thread.sleep(20);
                }
                if (check) {
                    List<Object> rows = Op.SEEN.get(c.name), want = Op.expected(c);
                    Set<String> w = bag(want), g2 = bag(rows);
                    r.put("outcome", w.equals(g2) ? "equal" : "DIFFERENT");
                    if (!w.equals(g2)) {
                        r.put("want", new ArrayList<>(w));
                        r.put("got", new ArrayList<>(g2));
                    }
                }
                if (!check || args.containsKey("next")) {
                    Thread.sleep(60);
                    String p = null;
                    for (int k = 0; p == null; k++) {
                        try {
                            p = mc.triggerSavepoint(id, out.resolve(c.name).toUri().toString(), false,
                                          SavepointFormatType.CANONICAL)
                                        .get(60, TimeUnit.SECONDS);
                        } catch (Exception e) {
                            if (k > 20 || !text(e).contains("Not all required tasks"))
                                throw e;
                            Thread.sleep(100);
                        }
                    }
                    Path sp = Paths.get(new java.net.URI(p.startsWith("file:") ? p : "file://" + p));
                    Path to = out.resolve(c.name).resolve("savepoint");
                    if (Files.exists(to))
                        try (java.util.stream.Stream<Path> s = Files.walk(to)) {
                            s.sorted(Comparator.reverseOrder()).map(Path::toFile).forEach(File::delete);
                        }
                    Files.move(sp, to);
                    Cluster.write(out.resolve(c.name).resolve("expected.json"),
                            Enc.obj("case", c.name, "flink", Cluster.version(), "backend", backend, "kind", c.kind,
                                    "rows", Op.expected(c)));
                    if (!check)
                        r.put("outcome", "written");
                }
            } catch (Throwable t) {
                r.put("outcome", check ? "FAILED" : "NOT WRITTEN");
                r.put("message", text(t));
            }
            try {
                if (id != null && !mc.getJobStatus(id).get().isTerminalState()) {
                    mc.cancelJob(id).get();
                    mc.requestJobResult(id).get();
                }
            } catch (Throwable t) {
                r.put("cancel", text(t));
            }
            System.out.println(String.format("%-34s %-12s %4d ms %s", c.name, r.get("outcome"),
                    System.currentTimeMillis() - t0, r.containsKey("message") ? r.get("message") : ""));
        }
        mc.close();
        Cluster.write(
                out.resolve("results.json"), Enc.obj("flink", Cluster.version(), "backend", backend, "cases", results));
    }

    static Set<String> bag(List<Object> rows) throws Exception {
        Set<String> s = new TreeSet<>();
        for (Object o : rows)
            s.add(Cluster.JSON.writeValueAsString(o));
        return s;
    }
}
