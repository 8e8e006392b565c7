"""Properties of a table file: its block ``rocksdb.properties``.

    entry := name  value       value: varint64, text, or a little-endian number of fixed width

RocksDB: ``TableProperties``, ``BlockBasedTablePropertyNames``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pyspark_savepoint.formats.errors import UnsupportedStateError
from pyspark_savepoint.formats.rocksdb.coding import Coding
from pyspark_savepoint.formats.rocksdb.manifest import COMPARATOR

#: Merge operators that join values with a comma (Flink uses the first one); ``nullptr`` and empty mean none.
MERGE_OPERATORS = ("StringAppendTESTOperator", "StringAppendOperator", "nullptr", "")
FIRST_VERSION_WITH_GLOBAL_SEQUENCE = 2
#: Largest ratio of content to file size, which ZSTD may reach on zeros.
MAX_RATIO = 4096.0
#: Margins for blocks that differ from the average of their file: a factor, and a constant.
SLACK, FEW = 1.25, 256
BINARY_SEARCH, HASH_SEARCH, TWO_LEVEL, FIRST_KEYS = 0, 1, 2, 3


@dataclass(frozen=True, slots=True)
class TableProperties:
    """The properties needed for reading. ``external``: all entries have one sequence number, that of the file.

    ``family``: the name of the column family, if the writer recorded it.
    """

    index_type: int = BINARY_SEARCH
    index_key_is_user_key: bool = False
    index_value_is_delta_encoded: bool = False
    external: bool = False
    global_sequence: int = 0
    data_size: int = 0
    raw_key_size: int = 0
    raw_value_size: int = 0
    entries: int = 0
    family: bytes = b""

    @classmethod
    def of(cls, entries: Iterable[tuple[bytes, bytes]], path: str, offset: int) -> TableProperties:
        """Parse the entries of the block."""
        values = dict(entries)

        def number(name: bytes) -> int:
            data = values.get(b"rocksdb." + name, b"\0")
            return Coding(data, path, offset).varint(f"property {name.decode()}")

        def fixed(name: bytes, width: int) -> int:
            data = values.get(b"rocksdb." + name)
            return 0 if data is None else Coding(data, path, offset).fixed(width, f"property {name.decode()}")

        _check(values, path)
        return cls(
            fixed(b"block.based.table.index.type", 4),
            number(b"index.key.is.user.key") != 0,
            number(b"index.value.is.delta.encoded") != 0,
            fixed(b"external_sst_file.version", 4) >= FIRST_VERSION_WITH_GLOBAL_SEQUENCE,
            fixed(b"external_sst_file.global_seqno", 8),
            number(b"data.size"),
            number(b"raw.key.size"),
            number(b"raw.value.size"),
            number(b"num.entries"),
            values.get(b"rocksdb.column.family.name", b""),
        )

    @property
    def ratio(self) -> float:
        """Return the approximate bytes of entries per byte of the file."""
        raw = self.raw_key_size + self.raw_value_size
        return min(max(raw / self.data_size, 1.0), MAX_RATIO) if self.data_size else 1.0

    def share(self, number: int, size: int) -> int:
        """Return an upper estimate of the share of ``number``, a total of the file, in ``size`` bytes of it."""
        return int(min(size / self.data_size, 1.0) * number * SLACK) + FEW if self.data_size else FEW


def _check(values: dict[bytes, bytes], path: str) -> None:
    comparator = values.get(b"rocksdb.comparator", COMPARATOR)
    merge_operator = values.get(b"rocksdb.merge.operator", b"").decode("latin-1")
    for what, found, known in (
        ("comparator", comparator.decode("latin-1"), (COMPARATOR.decode(),)),
        ("merge operator", merge_operator, MERGE_OPERATORS),
    ):
        if found not in known:
            raise UnsupportedStateError(
                f"a table file has a {what} that Flink does not use",
                path=path,
                expected=known[0],
                found=ascii(found[:80]),
            )
