"""Reader functions over a snapshot as DataFrames: ``Savepoint.read_keyed_state`` and ``Savepoint.read_window``.

Types of state come from the snapshot, the schema of the result from the user. One task reads one execution vertex.
Flink: ``SavepointReader#readKeyedState``, ``WindowSavepointReader``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import StructType

from pyspark_savepoint.formats.errors import OptionError, UnsupportedStateError, type_name
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.functions.function_pickles import copy_of
from pyspark_savepoint.functions.processing_tasks import ReadTask
from pyspark_savepoint.local.table_reads import cpus, default_parallelism
from pyspark_savepoint.options.options import SavepointReadOptions
from pyspark_savepoint.options.schema import arrow_schema
from pyspark_savepoint.statebackends.model.applicability import READ_KEYED_STATE, READ_WINDOW, refuse_useless
from pyspark_savepoint.statebackends.model.request import TableRequest
from pyspark_savepoint.statebackends.processing.api.functions import KeyedStateReaderFunction, WindowReaderFunction
from pyspark_savepoint.statebackends.processing.api.state_descriptors import AggregateFunction
from pyspark_savepoint.statebackends.processing.readers.keyed_reader import KeyedReaderPlan
from pyspark_savepoint.statebackends.processing.readers.window_reader import WindowReaderPlan
from pyspark_savepoint.statebackends.processing.runtime.user_code import expect_function
from pyspark_savepoint.statebackends.python.resolve import is_python_operator
from pyspark_savepoint.statebackends.sources.open_operator import OpenOperator

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def struct_type(schema: str | StructType) -> StructType:
    """Return a schema given as a StructType or as text such as ``key int, timers array<bigint>``."""
    found = StructType.fromDDL(schema) if isinstance(schema, str) else schema
    if not isinstance(found, StructType) or not len(found):
        raise OptionError(
            "a schema for the rows that the function yields is missing",
            found=repr(schema),
            remedy="name the columns with their types: 'key int, value string'",
        )
    return found


def read_keyed_state(
    spark: SparkSession,
    path: str,
    options: Mapping[str, str],
    function: KeyedStateReaderFunction,
    schema: str | StructType,
) -> DataFrame:
    """Return the rows that a function yields for each key."""
    found = struct_type(schema)
    expect_function(function, KeyedStateReaderFunction)
    copy = copy_of(function)
    opened, request, parallelism = _open(path, options, READ_KEYED_STATE)
    plan = KeyedReaderPlan.of(copy, arrow_schema(found), opened, request, parallelism)
    return _frame(spark, replace(plan, function=function), found, opened.operator.label)


def read_window(
    spark: SparkSession,
    path: str,
    options: Mapping[str, str],
    function: WindowReaderFunction,
    schema: str | StructType,
    aggregate: AggregateFunction[Any, Any, Any] | None,
    reduce: Callable[[Any, Any], Any] | None,
) -> DataFrame:
    """Return the rows that a function yields for each key and window."""
    found = struct_type(schema)
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
    opened, request, parallelism = _open(path, options, READ_WINDOW)
    plan = WindowReaderPlan.of(function, arrow_schema(found), opened, request, parallelism, aggregated, reduced)
    return _frame(spark, plan, found, opened.operator.label)


def _open(path: str, options: Mapping[str, str], verb: str) -> tuple[OpenOperator, TableRequest, int]:
    parsed = SavepointReadOptions.parse({**options, "path": path})
    request = parsed.request()
    refuse_useless(verb, sorted(request.given), path=path)
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


def _frame(
    spark: SparkSession, plan: KeyedReaderPlan | WindowReaderPlan, schema: StructType, operator: str
) -> DataFrame:
    count = len(plan.vertices)
    if not count:
        return spark.createDataFrame([], schema)
    return spark.range(0, count, 1, count).mapInArrow(ReadTask(plan, operator), schema)
