"""Command set-offsets: a savepoint whose source continues at other positions."""

from __future__ import annotations

import re
from argparse import Namespace

from pyspark_savepoint.command_line.arguments import UsageError, read_options
from pyspark_savepoint.command_line.edits import opened
from pyspark_savepoint.command_line.files import free_target, written
from pyspark_savepoint.command_line.output import Output


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
    moved = opened(arguments, arguments.path).with_offsets(
        arguments.uid, offsets or None, to=arguments.to, by=arguments.by, connector=arguments.connector
    )
    free_target(arguments)
    moved.write(arguments.target, storage_options=read_options(arguments).get("storageOptions"))
    return written(arguments, output)


def position_of(text: str) -> int | str:
    """Return a position from text: a number, or a word such as ``earliest``.

    >>> position_of("1200"), position_of("earliest")
    (1200, 'earliest')
    """
    return int(text) if re.fullmatch(r"[+-]?[0-9]{1,19}", text) else text
