"""Functions for ``mapInArrow`` in Spark's tasks: they contain a plan and the user's function, and nothing open."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark import TaskContext

from pyspark_savepoint.formats.errors import SavepointError
from pyspark_savepoint.functions.function_pickles import Pickled
from pyspark_savepoint.statebackends.processing.operators.bootstrap import BootstrapPlan, BootstrapTask
from pyspark_savepoint.statebackends.processing.operators.operator_state import OperatorStatePlan, OperatorStateTask
from pyspark_savepoint.statebackends.processing.operators.process import ProcessPlan, ProcessTask
from pyspark_savepoint.statebackends.processing.readers.keyed_reader import KeyedReaderPlan, KeyedReaderTask
from pyspark_savepoint.statebackends.processing.readers.window_reader import WindowReaderPlan, WindowReaderTask

Batches = Iterable[pa.RecordBatch]
Plan = BootstrapPlan | ProcessPlan | OperatorStatePlan


@dataclass(frozen=True)
class ReadTask(Pickled):
    """Task of a reader function; its input rows are the numbers of execution vertices to read."""

    plan: KeyedReaderPlan | WindowReaderPlan
    operator: str

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        """Yield the function's rows of these vertices."""
        for batch in batches:
            for index in batch.column(0).to_pylist():
                yield from _named(self.operator, self._run(index))

    def _run(self, index: int) -> Iterator[pa.RecordBatch]:
        if isinstance(self.plan, KeyedReaderPlan):
            yield from KeyedReaderTask(self.plan, index).run()
        else:
            yield from WindowReaderTask(self.plan, index).run()


@dataclass(frozen=True)
class RecordTask(Pickled):
    """Task of a bootstrap or process function; its input rows are the records of one subtask."""

    plan: Plan

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        """Yield entries of state, or the function's rows."""
        context = TaskContext.get()
        index = context.partitionId() if context is not None else 0
        yield from _named(None, self._run(index, batches))

    def _run(self, index: int, batches: Batches) -> Iterator[pa.RecordBatch]:
        if isinstance(self.plan, BootstrapPlan):
            yield from BootstrapTask(self.plan, index).run(batches)
        elif isinstance(self.plan, OperatorStatePlan):
            yield from OperatorStateTask(self.plan, index).run(batches)
        else:
            yield from ProcessTask(self.plan, index).run(batches)


def _named(operator: str | None, found: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the batches; add the operator's name to errors, and drop stack frames, which do not help users."""
    try:
        yield from found
    except SavepointError as error:
        raise error.with_facts(operator=operator).with_traceback(None) from None
