"""Java conventions that Python lacks: modified UTF-8, ``hashCode`` and the iteration order of ``HashMap``.

Source: ``java.io.DataInput`` (modified UTF-8), ``java.lang.*#hashCode``.
"""

from __future__ import annotations

from collections.abc import Sequence


def decode_modified_utf8(data: bytes) -> str:
    """Decode Java's modified UTF-8: NUL is C0 80, a supplementary character is two 3-byte surrogates.

    Lone surrogates stay in the text, as in Java. Raises ValueError where the bytes are not modified UTF-8.

    >>> decode_modified_utf8(bytes.fromhex("61c080eda0bdedb880")) == "a" + chr(0) + chr(0x1F600)
    True
    """
    if data.isascii():
        return data.decode("ascii")
    units = bytearray()
    i, n = 0, len(data)
    while i < n:
        a = data[i]
        if a < 0x80:
            unit, i = a, i + 1
        elif a & 0xE0 == 0xC0 and i + 1 < n and data[i + 1] & 0xC0 == 0x80:
            unit, i = (a & 0x1F) << 6 | data[i + 1] & 0x3F, i + 2
        elif a & 0xF0 == 0xE0 and i + 2 < n and data[i + 1] & 0xC0 == 0x80 and data[i + 2] & 0xC0 == 0x80:
            unit, i = (a & 0x0F) << 12 | (data[i + 1] & 0x3F) << 6 | data[i + 2] & 0x3F, i + 3
        else:
            raise ValueError(f"byte {i} is not modified UTF-8")
        units += unit.to_bytes(2, "little")
    return units.decode("utf-16-le", "surrogatepass")


def is_well_formed(text: str) -> bool:
    """Return whether a text has no lone surrogates, which Java's strings may have, and UTF-8 and columns cannot hold.

    >>> is_well_formed(chr(0x1F600)), is_well_formed(chr(0xD83D))
    (True, False)
    """
    return text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)


def encode_modified_utf8(text: str) -> bytes:
    """Return the bytes of ``DataOutput.writeUTF`` without the length.

    >>> encode_modified_utf8("a" + chr(0)).hex()
    '61c080'
    """
    if text.isascii() and "\0" not in text:
        return text.encode("ascii")
    out = bytearray()
    for unit in utf16_units(text):
        if 0 < unit < 0x80:
            out.append(unit)
        elif unit < 0x800:
            out += bytes((0xC0 | unit >> 6, 0x80 | unit & 0x3F))
        else:
            out += bytes((0xE0 | unit >> 12, 0x80 | unit >> 6 & 0x3F, 0x80 | unit & 0x3F))
    return bytes(out)


def utf16_units(text: str) -> list[int]:
    """Return the UTF-16 code units of a text, as Java's ``String.charAt`` returns them."""
    data = text.encode("utf-16-le", "surrogatepass")
    return [data[i] | data[i + 1] << 8 for i in range(0, len(data), 2)]


def signed32(value: int) -> int:
    """Return the low 32 bits as Java's signed int.

    >>> signed32(0xFFFFFFFF)
    -1
    """
    return (value & 0xFFFFFFFF ^ 0x80000000) - 0x80000000


def string_hash(text: str) -> int:
    """Return Java's ``String.hashCode``.

    >>> string_hash("hello")
    99162322
    """
    h = 0
    for unit in utf16_units(text):
        h = (31 * h + unit) & 0xFFFFFFFF
    return signed32(h)


def hash_map_order(codes: Sequence[int], capacity: int) -> list[int]:
    """Return the iteration order of a ``java.util.HashMap`` of this initial capacity: indices into ``codes``.

    Assumes that the keys were inserted in the order of ``codes``, their hash codes, and that no bucket became a tree.

    >>> hash_map_order([17, 1, 2], 16)
    [0, 1, 2]
    """
    size = 1
    while size < capacity or len(codes) > size * 3 // 4:
        size *= 2
    return sorted(range(len(codes)), key=lambda number: spread(codes[number]) & size - 1)


def spread(code: int) -> int:
    """Return ``HashMap#hash``: the upper bits of a ``hashCode`` mixed into the lower ones."""
    code &= 0xFFFFFFFF
    return code ^ code >> 16
