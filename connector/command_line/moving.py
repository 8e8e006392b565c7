"""Command set-offsets: a savepoint whose source continues at other positions."""

from __future__ import annotations

from argparse import Namespace

from pyspark_savepoint.command_line.arguments import UsageError
from pyspark_savepoint.command_line.files import free_target, located, written
from pyspark_savepoint.command_line.output import Output
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.local.offset_changes import OffsetChange, position_of


def set_offsets(arguments: Namespace, output: Output) -> int:
    """Write the savepoint with other offsets."""
    if sum(bool(given) for given in (arguments.set, arguments.to, arguments.by is not None)) != 1:
        raise UsageError("give --set, --to or --by: one of them", remedy="pyspark-savepoint set-offsets --help")
    offsets: dict[str, int | str] = {}
    for text in arguments.set:
        # Names of topics and files may contain the mark, positions do not.
        split, mark, position = text.rpartition("=")
        if not (mark and split and position):
            raise UsageError("--set takes SPLIT=POSITION", expected="such as orders-3=1200", found=repr(text))
        if split in offsets:
            raise UsageError(f"--set names {split!r} twice")
        offsets[split] = position_of(position)
    source = Snapshot.open(located(arguments, arguments.path), allow_outside=arguments.allow_outside)
    change = OffsetChange(offsets or None, arguments.to, arguments.by, arguments.connector)
    for note in change.write(source, arguments.uid, free_target(arguments)):
        output.remark(f"warning: {note}")
    return written(arguments, output)
