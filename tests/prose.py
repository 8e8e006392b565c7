"""How long the sentences of the pages are.

    python -m tests.prose                         # every page
    python -m tests.prose connector/guide/*.md    # these
    python -m tests.prose --longest 5 README.md   # and their longest sentences
    python -m tests.prose connector/api/*.py    # docstrings that users see

Aims: 16 words in the mean, 35 at most, a semicolon in less than 5 % of the sentences. Judgement decides, not the
number: the command shows where to look.
"""

from __future__ import annotations

import argparse
import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

ROOT = Path(__file__).parents[1]
#: Blocks of code, tables' rules, comments, pictures: not sentences.
NOT_PROSE = re.compile(
    r"```.*?```|<!--.*?-->|!\[.*?\]\(.*?\)|^\|[-| :]+\|$|(?<=\n\n)(?:^ {4}[^\n]*\n)+", re.DOTALL | re.MULTILINE
)
LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
#: A name in backquotes is one word, and so are several in a row.
CODE = re.compile(r"`+[^`]*`+(?:, `+[^`]*`+)*")
#: A line that begins a sentence of its own: a heading, an item, a row of a table, or what follows an empty line.
BEGINS = re.compile(r"\n(?=\s*(?:[#*|>-]|\d+\.|\n))")
ENDS = re.compile(r"(?<=[.!?])[\"')*]*\s+(?=[\"'(*`A-Z])|\s·\s")
WORD = re.compile(r"[^\W_][\w'’.,-]*")


@dataclass(frozen=True)
class Prose:
    """The sentences of a page."""

    sentences: tuple[str, ...]

    @classmethod
    def of(cls, text: str) -> Prose:
        """Take the sentences of a text in Markdown. Cells of tables count as sentences."""
        text = CODE.sub("Code", LINK.sub(r"\1", NOT_PROSE.sub("\n\n", text)))
        pieces = [cell for part in BEGINS.split(text) for cell in (part.split("|") if part.startswith("|") else [part])]
        sentences = [" ".join(one.split()) for piece in pieces for one in ENDS.split(piece)]
        return cls(tuple(one for one in sentences if len(WORD.findall(one)) > 1))

    @property
    def words(self) -> list[int]:
        """Words of each sentence."""
        return [len(WORD.findall(one)) for one in self.sentences]

    @property
    def semicolons(self) -> float:
        """The share of sentences with a semicolon."""
        return mean(";" in one for one in self.sentences) if self.sentences else 0.0

    def longest(self, count: int) -> list[str]:
        """The longest sentences, the longest first."""
        return sorted(self.sentences, key=lambda one: -len(WORD.findall(one)))[:count]


def docstrings(source: str) -> str:
    """Return the docstrings of a module's public names as one text, without their examples and lists' indents."""

    def of(node: ast.Module | ast.ClassDef | ast.FunctionDef) -> Iterator[str]:
        yield ast.get_docstring(node) or ""
        for inner in node.body:
            if isinstance(inner, ast.ClassDef | ast.FunctionDef) and not inner.name.startswith("_"):
                yield from of(inner)

    text = "\n\n".join(of(ast.parse(source)))
    text = re.sub(r"::\n(?:\n|[ ]{4,}.*(?:\n|$))+", ".\n\n", text)  # an example
    return re.sub(r"^[ ]{4}(?=\S)", "\n", text, flags=re.MULTILINE)  # an argument, a result, an error


def text_of(page: Path) -> str:
    """Return the prose of a page in Markdown, or of a module."""
    text = page.read_text("utf-8")
    return docstrings(text) if page.suffix == ".py" else text


def pages() -> list[Path]:
    """Every page of the repository that a person reads."""
    folders = ("", "connector", "connector/*", "formats", "statebackends", "statebackends/*", "tests", "tests/*")
    return sorted({page for folder in folders for page in ROOT.glob(f"{folder}/*.md".lstrip("/"))})


def main() -> None:
    """Print a line for each page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="*", type=Path)
    parser.add_argument("--longest", type=int, default=0, help="print that many of the longest sentences")
    arguments = parser.parse_args()
    print(f"{'page':44} {'words':>7} {'sentences':>9} {'mean':>5} {'longest':>7} {'; in %':>6}")
    for page in arguments.pages or pages():
        prose = Prose.of(text_of(page))
        words = prose.words or [0]
        name = str(page.resolve().relative_to(ROOT))
        share = 100 * prose.semicolons
        print(f"{name:44} {sum(words):7,} {len(words):9} {mean(words):5.1f} {max(words):7} {share:6.1f}")
        for sentence in prose.longest(arguments.longest):
            print(f"    {len(WORD.findall(sentence))}: {sentence}")


if __name__ == "__main__":
    main()
