"""States that Flink needs together: tables write the whole, or refuse it; ``verify`` and ``doctor`` find a part."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pyspark_savepoint
from pyspark_savepoint import OperatorIdentifier
from pyspark_savepoint.api.local_savepoint import LocalSavepoint
from pyspark_savepoint.formats.errors import OptionError, ValueRangeError
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.statebackends.sources.open_operator import OpenOperator
from pyspark_savepoint.statebackends.surveys.state_set_checks import registered

#: Sessions by a gap of 16 s, of the job OpsJob.
SESSIONS = OperatorIdentifier.for_uid_hash("1f83829584986280f4ed1ab082e6c666")
CONTENTS, MAPPING = "window-contents", "merging-window-set"


@pytest.fixture
def ops(corpus: Path) -> LocalSavepoint:
    return pyspark_savepoint.open(str(corpus / "real" / "ops-120" / "sp" / "savepoint-aa7dbf-00f6b2bc5fbb"))


def types_of(savepoint: LocalSavepoint) -> str:
    return f"{savepoint.path}#{SESSIONS.operator_id.hex}"


def by_key(savepoint: LocalSavepoint, uid: Any, **options: Any) -> pa.Table:
    return savepoint.window_state(uid, **options).to_arrow().sort_by("key")


def with_timers(new: LocalSavepoint, old: LocalSavepoint) -> LocalSavepoint:
    return new.with_timers("new", old.timers(SESSIONS), types_from=types_of(old))


@pytest.fixture
def new() -> LocalSavepoint:
    return pyspark_savepoint.create().with_operator("new")


def test_both_windows_are_written(ops: LocalSavepoint, new: LocalSavepoint, tmp_path: Path) -> None:
    rows = ops.window_state(SESSIONS, include_state_window=True)
    made = with_timers(new.with_window_state("new", rows, types_from=types_of(ops)), ops).write(tmp_path / "new")

    assert by_key(made, "new", include_state_window=True) == by_key(ops, SESSIONS, include_state_window=True)
    assert made.keyed_state("new").to_arrow().sort_by("key") == ops.keyed_state(SESSIONS).to_arrow().sort_by("key")
    assert {row["status"] for row in made.inspect.verify().rows()} == {"ok"}


@pytest.mark.parametrize("types", [True, False])
def test_sessions_alone_are_their_state_windows(
    ops: LocalSavepoint, new: LocalSavepoint, tmp_path: Path, types: bool
) -> None:
    """The table says that its windows are sessions, and so do types."""
    rows = ops.window_state(SESSIONS)
    given: Any = rows
    if types:
        given = rows.to_arrow().cast(pa.schema([field.remove_metadata() for field in rows.schema]))
    options: dict[str, Any] = {"types_from": types_of(ops)} if types else {}
    made = with_timers(new.with_window_state("new", given, **options), ops).write(
        tmp_path / "new", flink_version="1.20"
    )

    assert by_key(made, "new") == by_key(ops, SESSIONS)
    table = by_key(made, "new", include_state_window=True)
    assert table.column("state_window") == table.column("window")
    ((first,), *_) = made.keyed_state("new").to_arrow().column(MAPPING).to_pylist()
    assert first["f0"] == first["f1"]


def test_the_state_that_names_sessions_has_the_type_of_flink(
    ops: LocalSavepoint, new: LocalSavepoint, tmp_path: Path
) -> None:
    """Given as it is read, without a type."""
    new = new.with_state("new", MAPPING, ops.keyed_state(SESSIONS))
    rows = ops.window_state(SESSIONS, include_state_window=True)
    made = with_timers(new.with_window_state("new", rows, types_from=types_of(ops)), ops).write(tmp_path / "new")

    types = {row["state"]: row["value_type"] for row in made.states().rows()}
    assert types[MAPPING] == "LIST<TUPLE<TIME_WINDOW, TIME_WINDOW>>"
    assert by_key(made, "new", include_state_window=True) == by_key(ops, SESSIONS, include_state_window=True)


def test_windows_without_timers_are_refused(ops: LocalSavepoint, new: LocalSavepoint, tmp_path: Path) -> None:
    plain = OperatorIdentifier.for_uid_hash("e5d5a05048a035d8a1a2ecf601cab2fa")
    rows = ops.window_state(plain)
    with pytest.raises(OptionError, match="timer service 'window-timers'"):
        new.with_window_state("new", rows).write(tmp_path / "no")
    with pytest.raises(OptionError, match="timer service 'window-timers'"):
        ops.remove_state(plain, "window-timers").write(tmp_path / "no")
    assert not (tmp_path / "no").exists()
    none = ops.timers(plain).to_arrow().slice(0, 0)
    made = new.with_window_state("new", rows).with_timers("new", none).write(tmp_path / "new", flink_version="1.20")
    assert {row["status"] for row in made.inspect.verify().rows()} == {"ok"}


def test_sessions_are_not_left_without_their_names(ops: LocalSavepoint, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="'window-contents' without state 'merging-window-set'"):
        ops.remove_state(SESSIONS, MAPPING).write(tmp_path / "no")
    without = ops.remove_state(SESSIONS, CONTENTS).remove_state(SESSIONS, MAPPING)
    without.remove_state(SESSIONS, "window-timers").write(tmp_path / "new")


def test_names_of_sessions_that_do_not_fit_are_refused(ops: LocalSavepoint, new: LocalSavepoint) -> None:
    sessions, windows = ops.keyed_state(SESSIONS), ops.window_state(SESSIONS, include_state_window=True)
    with pytest.raises(OptionError, match="is written from the windows"):
        new.with_window_state("new", windows).with_state("new", MAPPING, sessions)
    with pytest.raises(OptionError, match="of which session they are"):
        new.with_window_state("new", windows.to_arrow().drop_columns(["window"]))
    unmarked = windows.to_arrow().drop_columns(["state_window"])
    unmarked = unmarked.cast(pa.schema([field.remove_metadata() for field in unmarked.schema]))
    with pytest.raises(OptionError, match="before the sessions"):
        new.with_window_state("new", unmarked).with_state("new", MAPPING, sessions)


def test_a_state_window_that_is_not_that_of_the_session_is_refused(ops: LocalSavepoint, tmp_path: Path) -> None:
    rows = ops.window_state(SESSIONS, include_state_window=True).to_arrow()
    same = ops.with_state(SESSIONS, CONTENTS, rows).write(tmp_path / "same")
    assert by_key(same, SESSIONS, include_state_window=True) == by_key(ops, SESSIONS, include_state_window=True)
    other = rows.set_column(2, "state_window", rows.column("window"))
    with pytest.raises(ValueRangeError, match=r"is stored under .*Leave column state_window out"):
        ops.with_state(SESSIONS, CONTENTS, other).write(tmp_path / "no")


def lost_sessions(ops: LocalSavepoint, path: Path) -> LocalSavepoint:
    """A savepoint with contents of sessions of different lengths and their timers alone."""
    rows = ops.window_state(SESSIONS, timestamps="raw").to_arrow()
    listed = rows.to_pylist()
    for number, row in enumerate(listed):
        row["window"]["end"] += number % 3 * 1000
    rows = pa.Table.from_pylist(listed, pa.schema([field.remove_metadata() for field in rows.schema]))
    timers = [
        {"key": row["key"], "namespace": row["window"], "timestamp": row["window"]["end"] - 1, "domain": "event"}
        for row in listed
    ]
    made = pyspark_savepoint.create().with_operator("new").with_window_state("new", rows)
    # pyarrow 20 sorts the fields of structs that it infers.
    fields = {name: rows.schema.field(of).type for name, of in (("key", "key"), ("namespace", "window"))}
    schema = pa.schema({**fields, "timestamp": pa.int64(), "domain": pa.string()})
    return made.with_timers("new", pa.Table.from_pylist(timers, schema)).write(path, flink_version="1.20")


def test_sessions_that_no_state_names_are_found(ops: LocalSavepoint, tmp_path: Path) -> None:
    lost = lost_sessions(ops, tmp_path / "lost")

    (row,) = [row for row in lost.inspect.verify().rows() if row["status"] != "ok"]
    assert (row["status"], row["table"], row["state"]) == ("warning", "window_state", CONTENTS)
    assert "windows of different lengths overlap, as sessions do" in row["note"]
    (finding,) = [row for row in lost.inspect.doctor().rows() if row["check"] == "incomplete-state"]
    assert (finding["severity"], finding["operator"], finding["state"]) == ("error", "new", CONTENTS)


def test_contents_under_windows_of_no_session_are_found(ops: LocalSavepoint, tmp_path: Path) -> None:
    """The state that names the sessions has others than the contents."""
    sessions = ops.keyed_state(SESSIONS).to_arrow()
    emptied = ops.with_state(SESSIONS, MAPPING, sessions.slice(0, 5), replace=True).write(tmp_path / "new")

    lost = [row for row in emptied.inspect.verify().rows() if row["status"] != "ok"]
    assert sum(row["entries"] for row in lost) == 10
    assert all("no session of 'merging-window-set'" in row["note"] for row in lost)
    assert [row["check"] for row in emptied.inspect.doctor().rows()].count("incomplete-state") >= 1


@pytest.mark.parametrize("kept", ["left-records", "right-records"])
def test_one_side_of_a_join_is_refused(corpus: Path, tmp_path: Path, kept: str) -> None:
    base = pyspark_savepoint.open(str(corpus / "lab" / "2.2.1-hashmap-canonical-sql" / "savepoint"))
    new, types = pyspark_savepoint.create().with_operator("join"), f"{base.path}#11_join"
    rows = base.keyed_state("11_join").to_arrow()
    with pytest.raises(OptionError, match="one side of the join is matched with nothing"):
        new.with_state("join", kept, rows.select(["key", kept]), types_from=types).write(tmp_path / "no")
    whole = pyspark_savepoint.create().with_operator("join", rows, types_from=types).write(tmp_path / "new")
    assert whole.keyed_state("join").to_arrow().num_rows == rows.num_rows


def test_a_pattern_is_written_as_a_whole(corpus: Path, tmp_path: Path) -> None:
    base = pyspark_savepoint.open(str(corpus / "migration" / "flows" / "cep" / "1.20.5-hashmap"))
    (uid,) = {row["operator_uid_hash"] for row in base.states().rows() if row["state"] == "nfaStateName"}
    operator = OperatorIdentifier.for_uid_hash(uid)
    with pytest.raises(OptionError, match=r"'nfaStateName'.* without states"):
        base.remove_state(operator, "sharedBuffer-events").remove_state(operator, "sharedBuffer-events-count").write(
            tmp_path / "no"
        )


def test_every_operator_of_real_flink_has_what_belongs_together(corpus: Path) -> None:
    """None of these has a part alone: Flink registers all states when an operator starts."""
    count = 0
    for folder in ("migration/flows", "migration/sql", "sql", "lab", "datastream"):
        for metadata in sorted((corpus / folder).rglob("_metadata")):
            snapshot = Snapshot.open(str(metadata.parent))
            for operator in snapshot.operators:
                count += 1
                assert registered(OpenOperator(snapshot, operator)).halves() == [], (metadata, operator.label)
    assert count > 1000
