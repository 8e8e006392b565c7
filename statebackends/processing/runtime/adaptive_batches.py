"""Batch sizes that adapt to the size of Python objects, of a byte or a megabyte each, to bound memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

T = TypeVar("T")
#: First number of units, largest number of units, and target size of a batch in bytes.
FIRST, MOST, BYTES = 256, 8192, 16 << 20


class AdaptiveBatches:
    """Number of units per batch, updated after every batch from its size."""

    def __init__(self) -> None:
        self.units = FIRST

    def made(self, units: int, size: int) -> None:
        """Record that a number of units made a batch of ``size`` bytes."""
        self.units = max(1, min(MOST, BYTES * units // max(1, size)))

    def parts(self, units: list[T]) -> Iterator[list[T]]:
        """Yield units batch by batch; the caller reports each batch to :meth:`made`."""
        low = 0
        while low < len(units):
            part = units[low : low + self.units]
            low += len(part)
            yield part
