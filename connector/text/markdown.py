"""Tables of Markdown whose cells are values: a name is neither Markdown nor HTML, and no command of a terminal."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from pyspark_savepoint.formats.redaction import printable


def cell(value: object) -> str:
    """Return a value as text of a page.

    >>> cell("<b>"), cell(None)
    ('&lt;b>', '')
    """
    text = "" if value is None else printable(str(value).replace("\n", " "), line=True)
    return re.sub(r"([\\`*|\[])", r"\\\1", text.replace("&", "&amp;").replace("<", "&lt;"))


def table(columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the lines of a table; ``nothing`` if it has no rows."""
    lines = ["| " + " | ".join(cell(row.get(name)) for name in columns) + " |" for row in rows]
    if not lines:
        yield "nothing"
        return
    yield "| " + " | ".join(columns) + " |"
    yield "|" + " --- |" * len(columns)
    yield from lines
