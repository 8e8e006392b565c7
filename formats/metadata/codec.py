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
from typing import Any

from pyspark_savepoint.formats.data_view import DataInputView, DataOutputView
from pyspark_savepoint.formats.encodings import (
    BLOB,
    I32,
    I64,
    UTF,
    VERSION,
    Encoding,
    after,
    at_least,
    at_most,
    by_version,
    constant,
    many,
    optional,
    sized,
    versioned,
)
from pyspark_savepoint.formats.errors import CorruptStateError, SavepointError, UnsupportedVersionError
from pyspark_savepoint.formats.flink_releases import RELEASES, releases_with_metadata
from pyspark_savepoint.formats.java_stream import JavaEnum, JavaObject, parse_java_object, skip_java_object
from pyspark_savepoint.formats.metadata.identifiers import OperatorID
from pyspark_savepoint.formats.metadata.key_groups import UPPER_BOUND_MAX_PARALLELISM
from pyspark_savepoint.formats.metadata.keyed_handles import (
    KEYED_HANDLE,
    ChangelogStateBackendHandle,
    ChangelogStateHandleStreamImpl,
    KeyedStateHandle,
)
from pyspark_savepoint.formats.metadata.manifest import NO_COPIES, Manifest, Origin, split_manifest, with_manifest
from pyspark_savepoint.formats.metadata.operator_handles import (
    INPUT_CHANNELS,
    OPERATOR_HANDLE,
    OUTPUT_CHANNELS,
    AnyChannelStateHandle,
    AnyChannelStateHandles,
    ChannelStateHandle,
    OperatorStateHandle,
)
from pyspark_savepoint.formats.metadata.stream_handles import STREAM_HANDLE, ByteStreamStateHandle, StreamStateHandle
from pyspark_savepoint.formats.structs import Struct, of, part, struct, struct_with_dict


@dataclass(frozen=True, slots=True)
class MetadataVersion:
    """A version of the format: the releases that write it, and what other modules ask of it."""

    releases: str
    has_properties: bool
    has_names: bool
    has_typed_channels: bool


#: The first versions that have what version 2 does not have.
COORDINATORS, PROPERTIES, NAMES, TYPED_CHANNELS = 3, 4, 5, 6
#: Versions of releases that are only read.
BEFORE_THE_TABLE = MappingProxyType({2: "1.3 to 1.10", 3: "1.11 to 1.15"})
VERSIONS: Mapping[int, MetadataVersion] = MappingProxyType(
    {
        number: MetadataVersion(
            BEFORE_THE_TABLE.get(number) or releases_with_metadata(number),
            number >= PROPERTIES,
            number >= NAMES,
            number >= TYPED_CHANNELS,
        )
        for number in range(min(BEFORE_THE_TABLE), RELEASES[-1].metadata + 1)
    }
)
HEADER_MAGIC_NUMBER = 0x4960672D
MASTER_STATE_MAGIC_NUMBER = 0xC96B1696 - (1 << 32)
FULLY_FINISHED = -1
NULL_PROPERTIES = bytes.fromhex("aced000570")


@struct
class MasterState(Struct):
    """State of a hook in the job manager. Flink: ``MasterState``."""

    version: int = part(I32, "a version")
    name: str = part(UTF, "a name")
    data: bytes = part(BLOB, "a master state", shown=False)


MASTER_STATE = after(
    [constant(I32, MASTER_STATE_MAGIC_NUMBER, "the magic number of a master state")],
    sized(of(MasterState), "a master state"),
)
OPERATOR_STATE = optional(OPERATOR_HANDLE, at_most(1), "operator state handles")
#: An unused duration, and the number of non-partitioned states, which Flink dropped in 1.4.
LEGACY = (constant(I64, -1, "a duration"), constant(I32, 0, "the number of legacy states"))


@struct
class OperatorSubtaskState(Struct):
    """The state of one subtask; a finished subtask has none."""

    # Most subtasks have no operator state, and keyed state alone: a snapshot may have hundreds of thousands.
    managed_operator_state: OperatorStateHandle | None = part(
        by_version({2: after(LEGACY, OPERATOR_STATE), COORDINATORS: OPERATOR_STATE}), default=None, zeros=2
    )
    raw_operator_state: OperatorStateHandle | None = part(OPERATOR_STATE, default=None)
    managed_keyed_state: KeyedStateHandle | None = part(KEYED_HANDLE.optional, default=None)
    raw_keyed_state: KeyedStateHandle | None = part(KEYED_HANDLE.optional, default=None, zeros=3)
    input_channel_state: AnyChannelStateHandles = part(
        INPUT_CHANNELS, "channel state handles", since=COORDINATORS, absent=(), default=()
    )
    result_subpartition_state: AnyChannelStateHandles = part(
        OUTPUT_CHANNELS, "channel state handles", since=COORDINATORS, absent=(), default=()
    )
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


TEXT: Encoding[str | None] = Encoding(
    lambda view, what: view.read_utf(what) or None, lambda out, text: out.write_utf(text or ""), 2, (None, 2)
)
OPERATOR_ID = Encoding(lambda view, _: OperatorID.read(view), lambda out, one: one.write(out), 16)


def _check_parallelism(view: DataInputView, *values: Any) -> None:
    parallelism, max_parallelism = values[-2:]
    if not 1 <= parallelism <= max_parallelism <= UPPER_BOUND_MAX_PARALLELISM:
        view.position -= 8
        expected = f"1 <= parallelism <= max parallelism <= {UPPER_BOUND_MAX_PARALLELISM}"
        view.fail(expected, f"parallelism {parallelism}, max parallelism {max_parallelism}")


def _read_coordinator(view: DataInputView, _: str) -> ByteStreamStateHandle | None:
    handle = STREAM_HANDLE.optional.read(view, "")
    if handle is not None and not isinstance(handle, ByteStreamStateHandle):
        view.fail("coordinator state inline (type 1) or none", type(handle).__name__)
    return handle


@struct
class OperatorState(Struct):
    """State of one operator: its coordinator's, and that of each subtask that reported any.

    ``name`` and ``uid`` are known from metadata version 5 on. A fully finished operator has no subtasks.
    ``chain_length`` is an unused field of version 2, kept so that writing gives the same bytes. Subtasks follow these
    fields (``_read_subtasks``).
    """

    order = ("name", "uid", "operator_id", "parallelism", "max_parallelism", "chain_length", "coordinator_state")
    operator_id: OperatorID = part(OPERATOR_ID)
    parallelism: int = part(I32, "parallelism")
    max_parallelism: int = part(I32, "max parallelism", check=_check_parallelism)
    name: str | None = part(TEXT, "an operator's name", since=NAMES, droppable=True, default=None)
    uid: str | None = part(TEXT, "an operator's uid", since=NAMES, droppable=True, default=None)
    coordinator_state: ByteStreamStateHandle | None = part(
        Encoding(_read_coordinator, STREAM_HANDLE.optional.write, 1, (None, 1)), since=COORDINATORS, default=None
    )
    subtasks: Mapping[int, OperatorSubtaskState] = field(default_factory=dict)
    is_fully_finished: bool = False
    chain_length: int = part(I32, "the chain length", until=COORDINATORS - 1, absent=1, droppable=True, default=1)

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


def _read_operator(view: DataInputView, version: int) -> OperatorState:
    start = view.position
    try:
        operator = of(OperatorState).at(version).read(view, "")
        subtasks = _read_subtasks(view, version, operator)
        if subtasks is None and operator.coordinator_state is not None:
            view.fail("no coordinator state of a finished operator", operator.coordinator_state)
        return replace(operator, subtasks=subtasks or {}, is_fully_finished=subtasks is None)
    except SavepointError as error:
        raise error.with_facts(operator=_label_at(view, start, version)) from None


def _label_at(view: DataInputView, start: int, version: int) -> str | None:
    """Return the label of the operator that begins there; None if its bytes do not go as far as its id."""
    view.position = start
    try:
        name, uid = (TEXT.read(view, "") if version >= NAMES else None for _ in range(2))
        return OperatorState(OperatorID.read(view), 1, 1, name=name, uid=uid).label
    except SavepointError:
        return None


def _write_operator(out: DataOutputView, operator: OperatorState, version: int) -> None:
    if version < COORDINATORS:
        _require_no_newer_state(operator)
    of(OperatorState).at(version).write(out, operator)
    if operator.is_fully_finished:
        out.write_i32(FULLY_FINISHED)
        return
    out.write_i32(len(operator.subtasks))
    write = of(OperatorSubtaskState).at(version).write
    for index, subtask in operator.subtasks.items():
        out.write_i32(-index - 1 if subtask.is_finished else index)
        if not subtask.is_finished:
            write(out, subtask)


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


def _read_subtasks(
    view: DataInputView, version: int, operator: OperatorState
) -> dict[int, OperatorSubtaskState] | None:
    """Read subtasks by index in the order of the file; None for a fully finished operator."""
    may_finish, parallelism = version >= COORDINATORS, operator.parallelism
    count = view.read_i32("the number of subtasks")
    if count == FULLY_FINISHED and may_finish:
        return None
    if not 0 <= count <= parallelism:
        view.position -= 4
        view.fail(f"a number of subtasks from 0 to {parallelism}", count)
    read = of(OperatorSubtaskState).at(version).read
    subtasks: dict[int, OperatorSubtaskState] = {}
    for _ in range(count):
        index = view.read_i32("the index of a subtask")
        finished = index < 0 and may_finish
        index = -index - 1 if finished else index
        if not 0 <= index < parallelism or index in subtasks:
            view.position -= 4
            view.fail(f"each subtask from 0 to {parallelism - 1} at most once", f"subtask {index}")
        subtask = FINISHED_SUBTASK if finished else read(view, "")
        if subtask.input_channel_state or subtask.result_subpartition_state:
            subtask = _with_owner(subtask, index)
        for handle in (subtask.managed_keyed_state, subtask.raw_keyed_state):
            if handle is not None and handle.key_group_range.end >= operator.max_parallelism:
                view.fail(f"key groups below {operator.max_parallelism}, the max parallelism", handle.key_group_range)
        subtasks[index] = subtask
    return subtasks


def _with_owner(state: OperatorSubtaskState, index: int) -> OperatorSubtaskState:
    """Return the state of a subtask with its index in handles of Flink 1.11, which do not have it."""

    def owned(handles: AnyChannelStateHandles) -> AnyChannelStateHandles:
        return tuple(
            replace(one, subtask_index=index) if isinstance(one, ChannelStateHandle) and not one.has_subtask else one
            for one in handles
        )

    return replace(
        state,
        input_channel_state=owned(state.input_channel_state),
        result_subpartition_state=owned(state.result_subpartition_state),
    )


OPERATOR = versioned(_read_operator, _write_operator, 29)


@struct_with_dict
class CheckpointMetadata(Struct):
    """Content of the whole file. ``properties`` is a Java object stream, kept as bytes; versions 2 and 3 have none.

    ``checksums`` are those of the savepoint's files, ``origin`` is the snapshot that this one is a copy of, and
    ``copies`` are the identities of its files there, by their names here, if this package has appended them
    (``manifest``).
    """

    version: int = part(VERSION)
    checkpoint_id: int = part(at_least(I64, 0, "{} from 0 on"), "a checkpoint id")
    master_states: tuple[MasterState, ...] = part(many(MASTER_STATE), "master states", default=())
    operators: tuple[OperatorState, ...] = part(many(OPERATOR), "operators", default=())
    properties: bytes = part(
        Encoding(lambda view, _: skip_java_object(view), lambda out, one: out.write(one or NULL_PROPERTIES), 0),
        since=PROPERTIES,
        absent=b"",
        droppable=True,
        default=b"",
        shown=False,
    )
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
    version = view.read_i32("the metadata's version")
    _check_version(version, path)
    try:
        body = of(CheckpointMetadata).at(version).read(view, "")
        view.expect_end("the metadata")
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
    if VERSIONS[metadata.version].has_names:
        return []
    return [operator.uid for operator in metadata.operators if operator.uid is not None]


def write_metadata(metadata: CheckpointMetadata) -> bytes:
    """Return the bytes of a ``_metadata`` file, in the version of the metadata."""
    _check_version(metadata.version, None)
    out = DataOutputView()
    out.write_i32(HEADER_MAGIC_NUMBER)
    out.write_i32(metadata.version)
    of(CheckpointMetadata).at(metadata.version).write(out, metadata)
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


def _check_version(number: int, path: str | None) -> None:
    if number in VERSIONS:
        return
    known = ", ".join(f"{known} (Flink {version.releases})" for known, version in VERSIONS.items())
    raise UnsupportedVersionError(
        f"version {number} of the metadata format is not supported",
        path=path,
        offset=4,
        expected=f"one of the versions {known}",
        found=f"version {number}",
        remedy="take the savepoint with one of these Flink releases, or use a newer release of this package",
    )


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
