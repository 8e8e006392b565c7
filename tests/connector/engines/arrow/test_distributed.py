"""Rows that are distributed through files of this machine."""

from __future__ import annotations

import pyarrow as pa

from pyspark_savepoint.engines.arrow.local_engine import LocalEngine, LocalRows

GROUPS = 128


def test_a_subtask_gets_few_pieces_of_many_small_batches() -> None:
    """A piece of each batch for each subtask would be as many as both together: 25,600 here."""
    schema = pa.schema([("group", pa.int32()), ("number", pa.int64())])
    batches = [
        pa.record_batch([pa.array(range(GROUPS), pa.int32()), pa.array([number] * GROUPS, pa.int64())], schema=schema)
        for number in range(200)
    ]
    rows = LocalEngine().by_key_group(LocalRows(schema, (lambda: iter(batches),)), "group", "number", GROUPS, GROUPS)
    for number, part in enumerate(rows.parts):
        table = pa.Table.from_batches(part())
        assert table.column("group").num_chunks == 1
        assert table.column("group").to_pylist() == [number] * 200
        assert table.column("number").to_pylist() == list(range(200)), "in their order"
    assert rows.file_bytes is not None
    assert rows.file_bytes() > GROUPS * 200 * 12
