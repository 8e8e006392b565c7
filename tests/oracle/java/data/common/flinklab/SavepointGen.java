package flinklab;

import java.nio.file.*;
import java.util.*;
import java.util.concurrent.TimeUnit;
import java.util.stream.*;
import org.apache.flink.api.common.JobID;
import org.apache.flink.api.common.eventtime.*;
import org.apache.flink.api.common.functions.MapFunction;
import org.apache.flink.api.common.functions.ReduceFunction;
import org.apache.flink.api.common.functions.RichMapFunction;
import org.apache.flink.api.common.state.*;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.connector.source.lib.NumberSequenceSource;
import org.apache.flink.api.java.functions.KeySelector;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.core.execution.SavepointFormatType;
import org.apache.flink.runtime.execution.ExecutionState;
import org.apache.flink.runtime.executiongraph.AccessExecutionVertex;
import org.apache.flink.runtime.jobgraph.JobGraph;
import org.apache.flink.runtime.minicluster.MiniCluster;
import org.apache.flink.runtime.state.*;
import org.apache.flink.streaming.api.checkpoint.CheckpointedFunction;
import org.apache.flink.streaming.api.datastream.*;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.co.BroadcastProcessFunction;
import org.apache.flink.streaming.api.functions.windowing.ProcessWindowFunction;
import org.apache.flink.streaming.api.graph.StreamGraph;
import org.apache.flink.streaming.api.windowing.assigners.*;
import org.apache.flink.streaming.api.windowing.windows.TimeWindow;
import org.apache.flink.util.Collector;

/** Writes one savepoint or retained checkpoint of a known job, and expected.json beside it. */
public class SavepointGen {
    static int K = 300, WKEYS = 20;
    static long N;
    static final long WM = 5500; // the only watermark, after the last record
    static final long STEP = 10; // record n has time 10 n

    public static void main(String[] a) throws Exception {
        Map<String, String> args = Cluster.args(a);
        Path out = Paths.get(args.get("out")).toAbsolutePath();
        String backend = args.getOrDefault("backend", "hashmap"), format = args.getOrDefault("format", "canonical");
        int par = Integer.parseInt(args.getOrDefault("parallelism", "2")),
            maxp = Integer.parseInt(args.getOrDefault("maxp", "128"));
        boolean compress = args.containsKey("compress"), sql = args.getOrDefault("job", "stream").equals("sql");
        K = Integer.parseInt(args.getOrDefault("keys", "300"));
        N = 3L * K;
        Files.createDirectories(out);
        String work = out.toString();

        Configuration conf = Cluster.conf(backend, work, par, Cluster.extra(args));
        StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment(conf);
        env.setParallelism(par);
        env.setMaxParallelism(maxp);
        env.getConfig().setUseSnapshotCompression(compress);
        boolean chk = format.equals("checkpoint");
        Data.nullLongs = !(format.equals("canonical") && backend.equals("hashmap")) && !backend.startsWith("changelog")
                && !Cluster.version().matches("1[.]1[0-9][.].*");
        if (chk)
            env.enableCheckpointing(3_600_000);

        long t0 = System.currentTimeMillis();
        List<Object> ops = sql ? SqlJob.build(env) : build(env, maxp);
        StreamGraph graph = env.getStreamGraph(false);
        List<Object> ids = Cluster.operatorIds(graph);
        JobGraph job = graph.getJobGraph();
        MiniCluster mc = Cluster.start(conf, par);
        String path;
        try {
            JobID id = mc.submitJob(job).get().getJobID();
            for (Map.Entry<String, java.util.concurrent.CountDownLatch> e : HoldSource.DONE.entrySet()) {
                for (int k = 0; !e.getValue().await(1, TimeUnit.SECONDS); k++) {
                    if (k > 90 || mc.getJobStatus(id).get().isTerminalState()) {
                        mc.requestJobResult(id).get().toJobExecutionResult(SavepointGen.class.getClassLoader());
                        throw new IllegalStateException("input not used up after 90 s: " + e.getKey());
                    }
                }
            }
            for (int k = 0; k < 300; k++) {
                boolean all = true;
                for (AccessExecutionVertex v : mc.getExecutionGraph(id).get().getAllExecutionVertices())
                    all &= v.getExecutionState() == ExecutionState.RUNNING
                            || v.getExecutionState() == ExecutionState.FINISHED;
                if (all)
                    break;
                Thread.sleep(100);
            }
            Thread.sleep(backend.endsWith("-mat") ? 2500 : 300);
            if (chk) {
                mc.triggerCheckpoint(id).get(60, TimeUnit.SECONDS);
                Thread.sleep(500);
                path = mc.triggerCheckpoint(id).get(60, TimeUnit.SECONDS);
            } else {
                path = mc.triggerSavepoint(id, out.resolve("savepoints").toUri().toString(), false,
                                 SavepointFormatType.valueOf(format.toUpperCase()))
                               .get(120, TimeUnit.SECONDS);
            }
            mc.cancelJob(id).get();
            mc.requestJobResult(id).get();
        } finally {
            mc.close();
        }
        Path p = Paths.get(new java.net.URI(path.startsWith("file:") ? path : "file://" + path));
        Map<String, Object> meta =
                Specs.obj("flink", Cluster.version(), "backend", backend, "format", format, "compressed", compress,
                        "parallelism", par, "maxParallelism", maxp, "job", sql ? "sql" : "stream", "writtenBetween",
                        Arrays.asList(t0, System.currentTimeMillis()), "savepoint", p.getFileName().toString());
        // A savepoint moves to out/savepoint; a checkpoint stays in its job folder, whose "shared" it points to.
        if (!chk) {
            p = Files.move(p, out.resolve("savepoint"));
            Files.delete(out.resolve("savepoints"));
        }
        if (backend.equals("rocksdb-heaptimers") && format.equals("native"))
            loseTimers(ops, meta);
        meta.put("savepoint", out.relativize(p).toString());
        Cluster.write(out.resolve("expected.json"), Specs.obj("meta", meta, "operatorIds", ids, "operators", ops));
        System.out.println("SAVEPOINT " + p);
        System.exit(0);
    }

    /**
     * A native savepoint of RocksDB with timers on the heap does not hold the timers (seen in 2.2.1): neither SST
     * files nor raw state have them.
     */
    @SuppressWarnings("unchecked")
    static void loseTimers(List<Object> ops, Map<String, Object> meta) {
        meta.put("note", "Flink itself leaves heap timers out of this kind of savepoint");
        for (Object o : ops)
            for (Object t : (List<Object>) ((Map<String, Object>) o).getOrDefault("timers", new ArrayList<>())) {
                ((Map<String, Object>) t).put("eventTime", new ArrayList<>());
                ((Map<String, Object>) t).put("processingTime", new ArrayList<>());
            }
    }

    /** The one watermark, when the last record has passed. */
    static class LastMark implements WatermarkGeneratorSupplier<Long> {
        final long last;

        LastMark(long last) {
            this.last = last;
        }

        @Override
        public WatermarkGenerator<Long> createWatermarkGenerator(Context c) {
            return new WatermarkGenerator<Long>() {
                @Override
                public void onEvent(Long e, long ts, WatermarkOutput o) {
                    if (e == last)
                        o.emitWatermark(new Watermark(WM));
                }
                @Override
                public void onPeriodicEmit(WatermarkOutput o) {}
            };
        }
    }

    static class ByKey implements KeySelector<Long, Object> {
        final String uid;
        final int keys;

        ByKey(String uid, int keys) {
            this.uid = uid;
            this.keys = keys;
        }

        @Override
        public Object getKey(Long n) {
            return Data.key(uid, (int) (n % keys));
        }
    }

    static List<Object> build(StreamExecutionEnvironment env, int maxp) {
        List<Object> ops = new ArrayList<>();
        int n = env.getParallelism();
        DataStream<Long> in =
                env.fromSource(new HoldSource("main", N), WatermarkStrategy.noWatermarks(), "source-hold", Types.LONG)
                        .uid("source-hold")
                        .setParallelism(1);
        ops.add(Specs.obj("uid", "source-hold", "kind", "ignore", "note",
                "FLIP-27: reader state of one split (8 bytes: next = " + N + "), coordinator state"));

        List<Object[]> fns = new ArrayList<>();
        fns.add(new Object[] {"LONG",
                new StateFn("kv-long", K, true, StateDef.value("v-long", "LONG"), StateDef.value("v-string", "STRING"),
                        StateDef.value("v-double", "DOUBLE"), StateDef.list("list-int", "INT"),
                        StateDef.map("map-sl", "STRING", "LONG"), StateDef.map("map-ss", "STRING", "STRING"),
                        StateDef.of("reduce-long", "reducing", "LONG", null),
                        StateDef.of("agg-avg", "aggregating", "TUPLE<LONG,LONG>", null),
                        StateDef.value("ttl-long", "LONG").ttl(), StateDef.list("ttl-list", "STRING").ttl(),
                        StateDef.map("ttl-map", "STRING", "LONG").ttl())});
        String[][] basics = {{"boolean", "BOOLEAN"}, {"byte", "BYTE"}, {"short", "SHORT"}, {"int", "INT"},
                {"float", "FLOAT"}, {"char", "CHAR"}, {"big-dec", "BIG_DEC"}, {"big-int", "BIG_INT"}, {"date", "DATE"},
                {"sql-date", "SQL_DATE"}, {"sql-time", "SQL_TIME"}, {"sql-timestamp", "SQL_TIMESTAMP"},
                {"local-date", "LOCAL_DATE"}, {"local-time", "LOCAL_TIME"}, {"local-date-time", "LOCAL_DATE_TIME"},
                {"instant", "INSTANT"}, {"bytes", "PRIM<BYTE>"}, {"ints", "PRIM<INT>"}, {"longs", "PRIM<LONG>"},
                {"shorts", "PRIM<SHORT>"}, {"doubles", "PRIM<DOUBLE>"}, {"floats", "PRIM<FLOAT>"},
                {"booleans", "PRIM<BOOLEAN>"}, {"chars", "PRIM<CHAR>"}, {"strings", "ARRAY<STRING>"},
                {"strings-basic", "BASIC_ARRAY<STRING>"}};
        List<StateDef> bs = Arrays.stream(basics).map(b -> StateDef.value(b[0], b[1])).collect(Collectors.toList());
        bs.add(StateDef.map("map-void", "STRING", "VOID"));
        fns.add(new Object[] {"STRING", new StateFn("kv-string", 100, false, bs.toArray(new StateDef[0]))});
        fns.add(new Object[] {"TUPLE<STRING,INT>",
                new StateFn("kv-tuple", 80, true, StateDef.value("tuple3", "TUPLE<LONG,STRING,DOUBLE>"),
                        StateDef.value("pojo", "POJO<Person>"), StateDef.value("pojo-auto", "AUTO<Person>"),
                        StateDef.value("shape", "POJO<Shape>"), StateDef.value("row", Data.ROW_TYPE),
                        StateDef.list("list-row", Data.ROW_TYPE), StateDef.value("list-string", "LIST<STRING>"),
                        StateDef.value("map-si", "MAP<STRING,INT>"), StateDef.value("either", "EITHER<STRING,INT>"),
                        StateDef.value("enum", "ENUM<Color>"),
                        StateDef.map("map-tuple-pojo", "TUPLE<STRING,INT>", "POJO<Person>"))});
        fns.add(new Object[] {"POJO<KeyPojo>", new StateFn("kv-pojo", 60, false, StateDef.value("count", "INT"))});
        fns.add(new Object[] {"INT",
                new StateFn("kv-kryo", 40, false, StateDef.value("bitset", "KRYO<java.util.BitSet>"),
                        StateDef.value("array-list", "KRYO<java.util.ArrayList>"),
                        StateDef.value("no-default", "KRYO<NoDefault>"),
                        StateDef.value("hash-map", "KRYO<java.util.HashMap>"))});
        fns.add(new Object[] {"LONG", new StateFn("no-uid", 30, false, StateDef.value("noid-count", "LONG"))});
        for (Object[] f : fns) {
            StateFn fn = (StateFn) f[1];
            SingleOutputStreamOperator<Long> o = in.keyBy(new ByKey(fn.uid, fn.keys), Specs.type((String) f[0]))
                                                         .process(fn)
                                                         .returns(Types.LONG)
                                                         .name(fn.uid);
            if (!fn.uid.equals("no-uid"))
                o.uid(fn.uid);
            ops.add(fn.expected((String) f[0], maxp));
        }
        windows(in, ops);
        operatorStates(in, ops, n);

        env.fromSource(new NumberSequenceSource(1, 1_000_000_000L), WatermarkStrategy.noWatermarks(), "source-seq")
                .uid("source-seq")
                .map(new Slow())
                .uid("seq-slow")
                .name("seq-slow")
                .returns(Types.LONG);
        env.fromSource(new NumberSequenceSource(1, 10), WatermarkStrategy.noWatermarks(), "source-finished")
                .uid("source-finished");
        ops.add(Specs.obj("uid", "source-seq", "kind", "ignore", "note",
                "NumberSequenceSource 1..1000000000: splits with a running position"));
        ops.add(Specs.obj("uid", "source-finished", "kind", "finished", "note",
                "NumberSequenceSource 1..10 that has ended: fully finished, or in a checkpoint perhaps partly"));
        return ops;
    }

    static class Slow implements MapFunction<Long, Long> {
        @Override
        public Long map(Long v) throws Exception {
            Thread.sleep(3);
            return v;
        }
    }

    // ---------------------------------------------------------------- windows

    static class Pair implements MapFunction<Long, Tuple2<Long, Long>> {
        @Override
        public Tuple2<Long, Long> map(Long n) {
            return Tuple2.of(n % WKEYS, n);
        }
    }

    static class First implements KeySelector<Tuple2<Long, Long>, Long> {
        @Override
        public Long getKey(Tuple2<Long, Long> t) {
            return t.f0;
        }
    }

    static class SumPairs implements ReduceFunction<Tuple2<Long, Long>> {
        @Override
        public Tuple2<Long, Long> reduce(Tuple2<Long, Long> x, Tuple2<Long, Long> y) {
            return Tuple2.of(x.f0, x.f1 + y.f1);
        }
    }

    static class Fired extends ProcessWindowFunction<Tuple2<Long, Long>, Long, Long, TimeWindow> {
        @Override
        public void process(Long k, Context c, Iterable<Tuple2<Long, Long>> in, Collector<Long> out) throws Exception {
            ValueState<Long> g = c.globalState().getState(new ValueStateDescriptor<>("fired-windows", Types.LONG));
            g.update(g.value() == null ? 1 : g.value() + 1);
            out.collect(k);
        }
    }

    static boolean inSession(long n) {
        return n / WKEYS % 5 != 4;
    }

    static void windows(DataStream<Long> in, List<Object> ops) {
        DataStream<Tuple2<Long, Long>> w =
                in.assignTimestampsAndWatermarks(
                          WatermarkStrategy.forGenerator(new LastMark(N - 1)).withTimestampAssigner((e, t) -> e * STEP))
                        .setParallelism(1)
                        .uid("watermarks")
                        .map(new Pair())
                        .setParallelism(1)
                        .returns(Types.TUPLE(Types.LONG, Types.LONG));
        ops.add(Specs.obj("uid", "watermarks", "kind", "ignore", "note", "no state"));
        WindowAssigner<Object, TimeWindow> tumble = Cluster.timed(TumblingEventTimeWindows.class, "of", 1000);
        MergingWindowAssigner<Object, TimeWindow> session =
                Cluster.timed(EventTimeSessionWindows.class, "withGap", 300);
        w.keyBy(new First(), Types.LONG)
                .window(tumble)
                .reduce(new SumPairs())
                .uid("window-tumbling-reduce")
                .name("window-tumbling-reduce");
        w.keyBy(new First(), Types.LONG)
                .window(tumble)
                .process(new Fired(), Types.LONG)
                .uid("window-tumbling-process")
                .name("window-tumbling-process");
        w.filter(t -> inSession(t.f1))
                .setParallelism(1)
                .keyBy(new First(), Types.LONG)
                .window(session)
                .reduce(new SumPairs())
                .uid("window-session")
                .name("window-session");
        w.keyBy(new First(), Types.LONG)
                .countWindow(7)
                .reduce(new SumPairs())
                .uid("window-global-count")
                .name("window-global-count");

        // what stays open after the watermark
        SortedMap<List<Long>, List<Long>> tumbling =
                new TreeMap<>(Comparator.comparing((List<Long> l) -> l.get(0)).thenComparing(l -> l.get(1)));
        Map<Long, Set<Long>> fired = new TreeMap<>();
        Map<Long, List<Long>> all = new TreeMap<>();
        for (long n = 0; n < N; n++) {
            long k = n % WKEYS, start = n * STEP / 1000 * 1000;
            if (start + 999 > WM)
                tumbling.computeIfAbsent(Arrays.asList(k, start), x -> new ArrayList<>()).add(n);
            else
                fired.computeIfAbsent(k, x -> new TreeSet<>()).add(start);
            all.computeIfAbsent(k, x -> new ArrayList<>()).add(n);
        }
        List<Object> reduced = new ArrayList<>(), listed = new ArrayList<>(), timers = new ArrayList<>(),
                     global = new ArrayList<>();
        tumbling.forEach((kw, ns) -> {
            List<Long> win = Arrays.asList(kw.get(1), kw.get(1) + 1000);
            reduced.add(Arrays.asList(kw.get(0), win, Arrays.asList(kw.get(0), ns.stream().mapToLong(x -> x).sum())));
            listed.add(Arrays.asList(
                    kw.get(0), win, ns.stream().map(x -> Arrays.asList(kw.get(0), x)).collect(Collectors.toList())));
            timers.add(Arrays.asList(kw.get(0), win, kw.get(1) + 999));
        });
        fired.forEach((k, s) -> global.add(Arrays.asList(k, null, s.size())));
        String pair = "TUPLE<LONG,LONG>";
        ops.add(windowOp("window-tumbling-reduce", timers,
                StateFn.describe(StateDef.of("window-contents", "reducing", pair, null).in("TIME_WINDOW"), reduced)));
        ops.add(windowOp("window-tumbling-process", timers,
                StateFn.describe(StateDef.list("window-contents", pair).in("TIME_WINDOW"), listed),
                StateFn.describe(StateDef.value("fired-windows", "LONG"), global)));

        List<Object> sess = new ArrayList<>(), stimers = new ArrayList<>(), counts = new ArrayList<>(),
                     sums = new ArrayList<>();
        all.forEach((k, ns) -> {
            List<Long> in1 = ns.stream().filter(SavepointGen::inSession).collect(Collectors.toList());
            for (int i = 0; i < in1.size();) {
                int j = i;
                long sum = 0;
                do
                    sum += in1.get(j++);
                while (j < in1.size() && (in1.get(j) - in1.get(j - 1)) * STEP <= 300);
                long s = in1.get(i) * STEP, e = in1.get(j - 1) * STEP + 300;
                if (e - 1 > WM) {
                    sess.add(Arrays.asList(k, Arrays.asList(s, e), Arrays.asList(k, sum)));
                    stimers.add(Arrays.asList(k, Arrays.asList(s, e), e - 1));
                }
                i = j;
            }
            int left = ns.size() % 7;
            if (left > 0) {
                counts.add(Arrays.asList(k, "GLOBAL", left));
                sums.add(Arrays.asList(k, "GLOBAL",
                        Arrays.asList(k, ns.subList(ns.size() - left, ns.size()).stream().mapToLong(x -> x).sum())));
            }
        });
        Map<String, Object> so = windowOp("window-session", stimers,
                StateFn.describe(StateDef.of("window-contents", "reducing", pair, null).in("TIME_WINDOW"), null),
                StateFn.describe(StateDef.list("merging-window-set", "WINDOW_PAIR"), null));
        so.put("sessions", sess);
        so.put("note",
                "contents are kept under the state window that merging-window-set names: sessions = [key, merged "
                + "window, content]");
        ops.add(so);
        ops.add(windowOp("window-global-count", new ArrayList<>(),
                StateFn.describe(StateDef.of("window-contents", "reducing", pair, null).in("GLOBAL_WINDOW"), sums),
                StateFn.describe(StateDef.of("count", "reducing", "LONG", null).in("GLOBAL_WINDOW"), counts)));
    }

    @SafeVarargs
    static Map<String, Object> windowOp(String uid, List<Object> timers, Map<String, Object>... states) {
        String ns = uid.contains("global") ? "GLOBAL_WINDOW" : "TIME_WINDOW";
        return Specs.obj("uid", uid, "kind", "keyed", "keyType", "LONG", "states", Arrays.asList(states), "timers",
                Arrays.asList(Specs.obj("service", "window-timers", "namespace", ns, "eventTime", timers,
                        "processingTime", new ArrayList<>())));
    }

    // ---------------------------------------------------------------- operator state

    static class Lists extends RichMapFunction<Long, Long> implements CheckpointedFunction {
        final boolean union;
        transient ListState<Integer> ints;
        transient ListState<Tuple2<String, Long>> tuples;
        final List<Integer> a = new ArrayList<>();
        final List<Tuple2<String, Long>> b = new ArrayList<>();

        Lists(boolean union) {
            this.union = union;
        }

        @Override
        public Long map(Long n) {
            if (n % 13 == 0)
                a.add((int) (n - 100));
            if (n % 29 == 0)
                b.add(Tuple2.of("t" + n, n));
            return n;
        }

        @Override
        public void initializeState(FunctionInitializationContext c) throws Exception {
            ListStateDescriptor<Integer> d = new ListStateDescriptor<>(union ? "union-ints" : "op-ints", Types.INT);
            ints = union ? c.getOperatorStateStore().getUnionListState(d) : c.getOperatorStateStore().getListState(d);
            if (!union)
                tuples = c.getOperatorStateStore().getListState(
                        new ListStateDescriptor<>("op-tuples", Types.TUPLE(Types.STRING, Types.LONG)));
        }

        @Override
        public void snapshotState(FunctionSnapshotContext c) throws Exception {
            ints.update(a);
            if (!union)
                tuples.update(b);
        }
    }

    static final MapStateDescriptor<String, Integer> BC = new MapStateDescriptor<>("bc", Types.STRING, Types.INT);

    static class Bc extends BroadcastProcessFunction<Long, Long, Long> {
        @Override
        public void processElement(Long v, ReadOnlyContext c, Collector<Long> o) {}

        @Override
        public void processBroadcastElement(Long v, Context c, Collector<Long> o) throws Exception {
            c.getBroadcastState(BC).put("b\u00e9" + v % 40, (int) (v * 7));
        }
    }

    static void operatorStates(DataStream<Long> in, List<Object> ops, int par) {
        in.rebalance().map(new Lists(false)).returns(Types.LONG).uid("op-list").name("op-list");
        in.rebalance().map(new Lists(true)).returns(Types.LONG).uid("op-union").name("op-union");
        DataStream<Long> b = env(in).fromSource(new HoldSource("broadcast", 100), WatermarkStrategy.noWatermarks(),
                                            "source-bc", Types.LONG)
                                     .uid("source-bc")
                                     .setParallelism(1);
        in.rebalance()
                .connect(b.broadcast(BC))
                .process(new Bc())
                .returns(Types.LONG)
                .uid("op-broadcast")
                .name("op-broadcast");
        List<Object> ints = new ArrayList<>(), tuples = new ArrayList<>(), bc = new ArrayList<>();
        for (long n = 0; n < N; n++) {
            if (n % 13 == 0)
                ints.add(n - 100);
            if (n % 29 == 0)
                tuples.add(Arrays.asList("t" + n, n));
        }
        for (long v = 0; v < 40; v++)
            bc.add(Arrays.asList("b\u00e9" + v, (v + 40 + (v < 20 ? 40 : 0)) * 7));
        ops.add(Specs.obj("uid", "op-list", "kind", "operator", "states",
                Arrays.asList(Specs.obj("name", "op-ints", "kind", "list", "type", "INT", "entries", ints),
                        Specs.obj("name", "op-tuples", "kind", "list", "type", "TUPLE<STRING,LONG>", "entries",
                                tuples))));
        ops.add(Specs.obj("uid", "op-union", "kind", "operator", "states",
                Arrays.asList(Specs.obj("name", "union-ints", "kind", "union", "type", "INT", "entries", ints))));
        ops.add(Specs.obj("uid", "op-broadcast", "kind", "operator", "states",
                Arrays.asList(Specs.obj(
                        "name", "bc", "kind", "broadcast", "keyType", "STRING", "type", "INT", "entries", bc))));
        ops.add(Specs.obj("uid", "source-bc", "kind", "ignore", "note",
                "FLIP-27: reader state of one split (next = 100), coordinator state"));
    }

    static StreamExecutionEnvironment env(DataStream<?> s) {
        return s.getExecutionEnvironment();
    }
}
