"""Metadata of a snapshot assembled from operators of others: identifiers, changed state, metadata version.

This module does not read state. Flink: ``SavepointWriter``, ``SavepointMetadataV2``.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark_savepoint.formats.errors import (
    SavepointWarning,
    StateExistsError,
    UnsupportedStateError,
    UnsupportedVersionError,
)
from pyspark_savepoint.formats.flink_releases import RELEASES, Flink, release_of
from pyspark_savepoint.formats.metadata import (
    NULL_PROPERTIES,
    VERSIONS,
    CheckpointMetadata,
    MasterState,
    OperatorState,
    OperatorSubtaskState,
    SnapshotKind,
    as_canonical,
    snapshot_kind,
)
from pyspark_savepoint.formats.metadata.keyed_handles import KeyedStateHandle, KeyGroupsSavepointStateHandle
from pyspark_savepoint.formats.metadata.operator_handles import (
    FileMergingOperatorStreamStateHandle,
    MergedChannelStateHandle,
    OperatorStateHandle,
)
from pyspark_savepoint.formats.snapshot.finished import finished_key_groups, finished_subtasks, running_subtasks

if TYPE_CHECKING:
    from pyspark_savepoint.formats.metadata.identifiers import OperatorID, OperatorIdentifier

#: The oldest version of metadata that is written: version 2 cannot name files relative to its folder.
OLDEST_WRITTEN = 3


def metadata_version(flink_version: Flink) -> int:
    """Return the newest version of metadata that this Flink release and all later ones can read.

    >>> metadata_version((1, 20)), metadata_version((2, 2))
    (4, 6)
    """
    return release_of(flink_version).metadata if flink_version >= RELEASES[0].version else OLDEST_WRITTEN


def with_identifier(operator: OperatorState, identifier: OperatorIdentifier) -> OperatorState:
    """Return the operator under another identifier; if that is a uid hash, the operator has no known uid."""
    return replace(operator, operator_id=identifier.operator_id, uid=identifier.uid)


def with_name(operator: OperatorState, written: OperatorState) -> OperatorState:
    """Return the operator with the uid and name of ``written``, where these are set."""
    return replace(operator, uid=written.uid or operator.uid, name=written.name or operator.name)


def without_raw_keyed_state(operator: OperatorState) -> OperatorState:
    """Return the operator without raw keyed state, for timers that are now part of its managed keyed state."""
    subtasks = {index: replace(subtask, raw_keyed_state=None) for index, subtask in operator.subtasks.items()}
    return replace(operator, subtasks=subtasks)


def without_empty_segments(operator: OperatorState) -> OperatorState:
    """Return the operator without empty handles of merged files, which Flink before 1.20 cannot read."""
    subtasks = {}
    for index, subtask in operator.subtasks.items():
        managed, raw = subtask.managed_operator_state, subtask.raw_operator_state
        subtasks[index] = replace(
            subtask,
            managed_operator_state=None if _is_empty(managed) else managed,
            raw_operator_state=None if _is_empty(raw) else raw,
        )
    return replace(operator, subtasks=subtasks)


def _is_empty(handle: OperatorStateHandle | None) -> bool:
    return isinstance(handle, FileMergingOperatorStreamStateHandle) and handle.is_empty


def with_keyed_state(operator: OperatorState, written: OperatorState) -> OperatorState:
    """Return the operator with the keyed state, the parallelism and the max parallelism of ``written``.

    Subtasks that are too many for a smaller max parallelism, and have nothing any more, are left out.
    """
    operator = replace(operator, parallelism=written.parallelism, max_parallelism=written.max_parallelism)

    def change(subtask: OperatorSubtaskState, handle: KeyedStateHandle | None) -> OperatorSubtaskState:
        return replace(subtask, managed_keyed_state=handle)

    handles = {index: subtask.managed_keyed_state for index, subtask in written.subtasks.items()}
    operator = _with_parts(operator, handles, change)
    nothing = OperatorSubtaskState()
    left = {i: one for i, one in operator.subtasks.items() if i < operator.parallelism or one != nothing}
    return replace(operator, subtasks=left)


def with_operator_state(operator: OperatorState, handles: Mapping[int, OperatorStateHandle | None]) -> OperatorState:
    """Return the operator with the operator state of every subtask replaced by ``handles``.

    State for a subtask that has finished goes to one that runs: at a restore, any subtask may have it.
    """
    handles = _of_running(operator, handles)
    operator = replace(operator, parallelism=max(operator.parallelism, *(index + 1 for index in handles), 1))

    def change(subtask: OperatorSubtaskState, handle: OperatorStateHandle | None) -> OperatorSubtaskState:
        return replace(subtask, managed_operator_state=handle)

    return _with_parts(operator, handles, change)


def _of_running(
    operator: OperatorState, handles: Mapping[int, OperatorStateHandle | None]
) -> Mapping[int, OperatorStateHandle | None]:
    finished = finished_subtasks(operator)
    given = {index: handle for index, handle in handles.items() if index in finished and handle is not None}
    if not given:
        return handles
    free = [index for index in running_subtasks(operator) if handles.get(index) is None]
    if len(free) < len(given):
        raise UnsupportedStateError(
            f"subtask {min(given)} of the operator has finished, and the others have operator state that stays",
            operator=operator.label,
            remedy="Savepoint.load(...).with_state(...).write(...) gives the state to a subtask that runs",
        )
    moved = dict(zip(free, given.values(), strict=False))
    return {index: handle for index, handle in handles.items() if index not in given} | moved


def _with_parts(
    operator: OperatorState,
    parts: Mapping[int, Any],
    change: Callable[[OperatorSubtaskState, Any], OperatorSubtaskState],
) -> OperatorState:
    """Set or clear a part of every subtask that runs; raise UnsupportedStateError for one that has finished."""
    subtasks = dict(operator.subtasks)
    finished = finished_subtasks(operator)
    for index in sorted(subtasks.keys() | parts.keys()):
        part, before = parts.get(index), subtasks.get(index, OperatorSubtaskState())
        if index not in finished:
            subtasks[index] = change(before, part)
        elif part is not None:
            running_subtasks(operator)
            raise finished_key_groups(operator, index)
    return replace(operator, subtasks=subtasks)


def refuse_same_ids(operators: Iterable[OperatorState]) -> None:
    """Raise StateExistsError if two operators have the same id: a job would get the state of only one of them."""
    seen: dict[OperatorID, OperatorState] = {}
    for operator in operators:
        if operator.operator_id in seen:
            raise StateExistsError(
                "two operators would have the same id",
                operator=operator.label,
                found=f"{seen[operator.operator_id].label} and {operator.label}",
                remedy="remove one of them (remove_operator), or give it another id (change_operator_identifier)",
            )
        seen[operator.operator_id] = operator


def target_version(bases: Iterable[CheckpointMetadata], flink_version: Flink | None) -> int:
    """Return the version to write: that of the Flink release if given, else the newest version of the bases."""
    if flink_version is not None:
        return metadata_version(flink_version)
    versions = [max(base.version, OLDEST_WRITTEN) for base in bases]
    return max(versions, default=RELEASES[0].metadata)


def assemble(
    operators: Sequence[OperatorState], bases: Sequence[CheckpointMetadata], version: int
) -> CheckpointMetadata:
    """Return the metadata of a snapshot of these operators, in a version of the format.

    The properties are those of a single base, if it is a savepoint in the same version; a native one whose keyed state
    is written in the canonical format is a canonical one. Otherwise they are null, as in the State Processor API: a
    snapshot that was copied from a checkpoint is not a checkpoint.
    """
    refuse_same_ids(operators)
    _check_version(operators, version)
    properties = NULL_PROPERTIES
    if len(bases) == 1 and bases[0].version == version and _is_savepoint(bases[0]):
        properties = bases[0].properties
        if _is_canonical(operators):
            properties = as_canonical(properties)
    return CheckpointMetadata(
        version,
        max((base.checkpoint_id for base in bases), default=0),
        _master_states(bases),
        tuple(operators),
        properties if VERSIONS[version].has_properties else b"",
    )


def _is_canonical(operators: Sequence[OperatorState]) -> bool:
    """Return whether there is keyed state, and all of it in the canonical format."""
    subtasks = (subtask for operator in operators for subtask in operator.subtasks.values())
    handles = [subtask.managed_keyed_state for subtask in subtasks if subtask.managed_keyed_state is not None]
    return bool(handles) and all(isinstance(handle, KeyGroupsSavepointStateHandle) for handle in handles)


def _is_savepoint(base: CheckpointMetadata) -> bool:
    return snapshot_kind(base.properties) not in (SnapshotKind.CHECKPOINT, SnapshotKind.UNKNOWN)


def _master_states(bases: Sequence[CheckpointMetadata]) -> tuple[MasterState, ...]:
    states: dict[str, MasterState] = {}
    for base in bases:
        for state in base.master_states:
            if states.setdefault(state.name, state) != state:
                warnings.warn(
                    f"both savepoints have state of the master hook {state.name!r}, and a savepoint has one of a name: "
                    "that of the first is kept",
                    SavepointWarning,
                    stacklevel=2,
                )
    return tuple(states.values())


def _check_version(operators: Sequence[OperatorState], version: int) -> None:
    """Raise UnsupportedVersionError if the version cannot represent merged channel state, instead of losing it."""
    if VERSIONS[version].has_typed_channels:
        return
    for operator in operators:
        for subtask in operator.subtasks.values():
            channels = subtask.input_channel_state + subtask.result_subpartition_state
            if any(isinstance(handle, MergedChannelStateHandle) for handle in channels):
                raise UnsupportedVersionError(
                    "in-flight records are stored in a format that Flink before 2.1 does not read",
                    operator=operator.label,
                    remedy="write for flink_version='2.1', or start from a savepoint or an aligned checkpoint",
                )


def has_channel_state(operator: OperatorState) -> bool:
    """Return whether the snapshot of the operator contains records in flight."""
    return any(
        subtask.input_channel_state or subtask.result_subpartition_state for subtask in operator.subtasks.values()
    )


def has_key_groups(operator: OperatorState) -> bool:
    """Return whether the operator has state by key group, managed or raw, or records that belong to key groups."""
    keyed = any(subtask.managed_keyed_state or subtask.raw_keyed_state for subtask in operator.subtasks.values())
    return keyed or has_channel_state(operator)
