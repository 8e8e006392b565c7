"""User keys of map states that Python's dicts or Arrow's maps cannot represent directly."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pyspark_savepoint.formats.errors import ValueRangeError
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.statebackends.processing.api.functions import (
    KeyedStateBootstrapFunction,
    KeyedStateReaderFunction,
)
from pyspark_savepoint.statebackends.processing.api.state_descriptors import MapStateDescriptor
from pyspark_savepoint.statebackends.processing.readers.keyed_reader import KeyedReaderPlan, KeyedReaderTask
from pyspark_savepoint.statebackends.processing.readers.reader_states import ReaderMapState, ReaderRows
from pyspark_savepoint.statebackends.requests.request import TableRequest
from pyspark_savepoint.statebackends.sources.open_operator import OpenOperator
from tests.statebackends.processing.tasks import plan_of, run_plan, written

BACKENDS = ["single_key", "heap", "rocksdb"]


class Puts(KeyedStateBootstrapFunction):
    """One user key, put, seen and counted."""

    def __init__(self, key_type: str, key: Any) -> None:
        self.key_type, self.key = key_type, key

    def open(self, ctx: Any) -> None:
        self.map = ctx.get_map_state(MapStateDescriptor("map", self.key_type, "LONG"))

    def process_element(self, value: Any, ctx: Any) -> None:
        self.map.put(self.key, len(self.map.items()) + (self.map.get(self.key) or 0))
        assert list(self.map.keys()) == [self.key]


class Gets(KeyedStateReaderFunction):
    def __init__(self, key: Any) -> None:
        self.key = key

    def open(self, ctx: Any) -> None:
        self.map = ctx.get_map_state("map")

    def read_key(self, key: str, ctx: Any) -> Any:
        return [self.map.get(self.key)]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("key_type", "key"),
    [
        ("LIST<LONG>", (1, 2)),
        ("ROW<id LONG, lines LIST<LIST<LONG>>>", (1, ((2, 3), ()))),
        ("TUPLE<LONG, STRING>", (1, "x")),
    ],
)
def test_lists_in_keys_are_tuples(backend: str, key_type: str, key: Any, tmp_path: Path) -> None:
    written(tmp_path / "sp", plan_of(Puts(key_type, key), backend), [("a", 1, 1), ("a", 2, 2), ("a", 3, 3)])
    savepoint, request = Snapshot.open(str(tmp_path / "sp")), TableRequest(str(tmp_path / "sp"), uid="uid")
    schema = pa.schema([("found", pa.int64())])
    plan = KeyedReaderPlan.of(Gets(key), schema, OpenOperator(savepoint, savepoint.operator(uid="uid")), request, 1)
    (batch,) = KeyedReaderTask(plan, 0).run()
    assert batch.to_pylist() == [{"found": 2}]


@pytest.mark.parametrize("backend", BACKENDS)
def test_no_key_is_none(backend: str) -> None:
    with pytest.raises(ValueRangeError, match=r"state 'map'.key cannot hold a value") as caught:
        run_plan(plan_of(Puts("STRING", None), backend), [("a", 1, 1)])
    assert (caught.value.facts["found"], caught.value.facts["key"]) == ("None (NoneType)", "'a'")


def test_readers_see_keys_that_are_null() -> None:
    # Flink may have written such: no MAP of Arrow holds them, so that the column is one of pairs.
    pair = pa.struct([("key", pa.int64()), ("value", pa.string())])
    column = pa.array([[{"key": None, "value": "n"}, {"key": 5, "value": "five"}], None], pa.list_(pair))
    rows = ReaderRows()
    rows.fill(pa.record_batch({"map": column}))
    state = ReaderMapState(rows, "map")
    assert (dict(state.items()), state.get(None), state.contains(5)) == ({None: "n", 5: "five"}, "n", True)
    rows.row = 1
    assert state.is_empty()
