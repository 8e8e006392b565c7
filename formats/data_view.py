"""Java's ``DataInput`` and ``DataOutput`` over one buffer, bounds-checked.

For headers and metadata: everything big-endian, every length checked against what is left before anything is
allocated. Rows are decoded elsewhere (``columns.py``). Flink: ``DataInputDeserializer``, ``DataOutputSerializer``.
"""

from __future__ import annotations

import struct
from typing import NoReturn

from pyspark_savepoint.formats.errors import UNREADABLE, CorruptStateError
from pyspark_savepoint.formats.java import decode_modified_utf8, encode_modified_utf8, utf16_units

MAX_UTF_BYTES = 65535


class DataInputView:
    """Reads forward over ``data``; ``path`` and ``base`` (file offset of byte 0) only locate errors."""

    __slots__ = ("base", "data", "end", "path", "position")

    def __init__(self, data: bytes | memoryview, path: str | None = None, base: int = 0) -> None:
        self.data = memoryview(data)
        self.position = 0
        self.end = len(self.data)
        self.path = path
        self.base = base

    @property
    def remaining(self) -> int:
        """Bytes that are left."""
        return self.end - self.position

    def fail(self, expected: str, found: object = None) -> NoReturn:
        """Raise a CorruptStateError for this position."""
        raise CorruptStateError(
            "the bytes are not what the format says",
            path=self.path,
            offset=self.base + self.position,
            expected=expected,
            found=found,
            remedy=UNREADABLE,
        )

    def read(self, count: int, what: str = "bytes") -> bytes:
        """The next ``count`` bytes."""
        if count < 0 or count > self.remaining:
            self.fail(f"{count} bytes of {what}", f"{self.remaining} bytes until the end")
        start = self.position
        self.position += count
        return bytes(self.data[start : self.position])

    def _number(self, code: str, width: int, what: str) -> int:
        if width > self.remaining:
            self.fail(f"{width} bytes of {what}", f"{self.remaining} bytes until the end")
        (value,) = struct.unpack_from(code, self.data, self.position)
        self.position += width
        return int(value)

    def read_u8(self, what: str = "a byte") -> int:
        return self._number(">B", 1, what)

    def read_i8(self, what: str = "a byte") -> int:
        return self._number(">b", 1, what)

    def read_u16(self, what: str = "a short") -> int:
        """Unsigned short, big-endian."""
        return self._number(">H", 2, what)

    def read_i16(self, what: str = "a short") -> int:
        """Signed short, big-endian."""
        return self._number(">h", 2, what)

    def read_i32(self, what: str = "an int") -> int:
        """Signed int, big-endian."""
        return self._number(">i", 4, what)

    def read_i64(self, what: str = "a long") -> int:
        """Signed long, big-endian."""
        return self._number(">q", 8, what)

    def read_bool(self, what: str = "a boolean") -> bool:
        """One byte, 0 or 1; anything else is an error, for Java writes nothing else."""
        value = self.read_u8(what)
        if value > 1:
            self.position -= 1
            self.fail(f"{what}: 0 or 1", value)
        return value == 1

    def read_count(self, what: str, each: int = 1, limit: int | None = None) -> int:
        """An int that counts things of at least ``each`` bytes: never more than the bytes that are left hold.

        ``each`` = 0 is for numbers that nothing follows; then only ``limit`` bounds them.
        """
        count = self.read_i32(what)
        most = self.remaining // max(each, 1)
        if limit is not None:
            most = min(most, limit) if each else limit
        if count < 0 or count > most:
            self.position -= 4
            self.fail(f"a number of {what} from 0 to {most}", count)
        return count

    def read_constant(self, value: int, what: str) -> None:
        """An int that must be this value."""
        found = self.read_i32(what)
        if found != value:
            self.position -= 4
            self.fail(f"{what} {value:#010x}", f"{found & 0xFFFFFFFF:#010x}")

    def read_utf(self, what: str = "a string") -> str:
        """``DataInput.readUTF``: u16 byte length, modified UTF-8."""
        at = self.position
        data = self.read(self.read_u16(what), what)
        try:
            return decode_modified_utf8(data)
        except ValueError:
            self.position = at
            self.fail(f"{what} in modified UTF-8")

    def read_blob(self, what: str = "bytes") -> bytes:
        """i32 length and that many bytes."""
        return self.read(self.read_count(what), what)

    def read_string_value(self, what: str = "a string") -> str | None:
        """A string as ``StringSerializer`` writes it: varint of the length plus one, varint code units."""
        at = self.position
        length = self._varint(what)
        if length == 0:
            return None
        if length - 1 > self.remaining:
            self.position = at
            self.fail(f"{what} of {length - 1} characters", f"{self.remaining} bytes until the end")
        units = bytearray()
        for _ in range(length - 1):
            unit = self._varint(what)
            if unit > 0xFFFF:
                self.fail(f"{what}: a UTF-16 code unit", unit)
            units += unit.to_bytes(2, "little")
        return units.decode("utf-16-le", "surrogatepass")

    def _varint(self, what: str) -> int:
        value = shift = 0
        while True:
            byte = self.read_u8(what)
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
            if shift > 28:
                self.fail(f"{what}: a varint of at most 5 bytes")

    def sub_view(self, count: int, what: str) -> DataInputView:
        """The next ``count`` bytes as a view of their own, which must be read to its end."""
        if count < 0 or count > self.remaining:
            self.fail(f"{count} bytes of {what}", f"{self.remaining} bytes until the end")
        view = DataInputView(self.data[self.position : self.position + count], self.path, self.base + self.position)
        self.position += count
        return view

    def expect_end(self, what: str) -> None:
        if self.remaining:
            self.fail(f"the end of {what}", f"{self.remaining} more bytes")


class DataOutputView:
    """Writes forward into a growing buffer: the mirror of :class:`DataInputView`."""

    __slots__ = ("buffer",)

    def __init__(self) -> None:
        self.buffer = bytearray()

    def __len__(self) -> int:
        return len(self.buffer)

    def getvalue(self) -> bytes:
        """All that was written."""
        return bytes(self.buffer)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Bytes as they are."""
        self.buffer += data

    def write_u8(self, value: int) -> None:
        self.buffer += struct.pack(">B", value)

    def write_i8(self, value: int) -> None:
        self.buffer += struct.pack(">b", value)

    def write_u16(self, value: int) -> None:
        """Unsigned short, big-endian."""
        self.buffer += struct.pack(">H", value)

    def write_i16(self, value: int) -> None:
        """Signed short, big-endian."""
        self.buffer += struct.pack(">h", value)

    def write_i32(self, value: int) -> None:
        """Signed int, big-endian."""
        self.buffer += struct.pack(">i", value)

    def write_i64(self, value: int) -> None:
        """Signed long, big-endian."""
        self.buffer += struct.pack(">q", value)

    def write_bool(self, value: bool) -> None:
        """One byte, 0 or 1."""
        self.buffer.append(1 if value else 0)

    def write_utf(self, text: str) -> None:
        """``DataOutput.writeUTF``; ValueError past 65535 bytes, as Java's UTFDataFormatException."""
        data = encode_modified_utf8(text)
        if len(data) > MAX_UTF_BYTES:
            raise ValueError(f"{len(data)} bytes do not fit writeUTF's {MAX_UTF_BYTES}: {text[:40]!r}...")
        self.write_u16(len(data))
        self.buffer += data

    def write_blob(self, data: bytes) -> None:
        """i32 length and the bytes."""
        self.write_i32(len(data))
        self.buffer += data

    def write_string_value(self, text: str | None) -> None:
        """A string as ``StringSerializer`` writes it."""
        if text is None:
            self.buffer.append(0)
            return
        units = utf16_units(text)
        self._varint(len(units) + 1)
        for unit in units:
            self._varint(unit)

    def _varint(self, value: int) -> None:
        while value >= 0x80:
            self.buffer.append(value & 0x7F | 0x80)
            value >>= 7
        self.buffer.append(value)
