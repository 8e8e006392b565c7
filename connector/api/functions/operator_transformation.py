"""Transformations that create operator or keyed state from records by user functions (FLIP-43).

::

    accounts = (OperatorTransformation.bootstrap_with(rows).assign_timestamps("ts").key_by("id")
                .transform(AccountBootstrapper()))
    Savepoint.create(spark, max_parallelism=128).with_operator("accounts", accounts).write(path)
    pyspark_savepoint.create(max_parallelism=128).with_operator("accounts", accounts).write(path)  # of Arrow

Every step is immutable and runs nothing. ``with_operator`` of a savepoint takes the result. With Spark it comes from a
DataFrame, and tasks run the functions. Without Spark it comes from rows of Arrow or pandas, and this process runs
copies of the functions. Flink: ``OperatorTransformation``, ``OneInputStateTransformation``,
``KeyedStateTransformation``, ``WindowedStateTransformation``, ``StateBootstrapTransformation``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, overload

import pyarrow as pa

from pyspark_savepoint.api.functions.bootstrap_plans import (
    BroadcastInput,
    KeyedRecordInput,
    KeyedRows,
    OperatorStateRows,
    processed,
)
from pyspark_savepoint.api.functions.connected_transformation import ConnectedTransformation
from pyspark_savepoint.api.functions.state_transformation import StateTransformation
from pyspark_savepoint.engines.arrow.local_engine import LocalEngine
from pyspark_savepoint.formats.errors import OptionError, did_you_mean, type_name
from pyspark_savepoint.options.bootstrap_options import ProcessingOptions, merged
from pyspark_savepoint.plan.engine import Engine, Rows, expect_same_engine
from pyspark_savepoint.plan.key_hashes import HashCode, expect_hash_code
from pyspark_savepoint.statebackends.processing.api.evictors import Evictor
from pyspark_savepoint.statebackends.processing.api.functions import (
    BroadcastStateBootstrapFunction,
    KeyedProcessFunction,
    KeyedStateBootstrapFunction,
    ProcessWindowFunction,
    StateBootstrapFunction,
)
from pyspark_savepoint.statebackends.processing.api.state_descriptors import AggregateFunction, MapStateDescriptor
from pyspark_savepoint.statebackends.processing.api.timers import Duration, millis
from pyspark_savepoint.statebackends.processing.api.triggers import Trigger
from pyspark_savepoint.statebackends.processing.api.windows import WindowAssigner
from pyspark_savepoint.statebackends.processing.operators.window_operator import WindowSpec
from pyspark_savepoint.statebackends.processing.runtime.user_code import expect_arguments, expect_function

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

    from pyspark_savepoint.engines.arrow.local_engine import ArrowStream
    from pyspark_savepoint.engines.arrow.local_table import LocalTable

    #: A column: its name, an expression of Spark, or a function of the DataFrame, ``lambda account: account.id``;
    #: without Spark its name, or a function of a ``pyarrow.RecordBatch`` that returns an array.
    Selector = str | Column | Callable[[Any], Any]

#: The tables that functions yield: a DataFrame, or without Spark a LocalTable.
T = TypeVar("T")
TIMESTAMP, KEY = "__savepoint_timestamp", "__savepoint_key"


class OperatorTransformation:
    """Entry point of transformations that create the state of an operator from records.

    Flink: ``OperatorTransformation``.

    Example::

        accounts = (OperatorTransformation.bootstrap_with(rows).assign_timestamps("ts").key_by("id")
                    .transform(AccountBootstrapper()))
        Savepoint.create(spark, max_parallelism=128).with_operator("accounts", accounts).write("/savepoints/new")
    """

    @overload
    @staticmethod
    def bootstrap_with(rows: DataFrame) -> OneInputTransformation[DataFrame]: ...  # type: ignore[overload-overlap]

    @overload
    @staticmethod
    def bootstrap_with(rows: ArrowStream) -> OneInputTransformation[LocalTable]: ...

    @staticmethod
    def bootstrap_with(rows: Any) -> OneInputTransformation[Any]:
        """Start a transformation of rows.

        Args:
            rows: The records: a DataFrame for a savepoint with Spark. For one without it, a ``pyarrow.Table``, a
                ``RecordBatchReader``, a ``pyarrow.dataset``, a DataFrame of pandas or Polars, or a table of a snapshot.
                Functions get each row as a Row with these columns.

        Returns:
            The transformation, without key.

        Raises:
            OptionError: If ``rows`` is none of these.

        Example::

            records = pyarrow.table({"id": [1, 1, 2], "amount": [5, 7, 1]})
            accounts = OperatorTransformation.bootstrap_with(records).key_by("id").transform(AccountBootstrapper())
            pyspark_savepoint.create().with_operator("accounts", accounts).write("/savepoints/new")

        """
        engine = _engine_of(rows)
        records = engine.rows(rows)
        if records is None:
            raise OptionError(
                "records must be given as a DataFrame of Spark, or without Spark as rows of Arrow",
                expected=f"a DataFrame, or {engine.rows_are}",
                found=type_name(rows),
                remedy="bootstrap_with(spark.createDataFrame(...)), or bootstrap_with(pyarrow.table({...}))",
            )
        return OneInputTransformation(engine, records, tuple(records.schema.names))


def _engine_of(records: Any) -> Engine:
    """Return the engine whose rows these are: Spark's for a DataFrame, else that of this process."""
    if any(kind.__module__.startswith("pyspark.sql.") for kind in type(records).__mro__):
        # Spark is an extra that records of Arrow do not need.
        from pyspark_savepoint.engines.spark.spark_engine import SparkEngine

        return SparkEngine(records.sparkSession)
    return LocalEngine()


@dataclass(frozen=True, repr=False)
class OneInputTransformation(StateTransformation, Generic[T]):
    """Transformation of records without key. ``columns`` are those of the rows that functions get.

    Flink: ``OneInputStateTransformation``.

    Example::

        offsets = OperatorTransformation.bootstrap_with(rows).assign_timestamps("ts").transform(Offsets())
        savepoint.with_operator("orders-source", offsets)

    """

    engine: Engine
    rows: Rows
    columns: tuple[str, ...]
    timestamp: str | None = None
    texts: Mapping[str, str] = field(default_factory=dict)

    def _about(self) -> str:
        return f"rows ({', '.join(self.columns)})"

    def assign_timestamps(self, timestamps: Selector) -> OneInputTransformation[T]:
        """Set the timestamps of the records: contexts and windows use them, and a key's records are sorted by them.

        Args:
            timestamps: A column: TIMESTAMP, TIMESTAMP_NTZ, or a whole number of milliseconds since 1970. It is never
                NULL. With Spark it may be an expression, without it a function of a ``pyarrow.RecordBatch``.

        Returns:
            The transformation with timestamps.

        Raises:
            OptionError: If the column does not exist, or is of another type.

        Example::

            transformation.assign_timestamps(lambda record: record.ts.cast("timestamp"))

        """
        rows, name = self._selected(timestamps, TIMESTAMP)
        kind = rows.schema.field(name).type
        if not (pa.types.is_timestamp(kind) or pa.types.is_integer(kind)):
            raise OptionError(
                f"column {name!r} cannot give timestamps"
                if name != TIMESTAMP
                else "the expression does not return timestamps",
                expected="TIMESTAMP, TIMESTAMP_NTZ, or milliseconds as a whole number",
                found=str(kind),
                remedy="cast it: assign_timestamps(lambda record: record.ts.cast('timestamp'))",
            )
        return replace(self, rows=rows, timestamp=name)

    def select(self, *columns: str) -> OneInputTransformation[T]:
        """Choose the columns of the rows that functions get. Key and timestamp may be other columns.

        Args:
            *columns: Names of columns.

        Returns:
            The transformation with these columns.

        Raises:
            OptionError: If the records have no such column.

        """
        for name in columns:
            if name not in self.rows.schema.names:
                raise OptionError(f"the records have no column {name!r}", remedy=did_you_mean(name, self.columns))
        return replace(self, columns=columns)

    def _with_texts(self, more: Mapping[str, str]) -> Self:
        texts = merged(self.texts, more)
        ProcessingOptions.parse(texts)
        return replace(self, texts=texts)

    def key_by(
        self,
        *keys: Selector,
        key_type: str | None = None,
        key_group: str | None = None,
        hash_code: HashCode | None = None,
    ) -> KeyedTransformation[T]:
        """Group the records by key: one column, or several, which form a tuple.

        Flink: ``OneInputStateTransformation#keyBy``.

        Args:
            *keys: Columns: a name, an expression, or a function of the DataFrame that returns one. Without Spark a
                name, or a function of a ``pyarrow.RecordBatch`` that returns an array.
            key_type: The key's type in Flink's notation, such as ``LONG`` or ``POJO<...>``. By default that of the
                columns.
            key_group: The column with the key group of each row, for keys whose hash only the job's code can compute.
            hash_code: For such keys, in place of a column, a function that returns ``hashCode()`` of a key in Java. A
                key of several columns is a Row. :meth:`Inspection.check_hash_code` tests it on keys of a savepoint.

        Returns:
            The transformation with a key.

        Raises:
            OptionError: If there is no key, or the records have no such column.

        Example::

            transformation.key_by(lambda account: account.id)

        """
        if not keys:
            raise OptionError("key_by needs the columns of the key", remedy="key_by('id')")
        if hash_code is not None:
            expect_hash_code(hash_code)
            if key_group is not None:
                raise OptionError("key_by takes a column of key groups or a function, not both")
        rows, names = self.rows, []
        for i, key in enumerate(keys):
            step = replace(self, rows=rows)
            rows, name = step._selected(key, f"{KEY}_{i}" if len(keys) > 1 else KEY)
            names.append(name)
        return KeyedTransformation(replace(self, rows=rows), tuple(names), key_type, key_group, hash_code)

    def transform(self, function: StateBootstrapFunction | BroadcastStateBootstrapFunction) -> OperatorStateRows:
        """Create operator state from all records.

        Args:
            function: A StateBootstrapFunction for list and union list state, or a BroadcastStateBootstrapFunction.

        Returns:
            The states, for :meth:`Savepoint.with_operator`.

        Raises:
            OptionError: If ``function`` is of another class.

        """
        given: object = function
        if not isinstance(given, StateBootstrapFunction | BroadcastStateBootstrapFunction):
            remedy = "call key_by(...) first" if isinstance(given, KeyedStateBootstrapFunction) else None
            raise OptionError(
                "records without a key need a function of operator state",
                expected="a StateBootstrapFunction or a BroadcastStateBootstrapFunction",
                found=type_name(given),
                remedy=remedy,
            )
        for kind in (StateBootstrapFunction, BroadcastStateBootstrapFunction):
            if isinstance(given, kind):
                expect_arguments(given, kind)
        return OperatorStateRows(self.engine, self.rows, self.columns, self.timestamp, self._parsed(), function)

    def broadcast(self, *descriptors: MapStateDescriptor) -> BroadcastInput:
        """Give all records to every task, for :meth:`KeyedTransformation.connect`.

        Flink: ``DataStream#broadcast``.

        Args:
            *descriptors: The broadcast states that the function fills with them.

        Returns:
            The input.

        Raises:
            OptionError: If there is no descriptor, or one is not a MapStateDescriptor.

        Example::

            orders.key_by("customer").connect(rates.broadcast(RATES)).transform(Converted())

        """
        if not descriptors or not all(isinstance(descriptor, MapStateDescriptor) for descriptor in descriptors):
            raise OptionError(
                "broadcast() needs descriptors of the states that the input fills",
                expected="a MapStateDescriptor, or several",
                found=", ".join(type_name(descriptor) for descriptor in descriptors) or "nothing",
                remedy="broadcast(MapStateDescriptor('rates', 'STRING', 'DOUBLE'))",
            )
        _refuse_options(self.texts)
        return BroadcastInput(self.engine, self.rows, self.columns, self.timestamp, descriptors)

    def _parsed(self) -> ProcessingOptions:
        return ProcessingOptions.parse(self.texts)

    def _selected(self, selector: Selector, own: str) -> tuple[Rows, str]:
        """Return the rows with the selected column, and the name of that column."""
        if isinstance(selector, str):
            if selector not in self.rows.schema.names:
                remedy = did_you_mean(selector, self.columns)
                raise OptionError(f"the records have no column {selector!r}", remedy=remedy)
            return self.rows, selector
        return self.engine.with_selected(self.rows, selector, own), own


@dataclass(frozen=True, repr=False)
class KeyedTransformation(StateTransformation, Generic[T]):
    """Transformation of records with a key.

    Flink: ``KeyedStateTransformation``.

    Example::

        keyed = OperatorTransformation.bootstrap_with(rows).key_by("id")
        savepoint.with_operator("accounts", keyed.transform(AccountBootstrapper()))

    """

    source: OneInputTransformation[T]
    keys: tuple[str, ...]
    key_type: str | None = None
    key_group: str | None = None
    hash_code: HashCode | None = None

    def _about(self) -> str:
        return f"{self.source._about()} by {', '.join(self.keys)}"

    def _with_texts(self, more: Mapping[str, str]) -> Self:
        return replace(self, source=self.source._with_texts(more))

    def transform(self, function: KeyedStateBootstrapFunction) -> KeyedRows:
        """Create the keyed state and timers of each key from its records.

        Args:
            function: The bootstrap function, pickled to the tasks.

        Returns:
            The states and timers, for :meth:`Savepoint.with_operator`.

        Raises:
            OptionError: If ``function`` is of another class.

        """
        expect_function(function, KeyedStateBootstrapFunction)
        return KeyedRows(self._keyed(), function)

    def connect(self, *others: KeyedTransformation[T] | BroadcastInput) -> ConnectedTransformation[T]:
        """Connect the records with other inputs of the same key, or with one that every task gets as a whole.

        The records of a key come in the order of their timestamps, whichever input they come from. Options of the
        processing are given to the first input, or to the result. Flink: ``KeyedStream#connect``,
        ``KeyedMultipleInputTransformation``.

        Args:
            *others: One or more inputs with a key of the same type, or one input of
                :meth:`OneInputTransformation.broadcast`.

        Returns:
            The transformation. It ends with ``transform`` or ``process``.

        Raises:
            OptionError: If there is no other input, keys differ in their types, an input is of another class, or one of
                the others has options.

        Example::

            orders.key_by("customer").connect(payments.key_by("customer")).transform(Balance())

        """
        keyed = tuple(other._keyed() for other in others if isinstance(other, KeyedTransformation))
        broadcast = tuple(other for other in others if isinstance(other, BroadcastInput))
        wrong = [other for other in others if not isinstance(other, KeyedTransformation | BroadcastInput)]
        if wrong or not others or (broadcast and len(others) > 1):
            raise OptionError(
                "connect() takes inputs with the same key, or one broadcast input",
                expected="key_by(...) of other records, or broadcast(descriptor) of one",
                found=", ".join(type_name(other) for other in others) or "nothing",
            )
        for other in keyed:
            if other.texts != self.source.texts:
                _refuse_options(other.texts)
        for engine in (*(other.engine for other in keyed), *(other.engine for other in broadcast)):
            expect_same_engine(self.source.engine, engine)
        return ConnectedTransformation((self._keyed(), *keyed), broadcast[0] if broadcast else None)

    def window(self, assigner: WindowAssigner) -> WindowedTransformation[T]:
        """Assign the records of each key to windows.

        Args:
            assigner: The window assigner, such as ``TumblingEventTimeWindows.of(timedelta(minutes=1))``.

        Returns:
            The transformation with windows.

        Raises:
            OptionError: If ``assigner`` is not a WindowAssigner.

        """
        if not isinstance(assigner, WindowAssigner):
            raise OptionError("window() needs a WindowAssigner", found=type_name(assigner))
        return WindowedTransformation(self, assigner)

    def process(self, function: KeyedProcessFunction, schema: str | StructType | pa.Schema) -> T:
        """Return the rows that a KeyedProcessFunction yields over the records (FLIP-140). No state is kept.

        Timers fire at the end of their key: event time first, then processing time. With option ``sorted`` false,
        records come as they arrive, and timers fire at the end of the input, those of all keys by their timestamps.

        Args:
            function: The function, pickled to the tasks.
            schema: The schema of the rows, such as ``id long, total long``. With Spark also a StructType, without it a
                ``pyarrow.Schema``.

        Returns:
            The rows: with Spark a DataFrame, without it a LocalTable. Reading them calls the function.

        Raises:
            OptionError: If ``function`` is of another class.

        Example::

            OperatorTransformation.bootstrap_with(rows).key_by("id").process(Sum(), "id long, total long").show()

        """
        expect_function(function, KeyedProcessFunction)
        rows: T = processed(self._keyed(), function, schema)
        return rows

    def _keyed(self) -> KeyedRecordInput:
        source = self.source
        return KeyedRecordInput(
            source.engine,
            source.rows,
            source.columns,
            source.timestamp,
            source.texts,
            self.keys,
            self.key_type,
            self.key_group,
            self.hash_code,
        )


@dataclass(frozen=True, repr=False)
class WindowedTransformation(StateTransformation, Generic[T]):
    """Transformation of keyed records in windows. It ends with :meth:`reduce`, :meth:`aggregate` or :meth:`process`.

    Flink: ``WindowedStateTransformation``.

    Example::

        windows = (OperatorTransformation.bootstrap_with(orders).assign_timestamps("ts").key_by("customer")
                   .window(TumblingEventTimeWindows.of(timedelta(minutes=1))).process())
        savepoint.with_operator("orders-per-minute", windows)
    """

    keyed: KeyedTransformation[T]
    assigner: WindowAssigner
    given_trigger: Trigger | None = None
    given_evictor: Evictor | None = None
    lateness: int = 0
    element_type: str | None = None

    def _about(self) -> str:
        return f"{self.keyed._about()} in windows of {self.assigner}"

    def _with_texts(self, more: Mapping[str, str]) -> Self:
        return replace(self, keyed=self.keyed._with_texts(more))

    def trigger(self, trigger: Trigger) -> WindowedTransformation[T]:
        """Set a trigger instead of the assigner's default one.

        Args:
            trigger: The trigger, as in the job.

        Returns:
            The transformation with the trigger.

        """
        expect_function(trigger, Trigger)
        return replace(self, given_trigger=trigger)

    def evictor(self, evictor: Evictor) -> WindowedTransformation[T]:
        """Set an evictor. Windows then store all their elements with timestamps.

        Args:
            evictor: The evictor, as in the job.

        Returns:
            The transformation with the evictor.

        """
        expect_function(evictor, Evictor)
        return replace(self, given_evictor=evictor)

    def allowed_lateness(self, lateness: Duration) -> WindowedTransformation[T]:
        """Set how long windows are kept after their end, which determines their clean-up timers.

        Args:
            lateness: Milliseconds, or a timedelta of whole milliseconds.

        Returns:
            The transformation with the lateness.

        """
        return replace(self, lateness=millis(lateness))

    def element(self, element_type: str) -> WindowedTransformation[T]:
        """Set the type of the elements.

        By default it is that of the records' columns. A type that is not composite requires records of one column,
        whose values the functions get instead of rows.

        Args:
            element_type: The type in Flink's notation, such as ``POJO<com.shop.Order>(id LONG, ...)`` or ``LONG``.

        Returns:
            The transformation with the type.

        """
        return replace(self, element_type=element_type)

    def reduce(self, reduce: Callable[[Any, Any], Any], function: ProcessWindowFunction | None = None) -> KeyedRows:
        """Keep one element per window, to which the elements are reduced.

        The result of ``reduce`` is passed back as its first argument. To keep the names of a row's fields, change the
        first row and return it (``left.amount += right.amount``), which is safe as the row belongs to the function.

        Args:
            reduce: A function of two elements that returns one of the same type.
            function: A function that is called when a trigger fires, for its state only.

        Returns:
            The state and timers, for :meth:`Savepoint.with_operator`.

        Raises:
            OptionError: If ``reduce`` is not callable.

        """
        if not callable(reduce):
            raise OptionError(
                "reduce needs a function of two elements",
                found=type_name(reduce),
                remedy="process() keeps all elements",
            )
        return self._rows(function, reduce=reduce)

    def aggregate(
        self,
        aggregate: AggregateFunction[Any, Any, Any],
        accumulator_type: str,
        function: ProcessWindowFunction | None = None,
    ) -> KeyedRows:
        """Keep one accumulator per window, to which the elements are added.

        Args:
            aggregate: The aggregate function.
            accumulator_type: The type of the accumulator in Flink's notation.
            function: A function that is called when a trigger fires, for its state only.

        Returns:
            The state and timers, for :meth:`Savepoint.with_operator`.

        Example::

            windowed.aggregate(Average(), "TUPLE<LONG, LONG>")

        """
        expect_function(aggregate, AggregateFunction)
        return self._rows(function, aggregate=aggregate, accumulator_type=accumulator_type)

    def process(self, function: ProcessWindowFunction | None = None) -> KeyedRows:
        """Keep all elements of each window.

        Args:
            function: A function that is called when a trigger fires, for its state only.

        Returns:
            The state and timers, for :meth:`Savepoint.with_operator`.

        """
        return self._rows(function)

    apply = process

    def _rows(
        self,
        function: ProcessWindowFunction | None,
        reduce: Callable[[Any, Any], Any] | None = None,
        aggregate: AggregateFunction[Any, Any, Any] | None = None,
        accumulator_type: str | None = None,
    ) -> KeyedRows:
        if function is not None:
            expect_function(function, ProcessWindowFunction)
        spec = WindowSpec(
            self.assigner,
            self.element_type or "",
            self.given_trigger or self.assigner.default_trigger(),
            reduce,
            aggregate,
            accumulator_type,
            function,
            self.given_evictor,
            self.lateness,
        )
        spec.check()
        return KeyedRows(self.keyed._keyed(), spec)


def _refuse_options(texts: Mapping[str, str]) -> None:
    """Raise OptionError if an input other than the first has options, which would have no effect."""
    if texts:
        raise OptionError(
            "options of the processing apply to all inputs, and can only be given to the first",
            found=", ".join(texts),
            remedy="give them to the first input, or to what connect(...) returns",
        )
