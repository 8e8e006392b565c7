package flinklab;

import java.io.Serializable;
import org.apache.flink.api.common.functions.AggregateFunction;
import org.apache.flink.api.common.functions.ReduceFunction;
import org.apache.flink.api.common.state.*;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.api.java.tuple.Tuple3;

/** One state of a keyed operator: enough to build its descriptor. */
public class StateDef implements Serializable {
    public String name, kind, type, keyType; // keyType: map state's key
    public String namespace = "VOID"; // VOID, TIME_WINDOW, GLOBAL_WINDOW
    public boolean ttl;

    public static StateDef value(String name, String type) {
        return of(name, "value", type, null);
    }

    public static StateDef list(String name, String type) {
        return of(name, "list", type, null);
    }

    public static StateDef map(String name, String k, String v) {
        return of(name, "map", v, k);
    }

    public static StateDef of(String name, String kind, String type, String keyType) {
        StateDef d = new StateDef();
        d.name = name;
        d.kind = kind;
        d.type = type;
        d.keyType = keyType;
        return d;
    }

    public StateDef ttl() {
        ttl = true;
        return this;
    }

    public StateDef in(String ns) {
        namespace = ns;
        return this;
    }

    /** Adds longs, or the second fields of Tuple2s; for anything else the latest value wins. */
    public static class Sum implements ReduceFunction<Object> {
        @Override
        public Object reduce(Object a, Object b) {
            if (a instanceof Long)
                return (Long) a + (Long) b;
            if (a instanceof Integer)
                return (Integer) a + (Integer) b;
            if (a instanceof Tuple2 && ((Tuple2<?, ?>) a).f1 instanceof Long)
                return Tuple2.of(((Tuple2<?, ?>) a).f0, (Long) ((Tuple2<?, ?>) a).f1 + (Long) ((Tuple2<?, ?>) b).f1);
            return b;
        }
    }

    public static class Avg implements AggregateFunction<Long, Tuple2<Long, Long>, Double> {
        @Override
        public Tuple2<Long, Long> createAccumulator() {
            return Tuple2.of(0L, 0L);
        }

        @Override
        public Tuple2<Long, Long> add(Long v, Tuple2<Long, Long> a) {
            return Tuple2.of(a.f0 + v, a.f1 + 1);
        }

        @Override
        public Double getResult(Tuple2<Long, Long> a) {
            return a.f1 == 0 ? 0.0 : (double) a.f0 / a.f1;
        }

        @Override
        public Tuple2<Long, Long> merge(Tuple2<Long, Long> a, Tuple2<Long, Long> b) {
            return Tuple2.of(a.f0 + b.f0, a.f1 + b.f1);
        }
    }

    /** For reading an accumulator of any type as it is. */
    public static class Same implements AggregateFunction<Object, Object, Object> {
        @Override
        public Object createAccumulator() {
            return null;
        }

        @Override
        public Object add(Object v, Object a) {
            return v;
        }

        @Override
        public Object getResult(Object a) {
            return a;
        }

        @Override
        public Object merge(Object a, Object b) {
            return a;
        }
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    public StateDescriptor descriptor(boolean reading) {
        StateDescriptor d;
        switch (kind) {
            case "value":
                d = new ValueStateDescriptor(name, Specs.type(type));
                break;
            case "list":
                d = new ListStateDescriptor(name, Specs.type(type));
                break;
            case "map":
                d = new MapStateDescriptor(name, Specs.type(keyType), Specs.type(type));
                break;
            case "reducing":
                d = new ReducingStateDescriptor(name, new Sum(), Specs.type(type));
                break;
            case "aggregating":
                d = new AggregatingStateDescriptor(
                        name, reading ? new Same() : (AggregateFunction) new Avg(), Specs.type(type));
                break;
            default:
                throw new IllegalArgumentException("state kind " + kind);
        }
        if (ttl)
            d.enableTimeToLive(Cluster.ttl(365));
        return d;
    }
}
