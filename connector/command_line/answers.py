"""Command help: questions in users' words with the line that answers each, commands, and pages of the guide.

A word also matches words that begin with it, or with which it begins: ``restored`` and ``restor`` find ``restore``.
Rare words count more than frequent ones.
"""

from __future__ import annotations

import math
import re
from argparse import Namespace
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from pyspark_savepoint.command_line.arguments import COMMANDS, PROGRAM
from pyspark_savepoint.command_line.output import Output

GUIDE = Path(__file__).parents[1] / "guide"
PAGE = GUIDE / "answers.md"
ROW = re.compile(r"^\| (?P<question>[^|]+\?) \| `(?P<line>[^`]+)` \|$", re.MULTILINE)
WORD = re.compile(r"[^\W_]+")
#: Words that tell nothing about what is asked for.
FILLERS = frozenset(
    WORD.findall(
        "a all an and any are can do does for from give has have how i in is it its me my not of on one or so that the "
        "there this to was what when where which who why with without you"
    )
)
#: The most answers, commands and pages that are shown.
MOST_ANSWERS, MOST_OTHERS = 5, 2
FOUND, NOTHING = 0, 1


class Answer(NamedTuple):
    """A question, and the command line that answers it."""

    question: str
    line: str


class Entry(NamedTuple):
    """Something that can be found: its lines, its record as JSON, and how often it has each word."""

    lines: tuple[str, ...]
    record: dict[str, str]
    words: Mapping[str, int]

    def count(self, word: str) -> int:
        """Return how often it has a word that is asked for, or one that begins with it, or with which that begins."""
        return sum(
            count
            for own, count in self.words.items()
            if own == word or (len(word) > 2 and own.startswith(word)) or (len(own) > 3 and word.startswith(own))
        )


def answers() -> list[Answer]:
    """Return the questions of the page in its order."""
    return [Answer(**row.groupdict()) for row in ROW.finditer(PAGE.read_text("utf-8"))]


def help_with(arguments: Namespace, output: Output) -> int:
    """Print the questions, commands and pages that have most of the words."""
    words = list(dict.fromkeys(word for text in arguments.words for word in _words(text)))
    words = [word for word in words if word not in FILLERS] or words
    found = [
        *_best(words, list(_questions()), MOST_ANSWERS),
        *_best(words, list(_commands()), MOST_OTHERS),
        *_best(words, list(_pages()), MOST_OTHERS),
    ]
    if not found:
        output.say(f"no question, command or page has these words; {PROGRAM} --help lists the commands")
        return NOTHING
    for entry in found:
        for line in entry.lines:
            output.say(line)
        output.record(entry.record)
    return FOUND


def _best(words: Sequence[str], entries: Sequence[Entry], most: int) -> list[Entry]:
    """Return the entries that have the most of some words, at least half of them, those that have them often first."""
    counts = [[entry.count(word) for word in words] for entry in entries]
    rare = [math.log(1 + len(entries) / max(1, sum(map(bool, column)))) for column in zip(*counts, strict=True)]
    scores = [sum(weight for weight, count in zip(rare, row, strict=True) if count) for row in counts]
    most_of = max(scores, default=0.0)
    found = [
        (sum(row), entry)
        for row, score, entry in zip(counts, scores, entries, strict=True)
        if score >= most_of * 0.999 and 2 * sum(map(bool, row)) >= len(words)
    ]
    return [entry for _, entry in sorted(found, key=lambda one: -one[0])][:most]


def _questions() -> Iterator[Entry]:
    for answer in answers():
        lines = (answer.question, f"  {answer.line}")
        yield Entry(lines, answer._asdict(), Counter(_words(f"{answer.question} {answer.line}")))


def _commands() -> Iterator[Entry]:
    for command in COMMANDS:
        lines = (f"Command {command.name}: {command.about}", f"  {PROGRAM} {command.name} --help")
        record = {"command": command.name, "about": command.about}
        yield Entry(lines, record, Counter(_words(f"{command.name} {command.about}")))


def _pages() -> Iterator[Entry]:
    for page in sorted(GUIDE.glob("*.md")):
        if page != PAGE:
            text = page.read_text("utf-8")
            title = text.partition("\n")[0].lstrip("# ")
            yield Entry(
                (f"Page: {title} (guide/{page.name})",), {"page": page.name, "title": title}, Counter(_words(text))
            )


def _words(text: str) -> list[str]:
    return [word.lower() for word in WORD.findall(text)]
