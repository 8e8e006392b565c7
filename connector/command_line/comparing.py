"""Commands diff and schema: what differs in two snapshots; types as a file, and what differs from it."""

from __future__ import annotations

import json
from pathlib import Path

from pyspark_savepoint.api.local_savepoint import open_savepoint
from pyspark_savepoint.api.schema_forms import avro_schemas, json_schema
from pyspark_savepoint.api.schemas import differences, read_schema, schema_of, schema_text
from pyspark_savepoint.command_line.commands import Diff, Schema
from pyspark_savepoint.command_line.output import Output
from pyspark_savepoint.command_line.parsing import UsageError
from pyspark_savepoint.command_line.read_options import read_options
from pyspark_savepoint.command_line.reading import version_option
from pyspark_savepoint.formats.io.run_ahead import ahead
from pyspark_savepoint.statebackends.rows.json_values import kinds_of, row_to_json
from pyspark_savepoint.text.texts import numbered, replacing

SAME, DIFFERENT = 0, 1


def diff(arguments: Diff, output: Output) -> int:
    """Show the numbers of differences, or the rows of one operator that differ."""
    if arguments.limit < 0:
        raise UsageError("--limit must be 0 or more", found=arguments.limit)
    options = read_options(arguments)
    newer = {**options, **({} if arguments.new_as_of is None else version_option(arguments.new_as_of))}
    both = (arguments.path, options), (arguments.new, newer)
    # What one folder has is read once.
    together = "://" in arguments.new and arguments.new != arguments.path
    old, new = ahead(lambda one: open_savepoint(one[0], **one[1]), both, remote=together)
    if arguments.uid is not None:
        table = old.diff(new, arguments.uid, table=arguments.table, state=arguments.state)
        kinds = kinds_of(table.schema, parsed=output.as_json)
        rows = (row_to_json(row, kinds) for row in table.rows())
        row_count = output.table(table.schema.names, rows, limit=arguments.limit, more="--limit 0 shows all", lines=1)
        if not row_count:
            output.say("no differences")
        return DIFFERENT if row_count else SAME
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


def schema(arguments: Schema, output: Output) -> int:
    """Print or write the schema of a snapshot, or compare it with a file."""
    if arguments.check is not None and arguments.format != "savepoint":
        raise UsageError(f"--check cannot be combined with --format {arguments.format}", remedy="leave --format out")
    savepoint = open_savepoint(arguments.path, **read_options(arguments))
    if arguments.check == "":
        raise UsageError("--check must not be empty", remedy="name a file that schema PATH --file has written")
    if arguments.check is not None:
        mismatches = differences(read_schema(Path(arguments.check).expanduser()), schema_of(savepoint))
        for sentence in mismatches:
            output.say(sentence)
            output.record({"difference": sentence})
        output.say(f"{numbered(len(mismatches), 'difference')} from {arguments.check}")
        return DIFFERENT if mismatches else SAME
    if arguments.format == "avro":
        text = json.dumps(avro_schemas(savepoint), indent=2) + "\n"
    elif arguments.format == "json-schema":
        text = json.dumps(json_schema(savepoint), indent=2) + "\n"
    else:
        text = schema_text(schema_of(savepoint))
    if arguments.file is None:
        output.results.write(text)
        return SAME
    with replacing(Path(arguments.file).expanduser()) as pending:
        pending.write_text(text, encoding="utf-8")
    output.say(f"{arguments.file}: written")
    output.record({"file": arguments.file})
    return SAME
