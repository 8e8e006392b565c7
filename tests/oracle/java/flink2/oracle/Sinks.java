package oracle;

import java.nio.charset.StandardCharsets;
import java.util.Collection;
import java.util.List;
import org.apache.flink.api.connector.sink2.Committer;
import org.apache.flink.api.connector.sink2.CommitterInitContext;
import org.apache.flink.api.connector.sink2.CommittingSinkWriter;
import org.apache.flink.api.connector.sink2.Sink;
import org.apache.flink.api.connector.sink2.SinkWriter;
import org.apache.flink.api.connector.sink2.SupportsCommitter;
import org.apache.flink.api.connector.sink2.WriterInitContext;
import org.apache.flink.core.io.SimpleVersionedSerializer;

/** Sinks that write nothing; one of them commits what it restores. */
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
            return new Writer();
        }
    }

    private static final class Writer implements CommittingSinkWriter<Integer, String> {
        @Override
        public void write(Integer value, Context context) {}

        @Override
        public void flush(boolean endOfInput) {}

        @Override
        public Collection<String> prepareCommit() {
            return List.of();
        }

        @Override
        public void close() {}
    }

    private static final class Committing extends Plain implements SupportsCommitter<String> {
        @Override
        public Committer<String> createCommitter(CommitterInitContext context) {
            return new Uncommitted.Commit();
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
