"""One table of a snapshot as Arrow, read in this process."""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Self

import pyarrow as pa

from pyspark_savepoint.engines.display import html_columns
from pyspark_savepoint.engines.table_reads import (
    explaining_missing_files,
    partitions_of,
    table_of,
    warning_of_escaped_texts,
)
from pyspark_savepoint.formats.errors import OptionError, SavepointError, SavepointWarning, UnsupportedStateError
from pyspark_savepoint.formats.io.run_ahead import BytesAhead, read_to_the_end
from pyspark_savepoint.formats.redaction import shown
from pyspark_savepoint.options.options import SavepointReadOptions
from pyspark_savepoint.plan.engine import CHECKPOINT_ID, SNAPSHOT
from pyspark_savepoint.statebackends.requests.request import Described, PartitionOfRows, TablePartition, choose_columns
from pyspark_savepoint.statebackends.rows.json_variants import holds_json
from pyspark_savepoint.text import progress
from pyspark_savepoint.text.texts import numbered

if TYPE_CHECKING:
    import pandas as pd

    from pyspark_savepoint.statebackends.requests.arrow_types import ArrowBatch, ArrowSchema, ArrowTable

#: How many columns the ``repr`` of a table names.
SHOWN_COLUMNS = 8
ROWS_OF_A_BATCH = 1000


class LocalTable:
    """A table as Arrow, whose columns are known and whose rows are read or computed on demand.

    Libraries that read Arrow streams take the table itself: ``polars.DataFrame(table)``, ``duckdb.from_arrow``.

    Example::

        accounts = pyspark_savepoint.open(path).keyed_state("accounts")
        accounts.select("key", "total").to_arrow()

    """

    #: The Arrow schema of every batch.
    schema: ArrowSchema

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings about the table, such as states that are BINARY because they cannot be decoded."""
        return ()

    @property
    def description(self) -> str:
        """How many bytes of files a read of the rows takes, where that is known and not all of them, else empty."""
        return ""

    def select(self, *columns: str) -> LocalTable:
        """Return the table with only some columns, in that order. The others of a snapshot are not decoded.

        Args:
            *columns: Names of columns.

        Returns:
            The table of these columns.

        Raises:
            OptionError: If there is no such column. The error names the nearest.

        """
        schema = choose_columns(self.schema, columns)
        return ComputedTable(schema, lambda: (batch.select(schema.names) for batch in self.batches()))

    def where(self, condition: object) -> LocalTable:
        """Return the rows for which a condition is true, as ``--where`` of the command line and erasures take it.

        Args:
            condition: A text, as of SQL's ``WHERE`` without functions (``total < 0 AND profile.tier = 'GOLD'``,
                ``lines[].buyer = 1042``), or an expression of ``pyarrow.compute``.

        Returns:
            The table of these rows. The condition is evaluated each time that they are read.

        Raises:
            OptionError: If the condition cannot be parsed, names no column, or compares values of different types.

        Example::

            pyspark_savepoint.open("/savepoints/s").keyed_state("accounts").where("total < 0").to_pandas()

        """
        from pyspark_savepoint.text.conditions import mask_of

        mask, _ = mask_of(condition, self.schema, "where")
        return ComputedTable(self.schema, lambda: (batch.filter(mask(batch)) for batch in self.batches()))

    def batches(self) -> Iterator[ArrowBatch]:
        """Yield the rows in batches of :attr:`schema`."""
        raise NotImplementedError

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield the rows as dictionaries by column, maps as lists of pairs. Large tables are faster as :meth:`batches`.

        Yields:
            A dictionary per row.

        Raises:
            SavepointError: If the state cannot be read.

        """
        for batch in self.batches():
            yield from batch.to_pylist()

    def to_arrow(self) -> ArrowTable:
        """Return all rows, in memory.

        Returns:
            An Arrow table of the rows.

        Raises:
            SavepointError: If the state cannot be read.

        """
        with progress.showing("reading"), read_to_the_end():
            table: ArrowTable = pa.Table.from_batches(self.batches(), self.schema)
        return table

    def to_pandas(self, **options: Any) -> pd.DataFrame:
        """Return all rows as a pandas DataFrame. Pandas must be installed.

        Args:
            **options: Those of ``pyarrow.Table.to_pandas``.

        Returns:
            The rows.

        Raises:
            SavepointError: If the state cannot be read.

        """
        if importlib.util.find_spec("pandas") is None:
            raise OptionError(
                "to_pandas() needs a package that is not installed",
                expected="pandas",
                remedy="pip install pandas; to_arrow() and batches() need no other package",
            )
        return self.to_arrow().to_pandas(**options)

    def __getattr__(self, name: str) -> NoReturn:
        hint = "" if name.startswith("_") else "; rows are read by to_arrow(), to_pandas(), rows() or batches()"
        raise AttributeError(f"'LocalTable' object has no attribute {name!r}{hint}")

    if not TYPE_CHECKING:  # type checkers report what a table does not have

        def __getitem__(self, name: object) -> NoReturn:
            raise TypeError("a table has no items; select(...) takes columns, and to_arrow() or rows() read the rows")

    def _repr_html_(self) -> str:
        return html_columns(repr(self).strip("<>").partition(": ")[0], self.schema)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Export the rows as a stream of Arrow's C data interface."""
        return pa.RecordBatchReader.from_batches(self.schema, self.batches()).__arrow_c_stream__(requested_schema)


@dataclass(frozen=True)
class ComputedTable(LocalTable):
    """A table whose rows a function computes each time that they are read."""

    schema: ArrowSchema
    computed: Callable[[], Iterator[ArrowBatch]]
    warnings: tuple[str, ...] = ()

    def __repr__(self) -> str:
        """Return one line: the columns."""
        return f"<LocalTable: {columns_of(self.schema)}>"

    @classmethod
    def of(cls, table: pa.Table) -> Self:
        """Return the table of rows in memory."""
        return cls(table.schema, lambda: iter(table.to_batches()))

    @classmethod
    def of_rows(cls, rows: Callable[[], Iterator[dict[str, Any]]], schema: pa.Schema) -> Self:
        """Return the table of rows that are made each time that they are read."""

        def batches() -> Iterator[pa.RecordBatch]:
            left = rows()
            while some := list(islice(left, ROWS_OF_A_BATCH)):
                yield pa.RecordBatch.from_pylist(some, schema)

        return cls(schema, batches)

    def batches(self) -> Iterator[ArrowBatch]:
        """Yield the rows in batches of :attr:`schema`."""
        try:
            yield from self.computed()
        except SavepointError as error:
            raise error.with_traceback(None) from None


def columns_of(schema: pa.Schema) -> str:
    """Return how many columns there are, and the names of the first."""
    names = schema.names
    columns = ", ".join(names[:SHOWN_COLUMNS]) + (", ..." if len(names) > SHOWN_COLUMNS else "")
    return f"{len(names)} columns ({columns})"


@dataclass(frozen=True)
class SnapshotTable(LocalTable):
    """A table of a snapshot, whose columns are known and whose rows are read on demand."""

    options: SavepointReadOptions
    #: The Arrow schema of every batch.
    schema: ArrowSchema
    #: Warnings about the table, such as states that are BINARY because they cannot be decoded.
    warnings: tuple[str, ...] = ()
    #: How many bytes of files a read of the rows takes, where that is known and not all of them; else empty.
    description: str = ""
    #: The approximate bytes of state that the table is read from.
    state_bytes: int = 0

    def __repr__(self) -> str:
        """Return one line: the table, its operator and state, its columns and its path."""
        read = self.options
        if read.versions:
            ids = [version.checkpoint_id for version in read.versions if version is not None]
            return shown(
                f"<LocalTable of the changes of {read.uid or read.uid_hash or read.table!r} to checkpoints "
                f"{ids[0 if read.versions[0] is None else 1] if len(ids) > 1 else ids[0]} to {ids[-1]}: "
                f"{columns_of(self.schema)} in {read.path}>"
            )
        operator = read.uid or read.uid_hash or read.operator_name or read.node
        parts = [read.table or ("states" if operator is None else "operator_state")]
        parts += [f"of {operator!r}"] if operator is not None else []
        parts += [f"state {read.state!r}"] if read.state is not None else []
        return shown(f"<LocalTable {' '.join(parts)}: {columns_of(self.schema)} in {read.path}>")

    @classmethod
    def of(cls, options: SavepointReadOptions, variants: Literal["json", "variant"] = "json") -> Self:
        """Internal: open the table that the options select, without reading any state.

        Args:
            options: The parsed options of a read.
            variants: The form of variants, unless the options say it.

        Returns:
            The table.

        Raises:
            SavepointError: If there is no such snapshot, operator, state or table, or an option does not apply to it.

        """
        try:
            options, table = table_of(options.with_variants(variants))
        except SavepointError as error:
            raise error.with_traceback(None) from None
        described = table.description if isinstance(table, Described) else ""
        warned = (*options.unread, *table.warnings)
        return cls(options, table.schema, warned, described, table.state_bytes)

    def select(self, *columns: str) -> Self:
        """Return the table with only some columns, in that order. The others are not decoded.

        Args:
            *columns: Names of columns.

        Returns:
            The table of these columns.

        Raises:
            OptionError: If there is no such column. The error names the nearest.

        """
        return replace(self, schema=choose_columns(self.schema, columns))

    def exact(self) -> Self:
        """Internal: return the table as it can be written: with the bytes of variants instead of JSON."""
        if not any(map(holds_json, self.schema)):
            return self
        return type(self).of(replace(self.options, variants="variant")).select(*self.schema.names)

    def batches(self) -> Iterator[ArrowBatch]:
        """Yield the rows in batches of at most ``batchSize`` rows, in the memory that option ``memory`` bounds.

        Yields:
            Batches of :attr:`schema`.

        Raises:
            SavepointError: If the state cannot be read.

        """
        try:
            BytesAhead.within(self.options.memory)
            with explaining_missing_files(self.options):
                batches = (batch for partition in self._partitions() for batch in _counted(partition))
                yield from warning_of_escaped_texts(batches, self.options.text, _warn, self.options.uid)
        except SavepointError as error:
            raise error.with_traceback(None) from None

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield the rows as dictionaries by column, maps as lists of pairs. Large tables are faster as :meth:`batches`.

        Yields:
            A dictionary per row.

        Raises:
            SavepointError: If the state cannot be read.

        """
        names = self.schema.names
        try:
            with explaining_missing_files(self.options):
                for partition in self._partitions():
                    if isinstance(partition, PartitionOfRows):
                        yield from ({name: _plain(row.get(name)) for name in names} for row in partition.rows())
                        progress.part_done()
                    else:
                        for batch in warning_of_escaped_texts(
                            _counted(partition), self.options.text, _warn, self.options.uid
                        ):
                            yield from batch.to_pylist()
        except SavepointError as error:
            raise error.with_traceback(None) from None

    def _partitions(self) -> list[TablePartition]:
        """Plan a read of the rows."""
        _, _, partitions = partitions_of(self.options, self._same_columns, workers=1)
        progress.parts(len(partitions))
        return partitions

    def _same_columns(self, schema: pa.Schema) -> list[str]:
        """Return the names of the columns. Raise UnsupportedStateError if the newest snapshot has other ones."""
        mine = choose_columns(schema, self.schema.names)
        other = next((field.name for field in self.schema if field.type != mine.field(field.name).type), None)
        if other is not None:
            raise UnsupportedStateError(
                f"column {other!r} has another type since the table was opened",
                path=self.options.path,
                expected=self.schema.field(other).type,
                found=mine.field(other).type,
                remedy="open the table again",
            )
        return self.schema.names


@dataclass(frozen=True)
class SnapshotOf:
    """The table of one snapshot."""

    checkpoint_id: int
    snapshot: str
    table: LocalTable


@dataclass(frozen=True, repr=False)
class LocalHistory(LocalTable):
    """One table of several snapshots, with columns ``checkpoint_id`` and ``snapshot``. Oldest snapshots first.

    Args:
        parts: The tables of the snapshots, oldest first.
        schema: The Arrow schema of every batch.

    Example::

        pyspark_savepoint.open_history("/checkpoints/7d2e", "accounts", state="total").to_arrow()

    """

    parts: tuple[SnapshotOf, ...]
    schema: pa.Schema

    def __repr__(self) -> str:
        """Return one line: the snapshots, and the columns."""
        first, last = self.parts[0].checkpoint_id, self.parts[-1].checkpoint_id
        of = f"{numbered(len(self.parts), 'snapshot')}, checkpoints {first} to {last}"
        return shown(f"<LocalHistory of {of}: {columns_of(self.schema)}>", line=True)

    @classmethod
    def of(cls, parts: tuple[SnapshotOf, ...]) -> LocalHistory:
        """Internal: join the columns of all parts by name. What a snapshot does not have is NULL.

        Args:
            parts: The tables of the snapshots, oldest first.

        Returns:
            Their rows as one table.

        Raises:
            UnsupportedStateError: If a column has another type in another snapshot.

        """
        fields = {CHECKPOINT_ID: pa.field(CHECKPOINT_ID, pa.int64()), SNAPSHOT: pa.field(SNAPSHOT, pa.string())}
        for part in parts:
            for field in part.table.schema:
                merged_field = fields.setdefault(field.name, field.with_nullable(True))
                if merged_field.type != field.type:
                    raise UnsupportedStateError(
                        f"column {field.name!r} has another type in older snapshots",
                        path=part.snapshot,
                        expected=merged_field.type,
                        found=field.type,
                        remedy="read fewer snapshots: last=N",
                    )
        return cls(parts, pa.schema(list(fields.values())))

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings about the tables, each once."""
        return tuple(dict.fromkeys(warning for part in self.parts for warning in part.table.warnings))

    def batches(self) -> Iterator[ArrowBatch]:
        """Yield the rows in batches, snapshot by snapshot.

        Yields:
            Batches of :attr:`schema`.

        Raises:
            SavepointError: If the state cannot be read.

        """
        for part in self.parts:
            for batch in part.table.batches():
                own = {CHECKPOINT_ID: part.checkpoint_id, SNAPSHOT: part.snapshot} | dict(
                    zip(batch.schema.names, batch.columns, strict=True)
                )
                columns = [_column(own.get(field.name), field.type, batch.num_rows) for field in self.schema]
                yield pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield the rows as dictionaries by column, maps as lists of pairs.

        Yields:
            A dictionary per row.

        Raises:
            SavepointError: If the state cannot be read.

        """
        names = dict.fromkeys(self.schema.names)
        for part in self.parts:
            own = {**names, CHECKPOINT_ID: part.checkpoint_id, SNAPSHOT: part.snapshot}
            yield from (own | row for row in part.table.rows())


def _column(value: Any, kind: pa.DataType, rows: int) -> pa.Array:
    return value if isinstance(value, pa.Array) else pa.repeat(pa.scalar(value, kind), rows)


def _counted(partition: TablePartition) -> Iterator[ArrowBatch]:
    """Yield the batches of a partition, and count them."""
    for batch in partition.batches():
        progress.rows(batch.num_rows)
        yield batch
    progress.part_done()


def _warn(warning: str) -> None:
    warnings.warn(warning, SavepointWarning, stacklevel=4)


def _plain(value: object) -> object:
    """Return a value as Arrow gives it to Python."""
    return list(value.items()) if isinstance(value, dict) else value
