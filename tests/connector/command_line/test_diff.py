"""diff without Spark: the numbers and rows that `Savepoint.diff` gives, by the same comparison of bytes."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from pyspark_savepoint.api.local_savepoint import open_savepoint
from pyspark_savepoint.formats.errors import OptionError
from pyspark_savepoint.options.write_options import SavepointWriteOptions
from pyspark_savepoint.statebackends.writing.committer import commit
from pyspark_savepoint.statebackends.writing.write_task import write_rows
from pyspark_savepoint.write.in_place import plan_write
from tests.connector.command_line.conftest import Run


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Keys 0 to 99, and 1 to 100, in which key 7 has another value."""

    def written(keys: range, seven: int) -> Path:
        path = tmp_path_factory.mktemp("diff")
        table = pa.table({"key": list(keys), "total": [seven if key == 7 else key for key in keys]})
        given = {"path": str(path), "uid": "totals", "key": "key", "maxParallelism": "128"}
        plan = plan_write(SavepointWriteOptions.parse(given).request(False), table.schema)
        commit(plan, [write_rows(plan, 0, table.to_batches())])
        return path

    return written(range(100), 7), written(range(1, 101), 77)


def test_numbers(run: Run, pair: tuple[Path, Path]) -> None:
    done = run("diff", *pair, "--json")
    assert done.code == 1
    (record,) = done.records
    assert (record["table"], record["state"]) == ("keyed_state", "total")
    numbers = {name: record[name] for name in ("before", "after", "added", "removed", "changed")}
    assert numbers == {"before": 100, "after": 100, "added": 1, "removed": 1, "changed": 1}
    assert "1 of 1 states differ" in run("diff", *pair).out
    same = run("diff", pair[0], pair[0])
    assert (same.code, same.out) == (0, "0 of 1 states differ\n")


def test_rows(run: Run, pair: tuple[Path, Path]) -> None:
    done = run("diff", *pair, "totals", "total", "--json")
    assert done.code == 1
    rows = {row["key"]: (row["change"], row["total_before"], row["total_after"]) for row in done.records}
    assert rows == {0: ("removed", 0, None), 7: ("changed", 7, 77), 100: ("added", None, 100)}
    assert run("diff", pair[0], pair[0], "totals").code == 0
    assert run("diff", *pair, "totals", "--limit", 1).err == "... more rows: --limit 0 shows all\n"


def test_operators_of_one_side(run: Run, pair: tuple[Path, Path], shop: Path) -> None:
    done = run("diff", pair[0], shop, "--json")
    changes = {
        record["operator_uid"] or record["operator_uid_hash"]: record["operator_change"] for record in done.records
    }
    assert changes["accounts"] == "added"
    assert "removed" in changes.values()
    assert run("diff", shop, shop).code == 0


def test_what_is_not_there(run: Run, pair: tuple[Path, Path]) -> None:
    assert "neither snapshot has such an operator" in run("diff", *pair, "total").err
    assert "did you mean 'total'?" in run("diff", *pair, "totals", "totl").err


@pytest.fixture(scope="module")
def others(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two savepoints with list, broadcast and timers that differ in an element, an entry, and a timer each."""
    folder = tmp_path_factory.mktemp("others")
    tables = {
        "list": {"value": [[1, 1, 2], [1, 2, 3]]},
        "rules": {"key": [["a", "b"], ["b", "c"]], "value": [[1, 2], [20, 3]]},
        "timers": {"key": [[1, 2], [2, 3]], "timestamp": [[10, 20], [20, 30]], "domain": [["event"] * 2] * 2},
    }
    for side in (0, 1):
        for uid, columns in tables.items():
            table = pa.table({name: values[side] for name, values in columns.items()})
            given = {"path": str(folder / str(side)), "uid": uid}
            chosen = {"table": "timers", "key": "key"} if uid == "timers" else {"table": "operator_state", "state": uid}
            request = SavepointWriteOptions.parse({**given, **chosen, "maxParallelism": "128"}).request(False)
            plan = plan_write(request, table.schema)
            commit(plan, [write_rows(plan, 0, table.to_batches())])
    return folder / "0", folder / "1"


def test_rows_of_operator_state(run: Run, others: tuple[Path, Path]) -> None:
    done = run("diff", *others, "list", "--json")
    assert done.code == 1
    assert sorted((row["change"], row["value"], row["count"]) for row in done.records) == [
        ("added", 3, 1),
        ("removed", 1, 1),
    ]
    entries = run("diff", *others, "rules", "--json").records
    assert {row["key"]: (row["change"], row["value_before"], row["value_after"]) for row in entries} == {
        "a": ("removed", 1, None),
        "b": ("changed", 2, 20),
        "c": ("added", None, 3),
    }
    assert run("diff", others[0], others[0], "rules").code == 0


def test_a_limit_below_zero_is_refused_for_every_comparison(run: Run, others: tuple[Path, Path]) -> None:
    for operator in ((), ("timers",)):
        assert "--limit must be 0 or more" in run("diff", *others, *operator, "--limit", "-1").err


def test_rows_of_timers(run: Run, others: tuple[Path, Path]) -> None:
    done = run("diff", *others, "timers", "--json")
    assert done.code == 1
    assert {(row["change"], row["key"]) for row in done.records} == {("removed", 1), ("added", 3)}
    assert run("diff", others[1], others[1], "timers").code == 0


def test_tables_that_cannot_be_compared(run: Run, others: tuple[Path, Path]) -> None:
    assert "invalid choice: 'sizes' (choose from" in run("diff", *others, "timers", "--table", "sizes").err
    with pytest.raises(OptionError, match="table 'timer' cannot be compared"):
        open_savepoint(others[0]).diff(others[1], "timers", table="timer")
    assert "the operator has no timers" in run("diff", *others, "list", "--table", "timers").err
