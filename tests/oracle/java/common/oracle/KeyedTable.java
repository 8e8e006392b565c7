package oracle;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.IntFunction;
import java.util.stream.Stream;
import org.apache.flink.api.common.ExecutionConfig;
import org.apache.flink.api.common.state.ListState;
import org.apache.flink.api.common.state.ListStateDescriptor;
import org.apache.flink.api.common.state.MapState;
import org.apache.flink.api.common.state.MapStateDescriptor;
import org.apache.flink.api.common.state.State;
import org.apache.flink.api.common.state.StateDescriptor;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.api.java.functions.KeySelector;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.core.memory.DataInputDeserializer;
import org.apache.flink.core.memory.DataOutputSerializer;
import org.apache.flink.runtime.state.KeyGroupRangeAssignment;
import org.apache.flink.runtime.state.VoidNamespace;
import org.apache.flink.runtime.state.VoidNamespaceSerializer;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.operators.AbstractStreamOperator;
import org.apache.flink.streaming.api.operators.InternalTimer;
import org.apache.flink.streaming.api.operators.InternalTimerService;
import org.apache.flink.streaming.api.operators.OneInputStreamOperator;
import org.apache.flink.streaming.api.operators.Triggerable;
import org.apache.flink.streaming.api.windowing.windows.TimeWindow;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;

/**
 * A keyed operator given as a table: one row per key, one column per state. It fills the state of a real operator
 * and says what must be found in it afterwards.
 */
final class KeyedTable {
    /** The tables of this JVM. The local cluster runs in the same JVM, so that nothing here is ever serialized. */
    private static final Map<String, KeyedTable> BY_UID = new HashMap<>();

    /** Records that operators of this JVM that fill their state have seen. */
    private static final AtomicInteger SEEN = new AtomicInteger();

    final String uid;
    private final ExecutionConfig config;
    private final TypeInformation<Object> keyType;
    private final List<Object> keys;
    private final List<Column> columns = new ArrayList<>();
    private final List<TimerColumn> timers = new ArrayList<>();
    private final Map<String, String> leftOut = new LinkedHashMap<>();

    @SuppressWarnings("unchecked")
    <K> KeyedTable(String uid, ExecutionConfig config, TypeInformation<K> keyType, List<? extends K> keys) {
        this.uid = uid;
        this.config = config;
        this.keyType = (TypeInformation<Object>) keyType;
        TypeSerializer<K> serializer = Compat.serializer(keyType, config);
        this.keys = keys.stream().map(key -> (Object) asRead(serializer, key)).toList();
        BY_UID.put(uid, this);
    }

    /** Sets and maps as Flink makes them: RocksDB finds a key only if its elements are written in the same order. */
    private static <K> K asRead(TypeSerializer<K> serializer, K key) {
        try {
            DataOutputSerializer written = new DataOutputSerializer(64);
            serializer.serialize(key, written);
            return serializer.deserialize(new DataInputDeserializer(written.getCopyOfBuffer()));
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** A namespace's type, its notation, and how it is written. */
    record Namespace(String notation, TypeSerializer<Object> serializer) {
        @SuppressWarnings("unchecked")
        static final Namespace VOID =
                new Namespace("VOID", (TypeSerializer<Object>) (TypeSerializer<?>) VoidNamespaceSerializer.INSTANCE);
    }

    @SuppressWarnings("unchecked")
    private static final Namespace WINDOWS = new Namespace(
            "TIME_WINDOW", (TypeSerializer<Object>) (TypeSerializer<?>) new TimeWindow.Serializer());

    /** One state: for the key of each index, its values by namespace. */
    private record Column(
            String kind,
            String type,
            String mapKeyType,
            Namespace namespace,
            StateDescriptor<?, ?> descriptor,
            IntFunction<Map<Object, Object>> values) {}

    record Timer(Object namespace, long time, boolean eventTime) {}

    private record TimerColumn(String service, Namespace namespace, IntFunction<List<Timer>> values) {}

    // ------------------------------------------------------------------------------------------ columns

    <T> KeyedTable value(String name, TypeInformation<T> type, IntFunction<T> values) {
        return value(name, Notation.of(type), Compat.serializer(type, config), values);
    }

    <T> KeyedTable value(String name, String notation, TypeSerializer<T> serializer, IntFunction<T> values) {
        return add("value", notation, null, new ValueStateDescriptor<>(name, serializer), values);
    }

    /** A value state in which the key of index i has sample i, and later ones the samples from the first on again. */
    <T> KeyedTable samples(String name, TypeInformation<T> type, List<T> samples) {
        return value(name, type, i -> samples.get(i % samples.size()));
    }

    <T> KeyedTable list(String name, TypeInformation<T> type, IntFunction<List<T>> values) {
        StateDescriptor<?, ?> descriptor = new ListStateDescriptor<>(name, Compat.serializer(type, config));
        return add("list", Notation.of(type), null, descriptor, values);
    }

    <K, V> KeyedTable map(
            String name, TypeInformation<K> keyType, TypeInformation<V> type, IntFunction<Map<K, V>> values) {
        return map(name, keyType, Notation.of(type), Compat.serializer(type, config), values);
    }

    <K, V> KeyedTable map(
            String name, TypeInformation<K> keyType, String type, TypeSerializer<V> value, IntFunction<Map<K, V>> values) {
        TypeSerializer<K> key = Compat.serializer(keyType, config);
        return add("map", type, Notation.of(keyType), new MapStateDescriptor<>(name, key, value), values);
    }

    private KeyedTable add(
            String kind, String type, String mapKeyType, StateDescriptor<?, ?> descriptor, IntFunction<?> values) {
        IntFunction<Map<Object, Object>> inVoid = i -> {
            Object value = values.apply(i);
            return value == null ? Map.of() : Map.of(VoidNamespace.INSTANCE, value);
        };
        columns.add(new Column(kind, type, mapKeyType, Namespace.VOID, descriptor, inVoid));
        return this;
    }

    /** Puts the newest column's state under namespaces: the value of index i is a map from namespace to value. */
    @SuppressWarnings("unchecked")
    <N> KeyedTable in(TypeInformation<N> type, IntFunction<Map<N, Object>> values) {
        Column column = columns.remove(columns.size() - 1);
        columns.add(new Column(column.kind, column.type, column.mapKeyType, namespace(type), column.descriptor,
                i -> (Map<Object, Object>) values.apply(i)));
        return this;
    }

    /** The same for windows of time. */
    KeyedTable inWindows(IntFunction<Map<TimeWindow, Object>> values) {
        Column column = columns.remove(columns.size() - 1);
        columns.add(new Column(column.kind, column.type, column.mapKeyType, WINDOWS, column.descriptor,
                i -> new HashMap<>(values.apply(i))));
        return this;
    }

    /** Gives the newest column's state a time to live, so long that nothing expires. */
    KeyedTable expiring() {
        columns.get(columns.size() - 1).descriptor.enableTimeToLive(Compat.timeToLive(Duration.ofDays(365L * 200)));
        return this;
    }

    /** Notes a state that this version of Flink cannot have. */
    void leaveOut(String name, String reason) {
        leftOut.put(name, reason);
    }

    KeyedTable timers(String service, IntFunction<List<Timer>> values) {
        timers.add(new TimerColumn(service, Namespace.VOID, values));
        return this;
    }

    KeyedTable timers(String service, TypeInformation<?> namespace, IntFunction<List<Timer>> values) {
        timers.add(new TimerColumn(service, namespace(namespace), values));
        return this;
    }

    KeyedTable windowTimers(String service, IntFunction<List<Timer>> values) {
        timers.add(new TimerColumn(service, WINDOWS, values));
        return this;
    }

    @SuppressWarnings("unchecked")
    private Namespace namespace(TypeInformation<?> type) {
        return new Namespace(Notation.of(type), (TypeSerializer<Object>) Compat.serializer(type, config));
    }

    // ------------------------------------------------------------------------------------------ the operator

    static int seen() {
        return SEEN.get();
    }

    int size() {
        return keys.size();
    }

    /** Adds an operator that fills its state; the stream must count from 0 to {@link #size()} at least. */
    void attachWriter(DataStream<Integer> indexes) {
        indexes.keyBy(new KeyOf(uid), keyType).transform(uid, Types.INT, new Fill(uid)).uid(uid);
    }

    /** Adds an operator that says what it finds in its state when it starts. */
    void attachReader(DataStream<Integer> indexes) {
        indexes.keyBy(new KeyOf(uid), keyType).transform(uid, Types.INT, new Read(uid)).uid(uid);
    }

    private record KeyOf(String uid) implements KeySelector<Integer, Object> {
        @Override
        public Object getKey(Integer index) {
            List<Object> keys = BY_UID.get(uid).keys;
            return keys.get(index % keys.size());
        }
    }

    /** Operators of the lowest kind, because only those may name namespaces and timer services. */
    private abstract static class TableOperator extends AbstractStreamOperator<Integer>
            implements OneInputStreamOperator<Integer, Integer>, Triggerable<Object, Object> {
        private static final long serialVersionUID = 1;
        final String uid;

        TableOperator(String uid) {
            this.uid = uid;
        }

        final KeyedTable table() {
            return BY_UID.get(uid);
        }

        @SuppressWarnings("unchecked")
        final State state(Column column, Object namespace) throws Exception {
            return getPartitionedState(
                    namespace, column.namespace.serializer, (StateDescriptor<State, Object>) column.descriptor);
        }

        final InternalTimerService<Object> service(TimerColumn column) {
            return getInternalTimerService(column.service, column.namespace.serializer, this);
        }

        @Override
        public void onEventTime(InternalTimer<Object, Object> timer) {
            throw new IllegalStateException("no timer is meant to fire: " + timer);
        }

        @Override
        public void onProcessingTime(InternalTimer<Object, Object> timer) {
            throw new IllegalStateException("no timer is meant to fire: " + timer);
        }
    }

    private static final class Fill extends TableOperator {
        private static final long serialVersionUID = 1;

        Fill(String uid) {
            super(uid);
        }

        @Override
        public void processElement(StreamRecord<Integer> record) throws Exception {
            int index = record.getValue();
            if (index >= table().size()) {
                SEEN.incrementAndGet();
                return;
            }
            for (Column column : table().columns) {
                for (Map.Entry<Object, Object> entry : column.values.apply(index).entrySet()) {
                    put(state(column, entry.getKey()), entry.getValue());
                }
            }
            for (TimerColumn column : table().timers) {
                register(column, index);
            }
            SEEN.incrementAndGet();
        }

        @SuppressWarnings("unchecked")
        private static void put(State state, Object value) throws Exception {
            if (state instanceof ValueState<?>) {
                ((ValueState<Object>) state).update(value);
            } else if (state instanceof ListState<?>) {
                ((ListState<Object>) state).addAll((List<Object>) value);
            } else {
                ((MapState<Object, Object>) state).putAll((Map<Object, Object>) value);
            }
        }

        private void register(TimerColumn column, int index) {
            for (Timer timer : column.values.apply(index)) {
                if (timer.eventTime) {
                    service(column).registerEventTimeTimer(timer.namespace, timer.time);
                } else {
                    service(column).registerProcessingTimeTimer(timer.namespace, timer.time);
                }
            }
        }
    }

    private static final class Read extends TableOperator {
        private static final long serialVersionUID = 1;

        Read(String uid) {
            super(uid);
        }

        @Override
        public void open() throws Exception {
            super.open();
            for (Column column : table().columns) {
                Found.add(uid, column.descriptor.getName(), entries(column));
            }
            for (TimerColumn column : table().timers) {
                List<Object> eventTime = new ArrayList<>();
                service(column).forEachEventTimeTimer((namespace, time) ->
                        eventTime.add(entry(column, Json.of(getCurrentKey()), namespace, time)));
                Found.add(uid, column.service + "/eventTime", eventTime);
                List<Object> processingTime = new ArrayList<>();
                service(column).forEachProcessingTimeTimer((namespace, time) ->
                        processingTime.add(entry(column, Json.of(getCurrentKey()), namespace, time)));
                Found.add(uid, column.service + "/processingTime", processingTime);
            }
        }

        private List<Object> entries(Column column) throws Exception {
            // Registers the state under the descriptor's serializer, which Flink compares with the restored one.
            getKeyedStateBackend().getOrCreateKeyedState(column.namespace.serializer, column.descriptor);
            List<Tuple2<Object, Object>> places;
            try (Stream<Tuple2<Object, Object>> all =
                    getKeyedStateBackend().<Object>getKeysAndNamespaces(column.descriptor.getName())) {
                places = all.toList();
            }
            List<Object> entries = new ArrayList<>();
            for (Tuple2<Object, Object> place : places) {
                setCurrentKey(place.f0);
                Object value = Json.of(get(state(column, place.f1)));
                entries.add(Arrays.asList(Json.of(place.f0), Json.of(place.f1), value));
            }
            return entries;
        }

        private static Object get(State state) throws Exception {
            if (state instanceof ValueState<?> value) {
                return value.value();
            }
            if (state instanceof ListState<?> list) {
                List<Object> elements = new ArrayList<>();
                list.get().forEach(elements::add);
                return elements;
            }
            Map<Object, Object> entries = new LinkedHashMap<>();
            ((MapState<?, ?>) state).entries().forEach(entry -> entries.put(entry.getKey(), entry.getValue()));
            return entries;
        }

        @Override
        public void processElement(StreamRecord<Integer> record) {}
    }

    // ------------------------------------------------------------------------------------------ what to expect

    Map<String, Object> expected(Options options) {
        int maxParallelism = options.number("max-parallelism");
        boolean keepsEmptyMaps = options.get("backend").equals("hashmap") && !options.get("format").equals("canonical");
        List<Object> groups = new ArrayList<>();
        for (Object key : keys) {
            groups.add(List.of(Json.of(key), KeyGroupRangeAssignment.assignToKeyGroup(key, maxParallelism)));
        }
        return Json.object(
                "uid", uid,
                "kind", "keyed",
                "keyType", Notation.of(keyType),
                "states", columns.stream().map(column -> expected(column, keepsEmptyMaps)).toList(),
                "timers", timers.stream().map(this::expected).toList(),
                "keyGroups", groups,
                "leftOut", leftOut);
    }

    private Map<String, Object> expected(Column column, boolean keepsEmptyMaps) {
        List<Object> entries = new ArrayList<>();
        for (int i = 0; i < keys.size(); i++) {
            Object key = Json.of(keys.get(i));
            column.values.apply(i).forEach((namespace, value) -> {
                if (!isLeftOut(column, value, keepsEmptyMaps)) {
                    entries.add(Arrays.asList(key, Json.of(namespace), Json.of(value)));
                }
            });
        }
        Map<String, Object> state = new LinkedHashMap<>();
        state.put("name", column.descriptor.getName());
        state.put("kind", column.kind);
        if (column.mapKeyType != null) {
            state.put("keyType", column.mapKeyType);
        }
        state.put("type", column.type);
        state.put("namespace", column.namespace.notation);
        state.put("entries", entries);
        return state;
    }

    /** Of empty lists and maps Flink keeps nothing, but for the heap backend: a map in its own format. */
    private static boolean isLeftOut(Column column, Object value, boolean keepsEmptyMaps) {
        return column.kind.equals("list") && ((Collection<?>) value).isEmpty()
                || column.kind.equals("map") && ((Map<?, ?>) value).isEmpty() && !keepsEmptyMaps;
    }

    private Map<String, Object> expected(TimerColumn column) {
        List<Object> eventTime = new ArrayList<>();
        List<Object> processingTime = new ArrayList<>();
        for (int i = 0; i < keys.size(); i++) {
            Object key = Json.of(keys.get(i));
            for (Timer timer : column.values.apply(i)) {
                (timer.eventTime ? eventTime : processingTime).add(entry(column, key, timer.namespace, timer.time));
            }
        }
        return Json.object(
                "service", column.service,
                "namespace", column.namespace.notation,
                "eventTime", eventTime,
                "processingTime", processingTime);
    }

    private static List<Object> entry(TimerColumn column, Object key, Object namespace, long time) {
        return column.namespace == Namespace.VOID
                ? List.of(key, time)
                : List.of(key, Json.of(namespace), time);
    }
}
