"""Headers of state streams: the states of a stream, and their serializers.

    KeyedHeader    := i32 version (6)  bool compressed  Enveloped key  i16 n StateMeta[n]      then key groups
    OperatorHeader := i32 version (5, 6)  [bool compressed, version 6]
                      i16 n StateMeta[n] (list states)  i16 m StateMeta[m] (broadcast states)  then elements
    StateMeta      := utf name  i32 kind  i32 n (utf key, utf value)[n]  i32 m (utf key, Enveloped)[m]

A state's id in a keyed stream is its position in that stream's list; it differs from stream to stream.
Flink: ``KeyedBackendSerializationProxy``, ``OperatorBackendSerializationProxy``, ``StateMetaInfoSnapshot``.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import cached_property, lru_cache
from typing import Any, TypeVar

import xxhash

from pyspark_savepoint.formats.data_view import DataInputView, DataOutputView
from pyspark_savepoint.formats.encodings import I32, UTF, codes, count_of, mapping
from pyspark_savepoint.formats.errors import SavepointError, UnsupportedVersionError
from pyspark_savepoint.formats.io import snappy
from pyspark_savepoint.formats.io.byte_source import ByteSource, InlineByteSource
from pyspark_savepoint.formats.keyed.unknown_snapshots import ATTEMPT, Follower, Places, endings, not_unique
from pyspark_savepoint.formats.serializers.base import (
    ClassDescriptions,
    TypeSerializer,
    UnknownPayloads,
    write_enveloped,
)
from pyspark_savepoint.formats.serializers.registry import snapshot_reader
from pyspark_savepoint.formats.structs import Struct, of, part, struct

KEYED_VERSION = 6
OPERATOR_VERSIONS = (5, 6)
MAX_STATES = 32767


class BackendStateType(IntEnum):
    """Kind of a state. Flink: ``StateMetaInfoSnapshot.BackendStateType``, by ordinal."""

    KEY_VALUE = 0
    OPERATOR = 1
    BROADCAST = 2
    PRIORITY_QUEUE = 3
    KEY_VALUE_V2 = 4


@dataclass(frozen=True)
class StateMetaInfoSnapshot:
    """Name, kind, options and serializers of one registered state; maps keep their order."""

    name: str
    kind: BackendStateType
    options: Mapping[str, str]
    serializers: Mapping[str, TypeSerializer]

    @cached_property
    def value_serializer(self) -> TypeSerializer:
        """Return ``VALUE_SERIALIZER``; for a LIST or MAP state, it is the serializer of the whole list or map."""
        return self.serializers["VALUE_SERIALIZER"]

    @cached_property
    def namespace_serializer(self) -> TypeSerializer:
        """Return ``NAMESPACE_SERIALIZER`` of keyed state."""
        return self.serializers["NAMESPACE_SERIALIZER"]

    @cached_property
    def state_type(self) -> str:
        """Return VALUE, LIST, MAP, REDUCING, AGGREGATING, FOLDING, TIMER; of operator state LIST, UNION, BROADCAST."""
        if self.kind is BackendStateType.PRIORITY_QUEUE:
            return "TIMER"
        if self.kind is BackendStateType.BROADCAST:
            return "BROADCAST"
        if self.kind is BackendStateType.OPERATOR:
            mode = self.options["OPERATOR_STATE_DISTRIBUTION_MODE"]
            return "UNION" if mode == "UNION" else "LIST"
        return self.options["KEYED_STATE_TYPE"]


#: Required entries of each kind: (options, serializers).
REQUIRED: Mapping[BackendStateType, tuple[tuple[str, ...], tuple[str, ...]]] = {
    BackendStateType.KEY_VALUE: (("KEYED_STATE_TYPE",), ("NAMESPACE_SERIALIZER", "VALUE_SERIALIZER")),
    BackendStateType.KEY_VALUE_V2: (("KEYED_STATE_TYPE",), ("NAMESPACE_SERIALIZER", "VALUE_SERIALIZER")),
    BackendStateType.PRIORITY_QUEUE: ((), ("VALUE_SERIALIZER",)),
    BackendStateType.OPERATOR: (("OPERATOR_STATE_DISTRIBUTION_MODE",), ("VALUE_SERIALIZER",)),
    BackendStateType.BROADCAST: (("OPERATOR_STATE_DISTRIBUTION_MODE",), ("KEY_SERIALIZER", "VALUE_SERIALIZER")),
}


def read_state_meta(view: DataInputView, unknown: UnknownPayloads | None = None) -> StateMetaInfoSnapshot:
    """Read one StateMeta; the result is reused when the lengths of unknown payloads after it are tried."""
    known = unknown or UnknownPayloads()
    return known.once(read_state_meta, view, lambda: _read_state_meta(view, known))


def _read_state_meta(view: DataInputView, unknown: UnknownPayloads) -> StateMetaInfoSnapshot:
    head = HEAD.read(view, "")
    serializers = {}
    try:
        for _ in range(head.roles):
            role = view.read_utf(ROLE)
            serializers[role] = snapshot_reader(view, unknown=unknown).enveloped()
        return head.registered(view, serializers)
    except SavepointError as error:
        raise error.with_facts(state=head.name) from None


@struct
class _Head(Struct):
    """What a registration has in front of its serializers, which have a role and a snapshot each."""

    name: str = part(UTF, "a state name")
    kind: BackendStateType = part(codes(BackendStateType, I32), "the kind of a state")
    options: Mapping[str, str] = part(mapping(UTF, UTF, "a state option"), "state options")
    roles: int = part(count_of(12), "state serializers")

    def registered(self, view: DataInputView, serializers: Mapping[str, TypeSerializer]) -> StateMetaInfoSnapshot:
        """Return the state with its serializers; an error if one is missing."""
        if missing := self.missing(serializers):
            view.fail(f"{missing[0]} of the state", f"{len(serializers)} serializers, {len(self.options)} options")
        return StateMetaInfoSnapshot(self.name, self.kind, self.options, serializers)

    def missing(self, roles: Container[str]) -> list[str]:
        """Return the options and roles that the kind of state needs and that are not there."""
        needed_options, needed_serializers = REQUIRED[self.kind]
        missing = [role for role in needed_options if role not in self.options]
        return missing + [role for role in needed_serializers if role not in roles]


ROLE = "the role of a serializer"


HEAD = of(_Head)


def write_state_meta(meta: StateMetaInfoSnapshot, view: DataOutputView) -> None:
    """Write the bytes that :func:`read_state_meta` reads."""
    HEAD.write(view, _Head(meta.name, meta.kind, meta.options, len(meta.serializers)))
    for key, serializer in meta.serializers.items():
        view.write_utf(key)
        write_enveloped(serializer, view)


def _read_metas(view: DataInputView, unknown: UnknownPayloads | None) -> tuple[StateMetaInfoSnapshot, ...]:
    return tuple(read_state_meta(view, unknown) for _ in range(_read_count(view)))


def _read_count(view: DataInputView) -> int:
    count = view.read_i16("the number of states")
    if count < 0 or count > view.remaining // 14:
        view.position -= 2
        view.fail(f"a number of states from 0 to {min(MAX_STATES, view.remaining // 14)}", count)
    return count


def _write_metas(metas: tuple[StateMetaInfoSnapshot, ...], view: DataOutputView) -> None:
    view.write_i16(len(metas))
    for meta in metas:
        write_state_meta(meta, view)


def _version(view: DataInputView, versions: tuple[int, ...], what: str) -> int:
    version = view.read_i32(f"the version of {what}")
    if version not in versions:
        view.position -= 4
        raise UnsupportedVersionError(
            f"{what} has a version that is not supported",
            path=view.path,
            offset=view.base + view.position,
            expected=f"version {' or '.join(map(str, versions))} (Flink 1.7 and later)",
            found=version,
            remedy="the stream was written by Flink 1.6 or older: restore it and take a savepoint with Flink 1.8 to "
            "1.16",
        )
    return version


@dataclass(frozen=True)
class KeyedBackendHeader:
    """Header of a keyed stream; ``size`` is its length in bytes, ``digest`` that of the bytes that it was read from."""

    compressed: bool
    key_serializer: TypeSerializer
    states: tuple[StateMetaInfoSnapshot, ...]
    size: int = 0
    digest: bytes = field(default=b"", compare=False, repr=False)

    @classmethod
    def read(cls, view: DataInputView, unknown: UnknownPayloads | None = None) -> KeyedBackendHeader:
        """Read the header at the start of a stream, and move the view past it."""
        start = view.position
        compressed = cls.read_start(view)
        key_serializer = snapshot_reader(view, unknown=unknown).enveloped()
        states = _read_metas(view, unknown)
        digest = xxhash.xxh3_128_digest(view.data[start : view.position])
        return cls(compressed, key_serializer, states, view.position - start, digest)

    @staticmethod
    def read_start(view: DataInputView) -> bool:
        """Read what is in front of the first serializer; return whether data are compressed."""
        _version(view, (KEYED_VERSION,), "a keyed state stream")
        return view.read_bool("the compression flag")

    def write(self, view: DataOutputView) -> None:
        """Write the bytes that :meth:`read` reads."""
        view.write_i32(KEYED_VERSION)
        view.write_bool(self.compressed)
        write_enveloped(self.key_serializer, view)
        _write_metas(self.states, view)

    def to_bytes(self) -> bytes:
        """Return the bytes that :meth:`write` writes."""
        view = DataOutputView()
        self.write(view)
        return view.getvalue()


@dataclass(frozen=True)
class OperatorBackendHeader:
    """Header of an operator state stream; ``size`` is its length in bytes."""

    version: int
    compressed: bool
    list_states: tuple[StateMetaInfoSnapshot, ...]
    broadcast_states: tuple[StateMetaInfoSnapshot, ...]
    size: int = 0

    @property
    def states(self) -> tuple[StateMetaInfoSnapshot, ...]:
        """Return list and union states, then broadcast states."""
        return self.list_states + self.broadcast_states

    @classmethod
    def read(cls, view: DataInputView, unknown: UnknownPayloads | None = None) -> OperatorBackendHeader:
        """Read the header at the start of a stream, and move the view past it."""
        start = view.position
        version, compressed = cls.read_start(view)
        lists, broadcasts = _read_metas(view, unknown), _read_metas(view, unknown)
        return cls(version, compressed, lists, broadcasts, view.position - start)

    @staticmethod
    def read_start(view: DataInputView) -> tuple[int, bool]:
        """Read what is in front of the first state: the version, and whether data are compressed."""
        version = _version(view, OPERATOR_VERSIONS, "an operator state stream")
        return version, view.read_bool("the compression flag") if version >= 6 else False

    def write(self, view: DataOutputView) -> None:
        """Write the bytes that :meth:`read` reads."""
        view.write_i32(self.version)
        if self.version >= 6:
            view.write_bool(self.compressed)
        _write_metas(self.list_states, view)
        _write_metas(self.broadcast_states, view)


def read_registration(
    view: DataInputView, ends: Sequence[int], classes: ClassDescriptions | None
) -> StateMetaInfoSnapshot:
    """Read one StateMeta; if a serializer snapshot is of an unknown class, it ends where one of ``ends`` lets it."""
    start = view.position
    unknown = UnknownPayloads(classes=classes)
    meta, problem = None, None
    try:
        meta = read_state_meta(view, unknown)
    except SavepointError as error:
        problem = error
    if unknown.met and (meta is None or view.position not in ends):
        lengths = _lengths(view, tuple(sorted(ends)), unknown, _Node(start, states=1))
        view.position = start
        return read_state_meta(view, UnknownPayloads(lengths or {}, classes=classes))
    if meta is None:
        assert problem is not None
        raise problem
    return meta


# -- headers read in steps, even if they contain serializer snapshots of user classes ---------------------------------
# A snapshot of an unknown class may have a payload of unknown length and format. The end of the header is known,
# however, because the first data begin there: ``_Search`` finds the way to parse up to exactly that byte.

# Headers have kilobytes; Kryo and Avro snapshots may be larger. They are read in steps, up to this size.
FIRST_READ = 1 << 16
MAX_HEADER = 1 << 26
#: Number of parsed headers to keep, of at most FIRST_READ bytes each: subtasks of an operator mostly have equal ones.
CACHED_HEADERS = 32
#: Number of larger ones, and their bytes.
CACHED_LARGE_HEADERS, MAX_CACHED_BYTES = 4, 1 << 24

H = TypeVar("H", KeyedBackendHeader, OperatorBackendHeader)


def read_header(kind: type[H], source: ByteSource, end: int) -> H:
    """Return the header of a stream whose data begin at ``end``; equal bytes give the same object."""
    most = min(end, source.size, MAX_HEADER)
    size = min(FIRST_READ, most)
    data = source.read(0, size)
    if size == most:
        try:
            return _parsed(kind, data, source.classes)  # type: ignore[arg-type, no-any-return]  # mypy asks for the hash of an object
        except SavepointError:
            pass  # parsed once more below, for an error with the path of this stream
    elif most <= MAX_CACHED_BYTES:
        # Tables of operator state read the header again for each of its states, which may be many.
        data = source.read(0, most)
        try:
            return _parsed_large(kind, data, source.classes)  # type: ignore[arg-type, no-any-return]  # mypy asks for the hash of an object
        except SavepointError:
            pass
    return _read_in_steps(kind, source, data, most)


@lru_cache(maxsize=CACHED_HEADERS)
def _parsed(kind: type[Any], data: bytes, classes: Any) -> Any:
    return _read_in_steps(kind, InlineByteSource("", data, classes), data, len(data))


@lru_cache(maxsize=CACHED_LARGE_HEADERS)
def _parsed_large(kind: type[Any], data: bytes, classes: Any) -> Any:
    return _read_in_steps(kind, InlineByteSource("", data, classes), data, len(data))


def _read_in_steps(kind: type[H], source: ByteSource, data: bytes, most: int) -> H:
    """Return the header that begins with ``data``; read more of the source, up to ``most``, if that is too short."""
    size = len(data)
    while True:
        view = DataInputView(data, source.path)
        unknown = UnknownPayloads(classes=source.classes)
        header, problem = None, None
        try:
            header = kind.read(view, unknown)
        except SavepointError as error:
            problem = error
        if header is not None and (not unknown.met or _ends_at(header, most)):
            return header
        if size == most:
            fitting = _search(kind, view, most, unknown) or header
            if fitting is None:
                assert problem is not None
                raise problem
            return fitting
        size = min(4 * size, most)
        data = source.read(0, size)


def _ends_at(header: KeyedBackendHeader | OperatorBackendHeader, end: int) -> bool:
    # A compressed operator stream begins with an identifier; its first offset is before or after the identifier.
    if isinstance(header, OperatorBackendHeader) and header.compressed:
        return header.size in (end, end - len(snappy.IDENTIFIER))
    return header.size == end


@dataclass(frozen=True, slots=True)
class _Node:
    """A position between two parts of a header, on the way from its start, and what is to come.

    ``lengths`` are those of unknown payloads in the part before, ``counts`` the lists of states to come, ``states`` the
    states of this list that have not begun, ``head`` the state whose serializers are read, ``roles`` those of it that
    were. ``key`` is True in front of the serializer of keys.
    """

    position: int
    counts: int = 0
    states: int = 0
    key: bool = False
    head: _Head | None = None
    roles: frozenset[str] = frozenset()
    passed: int = 0
    before: _Node | None = None
    lengths: Mapping[int, int] = field(default_factory=dict)

    @property
    def identity(self) -> object:
        """Return what determines how the header may go on."""
        kind = None if self.head is None else (self.head.kind, self.head.roles, frozenset(self.head.options))
        return self.position, self.counts, self.key, self.states, kind, self.roles, self.passed

    @property
    def is_complete(self) -> bool:
        """Return whether nothing is to come."""
        return not (self.key or self.counts or self.states or self.head)


@dataclass(frozen=True)
class _Search:
    """Search for the one way to parse a header up to its end, where some serializer snapshots have no known ends."""

    view: DataInputView
    places: Places
    shared: UnknownPayloads

    def run(self, first: _Node) -> dict[int, int] | None:
        """Return the lengths of all unknown payloads; None if no way leads to the end, an error if two do."""
        leading, dead = set[object](), set[object]()
        found: _Node | None = None
        way: list[tuple[_Node, Iterator[_Node]]] = [(first, self._following(first))]
        while way:
            node = next(way[-1][1], None)
            if self.shared.work.exhausted(self.view):
                raise not_unique(self.view, self.shared, False)
            if node is None:
                dead.add(way.pop()[0].identity)
                continue
            if node.is_complete and node.position not in self.places.ends:
                continue
            identity = node.identity
            if found is not None and (node.is_complete or identity in leading):
                raise not_unique(self.view, self.shared, True)
            if node.is_complete:
                found = node
                leading.update(each.identity for each, _ in way)
            elif identity not in dead:
                self.shared.work.add(ATTEMPT)
                way.append((node, self._following(node)))
        return None if found is None else _lengths_until(found)

    def _following(self, node: _Node) -> Iterator[_Node]:
        """Yield the nodes after the next part, one for each end that it may have."""
        view, head = self.view, node.head
        view.position = node.position
        roles = node.roles
        try:
            if head is not None:
                roles |= {view.read_utf(ROLE)}
            elif not node.key:
                yield self._after_next(node)
                return
        except SavepointError:
            return
        left = 0 if head is None else head.roles - node.passed - 1
        whole = head is None or (left == 0 and not head.missing(roles))
        if left == 0 and not whole:
            return
        follower = Follower(left, node.states, node.counts)
        for end, lengths in endings(view, self.places, follower, self.shared, self._enveloped):
            after = _Node(end, node.counts, node.states, before=node, lengths=lengths)
            yield after if whole else replace(after, head=head, roles=roles, passed=node.passed + 1)

    def _after_next(self, node: _Node) -> _Node:
        """Read the number of states of the next list, or the start of the next state."""
        view = self.view
        if not node.states:
            count = _read_count(view)
            return _Node(view.position, node.counts - 1, count, before=node)
        head = HEAD.read(view, "")
        if not head.roles:
            head.registered(view, {})
        return _Node(view.position, node.counts, node.states - 1, head=head if head.roles else None, before=node)

    def _enveloped(self, attempt: UnknownPayloads) -> TypeSerializer:
        return snapshot_reader(self.view, attempt).enveloped()


def _lengths(
    view: DataInputView, ends: tuple[int, ...], unknown: UnknownPayloads, first: _Node
) -> dict[int, int] | None:
    """Return the lengths of all unknown payloads behind a node; None if no way leads to one of the ends."""
    lengths = None
    for roles_inside in (False, True):
        lengths = lengths or _Search(view, Places(bytes(view.data), ends, roles_inside), unknown).run(first)
    return lengths


def _lengths_until(node: _Node) -> dict[int, int]:
    lengths: dict[int, int] = {}
    at: _Node | None = node
    while at is not None:
        lengths.update(at.lengths)
        at = at.before
    return lengths


def _search(kind: type[H], view: DataInputView, end: int, unknown: UnknownPayloads) -> H | None:
    """Return the header that ends at ``end``; None if its snapshots are all known, or if it does not end there."""
    if not unknown.met:
        return None
    view.position = 0
    ends: tuple[int, ...] = (end,)
    if issubclass(kind, KeyedBackendHeader):
        kind.read_start(view)
        first = _Node(view.position, counts=1, key=True)
    else:
        _, compressed = OperatorBackendHeader.read_start(view)
        ends = (end - len(snappy.IDENTIFIER), end) if compressed else ends
        first = _Node(view.position, counts=2)
    lengths = _lengths(view, ends, unknown, first)
    if lengths is None:
        return None
    view.position = 0
    return kind.read(view, UnknownPayloads(lengths, classes=unknown.classes))
