package oracle;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.sql.Timestamp;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Date;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.function.IntFunction;
import java.util.stream.IntStream;
import org.apache.flink.api.common.typeinfo.BasicTypeInfo;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple1;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.api.java.tuple.Tuple3;
import org.apache.flink.types.Either;
import org.apache.flink.types.Row;
import org.apache.flink.types.RowKind;

/** A keyed operator for every type that can be a key, to see where Java's hash codes put each of them. */
final class KeysJob extends TableJob {
    /** From one to three and four units of the length prefix, all sizes of UTF-16 units, and pairs of them. */
    static final List<String> STRINGS = List.of(
            "", "a", "\0", "\u007f", "\u0080", "\u00e9", "\u07ff", "\u0800", "\u3fff", "\u4000", "\u7fff", "\u8000",
            "\ud7ff", "\ue000", "\uffff", "\ud83d\ude00", "a\ud83d\ude00z", "\udbff\udfff", "line\nbreak\ttab", "\"\\/",
            "x".repeat(126), "x".repeat(127), "x".repeat(128), "\u4e2d".repeat(200), "long ".repeat(3300));

    @Override
    void define() {
        addBasic();
        addBig();
        addTimes();
        addComposite();
    }

    private <K> void add(String uid, TypeInformation<K> type, List<? extends K> keys) {
        table(uid, type, keys).value("index", Types.INT, i -> i);
    }

    private <K> void add(String uid, TypeInformation<K> type, IntFunction<K> keys) {
        add(uid, type, IntStream.range(0, 20).mapToObj(keys).toList());
    }

    private void addBasic() {
        add("string", Types.STRING, STRINGS);
        add("boolean", Types.BOOLEAN, List.of(true, false));
        add("byte", Types.BYTE, i -> (byte) (i * 13 - 128));
        add("short", Types.SHORT, i -> (short) (i * 3333 - 32768));
        add("int", Types.INT, i -> i == 0 ? Integer.MIN_VALUE : i == 1 ? Integer.MAX_VALUE : (i - 9) * 123_456_789);
        add("long", Types.LONG, i -> i == 0 ? Long.MIN_VALUE : i == 1 ? Long.MAX_VALUE : (i - 9) * 1_234_567_890_123L);
        add("char", Types.CHAR, List.of('\0', 'a', '\u00e9', '\u4e2d', '\ud83d', '\uffff'));
        add("float", Types.FLOAT, List.of(0f, -0f, 1.5f, -2.25e10f, Float.MIN_VALUE, Float.MAX_VALUE, Float.NaN,
                Float.POSITIVE_INFINITY, Float.NEGATIVE_INFINITY));
        add("double", Types.DOUBLE, List.of(0d, -0d, 1.5, -2.25e200, Double.MIN_VALUE, Double.MAX_VALUE, Double.NaN,
                Double.POSITIVE_INFINITY, Double.NEGATIVE_INFINITY));
    }

    private void addBig() {
        add("big-decimal", Types.BIG_DEC, List.of(BigDecimal.ZERO, BigDecimal.ONE, BigDecimal.TEN,
                new BigDecimal("0.00"), new BigDecimal("1.0"), new BigDecimal("-1.00"), new BigDecimal("1E+3"),
                new BigDecimal("123456789012345678901234567890.123456789"), new BigDecimal("-0.000001")));
        add("big-integer", Types.BIG_INT, List.of(BigInteger.ZERO, BigInteger.ONE, BigInteger.TEN,
                BigInteger.ONE.negate(), BigInteger.TWO.pow(31), BigInteger.TWO.pow(32).negate(),
                BigInteger.TWO.pow(64), BigInteger.TEN.pow(50).negate()));
    }

    private void addTimes() {
        add("date", BasicTypeInfo.DATE_TYPE_INFO, i -> new Date((i - 5) * 123_456_789_012L));
        add("sql-date", Types.SQL_DATE, i -> new java.sql.Date((i - 5) * 86_400_000L * 321));
        add("sql-time", Types.SQL_TIME, i -> new java.sql.Time(i * 3_600_001L));
        add("sql-timestamp", Types.SQL_TIMESTAMP, i -> {
            Timestamp timestamp = new Timestamp((i - 5) * 123_456_789_000L);
            timestamp.setNanos(i * 12_345_678);
            return timestamp;
        });
        add("local-date", Types.LOCAL_DATE, i -> LocalDate.of(1850 + i * 17, 1 + i % 12, 1 + i));
        add("local-time", Types.LOCAL_TIME, i -> LocalTime.ofNanoOfDay(i * 4_321_098_765_432L));
        add("local-date-time", Types.LOCAL_DATE_TIME, i -> LocalDateTime.of(1900 + i * 9, 1 + i % 12, 28, i, i, i, i));
        add("instant", Types.INSTANT, i -> Instant.ofEpochSecond((i - 5) * 987_654_321L, i * 49_999_999));
    }

    private void addComposite() {
        add("tuple1", Types.TUPLE(Types.LONG), i -> Tuple1.of((long) -i));
        add("tuple-nested",
                Types.TUPLE(Types.STRING, Types.TUPLE(Types.LONG, Types.DOUBLE), Types.LOCAL_DATE),
                i -> Tuple3.of(STRINGS.get(i), Tuple2.of(i - 3L, i / 4d), LocalDate.ofEpochDay(i * 1000L)));
        add("row",
                Types.ROW_NAMED(new String[] {"name", "number", "inner"}, Types.STRING, Types.INT,
                        Types.ROW(Types.BOOLEAN, Types.LONG)),
                i -> Row.ofKind(RowKind.values()[i % 4], i % 3 == 0 ? null : "r" + i, i % 4 == 0 ? null : i,
                        i % 5 == 0 ? null : Row.of(i % 2 == 0, (long) i << 33)));
        add("pojo", Types.POJO(Model.Code.class), i -> new Model.Code(i % 4 == 0 ? null : "c" + i % 3, i));
        add("either", Types.EITHER(Types.STRING, Types.LONG),
                i -> i % 2 == 0 ? Either.Left("left" + i) : Either.Right((long) i));
        add("list", Types.LIST(Types.STRING), i -> new ArrayList<>(STRINGS.subList(0, i)));
        add("map", Types.MAP(Types.STRING, Types.INT), i -> Map.of("a", i, "b", i * i, "c", -i));
        TypeInformation<Model.Point> point = TypeInformation.of(Model.Point.class);
        if (Notation.of(point).startsWith("POJO")) {
            add("record", point, i -> new Model.Point(i, i % 3 == 0 ? null : -1L - i, i % 4 == 0 ? null : "p" + i));
        }
        Optional<TypeInformation<Set<Integer>>> set = Compat.setOf(Types.INT);
        set.ifPresent(type -> add("set", type, i -> Set.copyOf(Arrays.asList(i, i * i, -i))));
    }
}
