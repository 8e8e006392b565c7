"""Checkpoints of real streaming queries of Spark become savepoints of Flink, and savepoints initial state of Spark."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest
from pyspark.cloudpickle import register_pickle_by_value
from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

from pyspark_savepoint import (
    Savepoint,
    initial_state,
    open_streaming,
    savepoint_from_streaming,
    starting_offsets,
)
from pyspark_savepoint.api.spark.streaming_log import StreamingState
from pyspark_savepoint.errors import (
    CorruptStateError,
    OptionError,
    SnapshotNotFoundError,
    StateNotFoundError,
    StorageError,
    UnsupportedStateError,
    UnsupportedVersionError,
)
from pyspark_savepoint.formats.errors import SavepointWarning
from pyspark_savepoint.formats.snapshot.savepoint import find_snapshots
from tests.oracle import engines

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark
register_pickle_by_value(engines)
SHOP = Path(__file__).parents[3] / "oracle" / "savepoints" / "shop" / "savepoint"
#: Times of records: seconds after 1971 began (Spark takes the epoch itself for late); the watermark is 10 s behind.
SECONDS, START = 100, 31_536_000
HOUR = 3_600_000


class Variables(StatefulProcessor):
    """A variable of every kind, with and without a time to live, and a timer."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.handle = handle
        self.pair = handle.getValueState("pair", "n long, text string")
        self.last = handle.getValueState("last", "n long", HOUR)
        self.all = handle.getListState("all", "n long")
        self.recent = handle.getListState("recent", "n long", HOUR)
        self.by_rest = handle.getMapState("by_rest", "rest string", "n long")
        self.by_half = handle.getMapState("by_half", "half long", "n long", HOUR)

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:  # noqa: N802, N803
        for batch in rows:
            for n in batch["n"].tolist():
                self.pair.update((n, str(n)))
                self.last.update((n,))
                self.all.appendValue((n,))
                self.recent.appendValue((n,))
                self.by_rest.updateValue((str(n % 3),), (n,))
                self.by_half.updateValue((n // 50,), (n,))
        self.handle.registerTimer(4_000_000_000_000)
        yield pd.DataFrame({"word": [key[0]]})

    def close(self) -> None:
        pass


class Total(StatefulProcessor):
    """A variable whose type has fields that were added later."""

    def __init__(self, fields: str) -> None:
        self.fields = fields

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.total = handle.getValueState("total", self.fields)

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:  # noqa: N802, N803
        n = sum(int(batch["n"].sum()) for batch in rows)
        self.total.update((n, str(n))[: self.fields.count(",") + 1])
        yield pd.DataFrame({"word": [key[0]]})

    def close(self) -> None:
        pass


@pytest.fixture(scope="module")
def checkpoints(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """A function that runs a query of some name once, and returns its checkpoint."""
    folder = tmp_path_factory.mktemp("streaming")
    (folder / "in").mkdir()
    lines = [
        json.dumps({"n": i, "word": f"w{i % 7}", "at": f"1971-01-01T00:{i // 60:02}:{i % 60:02}Z"})
        for i in range(SECONDS)
    ]
    (folder / "in" / "1.json").write_text("\n".join(lines))

    def rows() -> DataFrame:
        read = spark.readStream.schema("n long, word string, at timestamp").json(str(folder / "in"))
        return read.withWatermark("at", "10 seconds")

    def counted(key: Any, frames: Any, state: Any) -> Iterator[pd.DataFrame]:
        count = sum(len(frame) for frame in frames)
        state.update((count, f"{count}"))
        state.setTimeoutTimestamp(41_536_000_000)
        yield pd.DataFrame({"word": [key[0]]})

    aggregates = [F.sum("n"), F.count("n"), F.avg("n"), F.min("n"), F.max("n")]
    queries: dict[str, Callable[[], DataFrame]] = {
        "aggregation": lambda: rows().groupBy("word").agg(*aggregates, F.sum(F.col("n").cast("decimal(20,2)"))),
        "windows": lambda: rows().groupBy(F.window("at", "10 seconds"), "word").agg(*aggregates),
        "all-windows": lambda: rows().groupBy(F.window("at", "20 seconds", "10 seconds")).count(),
        "opaque": lambda: rows().groupBy("word").agg(F.collect_list("n"), F.approx_count_distinct("n")),
        "sessions": lambda: rows().groupBy(F.session_window("at", "5 seconds"), "word").count(),
        "distinct": lambda: rows().dropDuplicates(["word", "n"]),
        "within": lambda: rows().dropDuplicatesWithinWatermark(["n"]),
        "two": lambda: rows().dropDuplicates(["word", "n"]).groupBy("word").count(),
        "group-state": lambda: (
            rows()
            .groupBy("word")
            .applyInPandasWithState(counted, "word string", "n long, text string", "update", "EventTimeTimeout")
        ),
        "variables": lambda: (
            rows().groupBy("word").transformWithStateInPandas(Variables(), "word string", "update", "ProcessingTime")
        ),
        "numbers": lambda: engines.input_of(spark, '{"numbers":{"0":10,"1":20}}', 60, step=100).groupBy("word").count(),
        "stateless": lambda: rows().select("word"),
        "names": lambda: (
            rows()
            .selectExpr("at", "n", "word AS service", "n % 2 AS Timestamp")
            .groupBy(F.window("at", "10 seconds"), "service", "Timestamp")
            .agg(F.sum("n"))
        ),
        "nulls": lambda: (
            rows()
            .selectExpr("at", "n", "nullif(n % 3, 0) AS half")
            .groupBy(F.window("at", "10 seconds"), "half")
            .agg(F.sum("n"))
        ),
        "join": lambda: joined("left_outer"),
    }

    def joined(how: str) -> DataFrame:
        others = rows().where("n % 3 = 0").selectExpr("n AS other", "word AS of", "at AS then")
        near = "n = other AND word = of AND at BETWEEN then - INTERVAL 5 SECONDS AND then + INTERVAL 5 SECONDS"
        return rows().join(others, F.expr(near), how)

    def run(name: str) -> Path:
        checkpoint = folder / name
        if checkpoint.exists():
            return checkpoint
        if name == "variables":
            spark.conf.set(engines.PROVIDER, engines.ROCKSDB)
        try:
            append = name in (
                "names", "nulls",
                "windows", "all-windows", "sessions", "distinct", "within", "stateless", "join",
            )  # fmt: skip
            writer = queries[name]().writeStream.format("noop").option("checkpointLocation", str(checkpoint))
            query = writer.outputMode("append" if append else "update").start()
            if name == "variables":
                while not (checkpoint / "commits" / "0").exists() and query.isActive:
                    query.awaitTermination(0.1)
            else:
                query.processAllAvailable()
            query.stop()
        finally:
            spark.conf.unset(engines.PROVIDER)
        return checkpoint

    return run


def sorted_rows(df: DataFrame) -> list[dict[str, Any]]:
    return sorted((row.asDict(recursive=True) for row in df.collect()), key=lambda row: str(sorted(row.items())))


def by_word(rows: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {row.pop("word"): row for row in rows}


NUMBERS = {f"w{word}": [n for n in range(SECONDS) if n % 7 == word] for word in range(7)}


def test_an_aggregation(spark: SparkSession, checkpoints: Callable[..., Path], tmp_path: Path) -> None:
    query = open_streaming(spark, checkpoints("aggregation"))
    assert (query.watermark, query.sources) == ((START + 89) * 1_000, {"0": '{"logOffset":0}'})
    found = by_word(sorted_rows(query.keyed_state(aggregates={
        "total": "sum", "n": "count", "mean": "avg", "low": "min", "high": "max", "exact": "sum",
    })))  # fmt: skip
    assert found == {
        word: {
            "total": sum(own), "n": len(own), "mean": {"f0": float(sum(own)), "f1": len(own)},
            "low": min(own), "high": max(own), "exact": sum(own),
        }
        for word, own in NUMBERS.items()
    }  # fmt: skip
    assert query.keyed_state().columns == ["word", "sum", "count", "sum_2", "count_2", "min", "max", "sum_3", "isEmpty"]
    assert query.timers().count() == 0
    with pytest.raises(OptionError, match="aggregates do not fit the buffers"):
        query.keyed_state(aggregates={"total": "sum"})
    with pytest.raises(UnsupportedStateError, match="does not aggregate by event-time windows"):
        query.window_state()
    with pytest.raises(UnsupportedStateError, match="no offsets by topic"):
        query.offsets(0)
    with pytest.raises(OptionError, match="no source with offsets"):
        query.offsets()


@pytest.mark.slow  # streams of seven kinds
def test_windows_become_those_of_a_window_operator(
    spark: SparkSession, checkpoints: Callable[..., Path], tmp_path: Path
) -> None:
    aggregates: Any = {"total": "sum", "n": "count", "mean": "avg", "low": "min", "high": "max"}
    with pytest.warns(SavepointWarning, match=r"not carried over: (source 0|the watermark)"):
        sp = savepoint_from_streaming(spark, checkpoints("windows"), "windows", aggregates=aggregates)
    written = sp.write(tmp_path / "sp")
    states = {row["state"]: (row["kind"], row["value_type"]) for row in written.states().collect()}
    assert states["window-contents"] == ("AGGREGATING", "TUPLE<LONG, LONG, TUPLE<DOUBLE, LONG>, LONG, LONG>")
    # The watermark is at 89 s: windows that end before it have been emitted.
    windows = {
        (word, start): own
        for word, numbers in NUMBERS.items()
        for start in range(START + 80, START + SECONDS, 10)
        if (own := [n for n in numbers if start <= START + n < start + 10])
    }
    found = {
        (row["key"], int(row["window"]["start"].timestamp())): row["window-contents"].asDict(recursive=True)
        for row in written.window_state("windows").collect()
    }
    assert found == {
        at: {
            "f0": sum(own), "f1": len(own), "f2": {"f0": float(sum(own)), "f1": len(own)},
            "f3": min(own), "f4": max(own),
        }
        for at, own in windows.items()
    }  # fmt: skip
    timers = [(row["key"], row["timestamp"], row["service"]) for row in written.timers("windows").collect()]
    assert sorted(timers) == sorted((word, start * 1_000 + 9_999, "window-timers") for word, start in windows)
    assert {row["domain"] for row in written.timers("windows").collect()} == {"event"}

    initial = by_word(sorted_rows(initial_state(written, "windows", key="word")))
    assert initial["w6"]["windows"][0] == {
        "start": (START + 80) * 1_000, "end": (START + 90) * 1_000, "window-contents": found["w6", START + 80],
    }  # fmt: skip
    assert [timer["timestamp"] - START * 1_000 for timer in initial["w6"]["timers"]] == [89_999, 99_999]
    with pytest.raises(OptionError, match="aggregates of the query are needed"):
        savepoint_from_streaming(spark, checkpoints("windows"), "windows")


@pytest.mark.slow("streaming queries; one of each kind of table is quick")
def test_windows_without_a_key_have_that_of_window_all(spark: SparkSession, checkpoints: Callable[..., Path]) -> None:
    query = open_streaming(spark, checkpoints("all-windows"))
    found = query.window_state(aggregates={"window-contents": "count"})
    assert next(field.simpleString() for field in found.schema) == "key:tinyint"
    assert {row["window"]["end"].timestamp() - START: row["window-contents"] for row in found.collect()} == {
        90: 20, 100: 20, 110: 10,
    }  # fmt: skip
    assert {row["key"] for row in query.timers().collect()} == {0}
    with pytest.raises(OptionError, match="has the kind of these timers"):
        query.timers(domain="processing")
    with pytest.raises(OptionError, match="opened at a batch already"):
        savepoint_from_streaming(spark, query, "windows", batch_id=0)


@pytest.mark.slow("streaming queries; one of each kind of table is quick")
def test_keys_whose_names_tables_of_timers_have(
    spark: SparkSession, checkpoints: Callable[..., Path], tmp_path: Path
) -> None:
    with pytest.warns(SavepointWarning, match="not carried over"):
        sp = savepoint_from_streaming(spark, checkpoints("names"), "windows", aggregates={"service": "sum"})
    written = sp.write(tmp_path / "sp")
    windows = {(row["key"]["f0"], row["key"]["f1"]) for row in written.window_state("windows").collect()}
    assert windows == {(f"w{n % 7}", n % 2) for n in range(80, SECONDS)}
    assert {(row["key"]["f0"], row["key"]["f1"]) for row in written.timers("windows").collect()} == windows
    assert open_streaming(spark, checkpoints("names")).keyed_state().columns[:3] == [
        "window", "key_service", "key_Timestamp",
    ]  # fmt: skip


@pytest.mark.slow("streaming queries; one of each kind of table is quick")
def test_deduplication(spark: SparkSession, checkpoints: Callable[..., Path], tmp_path: Path) -> None:
    rows = open_streaming(spark, checkpoints("distinct")).keyed_state()
    assert {(row["word"], row["n"], row["seen"]) for row in rows.collect()} == {
        (f"w{n % 7}", n, True) for n in range(SECONDS)
    }
    with pytest.warns(SavepointWarning, match="not carried over"):
        sp = savepoint_from_streaming(spark, checkpoints("distinct"), "distinct").write(tmp_path / "sp")
    assert sp.keyed_state("distinct").count() == SECONDS
    within = open_streaming(spark, checkpoints("within"))
    # Kept until the watermark has passed the record by its delay.
    assert {row["n"]: row["expires_at"] for row in within.keyed_state().collect()} == {
        n: (START + n + 10) * 1_000 for n in range(80, SECONDS)
    }
    assert {row["n"]: row["timestamp"] for row in within.timers().collect()} == {
        n: (START + n + 10) * 1_000 - 1 for n in range(80, SECONDS)
    }


@pytest.mark.slow("streaming queries; one of each kind of table is quick")
def test_rows_that_wait_for_the_other_side_of_a_join(
    spark: SparkSession, checkpoints: Callable[..., Path], tmp_path: Path
) -> None:
    query = open_streaming(spark, checkpoints("join"))
    (operator,) = query.operators
    assert query.timers().isEmpty()
    found = {(row["field0"], row["field1"]): (row["left"], row["right"]) for row in query.keyed_state().collect()}
    assert sum("found a match" in sentence for sentence in query.not_carried_over()) == 1
    for (n, word), (left, right) in found.items():
        assert all((row["n"], row["word"]) == (n, word) for row in left or ())
        assert all((row["other"], row["of"]) == (n, word) for row in right or ())
    # Rows wait until the watermark has passed them by the interval.
    assert query.watermark == (START + 89) * 1_000
    waiting = set(range(85, SECONDS))
    assert waiting <= {n for (n, _), (left, _) in found.items() if left}
    assert {n for n in waiting if n % 3 == 0} <= {n for (n, _), (_, right) in found.items() if right}
    with pytest.warns(SavepointWarning, match="which rows found a match"):
        written = savepoint_from_streaming(spark, query, "join").write(tmp_path / "sp")
    rows = {(row["key"]["f0"], row["key"]["f1"]): row for row in written.keyed_state("join").collect()}
    assert {key: (len(row["left"] or ()), len(row["right"] or ())) for key, row in rows.items()} == {
        key: (len(left or ()), len(right or ())) for key, (left, right) in found.items()
    }
    assert [row["state"] + " " + row["kind"] for row in written.states().where("table = 'keyed_state'").collect()] == [
        "left LIST", "right LIST"
    ]  # fmt: skip
    assert operator.name == "symmetricHashJoin"


@pytest.mark.slow("streaming queries; one of each kind of table is quick")
def test_state_of_groups(spark: SparkSession, checkpoints: Callable[..., Path]) -> None:
    query = open_streaming(spark, checkpoints("group-state"))
    assert by_word(sorted_rows(query.keyed_state())) == {
        word: {"state": {"n": len(own), "text": str(len(own))}} for word, own in NUMBERS.items()
    }
    assert {(row["word"], row["timestamp"], row["domain"]) for row in query.timers(domain="event").collect()} == {
        (word, 41_536_000_000, "event") for word in NUMBERS
    }
    with pytest.raises(OptionError, match="does not have the kind of timeouts"):
        query.timers()


@pytest.mark.slow  # streams of many kinds
def test_variables_of_transform_with_state(
    spark: SparkSession, checkpoints: Callable[..., Path], tmp_path: Path
) -> None:
    # Timeouts of processing time let one batch follow the other: the query was stopped in one.
    query = open_streaming(spark, checkpoints("variables"), batch_id=0)
    (operator,) = query.operators
    assert set(operator.states) == {
        StreamingState("pair", "value"), StreamingState("last", "value", True),
        StreamingState("all", "list"), StreamingState("recent", "list", True),
        StreamingState("by_rest", "map"), StreamingState("by_half", "map", True),
    }  # fmt: skip
    found = by_word(sorted_rows(query.keyed_state()))
    assert found == {
        word: {
            "pair": {"n": own[-1], "text": str(own[-1])}, "last": own[-1], "all": own, "recent": own,
            "by_rest": {str(n % 3): n for n in own}, "by_half": {n // 50: n for n in own},
        }
        for word, own in NUMBERS.items()
    }  # fmt: skip
    durations = dict.fromkeys(("last", "recent", "by_half"), timedelta(milliseconds=HOUR))
    with pytest.warns(SavepointWarning, match="not carried over") as warned:
        sp = savepoint_from_streaming(spark, query, "words", durations=durations)
    assert not any("expire" in str(warning.message) for warning in warned)
    assert sum("expire" in sentence for sentence in query.not_carried_over()) == 3
    written = sp.write(tmp_path / "sp")
    again = written.keyed_state("words", include_ttl=True)
    accessed = {row["key"]: row for row in again.collect()}
    logged = [
        json.loads(file.read_text().split("\n")[1]) for file in (checkpoints("variables") / "offsets").glob("[0-9]*")
    ]
    batch = min(metadata["batchTimestampMs"] for metadata in logged)
    for word, own in NUMBERS.items():
        row = accessed[word]
        assert row["last__last_access"].timestamp() * 1_000 == pytest.approx(batch, abs=0.5)
        assert len(row["recent__last_access"]) == len(own)
        assert set(row["by_half__last_access"]) == {n // 50 for n in own}
    initial = by_word(sorted_rows(initial_state(written, "words", key="word")))
    for word, row in initial.items():
        (timer,) = row.pop("timers")
        assert timer == {"timestamp": 4_000_000_000_000, "domain": "processing", "service": "user-timers"}
        # Flink's rows have no names.
        n, text = found[word].pop("pair").values()
        assert row.pop("pair") == {"f0": n, "f1": text}
        assert row == found[word]
    with pytest.raises(OptionError, match="no state 'pair' with a time to live"):
        query.keyed_state(durations={"pair": timedelta(hours=1)})
    wrong: Any = {"last": HOUR}
    with pytest.raises(OptionError, match="a time to live is a timedelta"):
        query.keyed_state(durations=wrong)


@pytest.mark.slow("streaming queries; one of each kind of table is quick")
def test_values_of_a_schema_that_evolved(spark: SparkSession, tmp_path: Path) -> None:
    spark.conf.set(engines.PROVIDER, engines.ROCKSDB)
    spark.conf.set("spark.sql.streaming.stateStore.encodingFormat", "avro")
    try:
        for number, (fields, words) in enumerate({"n long": ["a", "b"], "n long, text string": ["b", "c"]}.items()):
            lines = [json.dumps({"n": number, "word": word}) for word in words]
            (tmp_path / "in").mkdir(exist_ok=True)
            (tmp_path / "in" / f"{number}.json").write_text("\n".join(lines))
            rows = spark.readStream.schema("n long, word string").json(str(tmp_path / "in")).groupBy("word")
            made = rows.transformWithStateInPandas(Total(fields), "word string", "update", "None")
            query = made.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint"))
            started = query.outputMode("update").start()
            started.processAllAvailable()
            started.stop()
    finally:
        spark.conf.unset("spark.sql.streaming.stateStore.encodingFormat")
        spark.conf.unset(engines.PROVIDER)
    query = open_streaming(spark, tmp_path / "checkpoint")
    with pytest.raises(UnsupportedStateError, match="type of variable 'total' evolved") as caught:
        savepoint_from_streaming(spark, query, "totals")
    assert "struct<n:bigint,text:string>" in str(caught.value)
    assert open_streaming(spark, tmp_path / "checkpoint", batch_id=0).keyed_state().columns == ["word", "total"]
    assert by_word(sorted_rows(query.keyed_state(evolved=True))) == {
        "a": {"total": {"n": 0, "text": None}}, "b": {"total": {"n": 1, "text": "1"}},
        "c": {"total": {"n": 1, "text": "1"}},
    }  # fmt: skip
    assert query.timers().count() == 0


@pytest.mark.thorough("an aggregation, initial state, offsets of a savepoint")
def test_offsets_become_a_kafka_source(spark: SparkSession, checkpoints: Callable[..., Path], tmp_path: Path) -> None:
    query = open_streaming(spark, checkpoints("numbers"))
    assert query.offsets() == query.offsets("0") == {("numbers", 0): 60, ("numbers", 1): 60}
    aggregates: Any = {"n": "count"}
    with pytest.warns(SavepointWarning, match="source 0: its offsets: name the job's KafkaSource in source_uid="):
        savepoint_from_streaming(spark, query, "counts", aggregates=aggregates)
    sp = savepoint_from_streaming(
        spark, query, "counts", aggregates=aggregates, source_uid="source", types={"n": "LONG"}
    )
    written = sp.write(tmp_path / "sp")
    assert starting_offsets(written) == '{"numbers":{"0":60,"1":60}}'
    assert sum(row["n"] for row in written.keyed_state("counts").collect()) == len(
        [i for i in range(10, 60) if i % 5 != 3]
    ) + len([i for i in range(20, 60) if i % 5 != 3])
    with pytest.raises(OptionError, match="no source '7'"):
        query.offsets("7")


@pytest.mark.thorough("an aggregation, initial state, offsets of a savepoint")
def test_offsets_of_several_kafka_sources(
    spark: SparkSession, checkpoints: Callable[..., Path], tmp_path: Path
) -> None:
    """Names with all letters that Kafka takes, partitions that are missing or came later: both ways they are equal."""
    topics = {
        "orders": {"orders.eu-1_2": {"0": 5, "2": 2**63 - 1, "10": 0}, "7": {"3": 1}, "orders.eu-1_2-0": {"1": 4}},
        "clicks": {"...": {"0": 3}, "__clicks": {"0": 0, "1": 12}, "x" * 249: {"99999": 1}},
    }
    first = {"orders.eu-1_2": {"0": 1}, "7": {"3": 0}}
    checkpoint = Path(shutil.copytree(checkpoints("two"), tmp_path / "query"))
    last = max(int(file.name) for file in (checkpoint / "commits").glob("[0-9]*"))

    def log(batch: int, *sources: str) -> None:
        file = checkpoint / "offsets" / f"{batch}"
        file.with_name(f".{batch}.crc").unlink(missing_ok=True)
        file.write_text("\n".join([*file.read_text().split("\n")[:2], *sources]))

    log(last - 1, json.dumps(first), "-", '{"logOffset":0}')
    log(last, *map(json.dumps, topics.values()), '{"logOffset":2}')
    query = open_streaming(spark, checkpoint)
    with pytest.raises(OptionError, match="the query has 2 sources: name one of them"):
        query.offsets()
    given: Any = {"operator": 0, "aggregates": {"n": "count"}}
    with (
        pytest.warns(SavepointWarning, match="not carried over: source 1: its offsets"),
        pytest.warns(SavepointWarning, match='source 2: its position {"logOffset":2} has no counterpart'),
    ):
        savepoint_from_streaming(spark, query, "counts", source_uid={"orders": 0}, **given)
    with pytest.warns(SavepointWarning, match="source 2: its position") as warned:
        sp = savepoint_from_streaming(spark, query, "counts", source_uid={"orders": 0, "clicks": "1"}, **given)
    assert not any("its offsets" in str(one.message) for one in warned)
    written = sp.write(tmp_path / "savepoint")
    for uid, offsets in topics.items():
        assert json.loads(starting_offsets(written, uid)) == offsets
        splits = written.table("splits", uid).collect()
        assert {(row["topic"], row["partition"]): row["offset"] for row in splits} == {
            (topic, int(part)): at for topic, parts in offsets.items() for part, at in parts.items()
        }
    before = open_streaming(spark, checkpoint, batch_id=last - 1)
    assert before.offsets() == {("orders.eu-1_2", 0): 1, ("7", 3): 0}

    for sources, error in {
        (json.dumps(first), ""): "no whole offsets of source 1",
        (json.dumps(first)[:-1],): "no whole offsets of source 0",
        (json.dumps(first), '{"clicks":'): "no whole offsets of source 1",
        (json.dumps(first),): "the log of the query has not all sources",
    }.items():
        log(last, *sources)
        with pytest.raises(CorruptStateError, match=error) as caught:
            open_streaming(spark, checkpoint)
        assert f"offsets/{last}" in str(caught.value)
    (checkpoint / "offsets" / f"{last - 1}").write_bytes(b"\xff")  # of another batch: it does not matter
    log(last, json.dumps(topics["orders"]))
    assert len(open_streaming(spark, checkpoint).offsets()) == 5


def test_starting_offsets_of_a_savepoint(spark: SparkSession, corpus: Path, tmp_path: Path) -> None:
    kafka = Savepoint.load(spark, find_snapshots(str(corpus / "connectors" / "2.3.0-kafka-v5.0.0"))[0].path)
    offsets = json.loads(starting_offsets(kafka, "source"))
    rows = kafka.table(table="splits").collect()
    assert {(topic, int(part)): at for topic, parts in offsets.items() for part, at in parts.items()} == {
        (row["topic"], row["partition"]): row["offset"] for row in rows
    }
    newest = kafka.sources.with_offsets(reset="latest").write(tmp_path / "latest")
    assert json.loads(starting_offsets(newest))["orders"] == {
        "0": -1, "1": -1, "2": -1,
    }  # fmt: skip
    with pytest.warns(SavepointWarning, match="records are read again"):
        committed = kafka.sources.with_offsets(reset="committed").write(tmp_path / "committed")
    with pytest.raises(UnsupportedStateError, match="no offset that Spark could start from"):
        starting_offsets(committed)
    with pytest.raises(OptionError, match="no source with positions"):
        starting_offsets(Savepoint.load(spark, SHOP))


@pytest.mark.thorough("an aggregation, initial state, offsets of a savepoint")
@pytest.mark.parametrize("name", ["2.3.0-files", "2.3.0-files-continuous"])
def test_files_go_on_at_the_lines_that_were_not_read(
    spark: SparkSession, corpus: Path, tmp_path: Path, name: str
) -> None:
    """A query that leaves out what real Flink had read of the files emits the rest, as the README does it."""
    case = corpus / "connectors" / name
    for letter in "abcde":  # as the job's own files (connlab.Jobs)
        (tmp_path / f"{letter}.txt").write_text("".join(f"{letter}:{line:03}\n" for line in range(80)))
    with pytest.warns(SavepointWarning, match="leave out by a condition"):
        found = json.loads(starting_offsets(Savepoint.load(spark, find_snapshots(str(case))[0].path), "source"))
    at = {f"file:{tmp_path}/{Path(path).name}": parts for path, parts in found.items()}
    emitted = json.loads((case / "expected.json").read_text())["emitted"]
    if name == "2.3.0-files":  # the state of a bounded source has no files that it has finished
        at = {f"file:{tmp_path}/{letter}.txt": {} for letter in "abcde"} | at
    assert any(not parts for parts in at.values())
    (tmp_path / "new.txt").write_text("new:000\nnew:001\n")
    at = {path: next(iter(parts.values()), None) for path, parts in at.items()}
    read = spark.createDataFrame(list(at.items()), "file string, records long")
    lines = (
        spark.readStream.format("text").option("wholetext", True).load(str(tmp_path / "*.txt"))
        .selectExpr("regexp_replace(_metadata.file_path, '^file:/+', 'file:/') AS path", "value")
        .selectExpr("path", "posexplode(split(value, '\n')) AS (n, line)")
    )  # fmt: skip
    rest = lines.join(F.broadcast(read), F.expr("path = file"), "left").where(
        "line != '' AND (file IS NULL OR n >= records)"
    )
    rows = engines.run(rest.select("line"), tmp_path / "checkpoint")
    everything = [f"{letter}:{line:03}" for letter in "abcde" for line in range(80)]
    assert sorted(emitted + [line for (line,) in rows]) == sorted([*everything, "new:000", "new:001"])


def test_initial_state_of_an_operator(spark: SparkSession) -> None:
    sp = Savepoint.load(spark, SHOP)
    rows = initial_state(sp, "accounts", key="account", state="total,recent_amounts")
    assert rows.columns == ["account", "total", "recent_amounts", "timers"]
    assert rows.drop("timers").exceptAll(sp.keyed_state("accounts").select("key", "total", "recent_amounts")).isEmpty()
    timers = rows.selectExpr("account AS key", "inline(timers)").select("key", "timestamp", "domain", "service")
    assert timers.exceptAll(sp.timers("accounts")).isEmpty()
    assert timers.count() == sp.timers("accounts").count()
    with pytest.raises(StateNotFoundError, match="no keyed state"):
        initial_state(sp, "currency-converter")


@pytest.mark.thorough  # many queries
def test_options_of_initial_state(spark: SparkSession) -> None:
    """Each applies to the tables that have it."""
    sp = Savepoint.load(spark, SHOP)
    rows = initial_state(sp, "accounts", include_ttl=True, raw="total")
    alone = sp.keyed_state("accounts", include_ttl=True, raw="total")
    assert rows.drop("timers").schema.simpleString() == alone.schema.simpleString()
    assert rows.schema["total"].dataType.typeName() == "binary"
    assert rows.count() == sp.keyed_state("accounts").count()
    assert rows.where("timers IS NOT NULL").count() > 0
    raw = initial_state(sp, "accounts", raw="key,profile")
    assert raw.schema["key"].dataType.typeName() == "binary"
    assert raw.where("timers IS NOT NULL AND total IS NOT NULL").count() > 0
    plain = initial_state(sp, "orders-per-minute", include_internal=True)
    longs = initial_state(sp, "orders-per-minute", timestamps="raw")
    assert longs.schema == plain.schema
    assert longs.exceptAll(plain).isEmpty()
    assert plain.exceptAll(longs).isEmpty()
    window = initial_state(sp, "orders-per-minute", raw="window-contents").schema["windows"].dataType.elementType
    assert [window[name].dataType.typeName() for name in ("start", "window-contents")] == ["long", "binary"]
    with pytest.raises(PySparkException, match="'includeInternal' cannot apply to table 'keyed_state'"):
        initial_state(sp, "accounts", include_internal=True)
    with pytest.raises(OptionError, match="one row per key"):
        initial_state(sp, "accounts", flatten=True)
    with pytest.raises(PySparkException, match="'totl'"):
        initial_state(sp, "accounts", state="totl")
    with pytest.raises(PySparkException, match="include_ttls"):
        initial_state(sp, "accounts", include_ttls=True)
    with pytest.raises(UnsupportedStateError, match="not a window of time"):
        initial_state(sp, "orders-per-minute", raw="window")


def test_keys_of_initial_state(spark: SparkSession) -> None:
    sp = Savepoint.load(spark, SHOP)
    with pytest.raises(OptionError, match="another number of fields"):
        initial_state(sp, "accounts", key=["a", "b"])


@pytest.mark.slow("streaming queries; one of each kind of table is quick")
@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("sessions", "open sessions"),
        ("opaque", "buffers of collect_list"),
        ("opaque", "buffers of approx_count_distinct"),
    ],
)
def test_what_cannot_be_carried_over_is_listed(
    spark: SparkSession, checkpoints: Callable[..., Path], name: str, sentence: str
) -> None:
    query = open_streaming(spark, checkpoints(name))
    assert any(sentence in text for text in query.not_carried_over())
    if name == "sessions":
        with pytest.raises(UnsupportedStateError, match="cannot be carried over"):
            query.keyed_state()


@pytest.mark.thorough("an aggregation, initial state, offsets of a savepoint")
def test_keys_that_flink_has_not_are_left_out_by_a_condition(
    spark: SparkSession, checkpoints: Callable[..., Path], tmp_path: Path
) -> None:
    def made(**given: Any) -> Savepoint:
        aggregates: Any = {"n": "sum"}
        with (
            pytest.warns(SavepointWarning, match="not carried over: source 0"),
            pytest.warns(SavepointWarning, match="windows whose values are all NULL"),
        ):
            return savepoint_from_streaming(spark, checkpoints("nulls"), "sums", aggregates=aggregates, **given)

    with pytest.raises(PySparkException, match="column 'half' is NULL in some rows") as caught:
        made().write(tmp_path / "all")
    assert "leave the rows out in which 'half' is NULL" in str(caught.value)
    written = made(where="half IS NOT NULL").write(tmp_path / "some")
    found = {(row["key"], row["window"]["start"].timestamp() - START) for row in written.window_state("sums").collect()}
    assert found == {(half, start) for half in (1, 2) for start in (80, 90)}
    timers = {(row["key"], row["timestamp"]) for row in written.timers("sums").collect()}
    assert timers == {(half, (START + at) * 1_000 - 1) for half in (1, 2) for at in (90, 100)}
    with pytest.raises(OptionError, match="not a condition on the columns of the key") as refused:
        savepoint_from_streaming(spark, checkpoints("nulls"), "sums", aggregates={"n": "sum"}, where="n > 5")
    assert "columns half, such as" in str(refused.value)


@pytest.mark.thorough("an aggregation, initial state, offsets of a savepoint")
def test_several_operators_are_named(spark: SparkSession, checkpoints: Callable[..., Path]) -> None:
    query = open_streaming(spark, checkpoints("two"))
    assert [operator.name for operator in query.operators] == ["stateStoreSave", "dedupe"]
    with pytest.raises(OptionError, match="2 stateful operators: name one"):
        query.keyed_state()
    assert query.keyed_state(0).count() == 7
    assert query.keyed_state(1).count() == SECONDS
    with pytest.raises(StateNotFoundError, match="no stateful operator 2"):
        query.keyed_state(2)
    with pytest.raises(StateNotFoundError, match="no stateful operator"):
        open_streaming(spark, checkpoints("stateless")).keyed_state()


@pytest.mark.thorough("an aggregation, initial state, offsets of a savepoint")
def test_a_query_that_runs_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    rows = engines.input_of(spark, '{"numbers":{"0":10,"1":20}}', 60, step=100).groupBy("word").count()
    checkpoint = tmp_path / "query"
    writer = rows.writeStream.format("noop").option("checkpointLocation", str(checkpoint)).outputMode("update")
    query = writer.start()
    try:
        query.processAllAvailable()
        with pytest.raises(OptionError, match="the query runs in this session"):
            open_streaming(spark, checkpoint)
        assert open_streaming(spark, checkpoint, batch_id=0).operators
    finally:
        query.stop()
    opened = open_streaming(spark, checkpoint)
    later = str(opened.newest + 1)
    shutil.copy(checkpoint / "offsets" / str(opened.newest), checkpoint / "offsets" / later)
    with pytest.raises(OptionError, match=f"batch {later} began since the checkpoint was opened"):
        savepoint_from_streaming(spark, opened, "counts", aggregates={"n": "count"})


def test_bad_checkpoints_are_one_error_each(
    spark: SparkSession, checkpoints: Callable[..., Path], tmp_path: Path
) -> None:
    for nothing in (tmp_path, tmp_path / "missing", SHOP):
        with pytest.raises(SnapshotNotFoundError, match="not a checkpoint of a streaming query"):
            open_streaming(spark, nothing)

    def copied(name: str) -> Path:
        return Path(shutil.copytree(checkpoints("two"), tmp_path / name))

    running = copied("running")
    last = max(int(file.name) for file in (running / "commits").glob("[0-9]*"))
    (running / "commits" / str(last)).unlink()
    with pytest.raises(OptionError, match=f"batch {last} began and was not committed") as caught:
        open_streaming(spark, running)
    assert f"batch_id={last - 1}" in str(caught.value)
    assert open_streaming(spark, running, batch_id=last - 1).keyed_state(0).count() == 7
    with pytest.raises(OptionError, match="not among those that were committed"):
        open_streaming(spark, running, batch_id=last)
    for file in (running / "commits").glob("[0-9]*"):
        file.unlink()
    with pytest.raises(SnapshotNotFoundError, match="committed no batch"):
        open_streaming(spark, running)

    newer = copied("newer")
    (newer / "offsets" / str(last)).write_text("v7\n{}\n{}")
    (newer / "offsets" / f".{last}.crc").unlink()
    with pytest.raises(UnsupportedVersionError, match="unknown version"):
        open_streaming(spark, newer)
    for text in ("v1\n{damaged\n{}", 'v1\n{"batchWatermarkMs":1.5}\n{}', "v1\n" + "[" * 100_000 + "\n{}", "v1\n[]\n-"):
        (newer / "offsets" / str(last)).write_text(text)
        with pytest.raises(CorruptStateError, match="no number batchWatermarkMs"):
            open_streaming(spark, newer)
    for text in ("v1", "v1\n{}"):
        (newer / "offsets" / str(last)).write_text(text)
        with pytest.raises(CorruptStateError, match="no sources"):
            open_streaming(spark, newer)
    (newer / "offsets" / str(last)).unlink()
    with pytest.raises(CorruptStateError, match=f"batch {last} was committed, but its offsets are missing"):
        open_streaming(spark, newer)

    cut = copied("cut")
    (cut / "commits" / str(last)).write_text("v1")
    with pytest.raises(StorageError, match="log of the query cannot be read"):  # Hadoop keeps a checksum
        open_streaming(spark, cut)
    (cut / "commits" / f".{last}.crc").unlink()
    with pytest.raises(CorruptStateError, match="no number nextBatchWatermarkMs"):
        open_streaming(spark, cut)

    wrong: Any
    for wrong in ({"aggregates": "sum"}, {"durations": 1}, {"source_uid": 7}):
        with pytest.raises(OptionError, match=f"{next(iter(wrong))}= is a mapping"):
            savepoint_from_streaming(spark, checkpoints("two"), "dedupe", operator=1, **wrong)

    older = copied("older")  # Spark 3 wrote no metadata of operators
    for metadata in (older / "state").glob("*/_metadata"):
        shutil.rmtree(metadata)
    with pytest.raises(UnsupportedVersionError, match="Spark did not record the stateful operators"):
        open_streaming(spark, older)


@pytest.mark.parametrize(("name", "files", "batch"), [("aggregation", "*.delta", None), ("variables", "*.zip", 0)])
def test_a_damaged_file_of_state_is_one_error(
    spark: SparkSession, checkpoints: Callable[..., Path], tmp_path: Path, name: str, files: str, batch: int | None
) -> None:
    """Both stores of Spark: files of its state are cut to half, then gone."""
    checkpoint = Path(shutil.copytree(checkpoints(name), tmp_path / "query"))
    damaged = [file for file in (checkpoint / "state").rglob(files) if not file.name.startswith(".")]
    assert damaged
    for file in damaged:
        file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
        file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
    for _ in range(2):
        with (
            pytest.warns(SavepointWarning, match="not carried over") if batch is None else nullcontext(),
            pytest.raises(StorageError, match="Spark cannot read a file of the streaming query's state") as caught,
        ):
            savepoint_from_streaming(spark, checkpoint, "words", batch_id=batch).write(tmp_path / "sp")
        assert "CANNOT_LOAD_STATE_STORE" in str(caught.value)
        assert not (tmp_path / "sp" / "_metadata").exists()
        for file in damaged:
            file.unlink(missing_ok=True)
