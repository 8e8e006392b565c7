"""The windows of a key that merge, and under which window the contents of each are kept.

When windows merge, their contents stay where those of the earliest are, so that nothing has to move but what joins it.
Twin: ``MergingWindowSet``.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from typing import Any

from pyspark_savepoint.statebackends.processing.api.windows import TimeWindow

#: Called with the merged window, the windows that went into it, the window that has the contents, and those that had.
OnMerge = Callable[[TimeWindow, list[TimeWindow], TimeWindow, list[TimeWindow]], None]


class MergingWindowSet:
    """Windows to state windows, of the current key; the state is a list of pairs.

    It is read and stored once for the records of a key that come one after the other: a key may have as many sessions
    as it has records. Windows of a key never touch, so that those which a new one meets stand side by side.
    """

    def __init__(self, state: Any) -> None:
        self._state = state
        self._mapping: dict[TimeWindow, TimeWindow] = {}
        self._sorted: list[TimeWindow] = []
        self._changed = False

    def load(self) -> None:
        """The windows are those of the current key, as its state has them."""
        self._mapping = {TimeWindow(*pair[0]): TimeWindow(*pair[1]) for pair in self._state.get()}
        self._sorted = sorted(self._mapping)
        self._changed = False

    def add(self, window: TimeWindow, on_merge: OnMerge) -> TimeWindow:
        """A window of the current key; the window that it is now part of."""
        first = bisect_left(self._sorted, window)
        if first and self._sorted[first - 1].intersects(window):
            first -= 1
        cover, last = window, first
        while last < len(self._sorted) and self._sorted[last].intersects(cover):
            cover, last = cover.cover(self._sorted[last]), last + 1
        parts = self._sorted[first:last]
        if parts != [cover]:  # One window that already covers the new one is not changed by it.
            self._changed = True
            self._sorted[first:last] = [cover]
            if parts:
                self._merge(cover, parts, on_merge)
            else:
                self._mapping[window] = window
        return cover

    def _merge(self, cover: TimeWindow, parts: list[TimeWindow], on_merge: OnMerge) -> None:
        state_windows = [self._mapping.pop(part) for part in parts]
        self._mapping[cover] = state_windows[0]
        on_merge(cover, parts, state_windows[0], state_windows[1:])

    def state_window(self, window: TimeWindow) -> TimeWindow:
        """Where the contents of a window are."""
        return self._mapping[window]

    def persist(self) -> None:
        """The state has the windows of the current key."""
        if self._changed:
            self._state.update(list(self._mapping.items()))
            self._changed = False
