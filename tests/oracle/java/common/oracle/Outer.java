package oracle;

import java.util.ArrayList;
import java.util.List;

/** A class with inner classes, which Kryo writes with or without their outer object. */
public class Outer {
    public class Inner {
        int n;
        String text;
        List<String> texts = new ArrayList<>();
    }

    /** A POJO in which fields follow an object of an inner class. */
    public static class Around {
        public Inner inner;
        public String text;
        public Upgraded.Size size;
    }

    Inner inner(int n) {
        Inner inner = new Inner();
        inner.n = n;
        inner.text = "t" + n;
        inner.texts.add("a");
        return inner;
    }

    Object nameless(int n) {
        return new Object() {
            final int held = n;
            final String text = "x" + n;
        };
    }

    Around around(String text, Upgraded.Size size) {
        Around around = new Around();
        around.inner = inner(7);
        around.text = text;
        around.size = size;
        return around;
    }
}
