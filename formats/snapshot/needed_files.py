"""Files that a snapshot needs, by its handles: none is opened.

======================  ==============================================================================================
folder                  what is in it
======================  ==============================================================================================
``own``                 files of this snapshot alone
``shared``              files of state that several checkpoints of a job have in common
``taskowned``           files that the job's tasks own, such as merged files
``outside``             files that are in none of these folders, such as those of the job that it was restored from
======================  ==============================================================================================

Flink: ``FsCheckpointStorageAccess``.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark_savepoint.formats.errors import SavepointError
from pyspark_savepoint.formats.io.byte_source import FileLocation
from pyspark_savepoint.formats.metadata import OperatorState, OperatorSubtaskState
from pyspark_savepoint.formats.metadata.stream_handles import (
    FileStateHandle,
    RelativeFileStateHandle,
    SegmentFileStateHandle,
    StreamStateHandle,
)
from pyspark_savepoint.formats.redaction import redact, redacted
from pyspark_savepoint.formats.snapshot.relocation import streams_of
from pyspark_savepoint.formats.snapshot.snapshot_location import (
    SHARED_STATE_DIRECTORY,
    TASK_OWNED_STATE_DIRECTORY,
    SnapshotLocation,
)

if TYPE_CHECKING:
    from pyspark_savepoint.formats.snapshot.savepoint import Snapshot

OWN, OUTSIDE = "own", "outside"
#: What a subtask's handles are of: the name in tables, and the field of ``OperatorSubtaskState``.
PARTS = (
    ("keyed_state", "managed_keyed_state"),
    ("operator_state", "managed_operator_state"),
    ("raw_keyed_state", "raw_keyed_state"),
    ("raw_operator_state", "raw_operator_state"),
    ("in_flight", "input_channel_state"),
    ("in_flight", "result_subpartition_state"),
)


@redacted
@dataclass(frozen=True, slots=True)
class NeededFile:
    """A file, or a segment of one: its path, where it is, and the bytes that are needed, None if not recorded.

    ``is_certain`` is false if the recorded path may lead elsewhere here: the snapshot may not open it.
    """

    path: str
    folder: str
    size: int | None
    is_certain: bool = True


def parts_of(operator: OperatorState) -> Iterator[tuple[int, str, tuple[str, ...], list[StreamStateHandle]]]:
    """Yield subtask, part, the names of its states as far as handles have them, and the handles of its streams."""
    for index in sorted(operator.subtasks):
        subtask = operator.subtasks[index]
        for part, name in PARTS:
            value = getattr(subtask, name)
            if value:
                alone = replace(operator, subtasks={index: OperatorSubtaskState(**{name: value})})
                states = tuple(state.name for state in getattr(value, "states", ())) if part == "operator_state" else ()
                yield index, part, states, list(streams_of(alone))


def needed_files(snapshot: Snapshot, handles: list[StreamStateHandle]) -> Iterator[NeededFile]:
    """Yield the files of some handles; inline state is in ``_metadata``."""
    location = replace(snapshot.location, checksums=None, checksums_required=False)
    for handle in handles:
        if not isinstance(handle, FileStateHandle | RelativeFileStateHandle | SegmentFileStateHandle):
            continue
        size = handle.size if handle.size >= 0 else None
        try:
            place = location.resolve(handle)
        except SavepointError:
            recorded = handle.relative_path if isinstance(handle, RelativeFileStateHandle) else handle.path
            yield NeededFile(redact(recorded), OUTSIDE, size, is_certain=False)
            continue
        if isinstance(place, FileLocation):
            yield NeededFile(redact(place.filesystem.uri(place.path)), _folder(location, place.path), size)


def _folder(location: SnapshotLocation, path: str) -> str:
    if posixpath.dirname(path) == location.directory.rstrip("/"):
        return OWN
    root = location.checkpoint_root
    if root is not None and path.startswith(root.rstrip("/") + "/"):
        first = path[len(root.rstrip("/")) + 1 :].partition("/")[0]
        if first in (SHARED_STATE_DIRECTORY, TASK_OWNED_STATE_DIRECTORY):
            return first
    return OUTSIDE
