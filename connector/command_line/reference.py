"""The reference of all commands, as Markdown."""

from __future__ import annotations

from collections.abc import Iterator

from pyspark_savepoint.command_line.commands import COMMANDS
from pyspark_savepoint.command_line.declarations import Argument, Command
from pyspark_savepoint.command_line.parsing import PROGRAM


def markdown() -> str:
    """Return the reference of all commands, for the README."""
    return "\n".join(line for command in COMMANDS for line in _section(command))


def _section(command: Command) -> Iterator[str]:
    positional = [_placeholder(argument) for argument in command.arguments if not argument.names[0].startswith("-")]
    yield f"### `{' '.join([PROGRAM, command.name, *positional])}`\n"
    yield f"{command.about[0].upper()}{command.about[1:]}." + (f" {command.more}" if command.more else "")
    yield "\n| argument | meaning |\n| --- | --- |"
    for argument in command.arguments:
        yield f"| `{_usage(argument)}` | {argument.settings['help']} |".replace("a|b", "a or b")
    yield "\n```bash"
    yield from (f"{PROGRAM} {example}" for example in command.examples)
    yield "```\n"


def _placeholder(argument: Argument) -> str:
    name = str(argument.settings.get("metavar", argument.names[0])).upper()
    nargs = argument.settings.get("nargs")
    return f"[{name}]" if nargs == "?" else f"{name}..." if nargs == "+" else name


def _usage(argument: Argument) -> str:
    names = ", ".join(argument.names)
    if not names.startswith("-"):
        return str(argument.settings.get("metavar", names))
    value = argument.settings.get("metavar")
    value = " ".join(value) + " ..." if isinstance(value, tuple) else value
    value = value or ", ".join(argument.settings.get("choices", ()))
    takes = value or ("" if "action" in argument.settings else names.lstrip("-").upper())
    return f"{names} {takes}".strip()
