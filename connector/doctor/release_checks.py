"""Checks whether Flink 2 would read the values in a snapshot of Flink 1 correctly."""

from __future__ import annotations

from collections.abc import Iterator

from pyspark_savepoint.doctor.findings import Finding, Severity
from pyspark_savepoint.execution.migrating import migration_of
from pyspark_savepoint.formats.errors import SavepointError
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.statebackends.jobs.compatibility.compatibility import NEWEST_FLINK
from pyspark_savepoint.statebackends.jobs.compatibility.version_compatibility import crosses
from pyspark_savepoint.statebackends.migration.rewriting.verdicts import MigrationVerdict, Outcome, PartVerdict

RELEASE = ".".join(map(str, NEWEST_FLINK))
CHECKS = {
    Outcome.WRONG_VALUES: ("misread-by-flink-2", f"Flink {RELEASE} restores it and reports nothing, with other values"),
    Outcome.FAILS: ("unreadable-by-flink-2", f"Flink {RELEASE} fails to restore it"),
    Outcome.UNKNOWN: ("unclear-for-flink-2", f"whether Flink {RELEASE} restores it depends on the job's classes"),
}
MIGRATE = f"pyspark-savepoint migrate OLD NEW --flink {RELEASE} writes a savepoint of equal values"
CHECK = f"pyspark-savepoint check-migration PATH --flink {RELEASE} --classes job.jar"
TIMERS = "_timer_state/"


def check_release(savepoint: Snapshot) -> Iterator[Finding]:
    """Yield the states of a snapshot of Flink 1 that the newest release would misread, or not read."""
    if not crosses(savepoint.metadata, NEWEST_FLINK):
        return
    try:
        parts = migration_of(savepoint, RELEASE).check().parts
    except SavepointError as error:
        check, evidence = CHECKS[Outcome.UNKNOWN]
        yield Finding(check, Severity.WARNING, f"{evidence}: {error.message}", CHECK)
        return
    worst: dict[tuple[str, str], PartVerdict] = {}
    for part in parts:
        # Timers have the operator's key, about which there is a finding of its own.
        if part.outcome is Outcome.RESTORES or (part.ref.state.startswith(TIMERS) and part.part == "key"):
            continue
        place = part.ref.operator_uid or part.ref.operator_uid_hash, part.ref.state
        if place not in worst or worst[place].outcome.severity < part.outcome.severity:
            worst[place] = part
    for (operator, state), part in worst.items():
        check, evidence = CHECKS[part.outcome]
        reason = ": ".join(filter(None, (part.type, part.reason)))
        remedy = (
            MIGRATE if part.verdict in (MigrationVerdict.REWRITTEN, MigrationVerdict.IS_LOST) else part.remedy or CHECK
        )
        yield Finding(check, Severity.WARNING, f"{evidence}; {reason}", remedy, operator, state)
