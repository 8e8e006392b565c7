package oracle;

import java.util.List;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.state.MapState;
import org.apache.flink.api.common.state.MapStateDescriptor;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple3;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.runtime.jobgraph.JobGraph;
import org.apache.flink.runtime.jobgraph.SavepointRestoreSettings;
import org.apache.flink.streaming.api.datastream.SingleOutputStreamOperator;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.util.Collector;

/**
 * The job of the notebooks: points of customers, revenue of categories. Its first release sets no uids; the second
 * does, and has one operator more. Starts from {@code --snapshot} where there is one (and all its state must be taken),
 * reads purchases until the source has given {@code --purchases} of them, and takes a savepoint. Its execution plan is
 * {@code OUT/plan.json}, what it said {@code OUT/found.json}.
 */
public final class Loyalty {
    private static final TypeInformation<Tuple3<Long, String, Long>> PURCHASE =
            Types.TUPLE(Types.LONG, Types.STRING, Types.LONG);
    private static final String[] CATEGORIES = {"books", "games", "garden", "music"};
    private static final int CUSTOMERS = 8;

    private Loyalty() {}

    public static void main(String[] arguments) throws Exception {
        Options options = Options.parse(arguments);
        Configuration configuration = options.configuration();
        StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment(configuration);
        env.setParallelism(options.number("parallelism"));
        env.setMaxParallelism(128);
        build(env, options.number("release"), options.number("purchases"));
        Json.write(options.out().resolve("plan.json"), Json.MAPPER.readTree(env.getExecutionPlan()));
        JobGraph job = env.getStreamGraph(false).getJobGraph();
        if (options.named().containsKey("snapshot")) {
            job.setSavepointRestoreSettings(SavepointRestoreSettings.forPath(options.get("snapshot"), false));
        }
        Snapshots.take(job, configuration, options);
        Json.write(options.out().resolve("found.json"), Found.all());
        options.deleteTemporary();
        // Some of Flink's threads are no daemons.
        System.exit(0);
    }

    private static void build(StreamExecutionEnvironment env, int release, int purchases) {
        SingleOutputStreamOperator<Integer> numbers = env.fromSource(
                        new CountingSource("purchases", purchases),
                        WatermarkStrategy.noWatermarks(), "purchases", Types.INT)
                .setParallelism(1);
        SingleOutputStreamOperator<Tuple3<Long, String, Long>> parsed =
                numbers.map(Loyalty::purchase).returns(PURCHASE).name("parse");
        SingleOutputStreamOperator<Tuple3<Long, String, Long>> sold =
                release == 1 ? parsed : parsed.filter(purchase -> purchase.f2 > 0).name("without refunds");
        SingleOutputStreamOperator<Void> points =
                sold.keyBy(purchase -> purchase.f0, Types.LONG).process(new Points()).name("points");
        SingleOutputStreamOperator<Void> revenue =
                sold.keyBy(purchase -> purchase.f1, Types.STRING).process(new Revenue()).name("revenue");
        if (release > 1) {
            numbers.uid("purchases");
            points.uid("points");
            revenue.uid("revenue");
        }
    }

    /** Customer, category, cents. */
    private static Tuple3<Long, String, Long> purchase(int i) {
        return Tuple3.of(1 + i % CUSTOMERS * 623L, CATEGORIES[i % CATEGORIES.length], 500 + i * 1_237L % 9_500);
    }

    /** One point per euro, and what a customer has spent in each category. */
    private static final class Points extends KeyedProcessFunction<Long, Tuple3<Long, String, Long>, Void> {
        @Override
        public void processElement(Tuple3<Long, String, Long> purchase, Context context, Collector<Void> out)
                throws Exception {
            ValueState<Long> points = getRuntimeContext().getState(new ValueStateDescriptor<>("points", Types.LONG));
            MapState<String, Long> spent = getRuntimeContext()
                    .getMapState(new MapStateDescriptor<>("spent", Types.STRING, Types.LONG));
            long before = points.value() == null ? 0 : points.value();
            long more = purchase.f2 / 100;
            points.update(before + more);
            Long already = spent.get(purchase.f1);
            spent.put(purchase.f1, (already == null ? 0 : already) + purchase.f2);
            Found.add("points", "said", List.of(String.format(
                    "customer %4d: %d + %d = %d points", purchase.f0, before, more, before + more)));
        }
    }

    /** Cents. */
    private static final class Revenue extends KeyedProcessFunction<String, Tuple3<Long, String, Long>, Void> {
        @Override
        public void processElement(Tuple3<Long, String, Long> purchase, Context context, Collector<Void> out)
                throws Exception {
            ValueState<Long> cents = getRuntimeContext().getState(new ValueStateDescriptor<>("cents", Types.LONG));
            cents.update((cents.value() == null ? 0 : cents.value()) + purchase.f2);
        }
    }
}
