"""Numbers and strings as Kryo's ``Input`` reads and ``Output`` writes them, and the errors of unreadable values.

    varint   1 to 5 bytes, varlong 1 to 9: seven bits each, least significant first; the ninth byte counts in full
    signed   a varint whose lowest bit is the sign (zig-zag); other ints and longs are two's complement
    fixed    Kryo 2 big-endian, Kryo 5 little-endian
    text     ASCII of at least two characters, the last one with bit 0x80; else u8 (80 | 40 more follows | 6 bits), then
             seven bits each: 0 null, else characters plus one; then one to three bytes per UTF-16 unit

Flink: ``com.esotericsoftware.kryo.io.Input`` of Kryo 2.24 and 5.6.
"""

from __future__ import annotations

import re
import struct


class DamagedError(Exception):
    """Error for bytes that this version of Kryo does not write: what was expected, what was found."""


class ForeignError(Exception):
    """Error for an object that only code of the user or of another library can read: its class."""


#: Numbers of fixed width, by byte order and ``struct`` code.
FIXED = {order + code: struct.Struct(order + code) for order in "<>" for code in "?bBhHiIlLqQefd"}
#: The end of a text of ASCII without a length.
NO_ASCII = re.compile(rb"[\x80-\xff]")


class BeyondError(Exception):
    """Error for a value that its column cannot hold: a message and a remedy."""


class KryoInput:
    """Forward reader of a buffer, up to ``end``."""

    def __init__(self, data: memoryview, position: int, end: int, kryo: int) -> None:
        self.data = data
        self.position = position
        self.end = end
        self.order = ">" if kryo == 2 else "<"

    @property
    def remaining(self) -> int:
        """Number of bytes left."""
        return self.end - self.position

    def take(self, count: int) -> bytes:
        """Read bytes."""
        if count > self.remaining:
            raise DamagedError(f"{count} more bytes", f"{self.remaining} bytes until the end")
        start = self.position
        self.position += count
        return bytes(self.data[start : self.position])

    def byte(self) -> int:
        """Read an unsigned byte."""
        if self.position >= self.end:
            raise DamagedError("one more byte", "the end")
        self.position += 1
        return self.data[self.position - 1]

    def signed_byte(self) -> int:
        """Read a signed byte."""
        byte = self.byte()
        return byte - (byte >> 7 << 8)

    def boolean(self) -> bool:
        """Read a byte that is 0 or 1."""
        value = self.byte()
        if value > 1:
            raise DamagedError("a boolean: 0 or 1", value)
        return value == 1

    def fixed(self, code: str) -> int | float:
        """Read a number of fixed width, by its ``struct`` code."""
        number = FIXED[self.order + code]
        start, after = self.position, self.position + number.size
        if after > self.end:
            raise DamagedError(f"{number.size} more bytes", f"{self.remaining} bytes until the end")
        self.position = after
        value: int | float = number.unpack_from(self.data, start)[0]
        return value

    def varint(self) -> int:
        """Read an unsigned varint."""
        if self.position < self.end:
            byte = self.data[self.position]
            if byte < 0x80:
                self.position += 1
                return byte
        return self._groups(self.byte(), 0, 5)

    def _groups(self, byte: int, start: int, most: int) -> int:
        """Read the groups of seven bits after the first byte; return the number."""
        value = byte & 0x7F
        shift = 7
        for _ in range(most - 1):
            if byte < 0x80:
                return value
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            shift += 7
        if byte >= 0x80:
            raise DamagedError(f"a varint of at most {most} bytes", "more")
        return value

    def integer(self) -> int:
        """Read an int: two's complement in a varint."""
        value = self.varint() & 0xFFFFFFFF
        return value - (value >> 31 << 32)

    def signed(self) -> int:
        """Read an int: zig-zag in a varint."""
        value = self.varint() & 0xFFFFFFFF
        return value >> 1 ^ -(value & 1)

    def varlong(self) -> int:
        """Read an unsigned varlong."""
        value = 0
        for shift in range(0, 56, 7):
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        return value | self.byte() << 56

    def long(self) -> int:
        """Read a long: two's complement in a varlong."""
        value = self.varlong()
        return value - (value >> 63 << 64)

    def signed_long(self) -> int:
        """Read a long: zig-zag in a varlong."""
        value = self.varlong()
        return value >> 1 ^ -(value & 1)

    def size(self, less: int = 0) -> int:
        """Read a number of elements of one byte or more, minus ``less``: -1 means null if one is added to sizes."""
        return self.bounded(self.varint() - less)

    def bounded(self, size: int) -> int:
        """Return ``size`` if at least as many bytes are left; else raise DamagedError."""
        if size > self.remaining:
            raise DamagedError(f"at most {self.remaining} elements", size)
        return size

    def flag_and_size(self) -> tuple[bool, int]:
        """Read a flag (bit 0x80 of the first byte), and a size minus one, continued if bit 0x40 is set (Kryo 5)."""
        first = self.byte()
        value = first & 0x3F
        if first & 0x40:
            value |= self._groups(self.byte(), 6, 4) << 6
        return first >= 0x80, value - 1

    def text(self) -> str | None:
        """Read a string or null."""
        if self.position < self.end and self.data[self.position] < 0x80:
            return self._ascii()
        first = self.byte()
        count = first & 0x3F
        if first & 0x40:
            count |= self._groups(self.byte(), 6, 4) << 6
        return self._units(self.bounded(count - 1)) if count else None

    def _ascii(self) -> str:
        start = self.position
        last = NO_ASCII.search(self.data, start, self.end)
        if last is None:
            raise DamagedError(f"{self.remaining + 1} more bytes", f"{self.remaining} bytes until the end")
        self.position = last.end()
        return str(self.data[start : self.position - 1], "ascii") + chr(last[0][0] & 0x7F)

    def _units(self, count: int) -> str:
        data = bytes(self.data[self.position : self.position + count])
        if data.isascii():
            self.position += count
            return data.decode("ascii")
        units = bytearray()
        for _ in range(count):
            units += self._unit().to_bytes(2, "little")
        return units.decode("utf-16-le", "surrogatepass")

    def _unit(self) -> int:
        first = self.byte()
        if first < 0x80:
            return first
        if first >> 5 == 0b110:
            return (first & 0x1F) << 6 | self._continuation()
        if first >> 4 == 0b1110:
            return (first & 0x0F) << 12 | self._continuation() << 6 | self._continuation()
        raise DamagedError("a character in UTF-8", f"{first:#x}")

    def _continuation(self) -> int:
        byte = self.byte()
        if byte >> 6 != 0b10:
            raise DamagedError("a character in UTF-8", f"{byte:#x}")
        return byte & 0x3F


INT, LONG = (1 << 32) - 1, (1 << 64) - 1


class KryoOutput:
    """Buffer that grows as bytes are written."""

    def __init__(self, kryo: int) -> None:
        self.data = bytearray()
        self.order = ">" if kryo == 2 else "<"
        #: Characters of the longest string that has no length, if it is ASCII.
        self.short_text = 63 if kryo == 2 else 32

    def byte(self, value: int) -> None:
        """Write a byte, signed or unsigned."""
        self.data.append(value & 0xFF)

    def boolean(self, value: bool) -> None:
        """Write 0 or 1."""
        self.data.append(1 if value else 0)

    def fixed(self, code: str, value: float) -> None:
        """Write a number of fixed width, by its ``struct`` code."""
        self.data += struct.pack(self.order + code, value)

    def varint(self, value: int) -> None:
        """Write an int as an unsigned varint; a negative one takes 5 bytes."""
        value &= INT
        while value > 0x7F:
            self.data.append(value & 0x7F | 0x80)
            value >>= 7
        self.data.append(value)

    def signed(self, value: int) -> None:
        """Write an int: zig-zag in a varint."""
        self.varint(value << 1 ^ value >> 31)

    def long(self, value: int) -> None:
        """Write a long: two's complement in a varlong of at most 9 bytes."""
        value &= LONG
        for _ in range(8):
            if value < 0x80:
                break
            self.data.append(value & 0x7F | 0x80)
            value >>= 7
        self.data.append(value)

    def signed_long(self, value: int) -> None:
        """Write a long: zig-zag in a varlong."""
        self.long(value << 1 ^ value >> 63)

    def flag_and_size(self, flag: bool, value: int) -> None:
        """Write a flag in bit 0x80 and a number, which continues if bit 0x40 is set (Kryo 5; lengths of strings)."""
        first = value & 0x3F | (0x80 if flag else 0)
        if value > 0x3F:
            self.data.append(first | 0x40)
            self.varint(value >> 6)
        else:
            self.data.append(first)

    def text(self, text: str | None) -> None:
        """Write a string or null: short ASCII without a length."""
        if text is not None and 1 < len(text) <= self.short_text and text.isascii():
            self.ascii_text(text)
        else:
            self.long_text(text)

    def name_of_class(self, name: str) -> None:
        """Write the name of a class, which has no length in Kryo 5 if it is ASCII."""
        if self.order == "<" and len(name) > 1 and name.isascii():
            self.ascii_text(name)
        else:
            self.text(name)

    def ascii_text(self, text: str) -> None:
        """Write two ASCII characters or more without a length."""
        self.data += text.encode("ascii")
        self.data[-1] |= 0x80

    def long_text(self, text: str | None) -> None:
        """Write a string with its length, as Kryo 2 always writes those of StringBuilder and StringBuffer."""
        if text is None:
            self.data.append(0x80)
        elif text.isascii():
            self.flag_and_size(True, len(text) + 1)
            self.data += text.encode("ascii")
        else:
            units = memoryview(text.encode("utf-16-le", "surrogatepass")).cast("H")
            self.flag_and_size(True, len(units) + 1)
            self.data += b"".join(map(_unit, units))


def _unit(unit: int) -> bytes:
    """Return a UTF-16 unit in 1 to 3 bytes."""
    if unit < 0x80:
        return bytes((unit,))
    if unit < 0x800:
        return bytes((0xC0 | unit >> 6, 0x80 | unit & 0x3F))
    return bytes((0xE0 | unit >> 12, 0x80 | unit >> 6 & 0x3F, 0x80 | unit & 0x3F))
