"""A TypeSerializer of the user's as an argument of one read or write (FLIP-43: ``readListState(..., serializer)``)."""

from __future__ import annotations

import base64
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import cloudpickle
import pytest
from cloudpickle import register_pickle_by_value

import pyspark_savepoint
from pyspark_savepoint import (
    KeyedStateBootstrapFunction,
    KeyedStateReaderFunction,
    ListStateDescriptor,
    OperatorTransformation,
    Savepoint,
    SavepointError,
    ValueStateDescriptor,
)
from pyspark_savepoint.engines.spark.session_plans import sealed
from pyspark_savepoint.engines.spark.spark_engine import planned_format
from pyspark_savepoint.formats.errors import OptionError, UndecodableStateError, UserFunctionError
from tests.money import MoneySerializer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow("serializers that travel to tasks and back")]
# Workers cannot import this module: its classes are pickled by value, as those of a notebook are.
register_pickle_by_value(sys.modules[__name__])
SNAPSHOT = "com.shop.MoneySerializer$MoneySerializerSnapshot"


MONEY = MoneySerializer(SNAPSHOT, 2, "CHF")


class Spent(KeyedStateBootstrapFunction):
    def open(self, ctx: Any) -> None:
        self.last = ctx.get_state(ValueStateDescriptor("last", MONEY))
        self.every = ctx.get_list_state(ListStateDescriptor("every", MONEY))

    def process_element(self, value: Any, ctx: Any) -> None:
        self.last.update(value.amount)
        self.every.add(value.amount)


class Harmful:
    """Object that creates a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return Path.touch, (self.path,)


class Reader(KeyedStateReaderFunction):
    def open(self, ctx: Any) -> None:
        self.last = ctx.get_state(ValueStateDescriptor("last", MONEY))

    def read_key(self, key: Any, ctx: Any) -> Any:
        yield key, self.last.value()


def test_a_serializer_is_given_to_one_read_and_one_write(spark: SparkSession, tmp_path: Path) -> None:
    rows = [(1, "CHF 1.50", ["CHF 1.00"]), (2, "CHF -0.25", ["CHF 0.00", "CHF 2.00"])]
    amounts = spark.createDataFrame(rows, "id long, amount string, every array<string>")
    types = {"amount": "MONEY", "every": f"LIST<{SNAPSHOT}>"}
    records = spark.createDataFrame([(7, "CHF 3.00"), (7, "CHF 4.00")], "id long, amount string").coalesce(1)
    bootstrap = OperatorTransformation.bootstrap_with(records).key_by("id").transform(Spent())
    listed = amounts.selectExpr("amount AS value")
    path = (
        Savepoint.create(spark)
        .with_operator("keyed", amounts, key="id", types=types, serializers=[MONEY])
        .with_operator("bootstrapped", bootstrap)
        .with_operator("listed")
        .with_list_state("listed", "list", listed, types={"value": "MONEY"}, serializers=[MONEY])
        .write(str(tmp_path / "sp"))
        .path
    )
    assert path is not None
    savepoint = Savepoint.load(spark, path)
    by_class = {SNAPSHOT: MoneySerializer}
    assert sorted(map(tuple, savepoint.keyed_state("keyed", serializers=by_class).collect())) == rows
    found = savepoint.read_list_state("listed", "list", serializers=[MONEY])
    assert sorted(row.value for row in found.collect()) == ["CHF -0.25", "CHF 1.50"]
    read = savepoint.read_keyed_state("bootstrapped", Reader(), "id long, last string", serializers=by_class)
    assert list(map(tuple, read.collect())) == [(7, "CHF 4.00")]
    # For all tables of a snapshot; types in listings are the user's words.
    loaded = Savepoint.load(spark, path, serializers=by_class)
    assert [row.every for row in loaded.keyed_state("bootstrapped").collect()] == [["CHF 3.00", "CHF 4.00"]]
    assert {row.value_type for row in loaded.states().collect()} >= {"MONEY"}
    # Without it they are bytes, and their list cannot be read; a read leaves no serializer to the next one.
    plain = savepoint.keyed_state("keyed", state="amount").schema["amount"]
    assert plain.dataType.simpleString() == "binary"
    local = pyspark_savepoint.open(path, serializers=by_class)
    assert sorted(row["amount"] for row in local.keyed_state("keyed").rows()) == ["CHF -0.25", "CHF 1.50"]
    with pytest.raises(UndecodableStateError):
        list(pyspark_savepoint.open(path).operator_state("listed", "list", undecodable="error").rows())
    # Exact types of an existing state, changed with the same argument.
    more = spark.createDataFrame([(1, "CHF 9.99")], "key long, amount string")
    changed = savepoint.with_state("keyed", "amount", more, serializers=by_class, replace=True).write(
        str(tmp_path / "changed")
    )
    assert [row.amount for row in changed.keyed_state("keyed", serializers=by_class).collect()] == ["CHF 9.99", None]
    # A new state whose type contains it; other states stay.
    pairs = spark.createDataFrame([(1, ("CHF 0.07", 7))], "key long, pair struct<f0: string, f1: long>")
    inside = changed.with_state("keyed", "pair", pairs, types={"pair": "TUPLE<MONEY, LONG>"}, serializers=[MONEY])
    added = inside.write(str(tmp_path / "added")).keyed_state("keyed", serializers=by_class).collect()
    assert sorted((row.key, row.amount, row.pair and tuple(row.pair)) for row in added) == [
        (1, "CHF 9.99", ("CHF 0.07", 7)), (2, None, None),
    ]  # fmt: skip


def test_a_text_that_is_set_as_an_option_is_not_unpickled(spark: SparkSession, tmp_path: Path) -> None:
    shop = str(Path(__file__).parents[3] / "oracle" / "savepoints" / "shop" / "savepoint")
    text = base64.b64encode(cloudpickle.dumps(Harmful(tmp_path / "unpickled"))).decode()
    with pytest.raises(Exception, match="argument 'serializers'"):
        spark.read.format("savepoint").options(uid="accounts", serializers=text).load(shop).collect()
    assert not (tmp_path / "unpickled").exists()


def test_a_plan_that_another_secret_sealed_is_not_unpickled(spark: SparkSession, tmp_path: Path) -> None:
    source, secret = planned_format(spark)
    assert planned_format(spark) == (source, secret)
    harmful: Any = Harmful(tmp_path / "unpickled")
    unsealed = base64.b64encode(cloudpickle.dumps(harmful)).decode()
    for text in (sealed(harmful, b"another"), unsealed, sealed(harmful, secret)[:-4], "", "?"):
        with pytest.raises(Exception, match="'plan' is for methods of Savepoint"):
            spark.range(1).write.format(source).option("plan", text).mode("append").save()
        with pytest.raises(Exception, match="'plan' is for methods of Savepoint"):
            spark.read.format(source).option("plan", text).load()
    with pytest.raises(Exception, match="'plan'"):
        spark.range(1).write.format("savepoint").option("plan", sealed(harmful, secret)).mode("append").save(
            str(tmp_path)
        )
    assert not (tmp_path / "unpickled").exists()


def test_what_cannot_be_a_serializer_is_refused(tmp_path: Path) -> None:
    shop = Path(__file__).parents[3] / "oracle" / "savepoints" / "shop" / "savepoint"
    for wrong in ([], [1], {SNAPSHOT: int}, MONEY, {1: MONEY}):
        with pytest.raises(OptionError, match="contains an object that is not a serializer"):
            pyspark_savepoint.open(shop, serializers=wrong)  # type: ignore[arg-type]
    with pytest.raises(UserFunctionError, match="cannot be pickled"):
        pyspark_savepoint.open(shop, serializers=[MoneySerializer(SNAPSHOT, 1, threading.Lock())])  # type: ignore[arg-type]
    for text in ("no pickle", "gASVBQAAAAAAAABLAS4="):
        with pytest.raises(SavepointError, match="argument 'serializers'"):
            pyspark_savepoint.open(shop, serializers=text)
