"""Functions for ``mapInArrow`` in Spark's tasks: they contain a plan and the user's function, and nothing open."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark import TaskContext

from pyspark_savepoint.execution.function_pickles import Pickled
from pyspark_savepoint.execution.reader_functions import named_errors
from pyspark_savepoint.statebackends.processing.operators.bootstrap import BootstrapPlan, BootstrapTask
from pyspark_savepoint.statebackends.processing.operators.operator_state import OperatorStatePlan, OperatorStateTask
from pyspark_savepoint.statebackends.processing.operators.process import ProcessPlan, ProcessTask

Batches = Iterable[pa.RecordBatch]
Plan = BootstrapPlan | ProcessPlan | OperatorStatePlan


@dataclass(frozen=True)
class RecordTask(Pickled):
    """Task of a bootstrap or process function; its input rows are the records of one subtask."""

    plan: Plan

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        """Yield entries of state, or the function's rows."""
        context = TaskContext.get()
        index = context.partitionId() if context is not None else 0
        yield from named_errors(None, self._run(index, batches))

    def _run(self, index: int, batches: Batches) -> Iterator[pa.RecordBatch]:
        if isinstance(self.plan, BootstrapPlan):
            yield from BootstrapTask(self.plan, index).run(batches)
        elif isinstance(self.plan, OperatorStatePlan):
            yield from OperatorStateTask(self.plan, index).run(batches)
        else:
            yield from ProcessTask(self.plan, index).run(batches)
