"""Verdicts of the restore check about values: how Flink 2 reads values of Flink 1 without a migration."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pyspark_savepoint.formats.errors import SavepointError
from pyspark_savepoint.formats.flink_releases import FLINK_VERSIONS
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.statebackends.jobs.compatibility import crosses
from pyspark_savepoint.statebackends.jobs.restore.job_description import JobDescription
from pyspark_savepoint.statebackends.jobs.restore.restore_verdicts import StateVerdict, ValueVerdicts, Verdict
from pyspark_savepoint.statebackends.migration.migration_check import check_migration
from pyspark_savepoint.statebackends.migration.migration_plan import Knowledge
from pyspark_savepoint.statebackends.migration.rewriting.verdicts import MigrationVerdict as Migration
from pyspark_savepoint.statebackends.migration.rewriting.verdicts import Outcome, PartVerdict
from pyspark_savepoint.statebackends.type_extraction import ExtractionRelease

#: Number of values of each state that are read.
LIMIT = 20_000
OF_OUTCOME = {
    Outcome.RESTORES: Verdict.RESTORES,
    Outcome.UNKNOWN: Verdict.UNKNOWN,
    Outcome.WRONG_VALUES: Verdict.IS_MISREAD,
    Outcome.WRONG_OR_FAILS: Verdict.IS_MISREAD,
    Outcome.FAILS: Verdict.FAILS,
}


def restored_values(
    savepoint: Snapshot, job: JobDescription, classes: Iterable[str] = (), new_job: Snapshot | None = None
) -> Mapping[str, ValueVerdicts] | None:
    """Return verdicts by uid hash; None if the job's Flink reads the values as they were written, or if unknown.

    ``classes`` are jars and folders of class files, ``new_job`` is a savepoint of the job.
    """
    version = job.flink_version
    if version not in FLINK_VERSIONS or not crosses(savepoint.metadata, version):
        return None
    release = ExtractionRelease(version)
    try:
        parts = check_migration(savepoint, Knowledge(release, tuple(classes), {}, new_job), LIMIT).parts
    except SavepointError:
        return None  # the check of types reports it
    by_hash: dict[str, list[PartVerdict]] = {}
    for part in parts:
        if part.verdict is not Migration.AS_IS:
            by_hash.setdefault(part.ref.operator_uid_hash, []).append(part)
    hashes = [str(operator.operator_id) for operator in savepoint.operators]
    return {name: _of_operator(by_hash.get(name, []), job.state_backend, release) for name in hashes}


def _of_operator(parts: list[PartVerdict], backend: str | None, release: ExtractionRelease) -> ValueVerdicts:
    states, reasons = [], []
    for part in parts:
        outcome = _outcome(part, backend)
        reason = ": ".join(filter(None, (part.verdict, part.reason)))
        states.append(StateVerdict(part.ref.state, part.ref.kind, outcome, reason, part.part))
        name = ".".join(filter(None, (part.ref.state, part.part)))
        reasons.append((OF_OUTCOME[part.outcome], f"values of {name}: {outcome}"))
    remedies = dict.fromkeys(part.remedy for part in parts if part.remedy)
    remedy = f"migrate for Flink {release} writes a savepoint that restores"
    return ValueVerdicts(tuple(states), tuple(reasons), "; before that: ".join([remedy, *list(remedies)[:2]]))


def _outcome(part: PartVerdict, backend: str | None) -> str:
    row = part.row()
    hashmap, rocksdb = str(row["hashmap"]), str(row["rocksdb"])
    if backend is None and rocksdb != hashmap:
        return f"{hashmap}, on RocksDB {rocksdb.removeprefix('fails ')}"
    return hashmap if backend in (None, "hashmap") else rocksdb
