package flinklab;

import java.util.*;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;

/** The classes that the jobs keep in state. */
public final class Model {
    private Model() {}

    public enum Color { RED, GREEN, BLUE }

    public static class Address {
        public String street;
        public Integer zip;

        public Address() {}

        public Address(String s, Integer z) {
            street = s;
            zip = z;
        }
    }

    public static class Person {
        public int id;
        public String name;
        public Address address;
        public List<String> tags;
        public Map<String, Integer> scores;
        public Integer nullable;
        public Color color;
        public double weight;
        public boolean active;

        public Person() {}
    }

    public static class Shape {
        public String label;

        public Shape() {}
    }

    public static class Circle extends Shape {
        public double radius;

        public Circle() {}
    }

    public static class KeyPojo {
        public String a;
        public int b;

        public KeyPojo() {}

        public KeyPojo(String a, int b) {
            this.a = a;
            this.b = b;
        }

        @Override
        public int hashCode() {
            return 31 * Objects.hashCode(a) + b;
        }

        @Override
        public boolean equals(Object o) {
            return o instanceof KeyPojo && Objects.equals(((KeyPojo) o).a, a) && ((KeyPojo) o).b == b;
        }

        @Override
        public String toString() {
            return a + "/" + b;
        }
    }

    /** No default constructor, final field: not a POJO for Flink, so Kryo. */
    public static class NoDefault {
        private final String text;
        private final long num;
        private final List<String> more;

        public NoDefault(String text, long num, List<String> more) {
            this.text = text;
            this.num = num;
            this.more = more;
        }
    }

    public static Class<?> byName(String name) throws ClassNotFoundException {
        for (Class<?> c : Model.class.getDeclaredClasses())
            if (c.getSimpleName().equals(name))
                return c;
        return Class.forName(name);
    }

    /** Field types stated by hand, so that lists and maps are the same serializers in 1.x and 2.x. */
    public static Map<String, TypeInformation<?>> fields(Class<?> c) {
        Map<String, TypeInformation<?>> m = new HashMap<>();
        if (c == Address.class) {
            m.put("street", Types.STRING);
            m.put("zip", Types.INT);

        } else if (c == Person.class) {
            m.put("id", Types.INT);
            m.put("name", Types.STRING);
            m.put("address", Types.POJO(Address.class, fields(Address.class)));
            m.put("tags", Types.LIST(Types.STRING));
            m.put("scores", Types.MAP(Types.STRING, Types.INT));
            m.put("nullable", Types.INT);
            m.put("color", Types.ENUM(Color.class));
            m.put("weight", Types.DOUBLE);
            m.put("active", Types.BOOLEAN);
        } else {
            return null;
        }
        return m;
    }
}
