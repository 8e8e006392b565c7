package rd;

import java.math.*;
import java.time.*;
import java.util.*;
import org.apache.flink.api.common.functions.*;
import org.apache.flink.api.common.state.*;
import org.apache.flink.api.common.typeinfo.*;
import org.apache.flink.api.java.functions.KeySelector;
import org.apache.flink.api.java.tuple.*;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.runtime.state.*;
import org.apache.flink.streaming.api.checkpoint.CheckpointedFunction;
import org.apache.flink.streaming.api.datastream.*;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.*;
import org.apache.flink.streaming.api.functions.co.*;
import org.apache.flink.streaming.api.functions.source.SourceFunction;
import org.apache.flink.streaming.api.functions.windowing.ProcessWindowFunction;
import org.apache.flink.streaming.api.windowing.assigners.*;
import org.apache.flink.streaming.api.windowing.windows.*;
import org.apache.flink.types.Either;
import org.apache.flink.util.Collector;

/** The base job: everything is a function of how many numbers the source has emitted (its own state "emitted"). */
public class BaseJob {
    public static class Src implements SourceFunction<Long>, CheckpointedFunction {
        final String name;
        final long n;
        final int batch, pause;
        volatile boolean run = true;
        long next;
        transient ListState<Long> off;

        public Src(String name, long n, int batch, int pause) {
            this.name = name;
            this.n = n;
            this.batch = batch;
            this.pause = pause;
            H.latch(name);
        }

        public void run(SourceContext<Long> ctx) throws Exception {
            while (run) {
                if (next < n) {
                    synchronized (ctx.getCheckpointLock()) {
                        ctx.collectWithTimestamp(next, next * 10);
                        next++;
                    }
                    if (next % batch == 0)
                        Thread.sleep(pause);
                } else {
                    H.latch(name).countDown();
                    Thread.sleep(20);
                }
            }
        }

        public void cancel() {
            run = false;
        }

        public void snapshotState(FunctionSnapshotContext c) throws Exception {
            off.clear();
            off.add(next);
        }

        public void initializeState(FunctionInitializationContext c) throws Exception {
            off = c.getOperatorStateStore().getListState(new ListStateDescriptor<>("emitted", Types.LONG));
            for (Long l : off.get())
                next = l;
        }
    }

    public static class Key implements KeySelector<Long, Object> {
        final int kind;
        final int keys;

        public Key(int kind, int keys) {
            this.kind = kind;
            this.keys = keys;
        }

        public Object getKey(Long i) {
            long k = i % keys;
            switch (kind) {
                case 0:
                    return k;
                case 1:
                    return "k" + k + (k % 5 == 0 ? "\u00e9\u6f22" : "");
                case 2:
                    return Tuple2.of("t" + k, (int) k);
                default:
                    Person.Address a = new KeyPojo();
                    a.street = "s" + k;
                    a.zip = (int) k;
                    return a;
            }
        }
    }

    public static class KeyPojo extends Person.Address {
        public KeyPojo() {}

        public int hashCode() {
            return zip * 31 + 7;
        }

        public boolean equals(Object o) {
            return o instanceof KeyPojo && ((KeyPojo) o).zip == zip;
        }
    }

    public static class Avg implements AggregateFunction<Long, Tuple2<Long, Long>, Double> {
        public Tuple2<Long, Long> createAccumulator() {
            return Tuple2.of(0L, 0L);
        }

        public Tuple2<Long, Long> add(Long v, Tuple2<Long, Long> a) {
            return Tuple2.of(a.f0 + v, a.f1 + 1);
        }

        public Double getResult(Tuple2<Long, Long> a) {
            return 1.0 * a.f0 / a.f1;
        }

        public Tuple2<Long, Long> merge(Tuple2<Long, Long> a, Tuple2<Long, Long> b) {
            return Tuple2.of(a.f0 + b.f0, a.f1 + b.f1);
        }
    }

    public static class Sum implements ReduceFunction<Long> {
        public Long reduce(Long a, Long b) {
            return a + b;
        }
    }

    public static class Fn extends KeyedProcessFunction<Object, Long, Long> implements CheckpointedFunction {
        transient ValueState<Long> cnt, ttl, gone;
        transient ValueState<String> last;
        transient ListState<Integer> list;
        transient MapState<String, Long> map;
        transient ReducingState<Long> red;
        transient AggregatingState<Long, Double> agg;
        transient ValueState<Person> pojo;
        transient ValueState<Tuple3<Long, String, Double>> tup;
        transient ValueState<BigDecimal> dec;
        transient ValueState<Instant> inst;
        transient MapState<Tuple2<String, Integer>, Person.Address> mtp;
        transient ValueState<Either<String, Integer>> either;
        transient ListState<Long> tlist;
        transient MapState<Long, String> tmap;
        transient ValueState<LocalDateTime> ldt;

        public void snapshotState(FunctionSnapshotContext c) {}

        public void initializeState(FunctionInitializationContext c) throws Exception {
            KeyedStateStore s = c.getKeyedStateStore();
            StateTtlConfig t =
                    ((StateTtlConfig.Builder) H.timed(StateTtlConfig.class, "newBuilder", 30L * 86400000)).build();
            cnt = s.getState(new ValueStateDescriptor<>("cnt", Types.LONG));
            gone = s.getState(new ValueStateDescriptor<>("gone", Types.LONG));
            last = s.getState(new ValueStateDescriptor<>("last", Types.STRING));
            list = s.getListState(new ListStateDescriptor<>("list", Types.INT));
            map = s.getMapState(new MapStateDescriptor<>("map", Types.STRING, Types.LONG));
            red = s.getReducingState(new ReducingStateDescriptor<>("red", new Sum(), Types.LONG));
            agg = s.getAggregatingState(
                    new AggregatingStateDescriptor<>("agg", new Avg(), Types.TUPLE(Types.LONG, Types.LONG)));
            pojo = s.getState(new ValueStateDescriptor<>("pojo", TypeInformation.of(Person.class)));
            tup = s.getState(new ValueStateDescriptor<>("tup", Types.TUPLE(Types.LONG, Types.STRING, Types.DOUBLE)));
            dec = s.getState(new ValueStateDescriptor<>("dec", Types.BIG_DEC));
            inst = s.getState(new ValueStateDescriptor<>("inst", Types.INSTANT));
            ldt = s.getState(new ValueStateDescriptor<>("ldt", Types.LOCAL_DATE_TIME));
            mtp = s.getMapState(
                    new MapStateDescriptor<>("mtp", Types.<Tuple2<String, Integer>>TUPLE(Types.STRING, Types.INT),
                            TypeInformation.of(Person.Address.class)));
            either = s.getState(new ValueStateDescriptor<>("either", Types.EITHER(Types.STRING, Types.INT)));
            ValueStateDescriptor<Long> d = new ValueStateDescriptor<>("ttl", Types.LONG);
            d.enableTimeToLive(t);
            ttl = s.getState(d);
            ListStateDescriptor<Long> dl = new ListStateDescriptor<>("tlist", Types.LONG);
            dl.enableTimeToLive(t);
            tlist = s.getListState(dl);
            MapStateDescriptor<Long, String> dm = new MapStateDescriptor<>("tmap", Types.LONG, Types.STRING);
            dm.enableTimeToLive(t);
            tmap = s.getMapState(dm);
        }

        public void processElement(Long i, Context ctx, Collector<Long> out) throws Exception {
            Long c = cnt.value();
            cnt.update(c == null ? 1 : c + 1);
            last.update("s" + i);
            list.add((int) (i % 1000));
            map.put("m" + i % 5, i);
            red.add(i);
            agg.add(i);
            pojo.update(Person.of(i));
            tup.update(Tuple3.of(i, "x" + i, i / 4.0));
            dec.update(new BigDecimal(BigInteger.valueOf(i * 1000003 - 5000000), (int) (i % 7) - 2));
            inst.update(Instant.ofEpochSecond(i * 1000, (i % 1000) * 1000));
            ldt.update(LocalDateTime.of(2020, 1, 1, 0, 0).plusSeconds(i));
            Person.Address a = new Person.Address();
            a.street = i % 3 == 0 ? null : "st" + i;
            a.zip = (int) (long) i;
            mtp.put(Tuple2.of("a" + i % 2, 1), a);
            either.update(i % 2 == 0 ? Either.Left("l" + i) : Either.Right((int) (long) i));
            ttl.update(i);
            tlist.add(i);
            tmap.put(i % 3, "v" + i);
            if (i % 7 == 0)
                gone.clear();
            else
                gone.update(i);
            if (c != null && c % 4 == 0)
                list.clear();
            if (i % 11 == 0)
                map.remove("m" + (i + 1) % 5);
            org.apache.flink.streaming.api.TimerService t = ctx.timerService();
            t.registerEventTimeTimer(5_000_000_000_000L + i);
            if (i % 2 == 0)
                t.deleteEventTimeTimer(5_000_000_000_000L + i);
            t.registerProcessingTimeTimer(6_000_000_000_000L + i % 10);
            out.collect(i);
        }
    }

    public static class Ops extends RichMapFunction<Long, Long> implements CheckpointedFunction {
        transient ListState<String> list;
        transient ListState<Long> union;
        long n, sum;

        public Long map(Long i) {
            n++;
            sum += i;
            return i;
        }

        public void snapshotState(FunctionSnapshotContext c) throws Exception {
            list.clear();
            for (int j = 0; j < 4; j++)
                list.add("e" + j + "-" + n);
            union.clear();
            union.add(n);
            union.add(sum);
        }

        public void initializeState(FunctionInitializationContext c) throws Exception {
            list = c.getOperatorStateStore().getListState(new ListStateDescriptor<>("op-list", Types.STRING));
            union = c.getOperatorStateStore().getUnionListState(new ListStateDescriptor<>("op-union", Types.LONG));
            Iterator<Long> it = union.get().iterator();
            if (it.hasNext()) {
                n = it.next();
                sum = it.next();
            }
        }
    }

    static final MapStateDescriptor<String, Long> RULES = new MapStateDescriptor<>("rules", Types.STRING, Types.LONG);

    public static class Bc extends KeyedBroadcastProcessFunction<Object, Long, Long, Long> {
        public void processElement(Long v, ReadOnlyContext c, Collector<Long> o) {}

        public void processBroadcastElement(Long v, Context c, Collector<Long> o) throws Exception {
            c.getBroadcastState(RULES).put("r" + v, v * v);
        }
    }

    public static class SumWin extends ProcessWindowFunction<Long, Long, Object, TimeWindow> {
        public void process(Object k, Context c, Iterable<Long> it, Collector<Long> o) {}
    }

    public static class Slow implements MapFunction<Long, Long> {
        final int us;

        public Slow(int us) {
            this.us = us;
        }

        public Long map(Long l) {
            java.util.concurrent.locks.LockSupport.parkNanos(us * 1000L);
            return l;
        }
    }

    public static void main(String[] a) throws Exception {
        Map<String, String> args = H.args(a);
        Configuration conf = H.conf(args);
        StreamExecutionEnvironment env = H.env(args, conf);
        try {
            Class tc = Class.forName("org.apache.flink.streaming.api.TimeCharacteristic");
            env.getClass().getMethod("setStreamTimeCharacteristic", tc).invoke(env, Enum.valueOf(tc, "EventTime"));
        } catch (Throwable e) {}
        int keys = Integer.parseInt(args.getOrDefault("keys", "200"));
        long n = Long.parseLong(args.getOrDefault("n", "4000"));
        SingleOutputStreamOperator<Long> src =
                env.addSource(new Src("main", n, Integer.parseInt(args.getOrDefault("batch", "100")),
                                      Integer.parseInt(args.getOrDefault("sleep", "5"))),
                           "src", Types.LONG)
                        .uid("src");
        SingleOutputStreamOperator<Long> in = src;
        if (args.containsKey("slow")) {
            in = src.rebalance().map(new Slow(Integer.parseInt(args.get("slow")))).returns(Types.LONG).uid("slow");
        }
        in.keyBy(new Key(0, keys), (TypeInformation) Types.LONG)
                .process(new Fn())
                .returns(Types.LONG)
                .uid("by-long")
                .name("by-long");
        in.keyBy(new Key(1, keys), (TypeInformation) Types.STRING)
                .process(new Fn())
                .returns(Types.LONG)
                .uid("by-string")
                .name("by-string");
        in.keyBy(new Key(2, keys), (TypeInformation) Types.TUPLE(Types.STRING, Types.INT))
                .process(new Fn())
                .returns(Types.LONG)
                .uid("by-tuple")
                .name("by-tuple");
        in.keyBy(new Key(3, keys), (TypeInformation) TypeInformation.of(KeyPojo.class))
                .process(new Fn())
                .returns(Types.LONG)
                .uid("by-pojo")
                .name("by-pojo");
        KeyedStream<Long, Object> ks = in.keyBy(new Key(0, 20), (TypeInformation) Types.LONG);
        ks.window((WindowAssigner) H.timed(TumblingEventTimeWindows.class, "of", 10_000))
                .aggregate((AggregateFunction) new Avg(), Types.TUPLE(Types.LONG, Types.LONG), Types.DOUBLE)
                .uid("tumble")
                .name("tumble");
        ks.window((WindowAssigner) H.timed(EventTimeSessionWindows.class, "withGap", 150))
                .reduce((ReduceFunction) new Sum())
                .uid("session")
                .name("session");
        ks.window((WindowAssigner) H.timed(TumblingEventTimeWindows.class, "of", 10_000))
                .process((ProcessWindowFunction) new SumWin(), Types.LONG)
                .uid("wlist")
                .name("wlist");
        in.map(new Ops()).returns(Types.LONG).uid("ops").name("ops").setParallelism(1);
        BroadcastStream<Long> b =
                env.addSource(new Src("rules", 50, 10, 1), "rules", Types.LONG).uid("rules-src").broadcast(RULES);
        ks.connect(b).process(new Bc(), Types.LONG).uid("bc").name("bc");
        JobGraph_(env, conf, args);
    }

    static void JobGraph_(StreamExecutionEnvironment env, Configuration conf, Map<String, String> args)
            throws Exception {
        H.run(env.getStreamGraph().getJobGraph(), conf, args,
                args.containsKey("periodic") ? new String[] {"rules"} : new String[] {"main", "rules"});
        System.exit(0);
    }
}
