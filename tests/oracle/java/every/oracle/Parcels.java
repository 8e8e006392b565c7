package oracle;

import com.esotericsoftware.kryo.Kryo;
import com.esotericsoftware.kryo.Serializer;
import com.esotericsoftware.kryo.io.Input;
import com.esotericsoftware.kryo.io.Output;
import java.io.IOException;
import org.apache.flink.core.memory.DataInputView;
import org.apache.flink.core.memory.DataOutputView;
import org.apache.flink.types.CopyableValue;
import org.apache.flink.types.Value;

/** The classes of a job that sends parcels. */
public final class Parcels {
    private Parcels() {}

    public enum Size {
        SMALL,
        MEDIUM,
        LARGE,
        BULKY
    }

    /** A POJO whose class has no others below it. */
    public static class Item {
        public long id;
        public int pieces;
        public String label;
        public double weight;

        public Item() {}

        Item(long id, int pieces, String label, double weight) {
            this.id = id;
            this.pieces = pieces;
            this.label = label;
            this.weight = weight;
        }
    }

    /** Fields of every primitive type, boxed ones, arrays, an enum and a POJO. */
    public static class Everything {
        public boolean sent;
        public byte zone;
        public short shelf;
        public char mark;
        public float volume;
        public Integer floor;
        public Long number;
        public Boolean fragile;
        public Double price;
        public int[] stops;
        public String[] names;
        public Size size;
        public Item item;

        public Everything() {}
    }

    /** The parent of other POJOs. */
    public static class Box {
        public int id;
        public String label;

        public Box() {}

        Box(int id, String label) {
            this.id = id;
            this.label = label;
        }
    }

    public static class Crate extends Box {
        public double height;

        public Crate() {}

        Crate(int id, String label, double height) {
            super(id, label);
            this.height = height;
        }
    }

    public static class Letter extends Box {
        public boolean registered;
        public Item inside;

        public Letter() {}

        Letter(int id, String label, boolean registered, Item inside) {
            super(id, label);
            this.registered = registered;
            this.inside = inside;
        }
    }

    /** One that jobs do not register. */
    public static class Bag extends Box {
        public Long handles;

        public Bag() {}

        Bag(int id, String label, Long handles) {
            super(id, label);
            this.handles = handles;
        }
    }

    /** Not a POJO. */
    public static class Stamp {
        private final String country;
        private final int cents;

        Stamp(String country, int cents) {
            this.country = country;
            this.cents = cents;
        }
    }

    public static class Airmail extends Stamp {
        Airmail(String country, int cents) {
            super(country, cents);
        }
    }

    /** For every version of Kryo: their signatures differ in type parameters alone. */
    @SuppressWarnings({"rawtypes", "unchecked"})
    public static class StampSerializer extends Serializer {
        @Override
        public void write(Kryo kryo, Output out, Object value) {
            out.writeString(((Stamp) value).country);
            out.writeInt(((Stamp) value).cents);
        }

        @Override
        public Object read(Kryo kryo, Input in, Class type) {
            return new Stamp(in.readString(), in.readInt());
        }
    }

    public static class Weight implements Value {
        private static final long serialVersionUID = 1;
        private long grams;
        private String scale = "";

        public Weight() {}

        Weight(long grams, String scale) {
            this.grams = grams;
            this.scale = scale;
        }

        @Override
        public void write(DataOutputView out) throws IOException {
            out.writeLong(grams);
            out.writeUTF(scale);
        }

        @Override
        public void read(DataInputView in) throws IOException {
            grams = in.readLong();
            scale = in.readUTF();
        }
    }

    public static class Rack implements CopyableValue<Rack> {
        private static final long serialVersionUID = 1;
        private int row;
        private int column;

        public Rack() {}

        Rack(int row, int column) {
            this.row = row;
            this.column = column;
        }

        @Override
        public int getBinaryLength() {
            return 8;
        }

        @Override
        public void copyTo(Rack target) {
            target.row = row;
            target.column = column;
        }

        @Override
        public Rack copy() {
            return new Rack(row, column);
        }

        @Override
        public void copy(DataInputView source, DataOutputView target) throws IOException {
            target.write(source, 8);
        }

        @Override
        public void write(DataOutputView out) throws IOException {
            out.writeInt(row);
            out.writeInt(column);
        }

        @Override
        public void read(DataInputView in) throws IOException {
            row = in.readInt();
            column = in.readInt();
        }
    }
}
