"""Reader functions over a snapshot: ``read_keyed_state`` and ``read_window`` of a savepoint.

Types of state come from the snapshot, the schema of the result from the user. One task reads one execution vertex.
Flink: ``SavepointReader#readKeyedState``, ``WindowSavepointReader``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from pyspark_savepoint.engines.function_pickles import Pickled, copy_of
from pyspark_savepoint.engines.table_reads import default_parallelism
from pyspark_savepoint.formats.errors import OptionError, SavepointError, UnsupportedStateError, type_name
from pyspark_savepoint.formats.io.local_files import cpus
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.options.options import SavepointReadOptions
from pyspark_savepoint.statebackends.processing.api.functions import KeyedStateReaderFunction, WindowReaderFunction
from pyspark_savepoint.statebackends.processing.api.state_descriptors import AggregateFunction
from pyspark_savepoint.statebackends.processing.readers.keyed_reader import KeyedReaderPlan, KeyedReaderTask
from pyspark_savepoint.statebackends.processing.readers.window_reader import WindowReaderPlan, WindowReaderTask
from pyspark_savepoint.statebackends.processing.runtime.user_code import expect_function
from pyspark_savepoint.statebackends.python.python_state import is_python_operator
from pyspark_savepoint.statebackends.requests.applicability import READ_KEYED_STATE, READ_WINDOW, refuse_useless
from pyspark_savepoint.statebackends.requests.request import TableRequest
from pyspark_savepoint.statebackends.sources.open_operator import OpenOperator


@dataclass(frozen=True)
class ReadTask(Pickled):
    """Task of a reader function; its input rows are the numbers of execution vertices to read."""

    plan: KeyedReaderPlan | WindowReaderPlan
    operator: str

    @property
    def count(self) -> int:
        """The number of vertices."""
        return len(self.plan.vertices)

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the function's rows of these vertices."""
        for batch in batches:
            for index in batch.column(0).to_pylist():
                yield from with_operator_in_errors(self.operator, self._run(index))

    def _run(self, index: int) -> Iterator[pa.RecordBatch]:
        if isinstance(self.plan, KeyedReaderPlan):
            yield from KeyedReaderTask(self.plan, index).run()
        else:
            yield from WindowReaderTask(self.plan, index).run()


def keyed_reader(options: Mapping[str, str], function: KeyedStateReaderFunction, schema: pa.Schema) -> ReadTask:
    """Return the task of a function that is called for each key."""
    expect_function(function, KeyedStateReaderFunction)
    copy = copy_of(function)
    opened, request, parallelism = _open(options, READ_KEYED_STATE)
    plan = KeyedReaderPlan.of(copy, schema, opened, request, parallelism)
    return ReadTask(replace(plan, function=function), opened.operator.label)


def window_reader(
    options: Mapping[str, str],
    function: WindowReaderFunction,
    schema: pa.Schema,
    aggregate: AggregateFunction[Any, Any, Any] | None,
    reduce: Callable[[Any, Any], Any] | None,
) -> ReadTask:
    """Return the task of a function that is called for each key and window."""
    expect_function(function, WindowReaderFunction)
    copy_of(function)
    aggregated = None
    if aggregate is not None:
        expect_function(aggregate, AggregateFunction)
        aggregated = copy_of(aggregate)
    reduced = None
    if reduce is not None:
        if not callable(reduce):
            raise OptionError("reduce must be a function of two elements", found=type_name(reduce))
        reduced = copy_of(reduce)
    opened, request, parallelism = _open(options, READ_WINDOW)
    plan = WindowReaderPlan.of(function, schema, opened, request, parallelism, aggregated, reduced)
    return ReadTask(plan, opened.operator.label)


def _open(options: Mapping[str, str], verb: str) -> tuple[OpenOperator, TableRequest, int]:
    parsed = SavepointReadOptions.parse(dict(options))
    request = parsed.request()
    refuse_useless(verb, request.explicit_options, path=parsed.path)
    snapshot = Snapshot.open(
        request.path, allow_outside=request.allow_outside, checksums=request.checksums, classes=request.classes
    )
    request = request.of_version(snapshot.metadata.version)
    operator = snapshot.operator(uid=request.uid, uid_hash=request.uid_hash, name=request.operator_name)
    opened = OpenOperator(snapshot, operator)
    if is_python_operator(opened):
        table = "keyed_state" if verb == READ_KEYED_STATE else "window_state"
        raise UnsupportedStateError(
            "reader functions cannot read state of PyFlink, which Flink stores as bytes",
            operator=operator.label,
            remedy=f"sp.{table}(...) has the states as columns under their own names, typed by option pyTypes; "
            "mapInArrow or applyInPandas then do what the function does",
        )
    parallelism = parsed.parallelism or default_parallelism(operator.state_size, operator.max_parallelism, cpus())
    return opened, request, parallelism


def with_operator_in_errors(operator: str | None, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the batches; add the operator's name to errors, and drop stack frames, which do not help users."""
    try:
        yield from batches
    except SavepointError as error:
        raise error.with_facts(operator=operator).with_traceback(None) from None
