"""Ends of table files: what is read first of each, its footer with index and properties.

Of a small database in a store that is read from its beginning to its end, table files come whole.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark_savepoint.formats.io.byte_source import FileLocation, StateLocation
from pyspark_savepoint.formats.io.snapshot_files import Opening

TABLE_FILE = ".sst"

#: The end of a file that is read at once, usually with its index and properties: a 32nd of the file, within two limits.
TAIL_PART, MIN_TAIL, MAX_TAIL = 32, 8 << 10, 64 << 10
#: Table files of a store up to this size are opened whole.
SMALL = 1 << 18
#: Size and number of the table files of a database whose files come whole.
WHOLE_DATABASE, WHOLE_FILES = 16 << 20, 64


def tail_size(size: int) -> int:
    """Return how much of the end of a file of a size is read at once."""
    return min(size, MAX_TAIL, max(MIN_TAIL, size // TAIL_PART))


def end_of(size: int, whole: bool = False) -> Opening:
    """Return how a table file of a size is opened whose end is read; ``whole``: all of it comes."""
    return Opening(count=tail_size(size), end=True, whole=max(SMALL, size) if whole else SMALL)


def comes_whole(files: Mapping[str, StateLocation]) -> bool:
    """Return whether table files are fetched whole to read all of a database: few and small ones of a store."""
    tables = [location for name, location in files.items() if name.endswith(TABLE_FILE)]
    remote = all(isinstance(location, FileLocation) and location.filesystem.is_remote for location in tables)
    size = sum(max(location.size, 0) for location in tables)
    return remote and size <= WHOLE_DATABASE and len(tables) <= WHOLE_FILES
