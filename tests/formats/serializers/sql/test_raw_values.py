"""RAW types of SQL rows, as real jobs have them: their content is shown, and written byte for byte."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import pyspark_savepoint
from pyspark_savepoint.formats.columns import Cursors, DecodeOptions
from pyspark_savepoint.formats.serializers.base import TypeSerializer
from pyspark_savepoint.formats.serializers.notation.notation import parse_type
from pyspark_savepoint.formats.snapshot.savepoint import find_snapshots
from pyspark_savepoint.statebackends.requests.request import TableRequest
from pyspark_savepoint.statebackends.sources.open_operator import OPENED
from pyspark_savepoint.statebackends.types.type_names import spark_type
from tests.data import located

ACCUMULATORS = (
    ("migration/sql/agg-distinct/1.20.5-hashmap", "f000e34621d6f6632f7734996d1780ad", "accState"),
    ("sql/stream-exec-expand_1__expand", "eaed5eb4f7c21d1756a233804eba9ed6", "accState"),
    (
        "sql/stream-exec-group-aggregate_1__group-aggregate-udf-with-merge",
        "23342b8a06217adf29a41b2be437f0e9",
        "accState",
    ),
    ("sql/stream-exec-over-aggregate_1__over-aggregate-lag", "799fb6ac694d8d3e4d2d09aef49a559e", "accState"),
    (
        "sql/stream-exec-window-aggregate_1__window-aggregate-tumble-event-time",
        "3d17b56e44d4b31007e2ac302fac7b04",
        "window-aggs",
    ),
)


def values(folder: str, uid_hash: str, state: str) -> tuple[TypeSerializer, pa.Array, list[bytes]]:
    """The serializer of a state, its decoded values and its bytes."""
    path = find_snapshots(str(located(folder)))[0].path
    meta = OPENED.open(TableRequest(path, uid_hash=uid_hash)).keyed.metas()[state, False][0]
    savepoint, table = pyspark_savepoint.open(path), "keyed_state" if state == "accState" else "window_state"

    def column(**options: Any) -> pa.Array:
        return savepoint.table(table, uidHash=uid_hash, state=state, **options).to_arrow().column(state)

    return meta.value_serializer, column(timestamps="raw").combine_chunks(), column(raw=state).to_pylist()


@pytest.mark.parametrize(
    ("folder", "uid_hash", "state"),
    [pytest.param(*case, marks=[pytest.mark.resources] * case[0].startswith("sql/")) for case in ACCUMULATORS],
)
def test_values_are_written_as_they_were(folder: str, uid_hash: str, state: str) -> None:
    serializer, column, raw = values(folder, uid_hash, state)
    sizes = serializer.sizes(column)
    ends = np.cumsum(sizes)
    at = Cursors(np.zeros(int(ends[-1]), np.uint8), ends - sizes, ends)

    serializer.encode(column, at)

    assert len(raw) > 0
    assert [at.buffer[end - size : end].tobytes() for size, end in zip(sizes, ends, strict=True)] == raw


@pytest.mark.resources
def test_a_list_of_lag_is_its_elements() -> None:
    _, column, _ = values(*ACCUMULATORS[3])
    assert column.to_pylist() == [{"f0": {"offset": 1, "defaultValue": None, "buffer": [[(42.0, 42.0)]]}}]


def test_a_view_that_is_elsewhere_is_null() -> None:
    _, column, _ = values(*ACCUMULATORS[0])
    last = {"lastValue": 0, "lastOrder": -(2**63)}
    assert {"f0": 7, "f1": last, "f2": None} in column.to_pylist()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("VARIANT", "variant"),
        ("TUPLE<VARIANT, INT>", "struct<f0:variant,f1:int>"),
        ("MAP<VARIANT, INT>", "map<variant,int>"),
        ("MAP<TUPLE<VARIANT>, LIST<VARIANT>>", "map<struct<f0:variant>,array<variant>>"),
    ],
)
def test_a_variant_is_one_wherever_it_is(text: str, shown: str) -> None:
    assert spark_type(parse_type(text, (2, 3)).arrow_type(DecodeOptions())) == shown
