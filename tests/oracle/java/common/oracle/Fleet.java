package oracle;

import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.RichMapFunction;
import org.apache.flink.api.common.state.ListState;
import org.apache.flink.api.common.state.ListStateDescriptor;
import org.apache.flink.api.common.state.MapState;
import org.apache.flink.api.common.state.MapStateDescriptor;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.functions.KeySelector;
import org.apache.flink.api.java.typeutils.GenericTypeInfo;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.runtime.jobgraph.JobGraph;
import org.apache.flink.runtime.jobgraph.SavepointRestoreSettings;
import org.apache.flink.runtime.state.FunctionInitializationContext;
import org.apache.flink.runtime.state.FunctionSnapshotContext;
import org.apache.flink.runtime.state.KeyGroupRangeAssignment;
import org.apache.flink.streaming.api.checkpoint.CheckpointedFunction;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.util.Collector;

/**
 * A job whose values are of subclasses of POJOs that are not registered, and which differ between its subtasks, and
 * whose texts may hold half of a surrogate pair. Starts from {@code --snapshot} where there is one, reads numbers until
 * the source has given {@code --numbers} of them, and takes a savepoint. {@code tests/oracle/fleet.py} runs it.
 */
public final class Fleet {
    /** Key groups: few, so that the subtasks of a rescaled job read files of several. */
    private static final int KEY_GROUPS = 8;

    private Fleet() {}

    /** What a vehicle carries; its subclasses are not registered either. */
    public static class Load {
        public long weight;
    }

    public static final class Crates extends Load {
        public int crates;
    }

    public static final class Liquid extends Load {
        public double liters;
        public String kind;
    }

    public static class Vehicle {
        public long id;
        public String plate;
        public Load load;
    }

    public static class Truck extends Vehicle {
        public int axles;
    }

    public static final class Bus extends Vehicle {
        public Integer seats;
        public boolean electric;
    }

    public static final class Trailer extends Truck {
        public List<Long> stops = new ArrayList<>();
    }

    /** A POJO in whose fields the others are. */
    public static final class Depot {
        public String city;
        public Vehicle first;
        public Vehicle[] all;
    }

    public static void main(String[] arguments) throws Exception {
        Options options = Options.parse(arguments);
        Configuration configuration = options.configuration();
        StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment(configuration);
        env.setParallelism(options.number("parallelism"));
        env.setMaxParallelism(KEY_GROUPS);
        build(env, options.number("numbers"));
        JobGraph job = env.getStreamGraph(false).getJobGraph();
        if (options.named().containsKey("snapshot")) {
            job.setSavepointRestoreSettings(SavepointRestoreSettings.forPath(options.get("snapshot"), false));
        }
        Snapshots.take(job, configuration, options);
        options.deleteTemporary();
        // Some of Flink's threads are no daemons.
        System.exit(0);
    }

    private static void build(StreamExecutionEnvironment env, int numbers) {
        DataStream<Integer> source = env.fromSource(
                        new CountingSource("numbers", numbers), WatermarkStrategy.noWatermarks(), "numbers", Types.INT)
                .setParallelism(1)
                .uid("numbers");
        TypeInformation<UUID> ids = new GenericTypeInfo<>(UUID.class);
        keep(source, "vehicles", number -> (long) number, Types.LONG);
        keep(source, "vehicles-by-id", number -> new UUID(7, number), ids);
        keep(source, "vehicles-by-name", Fleet::text, Types.STRING);
        source.keyBy(number -> new UUID(7, number), ids).process(new Counts<>()).uid("counts-by-id");
        source.keyBy(Fleet::text, Types.STRING).process(new Counts<>()).uid("counts-by-name");
        source.map(new Texts()).uid("texts").setParallelism(1);
    }

    private static <K> void keep(DataStream<Integer> source, String uid, KeySelector<Integer, K> key, TypeInformation<K> type) {
        source.keyBy(key, type).process(new Vehicles<K>()).uid(uid);
    }

    /** Of every seven texts one ends with half of a surrogate pair. */
    static String text(int number) {
        return "number " + number + (number % 7 == 3 ? " \ud83d" : number % 7 == 5 ? " \ud83d\ude9a" : "");
    }

    /** Which subclass depends on the key group, and on the run: subtasks meet others after the job was rescaled. */
    static Vehicle vehicle(int number, Object key) {
        int group = KeyGroupRangeAssignment.assignToKeyGroup(key, KEY_GROUPS);
        Vehicle made;
        if (number >= 40 && group < 2) {
            made = trailer(number);
        } else if (number % 4 == 0) {
            made = new Vehicle();
        } else if (group < KEY_GROUPS / 2) {
            Truck truck = new Truck();
            truck.axles = number % 5;
            made = truck;
        } else {
            Bus bus = new Bus();
            bus.seats = number % 3 == 0 ? null : number;
            bus.electric = number % 2 == 0;
            made = bus;
        }
        made.id = number;
        made.plate = "plate " + number;
        made.load = load(number, group);
        return made;
    }

    private static Trailer trailer(int number) {
        Trailer trailer = new Trailer();
        trailer.axles = 2;
        trailer.stops.add((long) number);
        return trailer;
    }

    private static Load load(int number, int group) {
        if (number % 5 == 0) {
            return null;
        }
        Load made;
        if (group % 4 < 2) {
            Crates crates = new Crates();
            crates.crates = number;
            made = crates;
        } else {
            Liquid liquid = new Liquid();
            liquid.liters = number / 2.0;
            liquid.kind = "milk";
            made = liquid;
        }
        made.weight = number * 10L;
        return made;
    }

    private static final class Vehicles<K> extends KeyedProcessFunction<K, Integer, Void> {
        private static final long serialVersionUID = 1;

        @Override
        public void processElement(Integer number, Context context, Collector<Void> out) throws Exception {
            ValueState<Long> before = getRuntimeContext().getState(new ValueStateDescriptor<>("before", Types.LONG));
            ValueState<Vehicle> vehicle =
                    getRuntimeContext().getState(new ValueStateDescriptor<>("vehicle", Vehicle.class));
            ListState<Vehicle> fleet =
                    getRuntimeContext().getListState(new ListStateDescriptor<>("fleet", Vehicle.class));
            MapState<String, Vehicle> plates = getRuntimeContext()
                    .getMapState(new MapStateDescriptor<>("plates", String.class, Vehicle.class));
            ValueState<Depot> depot = getRuntimeContext().getState(new ValueStateDescriptor<>("depot", Depot.class));
            ValueState<Long> later = getRuntimeContext().getState(new ValueStateDescriptor<>("later", Types.LONG));
            Vehicle made = vehicle(number, context.getCurrentKey());
            before.update(number + 1L);
            vehicle.update(made);
            fleet.add(made);
            fleet.add(vehicle(number + 1, context.getCurrentKey()));
            plates.put(made.plate, made);
            Depot built = new Depot();
            built.city = "city " + number;
            built.first = made;
            built.all = new Vehicle[] {made, null};
            depot.update(built);
            later.update(number + 2L);
            context.timerService().registerEventTimeTimer(1_000_000L + number);
        }
    }

    private static final class Counts<K> extends KeyedProcessFunction<K, Integer, Void> {
        private static final long serialVersionUID = 1;

        @Override
        public void processElement(Integer number, Context context, Collector<Void> out) throws Exception {
            ValueState<Long> count = getRuntimeContext().getState(new ValueStateDescriptor<>("count", Types.LONG));
            count.update(number + 1L);
            getRuntimeContext().getState(new ValueStateDescriptor<>("text", Types.STRING)).update(text(number));
            getRuntimeContext().getListState(new ListStateDescriptor<>("texts", Types.STRING)).add(text(number));
            getRuntimeContext()
                    .getMapState(new MapStateDescriptor<>("lengths", Types.STRING, Types.INT))
                    .put(text(number), text(number).length());
            context.timerService().registerEventTimeTimer(1_000_000L + number);
        }
    }

    private static final class Texts extends RichMapFunction<Integer, String> implements CheckpointedFunction {
        private static final long serialVersionUID = 1;
        private transient ListState<String> kept;

        @Override
        public String map(Integer number) throws Exception {
            kept.add(text(number));
            return "";
        }

        @Override
        public void initializeState(FunctionInitializationContext context) throws Exception {
            kept = context.getOperatorStateStore().getListState(new ListStateDescriptor<>("kept", Types.STRING));
        }

        @Override
        public void snapshotState(FunctionSnapshotContext context) {}
    }
}
