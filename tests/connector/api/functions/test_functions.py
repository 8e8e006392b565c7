"""User functions through Spark: the examples of FLIP-43 and of Flink's documentation, and what goes wrong with them."""

from __future__ import annotations

import os
import threading
import warnings
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
from cloudpickle import register_pickle_by_value, unregister_pickle_by_value
from pyspark.serializers import CloudPickleSerializer

from pyspark_savepoint import (
    CountTrigger,
    EventTimeSessionWindows,
    ObjectReuseMode,
    OperatorIdentifier,
    OperatorTransformation,
    Savepoint,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    UserFunctionError,
)
from pyspark_savepoint.api.functions.bootstrap_plans import RecordTask
from pyspark_savepoint.engines.spark.distribution import key_by
from pyspark_savepoint.formats.errors import (
    OptionError,
    SnapshotNotFoundError,
    StateNotFoundError,
    UndecodableStateError,
    ValueRangeError,
)
from pyspark_savepoint.formats.metadata.key_groups import key_group_for_hash
from tests.connector.api.functions import functions_of_tests
from tests.connector.api.functions.functions_of_tests import (
    RATES,
    AccountBootstrapper,
    Balance,
    ClickCounter,
    ClickReader,
    Collecting,
    Converted,
    CountAndFire,
    CurrencyBootstrapFunction,
    Failing,
    HoldsALock,
    Inputs,
    Keeper,
    KeyedContents,
    KeyedStateReader,
    LateRegistration,
    LockedWindows,
    OpensAFile,
    Pairs,
    PriceList,
    PriceReader,
    Prices,
    ReaderFunction,
    ReturnsARow,
    Runs,
    SimpleBootstrapFunction,
    SnapshotTimes,
    StatefulFunctionWithTime,
    StatefulFunctionWithUpdates,
    WrongType,
)
from tests.connector.comparing import assert_same_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from pyspark_savepoint.statebackends.processing.operators.bootstrap import BootstrapPlan

pytestmark = [pytest.mark.spark, pytest.mark.slow("all examples of FLIP-43, on every backend")]
# Workers have no such module to import: its classes travel whole, as those of a notebook do.
register_pickle_by_value(functions_of_tests)
WATERMARK_MIN, WATERMARK_MAX = -(2**63), 2**63 - 1


def rows(df: DataFrame) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in df.collect())


@pytest.fixture(scope="module")
def records(spark: SparkSession) -> DataFrame:
    """Forty records of ten keys, in no order of keys, times backwards."""
    return spark.range(0, 40, 1, 3).selectExpr(
        "cast(id % 10 as int) as id", "cast(id as int) as value", "40 - id as ts"
    )


def test_flip_43_reads_keyed_state_with_timers(spark: SparkSession, records: DataFrame, tmp_path: Path) -> None:
    transformation = OperatorTransformation.bootstrap_with(records).key_by("id").transform(StatefulFunctionWithTime())
    savepoint = (
        Savepoint.create(spark, max_parallelism=128).with_operator("uid", transformation).write(f"{tmp_path}/sp")
    )
    found = savepoint.read_keyed_state("uid", ReaderFunction(), "key int, value int, timers array<bigint>")
    expected = [(key, 31 + key, [key, key + 10, key + 20, key + 30]) for key in range(10)]
    assert [(key, value, sorted(timers)) for key, value, timers in rows(found)] == expected
    # The same from the tables, which are read without functions.
    assert rows(savepoint.keyed_state("uid")) == [(key, value) for key, value, _ in expected]
    timers = [(key, time, "event", "user-timers") for key, _, times in expected for time in times]
    assert rows(savepoint.timers("uid")) == sorted(timers)


def test_flip_43_bootstraps_modifies_and_overwrites(spark: SparkSession, tmp_path: Path) -> None:
    data = spark.createDataFrame([(1, 10.0, 5), (2, 20.0, 5), (1, 11.0, 3)], "id int, amount double, timestamp long")
    transformation = (
        OperatorTransformation.bootstrap_with(data)
        .assign_timestamps(lambda account: account.timestamp)
        .key_by(lambda acc: acc.id)
        .transform(AccountBootstrapper())
    )
    created = Savepoint.create(spark, max_parallelism=16).with_operator("uid", transformation).write(f"{tmp_path}/a")
    # The record of the later timestamp came first, and counts last.
    assert rows(created.keyed_state("uid")) == [(1, 10.0), (2, 20.0)]
    added = created.with_operator("newUid", transformation).write(f"{tmp_path}/b")
    assert_same_rows(added.keyed_state("newUid"), added.keyed_state("uid"))
    more = OperatorTransformation.bootstrap_with(data.where("id = 2")).key_by("id").transform(AccountBootstrapper())
    replaced = added.remove_operator("uid").with_operator("uid", more).write(f"{tmp_path}/c")
    assert rows(replaced.keyed_state("uid")) == [(2, 20.0)]
    assert replaced.metadata().select("operator_max_parallelism").distinct().collect()[0][0] == 16


def test_documented_keyed_state(spark: SparkSession, records: DataFrame, tmp_path: Path) -> None:
    transformation = (
        OperatorTransformation.bootstrap_with(records)
        .assign_timestamps("ts")
        .key_by("id")
        .transform(StatefulFunctionWithUpdates())
    )
    savepoint = Savepoint.create(spark).with_operator("my-uid", transformation).write(f"{tmp_path}/sp")
    found = savepoint.read_keyed_state("my-uid", KeyedStateReader(), "key int, value int, times array<bigint>")
    # By timestamp, which runs against the order of arrival.
    assert rows(found) == [(key, key + 1, [10 - key, 20 - key, 30 - key, 40 - key]) for key in range(10)]
    some = savepoint.read_keyed_state("my-uid", KeyedStateReader(), "key int, value int, times array<bigint>", keys=[3])
    assert [row.key for row in some.collect()] == [3]


def test_documented_operator_state(spark: SparkSession, records: DataFrame, tmp_path: Path) -> None:
    transformation = OperatorTransformation.bootstrap_with(records).transform(SimpleBootstrapFunction())
    rates = spark.createDataFrame([("EUR", 1.1), ("USD", 1.0), ("EUR", 1.2)], "currency string, rate double")
    broadcast = OperatorTransformation.bootstrap_with(rates.coalesce(1)).transform(CurrencyBootstrapFunction())
    savepoint = (Savepoint.create(spark).with_operator("list", transformation).with_operator("rates", broadcast)).write(
        f"{tmp_path}/sp"
    )
    assert rows(savepoint.list_state("list", "state")) == [(value,) for value in range(40)]
    assert sorted(row.value for row in savepoint.union_state("list", "union").collect()) == [13, 13, 14]
    assert rows(savepoint.broadcast_state("rates", "currency-rates")) == [("EUR", 1.2), ("USD", 1.0)]


def test_snapshot_state_takes_the_context_by_any_name(spark: SparkSession, records: DataFrame, tmp_path: Path) -> None:
    """Flink: ``CheckpointedFunction#snapshotState(context)``; the id is 0 in the State Processor API."""
    transformation = OperatorTransformation.bootstrap_with(records).transform(SnapshotTimes())
    written = Savepoint.create(spark).with_operator("kept", transformation).write(f"{tmp_path}/sp")
    found = [tuple(row.value) for row in written.list_state("kept", "kept").collect()]
    assert sorted(found) == [(value, 0) for value in range(40)]


def test_the_aliases_of_flip_21_are_deprecated(spark: SparkSession, records: DataFrame, tmp_path: Path) -> None:
    keyed = OperatorTransformation.bootstrap_with(records).key_by("id")
    with pytest.warns(DeprecationWarning, match=r"use set_object_reuse_mode\(ObjectReuseMode.DEFAULT\)") as told:
        enabled = keyed.enable_object_reuse()
    assert told[0].filename == __file__
    with pytest.warns(DeprecationWarning, match=r"use set_object_reuse_mode\(ObjectReuseMode.COPY_PER_OPERATOR\)"):
        disabled = keyed.disable_object_reuse()
    assert disabled == keyed.set_object_reuse_mode(ObjectReuseMode.COPY_PER_OPERATOR)
    savepoint = Savepoint.create(spark, max_parallelism=16)
    for uid, source in (("plain", keyed), ("enabled", enabled), ("disabled", disabled)):
        savepoint = savepoint.with_operator(uid, source.transform(StatefulFunctionWithTime()))
    with warnings.catch_warnings():
        warnings.simplefilter("error", DeprecationWarning)  # nobody is told again when the job runs
        written = savepoint.write(f"{tmp_path}/sp")
    for uid in ("enabled", "disabled"):
        assert_same_rows(written.keyed_state(uid), written.keyed_state("plain"))


def test_a_state_that_is_got_again_for_a_key_is_refused(
    spark: SparkSession, records: DataFrame, tmp_path: Path
) -> None:
    """Flink refuses it: a reader registers its states in open."""
    transformation = OperatorTransformation.bootstrap_with(records).key_by("id").transform(StatefulFunctionWithTime())
    written = Savepoint.create(spark, max_parallelism=16).with_operator("uid", transformation).write(f"{tmp_path}/sp")
    with pytest.raises(Exception, match="a reader function registers its states before the first key") as caught:
        written.read_keyed_state("uid", LateRegistration(), "key int, value int").collect()
    assert "self.total in read_key" in str(caught.value)


def test_a_type_that_is_given_to_read_list_state_is_compared(
    spark: SparkSession, records: DataFrame, tmp_path: Path
) -> None:
    """Flink: ``readListState(uid, name, typeInfo)``."""
    transformation = OperatorTransformation.bootstrap_with(records).transform(SimpleBootstrapFunction())
    written = Savepoint.create(spark).with_operator("list", transformation).write(f"{tmp_path}/sp")
    assert rows(written.read_list_state("list", "state", "INT")) == [(value,) for value in range(40)]
    with pytest.raises(OptionError, match="another type") as caught:
        written.read_list_state("list", "state", "LONG").collect()
    assert "INT" in str(caught.value)


def test_open_runs_once_on_the_driver_and_once_in_each_task(
    spark: SparkSession, records: DataFrame, tmp_path: Path
) -> None:
    """Each copy is closed; that of the driver gets no record."""
    notes = tmp_path / "notes"
    notes.mkdir()
    source = OperatorTransformation.bootstrap_with(records).option("parallelism", 2).key_by("id")
    Savepoint.create(spark, max_parallelism=16).with_operator("uid", source.transform(OpensAFile(str(notes)))).write(
        f"{tmp_path}/sp"
    )
    found = [(note.name.partition("-")[0] == str(os.getpid()), note.read_text()) for note in notes.iterdir()]
    assert sorted(found) == [(False, "used, closed")] * 2 + [(True, "open, closed")]


def test_operator_state_of_one_run_fits_together(spark: SparkSession, records: DataFrame, tmp_path: Path) -> None:
    """Flink: ``StateBootstrapTransformationTest``: a function runs once, in as many subtasks as the stream has."""
    source = OperatorTransformation.bootstrap_with(records)
    savepoint = Savepoint.create(spark, max_parallelism=16)
    savepoint = savepoint.with_operator("default", source.transform(Runs()))
    savepoint = savepoint.with_operator("specific", source.set_max_parallelism(1).transform(Runs()))
    savepoint = savepoint.with_operator("options", source.option("parallelism", 4).transform(Runs()), max_parallelism=4)
    rates = spark.createDataFrame([("EUR", 1.1), ("USD", 1.0)], "currency string, rate double")
    broadcast = OperatorTransformation.bootstrap_with(rates).transform(CurrencyBootstrapFunction())
    empty = OperatorTransformation.bootstrap_with(records.where("false").coalesce(1)).transform(Runs())
    keyed = source.key_by("id").set_max_parallelism(4).transform(StatefulFunctionWithTime())
    savepoint = savepoint.with_operator("broadcast", broadcast).with_operator("empty", empty)
    written = savepoint.with_operator("keyed", keyed).write(f"{tmp_path}/sp")
    columns = ("operator_uid_hash", "operator_parallelism", "operator_max_parallelism")
    numbers = {row[0]: tuple(row)[1:] for row in written.metadata().select(*columns).collect()}
    for uid, expected in (
        ("default", (3, 16)), ("specific", (1, 1)), ("options", (4, 4)), ("broadcast", (1, 16)), ("empty", (1, 16)),
    ):  # fmt: skip
        assert numbers[OperatorIdentifier.for_uid(uid).operator_id.hex] == expected, uid
    assert numbers[OperatorIdentifier.for_uid("keyed").operator_id.hex][1] == 4
    for uid, runs in (("default", 3), ("specific", 1), ("options", 4)):
        listed = [row.value for row in written.list_state(uid, "listed").collect()]
        united = [row.value.f0 for row in written.union_state(uid, "united").collect()]
        assert sorted(listed) == sorted(united)
        assert (len(listed), len(set(listed))) == (40, runs)
    assert written.list_state("empty", "listed").collect() == []
    with pytest.raises(OptionError, match="one max parallelism"):
        savepoint.with_operator("two", source.set_max_parallelism(1).transform(Runs()), max_parallelism=2)


def test_documented_windows(spark: SparkSession, tmp_path: Path) -> None:
    clicks = spark.range(0, 60, 1, 2).selectExpr("concat('user-', id % 3) as user", "id * 1000 as ts")
    keyed = OperatorTransformation.bootstrap_with(clicks).assign_timestamps("ts").key_by("user")
    by_assigner = {
        "tumbling": TumblingEventTimeWindows.of(30_000),
        "sliding": SlidingEventTimeWindows.of(30_000, 10_000),
        "session": EventTimeSessionWindows.with_gap(3_500),
    }
    savepoint = Savepoint.create(spark)
    for uid, assigner in by_assigner.items():
        savepoint = savepoint.with_operator(uid, keyed.window(assigner).aggregate(ClickCounter(), "INT"))
    written = savepoint.write(f"{tmp_path}/sp")
    schema = "user string, count int, start bigint, end bigint, timers array<bigint>"
    users = ["user-0", "user-1", "user-2"]

    def read(uid: str) -> list[tuple[Any, ...]]:
        return rows(written.read_window(uid, ClickReader(), schema, aggregate=ClickCounter()))

    assert read("tumbling") == [
        (user, 10, start, start + 30_000, [start + 29_999]) for user in users for start in (0, 30_000)
    ]
    sliding = read("sliding")
    assert sum(count for _, count, *_ in sliding) == 60 * 3
    assert all(timers == [end - 1] and end - start == 30_000 for _, _, start, end, timers in sliding)
    # One session for each: contents lie under the first element's window, the timer is that of the whole session.
    assert [(user, count) for user, count, *_ in read("session")] == [(user, 20) for user in users]
    timers = rows(written.timers("session").selectExpr("key", "timestamp", "cast(namespace.start as long) * 1000"))
    assert timers == [(f"user-{i}", (57 + i) * 1000 + 3_499, i * 1000) for i in range(3)]


def test_timers_fire_at_the_end_of_their_key(spark: SparkSession) -> None:
    records = spark.createDataFrame([(1, 7), (2, 5), (1, 3)], "id int, ts long").coalesce(1)
    keyed = OperatorTransformation.bootstrap_with(records).assign_timestamps("ts").key_by("id")
    schema = "key int, what string, time bigint, count bigint, watermark bigint"
    found = [tuple(row) for row in keyed.process(CountAndFire(), schema).collect()]
    assert [row[1:] for row in found if row[0] == 1] == [
        ("element", 3, 1, WATERMARK_MIN),
        ("element", 7, 2, WATERMARK_MIN),
        ("event", 3, 2, WATERMARK_MAX),
        ("event", 7, 2, WATERMARK_MAX),
        ("event", 103, 2, WATERMARK_MAX),
        ("event", 107, 2, WATERMARK_MAX),
        ("processing", 2, 2, WATERMARK_MAX),
        ("processing", 6, 2, WATERMARK_MAX),
    ]
    # Key by key: the next begins with the watermark at MIN, and without the state of the one before.
    assert [row[1:] for row in found if row[0] == 2][:2] == [
        ("element", 5, 1, WATERMARK_MIN),
        ("event", 5, 1, WATERMARK_MAX),
    ]
    keys = [row[0] for row in found]
    assert keys in ([1] * 8 + [2] * 4, [2] * 4 + [1] * 8)


def test_connected_inputs(spark: SparkSession, tmp_path: Path) -> None:
    """Two inputs of one key, three, and a broadcast one: bootstrapped, and processed."""
    orders = spark.range(0, 40, 1, 3).selectExpr("id % 4 as customer", "id as cents", "1000 - id as ts")
    payments = spark.range(0, 20, 1, 2).selectExpr(
        "cast(id % 4 as int) as who", "id * 10 as paid", "timestamp_millis(1000 - 2 * id) as at"
    )
    rates = spark.createDataFrame([("EUR", 7), ("USD", 5), ("EUR", 2)], "currency string, rate long").coalesce(1)
    first = OperatorTransformation.bootstrap_with(orders).assign_timestamps("ts").select("cents").key_by("customer")
    second = OperatorTransformation.bootstrap_with(payments).assign_timestamps("at").key_by("who", key_type="LONG")
    co = first.connect(second).option("parallelism", 3)
    three = first.connect(second, first)
    broadcast = first.connect(OperatorTransformation.bootstrap_with(rates).broadcast(RATES))
    savepoint = Savepoint.create(spark, max_parallelism=16).with_operator("co", co.transform(Balance()))
    savepoint = savepoint.with_operator("three", three.transform(Inputs()))
    written = savepoint.with_operator("rated", broadcast.transform(Converted())).write(f"{tmp_path}/sp")
    # By time over both inputs, orders first where the times are the same.
    events = [(1000 - i, 1, i % 4, -i) for i in range(40)] + [(1000 - 2 * i, 2, i % 4, i * 10) for i in range(20)]
    came = {key: [amount for *_, k, amount in sorted(events) if k == key] for key in range(4)}
    assert rows(written.keyed_state("co")) == [(key, sum(amounts), amounts) for key, amounts in came.items()]
    times = {(key, time) for time, _, key, _ in events}
    assert rows(written.timers("co").select("key", "timestamp")) == sorted(times)
    assert rows(co.process(Balance(), "key long, time long, balance long")) == sorted(
        (key, time, sum(came[key])) for key, time in times
    )
    assert rows(written.keyed_state("three").selectExpr("key", "counts[1]", "counts[2]", "counts[3]")) == [
        (key, 10, 5, 10) for key in range(4)
    ]
    totals = [(key, 2 * sum(range(key, 40, 4))) for key in range(4)]
    assert rows(written.keyed_state("rated")) == totals
    assert rows(written.broadcast_state("rated", "rates")) == [("EUR", 2), ("USD", 5)]
    fired = rows(broadcast.process(Converted(), "key long, time long, total long"))
    assert fired == sorted((i % 4, 1000 - i, totals[i % 4][1]) for i in range(40))


def test_inputs_that_do_not_fit_are_refused(spark: SparkSession, records: DataFrame) -> None:
    first = OperatorTransformation.bootstrap_with(records).key_by("id")
    rates = OperatorTransformation.bootstrap_with(records).broadcast(RATES)
    text = OperatorTransformation.bootstrap_with(records.selectExpr("string(id) as id")).key_by("id")
    with pytest.raises(OptionError, match="input 2 has another key") as caught:
        first.connect(text).transform(Balance())
    assert (caught.value.facts["expected"], caught.value.facts["found"]) == ("INT", "STRING")
    for wrong in ((), (records,), (rates, first)):
        with pytest.raises(OptionError, match="takes inputs with the same key"):
            first.connect(*wrong)
    unsorted = OperatorTransformation.bootstrap_with(records).options(sorted=False)
    for with_options in (lambda: first.connect(unsorted.key_by("id")), lambda: unsorted.broadcast(RATES)):
        with pytest.raises(OptionError, match="can only be given to the first"):
            with_options()
    with pytest.raises(OptionError, match="a KeyedBroadcastProcessFunction is needed"):
        first.connect(rates).transform(Balance())
    with pytest.raises(OptionError, match="a KeyedMultipleInputFunction is needed"):
        first.connect(first, first).transform(Balance())
    with pytest.raises(OptionError, match="cannot be presorted"):
        first.connect(first).option("presorted", True).transform(Balance())
    with pytest.raises(OptionError, match="comes before the first key"):
        first.connect(rates).option("execution.sorted-inputs.enabled", False).transform(Converted())


def test_unsorted_records_come_to_the_same_state(spark: SparkSession, records: DataFrame, tmp_path: Path) -> None:
    source = OperatorTransformation.bootstrap_with(records.coalesce(1))
    savepoint = Savepoint.create(spark)
    for uid, options in (
        ("sorted", {}),
        ("heap", {"execution.sorted-inputs.enabled": False, "execution.batch-state-backend.enabled": False}),
        ("rocksdb", {"sorted": False, "state_backend": "rocksdb"}),
    ):
        transformation = source.options(**options).key_by("id").transform(StatefulFunctionWithTime())
        savepoint = savepoint.with_operator(uid, transformation, compression="snappy")
    written = savepoint.write(f"{tmp_path}/sp")
    for uid in ("heap", "rocksdb"):
        assert_same_rows(written.keyed_state(uid), written.keyed_state("sorted"))
        assert_same_rows(written.timers(uid), written.timers("sorted"))


def test_records_that_are_laid_out_and_sorted_are_not_again(
    spark: SparkSession, records: DataFrame, tmp_path: Path
) -> None:
    laid_out = key_by(records, "id", max_parallelism=16).sortWithinPartitions("id")
    source = OperatorTransformation.bootstrap_with(laid_out).option("presorted", True).key_by("id")
    savepoint = Savepoint.create(spark, max_parallelism=16)
    written = savepoint.with_operator("uid", source.transform(StatefulFunctionWithTime())).write(f"{tmp_path}/sp")
    assert rows(written.keyed_state("uid")) == [(key, 31 + key) for key in range(10)]
    other = OperatorTransformation.bootstrap_with(records).option("presorted", True).key_by("id")
    with pytest.raises(OptionError, match="must be partitioned by key_by first"):
        savepoint.with_operator("uid", other.transform(StatefulFunctionWithTime()))


def test_what_functions_made_goes_beside_other_state(spark: SparkSession, records: DataFrame, tmp_path: Path) -> None:
    transformation = OperatorTransformation.bootstrap_with(records).key_by("id").transform(StatefulFunctionWithTime())
    more = spark.range(5).selectExpr("cast(id as int) as key", "concat('n', id) as name")
    gone = spark.createDataFrame([(1,), (7,)], "key int")
    savepoint = Savepoint.create(spark, max_parallelism=16).with_operator("uid", transformation)
    written = savepoint.with_state("uid", "name", more).remove_keys("uid", gone).write(f"{tmp_path}/sp")
    expected = [(key, key + 31, f"n{key}" if key < 5 else None) for key in range(10) if key not in (1, 7)]
    assert [tuple(row) for row in written.keyed_state("uid").orderBy("key").collect()] == expected
    assert written.timers("uid").count() == 4 * 8


def test_object_reuse_shares_what_it_says(spark: SparkSession, tmp_path: Path) -> None:
    data = spark.createDataFrame([(1, 0.5), (1, 1.5), (1, 2.5)], "id long, amount double").coalesce(1)
    modes = ("DEFAULT", "COPY_PER_OPERATOR", "FULL_REUSE")
    savepoint = Savepoint.create(spark)
    for mode in modes:
        keyed = OperatorTransformation.bootstrap_with(data).option("objectReuse", mode).key_by("id")
        savepoint = savepoint.with_operator(mode, keyed.transform(Keeper()))
    # ``ExecutionConfig``: FLIP-21's enumeration, and the methods that it deprecates.
    plain = OperatorTransformation.bootstrap_with(data)
    assert plain.set_object_reuse_mode(ObjectReuseMode.FULL_REUSE).texts == {"objectReuse": "FULL_REUSE"}
    with pytest.deprecated_call(match=r"set_object_reuse_mode\(ObjectReuseMode.DEFAULT\)"):
        assert plain.enable_object_reuse().texts == plain.set_object_reuse_mode(ObjectReuseMode.DEFAULT).texts
    with pytest.deprecated_call(match=r"set_object_reuse_mode\(ObjectReuseMode.COPY_PER_OPERATOR\)"):
        assert plain.disable_object_reuse().texts == {"objectReuse": "COPY_PER_OPERATOR"}
    written = savepoint.write(f"{tmp_path}/sp")
    found = {}
    for mode in modes:
        (row,) = written.keyed_state(mode).collect()
        found[mode] = ([amount for _, amount in row.rows], row.distinct)
    # What state is given it keeps as it was, in every mode; what the function keeps by itself is its own affair.
    assert found == {
        "DEFAULT": ([0.5, 1.5, 2.5], 3),
        "COPY_PER_OPERATOR": ([0.5, 1.5, 2.5], 3),
        "FULL_REUSE": ([0.5, 1.5, 2.5], 1),
    }


def test_errors_of_user_code_say_key_function_and_line(spark: SparkSession, tmp_path: Path) -> None:
    data = spark.range(20).selectExpr("id")
    transformation = OperatorTransformation.bootstrap_with(data).key_by("id").transform(Failing())
    path = tmp_path / "sp"
    with pytest.raises(Exception, match="thirteen is refused") as caught:
        Savepoint.create(spark).with_operator("uid", transformation).write(str(path))
    message = str(caught.value)
    assert "Failing failed in process_element: ValueError: thirteen is refused" in message
    assert "key: 13" in message
    assert 'raise ValueError("thirteen is refused")' in message
    assert "statebackends/processing" not in message.split("traceback:")[1].split("JVM")[0]
    assert not path.exists()


def test_a_value_of_another_type_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    data = spark.range(20).selectExpr("id")
    transformation = OperatorTransformation.bootstrap_with(data).key_by("id").transform(WrongType())
    with pytest.raises(Exception, match="state 'state' cannot hold a value that the function returned") as caught:
        Savepoint.create(spark).with_operator("uid", transformation).write(str(tmp_path / "sp"))
    assert "'not a number' (str)" in str(caught.value)


def test_what_cannot_be_pickled_is_said_before_the_job(spark: SparkSession, records: DataFrame) -> None:
    transformation = OperatorTransformation.bootstrap_with(records).key_by("id").transform(HoldsALock())
    with pytest.raises(UserFunctionError, match=r"attribute lock \(lock\)") as caught:
        Savepoint.create(spark).with_operator("uid", transformation)
    assert "create in open()" in str(caught.value)


def test_functions_are_pickled_by_cloudpickle_itself() -> None:
    """Spark's copy of cloudpickle gets bytes: modules that users register with cloudpickle are unknown to it."""
    task = RecordTask(cast("BootstrapPlan", AccountBootstrapper()))
    sent = CloudPickleSerializer().dumps(task)
    assert b"functions_of_tests" in sent
    unregister_pickle_by_value(functions_of_tests)
    try:
        by_name = CloudPickleSerializer().dumps(task)
    finally:
        register_pickle_by_value(functions_of_tests)
    assert len(by_name) < len(sent) / 2
    assert isinstance(CloudPickleSerializer().loads(sent), RecordTask)


def test_mistakes_are_refused_before_a_job_runs(spark: SparkSession, records: DataFrame, tmp_path: Path) -> None:
    source = OperatorTransformation.bootstrap_with(records)
    with pytest.raises(OptionError, match="did you mean 'id'"):
        source.key_by("ID ")
    with pytest.raises(OptionError, match="key_by"):
        source.transform(AccountBootstrapper())  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="did you mean 'objectReuse'"):
        source.option("objectreus", "DEFAULT")
    with pytest.raises(OptionError, match="single_key"):
        source.options(sorted=False, state_backend="single_key")
    keyed = source.key_by("id").transform(StatefulFunctionWithTime())
    with pytest.raises(OptionError, match="option 'types' does not apply to state that a function writes"):
        Savepoint.create(spark).with_operator("uid", keyed, types={"state": "INT"})
    with pytest.raises(SnapshotNotFoundError):
        Savepoint.load(spark, str(tmp_path))


def test_readers_are_refused_what_is_not_there(spark: SparkSession, tmp_path: Path) -> None:
    shop = Path(__file__).parents[3] / "oracle" / "savepoints" / "shop" / "savepoint"
    savepoint = Savepoint.load(spark, str(shop))
    with pytest.raises(StateNotFoundError, match="no such state 'state'"):
        savepoint.read_keyed_state("accounts", ReaderFunction(), "key int")
    with pytest.raises(StateNotFoundError, match="the operator has no windows"):
        savepoint.read_window("accounts", ClickReader(), "key int")
    with pytest.raises(OptionError, match="a schema for the rows"):
        savepoint.read_keyed_state("accounts", ReaderFunction(), "")


def test_errors_of_rows_and_of_arguments_name_key_and_signature(spark: SparkSession, tmp_path: Path) -> None:
    shop = Path(__file__).parents[3] / "oracle" / "savepoints" / "shop" / "savepoint"
    accounts = Savepoint.load(spark, str(shop))
    with pytest.raises(OptionError, match="there is no Collector: yield rows"):
        accounts.read_keyed_state("accounts", Collecting(), "key long")
    with pytest.raises(Exception, match="row cannot hold a value that the function returned") as caught:
        accounts.read_keyed_state("accounts", ReturnsARow(), "key long, name string", keys=[1042]).collect()
    assert "key: 1042" in str(caught.value)
    assert "found: 1042 (int)" in str(caught.value)
    with pytest.raises(StateNotFoundError, match="read_window reads states of windows"):
        accounts.read_keyed_state("orders-per-minute", KeyedContents(), "key long")


def test_a_window_function_that_cannot_be_pickled_is_named(spark: SparkSession, records: DataFrame) -> None:
    keyed = OperatorTransformation.bootstrap_with(records).assign_timestamps("ts").key_by("id")
    windowed = keyed.window(TumblingEventTimeWindows.of(1000))
    lock = threading.Lock()
    for rows, name, where in (
        (windowed.process(LockedWindows()), "LockedWindows", "attribute lock (lock)"),
        (windowed.reduce(lambda a, b: a if lock else b), "<lambda>", "variable lock (lock)"),
    ):
        with pytest.raises(UserFunctionError, match="cannot be pickled") as caught:
            Savepoint.create(spark).with_operator("uid", rows)
        assert name in caught.value.facts["function"]
        assert caught.value.facts["found"] == where


def test_steps_of_a_transformation_say_what_they_take(spark: SparkSession, records: DataFrame) -> None:
    source = OperatorTransformation.bootstrap_with(records)
    keyed = source.assign_timestamps("ts").key_by("id")
    windowed = keyed.window(TumblingEventTimeWindows.of(1000))
    with pytest.raises(OptionError, match="records must be given as a DataFrame"):
        OperatorTransformation.bootstrap_with([1, 2, 3])  # type: ignore[arg-type]
    with pytest.raises(OptionError, match=r"key_by\('id', 'day'\)"):
        source.key_by(["id", "value"])  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="Python is not called for every record"):
        source.key_by(lambda record: (record.id, record.value))  # type: ignore[arg-type, return-value]
    for selector in (lambda record: record.ts.cast("string"), lambda record: record.ts * 1.5):
        with pytest.raises(OptionError, match="the expression does not return timestamps"):
            source.assign_timestamps(selector)
    with pytest.raises(OptionError, match="a Trigger is needed"):
        windowed.trigger(CountTrigger)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="an Evictor is needed"):
        windowed.evictor(CountTrigger.of(2))  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="an AggregateFunction is needed"):
        windowed.aggregate(ClickCounter, "INT")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="a ProcessWindowFunction is needed"):
        windowed.process(ClickReader())  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="reduce needs a function"):
        windowed.reduce(None)  # type: ignore[arg-type]
    for unfinished in (source, keyed, windowed, Keeper()):
        with pytest.raises(OptionError, match="windows end with reduce") as caught:
            Savepoint.create(spark).with_operator("uid", unfinished)  # type: ignore[arg-type]
        assert str(caught.value.facts["found"]).rpartition(".")[2] == type(unfinished).__name__


def test_big_decimals_are_decimals_to_functions(spark: SparkSession, tmp_path: Path) -> None:
    texts = [(1, "1.50", 5), (1, "2.25", 6), (2, "-0.10", 7)]
    prices = spark.createDataFrame(texts, "id int, price string, ts long").selectExpr(
        "id", "cast(price as decimal(10, 2)) as price", "ts"
    )
    source = OperatorTransformation.bootstrap_with(prices.coalesce(1)).assign_timestamps("ts")
    savepoint = Savepoint.create(spark)
    for uid, options in (("sorted", {}), ("rocksdb", {"sorted": False, "state_backend": "rocksdb"})):
        savepoint = savepoint.with_operator(uid, source.options(**options).key_by("id").transform(Prices()))
    windowed = source.key_by("id").window(TumblingEventTimeWindows.of(10)).process()
    savepoint = savepoint.with_operator("windows", windowed).with_operator("list", source.transform(PriceList()))
    written = savepoint.write(f"{tmp_path}/sp")
    thousand = "Decimal('1E+3')"
    expected = [
        (
            1,
            Decimal("3.75"),
            "[Decimal('4.50'), Decimal('6.75')]",
            f"[(Decimal('1.50'), {thousand}), (Decimal('2.25'), {thousand})]",
        ),
        (2, Decimal("-0.10"), "[Decimal('-0.30')]", f"[(Decimal('-0.10'), {thousand})]"),
    ]
    for uid in ("sorted", "rocksdb"):
        read = written.read_keyed_state(uid, PriceReader(), "id int, sum decimal(10, 2), each string, by string")
        assert rows(read) == expected
        assert rows(written.keyed_state(uid).select("key", "sum")) == [(1, "3.75"), (2, "-0.10")]
    contents = written.window_state("windows").selectExpr("explode(`window-contents`) as c").select("c.f1")
    assert rows(contents) == [("-0.10",), ("1.50",), ("2.25",)]
    listed = written.list_state("list", "prices").selectExpr("value.f0", "value.f1[0]")
    assert rows(listed) == [("-0.10", "-0.20"), ("1.50", "3.00"), ("2.25", "4.50")]
    as_text = written.read_keyed_state(
        "sorted", PriceReader(), "id int, sum string, e string, b string", decimals="string"
    )
    assert [row.sum for row in as_text.collect() if row.id == 1] == ["3.75"]


def test_keys_that_cannot_be_are_said_in_the_words_of_key_by(spark: SparkSession, records: DataFrame) -> None:
    source = OperatorTransformation.bootstrap_with(records.selectExpr("id", "value", "struct(id, value) as pair"))
    savepoint = Savepoint.create(spark)
    pojo = source.key_by("pair", key_type="POJO<com.shop.Pair>(id INT, value INT)").transform(
        StatefulFunctionWithTime()
    )
    with pytest.raises(UndecodableStateError, match="defined by the job's own code") as caught:
        savepoint.with_operator("uid", pojo)
    assert "key_by(..., key_group='column')" in caught.value.facts["remedy"]
    assert "hash_code=" in caught.value.facts["remedy"]
    text = source.key_by("id", key_type="STRING").transform(StatefulFunctionWithTime())
    with pytest.raises(OptionError, match="column 'id' cannot be written as STRING") as refused:
        savepoint.with_operator("uid", text)
    assert refused.value.facts["remedy"] == "cast the column, or give key_by another key_type"
    assert "operator" not in refused.value.facts


def test_a_function_computes_the_hash_that_only_the_job_knows(
    spark: SparkSession, records: DataFrame, tmp_path: Path
) -> None:
    pairs = records.selectExpr("struct(id, value) as pair", "value", "id")
    kind = "POJO<com.shop.Pair>(id INT, value INT)"

    def hash_code(key: Any) -> int:
        return (key.id * 31 + key.value + 2**31) % 2**32 - 2**31  # type: ignore[no-any-return]

    keyed = OperatorTransformation.bootstrap_with(pairs).key_by("pair", key_type=kind, hash_code=hash_code)
    savepoint = Savepoint.create(spark, max_parallelism=16)
    savepoint = savepoint.with_operator("bootstrapped", keyed.transform(StatefulFunctionWithTime()))
    written = savepoint.with_operator("connected", keyed.connect(keyed).transform(Pairs())).write(f"{tmp_path}/sp")
    for uid in ("bootstrapped", "connected"):
        found = written.keyed_state(uid, include_key_group=True).collect()
        assert {row.key_group for row in found} == {key_group_for_hash(hash_code(row.key), 16) for row in found}
        assert all(row.key_group == key_group_for_hash(hash_code(row.key), 16) for row in found)
        written.inspect.check_hash_code(uid, hash_code)
    with pytest.raises(ValueRangeError, match="does not compute the hash that the job computed") as caught:
        written.inspect.check_hash_code("bootstrapped", lambda key: key.value)
    assert caught.value.facts["key"].startswith("Row(id=")
    laid_out = key_by(
        pairs.select("pair", "value"), "pair", max_parallelism=16, hash_code=hash_code, types={"key": kind}
    )
    rows = {(row.pair.id, row.pair.value): row.key_group for row in laid_out.collect()}
    assert rows == {(i, v): key_group_for_hash(i * 31 + v, 16) for i, v in rows}
    with pytest.raises(OptionError, match="not both"):
        OperatorTransformation.bootstrap_with(pairs).key_by("pair", key_group="id", hash_code=hash_code)
