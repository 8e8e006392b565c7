package oracle;

import java.nio.file.Files;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.regex.Pattern;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.MapFunction;
import org.apache.flink.api.common.functions.RichMapFunction;
import org.apache.flink.api.common.serialization.SimpleStringSchema;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.core.execution.SavepointFormatType;
import org.apache.flink.runtime.jobgraph.JobGraph;
import org.apache.flink.runtime.jobgraph.SavepointRestoreSettings;
import org.apache.flink.runtime.minicluster.MiniCluster;
import org.apache.flink.runtime.minicluster.MiniClusterConfiguration;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * A KafkaSource (uid "orders") of the topics {@code --topics} and a count of records per partition in keyed state (uid
 * "counts"). {@code --save=N} stops it with a savepoint after N records; {@code --runs=SNAPSHOT|START|N|PARALLELISM,...}
 * restores it from each snapshot, waits for N records, and a while for more than these. {@code --fill=N} makes the topics.
 */
public final class KafkaRecords {
    private static final List<String> READ = Collections.synchronizedList(new ArrayList<>());
    private static final Map<String, Long> COUNTS = new ConcurrentHashMap<>();
    private static final long PATIENCE = TimeUnit.SECONDS.toMillis(60);

    private KafkaRecords() {}

    public static void main(String[] arguments) throws Exception {
        Options options = Options.parse(arguments);
        Configuration configuration = options.configuration();
        Files.createDirectories(options.out().resolve("tmp"));
        MiniClusterConfiguration size = new MiniClusterConfiguration.Builder()
                .setConfiguration(configuration)
                .setNumTaskManagers(1)
                .setNumSlotsPerTaskManager(options.number("parallelism") + 1)
                .build();
        List<Object> found = new ArrayList<>();
        try (MiniCluster cluster = new MiniCluster(size)) {
            cluster.start();
            if (options.named().containsKey("fill")) {
                fill(options.get("servers"), options.number("fill"));
            } else if (options.named().containsKey("save")) {
                found.add(run(cluster, configuration, options, null, "earliest", options.number("save"),
                        options.number("parallelism")));
            } else {
                for (String run : options.get("runs").split(",")) {
                    String[] parts = run.split("\\|");
                    found.add(run(cluster, configuration, options, parts[0], parts[1], Integer.parseInt(parts[2]),
                            Integer.parseInt(parts[3])));
                }
            }
        }
        Json.write(options.out().resolve("found.json"), found);
        options.deleteTemporary();
        // Some of Flink's threads are no daemons.
        System.exit(0);
    }

    private static Object run(MiniCluster cluster, Configuration configuration, Options options, String snapshot,
            String start, int wanted, int parallelism) throws Exception {
        READ.clear();
        COUNTS.clear();
        StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment(configuration);
        env.setParallelism(parallelism);
        env.setMaxParallelism(128);
        OffsetsInitializer starting = start.equals("latest") ? OffsetsInitializer.latest() : OffsetsInitializer.earliest();
        KafkaSource<String> source = KafkaSource.<String>builder()
                .setBootstrapServers(options.get("servers"))
                .setGroupId("orders")
                .setTopicPattern(Pattern.compile(options.get("topics")))
                .setValueOnlyDeserializer(new SimpleStringSchema())
                .setStartingOffsets(starting)
                .build();
        env.fromSource(source, WatermarkStrategy.noWatermarks(), "orders")
                .uid("orders")
                .map(new Read(snapshot == null))
                .uid("read")
                .keyBy(KafkaRecords::partition)
                .map(new Count())
                .uid("counts");
        JobGraph job = env.getStreamGraph(false).getJobGraph();
        if (snapshot != null) {
            job.setSavepointRestoreSettings(SavepointRestoreSettings.forPath(snapshot, false));
        }
        cluster.submitJob(job).get();
        long limit = System.currentTimeMillis() + PATIENCE;
        while (READ.size() < wanted && System.currentTimeMillis() < limit
                && !cluster.getJobStatus(job.getJobID()).get().isGloballyTerminalState()) {
            Thread.sleep(20);
        }
        String savepoint = null;
        if (snapshot == null) {
            savepoint = cluster.stopWithSavepoint(job.getJobID(), options.out().toUri().toString(), false,
                    SavepointFormatType.CANONICAL).get(60, TimeUnit.SECONDS);
        } else {
            Thread.sleep(options.number("linger"));
            if (!cluster.getJobStatus(job.getJobID()).get().isGloballyTerminalState()) {
                cluster.cancelJob(job.getJobID()).get();
            }
        }
        String failure = cluster.requestJobResult(job.getJobID()).get().getSerializedThrowable()
                .map(error -> error.getFullStringifiedStackTrace())
                .orElse(null);
        List<String> records = new ArrayList<>(READ);
        Collections.sort(records);
        return Json.object("savepoint", savepoint, "records", records, "counts", new TreeMap<>(COUNTS), "failure", failure);
    }

    /** Makes the topics, with records in each partition; one record in a batch, as the tests' broker counts these. */
    private static void fill(String servers, int records) throws Exception {
        Map<String, Object> settings = Map.of("bootstrap.servers", servers, "batch.size", 0);
        Map<String, Integer> topics = Map.of("orders", 3, "clicks", 2);
        try (Admin admin = Admin.create(settings)) {
            List<NewTopic> made = new ArrayList<>();
            topics.forEach((topic, partitions) -> made.add(new NewTopic(topic, partitions, (short) 1)));
            admin.createTopics(made).all().get();
        }
        StringSerializer text = new StringSerializer();
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(settings, text, text)) {
            topics.forEach((topic, partitions) -> {
                for (int partition = 0; partition < partitions; partition++) {
                    for (int i = 0; i < records; i++) {
                        String record = topic + "-" + partition + "@" + i;
                        producer.send(new ProducerRecord<>(topic, partition, null, record));
                    }
                }
            });
        }
    }

    private static String partition(String text) {
        return text.substring(0, text.indexOf('@'));
    }

    /** Remembers records; slowly, so that a job can be stopped on the way. */
    private static final class Read implements MapFunction<String, String> {
        private final boolean slowly;

        Read(boolean slowly) {
            this.slowly = slowly;
        }

        @Override
        public String map(String text) throws Exception {
            READ.add(text);
            if (slowly) {
                Thread.sleep(4);
            }
            return text;
        }
    }

    /** Counts the records of each key. */
    private static final class Count extends RichMapFunction<String, String> {
        private transient ValueState<Long> count;

        @Override
        public String map(String text) throws Exception {
            if (count == null) {
                count = getRuntimeContext().getState(new ValueStateDescriptor<>("count", Types.LONG));
            }
            long now = count.value() == null ? 1 : count.value() + 1;
            count.update(now);
            COUNTS.put(partition(text), now);
            return text;
        }
    }
}
