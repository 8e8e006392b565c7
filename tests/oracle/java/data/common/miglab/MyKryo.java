package miglab;

import com.esotericsoftware.kryo.Kryo;
import com.esotericsoftware.kryo.Serializer;
import com.esotericsoftware.kryo.io.Input;
import com.esotericsoftware.kryo.io.Output;

/** A serializer of the user's: the same source compiles for Kryo 2 and Kryo 5. */
@SuppressWarnings({"rawtypes", "unchecked"})
public class MyKryo extends Serializer implements java.io.Serializable {
    @Override
    public void write(Kryo k, Output o, Object v) {
        o.writeString(((Model.KCustom) v).s);
        o.writeLong(((Model.KCustom) v).n);
    }

    @Override
    public Object read(Kryo k, Input i, Class c) {
        return new Model.KCustom(i.readString(), i.readLong());
    }
}
