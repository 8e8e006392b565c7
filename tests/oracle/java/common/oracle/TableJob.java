package oracle;

import java.util.ArrayList;
import java.util.List;
import org.apache.flink.api.common.ExecutionConfig;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/** A job whose operators are tables: it can write their state, and restore and read it again. */
abstract class TableJob implements Generate.Job {
    ExecutionConfig config;
    private final List<KeyedTable> keyed = new ArrayList<>();
    private final List<OperatorTable> operators = new ArrayList<>();
    private int most;

    static TableJob named(String name) {
        return switch (name) {
            case "types" -> new TypesJob();
            case "keys" -> new KeysJob();
            case "kryo" -> new KryoJob();
            case "person" -> new PersonJob();
            default -> throw new IllegalArgumentException("no job " + name + "; there are shop, types, keys, kryo, person");
        };
    }

    /** Adds the tables. */
    abstract void define();

    /** Adds what is no table; {@code reads}: the job says what it finds. */
    void extend(StreamExecutionEnvironment env, boolean reads) {}

    /** Whether all is written: records in flight may not be, when an unaligned checkpoint is taken. */
    @Override
    public final boolean isWritten() {
        return KeyedTable.seen() >= keyed.size() * most;
    }

    /** Whether a job that reads has found all that is no table. */
    boolean hasRead() {
        return true;
    }

    final <K> KeyedTable table(String uid, TypeInformation<K> keyType, List<? extends K> keys) {
        KeyedTable table = new KeyedTable(uid, config, keyType, keys);
        keyed.add(table);
        return table;
    }

    final OperatorTable operatorTable(String uid) {
        OperatorTable table = new OperatorTable(uid, config);
        operators.add(table);
        return table;
    }

    @Override
    public final List<Object> build(StreamExecutionEnvironment env, Options options) {
        DataStream<Integer> indexes = source(env);
        keyed.forEach(table -> table.attachWriter(indexes));
        operators.forEach(table -> table.attachWriter(indexes));
        extend(env, false);
        List<Object> expected = new ArrayList<>();
        keyed.forEach(table -> expected.add(table.expected(options)));
        operators.forEach(table -> expected.add(table.expected()));
        return expected;
    }

    /** The same operators, but they read their state when they start, and do nothing else. */
    final void buildReaders(StreamExecutionEnvironment env) {
        DataStream<Integer> indexes = source(env);
        keyed.forEach(table -> table.attachReader(indexes));
        operators.forEach(table -> table.attachReader(indexes));
        extend(env, true);
    }

    private DataStream<Integer> source(StreamExecutionEnvironment env) {
        config = env.getConfig();
        define();
        most = keyed.stream().mapToInt(KeyedTable::size).max().orElseThrow();
        return env.fromSource(
                        new CountingSource("indexes", most), WatermarkStrategy.noWatermarks(), "source", Types.INT)
                .uid("source")
                .setParallelism(1);
    }
}
