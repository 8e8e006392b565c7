package oracle;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.sql.Timestamp;
import java.time.DayOfWeek;
import java.time.Instant;
import java.time.LocalDate;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Date;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TimeZone;
import java.util.concurrent.TimeUnit;
import org.apache.flink.api.java.tuple.Tuple1;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.api.java.tuple.Tuple3;
import org.apache.flink.types.Either;
import org.apache.flink.types.LongValue;
import org.apache.flink.types.Row;

/**
 * Classes as jobs have them, for {@code oracle.Infer}: what Flink's type extraction makes of each. The fields of {@link
 * Hints} are types with arguments, as a TypeHint has them.
 */
@SuppressWarnings({"rawtypes", "unused"})
public final class Inferred {
    private Inferred() {}

    public enum Color { RED, GREEN, BLUE }

    public enum Shape {
        ROUND { @Override int corners() { return 0; } },
        SQUARE { @Override int corners() { return 4; } };
        abstract int corners();
    }

    public static class Lines { public long id; public List<String> lines; }

    public static class Address { public String street; public Integer zip; }

    public static class Order {
        public long id;
        public List<String> lines;
        public Map<String, Long> counts;
        public Set<Color> colors;
        public List<Address> addresses;
        public Address home;
        public Address[] others;
        public BigDecimal total;
        public BigInteger large;
        public Optional<String> note;
        public Instant at;
        public LocalDate day;
        public Date date;
        public Timestamp stamp;
        public DayOfWeek weekday;
        public TimeUnit unit;
        public TimeZone zone;
        public byte[] bytes;
        public Integer[] boxed;
        public int[][] grid;
        public String[] words;
        public String[][] pages;
        public BigDecimal[] prices;
        public Character letter;
        public boolean flag;
        public Object any;
        public Row row;
        public LongValue value;
        public Color color;
        public Shape shape;
        public transient Object skipped;
        public static Object shared;
    }

    public static class Collections2 {
        public List<byte[]> blobs;
        public List<String[]> texts;
        public List<int[][]> grids;
        public List<LocalDate> days;
        public List<Object> objects;
        public List<List<String>> nested;
        public List<Tuple2<Long, String>> pairs;
        public List<? extends Number> wild;
        public List raw;
        public Map<Color, Address> byColor;
        public Map<Address, List<String>> lists;
        public Map<Long, Order> orders;
        public Collection<String> some;
        public Iterable<Long> iterable;
        public ArrayList<String> array;
        public HashSet<String> hash;
        public List<String>[] arrays;
        public Collection<String>[] collections;
        public List<List<String>>[] deep;
        public Set<Set<String>> sets;
    }

    /** As Lombok's @Data writes it. */
    public static class Bean {
        private long id;
        private boolean active;
        private Boolean maybe;
        private String _name;
        private int count_of_things;
        private List<String> tags;
        private int[] numbers;
        private Integer boxed;
        public long getId() { return id; }
        public void setId(long id) { this.id = id; }
        public boolean isActive() { return active; }
        public void setActive(boolean active) { this.active = active; }
        public Boolean getMaybe() { return maybe; }
        public void setMaybe(Boolean maybe) { this.maybe = maybe; }
        public String get_name() { return _name; }
        public void set_name(String name) { this._name = name; }
        public int getCountOfThings() { return count_of_things; }
        public Bean setCountOfThings(int count) { this.count_of_things = count; return this; }
        public List<String> getTags() { return tags; }
        public void setTags(List<String> tags) { this.tags = tags; }
        public int[] numbers() { return numbers; }
        public void setNumbers(int[] numbers) { this.numbers = numbers; }
        public Integer getBoxed() { return boxed; }
        public void setBoxed(Integer boxed) { this.boxed = boxed; }
    }

    /** Setters of primitive fields may take the boxed type, and the other way round not. */
    public static class BoxedSetter { private int n; public int getN() { return n; } public void setN(Integer n) { this.n = n; } }
    public static class UnboxedSetter { private Integer n; public Integer getN() { return n; } public void setN(int n) { this.n = n; } }
    public static class OptionalGetter { private String s; public Optional<String> getS() { return Optional.of(s); } public void setS(String s) { this.s = s; } }
    public static class NoSetter { private String s; public String getS() { return s; } }
    public static class NoGetter { private String s; public void setS(String s) { this.s = s; } }
    public static class PrivateSetter { private String s; public String getS() { return s; } private void setS(String s) { this.s = s; } }
    public static class OtherReturn { private String s; public String getS() { return s; } public String setS(String s) { return s; } }
    public static class FluentBase<S> { private int n; public int getN() { return n; } @SuppressWarnings("unchecked") public S setN(int n) { return (S) this; } }
    public static class Fluent extends FluentBase<Fluent> { public int m; }
    public static class NoConstructor { public int n; public NoConstructor(int n) { this.n = n; } }
    public static class PrivateConstructor { public int n; private PrivateConstructor() {} }
    static class NotPublic { public int n; }
    public static class NoFields {}
    public static class OnlyStatic { public static int n; public transient int m; }
    public static class FinalField { public final int n = 3; }
    public static class ReadsItself { public int n; private void readObject(java.io.ObjectInputStream in) {} }
    public abstract static class Abstract { public int n; protected Abstract(int n) {} }
    public interface Interface { int n(); }
    public class Inner { public int n; }
    public static class WithDefaults implements Accessors { private int size; }
    public interface Accessors { default int getSize() { return 0; } default void setSize(int size) {} }

    public static class Base { public int id; public String name; }
    public static class Derived extends Base { public Long extra; }
    public static class Hiding extends Base { public String name; }
    public static class OfBase extends Base { public Base base; public Derived derived; }
    public static class Node { public int n; public Node next; }
    public static class Nodes { public int n; public Nodes[] more; }
    public static class Left { public Right right; public int n; }
    public static class Right { public Left left; public Address address; }
    public static class Listing extends ArrayList<String> { public int n; }
    public static class Failure extends RuntimeException { public int n; }
    public static class SetOf extends HashSet<String> { public int n; }

    public static class Box<T> { public T value; public List<T> list; public T[] array; public Tuple2<T, Integer> pair; public Map<String, T> map; }
    public static class StringBox extends Box<String> { public int n; }
    public static class Middle<A, B> extends Box<B> { private A first; public A getFirst() { return first; } public void setFirst(A first) { this.first = first; } }
    public static class Bound extends Middle<Long, Address> {}
    public static class Holder { public Box<Long> box; public Box<?> wild; public Box raw; public Box<Box<String>> nested; public StringBox strings; public Middle<String, byte[]> middle; }

    public static class Tuples {
        public Tuple2<Long, List<String>> pair;
        public Tuple3<Address, Tuple1<Color>, Map<String, Long>> three;
        public Tuple2 raw;
        public Tuple2<?, String> wild;
        public Either<Long, List<String>> either;
        public Either<Address, ?> half;
        public NamedPair named;
        public LargePair large;
    }
    public static class NamedPair extends Tuple2<String, Long> { private int hidden; }
    public static class LargePair extends Tuple2<String, Long> { public int more; }
    public static class GenericPair<X> extends Tuple2<X, List<X>> {}
    public static class OfGenericPair { public GenericPair<Long> pair; public GenericPair raw; }

    public record Point(int x, long y, String label) {}
    public record Line(Point from, Point to, List<String> tags, Set<Long> seen, List<Point> points) {}
    public record Pair<A, B>(A first, B second) {}
    public static class Records { public Point point; public Pair<Long, String> pair; public List<Point> points; }
    record Hidden(int n) {}

    /** Types as hints have them. */
    public static class Hints {
        public List<String> list;
        public Map<String, Long> map;
        public Set<Address> set;
        public Collection<Color> collection;
        public List<List<String>> nested;
        public ArrayList<String> array;
        public Tuple2<Long, List<String>> tuple;
        public Tuple2<Long, Map<String, List<Long>>> deep;
        public Either<String, List<Long>> either;
        public List<String>[] arrays;
        public Box<String> box;
        public Box<List<String>> boxOfList;
        public Middle<String, byte[]> middle;
        public GenericPair<String> pair;
        public Pair<Point, List<String>> record;
        public Optional<String> optional;
        public Map<String, Address[]> addresses;
    }
}
