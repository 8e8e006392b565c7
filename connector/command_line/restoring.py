"""Commands check-restore, check-migration and migrate.

The verdicts of the restore check as text, JSON and JUnit XML, and as an exit code; from Flink 1 to Flink 2.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from pyspark_savepoint.api.jobs import restore_check
from pyspark_savepoint.api.local_savepoint import LocalSavepoint, open_savepoint
from pyspark_savepoint.api.migrations import SavepointMigration
from pyspark_savepoint.command_line.commands import CheckMigration, CheckRestore, Migrate
from pyspark_savepoint.command_line.files import free_target, job_at, located, not_written, written
from pyspark_savepoint.command_line.output import Output
from pyspark_savepoint.command_line.parsing import UsageError
from pyspark_savepoint.command_line.read_options import read_options
from pyspark_savepoint.formats.flink_releases import first_with_metadata
from pyspark_savepoint.formats.redaction import printable
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.statebackends.jobs.restore.restore_verdicts import RestoreCheck, Verdict
from pyspark_savepoint.statebackends.migration.rewriting.verdicts import MigrationCheck, MigrationVerdict
from pyspark_savepoint.text.texts import replacing

RESTORES, FAILS, UNKNOWN = 0, 1, 3
BAD = (Verdict.FAILS, Verdict.IS_MISREAD)
RESTORED = {RESTORES: True, FAILS: False, UNKNOWN: None}
OUTCOME = {
    RESTORES: "Flink restores the snapshot.",
    FAILS: "Flink does not restore the snapshot, or reads some of it wrongly.",
    UNKNOWN: "This description of the job does not determine whether Flink restores the snapshot.",
}
UNKNOWN_TYPES = "the description of the job has no types for it"


def check_restore_of(arguments: CheckRestore, output: Output) -> int:
    """Check whether a job would restore a snapshot."""
    if arguments.path.endswith(".json") and Path(arguments.path).expanduser().is_file():
        raise UsageError(
            "the snapshot is the first argument and the job the second",
            found=arguments.path,
            remedy=f"pyspark-savepoint check-restore {arguments.job} {arguments.path}",
        )
    savepoint = open_savepoint(arguments.path, **read_options(arguments))
    check = restore_check(
        savepoint.job(job_at(arguments.job, arguments), stream_graph_hasher=arguments.hasher),
        flink_version=arguments.flink,
        state_backend=arguments.state_backend,
        allow_non_restored_state=arguments.allow_non_restored_state,
        classes=arguments.classes,
        old_plan=None if arguments.old_plan is None else Path(arguments.old_plan),
    )
    unclear = [] if arguments.ids_only else check.undescribed
    code = exit_code(check, unclear)
    rows = [output.in_own_words(row) for row in check.to_arrow().to_pylist()]
    for note in check.notes:
        output.remark(f"assumed about the job: {note}")
    output.record(
        {"verdict": check.verdict.value, "restores": RESTORED[code], "types_not_described": unclear, "operators": rows}
    )
    if not output.as_json:
        _print(rows, output)
        if unclear:
            output.say(f"The description of the job has no types for {', '.join(unclear)}; --ids-only accepts that.")
        output.say(OUTCOME[code])
    if arguments.junit is not None:
        with replacing(Path(arguments.junit).expanduser()) as pending:
            pending.write_bytes(junit(str(savepoint.path), rows, unclear))
    return code


def exit_code(check: RestoreCheck, unclear: Sequence[str]) -> int:
    """Return 0 if Flink restores the snapshot, 1 if it fails or reads state wrongly, 3 if that is not known."""
    verdicts = {row.verdict for row in check.operators}
    if verdicts & set(BAD):
        return FAILS
    return UNKNOWN if unclear or Verdict.UNKNOWN in verdicts else RESTORES


def _print(rows: Sequence[Mapping[str, Any]], output: Output) -> None:
    for row in rows:
        output.say(f"{row['verdict']:<20}{_label(row)}")
        for reason in row["reasons"]:
            output.say(f"    {reason}")
        for state in row["states"]:
            output.say(f"    {_state(state)}")
        if row["remedy"]:
            output.say(f"    to do: {row['remedy']}")


def _label(row: Mapping[str, Any]) -> str:
    return str(row["operator_uid"] or row["job_operator"] or row["operator_uid_hash"] or "the snapshot")


def _state(state: Mapping[str, Any]) -> str:
    name = ".".join(filter(None, (state["state"], state["part"])))
    return f"{name}: " + ", ".join(filter(None, (state["verdict"], state["reason"])))


def junit(path: str, rows: Sequence[Mapping[str, Any]], unclear: Sequence[str]) -> bytes:
    """Return the verdicts as JUnit XML: a test case per operator, which fails where the restore does."""
    failed = sum(row["verdict"] in BAD for row in rows)
    skipped = sum(row["verdict"] == Verdict.UNKNOWN or row["job_operator"] in unclear for row in rows)
    suite = ElementTree.Element("testsuite", name=printable(f"restore of {path}"), tests=str(len(rows)), errors="0")
    suite.set("failures", str(failed))
    suite.set("skipped", str(skipped))
    for row in rows:
        case = ElementTree.SubElement(suite, "testcase", classname="restore", name=printable(_label(row)))
        text = "\n".join(map(printable, _details(row)))
        if row["verdict"] in BAD:
            ElementTree.SubElement(case, "failure", type="restore", message=row["verdict"]).text = text
        elif row["verdict"] == Verdict.UNKNOWN or row["job_operator"] in unclear:
            message = UNKNOWN_TYPES if row["job_operator"] in unclear else row["verdict"]
            ElementTree.SubElement(case, "skipped", message=message).text = text
        else:
            ElementTree.SubElement(case, "system-out").text = f"{row['verdict']}\n{text}".rstrip()
    text = ElementTree.tostring(suite, encoding="unicode")
    return f"<?xml version='1.0' encoding='utf-8'?>\n{text}\n".encode()


def _details(row: Mapping[str, Any]) -> Iterator[str]:
    yield from row["reasons"]
    yield from map(_state, row["states"])
    if row["remedy"]:
        yield f"to do: {row['remedy']}"


NEEDS_MIGRATION = 1
#: States that a line names.
MAX_NAMES = 6
COLUMNS = ("operator", "verdict", "state", "part", "type", "hashmap", "rocksdb", "values", "changed", "reason")


def check_migration_of(arguments: CheckMigration, output: Output) -> int:
    """Show the verdicts about all parts of a snapshot."""
    check = _migration(arguments).verdicts()
    verdicts = check.to_arrow().to_pylist()
    if not arguments.all and output.is_text:
        verdicts = [row for row in verdicts if row["verdict"] != MigrationVerdict.AS_IS]
    for row in verdicts:
        row["operator"] = row["operator_uid"] or row["operator_uid_hash"]
    output.table(COLUMNS, verdicts)
    for remedy, names in _by_remedy(check).items():
        output.say(f"to do for {_listed(names)}: {remedy}")
    for module in check.opening:
        output.say(module)
    output.say(_summary(check))
    return RESTORES if check.restores else NEEDS_MIGRATION


def migrate(arguments: Migrate, output: Output) -> int:
    """Write the migrated savepoint."""
    migration = _migration(arguments)
    check = migration.publish(
        free_target(arguments, arguments.target), checkpoint_id=arguments.checkpoint_id, dry_run=arguments.dry_run
    )
    for part in check.parts:
        if part.verdict is MigrationVerdict.IS_LOST and not part.ref.is_named(migration.named):
            output.say(f"is lost in {part.label}: {part.reason}")
    for module in check.opening:
        output.say(module)
    if arguments.dry_run:
        return not_written(arguments, output, len(migration.savepoint.plan.operators))
    done = written(arguments, arguments.target, output)
    version = Snapshot.open(located(arguments, arguments.target), allow_outside=True).metadata.version
    output.say(f"starts on Flink {first_with_metadata(version).name} and newer")
    return done


def _migration(arguments: CheckMigration | Migrate) -> SavepointMigration[LocalSavepoint, Any]:
    return open_savepoint(arguments.path, **read_options(arguments)).migrate(
        arguments.flink,
        classes=arguments.classes,
        types=dict(map(_column_type, arguments.type)),
        types_from=arguments.types_from,
        kryo_types=arguments.kryo_types,
        drop=getattr(arguments, "drop", ()),
        as_is=getattr(arguments, "as_is", ()),
        parallelism=arguments.parallelism,
    )


def _column_type(text: str) -> tuple[str, str]:
    name, equals, kind = text.partition("=")
    if not equals:
        raise UsageError("--type takes STATE=TYPE", expected="such as accounts.tags=LIST<STRING>", found=repr(text))
    return name, kind


def _by_remedy(check: MigrationCheck) -> dict[str, list[str]]:
    """Return the parts that keep a migration from being written, by their remedy."""
    by_remedy: dict[str, list[str]] = {}
    for part in check.missing:
        if part.remedy:
            by_remedy.setdefault(part.remedy, []).append(part.label)
    return by_remedy


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
    return ", ".join(names[:MAX_NAMES]) + more


def _summary(check: MigrationCheck) -> str:
    counts = Counter(part.verdict for part in check.parts)
    return ", ".join(f"{counts[verdict]} {verdict}" for verdict in MigrationVerdict if counts[verdict]) or "no state"
