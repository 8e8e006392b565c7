"""LinkedOptionalMap: named entries whose keys and values have lengths, so that unreadable ones can be skipped.

    OptMap := i64 0x000004F2C69A3D70  i32 n  Entry[n]
    Entry  := utf name  bool hasKey [i32 size, key]  bool hasValue [i32 size, value]

A key or value is absent if its class or field no longer existed when the snapshot was written. The length and bytes of
a key or value are its frame; a serializer snapshot that cannot be read is kept as bytes (:class:`OpaqueFrame`).
Flink: ``LinkedOptionalMapSerializer``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from pyspark_savepoint.formats.columns import Cursors, DecodeOptions
from pyspark_savepoint.formats.data_view import DataInputView, DataOutputView
from pyspark_savepoint.formats.encodings import (
    BLOB,
    COLUMN_TEXT,
    I64,
    Encoding,
    FromSource,
    after,
    constant,
    many,
    optional,
    row,
)
from pyspark_savepoint.formats.errors import CorruptStateError, UndecodableStateError, UnsupportedVersionError
from pyspark_savepoint.formats.serializers.base import SnapshotReader, TypeSerializer, write_versioned

#: Name, key frame and value frame.
Entry = tuple[str, bytes | None, bytes | None]
ENTRY: Encoding[Entry] = row(
    (COLUMN_TEXT, "a name"),
    (optional(BLOB, asked="whether a key is present"), "bytes of a key"),
    (optional(BLOB, asked="whether a value is present"), "bytes of a value"),
)
OPTIONAL_MAP = after([constant(I64, 0x000004F2C69A3D70, "the magic number of an optional map")], many(ENTRY))
ENTRIES = "entries of an optional map"


@dataclass(frozen=True)
class OpaqueFrame(TypeSerializer):
    """Serializer whose snapshot could not be read; ``payload`` is its whole frame, None if there is no frame."""

    payload: bytes | None = None
    opaque: ClassVar[bool] = True

    @classmethod
    def read_snapshot(cls, name: str, version: int, reader: SnapshotReader) -> TypeSerializer:
        """Keep all bytes of the reader's frame."""
        return cls(name, version, bytes(reader.view.data))

    def write_payload(self, view: DataOutputView) -> None:
        """Write the frame as it was read."""
        view.write(self.payload or b"")

    @property
    def flink_type(self) -> str:
        """UNKNOWN<class>, with the serializer class if it could be read."""
        return f"UNKNOWN<{self.snapshot_class.rsplit('$', 1)[0].removesuffix('Snapshot')}>"

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return pa.binary()

    def decode(self, at: Cursors) -> pa.Array:
        """Raise UndecodableStateError: the end of a value is unknown."""
        raise self._refuse("decoded").with_facts(**at.origin.facts())


@dataclass(frozen=True)
class Member:
    """Entry of an optional map of serializers: a field or a subclass. ``key`` is the key frame, kept as bytes."""

    name: str
    key: bytes | None
    serializer: TypeSerializer


def _read_members(reader: SnapshotReader) -> tuple[Member, ...]:
    entries = OPTIONAL_MAP.read(reader.view, ENTRIES)
    return tuple(Member(name, key, _read_serializer(reader, value)) for name, key, value in entries)


def _write_members(view: DataOutputView, members: tuple[Member, ...]) -> None:
    OPTIONAL_MAP.write(view, tuple((one.name, one.key, _serializer_frame(one.serializer)) for one in members))


#: An optional map whose values are serializer snapshots.
MEMBERS = FromSource(_read_members, _write_members)


def _read_serializer(reader: SnapshotReader, data: bytes | None) -> TypeSerializer:
    if data is None:
        return OpaqueFrame("", 0)
    frame = DataInputView(data, reader.view.path)
    try:
        serializer = reader.over(frame).versioned()
        frame.expect_end("a serializer snapshot")
    except (CorruptStateError, UndecodableStateError, UnsupportedVersionError):
        return OpaqueFrame.read_snapshot(_class_name(frame), 0, reader.over(frame))
    return serializer


def _class_name(frame: DataInputView) -> str:
    frame.position = 0
    try:
        return frame.read_utf("a serializer snapshot class")
    except CorruptStateError:
        return ""


def _serializer_frame(serializer: TypeSerializer) -> bytes | None:
    if isinstance(serializer, OpaqueFrame):
        return serializer.payload
    view = DataOutputView()
    write_versioned(serializer, view)
    return view.getvalue()
