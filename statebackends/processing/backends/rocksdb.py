"""State backend for unsorted input that is larger than memory: RocksDB in a local folder, removed with the task.

    entry   := u16 state  u8[] place  u8[] namespace  u8[] userKey  u32 (bytes of place)  u32 (bytes of namespace)
    list    := the number of its elements, and one entry per element whose user key is its number

Serialized keys are self-delimiting, so no key's entries have another key's bytes as a prefix; entries of a state are in
the order of key groups and keys. Values are encoded by :mod:`codec`. The library (``rocksdict``) is the optional extra
``rocksdb``. Flink: ``RocksDBKeyedStateBackend``.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Any

from pyspark_savepoint.formats.errors import OptionError
from pyspark_savepoint.formats.io.local_disk import local_directory
from pyspark_savepoint.statebackends.processing.api.state import State
from pyspark_savepoint.statebackends.processing.backends.backend import KeyedStateBackend, RegisteredState, StateOutput
from pyspark_savepoint.statebackends.processing.backends.rocksdb_buffer import Ahead, BufferedDatabase
from pyspark_savepoint.statebackends.processing.backends.rocksdb_states import ROCKS, RocksState, tail_of
from pyspark_savepoint.statebackends.processing.backends.tables import merged

#: Size of a task's block cache in bytes.
BLOCK_CACHE = 128 << 20


class RocksDBStateBackend(KeyedStateBackend):
    """States of all keys, on disk."""

    key: Any = None
    place: bytes = b""

    def __init__(self, directory: str | None = None) -> None:
        folder = tempfile.mkdtemp(prefix="savepoint-rocksdb-", dir=directory or local_directory())
        with ExitStack() as leaving:
            leaving.callback(shutil.rmtree, folder, ignore_errors=True)
            self._db = buffered(open_database(folder))
            self._leave = leaving.pop_all()
        self._states: list[tuple[RocksState, StateOutput]] = []
        self._ahead = Ahead(self._db)
        self._prefixes: list[bytes] = []
        #: Keys until the next ones are read ahead; negative if none are.
        self._left = -1

    def create(self, state: RegisteredState, output: StateOutput) -> State:
        """Create a state with a new number."""
        created = ROCKS[state.kind](self._db, len(self._states), state)
        self._states.append((created, output))
        return created

    def expect(self, places: Sequence[bytes]) -> None:
        """Read ahead for the keys of the next records, some thousands at a time."""
        self._prefixes = [state.prefix for state, _ in self._states if state.is_read_ahead]
        self._left = 0 if self._prefixes and self._ahead.expect(places) else -1

    def _keys_of(self, places: Sequence[bytes]) -> list[bytes]:
        tails = {size: tail_of(size) for size in set(map(len, places))}
        return [prefix + place + tails[len(place)] for prefix in self._prefixes for place in places]

    def set_current_key(self, key: Any, place: bytes) -> None:
        if self._left == 0:
            self._left = self._ahead.read(self._keys_of)
        self._left -= 1
        if place != self.place:
            for state, _ in self._states:
                state.go(place, b"")
            self.place = place
        self.key = key

    def set_current_namespace(self, state: State, namespace: Any) -> None:
        assert isinstance(state, RocksState)
        state.go(self.place, namespace.to_bytes())
        state.windows = type(namespace)

    def merge_namespaces(self, state: State, target: Any, sources: Iterator[Any]) -> None:
        """Read and merge the contents, and store them in the target."""
        assert isinstance(state, RocksState)
        contents = []
        for namespace in sources:
            self.set_current_namespace(state, namespace)
            content = state.content()
            if content is not None:
                contents.append(content)
                state.clear()
        added = merged(state.state, contents)
        if added is not None:
            self.set_current_namespace(state, target)
            old = state.content()
            state.put_content(added if old is None else merged(state.state, [old, added]))

    def finish(self) -> Iterator[None]:
        """Output all keys, in order."""
        for state, output in self._states:
            for place, namespace, content in state.everything():
                output.add(place, namespace, content)
                yield

    def close(self) -> None:
        with self._leave:
            self._db.close()


def buffered(database: Any) -> BufferedDatabase:
    """Return a database that reads ahead and writes behind."""
    from rocksdict import WriteBatch

    return BufferedDatabase(database, lambda: WriteBatch(raw_mode=True))


def open_database(folder: str) -> Any:
    """Open a database of bytes without a write-ahead log, which it does not need because it ends with its task."""
    try:
        from rocksdict import BlockBasedOptions, Cache, Options, Rdict, WriteOptions
    except ImportError:
        raise OptionError(
            "the state backend 'rocksdb' needs a package that is not installed",
            expected="rocksdict",
            remedy="pip install 'pyspark-savepoint[rocksdb]' on all machines, or use sorted input (the default)",
        ) from None
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_write_buffer_size(64 << 20)
    # With millions of keys, most lookups read files: filters and a cache save a third of the time.
    tables = BlockBasedOptions()
    tables.set_bloom_filter(10, False)
    tables.set_block_cache(Cache(BLOCK_CACHE))
    options.set_block_based_table_factory(tables)
    database = Rdict(folder, options)
    unlogged: Any = WriteOptions()
    unlogged.disable_wal = True
    database.set_write_options(unlogged)
    return database
