"""What a loaded snapshot gives to read: its tables as DataFrames, and user functions over its keys and windows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pyspark_savepoint.formats.errors import OptionError
from pyspark_savepoint.options.option_values import to_options
from pyspark_savepoint.plan.savepoint_plan import OperatorRef, SavepointPlan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from pyspark_savepoint.statebackends.processing.api.functions import KeyedStateReaderFunction, WindowReaderFunction
    from pyspark_savepoint.statebackends.processing.api.state_descriptors import AggregateFunction


class SavepointTables:
    """The base class of Savepoint that reads."""

    spark: SparkSession
    plan: SavepointPlan
    path: str | None
    options: Mapping[str, str]

    # -- tables ----------------------------------------------------------------------------------------------

    def table(self, **options: Any) -> DataFrame:
        """Any table of the snapshot, by the options of the data source."""
        if self.path is None:
            raise OptionError(
                "this savepoint is not written yet, so it has no tables",
                remedy="read from what write(path) returns",
            )
        return self.spark.read.format("savepoint").options(**{**self.options, **to_options(options)}).load(self.path)

    def states(self) -> DataFrame:
        """One row per state: where it is, what it is, and the options that read it."""
        return self.table(table="states")

    def operators(self) -> DataFrame:
        """One row per operator: name, uid, hash, parallelism, max parallelism, bytes."""
        return self.table(table="metadata")

    def metadata(self) -> DataFrame:
        """The same as :meth:`operators`, by the name of the table (FLIP-512)."""
        return self.table(table="metadata")

    def keyed_state(self, uid: OperatorRef, **options: Any) -> DataFrame:
        """Every key once, with a column for each state."""
        return self.table(**self._named(uid), table="keyed_state", **options)

    def window_state(self, uid: OperatorRef, **options: Any) -> DataFrame:
        """Every key and window once, with a column for each state."""
        return self.table(**self._named(uid), table="window_state", **options)

    def timers(self, uid: OperatorRef, **options: Any) -> DataFrame:
        """Every timer."""
        return self.table(**self._named(uid), table="timers", **options)

    def list_state(self, uid: OperatorRef, name: str, **options: Any) -> DataFrame:
        """The elements of a list state of the operator (split over its subtasks)."""
        return self.table(**self._named(uid), table="operator_state", state=name, **options)

    def union_state(self, uid: OperatorRef, name: str, **options: Any) -> DataFrame:
        """The elements of a union list state of the operator."""
        return self.table(**self._named(uid), table="operator_state", state=name, **options)

    def broadcast_state(self, uid: OperatorRef, name: str, **options: Any) -> DataFrame:
        """The entries of a broadcast state: key and value."""
        return self.table(**self._named(uid), table="operator_state", state=name, **options)

    def _named(self, uid: OperatorRef) -> dict[str, str]:
        """The options that name an operator; OperatorNotFoundError names the nearest."""
        return {"uidHash": self.plan.operator(uid).identifier.operator_id.hex}

    # -- functions -------------------------------------------------------------------------------------------

    def read_keyed_state(
        self, uid: OperatorRef, function: KeyedStateReaderFunction, schema: str | StructType, **options: Any
    ) -> DataFrame:
        """What a reader function yields of every key, with all of its states and timers.

        ``schema`` is that of the rows, such as ``key int, timers array<bigint>``; ``options`` are those of a read
        (``keys``, ``key_groups``, ``parallelism`` ...). Types of states come from the snapshot.
        """
        from pyspark_savepoint.functions.reader_functions import read_keyed_state

        return read_keyed_state(self.spark, *self._named_options(uid, options), function, schema)

    def read_window(
        self,
        uid: OperatorRef,
        function: WindowReaderFunction,
        schema: str | StructType,
        *,
        aggregate: AggregateFunction[Any, Any, Any] | None = None,
        **options: Any,
    ) -> DataFrame:
        """What a reader function yields of every key and window: its contents, states and timers.

        With the job's ``aggregate`` the contents are its result, without it the accumulator.
        """
        from pyspark_savepoint.functions.reader_functions import read_window

        return read_window(self.spark, *self._named_options(uid, options), function, schema, aggregate)

    def _named_options(self, uid: OperatorRef, options: Mapping[str, Any]) -> tuple[str, dict[str, str]]:
        if self.path is None:
            raise OptionError(
                "this savepoint is not written yet, so it has no state to read",
                remedy="read from what write(path) returns",
            )
        return self.path, {**self.options, **to_options(options), **self._named(uid)}
