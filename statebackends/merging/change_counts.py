"""Table of the numbers of differences between two snapshots, by operator, table and state.

A part is some key groups of an operator in both snapshots, or its operator state. Its rows are sums to add up over all
parts; the first part of every operator also has a row without table. An operator whose entries cannot be delimited
(values in the heap format that only user code can delimit) has a row with ``note``; other operators are not affected.
The driver reads only ``_metadata``: files are opened by the tasks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from pyspark_savepoint.formats.columns import Longs
from pyspark_savepoint.formats.errors import SavepointError, UndecodableStateError, UnsupportedStateError
from pyspark_savepoint.formats.io.byte_source import Read, opened_ahead
from pyspark_savepoint.formats.io.run_ahead import read_to_the_end, small_together
from pyspark_savepoint.formats.metadata import OperatorState
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.statebackends.merging.comparison import COUNTS, compare
from pyspark_savepoint.statebackends.merging.entry_chunk import (
    Chunks,
    Division,
    EntryChunk,
    Pair,
    nothing,
    paired_chunks,
    total,
)
from pyspark_savepoint.statebackends.merging.keyed_input import (
    LEAST_COMMON_COUNTED,
    KeyedInput,
    OpenInput,
    SharedInput,
    StateNumbers,
    divided,
    open_inputs,
    starts_of,
)
from pyspark_savepoint.statebackends.requests.request import TablePartition, TableRequest, choose_columns
from pyspark_savepoint.statebackends.sources.keyed_plan import meets
from pyspark_savepoint.statebackends.sources.keyed_sources import keyed_sources
from pyspark_savepoint.statebackends.sources.open_operator import OpenOperator
from pyspark_savepoint.statebackends.sources.raw_timers import raw_timer_sources
from pyspark_savepoint.statebackends.tables.operator_table import OperatorTable

Row = dict[str, Any]
TEXTS = ("operator_uid", "operator_uid_hash", "operator_name", "operator_change", "table", "state")
SCHEMA = pa.schema(
    [
        *(pa.field(name, pa.string()) for name in TEXTS),
        *(pa.field(name, pa.int64()) for name in COUNTS),
        pa.field("note", pa.string()),
    ]
)
#: Elements of operator state that are compared at once.
ROWS = 1 << 20
KEYED_STATE, OPERATOR_STATE, BROADCAST = "keyed_state", "operator_state", "BROADCAST"
#: Errors about types that only user code reads: what is noted; others, as of damaged files, are raised.
RECORDED_ERRORS = (UndecodableStateError, UnsupportedStateError)


@dataclass(frozen=True)
class ComparedSide:
    """One operator in one snapshot, or neither. ``savepoint`` knows no other operator."""

    savepoint: Snapshot
    operator: OperatorState | None
    request: TableRequest

    @property
    def max_parallelism(self) -> int | None:
        """Return the max parallelism if there can be keyed state or timers."""
        if self.operator is None:
            return None
        subtasks = self.operator.subtasks.values()
        keyed = any(
            subtask.managed_keyed_state is not None or subtask.raw_keyed_state is not None for subtask in subtasks
        )
        return self.operator.max_parallelism if keyed else None

    @property
    def state_bytes(self) -> int:
        """Return the bytes of the operator's state."""
        return self.operator.state_size if self.operator is not None else 0

    def keyed(self) -> KeyedInput | None:
        """Return the keyed state and timers; their files are looked up."""
        if self.operator is None or self.max_parallelism is None:
            return None
        sources = tuple(keyed_sources(self.savepoint, self.operator))
        raw = tuple(raw_timer_sources(self.savepoint, self.operator))
        numbers = self.operator.max_parallelism, self.operator.state_size
        return KeyedInput(sources, raw, *numbers, self.request, serial=False)

    @cached_property
    def opened(self) -> OpenOperator | None:
        """The operator, whose headers are read once for all of its states."""
        return None if self.operator is None else OpenOperator(self.savepoint, self.operator)

    def elements(self, opened: OpenOperator, state: str) -> Iterator[EntryChunk]:
        """Yield the elements of an operator state as keys, or the entries of a broadcast state."""
        # Few large chunks, which are not copied once more when they are put together.
        request = replace(self.request, raw=(state,), explicit_options={}, batch_rows=ROWS)
        for partition in OperatorTable(opened, request, state).partitions(1):
            for batch in partition.batches():
                yield EntryChunk.of_elements(batch.column(0), batch.column(1) if batch.num_columns > 1 else None)


Sides = tuple[ComparedSide, ComparedSide]
Inputs = Sequence[KeyedInput | None]
Opened = Sequence[OpenInput | None]


@dataclass(frozen=True)
class KeyedChanges:
    """Differences of the keyed state and timers of some key groups."""

    share: range
    division: Division

    def reads(self, sides: Sides) -> Iterator[Read]:
        """Yield what is read first of the files of both sides."""
        _, shared, others = self._inputs(sides)
        for keyed_input in shared:
            yield from keyed_input.reads()
        for one, owned in self.division.parts(others, self.share):
            yield from one.reads(owned)

    def rows(self, sides: Sides) -> Iterator[Row]:
        """Yield one row per state."""
        numbers, sums = StateNumbers(), _Sums()
        inputs, shared, others = self._inputs(sides)
        with (
            read_to_the_end(),
            opened_ahead(read for keyed_input in shared for read in keyed_input.reads()),
            self._open(others, numbers, self.share) as opened,
        ):
            apart = list[range]()
            for key_groups, database in divided(self.share, shared):
                if database is None:
                    apart.append(key_groups)
                else:
                    self._count_shared(database, key_groups, inputs, numbers, sums)
            # Timers in raw keyed state are in no database.
            has_raw = any(side is not None and side.raw for side in others)
            for key_groups in [self.share] if has_raw else apart:
                for pair in self._merged(opened, key_groups):
                    sums.add(compare(*pair, self.division.modulus, numbers.maps).counts)
        for number, counts in sums.counts.items():
            table, state = numbers.names[number]
            yield {"table": table, "state": state, **counts}

    def _inputs(self, sides: Sides) -> tuple[Inputs, list[SharedInput], Inputs]:
        """Return the inputs of both sides, their databases with common files, and the inputs without these."""
        inputs = [side.keyed() for side in sides]
        shared: list[SharedInput] = []
        if inputs[0] is not None and inputs[1] is not None:
            shared_inputs = SharedInput.among(inputs[0].sources, inputs[1].sources, least=LEAST_COMMON_COUNTED)
            shared = [
                keyed_input for keyed_input in shared_inputs if meets(keyed_input.after.key_group_range, self.share)
            ]
        common = {source for keyed_input in shared for source in (keyed_input.before, keyed_input.after)}
        others = [
            keyed_input and replace(keyed_input, sources=tuple(one for one in keyed_input.sources if one not in common))
            for keyed_input in inputs
        ]
        return inputs, shared, others

    @contextmanager
    def _open(self, inputs: Inputs, numbers: StateNumbers, share: range) -> Iterator[Opened]:
        """Return a block within which both sides are open in some key groups."""
        opened = [None if side is None else OpenInput(side, numbers) for side in inputs]
        with open_inputs(self.division.parts(opened, share)):
            yield opened

    def _merged(self, opened: Opened, share: range) -> Iterator[Pair]:
        """Yield all entries of some key groups of both sides."""
        inputs = [None if side is None else side.described for side in opened]
        before, after = (nothing if side is None else side.chunks for side in opened)
        sizes = total([self.division.sizes(i, side.sizes()) for i, side in enumerate(inputs) if side])
        memory = next(side.request.memory for side in inputs if side is not None)
        starts = starts_of(inputs)
        yield from paired_chunks((before, after), self.division, share, sizes, memory, serial=False, starts=starts)

    def _count_shared(
        self, shared: SharedInput, key_groups: range, inputs: Inputs, numbers: StateNumbers, sums: _Sums
    ) -> None:
        """Count what differs in databases with common files, and the entries of the newer one, whose files are read.

        The entries of the older one are those of the newer one without what was added, and with what was removed.
        """
        keyed_inputs = [keyed_input for keyed_input in inputs if keyed_input is not None]
        alone = [
            replace(keyed_input, sources=(one,), raw=())
            for keyed_input, one in zip(keyed_inputs, (shared.before, shared.after), strict=True)
        ]
        counted, merged = list[range](), list[range]()

        def of_all(window: range) -> Iterator[Pair]:
            merged.append(window)
            yield from ()

        mine, requests = _Sums(), [keyed_input.request for keyed_input in keyed_inputs]
        with open_inputs([(OpenInput(alone[1], numbers), key_groups)]) as (newer,):
            for pair in shared.pairs(key_groups, numbers, requests, of_all, counted.append, newer):
                mine.add(compare(*pair, self.division.modulus, numbers.maps).counts)
            for chunk in (chunk for window in counted for chunk in newer.chunks(set(window))):
                present, counts = np.unique(chunk.state, return_counts=True)
                for number, count in zip(present.tolist(), counts.tolist(), strict=True):
                    mine.entries[number] = mine.entries.get(number, 0) + count
        sums.add(mine.of_both())
        for window in merged:
            with self._open(alone, numbers, window) as opened:
                for pair in self._merged(opened, window):
                    sums.add(compare(*pair, self.division.modulus, numbers.maps).counts)


@dataclass(frozen=True)
class OperatorStateChanges:
    """Differences of the operator state of one operator."""

    @staticmethod
    def reads(sides: Sides) -> Iterator[Read]:
        """Yield what is read of the files of both sides."""
        for side in sides:
            for source in () if side.opened is None else side.opened.streams:
                yield from source.reads()

    def rows(self, sides: Sides) -> Iterator[Row]:
        """Yield one row per state; one that cannot be delimited has a note."""
        opened = [side.opened for side in sides]
        for state in dict.fromkeys(
            name for open_operator in opened if open_operator is not None for name in open_operator.operator_state_names
        ):
            about = {"table": OPERATOR_STATE, "state": state}
            try:
                counted = list(self._counted(sides, opened, state))
            except RECORDED_ERRORS as error:
                yield {**about, "note": str(error)}
                continue
            for counts in counted:
                yield {**about, **counts}

    @staticmethod
    def _counted(sides: Sides, opened: Sequence[OpenOperator | None], state: str) -> Iterator[dict[str, int]]:
        def reading(side: ComparedSide, operator: OpenOperator | None) -> Chunks:
            if operator is None or state not in operator.operator_states_by_name:
                return nothing
            return lambda _: side.elements(operator, state)

        reads = [reading(*pair) for pair in zip(sides, opened, strict=True)]
        division, sums = Division((1, 1)), _Sums()
        memory = sides[0].request.memory
        for pair in paired_chunks((reads[0], reads[1]), division, range(1), np.zeros(1, np.int64), memory, False):
            sums.add(compare(*pair, 1, ()).counts)
        yield from sums.counts.values()


class _Sums:
    """Numbers by state, added up."""

    def __init__(self) -> None:
        self.counts: dict[int, dict[str, int]] = {}
        #: All entries of the newer side, where those that were compared are only those that can differ.
        self.entries: dict[int, int] = {}

    def add(self, counts: Mapping[int, Any]) -> None:
        for number, values in counts.items():
            mine = self.counts.setdefault(number, dict.fromkeys(COUNTS, 0))
            for name, value in zip(COUNTS, values.tolist(), strict=True):
                mine[name] += value

    def of_both(self) -> dict[int, Longs]:
        """Return the numbers with those of all entries of both sides."""
        both = {}
        for number in {**self.counts, **self.entries}:
            _, _, added, removed, changed = self.counts.get(number, dict.fromkeys(COUNTS, 0)).values()
            after = self.entries.get(number, 0)
            both[number] = np.array([after - added + removed, after, added, removed, changed], np.int64)
        return both


@dataclass(frozen=True)
class ComparedOperator:
    """An operator in both snapshots, and the parts of it that one task compares."""

    sides: Sides
    parts: tuple[KeyedChanges | OperatorStateChanges, ...]
    first: bool

    @property
    def state_bytes(self) -> int:
        """Return the bytes of the operator's state on both sides."""
        return sum(side.state_bytes for side in self.sides)

    @property
    def has_elements(self) -> bool:
        """Return whether operator state is compared."""
        return any(isinstance(part, OperatorStateChanges) for part in self.parts)

    def reads(self) -> Iterator[Read]:
        """Yield what is read first of the files; errors are those of who opens them."""
        for part in self.parts:
            with suppress(SavepointError):
                yield from part.reads(self.sides)

    def rows(self) -> Iterator[Row]:
        """Yield the rows of all parts."""
        operator = self.sides[0].operator or self.sides[1].operator
        assert operator is not None
        change = {(True, False): "removed", (False, True): "added"}.get(
            (self.sides[0].operator is not None, self.sides[1].operator is not None)
        )
        identity = {
            "operator_uid": operator.uid,
            "operator_uid_hash": str(operator.operator_id),
            "operator_name": operator.name,
            "operator_change": change,
        }
        if self.first:
            yield identity
        for part in self.parts:
            try:
                rows = list(part.rows(self.sides))
            except RECORDED_ERRORS as error:
                rows = [{"table": KEYED_STATE, "note": str(error)}]
            for row in rows:
                yield {**identity, **row}


def _open_streams(operators: Sequence[ComparedOperator]) -> None:
    """Read the headers of operator state together, before all of it is; errors are those of who needs them."""
    sides = (side for operator in operators if operator.has_elements for side in operator.sides)
    opened = [side.opened for side in sides if side.opened is not None]

    def reads() -> Iterator[Read]:
        for operator in opened:
            with suppress(SavepointError):
                for stream in operator.streams:
                    yield from stream.header_reads()

    with opened_ahead(reads()):
        for operator in opened:
            with suppress(SavepointError):
                _ = operator.stream_headers


@dataclass(frozen=True)
class ChangeCounts:
    """Numbers of differences of all operators of two snapshots, given by requests for them."""

    requests: tuple[TableRequest, TableRequest]
    schema: pa.Schema = SCHEMA
    warnings: tuple[str, ...] = ()
    max_parallelism: int | None = None

    @cached_property
    def _sides(self) -> list[Sides]:
        opened = [
            Snapshot.open(
                request.path, allow_outside=request.allow_outside, checksums=request.checksums, classes=request.classes
            )
            for request in self.requests
        ]
        requests = [
            request.of_version(savepoint.metadata.version)
            for request, savepoint in zip(self.requests, opened, strict=True)
        ]
        operators = [{operator.operator_id: operator for operator in savepoint.operators} for savepoint in opened]
        bare = [
            replace(snapshot, metadata=replace(snapshot.metadata, operators=(), master_states=()))
            for snapshot in opened
        ]
        return [
            (
                ComparedSide(bare[0], operators[0].get(number), requests[0]),
                ComparedSide(bare[1], operators[1].get(number), requests[1]),
            )
            for number in {**operators[0], **operators[1]}
        ]

    @property
    def state_bytes(self) -> int:
        """Return the bytes of both snapshots' state."""
        return sum(side.state_bytes for sides in self._sides for side in sides)

    def select(self, columns: Sequence[str]) -> ChangeCounts:
        """Return this table restricted to some columns."""
        return replace(self, schema=choose_columns(self.schema, columns))

    def partitions(self, parallelism: int | None) -> list[TablePartition]:
        """Return partitions of about the same size; operators with little state share one."""
        operators = self._sides
        everything = sum(side.state_bytes for sides in operators for side in sides)
        share = max(1, everything // max(1, parallelism or 1))
        bundles: list[TablePartition] = []
        waiting: list[ComparedOperator] = []
        size = 0
        for sides in operators:
            own = sum(side.state_bytes for side in sides)
            parts = list(_parts(sides, -(-max(1, own) // share)))
            for number, part in enumerate(parts):
                if waiting and size + own // len(parts) > share:
                    bundles.append(ChangeCountsPartition(tuple(waiting), self.schema))
                    waiting, size = [], 0
                waiting.append(ComparedOperator(sides, part, number == 0))
                size += own // len(parts)
        return [*bundles, ChangeCountsPartition(tuple(waiting), self.schema)] if waiting else bundles


def _parts(sides: Sides, count: int) -> Iterator[tuple[KeyedChanges | OperatorStateChanges, ...]]:
    """Yield the parts of an operator in ``count`` portions; operator state belongs to the first."""
    rest: tuple[OperatorStateChanges, ...] = ()
    if any(
        subtask.managed_operator_state is not None
        for side in sides
        if side.operator is not None
        for subtask in side.operator.subtasks.values()
    ):
        rest = (OperatorStateChanges(),)
    division = Division((sides[0].max_parallelism, sides[1].max_parallelism))
    if division.max_parallelisms == (None, None):
        yield rest
        return
    for number, share in enumerate(division.shares(count)):
        yield (KeyedChanges(share, division), *(rest if number == 0 else ()))


@dataclass(frozen=True)
class ChangeCountsPartition:
    """Some operators, or key groups of one."""

    operators: tuple[ComparedOperator, ...]
    schema: pa.Schema

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows of all operators."""
        rows: list[Row] = []
        for operators in small_together(self.operators, lambda operator: operator.state_bytes):
            several = operators if len(operators) > 1 else ()
            _open_streams(several)
            with opened_ahead(read for operator in several for read in operator.reads()):
                rows += [row for operator in operators for row in operator.rows()]
        columns = [pa.array([row.get(field.name) for row in rows], field.type) for field in self.schema]
        yield pa.RecordBatch.from_arrays(columns, schema=self.schema)
