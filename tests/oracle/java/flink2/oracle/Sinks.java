package oracle;

import java.nio.charset.StandardCharsets;
import org.apache.flink.api.connector.sink2.Committer;
import org.apache.flink.api.connector.sink2.CommitterInitContext;
import org.apache.flink.api.connector.sink2.Sink;
import org.apache.flink.api.connector.sink2.SinkWriter;
import org.apache.flink.api.connector.sink2.SupportsCommitter;
import org.apache.flink.api.connector.sink2.WriterInitContext;
import org.apache.flink.core.io.SimpleVersionedSerializer;

/** Sinks for the shape of a job; they are never run. */
final class Sinks {
    private Sinks() {}

    static Sink<Integer> plain() {
        return new Plain();
    }

    static Sink<Integer> committing() {
        return new Committing();
    }

    private static class Plain implements Sink<Integer> {
        @Override
        public SinkWriter<Integer> createWriter(WriterInitContext context) {
            throw new UnsupportedOperationException();
        }
    }

    private static final class Committing extends Plain implements SupportsCommitter<String> {
        @Override
        public Committer<String> createCommitter(CommitterInitContext context) {
            throw new UnsupportedOperationException();
        }

        @Override
        public SimpleVersionedSerializer<String> getCommittableSerializer() {
            return new Texts();
        }
    }

    private static final class Texts implements SimpleVersionedSerializer<String> {
        @Override
        public int getVersion() {
            return 1;
        }

        @Override
        public byte[] serialize(String text) {
            return text.getBytes(StandardCharsets.UTF_8);
        }

        @Override
        public String deserialize(int version, byte[] bytes) {
            return new String(bytes, StandardCharsets.UTF_8);
        }
    }
}
