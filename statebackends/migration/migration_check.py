"""Check of a migration: what each part of each state needs, and what Flink does with it if nothing is done.

Types alone do not say it: Kryo 5 reads some of what Kryo 2 wrote rightly, some with other values, and some not at all.
So values are rewritten without being kept, and compared. What Flink would make of them is found by reading the old
bytes as the new release does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from pyspark_savepoint.formats.errors import SavepointError, UnsupportedStateError
from pyspark_savepoint.formats.serializers.kryo.kryo_input import ForeignError
from pyspark_savepoint.formats.snapshot.savepoint import Savepoint
from pyspark_savepoint.statebackends.merging.keyed_input import KeyedInput, OpenInput, StateNumbers
from pyspark_savepoint.statebackends.migration.kryo_values import KryoPart, NullReadError, PartError, UnreadableError
from pyspark_savepoint.statebackends.migration.migration_plan import (
    KEY_STATE,
    Knowledge,
    OperatorPlan,
    StatePlan,
    plan_migration,
)
from pyspark_savepoint.statebackends.migration.operator_elements import elements_of
from pyspark_savepoint.statebackends.migration.state_programs import KEY, NAMESPACE, RoleProgram
from pyspark_savepoint.statebackends.migration.target_types import ChangedPart, Target
from pyspark_savepoint.statebackends.migration.value_program import UnknownSubclassError
from pyspark_savepoint.statebackends.migration.verdicts import (
    MISSING_CLASS,
    MigrationCheck,
    Outcome,
    PartVerdict,
    StateRef,
    Verdict,
)
from pyspark_savepoint.statebackends.model.request import TableRequest

T = TypeVar("T")
#: Values of a state that are looked at, unless the caller wants all.
DEFAULT_VALUES = 20_000
LEAVE_OUT = "leave the state out (drop), or as it is (as_is)"
CLASS_FILES = "name the job's jar or class files (classes), or leave the state out (drop)"


@dataclass
class _Scan:
    """What was found in the values of one state."""

    ref: StateRef
    parts: dict[tuple[str, str], KryoPart] = field(default_factory=dict)
    outcome: Outcome = Outcome.RESTORES
    values: int = 0
    error: PartError | None = None
    failure: SavepointError | None = None

    def rewritten(self, rewrite: Callable[[], T]) -> T | None:
        """Return what a function makes of a value; None if it fails, and then keep why."""
        try:
            return rewrite()
        except PartError as error:
            self.error = error
        except SavepointError as error:
            self.failure = error
        except UnknownSubclassError as error:
            self.failure = UnsupportedStateError(
                "values are of a subclass of a POJO that the snapshot does not describe",
                found=str(error),
                remedy=CLASS_FILES,
            )
        return None

    def add(self, outcome: Outcome) -> None:
        """Keep the worst outcome."""
        self.outcome = max(self.outcome, outcome, key=lambda each: each.severity)

    def collect(self, roles: Mapping[str, RoleProgram]) -> None:
        """Keep the parts whose values are rewritten."""
        for role, each in roles.items():
            for one in each.parts.values():
                one.inspects = True
                self.parts[role, one.part.name] = one


def check_migration(savepoint: Savepoint, knowledge: Knowledge, values: int | None = DEFAULT_VALUES) -> MigrationCheck:
    """Return the verdicts about all parts of a snapshot; ``values`` of each state are looked at, None: all."""
    return check_plans(plan_migration(savepoint, knowledge), values)


def check_plans(plans: Iterable[OperatorPlan], values: int | None = DEFAULT_VALUES) -> MigrationCheck:
    """Return the verdicts about the plans of operators."""
    found: list[PartVerdict] = []
    for operator in plans:
        if operator.in_flight is not None:
            found.append(operator.in_flight)
        found += _of_keyed_state(operator, values)
        for plan in operator.operator_plans:
            found += _of_operator_state(operator, plan, values)
    return MigrationCheck(tuple(found))


def _of_keyed_state(operator: OperatorPlan, values: int | None) -> Iterator[PartVerdict]:
    if operator.keyed is None or operator.key is None:
        return
    key_ref = operator.ref(KEY_STATE, "KEY", True)
    key_scan = _Scan(key_ref)
    for state, plan in operator.keyed_plans.items():
        scan = _Scan(plan.ref)
        hindered = plan.is_hindered or any(part.obstacle for part in operator.key.parts)
        looked_at = plan.has_values or any(part.is_kryo for part in operator.key.parts)
        if looked_at and not hindered:
            _scan_entries(operator, state, plan, scan, key_scan, values)
        yield from _verdicts(plan.ref, plan.roles.items(), scan)
    yield from _verdicts(key_ref, [(KEY, operator.key)], key_scan)


def _scan_entries(
    operator: OperatorPlan,
    state: tuple[str, bool],
    plan: StatePlan,
    scan: _Scan,
    key_scan: _Scan,
    values: int | None,
) -> None:
    made = scan.rewritten(lambda: (operator.entry_program(plan), operator.entry_program(plan, misread=True)))
    if made is None:
        return
    program, misread = made
    scan.collect(program.roles)
    key_scan.collect({KEY: program.key_role})
    for key, value in entries_of(operator, state):
        if values is not None and scan.values >= values:
            return
        scan.values += 1
        new = scan.rewritten(lambda: program.entry(key, value))  # noqa: B023
        if new is None:
            return
        if new != (key, value):
            scan.add(_misread(lambda: misread.entry(key, value), new))  # noqa: B023
            if new[0] != key:
                key_scan.add(scan.outcome)


def entries_of(operator: OperatorPlan, state: tuple[str, bool]) -> Iterator[tuple[bytes, bytes]]:
    """Yield the composite keys and values of one state, key group by key group."""
    opened = operator.opened
    savepoint, metadata = opened.savepoint, opened.operator
    request = TableRequest(savepoint.path).of_version(savepoint.metadata.version)
    sources = tuple(opened.keyed.sources)
    raw = opened.raw_timers if state[1] else ()
    described = KeyedInput(sources, tuple(raw), metadata.max_parallelism, metadata.state_size, request, serial=False)
    with OpenInput(described, StateNumbers([state])) as opened_input:
        for group in range(metadata.max_parallelism):
            for chunk in opened_input.chunks({group}):
                keys, held = chunk.keys.tobytes(), chunk.values.tobytes()
                spans = np.stack([chunk.key_start, chunk.key_end, chunk.value_start, chunk.value_end], 1).tolist()
                for low, high, start, end in spans:
                    yield keys[low:high], held[start:end]


def _of_operator_state(operator: OperatorPlan, plan: StatePlan, values: int | None) -> Iterator[PartVerdict]:
    scan = _Scan(plan.ref)
    if plan.has_values and not plan.is_hindered:
        made = scan.rewritten(lambda: (operator.element_program(plan), operator.element_program(plan, misread=True)))
        if made is None:
            yield from _verdicts(plan.ref, plan.roles.items(), scan)
            return
        program, misread = made
        scan.collect(program.roles)
        for data, count in elements_of(operator.opened, plan.meta):
            if values is not None and scan.values >= values:
                break
            scan.values += count
            new = scan.rewritten(lambda: b"".join(program.elements(data, count)))  # noqa: B023
            if new is None:
                break
            if new != data:
                scan.add(_misread(lambda: b"".join(misread.elements(data, count)), new))  # noqa: B023
    yield from _verdicts(plan.ref, plan.roles.items(), scan)


def _misread(read: Callable[[], object], right: object) -> Outcome:
    """Return what Flink makes of an entry that is not migrated; ``right`` are the bytes that it should be."""
    try:
        found = read()
    except NullReadError:
        return Outcome.WRONG_VALUES
    except (PartError, SavepointError, UnknownSubclassError):
        return Outcome.FAILS
    return Outcome.RESTORES if found == right else Outcome.WRONG_VALUES


def _verdicts(ref: StateRef, roles: Iterable[tuple[str, Target]], scan: _Scan) -> Iterator[PartVerdict]:
    roles = list(roles)
    if not any(target.parts for _, target in roles):
        types = [target.serializer.flink_type for role, target in roles if role != NAMESPACE]
        yield PartVerdict(ref, "", Verdict.AS_IS, Outcome.RESTORES, ", ".join(types))
    for role, target in roles:
        for part in target.parts:
            yield _verdict(ref, role, part, scan)


def _verdict(ref: StateRef, role: str, part: ChangedPart, scan: _Scan) -> PartVerdict:
    name = ".".join(filter(None, ("namespace" if role == NAMESPACE else "", part.name)))
    old, new = part.old.flink_type, part.new.flink_type
    if part.obstacle is not None:
        fails = part.obstacle.verdict is Verdict.IMPOSSIBLE
        outcome = Outcome.FAILS if fails else Outcome.UNKNOWN
        stands = part.obstacle
        return PartVerdict(ref, name, stands.verdict, outcome, old, None, stands.reason, stands.remedy)
    if not part.is_kryo:
        reason = f"{MISSING_CLASS}{part.old.snapshot_class} in that release: it was moved"
        return PartVerdict(ref, name, Verdict.REWRITTEN, Outcome.FAILS, old, new, reason)
    found = scan.parts.get((role, part.name))
    counts = (found.values, found.changed) if found is not None else (None, None)
    if scan.error is not None and scan.error.part == part:
        verdict, reason, remedy = _hindrance(scan.error)
        outcome = Outcome.FAILS if verdict is Verdict.IMPOSSIBLE else Outcome.UNKNOWN
        return PartVerdict(ref, name, verdict, outcome, old, new, reason, remedy, *counts)
    if scan.failure is not None:
        remedy = str(scan.failure.facts.get("remedy") or CLASS_FILES)
        reason = ": ".join(filter(None, (scan.failure.message, str(scan.failure.facts.get("found") or ""))))
        verdict = Verdict.NEEDS if isinstance(scan.failure, UnsupportedStateError) else Verdict.IMPOSSIBLE
        return PartVerdict(ref, name, verdict, Outcome.UNKNOWN, old, new, reason, remedy, *counts)
    if found is None or not found.keeps_kryo:
        lost = sorted(found.collections) if found is not None else []
        reason = f"Flink infers {new} in place of {old}"
        if lost:
            reason += f"; the classes are not kept, nor what they add, such as an order: {', '.join(lost)[:300]}"
        return PartVerdict(
            ref, name, Verdict.IS_LOST if lost else Verdict.REWRITTEN, Outcome.FAILS, old, new, reason, None, *counts
        )
    if found is None or not found.changed:
        outcome = Outcome.RESTORES if scan.error is None else Outcome.UNKNOWN
        return PartVerdict(ref, name, Verdict.AS_IS, outcome, old, new, None, None, *counts)
    before, after = found.change.before, found.change.after
    reason = f"the bytes of Kryo {before} are not those of Kryo {after}"
    if found.offsets:
        reason += ", which keeps no offset: the second hour of an overlap becomes the first"
        return PartVerdict(ref, name, Verdict.IS_LOST, scan.outcome, old, new, reason, None, *counts)
    if found.inner:
        reason += f", which leaves out the outer object of inner classes: {', '.join(sorted(found.inner))[:300]}"
        outcome = max(scan.outcome, Outcome.WRONG_VALUES, key=lambda each: each.severity)
        return PartVerdict(ref, name, Verdict.IS_LOST, outcome, old, new, reason, None, *counts)
    return PartVerdict(ref, name, Verdict.REWRITTEN, scan.outcome, old, new, reason, None, *counts)


def _hindrance(found: PartError) -> tuple[Verdict, str, str]:
    """Return verdict, reason and remedy of a value that is not rewritten."""
    error = found.error
    if isinstance(error, ForeignError):
        text = ": ".join(map(str, error.args))
        return Verdict.NEEDS, f"Kryo wrote an object of {text}", CLASS_FILES
    if isinstance(error, UnreadableError):
        return Verdict.IMPOSSIBLE, str(error), LEAVE_OUT
    if isinstance(error, SavepointError):
        return Verdict.NEEDS, error.message, str(error.facts.get("remedy") or CLASS_FILES)
    return Verdict.IMPOSSIBLE, f"a value is not what Kryo writes: {': '.join(map(str, error.args))[:200]}", LEAVE_OUT
