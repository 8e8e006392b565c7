"""Check of a migration: what each part of each state needs, and what Flink does without a migration.

Types alone do not tell: Kryo 5 reads some values of Kryo 2 correctly, some as other values, and some not at all. So
:mod:`value_scan` reads the values, and verdicts are made here from its findings.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from pyspark_savepoint.formats.serializers.kryo.serializer import KryoSerializer
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.statebackends.migration.findings import StateFindings, merged
from pyspark_savepoint.statebackends.migration.migration_plan import (
    KEY_STATE,
    Knowledge,
    OperatorMigration,
    plan_migration,
)
from pyspark_savepoint.statebackends.migration.rewriting.state_programs import KEY, NAMESPACE
from pyspark_savepoint.statebackends.migration.rewriting.target_types import ChangedPart, Target
from pyspark_savepoint.statebackends.migration.rewriting.verdicts import (
    MISSING_CLASS,
    MigrationCheck,
    MigrationVerdict,
    Outcome,
    PartVerdict,
    StateRef,
)
from pyspark_savepoint.statebackends.migration.value_scan import KEY_NAME, Scan, operator_state_name, state_name

NOTHING = StateFindings()
NOT_LOOKED_AT = "its values were not read, because another part of the state must be solved first"
#: Number of reasons in a row.
MAX_REASONS = 5


def check_migration(savepoint: Snapshot, knowledge: Knowledge, limit: int | None = None) -> MigrationCheck:
    """Return the verdicts about all parts of a snapshot; ``limit`` values of each state are read, None: all."""
    plans, scan = plan_migration(savepoint, knowledge), Scan(limit)
    found: dict[int, list[Mapping[str, StateFindings]]] = {}
    for piece in scan.pieces(plans):
        found.setdefault(piece.operator, []).append(scan.run(plans, piece))
    return verdicts_of(plans, {number: merged(findings) for number, findings in found.items()})


def verdicts_of(plans: Sequence[OperatorMigration], found: Mapping[int, Mapping[str, StateFindings]]) -> MigrationCheck:
    """Return the verdicts about the plans of operators; ``found`` is what scans found, by the operator's number."""
    verdicts: list[PartVerdict] = []
    for number, operator in enumerate(plans):
        findings = found.get(number, {})
        if operator.in_flight is not None:
            verdicts.append(operator.in_flight)
        if operator.key is not None:
            for state, plan in operator.keyed_plans.items():
                verdicts += _verdicts(plan.ref, plan.roles.items(), findings.get(state_name(state), NOTHING))
            key = operator.ref(KEY_STATE, "KEY", True)
            verdicts += _verdicts(key, [(KEY, operator.key)], findings.get(KEY_NAME, NOTHING))
        for place, plan in enumerate(operator.operator_plans):
            found_there = findings.get(operator_state_name(place), NOTHING)
            verdicts += _verdicts(plan.ref, plan.roles.items(), found_there)
    return MigrationCheck(tuple(verdicts))


def _verdicts(ref: StateRef, roles: Iterable[tuple[str, Target]], found: StateFindings) -> Iterator[PartVerdict]:
    roles = list(roles)
    if not any(target.parts for _, target in roles):
        types = [target.serializer.flink_type for role, target in roles if role != NAMESPACE]
        yield PartVerdict(ref, "", MigrationVerdict.AS_IS, Outcome.RESTORES, ", ".join(types))
    for role, target in roles:
        for part in target.parts:
            yield _verdict(ref, role, part, found)


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
    found = state.parts.get((role, part.name))
    counts = (found.values, found.changed) if found is not None else (None, None)
    own, whole = (each.hindrances if each is not None else {} for each in (found, state.parts.get(("", ""))))
    hindrances = list({**own, **whole}.values())
    if hindrances:
        verdict = max((each.verdict for each in hindrances), key=lambda each: each.severity)
        outcome = Outcome.FAILS if verdict is MigrationVerdict.IMPOSSIBLE and not whole else Outcome.UNKNOWN
        reasons = "; ".join(each.reason for each in hindrances[:MAX_REASONS])
        more = len(hindrances) - MAX_REASONS
        reason = reasons + (f"; and {more} more" if more > 0 else "")
        remedy = next(each.remedy for each in hindrances if each.verdict is verdict)
        if part.is_scala:
            outcome, reason = Outcome.FAILS, f"{MISSING_CLASS}{part.old.snapshot_class} in Flink 2; {reason}"
        return PartVerdict(ref, name, verdict, outcome, old, new, reason, remedy, *counts)
    if part.is_scala:
        reason = f"{MISSING_CLASS}{part.old.snapshot_class} in Flink 2, but in flink-scala-api"
        if role == KEY:
            reason += "; Scala 2.13 hashes keys in another way: they move to other key groups"
        return PartVerdict(ref, name, MigrationVerdict.REWRITTEN, Outcome.FAILS, old, new, reason, None, *counts)
    if not (isinstance(part.new, KryoSerializer) and isinstance(part.old, KryoSerializer)):
        lost = sorted(found.collections) if found is not None else []
        reason = f"Flink infers {new} in place of {old}"
        if lost:
            reason += f"; the classes are lost, with what they add, such as an order: {', '.join(lost)[:300]}"
        return PartVerdict(
            ref,
            name,
            MigrationVerdict.IS_LOST if lost else MigrationVerdict.REWRITTEN,
            Outcome.FAILS,
            old,
            new,
            reason,
            None,
            *counts,
        )
    if found is None:
        return PartVerdict(ref, name, MigrationVerdict.REWRITTEN, Outcome.UNKNOWN, old, new, NOT_LOOKED_AT)
    if not found.changed:
        outcome = Outcome.UNKNOWN if state.is_hindered else Outcome.RESTORES
        return PartVerdict(ref, name, MigrationVerdict.AS_IS, outcome, old, new, None, None, *counts)
    reason = "Kryo of the other release writes other bytes"
    if found.offsets:
        reason += (
            ", which have no offset: where clocks are set back, the second of the two equal hours becomes the first"
        )
        return PartVerdict(ref, name, MigrationVerdict.IS_LOST, state.outcome, old, new, reason, None, *counts)
    if found.inner:
        reason += f", without the outer object of inner classes: {', '.join(sorted(found.inner))[:300]}"
        outcome = max(state.outcome, Outcome.WRONG_VALUES, key=lambda each: each.severity)
        return PartVerdict(ref, name, MigrationVerdict.IS_LOST, outcome, old, new, reason, None, *counts)
    return PartVerdict(ref, name, MigrationVerdict.REWRITTEN, state.outcome, old, new, reason, None, *counts)
