"""Lists and maps whose elements are entries in RocksDB, in the layout of :mod:`rocksdb_backend`."""

from __future__ import annotations

import struct
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

from pyspark_savepoint.statebackends.model.descriptors import StateKind
from pyspark_savepoint.statebackends.processing.api.state import ListState, State
from pyspark_savepoint.statebackends.processing.backends.backend import RegisteredState, needs_element
from pyspark_savepoint.statebackends.processing.backends.map_views import MapViews
from pyspark_savepoint.statebackends.processing.backends.rocksdb.buffer import BufferedDatabase
from pyspark_savepoint.statebackends.processing.backends.rocksdb.codec import Codec, codec, key_codec
from pyspark_savepoint.statebackends.processing.backends.tables import Place

_COUNT, _LENGTHS = struct.Struct(">Q"), struct.Struct(">II")
_PRESENT, _ABSENT = b"\1", b"\0"


class RocksState(State):
    """Base of all kinds of state: the position of their entries."""

    def __init__(self, database: BufferedDatabase, prefix: bytes, state: RegisteredState, here: Place) -> None:
        self.state = state
        self.prefix = prefix
        #: The class of the namespaces, set with the first one.
        self.windows: Any = None
        self._db = database
        self._get: Callable[[bytes], bytes | None] = database.get
        self._put: Callable[[bytes, bytes], None] = database.put
        self._delete: Callable[[bytes], None] = database.delete
        *keys, value = state.units
        self.codecs: list[Codec] = [*map(key_codec, keys), codec(value)]
        self.encode, self.decode = self.codecs[-1]
        #: Where a state without namespaces is, and where it was when it was last used.
        self._place = Place() if state.namespaced else here
        self._settled: bytes | None = None
        self._head = self._tail = self._here = b""

    def settle(self) -> None:
        """Follow the current key; most records use few of the states."""
        place = self._place.now
        if place is not self._settled:
            self._settled = place
            self.go(place, b"")

    def go(self, place: bytes, namespace: bytes) -> None:
        """Set the place and namespace of the entries."""
        self._head = self.prefix + place + namespace
        self._tail = _LENGTHS.pack(len(place), len(namespace))
        self._here = self._head + self._tail

    @abstractmethod
    def content(self) -> Any:
        """Return the content for outputs; None if there is none."""

    @abstractmethod
    def put_content(self, content: Any) -> None:
        """Store the content."""

    @abstractmethod
    def _content_of(self, elements: list[tuple[bytes, bytes]]) -> Any:
        """Return the content of the bytes of user keys and values of a place, in order."""

    def everything(self) -> Iterator[tuple[bytes, Any, Any]]:
        """Yield place, namespace and content of every key, in order."""
        for (place, namespace), elements in groupby(self._elements(), key=itemgetter(0)):
            content = self._content_of([(user_key, data) for _, user_key, data in elements])
            yield place, self.windows.from_bytes(namespace) if namespace else None, content

    def _elements(self) -> Iterator[tuple[tuple[bytes, bytes], bytes, bytes]]:
        """Yield place and namespace, user key and value of every entry, in order."""
        start, end = len(self.prefix), -_LENGTHS.size
        for key, data in self._db.entries(self.prefix):
            place, namespace = _LENGTHS.unpack(key[end:])
            middle, behind = start + place, start + place + namespace
            yield (key[start:middle], key[middle:behind]), key[behind:end], data


class RocksListState(RocksState, ListState[Any]):
    """List with one entry per element: the cost of adding one does not depend on the length."""

    def _count(self) -> int:
        self.settle()
        data = self._get(self._here)
        return 0 if data is None else int(_COUNT.unpack(data)[0])

    def _append(self, values: list[Any], at: int) -> None:
        for i, value in enumerate(values, at):
            needs_element(value, self.state.name)
            self._put(self._head + _COUNT.pack(i) + self._tail, self.encode(value))
        self._put(self._here, _COUNT.pack(at + len(values)))

    def get(self) -> list[Any]:
        found = []
        for i in range(self._count()):
            data = self._get(self._head + _COUNT.pack(i) + self._tail)
            assert data is not None
            found.append(self.decode(data))
        return found

    def _content_of(self, elements: list[tuple[bytes, bytes]]) -> Any:
        return [self.decode(data) for number, data in elements if number]

    def add(self, value: Any) -> None:
        self._append([value], self._count())

    def add_all(self, values: Iterable[Any]) -> None:
        added = list(values)
        if added:
            if None in added:
                needs_element(None, self.state.name)
            self._append(added, self._count())

    def update(self, values: Iterable[Any]) -> None:
        elements = list(values)
        if None in elements:
            needs_element(None, self.state.name)
        self.clear()
        if elements:
            self._append(elements, 0)

    def clear(self) -> None:
        for i in range(self._count()):
            self._delete(self._head + _COUNT.pack(i) + self._tail)
        self._delete(self._here)

    def content(self) -> Any:
        return self.get() or None

    def put_content(self, content: Any) -> None:
        self.update(content)


class RocksMapState(RocksState, MapViews[Any, Any]):
    """Map with one entry per user key."""

    def _at(self, key: Any) -> bytes:
        self.settle()
        encode, _ = self.codecs[0]
        return self._head + (_ABSENT if key is None else _PRESENT + encode(key)) + self._tail

    def _map(self) -> dict[Any, Any]:
        self.settle()
        start, end = len(self._head), len(self._tail)
        return self._content_of([(key[start : len(key) - end], data) for key, data in self._db.entries(self._head)])

    def _content_of(self, elements: list[tuple[bytes, bytes]]) -> dict[Any, Any]:
        _, decode = self.codecs[0]
        return {None if key == _ABSENT else decode(key[1:]): self._value(data) for key, data in elements}

    def _value(self, data: bytes) -> Any:
        return None if data == _ABSENT else self.decode(data[1:])

    def get(self, key: Any) -> Any:
        data = self._get(self._at(key))
        return None if data is None else self._value(data)

    def put(self, key: Any, value: Any) -> None:
        self._put(self._at(key), _ABSENT if value is None else _PRESENT + self.encode(value))

    def put_all(self, values: Mapping[Any, Any]) -> None:
        for key, value in values.items():
            self.put(key, value)

    def remove(self, key: Any) -> None:
        self._delete(self._at(key))

    def contains(self, key: Any) -> bool:
        return self._get(self._at(key)) is not None

    def is_empty(self) -> bool:
        self.settle()
        return next(self._db.entries(self._head), None) is None

    def clear(self) -> None:
        self.settle()
        for key, _ in list(self._db.entries(self._head)):
            self._delete(key)

    def content(self) -> Any:
        return self._map() or None

    def put_content(self, content: Any) -> None:
        self.put_all(content)


class ListLengths:
    """Reads ahead the lengths of all lists."""

    def __init__(self, database: BufferedDatabase, lists: Sequence[RocksState]) -> None:
        self._database = database
        self._prefixes = [state.prefix for state in lists]

    @property
    def used(self) -> int:
        """Return how often a length was used that was read ahead."""
        return self._database.used

    def read_ahead(self, places: Sequence[bytes]) -> tuple[int, int]:
        """Read the lengths at some places at once; return how many there were to read, and their bytes."""
        ends = [place + _LENGTHS.pack(len(place), 0) for place in set(places)]
        return self._database.read_ahead([prefix + end for prefix in self._prefixes for end in ends])


ROCKS: Mapping[StateKind, Callable[[BufferedDatabase, bytes, RegisteredState, Place], RocksState]] = {
    StateKind.LIST: RocksListState,
    StateKind.MAP: RocksMapState,
}
