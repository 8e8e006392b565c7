"""Rows of user functions, which correspond to the POJOs, tuples and rows of a Flink job.

A row is mutable, and its fields are accessible as attributes, by name and by position. It equals the tuple and the dict
of its fields, and hashes by its current field values, like a POJO with ``equals`` and ``hashCode``. Every schema has
its own class, whose fields are slots: reading one is as fast as reading any attribute.
"""

from __future__ import annotations

import keyword
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import repeat
from operator import itemgetter
from typing import Any, ClassVar

_new: Callable[[Any], Any] = object.__new__


class Row:
    """Value with named fields: ``row.total``, ``row["total"]`` or ``row[0]``."""

    __slots__ = ()

    #: Names of the fields, in order.
    _fields: ClassVar[tuple[str, ...]] = ()
    _get: ClassVar[tuple[Callable[[Any], Any], ...]] = ()
    _set: ClassVar[tuple[Callable[[Any, Any], None], ...]] = ()
    _place: ClassVar[Mapping[str, int]] = {}

    def _at(self, which: str | int) -> int:
        if isinstance(which, str):
            if which not in self._place:
                raise KeyError(f"no field {which!r}: there are {', '.join(self._fields)}")
            return self._place[which]
        return which

    def __getitem__(self, which: str | int) -> Any:
        return self._get[self._at(which)](self)

    def __setitem__(self, which: str | int, value: Any) -> None:
        self._set[self._at(which)](self, value)

    def __iter__(self) -> Iterator[Any]:
        return iter([get(self) for get in self._get])

    def __len__(self) -> int:
        return len(self._fields)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Row):
            return self._fields == other._fields and tuple(self) == tuple(other)
        if isinstance(other, tuple):
            return tuple(self) == other
        if isinstance(other, dict):
            return Row.as_dict(self) == other
        return NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        values = zip(self._fields, self, strict=True)
        return f"Row({', '.join(f'{name}={value!r}' for name, value in values)})"

    def __reduce__(self) -> tuple[Any, ...]:
        return make_row, (self._fields, tuple(self))

    def _copied(self, copied: Callable[[Any], Any]) -> Row:
        """Return a new row with copies of the fields."""
        other: Row = _new(type(self))
        for get, put in zip(self._get, self._set, strict=True):
            put(other, copied(get(self)))
        return other

    def as_dict(self) -> dict[str, Any]:
        """Return the fields by name; nested rows stay rows."""
        return dict(zip(self._fields, self, strict=True))

    # The name in Spark's rows.
    asDict = as_dict  # noqa: N815

    def __getattr__(self, name: str) -> Any:
        # Called only for missing attributes.
        raise AttributeError(f"a row has no field {name!r}: there are {', '.join(self._fields)}")


def make_row(fields: tuple[str, ...], values: Sequence[Any]) -> Row:
    """Return a row with some fields.

    >>> make_row(("id", "amount"), (1, 2.5))
    Row(id=1, amount=2.5)
    """
    return rows_of_columns(fields, [[value] for value in values], 1)[0]


@lru_cache(maxsize=1024)
def row_class(fields: tuple[str, ...]) -> type[Row]:
    """Return the row class for some fields; a name that is not a valid attribute needs ``row["name"]``."""
    names: dict[str, str] = {}
    for i, field in enumerate(fields):
        plain = field.isidentifier() and not field.startswith("_") and not keyword.iskeyword(field)
        names[f"_{i}_" if not plain or field in names else field] = field
    kind: type[Row] = type("Row", (Row,), {"__slots__": tuple(names), "_fields": fields})
    slots = [kind.__dict__[name] for name in names]
    kind._get = tuple(slot.__get__ for slot in slots)
    kind._set = tuple(slot.__set__ for slot in slots)
    kind._place = {field: i for i, field in reversed(list(enumerate(fields)))}
    return kind


def rows_of_columns(fields: tuple[str, ...], columns: Sequence[Sequence[Any]], count: int) -> list[Row]:
    """Return ``count`` rows from columns, filled column by column."""
    kind = row_class(fields)
    rows = list(map(_new, repeat(kind, count)))
    for put, column in zip(kind._set, columns, strict=True):
        deque(map(put, rows, column), 0)
    return rows


def refilled(row: Row, columns: Sequence[Sequence[Any]], count: int) -> Iterator[Row]:
    """Yield one row object repeatedly with the fields of the next row (FULL_REUSE), set as each row is taken."""
    if not columns:
        return repeat(row, count)
    setting = [map(put, repeat(row), column) for put, column in zip(row._set, columns, strict=True)]
    return map(itemgetter(0), zip(repeat(row), *setting, strict=False))


def rows_of_tuples(fields: tuple[str, ...]) -> Callable[[Any], Any]:
    """Return a function that makes a row of a tuple with as many values as fields; other values stay as they are.

    >>> rows_of_tuples(("sum", "count"))((3, 2))
    Row(sum=3, count=2)
    """
    kind, count = row_class(fields), len(fields)

    def row_of(value: Any) -> Any:
        if type(value) is not tuple or len(value) != count:
            return value
        row = _new(kind)
        for put, part in zip(kind._set, value, strict=True):
            put(row, part)
        return row

    return row_of


def copied_row(row: Row, copied: Callable[[Any], Any]) -> Row:
    """Return a new row with copies of the fields; a method would be in the way of a field of its name."""
    return row._copied(copied)
