"""Headers of state streams: the states of a stream, and their serializers.

    KeyedHeader    := i32 version (6)  bool compressed  Enveloped key  i16 n StateMeta[n]      then key groups
    OperatorHeader := i32 version (5, 6)  [bool compressed, version 6]
                      i16 n StateMeta[n] (list states)  i16 m StateMeta[m] (broadcast states)  then elements
    StateMeta      := utf name  i32 kind  i32 n (utf key, utf value)[n]  i32 m (utf key, Enveloped)[m]

A state's id in a keyed stream is its position in that stream's list; it differs from stream to stream.
Flink: ``KeyedBackendSerializationProxy``, ``OperatorBackendSerializationProxy``, ``StateMetaInfoSnapshot``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property, lru_cache
from typing import Any, Generic, TypeVar

from pyspark_savepoint.formats.data_view import DataInputView, DataOutputView
from pyspark_savepoint.formats.errors import SavepointError, UnsupportedVersionError
from pyspark_savepoint.formats.io import snappy
from pyspark_savepoint.formats.io.byte_source import ByteSource, InlineByteSource
from pyspark_savepoint.formats.serializers.base import (
    TypeSerializer,
    UnknownPayloads,
    write_enveloped,
)
from pyspark_savepoint.formats.serializers.registry import snapshot_reader

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
    name = view.read_utf("a state name")
    kind = view.read_i32("the kind of a state")
    if not 0 <= kind < len(BackendStateType):
        view.position -= 4
        view.fail("a kind of state from 0 to 4", kind)
    options = {}
    for _ in range(view.read_count("state options", each=4)):
        key = view.read_utf("a state option")
        options[key] = view.read_utf("a state option")
    serializers = {}
    for _ in range(view.read_count("state serializers", each=12)):
        key = view.read_utf("the role of a serializer")
        serializers[key] = snapshot_reader(view, unknown=unknown).enveloped()
    meta = StateMetaInfoSnapshot(name, BackendStateType(kind), options, serializers)
    needed_options, needed_serializers = REQUIRED[meta.kind]
    missing = [role for role in needed_options if role not in options]
    missing += [role for role in needed_serializers if role not in serializers]
    if missing:
        view.fail(f"{missing[0]} of state {name!r}")
    return meta


def write_state_meta(meta: StateMetaInfoSnapshot, view: DataOutputView) -> None:
    """Write the bytes that :func:`read_state_meta` reads."""
    view.write_utf(meta.name)
    view.write_i32(meta.kind)
    view.write_i32(len(meta.options))
    for key, value in meta.options.items():
        view.write_utf(key)
        view.write_utf(value)
    view.write_i32(len(meta.serializers))
    for key, serializer in meta.serializers.items():
        view.write_utf(key)
        write_enveloped(serializer, view)


def _read_metas(view: DataInputView, unknown: UnknownPayloads | None) -> tuple[StateMetaInfoSnapshot, ...]:
    count = view.read_i16("the number of states")
    if count < 0 or count > view.remaining // 14:
        view.position -= 2
        view.fail(f"a number of states from 0 to {min(MAX_STATES, view.remaining // 14)}", count)
    return tuple(read_state_meta(view, unknown) for _ in range(count))


def _write_metas(metas: tuple[StateMetaInfoSnapshot, ...], view: DataOutputView) -> None:
    view.write_i16(len(metas))
    for meta in metas:
        write_state_meta(meta, view)


def _version(view: DataInputView, known: tuple[int, ...], what: str) -> int:
    version = view.read_i32(f"the version of {what}")
    if version not in known:
        view.position -= 4
        raise UnsupportedVersionError(
            f"{what} has a version that is not supported",
            path=view.path,
            offset=view.base + view.position,
            expected=f"version {' or '.join(map(str, known))} (Flink 1.7 and later)",
            found=version,
            remedy="the stream was written by Flink 1.6 or older: restore it and take a savepoint with Flink 1.7 to "
            "1.16",
        )
    return version


@dataclass(frozen=True)
class KeyedBackendHeader:
    """Header of a keyed stream; ``size`` is its length in bytes."""

    compressed: bool
    key_serializer: TypeSerializer
    states: tuple[StateMetaInfoSnapshot, ...]
    size: int = 0

    @classmethod
    def read(cls, view: DataInputView, unknown: UnknownPayloads | None = None) -> KeyedBackendHeader:
        """Read the header at the start of a stream, and move the view past it."""
        start = view.position
        _version(view, (KEYED_VERSION,), "a keyed state stream")
        compressed = view.read_bool("the compression flag")
        key_serializer = snapshot_reader(view, unknown=unknown).enveloped()
        states = _read_metas(view, unknown)
        return cls(compressed, key_serializer, states, view.position - start)

    def write(self, view: DataOutputView) -> None:
        """Write the bytes that :meth:`read` reads."""
        view.write_i32(KEYED_VERSION)
        view.write_bool(self.compressed)
        write_enveloped(self.key_serializer, view)
        _write_metas(self.states, view)


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
        version = _version(view, OPERATOR_VERSIONS, "an operator state stream")
        compressed = view.read_bool("the compression flag") if version >= 6 else False
        lists, broadcasts = _read_metas(view, unknown), _read_metas(view, unknown)
        return cls(version, compressed, lists, broadcasts, view.position - start)

    def write(self, view: DataOutputView) -> None:
        """Write the bytes that :meth:`read` reads."""
        view.write_i32(self.version)
        if self.version >= 6:
            view.write_bool(self.compressed)
        _write_metas(self.list_states, view)
        _write_metas(self.broadcast_states, view)


# -- headers read in steps, even if they contain serializer snapshots of user classes ---------------------------------
# A snapshot of an unknown class may have a payload of unknown length and format. The end of the header is known,
# however, because the first data begin there. So lengths are tried, shortest first, until the header parses up to
# exactly that byte.

# Headers have kilobytes; Kryo and Avro snapshots may be larger. They are read in steps, up to this size.
FIRST_READ = 1 << 16
MAX_HEADER = 1 << 26
# The payload of a user's snapshot usually consists of a few names.
MAX_PAYLOAD = 1 << 12
#: Number of parsed headers to keep, of at most FIRST_READ bytes each: subtasks of an operator mostly have equal ones.
KEPT_HEADERS = 32
#: Number of larger ones, and their bytes.
KEPT_LARGE_HEADERS, MAX_KEPT = 4, 1 << 24

H = TypeVar("H", KeyedBackendHeader, OperatorBackendHeader)


def read_header(kind: type[H], source: ByteSource, end: int) -> H:
    """Return the header of a stream whose data begin at ``end``; equal bytes give the same object."""
    most = min(end, source.size, MAX_HEADER)
    size = min(FIRST_READ, most)
    data = source.read(0, size)
    if size == most:
        try:
            return _parsed(kind, data, source.classes)  # type: ignore
        except SavepointError:
            pass  # parsed once more below, for an error with the path of this stream
    elif most <= MAX_KEPT:
        # Tables of operator state read the header again for each of its states, which may be many.
        data = source.read(0, most)
        try:
            return _parsed_large(kind, data, source.classes)  # type: ignore
        except SavepointError:
            pass
    return _read_in_steps(kind, source, data, most)


@lru_cache(maxsize=KEPT_HEADERS)
def _parsed(kind: type[Any], data: bytes, classes: Any) -> Any:
    return _read_in_steps(kind, InlineByteSource("", data, classes), data, len(data))


@lru_cache(maxsize=KEPT_LARGE_HEADERS)
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
            fitting = _Fit(kind, view, most).fit(unknown) or header
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


class _Fit(Generic[H]):
    """Search for the lengths of unknown payloads with which the header ends at ``end``."""

    def __init__(self, kind: type[H], view: DataInputView, end: int) -> None:
        self.kind: type[H] = kind
        self.view = view
        self.end = end

    def fit(self, unknown: UnknownPayloads) -> H | None:
        """Try lengths for the first payload without one, then for the following ones; None if none fits."""
        start = next((position for position in sorted(unknown.met) if position not in unknown.lengths), None)
        if start is None:
            return None
        for length in range(min(MAX_PAYLOAD, self.end - start) + 1):
            attempt = unknown.with_length(start, length)
            header = self._attempt(attempt) or self.fit(attempt)
            if header is not None or attempt.work.exhausted(self.view):
                return header
        return None

    def _attempt(self, unknown: UnknownPayloads) -> H | None:
        self.view.position = 0
        unknown.work.add(0)
        try:
            header = self.kind.read(self.view, unknown)
        except SavepointError:
            return None
        return header if _ends_at(header, self.end) else None
