"""How commands find their files and tell what they wrote, and ``vacuum``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark_savepoint.command_line.commands import Vacuum
from pyspark_savepoint.command_line.declarations import Arguments
from pyspark_savepoint.command_line.output import Output, Row
from pyspark_savepoint.command_line.parsing import UsageError
from pyspark_savepoint.command_line.read_options import read_options
from pyspark_savepoint.command_line.shared_arguments import Opens, WithTarget
from pyspark_savepoint.formats.errors import OptionError
from pyspark_savepoint.formats.filesystems.filesystem import absolute
from pyspark_savepoint.formats.io.local_files import read_regular
from pyspark_savepoint.formats.json_text import parse_json
from pyspark_savepoint.formats.snapshot.relocation import FileCopy
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.formats.snapshot.vacuum import vacuum
from pyspark_savepoint.formats.snapshot.write_folder import to_free_path
from pyspark_savepoint.options.option_fields import seconds
from pyspark_savepoint.options.option_values import to_options
from pyspark_savepoint.options.paths import reached, snapshot_path
from pyspark_savepoint.statebackends.requests.table_options import InvalidOptionValueError
from pyspark_savepoint.text.texts import numbered, readable_size

if TYPE_CHECKING:
    from pyspark_savepoint.statebackends.jobs.restore.job_reader import Job

DONE = 0
MAX_JOB_BYTES = 1 << 27


def located(arguments: Arguments, path: str) -> str:
    """Return an absolute path with the storage options of the arguments."""
    return reached(absolute(snapshot_path(path)), to_options(read_options(arguments)))


def job_at(name: str, arguments: Opens) -> Job:
    """Return the job of a JSON file, or the snapshot at the path."""
    path = Path(name).expanduser()
    if not path.is_file() or path.name == "_metadata":
        return Snapshot.open(located(arguments, name), allow_outside=arguments.allow_outside)
    if path.stat().st_size > MAX_JOB_BYTES:
        raise OptionError(
            "the file is too large to be the description of a job", path=str(path), expected="a few kilobytes"
        )
    try:
        job = parse_json(read_regular(str(path), MAX_JOB_BYTES))
    except ValueError as error:
        found, remedy = str(error), "correct it there, or write the file again"
        if isinstance(error, UnicodeDecodeError):
            found, remedy = f"at byte {error.start}, bytes that are not UTF-8", "save the file as UTF-8"
        raise OptionError(
            "the file is not the description of a job",
            path=str(path),
            expected="JSON: a description, an execution plan, or the plan of the REST interface",
            found=found,
            remedy=remedy,
        ) from None
    if not isinstance(job, Mapping):
        raise OptionError(
            "the file is not the description of a job",
            path=str(path),
            expected="a JSON object",
            found=type(job).__name__,
        )
    return job


def free_target(arguments: Arguments, target: str) -> str:
    """Return the path of the new savepoint; raise StateExistsError if the folder is not new or empty."""
    path = located(arguments, target)
    to_free_path(path)
    return path


def vacuum_files(arguments: Vacuum, output: Output) -> int:
    """Delete leftovers of failed writes, or list them."""
    try:
        age = seconds(arguments.older_than)
    except InvalidOptionValueError as refused:
        raise UsageError("--older-than takes an age", expected=str(refused), found=repr(arguments.older_than)) from None
    stale = vacuum(located(arguments, arguments.path), age, arguments.dry_run)
    rows = [
        {
            "path": one.path,
            "kind": one.kind,
            "bytes": one.size,
            "modified": None if one.modified is None else datetime.fromtimestamp(one.modified, UTC),
        }
        for one in stale
    ]
    output.table(("path", "kind", "bytes", "modified"), rows)
    verb = "would be deleted" if arguments.dry_run else "deleted"
    output.say(f"{numbered(len(stale), 'entry', 'entries')}, {readable_size(sum(one.size for one in stale))}, {verb}")
    return DONE


def not_written(arguments: WithTarget, output: Output, operators: int, copies: Sequence[FileCopy] = ()) -> int:
    """Print what ``--dry-run`` has not written."""
    target, size = absolute(arguments.target), sum(copy.size for copy in copies)
    files = f", {numbered(len(copies), 'file')}, {readable_size(size)}" if copies else ""
    output.say(f"nothing was written: {target} would have {numbered(operators, 'operator')}{files}")
    output.record({"path": target, "operators": operators, "files": len(copies), "bytes": size, "dry_run": True})
    return DONE


def written(arguments: Arguments, target: str, output: Output, more: Row | None = None) -> int:
    """Print what was written to the target; ``more`` is in the record too."""
    operators = Snapshot.open(located(arguments, target), allow_outside=True).operators
    state = sum(operator.state_size for operator in operators)
    target = absolute(target)
    output.say(f"{target}: {numbered(len(operators), 'operator')}, {readable_size(state)} of state")
    output.record({"path": target, "operators": len(operators), "state_bytes": state, **(more or {})})
    return DONE
