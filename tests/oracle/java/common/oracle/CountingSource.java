package oracle;

import java.nio.ByteBuffer;
import java.util.ArrayDeque;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import org.apache.flink.api.common.eventtime.Watermark;
import org.apache.flink.api.connector.source.Boundedness;
import org.apache.flink.api.connector.source.ReaderOutput;
import org.apache.flink.api.connector.source.Source;
import org.apache.flink.api.connector.source.SourceReader;
import org.apache.flink.api.connector.source.SourceReaderContext;
import org.apache.flink.api.connector.source.SourceSplit;
import org.apache.flink.api.connector.source.SplitEnumerator;
import org.apache.flink.api.connector.source.SplitEnumeratorContext;
import org.apache.flink.core.io.InputStatus;
import org.apache.flink.core.io.SimpleVersionedSerializer;

/**
 * Emits 0, 1, ... count - 1 from one reader, record i at time {@code start + i * step}, then one watermark, and
 * then stays silent but open: a savepoint that is taken after {@link #allDone} follows every record.
 */
final class CountingSource implements Source<Integer, CountingSource.Position, Integer> {
    /** Sources of this JVM that have something left to emit. The local cluster runs in the same JVM. */
    private static final Map<String, CountDownLatch> BUSY = new ConcurrentHashMap<>();

    private final String name;
    private final int count;
    private final long start;
    private final long step;
    private final long lastWatermark;

    CountingSource(String name, int count, long start, long step, long lastWatermark) {
        this.name = name;
        this.count = count;
        this.start = start;
        this.step = step;
        this.lastWatermark = lastWatermark;
        BUSY.put(name, new CountDownLatch(1));
    }

    CountingSource(String name, int count) {
        this(name, count, 0, 0, Long.MIN_VALUE);
    }

    static boolean allDone() {
        return BUSY.values().stream().allMatch(latch -> latch.getCount() == 0);
    }

    static boolean isDone(String name) {
        return BUSY.get(name).getCount() == 0;
    }

    /** The only split: which record comes next. */
    record Position(int next) implements SourceSplit {
        @Override
        public String splitId() {
            return "all";
        }
    }

    @Override
    public Boundedness getBoundedness() {
        return Boundedness.CONTINUOUS_UNBOUNDED;
    }

    @Override
    public SplitEnumerator<Position, Integer> createEnumerator(SplitEnumeratorContext<Position> context) {
        return new Enumerator(context, false);
    }

    @Override
    public SplitEnumerator<Position, Integer> restoreEnumerator(
            SplitEnumeratorContext<Position> context, Integer assigned) {
        return new Enumerator(context, assigned == 1);
    }

    @Override
    public SourceReader<Integer, Position> createReader(SourceReaderContext context) {
        return new Reader();
    }

    @Override
    public SimpleVersionedSerializer<Position> getSplitSerializer() {
        return new SimpleVersionedSerializer<>() {
            @Override
            public int getVersion() {
                return 1;
            }

            @Override
            public byte[] serialize(Position position) {
                return ByteBuffer.allocate(Integer.BYTES).putInt(position.next).array();
            }

            @Override
            public Position deserialize(int version, byte[] bytes) {
                return new Position(ByteBuffer.wrap(bytes).getInt());
            }
        };
    }

    @Override
    public SimpleVersionedSerializer<Integer> getEnumeratorCheckpointSerializer() {
        return new SimpleVersionedSerializer<>() {
            @Override
            public int getVersion() {
                return 1;
            }

            @Override
            public byte[] serialize(Integer assigned) {
                return new byte[] {assigned.byteValue()};
            }

            @Override
            public Integer deserialize(int version, byte[] bytes) {
                return (int) bytes[0];
            }
        };
    }

    private static final class Enumerator implements SplitEnumerator<Position, Integer> {
        private final SplitEnumeratorContext<Position> context;
        private boolean assigned;

        Enumerator(SplitEnumeratorContext<Position> context, boolean assigned) {
            this.context = context;
            this.assigned = assigned;
        }

        @Override
        public void start() {}

        @Override
        public void handleSplitRequest(int subtask, String host) {}

        @Override
        public void addSplitsBack(List<Position> splits, int subtask) {
            splits.forEach(split -> context.assignSplit(split, subtask));
        }

        @Override
        public void addReader(int subtask) {
            if (!assigned) {
                assigned = true;
                context.assignSplit(new Position(0), subtask);
            }
        }

        @Override
        public Integer snapshotState(long checkpointId) {
            return assigned ? 1 : 0;
        }

        @Override
        public void close() {}
    }

    private final class Reader implements SourceReader<Integer, Position> {
        private final Queue<Position> positions = new ArrayDeque<>();
        private CompletableFuture<Void> available = new CompletableFuture<>();

        @Override
        public void start() {}

        @Override
        public InputStatus pollNext(ReaderOutput<Integer> output) {
            Position position = positions.peek();
            if (position != null && position.next < count) {
                output.collect(position.next, start + position.next * step);
                positions.remove();
                positions.add(new Position(position.next + 1));
                return InputStatus.MORE_AVAILABLE;
            }
            if (position != null) {
                if (lastWatermark != Long.MIN_VALUE) {
                    output.emitWatermark(new Watermark(lastWatermark));
                }
                BUSY.get(name).countDown();
            }
            available = new CompletableFuture<>();
            return InputStatus.NOTHING_AVAILABLE;
        }

        @Override
        public List<Position> snapshotState(long checkpointId) {
            return List.copyOf(positions);
        }

        @Override
        public CompletableFuture<Void> isAvailable() {
            return available;
        }

        @Override
        public void addSplits(List<Position> splits) {
            positions.addAll(splits);
            available.complete(null);
        }

        @Override
        public void notifyNoMoreSplits() {}

        @Override
        public void close() {}
    }
}
