"""Databases that RocksDB itself wrote (rocksdict), as the files of a snapshot."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rocksdict import BlockBasedOptions, Checkpoint, DBCompressionType, Options, Rdict

from pyspark_savepoint.formats.io.byte_source import InlineLocation, StateLocation
from pyspark_savepoint.formats.rocksdb.database import Database
from pyspark_savepoint.formats.rocksdb.entries import DatabaseEntries

FAMILY = "state"
Pairs = list[tuple[bytes, bytes]]


def options_of(
    table: Callable[[BlockBasedOptions], None] | None = None, compression: Any = None, block_size: int = 256
) -> Options:
    """Small blocks, no compaction unless it is asked for."""
    options = Options(raw_mode=True)
    blocks = BlockBasedOptions()
    blocks.set_block_size(block_size)
    if table is not None:
        table(blocks)
    options.set_block_based_table_factory(blocks)
    options.set_compression_type(compression or DBCompressionType.none())
    options.create_if_missing(True)
    options.set_disable_auto_compactions(True)
    return options


class Writer:
    """An open database with one column family."""

    def __init__(self, folder: Path, options: Options) -> None:
        self.folder = folder
        self.database = Rdict(str(folder / "database"), options=options)
        self.family = self.database.create_column_family(FAMILY, options=options)

    def files(self) -> dict[str, bytes]:
        """What a checkpoint of it has; everything is in table files first."""
        self.family.flush()
        checkpoint = self.folder / "checkpoint"
        Checkpoint(self.database).create_checkpoint(str(checkpoint))
        names = ("CURRENT", "MANIFEST")
        return {
            path.name: path.read_bytes()
            for path in sorted(checkpoint.iterdir())
            if path.suffix == ".sst" or path.name.startswith(names)
        }


@contextmanager
def writer(folder: Path, **options: Any) -> Iterator[Writer]:
    """A new database, closed in the end."""
    folder.mkdir(parents=True, exist_ok=True)
    opened = Writer(folder, options_of(**options))
    try:
        yield opened
    finally:
        opened.family.close()
        opened.database.close()


def locations(files: Mapping[str, bytes]) -> dict[str, StateLocation]:
    """The files as inline state."""
    return {name: InlineLocation(name, data) for name, data in files.items()}


def pairs_of(entries: DatabaseEntries | None) -> Pairs:
    """Keys and values."""
    if entries is None:
        return []
    spans = zip(
        entries.key_start.tolist(),
        entries.key_end.tolist(),
        entries.value_start.tolist(),
        entries.value_end.tolist(),
        strict=True,
    )
    data = entries.buffer.tobytes()
    return [(data[a:b], data[c:d]) for a, b, c, d in spans]


def read_all(files: Mapping[str, bytes], low: int = 0, high: int = 255, prefix: int = 1) -> Pairs:
    """The column family's pairs in one go, which must be what steps give as well."""
    with Database(locations(files), prefix) as database:
        family = database.family(FAMILY, low, high)
        whole = pairs_of(family.read(low, high))
        assert [pair for part in family.steps(low, high, 1) for pair in pairs_of(part)] == whole
        return whole
