package oracle;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Method;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.sql.Timestamp;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.util.ArrayList;
import java.util.Date;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.api.common.typeutils.TypeSerializerSchemaCompatibility;
import org.apache.flink.api.common.typeutils.TypeSerializerSnapshot;
import org.apache.flink.core.memory.DataInputDeserializer;
import org.apache.flink.core.memory.DataOutputSerializer;
import org.apache.flink.runtime.state.KeyGroupRangeAssignment;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;

/**
 * Answers questions, one JSON object per line, one line each:
 *
 * <pre>
 * {"type": "LONG", "value": 7, "maxParallelism": 128}            hash, keyGroup, text of a basic value
 * {"snapshot": hex, "values": [hex, ...], "maxParallelism": 128}   what Flink reads with that serializer, and writes again
 * {"old": hex, "new": hex}                                       whether a serializer can take over from an old snapshot
 * </pre>
 *
 * A snapshot is as in a state's meta info: the int 2, class name, version, body. {@code error} says why there is no
 * answer.
 */
public final class Ask {
    /** As in Flink's TypeSerializerSnapshotSerializationUtil, whose methods differ between versions. */
    private static final int ENVELOPE_VERSION = 2;

    private static final ClassLoader LOADER = Ask.class.getClassLoader();

    /** Restoring some serializers takes long, and one is asked about many times. */
    private final Map<String, TypeSerializer<Object>> restored = new HashMap<>();

    private Ask() {}

    public static void main(String[] arguments) throws IOException {
        Ask oracle = new Ask();
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            out.println(Json.MAPPER.writeValueAsString(oracle.answer(line)));
        }
    }

    private Map<String, Object> answer(String line) {
        try {
            JsonNode question = Json.MAPPER.readTree(line);
            int maxParallelism = question.path("maxParallelism").asInt(128);
            if (question.has("old")) {
                return Json.object("compatibility", compatibility(question.get("old").asText(), question.get("new").asText()));
            }
            return question.has("type")
                    ? facts(basic(question.get("type").asText(), question.get("value")), maxParallelism)
                    : throughSerializer(question, maxParallelism);
        } catch (Exception | LinkageError | StackOverflowError | OutOfMemoryError e) {
            return Json.object("error", causes(e));
        }
    }

    private static String causes(Throwable thrown) {
        StringBuilder text = new StringBuilder();
        for (Throwable cause = thrown; cause != null; cause = cause.getCause()) {
            text.append(text.length() == 0 ? "" : "; caused by ").append(cause);
        }
        return text.toString();
    }

    private static Map<String, Object> facts(Object value, int maxParallelism) {
        return Json.object(
                "text", String.valueOf(value),
                "json", Json.of(value),
                "hash", value == null ? 0 : value.hashCode(),
                "keyGroup", value == null ? null : KeyGroupRangeAssignment.assignToKeyGroup(value, maxParallelism));
    }

    // ------------------------------------------------------------------------------------------ serializers

    private Map<String, Object> throughSerializer(JsonNode question, int maxParallelism) throws IOException {
        TypeSerializer<Object> serializer = restore(question.get("snapshot").asText());
        DataOutputSerializer snapshot = new DataOutputSerializer(256);
        snapshot.writeInt(ENVELOPE_VERSION);
        TypeSerializerSnapshot.writeVersionedSnapshot(snapshot, serializer.snapshotConfiguration());
        List<Object> values = new ArrayList<>();
        for (JsonNode hex : question.path("values")) {
            values.add(readAndWrite(serializer, HexFormat.of().parseHex(hex.asText()), maxParallelism));
        }
        return Json.object("snapshot", hex(snapshot), "serializer", serializer.getClass().getName(), "values", values);
    }

    private TypeSerializer<Object> restore(String hex) throws IOException {
        TypeSerializer<Object> known = restored.get(hex);
        if (known == null) {
            known = snapshot(hex).restoreSerializer();
            restored.put(hex, known);
        }
        return known;
    }

    private static TypeSerializerSnapshot<Object> snapshot(String hex) throws IOException {
        DataInputDeserializer input = new DataInputDeserializer(HexFormat.of().parseHex(hex));
        if (input.readInt() != ENVELOPE_VERSION) {
            throw new IOException("a serializer snapshot starts with the int " + ENVELOPE_VERSION);
        }
        TypeSerializerSnapshot<Object> snapshot = TypeSerializerSnapshot.readVersionedSnapshot(input, LOADER);
        requireEnd(input, "serializer snapshot");
        return snapshot;
    }

    /** Since Flink 1.19 the new snapshot is asked about the old one, before it was the other way round. */
    private String compatibility(String old, String next) throws IOException, ReflectiveOperationException {
        TypeSerializer<Object> serializer = restore(next);
        TypeSerializerSnapshot<Object> snapshot = snapshot(old);
        Object found;
        try {
            Method method = TypeSerializerSnapshot.class.getMethod("resolveSchemaCompatibility", TypeSerializerSnapshot.class);
            found = method.invoke(serializer.snapshotConfiguration(), snapshot);
        } catch (NoSuchMethodException e) {
            Method method = TypeSerializerSnapshot.class.getMethod("resolveSchemaCompatibility", TypeSerializer.class);
            found = method.invoke(snapshot, serializer);
        }
        TypeSerializerSchemaCompatibility<?> result = (TypeSerializerSchemaCompatibility<?>) found;
        return result.isCompatibleAsIs() ? "as is"
                : result.isCompatibleAfterMigration() ? "after migration"
                : result.isCompatibleWithReconfiguredSerializer() ? "reconfigured"
                : "incompatible";
    }

    private static Map<String, Object> readAndWrite(
            TypeSerializer<Object> serializer, byte[] bytes, int maxParallelism) throws IOException {
        DataInputDeserializer input = new DataInputDeserializer(bytes);
        Object value = serializer.deserialize(input);
        requireEnd(input, "value");
        DataOutputSerializer again = new DataOutputSerializer(bytes.length + 1);
        serializer.serialize(value, again);
        Map<String, Object> facts = facts(value, maxParallelism);
        facts.put("again", hex(again));
        return facts;
    }

    private static void requireEnd(DataInputDeserializer input, String what) throws IOException {
        if (input.available() > 0) {
            throw new IOException("Flink leaves " + input.available() + " bytes of the " + what + " unread");
        }
    }

    private static String hex(DataOutputSerializer output) {
        return HexFormat.of().formatHex(output.getCopyOfBuffer());
    }

    // ------------------------------------------------------------------------------------------ basic values

    /** Times as ISO texts, dates as milliseconds, numbers as numbers or texts. */
    private static Object basic(String type, JsonNode value) {
        return switch (type) {
            case "LONG" -> Long.valueOf(value.asText());
            case "INT" -> Integer.valueOf(value.asText());
            case "SHORT" -> Short.valueOf(value.asText());
            case "BYTE" -> Byte.valueOf(value.asText());
            case "BOOLEAN" -> value.asBoolean();
            case "DOUBLE" -> Double.valueOf(value.asText());
            case "FLOAT" -> Float.valueOf(value.asText());
            case "CHAR" -> value.asText().charAt(0);
            case "STRING" -> value.asText();
            case "BIG_DEC" -> new BigDecimal(value.asText());
            case "BIG_INT" -> new BigInteger(value.asText());
            case "DATE" -> new Date(value.asLong());
            case "SQL_DATE" -> new java.sql.Date(value.asLong());
            case "SQL_TIME" -> new java.sql.Time(value.asLong());
            case "SQL_TIMESTAMP" -> Timestamp.valueOf(value.asText());
            case "LOCAL_DATE" -> LocalDate.parse(value.asText());
            case "LOCAL_TIME" -> LocalTime.parse(value.asText());
            case "LOCAL_DATE_TIME" -> LocalDateTime.parse(value.asText());
            case "INSTANT" -> Instant.parse(value.asText());
            default -> throw new IllegalArgumentException("not a basic type: " + type);
        };
    }
}
