"""Output of commands: aligned tables for people, one JSON object per line with ``--json``, CSV with ``--csv``.

Names and values come from snapshots, so characters that terminals take for commands are escaped. Nothing is coloured.

On a terminal a table fits the width: numbers and times are never cut, names take several lines, values one. Long notes
stand below their row, an operator with many rows above them, and rows with too many columns become one line per
column. Elsewhere, and with ``--wide``, each row is one line and nothing is cut.
"""

from __future__ import annotations

import json
import math
import re
import textwrap
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import Enum
from itertools import chain, groupby, islice
from typing import Any, TextIO

from pyspark_savepoint.formats.redaction import printable
from pyspark_savepoint.text.progress import erase

#: Rows from which the widths of columns are taken; later rows may be wider.
MEASURED = 500
#: Widest column that is padded, and widest cell of a terminal.
MAX_CELL = 60
#: Narrowest column of text that was wider.
MIN_CELL = 8
#: Lines of a cell that names something.
MAX_LINES = 4
#: Where a cell is broken: at punctuation, else inside a word of several, as in Java's names.
BREAKS = (r"[\W_]", r"[a-z](?=[A-Z])")
GAP = "  "
INDENT = "    "
#: Longest part of a word that makes a column as wide, so that it is not broken.
WORD = 12
#: Columns of sentences, which stand below a row that they would make too wide.
PROSE = frozenset({"note", "problem", "reason", "remedy"})
#: First columns that stand above their rows, if these would be too wide: paths always, operators if they have several.
PATH, OPERATOR = "path", "operator"

Row = Mapping[str, Any]
#: What a spreadsheet takes a text for a formula by, unless it is a number.
OF_FORMULAS = ("=", "+", "-", "@", "\t", "\r")
PLAIN_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]{1,3})?")


class Form(Enum):
    """What is printed."""

    TEXT = "text"
    JSON = "json"
    CSV = "csv"


@dataclass(frozen=True)
class Column:
    """A column as it is printed."""

    name: str
    width: int
    is_number: bool = False
    is_fixed: bool = False
    #: The longest part of a word, up to WORD.
    word: int = 0

    @property
    def title(self) -> str:
        return printable(self.name, line=True)

    def padded(self, text: str) -> str:
        blank = " " * (self.width - width_of(text))
        return blank + text if self.is_number else text + blank


@dataclass(frozen=True)
class Output:
    """Output of a command: ``results``, and ``remarks``. ``width`` is None where nothing is cut."""

    results: TextIO
    remarks: TextIO
    form: Form = Form.TEXT
    width: int | None = None
    #: The command whose words sentences get.
    command: str | None = None
    #: Not empty once a result was printed.
    begun: set[str] = field(default_factory=set)
    #: Whether a spreadsheet takes no text of CSV for a formula.
    safe: bool = False

    @property
    def as_json(self) -> bool:
        return self.form is Form.JSON

    @property
    def is_text(self) -> bool:
        return self.form is Form.TEXT

    def say(self, text: str) -> None:
        """Print a line for people, wrapped at words."""
        if not self.is_text:
            return
        text = self._worded(text)
        if self.width is None or width_of(text) <= self.width:
            self._print(text)
            return
        indent = text[: len(text) - len(text.lstrip())]
        for line in text.split("\n"):
            for part in self._wrapped(line, f"{indent}{GAP}"):
                self._print(part)

    def remark(self, text: str) -> None:
        """Print lines that are no result; on a terminal wrapped at spaces, so that paths and names stay whole."""
        lines = printable(self._worded(text)).split("\n")
        if self.width is not None and self.remarks.isatty():
            indents = (line[: len(line) - len(line.lstrip())] + GAP for line in lines)
            lines = [part for line, indent in zip(lines, indents, strict=True) for part in self._wrapped(line, indent)]
        erase()
        print("\n".join(lines), file=self.remarks, flush=True)

    def _worded(self, text: str) -> str:
        """Return a sentence in the words of the command."""
        from pyspark_savepoint.command_line.wording import worded

        return worded(text, self.command)

    def in_own_words(self, row: Row) -> Row:
        """Return a row whose sentences are in the words of the command."""
        own = {name: self._worded(row[name]) for name in PROSE if isinstance(row.get(name), str)}
        return {**row, **own} if own else row

    def _wrapped(self, line: str, indent: str) -> list[str]:
        """Return a line in parts; a path, with what it is, is one."""
        if self.width is None or len(line.split()) <= 2:
            return [line]
        return wrapped(line, self.width, indent)

    def record(self, values: Row) -> None:
        """Print one JSON object, with ``--json`` only."""
        if self.as_json:
            # JSON escapes all that is not ASCII, and control characters except one.
            self.begun.add("record")
            erase()
            print(json.dumps(finite(_plain(values))).replace("\x7f", "\\u007f"), file=self.results)

    def table(
        self,
        columns: Sequence[str],
        rows: Iterable[Row],
        all_columns: bool = False,
        limit: int = 0,
        more: str = "",
        lines: int = MAX_LINES,
    ) -> int:
        """Print rows: all fields with ``--json``, else these columns, in text without those that have no value.

        Args:
            columns: The columns.
            rows: The rows.
            all_columns: Whether columns without a value are printed too.
            limit: How many rows; 0: all.
            more: How to get more rows than the limit, for a remark.
            lines: How many lines of a terminal a cell may take.

        Returns:
            The number of rows.

        """
        following = map(self.in_own_words, rows)
        printed_rows = islice(following, limit) if limit else following
        if self.form is Form.TEXT:
            count = self._text(columns, printed_rows, all_columns, lines)
        else:
            if self.form is Form.CSV:
                self._print(csv_line(columns, self.safe))
            count = 0
            for row in printed_rows:
                count += 1
                if self.as_json:
                    self.record(row)
                else:
                    self._print(csv_line((row.get(name) for name in columns), self.safe))
        if limit and next(following, None) is not None:
            self.results.flush()
            self.remark(f"... more rows: {more}")
        return count

    def _text(self, names: Sequence[str], rows: Iterator[Row], all_columns: bool, lines: int) -> int:
        first = list(islice(rows, MEASURED))
        names = [name for name in names if all_columns or any(row.get(name) not in (None, "") for row in first)]
        if not first or not names:
            return 0
        columns = [_measured(name, first, self.width) for name in names]
        below: list[Column] = []
        if self.width is not None and _total(columns) > self.width:
            below = [column for column in columns if column.name in PROSE]
            columns = [column for column in columns if column.name not in PROSE]
        above = None
        if self.width is not None and _total(columns) > self.width and _stands_above(columns, first):
            above, columns = columns[0].name, columns[1:]
        fitted: list[Column] | None = columns
        if self.width is not None:
            room = self.width - (len(GAP) if above else 0)
            worded = [_with_word(column, first) for column in columns] if lines > 1 else columns
            fitted = _fitted(worded, room) or _fitted(columns, room)
        every = chain(first, rows)
        if fitted is None:
            return self._records([*([Column(above, 0)] if above else []), *columns, *below], every, lines)
        return self._rows(fitted, above, below, every, lines)

    def _rows(
        self, columns: list[Column], above: str | None, below: list[Column], rows: Iterable[Row], lines: int
    ) -> int:
        """Print a line, or several, for each row."""
        count, group, indent = 0, None, GAP if above else ""
        for line in _joined(columns, [column.title for column in columns], MAX_LINES):
            self._print(indent + line)
        for row in rows:
            count += 1
            if above and row.get(above) != group:
                group = row.get(above)
                self._print(cell(group))
            cells = [cell(_sentence(column, row)) for column in columns]
            # Without a width each row is one line.
            for line in [_line(columns, cells)] if self.width is None else _joined(columns, cells, lines):
                if line or not below:
                    self._print(indent + line)
            for text in filter(None, (cell(_sentence(column, row)) for column in below)):
                for line in wrapped(f"{INDENT}{text}", self.width or MAX_CELL, INDENT):
                    self._print(line)
        return count

    def _records(self, columns: list[Column], rows: Iterable[Row], lines: int) -> int:
        """Print a line, or several, for each column of a row, and an empty one between rows."""
        count, title = 0, min(max(width_of(column.title) for column in columns), MAX_CELL // 2)
        name = Column("", title)
        value = Column("", max((self.width or MAX_CELL) - title - len(GAP), MIN_CELL))
        for count, row in enumerate(rows, 1):
            if count > 1:
                self._print("")
            for column in columns:
                for line in _joined([name, value], [column.title, cell(row.get(column.name))], lines):
                    self._print(line)
        return count

    def _print(self, text: str) -> None:
        self.begun.add("text")
        erase()
        print(printable(text), file=self.results)


def _sentence(column: Column, row: Row) -> Any:
    """Return a value; of an error, which has a fact on each line, all on one."""
    value = row.get(column.name)
    return value.replace("\n  ", "; ") if column.name in PROSE and isinstance(value, str) else value


# -- layout -------------------------------------------------------------------------------------------------


def width_of(text: str) -> int:
    """Return how many columns of a terminal a text takes.

    >>> width_of("tea"), width_of("\u7389\u9732"), width_of("e\u0301")
    (3, 4, 1)
    """
    if text.isascii():
        return len(text)
    return sum((unicodedata.east_asian_width(one) in "WF") + (not unicodedata.combining(one)) for one in text)


def _measured(name: str, rows: Sequence[Row], width: int | None) -> Column:
    title = Column(name, 0).title
    values = [row.get(name) for row in rows]
    is_number = all(isinstance(value, int | float | None) for value in values)
    longest = max(width_of(title), *(width_of(cell(value)) for value in values))
    # Nothing is gained by padding all rows to the longest of many values.
    is_fixed = is_number or all(isinstance(value, datetime | None) for value in values)
    whole = is_fixed or (width is not None and name in PROSE)
    return Column(name, longest if whole else min(longest, MAX_CELL), is_number, is_fixed)


def _stands_above(columns: Sequence[Column], rows: Sequence[Row]) -> bool:
    name = columns[0].name
    if len(columns) == 1 or name not in (PATH, OPERATOR):
        return False
    return name == PATH or 2 * len(list(groupby(rows, lambda row: row.get(name)))) <= len(rows)


def _total(columns: Sequence[Column]) -> int:
    return sum(column.width for column in columns) + len(GAP) * (len(columns) - 1)


def _with_word(column: Column, rows: Sequence[Row]) -> Column:
    """Return a column that becomes no narrower than the words of its cells, up to a width."""
    if column.is_fixed or column.width <= MIN_CELL:
        return column
    texts = (column.title, *(cell(row.get(column.name)) for row in rows))
    longest = max(width_of(word) for text in texts for word in re.findall(r"[^\W_]+[\W_]?|[\W_]", text) or [""])
    return replace(column, word=longest if longest <= WORD else 0)


def _fitted(columns: Sequence[Column], width: int) -> list[Column] | None:
    """Return the columns so that they fit: the widest of text become narrower; None if they become too narrow."""
    free = width - len(GAP) * (len(columns) - 1) - sum(column.width for column in columns if column.is_fixed)
    texts = [column for column in columns if not column.is_fixed]
    widest = max((column.width for column in texts), default=0)
    for level in range(widest, min(MIN_CELL, widest) - 1, -1):
        if sum(_at_level(column, level) for column in texts) <= free:
            return [replace(column, width=_at_level(column, level)) for column in columns]
    return None


def _at_level(column: Column, level: int) -> int:
    """Return the width of a column of which those of text may take this much, and their words more."""
    return column.width if column.is_fixed else min(column.width, max(level, column.word))


def _line(columns: Sequence[Column], cells: Sequence[str]) -> str:
    return GAP.join(column.padded(text) for column, text in zip(columns, cells, strict=True)).rstrip()


def _joined(columns: Sequence[Column], cells: Sequence[str], lines: int) -> Iterator[str]:
    """Yield the lines of a row whose cells take at most this many lines."""
    parts = [broken(text, column.width, lines) for column, text in zip(columns, cells, strict=True)]
    for number in range(max(map(len, parts))):
        yield _line(columns, [part[number] if number < len(part) else "" for part in parts])


def broken(text: str, width: int, lines: int) -> list[str]:
    """Return a text in lines of a width, broken after punctuation where it has some; the last may be cut.

    >>> broken("_timer_state/processing_user-timers", 16, 4), broken("abcdefgh", 5, 1)
    (['_timer_state/', 'processing_user-', 'timers'], ['abcd…'])
    """
    pieces: list[str] = []
    while width_of(text) > width:
        if len(pieces) == lines - 1:
            return [*pieces, _head(text, width - 1) + "…"]
        head = _head(text, width)
        ends = (max((match.end() for match in re.finditer(mark, head)), default=0) for mark in BREAKS)
        end = next((end for end in ends if end > len(head) // 3), max(len(head), 1))
        pieces.append(text[:end].rstrip())
        text = text[end:].lstrip()
    return [*pieces, text]


def _head(text: str, width: int) -> str:
    """Return the longest start of a text that is not wider."""
    end = len(text) if width_of(text) <= width else min(len(text), max(width, 0))
    while end and width_of(text[:end]) > width:
        end -= 1
    return text[:end]


def wrapped(text: str, width: int, indent: str) -> list[str]:
    """Return a sentence in lines, broken at spaces; names are kept whole."""
    return textwrap.wrap(
        text, max(width, 2 * MIN_CELL), subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


# -- values -------------------------------------------------------------------------------------------------


def cell(value: Any) -> str:
    r"""Return a value as one line of text.

    >>> cell({"a": [1, None]}), cell(None), cell("a\nb")
    ('{"a": [1, null]}', '', 'a b')
    """
    if value is None:
        return ""
    text = value if isinstance(value, str) else json.dumps(finite(_plain(value)), ensure_ascii=False)
    if not isinstance(value, str) and text.startswith('"'):
        text = text[1:-1]
    return printable(re.sub(r"[\n\t]", " ", text))


def csv_line(values: Iterable[Any], safe: bool = False) -> str:
    r"""Return a line of CSV (RFC 4180): lists and objects as JSON, NULL as nothing, an empty text as two quotes.

    The module ``csv`` of Python 3.11 writes both as nothing. ``safe``: a spreadsheet takes no text for a formula.

    >>> csv_line([1, None, "", "a, b"]), csv_line([-1, "=1+1", "-1.5", "-x"], safe=True)
    ('1,,"","a, b"', "-1,'=1+1,-1.5,'-x")
    """
    return ",".join(_field(value, safe) for value in values)


def _field(value: Any, safe: bool) -> str:
    if value is None:
        return ""
    plain = finite(_plain(value))
    text = plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False)
    if safe and isinstance(plain, str) and text.startswith(OF_FORMULAS) and not PLAIN_NUMBER.fullmatch(text):
        text = "'" + text
    return text if text and not re.search(r'[",\r\n]', text) else '"' + text.replace('"', '""') + '"'


def _plain(value: Any) -> Any:
    """Return a value as JSON has it; the types of state are imported where one is shown, not for ``--help``."""
    from pyspark_savepoint.statebackends.rows.json_values import to_json

    return to_json(value)


def finite(value: Any) -> Any:
    """Return a JSON value in which numbers that JSON lacks (NaN, infinities) are text."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {name: finite(part) for name, part in value.items()}
    return [finite(part) for part in value] if isinstance(value, list) else value
