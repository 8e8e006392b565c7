"""Command diff: what differs in two snapshots."""

from __future__ import annotations

from argparse import Namespace

from pyspark_savepoint.command_line.arguments import UsageError, read_options
from pyspark_savepoint.command_line.output import Output
from pyspark_savepoint.command_line.reading import version_option
from pyspark_savepoint.local.local_savepoint import open_savepoint
from pyspark_savepoint.statebackends.model.json_values import kinds_of, row_to_json

SAME, DIFFERENT = 0, 1


def diff(arguments: Namespace, output: Output) -> int:
    """Show the numbers of differences, or the rows of one operator that differ."""
    if arguments.limit < 0:
        raise UsageError("--limit must be 0 or more", found=arguments.limit)
    options = read_options(arguments)
    newer = {**options, **({} if arguments.new_as_of is None else version_option(arguments.new_as_of))}
    old, new = open_savepoint(arguments.path, **options), open_savepoint(arguments.new, **newer)
    if arguments.uid is not None:
        found = old.diff(new, arguments.uid, table=arguments.table, state=arguments.state)
        kinds = kinds_of(found.schema)
        rows = (row_to_json(row, kinds) for row in found.rows())
        shown = output.table(found.schema.names, rows, limit=arguments.limit, more="--limit 0 shows all", lines=1)
        if not shown:
            output.say("no differences")
        return DIFFERENT if shown else SAME
    counted = list(old.diff(new).rows())
    differs = [
        row
        for row in counted
        if row["operator_change"] or row["note"] or any(row[name] for name in ("added", "removed", "changed"))
    ]
    output.table(
        ("operator", "operator_change", "table", "state", "before", "after", "added", "removed", "changed", "note"),
        ({"operator": row["operator_uid"] or row["operator_uid_hash"], **row} for row in differs),
    )
    output.say(f"{len(differs)} of {len(counted)} states differ")
    return DIFFERENT if differs else SAME
