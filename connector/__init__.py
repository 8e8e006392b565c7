"""Apache Flink savepoints and checkpoints as Spark tables.

``spark.read.format("savepoint")`` finds :class:`DefaultSource` here by itself. Importing this package imports neither
Spark nor the codecs: names are resolved when they are asked for (PEP 562).
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_LAZY = {
    "DefaultSource": ("pyspark_savepoint.datasource", "SavepointDataSource"),
    "OperatorIdentifier": ("pyspark_savepoint.formats.identifiers", "OperatorIdentifier"),
    "Savepoint": ("pyspark_savepoint.savepoint", "Savepoint"),
    "ChainingStrategy": ("pyspark_savepoint.statebackends.stream_nodes", "ChainingStrategy"),
    "StreamGraph": ("pyspark_savepoint.statebackends.stream_graph", "StreamGraph"),
    "from_execution_plan": ("pyspark_savepoint.statebackends.stream_plan", "from_execution_plan"),
    "SavepointDataSource": ("pyspark_savepoint.datasource", "SavepointDataSource"),
    "SavepointError": ("pyspark_savepoint.formats.errors", "SavepointError"),
}

__all__ = [
    "DefaultSource",
    "OperatorIdentifier",
    "Savepoint",
    "SavepointDataSource",
    "SavepointError",
    "__version__",
]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, attribute = _LAZY[name]
    return getattr(import_module(module), attribute)
