"""Command rekey: another type of an operator's keys, or other keys."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark_savepoint.api.local_savepoint import LocalSavepoint
from pyspark_savepoint.command_line.commands import Rekey
from pyspark_savepoint.command_line.edits import (
    arrow_type,
    finished,
    keyed_table,
    more_options,
    opened,
    sizes_of,
    type_pair,
)
from pyspark_savepoint.command_line.output import Output
from pyspark_savepoint.command_line.parsing import UsageError
from pyspark_savepoint.command_line.row_files import RowsOfFile, expect_columns, rows_of_file
from pyspark_savepoint.plan.operator_plan import OperatorPlan
from pyspark_savepoint.statebackends.writing.new_keys import NEW, OLD
from pyspark_savepoint.text.texts import numbered


def rekey(arguments: Rekey, output: Output) -> int:
    """Write an operator under other keys: each in another type, or as a file says."""
    if arguments.file is None and not arguments.type and "typesFrom" not in more_options(arguments):
        raise UsageError(
            "give the type of the new keys, or a file with them",
            expected="--type key=LONG, or a file with columns key and new_key",
            remedy="pyspark-savepoint rekey --help",
        )
    base = opened(arguments, arguments.path)
    operator = base.plan.operator(arguments.uid)
    types = dict(type_pair(text) for text in arguments.type)
    rows = None if arguments.file is None else _pairs(arguments, arguments.file, base, operator, types)
    options: dict[str, Any] = more_options(arguments) | ({"types": types} if types else {})
    savepoint = base.rekey(operator.identifier, rows, **options)
    new = savepoint.plan.operator(operator.identifier)
    if arguments.dry_run:
        for check in new.checks:
            check.run(new)
    assert new.key_serializer is not None
    change = {"change": "new keys", "operator": operator.label, "key_type": new.key_serializer.flink_type}
    if rows is not None and arguments.file is not None:
        change["note"] = f"{numbered(rows.count, 'key')} of {Path(arguments.file).name}"
    return finished(arguments, arguments.target, output, savepoint, [change | sizes_of(base, operator).of()])


def _pairs(
    arguments: Rekey, file: str, base: LocalSavepoint, operator: OperatorPlan, types: dict[str, str]
) -> RowsOfFile:
    """Return the rows of the file, in the types of the old keys and of the new ones."""
    kind = keyed_table(base, operator)[1].schema.field("key").type
    new = arrow_type(OLD, types[OLD], arguments) if OLD in types else kind
    path = Path(file).expanduser()
    rows = rows_of_file(path, arguments.format, {OLD: kind} | ({NEW: new} if new is not None else {}))
    expect_columns(rows, (OLD, NEW), "the file", path)
    return rows
