"""Commands that write a snapshot elsewhere, as it is: cp, pin, relocate."""

from __future__ import annotations

from typing import Any

from pyspark_savepoint.api.copies import copy_snapshot, hold, planned_copies, relocate_snapshot
from pyspark_savepoint.api.local_savepoint import open_savepoint
from pyspark_savepoint.command_line.commands import Cp, Pin, Relocate
from pyspark_savepoint.command_line.edits import finished
from pyspark_savepoint.command_line.files import located, not_written, written
from pyspark_savepoint.command_line.output import Output
from pyspark_savepoint.command_line.read_options import read_options
from pyspark_savepoint.formats.filesystems.filesystem import LocalFileSystem, absolute
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.text.texts import numbered


def copy(arguments: Cp, output: Output) -> int:
    """Copy a snapshot with all of its files."""
    if arguments.portable or arguments.checksums:
        options: dict[str, Any] = read_options(arguments)
        return finished(arguments, arguments.target, output, open_savepoint(arguments.path, **options), [])
    source = Snapshot.open(located(arguments, arguments.path), allow_outside=arguments.allow_outside)
    target = located(arguments, arguments.target)
    if arguments.dry_run:
        copies = planned_copies(source, target, arguments.checkpoint_id)
        return not_written(arguments, output, len(source.operators), copies)
    copy_snapshot(source, target, arguments.checkpoint_id)
    return written(arguments, arguments.target, output)


def pin(arguments: Pin, output: Output) -> int:
    """Hold a snapshot with all of its files."""
    source = Snapshot.open(located(arguments, arguments.path), allow_outside=arguments.allow_outside)
    target = located(arguments, arguments.target)
    if arguments.dry_run:
        copies = planned_copies(source, target, arguments.checkpoint_id)
        return not_written(arguments, output, len(source.operators), copies)
    savepoint = open_savepoint(arguments.path, **read_options(arguments))
    file_count, copied = hold(savepoint, target, arguments.checkpoint_id)
    kind = "hard links" if isinstance(source.location.filesystem, LocalFileSystem) else "copies by the store"
    output.say(f"{source.path}: {numbered(file_count, 'file')} held by {kind}, {numbered(copied, 'file')} copied")
    return written(arguments, arguments.target, output)


def relocate(arguments: Relocate, output: Output) -> int:
    """Write a savepoint whose files are those of a snapshot, at another prefix."""
    # The handles are rewritten and none is opened, so that they may name any folder.
    source = Snapshot.open(located(arguments, arguments.path), allow_outside=True)
    target = located(arguments, arguments.target)
    old, new = arguments.old, arguments.new
    snapshot_folder, number = absolute(arguments.path), arguments.checkpoint_id
    relocate_snapshot(source, snapshot_folder, target, old, new, number, dry_run=arguments.dry_run)
    if arguments.dry_run:
        return not_written(arguments, output, len(source.operators))
    return written(arguments, arguments.target, output)
