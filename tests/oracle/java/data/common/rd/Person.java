package rd;
import java.util.*;

public class Person {
    public String name;
    public int age;
    public List<String> tags;
    public Address address;
    public Map<String, Double> scores;
    public Color color;
    public Long maybe;
    public long[] longs;
    public Date born;
    public Object any;

    public Person() {}

    public static Person of(long i) {
        Person p = new Person();
        p.name = "n" + i;
        p.age = (int) (i % 90);
        p.tags = new ArrayList<>(Arrays.asList("t" + i % 3, "u"));
        p.address = i % 4 == 3 ? null : new Address();
        if (p.address != null) {
            p.address.street = "s" + i;
            p.address.zip = (int) i;
        }
        p.scores = new HashMap<>();
        p.scores.put("a", i / 2.0);
        p.color = Color.values()[(int) (i % 3)];
        p.maybe = i % 2 == 0 ? i : null;
        p.longs = new long[] {i, -i};
        p.born = new Date(i * 1000);
        p.any = i % 2 == 0 ? (Object) ("x" + i) : (Object) Integer.valueOf((int) i);
        return p;
    }

    public enum Color { RED, GREEN, BLUE }

    public static class Address {
        public String street;
        public int zip;
    }
}
