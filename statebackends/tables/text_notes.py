"""Warnings about strings with half of a surrogate pair, which option ``text`` escaped or replaced in a column.

Rows are searched only where a serializer counted such a string, so that other tables cost nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa

from pyspark_savepoint.formats.redaction import elide
from pyspark_savepoint.formats.serializers.basic.strings import ESCAPE, NOTED

#: Keys that a warning names, and the length of each.
MAX_KEYS, MAX_KEY = 10, 40
SIGNS = {"escape": ESCAPE, "replace": "\ufffd"}


def noting_texts(
    batches: Iterable[pa.RecordBatch], form: str, warn: Callable[[str], object], operator: str | None
) -> Iterator[pa.RecordBatch]:
    """Yield the batches; at the end, warn of rows whose strings had half of a surrogate pair.

    Args:
        batches: Rows of a table.
        form: Option ``text``.
        warn: A function that is called with the warning, at most once.
        operator: The name of the operator, if it is known.

    Yields:
        The same batches.

    """
    count, rows, keys, columns = NOTED.count, 0, list[str](), dict[str, None]()
    try:
        for batch in batches:
            if NOTED.count != count:
                count = NOTED.count
                for row in batch.to_pylist():
                    affected = [name for name, value in row.items() if _has(value, SIGNS.get(form, ESCAPE))]
                    rows += bool(affected)
                    columns |= dict.fromkeys(affected)
                    if affected and "key" in row and len(keys) < MAX_KEYS:
                        keys.append(elide(ascii(row["key"]), MAX_KEY))
            yield batch
    finally:
        if rows:
            warn(_warning(rows, keys, columns, form, operator))


def _has(value: Any, sign: str) -> bool:
    if isinstance(value, str):
        return sign in value
    if isinstance(value, dict):
        return any(_has(part, sign) for part in value.values())
    if isinstance(value, list | tuple):
        return any(_has(part, sign) for part in value)
    return isinstance(value, bytes) and sign.encode() in value


def _warning(rows: int, keys: list[str], columns: Iterable[str], form: str, operator: str | None) -> str:
    where = f" of operator {operator!r}" if operator else ""
    how = (
        "shown as U+FFFD, which writes do not turn back: option('text', 'escape') keeps it"
        if form == "replace"
        else "shown as U+10FFFF and its four hex digits, which writes turn back"
    )
    named = f"; keys: {', '.join(keys)}{' ...' if rows > len(keys) else ''}" if keys else ""
    return (
        f"{rows} row{'s' if rows > 1 else ''}{where} with half of a surrogate pair, {how} "
        f"(column{'s' if len(list(columns)) > 1 else ''} {', '.join(map(repr, columns))}{named})"
    )
