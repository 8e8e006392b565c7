"""The public names, each once: what type checkers see, and what the package imports when it is asked for one."""

from pyspark_savepoint.api.functions.operator_transformation import OperatorTransformation as OperatorTransformation
from pyspark_savepoint.api.local_history import open_changes as open_changes
from pyspark_savepoint.api.local_history import open_history as open_history
from pyspark_savepoint.api.local_savepoint import LocalSavepoint as LocalSavepoint
from pyspark_savepoint.api.local_savepoint import create as create
from pyspark_savepoint.api.local_savepoint import open as open  # noqa: A004
from pyspark_savepoint.api.retained_files import open_retained as open_retained
from pyspark_savepoint.api.spark.catalog import create_tables as create_tables
from pyspark_savepoint.api.spark.catalog import drop_tables as drop_tables
from pyspark_savepoint.api.spark.catalog import register as register
from pyspark_savepoint.api.spark.progress import show_progress as show_progress
from pyspark_savepoint.api.spark.savepoint import Savepoint as Savepoint
from pyspark_savepoint.api.spark.savepoint import history as history
from pyspark_savepoint.api.spark.streaming_checkpoint import StreamingCheckpoint as StreamingCheckpoint
from pyspark_savepoint.api.spark.streaming_checkpoint import open_streaming as open_streaming
from pyspark_savepoint.api.spark.streaming_checkpoint import savepoint_from_streaming as savepoint_from_streaming
from pyspark_savepoint.api.spark.streaming_start import initial_state as initial_state
from pyspark_savepoint.api.spark.streaming_start import starting_offsets as starting_offsets
from pyspark_savepoint.api.summaries import diff as diff
from pyspark_savepoint.engines.arrow.local_table import LocalHistory as LocalHistory
from pyspark_savepoint.engines.arrow.local_table import LocalTable as LocalTable
from pyspark_savepoint.engines.spark.datasource import DefaultSource as DefaultSource
from pyspark_savepoint.engines.spark.datasource import SavepointDataSource as SavepointDataSource
from pyspark_savepoint.engines.spark.distribution import key_by as key_by
from pyspark_savepoint.formats.errors import SavepointError as SavepointError
from pyspark_savepoint.formats.errors import UserFunctionError as UserFunctionError
from pyspark_savepoint.formats.metadata.identifiers import OperatorIdentifier as OperatorIdentifier
from pyspark_savepoint.options.release import __version__ as __version__
from pyspark_savepoint.statebackends.jobs.graph.operator_ids import operator_ids as operator_ids
from pyspark_savepoint.statebackends.jobs.graph.stream_graph import StreamGraph as StreamGraph
from pyspark_savepoint.statebackends.jobs.graph.stream_nodes import ChainingStrategy as ChainingStrategy
from pyspark_savepoint.statebackends.jobs.graph.stream_plan import from_execution_plan as from_execution_plan
from pyspark_savepoint.statebackends.processing.api.evictors import CountEvictor as CountEvictor
from pyspark_savepoint.statebackends.processing.api.evictors import DeltaEvictor as DeltaEvictor
from pyspark_savepoint.statebackends.processing.api.evictors import Evictor as Evictor
from pyspark_savepoint.statebackends.processing.api.evictors import EvictorContext as EvictorContext
from pyspark_savepoint.statebackends.processing.api.evictors import TimeEvictor as TimeEvictor
from pyspark_savepoint.statebackends.processing.api.functions import (
    BroadcastStateBootstrapFunction as BroadcastStateBootstrapFunction,
)
from pyspark_savepoint.statebackends.processing.api.functions import (
    KeyedBroadcastProcessFunction as KeyedBroadcastProcessFunction,
)
from pyspark_savepoint.statebackends.processing.api.functions import KeyedCoProcessFunction as KeyedCoProcessFunction
from pyspark_savepoint.statebackends.processing.api.functions import (
    KeyedMultipleInputFunction as KeyedMultipleInputFunction,
)
from pyspark_savepoint.statebackends.processing.api.functions import KeyedProcessFunction as KeyedProcessFunction
from pyspark_savepoint.statebackends.processing.api.functions import (
    KeyedStateBootstrapFunction as KeyedStateBootstrapFunction,
)
from pyspark_savepoint.statebackends.processing.api.functions import (
    KeyedStateReaderFunction as KeyedStateReaderFunction,
)
from pyspark_savepoint.statebackends.processing.api.functions import ProcessWindowFunction as ProcessWindowFunction
from pyspark_savepoint.statebackends.processing.api.functions import StateBootstrapFunction as StateBootstrapFunction
from pyspark_savepoint.statebackends.processing.api.functions import WindowReaderFunction as WindowReaderFunction
from pyspark_savepoint.statebackends.processing.api.state import ObjectReuseMode as ObjectReuseMode
from pyspark_savepoint.statebackends.processing.api.state_descriptors import AggregateFunction as AggregateFunction
from pyspark_savepoint.statebackends.processing.api.state_descriptors import (
    AggregatingStateDescriptor as AggregatingStateDescriptor,
)
from pyspark_savepoint.statebackends.processing.api.state_descriptors import ListStateDescriptor as ListStateDescriptor
from pyspark_savepoint.statebackends.processing.api.state_descriptors import MapStateDescriptor as MapStateDescriptor
from pyspark_savepoint.statebackends.processing.api.state_descriptors import (
    ReducingStateDescriptor as ReducingStateDescriptor,
)
from pyspark_savepoint.statebackends.processing.api.state_descriptors import StateTtlConfig as StateTtlConfig
from pyspark_savepoint.statebackends.processing.api.state_descriptors import StateVisibility as StateVisibility
from pyspark_savepoint.statebackends.processing.api.state_descriptors import UpdateType as UpdateType
from pyspark_savepoint.statebackends.processing.api.state_descriptors import (
    ValueStateDescriptor as ValueStateDescriptor,
)
from pyspark_savepoint.statebackends.processing.api.triggers import (
    ContinuousEventTimeTrigger as ContinuousEventTimeTrigger,
)
from pyspark_savepoint.statebackends.processing.api.triggers import (
    ContinuousProcessingTimeTrigger as ContinuousProcessingTimeTrigger,
)
from pyspark_savepoint.statebackends.processing.api.triggers import CountTrigger as CountTrigger
from pyspark_savepoint.statebackends.processing.api.triggers import DeltaTrigger as DeltaTrigger
from pyspark_savepoint.statebackends.processing.api.triggers import EventTimeTrigger as EventTimeTrigger
from pyspark_savepoint.statebackends.processing.api.triggers import ProcessingTimeoutTrigger as ProcessingTimeoutTrigger
from pyspark_savepoint.statebackends.processing.api.triggers import ProcessingTimeTrigger as ProcessingTimeTrigger
from pyspark_savepoint.statebackends.processing.api.triggers import PurgingTrigger as PurgingTrigger
from pyspark_savepoint.statebackends.processing.api.triggers import Trigger as Trigger
from pyspark_savepoint.statebackends.processing.api.triggers import TriggerResult as TriggerResult
from pyspark_savepoint.statebackends.processing.api.windows import EventTimeSessionWindows as EventTimeSessionWindows
from pyspark_savepoint.statebackends.processing.api.windows import GlobalWindow as GlobalWindow
from pyspark_savepoint.statebackends.processing.api.windows import GlobalWindows as GlobalWindows
from pyspark_savepoint.statebackends.processing.api.windows import (
    ProcessingTimeSessionWindows as ProcessingTimeSessionWindows,
)
from pyspark_savepoint.statebackends.processing.api.windows import SlidingEventTimeWindows as SlidingEventTimeWindows
from pyspark_savepoint.statebackends.processing.api.windows import (
    SlidingProcessingTimeWindows as SlidingProcessingTimeWindows,
)
from pyspark_savepoint.statebackends.processing.api.windows import TimeWindow as TimeWindow
from pyspark_savepoint.statebackends.processing.api.windows import TumblingEventTimeWindows as TumblingEventTimeWindows
from pyspark_savepoint.statebackends.processing.api.windows import (
    TumblingProcessingTimeWindows as TumblingProcessingTimeWindows,
)
from pyspark_savepoint.statebackends.processing.api.windows import WindowAssigner as WindowAssigner
from pyspark_savepoint.statebackends.processing.api.windows import WindowStagger as WindowStagger
