package connlab;

import java.util.regex.Pattern;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.serialization.SimpleStringSchema;
import org.apache.flink.connector.kafka.source.*;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/**
 * Job "KafkaJob": needs flink-connector-kafka and a Kafka client (or something of the same classes) on the class path.
 */
public final class KafkaJob {
    public static void build(StreamExecutionEnvironment env, Jobs.Setting s) throws Exception {
        KafkaSourceBuilder<String> b =
                KafkaSource.<String>builder()
                        .setBootstrapServers(s.args.getOrDefault("servers", "localhost:9092"))
                        .setGroupId("data")
                        .setTopicPattern(Pattern.compile(s.args.getOrDefault("topics", "orders|clicks")))
                        .setValueOnlyDeserializer(new SimpleStringSchema())
                        .setStartingOffsets(s.args.getOrDefault("start", "earliest").equals("latest")
                                        ? OffsetsInitializer.latest()
                                        : OffsetsInitializer.earliest());
        if (s.args.containsKey("discovery"))
            b.setProperty("partition.discovery.interval.ms", s.args.get("discovery"));
        if (s.args.containsKey("stop"))
            b.setBounded(s.args.get("stop").equals("latest") ? OffsetsInitializer.latest()
                                                             : OffsetsInitializer.committedOffsets());
        Jobs.plain(env.fromSource(b.build(), WatermarkStrategy.noWatermarks(), "kafka"), s);
    }
}
