"""Renumbering of encoded entries to the state ids of an operator's header."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from pyspark_savepoint.formats.columns import Cursors, Ints, fixed_array, spans_of
from pyspark_savepoint.formats.keyed.keyed_block import binary_column
from pyspark_savepoint.formats.serializers.layout import skip_rows
from pyspark_savepoint.statebackends.model.descriptors import KeyedDescriptor, StateKind
from pyspark_savepoint.statebackends.model.entry_bytes import (
    ENTRIES,
    KEY,
    KEY_GROUP,
    KEYED_ENTRIES,
    STATE,
    TIMESTAMP_BYTES,
    VALUE,
)


@dataclass(frozen=True)
class RemapStateIds:
    """Function for ``mapInArrow``; ``numbers`` has the new numbers of the descriptor's states; -1: skip."""

    descriptor: KeyedDescriptor
    numbers: tuple[int, ...]
    with_keys: bool

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        numbers = np.array(self.numbers, np.int32)
        for batch in batches:
            state = np.asarray(batch.column(STATE), np.int32)
            wanted = numbers[state] >= 0
            if not wanted.all():
                batch, state = batch.filter(pa.array(wanted)), state[wanted]
            columns = [
                fixed_array(pa.int32(), numbers[state]),
                batch.column(KEY_GROUP),
                batch.column(KEY),
                batch.column(VALUE),
            ]
            if self.with_keys:
                yield pa.RecordBatch.from_arrays([*columns, self._keys(batch, state)], schema=KEYED_ENTRIES)
            else:
                yield pa.RecordBatch.from_arrays(columns, schema=ENTRIES)

    def _keys(self, batch: pa.RecordBatch, state: Ints) -> pa.Array:
        """Return the keys alone: the beginning of a composite key, for a timer after its timestamp."""
        timers = np.array([each.kind is StateKind.TIMER for each in self.descriptor.states])
        buffer, start, end = spans_of(batch.column(KEY))
        start = start + np.where(timers[state], TIMESTAMP_BYTES, 0)
        at = Cursors(np.array(buffer), start.copy(), end)
        skip_rows(self.descriptor.key_serializer, at)
        return binary_column(at.buffer, start, at.position)
