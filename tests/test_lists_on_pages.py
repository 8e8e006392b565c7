"""Lists and tables on pages that the code knows have what the code has, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path

from pyspark.sql.pandas.types import from_arrow_type

from pyspark_savepoint import LocalSavepoint, Savepoint
from pyspark_savepoint import __all__ as public_names
from pyspark_savepoint.command_line.commands import COMMANDS
from pyspark_savepoint.command_line.main import DONE, FAILED, INTERRUPTED, PIPE_CLOSED
from pyspark_savepoint.formats.columns import DecodeOptions
from pyspark_savepoint.formats.filesystems.storage_options import storage_options_table
from pyspark_savepoint.formats.serializers.notation.notation import NEWEST_VERSION, parse_type
from pyspark_savepoint.options.option_fields import named
from pyspark_savepoint.options.options import DROP_CARRYOVERS, NET_CHANGES, NO_DEDUPLICATION, SavepointReadOptions
from pyspark_savepoint.options.write_options import SavepointWriteOptions
from pyspark_savepoint.statebackends.evolution import changes
from pyspark_savepoint.statebackends.jobs.restore import restore_verdicts
from pyspark_savepoint.statebackends.requests.applicability import TABLES

ROOT = Path(__file__).parents[1]
COMMAND_LINE = "connector/command_line/README.md"


def first_cells(page: str, heading: str) -> list[str]:
    """The first cells of the table whose head is a row, on a page."""
    text = (ROOT / page).read_text("utf-8")
    found = re.search(rf"^{re.escape(heading)}\n\|[-| ]+\|\n((?:\|.*\n)+)", text, re.MULTILINE)
    assert found, f"{page} has no table {heading}"
    return [row.split(" | ")[0].removeprefix("| ") for row in found[1].splitlines()]


def in_quotes(cells: list[str]) -> set[str]:
    """The names in backquotes of cells."""
    return {name for cell in cells for name in re.findall(r"`([^`]+)`", cell)}


#: Flink's types of rows of the table of types, by the first cell.
TYPES = {
    "CHAR, enum": ("CHAR", "ENUM<com.shop.Color>(RED, GREEN)"),
    "`byte[]`": ("PRIMITIVE_ARRAY<BYTE>",),
    "other arrays, lists, sets": ("PRIMITIVE_ARRAY<INT>", "OBJECT_ARRAY<LONG>", "LIST<LONG>", "SET<LONG>"),
    "maps": ("MAP<STRING, LONG>",),
    "BigInteger": ("BIG_INTEGER",),
    "BigDecimal": ("BIG_DECIMAL",),
    "Date, java.sql.Date, Timestamp, Instant": ("DATE", "SQL_DATE", "SQL_TIMESTAMP", "INSTANT"),
    "LocalDate": ("LOCAL_DATE",),
    "LocalDateTime": ("LOCAL_DATE_TIME",),
    "LocalTime": ("LOCAL_TIME",),
    "java.sql.Time": ("SQL_TIME",),
    "tuples, Row, case classes, SQL rows": ("TUPLE<LONG, STRING>", "ROW<STRING, LONG>", "ROWDATA<id BIGINT>"),
    "POJO, Java records": ("POJO<com.shop.Order>(id LONG)",),
    "Either": ("EITHER<LONG, STRING>",),
    "windows": ("TIME_WINDOW",),
}


def test_types_of_reads() -> None:
    """The second cell of each row begins with the Spark type of its types."""
    text = (ROOT / "formats/README.md").read_text("utf-8")
    for cell, types in TYPES.items():
        found = re.search(rf"^\| {re.escape(cell)} \| ([A-Z_]+)", text, re.MULTILINE)
        assert found, f"formats/README.md has no row {cell}"
        for name in types:
            kind = parse_type(name, NEWEST_VERSION).arrow_type(DecodeOptions())
            spark = from_arrow_type(kind, prefer_timestamp_ntz=True).simpleString()
            assert re.split(r"\W", spark)[0].upper() == found[1], f"{cell}: {name} is {spark}"


def test_tables() -> None:
    assert in_quotes(first_cells("connector/README.md", "| table | rows | columns |")) - {"uid"} == set(TABLES)


def test_modes_of_changes() -> None:
    cells = first_cells("connector/README.md", "| `deduplicationMode` | rows |")
    assert in_quotes(cells) == {DROP_CARRYOVERS, NO_DEDUPLICATION, NET_CHANGES}


def test_verdicts() -> None:
    of_restores = first_cells("connector/guide/check-in-ci.md", "| verdict | meaning |")
    assert in_quotes(of_restores) == {verdict.value for verdict in restore_verdicts.Verdict}
    of_queries = first_cells("connector/guide/change-a-sql-job.md", "| verdict | what becomes of the state |")
    assert {word for cell in of_queries for word in cell.split(", ")} == {one.value for one in changes.Verdict}


def test_exit_codes() -> None:
    cells = first_cells(COMMAND_LINE, "| exit code | meaning |")
    assert {int(cell) for cell in cells} == {DONE, 1, FAILED, 3, INTERRUPTED, PIPE_CLOSED}


def test_the_changelog_names_what_there_is() -> None:
    named_there = re.findall(r"`([A-Za-z_-]+)`", (ROOT / "CHANGELOG.md").read_text("utf-8"))
    known = (
        {command.name for command in COMMANDS} | set(public_names) | {"open"} | {*dir(Savepoint), *dir(LocalSavepoint)}
    )
    known |= {name for options in (SavepointReadOptions, SavepointWriteOptions) for name, _ in named(options)}
    known |= in_quotes(storage_options_table().splitlines())
    assert set(named_there) - known == {"pyspark-savepoint", "readStream", "_metadata", "pytest", "where"}
