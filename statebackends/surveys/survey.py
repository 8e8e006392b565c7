"""Tables that analyse the state of one operator or of all: sizes, heaviest keys, ages, verification.

A table consists of parts (some key groups of an operator, or its other state) that are read in parallel; the rows of a
part do not depend on the number of parts. The parts of an operator that one task reads as a whole are planned there. If
the request names no operator, an operator that cannot be read does not hide the others: its parts have a row with a
``note`` instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Protocol, runtime_checkable

import pyarrow as pa

from pyspark_savepoint.formats.columns import Longs
from pyspark_savepoint.formats.errors import SavepointError, StateNotFoundError, did_you_mean
from pyspark_savepoint.formats.io.byte_source import FileLocation, Read, VerifiedBlocks, opened_ahead
from pyspark_savepoint.formats.io.snapshot_files import WHOLE
from pyspark_savepoint.formats.metadata import OperatorState
from pyspark_savepoint.formats.metadata.identifiers import OperatorID
from pyspark_savepoint.formats.metadata.key_groups import UPPER_BOUND_MAX_PARALLELISM as MAX_PARALLELISM
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.statebackends.python.python_state import names
from pyspark_savepoint.statebackends.requests.request import (
    TablePartition,
    TableRequest,
    choose_columns,
    choose_states,
)
from pyspark_savepoint.statebackends.sources.open_operator import OpenOperator, headers_ahead

Row = dict[str, Any]
IDENTITY = ("operator_uid", "operator_uid_hash", "operator_name")
NOTE = "note"
#: Columns of every table that identify the state of a row.
STATE_FIELDS = [pa.field(name, pa.string()) for name in (*IDENTITY, "table", "state")]


@dataclass(frozen=True, slots=True)
class Surveyed:
    """Operator of a part."""

    uid: str | None
    uid_hash: str
    name: str | None
    label: str
    parallelism: int
    max_parallelism: int

    @classmethod
    def of(cls, operator: OperatorState) -> Surveyed:
        """Return the facts about an operator that parts need."""
        numbers = operator.parallelism, operator.max_parallelism
        return cls(operator.uid, str(operator.operator_id), operator.name, operator.label, *numbers)

    def row(self, **values: Any) -> Row:
        """Return a row of the operator."""
        return dict(zip(IDENTITY, (self.uid, self.uid_hash, self.name), strict=True)) | values

    def subtask(self, key_group: int) -> int:
        """Return the subtask that owns a key group at the snapshot's own parallelism."""
        return key_group * self.parallelism // self.max_parallelism


@dataclass(frozen=True, slots=True)
class ManyRows:
    """Rows that have the same values, but for some columns."""

    same: Row
    columns: Mapping[str, Longs]

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))


class SurveyPart(Protocol):
    """Unit of reading: frozen, picklable, without open files."""

    def rows(self, request: TableRequest) -> Iterator[Row | ManyRows]:
        """Yield rows of the table; missing values are NULL."""


@runtime_checkable
class ReadingPart(Protocol):
    """Unit of reading that says beforehand what it reads, so that a store begins to answer."""

    def reads(self) -> Iterator[Read]:
        """Yield what is read, in about this order."""


@dataclass(frozen=True, slots=True)
class Refused:
    """Operator whose state cannot be read."""

    operator: Surveyed
    why: str

    def rows(self, request: TableRequest) -> Iterator[Row]:
        """Yield one row with the reason."""
        yield self.operator.row(note=self.why)


#: Tables whose parts are planned by the headers of an operator.
BY_HEADERS = ("verification", "ttl_ages")
#: Tables that have rows of keyed state alone.
OF_KEYS = ("heaviest_keys", "ttl_ages")
PlannedPart = tuple[Surveyed, SurveyPart]
#: Function that returns the parts of an operator; ``count`` is the number of parts for its key groups.
Plan = Callable[[Snapshot, OperatorState, TableRequest, int], Sequence[PlannedPart]]


@dataclass(frozen=True)
class SurveyTable:
    """Table with one row per finding."""

    savepoint: Snapshot
    operators: tuple[OperatorState, ...]
    request: TableRequest
    plan: Plan
    schema: pa.Schema
    warnings: tuple[str, ...] = ()
    max_parallelism: int | None = None

    @classmethod
    def of(cls, request: TableRequest, plan: Plan, schema: pa.Schema) -> SurveyTable:
        """Build the table for the operator that the request names, or for all; errors name the existing ones."""
        savepoint = opened(request)
        request = request.of_version(savepoint.metadata.version)
        operators = savepoint.operators
        if names_one_operator(request):
            names = {"uid": request.uid, "uid_hash": request.uid_hash, "name": request.operator_name}
            operators = (savepoint.operator(**names),)
        request.check_key_groups(max((operator.max_parallelism for operator in operators), default=MAX_PARALLELISM))
        _expect_states(savepoint, operators, request)
        return cls(savepoint, operators, request, plan, schema, _without_rows(request, operators))

    @property
    def state_bytes(self) -> int:
        """Return the bytes of the operators' state."""
        return sum(operator.state_size for operator in self.operators)

    def select(self, columns: Sequence[str]) -> SurveyTable:
        """Return this table restricted to some columns."""
        return replace(self, schema=choose_columns(self.schema, columns))

    def partitions(self, parallelism: int | None) -> list[TablePartition]:
        """Return partitions of about the same size; operators with little state share one."""
        share = max(1, self.state_bytes // max(1, parallelism or 1))
        bundles: list[TablePartition] = []
        waiting: list[OperatorID | PlannedPart] = []
        size = 0
        for operator in self.operators:
            state_size = operator.state_size
            count = min(operator.max_parallelism, -(-max(1, state_size) // share))
            # To plan and pickle the parts of an operator takes as long as to read small state.
            whole = count == 1 and not names_one_operator(self.request)
            parts = (
                [operator.operator_id] if whole else parts_of(self.plan, self.savepoint, operator, self.request, count)
            )
            for part in parts:
                if waiting and size + state_size // len(parts) > share:
                    bundles.append(self._bundle(waiting))
                    waiting, size = [], 0
                waiting.append(part)
                size += state_size // len(parts)
        return [*bundles, self._bundle(waiting)] if waiting else bundles

    def _bundle(self, parts: Sequence[OperatorID | PlannedPart]) -> TablePartition:
        return SurveyPartition(tuple(parts), self.schema, self.request, self.plan, self.savepoint.digest)


def _expect_states(savepoint: Snapshot, operators: Sequence[OperatorState], request: TableRequest) -> None:
    """Raise StateNotFoundError if no operator has a state that the request names."""
    if request.states is None:
        return
    existing: dict[str, None] = {}
    for operator in operators:
        opened_operator = OpenOperator(savepoint, operator)
        try:
            metas = [*chain.from_iterable(opened_operator.keyed.metas().values()), *opened_operator.operator_states]
        except SavepointError:
            return  # it may have them; its rows say why it cannot be read
        existing.update(dict.fromkeys(chain.from_iterable(map(names, metas))))
    if names_one_operator(request):
        choose_states(list(existing), request.states, "state", operators[0].label)
    for name in request.states:
        if name not in existing:
            raise StateNotFoundError(
                f"no operator has a state {name!r}",
                path=request.path,
                remedy=f"{did_you_mean(name, existing)} (the path without options lists all states)",
            )


def _without_rows(request: TableRequest, operators: Sequence[OperatorState]) -> tuple[str, ...]:
    """Return a warning if there is nothing of which a table has rows: no state, or no keys."""
    who = f"operator {operators[0].label}" if names_one_operator(request) else "the snapshot"
    subtasks = [subtask for operator in operators for subtask in operator.subtasks.values()]
    if request.table in OF_KEYS and not any(subtask.managed_keyed_state for subtask in subtasks):
        return (f"{who} has no keyed state, so no rows are shown: they are about keys",)
    stateless = not any(True for subtask in subtasks for _ in subtask.handles)
    if request.table == "sizes" and stateless and not any(operator.coordinator_state for operator in operators):
        return (f"{who} has no state, so no rows are shown",)
    return ()


def parts_of(
    plan: Plan, savepoint: Snapshot, operator: OperatorState, request: TableRequest, count: int
) -> Sequence[PlannedPart]:
    """Return the parts of an operator; if it cannot be read and is one of many, a part with the reason."""
    try:
        return plan(savepoint, operator, request, count)
    except SavepointError as error:
        if names_one_operator(request):
            raise
        surveyed = Surveyed.of(operator)
        return [(surveyed, Refused(surveyed, str(error)))]


def opened(request: TableRequest) -> Snapshot:
    """Open the snapshot of a request."""
    return Snapshot.open(
        request.path, allow_outside=request.allow_outside, checksums=request.checksums, classes=request.classes
    )


def names_one_operator(request: TableRequest) -> bool:
    """Return whether the request names one operator."""
    return any(name is not None for name in (request.uid, request.uid_hash, request.operator_name))


@dataclass(frozen=True)
class SurveyPartition:
    """Some parts, read one after another, and operators whose parts are planned when they are read."""

    parts: tuple[OperatorID | PlannedPart, ...]
    schema: pa.Schema
    request: TableRequest
    plan: Plan
    digest: bytes

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows of all parts."""
        rows, verified = _Rows(self.schema), VerifiedBlocks()
        planned = list(self._planned())
        with opened_ahead(_reads(part for _, part in planned)):
            for operator, part in planned:
                # A part that fails has only the row with its note: the rows before the error would be incomplete.
                with verified.noted():
                    found = self._rows(operator, part)
                rows.add(found)
                while rows.count >= self.request.batch_rows:
                    yield rows.batch(self.request.batch_rows)
        if rows.count:
            yield rows.batch(rows.count)

    def _planned(self) -> Iterator[PlannedPart]:
        whole = {part for part in self.parts if isinstance(part, OperatorID)}
        operators: dict[OperatorID, OperatorState] = {}
        if whole:
            savepoint = opened(self.request)
            savepoint.expect_version(self.digest)
            operators = {operator.operator_id: operator for operator in savepoint.operators}
        with ExitStack() as stack:
            if whole and self.request.table in BY_HEADERS:
                mine = (operator for operator in operators.values() if operator.operator_id in whole)
                stack.enter_context(headers_ahead(savepoint, mine))
            for part in self.parts:
                if isinstance(part, OperatorID):
                    yield from parts_of(self.plan, savepoint, operators[part], self.request, 1)
                else:
                    yield part

    def _rows(self, operator: Surveyed, part: SurveyPart) -> list[Row | ManyRows]:
        try:
            return list(part.rows(self.request))
        except SavepointError as error:
            if names_one_operator(self.request):
                raise
            return [operator.row(note=str(error))]


def _reads(parts: Iterable[SurveyPart]) -> Iterator[Read]:
    """Yield what the parts read; a file that has checksums once, since it is verified when it is read whole."""
    checked = set[object]()
    for part in parts:
        for location, opening in part.reads() if isinstance(part, ReadingPart) else ():
            if isinstance(location, FileLocation) and location.checksums is not None and opening == WHOLE:
                if location.identity in checked:
                    continue
                checked.add(location.identity)
            yield location, opening


class _Rows:
    """Rows that are not yielded yet, by column."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self.columns: dict[str, list[Any]] = {field.name: [] for field in schema}
        self.count = 0

    def add(self, rows: Iterable[Row | ManyRows]) -> None:
        """Add rows; values of other columns than the table's are left out."""
        for row in rows:
            if isinstance(row, ManyRows):
                for name, values in self.columns.items():
                    several = row.columns.get(name)
                    values += [row.same.get(name)] * len(row) if several is None else several.tolist()
                self.count += len(row)
            else:
                for name, values in self.columns.items():
                    values.append(row.get(name))
                self.count += 1

    def batch(self, count: int) -> pa.RecordBatch:
        """Return the first rows, and forget them."""
        arrays = [pa.array(self.columns[field.name][:count], field.type) for field in self.schema]
        for values in self.columns.values():
            del values[:count]
        self.count -= count
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)
