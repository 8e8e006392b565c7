"""Writer of operator state, the counterpart of ``operator_stream``.

Elements of list and union states are contiguous, each at an offset of the handle; a broadcast state is the number of
its entries and the entries, at one offset. If compressed (header version 6, Flink 1.18 on), every element begins with
a new chunk, because offsets are file positions. Flink:
``DefaultOperatorStateBackendSnapshotStrategy``, ``PartitionableListState#write``, ``HeapBroadcastState#write``.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from pyspark_savepoint.formats.columns import Bytes, Longs
from pyspark_savepoint.formats.data_view import DataOutputView
from pyspark_savepoint.formats.io.snappy import ByteOutput, FramedOutput
from pyspark_savepoint.formats.keyed.meta_info import OperatorBackendHeader
from pyspark_savepoint.formats.metadata.operator_handles import Mode, StateMetaInfo


class OperatorStreamWriter:
    """Writer of the header, then of states in any order. Offsets count from the first byte of the file."""

    def __init__(self, file: ByteOutput, header: OperatorBackendHeader) -> None:
        view = DataOutputView()
        header.write(view)
        file.write(view.getvalue())
        self._out = FramedOutput(file, len(view.getvalue()), header.compressed)
        self._out.begin()
        self._lists = {meta.name: meta for meta in header.list_states}
        self._broadcasts = {meta.name: meta for meta in header.broadcast_states}
        self._offsets: dict[str, list[int]] = {meta.name: [] for meta in header.states}

    def add_list(self, name: str, data: Bytes, offsets: Longs) -> None:
        """Add serialized elements of a list or union state: element i is data[offsets[i]:offsets[i + 1]]."""
        if name not in self._lists:
            raise ValueError(f"{name!r} is not among the list states {list(self._lists)}")
        if not len(offsets):
            return
        if not self._out.compressed:
            first = self._out.position - int(offsets[0])
            self._offsets[name] += (np.asarray(offsets[:-1], np.int64) + first).tolist()
            self._out.write(np.ascontiguousarray(data[int(offsets[0]) : int(offsets[-1])]).data)
            return
        places = np.asarray(offsets, np.int64).tolist()
        for start, end in pairwise(places):
            self._offsets[name].append(self._out.end())
            self._out.write(data[start:end].tobytes())
        self._out.end()

    def add_broadcast(self, name: str, count: int, entries: Bytes) -> None:
        """Add a whole broadcast state: its entries, each a serialized key and value, contiguous."""
        if name not in self._broadcasts:
            raise ValueError(f"{name!r} is not among the broadcast states {list(self._broadcasts)}")
        if self._offsets[name]:
            raise ValueError(f"broadcast state {name!r} is written already")
        self._offsets[name].append(self._out.end())
        self._out.write(count.to_bytes(4, "big"))
        self._out.write(np.ascontiguousarray(entries).data)
        self._out.end()

    def finish(self) -> dict[str, StateMetaInfo]:
        """Return the element offsets of each state; a broadcast state that was not added is written as empty."""
        for name in self._broadcasts:
            if not self._offsets[name]:
                self.add_broadcast(name, 0, np.zeros(0, np.uint8))
        self._out.flush()
        metas = {**self._lists, **self._broadcasts}
        return {
            name: StateMetaInfo(name, Mode.of(metas[name].state_type), tuple(at)) for name, at in self._offsets.items()
        }
