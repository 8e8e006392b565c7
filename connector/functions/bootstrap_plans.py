"""State that user functions create from records, as tables that the data source writes: entries, or operator state.

Records are distributed by :func:`~pyspark_savepoint.source.distribution.key_by`, so that each task has the keys of one
subtask. The entries that a function creates stay in that task, which writes the file of the same subtask.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa
from pyspark.sql.types import StructField, StructType

from pyspark_savepoint.execution.function_pickles import copy_of
from pyspark_savepoint.formats.errors import OptionError, SavepointError, UndecodableStateError
from pyspark_savepoint.functions.processing_tasks import RecordTask
from pyspark_savepoint.options.bootstrap_options import ProcessingOptions, merged
from pyspark_savepoint.options.schema import arrow_schema, spark_schema, struct_type
from pyspark_savepoint.plan.key_hashes import HashCode
from pyspark_savepoint.plan.operator_plan import StateInput
from pyspark_savepoint.source.distribution import LAYOUT, by_key, layout_of, with_hashed_key_groups
from pyspark_savepoint.source.spark_engine import SparkRows
from pyspark_savepoint.statebackends.model.descriptors import KeyedDescriptor
from pyspark_savepoint.statebackends.model.entry_bytes import ENTRIES
from pyspark_savepoint.statebackends.processing.api.functions import (
    BroadcastStateBootstrapFunction,
    KeyedBroadcastProcessFunction,
    KeyedProcessFunction,
    KeyedStateBootstrapFunction,
    StateBootstrapFunction,
)
from pyspark_savepoint.statebackends.processing.api.state_descriptors import MapStateDescriptor
from pyspark_savepoint.statebackends.processing.operators.bootstrap import BootstrapPlan
from pyspark_savepoint.statebackends.processing.operators.connected_inputs import ConnectedFunction
from pyspark_savepoint.statebackends.processing.operators.connected_records import Inputs
from pyspark_savepoint.statebackends.processing.operators.operator_state import ELEMENTS, OperatorStatePlan
from pyspark_savepoint.statebackends.processing.operators.process import ProcessPlan
from pyspark_savepoint.statebackends.processing.operators.records import RecordOrder
from pyspark_savepoint.statebackends.processing.operators.window_operator import WindowSpec
from pyspark_savepoint.statebackends.writing.planning.describe_key import describe_key
from pyspark_savepoint.statebackends.writing.planning.flink_types import default_serializer
from pyspark_savepoint.statebackends.writing.planning.write_request import (
    DEFAULT_MAX_PARALLELISM,
    KeySpec,
    WriteSpec,
)
from pyspark_savepoint.statebackends.writing.planning.write_request import ELEMENTS as ELEMENTS_TABLE
from pyspark_savepoint.statebackends.writing.planning.write_request import ENTRIES as ENTRIES_TABLE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: The column of key groups that a function of the user computes.
HASHED = "__savepoint_key_group_of_hash"


@dataclass(frozen=True)
class BroadcastInput:
    """Records that every task gets as a whole, and the broadcast states that they fill.

    Flink: ``BroadcastStream``.
    """

    frame: DataFrame
    columns: tuple[str, ...]
    timestamp: str | None
    descriptors: tuple[MapStateDescriptor, ...]


class KeyedRecords(Protocol):
    """Records with a key: of one input, or of several in one table, whose columns ``inputs`` describes."""

    @property
    def processing(self) -> ProcessingOptions:
        """The options of the processing."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the rows that functions get, of one input."""

    @property
    def timestamp(self) -> str | None:
        """The column of timestamps, of one input."""

    @property
    def inputs(self) -> Inputs | None:
        """The columns of the rows of several inputs."""

    @property
    def broadcast(self) -> BroadcastInput | None:
        """The broadcast input, if there is one."""

    def distributed(self, max_parallelism: int) -> tuple[DataFrame, int]:
        """Return the records distributed by subtask, and the number of tasks."""

    def descriptor(self, flink_version: tuple[int, int] | None) -> tuple[KeyedDescriptor, tuple[int, int]]:
        """Return the descriptor of the key, and the oldest Flink that must restore the state."""


def order_of(source: KeyedRecords) -> RecordOrder:
    """Return the order in which the function gets the records."""
    options = source.processing
    return RecordOrder(options.sorted, options.presorted, options.sort_memory, source.timestamp)


@dataclass(frozen=True)
class KeyedRecordInput:
    """Records of one input with their key, and the options of their processing, given as ``texts``."""

    frame: DataFrame
    columns: tuple[str, ...]
    timestamp: str | None
    texts: Mapping[str, str]
    keys: tuple[str, ...]
    key_type: str | None
    key_group: str | None
    hash_code: HashCode | None = None
    inputs: None = None
    broadcast: None = None

    @property
    def processing(self) -> ProcessingOptions:
        """The options of the processing."""
        return ProcessingOptions.parse(self.texts)

    def hashed(self, max_parallelism: int) -> KeyedRecordInput:
        """Return the input with a column of the key groups that its function computes, if it has one."""
        if self.hash_code is None:
            return self
        frame = with_hashed_key_groups(self.frame, self.keys, self.hash_code, max_parallelism, HASHED)
        return replace(self, frame=frame, key_group=HASHED, hash_code=None)

    def with_texts(self, more: Mapping[str, str]) -> KeyedRecordInput:
        """Return the input with more options."""
        found = replace(self, texts=merged(self.texts, more))
        ProcessingOptions.parse(found.texts)
        return found

    def distributed(self, max_parallelism: int) -> tuple[DataFrame, int]:
        """Return the records distributed by subtask, and the number of tasks."""
        if self.hash_code is not None:
            return self.hashed(max_parallelism).distributed(max_parallelism)
        wanted = self.processing.parallelism
        if self.processing.presorted:
            there = layout_of(self.frame.schema)
            if there is None or there.max_parallelism != max_parallelism or wanted not in (None, there.parallelism):
                raise OptionError(
                    "presorted records must be partitioned by key_by first",
                    expected=f"max parallelism {max_parallelism}" + (f", parallelism {wanted}" if wanted else ""),
                    found=str(there),
                    remedy=f"key_by(df, {self.keys[0]!r}, max_parallelism={max_parallelism}).sortWithinPartitions(...)",
                )
            return self.frame, there.parallelism
        frame = by_key(self.frame, self._key(None), max_parallelism, wanted)
        layout = layout_of(frame.schema)
        assert layout is not None
        return frame, layout.parallelism

    def _key(self, flink_version: tuple[int, int] | None) -> KeySpec:
        types = {"key": self.key_type} if self.key_type is not None else {}
        group = self.key_group if self.hash_code is None else HASHED
        return KeySpec(key=self.keys, types=types, key_group=group, flink_version=flink_version)

    def descriptor(self, flink_version: tuple[int, int] | None) -> tuple[KeyedDescriptor, tuple[int, int]]:
        """Return the descriptor of the key, and the oldest Flink that must restore the state."""
        spec = self._key(flink_version)
        try:
            schema = arrow_schema(self.frame.schema)
            if self.hash_code is not None:
                schema = schema.append(pa.field(HASHED, pa.int32()))
            key = describe_key(schema, spec, None, None)
        except SavepointError as error:
            raise self._with_key_by_remedy(error) from None
        found = KeyedDescriptor(key.columns, key.serializer, (), key_group=spec.key_group, composite=key.composite)
        return found, spec.restoring_flink

    def _with_key_by_remedy(self, error: SavepointError) -> SavepointError:
        """Return an error about a key with a remedy for key_by."""
        if isinstance(error, UndecodableStateError):
            error.facts["remedy"] = (
                "add a column with the key group of every row, KeyGroupRangeAssignment.assignToKeyGroup(key, "
                "maxParallelism), and name it: key_by(..., key_group='column'); or give key_by a function: "
                "hash_code=lambda key: ..."
            )
        elif self.key_type is not None:
            error.facts["remedy"] = "cast the column, or give key_by another key_type"
        return error


def processed(source: KeyedRecords, function: KeyedProcessFunction | ConnectedFunction, schema: Any) -> DataFrame:
    """Return the rows that a function yields."""
    found = struct_type(schema)
    copy_of(function)
    processing = source.processing
    key, version = source.descriptor(None)
    limit = processing.max_parallelism or DEFAULT_MAX_PARALLELISM
    frame, parallelism = source.distributed(limit)
    plan = ProcessPlan(
        function, key, source.columns, arrow_schema(found), limit, order_of(source), processing.reuse, version,
        parallelism, processing.backend, source.inputs,
    )  # fmt: skip
    return frame.mapInArrow(RecordTask(plan), found)


@dataclass(frozen=True)
class KeyedRows:
    """Keyed state that a function or windows create from records."""

    source: KeyedRecords
    function: KeyedStateBootstrapFunction | WindowSpec | ConnectedFunction

    @property
    def max_parallelism(self) -> int | None:
        """The max parallelism of the operator, if it was set."""
        return self.source.processing.max_parallelism

    def plan(self, spec: WriteSpec) -> BootstrapPlan:
        """Return the plan of the tasks, with the states that a copy of the function registers when it is opened."""
        key, version = self.source.descriptor(spec.flink_version)
        function: Any = self.function
        if isinstance(function, WindowSpec) and not function.element_type:
            function = replace(function, element_type=self._element_type(version))
        copy = copy_of(function)
        processing = self.source.processing
        plan = BootstrapPlan(
            copy,
            key,
            self.source.columns,
            spec.max_parallelism or DEFAULT_MAX_PARALLELISM,
            order_of(self.source),
            processing.backend,
            processing.reuse,
            version,
            inputs=self.source.inputs,
        )
        return replace(plan.describe(), function=function)

    def _element_type(self, version: tuple[int, int]) -> str:
        """Return the Flink type of the DataFrame's rows."""
        assert isinstance(self.source, KeyedRecordInput)
        schema = arrow_schema(self.source.frame.schema)
        kind = pa.struct([schema.field(name) for name in self.source.columns])
        return default_serializer(kind, "element", version).flink_type

    def operator_tables(self, spec: WriteSpec) -> list[StateInput]:
        """Return the entries of all states and timers as one table."""
        try:
            plan = self.plan(spec)
        except SavepointError as error:
            raise error.with_traceback(None) from None
        frame, parallelism = self.source.distributed(plan.max_parallelism)
        task = RecordTask(replace(plan, parallelism=parallelism))
        layout = {LAYOUT: {"maxParallelism": plan.max_parallelism, "parallelism": parallelism}}
        entries = frame.mapInArrow(task, _with_layout(spark_schema(ENTRIES), layout))
        header = plan.descriptor.header(spec.compression == "snappy")
        written = replace(spec, table=ENTRIES_TABLE, max_parallelism=plan.max_parallelism, parallelism=parallelism)
        return [StateInput(SparkRows(entries), written, plan.descriptor, header), *self._broadcast_tables(spec, plan)]

    def _broadcast_tables(self, spec: WriteSpec, plan: BootstrapPlan) -> list[StateInput]:
        """Return the broadcast state, which one more task creates from the broadcast records."""
        broadcast = self.source.broadcast
        function = plan.function
        if broadcast is None or not isinstance(function, KeyedBroadcastProcessFunction):
            return []
        state = OperatorStatePlan(
            copy_of(function), broadcast.columns, broadcast.timestamp, plan.reuse, plan.flink_version,
            key=plan.key.key_serializer, broadcast=broadcast.descriptors,
        )  # fmt: skip
        return [operator_state_table(state, function, broadcast.frame.coalesce(1), spec)]


def _with_layout(schema: StructType, layout: dict[str, Any]) -> StructType:
    """Return the schema with the distribution of the rows in the metadata of its first column."""
    first, *others = schema.fields
    return StructType([StructField(first.name, first.dataType, first.nullable, layout), *others])


@dataclass(frozen=True)
class OperatorStateRows:
    """List, union or broadcast states that a function creates from records."""

    frame: DataFrame
    columns: tuple[str, ...]
    timestamp: str | None
    processing: ProcessingOptions
    function: StateBootstrapFunction | BroadcastStateBootstrapFunction

    @property
    def max_parallelism(self) -> int | None:
        """The max parallelism of the operator, if it was set."""
        return self.processing.max_parallelism

    def operator_tables(self, spec: WriteSpec) -> list[StateInput]:
        """Return the elements of all states as one table, so that the function runs once."""
        copy = copy_of(self.function)
        limit = spec.max_parallelism or DEFAULT_MAX_PARALLELISM
        tasks = min(self.processing.parallelism or limit, limit)
        frame = self.frame if self.processing.parallelism is None else self.frame.repartition(tasks)
        # Every subtask has the whole broadcast state, so one task creates it.
        frame = frame.coalesce(1 if isinstance(self.function, BroadcastStateBootstrapFunction) else tasks)
        plan = OperatorStatePlan(copy, self.columns, self.timestamp, self.processing.reuse, spec.restoring_flink)
        return [operator_state_table(plan, self.function, frame, spec)]


def operator_state_table(plan: OperatorStatePlan, function: Any, frame: DataFrame, spec: WriteSpec) -> StateInput:
    """Return the elements of all states of a plan, which is described with a copy of the function."""
    try:
        plan = replace(plan.describe(), function=function)
    except SavepointError as error:
        raise error.with_traceback(None) from None
    assert plan.states is not None
    rows = frame.mapInArrow(RecordTask(plan), spark_schema(ELEMENTS))
    return StateInput(SparkRows(rows), replace(spec, table=ELEMENTS_TABLE), plan.states, plan.header())
