"""Windows of bootstrapped records: their trigger, their evictor, and what is kept of their elements.

Flink: ``WindowedStateTransformation``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

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
        expect_function(trigger, Trigger)
        return replace(self, given_trigger=trigger)

    def evictor(self, evictor: Evictor) -> WindowedTransformation:
        """With an evictor windows keep all their elements, with timestamps."""
        expect_function(evictor, Evictor)
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
        """Two elements to one, of the same type.

        What it returns comes back as its first argument: rows go on having names where it changes the first row and
        returns that (``left.amount += right.amount``), which is its own.
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
        """Elements into an accumulator, whose type in Flink's words is given."""
        expect_function(aggregate, AggregateFunction)
        return self._rows(function, aggregate=aggregate, accumulator_type=accumulator_type)

    def process(self, function: ProcessWindowFunction | None = None) -> KeyedRows:
        """All elements are kept; the function is called where a trigger fires, for the state that it may have."""
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
