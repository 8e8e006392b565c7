"""Sections of Markdown files: where they begin and end, and the links and anchors in them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

FENCE = re.compile(r"^\s*(```|~~~)")
HEADING = re.compile(r"^(#{1,6}) (.+?)\s*$")
#: A link or image of Markdown: its text in brackets, then its target.
LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")


@dataclass(frozen=True)
class Heading:
    """A heading: its level, text, and the numbers of its line and of the line after its section."""

    level: int
    text: str
    line: int
    end: int
    own_end: int

    @property
    def anchor(self) -> str:
        """The anchor that GitHub gives the heading."""
        return anchor_of(self.text)


def anchor_of(heading: str) -> str:
    """The anchor of a heading, by the rule of GitHub: lower case, without punctuation, spaces as hyphens."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def outside_fences(lines: list[str]) -> Iterator[tuple[int, str]]:
    """The lines that are not in a block of code, with their numbers."""
    fence = None
    for number, line in enumerate(lines):
        found = FENCE.match(line)
        if found and fence in (None, found[1]):
            fence = None if fence else found[1]
        elif fence is None:
            yield number, line


class Document:
    """A Markdown file, by its sections."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines = path.read_text().splitlines()
        found = [(n, *m.groups()) for n, line in outside_fences(self.lines) if (m := HEADING.match(line))]
        self.headings = []
        for place, (line, marks, text) in enumerate(found):
            later = [n for n, other, _ in found[place + 1 :] if len(other) <= len(marks)]
            end = later[0] if later else len(self.lines)
            own_end = found[place + 1][0] if place + 1 < len(found) else len(self.lines)
            self.headings.append(Heading(len(marks), text, line, end, own_end))

    def heading(self, text: str | None) -> Heading:
        """The heading of a text; None: the title of the file."""
        matching = [heading for heading in self.headings if text in (None, heading.text)]
        if not matching or (text is not None and len(matching) > 1):
            raise ValueError(f"{self.path} has {len(matching)} headings {text!r}")
        return matching[0]

    def section(self, text: str | None, *, own: bool, level: int, follow: Callable[[str], str | None]) -> list[str]:
        """The lines of a section, its heading at another level, and each link replaced by what ``follow`` returns.

        ``follow`` takes the target of a link and returns the new one, or None: then only the text of the link stays.
        A level of 0 leaves out the heading, and what is below it begins at level 2.
        """
        heading = self.heading(text)
        begin = heading.line + 1 if level == 0 else heading.line
        lines = self.lines[begin : heading.own_end if own else heading.end]
        shift = max(level, 1) - heading.level
        text = dict(outside_fences(lines))
        result: list[str] = []
        for fenced, numbers in groupby(range(len(lines)), lambda number: number not in text):
            part = [lines[number] for number in numbers]
            if fenced:
                part = _picture(part)
            else:
                part = [_at_level(line, shift) for line in part]
                part = LINK.sub(lambda match: _link(match, follow), "\n".join(part)).split("\n")
            result += part
        return result


def _picture(block: list[str]) -> list[str]:
    """A block of code; if it is a picture with arrows, of a class of its own: its lines are not broken."""
    if not any("──►" in line for line in block):
        return block
    fences = [number for number, line in enumerate(block) if FENCE.match(line)]
    first = fences[0]
    return [*block[:first], "```{code-block} text", ":class: picture", "", *block[first + 1 :]]


def _at_level(line: str, shift: int) -> str:
    """A line; if it is a heading, at a level that is higher by ``shift``."""
    found = HEADING.match(line)
    return "#" * (len(found[1]) + shift) + " " + found[2] if found else line


def _link(match: re.Match[str], follow: Callable[[str], str | None]) -> str:
    target = follow(match[3])
    return match[2] if target is None else f"{match[1]}[{match[2]}]({target})"
