package oracle;

import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.HashMap;
import java.util.Map;
import java.util.stream.Stream;
import org.apache.flink.configuration.Configuration;

/** The command line: {@code --name=value}, and any number of {@code --conf=key=value} for Flink itself. */
record Options(Map<String, String> named, Map<String, String> flink) {

    static Options parse(String[] arguments) {
        Options options = new Options(new HashMap<>(), new HashMap<>());
        for (String argument : arguments) {
            String[] parts = argument.split("=", 2);
            if (!argument.startsWith("--") || parts.length < 2) {
                throw new IllegalArgumentException("not --name=value: " + argument);
            }
            if (parts[0].equals("--conf")) {
                String[] entry = parts[1].split("=", 2);
                options.flink.put(entry[0], entry[1]);
            } else {
                options.named.put(parts[0].substring(2), parts[1]);
            }
        }
        return options;
    }

    String get(String name) {
        if (!named.containsKey(name)) {
            throw new IllegalArgumentException("missing --" + name + "=...");
        }
        return named.get(name);
    }

    int number(String name) {
        return Integer.parseInt(get(name));
    }

    Path out() {
        return Path.of(get("out")).toAbsolutePath();
    }

    boolean isCheckpoint() {
        return get("format").equals("checkpoint");
    }

    /** Removes what Flink leaves behind. */
    void deleteTemporary() throws IOException {
        try (Stream<Path> below = Files.walk(out().resolve("tmp"))) {
            below.sorted(Comparator.reverseOrder()).map(Path::toFile).forEach(File::delete);
        }
    }

    /** A small local cluster that keeps everything it writes under {@link #out()}. */
    Configuration configuration() {
        Map<String, String> all = new HashMap<>();
        all.put("taskmanager.memory.managed.size", "256m");
        all.put("taskmanager.memory.network.min", "128m");
        all.put("taskmanager.memory.network.max", "128m");
        all.put("taskmanager.numberOfTaskSlots", get("parallelism"));
        all.put("rest.port", "0");
        all.put("rest.bind-port", "0");
        all.put("restart-strategy.type", "none");
        all.put("restart-strategy", "none");
        all.put("io.tmp.dirs", out().resolve("tmp").toString());
        all.put("state.backend.rocksdb.localdir", out().resolve("tmp").toString());
        // Before and after 1.20: the same things under two names.
        String checkpoints = out().resolve("checkpoints").toUri().toString();
        all.put("state.checkpoints.dir", checkpoints);
        all.put("execution.checkpointing.dir", checkpoints);
        all.put("execution.checkpointing.externalized-checkpoint-retention", "RETAIN_ON_CANCELLATION");
        String changes = out().resolve("dstl").toUri().toString();
        all.put("dstl.dfs.base-path", changes);
        all.put("state.changelog.dstl.dfs.base-path", changes);
        all.putAll(flink);
        if (flink.containsKey("state.backend.type")) {
            all.put("state.backend", flink.get("state.backend.type"));
        }
        return Configuration.fromMap(all);
    }
}
