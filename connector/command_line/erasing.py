"""Commands erase and verify-erasure."""

from __future__ import annotations

import os
import posixpath
from pathlib import Path
from typing import Any

from pyspark_savepoint.api.erasures import erase_if_there, new_salt
from pyspark_savepoint.api.local_savepoint import LocalSavepoint
from pyspark_savepoint.command_line.commands import SEVERITIES, Erase, VerifyErasure
from pyspark_savepoint.command_line.edits import opened
from pyspark_savepoint.command_line.files import free_target, written
from pyspark_savepoint.command_line.output import Output
from pyspark_savepoint.command_line.parsing import UsageError
from pyspark_savepoint.command_line.read_options import read_options
from pyspark_savepoint.command_line.row_files import file_form, rows_of_file, text_of_file
from pyspark_savepoint.formats.errors import OptionError, SavepointError, SnapshotNotFoundError
from pyspark_savepoint.formats.filesystems.filesystem import absolute
from pyspark_savepoint.formats.snapshot.savepoint import find_snapshots
from pyspark_savepoint.text.texts import is_integer, numbered, replacing, writable

DONE, FOUND, FAILED = 0, 1, 2
#: What stands beside a report: the same for people, and its salt.
MARKDOWN, SALT = ".md", ".salt"
REMOVED = ("operator", "table", "state", "seen", "removed")


def erase(arguments: Erase, output: Output) -> int:
    """Erase keys from a snapshot, and from all below a folder; write reports."""
    keys, options = _keys(arguments), _options(arguments)
    if (arguments.all_below is None) != (arguments.all_to is None):
        raise UsageError("--all-below and --all-to go together: the folder to read, and the folder to write")
    if arguments.all_below is not None and arguments.checkpoint_id is not None:
        raise UsageError(
            "--checkpoint-id is the number of one savepoint, and --all-below writes several",
            remedy="leave one of them out: without a number, each keeps its own",
        )
    if arguments.accept and not arguments.strict:
        raise UsageError("--accept names places for --strict, which is not set")
    base = opened(arguments, arguments.path)
    free_target(arguments, arguments.target)
    _expect_report_files(arguments)
    if options["salt"] is None:
        salt = options["salt"] = new_salt()
        if arguments.salt_file is not None:
            _write_salt(Path(arguments.salt_file).expanduser(), salt)
    below = _below(arguments, base)  # before anything is written there
    removed = _erased(base, arguments, output, arguments.target, arguments.report, keys, options) or 0
    if not arguments.dry_run:
        written(arguments, arguments.target, output)
    failed = 0
    for path, new in below:
        output.say("")
        output.say(path)
        try:
            other = opened(arguments, path)
            own = None if arguments.report is None else _report_beside(new, path, arguments.report)
            count = _erased(other, arguments, output, new, own, keys, options, may_be_gone=True)
            if count is None:
                output.say("not self-contained: its files belong to other checkpoints too; nothing was written")
                output.record({"path": path, "self_contained": False})
            removed += count or 0
        except SavepointError as error:
            failed += 1
            output.say(f"not erased: {error}")
            output.record({"path": path, "problem": str(error)})
    if failed:
        output.say("")
        output.say(f"{numbered(failed, 'snapshot')} below {arguments.all_below} not erased")
        return FAILED
    return FOUND if arguments.dry_run and removed else DONE


def _erased(
    base: LocalSavepoint,
    arguments: Erase,
    output: Output,
    target: str,
    path: str | None,
    keys: Any,
    options: Any,
    *,
    may_be_gone: bool = False,
) -> int | None:
    """Erase keys from one snapshot, write its report, show what matters of it, and return how many rows were removed.

    None if it ``may_be_gone``, and has files of other checkpoints.
    """
    common: dict[str, Any] = {
        "to": target,
        "dry_run": arguments.dry_run,
        "strict": arguments.strict,
        "accept": arguments.accept,
        "flink_version": arguments.flink,
        "portable": arguments.portable,
        "checkpoint_id": arguments.checkpoint_id,
        **options,
    }
    report = erase_if_there(base, keys, **common) if may_be_gone else base.erase(keys, below=arguments.below, **common)
    if report is None:
        return None
    if path is not None:
        whole = Path(path).expanduser()
        if may_be_gone:
            whole.parent.mkdir(parents=True, exist_ok=True)
        if arguments.salt_file is None:
            _write_salt(_beside(path), str(report.salt))
        for file, text in ((whole, report.to_json()), (whole.with_suffix(MARKDOWN), report.to_markdown())):
            with replacing(file) as pending:
                pending.write_text(text, encoding="utf-8")
    output.table(REMOVED, (row for row in report.rows() if row["removed"]))
    verb = "would be removed: nothing was written" if arguments.dry_run else "removed"
    output.say(f"{numbered(report.removed, 'row')} {verb}")
    for note in report.notes():
        output.say(note)
    if report.content["below"] is None and not may_be_gone:
        output.say("other snapshots of the job were not searched: --below names their folder")
    return report.removed


def _below(arguments: Erase, base: LocalSavepoint) -> list[tuple[str, str]]:
    """Return the other snapshots below a folder, and where each is written."""
    if arguments.all_below is None or arguments.all_to is None:
        return []
    folder, target = absolute(arguments.all_below), absolute(arguments.all_to)
    others = [snapshot.path for snapshot in find_snapshots(folder) if snapshot.path != base.path]
    return [(path, posixpath.join(target, posixpath.relpath(path, folder))) for path in others]


def _report_beside(new: str, path: str, report: str) -> str:
    """Return the file for the report of a snapshot: beside the new one, or beside another report if that is remote."""
    if "://" in new:
        name = posixpath.basename(path.rstrip("/"))
        return str(Path(report).with_name(f"{Path(report).stem}-{name}.report.json"))
    return f"{new}.report.json"


def verify_erasure(arguments: VerifyErasure, output: Output) -> int:
    """Prove an erasure."""
    report = text_of_file(Path(arguments.report).expanduser())
    options = _options(arguments)
    if arguments.salt_file is not None and options["salt"] is None:
        raise SnapshotNotFoundError("there is no such file", path=arguments.salt_file)
    if arguments.salt_file is None and _beside(arguments.report).exists():
        options["salt"] = _read_salt(_beside(arguments.report))
    del options["by"], options["record_types"]
    findings = opened(arguments, arguments.path).verify_erasure(
        report, _keys(arguments), old=arguments.old, accept=arguments.accept, **options
    )
    output.table(("severity", "check", "evidence"), findings)
    errors = sum(one["severity"] == SEVERITIES[0] for one in findings)
    output.say("proved" if not errors else f"not proved: {numbered(errors, 'error')}")
    return FOUND if errors else DONE


def _keys(arguments: Erase | VerifyErasure) -> Any:
    """Return the keys of the command line, or rows of a file; words without a type are texts, and numbers too."""
    if arguments.keys is not None and arguments.keys_file is not None:
        raise UsageError("give --keys or --keys-file: one of them")
    words: list[str] | None = arguments.keys
    if arguments.keys_file is not None:
        path = Path(arguments.keys_file).expanduser()
        form = file_form(path, arguments.format)
        if form != "text":
            return rows_of_file(path, form, {})
        words = [line for line in text_of_file(path).splitlines() if line.strip()]
        if not words:
            raise OptionError("the file has no keys", path=str(path))
    if words is None:
        return None
    return [key for word in words for key in ((word, int(word)) if is_integer(word) else (word,))]


def _options(arguments: Erase | VerifyErasure) -> dict[str, Any]:
    by: dict[str, Any] = {}
    for text in getattr(arguments, "by", ()):
        name, mark, column = text.partition("=")
        if not mark or not name or not column:
            raise UsageError("--by takes UID=COLUMN, or UID:FIELD=COLUMN", found=repr(text))
        uid, colon, field = name.partition(":")
        if colon:
            by.setdefault(uid, {})[field] = column
        else:
            by[uid] = column
    record_types = {}
    for text in getattr(arguments, "record_type", ()):
        part, mark, kind = text.partition("=")
        if not mark or not part.strip() or not kind.strip():
            raise UsageError("--record-type takes UID.PART=TYPE, such as 'orders.input 0=LONG'", found=repr(text))
        record_types[part.strip()] = kind.strip()
    where = {}
    for text in arguments.where:
        name, mark, condition = text.partition(":")
        if not mark or not name.strip() or not condition.strip():
            raise UsageError("--where takes UID: CONDITION, or UID.STATE: CONDITION", found=repr(text))
        where[name.strip()] = condition.strip()
    salt = None
    if arguments.salt_file is not None and Path(arguments.salt_file).expanduser().exists():
        salt = _read_salt(Path(arguments.salt_file).expanduser())
    read_options(arguments)
    return {"by": by, "where": where, "salt": salt, "record_types": record_types}


def _beside(report: str) -> Path:
    """Return the file with the salt of a report, if none is named."""
    return Path(report).expanduser().with_suffix(SALT)


def _read_salt(path: Path) -> str:
    salt = text_of_file(path).strip()
    if not salt:
        raise OptionError("the file has no salt", path=str(path))
    return salt


def _write_salt(path: Path, salt: str) -> None:
    """Write a salt to a file that only its owner can read."""
    with replacing(path, 0o600) as pending:
        pending.write_text(salt + "\n", encoding="utf-8")


def _expect_report_files(arguments: Erase) -> None:
    """Raise an error before anything is erased if a report could not be written: without its salt nothing is proved."""
    salt = None if arguments.salt_file is None else Path(arguments.salt_file).expanduser()
    if arguments.report is None:
        files = []
    elif arguments.report == "":
        raise UsageError("--report must not be empty", remedy="--report report.json")
    else:
        report = writable(Path(arguments.report).expanduser())
        if report.suffix in (MARKDOWN, SALT):
            raise UsageError(
                f"--report names the file of JSON: beside it is one with the suffix {report.suffix}",
                found=arguments.report,
                remedy="--report report.json",
            )
        files = [report, writable(report.with_suffix(MARKDOWN))]
        files += [writable(_beside(arguments.report))] if salt is None else []
        if arguments.all_to is not None and "://" in absolute(arguments.all_to):
            raise UsageError(
                "--report writes to a file of this machine. Reports of --all-to are beside the savepoints",
                found=arguments.all_to,
                remedy="leave --report out, or erase them one by one",
            )
    if salt is not None and os.path.realpath(salt) in map(os.path.realpath, files):
        raise UsageError("--report and --salt-file write the same file", found=str(salt), remedy="name two files")
