"""State from records by user functions (FLIP-43): what ``Savepoint.with_operator`` takes besides DataFrames of state.

::

    accounts = (OperatorTransformation.bootstrap_with(df).assign_timestamps("ts").key_by("id")
                .transform(AccountBootstrapper()))
    Savepoint.create(spark, max_parallelism=128).with_operator("accounts", accounts).write(path)

Every step is immutable and runs nothing. Twins: ``OperatorTransformation``, ``OneInputStateTransformation``,
``KeyedStateTransformation``, ``WindowedStateTransformation``, ``StateBootstrapTransformation``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from pyspark.sql import Column

from pyspark_savepoint.bootstrap_options import ProcessingOptions, merged
from pyspark_savepoint.bootstrap_plans import KeyedInput, KeyedRows, OperatorStateRows
from pyspark_savepoint.formats.errors import OptionError, did_you_mean
from pyspark_savepoint.option_values import to_options
from pyspark_savepoint.statebackends.processing.durations import Duration, millis
from pyspark_savepoint.statebackends.processing.evictors import Evictor
from pyspark_savepoint.statebackends.processing.functions import (
    BroadcastStateBootstrapFunction,
    KeyedProcessFunction,
    KeyedStateBootstrapFunction,
    ProcessWindowFunction,
    StateBootstrapFunction,
)
from pyspark_savepoint.statebackends.processing.guard import expect_function
from pyspark_savepoint.statebackends.processing.state import AggregateFunction
from pyspark_savepoint.statebackends.processing.triggers import Trigger
from pyspark_savepoint.statebackends.processing.window_operator import WindowSpec
from pyspark_savepoint.statebackends.processing.windows import WindowAssigner

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

TIMESTAMP, KEY = "__savepoint_timestamp", "__savepoint_key"
#: A column by its name, as an expression, or as a function of the DataFrame: ``lambda account: account.id``.
Selector = str | Column | Callable[[Any], Column]


class OperatorTransformation:
    """``OperatorTransformation``: where a bootstrapped operator begins."""

    @staticmethod
    def bootstrap_with(df: DataFrame) -> OneInputTransformation:
        """Records; every row is one, and functions are given it as a Row with the DataFrame's columns."""
        return OneInputTransformation(df, tuple(df.columns))


@dataclass(frozen=True)
class OneInputTransformation:
    """Records without key. ``columns`` are those of the rows that functions see."""

    frame: DataFrame
    columns: tuple[str, ...]
    timestamp: str | None = None
    texts: Mapping[str, str] = field(default_factory=dict)

    def assign_timestamps(self, timestamps: Selector) -> OneInputTransformation:
        """Every record's timestamp: a TIMESTAMP, or a whole number of milliseconds; never NULL.

        Contexts, windows and timers see it, and the records of a key come in its order.
        """
        frame, name = self._selected(timestamps, TIMESTAMP)
        return replace(self, frame=frame, timestamp=name)

    def select(self, *columns: str) -> OneInputTransformation:
        """Which columns the rows have that functions are given; key and timestamp may be others."""
        for name in columns:
            if name not in self.frame.columns:
                raise OptionError(f"the records have no column {name!r}", remedy=did_you_mean(name, self.columns))
        return replace(self, columns=columns)

    def options(self, **options: Any) -> OneInputTransformation:
        """How records are processed: ``sorted``, ``state_backend``, ``object_reuse``, ``sort_memory`` ..."""
        texts = merged(self.texts, to_options(options))
        ProcessingOptions.parse(texts)
        return replace(self, texts=texts)

    def option(self, name: str, value: Any) -> OneInputTransformation:
        """One of the options, by its name."""
        return self.options(**{name: value})

    def key_by(
        self,
        *keys: Selector,
        key_type: str | None = None,
        key_group: str | None = None,
    ) -> KeyedTransformation:
        """By one column, or several, which make a tuple.

        ``key_type`` is the key's type in Flink's words, such as ``LONG`` or ``POJO<...>``; else that of the columns.
        ``key_group`` names a column with every key's key group, where only the job's code knows the hash of its keys.
        """
        if not keys:
            raise OptionError("key_by needs the key", remedy="key_by('id')")
        frame, names = self.frame, []
        for i, key in enumerate(keys):
            step, name = replace(self, frame=frame)._selected(key, f"{KEY}_{i}" if len(keys) > 1 else KEY)
            frame = step
            names.append(name)
        return KeyedTransformation(replace(self, frame=frame), tuple(names), key_type, key_group)

    def transform(self, function: StateBootstrapFunction | BroadcastStateBootstrapFunction) -> OperatorStateRows:
        """Operator state: list and union state of a StateBootstrapFunction, broadcast state of the other one."""
        given: object = function
        if not isinstance(given, StateBootstrapFunction | BroadcastStateBootstrapFunction):
            remedy = "key_by(...) comes before it" if isinstance(given, KeyedStateBootstrapFunction) else None
            raise OptionError(
                "records without key are for functions of operator state",
                expected="a StateBootstrapFunction or a BroadcastStateBootstrapFunction",
                found=type(given).__name__,
                remedy=remedy,
            )
        return OperatorStateRows(self.frame, self.columns, self.timestamp, self._parsed(), function)

    def _parsed(self) -> ProcessingOptions:
        return ProcessingOptions.parse(self.texts)

    def _selected(self, selector: Selector, own: str) -> tuple[DataFrame, str]:
        """The DataFrame with what a selector selects, and the name of its column."""
        if isinstance(selector, str):
            if selector not in self.frame.columns:
                remedy = did_you_mean(selector, self.columns)
                raise OptionError(f"the records have no column {selector!r}", remedy=remedy)
            return self.frame, selector
        column: Any = selector if isinstance(selector, Column) else selector(self.frame)
        if not isinstance(column, Column):
            raise OptionError(
                "a selector gives a column of the DataFrame",
                found=type(column).__name__,
                remedy="for example lambda account: account.id",
            )
        return self.frame.withColumn(own, column), own


@dataclass(frozen=True)
class KeyedTransformation:
    """Records with a key."""

    source: OneInputTransformation
    keys: tuple[str, ...]
    key_type: str | None = None
    key_group: str | None = None

    def options(self, **options: Any) -> KeyedTransformation:
        """As :meth:`OneInputTransformation.options`."""
        return replace(self, source=self.source.options(**options))

    def option(self, name: str, value: Any) -> KeyedTransformation:
        """One of the options, by its name."""
        return self.options(**{name: value})

    def transform(self, function: KeyedStateBootstrapFunction) -> KeyedRows:
        """State of every key, and timers, by a function of its records."""
        expect_function(function, KeyedStateBootstrapFunction)
        return KeyedRows(self._keyed(), function)

    def window(self, assigner: WindowAssigner) -> WindowedTransformation:
        """Windows of the records of every key."""
        if not isinstance(assigner, WindowAssigner):
            raise OptionError("window() needs a WindowAssigner", found=type(assigner).__name__)
        return WindowedTransformation(self, assigner)

    def process(self, function: KeyedProcessFunction, schema: str | StructType) -> DataFrame:
        """No state, but the rows that a function yields: bounded execution of a KeyedProcessFunction (FLIP-140).

        Timers fire at the end of their key, event time first, then processing time.
        """
        return self._keyed().process(function, schema)

    def _keyed(self) -> KeyedInput:
        source = self.source
        return KeyedInput(
            source.frame, source.columns, source.timestamp, source._parsed(), self.keys, self.key_type, self.key_group
        )


@dataclass(frozen=True)
class WindowedTransformation:
    """Records with a key, in windows."""

    keyed: KeyedTransformation
    assigner: WindowAssigner
    given_trigger: Trigger | None = None
    given_evictor: Evictor | None = None
    lateness: int = 0
    element_type: str | None = None

    def options(self, **options: Any) -> WindowedTransformation:
        """As :meth:`OneInputTransformation.options`."""
        return replace(self, keyed=self.keyed.options(**options))

    def option(self, name: str, value: Any) -> WindowedTransformation:
        """One of the options, by its name."""
        return self.options(**{name: value})

    def trigger(self, trigger: Trigger) -> WindowedTransformation:
        """Another trigger than the assigner's own."""
        return replace(self, given_trigger=trigger)

    def evictor(self, evictor: Evictor) -> WindowedTransformation:
        """With an evictor windows keep all their elements, with timestamps."""
        return replace(self, given_evictor=evictor)

    def allowed_lateness(self, lateness: Duration) -> WindowedTransformation:
        """How long windows are kept after their end: decides their clean-up timers."""
        return replace(self, lateness=millis(lateness))

    def element(self, element_type: str) -> WindowedTransformation:
        """The type of the elements in Flink's words, such as ``POJO<com.shop.Order>(id LONG, ...)`` or ``LONG``.

        Without it that of the DataFrame's columns. A type that is not composite needs a DataFrame of one column, whose
        values the functions are given.
        """
        return replace(self, element_type=element_type)

    def reduce(self, reduce: Callable[[Any, Any], Any], function: ProcessWindowFunction | None = None) -> KeyedRows:
        """Two elements to one, of the same type."""
        return self._rows(WindowParts(reduce=reduce, function=function))

    def aggregate(
        self,
        aggregate: AggregateFunction[Any, Any, Any],
        accumulator_type: str,
        function: ProcessWindowFunction | None = None,
    ) -> KeyedRows:
        """Elements into an accumulator, whose type in Flink's words is given."""
        return self._rows(WindowParts(aggregate=aggregate, accumulator_type=accumulator_type, function=function))

    def process(self, function: ProcessWindowFunction | None = None) -> KeyedRows:
        """All elements are kept; the function is called where a trigger fires, for the state that it may have."""
        return self._rows(WindowParts(function=function))

    apply = process

    def _rows(self, parts: WindowParts) -> KeyedRows:
        spec = WindowSpec(
            self.assigner,
            self.element_type or "",
            self.given_trigger or self.assigner.default_trigger(),
            parts.reduce,
            parts.aggregate,
            parts.accumulator_type,
            parts.function,
            self.given_evictor,
            self.lateness,
        )
        spec.check()
        return KeyedRows(self.keyed._keyed(), spec)


@dataclass(frozen=True)
class WindowParts:
    """What is done with the elements of a window."""

    reduce: Callable[[Any, Any], Any] | None = None
    aggregate: AggregateFunction[Any, Any, Any] | None = None
    accumulator_type: str | None = None
    function: ProcessWindowFunction | None = None
