"""How many keys a state has before rows of a file are written to it, and after: whether any of them would go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyspark_savepoint.api.local_savepoint import LocalSavepoint
from pyspark_savepoint.command_line.row_files import RowsOfFile
from pyspark_savepoint.formats.errors import OptionError
from pyspark_savepoint.options.keywords import Table
from pyspark_savepoint.plan.operator_plan import OPERATOR, OperatorPlan, PlannedState
from pyspark_savepoint.statebackends.python.python_state import job_name_of
from pyspark_savepoint.text.texts import numbered

WINDOW = "window"


@dataclass(frozen=True)
class RowCounts:
    """The keys of a state, or its elements where it has no keys.

    ``given`` rows of the file have a value; ``updated`` of the keys that are there have a row with or without one.
    """

    state: str
    unit: str
    before: int
    given: int
    updated: int
    kept: int

    @property
    def after_update(self) -> int:
        """The number after the rows are laid over the state."""
        return self.before - self.updated + self.given

    @property
    def removed(self) -> int:
        """How many keys have a row without a value, which takes the state from them."""
        return self.updated - self.kept

    @property
    def dropped(self) -> int:
        """How many keys would go if the state had the rows alone."""
        return self.before - self.kept

    @property
    def loss(self) -> str:
        """The words for what would go."""
        return f"{self.dropped} of {numbered(self.before, self.unit)}"

    @classmethod
    def of(
        cls,
        base: LocalSavepoint,
        operator: OperatorPlan,
        state: PlannedState,
        rows: RowsOfFile,
        columns: tuple[Sequence[str], str],
    ) -> RowCounts:
        """Count the keys of window state or operator state, and how many of them the rows have.

        Only keys are decoded, and held of the rows.

        Args:
            base: The savepoint.
            operator: The operator.
            state: The state.
            rows: The rows.
            columns: The columns of the rows that have the key, and the one that has the state.

        """
        key, column = columns
        if state.kind == OPERATOR and state.meta.state_type != "BROADCAST":
            read = base.table("operator_state", operator.identifier, state=job_name_of(state.origin))
            before = sum(len(batch) for batch in read.batches())
            return cls(state.name, "element", before, rows.count, 0, min(before, rows.count))
        windows = [WINDOW] if state.kind != OPERATOR else []
        name: Table = "operator_state" if state.kind == OPERATOR else "window_state"
        named = job_name_of(state.origin)
        one: Any = named if state.kind == OPERATOR else [named]
        read = base.table(name, operator.identifier, state=one).select("key", *windows)
        kinds = [field.type for field in read.schema]
        key_rows, with_value = _keys_with_value(rows, [*key, *windows], (column, state), kinds)
        before = updated = kept = 0
        for batch in read.batches():
            places = _places(batch.columns)
            before += len(batch)
            updated += pc.sum(pc.is_in(places, value_set=key_rows)).as_py() or 0
            kept += pc.sum(pc.is_in(places, value_set=with_value)).as_py() or 0
        return cls(state.name, "window" if windows else "key", before, len(with_value), updated, kept)

    @classmethod
    def of_keyed(
        cls,
        base: LocalSavepoint,
        operator: OperatorPlan,
        columns: Mapping[str, tuple[PlannedState, str]],
        rows: RowsOfFile,
        key: Sequence[str],
    ) -> dict[str, RowCounts]:
        """Count the keys of keyed states, and how many of them the rows have, by one look at both.

        Args:
            base: The savepoint.
            operator: The operator.
            columns: By name, states and the columns of the rows that have them.
            rows: The rows.
            key: The columns of the rows that have the key.

        Returns:
            The counts by state. Keys are decoded, and values are not.

        """
        if not columns:
            return {}
        state_names = [job_name_of(state.origin) for state, _ in columns.values()]
        read = base.table("keyed_state", operator.identifier, raw=state_names).select("key", *state_names)
        of_columns = [(column, state) for state, column in columns.values()]
        places, values = _keys_with_values(rows, key, of_columns, read.schema.field(0).type)
        before, updated, kept = np.zeros((3, len(state_names)), np.int64)
        for batch in read.batches():
            row = pc.index_in(_places(batch.columns[:1]), value_set=places)
            is_present = np.asarray(row.is_valid())
            number = np.asarray(pc.fill_null(row, 0))
            present = np.column_stack([np.asarray(column.is_valid()) for column in batch.columns[1:]])
            before += present.sum(axis=0)
            updated += (present & is_present[:, None]).sum(axis=0)
            if is_present.any():
                has = np.unpackbits(values[number[is_present]], axis=1, count=len(state_names)).view(np.bool_)
                kept += (present[is_present] & has).sum(axis=0)
        present_counts = np.unpackbits(values, axis=1, count=len(state_names)).sum(axis=0, dtype=np.int64)
        counts = zip(columns, before, present_counts, updated, kept, strict=True)
        return {name: cls(name, "key", *map(int, numbers)) for name, *numbers in counts}


def _keys_with_values(
    rows: RowsOfFile, names: Sequence[str], columns: Sequence[tuple[str, PlannedState]], kind: pa.DataType
) -> tuple[pa.Array, np.ndarray[Any, np.dtype[np.uint8]]]:
    """Return the keys of all rows, and bits that say of which columns a row has a value."""
    places: list[pa.Array] = []
    values = [np.empty((0, (len(columns) + 7) // 8), np.uint8)]
    for batch in rows.select(*dict.fromkeys((*names, *(name for name, _ in columns)))).batches():
        places.append(_keys_of(batch, names, [kind]))
        valid = np.column_stack([_has_value(batch.column(name), state) for name, state in columns])
        values.append(np.packbits(valid, axis=1))
    return pa.concat_arrays(places) if places else pa.array([], pa.string()), np.concatenate(values)


def _has_value(column: pa.Array, state: PlannedState) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Return which rows have a value: an empty list or map of a state of that kind has no entries, as in Flink."""
    valid = np.asarray(column.is_valid())
    if state.meta.state_type not in ("LIST", "MAP") or not hasattr(column, "offsets"):
        return valid
    return valid & (np.diff(np.asarray(column.offsets)) > 0)


def _keys_of(batch: pa.RecordBatch, names: Sequence[str], kinds: Sequence[pa.DataType]) -> pa.Array:
    """Return the keys of some rows, in the form of the keys that are read."""
    keys = len(names) - len(kinds) + 1
    columns = [batch.column(name) for name in names]
    if keys > 1:
        fields = [kinds[0].field(number).name for number in range(keys)]
        columns = [pa.StructArray.from_arrays(columns[:keys], fields), *columns[keys:]]
    try:
        return _places([one.cast(kind) for one, kind in zip(columns, kinds, strict=True)])
    except pa.ArrowException as error:
        raise OptionError(
            "keys of the file do not fit the keys of the operator",
            expected=", ".join(map(str, kinds)),
            found=str(error).splitlines()[0],
            remedy="write them as the operator's keys are read: show",
        ) from None


def _keys_with_value(
    rows: RowsOfFile, names: Sequence[str], value: tuple[str, PlannedState], kinds: Sequence[pa.DataType]
) -> tuple[pa.Array, pa.Array]:
    """Return the keys of all rows, and of those that have a value, in the form of the keys that are read."""
    (column, state), every, with_value = value, [], []
    for batch in rows.select(*dict.fromkeys((*names, column))).batches():
        places = _keys_of(batch, names, kinds)
        every.append(places)
        with_value.append(places.filter(pa.array(_has_value(batch.column(column), state))))
    none = pa.array([], every[0].type if every else pa.string())
    return pa.concat_arrays(every or [none]).unique(), pa.concat_arrays(with_value or [none]).unique()


def _places(columns: Sequence[pa.Array]) -> pa.Array:
    """Return one array that is equal where all columns are: the key, or the text of what Arrow does not compare."""
    if len(columns) == 1 and not pa.types.is_nested(columns[0].type):
        return columns[0]
    return pa.array([repr(values) for values in zip(*(one.to_pylist() for one in columns), strict=True)], pa.string())
