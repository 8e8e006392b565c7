"""Scan of the values that Kryo wrote: all are rewritten, and the results dropped, to find obstacles and losses.

Some values of each state are also read as the new release reads the unchanged bytes, to find what Flink would do.
A scan has pieces, which run in any process: key groups of an operator, or operator state of a subtask.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Any, Generic, Self, TypeVar

import numpy as np

from pyspark_savepoint.formats.errors import SavepointError, UndecodableStateError, UnsupportedStateError
from pyspark_savepoint.formats.serializers.kryo.classes.kryo_streams import ForeignError
from pyspark_savepoint.statebackends.merging.entry_chunk import EntryChunk, together
from pyspark_savepoint.statebackends.merging.keyed_input import KeyedInput, OpenInput, StateNumbers, open_inputs
from pyspark_savepoint.statebackends.migration.findings import Blocker, Findings, StateFindings
from pyspark_savepoint.statebackends.migration.migration_plan import OF_JAVA, OperatorMigration, StatePlan
from pyspark_savepoint.statebackends.migration.operator_elements import elements_in
from pyspark_savepoint.statebackends.migration.rewriting.chunk_rewriter import flagged_rows, subclass_flags
from pyspark_savepoint.statebackends.migration.rewriting.compiled_programs import CLASSES, CompiledProgram
from pyspark_savepoint.statebackends.migration.rewriting.kryo_values import (
    AmbiguousFormError,
    KryoStatePart,
    OwnSerializerError,
    PartError,
    UnreadableError,
)
from pyspark_savepoint.statebackends.migration.rewriting.misreading import CALLS
from pyspark_savepoint.statebackends.migration.rewriting.object_writer import LISTS, MAPS
from pyspark_savepoint.statebackends.migration.rewriting.state_programs import (
    KEY,
    NAMESPACE,
    VALUE,
    ElementProgram,
    EntryProgram,
    Misread,
    RoleProgram,
)
from pyspark_savepoint.statebackends.migration.rewriting.value_program import UnknownSubclassError
from pyspark_savepoint.statebackends.migration.rewriting.verdicts import (
    Loss,
    MigrationVerdict,
    Outcome,
    StateRef,
)
from pyspark_savepoint.statebackends.requests.request import TableRequest
from pyspark_savepoint.statebackends.sources.open_operator import headers_ahead
from pyspark_savepoint.statebackends.writing.planning.edited_header import StateId

T = TypeVar("T")
P = TypeVar("P", EntryProgram, ElementProgram)
#: Reads an entry; returns what it read, and whether it is unknown whether Flink reads it, or fails.
ReadWithDoubt = Callable[[], tuple[object, bool]]
#: Values of a state that are read as the new release reads them.
SAMPLE = 20_000
MIN_SAMPLE = 1000
#: State of one piece, in bytes.
PIECE = 32 << 20
#: Bytes of key groups that are read together.
TOGETHER = 4 << 20
#: In the names of classes that Java makes for lambdas.
LAMBDA = "$$Lambda"
UNREGISTER = "register none in the new job, or leave the state out (drop), or as it is (as_is)"
LEAVE_OUT = "leave the state out (drop), or as it is (as_is)"
CLASS_FILES = "name the job's jar or class files (classes), or leave the state out (drop)"
ENDS = "name the job's jar or class files (classes), or take a canonical savepoint, which has lengths, and migrate that"
FLINK_CLASS_FILES = (
    "name flink-dist.jar of the release that wrote it, which has the class (classes), or leave the state out (drop)"
)
#: Collections that may lose something (a HashSet does in a list), as Kryo writes their names.
LOSING = {
    name: name[:-1].encode() + bytes([ord(name[-1]) | 0x80])
    for name in CLASSES
    if name not in LISTS | MAPS
}  # fmt: skip
#: Values that wait until others show in which form they are.
MAX_WAITING = 1000
#: Values that are read one by one because they hold the name of one such collection.
MAX_LOOKED_AT = 1000


@dataclass(frozen=True)
class ScanUnit:
    """A part of an operator, by the operator's number: key groups, or the operator state of one of its streams."""

    operator: int
    keyed: bool
    first: int
    last: int
    #: Values of each state that are also read as the new release reads them.
    sample: int = SAMPLE


@dataclass(frozen=True)
class Scan:
    """Extent of a scan: ``limit`` values of each state, None: all."""

    limit: int | None = None

    def pieces(self, plans: Sequence[OperatorMigration]) -> list[ScanUnit]:
        """Return the pieces of all states that must be read."""
        pieces: list[ScanUnit] = []
        with _headers_of(plans):
            for number, plan in enumerate(plans):
                if scanned_states(plan):
                    limit = plan.operator.max_parallelism
                    count = 1 if self.limit is not None else max(1, min(limit, plan.operator.state_size // PIECE))
                    bounds = [limit * part // count for part in range(count + 1)]
                    sample = max(MIN_SAMPLE, SAMPLE // count)
                    spans = pairwise(bounds)
                    pieces += [ScanUnit(number, True, first, after - 1, sample) for first, after in spans]
                if any(_is_scanned(plan, state_plan) for state_plan in plan.operator_plans):
                    pieces += [ScanUnit(number, False, index, index) for index in range(len(plan.opened.streams))]
        return pieces

    def run(self, plans: Sequence[OperatorMigration], piece: ScanUnit) -> Findings:
        """Return the findings in a piece."""
        plan = plans[piece.operator]
        findings = (_scan_keyed if piece.keyed else _scan_operator_state)(plan, piece, self.limit)
        for state in findings.values():
            state.synthetic = plan.change.synthetic.proven if plan.change is not None else None
        return findings


def _headers_of(plans: Sequence[OperatorMigration]) -> AbstractContextManager[None]:
    """Return a block within which the headers of all operators are opened in the background."""
    if not plans:
        return nullcontext()
    return headers_ahead(plans[0].opened.savepoint, (plan.operator for plan in plans))


def _readings(plan: StatePlan) -> list[Misread | None]:
    """Return how values of a state are read: rightly, with and without a look at them, and without a migration.

    Without: as the job does, and as the hashmap backend does before.
    """
    return [None, None, Misread.KEPT, *[Misread.ALL] * plan.is_refused]


def state_name(state: StateId) -> str:
    """Return the name of a keyed state or queue of timers in findings."""
    name, timers = state
    return f"{'timers' if timers else 'keyed'} {name}"


def operator_state_name(position: int) -> str:
    """Return the name of an operator state in findings, by its place among the plans."""
    return f"operator state {position}"


#: The name of the key in findings.
KEY_NAME = "key"


def hidden_parts(operator: OperatorMigration, findings: Mapping[str, StateFindings]) -> frozenset[tuple[StateRef, str]]:
    """Return the states and roles with values of subclasses that snapshots do not list, in which parts change."""
    named = [(state_name(state), plan.ref) for state, plan in operator.keyed_plans.items()]
    named += [(operator_state_name(index), plan.ref) for index, plan in enumerate(operator.operator_plans)]
    named.append((KEY_NAME, operator.key_ref))
    return frozenset(
        (ref, role)
        for name, ref in named
        for (role, _), part in findings.get(name, StateFindings()).parts.items()
        if part.types is not None and part.changed
    )


def _hides_parts(operator: OperatorMigration, plan: StatePlan) -> bool:
    """Return whether values are looked at only for subclasses of POJOs that snapshots do not list."""
    return operator.change is not None and plan.may_hide_parts


def _is_scanned(operator: OperatorMigration, plan: StatePlan) -> bool:
    return (plan.has_values or _hides_parts(operator, plan)) and not plan.is_hindered


def scanned_states(operator: OperatorMigration) -> dict[StateId, StatePlan]:
    """Return the keyed states and timers whose values must be looked at, and can be."""
    key = operator.key
    if operator.keyed is None or key is None or any(part.obstacle for part in key.parts):
        return {}
    by_key = any(part.has_values for part in key.parts) or (operator.change is not None and key.has_pojos)
    return {
        state: plan
        for state, plan in operator.keyed_plans.items()
        if _is_scanned(operator, plan) or (by_key and not plan.is_hindered)
    }


def _input(operator: OperatorMigration) -> KeyedInput:
    opened = operator.described
    savepoint, metadata = opened.savepoint, opened.operator
    request = TableRequest(savepoint.path).of_version(savepoint.metadata.version)
    sources, timers = tuple(opened.keyed.sources), opened.raw_timers if operator.unread_timers is None else ()
    return KeyedInput(sources, timers, metadata.max_parallelism, metadata.state_size, request, serial=False)


def entries_of(operator: OperatorMigration, state: StateId) -> Iterator[tuple[bytes, bytes]]:
    """Yield the composite keys and values of one state, key group by key group."""
    key_groups = range(operator.operator.max_parallelism)
    with open_inputs([(OpenInput(_input(operator), StateNumbers([state])), key_groups)]) as (opened,):
        for group in key_groups:
            for chunk in opened.chunks({group}):
                yield from _entries(chunk)


def _entries(chunk: EntryChunk) -> Iterator[tuple[bytes, bytes]]:
    if not len(chunk):
        return
    keys, values = chunk.keys.tobytes(), chunk.values.tobytes()
    spans = np.stack([chunk.key_start, chunk.key_end, chunk.value_start, chunk.value_end], 1).tolist()
    for low, high, start, end in spans:
        yield keys[low:high], values[start:end]


def _scan_keyed(operator: OperatorMigration, piece: ScanUnit, limit: int | None) -> Findings:
    states = scanned_states(operator)
    by_key = operator.key is not None and any(part.has_values for part in operator.key.parts)
    findings: Findings = {KEY_NAME: StateFindings()}
    scans: list[_KeyedScan | None] = []
    for state, plan in states.items():
        state_findings = findings[state_name(state)] = StateFindings()
        values = _Values(state_findings, piece.sample, limit)
        hidden = _hidden_in_entries(operator, plan, state_findings, findings[KEY_NAME], piece.sample)
        if not (plan.has_values or by_key):
            scans.append(_KeyedScan(values, hidden, findings[KEY_NAME]))
            continue
        made = values.made(lambda: [operator.entry_program(plan, misread=each) for each in _readings(plan)])  # noqa: B023
        scans.append(_KeyedScan(values, hidden, findings[KEY_NAME], *made) if made is not None else None)
    described = _input(operator)
    moved = operator.moved_key_groups(list(states)) if operator.moves_keys else None
    of_keys = _Values(findings[KEY_NAME], piece.sample, limit)
    try:
        key_groups = range(piece.first, piece.last + 1)
        with open_inputs([(OpenInput(described, StateNumbers(list(states))), key_groups)]) as (opened,):
            for some in together(key_groups, described.sizes(), TOGETHER):
                if all(each is None or each.values.is_done for each in scans):
                    break
                for chunk in opened.chunks(set(some)):
                    if moved is not None:
                        of_keys.made(lambda: moved.of(chunk))  # noqa: B023
                    for number, each in enumerate(scans):
                        rows = np.flatnonzero(chunk.state == number)
                        if each is not None and len(rows):
                            each.entries(chunk.take(rows) if len(rows) < len(chunk) else chunk)
    except UndecodableStateError as error:
        for name, state_findings in findings.items():
            if name != KEY_NAME or by_key:
                state_findings.whole.add_blocker(_endless(error))
    for each in scans:
        if each is not None:
            each.finish()
    return findings


def _scan_operator_state(operator: OperatorMigration, piece: ScanUnit, limit: int | None) -> Findings:
    findings: Findings = {}
    source, header = operator.opened.streams[piece.first], operator.opened.stream_headers[piece.first]
    for index, plan in enumerate(operator.operator_plans):
        if not _is_scanned(operator, plan) or plan.meta not in header.states:
            continue
        state_findings = findings[operator_state_name(index)] = StateFindings()
        hidden = _hidden_in_elements(operator, plan, state_findings, piece.sample)
        if hidden is not None:
            for data, count in elements_in(source, header, plan.meta.name):
                if len(subclass_flags(np.frombuffer(data, np.uint8))):
                    hidden.values.one(data, hidden.programs, partial(_joined, data=data, count=count), count)
            hidden.finish()
            continue
        if not plan.has_values:
            continue
        values = _Values(state_findings, piece.sample, limit)
        make = partial(operator.element_program, plan)
        made = values.made(lambda: [make(misread=reading) for reading in _readings(plan)])  # noqa: B023
        if made is None:
            continue
        values.collect(made[0].roles, state_findings)
        for data, count in elements_in(source, header, plan.meta.name):
            if values.is_done:
                break
            values.one(data, made, partial(_joined, data=data, count=count), count)
        values.finish()
    return findings


@dataclass
class _HiddenParts(Generic[P]):
    """Search for unlisted subclasses of POJOs in values that have nothing else to rewrite.

    A subclass that is not known, or has parts that cannot be rewritten, is a blocker.
    """

    #: Rewrites the values, and reads them without a migration.
    programs: tuple[P, P, P]
    values: _Values
    #: The same of composite keys: Flink's result is told of the key, too.
    keys: _Values

    @classmethod
    def of(cls, make: Callable[[Misread | None], P], findings: StateFindings, key: StateFindings, sample: int) -> Self:
        """Return the search; ``make`` makes programs, ``key`` is told of keys."""
        program, misread = make(None), make(Misread.KEPT)
        values = _Values(findings, sample, None)
        values.collect(program.roles, findings)
        key_role = getattr(program, "key_role", None)
        if key_role is not None:
            values.collect({KEY: key_role}, key)
        of_key = key if key_role is not None and key_role.target.has_pojos else findings
        keys = _Values(of_key, sample, None, roles=values.roles, others=[findings])
        return cls((program, program, misread), values, keys)

    @property
    def program(self) -> P:
        """The program that rewrites."""
        return self.programs[0]

    def finish(self) -> None:
        """Look at the values that wait, and add what the parts have counted."""
        self.keys.settle()
        self.values.finish()


def _hidden_in_elements(
    operator: OperatorMigration, plan: StatePlan, findings: StateFindings, sample: int
) -> _HiddenParts[ElementProgram] | None:
    """Return the search in operator state; None if there are no such subclasses, or values are opaque."""
    if not _hides_parts(operator, plan):
        return None
    with suppress(SavepointError):
        return _HiddenParts.of(lambda each: operator.element_program(plan, misread=each), findings, findings, sample)
    return None


def _hidden_in_entries(
    operator: OperatorMigration, plan: StatePlan, findings: StateFindings, key: StateFindings, sample: int
) -> _HiddenParts[EntryProgram] | None:
    """Return the search in keyed state, which tells ``key`` of keys; None if there are no such subclasses."""
    if operator.change is None:
        return None
    try:
        hidden = _HiddenParts.of(
            lambda each: operator.entry_program(plan, misread=each, walks=(KEY, NAMESPACE, VALUE)),
            findings,
            key,
            sample,
        )
    except SavepointError:
        return None
    return hidden if hidden.program.hides_in_keys or hidden.program.hides_in_values else None


def _endless(error: UndecodableStateError) -> Blocker:
    """Return why no state of an operator is rewritten: in a file without lengths, nobody tells where values end."""
    where = f"state {error.facts['state']!r}" if "state" in error.facts else "a state"
    reason = f"where the operator's entries end is not known: {where} has values of {error.facts.get('found')}"
    return Blocker(MigrationVerdict.NEEDS, reason, ENDS)


def _unknown_subclass(error: UnknownSubclassError) -> Blocker:
    return _failure(
        UnsupportedStateError(
            "values are of a subclass of a POJO that the snapshot does not describe", found=str(error)
        )
    )


def _joined(program: ElementProgram, data: bytes, count: int) -> bytes:
    return b"".join(program.elements(data, count))


@dataclass(frozen=True)
class _Value:
    """A value that is looked at, or some: the bytes, and what rewrites them, and reads them without a migration."""

    old: object
    rewrite: Callable[[], object]
    misread: Sequence[ReadWithDoubt]
    count: int
    #: Rewrites it even if Flink 2 cannot read it.
    written: Callable[[], object]


@dataclass
class _Values:
    """The values of one state in a piece."""

    findings: StateFindings
    sample: int
    limit: int | None
    count: int = 0
    sampled: int = 0
    roles: list[tuple[StateFindings, str, RoleProgram]] = field(default_factory=list)
    #: Values that can be read in two ways, until others show which one is right.
    waiting: list[_Value] = field(default_factory=list)
    #: Others that are told what Flink makes of the values.
    others: Sequence[StateFindings] = ()

    @property
    def is_done(self) -> bool:
        """Return whether enough values were looked at."""
        return self.limit is not None and self.count >= self.limit

    def collect(self, roles: Mapping[str, RoleProgram], findings: StateFindings) -> None:
        """Count what is rewritten by some programs."""
        for role, program in roles.items():
            program.inspect()
            self.roles.append((findings, role, program))

    def made(self, make: Callable[[], T]) -> T | None:
        """Return the result of a function for a value or types; None if it fails, with the reason kept."""
        try:
            return make()
        except PartError as error:
            places = [
                (state_findings, role, name)
                for state_findings, role, program in self.roles
                for name, part, _ in program.all_parts
                if part.part is error.part
            ]
            state_findings, *part_id = places[0] if places else (self.findings, "", "")
            blocker = _blocker(error)
            state_findings.part(*part_id).add_blocker(blocker)
            if blocker.fails and isinstance(error.error, ForeignError):
                self.findings.record(Outcome.FAILS)
        except UnknownSubclassError as error:
            self.findings.whole.add_blocker(_unknown_subclass(error))
        except SavepointError as error:
            self.findings.whole.add_blocker(_failure(error))
        return None

    def one(self, old: object, programs: Sequence[P], run: Callable[[P], object], count: int = 1) -> object | None:
        """Rewrite one value; return the new bytes, None if it cannot be rewritten.

        ``programs`` are in the order of :func:`_readings`; ``run`` runs one of them.
        """
        self.count += count
        program, written, *others = programs
        misread = [_with_doubt(run, other) for other in others]
        value = _Value(old, lambda: run(program), misread, count, lambda: run(written))
        waits = len(self.waiting) < MAX_WAITING
        new = self.made(partial(self._unless_ambiguous, value) if waits else value.rewrite)
        self._compare(value, new)
        return new

    def _unless_ambiguous(self, value: _Value) -> object | None:
        """Return the new bytes of a value; None if it must wait for others."""
        try:
            return value.rewrite()
        except AmbiguousFormError:
            self.waiting.append(value)
            return None

    def _compare(self, value: _Value, new: object | None) -> None:
        """Read a value without a migration, if it is one of the sample."""
        if new is None and self.sampled < self.sample:
            with suppress(PartError, SavepointError, UnknownSubclassError):
                new = value.written()
        if new is not None and new != value.old and self.sampled < self.sample:
            self.sampled += value.count
            for state_findings in (self.findings, *self.others):
                state_findings.record(_misread(value.misread[0], new))
            for misread in value.misread[1:]:
                if not self.findings.is_unreadable:
                    self.findings.is_unreadable = _misread(misread, new) is Outcome.FAILS

    def settle(self) -> None:
        """Look at the values that wait."""
        for value in self.waiting:
            self._compare(value, self.made(value.rewrite))

    def finish(self) -> None:
        """Look at the values that wait, and add what the parts have counted."""
        self.settle()
        for state_findings, role, program in self.roles:
            for name, part, of_subclass in program.all_parts:
                into = state_findings.part(role, name)
                into.values += part.values
                into.changed += part.changed
                if isinstance(part, KryoStatePart):
                    into.lost.add(part.inspection.lost)
                    into.opened |= part.inspection.opened
                if of_subclass:
                    into.types = (part.part.old.flink_type, part.part.new.flink_type)


class _KeyedScan:
    """Scan of one keyed state, or queue of timers."""

    def __init__(
        self,
        values: _Values,
        hidden: _HiddenParts[EntryProgram] | None,
        key: StateFindings,
        *programs: EntryProgram,
    ) -> None:
        self.values, self.hidden, self.key = values, hidden, key
        self.programs = programs
        self.program = program = programs[0] if programs else None
        self.looked_at: Counter[str] = Counter()
        if program is not None:
            values.collect(program.roles, values.findings)
            values.collect({KEY: program.key_role}, key)

    def entries(self, chunk: EntryChunk) -> None:
        """Look at some entries: at those of the sample, and of programs that are not compiled, one by one."""
        if self.hidden is not None:
            self._look_into(self.hidden, chunk)
        if self.program is None:
            self.values.count += len(chunk)
            return
        values, compiled = self.values, self.program.compiled
        if compiled is None or self.program.changes_keys:
            self._one_by_one(chunk)
            return
        first = min(len(chunk), max(0, values.sample - values.count))
        self._one_by_one(chunk.take(np.arange(first)))
        if first < len(chunk) and not values.is_done:
            self._compiled(compiled, chunk.take(np.arange(first, len(chunk))))

    def _look_into(self, hidden: _HiddenParts[EntryProgram], chunk: EntryChunk) -> None:
        """Look for unlisted subclasses in values, and in keys, namespaces and user keys of maps."""
        if hidden.program.hides_in_values:
            rows = flagged_rows(chunk.values, chunk.value_start, chunk.value_end)
            for _, value in _entries(chunk.take(rows)):
                hidden.values.one(value, hidden.programs, lambda program: program.new_value(value))  # noqa: B023
        if hidden.program.hides_in_keys:
            rows = flagged_rows(chunk.keys, chunk.key_start, chunk.key_end)
            for key, _ in _entries(chunk.take(rows)):
                hidden.keys.one(key, hidden.programs, lambda program: program.key(key))  # noqa: B023

    def finish(self) -> None:
        """Look at the values that wait, and add what the parts have counted."""
        if self.hidden is not None:
            self.hidden.finish()
        self.values.finish()

    def _one_by_one(self, chunk: EntryChunk) -> None:
        for key, value in _entries(chunk):
            if self.values.is_done:
                return
            self._one(key, value)

    def _one(self, key: bytes, value: bytes) -> None:
        new = self.values.one((key, value), self.programs, lambda program: program.entry(key, value))
        if isinstance(new, tuple) and new[0] != key:
            self.key.record(self.values.findings.outcome)

    def _compiled(self, compiled: CompiledProgram, chunk: EntryChunk) -> None:
        program = self.program
        assert program is not None
        try:
            compiled.run(chunk.values, chunk.value_start, chunk.value_end)
        except (PartError, UnknownSubclassError, SavepointError):
            self._one_by_one(chunk)  # to find all that is missing
            return
        self.values.count += len(chunk)
        data = chunk.values.tobytes()
        for name, written in LOSING.items():
            at = data.find(written)
            while at >= 0 and self.looked_at[name] < MAX_LOOKED_AT and not self._has_lost(name):
                for row in np.flatnonzero((chunk.value_start <= at) & (at < chunk.value_end))[:1]:
                    self.looked_at[name] += 1
                    value = data[chunk.value_start[row] : chunk.value_end[row]]
                    self.values.made(lambda: program.new_value(value))  # noqa: B023
                at = data.find(written, at + 1)

    def _has_lost(self, name: str) -> bool:
        return any(
            name in part.inspection.lost.names.get(Loss.COLLECTION, ())
            for _, _, program in self.values.roles
            for _, part, _ in program.all_parts
            if isinstance(part, KryoStatePart)
        )


def _with_doubt(run: Callable[[Any], object], program: EntryProgram | ElementProgram) -> ReadWithDoubt:
    """Return a function that reads a value, and tells whether it is unknown whether Flink reads it, or fails."""

    def read() -> tuple[object, bool]:
        uncertain_values = program.uncertain_values
        return run(program), program.uncertain_values > uncertain_values

    return read


def _misread(read: ReadWithDoubt, right: object) -> Outcome:
    """Return the outcome of an entry that is not migrated; ``right`` are the correct bytes."""
    try:
        actual, is_uncertain = read()
    except (PartError, SavepointError, UnknownSubclassError):
        return Outcome.FAILS
    if actual == right:
        return Outcome.RESTORES
    return Outcome.WRONG_OR_FAILS if is_uncertain else Outcome.WRONG_VALUES


def _failure(error: SavepointError) -> Blocker:
    """Return the blocker for an error that concerns a whole value."""
    remedy = str(error.facts.get("remedy") or CLASS_FILES)
    reason = ": ".join(filter(None, (error.message, str(error.facts.get("found") or ""))))
    return Blocker(
        MigrationVerdict.NEEDS if isinstance(error, UnsupportedStateError) else MigrationVerdict.IMPOSSIBLE,
        reason,
        remedy,
    )


def _foreign(name: str, *why: str) -> Blocker:
    """Return why an object of a class that is not described is not rewritten."""
    if LAMBDA in name:
        reason = f"Kryo wrote an object of {name}, the class of a lambda, which only the process that made it has"
        return Blocker(MigrationVerdict.IMPOSSIBLE, reason, LEAVE_OUT, fails=True)
    if name.startswith(OF_JAVA):
        reason = f"Kryo wrote an object of {name}, a class of Java whose form is not known here"
        return Blocker(MigrationVerdict.NEEDS, reason, LEAVE_OUT)
    remedy = FLINK_CLASS_FILES if name.startswith("org.apache.flink.") else CLASS_FILES
    return Blocker(MigrationVerdict.NEEDS, ": ".join([f"Kryo wrote an object of {name}", *why]), remedy)


def _blocker(problem: PartError) -> Blocker:
    """Return why a part of a value is not rewritten."""
    error = problem.error
    if isinstance(error, ForeignError):
        return _foreign(*map(str, error.args))
    if isinstance(error, OwnSerializerError):
        return Blocker(MigrationVerdict.IMPOSSIBLE, str(error), UNREGISTER)
    if isinstance(error, RecursionError):
        reason = "an object contains itself, or is nested too deep, where Flink's own serializers have no references"
        return Blocker(MigrationVerdict.IMPOSSIBLE, reason, LEAVE_OUT)
    if isinstance(error, UnreadableError):
        fails = not error.args[1].endswith(CALLS)
        return Blocker(MigrationVerdict.IMPOSSIBLE, str(error), LEAVE_OUT, fails, is_predicted=not fails)
    if isinstance(error, SavepointError):
        return Blocker(MigrationVerdict.NEEDS, error.message, str(error.facts.get("remedy") or CLASS_FILES))
    reason = f"a value does not fit the part's new type, or is damaged: {': '.join(map(str, error.args))[:200]}"
    return Blocker(MigrationVerdict.IMPOSSIBLE, reason, f"correct the type if words give it (types), or {LEAVE_OUT}")
