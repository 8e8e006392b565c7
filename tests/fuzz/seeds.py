"""What is damaged: every operator of the real snapshots as a snapshot of its own, with all its bytes in one file.

State streams are moved into ``_metadata``, so that a case is one small file that can be kept and read again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from pyspark_savepoint.formats.errors import SavepointError
from pyspark_savepoint.formats.io import snappy
from pyspark_savepoint.formats.metadata import CheckpointMetadata, OperatorState, OperatorSubtaskState
from pyspark_savepoint.formats.metadata.keyed_handles import (
    ChangelogStateBackendHandle,
    ChangelogStateHandleStreamImpl,
    IncrementalRemoteKeyedStateHandle,
    InMemoryChangelogStateHandle,
)
from pyspark_savepoint.formats.metadata.stream_handles import ByteStreamStateHandle
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from tests.data import every_metadata

ROOT = Path(__file__).parents[2]
SHIPPED = ROOT / "tests" / "oracle" / "savepoints"
SHOP = SHIPPED / "shop"
MANAGED = ("managed_operator_state", "managed_keyed_state", "raw_keyed_state", "raw_operator_state")
#: Larger operators only repeat what is in smaller ones.
MAX_STATE = 1 << 20


def snapshot_paths() -> list[Path]:
    """All real snapshots, in a fixed order."""
    return sorted(path.parent for path in [*every_metadata(), *SHIPPED.rglob("_metadata")])


def seeds_of(path: Path) -> Iterator[CheckpointMetadata]:
    """The operators of a snapshot, each alone, with their state inline."""
    savepoint = Snapshot.open(str(path))
    for operator in savepoint.operators:
        if operator.state_size > MAX_STATE:
            continue
        try:
            subtasks = {
                index: _inline_subtask(savepoint, operator, subtask) for index, subtask in operator.subtasks.items()
            }
        except SavepointError:
            continue  # files of other backends
        alone = replace(operator, subtasks=subtasks)
        yield replace(savepoint.metadata, operators=(alone,))


def _inline_subtask(savepoint: Snapshot, operator: OperatorState, subtask: OperatorSubtaskState) -> Any:
    inlined = {}
    for name in MANAGED:
        handle: Any = getattr(subtask, name)
        if handle is not None:
            inlined[name] = _inlined(savepoint, operator, handle)
    return replace(subtask, **inlined)


def _inlined(savepoint: Snapshot, operator: OperatorState, handle: Any) -> Any:
    """A handle of any kind, its bytes in it."""

    def inline(stream: Any) -> ByteStreamStateHandle:
        with savepoint.open_state(stream, operator) as source:
            return ByteStreamStateHandle("state", source.read(0, source.size))

    def part(each: Any) -> Any:
        return _inlined(savepoint, operator, each)

    match handle:
        case IncrementalRemoteKeyedStateHandle():
            shared, private = (
                tuple(replace(file, handle=inline(file.handle)) for file in files)
                for files in (handle.shared_state, handle.private_state)
            )
            return replace(handle, meta_state=inline(handle.meta_state), shared_state=shared, private_state=private)
        case ChangelogStateBackendHandle():
            parts, changes = (tuple(map(part, each)) for each in (handle.materialized, handle.non_materialized))
            return replace(handle, materialized=parts, non_materialized=changes)
        case ChangelogStateHandleStreamImpl():
            streams = tuple(replace(each, handle=_plain(inline(each.handle))) for each in handle.handles_and_offsets)
            return replace(handle, handles_and_offsets=streams)
        case InMemoryChangelogStateHandle():
            return handle
    return replace(handle, delegate=inline(handle.delegate))


def _plain(handle: ByteStreamStateHandle) -> ByteStreamStateHandle:
    """A file of changes without compression, whose checksums would notice all damage before the changes are met."""
    if handle.data[:1] != b"\1":
        return handle
    content = snappy.decompress(memoryview(handle.data)[1:], "a changelog", 1)
    return replace(handle, data=b"\0" + content.tobytes())
