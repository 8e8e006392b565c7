"""Which class reads which snapshot: by the snapshot class name in the file, the only type tag that there is.

Users add their own serializers from their own package, through the entry point group
``pyspark_savepoint.serializers``: each entry is a :class:`TypeSerializer` subclass, its name the snapshot class.
Entry points, because executors are other processes: a call on the driver would not reach them.

A snapshot class that nobody knows does not end the parse where that can be avoided: nearly everybody extends one of
Flink's base classes, whose payloads have a shape of their own (:class:`OpaqueSerializer`).
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import ClassVar, TypeVar

import pyarrow as pa

from pyspark_savepoint.formats.columns import Cursors, DecodeOptions
from pyspark_savepoint.formats.data_view import DataInputView, DataOutputView
from pyspark_savepoint.formats.errors import SavepointError, UndecodableStateError
from pyspark_savepoint.formats.serializers.base import COMPOSITE_MAGIC, SnapshotReader, TypeSerializer
from pyspark_savepoint.formats.serializers.plug_ins import PlugIn

ENTRY_POINT_GROUP = "pyspark_savepoint.serializers"

#: Magic number and version of nested serializers.
NESTED_START = re.compile(re.escape(b"\x00\x14\x57\xfd\x00\x00\x00\x01"))

_REGISTRY: dict[str, type[TypeSerializer]] = {}
S = TypeVar("S", bound=type[TypeSerializer])


def register(*snapshot_classes: str) -> Callable[[S], S]:
    """Class decorator: this class reads snapshots of these names."""

    def enter(serializer: S) -> S:
        for name in snapshot_classes:
            if name in _REGISTRY:
                raise ValueError(f"{name} is registered twice: {_REGISTRY[name]} and {serializer}")
            _REGISTRY[name] = serializer
        return serializer

    return enter


@cache
def known_serializers() -> dict[str, type[TypeSerializer]]:
    """Every snapshot class that is read, built-in and plugged in; a plug-in may replace a built-in."""
    from pyspark_savepoint.formats.serializers import families

    families.load()
    return {**_REGISTRY, **{entry.name: _plugged(entry) for entry in entry_points(group=ENTRY_POINT_GROUP)}}


def _plugged(entry: EntryPoint) -> type[TypeSerializer]:
    """The class of an entry point; UserFunctionError names the entry point and its package."""
    package = f" of package {entry.dist.name} {entry.dist.version}" if entry.dist is not None else ""
    with PlugIn(f"entry point {entry.name!r} = {entry.value!r}{package}", "its import"):
        found = entry.load()
        if not (isinstance(found, type) and issubclass(found, TypeSerializer)):
            raise TypeError(f"{found!r:.200} is not a TypeSerializer")
    return found


def read_versioned(reader: SnapshotReader) -> TypeSerializer:
    """``utf snapshotClass  i32 version  payload``; what was parsed already at this place is not parsed again."""
    view, unknown = reader.view, reader.unknown
    start = view.position
    if start in unknown.failed:
        view.fail("a serializer snapshot")
    try:
        return unknown.once(read_versioned, view, lambda: _read_versioned(reader))
    except SavepointError:
        unknown.failed.add(start)
        raise


def _read_versioned(reader: SnapshotReader) -> TypeSerializer:
    view = reader.view
    name = view.read_utf("a serializer snapshot class")
    version = view.read_i32("the version of a serializer snapshot")
    known = known_serializers().get(name, OpaqueSerializer)
    return known.read_snapshot(name, version, reader)


def read_serializer(data: bytes, path: str | None = None) -> TypeSerializer:
    """An enveloped snapshot that fills the bytes to the end."""
    view = DataInputView(data, path)
    serializer = SnapshotReader(view).enveloped()
    view.expect_end("a serializer snapshot")
    return serializer


@dataclass(frozen=True)
class OpaqueSerializer(TypeSerializer):
    """A snapshot class that is not known: its payload is kept as bytes, its values stay BINARY.

    The end of the payload follows from the family: composite (version 3, magic number), simple (version 3, nothing),
    generic and early simple (version 2, one class name). Where that cannot be, whoever knows where the whole header
    ends tries lengths (``meta_info.read_header``).
    """

    payload: bytes = b""
    detail: str = ""
    opaque: ClassVar[bool] = True

    @classmethod
    def read_snapshot(cls, name: str, version: int, reader: SnapshotReader) -> TypeSerializer:
        """Delimit the payload by its family; UndecodableStateError where that is not possible."""
        view = reader.view
        start = view.position
        detail = ""
        reader.unknown.met[start] = name
        if start in reader.unknown.lengths:
            view.read(reader.unknown.lengths[start], f"the snapshot of {name}")
        elif version == 3 and _peek_i32(view) == COMPOSITE_MAGIC:
            _skip_composite(reader, name)
        elif version == 2:
            detail = view.read_utf(f"a class name in the snapshot of {name}")
            if not detail or any(ch.isspace() for ch in detail):
                raise _endless(view, start, name)
        elif version != 3:
            raise _endless(view, start, name)
        return cls(name, version, bytes(view.data[start : view.position]), detail)

    def write_payload(self, view: DataOutputView) -> None:
        """The bytes as they were."""
        view.write(self.payload)

    @property
    def flink_type(self) -> str:
        """The class that is not known."""
        name = self.detail or self.snapshot_class.rsplit("$", 1)[0].removesuffix("Snapshot")
        return f"UNKNOWN<{name}>"

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        """BINARY: the bytes as they are."""
        return pa.binary()

    def decode(self, at: Cursors) -> pa.Array:
        """Never possible: only a table that knows where a value ends can show its bytes."""
        raise self._refuse("decoded").with_facts(**at.origin.facts())


def _peek_i32(view: DataInputView) -> int | None:
    if view.remaining < 4:
        return None
    value = view.read_i32()
    view.position -= 4
    return value


def _endless(view: DataInputView, start: int, name: str) -> UndecodableStateError:
    return UndecodableStateError(
        "a serializer snapshot is of a class of the user's own, and where its bytes end cannot be told",
        path=view.path,
        offset=view.base + start,
        expected="snapshots of Flink's classes, or of classes that are plugged in",
        found=name,
        remedy="plug in a serializer (entry point group 'pyspark_savepoint.serializers')",
    )


def _skip_composite(reader: SnapshotReader, name: str) -> None:
    """Find the nested serializers behind an outer part of unknown length: the first place where they parse."""
    view, work = reader.view, reader.unknown.work
    start = view.position
    if work.magic is None:
        work.magic = [match.start() for match in NESTED_START.finditer(view.data)]
    for found in work.magic[bisect_left(work.magic, start + 8) :]:
        if work.exhausted(view):
            break
        view.position = found
        try:
            reader.nested()
        except SavepointError:
            work.add(0)
        else:
            return
    raise _endless(view, start, name)
