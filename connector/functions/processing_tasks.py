"""What Spark's tasks run: functions for ``mapInArrow``, which hold a plan and the user's function, and nothing open."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark import TaskContext

from pyspark_savepoint.formats.errors import SavepointError
from pyspark_savepoint.statebackends.processing.operators.bootstrap import BootstrapPlan, BootstrapTask
from pyspark_savepoint.statebackends.processing.operators.operator_state import OperatorStatePlan, OperatorStateTask
from pyspark_savepoint.statebackends.processing.operators.process import ProcessPlan, ProcessTask
from pyspark_savepoint.statebackends.processing.readers.keyed_reader import KeyedReaderPlan, KeyedReaderTask
from pyspark_savepoint.statebackends.processing.readers.window_reader import WindowReaderPlan, WindowReaderTask

Batches = Iterable[pa.RecordBatch]
Plan = BootstrapPlan | ProcessPlan | OperatorStatePlan


@dataclass(frozen=True)
class ReadTask:
    """Rows are numbers of execution vertices, whose rows the function reads."""

    plan: KeyedReaderPlan | WindowReaderPlan
    operator: str

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        """What the function yields of these vertices."""
        for batch in batches:
            for index in batch.column(0).to_pylist():
                yield from _named(self.operator, self._run(index))

    def _run(self, index: int) -> Iterator[pa.RecordBatch]:
        if isinstance(self.plan, KeyedReaderPlan):
            yield from KeyedReaderTask(self.plan, index).run()
        else:
            yield from WindowReaderTask(self.plan, index).run()


@dataclass(frozen=True)
class RecordTask:
    """Rows are records of the keys of this task."""

    plan: Plan

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        """Entries of state, or rows that the function yields."""
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
    """Errors name the operator, and come without frames that mean nothing to a user."""
    try:
        yield from found
    except SavepointError as error:
        raise error.with_facts(operator=operator).with_traceback(None) from None
