"""Real Flink goes on with sessions that tables wrote: every session is emitted, and further records extend them.

The same window contents are written in each way that tables offer: with both windows, with the session alone, with
types of another savepoint, and with the states of a trigger in the same rows.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pyspark_savepoint
from pyspark_savepoint.api.local_savepoint import LocalSavepoint
from pyspark_savepoint.formats.errors import OptionError
from tests.oracle.flink import run

pytestmark = pytest.mark.flink

STEP, GAP, WRITTEN, MORE = 1_000, 8_000, 200, 30
OPERATORS = ("sessions", "continuous")
TYPES = {"window-contents": "TUPLE<LONG, LONG>"}
Write = Callable[[LocalSavepoint, LocalSavepoint, str], LocalSavepoint]


def sessions(first: int, end: int) -> list[Any]:
    """What the sessions of some records emit: key, start, end, sum, number of records."""
    found: list[Any] = []
    for key in range(5):
        times = [n for n in range(first, end) if n % 5 == key and (n // 20 + n % 5) % 3]
        for number in times:
            if found and found[-1][0] == f"k{key}" and number * STEP <= found[-1][2]:
                found[-1][2:] = [number * STEP + GAP, found[-1][3] + number, found[-1][4] + 1]
            else:
                found.append([f"k{key}", number * STEP, number * STEP + GAP, number, 1])
    return sorted(found)


def both_windows(new: LocalSavepoint, old: LocalSavepoint, uid: str) -> LocalSavepoint:
    rows = old.window_state(uid, include_state_window=True)
    return new.with_window_state(
        uid, rows, types=TYPES, states={"window-contents": "aggregating", "fire-time": "reducing"}
    )


def session_alone(new: LocalSavepoint, old: LocalSavepoint, uid: str) -> LocalSavepoint:
    return new.with_window_state(uid, old.window_state(uid), types_from=f"{old.path}#{uid}")


def unmarked(new: LocalSavepoint, old: LocalSavepoint, uid: str) -> LocalSavepoint:
    """Rows of the user's own, which do not say that their windows are sessions; the types do."""
    rows = pa.Table.from_pylist(
        old.window_state(uid).to_arrow().to_pylist(),
        pa.schema([field.remove_metadata() for field in old.window_state(uid).schema]),
    )
    return new.with_window_state(uid, rows, types_from=f"{old.path}#{uid}")


def by_parts(new: LocalSavepoint, old: LocalSavepoint, uid: str) -> LocalSavepoint:
    """The state that names the sessions is given, and the states of the trigger are a table of their own."""
    new = new.with_state(uid, "merging-window-set", old.keyed_state(uid), types_from=f"{old.path}#{uid}")
    rows = old.window_state(uid, include_state_window=True).to_arrow()
    new = new.with_window_state(
        uid, rows.select(["key", "window", "state_window", "window-contents"]), types_from=f"{old.path}#{uid}"
    )
    others = rows.drop_columns(["state_window", "window-contents"])
    return new.with_window_state(uid, others, types_from=f"{old.path}#{uid}") if len(others.schema) > 2 else new


WAYS: dict[str, Write] = {
    "both windows": both_windows,
    "session alone": session_alone,
    "unmarked": unmarked,
    "by parts": by_parts,
}


def test_sessions_that_tables_wrote_are_emitted(flink_version: str, tmp_path: Path) -> None:
    written = tmp_path / "written"
    run(flink_version, "oracle.Sessions", [f"--out={written}", "--from=0", f"--count={WRITTEN}", *OPTIONS])
    path = json.loads((written / "written.json").read_text())
    uids = dict.fromkeys(OPERATORS)
    old = pyspark_savepoint.open(path, uids=list(uids)) if flink_version < "2" else pyspark_savepoint.open(path)
    release = ".".join(flink_version.split(".")[:2])
    paths = {}
    for name, write in WAYS.items():
        new = pyspark_savepoint.create()
        for uid in OPERATORS:
            new = write(new.with_operator(uid), old, uid).with_timers(uid, old.timers(uid), types_from=f"{path}#{uid}")
        paths[name] = str(tmp_path / name.replace(" ", "-"))
        made = new.write(paths[name], flink_version=release)
        assert {row["status"] for row in made.inspect.verify().to_arrow().to_pylist()} == {"ok"}
        assert not [row for row in made.inspect.doctor().rows() if row["check"] == "incomplete-state"]

    more = tmp_path / "more"
    arguments = [f"--from={WRITTEN}", f"--count={MORE}", f"--snapshots={','.join([path, *paths.values()])}"]
    run(flink_version, "oracle.Sessions", [f"--out={more}", *arguments, *OPTIONS])
    found = json.loads((more / "found.json").read_text())

    expected = sessions(0, WRITTEN + MORE)
    assert len(expected) > 20
    assert sorted(found[0]["sessions"]["emitted"]) == expected
    for name, emitted in zip(paths, found[1:], strict=True):
        assert sorted(emitted["sessions"]["emitted"]) == expected, name
        # The trigger of the other operator emits a session once or twice at the end of time.
        assert {tuple(row) for row in emitted["continuous"]["emitted"]} == set(map(tuple, expected)), name


OPTIONS = ("--parallelism=2",)


def test_contents_without_sessions_or_timers_are_refused(flink_version: str, tmp_path: Path) -> None:
    written = tmp_path / "written"
    run(flink_version, "oracle.Sessions", [f"--out={written}", "--from=0", "--count=60", *OPTIONS])
    path = json.loads((written / "written.json").read_text())
    old = pyspark_savepoint.open(path)
    new = pyspark_savepoint.create().with_operator("sessions")
    with pytest.raises(OptionError, match="timers"):
        session_alone(new, old, "sessions").write(tmp_path / "no")
