"""Consent to a loss: rows that replace a state may drop keys only if the caller says so.

Keys are compared as bytes, before anything is written. The rows of the caller are read once more for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import chain
from operator import xor

import pyarrow as pa

from pyspark_savepoint.formats.errors import (
    CorruptStateError,
    OptionError,
    UndecodableStateError,
)
from pyspark_savepoint.plan.engine import Engine, ReadOptions, Rows, gathered
from pyspark_savepoint.plan.keyed_edits import MAP, all_rows, base_read, read_options, with_states, without_deleted
from pyspark_savepoint.plan.operator_plan import (
    KEYED,
    OPERATOR,
    EarlierCheck,
    OperatorPlan,
    PlanCheck,
    PlannedState,
    StateInput,
)
from pyspark_savepoint.statebackends.python.python_state import PREFIX, job_name_of
from pyspark_savepoint.statebackends.requests.request import BatchFunction
from pyspark_savepoint.statebackends.rows.descriptors import KeyedDescriptor
from pyspark_savepoint.statebackends.rows.entry_bytes import KEYED_ENTRIES, map_namespaces
from pyspark_savepoint.statebackends.sources.keyed_plan import is_namespaced
from pyspark_savepoint.statebackends.writing.entry_encoder import (
    DIGESTS,
    ORDERED_PLACES,
    PLACE,
    PLACES,
    DigestedPlaces,
    PlacedEntries,
    PlacedRows,
    Secrets,
    new_secrets,
)
from pyspark_savepoint.statebackends.writing.planning.describe_key import KEY
from pyspark_savepoint.statebackends.writing.planning.write_request import OPERATOR_STATE
from pyspark_savepoint.statebackends.writing.row_forms import DescribedRows
from pyspark_savepoint.text.texts import numbered

BROADCAST = "BROADCAST"
UPDATE = "update_state(...) changes the keys of the rows and keeps all others; "
#: How many places there are, and two hashes of all.
Digest = tuple[int, int, int]
COUNT = pa.schema([("count", pa.int64())])


@dataclass(frozen=True)
class Counted:
    """Function of batches: how many rows each has."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the number of rows of each batch."""
        for batch in batches:
            yield pa.RecordBatch.from_arrays([pa.array([len(batch)], pa.int64())], schema=COUNT)


@dataclass(frozen=True)
class Placed:
    """Rows, and the function that finds the places of their entries."""

    rows: Rows
    function: BatchFunction
    schema: pa.Schema

    def places(self) -> Rows:
        """Return the places."""
        return self.rows.mapped(self.function, self.schema).select(PLACE)

    def digests(self, secrets: Secrets) -> list[Digest]:
        """Return a digest of the places of each part."""
        return _collected(self.rows.mapped(DigestedPlaces(self.function, secrets), DIGESTS))


@dataclass(frozen=True)
class KeysStay:
    """Check that rows which replace a state have every key that the state has in the base."""

    engine: Engine
    #: The state as the base has it.
    old: PlannedState
    is_implied: bool = False

    def run(self, plan: OperatorPlan) -> None:
        """Raise OptionError if a key would lose the state because no row has it, and it is not removed either."""
        given = [
            one for one in plan.of_kind(KEYED, OPERATOR) if (one.kind, one.origin) == (self.old.kind, self.old.origin)
        ]
        if not given or given[0].from_input < 0:
            return
        gone, total = self._counts(plan, [plan.inputs[number] for number in given[0].inputs])
        if not gone:
            return
        name = job_name_of(self.old.name)
        raise OptionError(
            f"{gone:,} of {numbered(total, *self._unit)} of state {name!r} would go: no row has them",
            operator=plan.label,
            state=name,
            remedy=("" if self._has_elements else UPDATE) + "with_state(..., replace=True) drops them",
        )

    def _counts(self, plan: OperatorPlan, states: Sequence[StateInput]) -> tuple[int, int]:
        """Return how many keys, windows or elements would go, and how many there are, as far as any would go."""
        if self.old.kind == OPERATOR:
            return self._of_operator(plan, states)
        rows = [_placed(plan, one) for one in states]
        secrets = new_secrets()
        if self._digest(plan, secrets) == _together([one.digests(secrets) for one in rows]):
            return 0, 0
        places = self._placed(plan).places()
        count = self._count(places.without(all_rows([one.places() for one in rows]), PLACE))
        return count, self._count(places) if count else 0

    @property
    def _has_elements(self) -> bool:
        """Whether the state has elements without keys, of which the rows must have as many."""
        return self.old.kind == OPERATOR and self.old.meta.state_type != BROADCAST

    @property
    def _unit(self) -> tuple[str, ...]:
        if self._has_elements:
            return ("element",)
        if self.old.kind == KEYED and self.old.meta.state_type == MAP:
            return "entry", "entries"
        return ("window",) if self.old.kind == KEYED and is_namespaced(self.old.meta) else ("key",)

    def _of_operator(self, plan: OperatorPlan, states: Sequence[StateInput]) -> tuple[int, int]:
        """Return how many keys of broadcast state, or elements of another state, would go, and how many there are."""
        base = plan.base
        assert base is not None
        options = read_options(base)
        options |= {"path": base.path, "uidHash": base.operator.operator_id.hex, "timestamps": "raw"}
        read = self.engine.read(options | {"table": OPERATOR_STATE, "state": self.old.origin})
        try:
            if self._has_elements:
                before, now = self._count(read), sum(self._count(one.rows) for one in states)
                return max(before - now, 0), before
            tables = [gathered(self.engine, rows.select(KEY)) for rows in (read, *(one.rows for one in states))]
        except (CorruptStateError, UndecodableStateError) as error:
            error.facts["remedy"] = "with_state(..., replace=True) replaces the state without reading it"
            raise
        kind = tables[0].schema.field(KEY).type
        there, *keys = (set(map(repr, one.column(KEY).cast(kind).to_pylist())) for one in tables)
        return len(there.difference(*keys)), len(there)

    def _placed(self, plan: OperatorPlan) -> Placed:
        """Return the entries of the base, whose places are state, key and window."""
        entries = without_deleted(plan, self.engine.read(self._read(plan)), -1)
        return Placed(entries, self._places, KEYED_ENTRIES.append(PLACES.field(0)))

    def _digest(self, plan: OperatorPlan, secrets: Secrets) -> Digest:
        """Return the digest of the places of the base, which tasks make where they read it if no keys are removed."""
        if plan.deletions:
            return _together([self._placed(plan).digests(secrets)])
        function = DigestedPlaces(self._places, secrets), DIGESTS
        return _together([_collected(self.engine.read(self._read(plan, function)))])

    def _read(self, plan: OperatorPlan, function: tuple[BatchFunction, pa.Schema] | None = None) -> ReadOptions:
        """Return the read of the state's entries; their key groups do not matter."""
        read = base_read(plan, [self.old], with_keys=True)
        assert read.entries is not None
        return replace(read, entries=replace(read.entries, max_parallelism=None, function=function))

    @property
    def _places(self) -> PlacedEntries:
        return PlacedEntries(tuple(map_namespaces([self.old.meta]).items()))

    @staticmethod
    def _count(rows: Rows) -> int:
        return sum(row["count"] for row in rows.mapped(Counted(), COUNT).collected())


def _placed(plan: OperatorPlan, state: StateInput) -> Placed:
    """Return the rows of a state, which have places with a value or without."""
    assert isinstance(state.descriptor, KeyedDescriptor)
    rows = DescribedRows(state.descriptor, state.rows.schema, plan.max_parallelism, plan.label)
    return Placed(state.rows, PlacedRows(rows, (0,), 0), ORDERED_PLACES)


def _collected(digests: Rows) -> list[Digest]:
    return [(row["count"], row["first"], row["second"]) for row in digests.collected()]


def _together(tables: Sequence[Sequence[Digest]]) -> Digest:
    """Return the digest of all places: of the same places in another order, or in other parts, it is the same."""
    counts, first, second = zip((0, 0, 0), *chain.from_iterable(tables), strict=True)
    return sum(counts), reduce(xor, first), reduce(xor, second)


def with_consent(
    engine: Engine, before: OperatorPlan, after: OperatorPlan, states: Sequence[str], *, replace_all: bool
) -> OperatorPlan:
    """Return an operator whose states were replaced, with a check for each that may lose keys.

    Args:
        engine: What reads the keys.
        before: The operator before its states were replaced.
        after: The operator with the rows.
        states: The names of the states, as they were given.
        replace_all: The caller lets keys go that no row has.

    """
    replaced = _replaced(with_states(before), after, states)
    if not replace_all:
        return replace(after, checks=(*after.checks, *(KeysStay(engine, state) for state in replaced)))
    names = set(states)
    kept = [
        one
        for one in after.checks
        if not ((asked := _compared_state(one)) and {asked.name, job_name_of(asked.name)} & names)
    ]
    return replace(after, checks=tuple(kept))


def _compared_state(check: PlanCheck) -> PlannedState | None:
    """Return the state whose keys a check compares; None of another check."""
    inner = check.check if isinstance(check, EarlierCheck) else check
    return inner.old if isinstance(inner, KeysStay) else None


def _replaced(before: OperatorPlan, after: OperatorPlan, names: Sequence[str]) -> list[PlannedState]:
    """Return the states of the base that rows replace, found by name: an operator may have thousands."""
    registered = dict.fromkeys(one for name in names for one in (name, PREFIX + name))
    states = [state for name in registered for state in before.called(name) if state.name == name]
    return [
        state
        for state in states
        if state.kind in (KEYED, OPERATOR)
        and state.from_input < 0
        and any(one.kind in (KEYED, OPERATOR) and one.from_input >= 0 for one in after.called(state.name))
    ]
