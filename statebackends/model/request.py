"""What a reader asks for: the options of one query, without Spark."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Protocol

import pyarrow as pa

from pyspark_savepoint.formats.columns import DecodeOptions
from pyspark_savepoint.formats.errors import OptionError, StateNotFoundError, did_you_mean

DEFAULT_BATCH_ROWS = 32_768
DEFAULT_MEMORY = 32 << 20
DEFAULT_TOP = 20
MIN_WINDOW = 1 << 8
#: Flink 2 has Kryo 5; earlier metadata is of Flink 1, with Kryo 2.
FIRST_METADATA_OF_FLINK_2 = 5


@dataclass(frozen=True, slots=True)
class EntriesRequest:
    """What table ``entries`` is asked for: states by name and whether they are timers; their numbers are their places.
    None keeps a place free.

    ``keys``: a column with the bytes of the key alone. ``max_parallelism``: key groups are those at this one.
    ``raw_timers``: timers in raw keyed state are wanted too.
    """

    states: tuple[tuple[str, bool] | None, ...]
    keys: bool = False
    max_parallelism: int | None = None
    raw_timers: bool = False

    def to_json(self) -> str:
        """As the value of an option."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> EntriesRequest:
        """The mirror of :meth:`to_json`; ValueError or TypeError for anything else."""
        values = json.loads(text)
        states = tuple((str(state[0]), bool(state[1])) if state is not None else None for state in values.pop("states"))
        return cls(states, **values)


@dataclass(frozen=True, slots=True)
class TableRequest:
    """One table of one snapshot. ``memory`` is the bytes of state that a task holds at a time, about."""

    path: str
    uid: str | None = None
    uid_hash: str | None = None
    operator_name: str | None = None
    table: str | None = None
    state: str | None = None
    flatten: bool = False
    undecodable: str = "binary"
    include_key_group: bool = False
    include_ttl: bool = False
    keys: str | None = None
    key_groups: tuple[tuple[int, int], ...] | None = None
    raw: tuple[str, ...] = ()
    kryo: int | None = None
    decode: DecodeOptions = field(default_factory=DecodeOptions)
    allow_outside: bool = False
    checksums: str = "ignore"
    batch_rows: int = DEFAULT_BATCH_ROWS
    memory: int = DEFAULT_MEMORY
    entries: EntriesRequest | None = None
    top: int = DEFAULT_TOP
    #: Names of options that the user gave for this table, with another value than the default.
    given: frozenset[str] = field(default=frozenset(), compare=False)

    @property
    def states(self) -> tuple[str, ...] | None:
        """The states named by ``state``, or None for all."""
        if self.state is None:
            return None
        return tuple(name.strip() for name in self.state.split(",") if name.strip())

    @property
    def block_bytes(self) -> int:
        """Bytes of state in a block of entries: their spans, rows and columns take several times as much."""
        return max(MIN_WINDOW, self.memory // 8)

    def of_version(self, metadata_version: int) -> TableRequest:
        """The request for a snapshot, whose version tells which Kryo wrote, unless the user does."""
        kryo = self.kryo or (5 if metadata_version >= FIRST_METADATA_OF_FLINK_2 else 2)
        return replace(self, decode=replace(self.decode, kryo=kryo))

    def check_key_groups(self, max_parallelism: int) -> None:
        """OptionError for key groups that there are not: they are a mistake, and not just empty."""
        last = max((high for _, high in self.key_groups or ()), default=0)
        if last >= max_parallelism:
            raise OptionError(
                "option 'keyGroups' names key groups that the operator does not have",
                expected=f"0 to {max_parallelism - 1}, for its max parallelism is {max_parallelism}",
                found=last,
            )

    def wants(self, key_group: int) -> bool:
        """Whether ``key_groups`` lets a key group pass."""
        return self.key_groups is None or any(low <= key_group <= high for low, high in self.key_groups)


class TablePartition(Protocol):
    """What one task reads: frozen, picklable, holds nothing open."""

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Record batches of the table's schema, of at most ``batch_rows`` rows."""


class Table(Protocol):
    """A table as the driver sees it."""

    @property
    def schema(self) -> pa.Schema:
        """Arrow's schema of every batch; fields may carry a ``comment``."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the user should know: states that are BINARY because nobody can decode them."""

    @property
    def max_parallelism(self) -> int | None:
        """The operator's, or None for a table of one partition."""

    @property
    def state_bytes(self) -> int:
        """Bytes of state behind the table, about: they choose the number of partitions where nobody does."""

    def select(self, columns: Sequence[str]) -> Table:
        """The same table with some of its columns, in that order: what is left out is not decoded."""

    def partitions(self, parallelism: int | None) -> list[TablePartition]:
        """What the tasks read; ``parallelism`` is the number of execution vertices that restore the state."""


def choose_states(known: Sequence[str], wanted: tuple[str, ...] | None, what: str, operator: str) -> list[str]:
    """The wanted among the known names; StateNotFoundError names the nearest."""
    if wanted is None:
        return list(known)
    for name in wanted:
        if name not in known:
            raise StateNotFoundError(
                f"the operator has no {what} {name!r}", operator=operator, remedy=did_you_mean(name, known)
            )
    return [name for name in known if name in wanted]


def choose_columns(schema: pa.Schema, columns: Sequence[str]) -> pa.Schema:
    """The schema of some columns; OptionError names the nearest of one that is not there."""
    for name in columns:
        if schema.get_field_index(name) < 0:
            raise OptionError(f"there is no column {name!r}", remedy=did_you_mean(name, schema.names))
    return pa.schema([schema.field(name) for name in columns])
