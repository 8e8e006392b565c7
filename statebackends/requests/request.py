"""Read requests: the options of one query, independent of Spark."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

import pyarrow as pa

from pyspark_savepoint.formats.columns import DecodeOptions
from pyspark_savepoint.formats.errors import OptionError, StateNotFoundError, did_you_mean
from pyspark_savepoint.formats.flink_releases import FIRST_METADATA_OF_FLINK_2
from pyspark_savepoint.formats.name_lists import join_names, split_names
from pyspark_savepoint.formats.redaction import redacted
from pyspark_savepoint.statebackends.requests.table_options import TableOptions

if TYPE_CHECKING:
    from pyspark_savepoint.formats.serializers.kryo.described.job_classes import JobClasses
    from pyspark_savepoint.formats.snapshot.savepoint import Snapshot

DEFAULT_BATCH_ROWS = 32_768
MIN_WINDOW = 1 << 8


#: Converts the batches of a part of a table.
BatchFunction = Callable[[Iterator[pa.RecordBatch]], Iterable[pa.RecordBatch]]


@dataclass(frozen=True, slots=True)
class EntriesRequest:
    """Request for table ``entries``.

    ``states`` are (name, is a timer); a state's number is its position, and None leaves a number unused. ``keys`` adds
    a column with the bytes of the key alone. ``max_parallelism`` recomputes key groups for another max parallelism.
    ``raw_timers`` includes timers in raw keyed state. ``digest`` is the checksum of the snapshot's metadata, as hex
    digits: another version is an error, so that all tasks read the same one. Without it any version is read. State that
    is damaged is left out: the handles of ``lost_subtasks``, those of raw keyed state of ``lost_raw``,
    ``lost_key_groups``, and ``lost_files`` of databases, each with the first key group of its database. ``function``,
    with the schema of what it yields, is applied to the batches of each partition where it is read.
    """

    states: tuple[tuple[str, bool] | None, ...]
    keys: bool = False
    max_parallelism: int | None = None
    raw_timers: bool = False
    digest: str = ""
    lost_subtasks: tuple[int, ...] = ()
    lost_raw: tuple[int, ...] = ()
    lost_key_groups: tuple[int, ...] = ()
    lost_files: tuple[tuple[int, str], ...] = ()
    function: tuple[BatchFunction, pa.Schema] | None = None

    def __post_init__(self) -> None:
        """Raise ValueError if the digest is not one."""
        bytes.fromhex(self.digest)

    def check_version(self, savepoint: Snapshot) -> None:
        """Raise FileReplacedError if the snapshot is of another version."""
        if self.digest:
            savepoint.expect_version(bytes.fromhex(self.digest))


@dataclass(frozen=True, slots=True)
class ComparisonRequest:
    """Request for the differences of two snapshots; None for a snapshot that does not have the operator.

    ``states`` are the keyed states to compare row by row; None to count the differences of all operators.
    """

    sides: tuple[TableRequest | None, TableRequest | None]
    states: tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class FeedVersion:
    """A version of a change feed: the request for its table, its number, and its time in microseconds since 1970."""

    request: TableRequest
    number: int
    time: int | None


@dataclass(frozen=True, slots=True)
class FeedRequest:
    """Request for the changes between versions, the first of them None for no state before the others.

    ``equal``: also changes of bytes alone, of rows whose values are equal. ``growing``: keyed states that a version
    does not have are NULL in it, and those that the last does not have are left out.
    """

    versions: tuple[FeedVersion | None, ...]
    equal: bool = False
    growing: bool = False


@redacted
@dataclass(frozen=True, slots=True)
class TableRequest(TableOptions):
    """Request for one table of one snapshot. ``memory`` is roughly the bytes of state that a task holds at a time."""

    path: str
    #: Descriptions of the user's classes in generic types.
    classes: JobClasses | None = None
    decode: DecodeOptions = field(default_factory=DecodeOptions)
    batch_rows: int = DEFAULT_BATCH_ROWS
    entries: EntriesRequest | None = None
    compared: ComparisonRequest | None = None
    feed: FeedRequest | None = None
    #: The tables of each option that the user set for this table to a value other than the default.
    explicit_options: Mapping[str, tuple[str, ...]] = field(default_factory=dict, compare=False)

    @property
    def states(self) -> tuple[str, ...] | None:
        """Return the states named by ``state``, or None for all."""
        if self.state is None:
            return None
        return split_names(self.state)

    @property
    def block_bytes(self) -> int:
        """Return the bytes of state per block of entries; spans, rows and columns take several times as much."""
        return max(MIN_WINDOW, self.memory // 16)

    def of_version(self, metadata_version: int) -> TableRequest:
        """Return the request with the Kryo version of the snapshot's metadata version, unless the user set it."""
        kryo = self.kryo or (5 if metadata_version >= FIRST_METADATA_OF_FLINK_2 else 2)
        return replace(self, decode=replace(self.decode, kryo=kryo))

    def check_key_groups(self, max_parallelism: int) -> None:
        """Raise OptionError for key groups that the operator does not have, instead of returning no rows."""
        last = max((high for _, high in self.key_groups or ()), default=0)
        if last >= max_parallelism:
            raise OptionError(
                "option 'keyGroups' is out of the range of the operator's key groups",
                expected=f"0 to {max_parallelism - 1}, because its max parallelism is {max_parallelism}",
                found=last,
            )

    def select_key_groups(self, key_groups: Iterable[int]) -> list[int]:
        """Return those of some key groups that the request's ``key_groups`` include."""
        if self.key_groups is None:
            return list(key_groups)
        ends = [high for _, high in self.key_groups]
        places = ((group, bisect_left(ends, group)) for group in key_groups)
        return [group for group, at in places if at < len(ends) and self.key_groups[at][0] <= group]


class TablePartition(Protocol):
    """Input of one task: frozen, picklable, without open files."""

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield record batches of the table's schema, of at most ``batch_rows`` rows."""


@runtime_checkable
class PartitionOfRows(TablePartition, Protocol):
    """Partition whose rows are found one by one: they need not become Arrow before they are shown."""

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield the rows by column; columns that a row has not are NULL."""


class Table(Protocol):
    """Table as the driver uses it."""

    @property
    def schema(self) -> pa.Schema:
        """Return the Arrow schema of every batch; fields may carry a ``comment``."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """Return warnings for the user, such as states that are BINARY because they cannot be decoded."""

    @property
    def max_parallelism(self) -> int | None:
        """Return the operator's max parallelism, or None for a table of one partition."""

    @property
    def state_bytes(self) -> int:
        """Return the approximate bytes of state, from which the default number of partitions is derived."""

    def select(self, columns: Sequence[str]) -> Table:
        """Return this table restricted to some columns, in that order; the others are not decoded."""

    def partitions(self, parallelism: int | None) -> list[TablePartition]:
        """Return the partitions; ``parallelism`` is the number of execution vertices that restore the state."""


@runtime_checkable
class Described(Protocol):
    """Table whose rows are found without reading all of its files."""

    @property
    def description(self) -> str:
        """Return how many bytes of files are read for what, for the user; an empty text if it is all of them."""


class _Columnar(Protocol):
    schema: pa.Schema


C = TypeVar("C", bound=_Columnar)
T = TypeVar("T", bound=Table)


def choose_states(existing: Sequence[str], names: tuple[str, ...] | None, what: str, operator: str) -> list[str]:
    """Return the known names that are wanted; raise StateNotFoundError with the nearest name for an unknown one."""
    if names is None:
        return list(existing)
    available, chosen = frozenset(existing), frozenset(names)
    for name in names:
        if name not in available:
            raise StateNotFoundError(
                f"the operator has no {what} {name!r}",
                operator=operator,
                remedy=did_you_mean(name, [join_names([one]) for one in existing])
                if existing
                else "the path without options lists what the snapshot has",
            )
    return [name for name in existing if name in chosen]


def with_columns(table: C, columns: Sequence[str]) -> C:
    """Return a copy of a table, restricted to some columns."""
    result = copy(table)
    result.schema = choose_columns(table.schema, columns)
    return result


def of_key_groups(table: T, key_groups: Sequence[int]) -> T:
    """Return a copy of a table of rows that have key groups, restricted to those of these that its request includes.

    ``key_groups`` are in ascending order.
    """
    chosen: Any = copy(table)
    if hasattr(chosen, "inner"):
        chosen.inner = of_key_groups(chosen.inner, key_groups)
    else:
        runs = consecutive(chosen.request.select_key_groups(key_groups))
        chosen.request = replace(chosen.request, key_groups=tuple(runs))
    narrowed: T = chosen
    return narrowed


def consecutive(numbers: Sequence[int]) -> list[tuple[int, int]]:
    """Return the first and the last of each run of consecutive numbers, which are in ascending order.

    >>> consecutive([1, 2, 3, 7])
    [(1, 3), (7, 7)]
    """
    cuts = [0, *(i for i in range(1, len(numbers)) if numbers[i] != numbers[i - 1] + 1), len(numbers)]
    return [(numbers[low], numbers[high - 1]) for low, high in pairwise(cuts) if high > low]


def choose_columns(schema: pa.Schema, columns: Sequence[str]) -> pa.Schema:
    """Return the schema of some columns; raise OptionError with the nearest name for an unknown one."""
    for name in columns:
        if not isinstance(name, str):
            raise OptionError("columns are given by their names", expected="select('key', 'total')", found=repr(name))
        if schema.get_field_index(name) < 0:
            raise OptionError(f"there is no column {name!r}", remedy=did_you_mean(name, schema.names))
    return pa.schema([schema.field(name) for name in columns])
