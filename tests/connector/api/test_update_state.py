"""Rows that update a state: their keys change, and the entries of all others stay byte for byte.

The bases are checkpoints of real Flink on each state backend; every state of every operator is updated, with the values
that other keys have of it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pyspark_savepoint
from pyspark_savepoint import LocalSavepoint
from pyspark_savepoint.engines.arrow.local_engine import LocalEngine
from pyspark_savepoint.errors import OptionError, StateNotFoundError
from pyspark_savepoint.formats.errors import DuplicateKeyError, UnsupportedStateError
from pyspark_savepoint.plan.keyed_edits import edited_state, with_states
from tests.connector.test_engines import content
from tests.data import unpacked

HISTORY = ("1.20.5-rocksdb-incr", "2.3.0-forst-incr", "2.3.0-hashmap")
CHANGELOG = "1.20.5-changelog-rocksdb-mat"
ORACLE = Path(__file__).parents[2] / "oracle" / "savepoints"
Entries = dict[tuple[str, bytes], bytes]


def entries_of(savepoint: LocalSavepoint, uid: Any) -> Entries:
    """The value of each entry of an operator, by its state and the bytes of its key."""
    edited = edited_state(LocalEngine(), with_states(savepoint.plan.operator(uid)))
    assert edited is not None
    assert edited.rows is not None
    names = [meta.name for meta in edited.header.states]
    return {(names[row["state"]], row["key"]): row["value"] for row in edited.rows.collected()}


def updated(savepoint: LocalSavepoint, uid: Any, table: str, state: str) -> pa.Table:
    """Rows for three keys, of which one is new if the key is a number: each has the value of the next one."""
    read = savepoint.table(table, uid, state=state, include_ttl=True).to_arrow()  # type: ignore[arg-type]
    rows = read.select([name for name in read.column_names if name not in ("window_start", "window_end")]).slice(0, 4)
    column = state if state in rows.column_names else f"state_{state}"
    moved = rows.column(column).take(pa.array([1, 2, 3]))
    return rows.slice(0, 3).set_column(rows.column_names.index(column), column, moved)


def snapshot_of(backend: str, folder: Path) -> LocalSavepoint:
    """A snapshot of real Flink: the last checkpoint of a history, a changelog, or a canonical savepoint."""
    if backend == "shop":
        return pyspark_savepoint.open(ORACLE / "shop" / "savepoint")
    found = (unpacked() / "history" / backend / "checkpoints").glob("*/chk-*")
    path = max(found, key=lambda one: int(one.name[4:]))
    if backend != CHANGELOG:
        return pyspark_savepoint.open(path)
    moved = pyspark_savepoint.open(path, allow_outside=True).relocate("file:/data", f"file:{unpacked()}")
    return moved.write(folder / "moved")


def in_order(row: dict[str, Any]) -> dict[str, Any]:
    """A row whose maps have an order: that of files is none."""
    return {
        name: sorted(value) if isinstance(value, list) and value and isinstance(value[0], tuple) else value
        for name, value in row.items()
    }


@pytest.mark.parametrize("backend", [*HISTORY, CHANGELOG, "shop"])
def test_other_keys_and_states_stay_byte_for_byte(backend: str, tmp_path: Path) -> None:
    base = snapshot_of(backend, tmp_path)
    kinds = set()
    for number, one in enumerate(base.states().rows()):
        uid, table, state = one["operator_uid"] or one["operator_uid_hash"], one["table"], one["state"]
        if table not in ("keyed_state", "window_state"):
            continue
        rows = updated(base, uid, table, state)
        if len(rows) < 3:
            continue
        kinds.add(one["kind"])
        new = base.update_state(uid, state, rows).write(tmp_path / str(number))
        before, after = entries_of(base, uid), entries_of(new, uid)
        changed = {entry for entry in before.keys() | after.keys() if before.get(entry) != after.get(entry)}
        assert {name for name, _ in changed} == {state}
        keys = [name for name in rows.column_names if name in ("key", "window")]
        of_rows = {repr([row[name] for name in keys]) for row in rows.to_pylist()}
        shown = [
            {
                repr([row[name] for name in keys]): in_order(row)
                for row in each.table(table, uid, state=state, include_ttl=True).rows()
            }
            for each in (base, new)
        ]
        assert shown[0].keys() | of_rows == shown[1].keys() | of_rows
        assert {key for key in shown[1] if shown[0].get(key) != shown[1][key]} <= of_rows
        for row in rows.to_pylist():
            found = shown[1][repr([row[name] for name in keys])]
            assert all(found[name] == value for name, value in in_order(row).items() if "last_access" not in name)
    assert kinds >= {"VALUE", "LIST", "MAP"}, kinds


KEYS = pa.array(range(100), pa.int64())
MAPS = pa.map_(pa.string(), pa.int64())
ROWS = pa.table(
    {
        "key": KEYS,
        "v": KEYS,
        "l": pa.array([[number, number + 1] for number in range(100)]),
        "m": pa.array([[("x", number), ("y", number)] for number in range(100)], MAPS),
        "t": pa.array([str(number) for number in range(100)]),
    }
)
#: One key that is there, one that loses its map, and a new one.
UPDATE = pa.table({"key": pa.array([1, 2, 500], pa.int64()), "m": pa.array([[("new", 7)], None, [("z", 9)]], MAPS)})
OTHERS = UPDATE.slice(1).set_column(1, "m", pa.array([[("a", 1)], [("b", 2)]], MAPS))
A, B = {1: [("new", 7)], 2: None, 500: [("z", 9)]}, {1: [("new", 7)], 2: [("a", 1)], 500: [("b", 2)]}


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> LocalSavepoint:
    new = pyspark_savepoint.create(max_parallelism=16).with_operator("op", ROWS, ttl=["t", "m"], parallelism=2)
    return new.write(tmp_path_factory.mktemp("updates") / "base")


def maps(savepoint: LocalSavepoint, path: Path) -> dict[int, Any]:
    """What the update changed of the maps, after all else was found as it was."""
    read = savepoint.write(path).keyed_state("op").to_arrow().to_pylist()
    found, expected = {row["key"]: row for row in read}, {row["key"]: row for row in ROWS.to_pylist()}
    for key in found.keys() - {1, 2, 500}:
        assert found[key] == expected[key]
    return {key: found[key]["m"] for key in (1, 2, 500)}


def test_updates_in_one_plan(base: LocalSavepoint, tmp_path: Path) -> None:
    """Later rows win; renamed states, deleted keys, new key groups, and states of other tables are updated too."""
    changed = {
        "once": (base.update_state("op", "m", UPDATE), A),
        "twice": (base.update_state("op", "m", UPDATE).update_state("op", "m", OTHERS), B),
        "renamed": (
            base.rename_state("op", "m", "n").update_state("op", "n", UPDATE.rename_columns(["key", "n"]))
            .rename_state("op", "n", "m"),
            A,
        ),
        "replaced before": (
            base.with_state("op", "m", ROWS.select(["key", "m"])).update_state("op", "m", UPDATE), A
        ),
        "more key groups": (base.with_max_parallelism(24).update_state("op", "m", UPDATE), A),
        "far more key groups": (base.update_state("op", "m", UPDATE).with_max_parallelism(1024), A),
    }  # fmt: skip
    for name, (savepoint, expected) in changed.items():
        assert maps(savepoint, tmp_path / name.replace(" ", "-")) == expected, name
    gone = base.remove_keys("op", [1, 3]).update_state("op", "m", UPDATE).write(tmp_path / "gone")
    rows = {row["key"]: row for row in gone.keyed_state("op").rows()}
    assert rows[1] == {"key": 1, "v": None, "l": None, "m": [("new", 7)], "t": None}
    assert 3 not in rows
    again = base.update_state("op", "m", UPDATE).remove_keys("op", [1]).write(tmp_path / "again")
    assert 1 not in {row["key"] for row in again.keyed_state("op").rows()}


def test_an_update_of_an_operator_that_is_merged(base: LocalSavepoint, tmp_path: Path) -> None:
    halves = base.copy_operator("op", "two").remove_keys("op", list(range(50))).remove_keys("two", list(range(50, 100)))
    merged = halves.write(tmp_path / "halves").merge_operator("two", into="op")
    assert maps(merged.update_state("op", "m", UPDATE), tmp_path / "after") == A
    before = pyspark_savepoint.open(str(tmp_path / "halves")).update_state("two", "m", UPDATE)
    assert maps(before.merge_operator("two", into="op"), tmp_path / "before") == A


def test_times_of_last_access(base: LocalSavepoint, tmp_path: Path) -> None:
    """Other keys keep theirs; a row has the one that is given, else the time of the write."""
    times = {row["key"]: row["t__last_access"] for row in base.keyed_state("op", include_ttl=True).rows()}
    given = pa.array([1_000_000, None], pa.timestamp("us", "UTC"))
    rows = pa.table({"key": pa.array([1, 2], pa.int64()), "t": ["a", "b"], "t__last_access": given})
    new = base.update_state("op", "t", rows).write(tmp_path / "new")
    found = {row["key"]: row["t__last_access"] for row in new.keyed_state("op", include_ttl=True).rows()}
    assert found[1].timestamp() == 1
    assert found[2] > times[2]
    assert all(found[key] == times[key] for key in times.keys() - {1, 2})


def test_broadcast_state(shop: Path, tmp_path: Path) -> None:
    base = pyspark_savepoint.open(shop)
    rates = pa.table({"key": ["EUR", "NOK"], "value": [9.5, 1.5]})
    new = base.update_state("currency-converter", "rates", rates)
    new = new.update_state("currency-converter", "rates", rates.slice(1).set_column(1, "value", pa.array([7.5])))
    before, after = content(base), content(new.write(tmp_path / "new"))
    found = {row["key"]: row["value"] for row in pyspark_savepoint.open(tmp_path / "new").broadcast_state(
        "currency-converter", "rates").rows()}  # fmt: skip
    old = {row["key"]: row["value"] for row in base.broadcast_state("currency-converter", "rates").rows()}
    assert found == old | {"EUR": 9.5, "NOK": 7.5}
    key = "operator_state", "rates"
    assert before["currency-converter"].pop(key) != after["currency-converter"].pop(key)  # type: ignore[call-overload]
    assert before == after


def test_what_is_refused(base: LocalSavepoint, shop: Path, tmp_path: Path) -> None:
    with pytest.raises(DuplicateKeyError, match=r"more than one row has the same key(.|\n)*key 1 again"):
        base.update_state("op", "m", pa.concat_tables([UPDATE, UPDATE.slice(0, 1)])).write(tmp_path / "twice")
    with pytest.raises(DuplicateKeyError, match="more than one row has the same key"):  # one of them is NULL
        base.update_state("op", "m", pa.concat_tables([UPDATE, OTHERS])).write(tmp_path / "null")
    assert not (tmp_path / "twice").exists()
    with pytest.raises(StateNotFoundError, match=r"no state 'mm' to update(.|\n)*did you mean 'm'"):
        base.update_state("op", "mm", UPDATE)
    with pytest.raises(OptionError, match="'ttl' cannot change a state of which other keys keep"):
        base.update_state("op", "m", UPDATE, ttl=False)  # type: ignore[call-arg]
    with pytest.raises(OptionError, match="does not fit"):
        base.update_state("op", "v", UPDATE.rename_columns(["key", "v"]))
    sp = pyspark_savepoint.open(shop)
    with pytest.raises(UnsupportedStateError, match="elements of this state have no keys"):
        sp.update_state("warehouse-export", "pending_orders", pa.table({"value": [1]}))
    with pytest.raises(StateNotFoundError, match="'user-timers' are timers"):
        sp.update_state("accounts", "user-timers", UPDATE)
