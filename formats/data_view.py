"""Java's ``DataInput`` and ``DataOutput`` over one buffer, bounds-checked.

For headers and metadata: everything is big-endian, and every length is checked against the remaining bytes before
anything is allocated. ``columns.py`` decodes rows. Flink: ``DataInputDeserializer``, ``DataOutputSerializer``.
"""

from __future__ import annotations

import struct
from typing import NoReturn

from pyspark_savepoint.formats.errors import UNREADABLE, CorruptStateError, OptionError
from pyspark_savepoint.formats.java import decode_modified_utf8, encode_modified_utf8, utf16_units

MAX_UTF_BYTES = 65535


def too_long(name: str, size: int) -> OptionError:
    """Return the error for a name that Java's ``writeUTF`` cannot write."""
    return OptionError(
        "a name is too long for Flink",
        expected=f"at most {MAX_UTF_BYTES:,} bytes of UTF-8",
        found=f"{size:,} bytes: {name[:40]!r}...",
        remedy="give a shorter name",
    )


I8, I16, U16, I32, I64 = (struct.Struct(code) for code in (">b", ">h", ">H", ">i", ">q"))
# Numbers and texts are most of what a snapshot's metadata has: a call less for each is a third of their time.
unpack_u16, unpack_i32, unpack_i64 = U16.unpack_from, I32.unpack_from, I64.unpack_from
pack_u16, pack_i32, pack_i64 = U16.pack, I32.pack, I64.pack


class DataInputView:
    """Forward reader over ``data``; ``path`` and ``base`` (file offset of byte 0) only locate errors.

    ``depth`` is the number of structures around the position that may contain each other.
    """

    __slots__ = ("base", "data", "depth", "end", "path", "position")

    def __init__(self, data: bytes | memoryview, path: str | None = None, base: int = 0) -> None:
        self.data = memoryview(data)
        self.position = 0
        self.end = len(self.data)
        self.path = path
        self.base = base
        self.depth = 0

    @property
    def remaining(self) -> int:
        """Return the number of remaining bytes."""
        return self.end - self.position

    def fail(self, expected: str, found: object = None) -> NoReturn:
        """Raise a CorruptStateError at this position."""
        raise CorruptStateError(
            "the bytes do not match the format",
            path=self.path,
            offset=self.base + self.position,
            expected=expected,
            found=found,
            remedy=UNREADABLE,
        )

    def read(self, count: int, what: str = "bytes") -> bytes:
        """Return the next ``count`` bytes."""
        start = self.position
        self.skip(count, what)
        return bytes(self.data[start : self.position])

    def skip(self, count: int, what: str = "bytes") -> None:
        """Pass the next ``count`` bytes."""
        start = self.position
        end = start + count
        if not start <= end <= self.end:
            self.fail(f"{count} bytes of {what}", f"{self.remaining} bytes until the end")
        self.position = end

    def _number(self, number: struct.Struct, what: str) -> int:
        try:
            (value,) = number.unpack_from(self.data, self.position)
        except struct.error:
            self.fail(f"{number.size} bytes of {what}", f"{self.remaining} bytes until the end")
        self.position += number.size
        return value  # type: ignore[no-any-return]

    def read_u8(self, what: str = "a byte") -> int:
        position = self.position
        if position >= self.end:
            self.fail(f"1 bytes of {what}", "0 bytes until the end")
        self.position = position + 1
        return self.data[position]

    def read_i8(self, what: str = "a byte") -> int:
        return self._number(I8, what)

    def read_u16(self, what: str = "a short") -> int:
        """Read an unsigned short, big-endian."""
        return self._number(U16, what)

    def read_i16(self, what: str = "a short") -> int:
        """Read a signed short, big-endian."""
        return self._number(I16, what)

    def read_i32(self, what: str = "an int") -> int:
        """Read a signed int, big-endian."""
        position = self.position
        try:
            (value,) = unpack_i32(self.data, position)
        except struct.error:
            self.fail(f"{I32.size} bytes of {what}", f"{self.remaining} bytes until the end")
        self.position = position + I32.size
        return value  # type: ignore[no-any-return]

    def read_i64(self, what: str = "a long") -> int:
        """Read a signed long, big-endian."""
        position = self.position
        try:
            (value,) = unpack_i64(self.data, position)
        except struct.error:
            self.fail(f"{I64.size} bytes of {what}", f"{self.remaining} bytes until the end")
        self.position = position + I64.size
        return value  # type: ignore[no-any-return]

    def skip_zeros(self, count: int) -> bool:
        """Skip the next ``count`` bytes if all of them are zero; return whether they are."""
        if bytes(self.data[self.position : self.position + count]) != bytes(count):
            return False
        self.position += count
        return True

    def read_bool(self, what: str = "a boolean") -> bool:
        """Read one byte, 0 or 1; any other value is an error, because Java writes only these two."""
        value = self.read_u8(what)
        if value > 1:
            self.position -= 1
            self.fail(f"{what}: 0 or 1", value)
        return value == 1

    def read_count(self, what: str, each: int = 1, limit: int | None = None) -> int:
        """Read an int that counts items of at least ``each`` bytes; it is limited by the remaining bytes.

        ``each`` = 0 is for counts without following items; then only ``limit`` bounds them.
        """
        count = self.read_i32(what)
        most = self.end - self.position
        if each > 1:
            most //= each
        if limit is not None:
            most = min(most, limit) if each else limit
        if not 0 <= count <= most:
            self.position -= 4
            self.fail(f"a number of {what} from 0 to {most}", count)
        return count

    def read_constant(self, value: int, what: str) -> None:
        """Read an int and raise a CorruptStateError unless it equals ``value``."""
        actual = self.read_i32(what)
        if actual != value:
            self.position -= 4
            self.fail(f"{what} {value:#010x}", f"{actual & 0xFFFFFFFF:#010x}")

    def read_utf(self, what: str = "a string") -> str:
        """Read ``DataInput.readUTF``: u16 byte length, modified UTF-8."""
        at = self.position
        try:
            (count,) = unpack_u16(self.data, at)
        except struct.error:
            self.fail(f"2 bytes of {what}", f"{self.remaining} bytes until the end")
        start = at + 2
        end = self.position = start + count
        if end > self.end:
            self.position = start
            self.fail(f"{count} bytes of {what}", f"{self.remaining} bytes until the end")
        data = bytes(self.data[start:end])
        try:
            return data.decode("ascii") if data.isascii() else decode_modified_utf8(data)
        except ValueError:
            self.position = at
            self.fail(f"{what} in modified UTF-8", f"{count} bytes that begin with {data[:16].hex()}")

    def read_blob(self, what: str = "bytes") -> bytes:
        """Read an i32 length and that many bytes."""
        return self.read(self.read_count(what), what)

    def read_string_value(self, what: str = "a string") -> str | None:
        """Read a string as ``StringSerializer`` writes it: varint of the length plus one, varint code units."""
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
        """Return the next ``count`` bytes as a separate view, whose caller checks that it is read to its end."""
        if count < 0 or count > self.remaining:
            self.fail(f"{count} bytes of {what}", f"{self.remaining} bytes until the end")
        view = DataInputView(self.data[self.position : self.position + count], self.path, self.base + self.position)
        view.depth = self.depth
        self.position += count
        return view

    def expect_end(self, what: str) -> None:
        if self.remaining:
            self.fail(f"the end of {what}", f"{self.remaining} more bytes")


class DataOutputView:
    """Forward writer into a growing buffer: the counterpart of :class:`DataInputView`."""

    __slots__ = ("buffer",)

    def __init__(self) -> None:
        self.buffer = bytearray()

    def __len__(self) -> int:
        return len(self.buffer)

    def getvalue(self) -> bytes:
        """Return all bytes written so far."""
        return bytes(self.buffer)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Write bytes unchanged."""
        self.buffer += data

    def write_u8(self, value: int) -> None:
        self.buffer.append(value)

    def write_u16(self, value: int) -> None:
        """Write an unsigned short, big-endian."""
        self.buffer += pack_u16(value)

    def write_i16(self, value: int) -> None:
        """Write a signed short, big-endian."""
        self.buffer += I16.pack(value)

    def write_i32(self, value: int) -> None:
        """Write a signed int, big-endian."""
        self.buffer += pack_i32(value)

    def write_i64(self, value: int) -> None:
        """Write a signed long, big-endian."""
        self.buffer += pack_i64(value)

    def write_bool(self, value: bool) -> None:
        """Write one byte, 0 or 1."""
        self.buffer.append(1 if value else 0)

    def write_utf(self, text: str) -> None:
        """Write ``DataOutput.writeUTF``; OptionError past 65535 bytes, as Java's UTFDataFormatException."""
        is_plain = text.isascii() and "\0" not in text
        data = text.encode("ascii") if is_plain else encode_modified_utf8(text)
        if len(data) > MAX_UTF_BYTES:
            raise too_long(text, len(data))
        self.buffer += pack_u16(len(data))
        self.buffer += data

    def write_blob(self, data: bytes) -> None:
        """Write an i32 length and the bytes."""
        self.buffer += pack_i32(len(data))
        self.buffer += data

    def write_string_value(self, text: str | None) -> None:
        """Write a string as ``StringSerializer`` does."""
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
