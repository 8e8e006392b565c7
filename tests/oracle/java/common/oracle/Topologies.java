package oracle;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.runtime.OperatorIDPair;
import org.apache.flink.runtime.jobgraph.JobGraph;
import org.apache.flink.runtime.jobgraph.JobVertex;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.graph.StreamEdge;
import org.apache.flink.streaming.api.graph.StreamGraph;
import org.apache.flink.streaming.api.graph.StreamGraphHasherV2;
import org.apache.flink.streaming.api.graph.StreamNode;
import org.apache.flink.streaming.api.operators.StreamOperatorFactory;
import org.apache.flink.streaming.api.operators.SourceOperatorFactory;

/**
 * Builds the job of each line (see {@link Topology}), and tells in one line what Flink makes of it: nodes and edges of
 * the stream graph with their generated ids, the job graph's vertices with their pairs of ids, the execution plan, and
 * the plan as the REST interface gives it.
 */
public final class Topologies {
    private Topologies() {}

    public static void main(String[] arguments) throws IOException {
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            out.println(Json.MAPPER.writeValueAsString(answer(Json.MAPPER.readTree(line))));
        }
    }

    private static Map<String, Object> answer(JsonNode job) {
        try {
            Configuration configuration = new Configuration();
            job.path("configuration").fields().forEachRemaining(
                    setting -> configuration.setString(setting.getKey(), setting.getValue().asText()));
            StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment(configuration);
            new Topology(env, job).build();
            String plan = env.getExecutionPlan();
            StreamGraph graph = env.getStreamGraph(false);
            List<Object> nodes = nodes(graph);
            JobGraph jobGraph = graph.getJobGraph();
            return Json.object(
                    "nodes", nodes, "vertices", vertices(jobGraph), "plan", plan, "rest", Compat.plan(jobGraph));
        } catch (Exception | LinkageError e) {
            return Json.object("error", String.valueOf(e));
        }
    }

    private static List<Object> nodes(StreamGraph graph) throws ReflectiveOperationException {
        Map<Integer, byte[]> hashes = new StreamGraphHasherV2().traverseStreamGraphAndGenerateHashes(graph);
        List<Object> all = new ArrayList<>();
        for (StreamNode node : graph.getStreamNodes()) {
            StreamOperatorFactory<?> factory = node.getOperatorFactory();
            Method maxParallelism = StreamNode.class.getDeclaredMethod("getMaxParallelism");
            maxParallelism.setAccessible(true);
            all.add(Json.object(
                    "id", node.getId(),
                    "name", node.getOperatorName(),
                    "uid", node.getTransformationUID(),
                    "uidHash", node.getUserHash(),
                    "operatorId", HexFormat.of().formatHex(hashes.get(node.getId())),
                    "parallelism", node.getParallelism(),
                    "maxParallelism", maxParallelism.invoke(node),
                    "slotSharingGroup", node.getSlotSharingGroup(),
                    "chaining", factory.getChainingStrategy().name(),
                    "source", source(graph, node),
                    "yielding", isYielding(factory.getClass()),
                    "inputs", edges(node.getInEdges()),
                    "outputs", edges(node.getOutEdges())));
        }
        return all;
    }

    private static String source(StreamGraph graph, StreamNode node) {
        if (!graph.getSourceIDs().contains(node.getId())) {
            return null;
        }
        return node.getOperatorFactory() instanceof SourceOperatorFactory ? "SOURCE" : "LEGACY";
    }

    /** The interface is in another package since Flink 2. */
    private static boolean isYielding(Class<?> type) {
        for (Class<?> known = type; known != null; known = known.getSuperclass()) {
            for (Class<?> implemented : known.getInterfaces()) {
                if (implemented.getSimpleName().equals("YieldingOperatorFactory") || isYielding(implemented)) {
                    return true;
                }
            }
        }
        return false;
    }

    private static List<Object> edges(List<StreamEdge> edges) {
        List<Object> all = new ArrayList<>();
        for (StreamEdge edge : edges) {
            all.add(Json.object(
                    "source", edge.getSourceId(),
                    "target", edge.getTargetId(),
                    "partitioner", edge.getPartitioner().toString(),
                    "port", edge.getTypeNumber(),
                    "exchange", edge.getExchangeMode().name()));
        }
        return all;
    }

    private static List<Object> vertices(JobGraph graph) {
        List<Object> all = new ArrayList<>();
        for (JobVertex vertex : graph.getVertices()) {
            List<Object> pairs = new ArrayList<>();
            for (OperatorIDPair pair : vertex.getOperatorIDs()) {
                pairs.add(Json.object(
                        "generated", pair.getGeneratedOperatorID().toHexString(),
                        "userDefined", pair.getUserDefinedOperatorID().map(id -> id.toHexString()).orElse(null)));
            }
            all.add(Json.object(
                    "id", vertex.getID().toHexString(),
                    "parallelism", vertex.getParallelism(),
                    "maxParallelism", vertex.getMaxParallelism(),
                    "operators", pairs));
        }
        return all;
    }
}
