package oracle;

import java.lang.reflect.Array;
import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Calendar;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import java.util.stream.Stream;
import org.apache.flink.api.common.JobID;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.state.BroadcastState;
import org.apache.flink.api.common.state.ListState;
import org.apache.flink.api.common.state.ListStateDescriptor;
import org.apache.flink.api.common.state.MapState;
import org.apache.flink.api.common.state.MapStateDescriptor;
import org.apache.flink.api.common.state.State;
import org.apache.flink.api.common.state.StateDescriptor;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.api.java.functions.KeySelector;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.core.execution.SavepointFormatType;
import org.apache.flink.runtime.jobgraph.JobGraph;
import org.apache.flink.runtime.jobgraph.SavepointRestoreSettings;
import org.apache.flink.runtime.minicluster.MiniCluster;
import org.apache.flink.runtime.minicluster.MiniClusterConfiguration;
import org.apache.flink.runtime.state.StateInitializationContext;
import org.apache.flink.runtime.state.VoidNamespace;
import org.apache.flink.runtime.state.VoidNamespaceSerializer;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.datastream.SingleOutputStreamOperator;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.operators.AbstractStreamOperator;
import org.apache.flink.streaming.api.operators.InternalTimer;
import org.apache.flink.streaming.api.operators.InternalTimerService;
import org.apache.flink.streaming.api.operators.OneInputStreamOperator;
import org.apache.flink.streaming.api.operators.Triggerable;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;
import org.apache.flink.types.Either;

/**
 * Runs every case of {@link Upgraded} as a job: takes its savepoint, {@code OUT/CASE} ({@code --format=native}: in the
 * format of the backend; {@code checkpoint}: a link to a retained checkpoint); or, with {@code --in=FOLDER}, restores it and writes {@code OUT/results.json}: the outcome (equal, different, failed), at which stage it failed
 * (restore, registration, access), and the message or the values.
 */
public final class Upgrade {
    /** The stage that the operator of a case has reached, and what it found. The cluster runs in this JVM. */
    private static final Map<String, String> STAGES = new ConcurrentHashMap<>();
    private static final Map<String, List<String>> FOUND = new ConcurrentHashMap<>();

    /** A time that no watermark reaches. */
    private static final long FAR = 1L << 50;

    private Upgrade() {}

    public static void main(String[] arguments) throws Exception {
        Options options = Options.parse(arguments);
        String only = options.named().getOrDefault("only", ".*");
        String format = options.named().getOrDefault("format", "canonical");
        Configuration configuration = options.configuration();
        Files.createDirectories(options.out().resolve("tmp"));
        MiniClusterConfiguration size = new MiniClusterConfiguration.Builder()
                .setConfiguration(configuration)
                .setNumTaskManagers(1)
                .setNumSlotsPerTaskManager(1)
                .build();
        Map<String, Object> results = new LinkedHashMap<>();
        try (MiniCluster cluster = new MiniCluster(size)) {
            cluster.start();
            for (String name : Upgraded.ALL.keySet()) {
                Path in = options.named().containsKey("in") ? Path.of(options.get("in"), name) : null;
                if (name.matches(only) && (in == null || Files.exists(in))) {
                    results.put(name, run(cluster, configuration, name, in, options.out(), format));
                }
            }
        }
        Json.write(options.out().resolve("results.json"), results);
        options.deleteTemporary();
        System.exit(0);
    }

    private static Map<String, Object> run(
            MiniCluster cluster,
            Configuration configuration,
            String name,
            Path in,
            Path out,
            String format)
            throws Exception {
        STAGES.put(name, "restore");
        FOUND.remove(name);
        JobID id = null;
        try {
            JobGraph job = job(configuration, name, in, format.equals("checkpoint"));
            id = cluster.submitJob(job).get().getJobID();
            for (int waited = 0; in == null ? !isReady(cluster, id, name) : !FOUND.containsKey(name); waited++) {
                if (cluster.getJobStatus(id).get().isTerminalState()) {
                    cluster.requestJobResult(id).get().toJobExecutionResult(Upgrade.class.getClassLoader());
                }
                if (waited > 1500) {
                    throw new IllegalStateException("the job is not ready");
                }
                Thread.sleep(20);
            }
            if (in == null) {
                if (format.equals("checkpoint")) {
                    Path made = Snapshots.path(cluster.triggerCheckpoint(id).get());
                    Files.createSymbolicLink(out.resolve(name), made);
                    return Json.object("outcome", "written");
                }
                SavepointFormatType type = SavepointFormatType.valueOf(format.toUpperCase(Locale.ROOT));
                String made = cluster.triggerSavepoint(id, out.resolve("tmp").toUri().toString(), false, type)
                        .get();
                Files.move(Snapshots.path(made), out.resolve(name));
                return Json.object("outcome", "written");
            }
            List<String> wanted = described(Upgraded.ALL.get(name));
            List<String> found = FOUND.get(name);
            return wanted.equals(found)
                    ? Json.object("outcome", "equal")
                    : Json.object("outcome", "different", "wanted", wanted, "found", found);
        } catch (Exception e) {
            return Json.object("outcome", "failed", "stage", STAGES.get(name), "message", causes(e));
        } finally {
            if (id != null && !cluster.getJobStatus(id).get().isTerminalState()) {
                cluster.cancelJob(id).get();
                cluster.requestJobResult(id).get();
            }
        }
    }

    private static boolean isReady(MiniCluster cluster, JobID id, String name) throws Exception {
        return CountingSource.isDone(name) && Snapshots.allRunning(cluster, id);
    }

    private static JobGraph job(Configuration configuration, String name, Path in, boolean checkpoints) {
        StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment(configuration);
        env.setParallelism(1);
        if (checkpoints) {
            env.enableCheckpointing(3_600_000);
        }
        Upgraded one = Upgraded.ALL.get(name);
        DataStream<Integer> indexes = env.fromSource(
                        new CountingSource(name, one.values.size()), WatermarkStrategy.noWatermarks(), name, Types.INT)
                .uid("source");
        Holder holder = new Holder(name, in != null);
        boolean byIndex = one.kind.equals("value");
        SingleOutputStreamOperator<Integer> made;
        if (isKey(one)) {
            KeySelector<Integer, Object> byValue = index -> Upgraded.ALL.get(name).values.get(index);
            made = indexes.keyBy(byValue, one.type).transform("state", Types.INT, holder);
        } else if (isKeyed(one)) {
            made = indexes.keyBy(index -> byIndex ? index : 0, Types.INT).transform("state", Types.INT, holder);
        } else {
            made = indexes.transform("state", Types.INT, holder);
        }
        made.uid("state");
        JobGraph graph = env.getStreamGraph(false).getJobGraph();
        if (in != null) {
            graph.setSavepointRestoreSettings(SavepointRestoreSettings.forPath(in.toUri().toString(), false));
        }
        return graph;
    }

    private static String causes(Throwable failure) {
        List<String> all = new ArrayList<>();
        for (Throwable each = failure; each != null; each = each.getCause()) {
            all.add(each.getClass().getSimpleName() + ": " + String.valueOf(each.getMessage()).split("\n")[0]);
        }
        return String.join(" <- ", all.subList(Math.max(0, all.size() - 4), all.size()));
    }

    private static boolean isKeyed(Upgraded one) {
        return List.of("value", "list", "map", "map key").contains(one.kind);
    }

    /** Whether the values of a case are keys: of a value state, or of timers. */
    private static boolean isKey(Upgraded one) {
        return List.of("key", "timer").contains(one.kind);
    }

    // -- the operator ----------------------------------------------------------------------------------------------

    /** Fills the state of a case, or reads it when it starts. */
    private static final class Holder extends AbstractStreamOperator<Integer>
            implements OneInputStreamOperator<Integer, Integer>, Triggerable<Object, VoidNamespace> {
        private static final long serialVersionUID = 1;
        private final String name;
        private final boolean reads;
        private transient ListState<Object> elements;
        private transient BroadcastState<Integer, Object> broadcast;
        private transient InternalTimerService<VoidNamespace> timers;

        Holder(String name, boolean reads) {
            this.name = name;
            this.reads = reads;
        }

        private Upgraded one() {
            return Upgraded.ALL.get(name);
        }

        @Override
        public void initializeState(StateInitializationContext context) throws Exception {
            super.initializeState(context);
            STAGES.put(name, "registration");
            TypeSerializer<Object> type = Compat.serializer(one().type, getExecutionConfig());
            if (one().kind.equals("operator list")) {
                elements = context.getOperatorStateStore().getListState(new ListStateDescriptor<>("v", type));
            } else if (one().kind.equals("broadcast")) {
                TypeSerializer<Integer> key = Compat.serializer(Types.INT, getExecutionConfig());
                broadcast = context.getOperatorStateStore()
                        .getBroadcastState(new MapStateDescriptor<>("v", key, type));
            }
        }

        private StateDescriptor<?, ?> descriptor() {
            TypeSerializer<Object> type = Compat.serializer(one().type, getExecutionConfig());
            return switch (one().kind) {
                case "list" -> new ListStateDescriptor<>("v", type);
                case "map" -> new MapStateDescriptor<>("v", Compat.serializer(Types.INT, getExecutionConfig()), type);
                case "map key" ->
                    new MapStateDescriptor<>("v", type, Compat.serializer(Types.INT, getExecutionConfig()));
                case "key" -> new ValueStateDescriptor<>("v", Compat.serializer(Types.INT, getExecutionConfig()));
                default -> new ValueStateDescriptor<>("v", type);
            };
        }

        @SuppressWarnings("unchecked")
        private State state() throws Exception {
            return getPartitionedState(
                    VoidNamespace.INSTANCE,
                    VoidNamespaceSerializer.INSTANCE,
                    (StateDescriptor<State, Object>) descriptor());
        }

        @Override
        public void open() throws Exception {
            super.open();
            if (one().kind.equals("timer")) {
                timers = getInternalTimerService("timers", VoidNamespaceSerializer.INSTANCE, this);
            }
            if (!reads) {
                return;
            }
            List<Object> found = new ArrayList<>();
            if (isKey(one())) {
                Map<Number, Object> sorted = new TreeMap<>();
                if (timers != null) {
                    STAGES.put(name, "access");
                    timers.forEachEventTimeTimer((namespace, time) -> sorted.put(time, getCurrentKey()));
                } else {
                    getKeyedStateBackend().getOrCreateKeyedState(VoidNamespaceSerializer.INSTANCE, descriptor());
                    STAGES.put(name, "access");
                    List<Object> keys;
                    try (Stream<Object> all = getKeyedStateBackend().getKeys("v", VoidNamespace.INSTANCE)) {
                        keys = all.toList();
                    }
                    for (Object key : keys) {
                        setCurrentKey(key);
                        Integer index = (Integer) ((ValueState<?>) state()).value();
                        sorted.put(index == null ? -1 - sorted.size() : index, key);
                    }
                }
                found.addAll(sorted.values());
            } else if (isKeyed(one())) {
                getKeyedStateBackend().getOrCreateKeyedState(VoidNamespaceSerializer.INSTANCE, descriptor());
                STAGES.put(name, "access");
                List<Object> keys;
                try (Stream<Object> all = getKeyedStateBackend().getKeys("v", VoidNamespace.INSTANCE)) {
                    keys = new ArrayList<>(new TreeSet<>(all.toList()));
                }
                for (Object key : keys) {
                    setCurrentKey(key);
                    add(found, state());
                }
            } else {
                STAGES.put(name, "access");
                if (broadcast != null) {
                    broadcast.immutableEntries().forEach(entry -> found.add(entry.getValue()));
                } else {
                    elements.get().forEach(found::add);
                }
            }
            FOUND.put(name, described(found));
        }

        @SuppressWarnings("unchecked")
        private void add(List<Object> found, State state) throws Exception {
            if (state instanceof ValueState<?> value) {
                found.add(value.value());
            } else if (state instanceof ListState<?> list) {
                list.get().forEach(found::add);
            } else {
                Map<Object, Object> sorted = new TreeMap<>();
                boolean byValue = one().kind.equals("map key");
                for (Map.Entry<Object, Object> entry : ((MapState<Object, Object>) state).entries()) {
                    sorted.put(
                            byValue ? entry.getValue() : entry.getKey(), byValue ? entry.getKey() : entry.getValue());
                }
                found.addAll(sorted.values());
            }
        }

        @Override
        @SuppressWarnings("unchecked")
        public void processElement(StreamRecord<Integer> record) throws Exception {
            Object value = one().values.get(record.getValue());
            if (elements != null) {
                elements.add(value);
            } else if (broadcast != null) {
                broadcast.put(record.getValue(), value);
            } else if (timers != null) {
                timers.registerEventTimeTimer(VoidNamespace.INSTANCE, FAR + record.getValue());
            } else {
                State state = state();
                if (state instanceof ValueState<?>) {
                    ((ValueState<Object>) state).update(isKey(one()) ? record.getValue() : value);
                } else if (state instanceof ListState<?>) {
                    ((ListState<Object>) state).add(value);
                } else if (one().kind.equals("map key")) {
                    ((MapState<Object, Object>) state).put(value, record.getValue());
                } else {
                    ((MapState<Object, Object>) state).put(record.getValue(), value);
                }
            }
        }

        @Override
        public void onEventTime(InternalTimer<Object, VoidNamespace> timer) {}

        @Override
        public void onProcessingTime(InternalTimer<Object, VoidNamespace> timer) {}
    }

    // -- values as text --------------------------------------------------------------------------------------------

    private static List<String> described(Upgraded one) throws ReflectiveOperationException {
        return described(one.values);
    }

    private static List<String> described(List<Object> values) {
        List<String> texts = new ArrayList<>();
        values.forEach(value -> texts.add(text(value, 0)));
        return texts;
    }

    /** The classes of all objects, and their contents in the order in which they are iterated. */
    private static String text(Object value, int depth) {
        if (value == null || depth > 12) {
            return "null";
        }
        String name = value.getClass().getName();
        List<String> parts = new ArrayList<>();
        if (value.getClass().isArray()) {
            for (int i = 0; i < Array.getLength(value); i++) {
                parts.add(text(Array.get(value, i), depth + 1));
            }
        } else if (value instanceof Map<?, ?> map) {
            map.forEach((k, v) -> parts.add(text(k, depth + 1) + "=" + text(v, depth + 1)));
        } else if (value instanceof Collection<?> collection) {
            collection.forEach(each -> parts.add(text(each, depth + 1)));
        } else if (name.startsWith("java.") || name.startsWith("sun.") || value instanceof Enum<?>) {
            parts.add(ofJava(value));
        } else if (value instanceof Either<?, ?> either) {
            parts.add(text(either.isLeft() ? either.left() : either.right(), depth + 1));
        } else {
            fields(value, depth, parts);
        }
        return name.substring(name.lastIndexOf('.') + 1) + parts;
    }

    /** A text of an object of a class of Java that shows its content, and nothing else. */
    private static String ofJava(Object value) {
        if (value instanceof Locale locale) {
            return locale.toLanguageTag();
        }
        if (value instanceof Calendar calendar) {
            return calendar.getTimeInMillis() + " " + calendar.getTimeZone().getID();
        }
        if (value instanceof Random random) {
            return String.valueOf(random.nextLong());
        }
        return value.toString();
    }

    private static void fields(Object value, int depth, List<String> parts) {
        for (Class<?> each = value.getClass(); each != Object.class; each = each.getSuperclass()) {
            for (Field field : each.getDeclaredFields()) {
                if (!Modifier.isStatic(field.getModifiers()) && !Modifier.isTransient(field.getModifiers())) {
                    field.setAccessible(true);
                    try {
                        Object held = field.get(value);
                        parts.add(field.getName() + ":" + (field.isSynthetic() && held != null ? "outer" : text(held, depth + 1)));
                    } catch (IllegalAccessException e) {
                        throw new IllegalStateException(e);
                    }
                }
            }
        }
    }
}
