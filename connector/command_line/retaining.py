"""Command retained: which bytes each checkpoint of a folder holds, and files that none needs."""

from __future__ import annotations

from argparse import Namespace
from datetime import UTC, datetime

from pyspark_savepoint.command_line.files import located
from pyspark_savepoint.command_line.output import Output
from pyspark_savepoint.execution.texts import numbered, readable_size
from pyspark_savepoint.formats.snapshot.retained import retained

DONE = 0
MAX_SHOWN = 5


def retained_snapshots(arguments: Namespace, output: Output) -> int:
    """Show what each snapshot holds, or the files that none needs."""
    found = retained(located(arguments, arguments.path), lambda path: located(arguments, path))
    if arguments.unneeded:
        output.table(
            ("path", "bytes", "modified", "note"),
            (
                {"path": one.path, "bytes": one.size, "modified": _time(one.modified), "note": one.note}
                for one in found.unneeded
            ),
        )
    else:
        output.table(
            ("path", "kind", "checkpoint_id", "time", "alone", "shared", "outside", "problem"),
            (
                {
                    "path": one.snapshot.path,
                    "kind": one.snapshot.kind.value,
                    "checkpoint_id": one.snapshot.checkpoint_id,
                    "time": _time(one.snapshot.modified),
                    "alone": one.alone,
                    "shared": one.shared,
                    "outside": one.outside,
                    "problem": one.snapshot.problem,
                }
                for one in found.snapshots
            ),
        )
    if found.unknown:
        more = f"; and {len(found.unknown) - MAX_SHOWN} more" * (len(found.unknown) > MAX_SHOWN)
        output.remark(
            f"which files none needs is not known, and none is listed: {'; '.join(found.unknown[:MAX_SHOWN])}{more}"
        )
    elif found.unneeded:
        size = readable_size(sum(one.size for one in found.unneeded))
        told = "" if arguments.unneeded else "; --unneeded lists them"
        output.say(f"{numbered(len(found.unneeded), 'file')}, {size}, that no snapshot below the folder needs{told}")
        output.remark("nothing was deleted: a running job, or snapshots elsewhere, may still need these files")
    else:
        output.say("each file is needed by a snapshot below the folder")
    return DONE


def _time(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)
