"""Numbers and texts as Kryo writes them, in elements of connectors that keep objects."""

from __future__ import annotations

from pyspark_savepoint.formats.data_view import DataOutputView
from pyspark_savepoint.formats.java import utf16_units


def write_varint(view: DataOutputView, value: int) -> None:
    """Write a non-negative number, 7 bits per byte."""
    while value >= 0x80:
        view.write_u8(value & 0x7F | 0x80)
        value >>= 7
    view.write_u8(value)


def write_signed(view: DataOutputView, value: int) -> None:
    """Write an int or a long, of either sign."""
    write_varint(view, value << 1 if value >= 0 else ~value << 1 | 1)


def write_text(view: DataOutputView, text: str) -> None:
    """Write a text that is not null."""
    units = utf16_units(text)
    if 1 < len(units) < 64 and text.isascii():
        data = bytearray(text, "ascii")
        data[-1] |= 0x80
        view.write(data)
        return
    count = len(units) + 1
    view.write_u8(count & 0x3F | (0xC0 if count >= 0x40 else 0x80))
    if count >= 0x40:
        write_varint(view, count >> 6)
    for unit in units:
        if unit < 0x80:
            view.write_u8(unit)
        elif unit < 0x800:
            view.write(bytes((0xC0 | unit >> 6, 0x80 | unit & 0x3F)))
        else:
            view.write(bytes((0xE0 | unit >> 12, 0x80 | unit >> 6 & 0x3F, 0x80 | unit & 0x3F)))
