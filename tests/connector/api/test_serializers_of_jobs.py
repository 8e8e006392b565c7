"""A serializer of a job's own, given to one read: of ``oracle.Letters``, and of a test of Flink's.

Also savepoints that Flink wrote after it had restored state that was bootstrapped with such a serializer.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest

import pyspark_savepoint
from pyspark_savepoint.formats.columns import Cursors, DecodeOptions
from pyspark_savepoint.formats.data_view import DataOutputView
from pyspark_savepoint.formats.metadata.identifiers import OperatorID
from pyspark_savepoint.formats.serializers.base import SnapshotReader, TypeSerializer
from pyspark_savepoint.formats.serializers.basic.primitives import BASE, NumberSerializer
from pyspark_savepoint.formats.snapshot.savepoint import find_snapshots
from tests.oracle.own_serializer import compare_read

SNAPSHOT = "org.apache.flink.test.migration.TypeSerializerSnapshotMigrationITCase$TestSerializerSnapshot"
GRAMS = "oracle.Letters$GramsSnapshot"
LONG = NumberSerializer.of(f"{BASE}LongSerializer$LongSerializerSnapshot")
#: Written by ``python -m tests.oracle.own_serializer``, which restores them too.
RESTORED = sorted((Path(__file__).parents[2] / "oracle" / "savepoints" / "own-serializer").iterdir())


@dataclass(frozen=True)
class LongsOfTheTest(TypeSerializer):
    """A long, and a text in the snapshot."""

    config_payload: str = ""

    @classmethod
    def read_snapshot(cls, name: str, version: int, reader: SnapshotReader) -> TypeSerializer:
        return cls(name, version, reader.view.read_utf("the config payload"))

    def write_payload(self, view: DataOutputView) -> None:
        view.write_utf(self.config_payload)

    @property
    def flink_type(self) -> str:
        return f"TEST({self.config_payload})"

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return pa.int64()

    def decode(self, at: Cursors) -> pa.Array:
        return LONG.decode(at)


@dataclass(frozen=True)
class Grams(TypeSerializer):
    """A long, and nothing in the snapshot."""

    @classmethod
    def read_snapshot(cls, name: str, version: int, reader: SnapshotReader) -> TypeSerializer:
        return cls(name, version)

    def write_payload(self, view: DataOutputView) -> None:
        pass

    @property
    def flink_type(self) -> str:
        return "GRAMS"

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return pa.int64()

    def decode(self, at: Cursors) -> pa.Array:
        return LONG.decode(at)


@pytest.mark.filterwarnings("ignore::pyspark_savepoint.formats.errors.SavepointWarning")
def test_values_of_a_jobs_own_serializer(corpus: Path) -> None:
    folders = sorted((corpus / "datastream").glob("custom-*"))
    assert len(folders) == 16
    own, weights = {GRAMS: Grams}, OperatorID.from_uid("weights").hex
    for folder in folders:
        path = find_snapshots(str(folder))[0].path
        plain = pyspark_savepoint.open(path, allowOutside=True)
        rows = list(plain.keyed_state(weights, serializers=own).rows())
        assert sorted(row["key"] for row in rows) == list(range(10))
        assert all(row["weight"] == 1000 * row["key"] for row in rows)
        states = pyspark_savepoint.open(path, serializers=own).states().rows()
        (listed,) = (row for row in states if row["state"] == "weight")
        assert (listed["value_type"], listed["note"]) == ("GRAMS", None)
        assert {type(row["weight"]) for row in plain.keyed_state(weights).rows()} == {bytes}, (
            "other reads have none of it"
        )


@pytest.mark.filterwarnings("ignore::pyspark_savepoint.formats.errors.SavepointWarning")
def test_values_of_flinks_own_test(flink_resources: Path) -> None:
    folders = sorted((flink_resources / "datastream").glob("type-serializer-snapshot-migration-itcase-*"))
    assert len(folders) == 3
    for folder in folders:
        plain = pyspark_savepoint.open(folder)
        found = next(row for row in plain.states().rows() if row["state"] == "testState")
        uid_hash, own = str(found["operator_uid_hash"]), {SNAPSHOT: LongsOfTheTest}
        rows = list(plain.keyed_state(uid_hash, serializers=own).rows())
        assert rows
        assert all(row["testState"] == row["key"]["f0"] for row in rows)
        (listed,) = (r for r in pyspark_savepoint.open(folder, serializers=own).states().rows()
                     if r["state"] == "testState")  # fmt: skip
        assert listed["value_type"].startswith("TEST(")
        assert listed["note"] is None
        (raw,) = {type(row["testState"]) for row in plain.keyed_state(uid_hash).rows()}
        assert raw is bytes, "another read has none of it"


@pytest.mark.parametrize("path", RESTORED, ids=lambda path: path.name)
def test_what_flink_restored_and_wrote_again(path: Path) -> None:
    compare_read(path)
