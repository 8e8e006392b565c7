package oracle;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.MapFunction;
import org.apache.flink.api.common.state.MapStateDescriptor;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.functions.KeySelector;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.streaming.api.datastream.AsyncDataStream;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.datastream.DataStreamSink;
import org.apache.flink.streaming.api.datastream.KeyedStream;
import org.apache.flink.streaming.api.datastream.SingleOutputStreamOperator;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.ProcessFunction;
import org.apache.flink.streaming.api.functions.async.AsyncFunction;
import org.apache.flink.streaming.api.functions.async.ResultFuture;
import org.apache.flink.streaming.api.functions.co.BroadcastProcessFunction;
import org.apache.flink.streaming.api.functions.co.CoMapFunction;
import org.apache.flink.streaming.api.operators.AbstractInput;
import org.apache.flink.streaming.api.operators.AbstractStreamOperatorFactory;
import org.apache.flink.streaming.api.operators.AbstractStreamOperatorV2;
import org.apache.flink.streaming.api.operators.ChainingStrategy;
import org.apache.flink.streaming.api.operators.Input;
import org.apache.flink.streaming.api.operators.MultipleInputStreamOperator;
import org.apache.flink.streaming.api.operators.StreamOperator;
import org.apache.flink.streaming.api.operators.StreamOperatorParameters;
import org.apache.flink.streaming.api.transformations.MultipleInputTransformation;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;
import org.apache.flink.util.Collector;
import org.apache.flink.util.OutputTag;

/**
 * A job that is described step by step: {@code {"parallelism", "maxParallelism", "chaining", "steps": [...]}}. A step has
 * an {@code op}, a {@code name} by which later steps call it, and {@code inputs}: for each input of the operator the
 * streams that are united there, each {@code [name, partitioner]}, where {@code SIDE} is a side output.
 */
final class Topology {
    private static final OutputTag<Integer> SIDE = new OutputTag<>("side", Types.INT);

    private final StreamExecutionEnvironment env;
    private final JsonNode job;
    private final Map<String, DataStream<Integer>> streams = new HashMap<>();

    Topology(StreamExecutionEnvironment env, JsonNode job) {
        this.env = env;
        this.job = job;
    }

    void build() {
        env.setParallelism(job.path("parallelism").asInt(1));
        if (job.hasNonNull("maxParallelism")) {
            env.setMaxParallelism(job.get("maxParallelism").asInt());
        }
        if (!job.path("chaining").asBoolean(true)) {
            env.disableOperatorChaining();
        }
        for (JsonNode step : job.get("steps")) {
            add(step);
        }
    }

    private void add(JsonNode step) {
        String name = step.get("name").asText();
        switch (step.get("op").asText()) {
            case "source" -> keep(step, env.fromSource(
                    new CountingSource(name, 1), WatermarkStrategy.noWatermarks(), name, Types.INT));
            case "legacy" -> keep(step, Compat.legacySource(env, name));
            case "map" -> keep(step, input(step, 0).map(new Same()));
            case "process" -> keep(step, input(step, 0).process(new Twice()));
            case "reduce" -> keep(step, keyed(input(step, 0)).reduce(Integer::sum));
            case "window" -> keep(step, keyed(input(step, 0))
                    .window(Compat.tumbling(Duration.ofMinutes(1))).reduce(Integer::sum));
            case "windowAll" -> keep(step, input(step, 0)
                    .windowAll(Compat.tumbling(Duration.ofMinutes(1))).reduce(Integer::sum));
            case "async" -> keep(step, AsyncDataStream.orderedWait(input(step, 0), new Later(), 1, TimeUnit.SECONDS));
            case "connect" -> keep(step, input(step, 0).connect(input(step, 1)).map(new Either()));
            case "broadcast" -> keep(step, input(step, 0).connect(input(step, 1).broadcast(
                    new MapStateDescriptor<>("rules", Types.INT, Types.INT))).process(new Rules()));
            case "coGroup" -> keep(step, (SingleOutputStreamOperator<Integer>) input(step, 0).coGroup(input(step, 1))
                    .where(new Self()).equalTo(new Self()).window(Compat.tumbling(Duration.ofMinutes(1)))
                    .apply((left, right, out) -> out.collect(1), Types.INT));
            case "multiple" -> keep(step, multiple(step, ChainingStrategy.ALWAYS));
            case "multipleWithSources" -> keep(step, multiple(step, ChainingStrategy.HEAD_WITH_SOURCES));
            case "sink" -> set(step, input(step, 0).sinkTo(Sinks.plain()));
            case "committing" -> set(step, input(step, 0).sinkTo(Sinks.committing()));
            case "print" -> set(step, input(step, 0).print());
            default -> throw new IllegalArgumentException("no such step: " + step);
        }
    }

    // ------------------------------------------------------------------------------------------ inputs

    private DataStream<Integer> input(JsonNode step, int port) {
        DataStream<Integer> all = null;
        for (JsonNode part : step.get("inputs").get(port)) {
            DataStream<Integer> stream = partitioned(streams.get(part.get(0).asText()), part.path(1).asText(""));
            all = all == null ? stream : all.union(stream);
        }
        return all;
    }

    private static DataStream<Integer> partitioned(DataStream<Integer> stream, String partitioner) {
        return switch (partitioner) {
            case "HASH" -> keyed(stream);
            case "BROADCAST" -> stream.broadcast();
            case "REBALANCE" -> stream.rebalance();
            case "RESCALE" -> stream.rescale();
            case "SHUFFLE" -> stream.shuffle();
            case "GLOBAL" -> stream.global();
            case "FORWARD" -> stream.forward();
            case "CUSTOM" -> stream.partitionCustom((key, partitions) -> 0, new Self());
            case "SIDE" -> ((SingleOutputStreamOperator<Integer>) stream).getSideOutput(SIDE);
            default -> stream;
        };
    }

    private static KeyedStream<Integer, Integer> keyed(DataStream<Integer> stream) {
        return stream instanceof KeyedStream<?, ?> already
                ? (KeyedStream<Integer, Integer>) already
                : stream.keyBy(new Self(), Types.INT);
    }

    private SingleOutputStreamOperator<Integer> multiple(JsonNode step, ChainingStrategy strategy) {
        int parallelism = step.path("parallelism").asInt(env.getParallelism());
        MultipleInputTransformation<Integer> transformation = new MultipleInputTransformation<>(
                step.get("name").asText(), new ManyFactory(step.get("inputs").size()), Types.INT, parallelism);
        for (int port = 0; port < step.get("inputs").size(); port++) {
            transformation.addInput(input(step, port).getTransformation());
        }
        transformation.setChainingStrategy(strategy);
        env.addOperator(transformation);
        return new Reached(env, transformation);
    }

    /** An operator with two inputs, with two sources inside it. */
    static void addInlinedSources(StreamExecutionEnvironment env, String name) {
        MultipleInputTransformation<Integer> many =
                new MultipleInputTransformation<>("many", new ManyFactory(2), Types.INT, env.getParallelism());
        for (String input : List.of("first", "second")) {
            CountingSource source = new CountingSource(name + " " + input, 2);
            many.addInput(env.fromSource(source, WatermarkStrategy.noWatermarks(), input, Types.INT)
                    .uid(input).getTransformation());
        }
        many.setUid("many");
        many.setChainingStrategy(ChainingStrategy.HEAD_WITH_SOURCES);
        env.addOperator(many);
    }

    // ------------------------------------------------------------------------------------------ settings

    private void keep(JsonNode step, SingleOutputStreamOperator<Integer> operator) {
        operator.name(step.get("name").asText());
        if (step.hasNonNull("uid")) {
            operator.uid(step.get("uid").asText());
        }
        if (step.hasNonNull("uidHash")) {
            operator.setUidHash(step.get("uidHash").asText());
        }
        if (step.hasNonNull("parallelism") && !step.get("op").asText().startsWith("multiple")) {
            operator.setParallelism(step.get("parallelism").asInt());
        }
        if (step.hasNonNull("maxParallelism")) {
            operator.setMaxParallelism(step.get("maxParallelism").asInt());
        }
        if (step.hasNonNull("slotSharingGroup")) {
            operator.slotSharingGroup(step.get("slotSharingGroup").asText());
        }
        switch (step.path("chaining").asText("")) {
            case "NEVER" -> operator.disableChaining();
            case "HEAD" -> operator.startNewChain();
            default -> {}
        }
        streams.put(step.get("name").asText(), operator);
    }

    private static void set(JsonNode step, DataStreamSink<Integer> sink) {
        sink.name(step.get("name").asText());
        if (step.hasNonNull("uid")) {
            sink.uid(step.get("uid").asText());
        }
        if (step.hasNonNull("parallelism")) {
            sink.setParallelism(step.get("parallelism").asInt());
        }
        if (step.hasNonNull("slotSharingGroup")) {
            sink.slotSharingGroup(step.get("slotSharingGroup").asText());
        }
        if (step.path("chaining").asText("").equals("NEVER")) {
            sink.disableChaining();
        }
    }

    // ------------------------------------------------------------------------------------------ operators

    /** What {@code transform} of connected streams would return, could it be told a chaining strategy. */
    private static final class Reached extends SingleOutputStreamOperator<Integer> {
        Reached(StreamExecutionEnvironment env, MultipleInputTransformation<Integer> transformation) {
            super(env, transformation);
        }
    }

    private static final class Same implements MapFunction<Integer, Integer> {
        @Override
        public Integer map(Integer value) {
            return value;
        }
    }

    private static final class Self implements KeySelector<Integer, Integer> {
        @Override
        public Integer getKey(Integer value) {
            return value;
        }
    }

    private static final class Either implements CoMapFunction<Integer, Integer, Integer> {
        @Override
        public Integer map1(Integer value) {
            return value;
        }

        @Override
        public Integer map2(Integer value) {
            return value;
        }
    }

    private static final class Twice extends ProcessFunction<Integer, Integer> {
        @Override
        public void processElement(Integer value, Context context, Collector<Integer> out) {
            out.collect(value);
            context.output(SIDE, value);
        }
    }

    private static final class Rules extends BroadcastProcessFunction<Integer, Integer, Integer> {
        @Override
        public void processElement(Integer value, ReadOnlyContext context, Collector<Integer> out) {
            out.collect(value);
        }

        @Override
        public void processBroadcastElement(Integer value, Context context, Collector<Integer> out) {}
    }

    private static final class Later implements AsyncFunction<Integer, Integer> {
        @Override
        public void asyncInvoke(Integer value, ResultFuture<Integer> result) {
            result.complete(Collections.singleton(value));
        }
    }

    private static final class ManyFactory extends AbstractStreamOperatorFactory<Integer> {
        private final int inputs;

        ManyFactory(int inputs) {
            this.inputs = inputs;
        }

        @Override
        @SuppressWarnings("unchecked")
        public <T extends StreamOperator<Integer>> T createStreamOperator(StreamOperatorParameters<Integer> parameters) {
            return (T) new Many(parameters, inputs);
        }

        @Override
        public Class<? extends StreamOperator> getStreamOperatorClass(ClassLoader loader) {
            return Many.class;
        }
    }

    private static final class Many extends AbstractStreamOperatorV2<Integer>
            implements MultipleInputStreamOperator<Integer> {
        private final int inputs;

        Many(StreamOperatorParameters<Integer> parameters, int inputs) {
            super(parameters, inputs);
            this.inputs = inputs;
        }

        @Override
        @SuppressWarnings("rawtypes")
        public List<Input> getInputs() {
            List<Input> all = new ArrayList<>();
            for (int number = 1; number <= inputs; number++) {
                all.add(new AbstractInput<Integer, Integer>(this, number) {
                    @Override
                    public void processElement(StreamRecord<Integer> record) {
                        output.collect(record);
                    }
                });
            }
            return all;
        }
    }
}
