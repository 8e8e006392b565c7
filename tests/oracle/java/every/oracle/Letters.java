package oracle;

import java.io.IOException;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.flink.api.common.functions.RichMapFunction;
import org.apache.flink.api.common.state.BroadcastState;
import org.apache.flink.api.common.state.ListState;
import org.apache.flink.api.common.state.ListStateDescriptor;
import org.apache.flink.api.common.state.MapStateDescriptor;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.common.typeutils.SimpleTypeSerializerSnapshot;
import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.api.common.typeutils.TypeSerializerSnapshot;
import org.apache.flink.api.common.typeutils.base.LongSerializer;
import org.apache.flink.api.common.typeutils.base.TypeSerializerSingleton;
import org.apache.flink.api.java.functions.KeySelector;
import org.apache.flink.api.java.tuple.Tuple1;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.core.memory.DataInputView;
import org.apache.flink.core.memory.DataOutputView;
import org.apache.flink.runtime.state.FunctionInitializationContext;
import org.apache.flink.runtime.state.FunctionSnapshotContext;
import org.apache.flink.streaming.api.checkpoint.CheckpointedFunction;
import org.apache.flink.streaming.api.datastream.BroadcastStream;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.datastream.KeyedStream;
import org.apache.flink.streaming.api.datastream.SingleOutputStreamOperator;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.streaming.api.functions.co.BroadcastProcessFunction;
import org.apache.flink.streaming.api.functions.co.KeyedBroadcastProcessFunction;
import org.apache.flink.streaming.api.functions.windowing.ProcessWindowFunction;
import org.apache.flink.streaming.api.operators.AbstractStreamOperator;
import org.apache.flink.streaming.api.operators.InternalTimer;
import org.apache.flink.streaming.api.operators.InternalTimerService;
import org.apache.flink.streaming.api.operators.OneInputStreamOperator;
import org.apache.flink.streaming.api.operators.Triggerable;
import org.apache.flink.streaming.api.windowing.assigners.GlobalWindows;
import org.apache.flink.streaming.api.windowing.triggers.Trigger;
import org.apache.flink.streaming.api.windowing.triggers.TriggerResult;
import org.apache.flink.streaming.api.windowing.windows.GlobalWindow;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;
import org.apache.flink.util.Collector;

/** Jobs over letters {@code (number of its receiver, text)}, with every kind of state that jobs have had since Flink 1.10. */
final class Letters {
    static final int COUNT = 20;
    static final int RECEIVERS = 10;
    /** Timers wait for them. */
    static final long LATER = 4_102_444_800_000L;
    /** Sources of this JVM that have not sent all yet. The cluster runs in the same JVM. */
    private static final AtomicInteger BUSY = new AtomicInteger();

    private static final String[] NOTES = {"first note", "second n\u00f6te", "third \u6f22\u5b57", ""};
    static final MapStateDescriptor<Long, Long> NUMBERS = new MapStateDescriptor<>("numbers", Types.LONG, Types.LONG);
    static final MapStateDescriptor<String, Long> NAMES = new MapStateDescriptor<>("names", Types.STRING, Types.LONG);
    static final MapStateDescriptor<Long, String> TITLES = new MapStateDescriptor<>("titles", Types.LONG, Types.STRING);

    private Letters() {}

    static boolean allSent() {
        return BUSY.get() == 0;
    }

    static void build(StreamExecutionEnvironment env, String job) throws Exception {
        switch (job) {
            case "udf":
                functionsAndOperators(env);
                break;
            case "broadcast":
                broadcast(env);
                break;
            case "custom":
                custom(env);
                break;
            case "by-position-keyed":
                byPosition(env, true);
                break;
            case "by-position":
                byPosition(env, false);
                break;
            default:
                throw new IllegalArgumentException(job);
        }
    }

    private static DataStream<Tuple2<Long, String>> letters(StreamExecutionEnvironment env, String uid) {
        BUSY.incrementAndGet();
        SingleOutputStreamOperator<Long> numbers = LettersSource.add(env, uid == null ? "letters" : uid);
        SingleOutputStreamOperator<Tuple2<Long, String>> letters = numbers.setParallelism(1)
                .map(n -> Tuple2.of(n % RECEIVERS, "letter " + n))
                .returns(Types.TUPLE(Types.LONG, Types.STRING))
                .setParallelism(1);
        if (uid != null) {
            numbers.uid(uid);
            letters.uid(uid + "-letters");
        }
        return letters;
    }

    /** Keyed by the number itself. */
    private static KeyedStream<Tuple2<Long, String>, Long> keyed(DataStream<Tuple2<Long, String>> letters) {
        return letters.keyBy(new Receiver(), Types.LONG);
    }

    private static final class Receiver implements KeySelector<Tuple2<Long, String>, Long> {
        private static final long serialVersionUID = 1;

        @Override
        public Long getKey(Tuple2<Long, String> letter) {
            return letter.f0;
        }
    }

    /** Keyed by a field of a tuple, as a tuple. */
    private static final class ReceiverTuple implements KeySelector<Tuple2<Long, String>, Tuple1<Long>> {
        private static final long serialVersionUID = 1;

        @Override
        public Tuple1<Long> getKey(Tuple2<Long, String> letter) {
            return Tuple1.of(letter.f0);
        }
    }

    private static void functionsAndOperators(StreamExecutionEnvironment env) {
        DataStream<Tuple2<Long, String>> letters = letters(env, "source");
        letters.keyBy(new ReceiverTuple(), Types.TUPLE(Types.LONG))
                .process(new CountPerKey<>())
                .returns(Types.STRING)
                .uid("function");
        letters.keyBy(new ReceiverTuple(), Types.TUPLE(Types.LONG))
                .transform("operator", Types.STRING, new TimersOperator())
                .uid("operator");
        keyed(letters).process(new CountPerKey<>()).returns(Types.STRING).uid("by-long");
        letters.map(new Notes("notes")).returns(Types.STRING).uid("notes").setParallelism(1);
    }

    /** The number of letters of each key, the last one, and timers on both clocks. */
    private static final class CountPerKey<K> extends KeyedProcessFunction<K, Tuple2<Long, String>, String> {
        private static final long serialVersionUID = 1;

        @Override
        public void processElement(Tuple2<Long, String> letter, Context context, Collector<String> out) throws Exception {
            ValueState<Long> count = getRuntimeContext().getState(new ValueStateDescriptor<>("count", Types.LONG));
            ValueState<String> last = getRuntimeContext().getState(new ValueStateDescriptor<>("last", Types.STRING));
            Long before = count.value();
            count.update(before == null ? 1 : before + 1);
            last.update(letter.f1);
            context.timerService().registerEventTimeTimer(LATER + letter.f0);
            context.timerService().registerProcessingTimeTimer(LATER - letter.f0);
        }
    }

    /** Without a user function; timers have a namespace of numbers. */
    private static final class TimersOperator extends AbstractStreamOperator<String>
            implements OneInputStreamOperator<Tuple2<Long, String>, String>, Triggerable<Object, Long> {
        private static final long serialVersionUID = 1;
        private transient InternalTimerService<Long> timers;

        @Override
        public void open() throws Exception {
            super.open();
            timers = getInternalTimerService("waiting", LongSerializer.INSTANCE, this);
        }

        @Override
        public void processElement(StreamRecord<Tuple2<Long, String>> letter) throws Exception {
            Long number = letter.getValue().f0;
            ValueState<Long> kept = getPartitionedState(
                    number, LongSerializer.INSTANCE, new ValueStateDescriptor<>("kept", LongSerializer.INSTANCE));
            kept.update(number * 100);
            timers.registerEventTimeTimer(number, LATER + number);
            timers.registerProcessingTimeTimer(number, LATER - number);
        }

        @Override
        public void onEventTime(InternalTimer<Object, Long> timer) {}

        @Override
        public void onProcessingTime(InternalTimer<Object, Long> timer) {}
    }

    /** Keeps four notes in operator state, as strings or, as jobs once did, as Java objects. */
    private static final class Notes extends RichMapFunction<Tuple2<Long, String>, String> implements CheckpointedFunction {
        private static final long serialVersionUID = 1;
        private final String state;

        Notes(String state) {
            this.state = state;
        }

        @Override
        public String map(Tuple2<Long, String> letter) {
            return letter.f1;
        }

        @Override
        public void snapshotState(FunctionSnapshotContext context) {}

        @Override
        public void initializeState(FunctionInitializationContext context) throws Exception {
            ListState<String> notes = context.getOperatorStateStore().getListState(state.equals("notes")
                    ? new ListStateDescriptor<>(state, Types.STRING)
                    : new ListStateDescriptor<>("_default_", Letters.<String>javaSerializer()));
            notes.clear();
            for (String note : NOTES) {
                notes.add(state.equals("notes") ? note : state + " " + note);
            }
        }
    }

    private static <T> TypeSerializer<T> javaSerializer() throws ReflectiveOperationException {
        return Reflected.make("org.apache.flink.runtime.state.JavaSerializer");
    }

    private static void broadcast(StreamExecutionEnvironment env) {
        DataStream<Tuple2<Long, String>> letters = letters(env, "source");
        DataStream<Tuple2<Long, String>> rules = letters(env, "rules");
        BroadcastStream<Tuple2<Long, String>> two = rules.broadcast(NUMBERS, NAMES);
        keyed(letters).connect(two).process(new TwoStates()).returns(Types.STRING).uid("two");
        letters.connect(rules.broadcast(TITLES)).process(new OneState()).returns(Types.STRING).uid("one");
    }

    private static final class TwoStates
            extends KeyedBroadcastProcessFunction<Long, Tuple2<Long, String>, Tuple2<Long, String>, String> {
        private static final long serialVersionUID = 1;

        @Override
        public void processElement(Tuple2<Long, String> letter, ReadOnlyContext context, Collector<String> out) throws Exception {
            getRuntimeContext().getState(new ValueStateDescriptor<>("last", Types.STRING)).update(letter.f1);
        }

        @Override
        public void processBroadcastElement(Tuple2<Long, String> rule, Context context, Collector<String> out) throws Exception {
            BroadcastState<Long, Long> numbers = context.getBroadcastState(NUMBERS);
            numbers.put(rule.f0, -rule.f0);
            context.getBroadcastState(NAMES).put("rule " + rule.f0, rule.f0);
        }
    }

    private static final class OneState extends BroadcastProcessFunction<Tuple2<Long, String>, Tuple2<Long, String>, String> {
        private static final long serialVersionUID = 1;

        @Override
        public void processElement(Tuple2<Long, String> letter, ReadOnlyContext context, Collector<String> out) {}

        @Override
        public void processBroadcastElement(Tuple2<Long, String> rule, Context context, Collector<String> out) throws Exception {
            context.getBroadcastState(TITLES).put(rule.f0, "title " + rule.f0);
        }
    }

    private static void custom(StreamExecutionEnvironment env) {
        keyed(letters(env, "source")).process(new Weighing()).returns(Types.STRING).uid("weights");
    }

    private static final class Weighing extends KeyedProcessFunction<Long, Tuple2<Long, String>, String> {
        private static final long serialVersionUID = 1;

        @Override
        public void processElement(Tuple2<Long, String> letter, Context context, Collector<String> out) throws Exception {
            getRuntimeContext().getState(new ValueStateDescriptor<>("weight", new Grams())).update(letter.f0 * 1_000);
        }
    }

    /** A serializer of the job's own: nothing but its class says how it writes. */
    public static final class Grams extends TypeSerializerSingleton<Long> {
        private static final long serialVersionUID = 1;

        @Override
        public boolean isImmutableType() {
            return true;
        }

        @Override
        public Long createInstance() {
            return 0L;
        }

        @Override
        public Long copy(Long from) {
            return from;
        }

        @Override
        public Long copy(Long from, Long reuse) {
            return from;
        }

        @Override
        public int getLength() {
            return 8;
        }

        @Override
        public void serialize(Long value, DataOutputView out) throws IOException {
            out.writeLong(value);
        }

        @Override
        public Long deserialize(DataInputView in) throws IOException {
            return in.readLong();
        }

        @Override
        public Long deserialize(Long reuse, DataInputView in) throws IOException {
            return in.readLong();
        }

        @Override
        public void copy(DataInputView in, DataOutputView out) throws IOException {
            out.writeLong(in.readLong());
        }

        @Override
        public TypeSerializerSnapshot<Long> snapshotConfiguration() {
            return new GramsSnapshot();
        }
    }

    public static final class GramsSnapshot extends SimpleTypeSerializerSnapshot<Long> {
        public GramsSnapshot() {
            super(Grams::new);
        }
    }

    /** Operators that are found by where they stand in the job, because they have no uid; chained, or behind a key. */
    private static void byPosition(StreamExecutionEnvironment env, boolean keyed) {
        DataStream<Tuple2<Long, String>> letters = letters(env, null);
        if (!keyed) {
            letters.map(new Notes("one")).returns(Types.STRING)
                    .map(text -> Tuple2.of(0L, text)).returns(Types.TUPLE(Types.LONG, Types.STRING))
                    .map(new Notes("two")).returns(Types.STRING);
            return;
        }
        keyed(letters)
                .window(GlobalWindows.create())
                .trigger(new Never())
                .process(new Nothing())
                .returns(Types.TUPLE(Types.LONG, Types.STRING))
                .map(new Notes("behind a window")).returns(Types.STRING);
    }

    private static final class Never
            extends Trigger<Object, GlobalWindow> {
        private static final long serialVersionUID = 1;

        @Override
        public TriggerResult onElement(
                Object element, long timestamp, GlobalWindow window, TriggerContext context) throws Exception {
            ValueStateDescriptor<Long> count = new ValueStateDescriptor<>("count", Types.LONG);
            Long before = context.getPartitionedState(count).value();
            context.getPartitionedState(count).update(before == null ? 1 : before + 1);
            return TriggerResult.CONTINUE;
        }

        @Override
        public TriggerResult onProcessingTime(
                long time, GlobalWindow window, TriggerContext context) {
            return TriggerResult.CONTINUE;
        }

        @Override
        public TriggerResult onEventTime(
                long time, GlobalWindow window, TriggerContext context) {
            return TriggerResult.CONTINUE;
        }

        @Override
        public void clear(GlobalWindow window, TriggerContext context) {}
    }

    private static final class Nothing
            extends ProcessWindowFunction<Tuple2<Long, String>, Tuple2<Long, String>, Long, GlobalWindow> {
        private static final long serialVersionUID = 1;

        @Override
        public void process(
                Long key, Context context, Iterable<Tuple2<Long, String>> letters, Collector<Tuple2<Long, String>> out) {}
    }

    /** What a source does: sends its numbers, keeps how far it is and some notes, and waits to be stopped. */
    abstract static class Sending implements CheckpointedFunction {
        private volatile boolean runs = true;
        private long next;
        private ListState<Long> position;

        abstract void send(long number);

        void run(Object lock) throws InterruptedException {
            while (runs && next < COUNT) {
                synchronized (lock) {
                    send(next);
                    next++;
                }
            }
            BUSY.decrementAndGet();
            while (runs) {
                Thread.sleep(20);
            }
        }

        void stop() {
            runs = false;
        }

        @Override
        public void snapshotState(FunctionSnapshotContext context) throws Exception {
            position.clear();
            position.add(next);
        }

        @Override
        public void initializeState(FunctionInitializationContext context) throws Exception {
            position = context.getOperatorStateStore().getListState(new ListStateDescriptor<>("position", Types.LONG));
            ListState<String> notes =
                    context.getOperatorStateStore().getUnionListState(new ListStateDescriptor<>("notes", Types.STRING));
            for (String note : NOTES) {
                notes.add(note);
            }
        }
    }
}
