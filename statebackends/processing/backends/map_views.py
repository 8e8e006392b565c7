"""Base of map states in backends that have no dict of the current key."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import ItemsView, KeysView, ValuesView

from pyspark_savepoint.statebackends.processing.api.state import K, MapState, V


class MapViews(MapState[K, V]):
    """Map state whose views are dicts, created for every access."""

    __slots__ = ()

    @abstractmethod
    def _map(self) -> dict[K, V | None]:
        """Return all current user keys and values."""

    def items(self) -> ItemsView[K, V | None]:
        return self._map().items()

    def keys(self) -> KeysView[K]:
        return self._map().keys()

    def values(self) -> ValuesView[V | None]:
        return self._map().values()

    def is_empty(self) -> bool:
        return not self._map()
