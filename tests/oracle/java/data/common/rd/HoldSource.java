package rd;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.*;
import java.util.concurrent.*;
import org.apache.flink.api.connector.source.*;
import org.apache.flink.core.io.InputStatus;
import org.apache.flink.core.io.SimpleVersionedSerializer;

/** Emits 0..count-1 once, from one reader, and then stays open without a word. */
public class HoldSource implements Source<Long, HoldSource.Split, Integer> {
    private final String name;
    private final long count;

    public HoldSource(String name, long count) {
        this.name = name;
        this.count = count;
        H.latch(name);
    }

    public static class Split implements SourceSplit, java.io.Serializable {
        long next;

        Split(long n) {
            next = n;
        }

        @Override
        public String splitId() {
            return "the-split";
        }
    }

    @Override
    public Boundedness getBoundedness() {
        return Boundedness.CONTINUOUS_UNBOUNDED;
    }

    @Override
    public SourceReader<Long, Split> createReader(SourceReaderContext c) {
        return new Reader();
    }

    @Override
    public SplitEnumerator<Split, Integer> createEnumerator(SplitEnumeratorContext<Split> c) {
        return new Enum(c, 0);
    }

    @Override
    public SplitEnumerator<Split, Integer> restoreEnumerator(SplitEnumeratorContext<Split> c, Integer s) {
        return new Enum(c, s);
    }

    @Override
    public SimpleVersionedSerializer<Split> getSplitSerializer() {
        return new SimpleVersionedSerializer<Split>() {
            @Override
            public int getVersion() {
                return 1;
            }
            @Override
            public byte[] serialize(Split s) {
                return ByteBuffer.allocate(8).putLong(s.next).array();
            }
            @Override
            public Split deserialize(int v, byte[] b) {
                return new Split(ByteBuffer.wrap(b).getLong());
            }
        };
    }

    @Override
    public SimpleVersionedSerializer<Integer> getEnumeratorCheckpointSerializer() {
        return new SimpleVersionedSerializer<Integer>() {
            @Override
            public int getVersion() {
                return 3;
            }
            @Override
            public byte[] serialize(Integer s) {
                return ByteBuffer.allocate(4).putInt(s).array();
            }
            @Override
            public Integer deserialize(int v, byte[] b) {
                return ByteBuffer.wrap(b).getInt();
            }
        };
    }

    private static class Enum implements SplitEnumerator<Split, Integer> {
        private final SplitEnumeratorContext<Split> ctx;
        private int assigned;

        Enum(SplitEnumeratorContext<Split> c, int assigned) {
            ctx = c;
            this.assigned = assigned;
        }

        @Override
        public void start() {}

        @Override
        public void handleSplitRequest(int sub, String host) {}

        @Override
        public void addSplitsBack(List<Split> l, int sub) {
            assigned = 0;
        }

        @Override
        public void addReader(int sub) {
            if (assigned == 0) {
                assigned = 1;
                ctx.assignSplit(new Split(0), sub);
            }
        }

        @Override
        public Integer snapshotState(long id) {
            return assigned;
        }

        @Override
        public void close() throws IOException {}
    }

    private class Reader implements SourceReader<Long, Split> {
        private final List<Split> splits = new ArrayList<>();
        private CompletableFuture<Void> ready = new CompletableFuture<>();

        @Override
        public void start() {}

        @Override
        public InputStatus pollNext(ReaderOutput<Long> out) {
            for (Split s : splits)
                if (s.next < count) {
                    out.collect(s.next++);
                    return InputStatus.MORE_AVAILABLE;
                }
            if (!splits.isEmpty())
                H.latch(name).countDown();
            ready = new CompletableFuture<>();
            return InputStatus.NOTHING_AVAILABLE;
        }

        @Override
        public List<Split> snapshotState(long id) {
            return new ArrayList<>(splits);
        }

        @Override
        public CompletableFuture<Void> isAvailable() {
            return ready;
        }

        @Override
        public void addSplits(List<Split> l) {
            splits.addAll(l);
            ready.complete(null);
        }

        @Override
        public void notifyNoMoreSplits() {}

        @Override
        public void close() {}
    }
}
