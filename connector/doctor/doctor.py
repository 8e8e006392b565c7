"""All checks of a snapshot, the worst finding first."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from pyspark_savepoint.doctor.findings import COLUMNS, Budgets, Finding, Severity
from pyspark_savepoint.doctor.metadata_checks import check_metadata, check_release
from pyspark_savepoint.doctor.state_checks import check_growth, check_state
from pyspark_savepoint.doctor.surveys import Examined, Surveys
from pyspark_savepoint.execution.restore import check_snapshot
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.statebackends.jobs.restore.job_reader import Job


def examine(
    savepoint: Examined, budgets: Budgets, older: Examined | None = None, job: Job | None = None
) -> list[Finding]:
    """Return the findings about a snapshot, also growth since ``older`` and orphans of ``job`` if these are given."""
    return examined(Surveys(savepoint), budgets, None if older is None else Surveys(older), job)


def examined(surveys: Surveys, budgets: Budgets, older: Surveys | None = None, job: Job | None = None) -> list[Finding]:
    """Return the findings of :func:`examine` by what surveys have read."""
    snapshot = surveys.snapshot
    found = [*check_metadata(snapshot, budgets), *check_release(snapshot), *check_state(surveys, budgets)]
    if older is not None:
        found += check_growth(surveys, older)
    if job is not None:
        found += _orphans(snapshot, job)
    return sorted(found, key=lambda finding: (finding.severity.rank, finding.check, finding.operator or ""))


def findings_table(findings: list[Finding]) -> pa.Table:
    """Return findings as a table with the columns of a finding, all of them text."""
    schema = pa.schema([pa.field(name, pa.string()) for name in COLUMNS])
    return pa.Table.from_pylist([finding.row() for finding in findings], schema)


def _orphans(snapshot: Snapshot, job: Job) -> Iterator[Finding]:
    rows: list[dict[str, Any]] = check_snapshot(snapshot, job).to_arrow().to_pylist()
    for row in rows:
        if row["job_operator"] is None and row["operator_uid_hash"] is not None and row["verdict"] == "fails":
            yield Finding(
                "orphaned-operator",
                Severity.WARNING,
                "; ".join(row["reasons"]),
                row["remedy"] or "Savepoint.remove_operator leaves it out",
                row["operator_uid"] or row["operator_uid_hash"],
            )
