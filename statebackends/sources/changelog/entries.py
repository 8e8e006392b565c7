"""Change units as columns: made of byte spans of the log, or of the entries of a materialized state.

A unit is an entry and the operation on it, see ``units.py``. Materialized entries become PUT units; lists and
maps in the heap format, which are one entry each, become one unit per element.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from pyspark_savepoint.formats.columns import Bytes, Cursors, Ints, Longs
from pyspark_savepoint.formats.errors import UndecodableStateError
from pyspark_savepoint.formats.keyed.keyed_block import HEAP, PARTS, SCHEMA, KeyedBlock, binary_column, take_entries
from pyspark_savepoint.formats.keyed.meta_info import StateMetaInfoSnapshot
from pyspark_savepoint.formats.serializers.base import TypeSerializer
from pyspark_savepoint.formats.serializers.basic.primitives import read_numbers
from pyspark_savepoint.formats.serializers.basic.shapes import Flagged
from pyspark_savepoint.formats.serializers.layout import locate
from pyspark_savepoint.statebackends.model.state_column import unit_serializers

UNIT = "unit"
UNITS = SCHEMA.append(pa.field(UNIT, pa.int8()))


@dataclass(slots=True)
class Units:
    """Units of some changes: byte spans per part; ``change`` is the index of the change that each unit came from."""

    change: Longs
    unit: int
    spans: dict[str, tuple[Longs, Longs]]
    #: The byte before each value is overwritten with the flag for "not null".
    flagged: bool = False


@dataclass(slots=True)
class Scope:
    """Indexes of changes, with the spans of key and namespace of each."""

    rows: Longs
    spans: dict[str, tuple[Longs, Longs]]

    def units(self, unit: int, which: Any = None, flagged: bool = False, **more: tuple[Longs, Longs]) -> Units:
        """Return one unit for each index in ``which`` (default: each change once); indexes may repeat."""
        chosen = np.arange(len(self.rows)) if which is None else which
        spans = {part: (start[chosen], end[chosen]) for part, (start, end) in self.spans.items()}
        return Units(self.rows[chosen], unit, {**spans, **more}, flagged)


def read_counts(at: Cursors, what: str) -> Longs:
    """Read the number of elements before each value."""
    counts = read_numbers(at, "read_i32", np.int32, f"a number of {what}").astype(np.int64)
    wrong = np.flatnonzero((counts < 0) | (counts > at.end - at.position))
    if len(wrong):
        at.position -= 4
        at.fail(int(wrong[0]), f"a number of {what} that there is room for", int(counts[wrong[0]]))
    return counts


def delimited(serializer: TypeSerializer, at: Cursors, meta: StateMetaInfoSnapshot) -> TypeSerializer:
    """Return the serializer; raise an error if only user code can find where its values end."""
    opaque = serializer.opaque_parts()
    if opaque:
        raise UndecodableStateError(
            f"state {meta.name!r} has parts that only the job's own serializer can delimit",
            found=opaque[0].flink_type,
            remedy="read other states of the operator (option 'state'), take a canonical savepoint, or "
            f"{opaque[0].remedy}",
            **at.origin.facts(),
        )
    return serializer


def elements(at: Cursors, meta: StateMetaInfoSnapshot) -> tuple[Longs, Longs, Longs]:
    """Parse serialized lists: return the number of elements of each, and the spans of all elements."""
    (element,) = unit_serializers(meta)
    counts = read_counts(at, "elements")
    if element.opaque_parts() and counts.max(initial=0) <= 1:
        one = np.flatnonzero(counts == 1)
        return counts, at.position[one], at.end[one]
    starts, stops = locate([delimited(element, at, meta)], at, counts)
    at.expect_end()
    return counts, starts[0], stops[0]


def map_entries(at: Cursors, meta: StateMetaInfoSnapshot) -> tuple[Longs, tuple[Longs, Longs], tuple[Longs, Longs]]:
    """Parse serialized maps: return the number of entries of each, and the spans of user keys and flagged values."""
    key, value = (delimited(each, at, meta) for each in unit_serializers(meta))
    counts = read_counts(at, "entries")
    starts, stops = locate([key, Flagged(value)], at, counts)
    at.expect_end()
    return counts, (starts[0], stops[0]), (starts[1], stops[1])


def assemble(buffer: Bytes, groups: list[tuple[int, Units]], key_group: Ints) -> pa.RecordBatch:
    """Build one batch in the order of the changes; ``key_group`` has the key group of every change."""
    change = np.concatenate([units.change for _, units in groups])
    order = np.argsort(change, kind="stable")
    state = np.concatenate([np.full(len(units.change), one, np.int32) for one, units in groups])
    unit = np.concatenate([np.full(len(units.change), units.unit, np.int8) for _, units in groups])
    columns = [pa.array(state[order]), pa.array(key_group[change[order]])]
    for part in PARTS:
        if part == "value":
            # The user keys are already copied, so the byte before a value can become its flag.
            for _, units in groups:
                if units.flagged:
                    buffer[units.spans["value"][0]] = 0
        spans = [units.spans.get(part, (units.change * 0, units.change * 0)) for _, units in groups]
        start, end = (np.concatenate([span[side] for span in spans])[order] for side in (0, 1))
        columns.append(binary_column(buffer, start, end))
    columns.append(pa.array(unit[order]))
    return pa.RecordBatch.from_arrays(columns, schema=UNITS)


def entry_units(block: KeyedBlock, ids: dict[int, int], states: tuple[StateMetaInfoSnapshot, ...]) -> pa.RecordBatch:
    """Convert the entries of a materialized block to units; ``ids`` maps its state ids to those of the table."""
    from pyspark_savepoint.formats.kernels import changelog as kernels

    groups: list[tuple[int, Units]] = []
    plain: list[Longs] = []
    for there, here in ids.items():
        entries = block.entries_of(there)
        kind = states[here].state_type
        if block.form == HEAP and kind in ("LIST", "MAP") and len(entries):
            groups.append((here, _whole(block, entries, states[here])))
        else:
            plain.append(entries)
    batches = [assemble(block.buffer, groups, block.key_group)] if groups else []
    rows = np.concatenate(plain) if plain else np.empty(0, np.int64)
    taken = take_entries(block, rows)
    place = np.full(len(block.states) + 1, -1, np.int32)
    place[list(ids)] = list(ids.values())
    columns = [
        pa.array(place[block.state[rows]]),
        *taken.columns[1:],
        pa.array(np.full(len(rows), kernels.PUT, np.int8)),
    ]
    batches.append(pa.RecordBatch.from_arrays(columns, schema=UNITS))
    return pa.Table.from_batches(batches, UNITS).combine_chunks().to_batches()[0] if groups else batches[0]


def _whole(block: KeyedBlock, entries: Longs, meta: StateMetaInfoSnapshot) -> Units:
    """Split lists and maps of the heap format into units."""
    from pyspark_savepoint.formats.kernels import changelog as kernels

    spans = {
        "key": (block.key_start[entries], block.key_end[entries]),
        "namespace": (block.namespace_start[entries], block.namespace_end[entries]),
    }
    origin = replace(block.origin, state=meta.name)
    at = Cursors(block.buffer, block.value_start[entries].copy(), block.value_end[entries], origin)
    scope = Scope(entries, spans)
    if meta.state_type == "LIST":
        counts, start, end = elements(at, meta)
        return scope.units(kernels.ADD, np.repeat(np.arange(len(entries)), counts), value=(start, end))
    counts, user, value = map_entries(at, meta)
    return scope.units(kernels.PUT, np.repeat(np.arange(len(entries)), counts), user=user, value=value)
