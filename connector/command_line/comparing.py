"""Command diff: what differs in two snapshots."""

from __future__ import annotations

from argparse import Namespace

from pyspark_savepoint.command_line.arguments import UsageError, read_options
from pyspark_savepoint.command_line.output import Output, first_rows
from pyspark_savepoint.local.comparing import changed_rows, count_differences
from pyspark_savepoint.local.local_savepoint import open_savepoint

SAME, DIFFERENT = 0, 1


def diff(arguments: Namespace, output: Output) -> int:
    """Show the numbers of differences, or the rows of one operator that differ."""
    options = read_options(arguments)
    old, new = open_savepoint(arguments.path, **options), open_savepoint(arguments.new, **options)
    if arguments.uid is not None:
        if arguments.limit < 0:
            raise UsageError("--limit must be 0 or more", found=arguments.limit)
        found = changed_rows(old, new, arguments.uid, arguments.table, arguments.state)
        rows = list(first_rows(found.rows, arguments.limit, output, "--limit 0 shows all"))
        output.table(found.columns, rows)
        if not rows:
            output.say("no differences")
        return DIFFERENT if rows else SAME
    counted = count_differences(old, new)
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
