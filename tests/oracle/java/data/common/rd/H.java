package rd;

import java.io.File;
import java.lang.reflect.Method;
import java.nio.file.*;
import java.time.Duration;
import java.util.*;
import java.util.concurrent.*;
import org.apache.flink.api.common.JobID;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.runtime.jobgraph.JobGraph;
import org.apache.flink.runtime.jobgraph.SavepointRestoreSettings;
import org.apache.flink.runtime.minicluster.*;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/**
 * Harness for all versions. args: --out --backend --mode savepoint|native|chk --chks N --interval ms --par --restore
 * path --conf.k=v
 */
public class H {
    public static final ConcurrentHashMap<String, CountDownLatch> DONE = new ConcurrentHashMap<>();

    public static CountDownLatch latch(String n) {
        return DONE.computeIfAbsent(n, k -> new CountDownLatch(1));
    }

    public static Map<String, String> args(String[] a) {
        Map<String, String> m = new LinkedHashMap<>();
        for (String s : a) {
            int i = s.indexOf('=');
            m.put(i < 0 ? s.substring(2) : s.substring(2, i), i < 0 ? "true" : s.substring(i + 1));
        }
        return m;
    }

    public static Configuration conf(Map<String, String> args) {
        String out = new File(args.get("out")).getAbsolutePath(), b = args.getOrDefault("backend", "rocksdb");
        Map<String, String> m = new HashMap<>();
        boolean incr = b.endsWith("-incr");
        if (incr)
            b = b.substring(0, b.length() - 5);
        boolean log = b.startsWith("changelog-");
        if (log)
            b = b.substring(10);
        m.put("state.backend", b);
        m.put("state.backend.type", b);
        m.put("state.backend.incremental", "" + incr);
        m.put("execution.checkpointing.incremental", "" + incr);
        m.put("state.checkpoints.dir", "file://" + out + "/chk");
        m.put("execution.checkpointing.dir", "file://" + out + "/chk");
        m.put("state.savepoints.dir", "file://" + out + "/sp");
        m.put("state.checkpoints.num-retained", args.getOrDefault("retain", "5"));
        m.put("execution.checkpointing.num-retained", args.getOrDefault("retain", "5"));
        m.put("execution.checkpointing.externalized-checkpoint-retention", "RETAIN_ON_CANCELLATION");
        m.put("restart-strategy", "none");
        m.put("restart-strategy.type", "none");
        m.put("taskmanager.memory.managed.size", "384m");
        m.put("taskmanager.memory.network.min", "96m");
        m.put("taskmanager.memory.network.max", "96m");
        m.put("rest.port", "0");
        m.put("rest.bind-port", "0");
        m.put("heartbeat.timeout", "600000");
        m.put("akka.ask.timeout", "300 s");
        m.put("io.tmp.dirs", out + "/tmp");
        m.put("state.storage.fs.memory-threshold", args.getOrDefault("inline", "20480"));
        m.put("state.backend.fs.memory-threshold", args.getOrDefault("inline", "20480"));
        m.put("execution.checkpointing.data-inline-threshold", args.getOrDefault("inline", "20480"));
        if (log)
            for (String k : new String[] {"state.backend.changelog", "state.changelog"}) {
                m.put(k + ".enabled", "true");
                m.put(k + ".storage", "filesystem");
                m.put(k + ".periodic-materialize.interval", args.getOrDefault("materialize", "10 min"));
                m.put("dstl.dfs.base-path", "file://" + out + "/dstl");
                m.put("state.changelog.dstl.dfs.base-path", "file://" + out + "/dstl");
            }
        new File(out + "/tmp").mkdirs();
        for (Map.Entry<String, String> e : args.entrySet())
            if (e.getKey().startsWith("conf."))
                m.put(e.getKey().substring(5), e.getValue());
        Configuration c = new Configuration();
        m.forEach(c::setString);
        return c;
    }

    public static StreamExecutionEnvironment env(Map<String, String> args, Configuration conf) throws Exception {
        int par = Integer.parseInt(args.getOrDefault("par", "2"));
        StreamExecutionEnvironment env;
        try {
            env = (StreamExecutionEnvironment)
                          StreamExecutionEnvironment.class.getMethod("getExecutionEnvironment", Configuration.class)
                                  .invoke(null, conf);
        } catch (NoSuchMethodException e) {
            env = StreamExecutionEnvironment.createLocalEnvironment(par, conf);
        }
        env.setParallelism(par);
        env.setMaxParallelism(Integer.parseInt(args.getOrDefault("maxp", "128")));
        if (args.getOrDefault("mode", "savepoint").equals("chk"))
            env.enableCheckpointing(Long.parseLong(args.getOrDefault("interval", "3600000")));
        if (args.containsKey("chkAfterFinish")) {}
        try { // 1.x before the option existed
            Object cc = env.getCheckpointConfig();
            for (Method mm : cc.getClass().getMethods())
                if (mm.getName().equals("enableExternalizedCheckpoints"))
                    mm.invoke(cc, Enum.valueOf((Class) mm.getParameterTypes()[0], "RETAIN_ON_CANCELLATION"));
            if (args.containsKey("unaligned")) {
                cc.getClass().getMethod("enableUnalignedCheckpoints").invoke(cc);
                cc.getClass().getMethod("setForceUnalignedCheckpoints", boolean.class).invoke(cc, true);
            }
        } catch (Exception e) {
            System.err.println("note: " + e);
        }
        return env;
    }

    static List<String> chks(String out) throws Exception {
        List<String> l = new ArrayList<>();
        Path p = Paths.get(out, "chk");
        if (Files.exists(p))
            try (java.util.stream.Stream<Path> s =
                            Files.find(p, 3, (x, y) -> x.getFileName().toString().equals("_metadata"))) {
                s.forEach(x -> l.add(x.getParent().toString()));
            }
        l.sort(Comparator.comparing(x -> Integer.parseInt(x.replaceAll(".*chk-", ""))));
        return l;
    }

    public static String run(JobGraph job, Configuration conf, Map<String, String> args, String... latches)
            throws Exception {
        int par = Integer.parseInt(args.getOrDefault("par", "2"));
        String out = new File(args.get("out")).getAbsolutePath(), mode = args.getOrDefault("mode", "savepoint");
        if (args.containsKey("restore"))
            job.setSavepointRestoreSettings(
                    SavepointRestoreSettings.forPath(args.get("restore"), args.containsKey("allowNonRestored")));
        MiniCluster mc = new MiniCluster(new MiniClusterConfiguration.Builder()
                        .setConfiguration(conf)
                        .setNumTaskManagers(1)
                        .setNumSlotsPerTaskManager(Integer.parseInt(args.getOrDefault("slots", "" + par)))
                        .build());
        mc.start();
        String path = null;
        try {
            JobID id = job.getJobID();
            mc.submitJob(job).get();
            long limit = System.currentTimeMillis() + 1000L * Integer.parseInt(args.getOrDefault("limit", "400"));
            boolean early = args.containsKey("early");
            for (String l : latches)
                while (!early && !latch(l).await(500, TimeUnit.MILLISECONDS)) {
                    if (mc.getJobStatus(id).get().isTerminalState()) {
                        mc.requestJobResult(id).get().toJobExecutionResult(H.class.getClassLoader());
                        throw new IllegalStateException("ended");
                    }
                    if (System.currentTimeMillis() > limit)
                        throw new IllegalStateException("time is up: " + l);
                }
            if (!mode.equals("chk") || !args.containsKey("periodic"))
                Thread.sleep(Long.parseLong(args.getOrDefault("settle", "1500")));
            Method trig = null;
            for (Method m : MiniCluster.class.getMethods())
                if (m.getName().equals("triggerCheckpoint") && m.getParameterCount() == 1)
                    trig = m;
            int want = Integer.parseInt(args.getOrDefault("chks", "2"));
            if (mode.equals("chk") && args.containsKey("periodic")) {
                int have = chks(out).size();
                while (true) {
                    List<String> l = chks(out);
                    if (!l.isEmpty() && Integer.parseInt(l.get(l.size() - 1).replaceAll(".*chk-", "")) >= want) {
                        path = l.get(l.size() - 1);
                        break;
                    }
                    if (mc.getJobStatus(id).get().isTerminalState()) {
                        mc.requestJobResult(id).get().toJobExecutionResult(H.class.getClassLoader());
                        throw new IllegalStateException("ended");
                    }
                    if (System.currentTimeMillis() > limit)
                        throw new IllegalStateException("time is up: checkpoints");
                    Thread.sleep(100);
                }
            } else if (mode.equals("chk")) {
                for (int i = 0, tries = 0; i < want; i++) {
                    try {
                        path = (String) ((CompletableFuture<?>) trig.invoke(mc, id)).get(300, TimeUnit.SECONDS);
                    } catch (ExecutionException e) {
                        if (++tries > 30)
                            throw e;
                        i--;
                        Thread.sleep(2000);
                    }
                    Thread.sleep(Long.parseLong(args.getOrDefault("pause", "300")));
                }
            } else {
                String dir = "file://" + out + "/sp";
                Method s3 = null, s4 = null;
                for (Method m : MiniCluster.class.getMethods())
                    if (m.getName().equals("triggerSavepoint")) {
                        if (m.getParameterCount() == 3)
                            s3 = m;
                        if (m.getParameterCount() == 4)
                            s4 = m;
                    }
                for (int tries = 0; path == null; tries++)
                    try {
                        Object f = s4 != null ? s4.invoke(mc, id, dir, false,
                                                        Enum.valueOf((Class) s4.getParameterTypes()[3],
                                                                mode.equals("native") ? "NATIVE" : "CANONICAL"))
                                              : s3.invoke(mc, id, dir, false);
                        path = (String) ((CompletableFuture<?>) f).get(400, TimeUnit.SECONDS);
                    } catch (ExecutionException e) {
                        if (tries > 30)
                            throw e;
                        Thread.sleep(2000);
                    }
            }
            mc.cancelJob(id).get();
            mc.requestJobResult(id).get();
        } finally {
            mc.close();
        }
        System.out.println("SNAPSHOT " + path);
        Files.write(Paths.get(out, "path"), path.replace("file:", "").getBytes());
        return path;
    }

    public static Object timed(Class<?> c, String method, long millis) {
        try {
            for (Method m : c.getMethods()) {
                if (!m.getName().equals(method) || m.getParameterCount() != 1)
                    continue;
                Class<?> t = m.getParameterTypes()[0];
                if (t == Duration.class)
                    return m.invoke(null, Duration.ofMillis(millis));
                if (t.getSimpleName().equals("Time"))
                    return m.invoke(null, t.getMethod("milliseconds", long.class).invoke(null, millis));
            }
        } catch (Exception e) {
            throw new IllegalStateException(e);
        }
        throw new IllegalStateException(c + "." + method);
    }
}
