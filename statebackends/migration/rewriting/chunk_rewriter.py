"""Rewriting of the keyed entries of a chunk, by the programs of their states."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from pyspark_savepoint.formats.columns import Bytes, Longs
from pyspark_savepoint.formats.keyed.canonical_writer import read_only
from pyspark_savepoint.statebackends.merging.entry_chunk import EntryChunk, concat
from pyspark_savepoint.statebackends.migration.rewriting.state_programs import EntryProgram


@dataclass(frozen=True)
class ChunkRewriter:
    """Programs by the number of their state."""

    programs: Mapping[int, EntryProgram]

    @property
    def keeps_order(self) -> bool:
        """Return whether all keys keep their bytes."""
        return not any(program.changes_keys for program in self.programs.values())

    def rewritten(self, chunk: EntryChunk) -> EntryChunk:
        """Return the entries with new bytes; those of states without a program are the same."""
        if not self.programs:
            return chunk
        touched = np.isin(chunk.state, list(self.programs))
        parts = [chunk.take(np.flatnonzero(~touched))] if not touched.all() else []
        parts += [
            self._of_state(chunk.take(np.flatnonzero(chunk.state == number)), program)
            for number, program in self.programs.items()
        ]
        return concat([part for part in parts if len(part)])

    @staticmethod
    def _of_state(chunk: EntryChunk, program: EntryProgram) -> EntryChunk:
        if not len(chunk):
            return chunk
        values, value_start, value_end = chunk.values, chunk.value_start, chunk.value_end
        if program.compiled is not None:
            values, value_start, value_end = program.compiled.run(values, value_start, value_end)
        elif not program.value.changes_nothing:
            held = chunk.values.tobytes()
            spans = zip(chunk.value_start.tolist(), chunk.value_end.tolist(), strict=True)
            values, value_start, value_end = _joined([program.new_value(held[low:high]) for low, high in spans])
        keys, key_start, key_end = chunk.keys, chunk.key_start, chunk.key_end
        if program.changes_keys:
            held = chunk.keys.tobytes()
            spans = zip(chunk.key_start.tolist(), chunk.key_end.tolist(), strict=True)
            keys, key_start, key_end = _joined([program.key(held[low:high]) for low, high in spans])
        return EntryChunk(
            keys, values, chunk.state, chunk.key_group, key_start, key_end, value_start, value_end, key_start, key_start
        )


def _joined(parts: list[bytes]) -> tuple[Bytes, Longs, Longs]:
    ends = np.cumsum([len(part) for part in parts]).astype(np.int64)
    data = np.frombuffer(b"".join(parts), np.uint8)
    return read_only(data), np.concatenate([[0], ends[:-1]]).astype(np.int64), ends
