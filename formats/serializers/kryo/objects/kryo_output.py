"""Numbers and strings as Kryo's ``Output`` writes them; the inverse of ``kryo_input.py``."""

from __future__ import annotations

import struct

INT, LONG = (1 << 32) - 1, (1 << 64) - 1


class KryoOutput:
    """Buffer that grows as bytes are written."""

    def __init__(self, kryo: int) -> None:
        self.data = bytearray()
        self.order = ">" if kryo == 2 else "<"

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
        """Write a string or null: ASCII of 2 to 63 characters without a length."""
        if text is not None and 1 < len(text) < 64 and text.isascii():
            self.data += text.encode("ascii")
            self.data[-1] |= 0x80
        else:
            self.long_text(text)

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
