"""Columns of a POJO with subclasses: the union of the fields of all classes.

Fields are in order of first appearance: those of the POJO, of the registered subclasses, of the other subclasses, then
``__class``. Fields of the same name share a column if their types are equal; else the later one is called
``name__Class``. A subclass that is not a POJO is one field with the simple name of the class.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

CLASS_COLUMN = "__class"


@dataclass(frozen=True)
class Column:
    """Field of the struct; fields with equal name and ``signature`` share a column."""

    name: str
    signature: tuple[str, str]


@dataclass(frozen=True)
class Branch:
    """Possible class of a value, with the positions of its fields in the struct."""

    class_name: str
    columns: tuple[int, ...]


class Plan:
    """Columns and branches of the struct, built up class by class."""

    def __init__(self) -> None:
        self.columns: list[Column] = []
        self.branches: list[Branch] = []
        self._places: dict[str, int] = {}

    def add_class(self, class_name: str, fields: Iterable[Column]) -> None:
        """Add the fields of a class."""
        places: dict[int, None] = {}
        for field in fields:
            places[self._place(field, f"{field.name}__{simple_name(class_name)}", places.keys())] = None
        self.branches.append(Branch(class_name, tuple(places)))

    def add_class_column(self) -> None:
        """Add the column of the class name, after all fields."""
        self._append(Column(self._unused(CLASS_COLUMN), ("", "")))

    def _place(self, field: Column, otherwise: str, taken: Collection[int]) -> int:
        """Return the column of a field, new or shared, but none ``taken`` by another field of the same class."""
        for name in (field.name, otherwise):
            place = self._places.get(name)
            if place is None:
                return self._append(Column(name, field.signature))
            if self.columns[place].signature == field.signature and place not in taken:
                return place
        return self._append(Column(self._unused(otherwise), field.signature))

    def _append(self, column: Column) -> int:
        self._places[column.name] = len(self.columns)
        self.columns.append(column)
        return len(self.columns) - 1

    def _unused(self, name: str) -> str:
        candidate, number = name, 2
        while candidate in self._places:
            candidate = f"{name}_{number}"
            number += 1
        return candidate


def simple_name(class_name: str) -> str:
    """Return the last part of a class name.

    >>> simple_name("com.shop.Model$Order")
    'Order'
    """
    return class_name.rsplit(".", 1)[-1].rsplit("$", 1)[-1]
