package oracle;

import java.math.BigDecimal;
import java.nio.ByteBuffer;
import java.time.LocalDateTime;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.flink.api.common.functions.MapFunction;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.connector.source.Boundedness;
import org.apache.flink.api.connector.source.ReaderOutput;
import org.apache.flink.api.connector.source.Source;
import org.apache.flink.api.connector.source.SourceReader;
import org.apache.flink.api.connector.source.SourceReaderContext;
import org.apache.flink.api.connector.source.SourceSplit;
import org.apache.flink.api.connector.source.SplitEnumerator;
import org.apache.flink.api.connector.source.SplitEnumeratorContext;
import org.apache.flink.configuration.ConfigOption;
import org.apache.flink.configuration.ConfigOptions;
import org.apache.flink.core.io.InputStatus;
import org.apache.flink.core.io.SimpleVersionedSerializer;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.datastream.DataStreamSink;
import org.apache.flink.streaming.api.datastream.SingleOutputStreamOperator;
import org.apache.flink.table.connector.ChangelogMode;
import org.apache.flink.table.connector.ProviderContext;
import org.apache.flink.table.connector.RuntimeConverter;
import org.apache.flink.table.connector.sink.DataStreamSinkProvider;
import org.apache.flink.table.connector.sink.DynamicTableSink;
import org.apache.flink.table.connector.source.DynamicTableSource;
import org.apache.flink.table.connector.source.LookupTableSource;
import org.apache.flink.table.connector.source.ScanTableSource;
import org.apache.flink.table.connector.source.SourceProvider;
import org.apache.flink.table.connector.source.lookup.AsyncLookupFunctionProvider;
import org.apache.flink.table.connector.source.lookup.LookupFunctionProvider;
import org.apache.flink.table.data.DecimalData;
import org.apache.flink.table.data.GenericRowData;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.data.StringData;
import org.apache.flink.table.data.TimestampData;
import org.apache.flink.table.factories.DynamicTableSinkFactory;
import org.apache.flink.table.factories.DynamicTableSourceFactory;
import org.apache.flink.table.functions.AsyncLookupFunction;
import org.apache.flink.table.functions.LookupFunction;
import org.apache.flink.table.types.DataType;
import org.apache.flink.table.types.logical.DecimalType;
import org.apache.flink.table.types.logical.LogicalType;
import org.apache.flink.table.types.logical.RowType;
import org.apache.flink.types.RowKind;

/**
 * Connector {@code replay}: its source plays the changes of a script that are of its table, and its sink keeps what
 * comes. The script is a list of {@code [table, kind, row]}; the place of a change in it is its number. A change is
 * played once {@link #released} is beyond its number, so that inputs of several tables come in the order of the script.
 */
public final class Replay implements DynamicTableSourceFactory, DynamicTableSinkFactory {
    /** What comes out of a table, and what a sink takes: {@code insert}, {@code upsert}, {@code retract}. */
    private static final ConfigOption<String> CHANGES =
            ConfigOptions.key("changes").stringType().defaultValue("insert");

    /** How rows are looked up, {@code sync} or {@code async}; the table is no source then. */
    private static final ConfigOption<String> LOOKUP =
            ConfigOptions.key("lookup").stringType().noDefaultValue();

    /** Whether the sink has a committer, which has state. */
    private static final ConfigOption<Boolean> COMMITS =
            ConfigOptions.key("commits").booleanType().defaultValue(false);

    /** The local cluster runs in the same JVM. */
    private static volatile JsonNode script;

    private static final AtomicInteger RELEASED = new AtomicInteger();
    /** The first number that a source has not played yet, by table and subtask. */
    private static final ConcurrentHashMap<String, Integer> PLAYED = new ConcurrentHashMap<>();

    private static final List<List<String>> ARRIVED = Collections.synchronizedList(new ArrayList<>());

    static void begin(JsonNode changes, int from) {
        script = changes;
        RELEASED.set(from);
        PLAYED.clear();
        ARRIVED.clear();
    }

    static void release(int number) {
        RELEASED.set(number);
    }

    static boolean hasReaders() {
        return !PLAYED.isEmpty();
    }

    static boolean isPlayed(int number) {
        return PLAYED.values().stream().allMatch(next -> next >= number);
    }

    static List<List<String>> arrived() {
        synchronized (ARRIVED) {
            return List.copyOf(ARRIVED);
        }
    }

    @Override
    public String factoryIdentifier() {
        return "replay";
    }

    @Override
    public Set<ConfigOption<?>> requiredOptions() {
        return Set.of();
    }

    @Override
    public Set<ConfigOption<?>> optionalOptions() {
        return Set.of(CHANGES, LOOKUP, COMMITS);
    }

    private static String changes(Context context) {
        return context.getCatalogTable().getOptions().getOrDefault(CHANGES.key(), CHANGES.defaultValue());
    }

    private static ChangelogMode mode(String changes) {
        ChangelogMode.Builder kinds = ChangelogMode.newBuilder().addContainedKind(RowKind.INSERT);
        if (!changes.equals("insert")) {
            kinds.addContainedKind(RowKind.UPDATE_AFTER).addContainedKind(RowKind.DELETE);
        }
        if (changes.equals("retract")) {
            kinds.addContainedKind(RowKind.UPDATE_BEFORE);
        }
        return kinds.build();
    }

    @Override
    public DynamicTableSource createDynamicTableSource(Context context) {
        String table = context.getObjectIdentifier().getObjectName();
        String lookup = context.getCatalogTable().getOptions().get(LOOKUP.key());
        if (lookup != null) {
            return new Looked(
                    table, (RowType) context.getPhysicalRowDataType().getLogicalType(), lookup.equals("async"));
        }
        return new Played(table, (RowType) context.getPhysicalRowDataType().getLogicalType(), changes(context));
    }

    @Override
    public DynamicTableSink createDynamicTableSink(Context context) {
        String table = context.getObjectIdentifier().getObjectName();
        boolean commits =
                Boolean.parseBoolean(context.getCatalogTable().getOptions().get(COMMITS.key()));
        return new Kept(table, context.getPhysicalRowDataType(), changes(context), commits);
    }

    private record Played(String table, RowType rows, String changes) implements ScanTableSource {
        @Override
        public ChangelogMode getChangelogMode() {
            return mode(changes);
        }

        @Override
        public ScanRuntimeProvider getScanRuntimeProvider(ScanContext context) {
            return SourceProvider.of(new Player(table, rows));
        }

        @Override
        public DynamicTableSource copy() {
            return this;
        }

        @Override
        public String asSummaryString() {
            return table;
        }
    }

    /** All rows of a table, whichever are played. */
    private record Looked(String table, RowType rows, boolean async) implements LookupTableSource {
        @Override
        public LookupRuntimeProvider getLookupRuntimeProvider(LookupContext context) {
            int key = context.getKeys()[0][0];
            return async
                    ? AsyncLookupFunctionProvider.of(new AskedLater(table, rows, key))
                    : LookupFunctionProvider.of(new AskedNow(table, rows, key));
        }

        @Override
        public DynamicTableSource copy() {
            return this;
        }

        @Override
        public String asSummaryString() {
            return table;
        }
    }

    /** Finds rows at once. */
    public static final class AskedNow extends LookupFunction {
        private final String table;
        private final RowType rows;
        private final int key;

        AskedNow(String table, RowType rows, int key) {
            this.table = table;
            this.rows = rows;
            this.key = key;
        }

        @Override
        public Collection<RowData> lookup(RowData wanted) {
            return found(table, rows, key, wanted);
        }
    }

    /** Finds rows without being waited for. */
    public static final class AskedLater extends AsyncLookupFunction {
        private final String table;
        private final RowType rows;
        private final int key;

        AskedLater(String table, RowType rows, int key) {
            this.table = table;
            this.rows = rows;
            this.key = key;
        }

        @Override
        public CompletableFuture<Collection<RowData>> asyncLookup(RowData wanted) {
            return CompletableFuture.completedFuture(found(table, rows, key, wanted));
        }
    }

    /** Rows of a table by a column of texts. */
    private static Collection<RowData> found(String table, RowType rows, int key, RowData wanted) {
        List<RowData> all = new ArrayList<>();
        for (JsonNode change : script) {
            if (change.get(0).asText().equals(table)) {
                RowData row = row(change, rows);
                if (wanted.getString(0).equals(row.getString(key))) {
                    all.add(row);
                }
            }
        }
        return all;
    }

    private record Kept(String table, DataType rows, String changes, boolean commits) implements DynamicTableSink {
        @Override
        public ChangelogMode getChangelogMode(ChangelogMode requested) {
            return changes.equals("retract") ? requested : mode(changes);
        }

        @Override
        public SinkRuntimeProvider getSinkRuntimeProvider(Context context) {
            DataStructureConverter converter = context.createDataStructureConverter(rows);
            return new DataStreamSinkProvider() {
                @Override
                public DataStreamSink<?> consumeDataStream(ProviderContext provider, DataStream<RowData> stream) {
                    SingleOutputStreamOperator<Integer> kept = stream.map(new Keep(table, converter))
                            .returns(Types.INT)
                            .setParallelism(stream.getParallelism());
                    provider.generateUid("keep").ifPresent(kept::uid);
                    DataStreamSink<Integer> end = kept.sinkTo(commits ? Sinks.committing() : Sinks.plain());
                    provider.generateUid("writer").ifPresent(end::uid);
                    return end;
                }
            };
        }

        @Override
        public DynamicTableSink copy() {
            return this;
        }

        @Override
        public String asSummaryString() {
            return table;
        }
    }

    private static final class Keep implements MapFunction<RowData, Integer> {
        private final String table;
        private final DynamicTableSink.DataStructureConverter converter;
        private boolean open;

        Keep(String table, DynamicTableSink.DataStructureConverter converter) {
            this.table = table;
            this.converter = converter;
        }

        @Override
        public Integer map(RowData row) {
            if (!open) {
                converter.open(RuntimeConverter.Context.create(Keep.class.getClassLoader()));
                open = true;
            }
            ARRIVED.add(List.of(table, String.valueOf(converter.toExternal(row))));
            return 0;
        }
    }

    /** The only split: which change comes next. */
    record Next(int number) implements SourceSplit {
        @Override
        public String splitId() {
            return "script";
        }
    }

    private static final class Player implements Source<RowData, Next, Boolean> {
        private final String table;
        private final RowType rows;

        Player(String table, RowType rows) {
            this.table = table;
            this.rows = rows;
        }

        @Override
        public Boundedness getBoundedness() {
            return Boundedness.CONTINUOUS_UNBOUNDED;
        }

        @Override
        public SplitEnumerator<Next, Boolean> createEnumerator(SplitEnumeratorContext<Next> context) {
            return new Assigner(context, false);
        }

        @Override
        public SplitEnumerator<Next, Boolean> restoreEnumerator(
                SplitEnumeratorContext<Next> context, Boolean assigned) {
            return new Assigner(context, assigned);
        }

        @Override
        public SourceReader<RowData, Next> createReader(SourceReaderContext context) {
            return new Reader(table, rows, context.getIndexOfSubtask());
        }

        @Override
        public SimpleVersionedSerializer<Next> getSplitSerializer() {
            return new SimpleVersionedSerializer<>() {
                @Override
                public int getVersion() {
                    return 1;
                }

                @Override
                public byte[] serialize(Next next) {
                    return ByteBuffer.allocate(Integer.BYTES).putInt(next.number).array();
                }

                @Override
                public Next deserialize(int version, byte[] bytes) {
                    return new Next(ByteBuffer.wrap(bytes).getInt());
                }
            };
        }

        @Override
        public SimpleVersionedSerializer<Boolean> getEnumeratorCheckpointSerializer() {
            return new SimpleVersionedSerializer<>() {
                @Override
                public int getVersion() {
                    return 1;
                }

                @Override
                public byte[] serialize(Boolean assigned) {
                    return new byte[] {(byte) (assigned ? 1 : 0)};
                }

                @Override
                public Boolean deserialize(int version, byte[] bytes) {
                    return bytes[0] == 1;
                }
            };
        }
    }

    private static final class Assigner implements SplitEnumerator<Next, Boolean> {
        private final SplitEnumeratorContext<Next> context;
        private boolean assigned;

        Assigner(SplitEnumeratorContext<Next> context, boolean assigned) {
            this.context = context;
            this.assigned = assigned;
        }

        @Override
        public void start() {}

        @Override
        public void handleSplitRequest(int subtask, String host) {}

        @Override
        public void addSplitsBack(List<Next> splits, int subtask) {
            splits.forEach(split -> context.assignSplit(split, subtask));
        }

        @Override
        public void addReader(int subtask) {
            if (!assigned) {
                assigned = true;
                context.assignSplit(new Next(0), subtask);
            }
        }

        @Override
        public Boolean snapshotState(long checkpointId) {
            return assigned;
        }

        @Override
        public void close() {}
    }

    private static final class Reader implements SourceReader<RowData, Next> {
        private final String table;
        private final RowType rows;
        private final String name;
        private Next next;
        private CompletableFuture<Void> available = new CompletableFuture<>();

        Reader(String table, RowType rows, int subtask) {
            this.table = table;
            this.rows = rows;
            this.name = table + "/" + subtask + "/" + System.identityHashCode(this);
        }

        @Override
        public void start() {}

        @Override
        public InputStatus pollNext(ReaderOutput<RowData> output) throws Exception {
            if (next == null) {
                available = new CompletableFuture<>();
                return InputStatus.NOTHING_AVAILABLE;
            }
            int end = Math.min(RELEASED.get(), script.size());
            for (int number = next.number; number < end; number++) {
                JsonNode change = script.get(number);
                if (change.get(0).asText().equals(table)) {
                    output.collect(row(change, rows));
                    reached(number + 1);
                    return InputStatus.MORE_AVAILABLE;
                }
            }
            reached(Math.max(end, next.number));
            Thread.sleep(1);
            return InputStatus.MORE_AVAILABLE;
        }

        private void reached(int number) {
            next = new Next(number);
            PLAYED.put(name, number);
        }

        @Override
        public List<Next> snapshotState(long checkpointId) {
            return next == null ? List.of() : List.of(next);
        }

        @Override
        public CompletableFuture<Void> isAvailable() {
            return next == null ? available : CompletableFuture.completedFuture(null);
        }

        @Override
        public void addSplits(List<Next> splits) {
            next = splits.get(0);
            available.complete(null);
        }

        @Override
        public void notifyNoMoreSplits() {}

        @Override
        public void close() {
            PLAYED.remove(name);
        }
    }

    private static RowData row(JsonNode change, RowType type) {
        GenericRowData row = fields(change.get(2), type);
        for (RowKind kind : RowKind.values()) {
            if (kind.shortString().equals(change.get(1).asText())) {
                row.setRowKind(kind);
            }
        }
        return row;
    }

    private static GenericRowData fields(JsonNode row, RowType type) {
        GenericRowData data = new GenericRowData(type.getFieldCount());
        for (RowType.RowField field : type.getFields()) {
            data.setField(type.getFieldIndex(field.getName()), value(row.get(field.getName()), field.getType()));
        }
        return data;
    }

    private static Object value(JsonNode value, LogicalType type) {
        if (value == null || value.isNull()) {
            return null;
        }
        return switch (type.getTypeRoot()) {
            case CHAR, VARCHAR -> StringData.fromString(value.asText());
            case BOOLEAN -> value.asBoolean();
            case INTEGER -> value.asInt();
            case BIGINT -> value.asLong();
            case DOUBLE -> value.asDouble();
            case DECIMAL -> DecimalData.fromBigDecimal(
                    new BigDecimal(value.asText()),
                    ((DecimalType) type).getPrecision(),
                    ((DecimalType) type).getScale());
            case TIMESTAMP_WITHOUT_TIME_ZONE, TIMESTAMP_WITH_LOCAL_TIME_ZONE ->
                    TimestampData.fromLocalDateTime(LocalDateTime.parse(value.asText()));
            case ROW -> fields(value, (RowType) type);
            default -> throw new IllegalArgumentException("the script has no values of " + type);
        };
    }
}
