package org.apache.beam.runners.flink.translation.types;

import java.io.IOException;
import org.apache.beam.sdk.util.SerializableUtils;
import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.api.common.typeutils.TypeSerializerSchemaCompatibility;
import org.apache.flink.api.common.typeutils.TypeSerializerSnapshot;
import org.apache.flink.core.memory.DataInputView;
import org.apache.flink.core.memory.DataOutputView;

/** The snapshot of that serializer, as the runner for Flink 2 writes it: the serializer as a compressed Java object. */
public class UnversionedTypeSerializerSnapshot<T> implements TypeSerializerSnapshot<T> {
    CoderTypeSerializer<T> serializer;

    public UnversionedTypeSerializerSnapshot() {}

    UnversionedTypeSerializerSnapshot(CoderTypeSerializer<T> serializer) {
        this.serializer = serializer;
    }

    @Override
    public int getCurrentVersion() {
        return 1;
    }

    @Override
    public void writeSnapshot(DataOutputView out) throws IOException {
        byte[] bytes = SerializableUtils.serializeToByteArray(serializer);
        out.writeInt(bytes.length);
        out.write(bytes);
    }

    @Override
    @SuppressWarnings("unchecked")
    public void readSnapshot(int version, DataInputView in, ClassLoader loader) throws IOException {
        byte[] bytes = new byte[in.readInt()];
        in.readFully(bytes);
        serializer = (CoderTypeSerializer<T>) SerializableUtils.deserializeFromByteArray(bytes, "a serializer");
    }

    @Override
    public TypeSerializer<T> restoreSerializer() {
        return serializer;
    }

    /** From 1.19. */
    public TypeSerializerSchemaCompatibility<T> resolveSchemaCompatibility(TypeSerializerSnapshot<T> old) {
        return TypeSerializerSchemaCompatibility.compatibleAsIs();
    }

    /** Until 1.20. */
    public TypeSerializerSchemaCompatibility<T> resolveSchemaCompatibility(TypeSerializer<T> given) {
        return TypeSerializerSchemaCompatibility.compatibleAsIs();
    }
}
