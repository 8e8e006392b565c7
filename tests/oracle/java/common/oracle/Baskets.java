package oracle;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.UUID;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.runtime.jobgraph.JobGraph;
import org.apache.flink.runtime.jobgraph.SavepointRestoreSettings;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.util.Collector;

/**
 * The job of the notebook about the upgrade to Flink 2: baskets of customers, as a class with collections. Starts from
 * {@code --snapshot} where there is one, reads purchases until the source has given {@code --purchases} of them, and
 * takes a savepoint. What it said is {@code OUT/found.json}.
 */
public final class Baskets {
    private static final String[] ARTICLES = {"apples", "bread", "cheese", "dates", "eggs"};
    private static final int CUSTOMERS = 3;

    private Baskets() {}

    /** What a customer has in the basket. Flink 1 leaves everything but the text to Kryo; Flink 2 the id and seen. */
    public static final class Basket {
        public String customer;
        public UUID id;
        public List<String> articles = new ArrayList<>();
        public Map<String, Double> prices = new TreeMap<>();
        public ArrayList<Integer> seen = new ArrayList<>();
    }

    public static void main(String[] arguments) throws Exception {
        Options options = Options.parse(arguments);
        Configuration configuration = options.configuration();
        StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment(configuration);
        env.setParallelism(options.number("parallelism"));
        env.setMaxParallelism(128);
        env.fromSource(
                        new CountingSource("purchases", options.number("purchases")),
                        WatermarkStrategy.noWatermarks(), "purchases", Types.INT)
                .setParallelism(1)
                .uid("purchases")
                .keyBy(number -> "customer " + number % CUSTOMERS, Types.STRING)
                .process(new Filling())
                .uid("baskets");
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

    private static final class Filling extends KeyedProcessFunction<String, Integer, Void> {
        @Override
        public void processElement(Integer number, Context context, Collector<Void> out) throws Exception {
            ValueState<Basket> state =
                    getRuntimeContext().getState(new ValueStateDescriptor<>("basket", Basket.class));
            Basket basket = state.value();
            if (basket == null) {
                basket = new Basket();
                basket.customer = context.getCurrentKey();
                basket.id = new UUID(0, number + 1);
            }
            String article = ARTICLES[number % ARTICLES.length];
            basket.articles.add(article);
            basket.prices.put(article, 1 + number / 4.0);
            basket.seen.add(number);
            state.update(basket);
            Found.add("baskets", "said", List.of(String.format(
                    "%s, %s: %s for %s, seen %s", basket.customer, basket.id.toString().substring(30),
                    basket.articles, new TreeMap<>(basket.prices), basket.seen)));
        }
    }
}
