"""What a base holds, as DataFrames: read once in this process, instead of by Spark for every change."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

import pyspark_savepoint
from pyspark_savepoint import LocalSavepoint, Savepoint
from pyspark_savepoint.engines.arrow.local_table import SnapshotTable

#: Operators that no change is about, of keyed and of operator state. All others hold the same.
KEYED, PLAIN = "nothing", "nothing, operator state"


class Rows:
    """The base of a change: rows of its operators, and the savepoint itself."""

    def __init__(self, spark: SparkSession, savepoint: Savepoint, path: Path) -> None:
        self.spark, self.savepoint = spark, savepoint
        self.local = pyspark_savepoint.open(path, allow_outside=True)
        self.frames: dict[tuple[str, str], DataFrame] = {}

    def keyed_state(self, _uid: str, *, state: str) -> DataFrame:
        """Return the rows of a keyed state."""
        return self._frame("keyed state", state, self.local.keyed_state(KEYED, state=state))

    def window_state(self, _uid: str) -> DataFrame:
        """Return the rows of windows."""
        return self._frame("window state", "", self.local.window_state(KEYED))

    def timers(self, _uid: str) -> DataFrame:
        """Return the timers."""
        return self._frame("timers", "", self.local.timers(KEYED))

    def operator_state(self, _uid: str, state: str) -> DataFrame:
        """Return the elements of a list or union state, or the entries of a broadcast state."""
        return self._frame("operator state", state, self.local.operator_state(PLAIN, state))

    def _frame(self, table: str, state: str, rows: SnapshotTable) -> DataFrame:
        if (table, state) not in self.frames:
            self.frames[table, state] = self.spark.createDataFrame(rows.to_arrow())
        return self.frames[table, state]


class Here:
    """A savepoint without Spark that takes DataFrames, which changes make: as Arrow; all else is that savepoint's."""

    def __init__(self, savepoint: LocalSavepoint) -> None:
        self.savepoint = savepoint

    def __getattr__(self, name: str) -> Any:
        verb = getattr(self.savepoint, name)
        if not callable(verb):
            return verb

        def called(*given: Any, **named: Any) -> Any:
            found = verb(*map(_arrow, given), **{word: _arrow(value) for word, value in named.items()})
            return Here(found) if isinstance(found, LocalSavepoint) else found

        return called


def _arrow(given: Any) -> Any:
    if isinstance(given, Here):
        return given.savepoint
    return given.toArrow() if isinstance(given, DataFrame) else given


def parted(one: Path, other: Path) -> list[str]:
    """How the content of two savepoints differs: operators, and entries of their states.

    A value with a time to live has the time of its write, unless rows say another one: there the values are compared.
    """
    old, new = (pyspark_savepoint.open(path, allow_outside=True) for path in (one, other))
    counts = ("added", "removed", "changed")
    lines = [
        f"{row['operator_uid'] or row['operator_uid_hash']}/{row['state']}: {row}"
        for row in old.diff(new).rows()
        if row["operator_change"]
        or row["note"]
        or (any(row[count] for count in counts) and not _same_values(row, old, new))
    ]
    registered = [sorted(map(repr, each.states().rows())) for each in (old, new)]
    return lines + [f"states: {row}" for row in set(registered[0]) ^ set(registered[1])]


def _same_values(row: dict[str, Any], *savepoints: LocalSavepoint) -> bool:
    """Whether a keyed state has the same values in both."""
    if row["table"] != "keyed_state":
        return False
    uid, state = row["operator_uid"] or row["operator_uid_hash"], row["state"]
    tables = [each.keyed_state(uid, state=state).select("key", state) for each in savepoints]
    first, second = (sorted(map(repr, table.rows())) for table in tables)
    return first == second


def same_bytes(one: Path, other: Path) -> tuple[int, int]:
    """How many state files of the first savepoint the other has with the same bytes, and how many there are."""
    first, second = _digests(one), _digests(other)
    for digest in second:
        if digest in first:
            first.remove(digest)
    count = len(_digests(one))
    return count - len(first), count


def _digests(folder: Path) -> list[str]:
    files = [path for path in folder.rglob("*") if path.is_file() and path.name != "_metadata"]
    return [hashlib.sha256(path.read_bytes()).hexdigest() for path in files]
