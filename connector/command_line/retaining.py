"""Command retained: which bytes each checkpoint of a folder holds, and files that none needs."""

from __future__ import annotations

from pyspark_savepoint.api.retained_files import (
    RETAINED_SCHEMA,
    UNNEEDED,
    retained_below,
    retained_rows,
    uncertainty,
    unneeded_rows,
)
from pyspark_savepoint.command_line.commands import Retained
from pyspark_savepoint.command_line.output import Output
from pyspark_savepoint.command_line.read_options import read_options
from pyspark_savepoint.formats.filesystems.filesystem import absolute
from pyspark_savepoint.options.option_values import to_options
from pyspark_savepoint.options.paths import snapshot_path
from pyspark_savepoint.text.texts import numbered, readable_size

DONE = 0


def retained_snapshots(arguments: Retained, output: Output) -> int:
    """Show what each snapshot holds, or the files that none needs."""
    retained = retained_below(absolute(snapshot_path(arguments.path)), to_options(read_options(arguments)))
    if arguments.unneeded:
        output.table(tuple(UNNEEDED.names), unneeded_rows(retained))
    else:
        output.table(tuple(RETAINED_SCHEMA.names), retained_rows(retained))
    if retained.unknown:
        output.remark(uncertainty(retained))
    elif retained.unneeded:
        size = readable_size(sum(one.size for one in retained.unneeded))
        hint = "" if arguments.unneeded else "; --unneeded lists them"
        output.say(f"{numbered(len(retained.unneeded), 'file')}, {size}, that no snapshot below the folder needs{hint}")
        output.remark("nothing was deleted: a running job, or snapshots elsewhere, may still need these files")
    else:
        output.say("each file is needed by a snapshot below the folder")
    return DONE
