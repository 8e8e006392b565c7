"""States of a snapshot for reader functions: columns of Python objects, of which the current key is a row.

They are read-only. Without a type in the descriptor the snapshot's type is used; a given type must be equal to it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NoReturn

import pyarrow as pa

from pyspark_savepoint.formats.data_view import DataInputView, DataOutputView
from pyspark_savepoint.formats.errors import OptionError, StateNotFoundError, UnsupportedStateError, did_you_mean
from pyspark_savepoint.formats.keyed.meta_info import StateMetaInfoSnapshot
from pyspark_savepoint.formats.serializers.base import TypeSerializer, write_versioned
from pyspark_savepoint.formats.serializers.notation.notation import parse_type
from pyspark_savepoint.formats.serializers.registry import snapshot_reader
from pyspark_savepoint.statebackends.processing.api.contexts import HasTaskInfo
from pyspark_savepoint.statebackends.processing.api.state import (
    INTERFACES,
    AggregatingState,
    ListState,
    ReducingState,
    State,
    ValueState,
)
from pyspark_savepoint.statebackends.processing.api.state_descriptors import (
    AggregatingStateDescriptor,
    Descriptor,
    with_default,
)
from pyspark_savepoint.statebackends.processing.backends.backend import MapViews
from pyspark_savepoint.statebackends.processing.runtime.values import to_python
from pyspark_savepoint.statebackends.rows.descriptors import StateKind
from pyspark_savepoint.statebackends.rows.state_column import unit_serializers

#: Types are compared, not written, so types of every release are allowed.
NEWEST = (2, 9)


class ReaderRows:
    """Rows of a table; columns become Python objects when a state is first accessed."""

    __slots__ = ("_batch", "_columns", "row")

    def __init__(self) -> None:
        self.row = 0
        self._batch: pa.RecordBatch | None = None
        self._columns: dict[str, list[Any]] = {}

    def fill(self, batch: pa.RecordBatch) -> None:
        self._batch, self._columns, self.row = batch, {}, 0

    def get(self, column: str) -> Any:
        """Return the value of the current row."""
        values = self._columns.get(column)
        if values is None:
            assert self._batch is not None
            values = self._columns[column] = to_python(self._batch.column(column))
        return values[self.row]


class NoRows(ReaderRows):
    """Rows of a state that the snapshot lacks: empty for all keys."""

    __slots__ = ()

    def get(self, column: str) -> Any:
        return None


NO_ROWS = NoRows()


def read_only(*_: Any) -> NoReturn:
    """Raise the error for writing to a state of a snapshot."""
    raise UnsupportedStateError(
        "a reader function cannot change state",
        remedy="bootstrap new state (OperatorTransformation), or write a DataFrame of changed rows",
    )


#: A method that changes state, whatever it takes.
_REFUSED: Any = read_only


class _ReaderState(State):
    def __init__(self, rows: ReaderRows, column: str) -> None:
        self._rows, self._column = rows, column

    clear = _REFUSED


class ReaderValueState(_ReaderState, ValueState[Any]):
    def value(self) -> Any:
        return self._rows.get(self._column)

    update = _REFUSED


class ReaderListState(_ReaderState, ListState[Any]):
    def get(self) -> list[Any]:
        elements: list[Any] | None = self._rows.get(self._column)
        return [] if elements is None else elements

    add = add_all = update = _REFUSED


class ReaderMapState(_ReaderState, MapViews[Any, Any]):
    def _map(self) -> dict[Any, Any]:
        entries = self._rows.get(self._column)
        if isinstance(entries, list):  # keys may be null: pairs, because MAPs of Arrow have no null keys
            return {pair[0]: pair[1] for pair in entries}
        return {} if entries is None else entries

    def get(self, key: Any) -> Any:
        return self._map().get(key)

    def contains(self, key: Any) -> bool:
        return key in self._map()

    put = put_all = remove = _REFUSED


class ReaderReducingState(_ReaderState, ReducingState[Any]):
    def get(self) -> Any:
        return self._rows.get(self._column)

    add = _REFUSED


class ReaderAggregatingState(_ReaderState, AggregatingState[Any, Any]):
    """Accumulator, with its result if the descriptor has the function."""

    def __init__(self, rows: ReaderRows, column: str, result: Callable[[Any], Any] | None = None) -> None:
        super().__init__(rows, column)
        self._result = result

    def get(self) -> Any:
        """Return the result (without a function the accumulator), or None."""
        accumulator = self._rows.get(self._column)
        return accumulator if accumulator is None or self._result is None else self._result(accumulator)

    add = _REFUSED


KINDS: Mapping[StateKind, Callable[[ReaderRows, str], State]] = {
    StateKind.VALUE: ReaderValueState,
    StateKind.LIST: ReaderListState,
    StateKind.MAP: ReaderMapState,
    StateKind.REDUCING: ReaderReducingState,
    StateKind.AGGREGATING: ReaderAggregatingState,
}


class ReaderStore(HasTaskInfo):
    """Access to the states of a snapshot. Flink: ``KeyedStateStore``.

    ``metas`` are the existing states, ``columns`` their columns by name.
    """

    def __init__(
        self, rows: ReaderRows, metas: Mapping[str, StateMetaInfoSnapshot], columns: Mapping[str, str]
    ) -> None:
        self.rows = rows
        self.metas = metas
        self.columns = columns
        self.asked: list[str] = []
        self.closed = False
        #: States of the operator in other tables, with a hint how to read them.
        self.elsewhere: Mapping[str, str] = {}
        self.index_of_this_subtask = 0
        self.number_of_parallel_subtasks = 1

    def get_state(self, descriptor: Descriptor | str, *, optional: bool = False) -> Any:
        return self.get(descriptor, StateKind.VALUE, optional)

    def get_list_state(self, descriptor: Descriptor | str, *, optional: bool = False) -> Any:
        return self.get(descriptor, StateKind.LIST, optional)

    def get_map_state(self, descriptor: Descriptor | str, *, optional: bool = False) -> Any:
        return self.get(descriptor, StateKind.MAP, optional)

    def get_reducing_state(self, descriptor: Descriptor | str, *, optional: bool = False) -> Any:
        return self.get(descriptor, StateKind.REDUCING, optional)

    def get_aggregating_state(self, descriptor: Descriptor | str, *, optional: bool = False) -> Any:
        return self.get(descriptor, StateKind.AGGREGATING, optional)

    def get(self, descriptor: Descriptor | str, kind: StateKind | None = None, optional: bool = False) -> State:
        """Return a state; raise StateNotFoundError with the nearest name, or OptionError if its type differs.

        An optional state that does not exist is empty for all keys.
        """
        name = descriptor if isinstance(descriptor, str) else descriptor.name
        if name not in self.metas and optional:
            wanted_kind = kind or (StateKind.VALUE if isinstance(descriptor, str) else descriptor.kind)
            return with_default(KINDS[wanted_kind](NO_ROWS, name), descriptor)
        if name not in self.metas:
            raise StateNotFoundError(
                f"the operator has no such state {name!r}",
                state=name,
                remedy=self.elsewhere.get(name) or did_you_mean(name, self.metas),
            )
        if self.closed:
            raise OptionError(
                "a reader function registers its states before the first key, as Flink requires",
                state=name,
                remedy="keep what open registered: self.total = ctx.get_state('total') there, self.total in read_key",
            )
        meta = self.metas[name]
        stored = StateKind(meta.state_type)
        asked = (kind, None if isinstance(descriptor, str) else descriptor.kind)
        wrong = next((requested for requested in asked if requested not in (None, stored)), None)
        if wrong is not None:
            method = {"VALUE": "get_state"}.get(stored, f"get_{stored.lower()}_state")
            raise OptionError(
                "the state is of another kind than requested",
                state=name,
                expected=INTERFACES[stored],
                found=INTERFACES[wrong],
                remedy=f"ask for it with {method}, by its name or by a {INTERFACES[stored]}Descriptor",
            )
        if not isinstance(descriptor, str):
            _check_types(descriptor, meta)
        self.asked.append(name)
        if isinstance(descriptor, AggregatingStateDescriptor) and descriptor.aggregate is not None:
            return ReaderAggregatingState(self.rows, self.columns[name], descriptor.aggregate.get_result)
        return with_default(KINDS[stored](self.rows, self.columns[name]), descriptor)


def as_read(serializer: TypeSerializer) -> TypeSerializer:
    """Return a type as read from a snapshot, which lacks, for example, the names of a ROW's fields."""
    view = DataOutputView()
    write_versioned(serializer, view)
    return snapshot_reader(DataInputView(view.getvalue())).versioned()


def _check_types(descriptor: Descriptor, meta: StateMetaInfoSnapshot) -> None:
    registered = [serializer.flink_type for serializer in unit_serializers(meta)]
    for text, flink_type in zip(descriptor.types, registered, strict=False):
        if text is None:
            continue
        wanted = text.flink_type if isinstance(text, TypeSerializer) else as_read(parse_type(text, NEWEST)).flink_type
        if wanted not in (flink_type, flink_type.removeprefix("TTL<").removesuffix(">")):
            raise OptionError(
                "the state has another type than its descriptor",
                state=meta.name,
                expected=wanted,
                found=flink_type,
                remedy="leave the type out: it is read from the snapshot",
            )
