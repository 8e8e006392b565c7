"""Command set-offsets: a savepoint whose source continues at other positions."""

from __future__ import annotations

import re

from pyspark_savepoint.api.local_savepoint import LocalSavepoint
from pyspark_savepoint.command_line.commands import SetOffsets
from pyspark_savepoint.command_line.edits import opened
from pyspark_savepoint.command_line.files import free_target, written
from pyspark_savepoint.command_line.output import Output, Row
from pyspark_savepoint.command_line.parsing import UsageError
from pyspark_savepoint.command_line.read_options import read_options
from pyspark_savepoint.command_line.reading import DONE
from pyspark_savepoint.formats.filesystems.filesystem import absolute
from pyspark_savepoint.formats.metadata.identifiers import OperatorIdentifier
from pyspark_savepoint.statebackends.connectors.connector_table import positions_of
from pyspark_savepoint.statebackends.requests.request import TableRequest
from pyspark_savepoint.text.texts import numbered


def set_offsets(arguments: SetOffsets, output: Output) -> int:
    """Write the savepoint with other offsets."""
    if sum(bool(is_present) for is_present in (arguments.set, arguments.reset, arguments.by is not None)) != 1:
        raise UsageError("give --set, --reset or --by: one of them", remedy="pyspark-savepoint set-offsets --help")
    offsets: dict[str, int | str] = {}
    for text in arguments.set:
        # Names of topics and files may contain the mark, positions do not.
        split, mark, position = text.rpartition("=")
        if not (mark and split and position):
            raise UsageError("--set takes SPLIT=POSITION", expected="such as orders-3=1200", found=repr(text))
        if split in offsets:
            raise UsageError(f"--set names {split!r} twice")
        offsets[split] = position_of(position)
    base = opened(arguments, arguments.path)
    moved = base.sources.with_offsets(
        arguments.uid,
        offsets or None,
        reset=arguments.reset,
        by=arguments.by,
        clamp=arguments.clamp,
        connector=arguments.connector,
    )
    pairs = zip(base.plan.operators, moved.plan.operators, strict=True)
    uid = next(new.identifier for old, new in pairs if new is not old)
    free_target(arguments, arguments.target)
    positions = _positions(base, moved, uid, arguments.connector)
    if output.is_text:
        output.table(("split", "before", "after"), positions, all_columns=True)
        changed = sum(row["before"] != row["after"] for row in positions)
        output.say(f"{changed} of {numbered(len(positions), 'position')} {'change' if changed != 1 else 'changes'}")
    moved.write(
        arguments.target,
        checkpoint_id=arguments.checkpoint_id,
        storage_options=read_options(arguments).get("storageOptions"),
        dry_run=arguments.dry_run,
    )
    if arguments.dry_run:
        count = len(moved.plan.operators)
        output.say(f"nothing was written: {absolute(arguments.target)} would have {numbered(count, 'operator')}")
        output.record({"path": absolute(arguments.target), "operators": count, "dry_run": True, "positions": positions})
        return DONE
    return written(arguments, arguments.target, output, {"positions": positions})


def _positions(
    before: LocalSavepoint, after: LocalSavepoint, uid: OperatorIdentifier, connector: str | None
) -> list[Row]:
    """Return the positions of all splits of a source before and after a change."""

    def of(savepoint: LocalSavepoint) -> dict[str, str | None]:
        base = savepoint.plan.operator(uid).base
        assert base is not None
        request = TableRequest(base.path, connector=connector)
        return {
            "-".join(part for part in (row["stream"], row["partition"]) if part is not None): row["position"]
            for row in positions_of(base.snapshot, base.operator, request)
        }

    old, new = of(before), of(after)
    names = sorted({**old, **new}, key=lambda name: (len(name), name))
    return [{"split": name, "before": old.get(name), "after": new.get(name)} for name in names]


def position_of(text: str) -> int | str:
    """Return a position from text: a number, or a word such as ``earliest``.

    >>> position_of("1200"), position_of("earliest")
    (1200, 'earliest')
    """
    return int(text) if re.fullmatch(r"[+-]?[0-9]{1,19}", text) else text
