package flinklab;

import java.util.*;
import org.apache.flink.api.common.state.*;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.util.Collector;

/**
 * Fills the keyed states of one operator from Data, in three rounds per key, so that there are
 * overwrites, appends and deletions; no open(), whose signature differs between 1.x and 2.x.
 */
public class StateFn extends KeyedProcessFunction<Object, Long, Long> {
    public final String uid;
    public final int keys;
    public final List<StateDef> defs;
    public final boolean timers;

    public StateFn(String uid, int keys, boolean timers, StateDef... defs) {
        this.uid = uid;
        this.keys = keys;
        this.timers = timers;
        this.defs = new ArrayList<>(Arrays.asList(defs));
    }

    public static Long eventTimer(int i) {
        return i % 2 == 0 ? 10_000_000_000_000L + i * 1000L : null;
    }

    public static Long procTimer(int i) {
        return i % 3 == 0 ? 4_102_444_800_000L + i : null;
    }

    @Override
    @SuppressWarnings({"unchecked", "rawtypes"})
    public void processElement(Long n, Context ctx, Collector<Long> out) throws Exception {
        int i = (int) (n % keys), round = (int) (n / keys);
        if (round > 2)
            return;
        for (StateDef d : defs) {
            Object v = Data.value(uid, d.name, i);
            StateDescriptor x = d.descriptor(false);
            switch (d.kind) {
                case "value": {
                    ValueState s = getRuntimeContext().getState((ValueStateDescriptor) x);
                    Object old = Data.value(uid, d.name, i + 1);
                    if (round == 0 && old != null)
                        s.update(old);
                    if (round == 1)
                        s.clear();
                    if (round == 2 && v != null)
                        s.update(v);
                    break;
                }
                case "list": {
                    ListState s = getRuntimeContext().getListState((ListStateDescriptor) x);
                    List l = (List) v;
                    if (round == 0) {
                        List o = (List) Data.value(uid, d.name, i + 1);
                        if (o != null)
                            s.addAll(o);
                    }
                    if (round == 1) {
                        if (l == null || l.isEmpty())
                            s.clear();
                        else
                            s.update(l.subList(0, 1));
                    }
                    if (round == 2 && l != null)
                        for (int k = 1; k < l.size(); k++)
                            s.add(l.get(k));
                    break;
                }
                case "map": {
                    MapState s = getRuntimeContext().getMapState((MapStateDescriptor) x);
                    Map o = (Map) Data.value(uid, d.name, i + 1);
                    if (round == 0 && o != null)
                        s.putAll(o);
                    if (round == 1 && o != null)
                        for (Object k : o.keySet())
                            s.remove(k);
                    if (round == 2 && v != null) for (Map.Entry e : ((Map<?, ?>) v).entrySet())
                            s.put(e.getKey(), e.getValue());
                    break;
                }
                default: {
                    AppendingState s = d.kind.equals("reducing")
                            ? getRuntimeContext().getReducingState((ReducingStateDescriptor) x)
                            : getRuntimeContext().getAggregatingState((AggregatingStateDescriptor) x);
                    if (v != null)
                        s.add(((List) v).get(round));
                }
            }
        }
        if (timers && round == 2) {
            if (eventTimer(i) != null)
                ctx.timerService().registerEventTimeTimer(eventTimer(i));
            if (procTimer(i) != null)
                ctx.timerService().registerProcessingTimeTimer(procTimer(i));
        } else if (timers && round == 0) { // some that are deleted again
            ctx.timerService().registerEventTimeTimer(9_000_000_000_000L + i);
        } else if (timers) {
            ctx.timerService().deleteEventTimeTimer(9_000_000_000_000L + i);
        }
        if (ctx.timerService().currentWatermark() == Long.MIN_VALUE)
            out.collect(n);
    }

    /** What must be in the state, from the input alone. */
    @SuppressWarnings({"unchecked", "rawtypes"})
    public Map<String, Object> expected(String keyType, int maxParallelism) {
        List<Object> groups = new ArrayList<>(), states = new ArrayList<>(), ev = new ArrayList<>(),
                     pr = new ArrayList<>();
        for (int i = 0; i < keys; i++) {
            Object k = Specs.enc(Data.key(uid, i));
            groups.add(Arrays.asList(k,
                    org.apache.flink.runtime.state.KeyGroupRangeAssignment.assignToKeyGroup(
                            Data.key(uid, i), maxParallelism)));
            if (timers && eventTimer(i) != null)
                ev.add(Arrays.asList(k, eventTimer(i)));
            if (timers && procTimer(i) != null)
                pr.add(Arrays.asList(k, procTimer(i)));
        }
        for (StateDef d : defs) {
            List<Object> entries = new ArrayList<>();
            for (int i = 0; i < keys; i++) {
                Object v = Data.value(uid, d.name, i);
                if (v == null || d.kind.equals("list") && ((List) v).isEmpty()
                        || d.kind.equals("map") && ((Map) v).isEmpty())
                    continue;
                long sum = 0, n = 0;
                if (d.kind.equals("reducing") || d.kind.equals("aggregating"))
                    for (Object x : (List) v) {
                        sum += (Long) x;
                        n++;
                    }
                Object e = d.kind.equals("reducing")   ? (Object) sum
                        : d.kind.equals("aggregating") ? Arrays.asList(sum, n)
                                                       : Specs.enc(v);
                entries.add(Arrays.asList(Specs.enc(Data.key(uid, i)), null, e));
            }
            states.add(describe(d, entries));
        }
        Map<String, Object> m =
                Specs.obj("uid", uid, "kind", "keyed", "keyType", keyType, "states", states, "keyGroups", groups);
        if (timers)
            m.put("timers",
                    Arrays.asList(Specs.obj(
                            "service", "user-timers", "namespace", "VOID", "eventTime", ev, "processingTime", pr)));
        return m;
    }

    public static Map<String, Object> describe(StateDef d, List<Object> entries) {
        Map<String, Object> m = Specs.obj("name", d.name, "kind", d.kind, "type", d.type);
        if (d.keyType != null)
            m.put("keyType", d.keyType);
        m.put("namespace", d.namespace);
        m.put("ttl", d.ttl);
        if (entries != null)
            m.put("entries", entries);
        return m;
    }
}
