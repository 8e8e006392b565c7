"""Source of the key groups of one file, in the canonical format or in that of the heap."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark_savepoint.formats.columns import DecodeOptions, Origin
from pyspark_savepoint.formats.errors import UNREADABLE, CorruptStateError, SavepointError
from pyspark_savepoint.formats.io.byte_source import ByteSource, StateLocation
from pyspark_savepoint.formats.keyed.key_group_reader import Extent
from pyspark_savepoint.formats.keyed.meta_info import KeyedBackendHeader, read_header
from pyspark_savepoint.formats.metadata.key_groups import KeyGroupRange, KeyGroupRangeOffsets

if TYPE_CHECKING:
    from pyspark_savepoint.formats.keyed.canonical_stream import CanonicalKeyedStream
    from pyspark_savepoint.formats.keyed.heap_stream import HeapKeyedStream

FRAMING_WINDOW = 1 << 24


@dataclass(frozen=True, slots=True)
class KeyedSource:
    """Description of a stream of key groups: frozen, picklable, without open files."""

    location: StateLocation
    offsets: KeyGroupRangeOffsets
    canonical: bool
    max_parallelism: int
    operator: str

    @property
    def key_group_range(self) -> KeyGroupRange:
        """Return the key groups of the handle."""
        return self.offsets.key_group_range

    def header(self) -> KeyedBackendHeader:
        """Read the descriptions of the states from the stream."""
        try:
            with self.location.open() as source:
                return self._read_header(source)
        except SavepointError as error:
            raise error.with_facts(operator=self.operator) from None

    @contextmanager
    def open(self, options: DecodeOptions) -> Iterator[CanonicalKeyedStream | HeapKeyedStream]:
        """Open the stream; errors get the operator's name."""
        # Imported here: headers are read without the streams.
        from pyspark_savepoint.formats.keyed.canonical_stream import CanonicalKeyedStream
        from pyspark_savepoint.formats.keyed.heap_stream import HeapKeyedStream

        options = options.undecoded()
        try:
            with self.location.open() as source:
                header = self._read_header(source)
                extents = self._extents(source, header)
                origin = Origin(source.path, 0, self.operator)
                full = CanonicalKeyedStream(source, header, extents, self.max_parallelism, origin, options)
                if not self.canonical and is_heap_format(full, self.offsets):
                    yield HeapKeyedStream(source, header, extents, origin, options)
                else:
                    yield full
        except SavepointError as error:
            raise error.with_facts(operator=self.operator) from None

    def _read_header(self, source: ByteSource) -> KeyedBackendHeader:
        first = min((offset for offset in self.offsets.offsets if offset > 0), default=source.size)
        return read_header(KeyedBackendHeader, source, first)

    def _extents(self, source: ByteSource, header: KeyedBackendHeader) -> list[Extent]:
        """Return the key groups that have bytes, in the order of the file; each ends where the next begins."""
        placed = sorted((offset, key_group) for key_group, offset in self.offsets if offset != 0)
        ends = [*(offset for offset, _ in placed), source.size][1:]
        extents = []
        for (start, key_group), end in zip(placed, ends, strict=True):
            if not header.size <= start < end:
                raise CorruptStateError(
                    f"key group {key_group} cannot begin at the offset in its handle",
                    path=source.path,
                    offset=start,
                    operator=self.operator,
                    expected=f"an offset from {header.size} to {source.size - 1}, of its own",
                    found=start,
                    remedy=UNREADABLE,
                )
            extents.append(Extent(key_group, start, end))
        return extents


def is_heap_format(stream: CanonicalKeyedStream, offsets: KeyGroupRangeOffsets) -> bool:
    """Return whether key groups are in the heap format: each has an offset, and begins with its own number.

    Key group 0 alone proves nothing, because the canonical format may begin with four zero bytes too. In this case the
    stream is in the heap format if it cannot be parsed as the canonical format.
    """
    extents = stream.extents
    if len(extents) < len(offsets.offsets) or not extents:
        return False
    step = max(1, len(extents) // 8)
    for extent in [*extents[::step], extents[-1]]:
        if extent.size < 4 or int.from_bytes(stream.source.read(extent.start, 4), "big") != extent.key_group:
            return False
    if any(extent.key_group for extent in extents):
        return True
    try:
        for _ in stream.blocks({0}, set(), False, FRAMING_WINDOW):
            pass
    except CorruptStateError:
        return True
    return False
