package flinklab;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.file.*;
import java.time.Duration;
import java.util.*;
import org.apache.flink.api.common.functions.RuntimeContext;
import org.apache.flink.api.common.state.StateTtlConfig;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.runtime.minicluster.MiniCluster;
import org.apache.flink.runtime.minicluster.MiniClusterConfiguration;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.flink.streaming.api.graph.StreamGraph;
import org.apache.flink.streaming.api.graph.StreamGraphHasherV2;
import org.apache.flink.streaming.api.graph.StreamNode;

/** Configuration, the local cluster, and what differs between Flink 1.x and 2.x. */
public final class Cluster {
    private Cluster() {}

    public static final ObjectMapper JSON = new ObjectMapper();

    public static String version() {
        return org.apache.flink.runtime.util.EnvironmentInformation.getVersion();
    }

    /**
     * backend: hashmap, rocksdb, rocksdb-incr, rocksdb-heaptimers, changelog, changelog-rocksdb, forst (suffix -mat:
     * materialize often).
     */
    public static Configuration conf(String backend, String workDir, int slots, Map<String, String> extra) {
        Map<String, String> m = new HashMap<>();
        boolean log = backend.startsWith("changelog");
        boolean mat = backend.endsWith("-mat");
        String b = mat ? backend.substring(0, backend.length() - 4) : backend;
        String base = b.equals("changelog") ? "hashmap" : b.equals("changelog-rocksdb") ? "rocksdb" : b;
        if (base.startsWith("rocksdb-"))
            base = "rocksdb";
        if (base.startsWith("forst-"))
            base = "forst";
        m.put("state.backend", base);
        m.put("state.backend.type", base);
        String incr = String.valueOf(b.endsWith("-incr"));
        m.put("state.backend.incremental", incr);
        m.put("execution.checkpointing.incremental", incr);
        if (b.equals("rocksdb-heaptimers"))
            m.put("state.backend.rocksdb.timer-service.factory", "HEAP");
        if (log) {
            for (String k : new String[] {"state.backend.changelog", "state.changelog"}) {
                m.put(k + ".enabled", "true");
                m.put(k + ".storage", "filesystem");
                m.put(k + ".periodic-materialize.interval", mat ? "200 ms" : "10 min");
            }
            m.put("state.backend.changelog.periodic-materialize.enabled", String.valueOf(mat));
            m.put("state.changelog.periodic-materialize.enabled", String.valueOf(mat));
            m.put("dstl.dfs.base-path", "file://" + workDir + "/dstl");
            m.put("state.changelog.dstl.dfs.base-path", "file://" + workDir + "/dstl");
        }
        m.put("state.checkpoints.dir", "file://" + workDir + "/checkpoints");
        m.put("execution.checkpointing.dir", "file://" + workDir + "/checkpoints");
        m.put("execution.checkpointing.externalized-checkpoint-retention", "RETAIN_ON_CANCELLATION");
        m.put("restart-strategy", "none");
        m.put("restart-strategy.type", "none");
        m.put("taskmanager.memory.managed.size", "512m");
        m.put("taskmanager.memory.network.min", "192m");
        m.put("taskmanager.memory.network.max", "192m");
        m.put("taskmanager.numberOfTaskSlots", String.valueOf(slots));
        m.put("state.backend.rocksdb.localdir", workDir + "/rocks");
        m.put("rest.port", "0");
        m.put("rest.bind-port", "0");
        m.put("io.tmp.dirs", workDir + "/tmp");
        m.putAll(extra);
        new java.io.File(workDir + "/tmp").mkdirs();
        return Configuration.fromMap(m);
    }

    public static MiniCluster start(Configuration conf, int slots) throws Exception {
        MiniCluster c = new MiniCluster(new MiniClusterConfiguration.Builder()
                        .setConfiguration(conf)
                        .setNumTaskManagers(1)
                        .setNumSlotsPerTaskManager(slots)
                        .build());
        c.start();
        return c;
    }

    /** Calls a static one-argument factory that takes a Duration in 2.x and a Time class in 1.x. */
    @SuppressWarnings("unchecked")
    public static <T> T timed(Class<?> c, String method, long millis) {
        try {
            for (Method m : c.getMethods()) {
                if (!m.getName().equals(method) || m.getParameterCount() != 1)
                    continue;
                Class<?> t = m.getParameterTypes()[0];
                if (t == Duration.class)
                    return (T) m.invoke(null, Duration.ofMillis(millis));
                if (t.getSimpleName().equals("Time"))
                    return (T) m.invoke(null, t.getMethod("milliseconds", long.class).invoke(null, millis));
            }
        } catch (IllegalAccessException | InvocationTargetException | NoSuchMethodException e) {
            throw new IllegalStateException(e);
        }
        throw new IllegalStateException(c + "." + method);
    }

    public static StateTtlConfig ttl(int days) {
        StateTtlConfig.Builder b = timed(StateTtlConfig.class, "newBuilder", days * 86_400_000L);
        return b.build();
    }

    public static int subtask(RuntimeContext c) {
        try {
            try {
                Object info = c.getClass().getMethod("getTaskInfo").invoke(c);
                return (Integer) Class.forName("org.apache.flink.api.common.TaskInfo")
                        .getMethod("getIndexOfThisSubtask")
                        .invoke(info);
            } catch (NoSuchMethodException e) {
                return (Integer) c.getClass().getMethod("getIndexOfThisSubtask").invoke(c);
            }
        } catch (Exception e) {
            return -1;
        }
    }

    /** Every operator of the job: name, uid (or null) and operator id, as Flink derives them. */
    public static List<Object> operatorIds(StreamGraph g) {
        Map<Integer, byte[]> h = new StreamGraphHasherV2().traverseStreamGraphAndGenerateHashes(g);
        List<Object> l = new ArrayList<>();
        for (StreamNode n : g.getStreamNodes()) {
            StringBuilder b = new StringBuilder();
            for (byte x : h.get(n.getId()))
                b.append(String.format("%02x", x));
            l.add(Specs.obj("name", n.getOperatorName(), "uid", n.getTransformationUID(), "operatorId", b.toString(),
                    "parallelism", n.getParallelism()));
        }
        return l;
    }

    /** Waits until a job has emitted nothing for three seconds, however slow the machine is. */
    public static void untilQuiet(java.util.function.IntSupplier emitted) throws InterruptedException {
        for (int quiet = 0, before = -1; quiet < 8; quiet++) {
            int now = emitted.getAsInt();
            if (now != before) {
                before = now;
                quiet = 0;
            }
            Thread.sleep(400);
        }
    }

    public static void write(Path p, Object v) throws Exception {
        Files.write(p, JSON.writeValueAsBytes(v));
    }

    /** --key=value arguments. */
    public static Map<String, String> args(String[] a) {
        Map<String, String> m = new LinkedHashMap<>();
        for (String s : a) {
            int i = s.indexOf('=');
            if (!s.startsWith("--"))
                throw new IllegalArgumentException(s);
            m.put(i < 0 ? s.substring(2) : s.substring(2, i), i < 0 ? "true" : s.substring(i + 1));
        }
        return m;
    }

    /** "-Dkey=value" style extras: conf.key=value arguments. */
    public static Map<String, String> extra(Map<String, String> args) {
        Map<String, String> m = new HashMap<>();
        for (Map.Entry<String, String> e : args.entrySet())
            if (e.getKey().startsWith("conf."))
                m.put(e.getKey().substring(5), e.getValue());
        return m;
    }
}
