"""State from records by user functions (FLIP-43): what ``Savepoint.with_operator`` takes besides DataFrames of state.

::

    accounts = (OperatorTransformation.bootstrap_with(df).assign_timestamps("ts").key_by("id")
                .transform(AccountBootstrapper()))
    Savepoint.create(spark, max_parallelism=128).with_operator("accounts", accounts).write(path)

Every step is immutable and runs nothing. Flink: ``OperatorTransformation``, ``OneInputStateTransformation``,
``KeyedStateTransformation``, ``WindowedStateTransformation``, ``StateBootstrapTransformation``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from pyspark.sql import Column, DataFrame
from pyspark.sql.types import IntegralType, TimestampNTZType, TimestampType

from pyspark_savepoint.formats.errors import OptionError, did_you_mean
from pyspark_savepoint.functions.bootstrap_plans import KeyedInput, KeyedRows, OperatorStateRows
from pyspark_savepoint.functions.windowed_transformation import WindowedTransformation
from pyspark_savepoint.options.bootstrap_options import ProcessingOptions, merged
from pyspark_savepoint.options.option_values import to_options
from pyspark_savepoint.statebackends.processing.api.functions import (
    BroadcastStateBootstrapFunction,
    KeyedProcessFunction,
    KeyedStateBootstrapFunction,
    StateBootstrapFunction,
)
from pyspark_savepoint.statebackends.processing.api.windows import WindowAssigner
from pyspark_savepoint.statebackends.processing.runtime.user_code import expect_arguments, expect_function

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

TIMESTAMP, KEY = "__savepoint_timestamp", "__savepoint_key"
#: A column by its name, as an expression, or as a function of the DataFrame: ``lambda account: account.id``.
Selector = str | Column | Callable[[Any], Column]


class OperatorTransformation:
    """``OperatorTransformation``: where a bootstrapped operator begins."""

    @staticmethod
    def bootstrap_with(df: DataFrame) -> OneInputTransformation:
        """Records; every row is one, and functions are given it as a Row with the DataFrame's columns."""
        if not isinstance(df, DataFrame):
            raise OptionError(
                "records are the rows of a DataFrame",
                found=type(df).__name__,
                remedy="bootstrap_with(spark.createDataFrame(...))",
            )
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
        kind = frame.schema[name].dataType
        if not isinstance(kind, TimestampType | TimestampNTZType | IntegralType):
            raise OptionError(
                f"column {name!r} cannot give timestamps" if name != TIMESTAMP else "these are no timestamps",
                expected="TIMESTAMP, TIMESTAMP_NTZ, or milliseconds as a whole number",
                found=kind.simpleString(),
                remedy="cast it: assign_timestamps(lambda record: record.ts.cast('timestamp'))",
            )
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
        for kind in (StateBootstrapFunction, BroadcastStateBootstrapFunction):
            if isinstance(given, kind):
                expect_arguments(given, kind)
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
        column: Any = selector(self.frame) if callable(selector) else selector
        if not isinstance(column, Column):
            raise OptionError(
                "a column is its name, an expression, or a function of the DataFrame that gives one",
                found=type(column).__name__,
                remedy="for example key_by('id', 'day'), or key_by(lambda account: account.id): Spark runs the "
                "expression, Python is not called for every record",
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
