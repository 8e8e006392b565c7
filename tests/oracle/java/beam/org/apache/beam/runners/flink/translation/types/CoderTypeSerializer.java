package org.apache.beam.runners.flink.translation.types;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.io.ObjectInputStream;
import java.io.ObjectOutputStream;
import java.io.OutputStream;
import java.util.Base64;
import org.apache.beam.sdk.coders.Coder;
import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.api.common.typeutils.TypeSerializerSnapshot;
import org.apache.flink.core.memory.DataInputView;
import org.apache.flink.core.memory.DataOutputView;

/** Stands in for the class of this name in Beam's runner, of which no jar is there: the same name, fields and bytes. */
public class CoderTypeSerializer<T> extends TypeSerializer<T> {
    private static final long serialVersionUID = 7247319138941746449L;
    final Coder<T> coder;
    private final boolean fasterCopy;
    /** Whether the snapshot has the serializer as text. */
    private final transient boolean base64;

    public CoderTypeSerializer(Coder<T> coder, boolean fasterCopy) {
        this(coder, fasterCopy, false);
    }

    public CoderTypeSerializer(Coder<T> coder, boolean fasterCopy, boolean base64) {
        this.coder = coder;
        this.fasterCopy = fasterCopy;
        this.base64 = base64;
    }

    @Override
    public void serialize(T value, DataOutputView target) throws IOException {
        coder.encode(value, new OutputStream() {
            @Override
            public void write(int octet) throws IOException {
                target.write(octet);
            }
        });
    }

    @Override
    public T deserialize(DataInputView source) throws IOException {
        return coder.decode(new InputStream() {
            @Override
            public int read() throws IOException {
                try {
                    return source.readUnsignedByte();
                } catch (EOFException ended) {
                    return -1;
                }
            }
        });
    }

    @Override
    public T deserialize(T reuse, DataInputView source) throws IOException {
        return deserialize(source);
    }

    @Override
    public void copy(DataInputView source, DataOutputView target) throws IOException {
        serialize(deserialize(source), target);
    }

    @Override
    public T copy(T value) {
        try {
            ByteArrayOutputStream bytes = new ByteArrayOutputStream();
            coder.encode(value, bytes);
            return coder.decode(new ByteArrayInputStream(bytes.toByteArray()));
        } catch (IOException failed) {
            throw new IllegalStateException(failed);
        }
    }

    @Override
    public T copy(T value, T reuse) {
        return copy(value);
    }

    @Override
    public boolean isImmutableType() {
        return false;
    }

    @Override
    public TypeSerializer<T> duplicate() {
        return this;
    }

    @Override
    public T createInstance() {
        return null;
    }

    @Override
    public int getLength() {
        return -1;
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof CoderTypeSerializer<?> that && coder.equals(that.coder);
    }

    @Override
    public int hashCode() {
        return coder.hashCode();
    }

    @Override
    public TypeSerializerSnapshot<T> snapshotConfiguration() {
        return base64 ? new LegacySnapshot<>(this) : new UnversionedTypeSerializerSnapshot<>(this);
    }

    /** The snapshot of version 2: the serializer as a Java object, in Base64. */
    public static class LegacySnapshot<T> extends UnversionedTypeSerializerSnapshot<T> {
        public LegacySnapshot() {}

        LegacySnapshot(CoderTypeSerializer<T> serializer) {
            super(serializer);
        }

        @Override
        public int getCurrentVersion() {
            return 2;
        }

        @Override
        public void writeSnapshot(DataOutputView out) throws IOException {
            ByteArrayOutputStream bytes = new ByteArrayOutputStream();
            try (ObjectOutputStream objects = new ObjectOutputStream(bytes)) {
                objects.writeObject(serializer);
            }
            out.writeUTF(Base64.getEncoder().encodeToString(bytes.toByteArray()));
        }

        @Override
        @SuppressWarnings("unchecked")
        public void readSnapshot(int version, DataInputView in, ClassLoader loader) throws IOException {
            byte[] bytes = Base64.getDecoder().decode(in.readUTF());
            try (ObjectInputStream objects = new ObjectInputStream(new ByteArrayInputStream(bytes))) {
                serializer = (CoderTypeSerializer<T>) objects.readObject();
            } catch (ClassNotFoundException missing) {
                throw new IOException(missing);
            }
        }
    }
}
