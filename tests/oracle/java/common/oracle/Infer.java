package oracle;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.lang.reflect.Type;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import java.util.Map;
import java.util.TreeMap;
import org.apache.flink.api.common.ExecutionConfig;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeutils.TypeSerializerSnapshot;
import org.apache.flink.api.java.typeutils.TypeExtractor;
import org.apache.flink.core.memory.DataOutputSerializer;

/**
 * What Flink infers: for every name of a class on a line of its input, one line {@code {"name": answer}}, where an answer
 * is the snapshot of the serializer as hex, or {@code error: why}. Of {@code CLASS#} the fields are asked about, one by
 * one, with their generics.
 */
public final class Infer {
    private Infer() {}

    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            Map<String, Object> answers = new TreeMap<>();
            if (line.endsWith("#")) {
                for (Field field : Class.forName(line.substring(0, line.length() - 1)).getDeclaredFields()) {
                    answers.put(line + field.getName(), snapshot(field.getGenericType()));
                }
            } else {
                answers.put(line, snapshot(Class.forName(line)));
            }
            out.println(Json.MAPPER.writeValueAsString(answers));
        }
    }

    private static String snapshot(Type type) throws IOException {
        try {
            TypeInformation<?> found =
                    type instanceof Class<?> known ? TypeInformation.of(known) : TypeExtractor.createTypeInfo(type);
            DataOutputSerializer output = new DataOutputSerializer(256);
            TypeSerializerSnapshot.writeVersionedSnapshot(
                    output, Compat.serializer(found, new ExecutionConfig()).snapshotConfiguration());
            return HexFormat.of().formatHex(output.getCopyOfBuffer());
        } catch (RuntimeException | StackOverflowError e) {
            return "error: " + e;
        }
    }
}
