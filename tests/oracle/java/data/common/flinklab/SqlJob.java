package flinklab;

import java.math.BigDecimal;
import java.time.LocalDateTime;
import java.util.*;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.MapFunction;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.table.api.*;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;
import org.apache.flink.types.Row;

/** A streaming SQL job whose operators keep RowData. */
public final class SqlJob {
    private SqlJob() {}

    static final int ROWS = 400, KEYS = 60;
    static final String[] NAMES = {"id", "k", "dec", "ts", "vc", "d", "i", "flag", "tags", "props", "sub"};

    static Row row(long n) {
        int i = (int) n, k = i % KEYS;
        Map<String, Integer> m = new TreeMap<>();
        for (int x = 0; x < i % 3; x++)
            m.put("p" + x, i + x);
        return Row.of(n, "k" + k, i % 10 == 9 ? null : new BigDecimal(i * 37 - 4000).movePointLeft(2),
                i % 11 == 10
                        ? null
                        : LocalDateTime.of(2020, 1 + i % 12, 1 + i % 28, i % 24, i % 60, i % 60, i % 1000 * 1_000_000),
                i % 7 == 6 ? null
                           : (i % 3 == 0 ? "\u00e9\u6f22" : "short") + i % 17
                                + (i % 5 == 0 ? "-long-enough-not-to-be-inlined" : ""),
                i % 6 == 5 ? null : (Double) (i / 8.0), i % 5 == 4 ? null : (Integer) (i * 3 - 500),
                i % 4 == 3 ? null : (Boolean) (i % 2 == 0),
                i % 8 == 7           ? null
                        : i % 2 == 0 ? new String[] {"t" + i, null, ""}
                                     : new String[0],
                i % 9 == 8 ? null : new HashMap<>(m), i % 5 == 3 ? null : Row.of(i, "sub" + i));
    }

    static final class ToRow implements MapFunction<Long, Row> {
        @Override
        public Row map(Long n) {
            return row(n);
        }
    }

    static List<Object> build(StreamExecutionEnvironment env) {
        TypeInformation<Row> type = Types.ROW_NAMED(NAMES, Types.LONG, Types.STRING, Types.BIG_DEC,
                Types.LOCAL_DATE_TIME, Types.STRING, Types.DOUBLE, Types.INT, Types.BOOLEAN,
                Types.OBJECT_ARRAY(Types.STRING), Types.MAP(Types.STRING, Types.INT),
                Types.ROW_NAMED(new String[] {"x", "y"}, Types.INT, Types.STRING));
        DataStream<Row> rows =
                env.fromSource(new HoldSource("sql", ROWS), WatermarkStrategy.noWatermarks(), "source-sql", Types.LONG)
                        .uid("source-sql")
                        .setParallelism(1)
                        .map(new ToRow())
                        .returns(type)
                        .setParallelism(1)
                        .uid("to-row");
        StreamTableEnvironment t = StreamTableEnvironment.create(env);
        t.getConfig().set("table.exec.uid.generation", "ALWAYS");
        t.getConfig().set("table.local-time-zone", "UTC");
        t.createTemporaryView("t", rows,
                Schema.newBuilder()
                        .column("id", DataTypes.BIGINT())
                        .column("k", DataTypes.STRING())
                        .column("dec", DataTypes.DECIMAL(10, 2))
                        .column("ts", DataTypes.TIMESTAMP(3))
                        .column("vc", DataTypes.STRING())
                        .column("d", DataTypes.DOUBLE())
                        .column("i", DataTypes.INT())
                        .column("flag", DataTypes.BOOLEAN())
                        .column("tags", DataTypes.ARRAY(DataTypes.STRING()))
                        .column("props", DataTypes.MAP(DataTypes.STRING(), DataTypes.INT()))
                        .column("sub",
                                DataTypes.ROW(DataTypes.FIELD("x", DataTypes.INT()),
                                        DataTypes.FIELD("y", DataTypes.STRING())))
                        .columnByExpression("pt", "PROCTIME()")
                        .build());
        String[][] q = {{"group-aggregate",
                                "SELECT k, COUNT(*) c, SUM(`dec`) sd, MAX(ts) mt, MIN(vc) mv, AVG(d) ad, "
                                + "COUNT(DISTINCT vc) cd, LAST_VALUE(i) lv, MAX(flag) mf FROM t GROUP BY k"},
                {"join",
                        "SELECT a.id, b.id, a.k, a.tags, a.props, a.sub, b.`dec`, b.ts FROM (SELECT * FROM t WHERE "
                        + "MOD(id, 2) = 0) a JOIN (SELECT * FROM t WHERE id < 60) b ON a.k = b.k"},
                {"top-n",
                        "SELECT k, d, id FROM (SELECT k, d, id, ROW_NUMBER() OVER (PARTITION BY k ORDER BY d DESC, id "
                        + "ASC) rn FROM t) WHERE rn <= 2"},
                {"dedup-first",
                        "SELECT k, id FROM (SELECT k, id, ROW_NUMBER() OVER (PARTITION BY k ORDER BY pt ASC) rn FROM "
                        + "t) WHERE rn = 1"},
                {"dedup-last",
                        "SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY pt DESC) rn FROM t) WHERE "
                        + "rn = 1"}};
        for (String[] x : q)
            t.toChangelogStream(t.sqlQuery(x[1]));

        List<Object> ops = new ArrayList<>(), in = new ArrayList<>(), agg = new ArrayList<>(), top = new ArrayList<>(),
                     first = new ArrayList<>(), last = new ArrayList<>();
        for (long n = 0; n < ROWS; n++)
            in.add(named(row(n)));
        for (int k = 0; k < KEYS; k++) {
            List<Row> g = new ArrayList<>();
            for (long n = k; n < ROWS; n += KEYS)
                g.add(row(n));
            BigDecimal sd = null;
            LocalDateTime mt = null;
            String mv = null;
            Double sumd = null;
            long nd = 0;
            Object lv = null;
            Boolean mf = null;
            Set<String> vcs = new TreeSet<>();
            for (Row r : g) {
                if (r.getField(2) != null)
                    sd = sd == null ? (BigDecimal) r.getField(2) : sd.add((BigDecimal) r.getField(2));
                if (r.getField(3) != null && (mt == null || mt.compareTo((LocalDateTime) r.getField(3)) < 0))
                    mt = (LocalDateTime) r.getField(3);
                if (r.getField(4) != null) {
                    vcs.add((String) r.getField(4));
                    if (mv == null || mv.compareTo((String) r.getField(4)) > 0)
                        mv = (String) r.getField(4);
                }
                if (r.getField(5) != null) {
                    sumd = (sumd == null ? 0 : sumd) + (Double) r.getField(5);
                    nd++;
                }
                if (r.getField(6) != null)
                    lv = r.getField(6);
                if (r.getField(7) != null)
                    mf = mf == null ? (Boolean) r.getField(7) : (Boolean) (mf || (Boolean) r.getField(7));
            }
            agg.add(Specs.obj("k", "k" + k, "count", g.size(), "sumDec", Specs.enc(sd), "maxTs", Specs.enc(mt), "minVc",
                    mv, "sumD", sumd, "countD", nd, "distinctVc", new ArrayList<>(vcs), "lastI", lv, "maxFlag", mf));
            first.add(Arrays.asList("k" + k, g.get(0).getField(0)));
            last.add(named(g.get(g.size() - 1)));
            // DESC puts nulls last
            g.sort((x, y) -> {
                Double p = (Double) x.getField(5), r = (Double) y.getField(5);
                int c = p == null ? (r == null ? 0 : 1) : r == null ? -1 : r.compareTo(p);
                return c != 0 ? c : ((Long) x.getField(0)).compareTo((Long) y.getField(0));
            });
            for (int x = 0; x < Math.min(2, g.size()); x++)
                top.add(Arrays.asList("k" + k, Specs.enc(g.get(x).getField(5)), g.get(x).getField(0)));
        }
        List<Object> left = new ArrayList<>(), right = new ArrayList<>();
        for (long n = 0; n < ROWS; n++) {
            if (n % 2 == 0)
                left.add(n);
            if (n < 60)
                right.add(n);
        }
        ops.add(Specs.obj("kind", "sql", "columns", Arrays.asList(NAMES), "queries", Arrays.asList(q), "rows", in,
                "group-aggregate", agg, "join-left-ids", left, "join-right-ids", right, "top-n", top, "dedup-first",
                first, "dedup-last", last));
        return ops;
    }

    static Object named(Row r) {
        Map<String, Object> m = new LinkedHashMap<>();
        for (int i = 0; i < NAMES.length; i++)
            m.put(NAMES[i], Specs.enc(r.getField(i)));
        return m;
    }
}
