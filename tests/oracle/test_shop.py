"""The savepoint that ships with the project is complete, small, and contains nothing about the machine that made it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from tests.corpus.expected import RecordedSnapshot, differences
from tests.oracle.flink import Generated

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_its_metadata_names_the_operators_that_it_was_made_of(shop: Generated) -> None:
    savepoint = Snapshot.open(str(shop.path))

    found = {(operator.uid, operator.name, operator.operator_id.hex) for operator in savepoint.operators}

    stateless = {"orders-parser"}
    expected = {
        (operator["uid"], operator["name"], operator["operatorId"])
        for operator in shop.expected["operatorIds"]
        if operator["uid"] not in stateless
    }
    assert expected <= found
    assert savepoint.metadata.version == 6


def test_its_metadata_knows_every_file(shop: Generated) -> None:
    savepoint = Snapshot.open(str(shop.path))
    names = {path.name for path in shop.path.iterdir()} - {"_metadata"}

    metadata = (shop.path / "_metadata").read_bytes()

    assert savepoint.metadata.state_size > 20_000
    assert all(name.encode() in metadata for name in names)


def test_it_is_small(shop: Generated) -> None:
    assert sum(path.stat().st_size for path in shop.path.iterdir()) < 150_000


def test_it_holds_no_path_of_a_machine(shop: Generated) -> None:
    metadata = (shop.path / "_metadata").read_bytes()

    paths = set(re.findall(rb"file:[\w./-]+?/savepoint-", metadata))

    assert paths == {b"file:/dev/shm/savepoints/savepoint-"}


# -- through Spark -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ThroughSpark(RecordedSnapshot):
    """A snapshot whose tables Spark reads."""

    spark: Any = None

    def table(self, operator: Any, **options: Any) -> pa.Table:
        named = {_camel(name): _option(value) for name, value in (self.name(operator) | options).items()}
        exact = {"timestamps": "raw", "decimals": "string", "includeRowKind": "true"}
        frame = self.spark.read.format("savepoint").options(**exact, **named).load(self.path)
        table = frame.toArrow()
        comments = [field.metadata.get("comment", "") for field in frame.schema.fields]
        return table.cast(
            pa.schema([field.with_metadata({"comment": c}) for field, c in zip(table.schema, comments, strict=True)])
        )


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.title() for word in rest)


def _option(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


@pytest.mark.spark
def test_spark_reads_exactly_what_the_job_put_in(spark: SparkSession, shop: Generated) -> None:
    snapshot = ThroughSpark(shop.path.parent, spark=spark)

    assert differences(snapshot) == []

    assert not snapshot.undecodable


def test_it_reads_exactly_without_spark_too(shop: Generated) -> None:
    assert differences(RecordedSnapshot(shop.path.parent)) == []
