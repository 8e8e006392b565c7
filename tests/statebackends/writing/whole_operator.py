"""An operator with every kind of state that there is, for tests of what a change of one of them leaves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from pyspark_savepoint.formats.data_view import DataOutputView
from pyspark_savepoint.formats.metadata import OperatorState, write_metadata
from pyspark_savepoint.formats.metadata.key_groups import (
    KeyGroupRange,
    KeyGroupRangeOffsets,
    key_group_for_hash,
    range_for_operator_index,
)
from pyspark_savepoint.formats.metadata.keyed_handles import KeyGroupsStateHandle
from pyspark_savepoint.formats.metadata.operator_handles import (
    ChannelStateHandle,
    Mode,
    OperatorStreamStateHandle,
    StateMetaInfo,
)
from pyspark_savepoint.formats.metadata.stream_handles import ByteStreamStateHandle
from pyspark_savepoint.formats.serializers.base import write_versioned
from pyspark_savepoint.formats.serializers.notation.notation import parse_type
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.statebackends.rows.descriptors import NO_NAMESPACE
from pyspark_savepoint.statebackends.sources.raw_timers import MAGIC, VERSION
from tests.statebackends.writing.written_operators import read, write

KEYS, SUBTASKS, MAX_PARALLELISM = range(20), 2, 16
WINDOWS = pa.struct([("start", pa.timestamp("us", "UTC")), ("end", pa.timestamp("us", "UTC"))])
LISTS = ("pending", "offsets", "SourceReaderState")
#: Everything that the operator has.
PARTS = {
    "keyed_state x", "keyed_state y", "window_state w", "window_state v", "timers a", "timers b",
    *(f"operator_state {name}" for name in LISTS), "operator_state rates",
    "raw_keyed_state", "raw_operator_state", "coordinator_state", "in_flight",
}  # fmt: skip


def rows_for(table: str, state: str | None, value: int = -1) -> pa.Table:
    """Rows of a table, of the states that are named, or of the first one."""
    names = (state or {"keyed_state": "x", "window_state": "w", "timers": "a"}[table]).split(",")
    key = pa.array(KEYS, pa.int64())
    if table == "operator_state":
        values = pa.array([value, value - 1], pa.int64())
        return pa.table({"key": ["A", "B"], "value": values} if names == ["rates"] else {"value": values})
    if table == "timers":
        stamps = pa.array([value] * len(KEYS), pa.int64())
        services = [names[k % len(names)] for k in KEYS]
        return pa.table({"key": key, "timestamp": stamps, "domain": ["event"] * len(KEYS), "service": services})
    columns = {name: pa.array([value * k for k in KEYS], pa.int64()) for name in names}
    if table == "window_state":
        spans = pa.array([{"start": k * 1000, "end": k * 1000 + 60_000_000} for k in KEYS], WINDOWS)
        return pa.table({"key": key, "window": spans, **columns})
    return pa.table({"key": key, **columns})


def handle(name: str, index: int, data: bytes | None = None) -> ByteStreamStateHandle:
    """Bytes that only their owner reads."""
    return ByteStreamStateHandle(f"{name}-{index}", data or f"{name} of {index}".encode())


def raw_timers(services: tuple[str, ...], key_group: int) -> bytes:
    """One key group with a timer of each service, as RocksDB jobs with timers on the heap write it."""
    key = next(key for key in range(1000) if key_group_for_hash(key, MAX_PARALLELISM) == key_group)
    out = DataOutputView()
    out.write(MAGIC)
    out.write_i32(VERSION)
    out.write_i32(len(services))
    for service in services:
        out.write_utf(service)
        write_versioned(parse_type("LONG"), out)
        write_versioned(NO_NAMESPACE, out)
        for count in (1, 0):
            out.write_i32(count)
            for _ in range(count):
                out.write_i64(key)
                out.write_u8(0)
                out.write_i64(77)
    return out.getvalue()


def with_rest(path: Path, services: tuple[str, ...]) -> None:
    """Add to the operator what no DataFrame has the rows of."""
    savepoint = Snapshot.open(str(path))
    (operator,) = savepoint.operators
    subtasks = {}
    for index, subtask in operator.subtasks.items():
        groups = range_for_operator_index(MAX_PARALLELISM, SUBTASKS, index)
        offsets = KeyGroupRangeOffsets(groups, tuple(0 if g == groups.start else -1 for g in range_of(groups)))
        raw = raw_timers(services, groups.start) if services else None
        channels = ChannelStateHandle(index, (0, index), (0,), 9, handle("channel", index))
        subtasks[index] = replace(
            subtask,
            raw_keyed_state=KeyGroupsStateHandle(offsets, handle("keyed", index, raw), None),
            raw_operator_state=OperatorStreamStateHandle(
                (StateMetaInfo("_default_", Mode.SPLIT_DISTRIBUTE, (0,)),), handle("operator", index)
            ),
            input_channel_state=(channels,),
            result_subpartition_state=(channels,),
        )
    changed = replace(operator, subtasks=subtasks, coordinator_state=handle("coordinator", 0))
    (path / "_metadata").write_bytes(write_metadata(replace(savepoint.metadata, operators=(changed,))))


def range_of(groups: KeyGroupRange) -> range:
    return range(groups.start, groups.end + 1)


def written_base(path: Path, services: tuple[str, ...] = ()) -> Path:
    """An operator with every kind of state, in two subtasks."""
    numbers = {"max_parallelism": MAX_PARALLELISM, "parallelism": SUBTASKS}
    write(path, [rows_for("keyed_state", "x,y", 3)], **numbers)
    write(path, [rows_for("window_state", "w,v", 5)], table="window_state")
    write(path, [rows_for("timers", "a,b", 1000)], table="timers", state="a,b")
    for name, kind in zip((*LISTS, "rates"), ("list", "union", "list", "broadcast"), strict=True):
        write(path, [rows_for("operator_state", name, 7)], table="operator_state", state=name, kind=kind)
    with_rest(path, services)
    return path


def contents(path: Path) -> dict[str, Any]:
    """Every part of the operator that exists, with all that it has."""
    (operator,) = Snapshot.open(str(path)).operators
    found: dict[str, Any] = {}
    listed = {(row["table"], row["state"]) for row in read(path, table="states") if "state" in row}
    for table in ("keyed_state", "window_state"):
        names = sorted(name for where, name in listed if where == table)
        for row in read(path, table=table) if names else ():
            for name in names:
                where = (row["key"], str(row.get("window")))
                found.setdefault(f"{table} {name}", {})[where] = row.get(name)
    if any(where == "timers" for where, _ in listed):
        for row in read(path, table="timers"):
            found.setdefault(f"timers {row['service']}", []).append((row["key"], row["timestamp"], row["domain"]))
    for where, name in listed:
        if where == "operator_state":
            found[f"operator_state {name}"] = read(path, table=where, state=name)
    return {**found, **rest(operator)}


def rest(operator: OperatorState) -> dict[str, Any]:
    """The parts that are handles."""
    subtasks = operator.subtasks.items()
    raw_keyed = {index: subtask.raw_keyed_state for index, subtask in subtasks if subtask.raw_keyed_state}
    raw_operator = {index: subtask.raw_operator_state for index, subtask in subtasks if subtask.raw_operator_state}
    channels = {
        index: (subtask.input_channel_state, subtask.result_subpartition_state)
        for index, subtask in subtasks
        if subtask.input_channel_state
    }
    named = {
        "raw_keyed_state": raw_keyed,
        "raw_operator_state": raw_operator,
        "coordinator_state": operator.coordinator_state,
        "in_flight": channels,
    }
    return {name: value for name, value in named.items() if value}


def with_subtasks(path: Path, change: Callable[[Any], Any]) -> None:
    """Change what the subtasks of the operator have."""
    savepoint = Snapshot.open(str(path))
    (operator,) = savepoint.operators
    changed = replace(operator, subtasks={index: change(subtask) for index, subtask in operator.subtasks.items()})
    (path / "_metadata").write_bytes(write_metadata(replace(savepoint.metadata, operators=(changed,))))
