"""Ends of table files: what is read first of each, its footer with index and properties."""

from __future__ import annotations

from pyspark_savepoint.formats.io.snapshot_files import Opening

#: The end of a file that is read at once, usually with its index and properties: a 32nd of the file, within two limits.
TAIL_PART, MIN_TAIL, MAX_TAIL = 32, 8 << 10, 64 << 10
#: Table files of a store up to this size are opened whole.
SMALL = 1 << 18


def tail_size(size: int) -> int:
    """Return how much of the end of a file of a size is read at once."""
    return min(size, MAX_TAIL, max(MIN_TAIL, size // TAIL_PART))


def end_of(size: int) -> Opening:
    """Return how a table file of a size is opened whose end is read."""
    return Opening(count=tail_size(size), end=True, whole=SMALL)
