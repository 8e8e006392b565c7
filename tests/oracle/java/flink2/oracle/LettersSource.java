package oracle;

import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.runtime.state.FunctionInitializationContext;
import org.apache.flink.runtime.state.FunctionSnapshotContext;
import org.apache.flink.streaming.api.checkpoint.CheckpointedFunction;
import org.apache.flink.streaming.api.datastream.SingleOutputStreamOperator;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.source.legacy.SourceFunction;

/** The source of {@link Letters}; the interface has moved between releases. */
final class LettersSource implements SourceFunction<Long>, CheckpointedFunction {
    private static final long serialVersionUID = 1;
    private transient Letters.Sending sending;
    private transient SourceContext<Long> out;

    static SingleOutputStreamOperator<Long> add(StreamExecutionEnvironment env, String name) {
        return env.addSource(new LettersSource(), name, Types.LONG);
    }

    @Override
    public void run(SourceContext<Long> context) throws Exception {
        out = context;
        sending.run(context.getCheckpointLock());
    }

    @Override
    public void cancel() {
        sending.stop();
    }

    @Override
    public void snapshotState(FunctionSnapshotContext context) throws Exception {
        sending.snapshotState(context);
    }

    @Override
    public void initializeState(FunctionInitializationContext context) throws Exception {
        sending = new Letters.Sending() {
            @Override
            void send(long number) {
                out.collect(number);
            }
        };
        sending.initializeState(context);
    }
}
