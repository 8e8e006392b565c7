package oracle;

import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;
import java.util.concurrent.TimeUnit;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.state.ListState;
import org.apache.flink.api.common.state.ListStateDescriptor;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.streaming.api.datastream.AsyncDataStream;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.datastream.SingleOutputStreamOperator;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.async.AsyncFunction;
import org.apache.flink.streaming.api.functions.async.ResultFuture;
import org.apache.flink.streaming.api.functions.co.KeyedCoProcessFunction;
import org.apache.flink.streaming.api.functions.windowing.ProcessWindowFunction;
import org.apache.flink.streaming.api.windowing.assigners.GlobalWindows;
import org.apache.flink.streaming.api.windowing.triggers.CountTrigger;
import org.apache.flink.streaming.api.windowing.windows.GlobalWindow;
import org.apache.flink.util.Collector;

/**
 * Writes an unaligned checkpoint of a job whose last function answers slowly, so that all buffers in front of it are
 * full. Records are numbered: those that an operator has kept and those in flight to it are all that were sent.
 */
public final class InFlight {
    private static final int ENDLESS = 100_000_000;
    private static final int CAPACITY = 3;
    /** Enough to fill all buffers. */
    private static final long WAIT_MILLIS = 3_000;
    private static final long ANSWER_MILLIS = 40;
    private static final long TIME_LIMIT_SECONDS = 60;

    private InFlight() {}

    public static void main(String[] arguments) throws Exception {
        Options options = Options.parse(arguments);
        Configuration configuration = options.configuration();
        StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment(configuration);
        env.setParallelism(options.number("parallelism"));
        env.setMaxParallelism(8);
        env.enableCheckpointing(3_600_000);
        build(env);
        Path snapshot = Snapshots.whileRunning(
                env.getStreamGraph(false).getJobGraph(), configuration, options, InFlight::isFull, (cluster, id) ->
                        Snapshots.path(cluster.triggerCheckpoint(id).get(TIME_LIMIT_SECONDS, TimeUnit.SECONDS)));
        Json.write(options.out().resolve("expected.json"),
                Json.object("savepoint", options.out().relativize(snapshot).toString()));
        options.deleteTemporary();
        System.exit(0);
    }

    private static void build(StreamExecutionEnvironment env) {
        SingleOutputStreamOperator<Tuple2<Integer, String>> orders = source(env, "orders")
                .map(number -> Tuple2.of(number, text(number)))
                .returns(Types.TUPLE(Types.INT, Types.STRING))
                .uid("order-texts");
        SingleOutputStreamOperator<Long> payments =
                source(env, "payments").map(number -> (long) number).returns(Types.LONG).uid("payment-numbers");
        SingleOutputStreamOperator<String> matched = orders.keyBy(order -> order.f0 % 5)
                .connect(payments.keyBy(payment -> (int) (payment % 5)))
                .process(new Match())
                .uid("match");
        SingleOutputStreamOperator<String> windows = source(env, "clicks")
                .keyBy(number -> number % 3)
                .window(GlobalWindows.create())
                .trigger(CountTrigger.of(1))
                .process(new LastOf())
                .uid("windows");
        DataStream<String> all = matched.rebalance().union(windows.rebalance());
        AsyncDataStream.orderedWait(all, new Slow(), 1, TimeUnit.DAYS, CAPACITY).uid("ask");
    }

    private static DataStream<Integer> source(StreamExecutionEnvironment env, String name) {
        CountingSource source = new CountingSource(name, ENDLESS, 1_000_000, 10, Long.MIN_VALUE);
        return env.fromSource(source, WatermarkStrategy.noWatermarks(), name, TypeInformation.of(Integer.class))
                .uid(name);
    }

    /** Every twentieth is longer than a buffer, so that it lies in several. */
    static String text(int number) {
        return ("order-" + number + "-").repeat(number % 20 == 7 ? 500 : 1 + number % 4);
    }

    private static boolean isFull() throws InterruptedException {
        Thread.sleep(WAIT_MILLIS);
        return true;
    }

    /** Keeps the numbers of both inputs, and sends them on. */
    private static final class Match extends KeyedCoProcessFunction<Integer, Tuple2<Integer, String>, Long, String> {
        private static final long serialVersionUID = 1;

        @Override
        public void processElement1(Tuple2<Integer, String> order, Context context, Collector<String> out)
                throws Exception {
            state("orders").add((long) order.f0);
            out.collect("order " + order.f0);
        }

        @Override
        public void processElement2(Long payment, Context context, Collector<String> out) throws Exception {
            state("payments").add(payment);
            out.collect("payment " + payment);
        }

        private ListState<Long> state(String name) {
            return getRuntimeContext().getListState(new ListStateDescriptor<>(name, Types.LONG));
        }
    }

    private static final class LastOf extends ProcessWindowFunction<Integer, String, Integer, GlobalWindow> {
        private static final long serialVersionUID = 1;

        @Override
        public void process(Integer key, Context context, Iterable<Integer> numbers, Collector<String> out) {
            int last = -1;
            for (int number : numbers) {
                last = number;
            }
            out.collect("click " + last);
        }
    }

    private static final class Slow implements AsyncFunction<String, String> {
        private static final long serialVersionUID = 1;

        @Override
        public void asyncInvoke(String question, ResultFuture<String> answer) {
            Executor later = CompletableFuture.delayedExecutor(ANSWER_MILLIS, TimeUnit.MILLISECONDS);
            later.execute(() -> answer.complete(List.of(question)));
        }
    }
}
