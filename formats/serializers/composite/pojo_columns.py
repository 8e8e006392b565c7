"""Which column holds which field: the struct of a POJO that has subclasses is the union of all their fields.

Fields stand in order of first appearance: the POJO's own, then those of the registered subclasses, then those of the
others, then ``__class``. A field of a name that stands there already shares its column where the types are equal;
else it is called ``name__Class``. A subclass that is no POJO is one field, called as the class.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

CLASS_COLUMN = "__class"


@dataclass(frozen=True)
class Column:
    """A field of the struct; ``signature`` tells whether a field of another class is the same."""

    name: str
    signature: tuple[str, str]


@dataclass(frozen=True)
class Branch:
    """A class that a value can be of, and where its fields stand in the struct."""

    class_name: str
    columns: tuple[int, ...]


class Plan:
    """The struct's columns and the branches; grows class by class."""

    def __init__(self) -> None:
        self.columns: list[Column] = []
        self.branches: list[Branch] = []
        self._places: dict[str, int] = {}

    def add_class(self, class_name: str, fields: Iterable[Column]) -> None:
        """The fields of one more class."""
        places: dict[int, None] = {}
        for field in fields:
            places[self._place(field, f"{field.name}__{simple_name(class_name)}", places.keys())] = None
        self.branches.append(Branch(class_name, tuple(places)))

    def add_class_column(self) -> None:
        """The name of the class, last."""
        self._append(Column(self._unused(CLASS_COLUMN), ("", "")))

    def _place(self, field: Column, otherwise: str, taken: Collection[int]) -> int:
        """A new place or a shared one, but none that this class has ``taken`` for another field."""
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
    """The last part of a class name.

    >>> simple_name("com.shop.Model$Order")
    'Order'
    """
    return class_name.rsplit(".", 1)[-1].rsplit("$", 1)[-1]
