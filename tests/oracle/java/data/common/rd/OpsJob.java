package rd;

import java.time.Duration;
import java.util.*;
import java.util.concurrent.*;
import org.apache.flink.api.common.eventtime.*;
import org.apache.flink.api.common.functions.*;
import org.apache.flink.api.common.serialization.SimpleStringEncoder;
import org.apache.flink.api.common.state.*;
import org.apache.flink.api.common.typeinfo.*;
import org.apache.flink.api.java.functions.KeySelector;
import org.apache.flink.api.java.tuple.*;
import org.apache.flink.cep.*;
import org.apache.flink.cep.functions.PatternProcessFunction;
import org.apache.flink.cep.pattern.Pattern;
import org.apache.flink.cep.pattern.conditions.*;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.connector.datagen.source.*;
import org.apache.flink.connector.file.sink.FileSink;
import org.apache.flink.connector.file.src.FileSource;
import org.apache.flink.connector.file.src.reader.TextLineInputFormat;
import org.apache.flink.core.fs.Path;
import org.apache.flink.streaming.api.datastream.*;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.async.*;
import org.apache.flink.streaming.api.functions.windowing.*;
import org.apache.flink.streaming.api.functions.windowing.delta.DeltaFunction;
import org.apache.flink.streaming.api.windowing.assigners.*;
import org.apache.flink.streaming.api.windowing.evictors.*;
import org.apache.flink.streaming.api.windowing.time.Time;
import org.apache.flink.streaming.api.windowing.triggers.*;
import org.apache.flink.streaming.api.windowing.windows.*;
import org.apache.flink.util.Collector;

public class OpsJob {
    public static class Ev {
        public long id;
        public String user;
        public double amount;
        public int kind;

        public Ev() {}

        public Ev(long id, String u, double a, int k) {
            this.id = id;
            user = u;
            amount = a;
            kind = k;
        }
    }

    public static class ToEv implements MapFunction<Long, Ev> {
        public Ev map(Long i) {
            return new Ev(i, "u" + i % 15, i / 2.0, (int) (i % 4));
        }
    }

    static class Never implements AsyncFunction<Long, Long> {
        public void asyncInvoke(Long i, ResultFuture<Long> f) {
            if (i < 180)
                f.complete(Collections.singleton(i)); /* else never */
        }

        public void timeout(Long i, ResultFuture<Long> f) {}
    }

    static class PW extends ProcessWindowFunction<Ev, String, String, TimeWindow> {
        static final ValueStateDescriptor<Long> W = new ValueStateDescriptor<>("per-window", Types.LONG),
                                                G = new ValueStateDescriptor<>("global-count", Types.LONG);

        public void process(String k, Context c, Iterable<Ev> it, Collector<String> o) throws Exception {
            long n = 0;
            for (Ev e : it)
                n++;
            c.windowState().getState(W).update(n);
            Long g = c.globalState().getState(G).value();
            c.globalState().getState(G).update((g == null ? 0 : g) + 1);
        }

        public void clear(Context c) throws Exception {
            c.windowState().getState(W).clear();
        }
    }

    static class SumA implements ReduceFunction<Ev> {
        public Ev reduce(Ev a, Ev b) {
            return new Ev(a.id, a.user, a.amount + b.amount, a.kind);
        }
    }

    static class Cnt implements AggregateFunction<Ev, Tuple2<Long, Double>, Double> {
        public Tuple2<Long, Double> createAccumulator() {
            return Tuple2.of(0L, 0.0);
        }

        public Tuple2<Long, Double> add(Ev e, Tuple2<Long, Double> a) {
            return Tuple2.of(a.f0 + 1, a.f1 + e.amount);
        }

        public Double getResult(Tuple2<Long, Double> a) {
            return a.f1;
        }

        public Tuple2<Long, Double> merge(Tuple2<Long, Double> a, Tuple2<Long, Double> b) {
            return Tuple2.of(a.f0 + b.f0, a.f1 + b.f1);
        }
    }

    static class Mark implements WatermarkGeneratorSupplier<Ev>, TimestampAssignerSupplier<Ev> {
        public WatermarkGenerator<Ev> createWatermarkGenerator(WatermarkGeneratorSupplier.Context c) {
            return new WatermarkGenerator<Ev>() {
                public void onEvent(Ev e, long ts, WatermarkOutput o) {
                    if (e.id == 299)
                        o.emitWatermark(new Watermark(200_500L));
                }
                public void onPeriodicEmit(WatermarkOutput o) {}
            };
        }

        public TimestampAssigner<Ev> createTimestampAssigner(TimestampAssignerSupplier.Context c) {
            return (e, t) -> e.id * 1000;
        }
    }

    static class K implements KeySelector<Ev, String> {
        public String getKey(Ev e) {
            return e.user;
        }
    }

    static class Kind extends SimpleCondition<Ev> {
        final int k;

        Kind(int k) {
            this.k = k;
        }

        public boolean filter(Ev e) {
            return e.kind == k;
        }
    }

    static class Bigger extends IterativeCondition<Ev> {
        public boolean filter(Ev e, Context<Ev> c) throws Exception {
            for (Ev f : c.getEventsForPattern("start"))
                if (f.amount < e.amount)
                    return true;
            return false;
        }
    }

    static class Out extends PatternProcessFunction<Ev, String> {
        public void processMatch(Map<String, List<Ev>> m, Context c, Collector<String> o) {
            o.collect("" + m.size());
        }
    }

    static class Delta implements DeltaFunction<Ev> {
        public double getDelta(Ev a, Ev b) {
            return Math.abs(a.amount - b.amount);
        }
    }

    static class Gen implements GeneratorFunction<Long, String> {
        public String map(Long i) {
            return "g" + i;
        }
    }

    static <T, W extends Window> Trigger<T, W> trig(Class<?> c, String m, long ms) {
        return (Trigger<T, W>) H.timed(c, m, ms);
    }

    public static void main(String[] a) throws Exception {
        Map<String, String> args = H.args(a);
        Configuration conf = H.conf(args);
        StreamExecutionEnvironment env = H.env(args, conf);
        DataStream<Long> src =
                env.fromSource(new HoldSource("main", 300), WatermarkStrategy.noWatermarks(), "src", Types.LONG)
                        .uid("src")
                        .setParallelism(1);
        DataStream<Ev> ev = src.map(new ToEv())
                                    .setParallelism(1)
                                    .uid("ev")
                                    .assignTimestampsAndWatermarks(WatermarkStrategy.<Ev>forGenerator(new Mark())
                                                    .withTimestampAssigner((TimestampAssignerSupplier<Ev>) new Mark()))
                                    .setParallelism(1)
                                    .uid("wm");
        KeyedStream<Ev, String> ks = ev.keyBy(new K());
        Pattern<Ev, ?> p = Pattern.<Ev>begin("start")
                                   .where(new Kind(1))
                                   .followedBy("mid")
                                   .where(new Bigger())
                                   .oneOrMore()
                                   .followedBy("end")
                                   .where(new Kind(3));
        CEP.pattern(ks, args.containsKey("within") ? p.within(Duration.ofMinutes(5)) : p)
                .process(new Out())
                .returns(Types.STRING)
                .uid("cep")
                .name("cep");
        Pattern<Ev, ?> p2 =
                Pattern.<Ev>begin("a", org.apache.flink.cep.nfa.aftermatch.AfterMatchSkipStrategy.skipPastLastEvent())
                        .where(new Kind(0))
                        .next("b")
                        .where(new Kind(2))
                        .times(2)
                        .optional()
                        .followedByAny("c")
                        .where(new Kind(1));
        CEP.pattern(ks, p2).process(new Out()).returns(Types.STRING).uid("cep2").name("cep2");
        WindowAssigner tum = (WindowAssigner) H.timed(TumblingEventTimeWindows.class, "of", 60_000),
                       ses = (WindowAssigner) H.timed(EventTimeSessionWindows.class, "withGap", 16_000),
                       glo = GlobalWindows.create();
        WindowAssigner tumP = (WindowAssigner) H.timed(TumblingProcessingTimeWindows.class, "of", 86_400_000L * 30);
        ((SingleOutputStreamOperator) ks.window(ses).reduce(new SumA())).uid("session-reduce").name("session-reduce");
        ((SingleOutputStreamOperator) ks.window(ses).aggregate(new Cnt())).uid("session-agg").name("session-agg");
        ((SingleOutputStreamOperator) ks.window(tum)
                        .evictor((Evictor) CountEvictor.of(3))
                        .process((ProcessWindowFunction) new PW(), Types.STRING))
                .uid("evictor")
                .name("evictor");
        ((SingleOutputStreamOperator) ks.window(ses)
                        .evictor((Evictor) CountEvictor.of(2))
                        .process((ProcessWindowFunction) new PW2(), Types.STRING))
                .uid("session-evictor")
                .name("session-evictor");
        ((SingleOutputStreamOperator) ks.window(tum)
                        .trigger(ContinuousEventTimeTrigger.of(Time.milliseconds(20_000)))
                        .process((ProcessWindowFunction) new PW(), Types.STRING))
                .uid("continuous")
                .name("continuous");
        ((SingleOutputStreamOperator) ks.window(tum)
                        .trigger((Trigger) PurgingTrigger.of((Trigger) CountTrigger.of(7)))
                        .process((ProcessWindowFunction) new PW(), Types.STRING))
                .uid("purging")
                .name("purging");
        ((SingleOutputStreamOperator) ks.window(glo)
                        .trigger((Trigger) DeltaTrigger.of(
                                30.0, new Delta(), TypeInformation.of(Ev.class).createSerializer(env.getConfig())))
                        .aggregate(new Cnt()))
                .uid("delta")
                .name("delta");
        ks.countWindow(4).aggregate(new Cnt()).uid("count4").name("count4");
        ks.countWindow(6, 2).reduce(new SumA()).uid("count-slide").name("count-slide");
        ((SingleOutputStreamOperator) ks.window(tumP).aggregate(new Cnt())).uid("proc-tumble").name("proc-tumble");
        ((SingleOutputStreamOperator) ev.windowAll(tum).aggregate(
                 (AggregateFunction) new Cnt(), Types.TUPLE(Types.LONG, Types.DOUBLE), Types.DOUBLE))
                .uid("window-all")
                .name("window-all");
        ks.intervalJoin(ev.keyBy(new K()))
                .between(Time.milliseconds(-3000), Time.milliseconds(5000))
                .process(new IJ())
                .returns(Types.STRING)
                .uid("ijoin")
                .name("ijoin");
        ev.join(ev)
                .where(new K())
                .equalTo(new K())
                .window(tum)
                .apply(new J(), Types.STRING)
                .map(x -> x)
                .returns(Types.STRING);
        AsyncDataStream.orderedWait(src, new Never(), 100, TimeUnit.DAYS, 400)
                .uid("async")
                .name("async")
                .setParallelism(1);
        AsyncDataStream.unorderedWait(src, new Never(), 100, TimeUnit.DAYS, 400)
                .uid("async-un")
                .name("async-un")
                .setParallelism(1);
        FileSink<String> fs =
                FileSink.forRowFormat(new Path(args.get("out") + "/sunk"), new SimpleStringEncoder<String>("UTF-8"))
                        .build();
        src.map(i -> "line" + i).returns(Types.STRING).uid("lines").sinkTo(fs).uid("file-sink").name("file-sink");
        java.nio.file.Path in = java.nio.file.Paths.get(args.get("out"), "in");
        java.nio.file.Files.createDirectories(in);
        for (int i = 0; i < 6; i++) {
            StringBuilder b = new StringBuilder();
            for (int j = 0; j < 5; j++)
                b.append("f").append(i).append("l").append(j).append("\n");
            java.nio.file.Files.write(in.resolve("f" + i + ".txt"), b.toString().getBytes());
        }
        FileSource<String> f =
                FileSource.forRecordStreamFormat(new TextLineInputFormat(), new Path("file://" + in.toAbsolutePath()))
                        .monitorContinuously(Duration.ofSeconds(1))
                        .build();
        env.fromSource(f, WatermarkStrategy.noWatermarks(), "files")
                .uid("file-source")
                .map(x -> {
                    Thread.sleep(300);
                    return x;
                })
                .returns(Types.STRING)
                .uid("slow-lines");
        DataGeneratorSource<String> dg = new DataGeneratorSource<>(new Gen(), 1_000_000_000L,
                org.apache.flink.api.connector.source.util.ratelimit.RateLimiterStrategy.perSecond(20), Types.STRING);
        env.fromSource(dg, WatermarkStrategy.noWatermarks(), "datagen")
                .uid("datagen")
                .map(x -> x)
                .returns(Types.STRING)
                .uid("dg-map");
        H.run(env.getStreamGraph().getJobGraph(), conf, args, "main");
        System.exit(0);
    }

    static class PW2 extends ProcessWindowFunction<Ev, String, String, TimeWindow> {
        public void process(String k, Context c, Iterable<Ev> it, Collector<String> o) {}
    }

    static class IJ extends org.apache.flink.streaming.api.functions.co.ProcessJoinFunction<Ev, Ev, String> {
        public void processElement(Ev l, Ev r, Context c, Collector<String> o) {}
    }

    static class J implements JoinFunction<Ev, Ev, String> {
        public String join(Ev l, Ev r) {
            return "";
        }
    }
}
