package oracle;

import org.apache.flink.table.functions.AggregateFunction;
import org.apache.flink.table.functions.ScalarFunction;

/** Functions of a user, for queries that name them. */
public final class UserFunctions {
    private UserFunctions() {}

    /** Twice a number. */
    public static class Twice extends ScalarFunction {
        public Integer eval(Integer number) {
            return number == null ? null : 2 * number;
        }
    }

    /** Three times a number. */
    public static class Thrice extends ScalarFunction {
        public Integer eval(Integer number) {
            return number == null ? null : 3 * number;
        }
    }

    /** What an aggregate has seen. */
    public static class Seen {
        public long total;
    }

    /** The sum of numbers. */
    public static class Total extends AggregateFunction<Long, Seen> {
        @Override
        public Seen createAccumulator() {
            return new Seen();
        }

        @Override
        public Long getValue(Seen seen) {
            return seen.total;
        }

        public void accumulate(Seen seen, Integer number) {
            seen.total += number == null ? 0 : number;
        }
    }

    /** The sum of squares. */
    public static class Squares extends Total {
        @Override
        public void accumulate(Seen seen, Integer number) {
            seen.total += number == null ? 0 : (long) number * number;
        }
    }
}
