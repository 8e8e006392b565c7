"""Command doctor: findings about a snapshot, and an exit code by their severity."""

from __future__ import annotations

from argparse import Namespace

from pyspark_savepoint.command_line.arguments import read_options
from pyspark_savepoint.command_line.output import Output
from pyspark_savepoint.command_line.restoring import job_at
from pyspark_savepoint.doctor.doctor import examine
from pyspark_savepoint.doctor.findings import COLUMNS, Budgets, Severity
from pyspark_savepoint.local.local_savepoint import open_savepoint

DONE, FOUND = 0, 1


def doctor(arguments: Namespace, output: Output) -> int:
    """Show what may go wrong with a snapshot."""
    budgets, options = Budgets.parse(arguments.budget), read_options(arguments)
    savepoint = open_savepoint(arguments.path, **options)
    older = open_savepoint(arguments.since, **options) if arguments.since is not None else None
    job = job_at(arguments.job, arguments) if arguments.job is not None else None
    findings = examine(savepoint, budgets, older, job)
    if not output.is_text:
        output.table(COLUMNS, (finding.row() for finding in findings))
    for finding in findings:
        place = ", ".join(filter(None, (finding.operator, finding.state)))
        output.say(f"{finding.severity.value:<8} {finding.check}" + (f": {place}" if place else ""))
        output.say(f"    {finding.evidence}")
        output.say(f"    to do: {finding.remedy}")
    counts = [f"{sum(one.severity is severity for one in findings)} {severity.value}s" for severity in Severity]
    output.say(", ".join(counts))
    worst = Severity(arguments.fail_on)
    return FOUND if any(finding.severity.rank <= worst.rank for finding in findings) else DONE
