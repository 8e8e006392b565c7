"""The command line is parsed: help, and answers to misspelt commands and options."""

from __future__ import annotations

import argparse
import re
import sys
import textwrap
from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, NoReturn

from pyspark_savepoint.command_line.commands import CHECK, COMMANDS, COPY, EDIT, LOOK, TOOL
from pyspark_savepoint.command_line.declarations import Arguments, arguments_of, option
from pyspark_savepoint.formats.errors import OptionError, did_you_mean, nearest

if TYPE_CHECKING:
    from _typeshed import SupportsWrite

PROGRAM = "pyspark-savepoint"
ABOUT = "Look into Apache Flink savepoints and checkpoints, check, edit and copy them: without Flink, Spark and Java."
EXIT_CODES = """exit codes:
  0  done, and nothing was found
  1  findings: errors in the snapshot, differences, a job that would not
     restore it
  2  wrong usage, or an error
  3  check-restore: the description of the job is not sufficient to tell"""
WIDTH = 80

#: What options were called before, by command where it matters.
FORMER = {
    "--keys-from": "--keys-file",
    "--output": "--file",
    "--from": "--start",
    "changes --to": "--end",
    "export --to": "--format",
    "schema --to": "--format",
    "set-offsets --to": "--reset",
    "warm-up --to": "--file",
}


class Top(Arguments):
    """Arguments without a command."""

    version: bool = option("show the version")
    help: bool = option("show this help message")


TOP = arguments_of((Top,))


class UsageError(OptionError):
    """The arguments are wrong."""


class CommandParser(argparse.ArgumentParser):
    """Parser whose errors are raised, as one message."""

    def error(self, message: str) -> NoReturn:
        message = re.sub(r"argument (\S+): invalid int value: ('.*')", r"\1 is \2, expected a whole number", message)
        choice = re.search(r"invalid choice: '(.*?)' \(choose from (.*)\)", message)
        close = nearest(choice[1], re.findall(r"[\w-]+", choice[2])) if choice else []
        hint = f"did you mean {' or '.join(map(repr, close))}? " if close else ""
        raise UsageError(message, remedy=f"{hint}{self.prog} --help")

    def print_help(self, file: SupportsWrite[str] | None = None) -> None:
        """Print the help; an error of the output is none that argparse hides."""
        (file or sys.stdout).write(self.format_help())


def parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    listed = "\n\n".join(f"{group}:\n{_listed(group)}" for group in (LOOK, CHECK, EDIT, COPY, TOOL))
    examples = "\n".join(_example(command.examples[0]) for command in COMMANDS[:3])
    top = CommandParser(
        PROGRAM,
        usage=f"{PROGRAM} COMMAND ...",
        description=f"{_wrapped(ABOUT)}\n\ncommands:\n\n{listed}",
        epilog=f"examples:\n{examples}\n\n{EXIT_CODES}\n\n{PROGRAM} COMMAND --help shows the arguments of a command.",
        formatter_class=_formatter,
        allow_abbrev=False,
    )
    top.add_argument(*TOP[0].names, **TOP[0].settings)
    commands = top.add_subparsers(dest="command", parser_class=CommandParser, help=argparse.SUPPRESS)
    for command in COMMANDS:
        examples = "\n".join(map(_example, command.examples))
        more = f"\n\n{_wrapped(command.more)}" if command.more else ""
        one = commands.add_parser(
            command.name,
            prog=f"{PROGRAM} {command.name}",
            description=_wrapped(f"{command.about[0].upper()}{command.about[1:]}.") + more,
            epilog=f"examples:\n{examples}",
            formatter_class=_formatter,
            allow_abbrev=False,
        )
        for argument in command.all_arguments:
            one.add_argument(*argument.names, **argument.settings)
    return top


def _listed(group: str) -> str:
    """Return the commands of a group, a line or two for each."""
    names = max(len(command.name) for command in COMMANDS)
    return "\n".join(
        _wrapped(command.about, f"  {command.name:<{names}}  ", " " * (names + 4))
        for command in COMMANDS
        if command.group == group
    )


def _example(text: str) -> str:
    """Return a command line as a shell takes it, in lines that fit."""
    lines = [f"  {PROGRAM}"]
    for word in re.findall(r"""(?:"[^"]*"|'[^']*'|\S)+""", text):
        if len(lines[-1]) + len(word) + 3 > WIDTH:
            lines.append("    ")
        lines[-1] += f" {word}"
    return " \\\n".join(lines)


def _wrapped(text: str, first: str = "", others: str = "") -> str:
    return textwrap.fill(text, WIDTH, initial_indent=first, subsequent_indent=others, break_on_hyphens=False)


def _formatter(prog: str) -> argparse.HelpFormatter:
    return argparse.RawDescriptionHelpFormatter(prog, max_help_position=28, width=WIDTH)


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """Parse arguments; a path without a command is listed. Raise UsageError, which names the nearest command."""
    words = list(argv)
    first = words[0] if words else ""
    names = [command.name for command in COMMANDS]
    if first and not first.startswith("-") and first not in names:
        if not re.search(r"[/\\:.~]", first):
            raise UsageError(
                f"there is no command {first!r}",
                remedy=f"{did_you_mean(first, names)} ({PROGRAM} --help lists them)"
                if nearest(first, names)
                else f"{PROGRAM} help {first.replace('-', ' ')} looks for an answer",
            )
        words.insert(0, "ls")
    if first in ("--json", "--csv", "--safe-csv", "--wide", "--progress", "--quiet", "--debug"):
        raise UsageError(f"{first} must come after the command", remedy=f"{PROGRAM} ls PATH {first}")
    for csv in ("--csv", "--safe-csv"):
        if "--json" in words and csv in words:
            raise UsageError(f"--json and {csv} exclude each other", remedy="give one of them")
    if "--quiet" in words and "--progress" in words:
        raise UsageError("--progress and --quiet exclude each other", remedy="give one of them")
    arguments, unknown = parser().parse_known_args(words)
    if unknown:
        listed = next((one.all_arguments for one in COMMANDS if one.name == arguments.command), TOP)
        options = [name for argument in listed for name in argument.names if name.startswith("--")]
        name = unknown[0].partition("=")[0]
        now = FORMER.get(f"{arguments.command} {name}", FORMER.get(name))
        close = [now] if now in options else _similar(name, options)
        hint = f"did you mean {' or '.join(map(repr, close))}? " if close else _of_others(unknown[0])
        raise UsageError(
            f"unrecognized arguments: {' '.join(unknown)}",
            remedy=f"{hint}{PROGRAM} {arguments.command or ''}".rstrip() + " --help",
        )
    return arguments


def _of_others(word: str) -> str:
    """Return which commands have an option that the given one does not have."""
    name = word.partition("=")[0]
    having = [one.name for one in COMMANDS if name in {each for argument in one.arguments for each in argument.names}]
    return f"{name} is an option of {', '.join(having)}; " if having and name.startswith("-") else ""


def _similar(misspelt: str, options: list[str]) -> list[str]:
    """Return options that may be meant. Dashes are like dashes: ``--fast`` is not like ``--as-of``.

    >>> _similar("--limt", ["--limit", "--list"]), _similar("--fast", ["--as-of", "--csv"])
    (['--limit'], [])
    """
    word = misspelt.lstrip("-")
    if word == misspelt or len(word) < 3:
        return []
    close = nearest(word, [name.lstrip("-") for name in options])
    alike = {name: SequenceMatcher(None, word, name).ratio() for name in close}
    enough = max(0.7, max(alike.values(), default=0) - 0.1)
    return [f"--{name}" for name, ratio in alike.items() if ratio >= enough]
