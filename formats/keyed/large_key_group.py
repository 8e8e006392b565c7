"""A sorted key group larger than memory: its states are read side by side, each through a window of its own.

The first pass finds where every state's run begins and ends, and whether it is sorted; it stops at the first entry
that is not. The second reads each run on its own and merges them. What is not sorted is joined through local disk.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark_savepoint.formats.keyed.key_group_reader import Extent, KeyGroupContent
from pyspark_savepoint.formats.keyed.keyed_block import KeyedBlock
from pyspark_savepoint.formats.keyed.sorted_merge import merge_sorted

if TYPE_CHECKING:
    from pyspark_savepoint.formats.keyed.canonical_stream import CanonicalKeyedStream

Wanted = tuple[set[int], bool, int]
# Windows must hold a few entries; smaller ones only cost.
MIN_WINDOW = 1 << 16


class _Scan:
    """What the first pass has seen of one state."""

    def __init__(self, start: int) -> None:
        self.start = start
        self.stop = start
        self.last = b""


def merge_large_key_group(stream: CanonicalKeyedStream, extent: Extent, wanted: Wanted) -> Iterator[KeyedBlock] | None:
    """Complete blocks of a key group, or None where its states are not sorted."""
    content = stream.content_of(extent)
    runs = _scan(stream, content, extent, wanted)
    if runs is None:
        return None
    _, namespaced, window = wanted
    share = max(MIN_WINDOW, window // max(1, len(runs)))
    return merge_sorted(
        [_run(stream, content, extent, ({state}, namespaced, share), scan) for state, scan in runs.items()]
    )


def _scan(
    stream: CanonicalKeyedStream, content: KeyGroupContent, extent: Extent, wanted: Wanted
) -> dict[int, _Scan] | None:
    from pyspark_savepoint.formats.kernels import frames

    runs: dict[int, _Scan] = {}
    for block, before in stream.windows(content, extent, wanted):
        for _, pieces in block.groups:
            for low, high in pieces:
                if frames.ascending(block.buffer, block.span_start, block.span_end, low, high) == frames.NOT:
                    return None
                state = int(block.state[low])
                scan = runs.setdefault(state, _Scan(before + int(block.key_start[low]) - stream.prefix - 4))
                first = block.buffer[int(block.span_start[low]) : int(block.span_end[low])].tobytes()
                if first < scan.last:
                    return None
                scan.last = block.buffer[int(block.span_start[high - 1]) : int(block.span_end[high - 1])].tobytes()
                scan.stop = before + int(block.value_end[high - 1])
    return runs


def _run(
    stream: CanonicalKeyedStream, content: KeyGroupContent, extent: Extent, wanted: Wanted, scan: _Scan
) -> Iterator[KeyedBlock]:
    (state,) = wanted[0]
    again, rest = content.from_content(scan.start)
    for block, _ in stream.windows(again, extent, wanted, (state, scan.start, scan.stop), rest):
        yield block
