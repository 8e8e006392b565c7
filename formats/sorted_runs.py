"""Join of sorted runs that are read in parts: step by step, what all of them have up to a boundary.

Of the runs with more parts, the one that has been read up to the smallest key sets the boundary. At most two parts of a
run are in memory, unless one key has more.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import Any, Generic, Protocol, Self, TypeVar


class SortedPart(Protocol):
    """A part of a run."""

    def __len__(self) -> int: ...

    def place(self, row: int) -> Any:
        """Return the place of a row in the order of the run: its key."""

    def cut(self, low: int, high: int) -> Self:
        """Return rows [low, high)."""


P = TypeVar("P", bound=SortedPart)


def rows_before(part: SortedPart, place: Any, inclusive: bool = False) -> int:
    """Return how many rows of a part are before a place, or up to it if ``inclusive``."""
    return (bisect_right if inclusive else bisect_left)(range(len(part)), place, key=part.place)


class _Run(Generic[P]):
    """A run: the parts read so far, and the next one."""

    def __init__(self, parts: Iterator[P]) -> None:
        self.parts = parts
        self.pieces: list[P] = []
        self.ahead = self._next()

    def _next(self) -> P | None:
        return next((part for part in self.parts if len(part)), None)

    def advance(self) -> None:
        """Read the next part."""
        if self.ahead is not None:
            self.pieces.append(self.ahead)
            self.ahead = self._next()

    @property
    def last(self) -> Any:
        """Return the place of the last row read so far."""
        return self.pieces[-1].place(len(self.pieces[-1]) - 1)

    def take(self, boundary: Any, inclusive: bool) -> list[P]:
        """Remove and return the rows before a boundary, or all that were read if it is None."""
        result: list[P] = []
        kept: list[P] = []
        for piece in self.pieces:
            high = len(piece) if boundary is None else rows_before(piece, boundary, inclusive)
            if high == len(piece):
                result.append(piece)
                continue
            result += [piece.cut(0, high)] if high else []
            kept.append(piece.cut(high, len(piece)))
        self.pieces = kept
        return result


def join_runs(runs: Sequence[Iterator[P]], *, whole_keys: bool) -> Iterator[list[list[P]]]:
    """Yield, in steps, the parts of each run up to the next boundary.

    Args:
        runs: The parts of each run, in ascending order.
        whole_keys: Whether a key is in one step only, so that all its rows are in memory. Otherwise rows of equal keys
            are in the order of the runs: those of a later run never come in an earlier step.

    Yields:
        The parts of each run, in the order of the runs; at least one of them has rows.

    """
    live = [_Run(run) for run in runs]
    while True:
        for run in live:
            if not run.pieces:
                run.advance()
        if not any(run.pieces for run in live):
            return
        # The run that sets the boundary may have more rows of that key: runs after it wait for them.
        ends = ((run.last, number) for number, run in enumerate(live) if run.ahead is not None)
        boundary, setting = min(ends, default=(None, -1))
        taken = [run.take(boundary, not whole_keys and number <= setting) for number, run in enumerate(live)]
        if any(taken):
            yield taken
            continue
        # All rows read so far are of one key, of which there may be more.
        for run in live:
            if run.ahead is not None and run.last == boundary:
                run.advance()
