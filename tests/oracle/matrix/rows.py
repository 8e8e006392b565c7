"""What a base holds, as DataFrames: read once in this process, instead of by Spark for every change."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame

import pyspark_savepoint
from pyspark_savepoint import Savepoint
from pyspark_savepoint.local.local_table import SnapshotTable

#: Operators that no change is about, of keyed and of operator state. All others hold the same.
KEYED, PLAIN = "nothing", "nothing, operator state"


class Rows:
    """The base of a change: rows of its operators, and the savepoint itself."""

    def __init__(self, savepoint: Savepoint, path: Path) -> None:
        self.savepoint = savepoint
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
            self.frames[table, state] = self.savepoint.spark.createDataFrame(rows.to_arrow())
        return self.frames[table, state]
