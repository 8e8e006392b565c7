"""States in RocksDB: tables with one value per key, or per key and window; lists and maps with an entry per element.

The states of :mod:`heap` look up the tables:

    entry   := u16 state  u8[] groupedKey                                                            without namespaces
             | u16 state  u8[] groupedKey  u8[] namespace  u32 (size of groupedKey)  u32 (size of namespace)

Changed values stay Python objects until there are many, and then go, encoded, to an :class:`EntryMemory`, which writes
to RocksDB when it is full. So tables that fit into memory are never written to RocksDB. Nothing else writes these
entries, so those in memory are the newest.

Lists and maps are in the layout of :mod:`rocksdb_backend`.
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby, islice
from operator import itemgetter
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from pyspark_savepoint.statebackends.processing.api.state import ListState, State
from pyspark_savepoint.statebackends.processing.backends.backend import MapViews, RegisteredState, needs_element
from pyspark_savepoint.statebackends.processing.backends.heap import TABLES, Current
from pyspark_savepoint.statebackends.processing.backends.rocksdb_codec import Codec, as_stored, codec, key_codec
from pyspark_savepoint.statebackends.processing.backends.rocksdb_memory import BufferedDatabase, EntryMemory
from pyspark_savepoint.statebackends.rows.descriptors import StateKind

#: Bytes of the changed values that the tables of a task keep as objects.
MAX_OBJECT_BYTES = 48 << 20
#: Bytes that Python needs for an entry of a dict, in addition to those of its key and of encoded values.
OBJECTS = 200
#: Values that are encoded at a time.
FOLDED = 1 << 15
_LENGTHS = struct.Struct(">II")
_LEAST, _GREATEST = -(1 << 63), (1 << 63) - 1
_UNKNOWN: Any = object()


class StoredTable(ABC):
    """Table by the bytes of its keys in RocksDB after the number of the state; None is not a value."""

    def __init__(self, memory: EntryMemory, prefix: bytes) -> None:
        self._memory = memory
        self._prefix = prefix
        #: Changed values, and values as they are in memory or RocksDB: nearly all of them were read ahead.
        self._new: dict[bytes, Any] = {}
        self._ahead: dict[bytes, Any] = {}
        self._is_written = False
        #: Bytes of the values that were read one by one.
        self._one_by_one = 0
        #: Most bytes of changed values.
        self.most = MAX_OBJECT_BYTES
        #: How often a value was used that was read ahead.
        self.used = 0

    @abstractmethod
    def get(self, at: bytes) -> Any:
        """Return the value; None if there is none."""

    @abstractmethod
    def __setitem__(self, at: bytes, value: Any) -> None:
        """Set the value; raise ValueRangeError if a column of its type cannot hold it."""

    @abstractmethod
    def _encoded(self, kept: Iterable[Any]) -> list[bytes | None]:
        """Return the bytes of values as dictionaries hold them."""

    @abstractmethod
    def _decoded(self, data: list[bytes | None]) -> list[Any]:
        """Return values as dictionaries hold them."""

    @abstractmethod
    def _value(self, kept: Any) -> Any:
        """Return a value that a dictionary holds."""

    def pop(self, at: bytes, default: None) -> None:
        """Remove the value if there is one."""
        self._new[at] = None
        if len(self._new) * (OBJECTS + len(at)) > self.most:
            self._fold()

    def _find(self, at: bytes) -> Any:
        """Return what a dictionary would hold of a value that did not change."""
        stored = self._ahead.get(at, _UNKNOWN)
        if stored is not _UNKNOWN:
            self.used += 1
        elif self._is_written:
            (stored,) = self._decoded([self._memory.read(self._prefix + at)])
            self._one_by_one += OBJECTS + len(at) + (len(stored) if isinstance(stored, bytes) else 0)
            if self._one_by_one > self.most // 4:
                self._ahead, self._one_by_one = {}, 0
            self._ahead[at] = stored
        else:
            stored = None
        return stored

    def read_ahead(self, grouped_keys: Sequence[bytes]) -> tuple[int, int]:
        """Read the values of some keys at once; return how many there were to read, and their bytes."""
        prefix = self._prefix
        wanted = {grouped_key for grouped_key in grouped_keys if grouped_key not in self._new}
        # Encode now if these records might fill the rest: that would drop the values that are read ahead for them.
        if self._is_full(self.most - sum(map(len, wanted)) - OBJECTS * len(wanted)):
            self._fold()
            wanted = set(grouped_keys)
        self.used, self._ahead, self._one_by_one = 0, {}, 0
        if not self._is_written:
            return 0, 0
        data = self._memory.read_all([prefix + grouped_key for grouped_key in wanted])
        self._ahead = dict(zip(wanted, self._decoded(data), strict=True))
        return len(wanted), sum(map(len, filter(None, data)))

    def _is_full(self, most: int) -> bool:
        """Return whether the changed values need more than some bytes."""
        return bool(self._new) and len(self._new) * (OBJECTS + len(next(iter(self._new)))) > most

    def _fold(self) -> None:
        """Encode the changed values."""
        changed, prefix = iter(self._new.items()), self._prefix
        while part := list(islice(changed, FOLDED)):
            self._memory.write_all([prefix + at for at, _ in part], self._encoded([kept for _, kept in part]))
            self._is_written = True
        self._new, self._ahead, self._one_by_one = {}, {}, 0

    def entries(self) -> Iterator[tuple[bytes, Any]]:
        """Yield the bytes after the number of the state, and the values, in order."""
        if self._is_written:
            self._fold()
            for key, data in self._memory.entries(self._prefix):
                (kept,) = self._decoded([data])
                yield key[len(self._prefix) :], self._value(kept)
        else:
            for at in sorted(self._new):
                if self._new[at] is not None:
                    yield at, self._value(self._new[at])


class NumberTable(StoredTable):
    """Integers or floats, which dictionaries hold as they are."""

    def __init__(self, memory: EntryMemory, prefix: bytes, kind: pa.DataType) -> None:
        super().__init__(memory, prefix)
        self._kind = kind
        self._plain = int if pt.is_integer(kind) else float
        self._struct = struct.Struct(">q" if self._plain is int else ">d")

    def get(self, at: bytes) -> Any:
        written = self._new.get(at, _UNKNOWN)
        return self._find(at) if written is _UNKNOWN else written

    def __setitem__(self, at: bytes, value: Any) -> None:
        if type(value) is not self._plain or (self._plain is int and not _LEAST <= value <= _GREATEST):
            value = as_stored(value, self._kind)
        self._new[at] = value
        if len(self._new) * (OBJECTS + len(at)) > self.most:
            self._fold()

    def _encoded(self, kept: Iterable[Any]) -> list[bytes | None]:
        pack = self._struct.pack
        return [None if number is None else pack(number) for number in kept]

    def _decoded(self, data: list[bytes | None]) -> list[Any]:
        unpack = self._struct.unpack
        return [None if number is None else unpack(number)[0] for number in data]

    def _value(self, kept: Any) -> Any:
        return kept


class BytesTable(StoredTable):
    """Values of other types, which dictionaries hold encoded: some can be changed in place, and their sizes differ."""

    def __init__(self, memory: EntryMemory, prefix: bytes, kind: pa.DataType) -> None:
        super().__init__(memory, prefix)
        self._encode, self._decode = codec(kind)
        self._bytes = 0

    def get(self, at: bytes) -> Any:
        encoded = self._new.get(at, _UNKNOWN)
        if encoded is _UNKNOWN:
            encoded = self._find(at)
        return None if encoded is None else self._decode(encoded)

    def __setitem__(self, at: bytes, value: Any) -> None:
        data = self._encode(value)
        before = self._new.get(at)
        self._new[at] = data
        self._bytes += len(data) - (0 if before is None else len(before))
        if self._bytes + len(self._new) * (OBJECTS + len(at)) > self.most:
            self._fold()

    def pop(self, at: bytes, default: None) -> None:
        before = self._new.get(at)
        self._bytes -= 0 if before is None else len(before)
        super().pop(at, default)

    def _is_full(self, most: int) -> bool:
        return self._bytes + len(self._new) * OBJECTS > most

    def _fold(self) -> None:
        super()._fold()
        self._bytes = 0

    def _encoded(self, kept: Iterable[Any]) -> list[bytes | None]:
        return list(kept)

    def _decoded(self, data: list[bytes | None]) -> list[Any]:
        return data

    def _value(self, kept: Any) -> Any:
        return self._decode(kept)


class TableState:
    """State whose values are in a table, as the backend uses it: like a :class:`RocksState`."""

    def __init__(self, memory: EntryMemory, prefix: bytes, state: RegisteredState, here: Current) -> None:
        (kind,) = state.units
        table = NumberTable if pt.is_integer(kind) or pt.is_floating(kind) else BytesTable
        self.table: StoredTable = table(memory, prefix, kind)
        self.state = state
        #: The class of the namespaces, set with the first one.
        self.windows: Any = None
        self._current = Current() if state.namespaced else here
        create: Callable[[Current, Any, RegisteredState], State] = TABLES[state.kind]
        self.shown = create(self._current, self.table, state)

    def go(self, grouped_key: bytes, namespace: bytes) -> None:
        """Set the grouped key and namespace of a namespaced state."""
        self._current.now = grouped_key + namespace + _LENGTHS.pack(len(grouped_key), len(namespace))

    def clear(self) -> None:
        self.table.pop(self._current.now, None)

    def content(self) -> Any:
        """Return the content for outputs; None if there is none."""
        return self.table.get(self._current.now)

    def put_content(self, content: Any) -> None:
        """Store the content."""
        self.table[self._current.now] = content

    def everything(self) -> Iterator[tuple[bytes, Any, Any]]:
        """Yield grouped key, namespace and content of every key, in order."""
        for at, content in self.table.entries():
            if self.state.namespaced:
                size, namespace = _LENGTHS.unpack_from(at, len(at) - _LENGTHS.size)
                window = self.windows.from_bytes(at[size : size + namespace]) if namespace else None
                yield at[:size], window, content
            else:
                yield at, None, content


_COUNT = struct.Struct(">Q")
_PRESENT, _ABSENT = b"\1", b"\0"


class RocksState(State):
    """Base of all kinds of state: the position of their entries."""

    def __init__(self, database: BufferedDatabase, prefix: bytes, state: RegisteredState, here: Current) -> None:
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
        self._current = Current() if state.namespaced else here
        self._settled: bytes | None = None
        self._head = self._tail = self._here = b""

    def settle(self) -> None:
        """Follow the current key; most records use few of the states."""
        grouped_key = self._current.now
        if grouped_key is not self._settled:
            self._settled = grouped_key
            self.go(grouped_key, b"")

    def go(self, grouped_key: bytes, namespace: bytes) -> None:
        """Set the grouped key and namespace of the entries."""
        self._head = self.prefix + grouped_key + namespace
        self._tail = _LENGTHS.pack(len(grouped_key), len(namespace))
        self._here = self._head + self._tail

    @abstractmethod
    def content(self) -> Any:
        """Return the content for outputs; None if there is none."""

    @abstractmethod
    def put_content(self, content: Any) -> None:
        """Store the content."""

    @abstractmethod
    def _content_of(self, elements: list[tuple[bytes, bytes]]) -> Any:
        """Return the content of the bytes of user keys and values of a grouped key, in order."""

    def everything(self) -> Iterator[tuple[bytes, Any, Any]]:
        """Yield grouped key, namespace and content of every key, in order."""
        for (grouped_key, namespace), elements in groupby(self._elements(), key=itemgetter(0)):
            content = self._content_of([(user_key, data) for _, user_key, data in elements])
            yield grouped_key, self.windows.from_bytes(namespace) if namespace else None, content

    def _elements(self) -> Iterator[tuple[tuple[bytes, bytes], bytes, bytes]]:
        """Yield grouped key and namespace, user key and value of every entry, in order."""
        start, end = len(self.prefix), -_LENGTHS.size
        for key, data in self._db.entries(self.prefix):
            size, namespace = _LENGTHS.unpack(key[end:])
            middle, behind = start + size, start + size + namespace
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
        elements = []
        for i in range(self._count()):
            data = self._get(self._head + _COUNT.pack(i) + self._tail)
            assert data is not None
            elements.append(self.decode(data))
        return elements

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

    def read_ahead(self, grouped_keys: Sequence[bytes]) -> tuple[int, int]:
        """Read the lengths at some keys at once; return how many there were to read, and their bytes."""
        ends = [grouped_key + _LENGTHS.pack(len(grouped_key), 0) for grouped_key in set(grouped_keys)]
        return self._database.read_ahead([prefix + end for prefix in self._prefixes for end in ends])


ROCKS: Mapping[StateKind, Callable[[BufferedDatabase, bytes, RegisteredState, Current], RocksState]] = {
    StateKind.LIST: RocksListState,
    StateKind.MAP: RocksMapState,
}
