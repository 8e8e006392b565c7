"""Timers as raw keyed state: RocksDB and ForSt jobs with timers on the heap, and jobs before Flink 1.13.

    KeyGroup := F1CD859F  i32 2  i32 n Service[n]
    Service  := utf name  Versioned key  Versioned namespace  i32 n Timer[n] (event)  i32 n Timer[n] (processing)
    Timer    := key  namespace  i64 timestamp

An offset of -1 in the handle means that the key group was never started. Raw keyed state may also belong to the
operator itself: without the magic number it is ignored. Flink: ``InternalTimerServiceSerializationProxy``,
``TimersSnapshot``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pyspark_savepoint.formats.columns import Cursors, DecodeOptions, Origin
from pyspark_savepoint.formats.data_view import DataInputView
from pyspark_savepoint.formats.errors import UNREADABLE, CorruptStateError, SavepointError
from pyspark_savepoint.formats.keyed.key_group_reader import Extent
from pyspark_savepoint.formats.metadata.keyed_handles import KeyGroupsStateHandle
from pyspark_savepoint.formats.serializers.base import UnknownPayloads
from pyspark_savepoint.formats.serializers.basic.primitives import BASE, NumberSerializer
from pyspark_savepoint.formats.serializers.layout import locate
from pyspark_savepoint.formats.serializers.registry import snapshot_reader
from pyspark_savepoint.statebackends.rows.descriptors import TIMER_DOMAINS, TimerQueue

if TYPE_CHECKING:
    from pyspark_savepoint.formats.io.byte_source import ByteSource, StateLocation
    from pyspark_savepoint.formats.metadata import OperatorState
    from pyspark_savepoint.formats.metadata.key_groups import KeyGroupRangeOffsets
    from pyspark_savepoint.formats.snapshot.savepoint import Snapshot

MAGIC = bytes.fromhex("f1cd859f")
VERSION = 2
LONG = NumberSerializer.of(f"{BASE}LongSerializer$LongSerializerSnapshot")


@dataclass(frozen=True, slots=True)
class RawTimerSource:
    """Description of one raw keyed handle."""

    location: StateLocation
    offsets: KeyGroupRangeOffsets
    operator: str

    def _extents(self, size: int) -> list[Extent]:
        """Return the key groups that have bytes; in state other than timers, a started one may have none."""
        placed = sorted((offset, key_group) for key_group, offset in self.offsets if offset >= 0)
        ends = [*(offset for offset, _ in placed), size][1:]
        extents = [Extent(group, start, end) for (start, group), end in zip(placed, ends, strict=True)]
        for extent in extents:
            if not extent.start <= extent.end <= size:
                raise CorruptStateError(
                    f"key group {extent.key_group} of raw state cannot begin at the offset in its handle",
                    offset=extent.start,
                    operator=self.operator,
                    remedy=UNREADABLE,
                )
        return [extent for extent in extents if extent.size]

    def holds_timers(self) -> bool:
        """Return whether the raw state begins with the magic number of timers."""
        with self.location.open() as source:
            extents = self._extents(source.size)
            return bool(extents) and source.read(extents[0].start, min(4, extents[0].size)) == MAGIC

    def queues(self, options: DecodeOptions) -> list[TimerQueue]:
        """Return the timer queues of the first key group; all key groups have the same services."""
        with self.location.open() as source:
            extent = self._extents(source.size)[0]
            return [queue for queue, _, _ in self._walk(source, extent, options)]

    def timers(self, key_groups: set[int], options: DecodeOptions) -> Iterator[tuple[TimerQueue, Cursors, int]]:
        """Yield the timers of every selected key group: cursors over key, namespace and timestamp."""
        try:
            with self.location.open() as source:
                for extent in self._extents(source.size):
                    if extent.key_group in key_groups:
                        yield from self._walk(source, extent, options)
        except SavepointError as error:
            raise error.with_facts(operator=self.operator) from None

    def _walk(
        self, source: ByteSource, extent: Extent, options: DecodeOptions
    ) -> Iterator[tuple[TimerQueue, Cursors, int]]:
        data = bytearray(source.read(extent.start, extent.size))
        buffer = np.frombuffer(data, np.uint8)
        view = DataInputView(memoryview(data), source.path, extent.start)
        if view.read(min(4, view.remaining)) != MAGIC:
            view.position = 0
            view.fail("the magic number of timers in raw keyed state")
        view.read_constant(VERSION, "the version of timers in raw keyed state")
        for _ in range(view.read_count("timer services", each=20)):
            service = view.read_utf("a timer service")
            unknown = UnknownPayloads(classes=source.classes)
            key, namespace = (snapshot_reader(view, unknown).versioned() for _ in range(2))
            origin = Origin(source.path, extent.start, self.operator, f"timers of {service}")
            for domain in TIMER_DOMAINS:
                count = view.read_count("timers")
                at = Cursors(buffer, _one(view.position), _one(len(data)), origin, options)
                starts, stops = locate([key, namespace, LONG], at, _one(count))
                view.position = int(at.position[0])
                yield TimerQueue(domain, service, key, namespace), at.at(starts[0], stops[2]), extent.key_group
        view.expect_end(f"the timers of key group {extent.key_group}")


def _one(value: int) -> Any:
    return np.array([value], np.int64)


def raw_timer_sources(savepoint: Snapshot, operator: OperatorState) -> list[RawTimerSource]:
    """Return the raw keyed handles of an operator that hold timers."""
    sources = []
    for index in sorted(operator.subtasks):
        handle = operator.subtasks[index].raw_keyed_state
        if isinstance(handle, KeyGroupsStateHandle):
            location = savepoint.resolve(handle.delegate, operator)
            source = RawTimerSource(location, handle.offsets, operator.label)
            if source.holds_timers():
                sources.append(source)
    return sources
