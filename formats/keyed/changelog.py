"""Changes of keyed state since its last materialization, as the changelog state backend writes them.

    file      := u8 compressed  ChangeSet*                   1: the rest is one snappy framed stream
    ChangeSet := i32 n Group[n]                              handles have the offset of each in the content after the u8
    Group     := i32 n  i32 keyGroup  (i32 length  Change)[n]
    Change    := u8 8  i32 version  StateMeta  Defaults  i16 stateId  u8 kind      key group -1: registers a state
               | u8 operation  i16 stateId  key  namespace  data                   timers: without key and namespace
    Defaults  := bool [Java object: TTL]  bool [value]                             timers: nothing

Key group -1 comes first in a change set. A state id is valid from its registration on, in the rest of the handle's log.
Flink: ``StateChangeFormat``, ``AbstractStateChangeLogger``, ``ChangelogBackendLogApplier``, ``StateChangeOperation``.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from pyspark_savepoint.formats.columns import Bytes, Cursors, Ints, Longs, Origin
from pyspark_savepoint.formats.data_view import DataInputView
from pyspark_savepoint.formats.errors import UNREADABLE, CorruptStateError, SavepointError, UnsupportedStateError
from pyspark_savepoint.formats.java_stream import skip_java_object
from pyspark_savepoint.formats.keyed.key_group_reader import KeyGroupContent
from pyspark_savepoint.formats.keyed.meta_info import BackendStateType, StateMetaInfoSnapshot, read_registration
from pyspark_savepoint.formats.redaction import redacted
from pyspark_savepoint.formats.serializers.layout import skip_rows

if TYPE_CHECKING:
    from pyspark_savepoint.formats.io.byte_source import ByteSource, StateLocation
    from pyspark_savepoint.formats.serializers.base import ClassDescriptions

CLEAR, SET, SET_INTERNAL, ADD, MERGE_NAMESPACES = 0, 1, 2, 3, 4
ADD_ELEMENT, ADD_OR_UPDATE_ELEMENT, REMOVE_ELEMENT, METADATA = 5, 6, 7, 8
METADATA_GROUP = -1
META_VERSIONS = (6, 7)
#: Kinds of states by their code, which is not their ordinal.
KINDS: Mapping[int, BackendStateType] = MappingProxyType(
    {0: BackendStateType.KEY_VALUE, 3: BackendStateType.PRIORITY_QUEUE}
)
#: A flag, and the header of a Java object stream.
TTL = re.compile(rb"\x01\xac\xed\x00\x05")
#: Window in bytes that contains the registrations of most change sets.
FIRST_WINDOW = 1 << 16


@dataclass(slots=True)
class Changes:
    """Changes in the order of the log: spans of one writable buffer, and their key groups."""

    buffer: Bytes
    key_group: Ints
    start: Longs
    end: Longs
    origin: Origin
    #: Descriptions of the user's classes.
    classes: ClassDescriptions | None = None

    def __len__(self) -> int:
        return len(self.start)


@dataclass(frozen=True, slots=True)
class Registration:
    """A state that the log registers, and the id of its subsequent changes."""

    state_id: int
    meta: StateMetaInfoSnapshot


@dataclass(frozen=True, slots=True)
class FileChanges:
    """Description of one change set of a file: frozen, without open files, picklable."""

    location: StateLocation
    offset: int

    def read(self, block_bytes: int, operator: str) -> Generator[Changes, None, None]:
        """Yield the changes, about ``block_bytes`` bytes at a time."""
        with self.location.open() as source:
            yield from _read_set(source, self.offset, block_bytes, operator)


@redacted
@dataclass(frozen=True, slots=True)
class InlineChanges:
    """Changes stored inline in ``_metadata``: (key group, change)."""

    path: str
    changes: tuple[tuple[int, bytes], ...]
    #: Descriptions of the user's classes.
    classes: ClassDescriptions | None = None

    def read(self, block_bytes: int, operator: str) -> Generator[Changes, None, None]:
        """Yield the changes, about ``block_bytes`` bytes at a time."""
        ends = np.cumsum([len(change) for _, change in self.changes])
        first = 0
        while first < len(self.changes):
            before = int(ends[first - 1]) if first else 0
            last = max(first + 1, int(np.searchsorted(ends, before + block_bytes, "right")))
            yield self._part(self.changes[first:last], operator)
            first = last

    def _part(self, changes: Sequence[tuple[int, bytes]], operator: str) -> Changes:
        buffer = np.frombuffer(bytearray(b"".join(change for _, change in changes)), np.uint8)
        sizes = np.array([len(change) for _, change in changes], np.int64)
        end = np.cumsum(sizes)
        group = np.array([group for group, _ in changes], np.int32)
        origin = Origin(self.path, 0, operator, None, True)
        short = np.flatnonzero(sizes < 3)
        if len(short):
            raise _damaged(origin, int(end[short[0]]), "a change with its operation and state", "fewer bytes")
        return Changes(buffer, group, end - sizes, end, origin, self.classes)


ChangeSource = FileChanges | InlineChanges


def _read_set(source: ByteSource, offset: int, block_bytes: int, operator: str) -> Iterator[Changes]:
    from pyspark_savepoint.formats.kernels import changelog

    compressed, content = _content_at(source, offset, operator)
    before = offset if compressed else 1 + offset
    cursor = np.array([-1, 0, 0], np.int64)
    rest, size = np.empty(0, np.uint8), block_bytes
    while True:
        buffer = content.window(rest, size)
        origin = Origin(source.path, before, operator, None, compressed)
        group = np.empty(len(buffer) // 7 + 1, np.int32)
        start, end = np.empty(len(group), np.int64), np.empty(len(group), np.int64)
        why, position, count = changelog.split_changes(buffer, 0, len(buffer), cursor, group, start, end)
        if why == changelog.DAMAGED or (why == changelog.MORE and content.exhausted):
            raise _damaged(origin, position, "key groups and their changes", "other bytes")
        if count:
            yield Changes(buffer, group[:count], start[:count], end[:count], origin, source.classes)
        if why == changelog.DONE:
            return
        size = block_bytes if count else 2 * size
        before += position
        rest = buffer[position:].copy()


def _content_at(source: ByteSource, offset: int, operator: str) -> tuple[bool, KeyGroupContent]:
    """Return whether a file is compressed, and its content from an offset on."""
    flag = source.read(0, 1) if source.size else b""
    origin = Origin(source.path, 0, operator)
    if flag not in (b"\0", b"\1"):
        raise _damaged(origin, 0, "a flag for compression, 0 or 1", flag.hex() or "an empty file")
    compressed = flag == b"\1"
    if offset < 0 or (not compressed and offset >= source.size - 1):
        raise _damaged(origin, 0, "a change set within the file", f"one at {offset}, of {source.size} bytes")
    if not compressed:
        return False, KeyGroupContent(source, 1 + offset, source.size, False)
    content = KeyGroupContent(source, 1, source.size, True)
    nothing = np.empty(0, np.uint8)
    rest, size = nothing, FIRST_WINDOW
    while content.content < offset:
        if content.exhausted:
            raise _damaged(origin, 0, "a change set within the file", f"one at {offset} of {content.content} bytes")
        before = content.content
        fresh = content.window(nothing, size)
        rest, size = fresh[offset - before :], FIRST_WINDOW if len(fresh) else 2 * size
    return True, _PartlyRead(content, rest) if len(rest) else content


class _PartlyRead(KeyGroupContent):
    """Content whose first bytes were already read, and are returned again."""

    def __init__(self, content: KeyGroupContent, rest: Bytes) -> None:
        super().__init__(content.source, content.position, content.end, content.compressed)
        self.rest = rest

    def window(self, rest: Bytes, size: int) -> Bytes:
        """Return the bytes already read first, then continue as :meth:`KeyGroupContent.window`."""
        if len(self.rest):
            first, self.rest = self.rest, self.rest[:0]
            return first
        return super().window(rest, size)

    @property
    def exhausted(self) -> bool:
        """Return whether nothing is left to read."""
        return not len(self.rest) and self.position >= self.end


def _damaged(origin: Origin, position: int, expected: str, found: object) -> CorruptStateError:
    return CorruptStateError(
        "a changelog does not match the format",
        expected=expected,
        found=found,
        remedy=UNREADABLE,
        **origin.facts(position),
    )


# -- registrations ---------------------------------------------------------------------------------------------------


def registrations(sources: Sequence[ChangeSource], operator: str) -> Iterator[Registration]:
    """Yield the registrations at the beginning of each change set: the states that the log contains."""
    for source in sources:
        with closing(source.read(FIRST_WINDOW, operator)) as parts:
            for changes in parts:
                for i in np.flatnonzero(changes.key_group == METADATA_GROUP).tolist():
                    yield registration(changes, i)
                if isinstance(source, FileChanges) and changes.key_group[-1] != METADATA_GROUP:
                    break


def registration(changes: Changes, i: int) -> Registration:
    """Return the state that a change of key group -1 registers."""
    origin = changes.origin
    data = changes.buffer[int(changes.start[i]) : int(changes.end[i])].tobytes()
    view = DataInputView(data, origin.path, origin.base + int(changes.start[i]))
    try:
        return _read_registration(view, changes, i)
    except SavepointError as error:
        raise error.with_facts(operator=origin.operator) from None


def _read_registration(view: DataInputView, changes: Changes, i: int) -> Registration:
    if view.read_u8("the registration of a state") != METADATA:
        view.position = 0
        view.fail(f"the registration of a state, operation {METADATA}", int(view.data[0]))
    version = view.read_i32("the version of a state's registration")
    if version not in META_VERSIONS:
        view.position -= 4
        view.fail(f"version {' or '.join(map(str, META_VERSIONS))} of a registration", version)
    meta = read_registration(view, _ends_of_meta(view), changes.classes)
    if meta.kind is BackendStateType.KEY_VALUE:
        if view.read_bool("whether a state has a TTL"):
            skip_java_object(view)
        if view.read_bool("whether a state has a default value"):
            _skip_value(view, meta, changes, i)
    state_id, kind = view.read_i16("a state id"), view.read_u8("a kind of state")
    if state_id < 0 or KINDS.get(kind) is not meta.kind:
        view.fail("the id and the kind of a state that has keys", f"id {state_id}, kind {kind}")
    view.expect_end("a state's registration")
    return Registration(state_id, meta)


def _ends_of_meta(view: DataInputView) -> list[int]:
    """Return where a state's registration may go on behind its serializers: with a TTL, without, or as a timer's."""
    data = bytes(view.data)
    ends = [match.start() for match in TTL.finditer(data)]
    return [*ends, *([len(data) - 5] if data[-5:-3] == b"\0\0" else []), len(data) - 3]


def _skip_value(view: DataInputView, meta: StateMetaInfoSnapshot, changes: Changes, i: int) -> None:
    """Skip a default value, which belongs to the job and is not state."""
    if meta.value_serializer.opaque_parts():
        # Exactly three more bytes follow the value.
        view.position = view.position + view.remaining - 3
        return
    first = int(changes.start[i])
    at = Cursors(changes.buffer, np.array([first + view.position]), changes.end[i : i + 1], changes.origin)
    skip_rows(meta.value_serializer, at)
    view.position = int(at.position[0]) - first


def not_replayed(what: str, path: str | None, operator: str | None, **facts: object) -> UnsupportedStateError:
    """Return the error for changes that only the job itself can replay."""
    return UnsupportedStateError(
        what,
        path=path,
        operator=operator,
        remedy="take a canonical savepoint of the job (flink savepoint --type canonical), or read other states",
        **facts,
    )
