package miglab;

import java.util.*;
import java.util.concurrent.ConcurrentHashMap;
import java.util.stream.*;
import org.apache.flink.api.common.state.*;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.runtime.state.*;
import org.apache.flink.streaming.api.operators.*;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;

/** One operator with the state of one case: written in processElement, shown in open(). */
@SuppressWarnings({"unchecked", "rawtypes"})
public class Op extends AbstractStreamOperator<Long> implements OneInputStreamOperator<Long, Long> {
    public static final Map<String, List<Object>> SEEN = new ConcurrentHashMap<>();
    final String name;
    final boolean check;
    transient List<Object> rows;
    transient ListState op;
    transient BroadcastState bc;

    Op(String name, boolean check) {
        this.name = name;
        this.check = check;
    }

    private Cases c() {
        return Cases.ALL.get(name);
    }

    static Object userKey(Cases c, int i) {
        String t = c.keyType == null ? "" : c.keyType.get().getTypeClass().getSimpleName();
        switch (t) {
            case "UUID":
                return new UUID(i, i + 1);
            case "List":
                return Cases.list("k" + i, "x");
            case "PListString":
                return Cases.with(Model.PListString.class, i, Cases.list("k" + i));
            case "KSimple":
                return new Model.KSimple(i, "k" + i);
            default:
                return "k" + i;
        }
    }

    @Override
    public void initializeState(StateInitializationContext ctx) throws Exception {
        super.initializeState(ctx);
        Cases c = c();
        rows = new ArrayList<>();
        OperatorStateStore s = ctx.getOperatorStateStore();
        if (c.kind.equals("oplist"))
            op = s.getListState(new ListStateDescriptor("v", c.type.get()));
        if (c.kind.equals("union"))
            op = s.getUnionListState(new ListStateDescriptor("v", c.type.get()));
        if (op != null)
            for (Object o : (Iterable<?>) op.get())
                rows.add(Arrays.asList(null, Enc.enc(o)));
        if (c.kind.equals("broadcast")) {
            bc = s.getBroadcastState(new MapStateDescriptor("v", Types.STRING, c.type.get()));
            for (Map.Entry e : (Iterable<Map.Entry>) bc.immutableEntries())
                rows.add(Arrays.asList(e.getKey(), Enc.enc(e.getValue())));
        }
    }

    private StateDescriptor descriptor() {
        Cases c = c();
        StateDescriptor d = c.kind.equals("list") ? new ListStateDescriptor("v", c.type.get())
                : c.kind.equals("map")
                ? new MapStateDescriptor("v", c.keyType == null ? Types.STRING : c.keyType.get(), c.type.get())
                : new ValueStateDescriptor("v", c.type.get());
        if (c.ttl)
            d.enableTimeToLive(flinklab.Cluster.ttl(3650));
        if (!d.isSerializerInitialized())
            d.initializeSerializerUnlessSet(getExecutionConfig());
        return d;
    }

    private boolean keyed() {
        return !Arrays.asList("oplist", "union", "broadcast").contains(c().kind);
    }

    @Override
    public void open() throws Exception {
        super.open();
        if (check && keyed()) {
            KeyedStateBackend<Object> b = getKeyedStateBackend();
            StateDescriptor d = descriptor();
            b.getPartitionedState(VoidNamespace.INSTANCE, VoidNamespaceSerializer.INSTANCE, d);
            List<Object> keys;
            try (Stream<Object> ks = b.getKeys("v", VoidNamespace.INSTANCE)) {
                keys = ks.collect(Collectors.toList());
            }
            for (Object k : keys) {
                b.setCurrentKey(k);
                State s = (State) b.getPartitionedState(VoidNamespace.INSTANCE, VoidNamespaceSerializer.INSTANCE, d);
                Object v;
                if (s instanceof ValueState)
                    v = Enc.enc(((ValueState) s).value());
                else if (s instanceof ListState) {
                    List<Object> l = new ArrayList<>();
                    for (Object e : (Iterable<?>) ((ListState) s).get())
                        l.add(Enc.enc(e));
                    v = l;
                } else {
                    List<Object> l = new ArrayList<>();
                    for (Map.Entry e : (Iterable<Map.Entry>) ((MapState) s).entries())
                        l.add(Arrays.asList(Enc.enc(e.getKey()), Enc.enc(e.getValue())));
                    l.sort(Comparator.comparing(String::valueOf));
                    v = Enc.obj("map", l);
                }
                rows.add(Arrays.asList(Enc.enc(k), v));
            }
        }
        if (check)
            SEEN.put(name, rows);
    }

    /** What must come back. */
    static List<Object> expected(Cases c) {
        List<Object> rows = new ArrayList<>(), l = new ArrayList<>();
        for (int i = 0; i < c.values.size(); i++) {
            Object v = Enc.enc(c.values.get(i));
            switch (c.kind) {
                case "value":
                    rows.add(Arrays.asList((long) i, v));
                    break;
                case "key":
                    rows.add(Arrays.asList(Enc.enc(userKey(c, i)), v));
                    break;
                case "oplist":
                case "union":
                    rows.add(Arrays.asList(null, v));
                    break;
                case "broadcast":
                    rows.add(Arrays.asList("k" + i, v));
                    break;
                case "list":
                    l.add(v);
                    break;
                default:
                    l.add(Arrays.asList(Enc.enc(userKey(c, i)), v));
            }
        }
        if (c.kind.equals("list"))
            rows.add(Arrays.asList(0L, l));
        if (c.kind.equals("map")) {
            l.sort(Comparator.comparing(String::valueOf));
            rows.add(Arrays.asList(0L, Enc.obj("map", l)));
        }
        return rows;
    }

    @Override
    public void processElement(StreamRecord<Long> r) throws Exception {
        if (check)
            return;
        Cases c = c();
        int i = r.getValue().intValue();
        Object v = c.values.get(i);
        if (op != null) {
            op.add(v);
            return;
        }
        if (bc != null) {
            bc.put("k" + i, v);
            return;
        }
        State s = (State) getKeyedStateBackend().getPartitionedState(VoidNamespace.INSTANCE,
                (org.apache.flink.api.common.typeutils.TypeSerializer) VoidNamespaceSerializer.INSTANCE, descriptor());
        if (s instanceof ValueState)
            ((ValueState) s).update(v);
        else if (s instanceof ListState)
            ((ListState) s).add(v);
        else
            ((MapState) s).put(userKey(c, i), v);
    }

    /** The key of the n-th value. */
    static class ByKey implements org.apache.flink.api.java.functions.KeySelector<Long, Object> {
        final String name;

        ByKey(String name) {
            this.name = name;
        }

        @Override
        public Object getKey(Long n) {
            Cases c = Cases.ALL.get(name);
            return c.kind.equals("key") ? userKey(c, n.intValue()) : c.kind.equals("value") ? n : (Object) 0L;
        }
    }
}
