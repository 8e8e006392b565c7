"""The ``_metadata`` file: bytes to :class:`CheckpointMetadata` and back.

::

    Metadata      := i32 0x4960672D  i32 version  i64 checkpointId
                     i32 n MasterState[n]  i32 n OperatorState[n]  [Properties]         nothing follows
    MasterState   := i32 0xC96B1696  i32 length { i32 version  utf name  blob data }    exactly length bytes
    OperatorState := [utf name  utf uid]  bytes(16) id  i32 parallelism  i32 maxParallelism
                     [i32 chainLength | StreamHandle coordinator]
                     i32 n Subtask[n]                            n = -1: fully finished, nothing follows
    Subtask       := i32 index  SubtaskState                     index < 0: subtask -index-1 is finished, no state
    SubtaskState  := [i64 -1  i32 0]  i32 has [OpHandle]  i32 has [OpHandle]  KeyedHandle  KeyedHandle
                     [i32 n ChannelHandle[n]  i32 n ChannelHandle[n]]
    Properties    := a Java object stream, up to the end of the file

=======  ==============  ====================================================================================
version  written by      changes
=======  ==============  ====================================================================================
2        1.3 to 1.10     chain length, and two dead fields before each subtask's state
3        1.11 to 1.15    these dropped; coordinator and channel state; finished operators and subtasks (1.14)
4        1.16 to 1.20    Properties
5        2.0             name and uid of operators
6        2.1 to 2.3      channel handles have a type byte
=======  ==============  ====================================================================================

Version 1 is older than every supported release; 7 is on Flink's development branch only, and ``CONTRIBUTING.md`` says
what a new version needs. Flink: ``Checkpoints#loadCheckpointMetadata``, ``MetadataV2Serializer`` to
``MetadataV6Serializer``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from types import MappingProxyType

from pyspark_savepoint.formats.data_view import DataInputView, DataOutputView
from pyspark_savepoint.formats.errors import CorruptStateError, SavepointError, UnsupportedVersionError
from pyspark_savepoint.formats.java_stream import JavaEnum, JavaObject, parse_java_object, skip_java_object
from pyspark_savepoint.formats.metadata.identifiers import OperatorID
from pyspark_savepoint.formats.metadata.key_groups import UPPER_BOUND_MAX_PARALLELISM
from pyspark_savepoint.formats.metadata.keyed_handles import (
    ChangelogStateBackendHandle,
    ChangelogStateHandleStreamImpl,
    KeyedStateHandle,
    read_keyed_handle,
    write_keyed_handle,
)
from pyspark_savepoint.formats.metadata.manifest import NO_COPIES, Manifest, Origin, split_manifest, with_manifest
from pyspark_savepoint.formats.metadata.operator_handles import (
    INPUT,
    OUTPUT,
    AnyChannelStateHandle,
    OperatorStateHandle,
    read_channel_handles,
    read_operator_handle,
    write_channel_handles,
    write_operator_handle,
)
from pyspark_savepoint.formats.metadata.stream_handles import (
    ByteStreamStateHandle,
    StreamStateHandle,
    read_stream_handle,
    write_stream_handle,
)


@dataclass(frozen=True, slots=True)
class MasterState:
    """State of a hook in the job manager. Flink: ``MasterState``."""

    version: int
    name: str
    data: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class OperatorSubtaskState:
    """The state of one subtask; a finished subtask has none."""

    managed_operator_state: OperatorStateHandle | None = None
    raw_operator_state: OperatorStateHandle | None = None
    managed_keyed_state: KeyedStateHandle | None = None
    raw_keyed_state: KeyedStateHandle | None = None
    input_channel_state: tuple[AnyChannelStateHandle, ...] = ()
    result_subpartition_state: tuple[AnyChannelStateHandle, ...] = ()
    is_finished: bool = False

    @property
    def handles(self) -> Iterator[OperatorStateHandle | KeyedStateHandle | AnyChannelStateHandle]:
        """Yield all handles that are not None."""
        for handle in (
            self.managed_operator_state,
            self.raw_operator_state,
            self.managed_keyed_state,
            self.raw_keyed_state,
        ):
            if handle is not None:
                yield handle
        yield from self.input_channel_state
        yield from self.result_subpartition_state

    @property
    def state_size(self) -> int:
        """Return the number of bytes of all handles."""
        return sum(handle.state_size for handle in self.handles)


FINISHED_SUBTASK = OperatorSubtaskState(is_finished=True)


@dataclass(frozen=True, slots=True)
class OperatorState:
    """State of one operator: its coordinator's, and that of each subtask that reported any.

    ``name`` and ``uid`` are known from metadata version 5 on. A fully finished operator has no subtasks.
    ``chain_length`` is an unused field of version 2, kept so that writing gives the same bytes.
    """

    operator_id: OperatorID
    parallelism: int
    max_parallelism: int
    name: str | None = None
    uid: str | None = None
    coordinator_state: ByteStreamStateHandle | None = None
    subtasks: Mapping[int, OperatorSubtaskState] = field(default_factory=dict)
    is_fully_finished: bool = False
    chain_length: int = 1

    @property
    def coordinator_state_size(self) -> int:
        """Return the number of bytes of the coordinator's state."""
        return 0 if self.coordinator_state is None else self.coordinator_state.state_size

    @property
    def state_size(self) -> int:
        """Return the number of bytes of all subtasks and the coordinator, as Flink counts them."""
        return self.coordinator_state_size + sum(subtask.state_size for subtask in self.subtasks.values())

    @property
    def label(self) -> str:
        """Return the operator's name in messages: its uid or name if known, and always its hash."""
        named = self.uid or self.name
        return f"{named} ({self.operator_id})" if named else str(self.operator_id)


@dataclass(frozen=True)
class CheckpointMetadata:
    """Content of the whole file. ``properties`` is a Java object stream, kept as bytes; versions 2 and 3 have none.

    ``checksums`` are those of the savepoint's files, ``origin`` is the snapshot that this one is a copy of, and
    ``copies`` are the identities of its files there, by their names here, if this package has appended them
    (``manifest``).
    """

    version: int
    checkpoint_id: int
    master_states: tuple[MasterState, ...] = ()
    operators: tuple[OperatorState, ...] = ()
    properties: bytes = field(default=b"", repr=False)
    checksums: Manifest | None = field(default=None, repr=False, compare=False)
    origin: Origin | None = field(default=None, repr=False, compare=False)
    copies: Mapping[str, bytes] = field(default_factory=dict, repr=False, compare=False)

    @property
    def state_size(self) -> int:
        """Return the number of bytes of all operators' states, according to their handles."""
        return sum(operator.state_size for operator in self.operators)

    @cached_property
    def by_id(self) -> Mapping[OperatorID, OperatorState]:
        """The operators by their ids; of several with one id, which Flink does not write, the first."""
        return {operator.operator_id: operator for operator in reversed(self.operators)}

    @cached_property
    def by_uid(self) -> Mapping[str, OperatorState]:
        """The operators by the uids that the file records."""
        return {operator.uid: operator for operator in reversed(self.operators) if operator.uid is not None}

    @cached_property
    def changelogs(self) -> frozenset[StreamStateHandle]:
        """Return the handles of files of changes: they have the size of the content, which may be compressed."""
        subtasks = (subtask for operator in self.operators for subtask in operator.subtasks.values())
        handles = (subtask.managed_keyed_state for subtask in subtasks)
        deltas = (
            delta for one in handles if isinstance(one, ChangelogStateBackendHandle) for delta in one.non_materialized
        )
        of_files = (delta for delta in deltas if isinstance(delta, ChangelogStateHandleStreamImpl))
        return frozenset(entry.handle for delta in of_files for entry in delta.handles_and_offsets)


HEADER_MAGIC_NUMBER = 0x4960672D
MASTER_STATE_MAGIC_NUMBER = 0xC96B1696 - (1 << 32)
FULLY_FINISHED = -1
NO_DURATION = -1
#: Numbers of zero bytes: two absent handles of operator state; no raw keyed state and no channel handles. Most subtasks
#: have both, and a snapshot may have hundreds of thousands.
NO_OPERATOR_STATE, NOTHING_ELSE = 8, 9


@dataclass(frozen=True, slots=True)
class MetadataVersion:
    """Differences between the versions of the format."""

    releases: str
    #: Has two unused fields, and neither coordinator state, channel state nor finished subtasks.
    is_version_2: bool = False
    has_properties: bool = False
    has_names: bool = False
    has_typed_channels: bool = False


VERSIONS: Mapping[int, MetadataVersion] = MappingProxyType(
    {
        2: MetadataVersion("1.3 to 1.10", is_version_2=True),
        3: MetadataVersion("1.11 to 1.15"),
        4: MetadataVersion("1.16 to 1.20", has_properties=True),
        5: MetadataVersion("2.0", has_properties=True, has_names=True),
        6: MetadataVersion("2.1 to 2.3", has_properties=True, has_names=True, has_typed_channels=True),
    }
)


def read_metadata(data: bytes | memoryview, path: str | None = None) -> CheckpointMetadata:
    """Parse the content of a ``_metadata`` file; ``path`` only locates errors."""
    parts = split_manifest(memoryview(data), path)
    view = DataInputView(parts.metadata, path)
    if view.remaining < 4 or view.read_i32() != HEADER_MAGIC_NUMBER:
        raise CorruptStateError(
            "the file is not the _metadata of a Flink snapshot",
            path=path,
            offset=0,
            expected=f"the magic number {HEADER_MAGIC_NUMBER:#010x}",
            found=bytes(view.data[:4]).hex(" ") or "an empty file",
            remedy="give the folder of a savepoint or checkpoint, or its _metadata file",
        )
    number = view.read_i32("the metadata's version")
    version = _version(number, path)
    try:
        body = _read_body(view, number, version)
        return with_uids(
            replace(body, checksums=parts.files, origin=parts.origin, copies=dict(parts.copies)), parts.uids
        )
    except SavepointError as error:
        raise error.with_facts(path=path) from None


def with_uids(metadata: CheckpointMetadata, uids: Iterable[str]) -> CheckpointMetadata:
    """Return the metadata with these uids added to operators without a uid, whose ids are the hashes of the uids."""
    by_id = {OperatorID.from_uid(uid): uid for uid in uids if uid}
    if not by_id:
        return metadata
    operators = tuple(
        replace(operator, uid=by_id[operator.operator_id])
        if operator.uid is None and operator.operator_id in by_id
        else operator
        for operator in metadata.operators
    )
    return replace(metadata, operators=operators)


def uids_beside(metadata: CheckpointMetadata) -> list[str]:
    """Return the uids of operators that the metadata's version cannot store."""
    if _version(metadata.version, None).has_names:
        return []
    return [operator.uid for operator in metadata.operators if operator.uid is not None]


def write_metadata(metadata: CheckpointMetadata) -> bytes:
    """Return the bytes of a ``_metadata`` file, in the version of the metadata."""
    version = _version(metadata.version, None)
    out = DataOutputView()
    out.write_i32(HEADER_MAGIC_NUMBER)
    out.write_i32(metadata.version)
    out.write_i64(metadata.checkpoint_id)
    out.write_i32(len(metadata.master_states))
    for master_state in metadata.master_states:
        _write_master_state(master_state, out)
    out.write_i32(len(metadata.operators))
    for operator in metadata.operators:
        _write_operator(operator, version, out)
    if version.has_properties:
        out.write(metadata.properties or NULL_PROPERTIES)
    return out.getvalue()


def write_published(
    metadata: CheckpointMetadata, checksums: Manifest, copies: Mapping[str, bytes] = NO_COPIES
) -> bytes:
    """Return the bytes of a ``_metadata`` file that is published: Flink's part, and what this package appends.

    Args:
        metadata: Flink's part; uids that its version cannot store, and its origin, are appended.
        checksums: Those of the savepoint's files.
        copies: The identities of files that were copied as a whole, by their names here.

    """
    return with_manifest(write_metadata(metadata), checksums, uids_beside(metadata), metadata.origin, copies)


def _version(number: int, path: str | None) -> MetadataVersion:
    if number in VERSIONS:
        return VERSIONS[number]
    known = ", ".join(f"{known} (Flink {version.releases})" for known, version in VERSIONS.items())
    raise UnsupportedVersionError(
        f"version {number} of the metadata format is not supported",
        path=path,
        offset=4,
        expected=f"one of the versions {known}",
        found=f"version {number}",
        remedy="take the savepoint with one of these Flink releases, or use a newer release of this package",
    )


def _read_body(view: DataInputView, number: int, version: MetadataVersion) -> CheckpointMetadata:
    checkpoint_id = view.read_i64("a checkpoint id")
    if checkpoint_id < 0:
        view.fail("a checkpoint id from 0 on", checkpoint_id)
    masters = tuple(_read_master_state(view) for _ in range(view.read_count("master states", each=18)))
    operators = tuple(_read_operator(view, version) for _ in range(view.read_count("operators", each=29)))
    properties = skip_java_object(view) if version.has_properties else b""
    view.expect_end("the metadata")
    return CheckpointMetadata(number, checkpoint_id, masters, operators, properties)


def _read_master_state(view: DataInputView) -> MasterState:
    view.read_constant(MASTER_STATE_MAGIC_NUMBER, "the magic number of a master state")
    inner = view.sub_view(view.read_count("bytes of a master state"), "a master state")
    state = MasterState(inner.read_i32("a version"), inner.read_utf("a name"), inner.read_blob("a master state"))
    inner.expect_end("the master state")
    return state


def _write_master_state(state: MasterState, out: DataOutputView) -> None:
    inner = DataOutputView()
    inner.write_i32(state.version)
    inner.write_utf(state.name)
    inner.write_blob(state.data)
    out.write_i32(MASTER_STATE_MAGIC_NUMBER)
    out.write_blob(inner.getvalue())


def _read_operator(view: DataInputView, version: MetadataVersion) -> OperatorState:
    name = view.read_utf("an operator's name") or None if version.has_names else None
    uid = view.read_utf("an operator's uid") or None if version.has_names else None
    operator_id = OperatorID.read(view)
    try:
        return _read_operator_state(view, version, operator_id, name, uid)
    except SavepointError as error:
        label = f"{uid or name} ({operator_id})" if uid or name else str(operator_id)
        raise error.with_facts(operator=label) from None


def _read_operator_state(
    view: DataInputView, version: MetadataVersion, operator_id: OperatorID, name: str | None, uid: str | None
) -> OperatorState:
    parallelism, max_parallelism = view.read_i32("parallelism"), view.read_i32("max parallelism")
    if not 1 <= parallelism <= max_parallelism <= UPPER_BOUND_MAX_PARALLELISM:
        view.position -= 8
        expected = f"1 <= parallelism <= max parallelism <= {UPPER_BOUND_MAX_PARALLELISM}"
        view.fail(expected, f"parallelism {parallelism}, max parallelism {max_parallelism}")
    chain_length = view.read_i32("the chain length") if version.is_version_2 else 1
    coordinator = None if version.is_version_2 else _read_coordinator(view)
    subtasks = _read_subtasks(view, version, parallelism, max_parallelism)
    if subtasks is None and coordinator is not None:
        view.fail("no coordinator state of a finished operator", coordinator)
    return OperatorState(
        operator_id,
        parallelism,
        max_parallelism,
        name=name,
        uid=uid,
        coordinator_state=coordinator,
        subtasks=subtasks or {},
        is_fully_finished=subtasks is None,
        chain_length=chain_length,
    )


def _write_operator(operator: OperatorState, version: MetadataVersion, out: DataOutputView) -> None:
    if version.has_names:
        out.write_utf(operator.name or "")
        out.write_utf(operator.uid or "")
    operator.operator_id.write(out)
    out.write_i32(operator.parallelism)
    out.write_i32(operator.max_parallelism)
    if version.is_version_2:
        out.write_i32(operator.chain_length)
        _require_no_newer_state(operator)
    else:
        write_stream_handle(operator.coordinator_state, out)
    if operator.is_fully_finished:
        out.write_i32(FULLY_FINISHED)
        return
    out.write_i32(len(operator.subtasks))
    for index, subtask in operator.subtasks.items():
        out.write_i32(-index - 1 if subtask.is_finished else index)
        if not subtask.is_finished:
            _write_subtask(subtask, version, out)


def _require_no_newer_state(operator: OperatorState) -> None:
    """Raise UnsupportedVersionError if version 2 cannot represent the state, instead of losing it."""
    states = operator.subtasks.values()
    finished = operator.is_fully_finished or any(state.is_finished for state in states)
    channels = any(state.input_channel_state or state.result_subpartition_state for state in states)
    if finished or channels or operator.coordinator_state is not None:
        raise UnsupportedVersionError(
            "version 2 of the metadata format cannot hold coordinator state, channel state or finished subtasks",
            operator=operator.label,
            remedy="write version 3 or later",
        )


def _read_coordinator(view: DataInputView) -> ByteStreamStateHandle | None:
    handle = read_stream_handle(view)
    if handle is not None and not isinstance(handle, ByteStreamStateHandle):
        view.fail("coordinator state inline (type 1) or none", type(handle).__name__)
    return handle


def _read_subtasks(
    view: DataInputView, version: MetadataVersion, parallelism: int, max_parallelism: int
) -> dict[int, OperatorSubtaskState] | None:
    """Read subtasks by index in the order of the file; None for a fully finished operator."""
    count = view.read_i32("the number of subtasks")
    if count == FULLY_FINISHED and not version.is_version_2:
        return None
    if not 0 <= count <= parallelism:
        view.position -= 4
        view.fail(f"a number of subtasks from 0 to {parallelism}", count)
    subtasks: dict[int, OperatorSubtaskState] = {}
    for _ in range(count):
        index = view.read_i32("the index of a subtask")
        finished = index < 0 and not version.is_version_2
        index = -index - 1 if finished else index
        if not 0 <= index < parallelism or index in subtasks:
            view.position -= 4
            view.fail(f"each subtask from 0 to {parallelism - 1} at most once", f"subtask {index}")
        subtasks[index] = FINISHED_SUBTASK if finished else _read_subtask(view, version, index)
        _check_key_groups(view, subtasks[index], max_parallelism)
    return subtasks


def _check_key_groups(view: DataInputView, subtask: OperatorSubtaskState, max_parallelism: int) -> None:
    for handle in (subtask.managed_keyed_state, subtask.raw_keyed_state):
        if handle is not None and handle.key_group_range.end >= max_parallelism:
            view.fail(f"key groups below {max_parallelism}, the max parallelism", handle.key_group_range)


def _read_subtask(view: DataInputView, version: MetadataVersion, index: int) -> OperatorSubtaskState:
    if version.is_version_2:
        _read_legacy_fields(view)
    managed = raw = None
    if not view.skip_zeros(NO_OPERATOR_STATE):
        managed, raw = _read_optional_operator_handle(view), _read_optional_operator_handle(view)
    managed_keyed = read_keyed_handle(view)
    if not version.is_version_2 and view.skip_zeros(NOTHING_ELSE):
        return OperatorSubtaskState(managed, raw, managed_keyed)
    raw_keyed = read_keyed_handle(view)
    if version.is_version_2:
        return OperatorSubtaskState(managed, raw, managed_keyed, raw_keyed)
    inputs = read_channel_handles(view, INPUT, version.has_typed_channels, index)
    outputs = read_channel_handles(view, OUTPUT, version.has_typed_channels, index)
    return OperatorSubtaskState(managed, raw, managed_keyed, raw_keyed, inputs, outputs)


def _write_subtask(state: OperatorSubtaskState, version: MetadataVersion, out: DataOutputView) -> None:
    if version.is_version_2:
        out.write_i64(NO_DURATION)
        out.write_i32(0)
    _write_optional_operator_handle(state.managed_operator_state, out)
    _write_optional_operator_handle(state.raw_operator_state, out)
    write_keyed_handle(state.managed_keyed_state, out)
    write_keyed_handle(state.raw_keyed_state, out)
    if not version.is_version_2:
        write_channel_handles(state.input_channel_state, INPUT, version.has_typed_channels, out)
        write_channel_handles(state.result_subpartition_state, OUTPUT, version.has_typed_channels, out)


def _read_legacy_fields(view: DataInputView) -> None:
    """Read an unused duration and the number of non-partitioned states, which Flink dropped in 1.4."""
    duration = view.read_i64("a duration")
    if duration != NO_DURATION:
        view.position -= 8
        view.fail("a duration of -1", duration)
    view.read_constant(0, "the number of legacy states")


def _read_optional_operator_handle(view: DataInputView) -> OperatorStateHandle | None:
    """Read an int, 0 or 1, and the handle if it is 1."""
    if not view.read_count("operator state handles", each=0, limit=1):
        return None
    handle = read_operator_handle(view)
    if handle is None:
        view.position -= 1
        view.fail("an operator state handle", "none (type 0)")
    return handle


def _write_optional_operator_handle(handle: OperatorStateHandle | None, out: DataOutputView) -> None:
    out.write_i32(0 if handle is None else 1)
    if handle is not None:
        write_operator_handle(handle, out)


# -- The properties of a snapshot: a Java object stream at the end of ``_metadata``, from version 4 on ----------------
# ::
#
#     Properties := AC ED 00 05 ...      an object of class CheckpointProperties, or null (70)
#
#     CheckpointProperties { boolean discard..., forced, unclaimed; SnapshotType checkpointType }
#     SavepointType        { enum formatType CANONICAL | NATIVE; String name; enum postCheckpointAction }
#     CheckpointType       { String name; enum sharingFilesStrategy }
#
# It is parsed into plain records without loading classes, and kept as bytes. Nothing else in ``_metadata`` records the
# kind of a snapshot.

NULL_PROPERTIES = bytes.fromhex("aced000570")
SAVEPOINT_TYPE = "org.apache.flink.runtime.checkpoint.SavepointType"
CHECKPOINT_TYPE = "org.apache.flink.runtime.checkpoint.CheckpointType"


class SnapshotKind(StrEnum):
    CANONICAL_SAVEPOINT = "canonical savepoint"
    NATIVE_SAVEPOINT = "native savepoint"
    SAVEPOINT = "savepoint"
    CHECKPOINT = "checkpoint"
    UNKNOWN = "unknown"


SAVEPOINT_FORMATS: Mapping[str, SnapshotKind] = MappingProxyType(
    {"CANONICAL": SnapshotKind.CANONICAL_SAVEPOINT, "NATIVE": SnapshotKind.NATIVE_SAVEPOINT}
)


def as_canonical(properties: bytes) -> bytes:
    """Return the properties of a native savepoint as those of a canonical one; any others as they are."""
    if snapshot_kind(properties) is not SnapshotKind.NATIVE_SAVEPOINT:
        return properties
    native, canonical = (b"t" + len(name).to_bytes(2, "big") + name for name in (b"NATIVE", b"CANONICAL"))
    changed = properties.replace(native, canonical)
    return changed if snapshot_kind(changed) is SnapshotKind.CANONICAL_SAVEPOINT else properties


def snapshot_kind(properties: bytes) -> SnapshotKind:
    """Return the kind of snapshot that these properties belong to; unknown if they do not contain it.

    >>> snapshot_kind(NULL_PROPERTIES)
    <SnapshotKind.UNKNOWN: 'unknown'>
    """
    if not properties:
        return SnapshotKind.UNKNOWN
    parsed = parse_java_object(DataInputView(properties))
    snapshot_type = parsed.fields.get("checkpointType") if isinstance(parsed, JavaObject) else None
    if not isinstance(snapshot_type, JavaObject):
        return SnapshotKind.UNKNOWN
    if snapshot_type.class_name == CHECKPOINT_TYPE:
        return SnapshotKind.CHECKPOINT
    if snapshot_type.class_name != SAVEPOINT_TYPE:
        return SnapshotKind.UNKNOWN
    form = snapshot_type.fields.get("formatType")
    constant = form.constant if isinstance(form, JavaEnum) else ""
    return SAVEPOINT_FORMATS.get(constant, SnapshotKind.SAVEPOINT)
