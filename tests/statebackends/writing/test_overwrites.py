"""What a write replaces, for every table, option ``state`` and kind of state that an operator may have besides.

The operator has all of them. :data:`REPLACED` is the table of the cases: everything else must be as it was, and what an
overwrite would remove without rows for it must be named.
"""

from __future__ import annotations

import shutil
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pyspark_savepoint.formats.errors import OptionError, SavepointWarning, StateExistsError, UnsupportedStateError
from pyspark_savepoint.formats.metadata import MasterState
from pyspark_savepoint.formats.snapshot.changes import assemble
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from tests.statebackends.writing.whole_operator import PARTS, contents, rows_for, with_subtasks, written_base
from tests.statebackends.writing.written_operators import digests, write

#: Table and option ``state``, and the parts that an overwrite replaces: all of them for the table as a whole.
REPLACED: dict[tuple[str, str | None], set[str]] = {
    ("keyed_state", None): PARTS,
    ("keyed_state", "x"): {"keyed_state x"},
    ("keyed_state", "x,y"): {"keyed_state x", "keyed_state y"},
    ("window_state", None): {"window_state w", "window_state v"},
    ("window_state", "w"): {"window_state w"},
    ("timers", None): {"timers a", "timers b"},
    ("timers", "a"): {"timers a"},
    ("timers", "a,b"): {"timers a", "timers b"},
    ("operator_state", "pending"): {"operator_state pending"},
    ("operator_state", "offsets"): {"operator_state offsets"},
    ("operator_state", "SourceReaderState"): {"operator_state SourceReaderState"},
    ("operator_state", "rates"): {"operator_state rates"},
}


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written_base(tmp_path_factory.mktemp("own") / "sp")


@pytest.fixture(scope="module")
def base_with_raw_timers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same, but its raw keyed state has the timers of two more services."""
    return written_base(tmp_path_factory.mktemp("timers") / "sp", ("c", "d"))


@pytest.fixture
def copied(base: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(base, tmp_path / "sp"))


def test_the_base_has_everything(base: Path, base_with_raw_timers: Path) -> None:
    assert contents(base).keys() == PARTS
    assert contents(base_with_raw_timers).keys() == PARTS | {"timers c", "timers d"}


@pytest.mark.parametrize(("table", "state"), [case for case in REPLACED if case[1] is not None])
def test_an_overwrite_of_named_states_keeps_all_others(copied: Path, table: str, state: str) -> None:
    before = contents(copied)
    for value in (-1, -2):  # also over what this package has written
        write(copied, [rows_for(table, state, value)], table=table, state=state, overwrite=True)
    after = contents(copied)
    assert after.keys() == before.keys()
    assert {part for part in before if after[part] != before[part]} == REPLACED[table, state]


@pytest.mark.parametrize(("table", "state"), [case for case in REPLACED if case[1] is None])
def test_an_overwrite_of_a_table_names_what_it_would_remove(copied: Path, table: str, state: None) -> None:
    rows = rows_for(table, state)
    # Without option ``state``, the timers that are written are those of Flink's default service.
    kept = "timers user-timers" if table == "timers" else {"keyed_state": "keyed_state x"}.get(table, "window_state w")
    lost = sorted(part.rpartition(" ")[2] for part in REPLACED[table, state] - {kept})
    if table == "timers":
        rows = rows.drop_columns(["service"])
    before, files = contents(copied), digests(copied)
    with pytest.raises(StateExistsError, match="would remove state for which there are no rows") as refused:
        write(copied, [rows], table=table, overwrite=True)
    dropped = str(refused.value).partition("option('drop', '")[2].partition("'")[0].split(",")
    assert sorted(dropped) == lost[:10] or len(lost) > 10
    for name in lost:
        with pytest.raises(StateExistsError, match=rf"found: '{name}'\n"):
            write(copied, [rows], table=table, overwrite=True, drop=tuple(set(lost) - {name}))
    assert digests(copied) == files

    for drop in (tuple(lost), ("*",)):
        path = Path(shutil.copytree(copied, copied.parent / drop[0].replace("*", "all")))
        write(path, [rows], table=table, overwrite=True, drop=drop)
        after = contents(path)
        assert after.keys() == before.keys() - REPLACED[table, state] | {kept}
        assert all(after[part] == before[part] for part in after.keys() - {kept})


#: Tables and states whose rows an append merges by key: what is named, and has keys.
MERGED = [
    (table, state)
    for table, state in REPLACED
    if state is not None and (table in ("keyed_state", "window_state") or state == "rates")
]


@pytest.mark.parametrize(("table", "state"), [case for case in REPLACED if case not in MERGED])
def test_append_neither_replaces_nor_removes(copied: Path, table: str, state: str | None) -> None:
    files = digests(copied)
    with pytest.raises((StateExistsError, UnsupportedStateError), match=r"has this state already|have no keys"):
        write(copied, [rows_for(table, state)], table=table, state=state)
    assert digests(copied) == files


@pytest.mark.parametrize(("table", "state"), MERGED)
def test_append_to_named_states_merges_rows_by_key(copied: Path, table: str, state: str) -> None:
    """All else is as it was; rows of all keys leave what an overwrite leaves."""
    before, other = contents(copied), Path(shutil.copytree(copied, copied.parent / "other"))
    write(copied, [rows_for(table, state, -5).slice(1, 1)], table=table, state=state)
    one = contents(copied)
    assert one.keys() == before.keys()
    assert {part for part in before if one[part] != before[part]} == REPLACED[table, state]
    write(copied, [rows_for(table, state, -7)], table=table, state=state)
    write(other, [rows_for(table, state, -7)], table=table, state=state, overwrite=True)
    assert contents(copied) == contents(other)


@pytest.mark.parametrize("table", ["keyed_state", "window_state", "timers", "operator_state"])
def test_append_of_a_new_state_keeps_everything(copied: Path, table: str) -> None:
    before = contents(copied)
    write(copied, [rows_for(table, "new")], table=table, state="new")
    after = contents(copied)
    assert after.keys() == before.keys() | {f"{table} new"}
    assert all(after[part] == before[part] for part in before)


def test_states_of_one_name_in_two_tables_are_told_apart(copied: Path) -> None:
    """A column ``pending`` is no row of the list state ``pending``."""
    rows = rows_for("keyed_state", "pending")
    named = {part.rpartition(" ")[2] for part in PARTS} - {"pending"}
    with pytest.raises(StateExistsError, match="found: 'pending'\n"):
        write(copied, [rows], overwrite=True, drop=tuple(named))


@pytest.mark.parametrize(
    ("table", "state"), [("timers", "c"), ("timers", "c,d"), ("timers", None), ("keyed_state", "x")]
)
def test_timers_in_raw_keyed_state(base_with_raw_timers: Path, tmp_path: Path, table: str, state: str | None) -> None:
    """They are one stream: services are replaced in it together, or not at all."""
    path = Path(shutil.copytree(base_with_raw_timers, tmp_path / "sp"))
    before, files = contents(path), digests(path)

    def overwrite(**more: Any) -> None:
        write(path, [rows_for(table, state)], table=table, state=state, overwrite=True, **more)

    if state == "c":
        with pytest.raises(UnsupportedStateError, match=r"those of one service cannot(.|\n)*timers of 'd' beside 'c'"):
            overwrite()
    elif state is None:
        with pytest.raises(StateExistsError, match=r"found: 'a', 'b', 'c', 'd'\n(?!(.|\n)*option\('state')"):
            write(path, [rows_for(table, "user-timers").drop_columns(["service"])], table=table, overwrite=True)
    if state in ("c", None):
        assert digests(path) == files
        return
    overwrite()
    after = contents(path)
    replaced = {"timers c", "timers d", "raw_keyed_state"} if table == "timers" else {"keyed_state x"}
    assert {part for part in before if after.get(part) != before[part]} == replaced
    assert after.keys() == before.keys() - ({"raw_keyed_state"} & replaced)


def test_raw_timers_are_not_added_to(base_with_raw_timers: Path, tmp_path: Path) -> None:
    path = Path(shutil.copytree(base_with_raw_timers, tmp_path / "sp"))
    with pytest.raises(StateExistsError, match="'c', 'd'"):
        write(path, [rows_for("timers", "e")], table="timers", state="e")


@pytest.mark.parametrize(
    ("table", "state"), [("timers", "a"), ("keyed_state", "x"), ("operator_state", "pending"), ("operator_state", "n")]
)
def test_key_groups_of_what_stays_bind(copied: Path, table: str, state: str) -> None:
    with pytest.raises(OptionError, match="'maxParallelism' differs from that of the operator"):
        write(copied, [rows_for(table, state)], table=table, state=state, overwrite=True, max_parallelism=64)


def test_raw_keyed_state_alone_binds_key_groups(copied: Path) -> None:
    with_subtasks(copied, lambda subtask: replace(subtask, managed_keyed_state=None, managed_operator_state=None))
    with pytest.raises(OptionError, match="'maxParallelism' differs from that of the operator"):
        write(copied, [rows_for("keyed_state", "x")], max_parallelism=64)
    write(copied, [rows_for("keyed_state", "x")])
    assert contents(copied).keys() == {
        "keyed_state x", "raw_keyed_state", "raw_operator_state", "coordinator_state", "in_flight"
    }  # fmt: skip


def test_an_operator_without_state_takes_the_numbers_of_a_write(copied: Path) -> None:
    with_subtasks(copied, lambda subtask: type(subtask)())
    write(
        copied, [rows_for("operator_state", "n")], table="operator_state", state="n", max_parallelism=64, parallelism=3
    )
    (operator,) = Snapshot.open(str(copied)).operators
    assert (operator.max_parallelism, operator.parallelism) == (64, 3)
    assert contents(copied).keys() == {"operator_state n", "coordinator_state"}


def test_an_operator_that_is_replaced_keeps_its_names(tmp_path: Path) -> None:
    write(tmp_path / "sp", [rows_for("keyed_state", "x")], operator_name="Totals", flink_version=(2, 2))
    operator_id = Snapshot.open(str(tmp_path / "sp")).operators[0].operator_id
    write(tmp_path / "sp", [rows_for("keyed_state", "x", -2)], uid=None, uid_hash=operator_id.hex, overwrite=True)
    (operator,) = Snapshot.open(str(tmp_path / "sp")).operators
    assert (operator.uid, operator.name) == ("op", "Totals")


def test_master_state_that_only_one_savepoint_can_have_is_told(base: Path) -> None:
    metadata = Snapshot.open(str(base)).metadata
    one, other = (
        replace(metadata, operators=(), master_states=(MasterState(1, "hook", data),)) for data in (b"1", b"2")
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert assemble([], [one, one], 4).master_states == one.master_states
    with pytest.warns(SavepointWarning, match="master hook 'hook'"):
        assert assemble([], [one, other], 4).master_states == one.master_states
