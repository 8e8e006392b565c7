package oracle;

import java.util.Map;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.apache.flink.api.common.typeinfo.BasicArrayTypeInfo;
import org.apache.flink.api.common.typeinfo.PrimitiveArrayTypeInfo;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.typeutils.EitherTypeInfo;
import org.apache.flink.api.java.typeutils.EnumTypeInfo;
import org.apache.flink.api.java.typeutils.GenericTypeInfo;
import org.apache.flink.api.java.typeutils.ListTypeInfo;
import org.apache.flink.api.java.typeutils.MapTypeInfo;
import org.apache.flink.api.java.typeutils.ObjectArrayTypeInfo;
import org.apache.flink.api.java.typeutils.PojoTypeInfo;
import org.apache.flink.api.java.typeutils.RowTypeInfo;
import org.apache.flink.api.java.typeutils.TupleTypeInfo;
import org.apache.flink.api.common.typeinfo.BasicTypeInfo;

/** Flink's types as one writes them: {@code MAP<STRING,LIST<LONG>>}. */
final class Notation {
    private static final Map<TypeInformation<?>, String> NAMED = Map.ofEntries(
            Map.entry(Types.LONG, "LONG"),
            Map.entry(Types.INT, "INT"),
            Map.entry(Types.SHORT, "SHORT"),
            Map.entry(Types.BYTE, "BYTE"),
            Map.entry(Types.BOOLEAN, "BOOLEAN"),
            Map.entry(Types.DOUBLE, "DOUBLE"),
            Map.entry(Types.FLOAT, "FLOAT"),
            Map.entry(Types.CHAR, "CHAR"),
            Map.entry(Types.STRING, "STRING"),
            Map.entry(Types.VOID, "VOID"),
            Map.entry(Types.BIG_DEC, "BIG_DEC"),
            Map.entry(Types.BIG_INT, "BIG_INT"),
            Map.entry(BasicTypeInfo.DATE_TYPE_INFO, "DATE"),
            Map.entry(Types.SQL_DATE, "SQL_DATE"),
            Map.entry(Types.SQL_TIME, "SQL_TIME"),
            Map.entry(Types.SQL_TIMESTAMP, "SQL_TIMESTAMP"),
            Map.entry(Types.LOCAL_DATE, "LOCAL_DATE"),
            Map.entry(Types.LOCAL_TIME, "LOCAL_TIME"),
            Map.entry(Types.LOCAL_DATE_TIME, "LOCAL_DATE_TIME"),
            Map.entry(Types.INSTANT, "INSTANT"));

    private Notation() {}

    static TypeInformation<?> basic(String name) {
        return NAMED.entrySet().stream()
                .filter(entry -> entry.getValue().equals(name))
                .findFirst()
                .orElseThrow(() -> new IllegalArgumentException("not a basic type: " + name))
                .getKey();
    }

    static String of(TypeInformation<?> type) {
        if (NAMED.containsKey(type)) {
            return NAMED.get(type);
        }
        if (type instanceof PrimitiveArrayTypeInfo<?> array) {
            return call("PRIM", array.getComponentType());
        }
        if (type instanceof BasicArrayTypeInfo<?, ?> array) {
            return call("BASIC_ARRAY", array.getComponentInfo());
        }
        if (type instanceof ObjectArrayTypeInfo<?, ?> array) {
            return call("ARRAY", array.getComponentInfo());
        }
        if (type instanceof RowTypeInfo row) {
            return "ROW<" + IntStream.range(0, row.getArity())
                    .mapToObj(i -> row.getFieldNames()[i] + " " + of(row.getTypeAt(i)))
                    .collect(Collectors.joining(",")) + ">";
        }
        if (type instanceof TupleTypeInfo<?> tuple) {
            return call("TUPLE", tuple.getFieldTypes());
        }
        if (type instanceof ListTypeInfo<?> list) {
            return call("LIST", list.getElementTypeInfo());
        }
        if (type instanceof MapTypeInfo<?, ?> map) {
            return call("MAP", map.getKeyTypeInfo(), map.getValueTypeInfo());
        }
        if (type instanceof EitherTypeInfo<?, ?> either) {
            return call("EITHER", either.getLeftType(), either.getRightType());
        }
        return ofClass(type);
    }

    private static String ofClass(TypeInformation<?> type) {
        String name = type.getTypeClass().getName();
        if (type instanceof PojoTypeInfo<?>) {
            return "POJO<" + name + ">";
        }
        if (type instanceof EnumTypeInfo<?>) {
            return "ENUM<" + name + ">";
        }
        if (type instanceof GenericTypeInfo<?>) {
            return "KRYO<" + name + ">";
        }
        String special = Compat.notation(type);
        if (special == null) {
            throw new IllegalArgumentException("no notation for " + type);
        }
        return special;
    }

    private static String call(String name, TypeInformation<?>... parts) {
        return name + Stream.of(parts).map(Notation::of).collect(Collectors.joining(",", "<", ">"));
    }
}
