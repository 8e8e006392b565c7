"""What a plan needs of the engine that runs it: tables of rows, reads of snapshots, and writes of single tables.

Verbs and plans know these protocols alone. There are two engines: Spark's (``engines.spark.spark_engine``), whose
tables are DataFrames, and that of this process (``engines.arrow.local_engine``), whose tables are Arrow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar

import pyarrow as pa

from pyspark_savepoint.formats.errors import OptionError
from pyspark_savepoint.options.options import SavepointReadOptions
from pyspark_savepoint.statebackends.rows.descriptors import STATE_WINDOW, KeyedDescriptor

if TYPE_CHECKING:
    from pyspark_savepoint.formats.snapshot.publication import Staging
    from pyspark_savepoint.formats.snapshot.relocation import FileCopy
    from pyspark_savepoint.statebackends.requests.request import BatchFunction
    from pyspark_savepoint.statebackends.writing.planning.planned_write import Distribution, PartOfWrite

A = TypeVar("A")
B = TypeVar("B")
#: The columns of a table of several snapshots that say which it is.
CHECKPOINT_ID, SNAPSHOT = "checkpoint_id", "snapshot"
#: The column of key groups that a function of the user computes.
HASHED = "__savepoint_key_group_of_hash"

#: Options of a read as the user gave them, or a read that only plans have, of entries or differences.
ReadOptions = Mapping[str, str] | SavepointReadOptions


class Rows(Protocol):
    """A table whose columns are known, and whose rows are read when they are written."""

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the batches that functions and writers get."""

    @property
    def laid_out(self) -> bool:
        """Whether part i of the rows has the keys of subtask i, because the user distributed them (``key_by``)."""

    def select(self, *names: str) -> Self:
        """Return some columns, in this order."""

    def renamed(self, names: Mapping[str, str]) -> Self:
        """Return the rows with new names of columns, by their old names; names that are no column are ignored."""

    def mapped(self, function: BatchFunction, schema: pa.Schema) -> Self:
        """Return what a function makes of the batches of each part; ``schema`` is that of its batches."""

    def union(self, other: Self) -> Self:
        """Return the rows of both tables, which have the same columns in any order."""

    def without(self, keys: Self, column: str) -> Self:
        """Return the rows whose value of a column of bytes is not among those of another table."""

    def joined(self, other: Self, column: str) -> Self:
        """Return the rows with the other columns of the row of another table that has the same bytes; NULL if none."""

    def held(self) -> Self:
        """Return the same rows, which are made once however often they are read, if this process makes them."""

    def collected(self) -> list[dict[str, Any]]:
        """Return all rows as dictionaries."""

    def first(self) -> dict[str, Any] | None:
        """Return one of the rows as a dictionary; None if there is none."""


@dataclass(frozen=True)
class SessionLookup:
    """What finds the state window of a session: option of the read of all sessions, and the columns to compare.

    ``options`` read the merging window set of each key, column ``state``, which is a map if ``is_map``, else a list of
    pairs (f0, f1). ``keys`` are the columns of the key in the rows. ``label`` is the operator's.
    """

    options: Mapping[str, str]
    state: str
    is_map: bool
    keys: tuple[str, ...]
    label: str

    @property
    def unknown(self) -> str:
        """The beginning of the error about a row whose window is no session."""
        return f"with_state: {self.state} of {self.label} has no session of the window "

    def remedy(self, has_window: bool) -> str:
        """Return the end of that error; ``has_window``: the row names its state window."""
        return "Write the session there first" + ("." if has_window else f", or give column {STATE_WINDOW}.")

    @property
    def other(self) -> str:
        """The beginning of the error about a row whose session has another state window than it says."""
        return f"with_state: in {self.state} of {self.label} the session "

    @property
    def drop(self) -> str:
        """The end of that error."""
        return f"Leave column {STATE_WINDOW} out, and it is found."


class PartTask(Protocol):
    """Work on the parts of a table, such as a user's function; it is pickled to tasks, and each has a copy."""

    def run(self, number: int, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield what the work makes of the part with this number."""


@dataclass(frozen=True)
class Cell:
    """A column of a table with the rows of several inputs: some columns of an input, one or as a struct.

    ``typed`` and ``like`` are the rows and their columns that give its type; ``columns`` those of the input that is
    put into the table, None if it has none, and the column is NULL.
    """

    name: str
    typed: Rows
    like: tuple[str, ...]
    columns: tuple[str, ...] | None
    is_struct: bool = False


class Pieces(Protocol):
    """Work in pieces that do not need each other."""

    @property
    def pieces(self) -> Sequence[object]:
        """The pieces, which are run by their numbers."""

    def run(self, number: int) -> bytes:
        """Run a piece, and return its result."""

    def unopened(self) -> Self:
        """Return the same work without what cannot be sent to a task."""


class Engine(Protocol):
    """Reads and writes for plans. Rows that its methods take are its own."""

    @property
    def rows_are(self) -> str:
        """What users give as rows."""

    @property
    def make_rows(self) -> str:
        """How users get rows."""

    def rows(self, source: object) -> Rows | None:
        """Return rows that a user gave, or those of this engine as they are; None if they are none of it."""

    def of_arrow(self, table: pa.Table) -> Rows:
        """Return the rows of a small Arrow table."""

    def with_column(self, rows: Any, name: str, expression: object) -> Rows | None:
        """Return a few rows with the value of an expression as another column; None if the engine cannot evaluate it.

        Raises:
            OptionError: If the expression does not fit the rows.

        """

    def in_order(self, rows: Any, name: str) -> Rows:
        """Return rows with another column: numbers in the order in which the user has the rows."""

    def worded(self, condition: object) -> object:
        """Return a condition of the engine's own kind in the words of ``--where``, and any other as it is."""

    def read(self, options: ReadOptions) -> Rows:
        """Return the table that the options of a read select, with its path among them."""

    def table(self, options: ReadOptions) -> Any:
        """Return the table that the options of a read select, as users get it."""

    def opened(self, options: Mapping[str, str]) -> Any:
        """Return the same table, without warning of what it cannot show."""

    def where(self, table: Any, column: str, value: str) -> Any:
        """Return the rows of a user's table whose column has a value."""

    def joined(self, parts: Sequence[tuple[int, str, Any]]) -> Any:
        """Return one table of user's tables, each of a checkpoint id and a path, which are columns of it.

        Columns have the same place by their names; what a table does not have is NULL.
        """

    def shown(self, table: pa.Table) -> Any:
        """Return a small Arrow table as users get tables."""

    def listed(self, rows: Callable[[], Iterator[dict[str, Any]]], schema: pa.Schema) -> Any:
        """Return rows that this process reads, as users get tables; without Spark they are read on demand."""

    def as_table(self, rows: Any) -> Any:
        """Return rows as users get tables."""

    def schema(self, table: Any) -> pa.Schema:
        """Return the columns of a user's table, with their comments as metadata."""

    def gathered(self, table: Callable[[], Any]) -> pa.Table:
        """Return all rows of a small table that a function returns: a user's table, or rows.

        Raises:
            SavepointError: If the engine cannot read it.

        """

    def at_most(self, rows: Any, count: int) -> tuple[pa.Table | None, Rows]:
        """Return rows in memory if there are at most ``count``, else None; and the rows, none of which was read."""

    def summed(self, table: Any, function: BatchFunction, schema: pa.Schema) -> Any:
        """Return, as a user's table, what a function makes of all batches of a user's table in one process."""

    def function_schema(self, columns: object) -> pa.Schema:
        """Return the columns that a user gives for the rows of a function."""

    def numbered(self, function: BatchFunction, count: int, columns: object) -> Any:
        """Return, as a user's table, what tasks yield that each get one of ``count`` numbers, in a batch of one row.

        ``columns`` are the columns as the user gave them; each task runs a copy of the function.
        """

    def with_state_windows(self, rows: Any, lookup: SessionLookup) -> Rows:
        """Return rows of sessions with column ``state_window``, by their key and session.

        A row that has the column already is compared: another window fails the write.
        """

    def sessions(self, rows: Any, keys: Sequence[str], name: str, *, is_map: bool) -> Rows:
        """Return one row per key with all of its sessions and their state windows, in a column of this name.

        Rows have ``window``, and ``state_window`` where it differs; without one they are no session. The column is a
        map, or a list of pairs (f0, f1).
        """

    def located(self, path: str | PathLike[str]) -> str:
        """Return the absolute form of a user's path."""

    def by_key(self, rows: Any, descriptor: KeyedDescriptor, limit: int, parallelism: int | None) -> Rows:
        """Distribute rows by the key group of their key, so that part i has those of subtask i."""

    def by_key_group(self, rows: Any, column: str, key: str, limit: int, parallelism: int | None) -> Rows:
        """Distribute rows by a column of key groups; ``key`` is a column of their keys."""

    def no_rows(self, schema: pa.Schema, limit: int, parallelism: int) -> Rows:
        """Return a table without rows that has a part for each subtask."""

    def write(self, rows: Any, part: PartOfWrite) -> None:
        """Write a table as a part of a new savepoint."""

    def run(self, work: Pieces, parallelism: int | None) -> Mapping[int, bytes]:
        """Run the pieces of some work, and return their results by their numbers.

        ``parallelism`` is the number of processes of this machine; raise OptionError if others do the work.
        """

    def copy(self, copies: Sequence[FileCopy], staging: Staging, shared: bool) -> Mapping[str, int]:
        """Copy untouched files; ``shared``: whatever writes edited operators reaches these files too.

        Return the sizes of files that were not read, and whose checksums are not known, by name.
        """

    def written(
        self, write: Callable[[A], B], operators: Sequence[A], size: Callable[[A], int], *, together: bool
    ) -> list[B]:
        """Return what a function returns for each operator that it writes, in their order.

        Several may be written at a time: always where tasks have the rows. Where this process has them, only
        ``together``, and operators of some bytes in all, by their ``size``.
        """

    # -- records of functions that make state --------------------------------------------------------------

    def with_selected(self, rows: Any, selector: object, name: str) -> Rows:
        """Return rows with a column that a user's expression computes; raise OptionError if it does not."""

    def with_hashed(self, rows: Any, keys: Sequence[str], hash_code: Callable[[Any], int], limit: int) -> Rows:
        """Return rows with column ``HASHED`` of the key groups that a user's function of the key leads to."""

    def tasks(self, rows: Any, limit: int) -> int:
        """Return in how many parts rows are distributed if the user does not say it, at most ``limit``."""

    def presorted(
        self, rows: Any, descriptor: KeyedDescriptor, limit: int, parallelism: int | None
    ) -> tuple[Rows, int]:
        """Distribute rows that are sorted by key, so that they stay sorted, and return the number of parts, too.

        Raise OptionError if they would not stay sorted.
        """

    def spread(self, rows: Any, parallelism: int | None, limit: int) -> Rows:
        """Return rows in any order in a number of parts; without one, in the parts that they have, up to ``limit``."""

    def packed(self, rows: Any, input_column: str, number: int, cells: Sequence[Cell]) -> Rows:
        """Return the rows of an input in the columns of a table of several, whose first is the number of the input."""

    def connected(
        self, keyed: Any, broadcast: Any, order: str, descriptor: KeyedDescriptor, limit: int, parallelism: int
    ) -> Rows:
        """Distribute packed rows by key, and give each part all rows of a broadcast input, if there is one.

        These are numbered in column ``order``, which is added.
        """

    def made(self, rows: Any, task: PartTask, schema: pa.Schema, layout: Distribution | None) -> Rows:
        """Return what a task makes of each part; ``layout`` says how they are distributed by key."""

    def yielded(self, rows: Any, task: PartTask, columns: object) -> Any:
        """Return, as a user's table, what a task makes of each part; a user gave ``columns``."""

    def explaining(self) -> AbstractContextManager[None]:
        """Explain errors that come from how the engine is installed."""

    def showing(self, what: str) -> AbstractContextManager[None]:
        """Show the progress of work that this process does; Spark shows that of its tasks itself."""


def expect_same_engine(expected: Engine, engine: Engine) -> None:
    """Raise OptionError if the records of a transformation are those of another engine."""
    if type(engine) is not type(expected):
        raise OptionError(
            "the records of the transformation were given in another way, with and without Spark",
            expected=expected.rows_are,
            found=engine.rows_are,
            remedy="give bootstrap_with(...) what is expected here, or use the other kind of savepoint",
        )


def gathered(engine: Engine, rows: Rows) -> pa.Table:
    """Return all of some rows."""
    return engine.gathered(lambda: rows)
