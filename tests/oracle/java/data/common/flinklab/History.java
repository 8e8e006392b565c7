package flinklab;

import java.nio.file.*;
import java.util.*;
import java.util.concurrent.*;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.flink.api.common.JobID;
import org.apache.flink.api.common.eventtime.*;
import org.apache.flink.api.common.state.*;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.connector.source.*;
import org.apache.flink.api.java.functions.KeySelector;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.core.io.InputStatus;
import org.apache.flink.core.io.SimpleVersionedSerializer;
import org.apache.flink.runtime.jobgraph.*;
import org.apache.flink.runtime.minicluster.MiniCluster;
import org.apache.flink.runtime.state.*;
import org.apache.flink.streaming.api.checkpoint.CheckpointedFunction;
import org.apache.flink.streaming.api.datastream.*;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.streaming.api.windowing.assigners.EventTimeSessionWindows;
import org.apache.flink.streaming.api.windowing.assigners.TumblingEventTimeWindows;
import org.apache.flink.streaming.api.windowing.windows.TimeWindow;
import org.apache.flink.util.Collector;

/**
 * A job whose state changes from checkpoint to checkpoint: step s processes the records s*R .. s*R+R-1, then a
 * checkpoint is taken, and what the state then is, computed apart from Flink, goes to truth/ID.json. Records are
 * numbers; see Model below.
 */
public class History {
    static final AtomicLong ALLOWED = new AtomicLong(), ACCOUNTS = new AtomicLong(), NAMES = new AtomicLong(),
                            WINDOWS = new AtomicLong(), LOG = new AtomicLong();
    static int KEYS, R;
    /** Milliseconds without a record of a key after which its session ends. */
    static final long GAP = 5_000;

    // ---------------------------------------------------------------- what a record does

    /** Record n concerns key k; most steps touch few keys, so that most of the state is the same in two checkpoints. */
    static long key(long n) {
        long s = n / R, i = n % R;
        return s == 0 ? i % KEYS : Math.floorMod(n * 0x9E3779B97F4A7C15L >>> 17, (long) KEYS);
    }

    /** 0 to 5: update, 6: add to list and map, 7: remove a map entry, 8: clear all of the key, 9: timer. */
    static int action(long n) {
        return n / R == 0 ? (int) (n % 7) : (int) ((n * 31 + n / R * 17) % 10);
    }

    static long time(long n) {
        return n * 10;
    }

    /** The state, kept by plain Java. */
    static class Model {
        final TreeMap<Long, Long> total = new TreeMap<>();
        final TreeMap<Long, List<String>> tags = new TreeMap<>();
        final TreeMap<Long, TreeMap<String, Long>> per = new TreeMap<>();
        final TreeMap<Long, Long> seen = new TreeMap<>();
        final TreeMap<Long, TreeSet<Long>> timers = new TreeMap<>();
        final TreeMap<String, Long> names = new TreeMap<>();
        final TreeMap<List<Long>, Long> windows =
                new TreeMap<>(Comparator.comparing((List<Long> l) -> l.get(0)).thenComparing(l -> l.get(1)));
        final List<Long> log = new ArrayList<>();
        /** Start, end and sum of the sessions of a key. */
        final TreeMap<Long, List<long[]>> sessions = new TreeMap<>();

        void apply(long n) {
            long k = key(n);
            int a = action(n);
            if (a <= 5) {
                total.merge(k, n % 1000 + 1, Long::sum);
                seen.put(k, n);
            }
            if (a == 6) {
                tags.computeIfAbsent(k, x -> new ArrayList<>()).add("t" + n % 97);
                per.computeIfAbsent(k, x -> new TreeMap<>()).put("m" + n % 5, n);
            }
            if (a == 7) {
                TreeMap<String, Long> m = per.get(k);
                if (m != null) {
                    m.remove("m" + n % 5);
                    if (m.isEmpty())
                        per.remove(k);
                }
            }
            if (a == 8) {
                total.remove(k);
                tags.remove(k);
                per.remove(k);
                seen.remove(k);
            }
            if (a == 9)
                timers.computeIfAbsent(k, x -> new TreeSet<>()).add(10_000_000_000_000L + n % 3 * 1000);
            if (a == 0) {
                TreeSet<Long> t = timers.get(k);
                if (t != null) {
                    t.remove(10_000_000_000_000L);
                    if (t.isEmpty())
                        timers.remove(k);
                }
            }
            String name = "name-" + k % 100;
            if (a == 8)
                names.remove(name);
            else
                names.merge(name, 1L, Long::sum);
            long start = time(n) / 10_000 * 10_000;
            windows.merge(Arrays.asList(k % 20, start), 1L, Long::sum);
            if (n % 500 == 0) {
                log.add(n);
                if (log.size() > 5)
                    log.remove(0);
            }
            long[] session = {time(n), time(n) + GAP, n};
            List<long[]> mine = sessions.computeIfAbsent(k, x -> new ArrayList<>());
            for (Iterator<long[]> each = mine.iterator(); each.hasNext();) {
                long[] other = each.next();
                if (other[0] > session[1] || other[1] < session[0])
                    continue;
                session[0] = Math.min(session[0], other[0]);
                session[1] = Math.max(session[1], other[1]);
                session[2] += other[2];
                each.remove();
            }
            mine.add(session);
        }

        /** Windows that end before the watermark have fired. */
        void watermark(long wm) {
            windows.keySet().removeIf(w -> w.get(1) + 9_999 <= wm);
            sessions.values().forEach(each -> each.removeIf(session -> session[1] - 1 <= wm));
        }

        Map<String, Object> dump(long position) {
            List<Object> acc = new ArrayList<>(), ws = new ArrayList<>(), ts = new ArrayList<>();
            TreeSet<Long> keys = new TreeSet<>(total.keySet());
            keys.addAll(tags.keySet());
            keys.addAll(per.keySet());
            keys.addAll(seen.keySet());
            for (long k : keys)
                acc.add(Arrays.asList(k, total.get(k), tags.get(k), per.get(k), seen.get(k)));
            windows.forEach((w, c) -> ws.add(Arrays.asList(w.get(0), w.get(1), c)));
            timers.forEach((k, s) -> s.forEach(t -> ts.add(Arrays.asList(k, t))));
            List<Object> ss = new ArrayList<>();
            sessions.forEach((k, each) -> each.forEach(s -> ss.add(Arrays.asList(k, s[0], s[1], s[2]))));
            return Specs.obj("accounts", acc, "timers", ts, "names", names, "windows", ws, "log", log, "sessions", ss,
                    "position", position);
        }
    }

    // ---------------------------------------------------------------- the job

    /** Emits 0, 1, ... while the driver allows it. */
    public static class StepSource implements Source<Long, StepSource.Split, Integer> {
        public static class Split implements SourceSplit, java.io.Serializable {
            long next;

            Split(long n) {
                next = n;
            }

            @Override
            public String splitId() {
                return "steps";
            }
        }

        @Override
        public Boundedness getBoundedness() {
            return Boundedness.CONTINUOUS_UNBOUNDED;
        }

        @Override
        public SourceReader<Long, Split> createReader(SourceReaderContext c) {
            return new Reader();
        }

        @Override
        public SplitEnumerator<Split, Integer> createEnumerator(SplitEnumeratorContext<Split> c) {
            return new Enumerator(c, 0);
        }

        @Override
        public SplitEnumerator<Split, Integer> restoreEnumerator(SplitEnumeratorContext<Split> c, Integer s) {
            return new Enumerator(c, s);
        }

        @Override
        public SimpleVersionedSerializer<Split> getSplitSerializer() {
            return new SimpleVersionedSerializer<Split>() {
                @Override
                public int getVersion() {
                    return 1;
                }
                @Override
                public byte[] serialize(Split s) {
                    return java.nio.ByteBuffer.allocate(8).putLong(s.next).array();
                }
                @Override
                public Split deserialize(int v, byte[] b) {
                    return new Split(java.nio.ByteBuffer.wrap(b).getLong());
                }
            };
        }

        @Override
        public SimpleVersionedSerializer<Integer> getEnumeratorCheckpointSerializer() {
            return new SimpleVersionedSerializer<Integer>() {
                @Override
                public int getVersion() {
                    return 1;
                }
                @Override
                public byte[] serialize(Integer s) {
                    return new byte[] {s.byteValue()};
                }
                @Override
                public Integer deserialize(int v, byte[] b) {
                    return (int) b[0];
                }
            };
        }

        private static class Enumerator implements SplitEnumerator<Split, Integer> {
            private final SplitEnumeratorContext<Split> ctx;
            private int assigned;

            Enumerator(SplitEnumeratorContext<Split> c, int a) {
                ctx = c;
                assigned = a;
            }

            @Override
            public void start() {}

            @Override
            public void handleSplitRequest(int sub, String host) {}

            @Override
            public void addSplitsBack(List<Split> l, int sub) {
                assigned = 0;
            }

            @Override
            public void addReader(int sub) {
                if (assigned == 0) {
                    assigned = 1;
                    ctx.assignSplit(new Split(0), sub);
                }
            }

            @Override
            public Integer snapshotState(long id) {
                return assigned;
            }

            @Override
            public void close() {}
        }

        private static class Reader implements SourceReader<Long, Split> {
            private final List<Split> splits = new ArrayList<>();

            @Override
            public void start() {}

            @Override
            public InputStatus pollNext(ReaderOutput<Long> out) throws Exception {
                for (Split s : splits)
                    if (s.next < ALLOWED.get()) {
                        long n = s.next++;
                        out.collect(n, time(n));
                        return InputStatus.MORE_AVAILABLE;
                    }
                Thread.sleep(1);
                return InputStatus.MORE_AVAILABLE;
            }

            @Override
            public List<Split> snapshotState(long id) {
                return new ArrayList<>(splits);
            }

            @Override
            public CompletableFuture<Void> isAvailable() {
                return CompletableFuture.completedFuture(null);
            }

            @Override
            public void addSplits(List<Split> l) {
                splits.addAll(l);
            }

            @Override
            public void notifyNoMoreSplits() {}

            @Override
            public void close() {}
        }
    }

    static class Key implements KeySelector<Long, Long> {
        @Override
        public Long getKey(Long n) {
            return key(n);
        }
    }

    static class Name implements KeySelector<Long, String> {
        @Override
        public String getKey(Long n) {
            return "name-" + key(n) % 100;
        }
    }

    static class Accounts extends KeyedProcessFunction<Long, Long, Long> {
        @Override
        public void processElement(Long n, Context ctx, Collector<Long> out) throws Exception {
            ValueState<Long> total = getRuntimeContext().getState(new ValueStateDescriptor<>("total", Types.LONG));
            ListState<String> tags = getRuntimeContext().getListState(new ListStateDescriptor<>("tags", Types.STRING));
            MapState<String, Long> per =
                    getRuntimeContext().getMapState(new MapStateDescriptor<>("per", Types.STRING, Types.LONG));
            ValueStateDescriptor<Long> d = new ValueStateDescriptor<>("seen", Types.LONG);
            d.enableTimeToLive(Cluster.ttl(365));
            ValueState<Long> seen = getRuntimeContext().getState(d);
            int a = action(n);
            if (a <= 5) {
                total.update((total.value() == null ? 0 : total.value()) + n % 1000 + 1);
                seen.update(n);
            }
            if (a == 6) {
                tags.add("t" + n % 97);
                per.put("m" + n % 5, n);
            }
            if (a == 7)
                per.remove("m" + n % 5);
            if (a == 8) {
                total.clear();
                tags.clear();
                per.clear();
                seen.clear();
            }
            if (a == 9)
                ctx.timerService().registerEventTimeTimer(10_000_000_000_000L + n % 3 * 1000);
            if (a == 0)
                ctx.timerService().deleteEventTimeTimer(10_000_000_000_000L);
            ACCOUNTS.incrementAndGet();
            out.collect(n);
        }
    }

    static class Names extends KeyedProcessFunction<String, Long, Long> {
        @Override
        public void processElement(Long n, Context ctx, Collector<Long> out) throws Exception {
            ValueState<Long> c = getRuntimeContext().getState(new ValueStateDescriptor<>("count", Types.LONG));
            if (action(n) == 8)
                c.clear();
            else
                c.update((c.value() == null ? 0 : c.value()) + 1);
            NAMES.incrementAndGet();
        }
    }

    static class Log implements org.apache.flink.api.common.functions.MapFunction<Long, Tuple2<Long, Long>>,
                                CheckpointedFunction {
        private final ArrayList<Long> log = new ArrayList<>();
        private transient ListState<Long> state;

        @Override
        public Tuple2<Long, Long> map(Long n) {
            if (n % 500 == 0) {
                log.add(n);
                if (log.size() > 5)
                    log.remove(0);
            }
            LOG.incrementAndGet();
            return Tuple2.of(key(n) % 20, 1L);
        }

        @Override
        public void snapshotState(FunctionSnapshotContext c) throws Exception {
            state.update(new ArrayList<>(log));
        }

        @Override
        public void initializeState(FunctionInitializationContext c) throws Exception {
            state = c.getOperatorStateStore().getListState(new ListStateDescriptor<>("log", Types.LONG));
            for (Long n : state.get())
                log.add(n);
        }
    }

    static class First implements KeySelector<Tuple2<Long, Long>, Long> {
        @Override
        public Long getKey(Tuple2<Long, Long> t) {
            return t.f0;
        }
    }

    static class AddNumbers implements org.apache.flink.api.common.functions.ReduceFunction<Long> {
        @Override
        public Long reduce(Long x, Long y) {
            return x + y;
        }
    }

    static class Add implements org.apache.flink.api.common.functions.ReduceFunction<Tuple2<Long, Long>> {
        @Override
        public Tuple2<Long, Long> reduce(Tuple2<Long, Long> x, Tuple2<Long, Long> y) {
            return Tuple2.of(x.f0, x.f1 + y.f1);
        }
    }

    /** A watermark after the last record of every step: the time of that record. */
    static class StepMark implements WatermarkGeneratorSupplier<Long> {
        @Override
        public WatermarkGenerator<Long> createWatermarkGenerator(Context c) {
            return new WatermarkGenerator<Long>() {
                @Override
                public void onEvent(Long n, long ts, WatermarkOutput o) {
                    if ((n + 1) % R == 0)
                        o.emitWatermark(new Watermark(ts));
                }
                @Override
                public void onPeriodicEmit(WatermarkOutput o) {}
            };
        }
    }

    static void build(StreamExecutionEnvironment env) {
        DataStream<Long> in =
                env.fromSource(new StepSource(), WatermarkStrategy.forGenerator(new StepMark()), "steps", Types.LONG)
                        .uid("steps")
                        .setParallelism(1);
        in.keyBy(new Key(), Types.LONG).process(new Accounts()).returns(Types.LONG).uid("accounts").name("accounts");
        in.keyBy(new Name(), Types.STRING).process(new Names()).returns(Types.LONG).uid("names").name("names");
        in.map(new Log())
                .returns(Types.TUPLE(Types.LONG, Types.LONG))
                .uid("log")
                .name("log")
                .setParallelism(1)
                .keyBy(new First(), Types.LONG)
                .window(Cluster.<TumblingEventTimeWindows>timed(TumblingEventTimeWindows.class, "of", 10_000))
                .reduce(new Add())
                .uid("windows")
                .name("windows");
        in.keyBy(new Key(), Types.LONG)
                .window(Cluster.<EventTimeSessionWindows>timed(EventTimeSessionWindows.class, "withGap", GAP))
                .reduce(new AddNumbers())
                .uid("sessions")
                .name("sessions");
    }

    // ---------------------------------------------------------------- the driver

    /**
     * Submits the job, restored from a checkpoint if there is one: claimed where the first checkpoint of a job cannot be
     * a full one (of a changelog), which Flink asks for otherwise.
     */
    static JobID submit(MiniCluster mc, Configuration conf, int par, int maxp, String from, boolean claim)
            throws Exception {
        StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment(conf);
        env.setParallelism(par);
        env.setMaxParallelism(maxp);
        env.enableCheckpointing(36_000_000);
        build(env);
        JobGraph job = env.getStreamGraph(false).getJobGraph();
        if (from != null) {
            Map<String, String> restored = new HashMap<>();
            // Up to 1.19, and after it.
            restored.put("execution.savepoint.path", from);
            restored.put("execution.state-recovery.path", from);
            restored.put("execution.savepoint-restore-mode", claim ? "CLAIM" : "NO_CLAIM");
            restored.put("execution.state-recovery.claim-mode", claim ? "CLAIM" : "NO_CLAIM");
            job.setSavepointRestoreSettings(
                    SavepointRestoreSettings.fromConfiguration(Configuration.fromMap(restored)));
        }
        return mc.submitJob(job).get().getJobID();
    }

    static void running(MiniCluster mc, JobID id) throws Exception {
        for (int k = 0; k < 600; k++) {
            boolean all = true;
            for (org.apache.flink.runtime.executiongraph.AccessExecutionVertex v :
                    mc.getExecutionGraph(id).get().getAllExecutionVertices())
                all &= v.getExecutionState() == org.apache.flink.runtime.execution.ExecutionState.RUNNING;
            if (all)
                return;
            if (mc.getJobStatus(id).get().isTerminalState())
                mc.requestJobResult(id).get().toJobExecutionResult(History.class.getClassLoader());
            Thread.sleep(100);
        }
        throw new IllegalStateException("not running");
    }

    /** A checkpoint; one that Flink aborts, as it may right after a restore, is triggered again. */
    static String checkpoint(MiniCluster mc, JobID id) throws Exception {
        for (int k = 0;; k++)
            try {
                return mc.triggerCheckpoint(id).get(60, TimeUnit.SECONDS);
            } catch (ExecutionException e) {
                if (k == 20 || mc.getJobStatus(id).get().isTerminalState())
                    throw e;
                System.out.println("ABORTED " + e.getCause());
                Thread.sleep(250);
            }
    }

    public static void main(String[] a) throws Exception {
        Map<String, String> args = Cluster.args(a);
        Path out = Paths.get(args.get("out")).toAbsolutePath();
        String backend = args.getOrDefault("backend", "rocksdb-incr");
        int par = Integer.parseInt(args.getOrDefault("parallelism", "2")),
            maxp = Integer.parseInt(args.getOrDefault("maxp", "128"));
        int steps = Integer.parseInt(args.getOrDefault("steps", "12")),
            retained = Integer.parseInt(args.getOrDefault("retained", "1000"));
        long pause = Long.parseLong(args.getOrDefault("pause", "0"));
        // A file of this folder, named by the number of a step, lets the job take that step.
        Path allowed = args.containsKey("allowed") ? Paths.get(args.get("allowed")) : null;
        KEYS = Integer.parseInt(args.getOrDefault("keys", "400"));
        R = Integer.parseInt(args.getOrDefault("records", "300"));
        int rescaleAt = Integer.parseInt(args.getOrDefault("rescale-at", "-1")),
            rescaleTo = Integer.parseInt(args.getOrDefault("rescale-to", "3"));
        boolean claim = backend.startsWith("changelog") || args.containsKey("claim");
        Files.createDirectories(out.resolve("truth"));
        Map<String, String> extra = Cluster.extra(args);
        extra.put("state.checkpoints.num-retained", "" + retained);
        extra.put("execution.checkpointing.num-retained", "" + retained);
        extra.putIfAbsent("execution.checkpointing.tolerable-failed-checkpoints", "20");
        extra.putIfAbsent("state.storage.fs.memory-threshold", "1kb");
        extra.putIfAbsent("execution.checkpointing.data-inline-threshold", "1kb");
        Configuration conf = Cluster.conf(backend, out.toString(), Math.max(par, rescaleTo) + 1, extra);
        MiniCluster mc = Cluster.start(conf, Math.max(par, rescaleTo) + 1);
        Model model = new Model();
        List<Object> taken = new ArrayList<>();
        String last = null;
        try {
            JobID id = submit(mc, conf, par, maxp, null, false);
            running(mc, id);
            for (int s = 0; s < steps; s++) {
                for (int k = 0; allowed != null && !Files.exists(allowed.resolve("" + s)); k++) {
                    if (k > 18_000)
                        throw new IllegalStateException("step " + s + " was not allowed within 15 minutes");
                    Thread.sleep(50);
                }
                if (s == rescaleAt) {
                    mc.cancelJob(id).get();
                    mc.requestJobResult(id).get();
                    id = submit(mc, conf, rescaleTo, maxp, last, claim);
                    running(mc, id);
                }
                long end = (long) (s + 1) * R;
                for (long n = (long) s * R; n < end; n++)
                    model.apply(n);
                model.watermark(time(end - 1));
                ALLOWED.set(end);
                for (int k = 0; ACCOUNTS.get() < end || NAMES.get() < end || LOG.get() < end; k++) {
                    if (k > 60_000 || mc.getJobStatus(id).get().isTerminalState())
                        mc.requestJobResult(id).get().toJobExecutionResult(History.class.getClassLoader());
                    Thread.sleep(1);
                }
                Thread.sleep(100); // the watermark is behind the last record
                long began = System.currentTimeMillis();
                last = checkpoint(mc, id);
                Path p = Paths.get(new java.net.URI(last.startsWith("file:") ? last : "file://" + last));
                long chk = Long.parseLong(p.getFileName().toString().substring(4));
                Cluster.write(out.resolve("truth").resolve(chk + ".json"), model.dump(end));
                taken.add(Specs.obj("id", chk, "path", out.relativize(p).toString(), "began", began, "ended",
                        System.currentTimeMillis(), "records", end, "job", id.toString()));
                Cluster.write(out.resolve("history.json"),
                        Specs.obj("flink", Cluster.version(), "backend", backend, "keys", KEYS, "recordsPerStep", R,
                                "checkpoints", taken));
                System.out.println("CHECKPOINT " + chk + " " + p);
                Thread.sleep(pause);
            }
            mc.cancelJob(id).get();
            mc.requestJobResult(id).get();
        } finally {
            mc.close();
        }
        System.exit(0);
    }
}
