"""Commands check-migration and migrate: from Flink 1 to Flink 2."""

from __future__ import annotations

from argparse import Namespace
from collections import Counter
from collections.abc import Sequence

from pyspark_savepoint.command_line.arguments import UsageError
from pyspark_savepoint.command_line.files import free_target, located, written
from pyspark_savepoint.command_line.output import Output
from pyspark_savepoint.execution.migrating import LISTED, Migration, migration_of
from pyspark_savepoint.formats.flink_releases import first_with_metadata
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.statebackends.migration.rewriting.verdicts import MigrationCheck, MigrationVerdict

RESTORES, NEEDS_MIGRATION = 0, 1
COLUMNS = ("operator", "verdict", "state", "part", "type", "hashmap", "rocksdb", "values", "changed", "reason")


def check_migration_of(arguments: Namespace, output: Output) -> int:
    """Show the verdicts about all parts of a snapshot."""
    check = _migration(arguments).check()
    shown = check.to_arrow().to_pylist()
    if not arguments.all and output.is_text:
        shown = [row for row in shown if row["verdict"] != MigrationVerdict.AS_IS]
    for row in shown:
        row["operator"] = row["operator_uid"] or row["operator_uid_hash"]
    output.table(COLUMNS, shown)
    for remedy, names in _by_remedy(check).items():
        output.say(f"to do for {_listed(names)}: {remedy}")
    for needed in check.opening:
        output.say(needed)
    output.say(_summary(check))
    return RESTORES if check.restores else NEEDS_MIGRATION


def migrate(arguments: Namespace, output: Output) -> int:
    """Write the migrated savepoint."""
    migration = _migration(arguments)
    check = migration.write(free_target(arguments))
    for part in check.parts:
        if part.verdict is MigrationVerdict.IS_LOST and not part.ref.is_named(migration.drop | migration.as_is):
            output.say(f"is lost in {part.label}: {part.reason}")
    for needed in check.opening:
        output.say(needed)
    done = written(arguments, output)
    version = Snapshot.open(located(arguments, arguments.target), allow_outside=True).metadata.version
    output.say(f"starts on Flink {first_with_metadata(version).name} and newer")
    return done


def _migration(arguments: Namespace) -> Migration:
    given = arguments.types_from
    return migration_of(
        _open(arguments, arguments.path),
        arguments.flink,
        classes=arguments.classes,
        types=dict(map(_named_type, arguments.type)),
        types_from=None if given is None else _open(arguments, given),
        kryo_types=arguments.kryo_types,
        drop=getattr(arguments, "drop", ()),
        as_is=getattr(arguments, "as_is", ()),
    )


def _open(arguments: Namespace, path: str) -> Snapshot:
    return Snapshot.open(located(arguments, path), allow_outside=arguments.allow_outside)


def _named_type(text: str) -> tuple[str, str]:
    name, equals, kind = text.partition("=")
    if not equals:
        raise UsageError("--type takes STATE=TYPE", expected="such as accounts.tags=LIST<STRING>", found=repr(text))
    return name, kind


def _by_remedy(check: MigrationCheck) -> dict[str, list[str]]:
    """Return the parts that keep a migration from being written, by their remedy."""
    found: dict[str, list[str]] = {}
    for part in check.missing:
        if part.remedy:
            found.setdefault(part.remedy, []).append(part.label)
    return found


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
    return ", ".join(names[:LISTED]) + more


def _summary(check: MigrationCheck) -> str:
    counts = Counter(part.verdict for part in check.parts)
    return ", ".join(f"{counts[verdict]} {verdict}" for verdict in MigrationVerdict if counts[verdict]) or "no state"
