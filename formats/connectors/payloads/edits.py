"""How splits of sources are named and changed: what all connectors have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, Self, TypeVar

from pyspark_savepoint.formats.connectors.payloads.kind import ConnectorKind, CoordinatorFrame, Row
from pyspark_savepoint.formats.errors import OptionError, did_you_mean

Key = tuple[Any, ...]
#: A position: a number, a word such as earliest, or columns of the table.
Target = int | str | Row


@dataclass(frozen=True)
class ReaderSplit:
    """A split of a reader: its subtask, the version of its serializer, and its value."""

    subtask: int
    version: int | None
    value: Any


@dataclass(frozen=True)
class Source:
    """State of a source of a known kind. Without ``coordinator`` its enumerator starts from scratch."""

    subtasks: tuple[int, ...]
    kind: ConnectorKind[Any]
    splits: tuple[ReaderSplit, ...]
    enumerator_kind: ConnectorKind[Any] | None
    coordinator: CoordinatorFrame | None
    enumerator: Any

    @property
    def enumerator_version(self) -> int:
        """The version of the enumerator's state, which an edit keeps."""
        assert self.coordinator is not None
        return self.coordinator.payload.version or 0

    def emptiest_subtask(self) -> int:
        """Return the subtask with the fewest splits: at a restore any subtask may have a split."""
        counts = dict.fromkeys(self.subtasks or (0,), 0)
        for split in self.splits:
            counts[split.subtask] += 1
        return min(counts, key=lambda subtask: (counts[subtask], subtask))

    def with_split(self, version: int | None, value: Any) -> Self:
        """Return the source with one more split, in the reader that has the fewest."""
        return replace(self, splits=(*self.splits, ReaderSplit(self.emptiest_subtask(), version, value)))


S = TypeVar("S", bound=Source)


@dataclass(frozen=True)
class Edited(Generic[S]):
    """A changed source, with warnings for the user."""

    source: S
    notes: tuple[str, ...] = ()


class SplitEdits(ABC):
    """How the splits of one kind of source are named and changed. A refusal is a ValueError that says why.

    ``key_columns`` are the columns that name a split.
    """

    key_columns: tuple[str, ...]

    @abstractmethod
    def key(self, value: Any) -> Key:
        """Return what names a split, or a partition of the enumerator."""

    def position_columns(self, target: Target) -> Row:
        """Return the columns that a position sets, which may be given as these columns."""
        return target if isinstance(target, Mapping) else self.target(target)

    @abstractmethod
    def target(self, target: int | str) -> Row:
        """Return the columns that a number or a text sets; raise ValueError if it cannot be a position."""

    @abstractmethod
    def positioned(self, row: Row) -> Row:
        """Return the columns of the kind's own table that a row of table offsets sets."""

    @abstractmethod
    def moved(self, value: Any, by: int, clamp: bool) -> Any:
        """Return the split with its position moved by a number; raise ValueError if it has none, or would be below 0.

        ``clamp``: what would be below 0 is 0.
        """

    @abstractmethod
    def changed(self, value: Any, row: Row) -> Any:
        """Return the split with other values of some columns; raise ValueError if it cannot have them."""

    @abstractmethod
    def goes_back(self, before: Any, after: Any) -> bool:
        """Return whether records are read again."""

    def pending(self, enumerator: Any) -> Mapping[Key, Any]:
        """Return the splits that the enumerator has not assigned; none by default."""
        return {}

    def with_pending(self, source: S, changed: Mapping[Key, Any]) -> S:
        """Return the source with other splits in place of pending ones; by default the enumerator has no positions."""
        return source

    @abstractmethod
    def added(self, source: S, rows: Sequence[Row]) -> S:
        """Return the source with more splits; raise ValueError if one is there, or would be read twice."""

    @abstractmethod
    def removed(self, source: S, keys: Sequence[Key], forget: bool | None) -> Edited[S]:
        """Return the source without splits."""

    def without(self, source: S, gone: Collection[Key]) -> S:
        """Return the source whose readers do not have some splits."""
        return replace(source, splits=tuple(split for split in source.splits if self.key(split.value) not in gone))

    def fresh(self, version: int) -> Any:
        """Return the state of an enumerator that starts as the job's settings say; None if it needs no state for it."""
        return None

    def without_rows(self, source: S, rows: Sequence[Row]) -> S:
        """Return the source without what rows show that name no split; raise ValueError if there is no such thing."""
        raise ValueError("rows that name no split cannot be removed from the state of the source")


def matching_splits(edits: SplitEdits, selector: Any, splits: Mapping[Key, Any]) -> list[Key]:
    """Return the splits that a key names: one, or all of a topic."""
    key = key_of(edits, selector)
    if key in splits:
        return [key]
    # A number that was given as text: no other split has this name.
    same = [other for other in splits if split_text(other) == split_text(key)]
    if len(same) == 1:
        return same
    all_of = [other for other in splits if len(key) < len(other) and other[: len(key)] == key]
    if not all_of:
        names = [split_text(other) for other in splits]
        raise OptionError(
            f"the source has no split {split_text(key)}",
            remedy=f"{did_you_mean(split_text(key), names)} (sources.add_splits adds it)",
        )
    return all_of


def key_of(edits: SplitEdits, value: Any) -> Key:
    key = tuple(value) if isinstance(value, (tuple, list)) else (value,)
    if not key or len(key) > len(edits.key_columns):
        raise ValueError(f"name a split by {', '.join(edits.key_columns)}, not by {value!r}")
    return key


def split_text(key: Key) -> str:
    return "-".join(map(str, key))


def split_texts(keys: Iterable[Key]) -> str:
    return ", ".join(sorted(map(split_text, keys)))


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
    earlier: set[Key] = set()
    for key in keys:
        if key in earlier:
            raise ValueError(f"{split_text(key)} is given twice")
        earlier.add(key)


def named_in_source(edits: SplitEdits, source: Source, keys: Sequence[Key], pending: Mapping[Key, Any]) -> set[Key]:
    existing_splits = {**dict.fromkeys(edits.key(split.value) for split in source.splits), **pending}
    return {key for name in keys for key in matching_splits(edits, name, existing_splits)}


def removed_from_list(
    edits: SplitEdits, source: S, keys: Sequence[Key], forget: bool | None, consumer: str, split: str, note: str
) -> Edited[S]:
    """Return the source without splits of a consumer whose only state is their list: it begins anew what is missing.

    ``note`` says so of the splits in place of ``{}``.
    """
    if not forget:
        raise ValueError(
            f"{consumer} reads a {split} that is not in its state from the beginning: use with_offsets to 'latest' to "
            "skip its records, or forget=True to remove it anyway"
        )
    removed_keys = named_in_source(edits, source, keys, {})
    return Edited(edits.without(source, removed_keys), (note.format(split_texts(removed_keys)),))


def refuse_changes(row: Row, existing: Row, fixed: Iterable[str]) -> None:
    """Raise ValueError if a row has another value in a column that cannot be changed."""
    for name in fixed:
        if row.get(name) not in (None, existing.get(name)):
            raise ValueError(f"{name} is {existing.get(name)!r}, and cannot become {row[name]!r}")
