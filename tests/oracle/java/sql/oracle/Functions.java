package oracle;

import java.util.concurrent.CompletableFuture;
import org.apache.flink.table.annotation.DataTypeHint;
import org.apache.flink.table.annotation.FunctionHint;
import org.apache.flink.table.api.dataview.ListView;
import org.apache.flink.table.api.dataview.MapView;
import org.apache.flink.table.functions.AggregateFunction;
import org.apache.flink.table.functions.AsyncScalarFunction;
import org.apache.flink.table.functions.ScalarFunction;
import org.apache.flink.table.functions.TableFunction;
import org.apache.flink.types.Row;

/** Functions of the user's own, for queries. */
public final class Functions {
    private Functions() {}

    public static final class Doubled extends ScalarFunction {
        public Long eval(Long number) {
            return number == null ? null : 2 * number;
        }
    }

    /** Has a state of its own that is opened with the operator. */
    public static final class Joined extends ScalarFunction {
        public String eval(String text, Integer number) {
            return text + "/" + number;
        }
    }

    /** Answers for every number but those that end with 3. */
    public static final class Asked extends AsyncScalarFunction {
        public void eval(CompletableFuture<String> answer, Long number) {
            if (number % 10 != 3) {
                answer.complete("answer " + number);
            }
        }
    }

    @FunctionHint(output = @DataTypeHint("ROW<part STRING, size INT>"))
    public static final class Parts extends TableFunction<Row> {
        public void eval(String text) {
            for (String part : text == null ? new String[0] : text.split(" ")) {
                collect(Row.of(part, part.length()));
            }
        }
    }

    public static final class Mean {
        public long sum;
        public int count;
    }

    /** Cannot merge. */
    public static final class Average extends AggregateFunction<Double, Mean> {
        @Override
        public Mean createAccumulator() {
            return new Mean();
        }

        public void accumulate(Mean mean, Integer number) {
            if (number != null) {
                mean.sum += number;
                mean.count++;
            }
        }

        public void retract(Mean mean, Integer number) {
            if (number != null) {
                mean.sum -= number;
                mean.count--;
            }
        }

        @Override
        public Double getValue(Mean mean) {
            return mean.count == 0 ? null : (double) mean.sum / mean.count;
        }
    }

    public static final class Seen {
        public long count;
        public MapView<String, Long> counts = new MapView<>();
        public ListView<String> order = new ListView<>();
    }

    /** Can merge, and keeps what it met in views. */
    public static final class Texts extends AggregateFunction<String, Seen> {
        @Override
        public Seen createAccumulator() {
            return new Seen();
        }

        public void accumulate(Seen seen, String text) throws Exception {
            if (text != null) {
                seen.count++;
                Long before = seen.counts.get(text);
                seen.counts.put(text, before == null ? 1 : before + 1);
                if (before == null) {
                    seen.order.add(text);
                }
            }
        }

        public void merge(Seen seen, Iterable<Seen> others) throws Exception {
            for (Seen other : others) {
                for (String text : other.order.get()) {
                    for (long i = 0; i < other.counts.get(text); i++) {
                        accumulate(seen, text);
                    }
                }
            }
        }

        @Override
        public String getValue(Seen seen) {
            return seen.count + " texts";
        }
    }
}
