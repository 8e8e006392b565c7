"""Command completion, and what a shell that completes a command line asks for.

The shell runs the command with the line in its environment; ``argcomplete`` answers from the parser. Operators and
states come from the snapshot of the line, if it is on this machine: a key press must not wait for an object store.
"""

from __future__ import annotations

from argparse import Action, ArgumentParser, Namespace
from collections.abc import Iterator
from typing import Any

from pyspark_savepoint.command_line.commands import Completion
from pyspark_savepoint.command_line.output import Output
from pyspark_savepoint.command_line.parsing import PROGRAM, parser
from pyspark_savepoint.formats.errors import SavepointError

DONE = 0
#: Arguments that are completed from the snapshot.
OF_SNAPSHOT = ("uid", "state", "table")


def completion(arguments: Completion, output: Output) -> int:
    """Print the code that the shell reads."""
    from argcomplete.shell_integration import shellcode

    output.results.write(shellcode([PROGRAM], shell=arguments.shell))
    return DONE


def complete() -> None:
    """Answer the shell, and end the process."""
    from argcomplete import autocomplete

    top = parser()
    for action in _arguments(top):
        if action.dest in OF_SNAPSHOT:
            action.completer = of_snapshot(action.dest)  # type: ignore[attr-defined]  # argcomplete's own attribute
        elif action.dest == "option":
            action.completer = of_options  # type: ignore[attr-defined]  # argcomplete's own attribute
    autocomplete(top, always_complete_options="long")


def _arguments(top: ArgumentParser) -> Iterator[Action]:
    """Yield the arguments of all commands."""
    for action in top._actions:  # argparse lists its arguments nowhere else
        commands = action.choices if isinstance(action.choices, dict) else {}
        for command in commands.values():
            yield from command._actions  # argparse lists its arguments nowhere else


def of_snapshot(column: str) -> Any:
    """Return a function that lists operators, states or tables of the snapshot of a line."""

    def listed(parsed_args: Namespace, **_: Any) -> list[str]:
        from pyspark_savepoint.api.local_savepoint import open_savepoint

        path = getattr(parsed_args, "path", None)
        if not path or "://" in path:
            return []
        try:
            rows = list(open_savepoint(path).states().rows())
        except SavepointError:
            return []
        if column == "uid":
            names = [row["operator_uid"] or row["operator_uid_hash"] for row in rows]
        else:
            uid = getattr(parsed_args, "uid", None)
            names = [row[column] for row in rows if uid in (row["operator_uid"], row["operator_uid_hash"])]
        return [name for name in dict.fromkeys(names) if name]

    return listed


def of_options(prefix: str, **_: Any) -> list[str]:
    """Return the options of the data source that start with the prefix."""
    from pyspark_savepoint.options.option_fields import named
    from pyspark_savepoint.options.options import SavepointReadOptions

    return [f"{name}=" for name, _ in named(SavepointReadOptions) if name.casefold().startswith(prefix.casefold())]
