package connlab;

import flinklab.Cluster;
import java.nio.file.*;
import java.util.*;
import java.util.concurrent.TimeUnit;
import org.apache.flink.api.common.JobID;
import org.apache.flink.api.common.JobStatus;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.core.execution.SavepointFormatType;
import org.apache.flink.runtime.jobgraph.*;
import org.apache.flink.runtime.minicluster.MiniCluster;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.graph.StreamGraph;

/**
 * --mode=gen: runs a job, stops it with a savepoint after --after=N records, writes OUT/savepoint-* and
 * OUT/expected.json.
 * --mode=restore: runs it from --savepoint until it ends (or has --until=N records) and writes what it emitted to
 * --out.
 * --batch=FILE: one JSON array of arguments per line, all in this JVM.
 * --hold: takes the savepoint without stopping and cancels then (for jobs that wait).
 */
public final class Run {
    public static void main(String[] a) throws Exception {
        Map<String, String> args = Cluster.args(a);
        if (!args.containsKey("batch"))
            System.exit(one(args));
        for (String line : Files.readAllLines(Paths.get(args.get("batch")))) {
            Emitted.ALL.clear();
            Jobs.ASKED.clear();
            Jobs.NOTES.clear();
            Map<String, String> more = Cluster.args(Cluster.JSON.readValue(line, String[].class));
            try {
                one(more);
            } catch (Throwable t) {
                java.io.StringWriter w = new java.io.StringWriter();
                t.printStackTrace(new java.io.PrintWriter(w));
                Path to = Paths.get(more.get("out"));
                Cluster.write(Files.isDirectory(to) ? to.resolve("failure.json") : to,
                        flinklab.Specs.obj("emitted", Emitted.sorted(), "failure", w.toString()));
            }
            System.out.println("DONE " + more.get("out"));
        }
        System.exit(0);
    }

    private static int one(Map<String, String> args) throws Exception {
        boolean gen = args.get("mode").equals("gen");
        Path out = Paths.get(args.get("out")).toAbsolutePath();
        Path work = Files.createTempDirectory("connlab");
        int parallelism = Integer.parseInt(args.getOrDefault("parallelism", "2"));
        Map<String, String> extra = Cluster.extra(args);
        extra.putIfAbsent("heartbeat.timeout", "600000"); // machines without time to spare
        extra.putIfAbsent("heartbeat.interval", "60000");
        Configuration conf = Cluster.conf("hashmap", work.toString(), 2 * parallelism, extra);
        StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment(conf);
        env.setParallelism(parallelism);
        env.setMaxParallelism(128);
        if (args.containsKey("checkpoints"))
            env.enableCheckpointing(Long.parseLong(args.get("checkpoints")));
        Jobs.build(args.get("job"), env, new Jobs.Setting(args));
        StreamGraph graph = env.getStreamGraph(false);
        graph.setJobName(args.get("job"));
        JobGraph job = graph.getJobGraph();
        if (!gen)
            job.setSavepointRestoreSettings(
                    SavepointRestoreSettings.forPath(args.get("savepoint"), args.containsKey("allow-non-restored")));
        Map<String, Object> result = new LinkedHashMap<>();
        String failure = null;
        int code = 0;
        try (MiniCluster cluster = Cluster.start(conf, 2 * parallelism)) {
            JobID id = cluster.submitJob(job).get().getJobID();
            long limit = System.currentTimeMillis() + 1000 * Long.parseLong(args.getOrDefault("timeout", "90"));
            long want = Long.parseLong(args.getOrDefault(gen ? "after" : "until", "-1"));
            JobStatus status;
            while (true) {
                status = cluster.getJobStatus(id).get();
                if (status.isGloballyTerminalState())
                    break;
                long have = Emitted.ALL.size() + Jobs.ASKED.size();
                if (want >= 0 && have >= want)
                    break;
                if (System.currentTimeMillis() > limit) {
                    failure = "time";
                    break;
                }
                Thread.sleep(20);
            }
            if (gen && failure == null) {
                if (args.containsKey("hold"))
                    Thread.sleep(1500);
                String sp = args.containsKey("hold")
                        ? cluster.triggerSavepoint(id, out.toString(), false, SavepointFormatType.CANONICAL)
                                  .get(60, TimeUnit.SECONDS)
                        : cluster.stopWithSavepoint(id, out.toString(), false, SavepointFormatType.CANONICAL)
                                  .get(60, TimeUnit.SECONDS);
                result.put("savepoint", Paths.get(sp.replace("file:", "")).getFileName().toString());
            } else if (!gen && want >= 0 && failure == null) {
                Thread.sleep(Long.parseLong(args.getOrDefault("linger", "1500"))); // nothing more may come
            }
            if (!cluster.getJobStatus(id).get().isGloballyTerminalState())
                cluster.cancelJob(id).get();
            Object r = cluster.requestJobResult(id).get();
            Optional<?> error = (Optional<?>) r.getClass().getMethod("getSerializedThrowable").invoke(r);
            if (error.isPresent() && failure == null) {
                Object e = error.get();
                failure = String.valueOf(e.getClass().getMethod("getFullStringifiedStackTrace").invoke(e));
                code = 1;
            }
            result.put("status", String.valueOf(cluster.getJobStatus(id).get()));
        }
        result.put("flink", Cluster.version());
        result.put("job", args.get("job"));
        result.put("parallelism", parallelism);
        result.put("emitted", Emitted.sorted());
        result.put("operatorIds", Cluster.operatorIds(graph));
        List<Object> notes = new ArrayList<>();
        for (java.util.concurrent.Callable<Object> c : Jobs.NOTES)
            notes.add(String.valueOf(c.call()));
        if (!notes.isEmpty())
            result.put("notes", notes);
        if (failure != null)
            result.put("failure", failure);
        Cluster.write(gen ? out.resolve("expected.json") : out, result);
        return failure != null ? 1 : code;
    }
}
