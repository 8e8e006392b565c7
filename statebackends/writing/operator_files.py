"""Operator state files of every subtask, from the rows of tasks and the existing state to keep.

    list, union   elements in the order of the partitions, handed out in runs of ``total // n``, the first
                  ``total % n`` subtasks one more
    broadcast     all entries for every subtask
    kept          every other state of the operator, as each subtask has it, byte for byte
    elements      all states that a function created in one task: that task's subtask has them

A subtask has one file for all of its operator state. Flink: ``DefaultOperatorStateBackendSnapshotStrategy``,
``RoundRobinOperatorStateRepartitioner``, ``PartitionableListState``, ``HeapBroadcastState``.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from pyspark_savepoint.formats.columns import Bytes, Cursors, Longs, binary_parts
from pyspark_savepoint.formats.errors import CorruptStateError, DuplicateKeyError, SavepointError
from pyspark_savepoint.formats.io.byte_source import FileLocation
from pyspark_savepoint.formats.keyed.canonical_writer import read_only
from pyspark_savepoint.formats.keyed.meta_info import BackendStateType, OperatorBackendHeader
from pyspark_savepoint.formats.keyed.operator_streams import OperatorStreamWriter
from pyspark_savepoint.formats.metadata import OperatorState, OperatorSubtaskState
from pyspark_savepoint.formats.metadata.operator_handles import OperatorStreamStateHandle, StateMetaInfo
from pyspark_savepoint.formats.metadata.stream_handles import RelativeFileStateHandle
from pyspark_savepoint.statebackends.rows.descriptors import OperatorStateDescriptor
from pyspark_savepoint.statebackends.rows.sorting import order_within
from pyspark_savepoint.statebackends.rows.state_entries import encode_column
from pyspark_savepoint.statebackends.sources.operator_sources import OperatorSource, operator_sources
from pyspark_savepoint.statebackends.writing.operator_edit import VERSION, OperatorPart, write_operator_state
from pyspark_savepoint.statebackends.writing.planning.exact_casts import conform_column, form_of
from pyspark_savepoint.statebackends.writing.task_outputs import read_elements, write_elements

if TYPE_CHECKING:
    from pyspark_savepoint.formats.io.snapshot_files import OutputFile
    from pyspark_savepoint.formats.serializers.base import TypeSerializer
    from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
    from pyspark_savepoint.statebackends.writing.planning.planned_write import WritePlan


def add_elements(descriptor: OperatorStateDescriptor, column: pa.Array, writer: OperatorStreamWriter) -> None:
    """Append elements of a list or union state from a column of the element's Arrow type."""
    try:
        buffer, start, end = encode_column(descriptor.element, column)
    except SavepointError as error:
        raise error.with_facts(state=descriptor.name) from None
    writer.add_list(descriptor.name, buffer, np.concatenate([start, end[-1:]]))


def add_entries(
    descriptor: OperatorStateDescriptor, batches: Sequence[tuple[pa.Array, pa.Array]], writer: OperatorStreamWriter
) -> None:
    """Write a whole broadcast state from columns of its keys and values; raise an error for equal keys."""
    if not sum(len(key) for key, _ in batches):
        writer.add_broadcast(descriptor.name, 0, np.zeros(0, np.uint8))
        return
    keys = pa.concat_arrays([key for key, _ in batches])
    values = pa.concat_arrays([value for _, value in batches])
    writer.add_broadcast(descriptor.name, len(keys), serialized_entries(descriptor, keys, values)[0])


def serialized_entries(descriptor: OperatorStateDescriptor, keys: pa.Array, values: pa.Array) -> tuple[Bytes, Longs]:
    """Return all entries of a broadcast state, one after the other, and their ends; raise an error for equal keys."""
    assert descriptor.key is not None
    try:
        sizes = descriptor.key.sizes(keys) + descriptor.element.sizes(values)
        end = np.cumsum(sizes)
        start = end - sizes
        at = Cursors(np.empty(int(end[-1]), np.uint8), start.copy(), end)
        descriptor.key.encode(keys, at)
        key_end = at.position.copy()
        descriptor.element.encode(values, at)
        at.expect_end()
    except SavepointError as error:
        raise error.with_facts(state=descriptor.name) from None
    repeated = _repeated(at.buffer, start, key_end)
    if repeated is not None:
        raise DuplicateKeyError(
            "a broadcast state has more than one value for a key",
            state=descriptor.name,
            expected="every key once",
            found=f"key {keys[repeated].as_py()!r} again",
            remedy="one row per key: aggregate, or drop duplicates before writing",
        )
    return at.buffer, end


def _repeated(buffer: Bytes, start: Longs, end: Longs) -> int | None:
    """Return a row whose key has the same bytes as another row's."""
    from pyspark_savepoint.formats.kernels import keys

    order = order_within(np.array([0, len(start)], np.int64), buffer, start, end)
    repeated = keys.first_repeated_span(np.zeros(len(order), np.int32), read_only(buffer), start[order], end[order])
    return int(order[repeated]) if repeated >= 0 else None


def write_element_rows(plan: WritePlan, batches: Iterable[pa.RecordBatch]) -> tuple[str, int]:
    """Write the rows of one partition for the commit; return the file name and the number of rows."""
    columns = _columns(plan)
    schema = pa.schema(
        [pa.field(name, form_of(plan.schema.field(name).type, kind, name)) for name, kind in columns.items()]
    )
    conformed = (
        pa.record_batch(
            [conform_column(batch.column(name), kind, name) for name, kind in columns.items()], schema=schema
        )
        for batch in batches
    )
    name = plan.staging.unique("elements")
    return name, write_elements(plan.staging, name, schema, conformed)


def write_subtask_elements(
    plan: WritePlan, subtask: int, batches: Iterable[pa.RecordBatch]
) -> tuple[OperatorStreamStateHandle, int]:
    """Write the file of a subtask from rows of table ``elements``, which come state by state; count the rows."""
    header = plan.request.header
    assert isinstance(header, OperatorBackendHeader)
    count = 0
    name = plan.staging.unique(f"{subtask}o")
    file = plan.staging.create_state(name)
    try:
        writer = OperatorStreamWriter(file, header)
        entries: dict[str, list[bytes]] = {}
        for batch in batches:
            count += batch.num_rows
            numbers = np.asarray(batch.column(0), np.int32)
            bounds = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(numbers)]
            for low, high in pairwise(bounds if len(numbers) else []):
                state, part = header.states[numbers[low]], batch.column(1).slice(low, high - low)
                if state.kind is BackendStateType.BROADCAST:
                    entries.setdefault(state.name, []).extend(part.to_pylist())
                else:
                    offsets, data = binary_parts(part)
                    writer.add_list(state.name, data, offsets)
        for broadcast, encoded in entries.items():
            writer.add_broadcast(broadcast, len(encoded), np.frombuffer(b"".join(encoded), np.uint8))
        states = tuple(writer.finish().values())
        file.close()
    finally:
        file.abort()
    handle = OperatorStreamStateHandle(states, RelativeFileStateHandle(name, file.size))
    _read_back(plan, handle)
    return handle, count


def assemble_subtasks(plan: WritePlan, handles: Sequence[OperatorStreamStateHandle]) -> OperatorState:
    """Return the operator with the files that the tasks wrote, one for each subtask; without tasks, an empty one."""
    files = handles or [write_subtask_elements(plan, 0, ())[0]]
    subtasks = {i: OperatorSubtaskState(managed_operator_state=handle) for i, handle in enumerate(files)}
    return plan.operator(len(files), subtasks)


def _descriptor(plan: WritePlan) -> OperatorStateDescriptor:
    assert isinstance(plan.descriptor, OperatorStateDescriptor)
    return plan.descriptor


def _columns(plan: WritePlan) -> Mapping[str, TypeSerializer]:
    """Return the columns of the state with their serializers."""
    descriptor = _descriptor(plan)
    serializers = [descriptor.element] if descriptor.key is None else [descriptor.key, descriptor.element]
    return dict(zip(descriptor.columns, serializers, strict=True))


def assemble_operator_state(
    plan: WritePlan, base: Snapshot | None, existing: OperatorState | None, elements: Sequence[tuple[str, int]]
) -> OperatorState:
    """Return the operator with a file of operator state for every subtask, from the tasks' files in order."""
    assert plan.parallelism is not None
    total = sum(count for _, count in elements)
    rows = _Elements(itertools.chain.from_iterable(read_elements(plan.staging, name) for name, _ in elements))
    whole = list(rows.next(total)) if _descriptor(plan).key is not None else []
    kept = {source.subtask: source for source in operator_sources(base, existing)} if base and existing else {}
    share, rest = divmod(total, plan.parallelism)
    subtasks = {}
    for subtask in range(plan.parallelism):
        mine = whole if whole else rows.next(share + (subtask < rest))
        handle = _write_subtask(plan, subtask, mine, kept.get(subtask))
        subtasks[subtask] = OperatorSubtaskState(managed_operator_state=handle)
    return plan.operator(plan.parallelism, subtasks)


class _Elements:
    """Rows in order, taken some at a time."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self.batches = batches
        self.rest: pa.RecordBatch | None = None

    def next(self, count: int) -> Iterator[pa.RecordBatch]:
        """Yield the next ``count`` rows."""
        while count:
            batch = self.rest if self.rest is not None else next(self.batches)
            first_rows = batch.slice(0, count)
            self.rest = batch.slice(count) if batch.num_rows > count else None
            count -= first_rows.num_rows
            yield first_rows


def _write_subtask(
    plan: WritePlan, subtask: int, rows: Iterable[pa.RecordBatch], kept: OperatorSource | None
) -> OperatorStreamStateHandle:
    """Write one subtask's file: the new state, and the subtask's states to keep."""
    descriptor = _descriptor(plan)
    rest = _others(kept, None if plan.updates else descriptor.name) if kept is not None else None
    name = plan.staging.unique(f"{subtask}o")
    file = plan.staging.create_state(name)
    try:
        states = tuple(_write_state(descriptor, rows, file).values())
        file.close()
    finally:
        file.abort()
    handle = OperatorStreamStateHandle(states, RelativeFileStateHandle(name, file.size))
    if rest is not None and rest.names:
        handle = _with_existing_states(plan, subtask, handle, rest)
    _read_back(plan, handle)
    return handle


def _others(source: OperatorSource, written: str | None) -> OperatorPart:
    """Return the states of a stream other than the one that is written; None for all, over which it is laid."""
    header = source.header()
    names = sorted({meta.name for meta in header.states} - {written})
    return OperatorPart(source, {name: name for name in names}, header)


def _write_state(
    descriptor: OperatorStateDescriptor, rows: Iterable[pa.RecordBatch], file: OutputFile
) -> dict[str, StateMetaInfo]:
    meta = descriptor.meta_info()
    is_list = meta.kind is BackendStateType.OPERATOR
    header = OperatorBackendHeader(VERSION, False, (meta,) if is_list else (), () if is_list else (meta,))
    writer = OperatorStreamWriter(file, header)
    if is_list:
        for batch in rows:
            add_elements(descriptor, batch.column(0), writer)
    else:
        add_entries(descriptor, [(batch.column(0), batch.column(1)) for batch in rows], writer)
    return writer.finish()


def _with_existing_states(
    plan: WritePlan, subtask: int, written: OperatorStreamStateHandle, kept: OperatorPart
) -> OperatorStreamStateHandle:
    """Combine new and kept states in one file, and delete the file of the new state alone."""
    source = _source(plan, written, subtask)
    part = OperatorPart.of(source, {state.name: state.name for state in written.states}, updates=plan.updates)
    name = plan.staging.unique(f"{subtask}o")
    file = plan.staging.create_state(name)
    try:
        states = write_operator_state([kept, part], file)
        file.close()
    finally:
        file.abort()
    assert isinstance(written.delegate, RelativeFileStateHandle)
    plan.staging.filesystem.delete_file(plan.staging.state_path(written.delegate.relative_path))
    return OperatorStreamStateHandle(states, RelativeFileStateHandle(name, file.size))


def _source(plan: WritePlan, handle: OperatorStreamStateHandle, subtask: int) -> OperatorSource:
    """Return a written file as a source to read."""
    assert isinstance(handle.delegate, RelativeFileStateHandle)
    path = plan.staging.state_path(handle.delegate.relative_path)
    location = FileLocation(plan.staging.filesystem, path, None, handle.delegate.size)
    return OperatorSource(location, handle.states, subtask, plan.label)


def _read_back(plan: WritePlan, handle: OperatorStreamStateHandle) -> None:
    """Read a file's header, and check that all states are present with their element offsets inside the file.

    Files of object stores need no other proof: their bytes were compared when they were closed.
    """
    if not plan.staging.filesystem.renames:
        return
    source = _source(plan, handle, 0)
    header = source.header()
    expected = sorted(state.name for state in handle.states)
    names = sorted(meta.name for meta in header.states)
    assert isinstance(handle.delegate, RelativeFileStateHandle)
    inside = all(
        header.size <= min(state.offsets) and max(state.offsets) <= handle.delegate.size
        for state in handle.states
        if state.offsets
    )
    if names != expected or not inside:
        raise CorruptStateError(
            "a file does not contain what was written to it",
            path=source.location.path if isinstance(source.location, FileLocation) else None,
            operator=plan.label,
            expected=", ".join(expected),
            found=", ".join(names),
            remedy="nothing was published; the disk or file system is faulty: write to another one",
        )
