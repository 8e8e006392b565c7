package connlab;

import java.util.*;
import org.apache.flink.api.connector.sink2.*;
import org.apache.flink.core.io.SimpleVersionedSerializer;

/** {@link Sinks} as a Sink V2 of Flink 1.19 and 1.20. */
public class TxnSink implements Sink<Long>, SupportsWriterState<Long, String>, SupportsCommitter<String> {
    @Override
    public SinkWriter<Long> createWriter(InitContext c) {
        return new Sinks.Writer(Collections.emptyList());
    }

    @Override
    public SinkWriter<Long> createWriter(WriterInitContext c) {
        return new Sinks.Writer(Collections.emptyList());
    }

    @Override
    public StatefulSinkWriter<Long, String> restoreWriter(WriterInitContext c, Collection<String> s) {
        return new Sinks.Writer(s);
    }

    @Override
    public SimpleVersionedSerializer<String> getWriterStateSerializer() {
        return new Sinks.Text(5);
    }

    @Override
    public Committer<String> createCommitter(CommitterInitContext c) {
        return new Sinks.Commit();
    }

    @Override
    public SimpleVersionedSerializer<String> getCommittableSerializer() {
        return new Sinks.Text(7);
    }
}
