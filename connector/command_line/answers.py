"""Command help: questions in users' words, with the line that answers each. They are a page of the documentation."""

from __future__ import annotations

import re
from argparse import Namespace
from pathlib import Path
from typing import NamedTuple

from pyspark_savepoint.command_line.arguments import PROGRAM
from pyspark_savepoint.command_line.output import Output

PAGE = Path(__file__).parents[1] / "guide" / "answers.md"
ROW = re.compile(r"^\| (?P<question>[^|]+\?) \| `(?P<line>[^`]+)` \|$", re.MULTILINE)
FOUND, NOTHING = 0, 1


class Answer(NamedTuple):
    """A question, and the command line that answers it."""

    question: str
    line: str

    def matches(self, words: list[str]) -> int:
        """Return how many of some words, in lower case, stand in the question or the line."""
        text = f"{self.question} {self.line}".lower()
        return sum(word in text for word in words)


def answers() -> list[Answer]:
    """Return the questions of the page in its order."""
    return [Answer(**row.groupdict()) for row in ROW.finditer(PAGE.read_text("utf-8"))]


def help_with(arguments: Namespace, output: Output) -> int:
    """Print the questions that have all words; if there is none, those that have the most of them."""
    words = [word.lower() for text in arguments.words for word in text.split()]
    ranked = [(answer.matches(words), answer) for answer in answers()]
    most = max(count for count, _ in ranked)
    if not most:
        output.say(f"no question has these words; {PROGRAM} --help lists the commands")
        return NOTHING
    for count, answer in ranked:
        if count == most:
            output.say(answer.question)
            output.say(f"  {answer.line}")
            output.record(answer._asdict())
    return FOUND
