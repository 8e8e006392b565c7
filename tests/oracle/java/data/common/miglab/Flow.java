package miglab;

import flinklab.Cluster;
import flinklab.HoldSource;
import java.io.File;
import java.nio.file.*;
import java.util.*;
import java.util.concurrent.*;
import org.apache.flink.api.common.JobID;
import org.apache.flink.api.common.eventtime.*;
import org.apache.flink.api.common.functions.*;
import org.apache.flink.api.common.state.*;
import org.apache.flink.api.common.typeinfo.*;
import org.apache.flink.api.common.typeutils.base.*;
import org.apache.flink.api.java.functions.KeySelector;
import org.apache.flink.api.java.tuple.*;
import org.apache.flink.cep.*;
import org.apache.flink.cep.pattern.Pattern;
import org.apache.flink.cep.pattern.conditions.SimpleCondition;
import org.apache.flink.core.execution.SavepointFormatType;
import org.apache.flink.runtime.jobgraph.*;
import org.apache.flink.runtime.minicluster.MiniCluster;
import org.apache.flink.runtime.state.*;
import org.apache.flink.streaming.api.checkpoint.CheckpointedFunction;
import org.apache.flink.streaming.api.datastream.*;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.streaming.api.functions.async.*;
import org.apache.flink.streaming.api.functions.co.*;
import org.apache.flink.streaming.api.functions.sink.LEGACY.SinkFunction;
import org.apache.flink.streaming.api.functions.sink.LEGACY.TwoPhaseCommitSinkFunction;
import org.apache.flink.streaming.api.functions.source.LEGACY.RichParallelSourceFunction;
import org.apache.flink.streaming.api.functions.source.LEGACY.SourceFunction;
import org.apache.flink.streaming.api.functions.windowing.ProcessWindowFunction;
import org.apache.flink.streaming.api.windowing.assigners.*;
import org.apache.flink.streaming.api.windowing.evictors.CountEvictor;
import org.apache.flink.streaming.api.windowing.triggers.CountTrigger;
import org.apache.flink.streaming.api.windowing.windows.*;
import org.apache.flink.util.Collector;

/** Jobs of the DataStream API that go on after a restore; what they emit then tells whether the state was right. */
@SuppressWarnings({"unchecked", "rawtypes"})
public class Flow {
    static final Map<String, Queue<String>> OUT = new ConcurrentHashMap<>();
    static volatile boolean CHECK;
    static final long HALF = 50, ALL = 100;

    interface Build {
        void to(StreamExecutionEnvironment env, String name, long n);
    }
    static final Map<String, Build> FLOWS = new LinkedHashMap<>();

    static class Mark implements WatermarkGeneratorSupplier<Long> {
        @Override
        public WatermarkGenerator<Long> createWatermarkGenerator(Context c) {
            return new WatermarkGenerator<Long>() {
                @Override
                public void onEvent(Long e, long ts, WatermarkOutput o) {
                    o.emitWatermark(new Watermark(e == ALL - 1 ? 1_000_000 : ts - 1));
                }
                @Override
                public void onPeriodicEmit(WatermarkOutput o) {}
            };
        }
    }

    static SingleOutputStreamOperator<Long> src(StreamExecutionEnvironment env, String name, long n, String uid) {
        return env
                .fromSource(new HoldSource(name, n),
                        WatermarkStrategy.<Long>forGenerator(new Mark()).withTimestampAssigner((x, t) -> x * 10), uid,
                        Types.LONG)
                .uid(uid)
                .setParallelism(1);
    }

    static class Key implements KeySelector<Long, Long> {
        @Override
        public Long getKey(Long v) {
            return v % 3;
        }
    }

    static class Show<T> implements MapFunction<T, Long> {
        final String name;

        Show(String n) {
            name = n;
        }

        @Override
        public Long map(T v) {
            OUT.computeIfAbsent(name, k -> new ConcurrentLinkedQueue<>()).add(String.valueOf(Enc.enc(v)));
            return 0L;
        }
    }

    static <T> void show(DataStream<T> s, String name) {
        s.map(new Show<T>(name)).returns(Types.LONG).uid("show").setParallelism(1);
    }

    static <T> SingleOutputStreamOperator<T> uid(Object s) {
        return ((SingleOutputStreamOperator<T>) s).uid("op");
    }

    static Object call(Object on, String m, long... millis) {
        for (java.lang.reflect.Method x : on.getClass().getMethods())
            if (x.getName().equals(m) && x.getParameterCount() == millis.length)
                try {
                    Object[] a = new Object[millis.length];
                    for (int i = 0; i < a.length; i++) {
                        Class<?> t = x.getParameterTypes()[i];
                        a[i] = t == java.time.Duration.class ? java.time.Duration.ofMillis(millis[i])
                                                             : t.getMethod("milliseconds", long.class)
                                                                       .invoke(null, millis[i]);
                    }
                    x.setAccessible(true);
                    return x.invoke(on, a);
                } catch (NoSuchMethodException e) {
                    continue;
                } catch (ReflectiveOperationException e) {
                    throw new IllegalStateException(e);
                }
        throw new IllegalStateException(m);
    }

    static TumblingEventTimeWindows tumbling(long ms) {
        return Cluster.timed(TumblingEventTimeWindows.class, "of", ms);
    }

    static class ToText<W extends Window> extends ProcessWindowFunction<Long, String, Long, W> {
        @Override
        public void process(Long k, Context c, Iterable<Long> in, Collector<String> out) {
            List<Long> l = new ArrayList<>();
            in.forEach(l::add);
            out.collect(k + "@" + c.window() + "=" + l);
        }
    }

    static class Cat implements CoGroupFunction<Long, Tuple2<String, Long>, String> {
        @Override
        public void coGroup(Iterable<Long> a, Iterable<Tuple2<String, Long>> b, Collector<String> o) {
            List<Object> l = new ArrayList<>();
            a.forEach(l::add);
            b.forEach(l::add);
            o.collect(l.toString());
        }
    }

    static class Tup implements MapFunction<Long, Tuple2<String, Long>> {
        @Override
        public Tuple2<String, Long> map(Long v) {
            return Tuple2.of("t" + v, v);
        }
    }

    static class TKey implements KeySelector<Tuple2<String, Long>, Long> {
        @Override
        public Long getKey(Tuple2<String, Long> v) {
            return v.f1 % 3;
        }
    }

    static SingleOutputStreamOperator<Tuple2<String, Long>> tuples(DataStream<Long> s) {
        return s.map(new Tup()).returns(Types.TUPLE(Types.STRING, Types.LONG)).uid("tup");
    }

    static class Everything extends KeyedProcessFunction<Long, Long, String> {
        @Override
        public void processElement(Long v, Context c, Collector<String> out) throws Exception {
            RuntimeContext r = getRuntimeContext();
            ValueState<Long> s = r.getState(new ValueStateDescriptor<>("v", Types.LONG));
            ValueStateDescriptor<String> td = new ValueStateDescriptor<>("ttl", Types.STRING);
            td.enableTimeToLive(Cluster.ttl(3650));
            ValueState<String> t = r.getState(td);
            ListStateDescriptor<Long> ld = new ListStateDescriptor<>("l", Types.LONG);
            ld.enableTimeToLive(Cluster.ttl(3650));
            ListState<Long> l = r.getListState(ld);
            MapStateDescriptor<String, Long> md = new MapStateDescriptor<>("m", Types.STRING, Types.LONG);
            md.enableTimeToLive(Cluster.ttl(3650));
            MapState<String, Long> m = r.getMapState(md);
            ReducingState<Long> red = r.getReducingState(new ReducingStateDescriptor<>("r", Long::sum, Types.LONG));
            s.update((s.value() == null ? 0 : s.value()) + v);
            t.update(v + "/" + t.value());
            if (t.value().length() > 60)
                t.update("x");
            l.add(v);
            m.put("k" + v % 5, v);
            red.add(v);
            c.timerService().registerEventTimeTimer(v * 10 + 600);
            List<Long> all = new ArrayList<>();
            l.get().forEach(all::add);
            TreeMap<String, Long> mm = new TreeMap<>();
            m.entries().forEach(e -> mm.put(e.getKey(), e.getValue()));
            out.collect(c.getCurrentKey() + " " + s.value() + " " + t.value() + " " + all + " " + mm + " " + red.get());
        }

        @Override
        public void onTimer(long ts, OnTimerContext c, Collector<String> out) {
            out.collect("timer " + c.getCurrentKey() + " " + ts);
        }
    }

    static class Bc extends BroadcastProcessFunction<Long, Long, String> {
        static final MapStateDescriptor<String, Long> D = new MapStateDescriptor<>("b", Types.STRING, Types.LONG);

        @Override
        public void processElement(Long v, ReadOnlyContext c, Collector<String> o) throws Exception {
            if (CHECK && v == ALL - 1) {
                TreeMap<String, Long> m = new TreeMap<>();
                c.getBroadcastState(D).immutableEntries().forEach(e -> {
                    if (e.getValue() < HALF)
                        m.put(e.getKey(), e.getValue());
                });
                o.collect(m.toString());
            }
        }

        @Override
        public void processBroadcastElement(Long v, Context c, Collector<String> o) throws Exception {
            if (v < HALF)
                c.getBroadcastState(D).put("b" + v, v);
        }
    }

    static class Wait implements AsyncFunction<Long, String> {
        @Override
        public void asyncInvoke(Long v, ResultFuture<String> f) {
            if (CHECK)
                f.complete(Collections.singleton("async " + v));
        }

        @Override
        public void timeout(Long v, ResultFuture<String> f) {}
    }

    static class Two extends TwoPhaseCommitSinkFunction<Long, String, Long> {
        final String name;

        Two(String n) {
            super(StringSerializer.INSTANCE, LongSerializer.INSTANCE);
            name = n;
        }

        @Override
        protected void invoke(String t, Long v, Context c) {}

        @Override
        protected String beginTransaction() {
            return "tx" + System.nanoTime();
        }

        @Override
        protected void preCommit(String t) {}

        @Override
        protected void commit(String t) {
            OUT.computeIfAbsent(name, k -> new ConcurrentLinkedQueue<>()).add("commit");
        }

        @Override
        protected void abort(String t) {}
    }

    /** A legacy source: union state as the old Kafka consumer has it, and a list state. */
    static class Legacy extends RichParallelSourceFunction<Long> implements CheckpointedFunction {
        final String name;
        final boolean kryo;
        volatile boolean run = true;
        long next;
        transient ListState<Object> st;

        Legacy(String n, boolean k) {
            name = n;
            kryo = k;
        }

        @Override
        public void run(SourceContext<Long> c) throws Exception {
            while (run) {
                synchronized (c.getCheckpointLock()) {
                    if (next < (CHECK ? ALL : HALF)) {
                        c.collect(next++);
                        continue;
                    }
                }
                HoldSource.latch(name).countDown();
                Thread.sleep(20);
            }
        }

        @Override
        public void cancel() {
            run = false;
        }

        @Override
        public void snapshotState(FunctionSnapshotContext c) throws Exception {
            st.clear();
            for (int p = 0; p < 2; p++)
                st.add(kryo ? Tuple2.of(new Part("topic", p), next) : (Object) next);
        }

        @Override
        public void initializeState(FunctionInitializationContext c) throws Exception {
            st = (ListState) (kryo ? c.getOperatorStateStore().getUnionListState(
                                             new ListStateDescriptor("topic-partition-offset-states",
                                                     TypeInformation.of(new TypeHint<Tuple2<Part, Long>>() {})))
                                   : c.getOperatorStateStore().getListState(
                                             new ListStateDescriptor("from-elements-state", IntLong.T)));
            for (Object o : st.get()) {
                next = kryo ? ((Tuple2<Part, Long>) o).f1 : (Long) o;
                if (CHECK)
                    OUT.computeIfAbsent(name, k -> new ConcurrentLinkedQueue<>()).add("restored " + Enc.enc(o));
            }
        }
    }

    static class IntLong {
        static final TypeInformation T = Types.LONG;
    }

    /** As KafkaTopicPartition: final fields, no default constructor, a cached hash. */
    public static final class Part implements java.io.Serializable {
        private final String topic;
        private final int partition;
        private final int cachedHash;

        public Part(String t, int p) {
            topic = t;
            partition = p;
            cachedHash = 31 * t.hashCode() + p;
        }
    }

    static {
        FLOWS.put("window-reduce",
                (e, n, c)
                        -> show(uid(src(e, n, c, "src").keyBy(new Key()).window(tumbling(1000)).reduce(Long::sum)), n));
        FLOWS.put("window-process",
                (e, n, c)
                        -> show(uid(src(e, n, c, "src")
                                                .keyBy(new Key())
                                                .window(tumbling(1000))
                                                .process(new ToText<TimeWindow>(), Types.STRING)),
                                n));
        FLOWS.put("window-session",
                (e, n, c)
                        -> show(uid(src(e, n, c, "src")
                                                .keyBy(new Key())
                                                .window((EventTimeSessionWindows) Cluster.timed(
                                                        EventTimeSessionWindows.class, "withGap", 2000))
                                                .process(new ToText<TimeWindow>(), Types.STRING)),
                                n));
        FLOWS.put("window-evictor",
                (e, n, c)
                        -> show(uid(src(e, n, c, "src")
                                                .keyBy(new Key())
                                                .window(tumbling(1000))
                                                .evictor(CountEvictor.of(5))
                                                .process(new ToText<TimeWindow>(), Types.STRING)),
                                n));
        FLOWS.put("window-global-count",
                (e, n, c)
                        -> show(uid(src(e, n, c, "src")
                                                .keyBy(new Key())
                                                .window(GlobalWindows.create())
                                                .trigger(CountTrigger.of(20))
                                                .process(new ToText<GlobalWindow>(), Types.STRING)),
                                n));
        FLOWS.put("window-count",
                (e, n, c) -> show(uid(src(e, n, c, "src").keyBy(new Key()).countWindow(20, 10).reduce(Long::sum)), n));
        FLOWS.put("cogroup", (e, n, c) -> {
            DataStream<Long> s = src(e, n, c, "src");
            show(uid(s.coGroup(tuples(s))
                                 .where(new Key())
                                 .equalTo(new TKey())
                                 .window(tumbling(1000))
                                 .apply(new Cat(), Types.STRING)),
                    n);
        });
        FLOWS.put("window-join", (e, n, c) -> {
            DataStream<Long> s = src(e, n, c, "src");
            show(uid(s.join(tuples(s))
                                 .where(new Key())
                                 .equalTo(new TKey())
                                 .window(tumbling(1000))
                                 .apply((JoinFunction<Long, Tuple2<String, Long>, String>) (x, y)
                                                 -> x + "," + y,
                                         Types.STRING)),
                    n);
        });
        FLOWS.put("interval-join", (e, n, c) -> {
            DataStream<Long> s = src(e, n, c, "src");
            KeyedStream.IntervalJoined<Long, Tuple2<String, Long>, Long> j = (KeyedStream.IntervalJoined) call(
                    s.keyBy(new Key()).intervalJoin(tuples(s).keyBy(new TKey())), "between", -100, 100);
            show(uid(j.process(new ProcessJoinFunction<Long, Tuple2<String, Long>, String>() {
                @Override
                public void processElement(Long l, Tuple2<String, Long> r, Context x, Collector<String> o) {
                    o.collect(l + "," + r);
                }
            }, Types.STRING)), n);
        });
        FLOWS.put("keyed-everything",
                (e, n, c)
                        -> show(uid(src(e, n, c, "src").keyBy(new Key()).process(new Everything(), Types.STRING)), n));
        FLOWS.put("keyed-reduce", (e, n, c) -> show(uid(src(e, n, c, "src").keyBy(new Key()).reduce(Long::sum)), n));
        FLOWS.put("broadcast", (e, n, c) -> {
            DataStream<Long> s = src(e, n, c, "src");
            show(uid(s.connect(s.broadcast(Bc.D)).process(new Bc(), Types.STRING)), n);
        });
        FLOWS.put("async",
                (e, n, c)
                        -> show(uid(AsyncDataStream.orderedWait(src(e, n, c, "src"), new Wait(), 1, TimeUnit.DAYS, 1000)
                                                .returns(Types.STRING)),
                                n));
        FLOWS.put("cep",
                (e, n, c)
                        -> show(uid(CEP.pattern(src(e, n, c, "src").keyBy(new Key()),
                                               Pattern.<Long>begin("a")
                                                       .where(SimpleCondition.of(v -> v % 10 == 0))
                                                       .followedBy("b")
                                                       .where(SimpleCondition.of(v -> v % 10 == 7 && v > HALF)))
                                                .select((PatternSelectFunction<Long, String>) m
                                                        -> m.toString(),
                                                        Types.STRING)),
                                n));
        FLOWS.put("two-phase-sink", (e, n, c) -> src(e, n, c, "src").addSink(new Two(n)).uid("op").setParallelism(1));
        FLOWS.put("legacy-source-list",
                (e, n, c)
                        -> show(e.addSource(new Legacy(n, false), "legacy", Types.LONG).uid("op").setParallelism(1),
                                n));
        FLOWS.put("legacy-source-union-kryo",
                (e, n, c)
                        -> show(e.addSource(new Legacy(n, true), "legacy", Types.LONG).uid("op").setParallelism(1), n));
        FLOWS.put("no-uids",
                (e, n, c)
                        -> e.fromSource(new HoldSource(n, c), WatermarkStrategy.noWatermarks(), "s", Types.LONG)
                                .keyBy(new Key())
                                .reduce(Long::sum)
                                .map(new Show<Long>(n))
                                .returns(Types.LONG));
        FLOWS.put("no-uids-print",
                (e, n, c)
                        -> e.fromSource(new HoldSource(n, c), WatermarkStrategy.noWatermarks(), "s", Types.LONG)
                                .keyBy(new Key())
                                .reduce(Long::sum)
                                .map(new Show<Long>(n))
                                .returns(Types.LONG)
                                .print());
        FLOWS.put("no-uids-window",
                (e, n, c)
                        -> e.fromSource(new HoldSource(n, c),
                                    WatermarkStrategy.<Long>forGenerator(new Mark())
                                            .withTimestampAssigner((x, t) -> x * 10),
                                    "s", Types.LONG)
                                .keyBy(new Key())
                                .window(tumbling(1000))
                                .reduce(Long::sum)
                                .map(new Show<Long>(n))
                                .returns(Types.LONG)
                                .print());
    }

    public static void main(String[] a) throws Exception {
        Map<String, String> args = Cluster.args(Arrays.copyOfRange(a, 1, a.length));
        CHECK = a[0].equals("check");
        String backend = args.getOrDefault("backend", "hashmap"), only = args.getOrDefault("only", ".*");
        Path out = Paths.get(args.get("out")).toAbsolutePath(),
             in = args.containsKey("in") ? Paths.get(args.get("in")).toAbsolutePath() : null;
        Files.createDirectories(out);
        Path work = Files.createTempDirectory("flow");
        MiniCluster mc = Cluster.start(Cluster.conf(backend, work.toString(), 1, new HashMap<>()), 1);
        Map<String, Object> results = new LinkedHashMap<>();
        for (Map.Entry<String, Build> f : FLOWS.entrySet()) {
            String name = f.getKey();
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
                f.getValue().to(env, name, CHECK ? ALL : HALF);
                JobGraph g = env.getStreamGraph(false).getJobGraph();
                Path sp = (in == null ? out : in).resolve(name).resolve("savepoint");
                if (CHECK)
                    g.setSavepointRestoreSettings(SavepointRestoreSettings.forPath(sp.toString(), false));
                id = mc.submitJob(g).get().getJobID();
                for (int k = 0; HoldSource.latch(name).getCount() > 0; k++) {
                    if (mc.getJobStatus(id).get().isTerminalState()) {
                        mc.requestJobResult(id).get().toJobExecutionResult(Flow.class.getClassLoader());
                        throw new IllegalStateException("ended");
                    }
                    if (k > 1000)
                        throw new IllegalStateException("too long");
                    Thread.sleep(20);
                }
                Cluster.untilQuiet(() -> OUT.getOrDefault(name, new ConcurrentLinkedQueue<>()).size());
                if (CHECK) {
                    r.put("outcome", "restored");
                    r.put("out", new ArrayList<>(OUT.getOrDefault(name, new ConcurrentLinkedQueue<>())));
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
                r.put("outcome", CHECK ? "FAILED" : "NOT WRITTEN");
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
                                             : ((Collection) r.getOrDefault("out", new ArrayList<>())).size()));
        }
        mc.close();
        Cluster.write(out.resolve("flow-results.json"),
                Enc.obj("flink", Cluster.version(), "backend", backend, "flows", results));
        System.exit(0);
    }
}
