"""JSON that users or other programs hand over, and the whole numbers in their texts.

Python's parser takes more than JSON is (``NaN``, ``Infinity``), makes infinity of 1e999, keeps the last of two values
of one name, and reads brackets that are nested so deep that no other function can follow them. ``int`` and
``str.isdecimal`` take the digits of all scripts. Nothing of that is taken here.
"""

from __future__ import annotations

import json
from typing import Any, NoReturn

#: How deep brackets can be inside of each other: deeper than what Flink, Spark or this package write.
MAX_DEPTH = 200


def parse_json(text: str | bytes, *, constants: bool = False) -> Any:
    """Return the value of a JSON text.

    Args:
        text: The text.
        constants: Whether ``NaN``, ``Infinity`` and ``-Infinity`` are numbers, as Python and Java write them.

    Returns:
        The value.

    Raises:
        ValueError: If it is not JSON: a name occurs twice in an object, a number is out of range, or brackets are too
            deep.

    >>> parse_json('{"a": [1, 2.5]}')
    {'a': [1, 2.5]}
    >>> parse_json('{"a": 1, "a": 2}')
    Traceback (most recent call last):
    ValueError: name 'a' occurs twice

    """
    try:
        value = json.loads(
            text, object_pairs_hook=_once, parse_float=_number, parse_constant=float if constants else _refuse
        )
    except RecursionError:
        raise ValueError("brackets too deep") from None
    _expect_depth(value)
    return value


def number_of(text: object, most: int) -> int | None:
    """Return the whole number from 0 that a text of ASCII digits is; None if it is none, or more than ``most``.

    >>> number_of("42", 100), number_of("-1", 100), number_of("101", 100), number_of(chr(0x663), 100)
    (42, None, None, None)
    """
    if not isinstance(text, str) or not text.isascii() or not text.isdecimal():
        return None
    digits = text.lstrip("0") or "0"
    number = int(digits) if len(digits) <= len(str(most)) else most + 1
    return number if number <= most else None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    row = dict(pairs)
    if len(row) < len(pairs):
        seen: set[str] = set()
        raise ValueError(f"name {next(name for name, _ in pairs if name in seen or seen.add(name))!r} occurs twice")  # type: ignore[func-returns-value]
    return row


def _number(text: str) -> float:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise ValueError(f"number {text[:40]} is out of range")
    return number


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a number of JSON")


def _expect_depth(value: Any) -> None:
    level, depth = [value], 0
    while level:
        depth += 1
        if depth > MAX_DEPTH:
            raise ValueError("brackets too deep")
        level = [
            inner
            for outer in level
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, dict | list)
        ]
