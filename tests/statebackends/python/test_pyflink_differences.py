"""Rows that differ of a real PyFlink job's operators."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from pyspark_savepoint.statebackends.open_table import open_table
from pyspark_savepoint.statebackends.requests.request import ComparisonRequest, TableRequest
from tests.statebackends.python.test_pyflink_job import STRING_KEYS, job  # noqa: F401 (a fixture)
from tests.statebackends.python.test_pyflink_writes import BYTES, copied, read, write  # noqa: F401 (a fixture)


def differences(before: str | None, after: str | None, *states: str) -> tuple[pa.Schema, list[dict[str, Any]]]:
    sides = [
        None
        if path is None
        else TableRequest(path, uid_hash=STRING_KEYS, table="keyed_state", py_types=BYTES, allow_outside=True)
        for path in (before, after)
    ]
    request = TableRequest(before or after or "", compared=ComparisonRequest((sides[0], sides[1]), states))
    table = open_table(request)
    return table.schema, [row for part in table.partitions(2) for batch in part.batches() for row in batch.to_pylist()]


def test_states_have_their_names_and_values(job: str, copied: str) -> None:  # noqa: F811
    rows = read(copied, STRING_KEYS, pyTypes=BYTES, state="v_long,v_string")
    first = rows.to_pylist()[0]
    changed = [row | {"v_long": -5} if row["key"] == first["key"] else row for row in rows.to_pylist()]
    write(
        copied, STRING_KEYS, pa.Table.from_pylist(changed, schema=rows.schema), pyTypes=BYTES, state="v_long,v_string"
    )

    schema, found = differences(job, copied, "v_long", "v_string")
    assert schema.names == [
        "key", "change", "changed_states", "v_long_before", "v_long_after", "v_string_before", "v_string_after",
    ]  # fmt: skip
    (row,) = found
    assert (row["key"], row["change"], row["changed_states"]) == (first["key"], "changed", ["v_long"])
    assert (row["v_long_before"], row["v_long_after"]) == (first["v_long"], -5)
    assert row["v_string_before"] == row["v_string_after"] == first["v_string"]


def test_an_operator_that_one_snapshot_lacks(job: str) -> None:  # noqa: F811
    schema, found = differences(job, None, "v_long")
    assert schema.names[-2:] == ["v_long_before", "v_long_after"]
    assert {row["change"] for row in found} == {"removed"}
    assert all(isinstance(row["v_long_before"], int) and row["v_long_after"] is None for row in found)
    assert found
