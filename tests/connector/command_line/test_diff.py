"""diff without Spark: the numbers and rows that `Savepoint.diff` gives, by the same comparison of bytes."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from pyspark_savepoint.options.write_options import SavepointWriteOptions
from pyspark_savepoint.statebackends.writing.commit.committer import commit
from pyspark_savepoint.statebackends.writing.commit.write_task import write_rows
from pyspark_savepoint.statebackends.writing.planning.write_plan import plan_write
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
