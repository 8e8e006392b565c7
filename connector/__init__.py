"""Apache Flink savepoints and checkpoints as Spark tables.

``spark.read.format("savepoint")`` finds :class:`DefaultSource` in this package. Importing the package imports neither
Spark nor the codecs: each name is imported on first use (PEP 562), while type checkers see all of them. It lets Spark
find the Python that runs (:mod:`~pyspark_savepoint.options.own_python`).
"""

from __future__ import annotations

import sys

from pyspark_savepoint.options.own_python import prefer_this_python, warn_of_old_spark
from pyspark_savepoint.options.release import __version__

#: As in module typing, which is not imported: little comes before the command line's handler of Ctrl-C.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from pyspark_savepoint.api.functions.operator_transformation import OperatorTransformation
    from pyspark_savepoint.api.local_history import open_changes, open_history
    from pyspark_savepoint.api.local_savepoint import LocalSavepoint
    from pyspark_savepoint.api.local_savepoint import create_savepoint as create
    from pyspark_savepoint.api.local_savepoint import open as open  # noqa: A004
    from pyspark_savepoint.api.retained_files import open_retained
    from pyspark_savepoint.api.spark.catalog import create_tables, drop_tables, register
    from pyspark_savepoint.api.spark.progress import show_progress
    from pyspark_savepoint.api.spark.savepoint import Savepoint, history
    from pyspark_savepoint.api.spark.streaming_checkpoint import (
        StreamingCheckpoint,
        open_streaming,
        savepoint_from_streaming,
    )
    from pyspark_savepoint.api.spark.streaming_start import initial_state, starting_offsets
    from pyspark_savepoint.api.summaries import diff
    from pyspark_savepoint.engines.arrow.local_table import LocalHistory, LocalTable
    from pyspark_savepoint.engines.spark.datasource import SavepointDataSource
    from pyspark_savepoint.engines.spark.datasource import SavepointDataSource as DefaultSource
    from pyspark_savepoint.engines.spark.distribution import key_by
    from pyspark_savepoint.formats.errors import SavepointError, UserFunctionError
    from pyspark_savepoint.formats.metadata.identifiers import OperatorIdentifier
    from pyspark_savepoint.statebackends.jobs.graph.operator_ids import operator_ids
    from pyspark_savepoint.statebackends.jobs.graph.stream_graph import StreamGraph
    from pyspark_savepoint.statebackends.jobs.graph.stream_nodes import ChainingStrategy
    from pyspark_savepoint.statebackends.jobs.graph.stream_plan import from_execution_plan
    from pyspark_savepoint.statebackends.processing.api.evictors import (
        CountEvictor,
        DeltaEvictor,
        Evictor,
        EvictorContext,
        TimeEvictor,
    )
    from pyspark_savepoint.statebackends.processing.api.functions import (
        BroadcastStateBootstrapFunction,
        KeyedBroadcastProcessFunction,
        KeyedCoProcessFunction,
        KeyedMultipleInputFunction,
        KeyedProcessFunction,
        KeyedStateBootstrapFunction,
        KeyedStateReaderFunction,
        ProcessWindowFunction,
        StateBootstrapFunction,
        WindowReaderFunction,
    )
    from pyspark_savepoint.statebackends.processing.api.state import ObjectReuseMode
    from pyspark_savepoint.statebackends.processing.api.state_descriptors import (
        AggregateFunction,
        AggregatingStateDescriptor,
        ListStateDescriptor,
        MapStateDescriptor,
        ReducingStateDescriptor,
        StateTtlConfig,
        StateVisibility,
        UpdateType,
        ValueStateDescriptor,
    )
    from pyspark_savepoint.statebackends.processing.api.triggers import (
        ContinuousEventTimeTrigger,
        ContinuousProcessingTimeTrigger,
        CountTrigger,
        DeltaTrigger,
        EventTimeTrigger,
        ProcessingTimeoutTrigger,
        ProcessingTimeTrigger,
        PurgingTrigger,
        Trigger,
        TriggerResult,
    )
    from pyspark_savepoint.statebackends.processing.api.windows import (
        EventTimeSessionWindows,
        GlobalWindow,
        GlobalWindows,
        ProcessingTimeSessionWindows,
        SlidingEventTimeWindows,
        SlidingProcessingTimeWindows,
        TimeWindow,
        TumblingEventTimeWindows,
        TumblingProcessingTimeWindows,
        WindowAssigner,
        WindowStagger,
    )

# Not `open`: `from pyspark_savepoint import *` would replace Python's.
__all__ = [
    "AggregateFunction",
    "AggregatingStateDescriptor",
    "BroadcastStateBootstrapFunction",
    "ChainingStrategy",
    "ContinuousEventTimeTrigger",
    "ContinuousProcessingTimeTrigger",
    "CountEvictor",
    "CountTrigger",
    "DefaultSource",
    "DeltaEvictor",
    "DeltaTrigger",
    "EventTimeSessionWindows",
    "EventTimeTrigger",
    "Evictor",
    "EvictorContext",
    "GlobalWindow",
    "GlobalWindows",
    "KeyedBroadcastProcessFunction",
    "KeyedCoProcessFunction",
    "KeyedMultipleInputFunction",
    "KeyedProcessFunction",
    "KeyedStateBootstrapFunction",
    "KeyedStateReaderFunction",
    "ListStateDescriptor",
    "LocalHistory",
    "LocalSavepoint",
    "LocalTable",
    "MapStateDescriptor",
    "ObjectReuseMode",
    "OperatorIdentifier",
    "OperatorTransformation",
    "ProcessWindowFunction",
    "ProcessingTimeSessionWindows",
    "ProcessingTimeTrigger",
    "ProcessingTimeoutTrigger",
    "PurgingTrigger",
    "ReducingStateDescriptor",
    "Savepoint",
    "SavepointDataSource",
    "SavepointError",
    "SlidingEventTimeWindows",
    "SlidingProcessingTimeWindows",
    "StateBootstrapFunction",
    "StateTtlConfig",
    "StateVisibility",
    "StreamGraph",
    "StreamingCheckpoint",
    "TimeEvictor",
    "TimeWindow",
    "Trigger",
    "TriggerResult",
    "TumblingEventTimeWindows",
    "TumblingProcessingTimeWindows",
    "UpdateType",
    "UserFunctionError",
    "ValueStateDescriptor",
    "WindowAssigner",
    "WindowReaderFunction",
    "WindowStagger",
    "__version__",
    "create",
    "create_tables",
    "diff",
    "drop_tables",
    "from_execution_plan",
    "history",
    "initial_state",
    "key_by",
    "open_changes",
    "open_history",
    "open_retained",
    "open_streaming",
    "operator_ids",
    "register",
    "savepoint_from_streaming",
    "show_progress",
    "starting_offsets",
]

_FUNCTIONS = "pyspark_savepoint.statebackends.processing.api"
#: Exported names by module, so that importing this package imports none of these modules.
_OF_FUNCTIONS = {
    "state": ("ObjectReuseMode",),
    "evictors": ("CountEvictor", "DeltaEvictor", "Evictor", "EvictorContext", "TimeEvictor"),
    "functions": (
        "BroadcastStateBootstrapFunction",
        "KeyedBroadcastProcessFunction",
        "KeyedCoProcessFunction",
        "KeyedMultipleInputFunction",
        "KeyedProcessFunction",
        "KeyedStateBootstrapFunction",
        "KeyedStateReaderFunction",
        "ProcessWindowFunction",
        "StateBootstrapFunction",
        "WindowReaderFunction",
    ),
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
    "triggers": (
        "ContinuousEventTimeTrigger",
        "ContinuousProcessingTimeTrigger",
        "CountTrigger",
        "DeltaTrigger",
        "EventTimeTrigger",
        "ProcessingTimeTrigger",
        "ProcessingTimeoutTrigger",
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
        "WindowAssigner",
        "WindowStagger",
    ),
}
_OF_STREAMING = ("StreamingCheckpoint", "open_streaming", "savepoint_from_streaming")
#: Packages whose modules need PySpark.
_WITH_SPARK = ("api.spark.", "api.functions.", "engines.spark.")
_LAZY = {
    **{name: (f"{_FUNCTIONS}.{module}", name) for module, names in _OF_FUNCTIONS.items() for name in names},
    "OperatorTransformation": ("pyspark_savepoint.api.functions.operator_transformation", "OperatorTransformation"),
    "UserFunctionError": ("pyspark_savepoint.formats.errors", "UserFunctionError"),
    "LocalHistory": ("pyspark_savepoint.engines.arrow.local_table", "LocalHistory"),
    "LocalSavepoint": ("pyspark_savepoint.api.local_savepoint", "LocalSavepoint"),
    "LocalTable": ("pyspark_savepoint.engines.arrow.local_table", "LocalTable"),
    "create": ("pyspark_savepoint.api.local_savepoint", "create_savepoint"),
    "open": ("pyspark_savepoint.api.local_savepoint", "open"),
    "open_changes": ("pyspark_savepoint.api.local_history", "open_changes"),
    "open_history": ("pyspark_savepoint.api.local_history", "open_history"),
    "open_retained": ("pyspark_savepoint.api.retained_files", "open_retained"),
    "DefaultSource": ("pyspark_savepoint.engines.spark.datasource", "SavepointDataSource"),
    "key_by": ("pyspark_savepoint.engines.spark.distribution", "key_by"),
    "OperatorIdentifier": ("pyspark_savepoint.formats.metadata.identifiers", "OperatorIdentifier"),
    "show_progress": ("pyspark_savepoint.api.spark.progress", "show_progress"),
    "Savepoint": ("pyspark_savepoint.api.spark.savepoint", "Savepoint"),
    "ChainingStrategy": ("pyspark_savepoint.statebackends.jobs.graph.stream_nodes", "ChainingStrategy"),
    "operator_ids": ("pyspark_savepoint.statebackends.jobs.graph.operator_ids", "operator_ids"),
    "StreamGraph": ("pyspark_savepoint.statebackends.jobs.graph.stream_graph", "StreamGraph"),
    "from_execution_plan": ("pyspark_savepoint.statebackends.jobs.graph.stream_plan", "from_execution_plan"),
    "SavepointDataSource": ("pyspark_savepoint.engines.spark.datasource", "SavepointDataSource"),
    **{name: ("pyspark_savepoint.api.spark.streaming_checkpoint", name) for name in _OF_STREAMING},
    "initial_state": ("pyspark_savepoint.api.spark.streaming_start", "initial_state"),
    "starting_offsets": ("pyspark_savepoint.api.spark.streaming_start", "starting_offsets"),
    "SavepointError": ("pyspark_savepoint.formats.errors", "SavepointError"),
    "diff": ("pyspark_savepoint.api.summaries", "diff"),
    "history": ("pyspark_savepoint.api.spark.savepoint", "history"),
    "create_tables": ("pyspark_savepoint.api.spark.catalog", "create_tables"),
    "drop_tables": ("pyspark_savepoint.api.spark.catalog", "drop_tables"),
    "register": ("pyspark_savepoint.api.spark.catalog", "register"),
}


#: What to use in place of names that are often guessed.
_INSTEAD = {
    **dict.fromkeys(
        ("load", "read", "read_savepoint", "load_savepoint"),
        "pyspark_savepoint.open(path) without Spark; Savepoint.load(spark, path), or "
        'spark.read.format("savepoint").load(path), with Spark',
    ),
    **dict.fromkeys(
        ("new", "write"),
        'pyspark_savepoint.create() without Spark; Savepoint.create(spark), or df.write.format("savepoint")'
        '.mode("append").save(path)',
    ),
    "doctor": "inspect.doctor() of pyspark_savepoint.open(path) and of Savepoint, and pyspark-savepoint doctor PATH",
}


if not TYPE_CHECKING:  # type checkers see the names above, and no others

    def __getattr__(name: str) -> object:
        if name not in _LAZY:
            from difflib import get_close_matches

            near = get_close_matches(name, _LAZY, n=1, cutoff=0.75)
            instead = f"; did you mean {near[0]!r}?" if near else ""
            instead = f"; there is {_INSTEAD[name]}" if name in _INSTEAD else instead
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}{instead}")
        module, attribute = _LAZY[name]
        if module.partition(".")[2].startswith(_WITH_SPARK):
            _expect_spark(name)
        from importlib import import_module

        return getattr(import_module(module), attribute)


def _expect_spark(name: str) -> None:
    """Raise ImportError with instructions if PySpark is missing or has no Python data sources."""
    try:
        import pyspark.sql.datasource  # noqa: F401
    except ModuleNotFoundError as missing:
        if missing.name is None or missing.name.partition(".")[0] not in ("pyspark", "py4j"):
            raise
        version = getattr(sys.modules.get("pyspark"), "__version__", None)
        raise ImportError(
            f"pyspark_savepoint.{name} needs PySpark 4.0 or later, and "
            + (f"PySpark {version} is installed" if version else "PySpark is not installed")
            + ': pip install "pyspark-savepoint[spark]"; without Spark: pyspark_savepoint.open(path)',
            name=missing.name,
        ) from None


prefer_this_python()
warn_of_old_spark()
