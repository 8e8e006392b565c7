package oracle;

import java.io.Serializable;
import java.time.Duration;
import org.apache.flink.api.common.functions.AggregateFunction;
import org.apache.flink.api.common.functions.ReduceFunction;
import org.apache.flink.api.common.state.AggregatingStateDescriptor;
import org.apache.flink.api.common.state.AppendingState;
import org.apache.flink.api.common.state.BroadcastState;
import org.apache.flink.api.common.state.KeyedStateStore;
import org.apache.flink.api.common.state.ListStateDescriptor;
import org.apache.flink.api.common.state.MapState;
import org.apache.flink.api.common.state.MapStateDescriptor;
import org.apache.flink.api.common.state.OperatorStateStore;
import org.apache.flink.api.common.state.ReducingStateDescriptor;
import org.apache.flink.api.common.state.State;
import org.apache.flink.api.common.state.StateDescriptor;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.TypeInformation;

/** A state of a described job: it registers itself, and fills itself with samples. */
record Registered(
        String name, String kind, TypeInformation<Object> type, TypeInformation<Object> key, boolean ttl, boolean windowed)
        implements Serializable {

    @SuppressWarnings("unchecked")
    <D extends StateDescriptor<?, ?>> D descriptor() {
        StateDescriptor<?, ?> made = switch (kind) {
            case "VALUE" -> new ValueStateDescriptor<>(name, type);
            case "LIST" -> new ListStateDescriptor<>(name, type);
            case "MAP" -> new MapStateDescriptor<>(name, key, type);
            case "REDUCING" -> new ReducingStateDescriptor<>(name, new Last(), type);
            case "AGGREGATING" -> new AggregatingStateDescriptor<>(name, new Newest(), type);
            default -> throw new IllegalArgumentException(kind);
        };
        if (ttl) {
            made.enableTimeToLive(Compat.timeToLive(Duration.ofDays(1)));
        }
        return (D) made;
    }

    State keyed(KeyedStateStore store) {
        return switch (kind) {
            case "VALUE" -> store.getState(this.<ValueStateDescriptor<Object>>descriptor());
            case "LIST" -> store.getListState(this.<ListStateDescriptor<Object>>descriptor());
            case "MAP" -> store.getMapState(this.<MapStateDescriptor<Object, Object>>descriptor());
            case "REDUCING" -> store.getReducingState(this.<ReducingStateDescriptor<Object>>descriptor());
            default -> throw new IllegalArgumentException(kind);
        };
    }

    State plain(OperatorStateStore store) throws Exception {
        return switch (kind) {
            case "LIST" -> store.getListState(new ListStateDescriptor<>(name, type));
            case "UNION" -> store.getUnionListState(new ListStateDescriptor<>(name, type));
            case "BROADCAST" -> store.getBroadcastState(new MapStateDescriptor<>(name, key, type));
            default -> throw new IllegalArgumentException(kind);
        };
    }

    @SuppressWarnings("unchecked")
    void fill(State state, int number) throws Exception {
        Object value = TypeText.sample(type, number);
        if (state instanceof ValueState<?> one) {
            ((ValueState<Object>) one).update(value);
        } else if (state instanceof AppendingState<?, ?> many) {
            ((AppendingState<Object, Object>) many).add(value);
        } else if (state instanceof MapState<?, ?> map) {
            ((MapState<Object, Object>) map).put(TypeText.sample(key, number), value);
        } else {
            ((BroadcastState<Object, Object>) state).put(TypeText.sample(key, number), value);
        }
    }

    private record Last() implements ReduceFunction<Object> {
        @Override
        public Object reduce(Object first, Object second) {
            return second;
        }
    }

    private record Newest() implements AggregateFunction<Object, Object, Object> {
        @Override
        public Object createAccumulator() {
            return null;
        }

        @Override
        public Object add(Object value, Object accumulator) {
            return value;
        }

        @Override
        public Object getResult(Object accumulator) {
            return accumulator;
        }

        @Override
        public Object merge(Object first, Object second) {
            return second;
        }
    }
}
