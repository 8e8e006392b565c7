package oracle;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.ObjectOutputStream;
import java.util.Random;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.RichMapFunction;
import org.apache.flink.api.common.state.BroadcastState;
import org.apache.flink.api.common.state.ListState;
import org.apache.flink.api.common.state.ListStateDescriptor;
import org.apache.flink.api.common.state.MapState;
import org.apache.flink.api.common.state.MapStateDescriptor;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.api.common.typeutils.TypeSerializerSchemaCompatibility;
import org.apache.flink.api.common.typeutils.TypeSerializerSnapshot;
import org.apache.flink.api.common.typeutils.base.LongSerializer;
import org.apache.flink.api.common.typeutils.base.StringSerializer;
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
 * A job with serializers of its own, whose snapshots have no end that can be read: 600 bytes, 100 KB with snapshots of
 * Flink's inside, the form of the old interface (a Java object and a version), and a length with a Java object.
 * Starts from {@code --snapshot} where there is one, reads {@code --purchases} numbers, takes a snapshot, and writes
 * what its functions found in state as {@code OUT/found.json}.
 */
public final class Foreign {
    private static final long CUSTOMERS = 40;
    private static final int ADAPTER = 0x7A53C4F0;

    private Foreign() {}

    /** What a snapshot writes. */
    enum Form {
        BYTES,
        LARGE,
        ADAPTER,
        LENGTH
    }

    /** Texts, as {@code writeUTF} writes them. */
    public static final class TextSerializer extends TypeSerializer<String> {
        private final Form form;

        TextSerializer(Form form) {
            this.form = form;
        }

        @Override
        public boolean isImmutableType() {
            return true;
        }

        @Override
        public TypeSerializer<String> duplicate() {
            return this;
        }

        @Override
        public String createInstance() {
            return "";
        }

        @Override
        public String copy(String from) {
            return from;
        }

        @Override
        public String copy(String from, String reuse) {
            return from;
        }

        @Override
        public int getLength() {
            return -1;
        }

        @Override
        public void serialize(String text, DataOutputView target) throws IOException {
            target.writeUTF(text);
        }

        @Override
        public String deserialize(DataInputView source) throws IOException {
            return source.readUTF();
        }

        @Override
        public String deserialize(String reuse, DataInputView source) throws IOException {
            return source.readUTF();
        }

        @Override
        public void copy(DataInputView source, DataOutputView target) throws IOException {
            target.writeUTF(source.readUTF());
        }

        @Override
        public boolean equals(Object other) {
            return other instanceof TextSerializer serializer && serializer.form == form;
        }

        @Override
        public int hashCode() {
            return form.name().hashCode();
        }

        @Override
        public TypeSerializerSnapshot<String> snapshotConfiguration() {
            return switch (form) {
                case BYTES -> new BytesSnapshot();
                case LARGE -> new LargeSnapshot();
                case ADAPTER -> new AdapterSnapshot();
                case LENGTH -> new LengthSnapshot();
            };
        }
    }

    /** Writes a payload of its own, and refuses every other. */
    abstract static class TextSnapshot implements TypeSerializerSnapshot<String> {
        private final Form form;
        private final int version;

        TextSnapshot(Form form, int version) {
            this.form = form;
            this.version = version;
        }

        abstract byte[] payload() throws IOException;

        @Override
        public int getCurrentVersion() {
            return version;
        }

        @Override
        public void writeSnapshot(DataOutputView out) throws IOException {
            out.write(payload());
        }

        @Override
        public void readSnapshot(int readVersion, DataInputView in, ClassLoader loader) throws IOException {
            byte[] expected = payload();
            byte[] found = new byte[expected.length];
            in.readFully(found);
            if (readVersion != version || !java.util.Arrays.equals(expected, found)) {
                throw new IOException("not the snapshot that was written");
            }
        }

        @Override
        public TypeSerializer<String> restoreSerializer() {
            return new TextSerializer(form);
        }

        /** Until 1.20. */
        public TypeSerializerSchemaCompatibility<String> resolveSchemaCompatibility(TypeSerializer<String> serializer) {
            return TypeSerializerSchemaCompatibility.compatibleAsIs();
        }

        /** From 1.19. */
        public TypeSerializerSchemaCompatibility<String> resolveSchemaCompatibility(
                TypeSerializerSnapshot<String> old) {
            return TypeSerializerSchemaCompatibility.compatibleAsIs();
        }
    }

    public static final class BytesSnapshot extends TextSnapshot {
        public BytesSnapshot() {
            super(Form.BYTES, 1);
        }

        @Override
        byte[] payload() {
            byte[] bytes = new byte[600];
            new Random(7).nextBytes(bytes);
            return bytes;
        }
    }

    public static final class LargeSnapshot extends TextSnapshot {
        public LargeSnapshot() {
            super(Form.LARGE, 3);
        }

        @Override
        byte[] payload() throws IOException {
            org.apache.flink.core.memory.DataOutputSerializer out =
                    new org.apache.flink.core.memory.DataOutputSerializer(1 << 17);
            while (out.length() < 100_000) {
                out.writeUTF("field" + out.length());
                TypeSerializerSnapshot.writeVersionedSnapshot(out, LongSerializer.INSTANCE.snapshotConfiguration());
                out.writeInt(-1);
            }
            return out.getCopyOfBuffer();
        }
    }

    public static final class AdapterSnapshot extends TextSnapshot {
        public AdapterSnapshot() {
            super(Form.ADAPTER, ADAPTER);
        }

        @Override
        byte[] payload() throws IOException {
            org.apache.flink.core.memory.DataOutputSerializer out =
                    new org.apache.flink.core.memory.DataOutputSerializer(1 << 10);
            out.writeInt(1);
            out.writeInt(javaObject().length);
            out.write(javaObject());
            out.writeInt(1);
            return out.getCopyOfBuffer();
        }
    }

    public static final class LengthSnapshot extends TextSnapshot {
        public LengthSnapshot() {
            super(Form.LENGTH, 2);
        }

        @Override
        byte[] payload() throws IOException {
            org.apache.flink.core.memory.DataOutputSerializer out =
                    new org.apache.flink.core.memory.DataOutputSerializer(1 << 10);
            out.writeInt(javaObject().length);
            out.write(javaObject());
            return out.getCopyOfBuffer();
        }
    }

    private static byte[] javaObject() throws IOException {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        try (ObjectOutputStream out = new ObjectOutputStream(bytes)) {
            out.writeObject(new java.util.ArrayList<>(java.util.List.of("a", "b", 3L)));
        }
        return bytes.toByteArray();
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
        numbers.keyBy(number -> number % CUSTOMERS, Types.LONG).process(new Keeping()).uid("keyed");
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

    /** Says what a key has, and counts. */
    private static final class Keeping extends KeyedProcessFunction<Long, Integer, Void> {
        @Override
        public void processElement(Integer number, Context context, Collector<Void> out) throws Exception {
            ValueState<Long> count = getRuntimeContext().getState(new ValueStateDescriptor<>("count", Types.LONG));
            ValueState<String> text = getRuntimeContext()
                    .getState(new ValueStateDescriptor<>("bytes", new TextSerializer(Form.BYTES)));
            ListState<String> list = getRuntimeContext()
                    .getListState(new ListStateDescriptor<>("large", new TextSerializer(Form.LARGE)));
            MapState<String, String> map = getRuntimeContext().getMapState(new MapStateDescriptor<>(
                    "adapter", StringSerializer.INSTANCE, new TextSerializer(Form.ADAPTER)));
            ValueState<String> length = getRuntimeContext()
                    .getState(new ValueStateDescriptor<>("length", new TextSerializer(Form.LENGTH)));
            ValueState<Long> total = getRuntimeContext().getState(new ValueStateDescriptor<>("total", Types.LONG));
            Long before = count.value();
            if (before == null || before == 0) {
                Found.add("keyed", "first", java.util.List.of(java.util.List.of(
                        context.getCurrentKey(), String.valueOf(text.value()), list.get().toString(),
                        String.valueOf(map.get("k")), String.valueOf(length.value()),
                        String.valueOf(total.value()))));
            }
            count.update((before == null ? 0 : before) + 1);
            total.update((total.value() == null ? 0 : total.value()) + number);
            text.update("bytes " + number);
            list.add("large " + number);
            map.put("k", "adapter " + number);
            length.update("length " + number);
        }
    }

    /** Lists numbers of each form. */
    private static final class Listing extends RichMapFunction<Integer, Integer> implements CheckpointedFunction {
        private transient ListState<String> bytes;
        private transient ListState<String> adapter;
        private transient ListState<Long> longs;
        private transient BroadcastState<String, String> large;

        @Override
        public Integer map(Integer number) throws Exception {
            bytes.add("bytes " + number);
            adapter.add("adapter " + number);
            longs.add((long) number);
            large.put("k", "large");
            return number;
        }

        @Override
        public void initializeState(FunctionInitializationContext context) throws Exception {
            bytes = context.getOperatorStateStore()
                    .getListState(new ListStateDescriptor<>("bytes", new TextSerializer(Form.BYTES)));
            adapter = context.getOperatorStateStore()
                    .getListState(new ListStateDescriptor<>("adapter", new TextSerializer(Form.ADAPTER)));
            longs = context.getOperatorStateStore().getListState(new ListStateDescriptor<>("longs", Types.LONG));
            large = context.getOperatorStateStore().getBroadcastState(new MapStateDescriptor<>(
                    "large", StringSerializer.INSTANCE, new TextSerializer(Form.LARGE)));
            for (String text : bytes.get()) {
                Found.add("listed", "bytes", java.util.List.of(text));
            }
            for (String text : adapter.get()) {
                Found.add("listed", "adapter", java.util.List.of(text));
            }
            for (Long number : longs.get()) {
                Found.add("listed", "longs", java.util.List.of(number));
            }
        }

        @Override
        public void snapshotState(FunctionSnapshotContext context) {}
    }
}
