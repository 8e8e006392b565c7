package oracle;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import javax.tools.ToolProvider;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.state.State;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.functions.KeySelector;
import org.apache.flink.runtime.state.FunctionInitializationContext;
import org.apache.flink.runtime.state.FunctionSnapshotContext;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.streaming.api.checkpoint.CheckpointedFunction;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.datastream.KeyedStream;
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
                        new CountingSource(job.get("name").asText(), job.path("count").asInt(8)), WatermarkStrategy.noWatermarks(), "numbers", Types.INT)
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
        boolean isHeld = job.hasNonNull("held");
        SingleOutputStreamOperator<Integer> made;
        if (operator.hasNonNull("key")) {
            TypeInformation<Object> key = TypeText.parse(operator.get("key").asText(), loader);
            KeyedStream<Integer, Object> byKey = numbers.keyBy(new KeyOf(key), key);
            made = isHeld
                    ? byKey.transform("held", Types.INT, held(operator, keyed, plain))
                    : byKey.process(new Keyed(keyed, plain));
        } else {
            made = isHeld
                    ? numbers.broadcast().transform("held", Types.INT, held(operator, keyed, plain))
                    : numbers.process(new Plain(plain));
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

    private Held held(JsonNode operator, List<Registered> keyed, List<Registered> plain) {
        List<Held.Service> services = new ArrayList<>();
        for (Map.Entry<String, JsonNode> entry : (Iterable<Map.Entry<String, JsonNode>>) operator.path("timers")::fields) {
            services.add(new Held.Service(entry.getKey(), entry.getValue().asText().equals("TIME_WINDOW")));
        }
        return new Held(operator.get("uid").asText(), job.get("held").asText().equals("read"), keyed, plain, services);
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
                    state.path("ttl").asBoolean(false),
                    state.path("windowed").asBoolean(false)));
        }
        return all;
    }

    // ------------------------------------------------------------------------------------------ functions

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
                states.add(state.keyed(context.getKeyedStateStore()));
            }
            operatorStates = new ArrayList<>();
            for (Registered state : plain) {
                operatorStates.add(state.plain(context.getOperatorStateStore()));
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
                states.add(state.plain(context.getOperatorStateStore()));
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
