"""State backends by name."""

from __future__ import annotations

from pyspark_savepoint.formats.errors import OptionError, did_you_mean
from pyspark_savepoint.statebackends.processing.backends.backend import KeyedStateBackend
from pyspark_savepoint.statebackends.processing.backends.heap import HeapStateBackend
from pyspark_savepoint.statebackends.processing.backends.rocksdb import RocksDBStateBackend
from pyspark_savepoint.statebackends.processing.backends.single_key import SingleKeyStateBackend

BACKENDS: dict[str, type[KeyedStateBackend]] = {
    "single_key": SingleKeyStateBackend,
    "heap": HeapStateBackend,
    "rocksdb": RocksDBStateBackend,
}


def create_backend(name: str) -> KeyedStateBackend:
    """Return a new, empty backend."""
    if name not in BACKENDS:
        raise OptionError(f"there is no state backend {name!r}", remedy=did_you_mean(name, BACKENDS))
    return BACKENDS[name]()
