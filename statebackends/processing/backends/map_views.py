"""Map state of backends that keep no dict of the current key."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import ItemsView, KeysView, ValuesView

from pyspark_savepoint.statebackends.processing.api.state import K, MapState, V


class MapViews(MapState[K, V]):
    """Map state that is looked at as a dict, made anew for every look."""

    __slots__ = ()

    @abstractmethod
    def _map(self) -> dict[K, V | None]:
        """All user keys and values, as they are now."""

    def items(self) -> ItemsView[K, V | None]:
        """User keys with their values."""
        return self._map().items()

    def keys(self) -> KeysView[K]:
        return self._map().keys()

    def values(self) -> ValuesView[V | None]:
        return self._map().values()

    def is_empty(self) -> bool:
        """Whether there is no user key."""
        return not self._map()
