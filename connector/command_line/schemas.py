"""Command schema: operators, states and types of a snapshot as a file, and its comparison with one."""

from __future__ import annotations

import json
from argparse import Namespace
from pathlib import Path

from pyspark_savepoint.command_line.arguments import UsageError, read_options
from pyspark_savepoint.command_line.output import Output
from pyspark_savepoint.execution.texts import numbered, replacing
from pyspark_savepoint.local.local_savepoint import open_savepoint
from pyspark_savepoint.local.schema_forms import avro_schemas, json_schema
from pyspark_savepoint.local.schemas import differences, read_schema, schema_of, schema_text

DONE, FOUND = 0, 1


def schema(arguments: Namespace, output: Output) -> int:
    """Print or write the schema of a snapshot, or compare it with a file."""
    if arguments.check is not None and arguments.to != "savepoint":
        raise UsageError(f"--check cannot be combined with --to {arguments.to}", remedy="leave --to out")
    savepoint = open_savepoint(arguments.path, **read_options(arguments))
    if arguments.check == "":
        raise UsageError("--check must not be empty", remedy="name a file that schema PATH --file has written")
    if arguments.check is not None:
        found = differences(read_schema(Path(arguments.check).expanduser()), schema_of(savepoint))
        for sentence in found:
            output.say(sentence)
            output.record({"difference": sentence})
        output.say(f"{numbered(len(found), 'difference')} from {arguments.check}")
        return FOUND if found else DONE
    if arguments.to == "avro":
        text = json.dumps(avro_schemas(savepoint), indent=2) + "\n"
    elif arguments.to == "json-schema":
        text = json.dumps(json_schema(savepoint), indent=2) + "\n"
    else:
        text = schema_text(schema_of(savepoint))
    if arguments.file is None:
        output.results.write(text)
        return DONE
    with replacing(Path(arguments.file).expanduser()) as pending:
        pending.write_text(text, encoding="utf-8")
    output.say(f"{arguments.file}: written")
    output.record({"file": arguments.file})
    return DONE
