"""Rows written to a PyFlink operator: the bytes that PyFlink wrote, where values are the same."""

from __future__ import annotations

import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from pyspark_savepoint.formats.errors import OptionError, SavepointError, StateExistsError, ValueRangeError
from pyspark_savepoint.options.options import SavepointReadOptions
from pyspark_savepoint.options.write_options import SavepointWriteOptions
from pyspark_savepoint.statebackends.open_table import open_table
from pyspark_savepoint.statebackends.python.python_state import PickledKeys, encode_keys
from pyspark_savepoint.statebackends.writing.committer import commit
from pyspark_savepoint.statebackends.writing.write_task import write_rows
from pyspark_savepoint.write.in_place import plan_write
from tests.statebackends.python.test_pyflink_job import (
    AGGREGATED,
    PICKLED_KEYS,
    STRING_KEYS,
    TUPLE_KEYS,
    TYPES,
    job,
)

__all__ = ["job"]

#: As the job declares them, but pickles as the bytes that they are.
BYTES = TYPES.replace("v_pickled PICKLED; list_pickled LIST PICKLED", "v_pickled BYTES; list_pickled LIST BYTES")
BYTES += "; v_custom BYTES"


@pytest.fixture
def copied(job: str, tmp_path: Path) -> str:
    target = shutil.copytree(job, tmp_path / "sp")
    for path in (target, *target.iterdir()):
        path.chmod(0o755)
    return str(target)


def read(path: str, uid: str, **options: str) -> pa.Table:
    table = open_table(SavepointReadOptions.parse({"path": path, "uidHash": uid, **options}).request())
    return pa.Table.from_batches([b for part in table.partitions(1) for b in part.batches()], schema=table.schema)


def write(path: str, uid: str, rows: pa.Table, **options: str) -> None:
    parsed = SavepointWriteOptions.parse({"path": path, "uidHash": uid, **options})
    plan = plan_write(parsed.request(True), rows.schema)
    commit(plan, [write_rows(plan, 0, rows.to_batches())])


def stored(path: str, uid: str, **options: str) -> list[str]:
    """What Flink stores of every key, as bytes."""
    names = [row["state"] for row in states(path, uid) if row["table"] in ("keyed_state", "window_state")]
    return sorted(map(repr, read(path, uid, raw=",".join(["key", *names]), **options).to_pylist()))


def states(path: str, uid: str) -> list[dict[str, Any]]:
    table = open_table(SavepointReadOptions.parse({"path": path, "uidHash": uid, "table": "states"}).request())
    return [row for part in table.partitions(1) for batch in part.batches() for row in batch.to_pylist()]


@pytest.mark.parametrize("uid", [STRING_KEYS, PICKLED_KEYS, TUPLE_KEYS])
def test_rows_that_are_as_they_were_have_the_same_bytes(job: str, copied: str, uid: str) -> None:
    rows = read(job, uid, pyTypes=BYTES, includeTtl="true")
    timers = read(job, uid, table="timers")
    named = ",".join(name for name in rows.schema.names if name != "key" and not name.endswith("__last_access"))
    write(copied, uid, rows, pyTypes=BYTES, state=named)

    assert stored(copied, uid) == stored(job, uid)
    assert read(copied, uid, table="timers").to_pylist() == timers.to_pylist()
    both = [sorted(f"{row['state']} {row['serializer']}" for row in states(path, uid)) for path in (copied, job)]
    assert both[0] == both[1]


def test_one_state_changes_and_the_others_stay(job: str, copied: str) -> None:
    rows = read(job, PICKLED_KEYS, pyTypes="v_long LONG", state="v_long")
    changed = rows.set_column(1, "v_long", pc.negate(rows["v_long"]))
    write(copied, PICKLED_KEYS, changed, pyTypes="v_long LONG", state="v_long")

    assert read(copied, PICKLED_KEYS, pyTypes="v_long LONG", state="v_long").to_pylist() == changed.to_pylist()
    others = {"state": "v_pickled,map,list", "raw": "v_pickled,map,list"}
    assert read(copied, PICKLED_KEYS, **others).to_pylist() == read(job, PICKLED_KEYS, **others).to_pylist()
    write(copied, PICKLED_KEYS, changed, pyTypes="v_long LONG", drop="*")
    assert {row["state"] for row in states(copied, PICKLED_KEYS)} == {"v_long"}


def test_windows_and_timers_are_written(job: str, copied: str) -> None:
    types = "window-contents TUPLE<LONG, LONG>"
    windows = read(job, AGGREGATED, pyTypes=types)
    write(copied, AGGREGATED, windows, table="window_state", pyTypes=types)
    assert stored(copied, AGGREGATED) == stored(job, AGGREGATED)

    timers = read(job, PICKLED_KEYS, table="timers").slice(5)
    write(copied, PICKLED_KEYS, timers, table="timers")
    found = read(copied, PICKLED_KEYS, table="timers")
    assert sorted(map(repr, found.to_pylist())) == sorted(map(repr, timers.to_pylist()))


def test_types_are_taken_from_another_savepoint(job: str, tmp_path: Path) -> None:
    types = "v_long LONG; map MAP<STRING, LONG>"
    rows = read(job, STRING_KEYS, pyTypes=types, state="v_long,map")
    new = str(tmp_path / "new")
    parsed = SavepointWriteOptions.parse(
        {
            "path": new,
            "uid": "py-string",
            "pyTypes": types,
            "typesFrom": f"{job}#{STRING_KEYS}",
            "maxParallelism": "128",
        }
    )
    plan = plan_write(parsed.request(False), rows.schema)
    commit(plan, [write_rows(plan, 0, rows.to_batches())])
    assert sorted(map(repr, read(new, STRING_KEYS, pyTypes=types).to_pylist())) == sorted(map(repr, rows.to_pylist()))
    below = {"state": "v_long,map", "raw": "key,v_long,map"}
    assert sorted(map(repr, read(new, STRING_KEYS, **below).to_pylist())) == sorted(
        map(repr, read(job, STRING_KEYS, **below).to_pylist())
    )


def change(**columns: pa.Array) -> Callable[[pa.Table], pa.Table]:
    """Replace columns of the rows."""

    def changed(rows: pa.Table) -> pa.Table:
        for name, column in columns.items():
            rows = rows.set_column(rows.schema.get_field_index(name), name, column)
        return rows

    return changed


@pytest.mark.parametrize(
    ("types", "state", "options", "edit", "kind", "message"),
    [
        ("v_pickled PICKLED", "v_pickled", {}, change(), OptionError, "cannot be written from a VARIANT"),
        ("v_long LONG", "v_long", {"drop": "v_ttl"}, change(), StateExistsError, "overwriting the operator would"),
        ("v_long LONG", "v_long", {}, change(v_long=pa.array(["x"] * 20)), ValueRangeError, "cannot be cast to int64"),
        ("v_date DATE", "v_date", {}, change(key=pa.nulls(20, pa.string())), ValueRangeError, "cannot be null"),
        ("v_tuple TUPLE<INT>", "v_tuple", {}, change(), SavepointError, "are no TUPLE<INT>"),
    ],
)
def test_what_cannot_be_written_is_refused(
    copied: str, types: str, state: str, options: dict[str, str], edit: Any, kind: type[Exception], message: str
) -> None:
    before = stored(copied, STRING_KEYS)
    named = {} if options else {"state": state}

    def edited() -> None:
        rows = edit(read(copied, STRING_KEYS, pyTypes=types, state=state))
        write(copied, STRING_KEYS, rows, pyTypes=types, **named, **options)

    with pytest.raises(kind, match=message):
        edited()
    assert stored(copied, STRING_KEYS) == before


def test_types_of_pyflink_need_its_operator(tmp_path: Path) -> None:
    rows = pa.table({"key": [1], "v": [2]})
    parsed = SavepointWriteOptions.parse({"path": str(tmp_path / "new"), "uid": "a", "pyTypes": "v LONG"})
    with pytest.raises(OptionError, match="is for the operator of a PyFlink job"):
        plan_write(parsed.request(False), rows.schema)


@pytest.mark.parametrize("protocol", [4, 5])
@pytest.mark.parametrize(
    "keys",
    [
        [0, 1, 255, 256, 65535, 65536, -1, 2**31, -(2**31) - 1, -(2**62), 2**63 - 1, -(2**63), 128 - 2**39, -(2**39)],
        ["", "a", "é" * 200, "k" * 300],
        [True, False],
        [1.5, -0.0],
        [b"", b"a", b"x" * 300],
        [(1, "a"), (2, "b")],
        [(1, "a", 2.5, True, (3, "c")), (4, "d", 5.0, False, (6, "e"))],
    ],
    ids=lambda keys: type(keys[0]).__name__ if isinstance(keys, list) else None,
)
def test_keys_are_pickled_as_cpython_does(keys: list[Any], protocol: int) -> None:
    column = pa.array([pickle.dumps(key, protocol) for key in keys], pa.binary())
    found = PickledKeys()
    found.add(column)
    assert found.pickled
    assert found.exact
    assert found.kind is not None
    values = pa.array([_struct(key) for key in keys], found.kind)
    assert encode_keys(values, protocol).to_pylist() == column.to_pylist()


def _struct(key: Any) -> Any:
    return {f"f{index}": _struct(part) for index, part in enumerate(key)} if isinstance(key, tuple) else key
