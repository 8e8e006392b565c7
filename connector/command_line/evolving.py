"""Commands evolve and catch-up: what becomes of a SQL job's state, and of its sinks, under its new query."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from pyspark_savepoint.api.evolution_checks import text_of
from pyspark_savepoint.api.local_savepoint import LocalSavepoint
from pyspark_savepoint.command_line.commands import CatchUp, Evolve
from pyspark_savepoint.command_line.edits import opened
from pyspark_savepoint.command_line.files import free_target, located, written
from pyspark_savepoint.command_line.output import Output
from pyspark_savepoint.command_line.parsing import UsageError
from pyspark_savepoint.command_line.read_options import read_options
from pyspark_savepoint.command_line.row_files import rows_of_file
from pyspark_savepoint.formats.errors import OptionError, UnsupportedStateError
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.plan.backfills import types_of_texts
from pyspark_savepoint.statebackends.evolution.changes import Evolution
from pyspark_savepoint.statebackends.evolution.evolution import check_options, evolution_of
from pyspark_savepoint.statebackends.evolution.plans import read_plan
from pyspark_savepoint.statebackends.evolution.report import lines_of
from pyspark_savepoint.statebackends.evolution.stable_plan import stable_plan
from pyspark_savepoint.statebackends.rows.json_values import kinds_of, row_to_json
from pyspark_savepoint.text.texts import replacing, writable

#: Exit code if nothing is written until more is said or given.
REFUSED = 2


def evolve(arguments: Evolve, output: Output) -> int:
    """Say what becomes of the state; write the savepoint, and the plan with stable ids, where they are asked for."""
    evolution = decided(arguments)
    target = arguments.target
    writes = not arguments.dry_run and evolution.exit_code != REFUSED
    for line in lines_of(evolution):
        output.say(line)
    evolved = None
    if target is not None and evolution.exit_code != REFUSED:
        try:
            evolved = _evolved(arguments, target, types_of_texts(evolution))
        except UnsupportedStateError as error:
            if not arguments.dry_run:
                raise
            output.say(f"it is not written like this: {error.facts.get('found', error.message)}")
    if arguments.stable_plan is not None:
        _write_stable(arguments, arguments.stable_plan, evolution)
    result: dict[str, Any] = {}
    if target is not None and evolved is not None and writes:
        report = evolved.write(
            target,
            flink_version=arguments.flink,
            portable=arguments.portable,
            checkpoint_id=arguments.checkpoint_id,
            storage_options=read_options(arguments).get("storageOptions"),
        ).evolution
        for line in report.lines():
            output.say(line)
        result = {"counts": report.counts, "states": report.rows()}
    output.record(
        {
            "verdict": evolution.verdict.value,
            "exit_code": evolution.exit_code,
            "warnings": list(evolution.warnings),
            "to_give": sorted({field.backfill for field in evolution.needed if field.backfill}),
            "rows": evolution.to_rows(),
            **result,
        }
    )
    if target is not None and result:
        written(arguments, target, output)
    elif target is not None:
        output.say(f"nothing was written to {target}")
    return evolution.exit_code


def catch_up(arguments: CatchUp, output: Output) -> int:
    """Show the changes that bring a sink from the old query's result to the new one's; exit code 1 if there are any."""
    if arguments.limit < 0:
        raise OptionError("--limit must be 0 or more", found=arguments.limit)
    table = opened(arguments, arguments.path).catch_up(
        opened(arguments, arguments.evolved),
        Path(arguments.old_plan),
        Path(arguments.new_plan),
        sink=arguments.sink,
    )
    kinds = kinds_of(table.schema, parsed=output.as_json)
    rows = (row_to_json(row, kinds) for row in table.rows())
    row_count = output.table(table.schema.names, rows, True, arguments.limit, "--limit 0 shows all", lines=1)
    if not row_count:
        output.say("no changes")
    return int(bool(row_count))


def _evolved(arguments: Evolve, target: str, types: Mapping[str, Mapping[str, pa.DataType]]) -> LocalSavepoint:
    """Return the savepoint for the new query, not written yet; the target must be free.

    ``types`` are those of the columns that are given, by the name of what they are given for.
    """
    free_target(arguments, target)
    files = pairs("--backfill", arguments.backfill)
    rows = {
        name: rows_of_file(Path(file).expanduser(), None, types.get(name, {}), names_types=False)
        for name, file in files.items()
    }
    return opened(arguments, arguments.path).evolve(
        Path(arguments.old_plan),
        Path(arguments.new_plan),
        fill=arguments.fill,
        backfill=rows,
        filters=arguments.filters,
        nodes=pairs("--node", arguments.node),
        sources=pairs("--source", arguments.source),
        columns=pairs("--column", arguments.column),
        casts=pairs("--cast", arguments.cast),
        old_explain=_explained(arguments.old_explain),
        new_explain=_explained(arguments.new_explain),
    )


def _explained(path: str | None) -> Path | None:
    return None if path is None else Path(path)


def decided(arguments: Evolve) -> Evolution:
    """Return what becomes of the snapshot's operators, as the arguments say."""
    options = check_options(
        fill=arguments.fill,
        backfill=pairs("--backfill", arguments.backfill),
        filters=arguments.filters,
        nodes=pairs("--node", arguments.node),
        sources=pairs("--source", arguments.source),
        columns=pairs("--column", arguments.column),
        casts=pairs("--cast", arguments.cast),
    )
    return evolution_of(
        Path(arguments.old_plan),
        Path(arguments.new_plan),
        options,
        Snapshot.open(located(arguments, arguments.path), allow_outside=arguments.allow_outside),
        old_explain=None if arguments.old_explain is None else text_of(Path(arguments.old_explain)),
        new_explain=None if arguments.new_explain is None else text_of(Path(arguments.new_explain)),
    )


def pairs(name: str, texts: Sequence[str]) -> dict[str, str]:
    """Return what an option gives as NEW=OLD, once for each name."""
    result: dict[str, str] = {}
    for text in texts:
        one, sign, other = text.partition("=")
        if not sign or not one or not other:
            raise UsageError(f"{name} takes a name and what it is", expected="NAME=VALUE", found=text)
        if one in result:
            raise UsageError(f"{name} names {one} twice", found=f"{one}={result[one]}, {text}")
        result[one] = other
    return result


def _write_stable(arguments: Evolve, path: str, evolution: Evolution) -> None:
    target = writable(Path(path).expanduser())
    document: Mapping[str, Any] = stable_plan(read_plan(Path(arguments.new_plan), "new_plan"), evolution)
    with replacing(target) as pending:
        pending.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
