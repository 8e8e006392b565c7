"""Rows of a DataFrame for a PyFlink operator, converted to what Flink stores.

The opposite of ``python_tables.py``: columns of values become byte arrays under the registered names, keys get the row
around them, pickled keys are pickled as the keys that are there. What cannot be written exactly is refused before a
task runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from pyspark_savepoint.formats.columns import DecodeOptions, list_array, struct_array, valid_rows
from pyspark_savepoint.formats.errors import OptionError, UnsupportedStateError, ValueRangeError
from pyspark_savepoint.formats.serializers.notation.python_types import BINARY, PickledCoder
from pyspark_savepoint.statebackends.python.python_state import PythonState, encode_keys, job_name_of, python_states
from pyspark_savepoint.statebackends.python.resolve import PythonKey, python_key, resolve
from pyspark_savepoint.statebackends.requests.request import TableRequest
from pyspark_savepoint.statebackends.rows.state_column import LAST_ACCESS
from pyspark_savepoint.statebackends.sources.open_operator import OpenOperator

OPTIONS = DecodeOptions()


@dataclass(frozen=True)
class PythonRows:
    """Conversion of rows: states by column, and the key with its column. It pickles."""

    states: Mapping[str, PythonState]
    key: PythonKey | None
    key_column: str
    #: States of PyFlink that the rows have none of, by the names that the job gave.
    others: frozenset[str] = frozenset()

    @classmethod
    def of(
        cls, opened: OpenOperator, request: TableRequest, schema: pa.Schema, key_column: str, namespaced: bool
    ) -> PythonRows:
        """Return the conversion to the states of an operator that is there; other columns stay as they are."""
        shapes = {job_name_of(name): name for name in python_states(opened)}
        columns = [name for name in schema.names if name in shapes and name != key_column]
        operator = resolve(opened, request, namespaced, [shapes[name] for name in columns])
        states = {}
        for name in columns:
            state = operator.states[shapes[name]]
            states[name] = _of_column(state, schema.field(name).type)
        others = frozenset(shapes) - frozenset(columns)
        rows = cls(states, python_key(opened, request), key_column, others)
        rows._check_key(schema)
        return rows

    def _check_key(self, schema: pa.Schema) -> None:
        if self.key_column not in schema.names or self.key is None or self.key.pickled is None:
            return
        if self.key.protocol is None:
            raise UnsupportedStateError(
                "the pickled keys of this operator cannot be written: pickling them again would give other bytes",
                remedy="change the state with methods of Savepoint that keep its keys, or give key_by of the job "
                "a key_type",
            )

    def names(self, columns: tuple[str, ...]) -> tuple[str, ...]:
        """Return the registered names of states."""
        return tuple(self.states[name].name if name in self.states else name for name in columns)

    def schema(self, schema: pa.Schema) -> pa.Schema:
        """Return the schema of the converted rows."""
        return self.batch(
            pa.RecordBatch.from_arrays([pa.nulls(0, field.type) for field in schema], schema=schema)
        ).schema

    def batch(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Convert a batch."""
        columns: dict[str, pa.Array] = {}
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            stem = name.removesuffix(LAST_ACCESS)
            if name == self.key_column:
                columns[name] = self._key(column)
            elif name in self.states:
                columns[self.states[name].name] = self._state(self.states[name], column)
            elif stem != name and stem in self.states:
                columns[self.states[stem].name + LAST_ACCESS] = _times(self.states[stem], column)
            else:
                columns[name] = column
        return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))

    def _key(self, column: pa.Array) -> pa.Array:
        if self.key is None:
            return column
        if column.null_count:
            raise ValueRangeError("a key of PyFlink cannot be null", remedy="leave these rows out")
        if self.key.pickled is not None and self.key.protocol is not None:
            column = encode_keys(_cast(column, self.key.pickled, self.key_column), self.key.protocol)
        return struct_array(pa.struct([pa.field("f0", column.type)]), [column], len(column))

    @staticmethod
    def _state(state: PythonState, column: pa.Array) -> pa.Array:
        try:
            return state.encode(_cast(column, state.arrow_type(OPTIONS), state.label))
        except ValueRangeError as error:
            raise error.with_facts(state=state.label) from None


def _of_column(state: PythonState, kind: pa.DataType) -> PythonState:
    """Return a state as a column writes it: pickles only as the bytes that they are."""
    value = kind.item_type if pa.types.is_map(kind) else kind.value_type if pa.types.is_list(kind) else kind
    if isinstance(state.coder, PickledCoder) and pa.types.is_binary(value):
        state = replace(state, coder=BINARY)
    if any(isinstance(part, PickledCoder) for coder in (state.coder, state.key) if coder for part in coder.all_parts()):
        words = f"{state.label} {'LIST ' if state.kind == 'LIST' else ''}BYTES"
        raise OptionError(
            f"state {state.label!r} has pickled values, which cannot be written from a VARIANT: it does not "
            "distinguish tuples from lists, or classes",
            state=state.label,
            remedy=f"read and write its pickled bytes: option('pyTypes', '{words}'); or name in option "
            "'state' the states to write, without this one",
        )
    return state


def _cast(column: pa.Array, kind: pa.DataType, name: str) -> pa.Array:
    if column.type == kind:
        return column
    try:
        return column.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        raise ValueRangeError(
            f"column {name!r} cannot be cast to {kind}",
            found=str(error),
            remedy="cast it, or name its type in option 'pyTypes'",
        ) from None


def _times(state: PythonState, column: pa.Array) -> pa.Array:
    """Return times of last access as those of lists and maps of byte arrays."""
    if state.kind == "LIST":
        return column
    if state.kind == "MAP":
        raise OptionError(f"times of last access of map state {state.label!r} cannot be written", state=state.label)
    valid = valid_rows(column)
    return list_array(pa.list_(pa.field("element", column.type)), valid.astype(np.int64), column.drop_null(), valid)
