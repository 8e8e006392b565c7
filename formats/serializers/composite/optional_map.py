"""LinkedOptionalMap: named entries whose keys and values have lengths, so that unreadable ones can be skipped.

    OptMap := i64 0x000004F2C69A3D70  i32 n  Entry[n]
    Entry  := utf name  bool hasKey [i32 size, key]  bool hasValue [i32 size, value]

A key or value is absent if its class or field no longer existed when the snapshot was written. The length and bytes of
a key or value are its frame; a serializer snapshot that cannot be read is kept as bytes (:class:`OpaqueFrame`).
Flink: ``LinkedOptionalMapSerializer``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from pyspark_savepoint.formats.columns import Cursors, DecodeOptions
from pyspark_savepoint.formats.data_view import DataInputView, DataOutputView
from pyspark_savepoint.formats.errors import CorruptStateError, UndecodableStateError, UnsupportedVersionError
from pyspark_savepoint.formats.serializers.base import SnapshotReader, TypeSerializer, write_versioned

OPTIONAL_MAP_MAGIC = 0x000004F2C69A3D70
SMALLEST_ENTRY = 4


def read_optional_map(view: DataInputView) -> list[tuple[str, DataInputView | None, DataInputView | None]]:
    """Return name, key frame and value frame of every entry."""
    magic = view.read_i64("the magic number of an optional map")
    if magic != OPTIONAL_MAP_MAGIC:
        view.position -= 8
        view.fail(f"the magic number of an optional map {OPTIONAL_MAP_MAGIC:#018x}", f"{magic:#018x}")
    count = view.read_count("entries of an optional map", each=SMALLEST_ENTRY)
    return [(_read_name(view), _read_frame(view, "key"), _read_frame(view, "value")) for _ in range(count)]


def _read_name(view: DataInputView) -> str:
    """Read a name that a column can have: Java strings may contain lone surrogates, UTF-8 may not."""
    at = view.position
    name = view.read_utf("a name")
    if any("\ud800" <= char <= "\udfff" for char in name):
        view.position = at
        view.fail("a name without lone surrogates")
    return name


def _read_frame(view: DataInputView, what: str) -> DataInputView | None:
    if not view.read_bool(f"whether a {what} is present"):
        return None
    return view.sub_view(view.read_count(f"bytes of a {what}"), f"a {what}")


def write_optional_map(view: DataOutputView, entries: Sequence[tuple[str, bytes | None, bytes | None]]) -> None:
    """Write entries as :func:`read_optional_map` returns them, with bytes for frames."""
    view.write_i64(OPTIONAL_MAP_MAGIC)
    view.write_i32(len(entries))
    for name, *frames in entries:
        view.write_utf(name)
        for frame in frames:
            view.write_bool(frame is not None)
            if frame is not None:
                view.write_blob(frame)


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


def read_members(reader: SnapshotReader) -> tuple[Member, ...]:
    """Read an optional map whose values are serializer snapshots."""
    return tuple(
        Member(name, None if key is None else bytes(key.data), _read_serializer(reader, value))
        for name, key, value in read_optional_map(reader.view)
    )


def write_members(members: Iterable[Member], view: DataOutputView) -> None:
    """Write members as :func:`read_members` returns them."""
    write_optional_map(view, [(member.name, member.key, _serializer_frame(member.serializer)) for member in members])


def _read_serializer(reader: SnapshotReader, frame: DataInputView | None) -> TypeSerializer:
    if frame is None:
        return OpaqueFrame("", 0)
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
