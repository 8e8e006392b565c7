"""A table file of RocksDB: footer, metaindex, properties and an index of its blocks.

    file      := data block*  meta block*  metaindex  index  footer(53, of version 0: 48)
    footer    := u8 checksumType  ...40 bytes...  u32 formatVersion  u64 0x88E241B785F4CFF7
      0       := BlockHandle metaindex  BlockHandle index  padding(40)  u64 0xDB4775248B80FB57, CRC-32C
      to 5    := BlockHandle metaindex  BlockHandle index  padding
      from 6  := 3E 00 7A 00  u32 footerChecksum  u32 context  u32 metaindexSize  padding
    metaindex := name of a meta block -> BlockHandle       rocksdb.properties, rocksdb.range_del, from 6 rocksdb.index
    index     := separator (not less than the block's last key) -> BlockHandle; of two levels: -> index
    range_del := first key, sequence -> first key that is not deleted

RocksDB: ``Footer``, ``BlockBasedTable``, ``IndexReader``.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from pyspark_savepoint.formats import arrow_compute as pc
from pyspark_savepoint.formats.columns import Bytes, Longs, binary_parts
from pyspark_savepoint.formats.errors import (
    UNREADABLE,
    CorruptStateError,
    UnsupportedStateError,
    UnsupportedVersionError,
)
from pyspark_savepoint.formats.io.byte_source import ByteSource, InlineByteSource
from pyspark_savepoint.formats.rocksdb.block import (
    CHECKSUMS,
    NONE,
    Arena,
    BlockHandle,
    Blocks,
    Coding,
    Protection,
    expanded_keys,
    read_block,
    read_blocks,
    small_entries,
)
from pyspark_savepoint.formats.rocksdb.manifest import (
    COMPARATOR,
    RANGE_DELETION_SENTINEL,
    SEQUENCE_BITS,
    TAG,
    FileMetaData,
    InternalKey,
)
from pyspark_savepoint.formats.rocksdb.table_ends import tail_size

FOOTER = 53
MAGIC = 0x88E241B785F4CFF7
#: Format version 0, whose footer contains neither its version nor the type of its checksums.
LEGACY_MAGIC, LEGACY_FOOTER, LEGACY_CHECKSUM = 0xDB4775248B80FB57, 48, 1
EXTENDED_MAGIC = b"\x3e\x00\x7a\x00"
FORMAT_VERSIONS = range(1, 7)
#: In earlier versions, only Snappy blocks contain the size of their content.
FIRST_WITH_SIZES = 2
FIRST_WITH_CONTEXT = 6
RANGE_DELETION = 15


@dataclass(frozen=True, slots=True)
class Footer:
    """Locations of the metaindex and, up to format version 5, of the index."""

    protection: Protection
    metaindex: BlockHandle
    index: BlockHandle | None

    @classmethod
    def read(cls, data: bytes, path: str, offset: int) -> Footer:
        """Parse the last 53 bytes of a file, which begin at ``offset``."""
        version, magic = int.from_bytes(data[41:45], "little"), int.from_bytes(data[45:], "little")
        if magic == LEGACY_MAGIC:
            skipped = FOOTER - LEGACY_FOOTER
            view = Coding(data[skipped:45], path, offset + skipped)
            return cls(Protection(LEGACY_CHECKSUM, legacy=True), BlockHandle.read(view), BlockHandle.read(view))
        view = Coding(data[:41], path, offset)
        if magic != MAGIC:
            view.fail("a table file, with its magic number at the end", f"{magic:#018x}")
        if version not in FORMAT_VERSIONS:
            raise UnsupportedVersionError(
                "a table file has a format version that is not supported",
                path=path,
                expected=f"format version {FORMAT_VERSIONS.start} to {FORMAT_VERSIONS.stop - 1}",
                found=version,
                remedy="take a canonical savepoint of the job (flink savepoint --type canonical)",
            )
        kind = view.fixed(1, "the type of checksums")
        if kind != NONE and kind not in CHECKSUMS:
            view.fail("a known type of checksums", kind)
        if version < FIRST_WITH_CONTEXT:
            return cls(
                Protection(kind, legacy=version < FIRST_WITH_SIZES), BlockHandle.read(view), BlockHandle.read(view)
            )
        return cls._with_context(view, data, kind, offset)

    @classmethod
    def _with_context(cls, view: Coding, data: bytes, kind: int, offset: int) -> Footer:
        if view.read(4, "the extended magic number") != EXTENDED_MAGIC:
            view.fail("the extended magic number", data[1:5].hex())
        checksum, context, size = (view.fixed(4, what) for what in ("a checksum", "a context", "a size"))
        protection = Protection(kind, context)
        if kind != NONE:
            blank = np.frombuffer(bytearray(data[:5] + bytes(4) + data[9:]), np.uint8)
            computed = CHECKSUMS[kind](blank, np.array([0]), np.array([FOOTER]))
            computed = (computed + protection.modifiers(np.array([offset]))) & np.uint64(0xFFFFFFFF)
            if int(computed[0]) != checksum:
                view.fail(f"a footer with checksum {checksum:#010x}", f"{int(computed[0]):#010x}")
        if size + 5 > offset:
            view.fail("a metaindex within the file", f"{size} bytes")
        return cls(protection, BlockHandle(offset - 5 - size, size), None)


@dataclass(slots=True)
class Index:
    """Blocks in the order of their keys; ``number`` is the prefix of the separator as a number.

    ``separators`` are the whole separators, as spans of ``keys``; kept only if keys will be looked up.
    """

    number: Longs
    offset: Longs
    size: Longs
    keys: Bytes
    separators: tuple[Longs, Longs]

    @property
    def nbytes(self) -> int:
        """Return the approximate size in memory, in bytes."""
        return 3 * self.number.nbytes + self.keys.nbytes + 2 * self.separators[0].nbytes

    def nothing(self) -> Index:
        """Return an index without blocks."""
        return Index(self.number[:0], self.offset[:0], self.size[:0], *_spans([]))

    def blocks_of(self, low: int, high: int) -> slice:
        """Return the blocks that may contain keys with a prefix from ``low`` to ``high``."""
        first = int(np.searchsorted(self.number, low))
        last = int(np.searchsorted(self.number, high + 1))
        return slice(first, min(last + 1, len(self.number)))

    def blocks_of_prefixes(self, prefixes: KeyPrefixes) -> tuple[Longs, Longs]:
        """Return for each prefix the first block that may contain its keys, and the one after the last."""
        from pyspark_savepoint.formats.kernels import sst

        first, stop = np.empty(len(prefixes), np.int64), np.empty(len(prefixes), np.int64)
        spans = prefixes.buffer, prefixes.start, prefixes.end
        sst.blocks_of_prefixes(self.keys, *self.separators, *spans, first, stop)
        return first, stop


@dataclass(frozen=True, slots=True)
class RangeTombstone:
    """A range deletion: keys from ``start`` to before ``end`` with a sequence number less than ``sequence``."""

    start: bytes
    end: bytes
    sequence: int


@dataclass(frozen=True, slots=True)
class KeyPrefixes:
    """Key prefixes in order, none of which begins with another: ranges of keys."""

    buffer: Bytes
    start: Longs
    end: Longs

    @classmethod
    def of(cls, texts: pa.Array) -> KeyPrefixes:
        """Return binary texts in order; one that begins with another is in its range."""
        from pyspark_savepoint.formats.kernels import sst

        distinct = pc.unique(texts)
        offsets, data = binary_parts(distinct.take(pc.sort_indices(distinct)))
        # Writable, as other buffers of the kernels are: those compile once.
        buffer, start, end = data.copy(), offsets[:-1].copy(), offsets[1:].copy()
        kept = np.empty(len(start), np.int64)
        kept = kept[: sst.outermost(buffer, start, end, kept)]
        return cls(buffer, start[kept], end[kept])

    def __len__(self) -> int:
        return len(self.start)

    def __getitem__(self, chosen: slice | Longs) -> KeyPrefixes:
        return KeyPrefixes(self.buffer, self.start[chosen], self.end[chosen])

    def text(self, number: int) -> bytes:
        """Return one prefix."""
        return self.buffer[int(self.start[number]) : int(self.end[number])].tobytes()

    def between(self, first: bytes, last: bytes) -> slice:
        """Return the prefixes that keys from ``first`` to ``last``, inclusive, can have."""
        low = bisect_left(range(len(self)), first, key=self.text)
        if low and first.startswith(self.text(low - 1)):
            low -= 1
        return slice(low, max(low, bisect_right(range(len(self)), last, key=self.text)))


class SstFile:
    """A table file with its index; of an index of two levels, with no blocks: see :meth:`of_key_groups`.

    ``separators``: whether to keep the separators of the index.
    """

    def __init__(self, source: ByteSource, info: FileMetaData, prefix: int, *, separators: bool = False) -> None:
        self.path = source.path
        self.info = info
        self.prefix = prefix
        self._keeps_separators = separators
        if source.size != info.size or source.size < FOOTER:
            raise wrong_size(info, source.path, source.size)
        tail = _Tail(source)
        footer = Footer.read(tail.read(source.size - FOOTER, FOOTER), source.path, source.size - FOOTER)
        self.protection = footer.protection
        self.meta = self._metaindex(tail, footer)
        self.properties = self._properties(tail)
        handle = footer.index or self._required(b"rocksdb.index")
        self._top = self._decode_index(read_blocks(tail, *_places([handle]), self.protection), handle.offset)
        self._tail: _Tail | None = tail if self.partitioned else None
        self.index = self._top.nothing() if self.partitioned else self._top
        self.tombstones = self._tombstones(tail)
        self._check_last_key()

    @property
    def partitioned(self) -> bool:
        """Return whether the index has two levels, of which parts are read for some key groups."""
        return self.properties.index_type == TWO_LEVEL

    @property
    def nbytes(self) -> int:
        """Return the approximate size in memory of the index, and of the end if it is kept, in bytes."""
        return self.index.nbytes + (0 if self._tail is None else self._tail.nbytes)

    def of_key_groups(self, source: ByteSource, low: int, high: int) -> SstFile:
        """Return this file with the parts of its index of two levels for key groups from ``low`` to ``high``."""
        assert self._tail is not None
        other = copy(self)
        other._tail = None
        chosen = self._top.blocks_of(low, high)
        if chosen.start < chosen.stop:
            parts = self._top.offset[chosen], self._top.size[chosen]
            blocks = read_blocks(self._tail.of(source), *parts, self.protection)
            other.index = self._decode_index(blocks, int(self._top.offset[chosen.start]))
        return other

    def read(self, source: ByteSource, chosen: slice | Longs, arena: Arena | None = None) -> Blocks:
        """Return the contents of some blocks of the index, at least one."""
        return read_blocks(source, self.index.offset[chosen], self.index.size[chosen], self.protection, arena)

    @property
    def sequence(self) -> int | None:
        """Return the common sequence number of all entries; None if each entry has its own."""
        if not self.properties.external:
            return None
        largest_sequence = self.info.largest_sequence
        sequence = self.properties.global_sequence if largest_sequence is None else largest_sequence
        if sequence >> SEQUENCE_BITS - 1:  # together with the type, it must fit a signed number
            raise CorruptStateError(
                "the sequence number of a table file is out of range",
                path=self.path,
                found=sequence,
                remedy=UNREADABLE,
            )
        return sequence

    def _metaindex(self, tail: _Tail, footer: Footer) -> Mapping[bytes, BlockHandle]:
        content = read_block(tail, footer.metaindex, self.protection)
        at = footer.metaindex.offset
        entries = small_entries(content, self.path, at)
        meta = {name: BlockHandle.read(Coding(value, self.path, at)) for name, value in entries}
        if b"rocksdb.compression_dict" in meta:
            raise UnsupportedStateError(
                "a table file is compressed with a dictionary, which is not supported",
                path=self.path,
                remedy="take a canonical savepoint of the job (flink savepoint --type canonical)",
            )
        return meta

    def _required(self, name: bytes) -> BlockHandle:
        if name not in self.meta:
            Coding(b"", self.path, self.info.size).fail(f"a block {name.decode()}", "none")
        return self.meta[name]

    def _properties(self, tail: _Tail) -> TableProperties:
        handle = self._required(b"rocksdb.properties")
        content = read_block(tail, handle, self.protection)
        entries = small_entries(content, self.path, handle.offset)
        return TableProperties.of(entries, self.path, handle.offset)

    def _decode_index(self, blocks: Blocks, offset: int) -> Index:
        spans = zip(blocks.start.tolist(), blocks.end.tolist(), strict=True)
        parts = [self._decode_index_block(blocks, start, end, offset) for start, end in spans]
        number, at, size, separators = zip(*parts, strict=True)
        kept = _spans(separators if self._keeps_separators else ())
        index = Index(np.concatenate(number), np.concatenate(at), np.concatenate(size), *kept)
        if np.any(index.number[1:] < index.number[:-1]):
            Coding(b"", self.path, offset).fail("an index in the order of keys", "one that is not")
        return index

    def _decode_index_block(
        self, blocks: Blocks, start: int, end: int, offset: int
    ) -> tuple[Longs, Longs, Longs, tuple[Bytes, Longs, Longs]]:
        from pyspark_savepoint.formats.kernels import sst

        properties = self.properties
        capacity = (end - start) // 3 + 1
        room = 1 << 12
        count = -2
        most = expanded_keys(end - start)
        while count == -2 and room < most:
            room = min(4 * room, most)
            keys = np.empty(room, np.uint8)
            key_start, key_end, at, size = (np.empty(capacity, np.int64) for _ in range(4))
            count, _ = sst.decode_index(
                blocks.buffer, start, end, properties.index_value_is_delta_encoded,
                properties.index_type == FIRST_KEYS, keys, key_start, key_end, at, size,
            )  # fmt: skip
        if count < 0:
            Coding(b"", self.path, offset).fail("an index of blocks", "other bytes")
        key_end = key_end[:count] if properties.index_key_is_user_key else key_end[:count] - TAG
        number = np.empty(count, np.int64)
        sst.prefix_numbers(keys, key_start[:count], key_end, self.prefix, number)
        return number, at[:count], size[:count], (keys, key_start[:count], key_end)

    def _check_last_key(self) -> None:
        """Raise a CorruptStateError if the index ends before the largest key in the manifest (another file)."""
        whole = self.properties.index_type != TWO_LEVEL and b"rocksdb.range_del" not in self.meta
        if whole and len(self.index.number):
            largest = int.from_bytes(self.info.largest.user_key[: self.prefix].ljust(self.prefix, b"\0"), "big")
            if int(self.index.number[-1]) < largest:
                raise another_file(self)

    def _tombstones(self, tail: _Tail) -> list[RangeTombstone]:
        """Return the range deletions, restricted to the key range of the file in the manifest."""
        handle = self.meta.get(b"rocksdb.range_del")
        if handle is None:
            return []
        tombstones = []
        for key, end in small_entries(read_block(tail, handle, self.protection), self.path, handle.offset):
            tag = int.from_bytes(key[-TAG:], "little")
            if len(key) < TAG or tag & 0xFF != RANGE_DELETION:
                Coding(b"", self.path, handle.offset).fail("a deleted range", key.hex())
            sequence = tag >> 8 if self.sequence is None else self.sequence
            largest = self.info.largest
            # The range includes the file's largest key, unless only a deletion extends up to it.
            limit = largest.user_key if largest.tag == RANGE_DELETION_SENTINEL else largest.user_key + b"\0"
            start, end = max(key[:-TAG], self.info.smallest.user_key), min(end, limit)
            if start < end:
                tombstones.append(RangeTombstone(start, end, sequence))
        return tombstones


def is_table(source: ByteSource) -> bool:
    """Return whether a file ends as table files do."""
    magic = source.read(source.size - 8, 8) if source.size >= FOOTER else b""
    return int.from_bytes(magic, "little") in (MAGIC, LEGACY_MAGIC)


def undescribed(source: ByteSource) -> SstFile:
    """Return a table file of which no manifest says which keys it has."""
    none = InternalKey(b"", 0)
    return SstFile(source, FileMetaData(0, 0, source.size, none, none), 1)


def wrong_size(info: FileMetaData, path: str, size: int, manifest: str | None = None) -> CorruptStateError:
    """Return the error for a table file whose size differs from the manifest."""
    return CorruptStateError(
        f"the size of table file {info.name} differs from the one in its manifest",
        path=path,
        expected=f"{info.size} bytes" + (f", as recorded in {manifest}" if manifest else ""),
        found=f"{size} bytes",
        remedy=UNREADABLE,
    )


def another_file(file: SstFile) -> CorruptStateError:
    """Return the error for a table file with keys outside of its range in the manifest."""
    low, high = file.info.smallest.user_key, file.info.largest.user_key
    return CorruptStateError(
        f"the table file {file.info.name} is not the one in its manifest",
        path=file.path,
        expected=f"keys from {low[:40].hex()} to {high[:40].hex()}",
        found="others",
        remedy=UNREADABLE,
    )


def _spans(parts: Sequence[tuple[Bytes, Longs, Longs]]) -> tuple[Bytes, tuple[Longs, Longs]]:
    """Return spans of several buffers as those of one."""
    keys, start, end = zip((np.empty(0, np.uint8), *[np.empty(0, np.int64)] * 2), *parts, strict=True)
    base = np.cumsum([0, *(len(array) for array in keys)]).tolist()
    spans = [np.concatenate([array + at for array, at in zip(side, base, strict=False)]) for side in (start, end)]
    return np.concatenate(keys), (spans[0], spans[1])


def _places(handles: list[BlockHandle]) -> tuple[Longs, Longs]:
    offset = np.array([handle.offset for handle in handles], np.int64)
    return offset, np.array([handle.size for handle in handles], np.int64)


class _Tail(ByteSource):
    """A file whose end is already in memory."""

    def __init__(self, source: ByteSource) -> None:
        self.path = source.path
        self.size = source.size
        self._source: ByteSource = source
        self._start = source.size - tail_size(source.size)
        self._end = InlineByteSource(source.path, source.read(self._start, source.size - self._start))

    @property
    def nbytes(self) -> int:
        """Return the bytes that are in memory."""
        return self.size - self._start

    def of(self, source: ByteSource) -> _Tail:
        """Return this end over the same file, which was opened again."""
        other = copy(self)
        other._source = source
        return other

    def _fill(self, start: int, buffer: Any) -> None:
        target = memoryview(buffer)
        # What is in memory is not read again.
        before = min(max(self._start - start, 0), len(target))
        if before:
            self._source.read_into(start, target[:before])
        if before < len(target):
            self._end.read_into(start + before - self._start, target[before:])


# -- properties of a table file: its block ``rocksdb.properties`` -----------------------------------------------------
# entry := name value value: varint64, text, or a little-endian number of fixed width
#
# RocksDB: ``TableProperties``, ``BlockBasedTablePropertyNames``.

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
    for what, name, known in (
        ("comparator", comparator.decode("latin-1"), (COMPARATOR.decode(),)),
        ("merge operator", merge_operator, MERGE_OPERATORS),
    ):
        if name not in known:
            raise UnsupportedStateError(
                f"a table file has a {what} that Flink does not use",
                path=path,
                expected=known[0],
                found=ascii(name[:80]),
            )
