package oracle;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.api.common.typeutils.TypeSerializerSnapshot;
import org.apache.flink.core.memory.DataInputDeserializer;
import org.apache.flink.core.memory.DataOutputSerializer;

/**
 * Measures how long Flink takes to read and to write values: {@code FILE COUNT}. Each line of the file is a name, a serializer's
 * snapshot and values, of which {@code COUNT} are read again and again, and their objects written; the answer has the name and
 * the nanoseconds of the thread for a value read and one written, the least of five.
 */
public final class ReadKryo {
    private static final int ROUNDS = 5;

    private ReadKryo() {}

    public static void main(String[] arguments) throws Exception {
        int count = Integer.parseInt(arguments[1]);
        for (String line : Files.readAllLines(Path.of(arguments[0]))) {
            String[] parts = line.split("\t");
            try {
                System.out.println(parts[0] + "\t" + measured(parts, count));
            } catch (Exception | LinkageError failure) {
                System.out.println(parts[0] + "\t!" + failure.getClass().getSimpleName());
            }
        }
    }

    private static String measured(String[] parts, int count) throws Exception {
        HexFormat hex = HexFormat.of();
        TypeSerializerSnapshot<?> snapshot = TypeSerializerSnapshot.readVersionedSnapshot(
                new DataInputDeserializer(hex.parseHex(parts[1])), ReadKryo.class.getClassLoader());
        @SuppressWarnings("unchecked")
        TypeSerializer<Object> serializer = (TypeSerializer<Object>) snapshot.restoreSerializer();
        List<byte[]> values = new ArrayList<>();
        List<Object> objects = new ArrayList<>();
        for (int i = 2; i < parts.length; i++) {
            values.add(hex.parseHex(parts[i]));
            objects.add(serializer.deserialize(new DataInputDeserializer(values.get(i - 2))));
        }
        DataInputDeserializer input = new DataInputDeserializer();
        long read = least(count, i -> {
            input.setBuffer(values.get(i % values.size()));
            return serializer.deserialize(input);
        });
        DataOutputSerializer output = new DataOutputSerializer(1 << 16);
        long written = least(count, i -> {
            output.clear();
            serializer.serialize(objects.get(i % objects.size()), output);
            return output;
        });
        return read + "\t" + written;
    }

    private interface Work {
        Object of(int number) throws Exception;
    }

    private static long least(int count, Work work) throws Exception {
        var clock = java.lang.management.ManagementFactory.getThreadMXBean();
        long least = Long.MAX_VALUE;
        int seen = 0;
        for (int round = 0; round < ROUNDS; round++) {
            long start = clock.getCurrentThreadCpuTime();
            for (int i = 0; i < count; i++) {
                seen += work.of(i) == null ? 0 : 1;
            }
            least = Math.min(least, clock.getCurrentThreadCpuTime() - start);
        }
        if (seen < 0) {
            throw new IllegalStateException();
        }
        return least / count;
    }
}
