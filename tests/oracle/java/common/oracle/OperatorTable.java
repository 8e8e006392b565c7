package oracle;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.flink.api.common.ExecutionConfig;
import org.apache.flink.api.common.functions.RichMapFunction;
import org.apache.flink.api.common.state.BroadcastState;
import org.apache.flink.api.common.state.ListState;
import org.apache.flink.api.common.state.ListStateDescriptor;
import org.apache.flink.api.common.state.MapStateDescriptor;
import org.apache.flink.api.common.state.OperatorStateStore;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.runtime.state.FunctionInitializationContext;
import org.apache.flink.runtime.state.FunctionSnapshotContext;
import org.apache.flink.streaming.api.checkpoint.CheckpointedFunction;
import org.apache.flink.streaming.api.datastream.DataStream;

/** An operator with list, union and broadcast states, filled when it starts. */
final class OperatorTable {
    private static final Map<String, OperatorTable> BY_UID = new HashMap<>();

    final String uid;
    private final ExecutionConfig config;
    private final List<Lists> lists = new ArrayList<>();
    private final List<Broadcasts> broadcasts = new ArrayList<>();

    OperatorTable(String uid, ExecutionConfig config) {
        this.uid = uid;
        this.config = config;
        BY_UID.put(uid, this);
    }

    private record Lists(boolean union, String type, ListStateDescriptor<Object> descriptor, List<?> values) {}

    private record Broadcasts(
            String keyType, String type, MapStateDescriptor<Object, Object> descriptor, Map<?, ?> values) {}

    @SuppressWarnings("unchecked")
    private <T> OperatorTable add(boolean union, String name, TypeInformation<T> type, List<T> values) {
        ListStateDescriptor<T> descriptor = new ListStateDescriptor<>(name, Compat.serializer(type, config));
        lists.add(new Lists(union, Notation.of(type), (ListStateDescriptor<Object>) descriptor, values));
        return this;
    }

    <T> OperatorTable list(String name, TypeInformation<T> type, List<T> values) {
        return add(false, name, type, values);
    }

    <T> OperatorTable union(String name, TypeInformation<T> type, List<T> values) {
        return add(true, name, type, values);
    }

    @SuppressWarnings("unchecked")
    <K, V> OperatorTable broadcast(
            String name, TypeInformation<K> keyType, TypeInformation<V> type, Map<K, V> values) {
        MapStateDescriptor<K, V> descriptor = new MapStateDescriptor<>(
                name, Compat.serializer(keyType, config), Compat.serializer(type, config));
        broadcasts.add(new Broadcasts(Notation.of(keyType), Notation.of(type),
                (MapStateDescriptor<Object, Object>) (MapStateDescriptor<?, ?>) descriptor, values));
        return this;
    }

    void attach(DataStream<Integer> indexes) {
        indexes.rebalance().map(new Fill(uid)).returns(Types.INT).uid(uid).name(uid);
    }

    private static final class Fill extends RichMapFunction<Integer, Integer> implements CheckpointedFunction {
        private static final long serialVersionUID = 1;
        private final String uid;

        Fill(String uid) {
            this.uid = uid;
        }

        @Override
        public Integer map(Integer index) {
            return index;
        }

        @Override
        public void initializeState(FunctionInitializationContext context) throws Exception {
            OperatorStateStore store = context.getOperatorStateStore();
            OperatorTable table = BY_UID.get(uid);
            int subtask = Compat.subtask(getRuntimeContext());
            int parallelism = Compat.parallelism(getRuntimeContext());
            for (Lists lists : table.lists) {
                ListState<Object> state = lists.union
                        ? store.getUnionListState(lists.descriptor)
                        : store.getListState(lists.descriptor);
                for (int i = subtask; i < lists.values.size(); i += parallelism) {
                    state.add(lists.values.get(i));
                }
            }
            for (Broadcasts broadcasts : table.broadcasts) {
                BroadcastState<Object, Object> state = store.getBroadcastState(broadcasts.descriptor);
                for (Map.Entry<?, ?> entry : broadcasts.values.entrySet()) {
                    state.put(entry.getKey(), entry.getValue());
                }
            }
        }

        @Override
        public void snapshotState(FunctionSnapshotContext context) {}
    }

    Map<String, Object> expected() {
        List<Object> states = new ArrayList<>();
        for (Lists one : lists) {
            states.add(Json.object(
                    "name", one.descriptor.getName(),
                    "kind", one.union ? "union" : "list",
                    "type", one.type,
                    "entries", Json.of(one.values)));
        }
        for (Broadcasts one : broadcasts) {
            List<Object> entries = new ArrayList<>();
            one.values.forEach((key, value) -> entries.add(Arrays.asList(Json.of(key), Json.of(value))));
            states.add(Json.object(
                    "name", one.descriptor.getName(),
                    "kind", "broadcast",
                    "keyType", one.keyType,
                    "type", one.type,
                    "entries", entries));
        }
        return Json.object("uid", uid, "kind", "operator", "states", states);
    }
}
