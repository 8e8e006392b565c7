"""Entry of the command line: arguments to a command, errors to one block and an exit code."""

from __future__ import annotations

import gc
import io
import os
import shutil
import sys
import warnings
from argparse import Namespace
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pyspark_savepoint.command_line.arguments import parse, parser
from pyspark_savepoint.command_line.output import Output
from pyspark_savepoint.formats.errors import SavepointError
from pyspark_savepoint.formats.redaction import shown
from pyspark_savepoint.options.release import __version__

DONE, FAILED, INTERRUPTED, PIPE_CLOSED = 0, 2, 130, 141


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code: 0 done, 1 findings, 2 errors, 3 unknown."""
    try:
        return _ended(sys.argv[1:] if arguments is None else list(arguments))
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED


def _ended(words: list[str]) -> int:
    """Run a command and print its error, if it ends with one; return its exit code."""
    debug = "--debug" in words
    output = Output(sys.stdout, sys.stderr, "--json" in words, _width())
    try:
        code = _run(words, output)
        sys.stdout.flush()
    except SavepointError as error:
        if debug:
            raise
        print(f"error: {error}", file=sys.stderr)
        return FAILED
    except BrokenPipeError:
        # The reader closed the pipe, as `head` does: print nothing more, also when Python ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return PIPE_CLOSED
    except Exception as error:  # not exit code 1, which means findings
        if debug:
            raise
        expected = isinstance(error, OSError | MemoryError)
        kind = "" if expected and str(error) else f"{type(error).__name__}: "
        remedy = "--debug shows where" if expected else "this is a bug: report it with the output of --debug"
        print(f"error: {kind}{shown(str(error))}\n  to do: {remedy}", file=sys.stderr)
        return FAILED
    return code


def console() -> int:
    """Run as a process of its own. Collect garbage rarely, since nearly all objects are imported code."""
    gc.set_threshold(50_000, 20, 20)
    _prepare_streams()
    return main()


def _prepare_streams() -> None:
    """Escape characters that the locale cannot print, and replace closed streams, so that printing never fails."""
    sys.stdout, sys.stderr = (
        Path(os.devnull).open("w", encoding="utf-8") if stream is None else stream  # noqa: SIM115
        for stream in (sys.stdout, sys.stderr)
    )
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _width() -> int | None:
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def _run(words: list[str], output: Output) -> int:
    try:
        arguments = parse(words)
    except SystemExit as end:  # --help, which argparse has printed
        return int(end.code or 0)
    if arguments.version:
        output.say(__version__)
        return DONE
    if arguments.command is None:
        parser().print_help()
        return FAILED
    if arguments.json:
        from pyspark_savepoint.formats.kernels.interpretation import notice

        notice.silence()
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = _remarking(output)
        return command(arguments)(arguments, output)


def _remarking(output: Output) -> Callable[..., None]:
    def remark(message: Warning | str, *_: Any, **__: Any) -> None:
        output.remark(f"warning: {shown(str(message))}")

    return remark


def command(arguments: Namespace) -> Callable[[Namespace, Output], int]:
    """Return the function of a command; only its own code is imported."""
    name = arguments.command
    if name == "ls" and arguments.sql:
        from pyspark_savepoint.command_line.queries import ls_with_queries

        return ls_with_queries
    if name in ("vacuum", "cp", "relocate"):
        from pyspark_savepoint.command_line import files

        return {"vacuum": files.vacuum_files, "cp": files.copy, "relocate": files.relocate}[name]
    if name == "check-restore":
        from pyspark_savepoint.command_line.restoring import check_restore_of

        return check_restore_of
    if name in ("check-migration", "migrate"):
        from pyspark_savepoint.command_line import migrating

        return {"check-migration": migrating.check_migration_of, "migrate": migrating.migrate}[name]
    if name == "set-offsets":
        from pyspark_savepoint.command_line.moving import set_offsets

        return set_offsets
    if name == "diff":
        from pyspark_savepoint.command_line.comparing import diff

        return diff
    if name == "doctor":
        from pyspark_savepoint.command_line.diagnosing import doctor

        return doctor
    if name == "export":
        from pyspark_savepoint.command_line.exporting import export

        return export
    if name == "schema":
        from pyspark_savepoint.command_line.schemas import schema

        return schema
    if name == "warm-up":
        from pyspark_savepoint.command_line.warming import warm_up

        return warm_up
    from pyspark_savepoint.command_line import reading

    return {
        "ls": reading.ls,
        "show": reading.show,
        "sizes": reading.sizes,
        "heaviest": reading.heaviest,
        "offsets": reading.offsets,
        "verify": reading.verify,
    }[name]
