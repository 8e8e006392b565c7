package connlab;

import java.io.File;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.nio.file.*;
import java.time.Duration;
import java.util.*;
import java.util.concurrent.TimeUnit;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.serialization.SimpleStringEncoder;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.connector.source.lib.NumberSequenceSource;
import org.apache.flink.configuration.MemorySize;
import org.apache.flink.connector.base.source.hybrid.HybridSource;
import org.apache.flink.connector.datagen.source.DataGeneratorSource;
import org.apache.flink.connector.datagen.source.GeneratorFunction;
import org.apache.flink.connector.file.sink.FileSink;
import org.apache.flink.connector.file.src.FileSource;
import org.apache.flink.connector.file.src.reader.TextLineInputFormat;
import org.apache.flink.core.io.SimpleVersionedSerializer;
import org.apache.flink.streaming.api.datastream.*;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.async.*;
import org.apache.flink.streaming.api.functions.sink.filesystem.BucketAssigner;
import org.apache.flink.streaming.api.functions.sink.filesystem.bucketassigners.SimpleVersionedStringSerializer;
import org.apache.flink.streaming.api.functions.sink.filesystem.rollingpolicies.DefaultRollingPolicy;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;

/** The jobs, one per kind of state. Each has the uids "source", "seen" and, where it applies, "sink" or "async". */
public final class Jobs {
    private Jobs() {}

    /** What a job wants to have in the result besides what it emitted. */
    public static final List<java.util.concurrent.Callable<Object>> NOTES = new ArrayList<>();

    /** What a job needs to know: is it the run that is stopped, and where its files lie. */
    public static final class Setting {
        public final boolean generating;
        public final String data;
        public final long pause;
        public final Map<String, String> args;

        Setting(Map<String, String> args) {
            this.args = args;
            generating = args.get("mode").equals("gen");
            data = args.get("data");
            pause = Long.parseLong(args.getOrDefault("pause", generating ? "4" : "0"));
        }
    }

    public static void build(String job, StreamExecutionEnvironment env, Setting s) throws Exception {
        switch (job) {
            case "seq":
                plain(env.fromSource(new NumberSequenceSource(0, 399), WatermarkStrategy.noWatermarks(), "seq"), s);
                return;
            case "datagen":
                plain(env.fromSource(generator(400), WatermarkStrategy.noWatermarks(), "datagen"), s);
                return;
            case "files":
                plain(env.fromSource(files(s).build(), WatermarkStrategy.noWatermarks(), "files"), s);
                return;
            case "files-continuous":
                plain(env.fromSource(files(s).monitorContinuously(Duration.ofMillis(200)).build(),
                              WatermarkStrategy.noWatermarks(), "files"),
                        s);
                return;
            case "hybrid":
                plain(env.fromSource(HybridSource.builder(new NumberSequenceSource(0, 199))
                                             .addSource(new NumberSequenceSource(1000, 1199))
                                             .build(),
                              WatermarkStrategy.noWatermarks(), "hybrid", Types.LONG),
                        s);
                return;
            case "hybrid-files":
                plain(env.fromSource(HybridSource.builder(files(s).build()).addSource(generator(200)).build(),
                              WatermarkStrategy.noWatermarks(), "hybrid", Types.STRING),
                        s);
                return;
            case "filesink":
                fileSink(env, s);
                return;
            case "txnsink":
                seen(env.fromSource(new flinklab.HoldSource("txn", 20), WatermarkStrategy.noWatermarks(), "hold")
                                .uid("source"),
                        s)
                        .sinkTo(new TxnSink())
                        .uid("sink")
                        .name("sink");
                return;
            case "async":
                async(env, s);
                return;
            case "streamingfilesink":
                streamingFileSink(env, s);
                return;
            default:
                // further jobs come from classes beside this one, with the connector's jars on the class path
                Class.forName("connlab." + job)
                        .getMethod("build", StreamExecutionEnvironment.class, Setting.class)
                        .invoke(null, env, s);
        }
    }

    static <T> SingleOutputStreamOperator<T> seen(SingleOutputStreamOperator<T> in, Setting s) {
        return in.map(new Emitted<T>(s.pause)).returns(in.getType()).uid("seen").name("seen");
    }

    static <T> void plain(DataStreamSource<T> in, Setting s) {
        seen(in.uid("source"), s).sinkTo(new DiscardingSink<>()).uid("sink").name("sink");
    }

    private static DataGeneratorSource<String> generator(long n) {
        GeneratorFunction<Long, String> f = i -> "v" + i;
        return new DataGeneratorSource<>(f, n, Types.STRING);
    }

    /** Five files of 80 lines, FILE:LINE, the line numbers padded so that every line has as many bytes. */
    private static FileSource.FileSourceBuilder<String> files(Setting s) throws Exception {
        File dir = new File(s.data, "in");
        if (dir.mkdirs())
            for (char c = 'a'; c <= 'e'; c++) {
                StringBuilder b = new StringBuilder();
                for (int i = 0; i < 80; i++)
                    b.append(String.format("%s:%03d%n", c, i));
                Files.write(new File(dir, c + ".txt").toPath(), b.toString().getBytes(StandardCharsets.UTF_8));
            }
        return FileSource.forRecordStreamFormat(
                new TextLineInputFormat(), org.apache.flink.core.fs.Path.fromLocalFile(dir));
    }

    /** Two buckets, odd and even. */
    public static final class Parity implements BucketAssigner<String, String> {
        @Override
        public String getBucketId(String v, Context c) {
            return Long.parseLong(v.substring(1)) % 2 == 0 ? "even" : "odd";
        }

        @Override
        public SimpleVersionedSerializer<String> getSerializer() {
            return SimpleVersionedStringSerializer.INSTANCE;
        }
    }

    private static void fileSink(StreamExecutionEnvironment env, Setting s) {
        FileSink<String> sink = FileSink.forRowFormat(new org.apache.flink.core.fs.Path("file://" + s.data + "/out"),
                                                new SimpleStringEncoder<String>("UTF-8"))
                                        .withBucketAssigner(new Parity())
                                        .withBucketCheckInterval(50)
                                        .withRollingPolicy(DefaultRollingPolicy.builder()
                                                        .withMaxPartSize(new MemorySize(120))
                                                        .withRolloverInterval(Duration.ofDays(1))
                                                        .withInactivityInterval(Duration.ofDays(1))
                                                        .build())
                                        .build();
        seen(env.fromSource(generator(400), WatermarkStrategy.noWatermarks(), "datagen").uid("source"), s)
                .sinkTo(sink)
                .uid("sink")
                .name("sink");
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    private static void streamingFileSink(StreamExecutionEnvironment env, Setting s) throws Exception {
        String pack = "org.apache.flink.streaming.api.functions.sink.filesystem.";
        Class<?> c;
        try {
            c = Class.forName(pack + "StreamingFileSink");
        } catch (ClassNotFoundException e) {
            c = Class.forName(pack + "legacy.StreamingFileSink");
        }
        Object b = c.getMethod("forRowFormat", org.apache.flink.core.fs.Path.class,
                            org.apache.flink.api.common.serialization.Encoder.class)
                           .invoke(null, new org.apache.flink.core.fs.Path("file://" + s.data + "/out"),
                                   new SimpleStringEncoder<String>("UTF-8"));
        b = call(b, "withBucketAssigner", new Parity());
        b = call(b, "withRollingPolicy",
                DefaultRollingPolicy.builder()
                        .withMaxPartSize(new MemorySize(120))
                        .withRolloverInterval(Duration.ofDays(1))
                        .withInactivityInterval(Duration.ofDays(1))
                        .build());
        Object sink = call(b, "build");
        DataStream<String> in =
                seen(env.fromSource(generator(400), WatermarkStrategy.noWatermarks(), "datagen").uid("source"), s);
        for (Method m : DataStream.class.getMethods())
            if (m.getName().equals("addSink") && m.getParameterTypes()[0].isInstance(sink)) {
                ((DataStreamSink) m.invoke(in, sink)).uid("sink").name("sink");
                return;
            }
        throw new IllegalStateException("addSink");
    }

    private static Object call(Object o, String name, Object... args) throws Exception {
        for (Class<?> c = o.getClass(); c != null; c = c.getSuperclass())
            for (Method m : c.getDeclaredMethods())
                if (m.getName().equals(name) && m.getParameterCount() == args.length && !m.isBridge()
                        && (args.length == 0 || m.getParameterTypes()[0].isInstance(args[0]))) {
                    m.setAccessible(true);
                    return m.invoke(o, args);
                }
        throw new NoSuchMethodException(name);
    }

    /** Never answers in the run that is stopped; answers "done N" afterwards. */
    public static final class Slow extends RichAsyncFunction<Long, String> {
        private final boolean never;

        Slow(boolean never) {
            this.never = never;
        }

        @Override
        public void asyncInvoke(Long v, ResultFuture<String> r) {
            if (never)
                ASKED.add(v);
            else
                r.complete(Collections.singleton("done " + v));
        }

        @Override
        public void timeout(Long v, ResultFuture<String> r) {}
    }

    public static final Set<Long> ASKED = java.util.concurrent.ConcurrentHashMap.newKeySet();

    private static void async(StreamExecutionEnvironment env, Setting s) {
        DataStream<Long> in = env.fromSource(new flinklab.HoldSource("async", 12),
                                         WatermarkStrategy.<Long>forGenerator(c -> new EveryEvent())
                                                 .withTimestampAssigner((v, t) -> 1000 + v),
                                         "hold")
                                      .uid("source");
        SingleOutputStreamOperator<String> out =
                AsyncDataStream.orderedWait(in, new Slow(s.generating), 1, TimeUnit.DAYS, 100)
                        .returns(Types.STRING)
                        .uid("async")
                        .name("async");
        seen(out, s).sinkTo(new DiscardingSink<>()).uid("sink").name("sink");
    }

    /** A watermark behind every third record. */
    public static final class EveryEvent implements org.apache.flink.api.common.eventtime.WatermarkGenerator<Long> {
        @Override
        public void onEvent(Long v, long t, org.apache.flink.api.common.eventtime.WatermarkOutput o) {
            if (v % 3 == 2)
                o.emitWatermark(new org.apache.flink.api.common.eventtime.Watermark(t));
        }

        @Override
        public void onPeriodicEmit(org.apache.flink.api.common.eventtime.WatermarkOutput o) {}
    }
}
