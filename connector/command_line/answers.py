"""Command help: questions in users' words with the line that answers each, errors, commands, and pages of the guide.

A word also matches words that begin with it, or with which it begins: ``restored`` and ``restor`` find ``restore``.
It matches words of the same meaning, too: ``biggest`` finds ``largest``. Rare words count more than frequent ones.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from pyspark_savepoint.command_line.commands import COMMANDS, Help
from pyspark_savepoint.command_line.output import Output
from pyspark_savepoint.command_line.parsing import PROGRAM

PACKAGE = Path(__file__).parents[1]
GUIDE = PACKAGE / "guide"
#: The reference, and the headings of its sections.
REFERENCE = (
    "README.md",
    "command_line/README.md",
    "api/spark/README.md",
    "formats/README.md",
    "statebackends/**/README.md",
)
SECTION = re.compile(r"^##+ ", re.MULTILINE)
PAGE = GUIDE / "answers.md"
ERRORS = GUIDE / "errors.md"
ROW = re.compile(r"^\| (?P<question>[^|]+\?) \| `(?P<line>[^`]+)` \|$", re.MULTILINE)
#: A class of error on its page: when it is raised, and all that the page says of it.
ERROR = re.compile(r"^### (?P<name>\w+Error)\n\n(?P<text>.*?)(?=^<!--|^##|\Z)", re.MULTILINE | re.DOTALL)
WORD = re.compile(r"[^\W_]+")
#: Words that tell nothing about what is asked for.
FILLERS = frozenset(
    WORD.findall(
        "a all an and any are at be can do does every for from get give has have how i in is it its make me my need "
        "not of on one only or s see so that the their them there these they this to use want was what when where "
        "which who whole why will with without you"
    )
)
#: Words that mean the same to those who ask. A question has one of them.
SAME = (
    ("biggest", "largest", "large", "big", "huge", "size"),
    ("broken", "corrupt", "corrupted", "damaged", "incomplete", "invalid", "valid"),
    ("recover", "repair", "rescue", "salvage", "save"),
    ("change", "edit", "modify", "update", "correct", "fix", "patch"),
    ("delete", "drop", "remove", "erase"),
    ("reset", "rewind", "replay", "seek"),
    ("list", "ls", "overview", "inventory"),
    ("count", "many", "number"),
    ("date", "time", "age", "old", "oldest"),
    ("upgrade", "migrate", "convert"),
    ("id", "ids", "identifier"),
    ("inspect", "look", "view", "browse", "explore", "print", "read"),
    ("compare", "difference", "differs", "diff"),
    ("expired", "ttl"),
    ("backup", "archive", "keep"),
    ("person", "user", "customer"),
    ("load", "import", "bootstrap"),
    ("dump", "export"),
)
#: The most answers, commands and pages that are shown, and how many points they have at least of the best one's.
MOST_ANSWERS, MOST_OTHERS, LEAST = 5, 2, 0.6
#: How much a word of a question, a title or a name counts beside a word of the rest.
OF_TITLE = 2.0
MATCHES, NOTHING = 0, 1


class Answer(NamedTuple):
    """A question, and the command line that answers it."""

    question: str
    line: str


class Entry(NamedTuple):
    """Something that can be found: its lines, its record as JSON, the words of its title, and all of its words."""

    lines: tuple[str, ...]
    record: dict[str, str]
    title: frozenset[str]
    words: Mapping[str, int]

    def points(self, word: str) -> float:
        """Return how well it fits a word that is asked for: a word of the title is worth more, a frequent one, too."""
        similar_words = [own for own in self.words if _alike(word, own)]
        if not similar_words:
            return 0.0
        often = 1 + math.log(sum(self.words[own] for own in similar_words)) / 8
        return often * (OF_TITLE if any(own in self.title for own in similar_words) else 1.0)


def answers() -> list[Answer]:
    """Return the questions of the page in its order."""
    return [Answer(**row.groupdict()) for row in ROW.finditer(PAGE.read_text("utf-8"))]


def help_with(arguments: Help, output: Output) -> int:
    """Print the questions, commands and pages that have most of the words."""
    error_entries = [entry for entry in _errors() if entry.record["error"].lower() in map(str.lower, arguments.words)]
    words = list(dict.fromkeys(word for text in arguments.words for word in _words(text)))
    words = [word for word in words if word not in FILLERS] or words
    entries = error_entries or [
        *_best(words, list(_questions()), MOST_ANSWERS),
        *_best(words, list(_commands()), MOST_OTHERS),
        *_best(words, list(_pages()), MOST_OTHERS),
    ]
    entries = entries or _best(words, list(_sections()), MOST_OTHERS)
    if not entries:
        output.say(f"no question, command or page has these words; {PROGRAM} --help lists the commands")
        return NOTHING
    for entry in entries:
        for line in entry.lines:
            output.say(line)
        output.record(entry.record)
    return MATCHES


def _best(words: Sequence[str], entries: Sequence[Entry], most: int) -> list[Entry]:
    """Return the entries that fit some words best, the best first."""
    points = [[entry.points(word) for word in words] for entry in entries]
    rare = [math.log(1 + len(entries) / max(1, sum(map(bool, column)))) for column in zip(*points, strict=True)]
    scores = [sum(weight * one for weight, one in zip(rare, row, strict=True)) for row in points]
    least = LEAST * max(scores, default=0.0)
    scored = [(score, entry) for score, entry in zip(scores, entries, strict=True) if score and score >= least]
    return [entry for _, entry in sorted(scored, key=lambda one: (-one[0], len(one[1].title)))][:most]


def _alike(word: str, own: str) -> bool:
    """Return whether a word that is asked for is another one, or begins it, or begins with it, or means the same."""
    if own == word or (len(word) > 2 and own.startswith(word)):
        return True
    if 3 < len(own) > len(word) - 5 and word.startswith(own):  # and databricks is not about data
        return True
    return any(word in group and own in group for group in SAME)


def _questions() -> Iterator[Entry]:
    for answer in answers():
        yield _entry((answer.question, f"  {answer.line}"), answer._asdict(), answer.question, answer.line)


def _commands() -> Iterator[Entry]:
    for command in COMMANDS:
        lines = (f"Command {command.name}: {command.about}", f"  {PROGRAM} {command.name} --help")
        yield _entry(lines, {"command": command.name, "about": command.about}, command.name, command.about)


def _errors() -> Iterator[Entry]:
    for section in ERROR.finditer(ERRORS.read_text("utf-8")):
        text = re.sub(r"^```.*\n?", "", section["text"], flags=re.MULTILINE).strip()
        yield _entry(
            (section["name"], *text.splitlines()), {"error": section["name"], "text": text}, section["name"], text
        )


def _pages() -> Iterator[Entry]:
    for page in sorted(GUIDE.glob("*.md")):
        if page != PAGE:
            text = page.read_text("utf-8")
            title = text.partition("\n")[0].lstrip("# ")
            yield _entry((f"Page: {title}", f"  {page}"), {"page": page.name, "title": title}, title, text)


def _sections() -> Iterator[Entry]:
    """Yield the sections of the reference, which are long, and asked for last."""
    for page in (path for pages in REFERENCE for path in PACKAGE.glob(pages)):
        for part in SECTION.split(page.read_text("utf-8"))[1:]:
            title, _, text = part.partition("\n")
            place = re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")  # by the rule of GitHub
            record = {"page": page.relative_to(PACKAGE).as_posix(), "title": title}
            yield _entry((f"Section: {title}", f"  {page}#{place}"), record, title, text)


def _entry(lines: tuple[str, ...], record: dict[str, str], title: str, text: str) -> Entry:
    return Entry(lines, record, frozenset(_words(title)), Counter(_words(f"{title} {text}")))


def _words(text: str) -> list[str]:
    return [word.lower() for word in WORD.findall(text)]
