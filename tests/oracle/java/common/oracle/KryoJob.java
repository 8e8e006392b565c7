package oracle;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.time.ZonedDateTime;
import java.time.ZoneOffset;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.BitSet;
import java.util.Collections;
import java.util.Currency;
import java.util.Date;
import java.util.EnumMap;
import java.util.EnumSet;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.LinkedList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.IntStream;
import java.util.stream.LongStream;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.api.java.typeutils.GenericTypeInfo;
import org.apache.flink.core.memory.DataInputDeserializer;
import org.apache.flink.core.memory.DataOutputSerializer;

/**
 * What people keep in state without a serializer of Flink's: Kryo 2 writes it in Flink 1.x, Kryo 5 in 2.x. What a
 * version cannot write and read again is left out; the expected file names it under {@code leftOut}.
 */
final class KryoJob extends TableJob {
    private final Map<String, List<?>> candidates = new LinkedHashMap<>();

    @Override
    void define() {
        Compat.registerKryo(config, Model.Leaf.class);
        addCollections();
        addImmutables();
        addValues();
        KeyedTable table = table("kryo", Types.LONG, LongStream.range(0, 8).boxed().toList());
        candidates.forEach((name, samples) -> addIfPossible(table, name, samples));
    }

    @SuppressWarnings("unchecked")
    private void addIfPossible(KeyedTable table, String name, List<?> samples) {
        Class<Object> type = (Class<Object>) samples.get(0).getClass();
        TypeInformation<Object> info = new GenericTypeInfo<>(name.contains("object") ? Object.class : type);
        try {
            TypeSerializer<Object> serializer = Compat.serializer(info, config);
            for (Object sample : samples) {
                DataOutputSerializer output = new DataOutputSerializer(64);
                serializer.serialize(sample, output);
                Object again = serializer.deserialize(new DataInputDeserializer(output.getCopyOfBuffer()));
                if (!Json.of(sample).equals(Json.of(again))) {
                    throw new IllegalStateException("reads as " + again);
                }
                serializer.copy(sample);
            }
            table.samples(name, info, (List<Object>) samples);
        } catch (Exception | LinkageError e) {
            table.leaveOut(name, e.toString().split("\n")[0]);
        }
    }

    private void addCollections() {
        List<String> some = Arrays.asList("a", null, "\u00e9", "a");
        candidates.put("array-list", List.of(new ArrayList<>(some), new ArrayList<>(), new ArrayList<>(List.of("x".repeat(100)))));
        candidates.put("array-list-of-ints", List.of(new ArrayList<>(List.of(0, -1, 63, 64, 8192, Integer.MIN_VALUE))));
        candidates.put("array-list-mixed", List.of(new ArrayList<>(Arrays.asList(1, 2L, 3.5, 4.5f, 'c', true, "s", null,
                (short) 6, (byte) 7, new Date(8), BigDecimal.valueOf(9, 1), BigInteger.TEN))));
        candidates.put("array-list-nested", List.of(new ArrayList<>(List.of(new ArrayList<>(List.of(1L)), new LinkedList<>()))));
        Date twice = new Date(1_700_000_000_000L);
        candidates.put("array-list-same-twice", List.of(new ArrayList<>(List.of(twice, twice, new Date(1)))));
        candidates.put("linked-list", List.of(new LinkedList<>(some), new LinkedList<>()));
        candidates.put("array-deque", List.of(new ArrayDeque<>(List.of(1L, 2L))));
        candidates.put("hash-map", List.of(new HashMap<>(Map.of("a", 1, "b", 2)), new HashMap<>()));
        candidates.put("hash-map-nested", List.of(new HashMap<>(Map.of("a", new ArrayList<>(List.of(1.5, -2.5))))));
        candidates.put("linked-hash-map", List.of(new LinkedHashMap<>(Map.of(1L, "one"))));
        candidates.put("tree-map", List.of(new TreeMap<>(Map.of("z", 26L, "a", 1L)), new TreeMap<>()));
        candidates.put("concurrent-hash-map", List.of(new ConcurrentHashMap<>(Map.of("k", 1))));
        candidates.put("hash-set", List.of(new HashSet<>(List.of("x", "y")), new HashSet<>()));
        candidates.put("linked-hash-set", List.of(new LinkedHashSet<>(List.of(3, 1, 2))));
        candidates.put("tree-set", List.of(new TreeSet<>(List.of("b", "a"))));
        candidates.put("enum-map", List.of(new EnumMap<>(Map.of(Model.Suit.HEARTS, "h"))));
        candidates.put("enum-set", List.of(EnumSet.of(Model.Suit.CLUBS, Model.Suit.SPADES)));
    }

    private void addImmutables() {
        candidates.put("arrays-as-list", List.of(Arrays.asList("a", "b"), Arrays.asList(1, null)));
        candidates.put("empty-list", List.of(Collections.emptyList()));
        candidates.put("empty-map", List.of(Collections.emptyMap()));
        candidates.put("empty-set", List.of(Collections.emptySet()));
        candidates.put("singleton-list", List.of(Collections.singletonList("only")));
        candidates.put("singleton-map", List.of(Collections.singletonMap("k", 1L)));
        candidates.put("singleton-set", List.of(Collections.singleton("only")));
        candidates.put("unmodifiable-list", List.of(Collections.unmodifiableList(new ArrayList<>(List.of(1, 2)))));
        candidates.put("unmodifiable-map", List.of(Collections.unmodifiableMap(new HashMap<>(Map.of("u", 1)))));
        candidates.put("list-of", List.of(List.of("a", "b", "c")));
        candidates.put("list-of-one", List.of(List.of("a")));
        candidates.put("map-of", List.of(Map.of("a", 1, "b", 2)));
        candidates.put("map-of-one", List.of(Map.of("a", 1)));
        candidates.put("set-of", List.of(Set.of(1L, 2L)));
    }

    private void addValues() {
        BitSet bits = new BitSet();
        IntStream.of(0, 3, 63, 64, 200).forEach(bits::set);
        candidates.put("bit-set", List.of(bits, new BitSet()));
        candidates.put("uuid", List.of(new UUID(1, 2), new UUID(-1, Long.MIN_VALUE)));
        candidates.put("date", List.of(new Date(0), new Date(-1), new Date(1_700_000_000_123L)));
        candidates.put("big-decimal", List.of(new BigDecimal("12.50"), new BigDecimal("-1E+400"), BigDecimal.ZERO));
        candidates.put("big-integer", List.of(BigInteger.TWO.pow(100), BigInteger.ZERO));
        candidates.put("local-date", List.of(LocalDate.of(2024, 2, 29), LocalDate.of(-1, 1, 1)));
        candidates.put("local-time", List.of(LocalTime.of(1, 2, 3, 4), LocalTime.of(23, 0)));
        candidates.put("local-date-time", List.of(LocalDateTime.of(2024, 2, 29, 1, 2, 3)));
        candidates.put("instant", List.of(Instant.ofEpochSecond(1_700_000_000, 5), Instant.EPOCH));
        candidates.put("duration", List.of(Duration.ofSeconds(90, 1)));
        candidates.put("zoned-date-time", List.of(ZonedDateTime.of(2024, 2, 29, 1, 2, 3, 4, ZoneOffset.ofHours(2))));
        candidates.put("optional", List.of(Optional.of("there"), Optional.empty()));
        candidates.put("atomic-long", List.of(new AtomicLong(42)));
        candidates.put("currency", List.of(Currency.getInstance("EUR")));
        candidates.put("locale", List.of(Locale.GERMANY));
        candidates.put("string-builder", List.of(new StringBuilder("built")));
        candidates.put("object-string", List.of("short", "\u00e9\u4e2d", "", "a", "x".repeat(200)));
        candidates.put("object-long", List.of(0L, -1L, 1L << 40));
        candidates.put("object-double", List.of(0.5, Double.NaN));
        candidates.put("object-bytes", List.of("bytes".getBytes(StandardCharsets.UTF_8)));
        candidates.put("object-strings", List.of((Object) new String[] {"a", null}));
        candidates.put("object-enum", List.of(Model.Suit.DIAMONDS));
        candidates.put("registered-class", List.of(registered()));
        candidates.put("other-class", List.of(new Model.Sealed("text", 1L << 40, new ArrayList<>(List.of("more")))));
        candidates.put("other-class-in-list", List.of(new ArrayList<>(List.of(new Model.Sealed("in a list", -1, null)))));
    }

    private static Model.Leaf registered() {
        Model.Leaf leaf = new Model.Leaf();
        leaf.weight = 300;
        leaf.suit = Model.Suit.HEARTS;
        return leaf;
    }
}
