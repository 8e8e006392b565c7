package connlab;

import java.util.*;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.apache.flink.api.common.functions.MapFunction;

/**
 * Remembers, in this JVM, every record that passes; the pause makes a job last long enough to be stopped in the
 * middle.
 */
public class Emitted<T> implements MapFunction<T, T> {
    public static final ConcurrentLinkedQueue<String> ALL = new ConcurrentLinkedQueue<>();
    private final long pauseMillis;

    public Emitted(long pauseMillis) {
        this.pauseMillis = pauseMillis;
    }

    @Override
    public T map(T v) throws Exception {
        ALL.add(String.valueOf(v));
        if (pauseMillis > 0)
            Thread.sleep(pauseMillis);
        return v;
    }

    public static List<String> sorted() {
        List<String> l = new ArrayList<>(ALL);
        Collections.sort(l);
        return l;
    }
}
