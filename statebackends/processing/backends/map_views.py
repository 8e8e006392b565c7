"""Views of map states that allow changes while they are iterated over, and the base of states without a dict."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import ItemsView, Iterator, KeysView, ValuesView

from pyspark_savepoint.statebackends.processing.api.state import K, MapState, V


class Items(ItemsView[K, V]):
    """Pairs of a dict; an iteration covers those that exist when it begins."""

    __slots__ = ()
    _mapping: dict[K, V]

    def __iter__(self) -> Iterator[tuple[K, V]]:
        return iter(list(self._mapping.items()))


class Keys(KeysView[K]):
    """Keys of a dict; an iteration covers those that exist when it begins."""

    __slots__ = ()
    _mapping: dict[K, object]

    def __iter__(self) -> Iterator[K]:
        return iter(list(self._mapping))


class Values(ValuesView[V]):
    """Values of a dict; an iteration covers those that exist when it begins."""

    __slots__ = ()
    _mapping: dict[object, V]

    def __iter__(self) -> Iterator[V]:
        return iter(list(self._mapping.values()))


class MapViews(MapState[K, V]):
    """Map state whose dict is found, or made, for every access."""

    __slots__ = ()

    @abstractmethod
    def _map(self) -> dict[K, V | None]:
        """Return all current user keys and values."""

    def items(self) -> ItemsView[K, V | None]:
        return Items(self._map())

    def keys(self) -> KeysView[K]:
        return Keys(self._map())

    def values(self) -> ValuesView[V | None]:
        return Values(self._map())

    def is_empty(self) -> bool:
        return not self._map()
