"""Entries of one state as rows: the key, and what the state has there. New keys can be computed from them.

=====================  ==================================================================
MAP                    an entry of the map: ``key``, ``map_key``, ``map_value``
VALUE and all others   ``key``, ``value``
=====================  ==================================================================

A list is one entry, whose elements would have several keys: it has no rows here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from pyspark_savepoint.formats.columns import Cursors, DecodeOptions, binary_parts, spans_of
from pyspark_savepoint.formats.errors import OptionError, SavepointError, ValueRangeError
from pyspark_savepoint.formats.keyed.keyed_block import constant_width
from pyspark_savepoint.formats.serializers.basic.shapes import Flagged
from pyspark_savepoint.statebackends.rows.entry_bytes import KEY, STATE, VALUE
from pyspark_savepoint.statebackends.rows.key_codec import key_text
from pyspark_savepoint.statebackends.rows.state_column import unit_serializers
from pyspark_savepoint.statebackends.writing.new_keys import INTERNAL_ENTRIES, OLD, internal_name

if TYPE_CHECKING:
    from pyspark_savepoint.formats.keyed.meta_info import StateMetaInfoSnapshot
    from pyspark_savepoint.formats.serializers.base import TypeSerializer

MAP_KEY, MAP_VALUE, ROW = "map_key", "map_value", "value"


@dataclass(frozen=True)
class EntryRows:
    """Function from entries with their keys (``KeyDecoder``) to the rows of one state, by its number."""

    number: int
    meta: StateMetaInfoSnapshot
    key: pa.DataType
    options: DecodeOptions
    label: str

    def check(self) -> None:
        """Raise an error for a state whose entries are no rows."""
        if self.meta.state_type == "LIST" or (self._is_map and constant_width(self.meta.namespace_serializer) < 0):
            raise OptionError(
                "the rows of this state cannot have keys of their own: a list is one entry"
                if self.meta.state_type == "LIST"
                else "the rows of this state cannot have keys of their own: its namespaces vary in length",
                operator=self.label,
                state=self.meta.name,
                found=self.meta.value_serializer.flink_type,
                remedy="remove_state it first, and write it under the new keys (with_state)",
            )

    @property
    def _is_map(self) -> bool:
        return self.meta.state_type == "MAP"

    @property
    def _parts(self) -> dict[str, TypeSerializer]:
        names = (MAP_KEY, MAP_VALUE) if self._is_map else (ROW,)
        return dict(zip(names, unit_serializers(self.meta), strict=True))

    @property
    def schema(self) -> pa.Schema:
        """The columns of the batches that it yields."""
        rows = [pa.field(name, part.arrow_type(self.options)) for name, part in self._parts.items()]
        return pa.schema([*INTERNAL_ENTRIES, pa.field(OLD, self.key), *rows])

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows."""
        for whole in batches:
            own = np.asarray(whole.column(internal_name(STATE)), np.int32) == self.number
            batch = whole if own.all() else whole.filter(pa.array(own))
            if len(batch):
                try:
                    columns = [*batch.columns, *self._columns(batch)]
                except SavepointError as error:
                    raise error.with_facts(operator=self.label, state=self.meta.name) from None
                yield pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _columns(self, batch: pa.RecordBatch) -> list[pa.Array]:
        (*keys, value) = self._parts.values()
        columns = []
        if keys:
            buffer, start, end = spans_of(batch.column(internal_name(KEY)))
            offsets, _ = binary_parts(batch.column(internal_name("serialized_key")))
            user = start + np.diff(offsets) + constant_width(self.meta.namespace_serializer)
            columns.append(self._decoded(keys[0], buffer, user, end))
        buffer, start, end = spans_of(batch.column(internal_name(VALUE)))
        columns.append(self._decoded(Flagged(value) if keys else value, buffer, start, end))
        return columns

    def _decoded(
        self, part: TypeSerializer | Flagged, buffer: np.ndarray, start: np.ndarray, end: np.ndarray
    ) -> pa.Array:
        at = Cursors(np.array(buffer), start.copy(), end.copy(), options=self.options)
        column = part.decode(at)
        at.expect_end()
        return column


@dataclass(frozen=True)
class NoOtherEntries:
    """Function from entries to none; an entry of a state that is not among the given numbers is an error."""

    numbers: frozenset[int]
    states: tuple[StateMetaInfoSnapshot, ...]
    old: TypeSerializer
    label: str

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield nothing."""
        for batch in batches:
            states = np.asarray(batch.column(internal_name(STATE)), np.int32)
            others = np.flatnonzero(~np.isin(states, list(self.numbers)))
            if len(others):
                row = int(others[0])
                name = self.states[int(states[row])].name
                key = key_text(self.old, batch.column(internal_name("serialized_key"))[row].as_py(), "")
                raise ValueRangeError(
                    "nothing says which key an entry gets",
                    operator=self.label,
                    state=name,
                    found=key,
                    remedy=f"say it for state {name!r} too, or remove_state it first",
                )
        yield from ()
