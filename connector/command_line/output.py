"""Output of commands: aligned tables for people, and with ``--json`` one JSON object per line.

Names and values come from snapshots, so characters that terminals take for commands are escaped.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, TextIO

from pyspark_savepoint.formats.redaction import printable

#: Rows from which the widths of columns are taken; later rows may be wider.
MEASURED = 500
MAX_CELL = 60
GAP = "  "

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Output:
    """Output of a command: ``results``, and ``remarks``. ``width`` is None if it is not a terminal."""

    results: TextIO
    remarks: TextIO
    as_json: bool
    width: int | None = None

    def say(self, text: str) -> None:
        """Print a line for people; nothing with ``--json``."""
        if not self.as_json:
            self._print(text)

    def remark(self, text: str) -> None:
        """Print a line that is not a result."""
        print(printable(text), file=self.remarks, flush=True)

    def record(self, values: Row) -> None:
        """Print one JSON object, with ``--json`` only."""
        if self.as_json:
            print(json.dumps(finite(_plain(values))), file=self.results)

    def table(self, columns: Sequence[str], rows: Iterable[Row], all_columns: bool = False) -> None:
        """Print rows: all fields with ``--json``, else these columns, without those that have no value."""
        if self.as_json:
            for row in rows:
                self.record(row)
            return
        following = iter(rows)
        first = list(islice(following, MEASURED))
        shown = [name for name in columns if all_columns or any(row.get(name) not in (None, "") for row in first)]
        if not first or not shown:
            return
        numbers = {name for name in shown if all(isinstance(row.get(name), int | float | None) for row in first)}
        limit = MAX_CELL if self.width is not None else 10 * MAX_CELL
        cells = [[cell(row.get(name), limit) for name in shown] for row in first]
        titles = [name.replace("_", " ") for name in shown]
        widths = [max(map(len, column)) for column in zip(titles, *cells, strict=True)]
        rest = ([cell(row.get(name), limit) for name in shown] for row in following)
        for line in chain([titles], cells, rest):
            self._print(self._line(line, widths, [name in numbers for name in shown]))

    def _line(self, cells: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
        parts = (
            text.rjust(width) if number else text.ljust(width)
            for text, width, number in zip(cells, widths, right, strict=True)
        )
        line = GAP.join(parts).rstrip()
        return line if self.width is None or len(line) <= self.width else line[: self.width - 1] + "…"

    def _print(self, text: str) -> None:
        print(printable(text), file=self.results)


def cell(value: Any, limit: int) -> str:
    """Return a value as one short line.

    >>> cell({"a": [1, None]}, 60), cell(None, 60), cell("x" * 9, 5)
    ('{"a": [1, null]}', '', 'xxxx…')
    """
    if value is None:
        return ""
    text = value if isinstance(value, str) else json.dumps(finite(_plain(value)), ensure_ascii=False)
    if not isinstance(value, str) and text.startswith('"'):
        text = text[1:-1]
    text = printable(text.replace("\n", " "))
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _plain(value: Any) -> Any:
    """Return a value as JSON has it; the types of state are imported where one is shown, not for ``--help``."""
    from pyspark_savepoint.statebackends.model.json_values import to_json

    return to_json(value)


def finite(value: Any) -> Any:
    """Return a JSON value in which numbers that JSON lacks (NaN, infinities) are text."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {name: finite(part) for name, part in value.items()}
    return [finite(part) for part in value] if isinstance(value, list) else value


def first_rows(rows: Iterable[Row], limit: int, output: Output, how: str) -> Iterator[Row]:
    """Yield the first rows, all where the limit is 0; remark that there are more."""
    for number, row in enumerate(rows):
        if limit and number == limit:
            output.remark(f"... more rows: {how}")
            return
        yield row
