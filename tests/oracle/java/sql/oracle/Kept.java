package oracle;

import java.util.Collection;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.flink.api.common.state.ListState;
import org.apache.flink.api.common.state.ListStateDescriptor;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.configuration.ConfigOption;
import org.apache.flink.configuration.ConfigOptions;
import org.apache.flink.runtime.state.FunctionInitializationContext;
import org.apache.flink.runtime.state.FunctionSnapshotContext;
import org.apache.flink.streaming.api.checkpoint.CheckpointedFunction;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.datastream.DataStreamSink;
import org.apache.flink.streaming.api.functions.ProcessFunction;
import org.apache.flink.table.api.DataTypes;
import org.apache.flink.table.catalog.GenericInMemoryCatalog;
import org.apache.flink.table.catalog.TableDistribution;
import org.apache.flink.table.connector.ChangelogMode;
import org.apache.flink.table.connector.ProviderContext;
import org.apache.flink.table.connector.sink.DataStreamSinkProvider;
import org.apache.flink.table.connector.sink.DynamicTableSink;
import org.apache.flink.table.connector.sink.abilities.SupportsBucketing;
import org.apache.flink.table.connector.sink.abilities.SupportsOverwrite;
import org.apache.flink.table.connector.sink.abilities.SupportsPartitioning;
import org.apache.flink.table.connector.sink.abilities.SupportsWritingMetadata;
import org.apache.flink.table.connector.source.DynamicTableSource;
import org.apache.flink.table.connector.source.LookupTableSource;
import org.apache.flink.table.connector.source.lookup.LookupFunctionProvider;
import org.apache.flink.table.data.GenericRowData;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.data.StringData;
import org.apache.flink.table.factories.DynamicTableSinkFactory;
import org.apache.flink.table.factories.DynamicTableSourceFactory;
import org.apache.flink.table.factories.Factory;
import org.apache.flink.table.functions.LookupFunction;
import org.apache.flink.table.types.DataType;
import org.apache.flink.types.RowKind;
import org.apache.flink.util.Collector;

/**
 * The tables of a catalog: sinks that keep every row in their state, and tables for lookups {@code (number INT, name STRING)}
 * that have a row for each number.
 */
final class Kept implements DynamicTableSourceFactory, DynamicTableSinkFactory {
    private static final ConfigOption<String> CONNECTOR = ConfigOptions.key("connector").stringType().noDefaultValue();
    private static final ConfigOption<String> CHANGES = ConfigOptions.key("changes").stringType().defaultValue("all");

    static final class Catalog extends GenericInMemoryCatalog {
        Catalog() {
            super("kept", "shop");
        }

        @Override
        public Optional<Factory> getFactory() {
            return Optional.of(new Kept());
        }
    }

    @Override
    public String factoryIdentifier() {
        return "kept";
    }

    @Override
    public Set<ConfigOption<?>> requiredOptions() {
        return Set.of(CONNECTOR);
    }

    @Override
    public Set<ConfigOption<?>> optionalOptions() {
        return Set.of(CHANGES);
    }

    @Override
    public DynamicTableSource createDynamicTableSource(Context context) {
        return new Lookups();
    }

    @Override
    public DynamicTableSink createDynamicTableSink(Context context) {
        return new Keeper(
                context.getCatalogTable().getOptions().getOrDefault("changes", "all"), context.getPhysicalRowDataType());
    }

    private record Lookups() implements LookupTableSource {
        @Override
        public LookupRuntimeProvider getLookupRuntimeProvider(LookupContext context) {
            return LookupFunctionProvider.of(new Now());
        }

        @Override
        public DynamicTableSource copy() {
            return this;
        }

        @Override
        public String asSummaryString() {
            return "lookups";
        }
    }

    private static Collection<RowData> found(RowData key) {
        int number = key.getInt(0);
        return number % 5 == 4
                ? Collections.emptyList()
                : List.of(GenericRowData.of(number, StringData.fromString("name " + number)));
    }

    public static final class Now extends LookupFunction {
        @Override
        public Collection<RowData> lookup(RowData key) {
            return found(key);
        }
    }

    private static final class Keeper
            implements DynamicTableSink,
                    SupportsBucketing,
                    SupportsOverwrite,
                    SupportsPartitioning,
                    SupportsWritingMetadata {
        private final String changes;
        private DataType type;

        Keeper(String changes, DataType type) {
            this.changes = changes;
            this.type = type;
        }

        @Override
        public ChangelogMode getChangelogMode(ChangelogMode requested) {
            if (changes.equals("insert")) {
                return ChangelogMode.insertOnly();
            }
            if (changes.equals("all")) {
                return ChangelogMode.all();
            }
            return ChangelogMode.newBuilder()
                    .addContainedKind(RowKind.INSERT)
                    .addContainedKind(RowKind.UPDATE_AFTER)
                    .addContainedKind(RowKind.DELETE)
                    .build();
        }

        @Override
        public SinkRuntimeProvider getSinkRuntimeProvider(Context context) {
            TypeInformation<RowData> rows = context.createTypeInformation(type);
            return new DataStreamSinkProvider() {
                @Override
                public DataStreamSink<?> consumeDataStream(ProviderContext provider, DataStream<RowData> stream) {
                    DataStream<RowData> kept = stream.process(new Keep(rows)).returns(rows).uid("kept").setParallelism(1);
                    return kept.map(row -> 0).returns(Types.INT).sinkTo(Sinks.plain());
                }
            };
        }

        @Override
        public DynamicTableSink copy() {
            return new Keeper(changes, type);
        }

        @Override
        public String asSummaryString() {
            return "keeper";
        }

        @Override
        public Set<TableDistribution.Kind> listAlgorithms() {
            return Set.of(TableDistribution.Kind.values());
        }

        @Override
        public boolean requiresBucketCount() {
            return false;
        }

        @Override
        public void applyStaticPartition(Map<String, String> partition) {}

        @Override
        public void applyOverwrite(boolean overwrite) {}

        @Override
        public Map<String, DataType> listWritableMetadata() {
            Map<String, DataType> metadata = new LinkedHashMap<>();
            metadata.put("note", DataTypes.STRING());
            return metadata;
        }

        @Override
        public void applyWritableMetadata(List<String> keys, DataType consumed) {
            type = consumed;
        }
    }

    /** Keeps every row in operator state. */
    private static final class Keep extends ProcessFunction<RowData, RowData> implements CheckpointedFunction {
        private static final long serialVersionUID = 1;
        private final TypeInformation<RowData> type;
        private transient ListState<RowData> rows;

        Keep(TypeInformation<RowData> type) {
            this.type = type;
        }

        @Override
        public void processElement(RowData row, Context context, Collector<RowData> out) throws Exception {
            rows.add(row);
            out.collect(row);
        }

        @Override
        public void snapshotState(FunctionSnapshotContext context) {}

        @Override
        public void initializeState(FunctionInitializationContext context) throws Exception {
            rows = context.getOperatorStateStore().getListState(new ListStateDescriptor<>("kept-rows", type));
        }
    }
}
