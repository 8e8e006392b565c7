"""Apache Flink savepoints and checkpoints as Spark tables.

``spark.read.format("savepoint")`` finds :class:`DefaultSource` here by itself. Importing this package imports neither
Spark nor the codecs: names are resolved when they are asked for (PEP 562).
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_FUNCTIONS = "pyspark_savepoint.statebackends.processing.api"
#: By module, so that importing this package imports none of them.
_OF_FUNCTIONS = {
    "evictors": ("CountEvictor", "DeltaEvictor", "Evictor", "TimeEvictor"),
    "functions": (
        "BroadcastStateBootstrapFunction",
        "KeyedProcessFunction",
        "KeyedStateBootstrapFunction",
        "KeyedStateReaderFunction",
        "ProcessWindowFunction",
        "StateBootstrapFunction",
        "WindowReaderFunction",
    ),
    "more_triggers": ("ContinuousEventTimeTrigger", "ContinuousProcessingTimeTrigger", "DeltaTrigger"),
    "state_descriptors": (
        "AggregateFunction",
        "AggregatingStateDescriptor",
        "ListStateDescriptor",
        "MapStateDescriptor",
        "ReducingStateDescriptor",
        "StateTtlConfig",
        "StateVisibility",
        "UpdateType",
        "ValueStateDescriptor",
    ),
    "timeout_trigger": ("ProcessingTimeoutTrigger",),
    "triggers": (
        "CountTrigger",
        "EventTimeTrigger",
        "ProcessingTimeTrigger",
        "PurgingTrigger",
        "Trigger",
        "TriggerResult",
    ),
    "windows": (
        "EventTimeSessionWindows",
        "GlobalWindow",
        "GlobalWindows",
        "ProcessingTimeSessionWindows",
        "SlidingEventTimeWindows",
        "SlidingProcessingTimeWindows",
        "TimeWindow",
        "TumblingEventTimeWindows",
        "TumblingProcessingTimeWindows",
    ),
}
_LAZY = {
    **{name: (f"{_FUNCTIONS}.{module}", name) for module, names in _OF_FUNCTIONS.items() for name in names},
    "OperatorTransformation": ("pyspark_savepoint.functions.operator_transformation", "OperatorTransformation"),
    "UserFunctionError": ("pyspark_savepoint.formats.errors", "UserFunctionError"),
    "DefaultSource": ("pyspark_savepoint.source.datasource", "SavepointDataSource"),
    "key_by": ("pyspark_savepoint.source.distribution", "key_by"),
    "OperatorIdentifier": ("pyspark_savepoint.formats.metadata.identifiers", "OperatorIdentifier"),
    "show_progress": ("pyspark_savepoint.savepoint.progress", "show_progress"),
    "Savepoint": ("pyspark_savepoint.savepoint.savepoint", "Savepoint"),
    "ChainingStrategy": ("pyspark_savepoint.statebackends.jobs.graph.stream_nodes", "ChainingStrategy"),
    "StreamGraph": ("pyspark_savepoint.statebackends.jobs.graph.stream_graph", "StreamGraph"),
    "from_execution_plan": ("pyspark_savepoint.statebackends.jobs.graph.stream_plan", "from_execution_plan"),
    "SavepointDataSource": ("pyspark_savepoint.source.datasource", "SavepointDataSource"),
    "SavepointError": ("pyspark_savepoint.formats.errors", "SavepointError"),
    "diff": ("pyspark_savepoint.savepoint.differences", "diff"),
    "history": ("pyspark_savepoint.savepoint.history", "history"),
    "register": ("pyspark_savepoint.catalog.table_functions", "register"),
}

__all__ = ["__version__", *sorted(_LAZY)]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, attribute = _LAZY[name]
    return getattr(import_module(module), attribute)
