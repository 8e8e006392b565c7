"""State that user functions create from records, as tables that the data source writes: entries, or operator state.

Records are distributed by the key group of their key, so that each part has the keys of one subtask: by Spark's
shuffle, whose tasks run the functions, or in this process, which runs them part by part. The entries that a function
creates stay in that part, which becomes the file of the same subtask.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

import pyarrow as pa

from pyspark_savepoint.engines.function_pickles import Pickled, copy_of
from pyspark_savepoint.engines.reader_functions import with_operator_in_errors
from pyspark_savepoint.formats.errors import SavepointError, UndecodableStateError, type_name
from pyspark_savepoint.formats.metadata.key_groups import check_parallelism
from pyspark_savepoint.options.bootstrap_options import ProcessingOptions, merged
from pyspark_savepoint.plan.engine import HASHED, Engine, Rows
from pyspark_savepoint.plan.key_hashes import HashCode
from pyspark_savepoint.plan.operator_plan import StateInput
from pyspark_savepoint.statebackends.processing.api.functions import (
    BroadcastStateBootstrapFunction,
    KeyedBroadcastProcessFunction,
    KeyedProcessFunction,
    KeyedStateBootstrapFunction,
    StateBootstrapFunction,
)
from pyspark_savepoint.statebackends.processing.api.state_descriptors import MapStateDescriptor
from pyspark_savepoint.statebackends.processing.operators.bootstrap import BootstrapPlan, BootstrapTask
from pyspark_savepoint.statebackends.processing.operators.connected_inputs import ConnectedFunction, Inputs
from pyspark_savepoint.statebackends.processing.operators.operator_state import (
    ELEMENTS,
    OperatorStatePlan,
    OperatorStateTask,
)
from pyspark_savepoint.statebackends.processing.operators.process import ProcessPlan, ProcessTask
from pyspark_savepoint.statebackends.processing.operators.records import RecordOrder
from pyspark_savepoint.statebackends.processing.operators.window_operator import WindowSpec
from pyspark_savepoint.statebackends.requests.parallelism import DEFAULT_MAX_PARALLELISM
from pyspark_savepoint.statebackends.rows.descriptors import KeyedDescriptor
from pyspark_savepoint.statebackends.rows.entry_bytes import ENTRIES
from pyspark_savepoint.statebackends.writing.planning.describe_key import describe_key
from pyspark_savepoint.statebackends.writing.planning.flink_types import default_serializer
from pyspark_savepoint.statebackends.writing.planning.planned_write import Distribution
from pyspark_savepoint.statebackends.writing.planning.write_request import ELEMENTS as ELEMENTS_TABLE
from pyspark_savepoint.statebackends.writing.planning.write_request import ENTRIES as ENTRIES_TABLE
from pyspark_savepoint.statebackends.writing.planning.write_request import WriteSpec


@dataclass(frozen=True)
class RecordTask(Pickled):
    """Task of a bootstrap or process function: a plan with the user's function, and nothing open."""

    plan: BootstrapPlan | ProcessPlan | OperatorStatePlan

    def run(self, number: int, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield entries of state, or the function's rows, for the records of one subtask."""
        if isinstance(self.plan, BootstrapPlan):
            output = BootstrapTask(self.plan, number).run(batches)
        elif isinstance(self.plan, OperatorStatePlan):
            output = OperatorStateTask(self.plan, number).run(batches)
        else:
            output = ProcessTask(self.plan, number).run(batches)
        yield from with_operator_in_errors(None, output)


@dataclass(frozen=True)
class BroadcastInput:
    """Records that every task gets as a whole, and the broadcast states that they fill.

    Flink: ``BroadcastStream``.
    """

    engine: Engine
    rows: Rows
    columns: tuple[str, ...]
    timestamp: str | None
    descriptors: tuple[MapStateDescriptor, ...]


class KeyedRecords(Protocol):
    """Records with a key: of one input, or of several in one table, whose columns ``inputs`` describes."""

    @property
    def engine(self) -> Engine:
        """The engine that has the records."""

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

    def distributed(self, max_parallelism: int) -> tuple[Rows, int]:
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

    engine: Engine
    rows: Rows
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
        rows = self.engine.with_hashed(self.rows, self.keys, self.hash_code, max_parallelism)
        return replace(self, rows=rows, key_group=HASHED, hash_code=None)

    def with_texts(self, more: Mapping[str, str]) -> KeyedRecordInput:
        """Return the input with more options."""
        extended = replace(self, texts=merged(self.texts, more))
        ProcessingOptions.parse(extended.texts)
        return extended

    def distributed(self, max_parallelism: int) -> tuple[Rows, int]:
        """Return the records distributed by subtask, and the number of tasks."""
        if self.hash_code is not None:
            return self.hashed(max_parallelism).distributed(max_parallelism)
        descriptor, _ = self.descriptor(None)
        requested_parallelism = self.processing.parallelism
        if self.processing.presorted:
            return self.engine.presorted(self.rows, descriptor, max_parallelism, requested_parallelism)
        parallelism = requested_parallelism or self.engine.tasks(self.rows, max_parallelism)
        check_parallelism(max_parallelism, parallelism)
        return self.engine.by_key(self.rows, descriptor, max_parallelism, parallelism), parallelism

    def _key(self, flink_version: tuple[int, int] | None) -> WriteSpec:
        types = {"key": self.key_type} if self.key_type is not None else {}
        group = self.key_group if self.hash_code is None else HASHED
        return WriteSpec(key=self.keys, types=types, key_group=group, flink_version=flink_version)

    def descriptor(self, flink_version: tuple[int, int] | None) -> tuple[KeyedDescriptor, tuple[int, int]]:
        """Return the descriptor of the key, and the oldest Flink that must restore the state."""
        spec = self._key(flink_version)
        try:
            schema = self.rows.schema
            if self.hash_code is not None:
                schema = schema.append(pa.field(HASHED, pa.int32()))
            key = describe_key(schema, spec, None, None)
        except SavepointError as error:
            raise self._with_key_by_remedy(error) from None
        descriptor = KeyedDescriptor(key.columns, key.serializer, (), key_group=spec.key_group, composite=key.composite)
        return descriptor, spec.restoring_flink

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


def processed(source: KeyedRecords, function: KeyedProcessFunction | ConnectedFunction, schema: Any) -> Any:
    """Return the rows that a function yields, as a table of the records' engine."""
    output_schema = source.engine.function_schema(schema)
    copy_of(function)
    processing = source.processing
    key, version = source.descriptor(None)
    limit = processing.max_parallelism or DEFAULT_MAX_PARALLELISM
    rows, parallelism = source.distributed(limit)
    plan = ProcessPlan(
        function, key, source.columns, output_schema, limit, order_of(source), processing.reuse, version, parallelism,
        processing.backend, source.inputs,
    )  # fmt: skip
    return source.engine.yielded(rows, RecordTask(plan), schema)


@dataclass(frozen=True, repr=False)
class KeyedRows:
    """Keyed state that a function or windows create from records."""

    source: KeyedRecords
    function: KeyedStateBootstrapFunction | WindowSpec | ConnectedFunction

    def __repr__(self) -> str:
        """Return one line: what makes the state."""
        function_name = "windows" if isinstance(self.function, WindowSpec) else type_name(self.function)
        return f"<keyed state that {function_name} will make, for with_operator>"

    @property
    def engine(self) -> Engine:
        """The engine that has the records."""
        return self.source.engine

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
        """Return the Flink type of the records."""
        assert isinstance(self.source, KeyedRecordInput)
        schema = self.source.rows.schema
        kind = pa.struct([schema.field(name) for name in self.source.columns])
        return default_serializer(kind, "element", version).flink_type

    def operator_tables(self, spec: WriteSpec) -> list[StateInput]:
        """Return the entries of all states and timers as one table."""
        try:
            plan = self.plan(spec)
        except SavepointError as error:
            raise error.with_traceback(None) from None
        rows, parallelism = self.source.distributed(plan.max_parallelism)
        task = RecordTask(replace(plan, parallelism=parallelism))
        entries = self.engine.made(rows, task, ENTRIES, Distribution(plan.max_parallelism, parallelism))
        header = plan.descriptor.header(spec.compression == "snappy")
        written = replace(spec, table=ENTRIES_TABLE, max_parallelism=plan.max_parallelism, parallelism=parallelism)
        return [StateInput(entries, written, plan.descriptor, header), *self._broadcast_tables(spec, plan)]

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
        rows = self.engine.spread(broadcast.rows, None, 1)
        return [operator_state_table(self.engine, state, function, rows, spec)]


@dataclass(frozen=True, repr=False)
class OperatorStateRows:
    """List, union or broadcast states that a function creates from records."""

    engine: Engine
    rows: Rows
    columns: tuple[str, ...]
    timestamp: str | None
    processing: ProcessingOptions
    function: StateBootstrapFunction | BroadcastStateBootstrapFunction

    def __repr__(self) -> str:
        """Return one line: what makes the state."""
        return f"<operator state that {type_name(self.function)} will make, for with_operator>"

    @property
    def max_parallelism(self) -> int | None:
        """The max parallelism of the operator, if it was set."""
        return self.processing.max_parallelism

    def operator_tables(self, spec: WriteSpec) -> list[StateInput]:
        """Return the elements of all states as one table, so that the function runs once."""
        copy = copy_of(self.function)
        limit = spec.max_parallelism or DEFAULT_MAX_PARALLELISM
        if isinstance(self.function, BroadcastStateBootstrapFunction):
            # Every subtask has the whole broadcast state, so one task creates it.
            rows = self.engine.spread(self.rows, None, 1)
        else:
            rows = self.engine.spread(self.rows, self.processing.parallelism, limit)
        plan = OperatorStatePlan(copy, self.columns, self.timestamp, self.processing.reuse, spec.restoring_flink)
        return [operator_state_table(self.engine, plan, self.function, rows, spec)]


def operator_state_table(
    engine: Engine, plan: OperatorStatePlan, function: Any, rows: Rows, spec: WriteSpec
) -> StateInput:
    """Return the elements of all states of a plan, which is described with a copy of the function."""
    try:
        plan = replace(plan.describe(), function=function)
    except SavepointError as error:
        raise error.with_traceback(None) from None
    assert plan.states is not None
    elements = engine.made(rows, RecordTask(plan), ELEMENTS, None)
    return StateInput(elements, replace(spec, table=ELEMENTS_TABLE), plan.states, plan.header())
