"""State backends by name."""

from __future__ import annotations

from pyspark_savepoint.formats.errors import OptionError, did_you_mean
from pyspark_savepoint.statebackends.processing.backends.backend import KeyedStateBackend
from pyspark_savepoint.statebackends.processing.backends.heap import HeapStateBackend
from pyspark_savepoint.statebackends.processing.backends.rocksdb.rocksdb_backend import RocksDBStateBackend
from pyspark_savepoint.statebackends.processing.backends.single_key import (
    DroppingSingleKeyStateBackend,
    SingleKeyStateBackend,
)

BACKENDS: dict[str, type[KeyedStateBackend]] = {
    "single_key": SingleKeyStateBackend,
    "heap": HeapStateBackend,
    "rocksdb": RocksDBStateBackend,
}


def create_backend(name: str, drops: bool = False) -> KeyedStateBackend:
    """Return a new, empty backend; ``drops``: the state of a key is not needed when the key is done."""
    if name not in BACKENDS:
        raise OptionError(f"there is no state backend {name!r}", remedy=did_you_mean(name, BACKENDS))
    kind = BACKENDS[name]
    return DroppingSingleKeyStateBackend() if drops and kind is SingleKeyStateBackend else kind()
