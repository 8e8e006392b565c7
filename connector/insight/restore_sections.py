"""Sections of the report about a restore: by a job, on another release, by another query."""

from __future__ import annotations

from collections import Counter
from collections.abc import Set
from typing import Any

from pyspark_savepoint.engines.face import at_path
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.insight.evolved_states import EvolutionReport, counted_entries
from pyspark_savepoint.insight.page import Section, code, count_of, named, table
from pyspark_savepoint.insight.restore import check_snapshot
from pyspark_savepoint.insight.surveys import Examined, Surveys, label_of
from pyspark_savepoint.statebackends.evolution.changes import Evolution
from pyspark_savepoint.statebackends.evolution.report import content_of
from pyspark_savepoint.statebackends.jobs.restore.job_reader import Job
from pyspark_savepoint.statebackends.jobs.restore.restore_verdicts import Verdict
from pyspark_savepoint.statebackends.migration.rewriting.verdicts import MigrationVerdict, Outcome
from pyspark_savepoint.text.doors import of_page
from pyspark_savepoint.text.texts import numbered

#: What Flink does without a migration, and verdicts, in a sentence.
OUTCOMES = {
    Outcome.WRONG_VALUES: "reads other values of (without an error)",
    Outcome.FAILS: "fails at",
    Outcome.UNKNOWN: "may fail at",
}
WORDS = {MigrationVerdict.NEEDS.value: "need an argument", MigrationVerdict.AS_IS.value: "stay as they are"}


def restore_section(to: Section, snapshot: Snapshot, job: Job, flink: str | None) -> None:
    check = check_snapshot(snapshot, job, flink_version=flink)
    verdicts: list[dict[str, Any]] = check.to_arrow().to_pylist()
    verdicts.sort(key=lambda row: -Verdict(row["verdict"]).severity)
    release = "" if flink is None else f" on Flink {flink}"
    to.about = f"Verdict{release}: {check.verdict.value}."
    to.short = f"verdict{release}: {check.verdict.value}"
    reason = next(iter(verdicts[0]["reasons"] or ()), "") if verdicts else ""
    if reason:
        to.short += f"; {named(verdicts[0]['operator_uid'] or verdicts[0]['operator_uid_hash'] or '')}: {reason}"
    to.hints += [f"assumed about the job: {note}" for note in check.notes]
    rows = [
        (
            row["verdict"], row["operator_uid"] or row["operator_uid_hash"], row["job_operator"], row["matched_by"],
            "; ".join(row["reasons"] or ()), row["remedy"],
            "; ".join(f"{state['state']}: {state['verdict']}" for state in row["states"] or ()),
        )
        for row in verdicts
    ]  # fmt: skip
    columns = "verdict | operator | operator of the job | matched by | reasons. | what to do. | states"
    to.tables.append(table("Verdicts by operator, the worst first", columns, rows, choices=0))


def _outcome(of_backends: Set[str]) -> Outcome:
    """Return what Flink does with a part on the backend where it is worst."""
    if any(text.startswith(Outcome.WRONG_VALUES) for text in of_backends):
        return Outcome.WRONG_VALUES
    if any(text.startswith(Outcome.FAILS) for text in of_backends):
        return Outcome.FAILS
    return Outcome.UNKNOWN if Outcome.UNKNOWN in of_backends else Outcome.RESTORES


def migration_section(to: Section, surveys: Surveys, flink: str) -> None:
    rows: list[tuple[Any, ...]] = [
        (
            row["verdict"], label_of(row), row["state"], row["part"], row["reason"], row["remedy"], row["hashmap"],
            row["rocksdb"], row["type"], row["new_type"],
        )
        for row in surveys.migration(flink).to_arrow().to_pylist()
    ]  # fmt: skip
    rows.sort(key=lambda row: -MigrationVerdict(row[0]).severity)
    counts = {verdict: sum(row[0] == verdict for row in rows) for verdict in dict.fromkeys(row[0] for row in rows)}
    if not rows:
        to.short = to.about = "Nothing to migrate."
        return
    outcomes = Counter(_outcome({str(row[6]), str(row[7])}) for row in rows)
    total = numbered(len(rows), "part")
    outcome_texts = [f"{verb} {outcomes[kind]} of {total}" for kind, verb in OUTCOMES.items() if outcomes[kind]]
    to.short = (
        f"without a migration Flink {flink} {' and '.join(outcome_texts)}"
        if outcome_texts
        else f"Flink {flink} restores all as it is in a job with the same uids and types, which {code('--job')} checks"
    )
    verdicts = ", ".join(f"{number} {WORDS.get(verdict, verdict)}" for verdict, number in counts.items())
    to.short += f"; a migration: {verdicts}"
    if MigrationVerdict(rows[0][0]).severity > MigrationVerdict.REWRITTEN.severity:
        to.short += f"; the first, {named(rows[0][1], rows[0][2])}: {rows[0][5] or rows[0][4]}"
    to.about = (
        f"What {code(f'pyspark-savepoint migrate --flink {flink}')} does with each part of each state: {verdicts}. "
        f"Columns {code('hashmap')} and {code('RocksDB')} say what Flink {flink} does with the part on that backend if "
        "nothing is migrated."
    )
    columns = "verdict | operator | state | part | reason. | what to do. | hashmap | RocksDB | type | new type"
    caption = "What a migration does with each part, and what Flink does without one, the worst first"
    to.tables.append(table(caption, columns, rows, choices=0))


def evolved_of(savepoint: Examined, surveys: Surveys, evolution: Evolution | None) -> EvolutionReport | None:
    """Return what becomes of the state under a new query, or became of it; None if nothing is asked or known."""
    made = savepoint.plan.evolved
    if evolution is not None:
        return EvolutionReport(evolution, counted_entries(surveys))
    if made is None:
        return None
    return EvolutionReport(
        made.evolution, counted_entries(Surveys(at_path(savepoint, made.path, made.options))), counted_entries(surveys)
    )


def evolution_section(to: Section, evolved: EvolutionReport) -> None:
    to.short = f"states: {evolved.summary}"
    to.about = f"{evolved.evolution.outcome} Of the states: {evolved.summary}."
    to.hints += [f"{of_page(warning)}." for warning in evolved.warnings]
    rows = [
        (
            row["done"], row["new_uid"] or row["old_uid"], row["state"],
            *(None if row[name] is None else count_of(row[name]) for name in ("entries_before", "entries_after")),
            row["how"], row["operator"], row["old_uid"],
        )
        for row in evolved.rows()
    ]  # fmt: skip
    named = [
        (
            row["verdict"], row["field"], content_of(row["state"] or "") or "the key" * (row["state"] is None),
            row["reason"], row["new_uid"] or row["old_uid"], row["state"],
        )
        for row in evolved.evolution.to_rows()
        if row["field"] is not None
    ]  # fmt: skip
    if named:
        columns = "what becomes of it | column or aggregate | part of | how. | operator | state"
        to.tables.append(table("Columns and aggregates of the new query", columns, named, choices=0))
    columns = "done | operator | state | entries before# | entries after# | how. | description | uid before"
    to.tables.append(table("States under the new query", columns, rows, choices=0))
