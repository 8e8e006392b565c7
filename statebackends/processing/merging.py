"""The windows of a key that merge, and under which window the contents of each are kept.

When windows merge, their contents stay where those of the earliest are, so that nothing has to move but what joins it.
Twin: ``MergingWindowSet``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark_savepoint.statebackends.processing.windows import TimeWindow, merge_windows

#: Called with the merged window, the windows that went into it, the window that has the contents, and those that had.
OnMerge = Callable[[TimeWindow, list[TimeWindow], TimeWindow, list[TimeWindow]], None]


class MergingWindowSet:
    """Windows to state windows, of the current key; the state is a list of pairs."""

    def __init__(self, state: Any) -> None:
        self._state = state
        self._mapping: dict[TimeWindow, TimeWindow] = {}
        self._changed = False

    def add(self, window: TimeWindow, on_merge: OnMerge) -> TimeWindow:
        """A window of the current key; the window that it is now part of."""
        self._mapping = {TimeWindow(*pair[0]): TimeWindow(*pair[1]) for pair in self._state.get()}
        self._changed = False
        if window in self._mapping:
            return window
        self._changed = True
        for cover, parts in merge_windows([*self._mapping, window]):
            if window in parts:
                self._merge(cover, [part for part in parts if part != window], on_merge)
                return cover
        self._mapping[window] = window
        return window

    def _merge(self, cover: TimeWindow, parts: list[TimeWindow], on_merge: OnMerge) -> None:
        state_windows = [self._mapping.pop(part) for part in parts]
        self._mapping[cover] = state_windows[0]
        # One window that already covers the new one is not changed by it.
        if parts != [cover]:
            on_merge(cover, parts, state_windows[0], state_windows[1:])

    def state_window(self, window: TimeWindow) -> TimeWindow:
        """Where the contents of a window are."""
        return self._mapping[window]

    def persist(self) -> None:
        """The state has the windows of the current key."""
        if self._changed:
            self._state.update(list(self._mapping.items()))
