"""The page: sections with facts, charts and tables as one HTML file, which a browser opens offline.

It has a security policy that allows its own script and style alone. Every value passes
:func:`~pyspark_savepoint.formats.redaction.shown`, and is escaped by the template. A name in a sentence is marked
(:func:`named`), and the page shows it as code: names may be words.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from importlib import resources
from typing import Any

from pyspark_savepoint.formats.redaction import MAX_DISPLAYED, elide, printable, redact
from pyspark_savepoint.insight import charts
from pyspark_savepoint.options.release import __version__
from pyspark_savepoint.text.doors import of_page
from pyspark_savepoint.text.texts import readable_size

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
#: Rows of a table.
MOST_ROWS = 1000
MAX_VALUE = 600
#: Texts that are longer are broken into lines, and have a column for prose.
WORD, LONG = 24, 60
UNITS = ((86_400, "day"), (3600, "hour"), (60, "minute"), (1, "second"))
#: Operators without a uid are named by its hash.
UID_HASH = re.compile("[0-9a-f]{32}")
#: Bytes of a name in a sentence or a legend.
MAX_SHORT = 48
#: Around a name in a sentence: characters that no value has, for they are escaped where they are shown.
BEGIN, END = "\x02", "\x03"
MARKS = re.compile(f"[{BEGIN}{END}]")


@dataclass(frozen=True)
class Column:
    """A column of a table: its title, and whether its values are numbers, or sentences of this package.

    A sentence may name a verb or an argument, as the door that writes the page calls it.
    """

    title: str
    is_number: bool = False
    has_sentences: bool = False

    @classmethod
    def of(cls, notation: str) -> Column:
        """Return the column of a title; ``#`` behind it are numbers, ``.`` are sentences."""
        return cls(notation.rstrip("#."), notation.endswith("#"), notation.endswith("."))


@dataclass(frozen=True)
class Cell:
    """A number, as people read it, with the value by which it is sorted."""

    text: str
    value: float


@dataclass(frozen=True)
class Table:
    """A table with its caption. ``choices`` is the place of a column whose values can be chosen.

    On a narrow page each row is a card, so that no column is out of sight.
    """

    caption: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Any]]
    left_out: int = 0
    is_folded: bool = False
    choices: int | None = None

    @property
    def chosen(self) -> list[str]:
        """The values that can be chosen."""
        return [] if self.choices is None else list(dict.fromkeys(str(row[self.choices]) for row in self.rows))


@dataclass(frozen=True)
class Chart:
    """A chart: what it shows in a sentence, and its drawing, wide and for a narrow page."""

    caption: str
    svg: str
    narrow: str = ""


@dataclass
class Section:
    """A section of the page. ``short`` is what it says in a line."""

    id: str
    title: str
    short: str = ""
    about: str = ""
    charts: list[Chart] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    #: What is good to know, and no warning.
    hints: list[str] = field(default_factory=list)
    facts: list[tuple[str, str]] = field(default_factory=list)


def table(
    caption: str, columns: str, rows: Sequence[Sequence[Any]], *, folded: bool = False, choices: int | None = None
) -> Table:
    """Return a table of at most MOST_ROWS rows without empty columns, whose titles are those of :class:`Column`."""
    titles = [Column.of(name.strip()) for name in columns.split("|")]
    filled = [index for index in range(len(titles)) if any(row[index] not in (None, "") for row in rows)]
    titles = [titles[index] for index in filled]
    rows = [
        ["" if row[index] is None else _spelled(title, row[index]) for title, index in zip(titles, filled, strict=True)]
        for row in rows
    ]
    return Table(caption, titles, rows[:MOST_ROWS], max(0, len(rows) - MOST_ROWS), folded, choices)


def _spelled(column: Column, value: Any) -> Any:
    """Return a sentence in the words of the door that writes the page, and other values as they are."""
    return of_page(value) if column.has_sentences and isinstance(value, str) else value


def html(path: str, sections: Sequence[Section]) -> str:
    """Return the page about the snapshot at a path."""
    from jinja2 import BaseLoader, Environment, StrictUndefined
    from markupsafe import Markup, escape

    @cache
    def text_of(value: str, most: int = MAX_VALUE) -> str:
        return elide(printable(redact(value, look=False)), most)

    def leaving(value: Any) -> Any:
        return value if isinstance(value, Markup | int | float) else text_of(str(value))

    def prose(text: str) -> Markup:
        """Return a sentence with its names as code, all of it escaped."""
        parts = [escape(text_of(part, MAX_DISPLAYED)) for part in MARKS.split(text)]
        return Markup("").join(
            Markup("<code>{}</code>").format(part) if place % 2 else part for place, part in enumerate(parts)
        )

    def rows_of(of: Table) -> Markup:
        """Return the rows of a table, each value escaped: a template takes several times as long."""
        labels = [f' role="cell" data-l="{escape(text_of(column.title))}"' for column in of.columns]
        rows = (
            "".join(_cell(of, index, value, labels[index], text_of) for index, value in enumerate(row))
            for row in of.rows
        )
        return Markup("\n".join(f"<tr role=row>{cells}</tr>" for cells in rows))  # noqa: S704 (each value is escaped)

    redact("")  # looks for the secrets of the environment, once for all values

    room = resources.files(__package__)
    style, script, page = (room.joinpath(f"page.{kind}").read_text("utf-8") for kind in ("css", "js", "html"))
    environment = Environment(
        loader=BaseLoader(),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=leaving,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    shown = printable(path, line=True)
    return environment.from_string(page).render(
        path=shown, name=shown.rstrip("/").rpartition("/")[2], sections=sections, version=__version__,
        made=moment(datetime.now(UTC).timestamp()), rows_of=rows_of, prose=prose, unmarked=partial(MARKS.sub, ""),
        style=Markup(style), script=Markup(script), svg=Markup,  # noqa: S704 (our own files, and drawings of Vega)
        style_hash=_hash(style), script_hash=_hash(script),
    )  # fmt: skip


def _cell(of: Table, place: int, value: Any, label: str, text_of: Callable[[str], str]) -> str:
    from markupsafe import escape

    data = (f' data-v="{value.value}"' if isinstance(value, Cell) else "") + label
    plain = text_of(value.text if isinstance(value, Cell) else str(value))
    text, size = escape(plain), len(plain)
    if of.choices == place:
        return f'<td{data}><span class="tag {text.replace(" ", "-")}">{text}</span></td>'
    kind = "n" if of.columns[place].is_number else "prose" if size > LONG else "lines" if size > WORD else ""
    if UID_HASH.fullmatch(plain):
        kind = "hash"
    return f"<td{f' class={kind}' if kind else ''}{data}>{text}</td>"


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


# -- values as people read them ---------------------------------------------------------------------------------------


def moment(seconds: float) -> str:
    """Return a time in seconds since 1970."""
    try:
        return f"{EPOCH + timedelta(seconds=round(seconds)):%Y-%m-%d %H:%M:%S} UTC"
    except OverflowError:
        return f"{seconds:.0f} s"


def span(seconds: float) -> str:
    """Return a time span in its largest unit, without its sign.

    >>> span(60), span(-5400), span(86_400 * 20_781), span(0.25)
    ('1 minute', '1.5 hours', '20,781 days', '0.25 seconds')
    """
    size = abs(seconds)
    for unit, name in UNITS:
        if size >= unit:
            number = f"{size / unit:,.0f}" if size >= 10 * unit else f"{size / unit:.1f}".removesuffix(".0")
            return f"{number} {name}{'' if number == '1' else 's'}"
    return f"{size:.3g} seconds"


def relative(seconds: float) -> str:
    """Return how far a time is from the snapshot.

    >>> relative(-90), relative(0), relative(86_400)
    ('1.5 minutes before', 'at the snapshot', '1 day after')
    """
    return f"{span(seconds)} {'before' if seconds < 0 else 'after'}" if seconds else "at the snapshot"


def size_of(size: float) -> Cell:
    """Return a number of bytes."""
    return Cell(readable_size(size), size)


def size_more(size: float) -> Cell:
    """Return a difference of two numbers of bytes, with its sign."""
    return Cell(("-" if size < 0 else "+" if size else "") + readable_size(abs(size)), size)


def count_of(number: int) -> Cell:
    """Return a number of things."""
    return Cell(f"{number:,}", number)


def percent(share: float, digits: int = 1) -> Cell:
    """Return a share of 1."""
    return Cell(f"{100 * share:.{digits}f} %", share)


def brief(operator: str) -> str:
    """Return the name of an operator, of a hash of its uid the first digits.

    >>> brief("14cfd403e0929194539014eaed9ae6ed"), brief("accounts")
    ('14cfd403…', 'accounts')
    """
    return f"{operator[:8]}…" if UID_HASH.fullmatch(operator) else operator


def title_of(operator: str, state: str | None = None) -> str:
    """Return the name of an operator, or of its state, as legends have it. Tables have it as a whole."""
    return " / ".join(charts.said(name, MAX_SHORT) for name in filter(None, (brief(operator), state)))


def named(operator: str, state: str | None = None) -> str:
    """Return the name of an operator, or of its state, for a sentence, which :func:`html` shows as code."""
    return f"{BEGIN}{title_of(operator, state)}{END}"


def code(text: str) -> str:
    """Return a text for a sentence, which :func:`html` shows as code."""
    return f"{BEGIN}{charts.said(text)}{END}"
