"""A job moves from Spark to real Flink and from real Flink to Spark: what both emit is what one would have emitted.

Word count with timers and windows over numbered records, with gaps between offsets, written for both engines
(``engines.py``, ``oracle.Engines``): every emitted row is compared.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.cloudpickle import register_pickle_by_value
from pyspark.sql import functions as F  # noqa: N812

import pyspark_savepoint
from pyspark_savepoint import Savepoint, initial_state, open_streaming, savepoint_from_streaming, starting_offsets
from pyspark_savepoint.formats.errors import SavepointWarning
from tests.oracle import engines
from tests.oracle.engines import (
    ACCOUNT,
    HALF,
    NEAR,
    emitted_accounts,
    emitted_balances,
    emitted_pairs,
    emitted_windows,
    emitted_words,
    records,
)
from tests.oracle.flink import newest_version, run
from tests.oracle.kafka import RECORDS, RELEASE, KafkaJob, broker, given_connector

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.flink, pytest.mark.spark]
register_pickle_by_value(engines)
#: Offsets of each partition: the first (Spark takes the record at the epoch for late), where one engine stops, and
#: where the other has all.
FIRST, STOP, END = 1, 600, 1_200
#: Further offsets, whose records let the windows before them end in Spark, which has no end of input.
BEYOND = 1_700
FROM_FIRST = json.dumps({"numbers": {"0": FIRST, "1": FIRST}})
OPERATORS = ("words", "windows", "join", "interval-join", "accounts", "balances")
AGGREGATES = {"total": "sum", "n": "count", "mean": "avg", "low": "min", "high": "max"}


@pytest.fixture(scope="module")
def rocksdb(spark: SparkSession) -> Iterator[SparkSession]:
    """The session with the state store that transformWithState needs."""
    spark.conf.set(engines.PROVIDER, engines.ROCKSDB)
    yield spark
    spark.conf.unset(engines.PROVIDER)


def flink(
    version: str, snapshot: str, out: Path, *more: str, stop: int = 0, backend: str = "hashmap"
) -> dict[str, Any]:
    """Run the job from a savepoint; return what was read and emitted."""
    arguments = [f"--snapshot={Path(snapshot).as_uri()}", f"--out={out}", f"--stop={stop}", "--parallelism=2"]
    run(version, "oracle.Engines", [*arguments, f"--conf=state.backend.type={backend}", *more])
    found = json.loads((out / "found.json").read_text())
    return {
        "read": sorted(found["source"]["read"]),
        **{uid: sorted(found.get(uid, {"emitted": []})["emitted"]) for uid in OPERATORS},
    }


def with_numbers(sp: Savepoint, offsets: dict[tuple[str, int], int], end: int) -> Savepoint:
    """The savepoint with the source of the numbers, which is at these offsets."""
    rows = [
        {"split_id": str(partition + 1), "next": partition * HALF + offset, "to": partition * HALF + end - 1}
        for (_, partition), offset in offsets.items()
    ]
    return sp.sources.with_source("numbers", rows, connector="number_sequence")


@pytest.fixture(scope="module")
def half_of_spark(rocksdb: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, list[Any]]]:
    """Checkpoints of both jobs after half of the input, and what they emitted."""
    folder = tmp_path_factory.mktemp("spark")
    rows = engines.input_of(rocksdb, FROM_FIRST, STOP)
    emitted = {
        "words": engines.run(engines.word_count(rows), folder / "words"),
        "windows": engines.run(engines.windows(rows), folder / "windows"),
    }
    return folder, emitted


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_from_spark_to_flink(
    rocksdb: SparkSession,
    half_of_spark: tuple[Path, dict[str, list[Any]]],
    flink_version: str,
    backend: str,
    tmp_path: Path,
) -> None:
    folder, before = half_of_spark
    query = open_streaming(rocksdb, folder / "words")
    assert query.offsets() == {("numbers", 0): STOP, ("numbers", 1): STOP}
    assert query.offsets() == open_streaming(rocksdb, folder / "windows").offsets()
    with pytest.warns(SavepointWarning, match="not carried over: (the watermark|source 0: its offsets)"):
        sp = savepoint_from_streaming(rocksdb, query, "words")
    with pytest.warns(SavepointWarning, match="not carried over: the watermark"):
        sp = savepoint_from_streaming(rocksdb, folder / "windows", "windows", aggregates=AGGREGATES, into=sp)
    written = with_numbers(sp, query.offsets(), END).write(tmp_path / "savepoint")
    assert written.path is not None

    after = flink(flink_version, written.path, tmp_path / "out", backend=backend)
    assert after["read"] == records(STOP, END)
    everything = records(FIRST, END)
    assert before["words"]
    assert before["windows"]
    assert sorted(before["words"] + after["words"]) == emitted_words(everything)
    assert sorted(before["windows"] + after["windows"]) == emitted_windows(everything)

    start = with_numbers(Savepoint.create(rocksdb), {("numbers", 0): FIRST, ("numbers", 1): FIRST}, END)
    unbroken = flink(flink_version, str(start.write(tmp_path / "start").path), tmp_path / "unbroken")
    assert unbroken["read"] == everything
    assert unbroken["words"] == sorted(before["words"] + after["words"])
    assert unbroken["windows"] == sorted(before["windows"] + after["windows"])


def test_keys_of_three_columns_go_on_in_flink(rocksdb: SparkSession, flink_version: str, tmp_path: Path) -> None:
    """Text, day and decimal are the key; decimals and days are values, elements, keys of a map, accumulators."""
    rows = engines.input_of(rocksdb, FROM_FIRST, STOP)
    before = {
        "accounts": engines.run(engines.accounts(rows), tmp_path / "accounts"),
        "balances": engines.run(engines.balances(rows), tmp_path / "balances"),
    }
    aggregates: Any = {"total": "sum", "last": "max", "n": "count"}
    with pytest.warns(SavepointWarning, match="not carried over: (the watermark|source 0: its offsets)"):
        sp = savepoint_from_streaming(rocksdb, tmp_path / "accounts", "accounts")
    query = open_streaming(rocksdb, tmp_path / "balances")
    with pytest.warns(SavepointWarning, match="not carried over: the watermark"):
        sp = savepoint_from_streaming(rocksdb, query, "balances", aggregates=aggregates, into=sp)
    written = with_numbers(sp, query.offsets(), END).write(tmp_path / "savepoint")

    after = flink(flink_version, str(written.path), tmp_path / "out", "--accounts=true", backend="rocksdb")
    everything = records(FIRST, END)
    assert after["read"] == records(STOP, END)
    assert before["accounts"]
    assert before["balances"]
    assert sorted(before["accounts"] + after["accounts"]) == emitted_accounts(everything)
    assert sorted(before["balances"] + after["balances"]) == emitted_balances(everything)


def test_keys_of_three_columns_go_on_in_spark(rocksdb: SparkSession, flink_version: str, tmp_path: Path) -> None:
    start = with_numbers(Savepoint.create(rocksdb), {("numbers", 0): FIRST, ("numbers", 1): FIRST}, 10 * END)
    path = str(start.write(tmp_path / "start").path)
    before = flink(flink_version, path, tmp_path / "out", "--accounts=true", stop=1_000)

    sp = Savepoint.load(rocksdb, tmp_path / "out" / "savepoint")
    splits = json.loads(starting_offsets(sp, "numbers"))["number_sequence"]
    start_at = json.dumps({"numbers": {str(int(split) - 1): position % HALF for split, position in splits.items()}})
    # A BigDecimal of Flink has no precision: it is read as text.
    states = {
        "balance": "struct<total: decimal(20,2), last: date>",
        "open": "array<struct<n: bigint, amount: decimal(20,2)>>",
        "by_day": "map<date, decimal(20,2)>",
    }
    initial = initial_state(sp, "accounts", key=list(ACCOUNT)).withColumns(
        {
            name: F.col(name).cast(kind)
            for name, kind in [*((name, kind) for name, (_, kind) in ACCOUNT.items()), *states.items()]
        }
    )
    rows = engines.input_of(rocksdb, start_at, BEYOND, step=350)
    everything = records(FIRST, END)
    last = max(everything) * 1_000

    def ended(emitted: list[Any]) -> list[Any]:
        return sorted(row for row in emitted if row[3] <= last)

    assert before["accounts"]
    after = engines.run(engines.accounts(rows, initial), tmp_path / "accounts")
    assert ended(before["accounts"] + after) == ended(emitted_accounts(everything))


def with_interval_join(sp: Savepoint, uid: str, rows: DataFrame) -> Savepoint:
    """The savepoint with rows that wait as the buffers of Flink's interval join, and the timers that empty them."""
    sides = {"left": "LEFT", "right": "RIGHT"}
    entry = "named_struct('has_been_joined', false, 'element', row.n)"
    buffers = [
        f"map_from_entries(transform({side}, row -> struct(unix_millis(row.at), array({entry})))) AS {name}_BUFFER"
        for side, name in sides.items()
    ]
    ends = f"unix_millis(row.at) + {1_000 * NEAR} AS timestamp"
    timers = [
        rows.selectExpr("word", f"explode({side}) AS row").selectExpr(
            "word", f"'CLEANUP_{name}' AS namespace", ends, "'event' AS domain", "'CLEANUP_TIMER' AS service"
        )
        for side, name in sides.items()
    ]
    types = dict.fromkeys(("LEFT_BUFFER", "RIGHT_BUFFER"), "MAP<LONG, LIST<BUFFER_ENTRY<LONG>>>")
    sp = sp.with_operator(
        uid, rows.selectExpr("word", *buffers), key="word", types=types, states=dict.fromkeys(types, "map")
    )
    return sp.with_timers(
        uid, timers[0].union(timers[1]), key="word", state="CLEANUP_TIMER", types={"namespace": "STRING"}
    )


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_a_join_goes_on_in_flink(rocksdb: SparkSession, flink_version: str, backend: str, tmp_path: Path) -> None:
    """Rows that wait in Spark's join are joined by a function of the job, and by Flink's interval join."""
    rows, others = (engines.input_of(rocksdb, FROM_FIRST, STOP) for _ in range(2))
    before = engines.run(engines.join(rows, others), tmp_path / "join")
    query = open_streaming(rocksdb, tmp_path / "join")
    assert query.offsets("0") == query.offsets("1") == {("numbers", 0): STOP, ("numbers", 1): STOP}
    with pytest.warns(SavepointWarning, match="not carried over: operator 0 .*: which rows found a match"):
        sp = savepoint_from_streaming(rocksdb, query, "join")
    waiting = query.keyed_state().selectExpr(
        "field0 AS word", "transform(left, row -> named_struct('n', row.n, 'at', row.at)) AS left",
        "transform(right, row -> named_struct('n', row.other, 'at', row.then)) AS right",
    )  # fmt: skip
    sp = with_interval_join(sp, "interval-join", waiting)
    written = with_numbers(sp, query.offsets("0"), END).write(tmp_path / "savepoint")

    after = flink(flink_version, str(written.path), tmp_path / "out", "--join=true", backend=backend)
    assert after["read"] == records(STOP, END)
    pairs = emitted_pairs(records(FIRST, END))
    assert before
    assert sorted(before + after["join"]) == pairs
    assert sorted(before + after["interval-join"]) == pairs


def test_from_flink_to_spark(rocksdb: SparkSession, flink_version: str, tmp_path: Path) -> None:
    start = with_numbers(Savepoint.create(rocksdb), {("numbers", 0): FIRST, ("numbers", 1): FIRST}, 10 * END)
    path = str(start.write(tmp_path / "start").path)
    before = flink(flink_version, path, tmp_path / "out", stop=1_000)

    sp = Savepoint.load(rocksdb, tmp_path / "out" / "savepoint")
    splits = json.loads(starting_offsets(sp, "numbers"))["number_sequence"]
    offsets = {str(int(split) - 1): position % HALF for split, position in splits.items()}
    start_at = json.dumps({"numbers": offsets})
    assert before["words"]
    assert max(offsets.values()) < END

    rows = engines.input_of(rocksdb, start_at, BEYOND, step=350)
    words = engines.word_count(rows, initial_state(sp, "words", key="word"))
    windows = engines.windows_from(rows, initial_state(sp, "windows", key="word"))
    everything = records(FIRST, END)
    last = max(everything) * 1_000

    def ended(emitted: list[Any]) -> list[Any]:
        return sorted(row for row in emitted if row[1] <= last)

    assert ended(before["words"] + engines.run(words, tmp_path / "words")) == ended(emitted_words(everything))
    assert ended(before["windows"] + engines.run(windows, tmp_path / "windows")) == ended(emitted_windows(everything))


def test_a_kafka_source_goes_on_where_a_query_stopped(tmp_path: Path) -> None:
    """A real KafkaSource reads from the offsets of a query on, and its state from the counts of the query."""
    stopped = {("orders", 0): 37, ("orders", 1): 62, ("orders", 2): 78, ("clicks", 0): 44, ("clicks", 1): 127}
    counted = {f"{topic}-{partition}": 30 for topic, partition in stopped}
    rows = pa.table({"key": list(counted), "count": list(counted.values())})
    start = pyspark_savepoint.create().sources.with_source("orders", stopped, connector_version=RELEASE)
    written = start.with_operator("counts", rows, key="key").write(tmp_path / "savepoint")
    with broker() as servers:
        job = KafkaJob(newest_version(), given_connector(), servers, tmp_path)
        job.fill()
        rest = [f"{topic}-{part}@{i}" for (topic, part), at in stopped.items() for i in range(at, RECORDS)]
        told = f"--runs={Path(written.path).as_uri()}|latest|{len(rest)}|2"
        (found,) = job.run("restored", told, "--parallelism=3")
        assert found["failure"] is None
        assert found["records"] == sorted(rest)
        assert found["counts"] == {
            f"{topic}-{part}": counted[f"{topic}-{part}"] + RECORDS - at for (topic, part), at in stopped.items()
        }
        saved, counts = job.save("saved", 300)
    # Each partition was read from its beginning, so that the count of its records is its next offset.
    offsets = pyspark_savepoint.open(saved.path).sources.offsets("orders").to_arrow().to_pylist()
    assert {f"{row['stream']}-{row['partition']}": row["offset"] for row in offsets if row["offset"]} == counts
