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

    void attachWriter(DataStream<Integer> indexes) {
        indexes.rebalance().map(new Fill(uid)).returns(Types.INT).uid(uid).name(uid);
    }

    void attachReader(DataStream<Integer> indexes) {
        indexes.rebalance().map(new Read(uid)).returns(Types.INT).uid(uid).name(uid);
    }

    private abstract static class TableFunction extends RichMapFunction<Integer, Integer>
            implements CheckpointedFunction {
        private static final long serialVersionUID = 1;
        final String uid;

        TableFunction(String uid) {
            this.uid = uid;
        }

        abstract void visit(Lists lists, ListState<Object> state) throws Exception;

        abstract void visit(Broadcasts broadcasts, BroadcastState<Object, Object> state) throws Exception;

        @Override
        public final void initializeState(FunctionInitializationContext context) throws Exception {
            OperatorStateStore store = context.getOperatorStateStore();
            for (Lists lists : BY_UID.get(uid).lists) {
                visit(lists, lists.union
                        ? store.getUnionListState(lists.descriptor)
                        : store.getListState(lists.descriptor));
            }
            for (Broadcasts broadcasts : BY_UID.get(uid).broadcasts) {
                visit(broadcasts, store.getBroadcastState(broadcasts.descriptor));
            }
        }

        @Override
        public final void snapshotState(FunctionSnapshotContext context) {}

        @Override
        public final Integer map(Integer index) {
            return index;
        }
    }

    private static final class Fill extends TableFunction {
        private static final long serialVersionUID = 1;

        Fill(String uid) {
            super(uid);
        }

        @Override
        void visit(Lists lists, ListState<Object> state) throws Exception {
            int step = Compat.parallelism(getRuntimeContext());
            for (int i = Compat.subtask(getRuntimeContext()); i < lists.values.size(); i += step) {
                state.add(lists.values.get(i));
            }
        }

        @Override
        void visit(Broadcasts broadcasts, BroadcastState<Object, Object> state) throws Exception {
            for (Map.Entry<?, ?> entry : broadcasts.values.entrySet()) {
                state.put(entry.getKey(), entry.getValue());
            }
        }
    }

    /** Union and broadcast states are the same in all subtasks: only the first says what it finds there. */
    private static final class Read extends TableFunction {
        private static final long serialVersionUID = 1;

        Read(String uid) {
            super(uid);
        }

        @Override
        void visit(Lists lists, ListState<Object> state) throws Exception {
            List<Object> entries = new ArrayList<>();
            state.get().forEach(value -> entries.add(Json.of(value)));
            boolean told = !lists.union || Compat.subtask(getRuntimeContext()) == 0;
            Found.add(uid, lists.descriptor.getName(), told ? entries : List.of());
        }

        @Override
        void visit(Broadcasts broadcasts, BroadcastState<Object, Object> state) throws Exception {
            List<Object> entries = new ArrayList<>();
            state.immutableEntries().forEach(
                    entry -> entries.add(Arrays.asList(Json.of(entry.getKey()), Json.of(entry.getValue()))));
            boolean told = Compat.subtask(getRuntimeContext()) == 0;
            Found.add(uid, broadcasts.descriptor.getName(), told ? entries : List.of());
        }
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
