"""Rows for an operator of PyFlink, converted to the form that Flink stores before edits use the registered types."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from pyspark_savepoint.formats.columns import DecodeOptions
from pyspark_savepoint.formats.errors import OptionError
from pyspark_savepoint.plan.engine import Rows
from pyspark_savepoint.plan.operator_plan import OperatorPlan
from pyspark_savepoint.statebackends.model.request import TableRequest
from pyspark_savepoint.statebackends.python.python_rows import PythonRows
from pyspark_savepoint.statebackends.python.python_state import PREFIX, shown_name, unwrapped
from pyspark_savepoint.statebackends.python.resolve import is_python_operator, python_key, python_states
from pyspark_savepoint.statebackends.sources.open_operator import OpenOperator

KEY = "key"


@dataclass(frozen=True)
class PythonEncoder:
    """Function of batches that converts rows of PyFlink's."""

    rows: PythonRows

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the converted batches."""
        for batch in batches:
            yield self.rows.batch(batch)


def python_name(plan: OperatorPlan, name: str) -> str | None:
    """Return the name under which PyFlink registers a state of the operator; None for a state of Java's."""
    opened = _opened(plan)
    registered = PREFIX + shown_name(name)
    return registered if opened is not None and registered in python_states(opened) else None


def with_stored_values(
    plan: OperatorPlan, name: str, column: str, rows: Rows, texts: Mapping[str, str], *, namespaced: bool
) -> Rows:
    """Return rows of a state of PyFlink with the column that Flink stores, under its registered name."""
    opened = _opened(plan)
    assert opened is not None
    if "key" in texts:
        raise OptionError(
            "option 'key' is not for operators of PyFlink", operator=plan.label, remedy=f"name the column {KEY!r}"
        )
    shown = shown_name(name)
    named = rows.renamed({column: shown})
    request = TableRequest(opened.savepoint.path, py_types=texts.get("pyTypes"))
    return _converted(named, PythonRows.of(opened, request, named.schema, KEY, namespaced))


def python_key_type(plan: OperatorPlan) -> pa.DataType | None:
    """Return the type of a PyFlink operator's keys as the job has them; None for other operators."""
    opened = _opened(plan)
    if opened is None or not is_python_operator(opened):
        return None
    key = python_key(opened, TableRequest(opened.savepoint.path))
    inner = unwrapped(key.wrapped) if key is not None else None
    if key is None or inner is None:
        return None
    return key.pickled or inner.arrow_type(DecodeOptions())


def with_stored_keys(plan: OperatorPlan, keys: Rows) -> Rows:
    """Return keys as Flink stores them; those of operators of Java as they are."""
    opened = _opened(plan)
    if opened is None or not is_python_operator(opened) or keys.schema.names != [KEY]:
        return keys
    request = TableRequest(opened.savepoint.path)
    return _converted(keys, PythonRows.of(opened, request, keys.schema, KEY, namespaced=False))


def stored_keys(plan: OperatorPlan, batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch of keys as Flink stores them; those of operators of Java as they are."""
    opened = _opened(plan)
    if opened is None or not is_python_operator(opened):
        return batch
    return PythonRows.of(opened, TableRequest(opened.savepoint.path), batch.schema, KEY, namespaced=False).batch(batch)


def _converted(rows: Rows, form: PythonRows) -> Rows:
    return rows.mapped(PythonEncoder(form), form.schema(rows.schema))


def _opened(plan: OperatorPlan) -> OpenOperator | None:
    return plan.base.opened if plan.base is not None else None
