"""The table of the matrix: no cell is empty, and the table in the records covers all changes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.oracle.matrix.__main__ import lines
from tests.oracle.matrix.bases import BASES
from tests.oracle.matrix.cells import BOTH, NAMES, PORTABLE, REFERENCED, WIDE, Cell, Newest, Results, run
from tests.oracle.matrix.changes import CHANGES, change_of
from tests.oracle.matrix.table import BEGIN, END, RECORDS, columns, printed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def rows(table: str) -> list[list[str]]:
    """The cells of a table's rows, its heading among them."""
    lines = [line for line in table.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_no_cell_is_empty_and_errors_are_told_below() -> None:
    results: Results = {
        Cell(release, "RocksDB native", backend, "remove_keys").name: {"values": 70, "base of": "1.16.3"}
        for release in ("1.16.3", "1.17.2", "2.3.0")
        for backend in ("rocksdb", "hashmap")
    }
    refused = Cell("1.18.1", "RocksDB native", "rocksdb", "remove_keys")
    results[refused.name] = {"error": "StateMigrationException: no\nmore"}
    table = printed(results)
    heading, _, *changes = rows(table)
    by_name = {name: dict(zip(heading[1:], cells, strict=True)) for name, *cells in changes}
    assert list(by_name) == list(NAMES)
    assert by_name["remove_keys"]["RocksDB native, on rocksdb"] == "1.16-1.17, 2.3, not 1.18"
    assert by_name["remove_keys"]["RocksDB native, on hashmap"] == "1.16-1.17, 2.3"
    assert by_name[REFERENCED]["RocksDB native, on hashmap"] == "own files"
    assert all(cell for cells in by_name.values() for cell in cells.values())
    assert "6 cells were restored" in table
    assert "420 values compared, 1 cells were not restored. The bases were written by 1.16.3." in table
    assert "* RocksDB native on rocksdb, remove_keys:\n  StateMigrationException: no" in table


#: Changes that the whole matrix was not run with yet.
SINCE = ("rekey, type", "rekey, expression", "rekey, rows")


def test_the_table_in_readme_is_of_all_changes_and_bases() -> None:
    _, _, rest = RECORDS.read_text("utf-8").partition(BEGIN)
    heading, _, *changes = rows(rest.partition(END)[0])
    assert heading == ["change", *(f"{base}, on {backend}" for base, backend in columns())]
    measured = [name for name, *_ in changes]
    assert measured == [name for name in NAMES if name not in SINCE]
    # A change that came after the last run of the whole matrix has a line of its own, until that is run again.
    assert all(f"| {name} |" in rest.partition(END)[2] for name in SINCE)
    assert all(cell for cells in changes for cell in cells)
    assert len(BASES) * 2 == len(columns())


def test_operators_belong_to_the_longest_name_that_theirs_begins_with() -> None:
    uids = ["nothing", "nothing, operator state", "copy_operator, copy", "copy_operator, operator state, copy"]
    names = ["nothing", "nothing, operator state", "copy_operator", "copy_operator, operator state"]
    assert [change_of(uid) for uid in uids] == names
    assert all(change_of(uid) == change.name for change in CHANGES.values() for uid in change.uids)


def test_bases_are_those_of_the_newest_writer_that_is_no_newer() -> None:
    releases = ["2.3.0", "1.16.3", "2.0.2", "1.20.5"]
    assert lines(releases, ["1.16.3", "2.0.2"]) == {"1.16.3": ["1.16.3", "1.20.5"], "2.0.2": ["2.0.2", "2.3.0"]}
    assert lines(releases, []) == {release: [release] for release in releases}


@pytest.mark.flink
def test_both_engines_make_the_same_edits_and_flink_restores_them(
    spark: SparkSession, flink_version: str, tmp_path: Path
) -> None:
    """All edits in one savepoint, without Spark; Spark writes the same; all values that Flink finds are compared."""
    results: Results = {}
    newest = Newest(flink_version, tmp_path / "newest")
    names = [*CHANGES, WIDE, PORTABLE]
    for found in run(
        spark, flink_version, [flink_version], newest, tmp_path / "run", names, ["RocksDB canonical"], BOTH
    ):
        results |= found
    assert {name: result for name, result in results.items() if "error" in result} == {}
    assert len(results) == 2 * len(names)
