"""Bootstrap tasks without Spark: records in, decoded entries out."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from pyspark_savepoint.formats.columns import Cursors, DecodeOptions
from pyspark_savepoint.formats.serializers.base import TypeSerializer
from pyspark_savepoint.formats.serializers.notation.notation import parse_type
from pyspark_savepoint.formats.snapshot.publication import Staging
from pyspark_savepoint.statebackends.processing.api.state import ObjectReuseMode
from pyspark_savepoint.statebackends.processing.operators.bootstrap import BootstrapPlan, BootstrapTask
from pyspark_savepoint.statebackends.processing.operators.records import RecordOrder
from pyspark_savepoint.statebackends.rows.descriptors import KeyedDescriptor, StateDescriptor, StateKind
from pyspark_savepoint.statebackends.rows.entry_bytes import ENTRIES
from pyspark_savepoint.statebackends.writing.committer import commit
from pyspark_savepoint.statebackends.writing.planning.planned_write import PartOfWrite
from pyspark_savepoint.statebackends.writing.planning.write_request import WriteSpec
from pyspark_savepoint.statebackends.writing.write_task import write_rows

RAW = DecodeOptions(timestamps="raw")
COLUMNS = ("key", "amount", "ts")
ARRIVED = RecordOrder(sort=False, timestamp="ts")
SORTED = RecordOrder(timestamp="ts")


def plan_of(
    function: Any, backend: str = "single_key", order: RecordOrder = SORTED, key: str = "STRING", **more: Any
) -> BootstrapPlan:
    """A plan for records of key, amount and ts."""
    described = KeyedDescriptor(("key",), parse_type(key), ())
    columns = more.pop("columns", COLUMNS)
    return BootstrapPlan(function, described, columns, 16, order, backend, **more).describe()


def batches_of(records: Sequence[tuple[Any, int, int]], size: int = 3) -> Iterator[pa.RecordBatch]:
    """Batches of a few records."""
    kind = pa.string() if not records or isinstance(records[0][0], str) else pa.int64()
    schema = pa.schema([("key", kind), ("amount", pa.int64()), ("ts", pa.int64())])
    for low in range(0, len(records), size):
        columns = zip(*records[low : low + size], strict=True)
        yield pa.RecordBatch.from_arrays(
            [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)], schema=schema
        )


def run_plan(plan: BootstrapPlan, records: Sequence[tuple[Any, int, int]]) -> list[tuple[Any, ...]]:
    """Entries, sorted: (state number, key group, key, value)."""
    entries = []
    for batch in BootstrapTask(plan, 0).run(batches_of(records)):
        entries += list(zip(*(column.to_pylist() for column in batch.columns), strict=True))
    return sorted(entries)


def states_after(plan: BootstrapPlan, records: Sequence[tuple[Any, int, int]]) -> dict[str, dict[Any, Any]]:
    """What every state has: by key, or by key and window (start, end); of timers the sorted times."""
    assert plan.states is not None
    found: dict[str, dict[Any, Any]] = {state.name: {} for state in plan.states}
    for number, _, key, value in run_plan(plan, records):
        state = plan.states[number]
        _add(found[state.name], state, plan.key.key_serializer, key, value)
    return found


def _add(found: dict[Any, Any], state: StateDescriptor, key: TypeSerializer, data: bytes, value: bytes) -> None:
    at = Cursors.over([data], options=RAW)
    if state.kind is StateKind.TIMER:
        (time,) = struct.unpack(">Q", data[:8])
        at.position += 8
    place: Any = key.decode(at)[0].as_py()
    namespace = state.namespace.decode(at)[0].as_py()
    if namespace is not None:
        place = (place, namespace["start"], namespace["end"])
    if state.kind is StateKind.TIMER:
        at.expect_end()
        found[place] = sorted([*found.get(place, []), time - (1 << 63)])
    elif state.kind is StateKind.LIST:
        found[place] = _elements(state, value)
    elif state.kind is StateKind.MAP:
        user_key, user_value = state.units
        name = user_key.decode(at)[0].as_py()
        content = None if value == b"\1" else _decoded(user_value, value[1:])
        assert name not in found.setdefault(place, {})
        found[place][name] = content
    else:
        assert place not in found
        found[place] = _decoded(state.units[0], value)


def _decoded(serializer: TypeSerializer, value: bytes) -> Any:
    at = Cursors.over([value], options=replace(RAW, ttl=True))
    column = serializer.decode(at)
    at.expect_end()
    return column[0].as_py()


def _elements(state: StateDescriptor, value: bytes) -> list[Any]:
    at = Cursors.over([value], options=replace(RAW, ttl=True))
    elements = []
    while True:
        elements.append(state.units[0].decode(at)[0].as_py())
        if int(at.position[0]) == len(value):
            return elements
        assert value[int(at.position[0])] == ord(",")
        at.position += 1


MODES = list(ObjectReuseMode)


def written(path: Path, plan: BootstrapPlan, records: Sequence[tuple[Any, int, int]]) -> None:
    """A savepoint with operator ``uid``, as a task and the commit write it."""
    spec = WriteSpec(uid="uid", table="entries", max_parallelism=plan.max_parallelism)
    part = PartOfWrite(Staging.at(str(path)), str(path), spec, None, 3, plan.descriptor.header())
    write = part.plan(ENTRIES, None)
    commit(write, [write_rows(write, 0, BootstrapTask(plan, 0).run(batches_of(records)))])
