package oracle;

import java.lang.reflect.Method;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.flink.api.common.JobID;
import org.apache.flink.api.common.functions.ReduceFunction;
import org.apache.flink.api.common.state.ListState;
import org.apache.flink.api.common.state.ListStateDescriptor;
import org.apache.flink.api.common.state.MapState;
import org.apache.flink.api.common.state.MapStateDescriptor;
import org.apache.flink.api.common.state.ReducingState;
import org.apache.flink.api.common.state.ReducingStateDescriptor;
import org.apache.flink.api.common.state.StateTtlConfig;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.time.Time;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.functions.KeySelector;
import org.apache.flink.api.java.tuple.Tuple3;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.runtime.jobgraph.JobGraph;
import org.apache.flink.runtime.jobgraph.SavepointRestoreSettings;
import org.apache.flink.runtime.minicluster.MiniCluster;
import org.apache.flink.runtime.minicluster.MiniClusterConfiguration;
import org.apache.flink.runtime.state.FunctionInitializationContext;
import org.apache.flink.runtime.state.FunctionSnapshotContext;
import org.apache.flink.streaming.api.TimeCharacteristic;
import org.apache.flink.streaming.api.checkpoint.CheckpointedFunction;
import org.apache.flink.streaming.api.environment.CheckpointConfig;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.streaming.api.functions.source.SourceFunction;
import org.apache.flink.streaming.api.functions.windowing.ProcessWindowFunction;
import org.apache.flink.streaming.api.windowing.assigners.TumblingEventTimeWindows;
import org.apache.flink.streaming.api.windowing.windows.TimeWindow;
import org.apache.flink.util.Collector;

/**
 * Numbers and what is kept of them, on Flink 1.9 to 1.15: {@code OUT checkpoint|savepoint unaligned|aligned
 * [restore=PATH] [mode=CLAIM|NO_CLAIM|LEGACY] [NAME=VALUE ...]}. Checkpoints are taken while it runs; all state follows
 * from the number of records that have been sent, which the source keeps. Prints the path of the snapshot.
 */
public final class OldJob {
    private static final int KEYS = 50;
    private static final int CHECKPOINTS = 4;
    private static final long TIME_LIMIT_MILLIS = 120_000;

    private OldJob() {}

    public static void main(String[] arguments) {
        try {
            System.out.println(told(arguments));
            System.exit(0);
        } catch (Throwable failure) {
            failure.printStackTrace();
            System.exit(1);
        }
    }

    private static String told(String[] arguments) throws Exception {
        Path out = Paths.get(arguments[0]).toAbsolutePath();
        boolean savepoint = arguments[1].equals("savepoint");
        boolean unaligned = arguments[2].equals("unaligned");
        Map<String, String> more = new LinkedHashMap<>();
        for (int i = 3; i < arguments.length; i++) {
            int equals = arguments[i].indexOf('=');
            more.put(arguments[i].substring(0, equals), arguments[i].substring(equals + 1));
        }
        Files.createDirectories(out.resolve("tmp"));
        Configuration configuration = configuration(out);
        more.forEach(configuration::setString);
        StreamExecutionEnvironment env = StreamExecutionEnvironment.createLocalEnvironment(2, configuration);
        env.setMaxParallelism(16);
        env.setStreamTimeCharacteristic(TimeCharacteristic.EventTime);
        env.enableCheckpointing(savepoint ? 3_600_000 : 1_000);
        env.getCheckpointConfig().setMinPauseBetweenCheckpoints(300);
        env.getCheckpointConfig().enableExternalizedCheckpoints(
                CheckpointConfig.ExternalizedCheckpointCleanup.RETAIN_ON_CANCELLATION);
        if (unaligned) {
            CheckpointConfig.class.getMethod("enableUnalignedCheckpoints").invoke(env.getCheckpointConfig());
        }
        build(env, unaligned);
        JobGraph job = env.getStreamGraph().getJobGraph();
        if (more.containsKey("restore")) {
            job.setSavepointRestoreSettings(restored(more.get("restore"), more.get("mode")));
        }
        return run(job, configuration, out, savepoint);
    }

    private static Configuration configuration(Path out) {
        Configuration configuration = new Configuration();
        Map<String, String> told = new LinkedHashMap<>();
        told.put("state.backend", "rocksdb");
        told.put("state.backend.incremental", "true");
        told.put("state.checkpoints.dir", out.resolve("checkpoints").toUri().toString());
        // A savepoint that is claimed counts as one.
        told.put("state.checkpoints.num-retained", "3");
        told.put("state.backend.fs.memory-threshold", "1000");
        told.put("state.storage.fs.memory-threshold", "1000");
        told.put("restart-strategy", "none");
        told.put("taskmanager.memory.managed.size", "64m");
        told.put("taskmanager.memory.segment-size", "4kb");
        told.put("taskmanager.memory.network.min", "16m");
        told.put("taskmanager.memory.network.max", "16m");
        told.put("taskmanager.network.memory.buffers-per-channel", "2");
        told.put("taskmanager.network.memory.floating-buffers-per-gate", "2");
        told.put("rest.port", "0");
        told.put("rest.bind-port", "0");
        told.put("heartbeat.timeout", "600000");
        told.put("io.tmp.dirs", out.resolve("tmp").toString());
        told.forEach(configuration::setString);
        return configuration;
    }

    private static void build(StreamExecutionEnvironment env, boolean slow) {
        env.addSource(new Numbers(slow), "numbers", Types.LONG)
                .setParallelism(1)
                .uid("numbers")
                .keyBy(new Key())
                .process(new Keeper(slow))
                .returns(Types.LONG)
                .uid("keeper")
                .keyBy(new Key())
                .window(TumblingEventTimeWindows.of(org.apache.flink.streaming.api.windowing.time.Time.seconds(1)))
                .process(new Nothing())
                .uid("windows");
    }

    private static SavepointRestoreSettings restored(String path, String mode) throws Exception {
        if (mode == null) {
            return SavepointRestoreSettings.forPath(path, false);
        }
        for (Method method : SavepointRestoreSettings.class.getMethods()) {
            if (method.getName().equals("forPath") && method.getParameterCount() == 3) {
                Object value = null;
                for (Object each : method.getParameterTypes()[2].getEnumConstants()) {
                    value = each.toString().startsWith(mode) || ((Enum<?>) each).name().equals(mode) ? each : value;
                }
                return (SavepointRestoreSettings) method.invoke(null, path, false, value);
            }
        }
        throw new IllegalArgumentException("this release has no restore modes");
    }

    private static String run(JobGraph job, Configuration configuration, Path out, boolean savepoint) throws Exception {
        MiniCluster cluster = new MiniCluster(new MiniClusterConfiguration.Builder()
                .setConfiguration(configuration)
                .setNumTaskManagers(1)
                .setNumSlotsPerTaskManager(2)
                .build());
        cluster.start();
        JobID id = job.getJobID();
        cluster.submitJob(job).get(60, TimeUnit.SECONDS);
        long end = System.currentTimeMillis() + TIME_LIMIT_MILLIS;
        String last = "";
        while (System.currentTimeMillis() < end) {
            if (cluster.getJobStatus(id).get().isTerminalState()) {
                cluster.requestJobResult(id).get().toJobExecutionResult(OldJob.class.getClassLoader());
            }
            Thread.sleep(200);
            if (savepoint && Numbers.sent > 3_000) {
                last = savepoint(cluster, id, out.resolve("savepoints").toUri().toString());
                break;
            }
            List<Path> taken = savepoint ? List.of() : checkpoints(out);
            if (taken.size() >= 2 && number(taken.get(taken.size() - 1)) >= CHECKPOINTS) {
                last = taken.get(taken.size() - 1).toString();
                break;
            }
        }
        cluster.cancelJob(id).get();
        cluster.requestJobResult(id).get();
        cluster.close();
        // What is kept is the last that was completed before the end.
        List<Path> kept = savepoint ? List.of() : checkpoints(out);
        return last.isEmpty() ? "nothing in time" : savepoint ? last : kept.get(kept.size() - 1).toString();
    }

    private static String savepoint(MiniCluster cluster, JobID id, String folder) throws Exception {
        for (Method method : MiniCluster.class.getMethods()) {
            if (method.getName().equals("triggerSavepoint")) {
                Object future = method.getParameterCount() == 3
                        ? method.invoke(cluster, id, folder, false)
                        : method.invoke(cluster, id, folder, false, method.getParameterTypes()[3].getEnumConstants()[1]);
                return ((CompletableFuture<?>) future).get(60, TimeUnit.SECONDS).toString().replaceFirst("^file:/*", "/");
            }
        }
        throw new IllegalStateException("MiniCluster.triggerSavepoint");
    }

    private static List<Path> checkpoints(Path out) throws Exception {
        if (!Files.exists(out.resolve("checkpoints"))) {
            return List.of();
        }
        try (Stream<Path> found = Files.find(
                out.resolve("checkpoints"), 3, (path, attributes) -> path.endsWith("_metadata"))) {
            return found.map(Path::getParent).sorted(Comparator.comparing(OldJob::number)).collect(Collectors.toList());
        }
    }

    private static int number(Path checkpoint) {
        return Integer.parseInt(checkpoint.getFileName().toString().replace("chk-", ""));
    }

    /** Sends 0, 1, 2 ... */
    public static final class Numbers implements SourceFunction<Long>, CheckpointedFunction {
        private static final long serialVersionUID = 1;
        static volatile long sent;
        private final boolean fast;
        private volatile boolean runs = true;
        private long next;
        private transient ListState<Long> state;

        Numbers(boolean fast) {
            this.fast = fast;
        }

        @Override
        public void run(SourceContext<Long> context) {
            while (runs) {
                synchronized (context.getCheckpointLock()) {
                    context.collectWithTimestamp(next, next * 10);
                    next++;
                    sent = next;
                }
                // Whoever waits for the lock, such as a checkpoint, gets it.
                LockSupport.parkNanos(fast ? 1_000 : 500_000);
            }
        }

        @Override
        public void cancel() {
            runs = false;
        }

        @Override
        public void snapshotState(FunctionSnapshotContext context) throws Exception {
            state.clear();
            state.add(next);
        }

        @Override
        public void initializeState(FunctionInitializationContext context) throws Exception {
            state = context.getOperatorStateStore().getListState(new ListStateDescriptor<>("next", Types.LONG));
            for (long each : state.get()) {
                next = each;
            }
        }
    }

    public static final class Key implements KeySelector<Long, String> {
        private static final long serialVersionUID = 1;

        @Override
        public String getKey(Long number) {
            return "k" + number % KEYS;
        }
    }

    public static final class Sum implements ReduceFunction<Long> {
        private static final long serialVersionUID = 1;

        @Override
        public Long reduce(Long one, Long other) {
            return one + other;
        }
    }

    /** Keeps every number of its key, and sends it on. */
    public static final class Keeper extends KeyedProcessFunction<String, Long, Long> {
        private static final long serialVersionUID = 1;
        private final boolean slow;
        private transient ListState<Long> numbers;
        private transient ReducingState<Long> sum;
        private transient MapState<String, Long> lastOfFive;
        private transient ValueState<Tuple3<Long, String, Double>> last;
        private transient ValueState<Long> old;

        Keeper(boolean slow) {
            this.slow = slow;
        }

        @Override
        public void open(Configuration parameters) {
            numbers = getRuntimeContext().getListState(new ListStateDescriptor<>("numbers", Types.LONG));
            sum = getRuntimeContext().getReducingState(new ReducingStateDescriptor<>("sum", new Sum(), Types.LONG));
            lastOfFive = getRuntimeContext()
                    .getMapState(new MapStateDescriptor<>("last-of-five", Types.STRING, Types.LONG));
            last = getRuntimeContext()
                    .getState(new ValueStateDescriptor<>("last", Types.TUPLE(Types.LONG, Types.STRING, Types.DOUBLE)));
            ValueStateDescriptor<Long> living = new ValueStateDescriptor<>("living", Types.LONG);
            living.enableTimeToLive(StateTtlConfig.newBuilder(Time.days(30)).build());
            old = getRuntimeContext().getState(living);
        }

        @Override
        public void processElement(Long number, Context context, Collector<Long> out) throws Exception {
            numbers.add(number);
            sum.add(number);
            lastOfFive.put("r" + number / KEYS % 5, number);
            last.update(Tuple3.of(number, "n" + number, number / 4.0));
            old.update(number);
            context.timerService().registerEventTimeTimer(5_000_000_000_000L + number % KEYS);
            out.collect(number);
            if (slow) {
                LockSupport.parkNanos(500_000);
            }
        }
    }

    public static final class Nothing extends ProcessWindowFunction<Long, Long, String, TimeWindow> {
        private static final long serialVersionUID = 1;

        @Override
        public void process(String key, Context context, Iterable<Long> numbers, Collector<Long> out) {}
    }
}
