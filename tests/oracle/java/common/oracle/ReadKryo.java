package oracle;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.api.common.typeutils.TypeSerializerSnapshot;
import org.apache.flink.core.memory.DataInputDeserializer;

/**
 * Measures how long Flink takes to read values: {@code FILE COUNT}. Each line of the file is a name, a serializer's snapshot and
 * values, of which {@code COUNT} are read again and again; the answer has the name and the nanoseconds of the thread for a value,
 * the least of five.
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

    private static long measured(String[] parts, int count) throws Exception {
        HexFormat hex = HexFormat.of();
        TypeSerializerSnapshot<?> snapshot = TypeSerializerSnapshot.readVersionedSnapshot(
                new DataInputDeserializer(hex.parseHex(parts[1])), ReadKryo.class.getClassLoader());
        TypeSerializer<?> serializer = snapshot.restoreSerializer();
        List<byte[]> values = new ArrayList<>();
        for (int i = 2; i < parts.length; i++) {
            values.add(hex.parseHex(parts[i]));
        }
        var clock = java.lang.management.ManagementFactory.getThreadMXBean();
        DataInputDeserializer input = new DataInputDeserializer();
        long least = Long.MAX_VALUE;
        int seen = 0;
        for (int round = 0; round < ROUNDS; round++) {
            long start = clock.getCurrentThreadCpuTime();
            for (int i = 0; i < count; i++) {
                byte[] value = values.get(i % values.size());
                input.setBuffer(value);
                seen += serializer.deserialize(input) == null ? 0 : 1;
            }
            least = Math.min(least, clock.getCurrentThreadCpuTime() - start);
        }
        if (seen < 0) {
            throw new IllegalStateException();
        }
        return least / count;
    }
}
