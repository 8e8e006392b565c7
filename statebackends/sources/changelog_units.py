"""Changes of a changelog, and entries of materialized state, as units with one way of replay.

    unit           value, list            map                            timer
    PUT            the value              a value of a user key          the timer
    ADD            an element
    DELETE         all of it              a user key                     the timer
    CLEAR                                 all of it
    MERGE_TARGET   the namespace that takes over the values of the MERGE_SOURCEs after it

A change of many elements becomes one unit per element. Values are in the canonical format: elements of a list are
joined by a comma, values of a map follow their null flag. Flink: the ``StateChangeApplier`` of each kind of state.

Units are columns: made of byte spans of the log, or of the entries of a materialized state. Materialized entries become
PUT units; lists and maps in the heap format, which are one entry each, become one unit per element.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from pyspark_savepoint.formats.columns import Bytes, Cursors, DecodeOptions, Ints, Longs
from pyspark_savepoint.formats.errors import UNREADABLE, CorruptStateError, UndecodableStateError
from pyspark_savepoint.formats.keyed import changelog
from pyspark_savepoint.formats.keyed.keyed_block import (
    HEAP,
    PARTS,
    SCHEMA,
    KeyedBlock,
    binary_column,
    take_entries,
)
from pyspark_savepoint.formats.keyed.meta_info import BackendStateType, StateMetaInfoSnapshot
from pyspark_savepoint.formats.keyed.unknown_keys import skip_unknown_keys
from pyspark_savepoint.formats.serializers.basic.primitives import read_numbers
from pyspark_savepoint.formats.serializers.basic.shapes import Flagged, MapEntries, Repeated
from pyspark_savepoint.formats.serializers.layout import Part, locate, skip_rows
from pyspark_savepoint.statebackends.rows.state_column import unit_serializers

if TYPE_CHECKING:
    from pyspark_savepoint.formats.keyed.changelog import Changes
    from pyspark_savepoint.formats.serializers.base import TypeSerializer

UNIT = "unit"
UNITS = SCHEMA.append(pa.field(UNIT, pa.int8()))
#: Bytes of the operation and state id before every change's data.
HEAD = 3
OPERATIONS = 8


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
        row_numbers = np.arange(len(self.rows)) if which is None else which
        spans = {part: (start[row_numbers], end[row_numbers]) for part, (start, end) in self.spans.items()}
        return Units(self.rows[row_numbers], unit, {**spans, **more}, flagged)


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
    key, value = (delimited(serializer, at, meta) for serializer in unit_serializers(meta))
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
    for block_id, here in ids.items():
        entries = block.entries_of(block_id)
        kind = states[here].state_type
        if block.form == HEAP and kind in ("LIST", "MAP") and len(entries):
            groups.append((here, _whole(block, entries, states[here])))
        else:
            plain.append(entries)
    batches = [assemble(block.buffer, groups, block.key_group)] if groups else []
    rows = np.concatenate(plain) if plain else np.empty(0, np.int64)
    entries_of_rows = take_entries(block, rows)
    table_ids = np.full(len(block.states) + 1, -1, np.int32)
    table_ids[list(ids)] = list(ids.values())
    columns = [
        pa.array(table_ids[block.state[rows]]),
        *entries_of_rows.columns[1:],
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
    origin = block.origin.of_state(meta.name)
    at = Cursors(block.buffer, block.value_start[entries].copy(), block.value_end[entries], origin)
    scope = Scope(entries, spans)
    if meta.state_type == "LIST":
        counts, start, end = elements(at, meta)
        return scope.units(kernels.ADD, np.repeat(np.arange(len(entries)), counts), value=(start, end))
    counts, user, value = map_entries(at, meta)
    return scope.units(kernels.PUT, np.repeat(np.arange(len(entries)), counts), user=user, value=value)


@dataclass(slots=True)
class UnitReader:
    """Converts changes to units.

    ``states`` are all states of the table by id; the ids of the log are read from its registrations. ``key_groups`` and
    ``selected`` are the key groups and states to read.
    """

    states: tuple[StateMetaInfoSnapshot, ...]
    key: TypeSerializer
    key_groups: frozenset[int]
    selected: frozenset[int]
    options: DecodeOptions
    ids: dict[int, int] = field(default_factory=dict)

    def units(self, changes: Changes) -> Iterator[pa.RecordBatch]:
        """Yield the selected units of some changes, in the order of the log."""
        registered = np.flatnonzero(changes.key_group == changelog.METADATA_GROUP).tolist()
        for before, behind in pairwise([-1, *registered, len(changes)]):
            if before >= 0:
                registration = changelog.registration(changes, before)
                self.ids[registration.state_id] = self._state_of(registration.meta)
            if behind > before + 1:
                part = slice(before + 1, behind)
                yield from self._between(
                    replace(
                        changes, key_group=changes.key_group[part], start=changes.start[part], end=changes.end[part]
                    )
                )

    def _state_of(self, meta: StateMetaInfoSnapshot) -> int:
        timer = meta.kind is BackendStateType.PRIORITY_QUEUE
        for i, state in enumerate(self.states):
            if state.name == meta.name and (state.kind is BackendStateType.PRIORITY_QUEUE) == timer:
                return i
        raise CorruptStateError(
            "a changelog does not match the format",
            state=meta.name,
            expected="the registrations of states before all changes",
            found="one after them",
            remedy=UNREADABLE,
        )

    def _between(self, changes: Changes) -> Iterator[pa.RecordBatch]:
        """Yield the units of the changes between two registrations."""
        wanted = np.flatnonzero(np.isin(changes.key_group, list(self.key_groups)))
        if not len(wanted):
            return
        start, end = changes.start[wanted], changes.end[wanted]
        number = (changes.buffer[start + 1].astype(np.int64) << 8) | changes.buffer[start + 2]
        table = np.full(1 << 16, -1, np.int64)
        table[list(self.ids)] = list(self.ids.values())
        state, operation = table[number], changes.buffer[start].astype(np.int64)
        self._check(changes, start, state, number, operation)
        chosen = np.isin(state, list(self.selected))
        groups: list[tuple[int, Units]] = []
        for pair in np.unique(state[chosen] * OPERATIONS + operation[chosen]).tolist():
            one, what = divmod(pair, OPERATIONS)
            rows = np.flatnonzero((state == one) & (operation == what))
            at = self._cursors(changes, one, start[rows] + HEAD, end[rows])
            groups += [(one, units) for units in self._decode(at, one, what, rows)]
        if groups:
            yield assemble(changes.buffer, groups, changes.key_group[wanted])

    def _check(self, changes: Changes, start: Longs, state: Longs, number: Longs, operation: Longs) -> None:
        wrong = np.flatnonzero((state < 0) | (operation >= OPERATIONS))
        if len(wrong):
            i = int(wrong[0])
            raise CorruptStateError(
                "a changelog does not match the format",
                expected=f"an operation from 0 to {OPERATIONS - 1} on a registered state",
                found=f"operation {int(operation[i])} on state {int(number[i])}",
                remedy=UNREADABLE,
                **changes.origin.facts(int(start[i])),
            )

    def _cursors(self, changes: Changes, state: int, start: Longs, end: Longs) -> Cursors:
        origin = replace(changes.origin, state=self.states[state].name)
        return Cursors(changes.buffer, start, end, origin, self.options)

    def _decode(self, at: Cursors, state: int, operation: int, rows: Longs) -> Iterator[Units]:
        """Yield the units of the changes of one state by one operation."""
        meta = self.states[state]
        if meta.kind is BackendStateType.PRIORITY_QUEUE:
            yield _timers(at, meta, operation, rows)
            return
        key_start = at.position.copy()
        self._skip_key(at, meta, operation)
        key_end = at.position.copy()
        skip_rows(meta.namespace_serializer, at)
        scope = {"key": (key_start, key_end), "namespace": (key_end, at.position.copy())}
        decode = {"LIST": _list, "MAP": _map}.get(meta.state_type, _single)
        yield from decode(at, meta, operation, Scope(rows, scope))

    def _skip_key(self, at: Cursors, meta: StateMetaInfoSnapshot, operation: int) -> None:
        if not self.key.opaque_parts():
            skip_rows(self.key, at)
            return
        if not skip_unknown_keys(at, _behind_keys(meta, operation)):
            raise UndecodableStateError(
                f"the changes of state {meta.name!r} cannot be separated from their keys, whose type is not known",
                found=self.key.flink_type,
                remedy="take a canonical savepoint of the job (flink savepoint --type canonical), or a checkpoint "
                "after the changelog was materialized; or read other states (option 'state')",
                **at.origin.facts(),
            )


def _behind_keys(meta: StateMetaInfoSnapshot, operation: int) -> list[Part]:
    """Return the parts that changes have behind their keys."""
    namespace, value = meta.namespace_serializer, meta.value_serializer
    kind = meta.state_type if meta.state_type in ("LIST", "MAP") else "VALUE"
    if operation == changelog.CLEAR:
        return [namespace]
    if operation == changelog.MERGE_NAMESPACES:
        return [namespace, namespace, Repeated(namespace)]
    if kind == "VALUE":
        return [namespace, value]
    units = unit_serializers(meta)
    if operation == changelog.REMOVE_ELEMENT:
        return [namespace, units[0]]
    if operation in (changelog.ADD_ELEMENT, changelog.ADD_OR_UPDATE_ELEMENT):
        return [namespace, *units]
    return [namespace, Repeated(units[0]) if kind == "LIST" else MapEntries(*units)]


def _refuse(at: Cursors, meta: StateMetaInfoSnapshot, operation: int) -> CorruptStateError:
    return CorruptStateError(
        "a changelog does not match the format",
        expected=f"an operation on a state of kind {meta.state_type}",
        found=f"operation {operation}",
        remedy=UNREADABLE,
        **at.origin.facts(int(at.position[0])),
    )


def _single(at: Cursors, meta: StateMetaInfoSnapshot, operation: int, scope: Scope) -> Iterator[Units]:
    from pyspark_savepoint.formats.kernels import changelog as kernels

    if operation in (changelog.SET, changelog.SET_INTERNAL):
        yield scope.units(kernels.PUT, value=(at.position, at.end))
    else:
        yield from _cleared_or_merged(at, meta, operation, scope)


def _list(at: Cursors, meta: StateMetaInfoSnapshot, operation: int, scope: Scope) -> Iterator[Units]:
    from pyspark_savepoint.formats.kernels import changelog as kernels

    if operation in (changelog.SET, changelog.SET_INTERNAL, changelog.ADD):
        if operation != changelog.ADD:
            yield scope.units(kernels.DELETE)
        counts, start, end = elements(at, meta)
        yield scope.units(kernels.ADD, np.repeat(np.arange(len(at)), counts), value=(start, end))
    elif operation == changelog.ADD_ELEMENT:
        yield scope.units(kernels.ADD, value=(at.position, at.end))
    else:
        yield from _cleared_or_merged(at, meta, operation, scope)


def _map(at: Cursors, meta: StateMetaInfoSnapshot, operation: int, scope: Scope) -> Iterator[Units]:
    from pyspark_savepoint.formats.kernels import changelog as kernels

    if operation == changelog.ADD:
        counts, user, value = map_entries(at, meta)
        yield scope.units(kernels.PUT, np.repeat(np.arange(len(at)), counts), user=user, value=value)
    elif operation in (changelog.ADD_ELEMENT, changelog.ADD_OR_UPDATE_ELEMENT, changelog.REMOVE_ELEMENT):
        start = at.position.copy()
        skip_rows(delimited(unit_serializers(meta)[0], at, meta), at)
        if operation == changelog.REMOVE_ELEMENT:
            at.expect_end()
            yield scope.units(kernels.DELETE, user=(start, at.position))
        else:
            user = (start, at.position)
            yield scope.units(kernels.PUT, user=user, value=(at.position - 1, at.end), flagged=True)
    elif operation == changelog.CLEAR:
        at.expect_end()
        yield scope.units(kernels.CLEAR)
    else:
        raise _refuse(at, meta, operation)


def _timers(at: Cursors, meta: StateMetaInfoSnapshot, operation: int, rows: Longs) -> Units:
    from pyspark_savepoint.formats.kernels import changelog as kernels

    if operation not in (changelog.ADD_ELEMENT, changelog.REMOVE_ELEMENT):
        raise _refuse(at, meta, operation)
    timer = meta.value_serializer
    if operation == changelog.REMOVE_ELEMENT:
        start = at.position.copy()
        if timer.opaque_parts():
            at.position[:] = at.end
        else:
            skip_rows(timer, at)
        at.expect_end()
        return Units(rows, kernels.DELETE, {"key": (start, at.position)})
    counts = read_counts(at, "timers")
    if timer.opaque_parts() and counts.max(initial=0) <= 1:
        one = np.flatnonzero(counts == 1)
        start = at.position[one]
        at.position[one] = at.end[one]
        at.expect_end()
        return Units(rows[one], kernels.PUT, {"key": (start, at.end[one])})
    timer = delimited(timer, at, meta)
    starts, stops = locate([timer], at, counts)
    at.expect_end()
    return Units(np.repeat(rows, counts), kernels.PUT, {"key": (starts[0], stops[0])})


def _cleared_or_merged(at: Cursors, meta: StateMetaInfoSnapshot, operation: int, scope: Scope) -> Iterator[Units]:
    """Yield the units of the operations that values and lists share: clear and merge."""
    from pyspark_savepoint.formats.kernels import changelog as kernels

    if operation == changelog.CLEAR:
        at.expect_end()
        yield scope.units(kernels.DELETE)
    elif operation == changelog.MERGE_NAMESPACES:
        yield from _merges(at, meta, scope)
    else:
        raise _refuse(at, meta, operation)


def _merges(at: Cursors, meta: StateMetaInfoSnapshot, scope: Scope) -> Iterator[Units]:
    """Yield the units of a merge: a target namespace and its sources, all of the same key."""
    from pyspark_savepoint.formats.kernels import changelog as kernels

    namespace = meta.namespace_serializer
    start = at.position.copy()
    skip_rows(namespace, at)
    yield scope.units(kernels.MERGE_TARGET, namespace=(start, at.position.copy()))
    counts = read_counts(at, "namespaces")
    starts, stops = locate([namespace], at, counts)
    at.expect_end()
    yield scope.units(kernels.MERGE_SOURCE, np.repeat(np.arange(len(at)), counts), namespace=(starts[0], stops[0]))
