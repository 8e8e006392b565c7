"""Tables in RocksDB for states with one value per key, or per key and window: the states of :mod:`tables` look them up.

    entry   := u16 state  u8[] place                                                                  without namespaces
             | u16 state  u8[] place  u8[] namespace  u32 (bytes of place)  u32 (bytes of namespace)

Changed entries stay in memory, in two generations. When the new generation is full, the old one is written, in the
order of the keys, and the new one becomes the old one. So keys that change often stay in memory, and a table that fits
into memory is never written. Nothing else writes these entries, so those in memory are the newest.
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from pyspark_savepoint.statebackends.processing.api.state import State
from pyspark_savepoint.statebackends.processing.backends.backend import RegisteredState
from pyspark_savepoint.statebackends.processing.backends.codec import as_stored, codec
from pyspark_savepoint.statebackends.processing.backends.rocksdb_buffer import BufferedDatabase
from pyspark_savepoint.statebackends.processing.backends.tables import TABLES, Place

#: Bytes that the tables of a task keep in memory, in both generations.
KEPT = 96 << 20
#: Bytes that Python needs for an entry of a dict, beside those of its key and of encoded values.
OBJECTS = 200
_LENGTHS = struct.Struct(">II")
_LEAST, _GREATEST = -(1 << 63), (1 << 63) - 1
_UNKNOWN: Any = object()


class StoredTable(ABC):
    """Table by the bytes of its keys in RocksDB after the number of the state; None is no value."""

    def __init__(self, database: BufferedDatabase, prefix: bytes) -> None:
        self._database = database
        self._prefix = prefix
        self._new: dict[bytes, Any] = {}
        self._old: dict[bytes, Any] = {}
        #: Values that were read for the next records, and whether a generation has ended since.
        self._ahead: dict[bytes, Any] = {}
        self._has_aged = False
        self._is_written = False
        #: Most bytes of a generation.
        self.most = KEPT // 2
        #: How often a value was used that was read ahead.
        self.used = 0

    @abstractmethod
    def get(self, at: bytes) -> Any:
        """Return the value; None if there is none."""

    @abstractmethod
    def __setitem__(self, at: bytes, value: Any) -> None:
        """Set the value; raise ValueRangeError if a column of its type cannot hold it."""

    @abstractmethod
    def _encoded(self, kept: Iterable[Any]) -> Iterable[bytes | None]:
        """Return the bytes of values as memory holds them."""

    @abstractmethod
    def _decoded(self, data: list[bytes | None]) -> Iterable[Any]:
        """Return values as memory holds them."""

    @abstractmethod
    def _value(self, kept: Any) -> Any:
        """Return a value that memory holds."""

    def pop(self, at: bytes, default: None) -> None:
        """Remove the value if there is one."""
        self._new[at] = None
        if len(self._new) * (OBJECTS + len(at)) > self.most:
            self._age()

    def _find(self, at: bytes) -> Any:
        """Return what memory would hold of a value that is not in the new generation."""
        found = self._old.get(at, _UNKNOWN)
        if found is _UNKNOWN:
            found = self._ahead.get(at, _UNKNOWN)
            if found is _UNKNOWN:
                if not self._is_written:
                    return None
                (found,) = self._decoded([self._database.read(self._prefix + at)])
            else:
                self.used += 1
        return found

    def read_ahead(self, places: Sequence[bytes]) -> tuple[int, int]:
        """Read the values of some places at once; return how many there were to read, and their bytes."""
        self.used, self._ahead, self._has_aged = 0, {}, False
        if not self._is_written:
            return 0, 0
        new, old, prefix = self._new, self._old, self._prefix
        wanted = sorted({place for place in places if place not in new and place not in old})
        data = self._database.read_all([prefix + place for place in wanted])
        self._ahead = dict(zip(wanted, self._decoded(data), strict=True))
        return len(wanted), sum(map(len, filter(None, data)))

    def _age(self) -> None:
        """Write the old generation, and make the new one the old one."""
        old, newer, prefix = self._old, self._new, self._prefix
        written = sorted(old.keys() - newer.keys()) if newer else sorted(old)
        values = self._encoded(map(old.__getitem__, written))
        self._database.write_all(zip([prefix + at for at in written], values, strict=True))
        self._is_written |= bool(written)
        # Records may have changed what was read for them: with the second generation that ends, changes are written.
        if self._has_aged:
            self._ahead = {}
        self._old, self._new, self._has_aged = newer, {}, True

    def entries(self) -> Iterator[tuple[bytes, Any]]:
        """Yield the bytes after the number of the state, and the values, in order."""
        if self._is_written:
            self._age()
            self._age()
            for key, data in self._database.entries(self._prefix):
                (kept,) = self._decoded([data])
                yield key[len(self._prefix) :], self._value(kept)
        else:
            kept_values = self._old | self._new
            for at in sorted(kept_values):
                if kept_values[at] is not None:
                    yield at, self._value(kept_values[at])


class NumberTable(StoredTable):
    """Integers or floats, which memory holds as they are."""

    def __init__(self, database: BufferedDatabase, prefix: bytes, kind: pa.DataType) -> None:
        super().__init__(database, prefix)
        self._kind = kind
        self._plain = int if pt.is_integer(kind) else float
        self._struct = struct.Struct(">q" if self._plain is int else ">d")

    def get(self, at: bytes) -> Any:
        found = self._new.get(at, _UNKNOWN)
        return self._find(at) if found is _UNKNOWN else found

    def __setitem__(self, at: bytes, value: Any) -> None:
        if type(value) is not self._plain or (self._plain is int and not _LEAST <= value <= _GREATEST):
            value = as_stored(value, self._kind)
        self._new[at] = value
        if len(self._new) * (OBJECTS + len(at)) > self.most:
            self._age()

    def _encoded(self, kept: Iterable[Any]) -> Iterable[bytes | None]:
        pack = self._struct.pack
        return [None if number is None else pack(number) for number in kept]

    def _decoded(self, data: list[bytes | None]) -> Iterable[Any]:
        unpack = self._struct.unpack
        return [None if number is None else unpack(number)[0] for number in data]

    def _value(self, kept: Any) -> Any:
        return kept


class BytesTable(StoredTable):
    """Values of other types, which memory holds encoded: some can be changed in place, and their sizes differ."""

    def __init__(self, database: BufferedDatabase, prefix: bytes, kind: pa.DataType) -> None:
        super().__init__(database, prefix)
        self._encode, self._decode = codec(kind)
        self._bytes = 0

    def get(self, at: bytes) -> Any:
        found = self._new.get(at, _UNKNOWN)
        if found is _UNKNOWN:
            found = self._find(at)
        return None if found is None else self._decode(found)

    def __setitem__(self, at: bytes, value: Any) -> None:
        data = self._encode(value)
        before = self._new.get(at)
        self._new[at] = data
        self._bytes += len(data) - (0 if before is None else len(before))
        if self._bytes + len(self._new) * (OBJECTS + len(at)) > self.most:
            self._age()

    def pop(self, at: bytes, default: None) -> None:
        before = self._new.get(at)
        self._bytes -= 0 if before is None else len(before)
        super().pop(at, default)

    def _age(self) -> None:
        super()._age()
        self._bytes = 0

    def _encoded(self, kept: Iterable[Any]) -> Iterable[bytes | None]:
        return kept

    def _decoded(self, data: list[bytes | None]) -> Iterable[Any]:
        return data

    def _value(self, kept: Any) -> Any:
        return self._decode(kept)


class TableState:
    """State whose values are in a table, as the backend uses it: like a :class:`RocksState`."""

    def __init__(self, database: BufferedDatabase, prefix: bytes, state: RegisteredState, here: Place) -> None:
        (kind,) = state.units
        table = NumberTable if pt.is_integer(kind) or pt.is_floating(kind) else BytesTable
        self.table: StoredTable = table(database, prefix, kind)
        self.state = state
        #: The class of the namespaces, set with the first one.
        self.windows: Any = None
        self._place = Place() if state.namespaced else here
        create: Callable[[Place, Any, RegisteredState], State] = TABLES[state.kind]
        self.shown = create(self._place, self.table, state)

    def go(self, place: bytes, namespace: bytes) -> None:
        """Set the place and namespace of a namespaced state."""
        self._place.now = place + namespace + _LENGTHS.pack(len(place), len(namespace))

    def clear(self) -> None:
        self.table.pop(self._place.now, None)

    def content(self) -> Any:
        """Return the content for outputs; None if there is none."""
        return self.table.get(self._place.now)

    def put_content(self, content: Any) -> None:
        """Store the content."""
        self.table[self._place.now] = content

    def everything(self) -> Iterator[tuple[bytes, Any, Any]]:
        """Yield place, namespace and content of every key, in order."""
        for at, content in self.table.entries():
            if self.state.namespaced:
                place, namespace = _LENGTHS.unpack_from(at, len(at) - _LENGTHS.size)
                window = self.windows.from_bytes(at[place : place + namespace]) if namespace else None
                yield at[:place], window, content
            else:
                yield at, None, content
