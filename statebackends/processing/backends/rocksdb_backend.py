"""State backend for unsorted input that is larger than memory: RocksDB in a local folder, removed with the task.

Values, and results of reducing and aggregating, are in the tables of :mod:`rocksdb_states`; lists and maps have one
entry per element:

    entry   := u16 state  u8[] groupedKey  u8[] namespace  u8[] userKey  u32 u32 (sizes of groupedKey and namespace)
    list    := the number of its elements, and one entry per element whose user key is its number

Serialized keys are self-delimiting, so no key's entries have another key's bytes as a prefix; entries of a state are in
the order of key groups and keys. Values are encoded by :mod:`rocksdb_codec`. The library (``rocksdict``) is the
optional extra ``rocksdb``. Flink: ``RocksDBKeyedStateBackend``.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Any

from pyspark_savepoint.formats.errors import OptionError
from pyspark_savepoint.formats.io.local_files import local_directory
from pyspark_savepoint.statebackends.processing.api.state import State
from pyspark_savepoint.statebackends.processing.backends.backend import KeyedStateBackend, RegisteredState, StateOutput
from pyspark_savepoint.statebackends.processing.backends.heap import Current, merged
from pyspark_savepoint.statebackends.processing.backends.rocksdb_memory import (
    MEMORY,
    Ahead,
    BufferedDatabase,
    EntryMemory,
)
from pyspark_savepoint.statebackends.processing.backends.rocksdb_states import (
    MAX_OBJECT_BYTES,
    ROCKS,
    ListLengths,
    RocksListState,
    RocksState,
    TableState,
)

#: Size of a task's block cache in bytes.
BLOCK_CACHE = 64 << 20


class RocksDBStateBackend(KeyedStateBackend):
    """States of all keys, on disk.

    ``kept`` are the bytes of changed values that stay Python objects, ``memory`` those of encoded values in memory.
    """

    key: Any = None
    grouped_key: bytes = b""

    def __init__(self, directory: str | None = None, kept: int = MAX_OBJECT_BYTES, memory: int = MEMORY) -> None:
        folder = tempfile.mkdtemp(prefix="savepoint-rocksdb-", dir=directory or local_directory())
        with ExitStack() as leaving:
            leaving.callback(shutil.rmtree, folder, ignore_errors=True)
            self._db = buffered(open_database(folder))
            self._leave = leaving.pop_all()
        self._memory = EntryMemory(self._db, memory)
        self._kept = kept
        self._here = Current()
        self._outputs: list[tuple[RocksState | TableState, StateOutput]] = []
        self._stored: dict[State, RocksState | TableState] = {}
        self._ahead = Ahead([])
        #: Keys until the next ones are read ahead; negative if none are.
        self._left = -1

    def create(self, state: RegisteredState, output: StateOutput) -> State:
        """Create a state with a new number."""
        prefix = len(self._outputs).to_bytes(2, "big")
        stored: RocksState | TableState
        created: State
        if state.kind in ROCKS:
            created = stored = ROCKS[state.kind](self._db, prefix, state, self._here)
        else:
            stored = TableState(self._memory, prefix, state, self._here)
            created = stored.shown
        self._outputs.append((stored, output))
        self._stored[created] = stored
        self._share()
        return created

    def _share(self) -> None:
        """Share the memory among the tables, and read ahead what a key has one entry of in each state."""
        states = [state for state, _ in self._outputs]
        tables = [state for state in states if isinstance(state, TableState)]
        for state in tables:
            state.table.most = self._kept // len(tables)
        keyed = [state.table for state in tables if not state.state.namespaced]
        lists = [state for state in states if isinstance(state, RocksListState) and not state.state.namespaced]
        lengths = [ListLengths(self._db, lists)] if lists else []
        self._ahead = Ahead([*keyed, *lengths])

    def expect(self, grouped_keys: Sequence[bytes]) -> None:
        """Read ahead for the keys of the next records, some thousands at a time."""
        self._left = 0 if self._ahead.expect(grouped_keys) else -1

    def set_current_key(self, key: Any, grouped_key: bytes) -> None:
        if self._left == 0:
            self._left = self._ahead.read()
        self._left -= 1
        self.key = key
        self.grouped_key = self._here.now = grouped_key

    def set_current_namespace(self, state: State, namespace: Any) -> None:
        stored = self._stored[state]
        stored.go(self.grouped_key, namespace.to_bytes())
        stored.windows = type(namespace)

    def merge_namespaces(self, state: State, target: Any, sources: Iterator[Any]) -> None:
        """Read and merge the contents, and store them in the target."""
        stored = self._stored[state]
        contents = []
        for namespace in sources:
            self.set_current_namespace(state, namespace)
            content = stored.content()
            if content is not None:
                contents.append(content)
                stored.clear()
        added = merged(stored.state, contents)
        if added is not None:
            self.set_current_namespace(state, target)
            old = stored.content()
            stored.put_content(added if old is None else merged(stored.state, [old, added]))

    def finish(self) -> Iterator[None]:
        """Output all keys, in order."""
        for state, output in self._outputs:
            for grouped_key, namespace, content in state.everything():
                output.add(grouped_key, namespace, content)
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
    options.set_write_buffer_size(32 << 20)
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
