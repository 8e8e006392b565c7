"""Entry of the command line: arguments to a command, errors to one block and an exit code.

This module imports little, so that Ctrl-C has its meaning before the others are imported: exit code 130 and one word,
whatever runs: imports, native code, destructors, or Python's own end.
"""

from __future__ import annotations

import errno
import gc
import io
import os
import signal
import sys

#: As in module typing, which is not imported.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager
    from types import FrameType
    from typing import Any, NoReturn

    from pyspark_savepoint.command_line.output import Output
    from pyspark_savepoint.formats.errors import SavepointError

DONE, FAILED, INTERRUPTED, PIPE_CLOSED = 0, 2, 130, 141


#: Errors of the file or device that standard output is.
OUTPUT_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
#: Set by a shell that completes a command line.
COMPLETING = "_ARGCOMPLETE"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code: 0 done, 1 findings, 2 errors, 3 unknown.

    Without ``arguments`` they are those of this process, which then does nothing else.
    """
    from pyspark_savepoint.command_line.output import Form, Output
    from pyspark_savepoint.formats.errors import SavepointError
    from pyspark_savepoint.formats.redaction import shown

    words = sys.argv[1:] if arguments is None else list(arguments)
    words = ["--help"] if words == ["help"] else words
    debug = "--debug" in words
    command = next((word for word in words if not word.startswith("-")), None)
    safe = "--safe-csv" in words and command != "export"  # which has it for its file
    form = Form.JSON if "--json" in words else Form.CSV if safe or "--csv" in words else Form.TEXT
    output = Output(sys.stdout, sys.stderr, form, None if "--wide" in words else _width(), command, safe=safe)
    try:
        code = _run(words, output, alone=arguments is None)
        sys.stdout.flush()
    except SavepointError as error:
        if debug:
            raise
        from pyspark_savepoint.command_line.wording import with_given_uid

        more = f"\n  more: {error.help}" if _has_help(error) else ""
        output.remark(f"error: {with_given_uid(error, words)}{more}")
        return FAILED
    except BrokenPipeError:
        # The reader closed the pipe, as `head` does: print nothing more, also when Python ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return PIPE_CLOSED
    except Exception as error:  # not exit code 1, which means findings
        if _hides_an_interrupt(error):
            raise KeyboardInterrupt from error
        if debug:
            raise
        if isinstance(error, OSError) and error.errno in OUTPUT_ERRORS and error.filename is None:
            output.remark(
                f"error: the output cannot be written: {error.strerror}\n"
                "  to do: write it elsewhere; what the command has done to savepoints and files stays"
            )
            return FAILED
        expected = isinstance(error, OSError | MemoryError)
        kind = "" if expected and str(error) else f"{type(error).__name__}: "
        remedy = "--debug shows where" if expected else "this is a bug: report it with the output of --debug"
        output.remark(f"error: {kind}{shown(str(error))}\n  to do: {remedy}")
        return FAILED
    return code


def _hides_an_interrupt(error: BaseException | None) -> bool:
    """Return whether an error is of Ctrl-C: Python 3.11 has a RuntimeError where it comes while a class is made."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__
    return error is not None


def _has_help(error: SavepointError) -> bool:
    """Return whether the page of errors helps. Of wrong arguments the error says all, and --help the rest."""
    from pyspark_savepoint.command_line.parsing import UsageError

    return not isinstance(error, UsageError)


def console() -> int:
    """Run a command as this process; return its exit code."""
    signal.signal(signal.SIGINT, _interrupt)
    sys.unraisablehook = _unraisable
    # Nearly all objects are imported code, which is not worth collecting.
    gc.set_threshold(50_000, 20, 20)
    try:
        _prepare_streams()
        if COMPLETING in os.environ:
            from pyspark_savepoint.command_line.completing import complete

            complete()
        return main()
    except KeyboardInterrupt:
        _say_interrupted()
        return INTERRUPTED
    finally:
        # From here on only Python's own end can be interrupted.
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def _interrupt(*_: int | FrameType | None) -> NoReturn:
    """Interrupt the command. Another Ctrl-C does not wait until it has cleaned up."""
    signal.signal(signal.SIGINT, _leave)
    raise KeyboardInterrupt


def _leave(*_: int | FrameType | None) -> NoReturn:
    _say_interrupted()
    os._exit(INTERRUPTED)


def _unraisable(unraisable: Any) -> None:
    """Leave if the interrupt hit a destructor or a callback, after which Python would go on."""
    if issubclass(unraisable.exc_type, KeyboardInterrupt):
        _leave()
    sys.__unraisablehook__(unraisable)


def _say_interrupted() -> None:
    os.write(2, b"interrupted\n")


def _prepare_streams() -> None:
    """Escape characters that the locale cannot print, and replace closed streams, so that printing never fails."""
    sys.stdout, sys.stderr = (
        open(os.devnull, "w", encoding="utf-8") if stream is None else stream  # noqa: SIM115
        for stream in (sys.stdout, sys.stderr)
    )
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _width() -> int | None:
    if not sys.stdout.isatty():
        return None
    from shutil import get_terminal_size

    return get_terminal_size().columns


def _run(words: list[str], output: Output, *, alone: bool) -> int:
    import warnings

    from pyspark_savepoint.command_line.parsing import UsageError, parse, parser
    from pyspark_savepoint.options.release import __version__

    encoding = sys.getfilesystemencoding()
    foreign = [word for word in words if any("\udc80" <= letter <= "\udcff" for letter in word)]
    if foreign and encoding != "utf-8":  # a name would be written as other letters
        raise UsageError(
            "a word of the command has letters that the locale does not have",
            found=f"{os.fsencode(foreign[0]).decode(errors='replace')}, where the locale has {encoding}",
            remedy="set LC_ALL=C.UTF-8, or PYTHONUTF8=1",
        )
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
    as_json, quiet = getattr(arguments, "json", False), getattr(arguments, "quiet", False)
    if as_json or quiet:
        from pyspark_savepoint.formats.kernels.interpretation import notice

        notice.silence()
    from pyspark_savepoint.formats.errors import SnapshotNotFoundError
    from pyspark_savepoint.formats.io.one_verb import one_verb

    with warnings.catch_warnings(), _showing(arguments), one_verb():
        warnings.simplefilter("always")
        warnings.simplefilter("ignore", ResourceWarning)  # of files that a Ctrl-C leaves to Python
        warnings.showwarning = _remarking(output)
        run = command(arguments)
        if alone and not getattr(arguments, "sql", None):
            _leave_pandas_out()
        _look_ahead(arguments)
        if getattr(arguments, "as_of", None) is not None:
            from pyspark_savepoint.command_line.reading import at_version

            command_arguments: Any = arguments  # of a command with this option
            return at_version(command_arguments.as_of, command_arguments, output, run)
        try:
            return run(arguments, output)
        except SnapshotNotFoundError:
            _expect_the_path_first(arguments)
            raise


class _WithoutPandas:
    """A finder of modules, for which pandas is not installed."""

    def find_spec(self, name: str, *_: object) -> None:
        """Refuse pandas, and leave all others to the next finder."""
        if name == "pandas":
            raise ModuleNotFoundError("No module named 'pandas'", name=name)


def _leave_pandas_out() -> None:
    """Let pyarrow find no pandas in this process. It imports it to recognise its objects, and commands have none."""
    if "pyarrow" in sys.modules and "pandas" not in sys.modules:
        import pyarrow as pa

        finder: Any = _WithoutPandas()
        sys.meta_path.insert(0, finder)
        try:
            pa.array([1]).to_numpy()  # each looks for pandas once in a process
        finally:
            sys.meta_path.remove(finder)


def _look_ahead(arguments: Namespace) -> None:
    """Begin to ask a store what is where the command will write; the command itself says what is wrong with that."""
    target = getattr(arguments, "target", None)
    if isinstance(target, str) and "://" in target:
        from contextlib import suppress

        from pyspark_savepoint.command_line.files import located
        from pyspark_savepoint.formats.errors import SavepointError
        from pyspark_savepoint.formats.snapshot.write_folder import look_ahead

        command_arguments: Any = arguments  # of a command with a target
        with suppress(SavepointError):
            look_ahead(located(command_arguments, target))


def _expect_the_path_first(arguments: Namespace) -> None:
    """Raise UsageError if the operator is a path that exists, as in ``show accounts /savepoints/savepoint-1``."""
    path, uid = getattr(arguments, "path", None), getattr(arguments, "uid", None)
    if isinstance(path, str) and isinstance(uid, str) and os.path.sep in uid and os.path.exists(uid):
        from pyspark_savepoint.command_line.parsing import UsageError

        raise UsageError(
            "the path of the snapshot comes before the operator",
            found=f"{path!r}, {uid!r}",
            remedy=f"pyspark-savepoint {arguments.command} {uid} {path}",
        )


def _showing(arguments: Namespace) -> AbstractContextManager[None]:
    """Show the progress of a command, unless it ends with a Ctrl-C only, or Spark runs it."""
    from pyspark_savepoint.text.progress import Mode, showing

    endless = getattr(arguments, "follow", False) or getattr(arguments, "sql", None)
    progress, quiet = getattr(arguments, "progress", False), getattr(arguments, "quiet", False)
    as_json = getattr(arguments, "json", False)
    nowhere = quiet or endless or (as_json and not progress)
    return showing(arguments.command, Mode.NOWHERE if nowhere else Mode.LINES if progress else Mode.TERMINALS)


def _remarking(output: Output) -> Callable[..., None]:
    from pyspark_savepoint.formats.redaction import shown

    def remark(message: Warning | str, *_: Any, **__: Any) -> None:
        output.remark(f"warning: {shown(str(message))}")

    return remark


def command(arguments: Namespace) -> Callable[[Namespace, Output], int]:
    """Return the function of a command; only its own module is imported."""
    from importlib import import_module

    from pyspark_savepoint.command_line.commands import COMMANDS

    runs = next(one.runs for one in COMMANDS if one.name == arguments.command)
    if arguments.command == "ls" and arguments.sql:
        from functools import partial

        from pyspark_savepoint.command_line.queries import ls_with_queries

        # Spark's own handler prints stack traces; the JVM ends with this process.
        return partial(ls_with_queries, leave=_leave if signal.getsignal(signal.SIGINT) is _interrupt else None)
    module, _, name = runs.partition(".")
    function: Callable[[Namespace, Output], int] = getattr(
        import_module(f"pyspark_savepoint.command_line.{module}"), name
    )
    return function
