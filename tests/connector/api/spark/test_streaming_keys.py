"""Composite keys of every kind: what this package makes of a query's state is what Spark's own source has, row by row.

And back: a query that starts from the state of real Flink has it, record by record.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.cloudpickle import register_pickle_by_value
from pyspark.sql import Row
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import ArrayType, LongType, MapType, StringType, StructField, StructType

from pyspark_savepoint import Savepoint, initial_state, open_streaming, savepoint_from_streaming
from pyspark_savepoint.formats.errors import SavepointWarning
from tests.oracle import engines

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow("queries with composite keys; test_streaming.py has simple ones")]
register_pickle_by_value(sys.modules[__name__])
ARRAY = ArrayType(LongType())
ORACLE = Path(__file__).parents[3] / "oracle" / "savepoints"
CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
NO_DATA = "spark.sql.streaming.noDataMicroBatches.enabled"
HOUR, FILES, RECORDS = 3_600_000, 2, 30
#: Columns that are keys together; Spark groups by them.
KEYS = {
    "text": ["name", "opened", "rate"],
    "nested": ["owner", "flag"],
    "times": ["at", "opened", "flag", "local"],
    "numbers": ["tiny", "small", "whole", "large", "single", "double"],
    "one": ["owner"],
}
PERSON = pa.struct([("id", pa.int32()), ("of", pa.struct([("text", pa.string()), ("rate", pa.decimal128(20, 3))]))])
SCHEMA = pa.schema(
    [
        ("name", pa.string()), ("opened", pa.date32()), ("rate", pa.decimal128(20, 3)), ("owner", PERSON),
        ("flag", pa.bool_()), ("at", pa.timestamp("us", "UTC")), ("local", pa.timestamp("us")), ("tiny", pa.int8()),
        ("small", pa.int16()), ("whole", pa.int32()), ("large", pa.int64()), ("single", pa.float32()),
        ("double", pa.float64()), ("n", pa.int64()), ("time", pa.timestamp("us", "UTC")),
    ]
)  # fmt: skip
NESTED = "n long, amount decimal(30,4), day date, moment timestamp, raw binary, parts array<struct<x:int,y:string>>"
#: Variables: kind, Spark's schemas, and whether they have a time to live where the mode of time lets them.
VARIABLES: dict[str, tuple[str, tuple[str, ...], bool]] = {
    "pair": ("value", (f"{NESTED}, by map<string,double>",), False),
    "last": ("value", ("text string",), True),
    "all": ("list", ("n long, inner struct<day:date,flag:boolean>",), False),
    "recent": ("list", ("day date",), True),
    "by_pair": ("map", ("text string, n int", "v array<long>"), False),
    "by_day": ("map", ("day date", "amount decimal(10,2)"), True),
}


class Everything(StatefulProcessor):
    """A variable of every kind, timers by the number of the record; every third key has only some of them."""

    def __init__(self, mode: str) -> None:
        self.mode = mode

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.handle = handle
        kinds = {"value": handle.getValueState, "list": handle.getListState, "map": handle.getMapState}
        for name, (kind, schemas, ttl) in VARIABLES.items():
            given: Any = (name, *schemas, *[HOUR] * (ttl and self.mode == "ProcessingTime"))
            setattr(self, name, kinds[kind](*given))

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:  # noqa: N802, N803
        this: Any = self
        for batch in rows:
            for n in batch["n"].tolist():
                day = date(2000, 1, 1) + timedelta(days=n * 37 % 60_000 - 30_000)
                moment = datetime(2001, 1, 1) + timedelta(seconds=n, microseconds=n)
                parts = [(n, str(n)), (None, None)]
                by = {str(n): None if n % 2 else n / 3}
                this.pair.update((n, Decimal(n) / 8, day, moment, bytes([n % 256, 0]), parts, by))
                this.all.appendValue((n, (day, n % 2 == 0)))
                this.by_day.updateValue((day,), (Decimal(n) / 4,))
                if n % 3:
                    this.last.update((None if n % 5 == 0 else f"ü{n}",))
                    this.recent.appendValue((day,))
                    this.by_pair.updateValue((str(n % 3), n % 2), ([n, -n],))
                if self.mode != "None":
                    self.handle.registerTimer(4_000_000_000_000 + n % 7)
                    self.handle.registerTimer(4_100_000_000_000 + n)
        yield pd.DataFrame({"n": [1]})

    def close(self) -> None:
        pass


def grouped(key: Any, frames: Any, state: Any, timeout: str) -> Iterator[pd.DataFrame]:
    """Function of ``applyInPandasWithState``: every second key has a timeout."""
    count, total, *_ = state.get if state.exists else (0, Decimal(0))
    for frame in frames:
        for n in frame["n"].tolist():
            count, total = count + 1, total + Decimal(n) / 4
    day = None if count % 2 else date(1900, 1, count % 28 + 1)
    state.update((count, total, f"ü{count}" * (count % 3), (count, day), datetime(1950, 1, 1, 0, 0, 0, count)))
    if count % 2 and timeout == "ProcessingTimeTimeout":
        state.setTimeoutDuration(10_000_000 + count)
    if count % 2 and timeout == "EventTimeTimeout":
        state.setTimeoutTimestamp(4_000_000_000_000 + count)
    yield pd.DataFrame({"n": [1]})


def record(choose: random.Random, n: int) -> dict[str, Any]:
    """A record with few values for each part of a key, the extremes of its type among them."""
    rate = choose.choice(["-12345678901234567.123", "0.000", "9.500"])
    return {
        "name": choose.choice(["", "a", "ü€𝄞", "x" * 40, "a\0b"]),
        "opened": choose.choice([date(1, 1, 1), date(1969, 12, 31), date(2024, 2, 29), date(9999, 12, 31)]),
        "rate": Decimal(rate),
        "owner": {
            "id": choose.choice([-(2**31), 0, 7]),
            "of": {"text": choose.choice(["", "p", "ü"]), "rate": Decimal(choose.choice(["0.000", "-1.250"]))},
        },
        "flag": choose.choice([True, False]),
        "at": choose.choice([datetime(1900, 1, 1, 0, 0, 0, 1, UTC), datetime(2024, 3, 10, 7, 30, 0, 999_999, UTC)]),
        "local": choose.choice([datetime(2024, 1, 1, 2, 3, 4, 5), datetime(1950, 1, 1)]),
        "tiny": choose.choice([-128, 127]),
        "small": choose.choice([-32_768, 5]),
        "whole": choose.choice([-(2**31), 2**31 - 1]),
        "large": choose.choice([-(2**63), 2**63 - 1]),
        "single": choose.choice([1.5, -0.25, float("inf")]),
        "double": choose.choice([1e300, -2.5]),
        "n": n,
        "time": datetime(2024, 1, 1, tzinfo=UTC) + timedelta(seconds=n),
    }


def source(spark: SparkSession, folder: Path, seed: int) -> DataFrame:
    """Records as a stream of as many batches as files."""
    choose = random.Random(seed)
    folder.mkdir()
    for file in range(FILES):
        rows = [record(choose, n) for n in range(file * RECORDS, file * RECORDS + RECORDS)]
        pq.write_table(pa.Table.from_pylist(rows, SCHEMA), folder / f"{file}.parquet")
    schema = spark.read.parquet(str(folder)).schema
    read = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder))
    return read.withWatermark("time", "10 seconds")


@contextmanager
def settings(spark: SparkSession, store: str, partitions: int) -> Iterator[None]:
    """The session with a state store: ``hdfs``, ``rocksdb``, or ``changelog`` for RocksDB with changelogs."""
    # Timers of processing time would let one batch without records follow the other.
    given = {"spark.sql.shuffle.partitions": partitions, CHANGELOG: store == "changelog", NO_DATA: False}
    given |= {} if store == "hdfs" else {engines.PROVIDER: engines.ROCKSDB}
    before = {name: spark.conf.get(name, None) for name in given}
    for name, value in given.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            spark.conf.unset(name) if value is None else spark.conf.set(name, value)


def run(query: DataFrame, checkpoint: Path, mode: str = "update") -> list[Any]:
    """Run a streaming query over all its input; return what it emitted."""
    emitted: list[Any] = []
    writer = query.writeStream.outputMode(mode).foreachBatch(lambda rows, _: emitted.extend(rows.collect()))
    started = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    started.awaitTermination()
    return emitted


def plain(value: Any) -> Any:
    """A value without names of fields; decimals as texts, as Flink's BigDecimal is read."""
    if isinstance(value, bytes | bytearray):
        return bytes(value)
    if isinstance(value, dict):
        return tuple(sorted(((plain(key), plain(one)) for key, one in value.items()), key=repr))
    if isinstance(value, tuple | list):
        return tuple(map(plain, value))
    return f"{value:f}" if isinstance(value, Decimal) else value


def table(rows: Any) -> list[Any]:
    return sorted((plain(row) for row in rows), key=repr)


def single(value: Any) -> Any:
    """A struct of one field is that field."""
    return value[0] if isinstance(value, tuple) and len(value) == 1 else value


def of_spark(spark: SparkSession, checkpoint: Path, name: str, kind: str, ttl: bool) -> list[Any]:
    """The entries of a variable as Spark's source flattens them: key, value, and when it expires."""
    read = spark.read.format("statestore").option("stateVarName", name).load(str(checkpoint))

    def entry(value: Any) -> tuple[Any, Any]:
        return (single(value[0]), value[1]) if ttl else (single(value), None)

    found: list[Any] = []
    for row in read.collect():
        if kind == "value":
            found.append((row["key"], *entry(row["value"])))
        elif kind == "list":
            found.append((row["key"], *entry(row["list_element"])))
        else:
            found.append((row["key"], single(row["user_map_key"]), *entry(row["user_map_value"])))
    return found


def of_flink(rows: list[Any], name: str, kind: str, ttl: bool, several: bool) -> list[Any]:
    """The entries of a state as this package reads them back."""
    found: list[Any] = []
    for row in rows:
        key, value = row["key"] if several else (row["key"],), row[name]
        since = row[f"{name}__last_access"] if ttl else None

        def expires(at: Any) -> Any:
            return None if at is None else round(at.timestamp() * 1_000) + HOUR

        if kind == "value" and (value is not None or since is not None):
            found.append((key, value, expires(since)))
        elif kind == "list":
            values = value or ()
            found += zip([key] * len(values), values, map(expires, since or [None] * len(values)), strict=True)
        elif kind == "map":
            found += [(key, at, one, expires((since or {}).get(at))) for at, one in (value or {}).items()]
    return found


@pytest.mark.parametrize(
    ("keys", "mode", "store", "partitions"),
    [
        ("text", "ProcessingTime", "rocksdb", 3),
        ("text", "EventTime", "changelog", 5),
        ("nested", "EventTime", "rocksdb", 2),
        ("nested", "ProcessingTime", "changelog", 3),
        ("times", "EventTime", "rocksdb", 3),
        ("times", "ProcessingTime", "rocksdb", 1),
        ("numbers", "EventTime", "rocksdb", 4),
        ("one", "None", "rocksdb", 3),
    ],
)
def test_every_variable_and_timer_of_spark(
    spark: SparkSession, tmp_path: Path, keys: str, mode: str, store: str, partitions: int
) -> None:
    names, checkpoint = KEYS[keys], tmp_path / "query"
    with settings(spark, store, partitions):
        rows = source(spark, tmp_path / "in", partitions).groupBy(*names)
        run(rows.transformWithStateInPandas(Everything(mode), "n long", "update", mode), checkpoint)
    ttl = {name: lives and mode == "ProcessingTime" for name, (_, _, lives) in VARIABLES.items()}
    durations = {name: timedelta(milliseconds=HOUR) for name, lives in ttl.items() if lives}
    query = open_streaming(spark, checkpoint)
    assert query.operators[0].time_mode == mode.lower().replace("none", "notime")
    with pytest.warns(SavepointWarning, match="not carried over"):
        sp = savepoint_from_streaming(spark, query, "everything", durations=durations)
    written = sp.write(tmp_path / "savepoint")
    back = written.keyed_state("everything", **({"include_ttl": True} if durations else {})).collect()
    several = len(names) > 1
    assert len(back) > 3
    for name, (kind, _, _) in VARIABLES.items():
        entries = of_spark(spark, checkpoint, name, kind, ttl[name])
        # Flink has no value that is NULL: it is the same as none.
        expected = table(one for one in entries if kind != "value" or one[1] is not None)
        assert expected
        assert table(of_flink(back, name, kind, ttl[name], several)) == expected, name
    if mode == "None":
        assert query.timers().isEmpty()
        return
    domain = "event" if mode == "EventTime" else "processing"
    timers = written.timers("everything").collect()
    assert table(
        (row["key"] if several else (row["key"],), row["timestamp"], row["domain"], row["service"]) for row in timers
    ) == timers_of_spark(spark, checkpoint, domain)


def timers_of_spark(spark: SparkSession, checkpoint: Path, domain: str) -> list[Any]:
    read = spark.read.format("statestore").option("readRegisteredTimers", True).load(str(checkpoint))
    found = table((row["key"], row["expiration_timestamp_ms"], domain, "user-timers") for row in read.collect())
    assert len(found) > FILES * RECORDS
    return found


@pytest.mark.parametrize(
    ("keys", "timeout", "store", "partitions"),
    [
        ("text", "ProcessingTimeTimeout", "hdfs", 3),
        ("text", "EventTimeTimeout", "rocksdb", 5),
        ("nested", "EventTimeTimeout", "hdfs", 2),
        ("times", "ProcessingTimeTimeout", "changelog", 3),
        ("numbers", "NoTimeout", "hdfs", 4),
        ("one", "EventTimeTimeout", "rocksdb", 1),
    ],
)
def test_every_group_and_timeout_of_spark(
    spark: SparkSession, tmp_path: Path, keys: str, timeout: str, store: str, partitions: int
) -> None:
    names, checkpoint = KEYS[keys], tmp_path / "query"

    def function(key: Any, frames: Any, state: Any) -> Iterator[pd.DataFrame]:
        return grouped(key, frames, state, timeout)

    # PySpark 4.3.0 cannot have arrays here: it writes their JSON in lower case.
    kind = "n long, total decimal(20,2), text string, inner struct<n:long,day:date>, moment timestamp"
    with settings(spark, store, partitions):
        rows = source(spark, tmp_path / "in", partitions).groupBy(*names)
        run(rows.applyInPandasWithState(function, "n long", kind, "update", timeout), checkpoint)
    domain: Any = {"E": "event", "P": "processing", "N": None}[timeout[0]]
    with pytest.warns(SavepointWarning, match="not carried over"):
        sp = savepoint_from_streaming(spark, checkpoint, "groups", timeout=domain)
    written = sp.write(tmp_path / "savepoint")
    read = spark.read.format("statestore").load(str(checkpoint))
    several = len(names) > 1

    def key(row: Any) -> Any:
        return row["key"] if several else (row["key"],)

    expected = table((row["key"], row["value"]["groupState"]) for row in read.collect())
    assert len(expected) > 3
    assert table((key(row), row["state"]) for row in written.keyed_state("groups").collect()) == expected
    timed = read.where("value.timeoutTimestamp >= 0").collect() if domain else []
    assert bool(timed) == bool(domain)
    found = written.timers("groups").collect() if domain else []
    assert table((key(row), row["timestamp"], row["domain"]) for row in found) == table(
        (row["key"], row["value"]["timeoutTimestamp"], domain) for row in timed
    )


class Restored(StatefulProcessor):
    """Takes all that initial state has, and emits it as it is with the first record of its key."""

    def __init__(self, keys: list[str], kinds: dict[str, tuple[str, Any]]) -> None:
        self.keys, self.kinds = keys, kinds

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.handle, self.states = handle, dict[str, Any]()
        for name, (kind, given) in self.kinds.items():
            if kind == "value":
                self.states[name] = handle.getValueState(name, fields(given))
            elif kind == "list":
                self.states[name] = handle.getListState(name, fields(given.elementType))
            else:
                self.states[name] = handle.getMapState(name, fields(given.keyType), whole(given.valueType))

    def handleInitialState(self, key: Any, initialState: Any, timerValues: Any) -> None:  # noqa: N802, N803
        for name, (kind, given) in self.kinds.items():
            value, state = initialState[name], self.states[name]
            if value is None:
                continue
            if kind == "value":
                state.update(entry(value, given))
            elif kind == "list":
                state.put([entry(one, given.elementType) for one in value])
            else:
                for at, one in value.items() if isinstance(value, dict) else value:
                    state.updateValue(entry(at, given.keyType), (taken(one, given.valueType),))
        for timer in initialState["timers"] or ():
            if timer["domain"] == "event":
                self.handle.registerTimer(timer["timestamp"])

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:  # noqa: N802, N803
        assert list(rows)
        out = dict(zip(self.keys, key, strict=True))
        for name, (kind, given) in self.kinds.items():
            state = self.states[name]
            if not state.exists():
                out[name] = None
            elif kind == "value":
                out[name] = value_of(state.get(), given)
            elif kind == "list":
                out[name] = [value_of(one, given.elementType) for one in state.get()]
            else:
                out[name] = {value_of(at, given.keyType): one for at, (one,) in state.iterator()}
        yield Row(**out, event_timers=sorted(self.handle.listTimers()))

    def close(self) -> None:
        pass


def kind_of(kind: str, of: Any) -> str:
    """The kind of a variable: Spark has maps with keys that are no texts as a whole variable alone."""
    if isinstance(of, MapType) and not isinstance(of.keyType, StringType):
        return "map"
    return kind if kind in ("list", "map") else "value"


def fields(kind: Any) -> StructType:
    return kind if isinstance(kind, StructType) else whole(kind)


def whole(kind: Any) -> StructType:
    """A value as one column, which may be NULL, as values in maps of Flink are."""
    return StructType([StructField("value", kind)])


def entry(value: Any, kind: Any) -> tuple[Any, ...]:
    return taken(value, kind) if isinstance(kind, StructType) else (taken(value, kind),)


def taken(value: Any, kind: Any) -> Any:
    """A value of a row of initial state as Spark's variables take it, as the README has it."""
    if value is None:
        return None
    if isinstance(kind, StructType):
        return tuple(taken(value[field.name], field.dataType) for field in kind)
    if isinstance(kind, ArrayType):
        return [taken(one, kind.elementType) for one in value]
    if isinstance(kind, MapType):
        pairs = value.items() if isinstance(value, dict) else value
        return {taken(at, kind.keyType): taken(one, kind.valueType) for at, one in pairs}
    return value


def value_of(row: Any, kind: Any) -> Any:
    return row if isinstance(kind, StructType) else row[0]


@pytest.mark.parametrize(
    ("path", "uid", "keys"),
    [
        ("lab/2.2.1-rocksdb-native", "kv-tuple", ["word", "number"]),
        ("lab/2.3.0-hashmap-canonical-compressed", "kv-pojo", ["word", "number"]),
        ("flinkx", "scala", ["word", "number"]),
        ("shop", "accounts", ["account"]),
    ],
)
def test_state_of_flink_in_a_query_of_spark(
    spark: SparkSession, corpus: Path, tmp_path: Path, path: str, uid: str, keys: list[str]
) -> None:
    """Each key emits with its first record what Flink had, and the query's checkpoint becomes the same state again."""
    if not hasattr(spark.range(1).groupBy("id"), "transformWithState"):
        pytest.skip("PySpark 4.1 and later have transformWithState with rows")
    sp = Savepoint.load(spark, (corpus if path.startswith("lab/") else ORACLE) / path / "savepoint")
    initial = initial_state(sp, uid, key=keys)
    if uid == "scala":  # Spark has maps with keys that are no texts in no value, and no variable without a type
        more = F.col("more").withField("_8", F.map_entries("more._8")).dropFields("_9")
        initial = initial.withColumn("more", more).drop("unit")
    named = {row["state"]: row["kind"].lower() for row in sp.states().where(F.col("operator_uid") == uid).collect()}
    kinds = {
        field.name: (kind_of(named[field.name], field.dataType), field.dataType)
        for field in initial.schema
        if field.name not in (*keys, "timers")
    }
    names = {name: f"v{number}" for number, name in enumerate(kinds)}
    initial = initial.withColumnsRenamed(names)
    kinds = {names[name]: kind for name, kind in kinds.items()}
    initial.select(*keys).write.parquet(str(tmp_path / "in"))
    rows = spark.readStream.schema(initial.select(*keys).schema).parquet(str(tmp_path / "in"))
    out = StructType([*initial.drop("timers").schema, StructField("event_timers", ARRAY)])
    given = initial.collect()
    with settings(spark, "rocksdb", 3):
        made = rows.groupBy(*keys).transformWithState(
            Restored(keys, kinds), out, "update", "EventTime", initialState=initial.groupBy(*keys)
        )
        emitted = run(made, tmp_path / "query")
    assert len(given) > 2
    events = [sorted(one["timestamp"] for one in row["timers"] or () if one["domain"] == "event") for row in given]
    expected = [(*(row[name] for name in (*keys, *kinds)), times) for row, times in zip(given, events, strict=True)]
    assert table(emitted) == table(expected)

    if uid != "accounts":  # other states have NULLs in rows, which need the types of the job
        return
    with pytest.warns(SavepointWarning, match="not carried over: the watermark|no counterpart"):
        sp = savepoint_from_streaming(spark, tmp_path / "query", "again")
    again = sp.write(tmp_path / "again")
    several = len(keys) > 1
    found = again.keyed_state("again").select("key", *kinds).collect()
    rows = [(*(row["key"] if several else (row["key"],)), *row[1:]) for row in found]
    assert table(rows) == table(row[:-1] for row in expected)
    timers = again.timers("again").collect()
    assert table((row["key"], row["timestamp"]) for row in timers) == table(
        (row[: len(keys)] if several else row[0], at) for row in expected for at in row[-1]
    )
