"""Rewriting of the keyed entries of a chunk, by the programs of their states.

Where only unlisted subclasses of POJOs may change, entries without the flag of one are copied.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

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
            values, value_start, value_end = _changed(
                values, value_start, value_end, program.new_value, some=program.hides_in_values
            )
        keys, key_start, key_end = chunk.keys, chunk.key_start, chunk.key_end
        if program.changes_keys:
            keys, key_start, key_end = _changed(keys, key_start, key_end, program.key, some=program.hides_in_keys)
        return EntryChunk(
            keys, values, chunk.state, chunk.key_group, key_start, key_end, value_start, value_end, key_start, key_start
        )


def subclass_flags(data: npt.NDArray[np.uint8]) -> npt.NDArray[np.int64]:
    """Return where the flag of a POJO's unlisted subclass may be: the flag, a length that is not 0, a first letter."""
    from pyspark_savepoint.formats.kernels import skip

    at = np.flatnonzero(data[:-3] == skip.SUBCLASS)
    first, length = data[at + 3], data[at + 1].astype(np.int64) << 8 | data[at + 2]
    letters = ((first | 0x20) >= ord("a")) & ((first | 0x20) <= ord("z"))
    return at[(length > 0) & (letters | np.isin(first, (ord("_"), ord("$"))) | (first >= 0x80))]


def flagged_rows(data: npt.NDArray[np.uint8], start: Longs, end: Longs) -> npt.NDArray[np.int64]:
    """Return the rows in whose bytes such a flag may be."""
    flags = subclass_flags(data)
    return np.flatnonzero(np.searchsorted(flags, start) < np.searchsorted(flags, end))


def _changed(
    data: Bytes, start: Longs, end: Longs, change: Callable[[bytes], bytes], *, some: bool
) -> tuple[Bytes, Longs, Longs]:
    """Return what a function makes of each row, and the spans; ``some``: of rows in which the flag may be."""
    payload = data.tobytes()
    rows = [payload[low:high] for low, high in zip(start.tolist(), end.tolist(), strict=True)]
    for row in flagged_rows(data, start, end).tolist() if some else range(len(rows)):
        rows[row] = change(rows[row])
    return _joined(rows)


def _joined(parts: list[bytes]) -> tuple[Bytes, Longs, Longs]:
    ends = np.cumsum([len(part) for part in parts]).astype(np.int64)
    data = np.frombuffer(b"".join(parts), np.uint8)
    return read_only(data), np.concatenate([[0], ends[:-1]]).astype(np.int64), ends
