package oracle;

import java.io.Serializable;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.apache.flink.api.common.state.AppendingState;
import org.apache.flink.api.common.state.BroadcastState;
import org.apache.flink.api.common.state.ListState;
import org.apache.flink.api.common.state.MapState;
import org.apache.flink.api.common.state.State;
import org.apache.flink.api.common.state.StateDescriptor;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.runtime.state.StateInitializationContext;
import org.apache.flink.runtime.state.VoidNamespace;
import org.apache.flink.runtime.state.VoidNamespaceSerializer;
import org.apache.flink.streaming.api.operators.AbstractStreamOperator;
import org.apache.flink.streaming.api.operators.InternalTimer;
import org.apache.flink.streaming.api.operators.InternalTimerService;
import org.apache.flink.streaming.api.operators.OneInputStreamOperator;
import org.apache.flink.streaming.api.operators.Triggerable;
import org.apache.flink.streaming.api.windowing.windows.TimeWindow;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;

/** An operator of a described job with windows and timers too: it fills its state, or says what it finds there. */
final class Held extends AbstractStreamOperator<Integer>
        implements OneInputStreamOperator<Integer, Integer>, Triggerable<Object, Object> {
    private static final long serialVersionUID = 1;
    /** No timer is meant to fire. */
    private static final long FAR = Duration.ofDays(365L * 200).toMillis();

    private final String uid;
    private final boolean reads;
    private final List<Registered> keyed;
    private final List<Registered> plain;
    private final List<Service> services;
    private transient List<State> plainStates;

    /** A timer service, of windows or not. */
    record Service(String name, boolean windowed) implements Serializable {}

    Held(String uid, boolean reads, List<Registered> keyed, List<Registered> plain, List<Service> services) {
        this.uid = uid;
        this.reads = reads;
        this.keyed = new ArrayList<>(keyed);
        this.plain = new ArrayList<>(plain);
        this.services = new ArrayList<>(services);
    }

    @Override
    public void initializeState(StateInitializationContext context) throws Exception {
        super.initializeState(context);
        plainStates = new ArrayList<>();
        for (Registered state : plain) {
            plainStates.add(state.plain(context.getOperatorStateStore()));
        }
    }

    @Override
    public void open() throws Exception {
        super.open();
        if (!reads) {
            return;
        }
        for (int i = 0; i < plain.size(); i++) {
            // Union and broadcast states are the same in all subtasks: the first one says it.
            boolean told = plain.get(i).kind().equals("LIST") || Compat.subtask(getRuntimeContext()) == 0;
            Found.add(uid, plain.get(i).name(), told ? elements(plainStates.get(i)) : List.of());
        }
        for (Registered state : keyed) {
            Found.add(uid, state.name(), entries(state));
        }
        for (Service service : services) {
            List<Object> eventTime = new ArrayList<>();
            service(service).forEachEventTimeTimer((namespace, time) -> eventTime.add(timer(namespace, time)));
            Found.add(uid, service.name + "/eventTime", eventTime);
            List<Object> processingTime = new ArrayList<>();
            service(service).forEachProcessingTimeTimer((namespace, time) -> processingTime.add(timer(namespace, time)));
            Found.add(uid, service.name + "/processingTime", processingTime);
        }
    }

    // ------------------------------------------------------------------------------------------ reading

    private static List<Object> elements(State state) throws Exception {
        List<Object> elements = new ArrayList<>();
        if (state instanceof BroadcastState<?, ?> broadcast) {
            broadcast.immutableEntries().forEach(
                    entry -> elements.add(Arrays.asList(Json.of(entry.getKey()), Json.of(entry.getValue()))));
        } else {
            ((ListState<?>) state).get().forEach(element -> elements.add(Json.of(element)));
        }
        return elements;
    }

    private List<Object> entries(Registered registered) throws Exception {
        StateDescriptor<State, ?> descriptor = registered.descriptor();
        getKeyedStateBackend().getOrCreateKeyedState(namespace(registered.windowed()), descriptor);
        List<Tuple2<Object, Object>> places;
        try (Stream<Tuple2<Object, Object>> all =
                getKeyedStateBackend().<Object>getKeysAndNamespaces(registered.name())) {
            places = all.toList();
        }
        List<Object> entries = new ArrayList<>();
        for (Tuple2<Object, Object> place : places) {
            setCurrentKey(place.f0);
            Object value = value(getPartitionedState(place.f1, namespace(registered.windowed()), descriptor));
            entries.add(Arrays.asList(Json.of(place.f0), Json.of(place.f1), Json.of(value)));
        }
        return entries;
    }

    private static Object value(State state) throws Exception {
        if (state instanceof ValueState<?> value) {
            return value.value();
        }
        if (state instanceof MapState<?, ?> map) {
            Map<Object, Object> entries = new LinkedHashMap<>();
            map.entries().forEach(entry -> entries.put(entry.getKey(), entry.getValue()));
            return entries;
        }
        Object got = ((AppendingState<?, ?>) state).get();
        if (!(state instanceof ListState<?>)) {
            return got;
        }
        List<Object> elements = new ArrayList<>();
        ((Iterable<?>) got).forEach(elements::add);
        return elements;
    }

    private Object timer(Object namespace, long time) {
        Object key = Json.of(getCurrentKey());
        return namespace instanceof VoidNamespace ? List.of(key, time) : List.of(key, Json.of(namespace), time);
    }

    @SuppressWarnings("unchecked")
    private static TypeSerializer<Object> namespace(boolean windowed) {
        return (TypeSerializer<Object>) (TypeSerializer<?>)
                (windowed ? new TimeWindow.Serializer() : VoidNamespaceSerializer.INSTANCE);
    }

    private InternalTimerService<Object> service(Service service) {
        return getInternalTimerService(service.name, namespace(service.windowed), this);
    }

    // ------------------------------------------------------------------------------------------ filling

    /** Keys have one to three elements, entries or windows. */
    @Override
    public void processElement(StreamRecord<Integer> record) throws Exception {
        int number = record.getValue();
        for (int each = number; !reads && each <= number + number % 3 * 1000; each += 1000) {
            for (int i = 0; i < plain.size(); i++) {
                // Every subtask gets every record, and lists have each element once.
                int subtask = number % Compat.parallelism(getRuntimeContext());
                if (plain.get(i).kind().equals("BROADCAST") || subtask == Compat.subtask(getRuntimeContext())) {
                    plain.get(i).fill(plainStates.get(i), each);
                }
            }
            for (Registered state : keyed) {
                state.fill(getPartitionedState(
                        place(state.windowed(), each), namespace(state.windowed()), state.descriptor()), each);
            }
            for (Service service : services) {
                service(service).registerEventTimeTimer(place(service.windowed, each), FAR + each);
                service(service).registerProcessingTimeTimer(place(service.windowed, each), FAR + each / 1000);
            }
        }
    }

    private static Object place(boolean windowed, int number) {
        return windowed ? new TimeWindow(number * 10L, number * 10L + 10) : VoidNamespace.INSTANCE;
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
