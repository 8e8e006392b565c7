"""How splits are named and changed: what all kinds of sources have in common."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from pyspark_savepoint.formats.errors import OptionError, did_you_mean
from pyspark_savepoint.statebackends.connectors.connector_states import SourceState

Key = tuple[Any, ...]
#: New values of a split: columns of its table by name.
Row = Mapping[str, Any]
#: A position: a number, a word such as earliest, or columns of the table.
Target = int | str | Row


@dataclass(frozen=True)
class Edited:
    """A changed source, with warnings for the user."""

    source: SourceState
    notes: tuple[str, ...] = ()


class SplitEdits(Protocol):
    """How the splits of one kind of source are named and changed."""

    @property
    def key_columns(self) -> tuple[str, ...]:
        """Return the columns that name a split."""

    def key(self, value: Any) -> Key:
        """Return what names a split, or a partition of the enumerator."""

    def target(self, target: Target) -> Row:
        """Return the columns that a position sets; raise ValueError if it cannot be one."""

    def positioned(self, row: Row) -> Row:
        """Return the columns of the kind's own table that a row of table offsets sets."""

    def moved(self, value: Any, by: int, clamp: bool) -> Any:
        """Return the split with its position moved by a number; raise ValueError if it has none, or would be below 0.

        ``clamp``: what would be below 0 is 0.
        """

    def changed(self, value: Any, row: Row) -> Any:
        """Return the split with other values of some columns; raise ValueError if it cannot have them."""

    def goes_back(self, before: Any, after: Any) -> bool:
        """Return whether records are read again."""

    def pending(self, enumerator: Any) -> Mapping[Key, Any]:
        """Return the splits that the enumerator has not assigned."""

    def with_pending(self, source: SourceState, changed: Mapping[Key, Any]) -> SourceState:
        """Return the source with other splits in place of pending ones."""

    def added(self, source: SourceState, rows: Sequence[Row]) -> SourceState:
        """Return the source with more splits; raise ValueError if one is there, or would be read twice."""

    def removed(self, source: SourceState, keys: Sequence[Key], forget: bool | None) -> Edited:
        """Return the source without splits."""


def matching_splits(edits: SplitEdits, given: Any, known: Mapping[Key, Any]) -> list[Key]:
    """Return the splits that a key names: one, or all of a topic."""
    key = key_of(edits, given)
    if key in known:
        return [key]
    # A number that was given as text: no other split has this name.
    same = [other for other in known if split_text(other) == split_text(key)]
    if len(same) == 1:
        return same
    all_of = [other for other in known if len(key) < len(other) and other[: len(key)] == key]
    if not all_of:
        names = [split_text(other) for other in known]
        raise OptionError(
            f"the source has no split {split_text(key)}",
            remedy=f"{did_you_mean(split_text(key), names)} (sources.add_splits adds it)",
        )
    return all_of


def key_of(edits: SplitEdits, given: Any) -> Key:
    key = tuple(given) if isinstance(given, (tuple, list)) else (given,)
    if not key or len(key) > len(edits.key_columns):
        raise ValueError(f"name a split by {', '.join(edits.key_columns)}, not by {given!r}")
    return key


def split_text(key: Key) -> str:
    return "-".join(map(str, key))


def whole(value: object, what: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 63:
        raise ValueError(f"{what} is a whole number from 0, not {value!r}")
    return value


def moved_from(position: int, by: int, clamp: bool, what: str) -> int:
    """Return a position that is moved by a number; raise ValueError below 0, unless ``clamp`` makes it 0."""
    moved = position + by
    if moved < 0 and not clamp:
        raise ValueError(
            f"{what} is at {position}, and cannot be moved by {by}: with clamp, what would be below 0 begins at 0"
        )
    return max(0, moved)


def refuse_repeated(keys: Iterable[Key]) -> None:
    seen: set[Key] = set()
    for key in keys:
        if key in seen:
            raise ValueError(f"{split_text(key)} is given twice")
        seen.add(key)


def named_in_source(
    edits: SplitEdits, source: SourceState, keys: Sequence[Key], pending: Mapping[Key, Any]
) -> set[Key]:
    known = {**dict.fromkeys(edits.key(split.value) for split in source.splits), **pending}
    return {key for given in keys for key in matching_splits(edits, given, known)}


def refuse_changes(row: Row, known: Row, fixed: Iterable[str]) -> None:
    """Raise ValueError if a row has another value in a column that cannot be changed."""
    for name in fixed:
        if row.get(name) not in (None, known.get(name)):
            raise ValueError(f"{name} is {known.get(name)!r}, and cannot become {row[name]!r}")
