"""Rows of files that are written as state: Parquet, Arrow, JSON lines and CSV, read batch by batch, each time anew.

Parquet and Arrow files have types. In JSON lines and CSV a column has the type that is given for it, else the one that
its values prove: whole numbers LONG, other numbers DOUBLE if their digits are kept, ``true`` and ``false`` BOOLEAN,
lists of these, anything else text. Each value is then converted exactly, or is an error that names line and column. CSV
is as ``export`` writes it: NULL is empty, an empty text is ``""``, lists, maps and rows are JSON.
"""

from __future__ import annotations

import json
import re
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

import pyarrow as pa

from pyspark_savepoint.api.local_tables import LocalTable
from pyspark_savepoint.formats.errors import OptionError, SnapshotNotFoundError, ValueRangeError, did_you_mean
from pyspark_savepoint.formats.filesystems.filesystem import LocalFileSystem
from pyspark_savepoint.statebackends.rows.json_values import from_json

FORMATS = {
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".jsonl": "json",
    ".ndjson": "json",
    ".json": "json",
    ".csv": "csv",
    ".txt": "text",
}
BATCH = 16_384
WHOLE, NUMBER = re.compile(r"-?(0|[1-9][0-9]*)"), re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
LONGS, LONGEST = range(-(1 << 63), 1 << 63), 20
#: How many cells a table may have: some, and so many for each value. Others are NULL.
MOST_CELLS, SPARSEST = 10_000_000, 100
#: Whole numbers that every DOUBLE beside them keeps.
EXACT = 1 << 53


class RowsOfFile(LocalTable):
    """Rows of a file, which are read as often as they are asked for."""

    schema: pa.Schema

    @property
    @abstractmethod
    def count(self) -> int:
        """The number of rows."""

    def check(self) -> None:
        """Raise the error that a value would be when the rows are written; other files than texts have none."""


UTF_8 = "save the file as UTF-8"


def file_form(path: Path, form: str | None) -> str:
    """Return the format of a file, by its suffix unless it is given; raise OptionError for one that has none."""
    _expect_file(path)
    file_format = form or FORMATS.get(path.suffix.lower())
    if file_format is None:
        raise OptionError(
            "the format of the file does not follow from its name",
            found=path.name,
            expected=", ".join(FORMATS),
            remedy="--format parquet, arrow, json or csv",
        )
    return file_format


def text_of_file(path: Path) -> str:
    """Return the text of a file that a command is given; raise an error of this package if it is none."""
    _expect_file(path)
    try:
        return path.read_text("utf-8-sig")
    except UnicodeDecodeError as error:
        found = f"at byte {error.start}, bytes that are not UTF-8"
        raise OptionError("the file cannot be read as text", path=str(path), found=found, remedy=UTF_8) from None
    except OSError as error:
        raise OptionError(
            "the file cannot be read",
            path=str(path),
            found=error.strerror or str(error),
            remedy="give a file that the user who runs this may read",
        ) from None


def _expect_file(path: Path) -> None:
    """Raise the error for a path that is not a file: a pipe would never end, nor would some devices."""
    if not path.is_file():
        kind = "a folder" if path.is_dir() else "a pipe, socket or device" if path.exists() else "nothing"
        remedy = LocalFileSystem().absence(str(path.absolute())) if kind == "nothing" else "give a file"
        raise SnapshotNotFoundError("there is no such file", path=str(path), found=kind, remedy=remedy)


def rows_of_file(
    path: Path, form: str | None, types: Mapping[str, pa.DataType], *, names_types: bool = True
) -> RowsOfFile:
    """Open a file as rows.

    Args:
        path: The file.
        form: ``parquet``, ``arrow``, ``json`` (an object per line) or ``csv`` (with a header); None: by its suffix.
        types: Types of columns, for JSON lines and CSV; types of other names are left out.
        names_types: Whether the command has option ``--type``, which errors then name.

    Returns:
        The rows; the file is read when they are.

    Raises:
        SnapshotNotFoundError: If there is no such file.
        OptionError: If the file is of no known format, or empty.
        ValueRangeError: If a value of a text has no type, or not the one of its column.

    """
    form = file_form(path, form)
    try:
        if form == "parquet":
            return ParquetRows(path)
        if form == "arrow":
            return ArrowRowsOfFile(path)
        if form == "csv":
            return CsvRows(path, types, names_types=names_types)
        if form == "json":
            return JsonLines(path, types, names_types=names_types)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, UnicodeDecodeError) as error:
        raise OptionError(
            f"the file is no {form} that can be read",
            path=str(path),
            found=str(error).splitlines()[0],
            remedy=UTF_8 if isinstance(error, UnicodeDecodeError) else "write the file again, or name its --format",
        ) from None
    raise OptionError("a file of texts has no columns", path=str(path), remedy="--format json or csv")


class ParquetRows(RowsOfFile):
    """A Parquet file."""

    def __init__(self, path: Path) -> None:
        from pyarrow import parquet

        self.path = path
        self.schema = parquet.read_schema(path).remove_metadata()

    @property
    def count(self) -> int:
        """The number of rows, which the file records."""
        from pyarrow import parquet

        rows: int = parquet.read_metadata(self.path).num_rows
        return rows

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the batches of all row groups."""
        from pyarrow import parquet

        with parquet.ParquetFile(self.path) as file:
            for batch in file.iter_batches(BATCH):
                yield pa.RecordBatch.from_arrays(batch.columns, schema=self.schema)


class ArrowRowsOfFile(RowsOfFile):
    """A file, or a stream, of Arrow's IPC format; Feather files are such."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with pa.OSFile(str(path)) as file:
            self.is_file = file.read(6) == b"ARROW1"
            file.seek(0)
            self.schema = (pa.ipc.open_file(file) if self.is_file else pa.ipc.open_stream(file)).schema
        self.schema = self.schema.remove_metadata()

    @property
    def count(self) -> int:
        """The number of rows of all batches, none of which is copied into memory."""
        return sum(len(batch) for batch in self.batches())

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the batches of the file."""
        with pa.memory_map(str(self.path)) as file:
            if self.is_file:
                reader = pa.ipc.open_file(file)
                batches = map(reader.get_batch, range(reader.num_record_batches))
            else:
                batches = iter(pa.ipc.open_stream(file))
            for batch in batches:
                yield pa.RecordBatch.from_arrays(batch.columns, schema=self.schema)


class TypedTexts(RowsOfFile):
    """Rows of a text file, each value a JSON value, with the types of their columns."""

    def __init__(self, path: Path, types: Mapping[str, pa.DataType], *, names_types: bool = True) -> None:
        self.path = path
        self._names_types = names_types
        self._count = 0
        columns: dict[str, Seen] = {}
        values = 0
        for line, row in self.values():
            self._count += 1
            values += len(row)
            for name, value in row.items():
                if name not in columns:
                    columns[name] = Seen()
                if name not in types or types[name] is None:
                    self._see(columns[name], value, line, name)
                elif isinstance(value, list):
                    columns[name].lists = True
        if not columns:
            raise OptionError(
                "the file has no rows", path=str(path), remedy="a state without rows: remove takes it out"
            )
        if len(columns) * self._count > MOST_CELLS + SPARSEST * values:
            raise OptionError(
                "nearly all values are missing: rows have different columns",
                path=str(path),
                found=f"{values:,} values in {self._count:,} rows of {len(columns):,} columns",
                remedy="put rows with the same columns in a file of their own",
            )
        self.schema = pa.schema([pa.field(name, _typed(types.get(name), one)) for name, one in columns.items()])

    @property
    def count(self) -> int:
        """The number of rows."""
        return self._count

    def check(self) -> None:
        """Convert all values."""
        for _ in self.batches():
            pass

    @abstractmethod
    def values(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield the number of the line and the values of each row."""

    @abstractmethod
    def value(self, cell: Any, kind: pa.DataType) -> Any:
        """Return the JSON value of a column of a type."""

    def _see(self, seen: Seen, value: Any, line: int, name: str) -> None:
        problem = seen.see(value)
        if problem is not None:
            raise ValueRangeError(
                f"{self.path.name}, line {line}, column {name!r}: {problem}",
                found=repr(value)[:200],
                remedy=f"name its type: --type {name}=..." if self._names_types else "give the rows as Parquet",
            )

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield batches of converted rows."""
        rows: list[dict[str, Any]] = []
        for line, row in self.values():
            rows.append({field.name: self._converted(row.get(field.name), field, line) for field in self.schema})
            if len(rows) == BATCH:
                yield pa.RecordBatch.from_pylist(rows, self.schema)
                rows = []
        if rows:
            yield pa.RecordBatch.from_pylist(rows, self.schema)

    def _converted(self, cell: Any, column: pa.Field, line: int) -> Any:
        try:
            value = from_json(self.value(cell, column.type), column.type, "the value")
            if isinstance(value, Decimal | list | dict):
                pa.scalar(value, column.type)
        except (OptionError, ValueError, ArithmeticError, TypeError, pa.ArrowException) as error:
            other = f", or name another type: --type {column.name}=..." if self._names_types else ""
            raise ValueRangeError(
                f"{self.path.name}, line {line}, column {column.name!r}: not a value of the column's type",
                expected=str(column.type),
                found=repr(cell)[:200],
                remedy=f"correct the value{other}; {_why(error)}",
            ) from None
        return value


@dataclass
class Seen:
    """What the values of a column prove about its type."""

    kind: pa.DataType | None = None
    lists: bool = False
    #: The largest whole number, without its sign.
    largest: int = 0

    def see(self, value: Any) -> str | None:
        """Note a value; return why it has no type, None if it has one."""
        if value is None:
            return None
        if isinstance(value, list):
            if self.kind is not None and not self.lists:
                return "a list, where earlier rows have single values"
            self.lists = True
            return next(filter(None, map(self._see_one, value)), None)
        if self.lists:
            return "a single value, where earlier rows have lists"
        return self._see_one(value)

    def _see_one(self, value: Any) -> str | None:
        if value is None:
            return None
        if isinstance(value, bool):
            kind = pa.bool_()
        elif isinstance(value, int):
            if value not in LONGS:
                return "a whole number that is no LONG"
            self.largest = max(self.largest, abs(value))
            kind = pa.int64()
        elif isinstance(value, Decimal):
            if Decimal(repr(float(value))) != value:
                return "a number that a DOUBLE does not keep"
            kind = pa.float64()
        elif isinstance(value, str):
            kind = pa.string()
        else:
            return "a list in a list, or an object, whose type does not follow from its values"
        if self.kind is None or self.kind == kind:
            self.kind = kind
        elif {self.kind, kind} == {pa.int64(), pa.float64()}:
            self.kind = pa.float64()
        else:
            return f"{_words(kind)}, where earlier rows have {_words(self.kind)}"
        if self.kind == pa.float64() and self.largest > EXACT:
            return "a whole number among others, which a DOUBLE does not keep"
        return None


def _words(kind: pa.DataType) -> str:
    return {pa.bool_(): "a BOOLEAN", pa.int64(): "a LONG", pa.float64(): "a DOUBLE"}.get(kind, "a text")


def _typed(arrow_type: pa.DataType | None, seen: Seen) -> pa.DataType:
    """Return the type of a column; a type that is given for the elements of lists is theirs."""
    if arrow_type is None:
        kind = pa.null() if seen.kind is None else seen.kind
        return pa.list_(kind) if seen.lists else kind
    is_container = pa.types.is_list(arrow_type) or pa.types.is_struct(arrow_type) or pa.types.is_map(arrow_type)
    return pa.list_(arrow_type) if seen.lists and not is_container else arrow_type


class JsonLines(TypedTexts):
    """A JSON object per line. Numbers keep their digits until their type is known."""

    def values(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield the objects; empty lines are left out."""
        with self.path.open(encoding="utf-8-sig") as lines:
            for number, line in enumerate(lines, 1):
                if not line.strip():
                    continue
                try:
                    row = json.loads(line, parse_float=Decimal, object_pairs_hook=_once, parse_constant=str)
                except (ValueError, ArithmeticError, RecursionError) as error:
                    raise ValueRangeError(
                        f"{self.path.name}, line {number}: no JSON object", found=f"{line.strip()[:80]}: {_why(error)}"
                    ) from None
                if not isinstance(row, dict):
                    raise ValueRangeError(
                        f"{self.path.name}, line {number}: no JSON object",
                        found=line.strip()[:200],
                        expected='an object per line, such as {"id": 1, "total": 10}',
                    )
                yield number, row

    def value(self, cell: Any, kind: pa.DataType) -> Any:
        """Return the value, with numbers as they were written."""
        return cell


def _why(error: Exception) -> str:
    return "an exponent that no number has" if isinstance(error, InvalidOperation) else str(error).splitlines()[0]


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    row = dict(pairs)
    if len(row) < len(pairs):
        raise ValueError("a name occurs twice")
    return row


class CsvRows(TypedTexts):
    """CSV with a header."""

    def values(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield rows of texts, None where a field is empty; without a type, what a text is as a whole."""
        from pyarrow import csv

        with self.path.open("rb") as file:
            first = file.readline() + b"\n"
        header = csv.read_csv(pa.py_buffer(first), parse_options=csv.ParseOptions(newlines_in_values=True)).schema.names
        repeated = [name for name, times in Counter(header).items() if times > 1]
        if repeated:
            raise OptionError("a column occurs twice", path=str(self.path), found=repr(repeated[0]))
        options = csv.ConvertOptions(
            column_types=dict.fromkeys(header, pa.string()),
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
            null_values=[""],
        )
        parse = csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False)
        line = 2
        try:
            for batch in csv.open_csv(self.path, parse_options=parse, convert_options=options):
                for row in batch.to_pylist():
                    yield line, row
                    line += 1 + sum(text.count("\n") for text in row.values() if text)
        except pa.ArrowInvalid as error:
            raise ValueRangeError(
                f"{self.path.name} cannot be read as CSV after line {line - 1}",
                found=str(error).splitlines()[0],
                remedy=UTF_8 if "invalid UTF8" in str(error) else "give each row as many columns as the header",
            ) from None

    def value(self, cell: Any, kind: pa.DataType) -> Any:
        """Return a text of a column of texts as it is, any other as JSON where it is, else as it is."""
        types = pa.types
        if cell is None or types.is_string(kind) or types.is_binary(kind) or types.is_temporal(kind):
            return cell
        if types.is_nested(kind) or types.is_boolean(kind):
            return json.loads(cell, parse_float=Decimal, object_pairs_hook=_once, parse_constant=str)
        return cell

    def _see(self, seen: Seen, value: Any, line: int, name: str) -> None:
        """Note a text. Whether all of a column are numbers is known at the end, so a text is no contradiction."""
        if value is None or seen.kind == pa.string():
            return
        parsed: Any = {"true": True, "false": False}.get(value, value)
        if WHOLE.fullmatch(value) and len(value) <= LONGEST and int(value) in LONGS and value != "-0":
            parsed = int(value)
        elif NUMBER.fullmatch(value):
            with suppress(InvalidOperation):  # an exponent that no number has
                parsed = Decimal(value)
        if seen.see(parsed) is not None:
            seen.kind = pa.string()


def expect_columns(rows: RowsOfFile, names: Sequence[str], option: str, path: Path) -> None:
    """Raise OptionError for names of an option that are no columns of a file."""
    for name in names:
        if name not in rows.schema.names:
            raise OptionError(
                f"{option} names {name!r}, which is not a column of {path.name}",
                found=", ".join(rows.schema.names),
                remedy=_separated(rows.schema.names) or did_you_mean(name, rows.schema.names),
            )


def _separated(columns: Sequence[str]) -> str | None:
    """Return what to do with a text whose header is one column, because other signs than commas separate it."""
    signs = {";": "semicolons", "\t": "tabs", "|": "bars"}
    sign = next((one for one in signs if len(columns) == 1 and one in columns[0]), None)
    return None if sign is None else f"save the file with commas between columns: it has {signs[sign]}"
