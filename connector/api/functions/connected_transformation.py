"""Transformation of several inputs of one key, or of keyed records and a broadcast input (FLIP-140).

The inputs become one table: the number of the input, the key, and a struct column for the rows of each. It is
distributed and sorted as one, which has the same result as sorting each input and merging them. Broadcast records are
repeated for every subtask. Flink: ``ConnectedStreams``, ``BroadcastConnectedStream``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, Generic, Self, TypeVar

from pyspark_savepoint.api.functions.bootstrap_plans import BroadcastInput, KeyedRecordInput, KeyedRows, processed
from pyspark_savepoint.api.functions.state_transformation import StateTransformation
from pyspark_savepoint.formats.errors import OptionError
from pyspark_savepoint.formats.metadata.key_groups import check_parallelism
from pyspark_savepoint.options.bootstrap_options import ProcessingOptions
from pyspark_savepoint.plan.engine import Cell, Engine, Rows
from pyspark_savepoint.statebackends.processing.api.functions import (
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedMultipleInputFunction,
)
from pyspark_savepoint.statebackends.processing.operators.connected_inputs import (
    BROADCAST,
    INPUT,
    ORDER,
    ConnectedFunction,
    Inputs,
    RecordInput,
)
from pyspark_savepoint.statebackends.processing.runtime.user_code import expect_function
from pyspark_savepoint.statebackends.rows.descriptors import KeyedDescriptor

#: The tables that functions yield.
T = TypeVar("T")
KEYS, RECORD, ROWS, TIMES = "__savepoint_key_", "__savepoint_given", "__savepoint_rows_", "__savepoint_time_"


@dataclass(frozen=True)
class ConnectedSource:
    """Several keyed inputs, and perhaps a broadcast one, as one table."""

    keyed_inputs: tuple[KeyedRecordInput, ...]
    broadcast: BroadcastInput | None = None

    @property
    def engine(self) -> Engine:
        """The engine that has the records."""
        return self.keyed_inputs[0].engine

    @property
    def processing(self) -> ProcessingOptions:
        """The options of the first input."""
        return self.keyed_inputs[0].processing

    @property
    def columns(self) -> tuple[str, ...]:
        """No columns: rows are structs, of ``inputs``."""
        return ()

    @property
    def timestamp(self) -> None:
        """No column: each input has its own, in ``inputs``."""

    @property
    def inputs(self) -> Inputs:
        """The columns of the table with the rows of each input."""
        keyed = tuple(_input(number, record_input) for number, record_input in enumerate(self.keyed_inputs, 1))
        if self.broadcast is None:
            return Inputs(keyed)
        return Inputs(keyed, _input(BROADCAST, self.broadcast), self.broadcast.descriptors)

    def descriptor(self, flink_version: tuple[int, int] | None) -> tuple[KeyedDescriptor, tuple[int, int]]:
        """Return the descriptor of the key in the table, which all inputs must have."""
        (first, version), *others = (record_input.descriptor(flink_version) for record_input in self.keyed_inputs)
        for number, (other, _) in enumerate(others, 2):
            if (other.key_serializer, other.key_group is None) != (first.key_serializer, first.key_group is None):
                raise OptionError(
                    f"input {number} has another key than the first input",
                    expected=_described(first),
                    found=_described(other),
                    remedy="cast the column, or give both the same key_type (or key_group)",
                )
        names = tuple(f"{KEYS}{i}" for i in range(len(first.key_columns)))
        group = None if first.key_group is None else RECORD
        return replace(first, key_columns=names, key_group=group), version

    def distributed(self, max_parallelism: int) -> tuple[Rows, int]:
        """Return the table distributed by subtask, and the number of tasks."""
        engine = self.engine
        descriptor, _ = self.descriptor(None)
        parallelism = self.processing.parallelism or engine.tasks(self.keyed_inputs[0].rows, max_parallelism)
        check_parallelism(max_parallelism, parallelism)
        hashed = replace(
            self, keyed_inputs=tuple(record_input.hashed(max_parallelism) for record_input in self.keyed_inputs)
        )
        tables = [hashed._table(number, record_input) for number, record_input in enumerate(hashed.keyed_inputs, 1)]
        keyed = reduce(lambda a, b: a.union(b), tables)
        broadcast = hashed._table(BROADCAST, self.broadcast) if self.broadcast is not None else None
        return engine.connected(keyed, broadcast, ORDER, descriptor, max_parallelism, parallelism), parallelism

    def _table(self, number: int, records: KeyedRecordInput | BroadcastInput) -> Rows:
        """Return the rows of one input in the columns of the table."""
        first = self.keyed_inputs[0]
        keys = records.keys if isinstance(records, KeyedRecordInput) else None
        cells = [
            Cell(f"{KEYS}{i}", first.rows, (name,), (keys[i],) if keys else None) for i, name in enumerate(first.keys)
        ]
        if first.key_group is not None:
            group = records.key_group if isinstance(records, KeyedRecordInput) else None
            cells.append(Cell(RECORD, first.rows, (first.key_group,), (group,) if group else None))
        every: list[tuple[int, KeyedRecordInput | BroadcastInput]] = list(enumerate(self.keyed_inputs, 1))
        if self.broadcast is not None:
            every.append((BROADCAST, self.broadcast))
        for other, record_input in every:
            own = other == number
            cells.append(
                Cell(
                    f"{ROWS}{other}",
                    record_input.rows,
                    record_input.columns,
                    record_input.columns if own else None,
                    True,
                )
            )
            if record_input.timestamp is not None:
                time = (record_input.timestamp,)
                cells.append(Cell(f"{TIMES}{other}", record_input.rows, time, time if own else None))
        return self.engine.packed(records.rows, INPUT, number, cells)


def _input(number: int, records: KeyedRecordInput | BroadcastInput) -> RecordInput:
    return RecordInput(
        f"{ROWS}{number}", records.columns, f"{TIMES}{number}" if records.timestamp is not None else None
    )


def _described(descriptor: KeyedDescriptor) -> str:
    how = "" if descriptor.key_group is None else ", with a column of key groups"
    return descriptor.key_serializer.flink_type + how


@dataclass(frozen=True, repr=False)
class ConnectedTransformation(StateTransformation, Generic[T]):
    """Transformation of several inputs. It ends with :meth:`transform` or :meth:`process`.

    Flink: ``ConnectedStreams``, ``BroadcastConnectedStream``, ``KeyedMultipleInputTransformation``.

    Example::

        balances = orders.key_by("customer").connect(payments.key_by("customer")).transform(Balance())
        savepoint.with_operator("balances", balances)
    """

    keyed_inputs: tuple[KeyedRecordInput, ...]
    broadcast: BroadcastInput | None = None

    def _about(self) -> str:
        inputs = [f"rows ({', '.join(record_input.columns)})" for record_input in self.keyed_inputs]
        return " and ".join([*inputs, *([] if self.broadcast is None else ["a broadcast input"])])

    def _with_texts(self, more: Mapping[str, str]) -> Self:
        first, *others = self.keyed_inputs
        return replace(self, keyed_inputs=(first.with_texts(more), *others))

    def transform(self, function: ConnectedFunction) -> KeyedRows:
        """Create the keyed state and timers of each key, and the broadcast state.

        Args:
            function: A KeyedCoProcessFunction of two inputs, a KeyedMultipleInputFunction, or of a broadcast input a
                KeyedBroadcastProcessFunction. It is pickled to the tasks. The rows that it yields are discarded.

        Returns:
            The states and timers, for :meth:`Savepoint.with_operator`.

        Raises:
            OptionError: If ``function`` does not fit the inputs, or the types of their keys differ.

        """
        source = self._source(function)
        source.descriptor(None)
        return KeyedRows(source, function)

    def process(self, function: ConnectedFunction, schema: Any) -> T:
        """Return the rows that a function yields over all inputs (FLIP-140). No state is kept.

        Timers fire at the end of their key: event time first, then processing time.

        Args:
            function: The function, as for :meth:`transform`.
            schema: The schema of the rows, such as ``id long, total long``.

        Returns:
            The rows: with Spark a DataFrame, without it a LocalTable. Reading them calls the function.

        Raises:
            OptionError: If ``function`` does not fit the inputs, or the types of their keys differ.

        Example::

            orders.key_by("customer").connect(payments.key_by("customer")).process(Balance(), "id long, balance long")

        """
        rows: T = processed(self._source(function), function, schema)
        return rows

    def _source(self, function: Any) -> ConnectedSource:
        processing = self.keyed_inputs[0].processing
        kinds: tuple[type, ...] = (KeyedMultipleInputFunction,)
        if self.broadcast is not None:
            kinds = (KeyedBroadcastProcessFunction,)
        elif len(self.keyed_inputs) == 2:
            kinds = (KeyedCoProcessFunction, KeyedMultipleInputFunction)
        expect_function(function, next((kind for kind in kinds if isinstance(function, kind)), kinds[0]))
        if processing.presorted:
            raise OptionError("several inputs cannot be presorted", remedy="leave option 'presorted' out: tasks sort")
        if self.broadcast is not None and (not processing.sorted or processing.backend != "single_key"):
            raise OptionError(
                "a broadcast input comes before the first key, so records are sorted, on the backend of a single key",
                remedy="leave the options 'sorted' and 'stateBackend' out",
            )
        return ConnectedSource(self.keyed_inputs, self.broadcast)
