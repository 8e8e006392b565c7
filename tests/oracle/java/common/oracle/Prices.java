package oracle;

import java.io.IOException;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.List;
import java.util.TreeMap;
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
import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.api.common.typeutils.TypeSerializerSchemaCompatibility;
import org.apache.flink.api.common.typeutils.TypeSerializerSnapshot;
import org.apache.flink.api.common.typeutils.base.LongSerializer;
import org.apache.flink.api.common.typeutils.base.StringSerializer;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.api.java.typeutils.runtime.TupleSerializer;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.core.memory.DataInputView;
import org.apache.flink.core.memory.DataOutputView;
import org.apache.flink.runtime.jobgraph.JobGraph;
import org.apache.flink.runtime.jobgraph.SavepointRestoreSettings;
import org.apache.flink.runtime.state.FunctionInitializationContext;
import org.apache.flink.runtime.state.FunctionSnapshotContext;
import org.apache.flink.streaming.api.checkpoint.CheckpointedFunction;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.util.Collector;

/**
 * A job with a TypeSerializer of its own, whose snapshot has a payload: keys, values, elements and map values are
 * {@link Money}. Starts from {@code --snapshot} where there is one, reads {@code --purchases} numbers, takes a
 * savepoint, and writes what its functions found in state as {@code OUT/found.json}.
 */
public final class Prices {
    private static final TypeSerializer<Money> MONEY = new MoneySerializer("CHF");
    private static final int CUSTOMERS = 3;

    private Prices() {}

    /** A sum of money. */
    public static final class Money implements Serializable {
        private final String currency;
        private final long cents;

        Money(String currency, long cents) {
            this.currency = currency;
            this.cents = cents;
        }

        @Override
        public boolean equals(Object other) {
            return other instanceof Money money && money.cents == cents && money.currency.equals(currency);
        }

        @Override
        public int hashCode() {
            return (int) (31 * cents);
        }

        @Override
        public String toString() {
            return String.format("%s %.2f", currency, cents / 100.0);
        }
    }

    /** Writes the cents; the currency is the serializer's. */
    public static final class MoneySerializer extends TypeSerializer<Money> {
        private final String currency;

        MoneySerializer(String currency) {
            this.currency = currency;
        }

        @Override
        public boolean isImmutableType() {
            return true;
        }

        @Override
        public TypeSerializer<Money> duplicate() {
            return this;
        }

        @Override
        public Money createInstance() {
            return new Money(currency, 0);
        }

        @Override
        public Money copy(Money from) {
            return from;
        }

        @Override
        public Money copy(Money from, Money reuse) {
            return from;
        }

        @Override
        public int getLength() {
            return 8;
        }

        @Override
        public void serialize(Money money, DataOutputView target) throws IOException {
            target.writeLong(money.cents);
        }

        @Override
        public Money deserialize(DataInputView source) throws IOException {
            return new Money(currency, source.readLong());
        }

        @Override
        public Money deserialize(Money reuse, DataInputView source) throws IOException {
            return deserialize(source);
        }

        @Override
        public void copy(DataInputView source, DataOutputView target) throws IOException {
            target.writeLong(source.readLong());
        }

        @Override
        public boolean equals(Object other) {
            return other instanceof MoneySerializer serializer && serializer.currency.equals(currency);
        }

        @Override
        public int hashCode() {
            return currency.hashCode();
        }

        @Override
        public TypeSerializerSnapshot<Money> snapshotConfiguration() {
            return new MoneySerializerSnapshot(currency);
        }
    }

    /** The currency; another one is refused. */
    public static final class MoneySerializerSnapshot implements TypeSerializerSnapshot<Money> {
        private String currency;

        public MoneySerializerSnapshot() {}

        MoneySerializerSnapshot(String currency) {
            this.currency = currency;
        }

        @Override
        public int getCurrentVersion() {
            return 2;
        }

        @Override
        public void writeSnapshot(DataOutputView out) throws IOException {
            out.writeUTF(currency);
        }

        @Override
        public void readSnapshot(int version, DataInputView in, ClassLoader loader) throws IOException {
            if (version != getCurrentVersion()) {
                throw new IOException("version " + version);
            }
            currency = in.readUTF();
        }

        @Override
        public TypeSerializer<Money> restoreSerializer() {
            return new MoneySerializer(currency);
        }

        /** Until 1.20. */
        public TypeSerializerSchemaCompatibility<Money> resolveSchemaCompatibility(TypeSerializer<Money> serializer) {
            return serializer.equals(restoreSerializer())
                    ? TypeSerializerSchemaCompatibility.compatibleAsIs()
                    : TypeSerializerSchemaCompatibility.incompatible();
        }

        /** From 1.19. */
        public TypeSerializerSchemaCompatibility<Money> resolveSchemaCompatibility(TypeSerializerSnapshot<Money> old) {
            return old.restoreSerializer().equals(restoreSerializer())
                    ? TypeSerializerSchemaCompatibility.compatibleAsIs()
                    : TypeSerializerSchemaCompatibility.incompatible();
        }
    }

    /** The type of keys; releases differ in how they ask for its serializer. */
    abstract static class MoneyInfo extends TypeInformation<Money> {
        @Override
        public boolean isBasicType() {
            return false;
        }

        @Override
        public boolean isTupleType() {
            return false;
        }

        @Override
        public int getArity() {
            return 1;
        }

        @Override
        public int getTotalFields() {
            return 1;
        }

        @Override
        public Class<Money> getTypeClass() {
            return Money.class;
        }

        @Override
        public boolean isKeyType() {
            return true;
        }

        TypeSerializer<Money> serializer() {
            return MONEY;
        }

        @Override
        public String toString() {
            return "Money";
        }

        @Override
        public boolean equals(Object other) {
            return other instanceof MoneyInfo;
        }

        @Override
        public int hashCode() {
            return 1;
        }

        @Override
        public boolean canEqual(Object other) {
            return other instanceof MoneyInfo;
        }
    }

    public static void main(String[] arguments) throws Exception {
        Options options = Options.parse(arguments);
        Configuration configuration = options.configuration();
        StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment(configuration);
        env.setParallelism(options.number("parallelism"));
        env.setMaxParallelism(128);
        DataStream<Integer> numbers = env.fromSource(
                        new CountingSource("numbers", options.number("purchases")),
                        WatermarkStrategy.noWatermarks(), "numbers", Types.INT)
                .setParallelism(1)
                .uid("numbers");
        numbers.keyBy(number -> (long) number % CUSTOMERS, Types.LONG).process(new Keeping()).uid("keyed");
        numbers.keyBy(number -> money(number % CUSTOMERS * 50), Compat.money()).process(new Counting()).uid("by-money");
        numbers.map(new Listing()).uid("listed");
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

    private static Money money(long cents) {
        return new Money("CHF", cents);
    }

    /** Says what a key has, and adds a sum to all of it. */
    private static final class Keeping extends KeyedProcessFunction<Long, Integer, Void> {
        @Override
        public void processElement(Integer number, Context context, Collector<Void> out) throws Exception {
            ValueState<Money> last = getRuntimeContext().getState(new ValueStateDescriptor<>("last", MONEY));
            ListState<Money> every = getRuntimeContext().getListState(new ListStateDescriptor<>("every", MONEY));
            MapState<String, Money> named = getRuntimeContext()
                    .getMapState(new MapStateDescriptor<>("named", StringSerializer.INSTANCE, MONEY));
            ValueState<Tuple2<Money, Long>> pair =
                    getRuntimeContext().getState(new ValueStateDescriptor<>("pair", pairs()));
            List<String> sums = new ArrayList<>();
            every.get().forEach(money -> sums.add(money.toString()));
            TreeMap<String, String> names = new TreeMap<>();
            named.entries().forEach(entry -> names.put(entry.getKey(), entry.getValue().toString()));
            Tuple2<Money, Long> two = pair.value();
            Found.add("keyed", "found", List.of(List.of(
                    context.getCurrentKey(), String.valueOf(last.value()), sums, names.toString(),
                    two == null ? "null" : two.f0 + ", " + two.f1)));
            Money next = money(1_000 + number);
            last.update(next);
            every.add(next);
            named.put("flink", next);
            pair.update(Tuple2.of(next, (long) number));
        }

        @SuppressWarnings({"unchecked", "rawtypes"})
        private static TypeSerializer<Tuple2<Money, Long>> pairs() {
            return new TupleSerializer(
                    Tuple2.class, new TypeSerializer<?>[] {MONEY, LongSerializer.INSTANCE});
        }
    }

    /** Counts the records of each sum. */
    private static final class Counting extends KeyedProcessFunction<Money, Integer, Void> {
        @Override
        public void processElement(Integer number, Context context, Collector<Void> out) throws Exception {
            ValueState<Long> count = getRuntimeContext().getState(new ValueStateDescriptor<>("count", Types.LONG));
            long before = count.value() == null ? 0 : count.value();
            Found.add("by-money", "found", List.of(List.of(context.getCurrentKey().toString(), before)));
            count.update(before + 1);
        }
    }

    /** Says which sums are listed, and lists one more. */
    private static final class Listing extends RichMapFunction<Integer, Integer> implements CheckpointedFunction {
        private transient ListState<Money> listed;

        @Override
        public Integer map(Integer number) throws Exception {
            listed.add(money(2_000 + number));
            return number;
        }

        @Override
        public void initializeState(FunctionInitializationContext context) throws Exception {
            listed = context.getOperatorStateStore().getListState(new ListStateDescriptor<>("list", MONEY));
            for (Money money : listed.get()) {
                Found.add("listed", "found", List.of(money.toString()));
            }
        }

        @Override
        public void snapshotState(FunctionSnapshotContext context) {}
    }
}
