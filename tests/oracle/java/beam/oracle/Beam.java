package oracle;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.time.LocalDate;
import java.time.LocalTime;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.BitSet;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.IntFunction;
import org.apache.beam.runners.core.StateNamespaces;
import org.apache.beam.runners.core.TimerInternals;
import org.apache.beam.runners.flink.translation.types.CoderTypeSerializer;
import org.apache.beam.sdk.coders.*;
import org.apache.beam.sdk.extensions.avro.coders.AvroCoder;
import org.apache.beam.sdk.schemas.Schema.FieldType;
import org.apache.beam.sdk.schemas.logicaltypes.EnumerationType;
import org.apache.beam.sdk.state.TimeDomain;
import org.apache.beam.sdk.transforms.windowing.GlobalWindow;
import org.apache.beam.sdk.transforms.windowing.IntervalWindow;
import org.apache.beam.sdk.transforms.windowing.PaneInfo;
import org.apache.beam.sdk.util.WindowedValue;
import org.apache.beam.sdk.values.KV;
import org.apache.beam.sdk.values.Row;
import org.apache.beam.sdk.values.TimestampedValue;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.state.ListState;
import org.apache.flink.api.common.state.ListStateDescriptor;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.common.typeutils.base.StringSerializer;
import org.apache.flink.api.python.shaded.org.joda.time.Duration;
import org.apache.flink.api.python.shaded.org.joda.time.Instant;
import org.apache.flink.avro.shaded.org.apache.avro.Schema;
import org.apache.flink.avro.shaded.org.apache.avro.generic.GenericData;
import org.apache.flink.avro.shaded.org.apache.avro.generic.GenericRecord;
import org.apache.flink.avro.shaded.org.apache.avro.generic.IndexedRecord;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.runtime.jobgraph.JobGraph;
import org.apache.flink.runtime.state.VoidNamespace;
import org.apache.flink.runtime.state.VoidNamespaceSerializer;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.operators.AbstractStreamOperator;
import org.apache.flink.streaming.api.operators.InternalTimer;
import org.apache.flink.streaming.api.operators.InternalTimerService;
import org.apache.flink.streaming.api.operators.OneInputStreamOperator;
import org.apache.flink.streaming.api.operators.Triggerable;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;

/**
 * A job whose state is written by the real coders of Beam that PyFlink's jar contains: a value of each under the name
 * of its coder, a bag, values in windows, and timers with the data that Beam's runner gives them.
 */
public final class Beam {
    private static final int KEYS = 20;

    private Beam() {}

    /** A coder with the values that it writes. */
    private record Column(Coder<Object> coder, IntFunction<?> value) {}

    @SuppressWarnings("unchecked")
    private static <T> Column of(Coder<T> coder, IntFunction<? extends T> value) {
        return new Column((Coder<Object>) coder, value);
    }

    private static Instant at(long millis) {
        return new Instant(millis);
    }

    private static IntervalWindow window(int i) {
        return new IntervalWindow(at(i * 60_000L), at((i + 1) * 60_000L));
    }

    private static final org.apache.beam.sdk.schemas.Schema INNER = org.apache.beam.sdk.schemas.Schema.builder()
            .addNullableField("a", FieldType.INT32).addStringField("b").build();
    private static final org.apache.beam.sdk.schemas.Schema ROW = org.apache.beam.sdk.schemas.Schema.builder()
            .addByteField("octet").addInt16Field("short").addInt32Field("int").addInt64Field("long")
            .addFloatField("float").addDoubleField("double").addBooleanField("flag").addDateTimeField("instant")
            .addByteArrayField("data").addDecimalField("decimal").addNullableField("text", FieldType.STRING)
            .addNullableField("inner", FieldType.row(INNER))
            .addArrayField("array", FieldType.STRING.withNullable(true))
            .addIterableField("iterable", FieldType.row(INNER))
            .addMapField("map", FieldType.STRING, FieldType.INT64.withNullable(true)).build();
    private static final org.apache.beam.sdk.schemas.Schema LOGICAL = org.apache.beam.sdk.schemas.Schema.builder()
            .addLogicalTypeField("day", new org.apache.beam.sdk.schemas.logicaltypes.Date())
            .addLogicalTypeField("time", new org.apache.beam.sdk.schemas.logicaltypes.Time()).build();
    private static final EnumerationType KIND = EnumerationType.create("NEW", "PAID");
    private static final org.apache.beam.sdk.schemas.Schema ENUM = org.apache.beam.sdk.schemas.Schema.builder()
            .addLogicalTypeField("kind", KIND).build();
    private static final org.apache.beam.sdk.schemas.Schema MOVED = org.apache.beam.sdk.schemas.Schema.builder()
            .addStringField("a").addNullableField("b", FieldType.INT32).build();

    static {
        MOVED.setEncodingPositions(Map.of("a", 1, "b", 0));
    }

    private static Row inner(int i) {
        return Row.withSchema(INNER).addValues(i % 2 == 0 ? null : i, "b" + i).build();
    }

    private static Row row(int i) {
        return Row.withSchema(ROW).addValues((byte) (i - 3), (short) (i * 1000), i * 123_456_789, i * -9_876_543_210L,
                i * 0.5f, i * -1.25, i % 2 == 0, at(i * 1_000_000_007L - 5),
                ("d" + i).getBytes(StandardCharsets.UTF_8), new BigDecimal(BigInteger.valueOf(i * 12_345L - 7), i % 4),
                i % 3 == 0 ? null : "t\u00e9" + i, i % 4 == 0 ? null : inner(i), Arrays.asList("x", null, "y" + i),
                List.of(inner(i), inner(i + 1)), Collections.singletonMap("k" + i, i % 2 == 0 ? null : (long) i))
                .build();
    }

    private static final Schema AVRO = new Schema.Parser().parse("""
            {"type": "record", "name": "com.shop.Order", "fields": [
              {"name": "flag", "type": "boolean"}, {"name": "int", "type": "int"}, {"name": "long", "type": "long"},
              {"name": "float", "type": "float"}, {"name": "double", "type": "double"},
              {"name": "data", "type": "bytes"}, {"name": "text", "type": ["null", "string"]},
              {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["NEW", "PAID", "SENT"]}},
              {"name": "four", "type": {"type": "fixed", "name": "Four", "size": 4}},
              {"name": "items", "type": {"type": "array", "items": "long"}},
              {"name": "counts", "type": {"type": "map", "values": "int"}},
              {"name": "either", "type": ["int", "string"]},
              {"name": "day", "type": {"type": "int", "logicalType": "date"}},
              {"name": "inner", "type": {"type": "record", "name": "Inner", "fields": [
                {"name": "a", "type": "int"}, {"name": "nothing", "type": "null"}]}}]}""");

    private static GenericRecord avro(int i) {
        GenericRecord record = new GenericData.Record(AVRO);
        record.put("flag", i % 2 == 0);
        record.put("int", (i - 9) * 123_456_789);
        record.put("long", i == 0 ? Long.MIN_VALUE : i * -9_876_543_210L);
        record.put("float", i * 0.5f);
        record.put("double", i * -1.25);
        record.put("data", java.nio.ByteBuffer.wrap("d".repeat(i * 10).getBytes(StandardCharsets.UTF_8)));
        record.put("text", i % 3 == 0 ? null : "t\u00e9" + i);
        Schema kind = AVRO.getField("kind").schema();
        record.put("kind", new GenericData.EnumSymbol(kind, kind.getEnumSymbols().get(i % 3)));
        byte[] four = {'f', 'o', 'u', (byte) ('a' + i)};
        record.put("four", new GenericData.Fixed(AVRO.getField("four").schema(), four));
        record.put("items", new ArrayList<>(Collections.nCopies(i * 4, i * 100L)));
        record.put("counts", i == 0 ? Map.of() : Map.of("k" + i, -i));
        record.put("either", i % 2 == 0 ? (Object) i : "e" + i);
        record.put("day", i * 1000);
        GenericRecord inner = new GenericData.Record(AVRO.getField("inner").schema());
        inner.put("a", -i);
        record.put("inner", inner);
        return record;
    }

    static Map<String, Column> columns() {
        Map<String, Column> all = new LinkedHashMap<>();
        all.put("var_int", of(VarIntCoder.of(), i -> i == 0 ? Integer.MIN_VALUE : (i - 9) * 12_345_678));
        all.put("var_long", of(VarLongCoder.of(), i -> i == 0 ? Long.MIN_VALUE : (i - 9) * 1_234_567_890_123L));
        all.put("text", of(StringUtf8Coder.of(), i -> "\u00e9\ud83d\ude00".repeat(i * 10)));
        all.put("bytes", of(ByteArrayCoder.of(), i -> "b".repeat(i).getBytes(StandardCharsets.UTF_8)));
        all.put("big_endian_short", of(BigEndianShortCoder.of(), i -> (short) (i * 3333 - 32768)));
        all.put("big_endian_int", of(BigEndianIntegerCoder.of(), i -> (i - 9) * 123_456_789));
        all.put("big_endian_long", of(BigEndianLongCoder.of(), i -> (i - 9) * 1_234_567_890_123L));
        all.put("double", of(DoubleCoder.of(), i -> i * -1.5));
        all.put("float", of(FloatCoder.of(), i -> i * 0.5f));
        all.put("octet", of(ByteCoder.of(), i -> (byte) (i * 13 - 128)));
        all.put("flag", of(BooleanCoder.of(), i -> i % 2 == 0));
        all.put("instant", of(InstantCoder.of(), i -> at(i * 1_000_000_007L - 5)));
        all.put("duration", of(DurationCoder.of(), i -> Duration.millis(i * 999L)));
        all.put("pair", of(KvCoder.of(StringUtf8Coder.of(), VarIntCoder.of()), i -> KV.of("k" + i, i)));
        all.put("list", of(ListCoder.of(VarLongCoder.of()), i -> new ArrayList<>(Collections.nCopies(i, (long) i))));
        all.put("iterable", of(IterableCoder.of(StringUtf8Coder.of()), i -> List.of("a" + i, "")));
        all.put("set", of(SetCoder.of(VarIntCoder.of()), i -> Set.of(i)));
        all.put("map", of(MapCoder.of(StringUtf8Coder.of(), VarIntCoder.of()), i -> Map.of("k" + i, i)));
        all.put("nullable", of(NullableCoder.of(StringUtf8Coder.of()), i -> i % 2 == 0 ? null : "n" + i));
        all.put("prefixed", of(LengthPrefixCoder.of(VarIntCoder.of()), i -> i * 1000));
        all.put("decimal", of(BigDecimalCoder.of(),
                i -> new BigDecimal(BigInteger.valueOf((i - 9) * 123_456_789L), i - 5)));
        all.put("big_integer", of(BigIntegerCoder.of(), i -> BigInteger.TEN.pow(i).negate()));
        all.put("bits", of(BitSetCoder.of(), i -> BitSet.valueOf(new long[] {i})));
        all.put("timestamped", of(TimestampedValue.TimestampedValueCoder.of(VarIntCoder.of()),
                i -> TimestampedValue.of(i, at(i * 1000L))));
        all.put("interval", of(IntervalWindow.getCoder(), Beam::window));
        all.put("windowed", of(WindowedValue.getFullCoder(VarIntCoder.of(), IntervalWindow.getCoder()),
                i -> WindowedValue.of(i, at(i * 60_000L + 1), List.of(window(i)),
                        PaneInfo.createPane(i == 0, false, PaneInfo.Timing.ON_TIME, i, i / 2))));
        all.put("in_global_window", of(WindowedValue.getFullCoder(StringUtf8Coder.of(), GlobalWindow.Coder.INSTANCE),
                i -> WindowedValue.valueInGlobalWindow("v" + i)));
        all.put("value_only", of(WindowedValue.getValueOnlyCoder(StringUtf8Coder.of()),
                i -> WindowedValue.valueInGlobalWindow("o" + i)));
        all.put("row", of(RowCoder.of(ROW), Beam::row));
        all.put("row_in_pair", of(KvCoder.of(StringUtf8Coder.of(), RowCoder.of(INNER)), i -> KV.of("k" + i, inner(i))));
        all.put("logical_row", of(RowCoder.of(LOGICAL),
                i -> Row.withSchema(LOGICAL)
                        .addValues(LocalDate.ofEpochDay(i), LocalTime.ofNanoOfDay(i * 999L))
                        .build()));
        all.put("enum_row", of(RowCoder.of(ENUM), i -> Row.withSchema(ENUM).addValue(KIND.valueOf(i % 2)).build()));
        all.put("moved_row", of(RowCoder.of(MOVED),
                i -> Row.withSchema(MOVED).addValues("a" + i, i % 2 == 0 ? null : i).build()));
        all.put("avro", of(AvroCoder.of(AVRO), Beam::avro));
        all.put("base64", of(KvCoder.of(StringUtf8Coder.of(), VarIntCoder.of()), i -> KV.of("b" + i, i)));
        return all;
    }

    /** Values as JSON; of what has no form of its own, its text. */
    static Object json(Object value) {
        if (value instanceof Row row) {
            return json(row.getValues());
        }
        if (value instanceof IndexedRecord record) {
            List<Object> all = new ArrayList<>();
            record.getSchema().getFields().forEach(field -> all.add(json(record.get(field.pos()))));
            return all;
        }
        if (value instanceof java.nio.ByteBuffer buffer) {
            return new String(buffer.array(), StandardCharsets.UTF_8);
        }
        if (value instanceof GenericData.Fixed fixed) {
            return new String(fixed.bytes(), StandardCharsets.UTF_8);
        }
        if (value instanceof KV<?, ?> pair) {
            return Arrays.asList(json(pair.getKey()), json(pair.getValue()));
        }
        if (value instanceof Iterable<?> values) {
            List<Object> all = new ArrayList<>();
            values.forEach(one -> all.add(json(one)));
            return all;
        }
        if (value instanceof WindowedValue<?> windowed) {
            return List.of(json(windowed.getTimestamp()), json(windowed.getWindows()), json(windowed.getValue()),
                    windowed.getPane().isFirst(), windowed.getPane().isLast(), windowed.getPane().getTiming().name(),
                    windowed.getPane().getIndex(), windowed.getPane().getNonSpeculativeIndex());
        }
        if (value instanceof TimestampedValue<?> timed) {
            return List.of(json(timed.getValue()), json(timed.getTimestamp()));
        }
        if (value instanceof IntervalWindow interval) {
            return List.of(interval.end().getMillis(), interval.end().getMillis() - interval.start().getMillis());
        }
        if (value instanceof GlobalWindow) {
            return "global";
        }
        if (value instanceof Instant instant) {
            return instant.getMillis();
        }
        if (value instanceof Duration duration) {
            return duration.getMillis();
        }
        if (value instanceof Map<?, ?> map) {
            List<Object> all = new ArrayList<>();
            map.forEach((key, one) -> all.add(Arrays.asList(json(key), json(one))));
            return all;
        }
        if (value instanceof byte[] bytes) {
            return new String(bytes, StandardCharsets.UTF_8);
        }
        if (value instanceof LocalDate day) {
            return day.toEpochDay();
        }
        if (value instanceof LocalTime time) {
            return time.toNanoOfDay();
        }
        boolean plain = value == null || value instanceof Boolean || value instanceof String
                || (value instanceof Number && !(value instanceof BigDecimal) && !(value instanceof BigInteger));
        return plain ? value : value.toString();
    }

    public static void main(String[] arguments) throws Exception {
        Options options = Options.parse(arguments);
        Configuration configuration = options.configuration();
        StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment(configuration);
        env.setParallelism(options.number("parallelism"));
        env.setMaxParallelism(128);
        DataStream<Integer> numbers = env.fromSource(
                        new CountingSource("numbers", KEYS), WatermarkStrategy.noWatermarks(), "numbers", Types.INT)
                .setParallelism(1)
                .uid("numbers");
        numbers.keyBy(number -> "key-" + number, TypeInformation.of(String.class))
                .transform("beam", Types.VOID, new Keeping())
                .uid("beam");
        JobGraph job = env.getStreamGraph(false).getJobGraph();
        Snapshots.take(job, configuration, options);
        Json.write(options.out().resolve("found.json"), Found.all());
        options.deleteTemporary();
        System.exit(0);
    }

    private static final class Keeping extends AbstractStreamOperator<Void>
            implements OneInputStreamOperator<Integer, Void>, Triggerable<Object, TimerInternals.TimerData> {
        private transient InternalTimerService<TimerInternals.TimerData> timers;

        @Override
        public void open() throws Exception {
            super.open();
            timers = getInternalTimerService("beam-timer", new CoderTypeSerializer<>(
                    TimerInternals.TimerDataCoderV2.of(IntervalWindow.getCoder()), false), this);
        }

        @Override
        public void processElement(StreamRecord<Integer> element) throws Exception {
            int i = element.getValue();
            for (Map.Entry<String, Column> column : columns().entrySet()) {
                Object value = column.getValue().value.apply(i);
                ValueState<Object> state = getKeyedStateBackend().getPartitionedState(
                        VoidNamespace.INSTANCE, VoidNamespaceSerializer.INSTANCE, new ValueStateDescriptor<>(
                                column.getKey(), new CoderTypeSerializer<>(
                                        column.getValue().coder, false, column.getKey().equals("base64"))));
                if (value != null) {
                    state.update(value);
                }
                Found.add("beam", column.getKey(), List.of(Arrays.asList("key-" + i, json(value))));
            }
            ListState<String> bag = getKeyedStateBackend().getPartitionedState(
                    "/" + (i % 3), StringSerializer.INSTANCE,
                    new ListStateDescriptor<>("bag", new CoderTypeSerializer<>(StringUtf8Coder.of(), false)));
            bag.addAll(List.of("x" + i, "y"));
            Found.add("beam", "bag", List.of(List.of("key-" + i, "/" + (i % 3), List.of("x" + i, "y"))));
            TimerInternals.TimerData timer = TimerInternals.TimerData.of("timer" + i, "family",
                    StateNamespaces.window(IntervalWindow.getCoder(), window(i)), at(i * 60_000L + 5), at(i * 60_000L),
                    i % 2 == 0 ? TimeDomain.EVENT_TIME : TimeDomain.PROCESSING_TIME);
            timers.registerEventTimeTimer(timer, i * 60_000L + 5);
            Found.add("beam", "timers", List.of(List.of("key-" + i, timer.getTimerId(), timer.getTimerFamilyId(),
                    timer.getNamespace().stringKey(), timer.getTimestamp().getMillis(),
                    timer.getOutputTimestamp().getMillis(), timer.getDomain().name())));
        }

        @Override
        public void onEventTime(InternalTimer<Object, TimerInternals.TimerData> timer) {}

        @Override
        public void onProcessingTime(InternalTimer<Object, TimerInternals.TimerData> timer) {}
    }
}
