"""How many Python objects become one batch: values may be a byte or a megabyte each, and memory should not notice."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

T = TypeVar("T")
#: Units until their size is known, units at most, and bytes that a batch should have about.
FIRST, MOST, BYTES = 256, 8192, 16 << 20


class AdaptiveBatches:
    """A number of units that is set anew with every batch, by the size of its own."""

    def __init__(self) -> None:
        self.units = FIRST

    def made(self, units: int, size: int) -> None:
        """So many units have made a batch of so many bytes."""
        self.units = max(1, min(MOST, BYTES * units // max(1, size)))

    def parts(self, units: list[T]) -> Iterator[list[T]]:
        """Units batch by batch, while :meth:`made` is told of each."""
        low = 0
        while low < len(units):
            part = units[low : low + self.units]
            low += len(part)
            yield part
