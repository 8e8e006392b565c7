package connlab;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.*;
import org.apache.flink.api.connector.sink2.*;
import org.apache.flink.core.io.SimpleVersionedSerializer;

/** A sink with writer state and a committer. Its own bytes are UTF-8 text, so that only the frames are Flink's. */
public final class Sinks {
    private Sinks() {}

    public static final class Text implements SimpleVersionedSerializer<String> {
        private final int version;

        public Text(int version) {
            this.version = version;
        }

        @Override
        public int getVersion() {
            return version;
        }

        @Override
        public byte[] serialize(String s) {
            return s.getBytes(StandardCharsets.UTF_8);
        }

        @Override
        public String deserialize(int v, byte[] b) {
            return new String(b, StandardCharsets.UTF_8);
        }
    }

    /** Writer state "writer:SUM" per subtask; every checkpoint hands "txn-FIRST..LAST" to the committer. */
    public static final class Writer implements StatefulSinkWriter<Long, String>, CommittingSinkWriter<Long, String> {
        private long sum;
        private final TreeSet<Long> open = new TreeSet<>();

        public Writer(Collection<String> restored) {
            for (String s : restored) {
                Emitted.ALL.add("restored " + s);
                sum += Long.parseLong(s.substring("writer:".length()));
            }
        }

        @Override
        public void write(Long v, Context c) {
            sum += v;
            open.add(v);
        }

        @Override
        public void flush(boolean end) {}

        @Override
        public Collection<String> prepareCommit() {
            List<String> l = new ArrayList<>();
            for (Long v : open)
                if (l.size() < 3)
                    l.add("txn-" + v);
            open.clear();
            return l;
        }

        @Override
        public List<String> snapshotState(long checkpoint) {
            return Collections.singletonList("writer:" + sum);
        }

        @Override
        public void close() {}
    }

    /** Says what it commits. */
    public static final class Commit implements Committer<String> {
        @Override
        public void commit(Collection<CommitRequest<String>> requests) throws IOException {
            for (CommitRequest<String> r : requests)
                Emitted.ALL.add("commit " + r.getCommittable() + " retries=" + r.getNumberOfRetries());
        }

        @Override
        public void close() {}
    }
}
