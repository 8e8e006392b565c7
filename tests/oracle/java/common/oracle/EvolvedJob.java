package oracle;

import java.io.IOException;
import java.io.Serializable;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import javax.tools.ToolProvider;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.ReduceFunction;
import org.apache.flink.api.common.state.ListStateDescriptor;
import org.apache.flink.api.common.state.MapStateDescriptor;
import org.apache.flink.api.common.state.ReducingStateDescriptor;
import org.apache.flink.api.common.state.State;
import org.apache.flink.api.common.state.StateDescriptor;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.functions.KeySelector;
import org.apache.flink.runtime.state.FunctionInitializationContext;
import org.apache.flink.runtime.state.FunctionSnapshotContext;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.streaming.api.checkpoint.CheckpointedFunction;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.datastream.SingleOutputStreamOperator;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.streaming.api.functions.ProcessFunction;
import org.apache.flink.util.Collector;

/** A job as a description that our restore check is given too, with classes that are compiled for this job alone. */
final class EvolvedJob {
    private final StreamExecutionEnvironment env;
    private final JsonNode job;
    private final ClassLoader loader;

    EvolvedJob(StreamExecutionEnvironment env, JsonNode job, ClassLoader loader) {
        this.env = env;
        this.job = job;
        this.loader = loader;
    }

    /** Compiles {@code {class name: source}} into a folder, unless an earlier job has. */
    static void compile(JsonNode sources, Path folder) throws IOException {
        if (Files.exists(folder)) {
            return;
        }
        Files.createDirectories(folder);
        List<String> command = new ArrayList<>(List.of("-nowarn", "-proc:none", "-d", folder.toString()));
        for (Map.Entry<String, JsonNode> source : (Iterable<Map.Entry<String, JsonNode>>) sources::fields) {
            Path file = folder.resolve(source.getKey().substring(source.getKey().lastIndexOf('.') + 1) + ".java");
            Files.writeString(file, source.getValue().asText());
            command.add(file.toString());
        }
        if (sources.size() > 0
                && ToolProvider.getSystemJavaCompiler().run(null, null, null, command.toArray(new String[0])) != 0) {
            throw new IOException("the classes of the job do not compile");
        }
    }

    void build() throws ClassNotFoundException {
        env.setParallelism(job.path("parallelism").asInt(1));
        if (job.hasNonNull("maxParallelism")) {
            env.setMaxParallelism(job.get("maxParallelism").asInt());
        }
        if (!job.path("chaining").asBoolean(true)) {
            env.disableOperatorChaining();
        }
        DataStream<Integer> numbers = env.fromSource(
                        new CountingSource(job.get("name").asText(), 8), WatermarkStrategy.noWatermarks(), "numbers", Types.INT)
                .uid("numbers");
        for (JsonNode operator : job.get("operators")) {
            add(numbers, operator);
        }
        if (job.hasNonNull("inlined")) {
            Topology.addInlinedSources(env, job.get("name").asText());
        }
    }

    private void add(DataStream<Integer> numbers, JsonNode operator) throws ClassNotFoundException {
        List<Registered> keyed = states(operator.path("states"), "VALUE");
        List<Registered> plain = states(operator.path("operatorStates"), "LIST");
        SingleOutputStreamOperator<Integer> made;
        if (operator.hasNonNull("key")) {
            TypeInformation<Object> key = TypeText.parse(operator.get("key").asText(), loader);
            made = numbers.keyBy(new KeyOf(key), key).process(new Keyed(keyed, plain));
        } else {
            made = numbers.process(new Plain(plain));
        }
        made.name(operator.path("name").asText("operator"));
        if (operator.hasNonNull("uid")) {
            made.uid(operator.get("uid").asText());
        }
        if (operator.hasNonNull("uidHash")) {
            made.setUidHash(operator.get("uidHash").asText());
        }
        if (operator.hasNonNull("parallelism")) {
            made.setParallelism(operator.get("parallelism").asInt());
        }
        if (operator.hasNonNull("maxParallelism")) {
            made.setMaxParallelism(operator.get("maxParallelism").asInt());
        }
        for (int i = 0; i < operator.path("behind").asInt(0); i++) {
            made = made.map(value -> value).returns(Types.INT).name("behind " + i);
        }
    }

    private List<Registered> states(JsonNode states, String kind) throws ClassNotFoundException {
        List<Registered> all = new ArrayList<>();
        for (Map.Entry<String, JsonNode> entry : (Iterable<Map.Entry<String, JsonNode>>) states::fields) {
            JsonNode state = entry.getValue();
            boolean isText = state.isTextual();
            all.add(new Registered(
                    entry.getKey(),
                    isText ? kind : state.path("kind").asText(kind),
                    TypeText.parse(isText ? state.asText() : state.get("type").asText(), loader),
                    state.hasNonNull("key") ? TypeText.parse(state.get("key").asText(), loader) : null,
                    state.path("ttl").asBoolean(false)));
        }
        return all;
    }

    // ------------------------------------------------------------------------------------------ functions

    /** A state that a function registers, and fills. */
    private record Registered(
            String name, String kind, TypeInformation<Object> type, TypeInformation<Object> key, boolean ttl)
            implements Serializable {

        private <D extends StateDescriptor<?, ?>> D timed(D descriptor) {
            if (ttl) {
                descriptor.enableTimeToLive(Compat.timeToLive(Duration.ofDays(1)));
            }
            return descriptor;
        }

        State keyed(FunctionInitializationContext context) throws Exception {
            return switch (kind) {
                case "VALUE" -> context.getKeyedStateStore().getState(timed(new ValueStateDescriptor<>(name, type)));
                case "LIST" -> context.getKeyedStateStore().getListState(timed(new ListStateDescriptor<>(name, type)));
                case "MAP" -> context.getKeyedStateStore().getMapState(timed(new MapStateDescriptor<>(name, key, type)));
                case "REDUCING" -> context.getKeyedStateStore()
                        .getReducingState(timed(new ReducingStateDescriptor<>(name, new Last(), type)));
                default -> throw new IllegalArgumentException(kind);
            };
        }

        State plain(FunctionInitializationContext context) throws Exception {
            return switch (kind) {
                case "LIST" -> context.getOperatorStateStore().getListState(new ListStateDescriptor<>(name, type));
                case "UNION" -> context.getOperatorStateStore().getUnionListState(new ListStateDescriptor<>(name, type));
                case "BROADCAST" -> context.getOperatorStateStore()
                        .getBroadcastState(new MapStateDescriptor<>(name, key, type));
                default -> throw new IllegalArgumentException(kind);
            };
        }

        @SuppressWarnings("unchecked")
        void fill(State state, int number) throws Exception {
            Object value = TypeText.sample(type, number);
            if (state instanceof ValueState<?> one) {
                ((ValueState<Object>) one).update(value);
            } else if (state instanceof org.apache.flink.api.common.state.AppendingState<?, ?> many) {
                ((org.apache.flink.api.common.state.AppendingState<Object, Object>) many).add(value);
            } else if (state instanceof org.apache.flink.api.common.state.MapState<?, ?> map) {
                ((org.apache.flink.api.common.state.MapState<Object, Object>) map).put(TypeText.sample(key, number), value);
            } else {
                ((org.apache.flink.api.common.state.BroadcastState<Object, Object>) state)
                        .put(TypeText.sample(key, number), value);
            }
        }
    }

    private record Last() implements ReduceFunction<Object> {
        @Override
        public Object reduce(Object first, Object second) {
            return second;
        }
    }

    private record KeyOf(TypeInformation<Object> type) implements KeySelector<Integer, Object> {
        @Override
        public Object getKey(Integer number) {
            return TypeText.sample(type, number);
        }
    }

    private static final class Keyed extends KeyedProcessFunction<Object, Integer, Integer> implements CheckpointedFunction {
        private final List<Registered> keyed;
        private final List<Registered> plain;
        private transient List<State> states;
        private transient List<State> operatorStates;

        Keyed(List<Registered> keyed, List<Registered> plain) {
            this.keyed = new ArrayList<>(keyed);
            this.plain = new ArrayList<>(plain);
        }

        @Override
        public void initializeState(FunctionInitializationContext context) throws Exception {
            states = new ArrayList<>();
            for (Registered state : keyed) {
                states.add(state.keyed(context));
            }
            operatorStates = new ArrayList<>();
            for (Registered state : plain) {
                operatorStates.add(state.plain(context));
            }
        }

        @Override
        public void processElement(Integer number, Context context, Collector<Integer> out) throws Exception {
            for (int i = 0; i < states.size(); i++) {
                keyed.get(i).fill(states.get(i), number);
            }
            for (int i = 0; i < operatorStates.size(); i++) {
                plain.get(i).fill(operatorStates.get(i), number);
            }
            out.collect(number);
        }

        @Override
        public void snapshotState(FunctionSnapshotContext context) {}
    }

    private static final class Plain extends ProcessFunction<Integer, Integer> implements CheckpointedFunction {
        private final List<Registered> plain;
        private transient List<State> states;

        Plain(List<Registered> plain) {
            this.plain = new ArrayList<>(plain);
        }

        @Override
        public void initializeState(FunctionInitializationContext context) throws Exception {
            states = new ArrayList<>();
            for (Registered state : plain) {
                states.add(state.plain(context));
            }
        }

        @Override
        public void processElement(Integer number, Context context, Collector<Integer> out) throws Exception {
            for (int i = 0; i < states.size(); i++) {
                plain.get(i).fill(states.get(i), number);
            }
            out.collect(number);
        }

        @Override
        public void snapshotState(FunctionSnapshotContext context) {}
    }
}
