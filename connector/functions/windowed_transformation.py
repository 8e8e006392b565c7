"""Transformation of windowed records: trigger, evictor, lateness, and the function over the elements of a window.

Flink: ``WindowedStateTransformation``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Unpack

from pyspark_savepoint.formats.errors import OptionError
from pyspark_savepoint.functions.bootstrap_plans import KeyedRows
from pyspark_savepoint.statebackends.processing.api.durations import Duration, millis
from pyspark_savepoint.statebackends.processing.api.evictors import Evictor
from pyspark_savepoint.statebackends.processing.api.functions import ProcessWindowFunction
from pyspark_savepoint.statebackends.processing.api.state_descriptors import AggregateFunction
from pyspark_savepoint.statebackends.processing.api.triggers import Trigger
from pyspark_savepoint.statebackends.processing.api.windows import WindowAssigner
from pyspark_savepoint.statebackends.processing.operators.window_operator import WindowSpec
from pyspark_savepoint.statebackends.processing.runtime.user_code import expect_function

if TYPE_CHECKING:
    from pyspark_savepoint.functions.operator_transformation import KeyedTransformation
    from pyspark_savepoint.options.keywords import BootstrapOptions


@dataclass(frozen=True)
class WindowedTransformation:
    """Transformation of keyed records in windows; it ends with :meth:`reduce`, :meth:`aggregate` or :meth:`process`.

    Flink: ``WindowedStateTransformation``.

    Example::

        windows = (OperatorTransformation.bootstrap_with(orders).assign_timestamps("ts").key_by("customer")
                   .window(TumblingEventTimeWindows.of(timedelta(minutes=1))).process())
        savepoint.with_operator("orders-per-minute", windows)
    """

    keyed: KeyedTransformation
    assigner: WindowAssigner
    given_trigger: Trigger | None = None
    given_evictor: Evictor | None = None
    lateness: int = 0
    element_type: str | None = None

    def options(self, **options: Unpack[BootstrapOptions]) -> WindowedTransformation:
        """Set options of the processing, as :meth:`OneInputTransformation.options` does.

        Args:
            **options: Names and values.

        Returns:
            The transformation with these options.

        """
        return replace(self, keyed=self.keyed.options(**options))

    def option(self, name: str, value: Any) -> WindowedTransformation:
        """Set one option of the processing.

        Args:
            name: The name of the option.
            value: Its value.

        Returns:
            The transformation with the option.

        """
        return self.options(**{name: value})

    def trigger(self, trigger: Trigger) -> WindowedTransformation:
        """Set a trigger instead of the assigner's default one.

        Args:
            trigger: The trigger, as in the job.

        Returns:
            The transformation with the trigger.

        """
        expect_function(trigger, Trigger)
        return replace(self, given_trigger=trigger)

    def evictor(self, evictor: Evictor) -> WindowedTransformation:
        """Set an evictor; windows then store all their elements with timestamps.

        Args:
            evictor: The evictor, as in the job.

        Returns:
            The transformation with the evictor.

        """
        expect_function(evictor, Evictor)
        return replace(self, given_evictor=evictor)

    def allowed_lateness(self, lateness: Duration) -> WindowedTransformation:
        """Set how long windows are kept after their end, which determines their clean-up timers.

        Args:
            lateness: Milliseconds, or a timedelta of whole milliseconds.

        Returns:
            The transformation with the lateness.

        """
        return replace(self, lateness=millis(lateness))

    def element(self, element_type: str) -> WindowedTransformation:
        """Set the type of the elements.

        By default it is that of the DataFrame's columns. A type that is not composite requires a DataFrame of one
        column, whose values the functions get instead of rows.

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
                found=type(reduce).__name__,
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
