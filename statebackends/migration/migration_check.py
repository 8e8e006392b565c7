"""Check of a migration: what each part of each state needs, and what Flink does without a migration.

Types alone do not tell: Kryo 5 reads some values of Kryo 2 correctly, some as other values, and some not at all. So
:mod:`value_scan` reads the values, and verdicts are made here from its findings.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from pyspark_savepoint.formats.serializers.kryo.described.serializer import KryoSerializer
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.statebackends.migration.findings import Blocker, PartFindings, StateFindings, merged
from pyspark_savepoint.statebackends.migration.migration_plan import (
    Knowledge,
    OperatorMigration,
    plan_migration,
)
from pyspark_savepoint.statebackends.migration.rewriting.state_programs import KEY, NAMESPACE
from pyspark_savepoint.statebackends.migration.rewriting.target_types import ChangedPart, Target
from pyspark_savepoint.statebackends.migration.rewriting.verdicts import (
    MISSING_CLASS,
    Losses,
    MigrationCheck,
    MigrationVerdict,
    Outcome,
    PartVerdict,
    StateRef,
)
from pyspark_savepoint.statebackends.migration.value_scan import KEY_NAME, Scan, operator_state_name, state_name

NOTHING, NO_VALUES = StateFindings(), PartFindings()
NOT_LOOKED_AT = "its values were not read, because another part of the state must be solved first"
#: Kryo 2 makes no object of a class in a package of Java that is not exported, such as sun.util.calendar.ZoneInfo.
NOT_CONSTRUCTIBLE = "on Java 17 Flink 1 fails to restore (NullPointerException) objects of Java's own subclasses of"
#: Number of reasons in a row.
MAX_REASONS = 5


def check_migration(savepoint: Snapshot, knowledge: Knowledge, limit: int | None = None) -> MigrationCheck:
    """Return the verdicts about all parts of a snapshot; ``limit`` values of each state are read, None: all."""
    plans, scan = plan_migration(savepoint, knowledge), Scan(limit)
    by_operator: dict[int, list[Mapping[str, StateFindings]]] = {}
    for piece in scan.pieces(plans):
        by_operator.setdefault(piece.operator, []).append(scan.run(plans, piece))
    return verdicts_of(plans, {number: merged(findings) for number, findings in by_operator.items()})


def verdicts_of(
    plans: Sequence[OperatorMigration], by_part: Mapping[int, Mapping[str, StateFindings]]
) -> MigrationCheck:
    """Return the verdicts about the plans of operators; ``by_part`` is what scans found, by the operator's number."""
    verdicts: list[PartVerdict] = []
    for number, operator in enumerate(plans):
        findings = by_part.get(number, {})
        if operator.in_flight is not None:
            verdicts.append(operator.in_flight)
        unread = operator.unread_timers
        if unread is not None and not unread.ref.is_named(operator.left_out):
            verdicts.append(unread)
        if operator.key is not None:
            # Timers in raw keyed state are read when the job is restored, as operator state is.
            raw = {(queue.state_name, True) for queue in operator.raw_queues}
            for state, plan in operator.keyed_plans.items():
                ref = replace(plan.ref, keyed=False) if state in raw else plan.ref
                verdicts += _verdicts(operator, ref, plan.roles.items(), findings.get(state_name(state), NOTHING))
            verdicts += _verdicts(operator, operator.key_ref, [(KEY, operator.key)], findings.get(KEY_NAME, NOTHING))
        for index, plan in enumerate(operator.operator_plans):
            found_there = findings.get(operator_state_name(index), NOTHING)
            verdicts += _verdicts(operator, plan.ref, plan.roles.items(), found_there)
    return MigrationCheck(tuple(verdicts))


def _verdicts(
    operator: OperatorMigration, ref: StateRef, roles: Iterable[tuple[str, Target]], findings: StateFindings
) -> Iterator[PartVerdict]:
    """Yield the verdicts about the parts of a state; Flink refuses a state as a whole, when it is registered."""
    roles = list(roles)
    pojos = frozenset[str]().union(*(target.pojos_of_java for _, target in roles))
    back = operator.change is not None and operator.change.after == 2
    refused = any(part.is_refused for _, target in roles for part in target.parts)
    # Of a state that is blocked, the values show whether Flink reads them, or what uses them fails.
    unreadable = findings.is_unreadable or not (refused or findings.is_hindered)
    for verdict in _of_parts(ref, roles, findings):
        verdict = replace(verdict, is_refused=refused, is_unreadable=unreadable)
        if back and pojos:
            reason = "; ".join(filter(None, (verdict.reason, f"{NOT_CONSTRUCTIBLE} {', '.join(sorted(pojos))}")))
            outcome = max(verdict.outcome, Outcome.UNKNOWN, key=lambda each: each.severity)
            yield replace(verdict, reason=reason, outcome=outcome)
        elif operator.change is not None:
            yield replace(verdict, opened=verdict.opened | pojos)
        else:
            yield verdict


def _of_parts(ref: StateRef, roles: list[tuple[str, Target]], findings: StateFindings) -> Iterator[PartVerdict]:
    types = ", ".join(target.serializer.flink_type for role, target in roles if role != NAMESPACE)
    part_names = {(role, part.name) for role, target in roles for part in target.parts}
    of_subclasses = [
        (name, values)
        for (role, name), values in findings.parts.items()
        if (role, name) not in part_names and values.types is not None and any(role == each for each, _ in roles)
    ]
    hidden = (
        findings.parts.get(("", "")) if not any(p.has_values for _, target in roles for p in target.parts) else None
    )
    if hidden is not None and hidden.blockers:
        reasons = "; ".join(list(hidden.blockers)[:MAX_REASONS])
        remedy = next(iter(hidden.blockers.values())).remedy
        predicted = all(each.is_predicted for each in hidden.blockers.values())
        outcome = findings.outcome if predicted and findings.outcome is not Outcome.RESTORES else Outcome.UNKNOWN
        yield PartVerdict(ref, "", MigrationVerdict.NEEDS, outcome, types, None, reasons, remedy)
    elif not of_subclasses and not any(target.parts for _, target in roles):
        yield PartVerdict(ref, "", MigrationVerdict.AS_IS, Outcome.RESTORES, types)
    for role, target in roles:
        for part in target.parts:
            values = findings.parts.get((role, part.name), NO_VALUES)
            yield replace(_verdict(ref, role, part, findings), opened=frozenset(values.opened))
    for name, values in of_subclasses:
        yield _of_subclass(ref, name, values, findings)


def _of_subclass(ref: StateRef, name: str, part: PartFindings, state: StateFindings) -> PartVerdict:
    """Return the verdict about a field of a POJO's subclass that only values and class files show."""
    old, new = part.types or ("", "")
    listed = "the snapshot does not list this subclass, class files do"
    counts, opened = (part.values, part.changed), frozenset(part.opened)
    if part.blockers:
        verdict, outcome, reason, remedy = _blocked(list(part.blockers.values()), state)
        reason = f"{listed}; {reason}"
        return PartVerdict(ref, name, verdict, outcome, old, None, reason, remedy, *counts, opened=opened)
    reason = "; ".join([listed, *part.lost.reasons])
    verdict = MigrationVerdict.REWRITTEN if part.changed else MigrationVerdict.AS_IS
    verdict = MigrationVerdict.IS_LOST if part.lost else verdict
    return PartVerdict(ref, name, verdict, state.outcome, old, new, reason, None, *counts, opened=opened)


def _blocked(blockers: list[Blocker], state: StateFindings) -> tuple[MigrationVerdict, Outcome, str, str]:
    """Return the verdict about values that cannot be rewritten, what Flink makes of them, the reason, the remedy."""
    verdict = max((each.verdict for each in blockers), key=lambda each: each.severity)
    predicted = all(each.is_predicted for each in blockers) and state.outcome is not Outcome.RESTORES
    outcome = state.outcome if predicted else Outcome.UNKNOWN
    outcome = Outcome.FAILS if any(each.fails for each in blockers) else outcome
    reasons = [each.reason for each in blockers[:MAX_REASONS]]
    more = len(blockers) - MAX_REASONS
    remedy = next(each.remedy for each in blockers if each.verdict is verdict)
    return verdict, outcome, "; ".join([*reasons, *([f"and {more} more"] if more > 0 else [])]), remedy


def _verdict(ref: StateRef, role: str, part: ChangedPart, state: StateFindings) -> PartVerdict:
    name = ".".join(filter(None, ("namespace" if role == NAMESPACE else "", part.name)))
    old, new = part.old.flink_type, part.new.flink_type
    if part.obstacle is not None:
        missing = part.obstacle.reason.startswith(MISSING_CLASS)
        fails = missing or part.obstacle.verdict is MigrationVerdict.IMPOSSIBLE
        outcome = Outcome.FAILS if fails else Outcome.UNKNOWN
        obstacle = part.obstacle
        return PartVerdict(ref, name, obstacle.verdict, outcome, old, None, obstacle.reason, obstacle.remedy)
    if not part.has_values:
        reason = f"{MISSING_CLASS}{part.old.snapshot_class} in that release: it was moved"
        return PartVerdict(ref, name, MigrationVerdict.REWRITTEN, Outcome.FAILS, old, new, reason)
    findings = state.parts.get((role, part.name))
    counts = (findings.values, findings.changed) if findings is not None else (None, None)
    own, whole = (each.blockers if each is not None else {} for each in (findings, state.parts.get(("", ""))))
    blockers = list({**own, **whole}.values())
    if blockers:
        verdict, outcome, reason, remedy = _blocked(blockers, state)
        if part.is_scala:
            outcome, reason = Outcome.FAILS, f"{MISSING_CLASS}{part.old.snapshot_class} in Flink 2; {reason}"
        return PartVerdict(ref, name, verdict, outcome, old, new, reason, remedy, *counts)
    if part.is_scala:
        reason = f"{MISSING_CLASS}{part.old.snapshot_class} in Flink 2, but in flink-scala-api"
        if role == KEY:
            reason += "; Scala 2.13 hashes keys in another way: they move to other key groups"
        return PartVerdict(ref, name, MigrationVerdict.REWRITTEN, Outcome.FAILS, old, new, reason, None, *counts)
    lost = findings.lost if findings is not None else Losses()
    verdict = MigrationVerdict.IS_LOST if lost else MigrationVerdict.REWRITTEN
    if not part.is_restored and not (isinstance(part.new, KryoSerializer) and isinstance(part.old, KryoSerializer)):
        reason = "; ".join([f"Flink infers {new} in place of {old}", *lost.reasons])
        return PartVerdict(ref, name, verdict, Outcome.FAILS, old, new, reason, None, *counts)
    if findings is None:
        return PartVerdict(ref, name, MigrationVerdict.REWRITTEN, Outcome.UNKNOWN, old, new, NOT_LOOKED_AT)
    if not (findings.changed or lost):
        outcome = Outcome.UNKNOWN if state.is_hindered else Outcome.RESTORES
        return PartVerdict(ref, name, MigrationVerdict.AS_IS, outcome, old, new, None, None, *counts)
    reason = "; ".join(["Kryo of the other release writes other bytes", *lost.reasons])
    outcome = state.outcome
    if lost:
        outcome = max(outcome, Outcome.WRONG_VALUES, key=lambda each: each.severity)
    return PartVerdict(ref, name, verdict, outcome, old, new, reason, None, *counts)
