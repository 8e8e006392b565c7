"""Things of a plan in order, found by their names: plans are immutable, and each verb makes another one.

A changed copy takes a copy of two dictionaries, and no walk over the things: a chain of thousands of verbs on an
operator of thousands of states takes about as long per verb as a short one.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Any, Generic, Self, TypeVar, overload

T = TypeVar("T")


class NamedSequence(Sequence[T], Generic[T]):
    """Things in order. A name may have several."""

    __slots__ = ("_by_name", "_items")

    def __init__(self, items: Iterable[T] = ()) -> None:
        self._items: dict[int, T] = dict(enumerate(items))
        self._by_name: dict[Hashable, tuple[int, ...]] = {}
        for number, item in self._items.items():
            self._name(number, item)

    @staticmethod
    @abstractmethod
    def names(item: T) -> Iterable[Hashable]:
        """Return the names by which a thing is found."""

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[T]:
        return iter(self._items.values())

    @overload
    def __getitem__(self, place: int) -> T: ...

    @overload
    def __getitem__(self, place: slice) -> tuple[T, ...]: ...

    def __getitem__(self, place: Any) -> Any:
        return tuple(self)[place]

    def called(self, name: Hashable) -> list[T]:
        """Return the things that have a name, in order."""
        return [self._items[number] for number in self._by_name.get(name, ())]

    def with_added(self, *items: T) -> Self:
        """Return these things and more, at the end."""
        copy = self._copy()
        for number, item in enumerate(items, 1 + next(reversed(self._items), -1)):
            copy._items[number] = item
            copy._name(number, item)
        return copy

    def with_replaced(self, *pairs: tuple[T, T]) -> Self:
        """Return these things, of which each first one is replaced by the second, in its place."""
        copy = self._copy()
        numbers = [self._number(old) for old, _ in pairs]
        for number, (old, _) in zip(numbers, pairs, strict=True):
            copy._forget(number, old)
        for number, (_, new) in zip(numbers, pairs, strict=True):
            copy._items[number] = new
            copy._name(number, new)
        return copy

    def without(self, *items: T) -> Self:
        """Return the things that are none of these."""
        copy = self._copy()
        for item in items:
            number = self._number(item)
            copy._forget(number, item)
            del copy._items[number]
        return copy

    def _copy(self) -> Self:
        copy = type(self)()
        copy._items = self._items.copy()
        copy._by_name = self._by_name.copy()
        return copy

    def _number(self, item: T) -> int:
        """Return the number of a thing that is here, which is found by identity: two may be equal."""
        name = next(iter(self.names(item)))
        return next(number for number in self._by_name[name] if self._items[number] is item)

    def _name(self, number: int, item: T) -> None:
        for name in self.names(item):
            known = self._by_name.get(name, ())
            self._by_name[name] = (number,) if not known else tuple(sorted((*known, number)))

    def _forget(self, number: int, item: T) -> None:
        for name in self.names(item):
            left = tuple(one for one in self._by_name[name] if one != number)
            if left:
                self._by_name[name] = left
            else:
                del self._by_name[name]
