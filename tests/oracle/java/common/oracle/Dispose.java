package oracle;

import java.io.DataInputStream;
import org.apache.flink.runtime.checkpoint.Checkpoints;
import org.apache.flink.runtime.state.storage.FileSystemCheckpointStorage;

/** Loads a savepoint as a job manager does, says how many operators it has, and deletes it as Flink's command line does. */
public final class Dispose {
    private Dispose() {}

    public static void main(String[] arguments) throws Exception {
        String savepoint = arguments[0];
        ClassLoader loader = Dispose.class.getClassLoader();
        FileSystemCheckpointStorage storage = new FileSystemCheckpointStorage(savepoint);
        try (DataInputStream in =
                new DataInputStream(storage.resolveCheckpoint(savepoint).getMetadataHandle().openInputStream())) {
            System.out.println(Checkpoints.loadCheckpointMetadata(in, loader, savepoint).getOperatorStates().size());
        }
        Checkpoints.disposeSavepoint(savepoint, storage, loader);
    }
}
