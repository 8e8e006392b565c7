"""Numbers as people read them."""

from __future__ import annotations

UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB")


def readable_size(size: float) -> str:
    """Return a number of bytes in a readable unit.

    >>> readable_size(900), readable_size(57_344), readable_size(3 << 31)
    ('900 bytes', '56 KiB', '6 GiB')
    """
    unit = 0
    while size >= 1024 and unit < len(UNITS) - 1:
        size, unit = size / 1024, unit + 1
    return f"{size:.3g} {UNITS[unit]}"


def numbered(number: int, one: str, several: str | None = None) -> str:
    """Return a number of things.

    >>> numbered(1, "operator"), numbered(2, "operator"), numbered(0, "entry", "entries")
    ('1 operator', '2 operators', '0 entries')
    """
    return f"{number:,} {one if number == 1 else several or one + 's'}"
