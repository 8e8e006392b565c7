"""An overwrite keeps the compression of the operator's keyed state, unless option ``compression`` names another."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import pyspark_savepoint
from pyspark_savepoint.options.write_options import SavepointWriteOptions
from pyspark_savepoint.statebackends.writing.committer import commit
from pyspark_savepoint.statebackends.writing.write_task import write_rows
from pyspark_savepoint.write.in_place import plan_write


def written(path: Path, *, overwrite: bool = False, **options: str) -> bool:
    """Write an operator as a task of Spark does; return whether its files are compressed."""
    table = pa.table({"key": [1, 2], "total": [3, 4]})
    given = {"path": str(path), "uid": "totals", "key": "key", "maxParallelism": "128", **options}
    plan = plan_write(SavepointWriteOptions.parse(given).request(overwrite), table.schema)
    commit(plan, [write_rows(plan, 0, table.to_batches())])
    operator = pyspark_savepoint.open(path).plan.operator("totals")
    assert operator.base is not None
    (header,) = operator.base.opened.keyed.headers
    return header.compressed


@pytest.mark.parametrize("before", ["snappy", "none"])
@pytest.mark.parametrize("state", [{}, {"state": "total"}])
def test_an_overwrite_keeps_it(tmp_path: Path, before: str, state: dict[str, str]) -> None:
    assert written(tmp_path / "sp", compression=before) is (before == "snappy")
    assert written(tmp_path / "sp", overwrite=True, **state) is (before == "snappy")
    for other in ("none", "snappy"):
        assert written(tmp_path / "sp", overwrite=True, compression=other, **state) is (other == "snappy")
