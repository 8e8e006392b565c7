package oracle;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.runtime.util.EnvironmentInformation;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.graph.StreamGraph;
import org.apache.flink.streaming.api.graph.StreamGraphHasherV2;
import org.apache.flink.streaming.api.graph.StreamNode;

/** Writes one savepoint or retained checkpoint of a known job, and what must be in it as {@code expected.json}. */
public final class Generate {
    private Generate() {}

    public static void main(String[] arguments) throws Exception {
        Options options = Options.parse(arguments);
        Configuration configuration = options.configuration();
        StreamExecutionEnvironment env = environment(configuration, options);
        Job job = job(options.get("job"));
        List<Object> operators = job.build(env, options);
        StreamGraph graph = env.getStreamGraph(false);
        List<Object> identifiers = operatorIds(graph);

        long before = System.currentTimeMillis();
        Path snapshot = Snapshots.take(graph.getJobGraph(), configuration, options, job::isWritten);
        Map<String, Object> meta = Json.object(
                "flink", EnvironmentInformation.getVersion(),
                "job", options.get("job"),
                "backend", options.get("backend"),
                "format", options.get("format"),
                "compressed", Boolean.parseBoolean(options.get("compressed")),
                "parallelism", options.number("parallelism"),
                "maxParallelism", options.number("max-parallelism"),
                "savepoint", options.out().relativize(snapshot).toString(),
                "writtenBetween", List.of(before, System.currentTimeMillis()));
        Json.write(options.out().resolve("expected.json"),
                Json.object("meta", meta, "operatorIds", identifiers, "operators", operators));
        options.deleteTemporary();
        // Some of Flink's threads are no daemons.
        System.exit(0);
    }

    private static StreamExecutionEnvironment environment(Configuration configuration, Options options) {
        StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment(configuration);
        env.setParallelism(options.number("parallelism"));
        env.setMaxParallelism(options.number("max-parallelism"));
        env.getConfig().setUseSnapshotCompression(Boolean.parseBoolean(options.get("compressed")));
        if (options.isCheckpoint()) {
            env.enableCheckpointing(3_600_000);
        }
        return env;
    }

    /** A job adds its operators to an environment and returns what must be found in their state. */
    interface Job {
        List<Object> build(StreamExecutionEnvironment env, Options options);

        /** Whether what sources have emitted is in the state. */
        default boolean isWritten() {
            return true;
        }
    }

    private static Job job(String name) {
        return switch (name) {
            case "shop" -> new ShopJob();
            default -> TableJob.named(name);
        };
    }

    /** Name, uid and id of every operator, as Flink derives them. */
    private static List<Object> operatorIds(StreamGraph graph) {
        Map<Integer, byte[]> hashes = new StreamGraphHasherV2().traverseStreamGraphAndGenerateHashes(graph);
        List<Object> all = new ArrayList<>();
        for (StreamNode node : graph.getStreamNodes()) {
            all.add(Json.object(
                    "name", node.getOperatorName(),
                    "uid", node.getTransformationUID(),
                    "operatorId", HexFormat.of().formatHex(hashes.get(node.getId())),
                    "parallelism", node.getParallelism()));
        }
        return all;
    }
}
