"""Rows of table ``splits`` written to the source that has them."""

from __future__ import annotations

import pickle
import resource
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pyspark_savepoint.formats.errors import ConcurrentWriteError, OptionError, SavepointError
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot, find_snapshots
from pyspark_savepoint.statebackends.connectors.edits.sources import AT_LEAST_ONCE_WARNING
from pyspark_savepoint.statebackends.connectors.edits.splits_write import SplitsWrite
from pyspark_savepoint.statebackends.open_table import open_table
from pyspark_savepoint.statebackends.requests.request import TableRequest
from pyspark_savepoint.statebackends.writing.planning.write_request import WriteRequest
from tests.statebackends.writing.written_operators import read
from tests.statebackends.writing.written_operators import write as write_table


@pytest.fixture
def path(corpus: Path, tmp_path: Path) -> str:
    found = find_snapshots(str(corpus / "connectors" / "2.3.0-kafka-v5.0.0"))[0].path
    return str(shutil.copytree(found, tmp_path / "savepoint"))


def splits(path: str) -> pa.Table:
    table = open_table(TableRequest(path, table="splits"))
    return pa.Table.from_batches([batch for part in table.partitions(1) for batch in part.batches()])


def write(path: str, table: pa.Table, overwrite: bool = True, **options: Any) -> tuple[str, ...]:
    request = WriteRequest(path, uid="source", table="splits", overwrite=overwrite, **options)
    plan = pickle.loads(pickle.dumps(SplitsWrite.plan(request, table.schema)))
    return plan.commit(plan.collect(table.to_batches()))  # type: ignore[no-any-return]


def offsets(path: str) -> dict[str, Any]:
    return {row["split_id"]: row["offset"] for row in splits(path).to_pylist()}


def with_offset(table: pa.Table, offset: int) -> pa.Table:
    index = table.schema.get_field_index("offset")
    return table.set_column(index, table.schema.field(index), pa.array([offset] * len(table), pa.int64()))


def test_what_was_read_is_written_back_unchanged(path: str) -> None:
    before = Snapshot.open(path).metadata
    assert write(path, splits(path)) == ()
    assert Snapshot.open(path).metadata.operators == before.operators


def test_rows_change_splits_and_add_some(path: str) -> None:
    before = offsets(path)
    table = splits(path)
    assert write(path, with_offset(table, 7)) == (AT_LEAST_ONCE_WARNING,)
    assert offsets(path) == dict.fromkeys(before, 7)
    some = table.slice(0, 1).select(["topic", "partition", "offset"])
    new = pa.Table.from_pylist([{"topic": "orders", "partition": 9, "offset": 3}], some.schema)
    write(path, pa.concat_tables([some, new]), overwrite=False)
    named = table.column("split_id")[0].as_py()
    assert offsets(path) == {**dict.fromkeys(before, 7), named: before[named], "orders-9": 3}


def test_uids_that_metadata_cannot_store_stay(corpus: Path, tmp_path: Path) -> None:
    """Metadata of Flink 1 has none; this package appends those that it knows."""
    (found,) = find_snapshots(str(corpus / "connectors" / "1.20.5-kafka-v3.4.0"))
    path = str(shutil.copytree(found.path, tmp_path / "savepoint"))
    write_table(path, [pa.table({"value": [1, 2]})], uid="another", table="operator_state", state="pending")
    assert "another" in [operator.uid for operator in Snapshot.open(path).operators]
    write(path, with_offset(splits(path), 7))
    assert "another" in [operator.uid for operator in Snapshot.open(path).operators]


def test_all_other_state_of_the_source_stays(path: str) -> None:
    """Operator state of another name, and bytes that only the operator reads."""
    write_table(path, [pa.table({"value": [1, 2]})], uid="source", table="operator_state", state="pending")
    before = Snapshot.open(path).operator(uid="source")
    write(path, with_offset(splits(path), 7))
    after = Snapshot.open(path).operator(uid="source")
    rows = read(path, uid="source", table="operator_state", state="pending")
    assert rows == [{"value": 1}, {"value": 2}]
    assert after.coordinator_state is not None
    kept = [replace(operator, coordinator_state=None, subtasks={}) for operator in (before, after)]
    assert kept[0] == kept[1]
    with pytest.raises(OptionError, match="'drop' needs mode 'overwrite'"):
        write(path, splits(path), overwrite=False, drop=("*",))


def test_an_overwrite_without_a_split_is_refused_unless_it_may_be_dropped(path: str) -> None:
    before = offsets(path)
    table = splits(path)
    with pytest.raises(OptionError, match=r"there is none for(.|\n)*drop = '\*'"):
        write(path, table.slice(1))
    write(path, table.slice(1), drop=("*",))
    assert offsets(path) == {name: at for name, at in before.items() if name != table.column("split_id")[0].as_py()}


def test_what_cannot_be_written_is_refused_before_it_is(path: str, corpus: Path, tmp_path: Path) -> None:
    table = splits(path)
    for wrong, message in (
        (table.drop_columns(["topic"]), "column 'topic'"),
        (pa.concat_tables([table, table]), "two rows have the same split"),
        (with_offset(table, -5), "whole number"),
        (table.set_column(1, "operator_uid_hash", pa.array(["0" * 32] * len(table))), "another operator"),
    ):
        with pytest.raises(OptionError, match=message):
            write(path, wrong)
    with pytest.raises(OptionError, match="there is no savepoint"):
        write(str(tmp_path / "nothing"), table)
    with pytest.raises(SavepointError, match="operator"):
        SplitsWrite.plan(WriteRequest(path, uid="sours", table="splits"), table.schema)
    plan = SplitsWrite.plan(WriteRequest(path, uid="source", table="splits"), table.schema)
    write(path, with_offset(table, 500))
    with pytest.raises(ConcurrentWriteError):
        plan.commit(plan.collect(table.to_batches()))
    plan.abort()
    assert set(offsets(path).values()) == {500}


def test_a_write_that_fails_on_the_way_leaves_the_old_splits(path: str) -> None:
    before = {each.name: each.read_bytes() for each in Path(path).iterdir()}
    plan = SplitsWrite.plan(WriteRequest(path, uid="source", table="splits"), splits(path).schema)
    rows = plan.collect(with_offset(splits(path), 500).to_batches())
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64, hard))  # as if the disk were full
    try:
        with pytest.raises(SavepointError):
            plan.commit(rows)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    plan.abort()
    assert {each.name: each.read_bytes() for each in Path(path).iterdir()} == before
    write(path, with_offset(splits(path), 500))
    assert set(offsets(path).values()) == {500}
