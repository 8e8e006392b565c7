package oracle;

import java.math.BigDecimal;
import java.time.Instant;
import java.time.LocalDate;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.Set;
import java.util.UUID;

/** The classes that the jobs of types and keys keep in their state. */
public final class Model {
    private Model() {}

    public enum Suit {
        CLUBS,
        DIAMONDS,
        HEARTS,
        SPADES
    }

    /** Constants with bodies are of classes of their own. */
    public enum Operation {
        PLUS {
            @Override
            public int apply(int a, int b) {
                return a + b;
            }
        },
        TIMES {
            @Override
            public int apply(int a, int b) {
                return a * b;
            }
        };

        public abstract int apply(int a, int b);
    }

    /** One field of every kind that has a serializer of its own. */
    public static class Everything {
        public boolean flag;
        public byte small;
        public short medium;
        public int number;
        public long large;
        public float approximate;
        public double precise;
        public char letter;
        public Boolean flagOrNull;
        public Integer numberOrNull;
        public Long largeOrNull;
        public Double preciseOrNull;
        public Character letterOrNull;
        public String text;
        public BigDecimal amount;
        public int[] numbers;
        public String[] texts;
        public Suit suit;
        public Node chain;
    }

    /** Refers to another of its kind, through a getter and a setter. */
    public static class Node {
        private String name;
        private Leaf leaf;

        public Node() {}

        Node(String name, Leaf leaf) {
            this.name = name;
            this.leaf = leaf;
        }

        public String getName() {
            return name;
        }

        public void setName(String name) {
            this.name = name;
        }

        public Leaf getLeaf() {
            return leaf;
        }

        public void setLeaf(Leaf leaf) {
            this.leaf = leaf;
        }
    }

    public static class Leaf {
        public long weight;
        public Suit suit;
    }

    public static class Animal {
        public String name;
        public int legs;
    }

    public static class Dog extends Animal {
        public boolean barks;
    }

    /** Registered with the job, which writes it by number instead of by name. */
    public static class Cat extends Animal {
        public Integer lives;
        public Animal prey;
    }

    /** What Flink makes of fields for which nobody gives a type. */
    public static class Inferred {
        public List<String> list;
        public Map<String, Integer> map;
        public Set<Long> set;
        public Optional<String> optional;
        public LocalDate date;
        public Instant instant;
        public UUID uuid;
    }

    /** A POJO from Flink 1.19 on, before that something for Kryo. */
    public record Point(int x, Long y, String label) {}

    /** May be a key, because it has a hash code of its own. */
    public static class Code {
        public String country;
        public int number;

        public Code() {}

        Code(String country, int number) {
            this.country = country;
            this.number = number;
        }

        @Override
        public boolean equals(Object other) {
            return other instanceof Code code && Objects.equals(country, code.country) && number == code.number;
        }

        @Override
        public int hashCode() {
            return Objects.hash(country, number);
        }
    }

    /** No POJO: it has no default constructor. */
    public static final class Sealed {
        private final String text;
        private final long number;
        private final List<String> more;

        Sealed(String text, long number, List<String> more) {
            this.text = text;
            this.number = number;
            this.more = more;
        }

        @Override
        public boolean equals(Object other) {
            return other instanceof Sealed sealed
                    && text.equals(sealed.text) && number == sealed.number && Objects.equals(more, sealed.more);
        }

        @Override
        public int hashCode() {
            return Objects.hash(text, number, more);
        }
    }
}
