"""Any layout of the rows gives the same state; existing state stays; a failed write leaves no files."""

from __future__ import annotations

import pickle
import random
import shutil
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyspark_savepoint.formats.errors import (
    ConcurrentWriteError,
    CorruptStateError,
    DuplicateKeyError,
    OptionError,
    OutputError,
    SavepointError,
    StateExistsError,
    UnsupportedStateError,
    ValueRangeError,
)
from pyspark_savepoint.formats.io.outputs import LocalOutputFile
from pyspark_savepoint.formats.metadata.identifiers import OperatorID
from pyspark_savepoint.formats.metadata.key_groups import (
    key_group_for_hash,
    operator_index_for_key_group,
    range_for_operator_index,
)
from pyspark_savepoint.formats.metadata.keyed_handles import KeyGroupsSavepointStateHandle
from pyspark_savepoint.formats.snapshot.publication import relative_files, roll_back
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.statebackends.open_table import open_table
from pyspark_savepoint.statebackends.requests.request import TableRequest
from pyspark_savepoint.statebackends.writing import assemble, write_task
from pyspark_savepoint.statebackends.writing.committer import abort, commit
from pyspark_savepoint.statebackends.writing.task_outputs import RunFile, TaskOutput
from pyspark_savepoint.statebackends.writing.write_task import write_rows
from tests.statebackends.writing.written_operators import digests, planned, read, rows_of, write

WINDOWS = pa.struct([("start", pa.timestamp("us", "UTC")), ("end", pa.timestamp("us", "UTC"))])


def accounts(keys: Sequence[int]) -> pa.Table:
    """Values, some of them NULL, lists and maps by a long key."""
    return pa.table(
        {
            "key": pa.array(keys, pa.int64()),
            "total": pa.array([None if k % 5 == 0 else k * 3 for k in keys], pa.int64()),
            "name": pa.array([f"né{k}" for k in keys], pa.string()),
            "items": pa.array([[] if k % 3 == 0 else [k % 7, k % 11] for k in keys], pa.list_(pa.int32())),
            "by": pa.array([[("a", k), (f"b{k}", None)] for k in keys], pa.map_(pa.string(), pa.int64())),
        }
    )


def timers(keys: Sequence[int]) -> pa.Table:
    return pa.table(
        {
            "key": pa.array(keys, pa.int64()),
            "timestamp": pa.array([k * 1000 - 5000 for k in keys], pa.int64()),
            "domain": pa.array(["event" if k % 2 else "processing" for k in keys]),
        }
    )


def windows(keys: Sequence[int]) -> pa.Table:
    spans = [{"start": k * 1000, "end": k * 1000 + 60_000_000} for k in keys]
    return pa.table(
        {
            "key": pa.array(keys, pa.int64()),
            "window": pa.array(spans, WINDOWS),
            "window-contents": pa.array(keys, pa.int64()),
        }
    )


def without_empty(table: pa.Table) -> list[dict[str, Any]]:
    """Rows as they are read: an empty list is not a state."""
    rows = rows_of([table])
    return sorted(
        ({name: value for name, value in row.items() if value != []} for row in rows),
        key=lambda row: repr(sorted(row.items())),
    )


def split(table: pa.Table, parts: int, seed: int) -> list[pa.Table]:
    """The rows in some partitions at random, some of them empty."""
    rng = random.Random(seed)
    places = [rng.randrange(parts) for _ in range(len(table))]
    return [table.filter(pa.array([place == part for place in places])) for part in range(parts)]


def by_subtask(table: pa.Table, max_parallelism: int, parallelism: int) -> list[pa.Table]:
    """The rows as ``key_by`` lays them out."""
    hashes = [(k ^ (k & (1 << 64) - 1) >> 32) & 0xFFFFFFFF for k in table["key"].to_pylist()]
    places = [
        operator_index_for_key_group(max_parallelism, parallelism, key_group_for_hash(code, max_parallelism))
        for code in hashes
    ]
    return [table.filter(pa.array([place == part for place in places])) for part in range(parallelism)]


def state_files(path: Path) -> list[bytes]:
    """The files of the subtasks, in their order."""
    operator = Snapshot.open(str(path)).operators[0]
    handles = [operator.subtasks[i].managed_keyed_state for i in range(operator.parallelism)]
    return [(path / handle.delegate.relative_path).read_bytes() for handle in handles]


def left_over(path: Path) -> list[str]:
    """Files below a savepoint that nothing names."""
    if not path.exists():
        return []
    named = {"_metadata"}
    if (path / "_metadata").exists():
        named |= relative_files(Snapshot.open(str(path)).metadata)
    return sorted(str(entry.relative_to(path)) for entry in path.rglob("*") if entry.name not in named)


# -- any layout ---------------------------------------------------------------------------------------------


@settings(max_examples=8)
@given(st.integers(1, 9), st.integers(1, 5), st.sampled_from([1, 7, 128, 300]), st.integers(0, 1 << 30))
def test_any_partitions_give_the_same_bytes(
    tmp_path_factory: pytest.TempPathFactory, parts: int, parallelism: int, max_parallelism: int, seed: int
) -> None:
    parallelism = min(parallelism, max_parallelism)
    table = accounts(random.Random(seed).sample(range(-500, 500), 200))
    one, other = tmp_path_factory.mktemp("one"), tmp_path_factory.mktemp("other")
    numbers = {"max_parallelism": max_parallelism, "parallelism": parallelism}
    write(one / "sp", [table], **numbers)
    write(other / "sp", split(table, parts, seed), **numbers)
    assert state_files(one / "sp") == state_files(other / "sp")
    assert read(one / "sp") == without_empty(table)
    assert not left_over(one / "sp")
    assert not left_over(other / "sp")


def test_a_laid_out_partition_is_a_final_file(tmp_path: Path) -> None:
    table = accounts(range(300))
    outputs = write(tmp_path / "sp", by_subtask(table, 128, 3), layout=(128, 3))
    assert [output.file.subtask for output in outputs if output.file is not None] == [0, 1, 2]
    write(tmp_path / "plain", [table], max_parallelism=128, parallelism=3)
    assert state_files(tmp_path / "sp") == state_files(tmp_path / "plain")
    assert not left_over(tmp_path / "sp")
    operator = Snapshot.open(str(tmp_path / "sp")).operators[0]
    assert (operator.parallelism, operator.max_parallelism) == (3, 128)
    for index, subtask in operator.subtasks.items():
        assert isinstance(subtask.managed_keyed_state, KeyGroupsSavepointStateHandle)
        assert subtask.managed_keyed_state.key_group_range == range_for_operator_index(128, 3, index)


@pytest.mark.parametrize(
    ("request_", "table"),
    [
        ({}, accounts(range(300))),
        ({"compression": "snappy"}, accounts(range(300))),
        ({"table": "timers"}, timers(range(300))),
        ({"table": "window_state", "states": {"window-contents": "reducing"}}, windows(range(300))),
    ],
)
def test_final_files_with_rows_elsewhere_are_merged(tmp_path: Path, request_: dict[str, Any], table: pa.Table) -> None:
    """Two DataFrames that were laid out by key, and then united: partitions behind the first three are not final."""
    halves = [table.slice(0, 150), table.slice(150)]
    partitions = [part for half in halves for part in by_subtask(half, 128, 3)]
    outputs = write(tmp_path / "sp", partitions, layout=(128, 3), **request_)
    assert sum(output.file is not None for output in outputs) == 3
    write(tmp_path / "plain", [table], max_parallelism=128, parallelism=3, **request_)
    assert state_files(tmp_path / "sp") == state_files(tmp_path / "plain")
    assert not left_over(tmp_path / "sp")


def test_a_composite_key_is_merged_too(tmp_path: Path) -> None:
    rows = pa.table({"b": pa.array(range(100), pa.int32()), "a": [f"k{i % 7}" for i in range(100)], "n": range(100)})
    write(tmp_path / "plain", split(rows, 3, 1), key=("a", "b"), max_parallelism=16, parallelism=1)
    outputs = write(tmp_path / "sp", [rows.slice(0, 50), rows.slice(50)], layout=(16, 1), key=("a", "b"))
    assert [output.file is not None for output in outputs] == [True, False]
    assert state_files(tmp_path / "sp") == state_files(tmp_path / "plain")
    assert read(tmp_path / "sp")[0]["key"].keys() == {"f0", "f1"}


def test_key_groups_of_a_column_are_taken_as_they_are(tmp_path: Path) -> None:
    groups = [key_group_for_hash(key, 16) for key in range(40)]
    rows = pa.table({"key": pa.array(range(40), pa.int64()), "g": pa.array(groups, pa.int32()), "n": range(40)})
    write(tmp_path / "sp", [rows.slice(0, 20), rows.slice(20)], layout=(16, 1), key_group="g")
    found = {row["key"]: row["key_group"] for row in read(tmp_path / "sp", include_key_group=True)}
    assert found == dict(enumerate(groups))


def test_key_groups_of_a_column_are_checked(tmp_path: Path) -> None:
    """A key in another key group than that of its hash would be lost to the job."""
    groups = [key_group_for_hash(key, 16) for key in range(40)]
    groups[7] = 15 - groups[7]
    rows = pa.table({"key": pa.array(range(40), pa.int64()), "g": pa.array(groups, pa.int32()), "n": range(40)})
    right = f"key group {15 - groups[7]}, where the hash of 7 leads at max parallelism 16"
    with pytest.raises(ValueRangeError, match=rf"{right}(.|\n)*found: key group {groups[7]}, and 1 of 40 rows"):
        write(tmp_path / "sp", [rows], layout=(16, 1), key_group="g")
    assert not (tmp_path / "sp" / "_metadata").exists()


def test_key_groups_that_only_the_job_knows_are_trusted(tmp_path: Path) -> None:
    rows = pa.table({"key": ["HEARTS", "SPADES"], "g": pa.array([3, 12], pa.int32()), "n": [1, 2]})
    write(
        tmp_path / "sp",
        [rows],
        layout=(16, 1),
        key_group="g",
        types={"key": "SCALA_ENUM<com.shop.Suit>(HEARTS=0, SPADES=1)"},
    )
    found = {row["key"]: row["key_group"] for row in read(tmp_path / "sp", include_key_group=True)}
    assert found == {"HEARTS": 3, "SPADES": 12}


def test_many_runs_are_merged_some_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assemble, "FAN_IN", 3)
    table = accounts(range(100))
    write(tmp_path / "sp", split(table, 11, 5))
    assert read(tmp_path / "sp") == without_empty(table)
    assert not left_over(tmp_path / "sp")


def test_a_large_merge_of_one_process_is_said() -> None:
    runs = [TaskOutput(part, 1, run=RunFile("run", assemble.MUCH // 2, b"")) for part in range(3)]
    assert not list(assemble.merge_notes(runs[:1]))
    (note,) = assemble.merge_notes([*runs, TaskOutput(3, 0)])
    assert "1.6 GB" in note
    assert "key_by" in note


def test_the_size_of_the_state_decides_the_parallelism(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assemble, "BYTES_PER_SUBTASK", 8 << 10)
    table = accounts(range(1000))
    write(tmp_path / "sp", split(table, 3, 5))
    assert Snapshot.open(str(tmp_path / "sp")).operators[0].parallelism > 4
    assert read(tmp_path / "sp") == without_empty(table)


def test_rows_of_one_subtask_by_chance_need_no_layout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write_task, "FEW_ROWS", 10)
    outputs = write(tmp_path / "sp", by_subtask(accounts(range(100)), 8, 2), max_parallelism=8, parallelism=2)
    assert all(output.file is not None for output in outputs)


def test_no_rows_are_an_operator_without_entries(tmp_path: Path) -> None:
    write(tmp_path / "sp", [accounts([]), accounts([])], parallelism=2)
    assert read(tmp_path / "sp") == []
    assert len(state_files(tmp_path / "sp")) == 2


def test_messages_are_small(tmp_path: Path) -> None:
    partitions = by_subtask(accounts(range(2000)), 32768, 2)
    outputs = write(tmp_path / "sp", [*partitions, accounts(range(2000, 2100))], layout=(32768, 2))
    # An offset and a number of entries for each of the key groups, over all messages.
    assert sum(len(pickle.dumps(output)) for output in outputs) < 32768 * 16 + 20_000


# -- what is refused ----------------------------------------------------------------------------------------


def test_a_key_in_two_partitions_is_named(tmp_path: Path) -> None:
    with pytest.raises(DuplicateKeyError, match=r"more than one row has the same key(.|\n)*op(.|\n)*key 42 again"):
        write(tmp_path / "sp", [accounts(range(50)), accounts([42])])
    assert not (tmp_path / "sp").exists()


def test_a_key_in_two_final_files_is_named(tmp_path: Path) -> None:
    table = accounts(range(300))
    with pytest.raises(DuplicateKeyError, match="key 7 again"):
        write(tmp_path / "sp", [*by_subtask(table, 128, 2), accounts([7])], layout=(128, 2))
    assert not (tmp_path / "sp").exists()


def test_null_keys_and_values_that_do_not_fit(tmp_path: Path) -> None:
    rows = pa.table({"key": pa.array([1, None], pa.int64()), "n": [1, 2]})
    plan = planned(tmp_path / "sp", rows.schema)
    with pytest.raises(ValueRangeError, match="'key' is NULL in some rows"):
        write_rows(plan, 0, rows.to_batches())
    roll_back(plan.staging, plan.existed)
    assert not (tmp_path / "sp").exists()


def test_a_null_part_of_a_key_is_named_unless_its_type_has_a_null(tmp_path: Path) -> None:
    rows = pa.table({"shop": ["a", None], "id": pa.array([1, 2], pa.int64()), "n": [1, 2]})
    write(tmp_path / "sp", [rows], key=("shop", "id"))
    assert {row["key"]["f0"] for row in read(tmp_path / "sp")} == {"a", None}
    rows = pa.table({"shop": ["a", "b"], "id": pa.array([1, None], pa.int64()), "n": [1, 2]})
    with pytest.raises(ValueRangeError, match="'id' is NULL in some rows, and a part of a key of type LONG"):
        write(tmp_path / "other", [rows], key=("shop", "id"))


def test_append_refuses_what_is_there_and_overwrite_replaces_it(tmp_path: Path) -> None:
    write(tmp_path / "sp", [accounts(range(10))])
    before = digests(tmp_path)
    for request in ({}, {"table": "keyed_state", "max_parallelism": 64}):
        with pytest.raises(StateExistsError, match=r"has this state already(.|\n)*'total', 'name', 'items', 'by'"):
            write(tmp_path / "sp", [accounts(range(5))], **request)
    assert digests(tmp_path) == before
    write(tmp_path / "sp", [accounts(range(5))], overwrite=True, max_parallelism=64)
    assert read(tmp_path / "sp") == without_empty(accounts(range(5)))
    assert not left_over(tmp_path / "sp")
    assert not before.keys() - {"sp/_metadata"} & digests(tmp_path).keys()


def test_other_tables_of_an_operator_are_added_and_replaced_beside_it(tmp_path: Path) -> None:
    rows = accounts(range(100))
    write(tmp_path / "sp", split(rows, 3, 1), parallelism=2)
    write(tmp_path / "sp", split(timers(range(100)), 2, 2), table="timers")
    contents = {"window-contents": "reducing"}
    write(tmp_path / "sp", split(windows(range(50)), 2, 3), table="window_state", states=contents)
    write(tmp_path / "sp", [pa.table({"x": pa.array(range(7), pa.int64())})], table="operator_state", state="offsets")
    with pytest.raises(StateExistsError, match="timers"):
        write(tmp_path / "sp", [timers([1])], table="timers")
    write(tmp_path / "sp", [timers(range(3))], table="timers", overwrite=True)
    with pytest.raises(UnsupportedStateError, match="elements of this state have no keys"):
        write(tmp_path / "sp", [pa.table({"x": [1]})], table="operator_state", state="offsets")
    write(tmp_path / "sp", [pa.table({"x": [5]})], table="operator_state", state="offsets", overwrite=True)
    assert read(tmp_path / "sp", table="keyed_state") == without_empty(rows)
    assert sorted(row["timestamp"] for row in read(tmp_path / "sp", table="timers")) == [-5000, -4000, -3000]
    assert len(read(tmp_path / "sp", table="window_state")) == 50
    assert read(tmp_path / "sp", table="operator_state", state="offsets") == [{"value": 5}]
    assert not left_over(tmp_path / "sp")
    with pytest.raises(StateExistsError, match="found: 'user-timers', 'window-contents', 'offsets'\n"):
        write(tmp_path / "sp", [accounts([1])], overwrite=True)
    write(tmp_path / "sp", [accounts([1])], overwrite=True, drop=("*",))
    assert {row["table"] for row in read(tmp_path / "sp", table="states")} == {"keyed_state"}
    assert not left_over(tmp_path / "sp")


def test_what_an_overwrite_would_lose_is_named_or_refused(tmp_path: Path) -> None:
    rows = accounts(range(10))
    write(tmp_path / "sp", [rows])
    write(tmp_path / "sp", [timers(range(10))], table="timers")
    write(tmp_path / "sp", [windows(range(5))], table="window_state", states={"window-contents": "reducing"})
    before = digests(tmp_path)
    fewer = rows.select(["key", "total", "name", "items"])
    with pytest.raises(
        StateExistsError, match=r"would remove state(.|\n)*found: 'window-contents', 'user-timers', 'by'"
    ) as raised:
        write(tmp_path / "sp", [fewer], overwrite=True)
    assert "option('state', 'items, name, total')" in str(raised.value)
    assert "option('drop', 'window-contents,user-timers,by')" in str(raised.value)
    with pytest.raises(StateExistsError, match="found: 'user-timers'\n"):
        write(tmp_path / "sp", [fewer], overwrite=True, drop=("by", "window-contents"))
    with pytest.raises(OptionError, match=r"'drop' names 'buy'(.|\n)*did you mean 'by'"):
        write(tmp_path / "sp", [fewer], overwrite=True, drop=("buy",))
    with pytest.raises(OptionError, match="'drop' needs mode 'overwrite'"):
        write(tmp_path / "sp", [fewer], uid="other", drop=("by",))
    other = pa.table({"key": [0], "window": windows([0]).column("window"), "other": [1]})
    with pytest.raises(
        StateExistsError, match=r"overwriting window_state would remove state(.|\n)*found: 'window-contents'"
    ):
        write(tmp_path / "sp", [other], table="window_state", overwrite=True)
    assert digests(tmp_path) == before
    write(tmp_path / "sp", [fewer], overwrite=True, drop=("by", "user-timers", "window-contents"))
    assert {row["state"] for row in read(tmp_path / "sp", table="states")} == {"total", "name", "items"}


def test_states_are_replaced_and_added_by_name_beside_all_others(tmp_path: Path) -> None:
    rows = accounts(range(10))
    write(tmp_path / "sp", [rows], types={"total": "LONG"}, ttl=("total",))
    write(tmp_path / "sp", [timers(range(10))], table="timers")
    before = {name: read(tmp_path / "sp", table=name) for name in ("keyed_state", "timers")}
    total = pa.table({"key": rows.column("key"), "total": pa.array([-1] * 10, rows.schema.field("total").type)})
    kinds = {row["state"]: row["value_type"] for row in read(tmp_path / "sp", table="states")}

    write(tmp_path / "sp", [total], state="total", overwrite=True)
    after = read(tmp_path / "sp", table="keyed_state")
    assert [{**row, "total": -1} for row in before["keyed_state"]] == after
    assert read(tmp_path / "sp", table="timers") == before["timers"]
    assert {row["state"]: row["value_type"] for row in read(tmp_path / "sp", table="states")} == kinds

    more = total.rename_columns(["key", "more"])
    write(tmp_path / "sp", [total.slice(0, 3), total.slice(3)], state="total")
    assert read(tmp_path / "sp", table="keyed_state") == after
    with pytest.raises(
        OptionError, match=r"the columns differ from the states that option 'state' names(.|\n)*expected: 'more'"
    ):
        write(tmp_path / "sp", [total], state="more")
    write(tmp_path / "sp", [more], state="more")
    assert [{**row, "more": -1} for row in after] == read(tmp_path / "sp", table="keyed_state")


def test_state_that_stays_binds_what_is_written(tmp_path: Path) -> None:
    write(tmp_path / "sp", [accounts(range(10))], max_parallelism=64, parallelism=2)
    with pytest.raises(OptionError, match=r"'maxParallelism' differs from that of the operator(.|\n)*expected: 64"):
        write(tmp_path / "sp", [timers([1])], table="timers", max_parallelism=128)
    with pytest.raises(OptionError, match=r"'parallelism' differs from that of the operator(.|\n)*expected: 2"):
        write(tmp_path / "sp", [pa.table({"x": [1]})], table="operator_state", state="s", parallelism=3)
    text = timers([1]).set_column(0, "key", pa.array(["a"]))
    with pytest.raises(SavepointError, match=r"LONG|bigint"):
        write(tmp_path / "sp", [text], table="timers")
    with pytest.raises(StateExistsError, match="a state with this name in another table"):
        write(tmp_path / "sp", [windows([1]).rename_columns(["key", "window", "total"])], table="window_state")


def test_operator_state_does_not_bind_key_groups(tmp_path: Path) -> None:
    write(tmp_path / "sp", [pa.table({"x": [1]})], table="operator_state", state="s", parallelism=2)
    write(tmp_path / "sp", [accounts(range(10))], max_parallelism=64)
    operator = Snapshot.open(str(tmp_path / "sp")).operators[0]
    assert (operator.parallelism, operator.max_parallelism) == (2, 64)
    assert read(tmp_path / "sp", table="operator_state", state="s") == [{"value": 1}]
    with pytest.raises(OptionError, match="a savepoint is a folder"):
        write(tmp_path / "sp" / "_metadata", [accounts([1])])


def test_timers_on_the_heap_of_rocksdb_are_replaced(corpus: Path, tmp_path: Path) -> None:
    """They are raw keyed state in its checkpoints; what replaces them is in the state files, and nowhere twice."""
    shutil.copytree(corpus / "datastream/udf-rocksdb_heap_timers-savepoint-1.10", tmp_path / "sp")
    one = {"uid": None, "uid_hash": OperatorID.from_uid("by-long").hex}
    rows = pa.table({"key": pa.array([1, 2], pa.int64()), "timestamp": [5, 5], "domain": ["event", "event"]})
    with pytest.raises(StateExistsError, match="timers"):
        write(tmp_path / "sp", [rows], **one, table="timers")
    write(tmp_path / "sp", [rows], **one, table="timers", overwrite=True)
    assert [row["timestamp"] for row in read(tmp_path / "sp", **one, table="timers")] == [5, 5]


def test_a_new_operator_is_named_by_uid(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="the uid of the new operator is missing"):
        write(tmp_path / "sp", [accounts([1])], uid=None, operator_name="x")
    write(tmp_path / "sp", [accounts([1])], operator_name="x", flink_version=(2, 2))
    operator = Snapshot.open(str(tmp_path / "sp")).operators[0]
    assert (operator.uid, operator.name) == ("op", "x")
    write(tmp_path / "sp", [timers([1])], uid=None, operator_name="x", table="timers")
    write(tmp_path / "sp", [accounts([1])], uid=None, uid_hash="0" * 31 + "1")
    assert [operator.uid for operator in Snapshot.open(str(tmp_path / "sp")).operators] == ["op", None]


@pytest.mark.parametrize(("wanted", "version"), [(None, 4), ((1, 20), 4), ((2, 0), 5), ((2, 3), 6)])
def test_flink_decides_the_version_of_the_metadata(
    tmp_path: Path, wanted: tuple[int, int] | None, version: int
) -> None:
    write(tmp_path / "sp", [accounts([1])], flink_version=wanted)
    write(tmp_path / "sp", [accounts([1])], uid="other")
    savepoint = Snapshot.open(str(tmp_path / "sp"))
    assert savepoint.metadata.version == version
    assert [operator.uid for operator in savepoint.operators] == ["op", "other"]  # version 4: behind what Flink reads


# -- operator state -----------------------------------------------------------------------------------------


def elements(path: Path, state: str) -> list[list[Any]]:
    rows = read(path, table="operator_state", state=state, include_key_group=True)
    return [row["value"] for row in rows]


def test_elements_are_dealt_out_in_order(tmp_path: Path) -> None:
    values = pa.table({"x": pa.array(range(11), pa.int64())})
    write(
        tmp_path / "sp",
        [values.slice(0, 4), values.slice(4, 0), values.slice(4)],
        table="operator_state",
        state="l",
        parallelism=3,
    )
    operator = Snapshot.open(str(tmp_path / "sp")).operators[0]
    counts = [len(operator.subtasks[i].managed_operator_state.states[0].offsets) for i in range(3)]
    assert counts == [4, 4, 3]
    assert sorted(elements(tmp_path / "sp", "l")) == list(range(11))
    write(tmp_path / "sp", [values], table="operator_state", kind="union", state="u")
    pairs = pa.table({"key": [f"k{i}" for i in range(5)], "value": pa.array(range(5), pa.float64())})
    write(tmp_path / "sp", [pairs.slice(0, 2), pairs.slice(2)], table="operator_state", state="b")
    operator = Snapshot.open(str(tmp_path / "sp")).operators[0]
    for subtask in operator.subtasks.values():
        states = {state.name: state for state in subtask.managed_operator_state.states}
        assert states.keys() == {"l", "u", "b"}
        assert len(states["b"].offsets) == 1
    assert read(tmp_path / "sp", table="operator_state", state="b") == rows_of([pairs])
    assert sorted(elements(tmp_path / "sp", "u")) == sorted(elements(tmp_path / "sp", "l")) == list(range(11))
    assert not left_over(tmp_path / "sp")


def test_an_operator_state_keeps_its_kind_unless_another_is_named(tmp_path: Path) -> None:
    def kind(of: str = "sp") -> str:
        (mode,) = {
            state.mode.name
            for subtask in Snapshot.open(str(tmp_path / of)).operators[0].subtasks.values()
            for state in subtask.managed_operator_state.states
        }
        return mode

    state: dict[str, Any] = {"table": "operator_state", "state": "u"}
    write(tmp_path / "sp", [pa.table({"value": [1, 2]})], **state, kind="union")
    read_again = pa.table({"value": elements(tmp_path / "sp", "u")})
    write(tmp_path / "sp", [read_again], **state, overwrite=True)
    assert kind() == "UNION"
    write(tmp_path / "copy", [read_again], **state, type_source=str(tmp_path / "sp"))
    assert kind("copy") == "UNION"
    write(tmp_path / "sp", [read_again], **state, kind="list", overwrite=True)
    assert kind() == "SPLIT_DISTRIBUTE"


def test_no_elements_and_repeated_broadcast_keys(tmp_path: Path) -> None:
    write(
        tmp_path / "sp",
        [pa.table({"x": pa.array([], pa.string())})],
        table="operator_state",
        state="none",
        parallelism=2,
    )
    assert read(tmp_path / "sp", table="operator_state", state="none") == []
    nobody = pa.table({"key": pa.array([], pa.string()), "value": pa.array([], pa.int64())})
    write(tmp_path / "sp", [nobody], table="operator_state", state="nobody")
    assert read(tmp_path / "sp", table="operator_state", state="nobody") == []
    pairs = pa.table({"key": ["a", "a"], "value": [1, 2]})
    with pytest.raises(DuplicateKeyError, match=r"more than one value for a key(.|\n)*'a' again"):
        write(tmp_path / "sp", [pairs.slice(0, 1), pairs.slice(1)], table="operator_state", state="b")
    assert not left_over(tmp_path / "sp")


# -- real savepoints ----------------------------------------------------------------------------------------

BASES = ["1.20.5-hashmap-native", "2.2.1-rocksdb-native", "2.3.0-hashmap-canonical-compressed"]


def real(corpus: Path, name: str, tmp_path: Path) -> tuple[Path, Path]:
    base = next((corpus / "lab" / name).rglob("_metadata")).parent
    shutil.copytree(base, tmp_path / "copy")
    return base, tmp_path / "copy"


@pytest.mark.parametrize("name", BASES)
def test_timers_replaced_beside_the_state_that_flink_wrote(corpus: Path, tmp_path: Path, name: str) -> None:
    """What stays goes from any backend's format to the canonical one, and reads as it did."""
    base, copy = real(corpus, name, tmp_path)
    before = digests(base)
    states = read(base, uid=None, table="states")
    # In the heap format, bytes after a value that cannot be delimited are unreadable.
    opaque = {row["operator_uid_hash"] for row in states if "KRYO" in row.get("value_type", "")}
    opaque = opaque if name == "1.20.5-hashmap-native" else set()
    timed = [row for row in states if row.get("table") == "timers" and row["operator_uid_hash"] not in opaque]
    reads = dict(timed[0]["options"])
    one = {"uid": reads.get("uid"), "uid_hash": reads.get("uidHash")}
    mine = {row["table"] for row in states if row["operator_uid_hash"] == timed[0]["operator_uid_hash"]}
    kept = next(table for table in ("keyed_state", "window_state") if table in mine)
    before_write = read(base, **one, table=kept)
    kind = some_keys(base, kept, one)
    rows = pa.table({"key": kind, "timestamp": [5] * len(kind), "domain": ["event"] * len(kind)})
    write(copy, [rows], **one, table="timers", overwrite=True, drop=("*",))
    assert read(copy, **one, table=kept) == before_write
    assert {row["timestamp"] for row in read(copy, **one, table="timers")} == {5}
    listed = {row["state"] for row in read(base, uid=None, table="states") if "state" in row}
    assert {row["state"] for row in read(copy, uid=None, table="states") if "state" in row} >= listed
    assert digests(base) == before
    assert not left_over(copy)


def some_keys(base: Path, kept: str, one: dict[str, Any]) -> pa.Array:
    """Some keys of a real operator."""
    table = open_table(TableRequest(str(base), table=kept, **one))
    batch = next(batch for partition in table.partitions(1) for batch in partition.batches())
    return batch.column("key").slice(0, 5)


def test_a_checkpoint_is_not_written_to(corpus: Path, tmp_path: Path) -> None:
    _, copy = real(corpus, "2.2.1-rocksdb-incr-checkpoint", tmp_path)
    (tmp_path / "chk-3").mkdir()
    shutil.copytree(copy, tmp_path / "chk-3", dirs_exist_ok=True)
    with pytest.raises(OptionError, match=r"belongs to its job(.|\n)*Savepoint.load"):
        write(tmp_path / "chk-3", [accounts([1])])


# -- failures -----------------------------------------------------------------------------------------------


def test_failed_attempts_leave_nothing(tmp_path: Path) -> None:
    """Of two attempts of a task, and a task whose other attempt was killed, only what was reported is used."""
    table = accounts(range(300))
    partitions = by_subtask(table, 128, 2)
    plan = planned(tmp_path / "sp", table.schema, layout=(128, 2))
    killed = plan.staging.create_state(plan.staging.unique("0"))
    killed.write(b"half of a file")
    lost = write_rows(plan, 0, partitions[0].to_batches())
    outputs = [write_rows(plan, i, part.to_batches()) for i, part in enumerate(partitions)]
    assert lost.file is not None
    commit(plan, outputs)
    assert read(tmp_path / "sp") == without_empty(table)
    assert not left_over(tmp_path / "sp")


def test_an_attempt_that_comes_too_late_makes_nothing(tmp_path: Path) -> None:
    plan = planned(tmp_path / "sp", accounts([1]).schema)
    commit(plan, [write_rows(plan, 0, accounts([1]).to_batches())])
    before = digests(tmp_path)
    with pytest.raises(ConcurrentWriteError, match="published at this path before this task began"):
        write_rows(plan, 0, accounts([1]).to_batches())
    assert digests(tmp_path) == before
    assert not left_over(tmp_path / "sp")


def test_what_stragglers_make_after_an_abort_goes_too(tmp_path: Path) -> None:
    plan = planned(tmp_path / "sp", accounts([1]).schema)

    def late() -> None:
        # It may be called after the folder was deleted, and gets an error.
        with suppress(OutputError):
            write_rows(plan, 0, accounts([1]).to_batches())

    straggler = threading.Timer(0.5, late)
    straggler.start()
    abort(plan, unfinished=2)
    straggler.join()
    assert not (tmp_path / "sp").exists()


@pytest.mark.parametrize("unfinished", [0, 1])
def test_no_one_waits_for_tasks_that_have_ended(tmp_path: Path, unfinished: int) -> None:
    """An error in a write is shown at once where no other task runs: without Spark, and of one task."""
    plan = planned(tmp_path / "sp", accounts([1]).schema)
    begin = time.monotonic()
    abort(plan, unfinished)
    assert time.monotonic() - begin < 1


def test_an_aborted_write_leaves_what_was_there(tmp_path: Path) -> None:
    write(tmp_path / "sp", [accounts(range(10))])
    before = digests(tmp_path)
    plan = planned(tmp_path / "sp", accounts([1]).schema, overwrite=True)
    write_rows(plan, 0, accounts([1]).to_batches())
    assert digests(tmp_path) != before
    roll_back(plan.staging, plan.existed)
    assert digests(tmp_path) == before


def test_of_two_writers_one_wins(tmp_path: Path) -> None:
    first = planned(tmp_path / "sp", accounts([1]).schema, uid="a")
    second = planned(tmp_path / "sp", accounts([1]).schema, uid="b")
    outputs = [write_rows(first, 0, accounts([1]).to_batches())]
    others = [write_rows(second, 0, accounts([2]).to_batches())]
    commit(first, outputs)
    with pytest.raises(ConcurrentWriteError, match=r"another writer(.|\n)*write again"):
        commit(second, others)
    assert [row["key"] for row in read(tmp_path / "sp", uid="a")] == [1]
    assert not left_over(tmp_path / "sp")
    third = planned(tmp_path / "sp", accounts([1]).schema, uid="a", overwrite=True)
    outputs = [write_rows(third, 0, accounts([3]).to_batches())]
    write(tmp_path / "sp", [accounts([1])], uid="b")
    with pytest.raises(ConcurrentWriteError):
        commit(third, outputs)
    assert [row["key"] for row in read(tmp_path / "sp", uid="a")] == [1]
    assert not left_over(tmp_path / "sp")


def test_a_file_that_does_not_hold_what_was_written_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that loses a byte: the file is read back before anything is published."""
    close = LocalOutputFile.close

    def losing(self: LocalOutputFile) -> None:
        close(self)
        if "run" not in self.path:
            data = bytearray(Path(self.path).read_bytes())
            del data[-40:]
            Path(self.path).write_bytes(bytes(data))

    monkeypatch.setattr(LocalOutputFile, "close", losing)
    with pytest.raises(CorruptStateError):
        write(tmp_path / "sp", [accounts(range(10))])
    assert not (tmp_path / "sp").exists()


def test_keys_of_another_type_are_refused_beside_state_that_stays(tmp_path: Path) -> None:
    write(tmp_path / "sp", [accounts(range(10))])
    with pytest.raises((UnsupportedStateError, OptionError)):
        write(tmp_path / "sp", [timers([1])], table="timers", types={"key": "INT"})
