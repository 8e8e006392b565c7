"""Windows with an evictor: their elements are values with a timestamp, and the rest on request."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import pyspark_savepoint
from pyspark_savepoint.api.local_savepoint import LocalSavepoint
from pyspark_savepoint.formats.columns import DecodeOptions
from pyspark_savepoint.formats.errors import OptionError
from pyspark_savepoint.formats.serializers.notation.notation import parse_type
from pyspark_savepoint.statebackends.rows.state_entries import encode_column
from pyspark_savepoint.statebackends.writing.planning.exact_casts import conform_column

EVICTING, OTHER = "f7b43fa0d92e9ecc5f5dea00de143f0a", "778d13539f97dfd5edf85f94dbe3dd7f"
FIELDS = ["kind", "timestamp", "value", "operator_id", "index", "status", "is_backlog"]


@pytest.fixture
def ops(corpus: Path) -> LocalSavepoint:
    return pyspark_savepoint.open(str(corpus / "real" / "ops-120" / "sp" / "savepoint-aa7dbf-00f6b2bc5fbb"))


def elements(table: pa.Table) -> pa.ChunkedArray:
    return table.column("window-contents")


def test_elements_are_values_with_a_timestamp(ops: LocalSavepoint) -> None:
    plain = elements(ops.table("window_state", uidHash=EVICTING).to_arrow())
    whole = elements(ops.table("window_state", uidHash=EVICTING, includeInternal="true").to_arrow())
    assert [field.name for field in plain.type.value_type] == ["value", "timestamp"]
    assert [field.name for field in whole.type.value_type] == FIELDS
    assert plain.to_pylist() == [
        [{"value": each["value"], "timestamp": each["timestamp"]} for each in row] for row in whole.to_pylist()
    ]
    assert {each["kind"] for row in whole.to_pylist() for each in row} == {"record"}
    flat = ops.table("window_state", uidHash=EVICTING, flatten="true").to_arrow()
    assert flat.column("list_value").type.equals(plain.type.value_type)
    assert len(flat) == sum(len(row) for row in plain.to_pylist())


def test_both_forms_are_written(ops: LocalSavepoint) -> None:
    serializer = parse_type("STREAM_ELEMENT<POJO<rd.OpsJob$Ev>(amount DOUBLE, id LONG, kind INT, user STRING)>")
    written = []
    for more in ({}, {"includeInternal": "true"}):
        column = elements(ops.table("window_state", uidHash=EVICTING, **more).to_arrow()).combine_chunks().flatten()
        buffer, *_ = encode_column(serializer, conform_column(column, serializer, "window-contents"))
        written.append(buffer.tobytes())
    assert written[0] == written[1]
    without = pa.array([{"timestamp": None, "value": 6}], parse_type("STREAM_ELEMENT<LONG>").arrow_type(
        DecodeOptions(internal=False)))  # fmt: skip
    buffer, *_ = encode_column(parse_type("STREAM_ELEMENT<LONG>"), without)
    assert buffer.tobytes() == b"\1" + (6).to_bytes(8, "big")


def test_other_tables_stay_whole(ops: LocalSavepoint) -> None:
    queue = ops.table("operator_state", uidHash="a3a6792d994048c26f47a89176453bf7", state="_async_wait_operator_state_")
    assert [field.name for field in queue.schema.field("value").type] == FIELDS
    with pytest.raises(OptionError, match="includeInternal"):
        ops.table("keyed_state", uidHash=OTHER, includeInternal="true")
