"""Elements of values that are erased: entries of maps, elements of lists and of operator state."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyspark_savepoint.formats.connectors.payloads.kind import (
    ASYNC_STATE,
    COMMITTABLES,
    COMMITTER_STATE,
    IN_FLIGHT,
    READER_STATE,
)
from pyspark_savepoint.statebackends.connectors.channel_records import RECORD
from pyspark_savepoint.statebackends.connectors.connector_states import union_states
from pyspark_savepoint.statebackends.rows.state_column import LAST_ACCESS
from pyspark_savepoint.text.conditions import Mask, flattened, mask_of

#: Columns of the rows of a list or map state, beside its key.
MAP_COLUMNS = ("map_key", "map_value")


@dataclass(frozen=True)
class Elements:
    """Rows, elements or entries of a state that a condition removes; ``state`` is None in tables of connectors."""

    state: str | None
    table: str
    kind: str
    condition: object
    argument: str
    ttl: bool = False

    def column(self, schema: pa.Schema) -> str:
        """Return the column of the state in its table."""
        return str(self.state) if self.state in schema.names else f"state_{self.state}"

    @property
    def changes(self) -> tuple[str, ...]:
        """The states that change."""
        if self.table == COMMITTABLES:
            return (COMMITTER_STATE,)
        return (READER_STATE, *union_states()) if self.state is None else (self.state,)

    def mask(self, schema: pa.Schema) -> Mask:
        """Return the condition as a function of batches; in flight only of records, which alone can be removed."""
        mask, _ = mask_of(self.condition, schema, self.argument)
        if self.table != IN_FLIGHT:
            return mask

        def of_records(batch: pa.RecordBatch) -> pa.Array:
            is_record = pc.equal(batch.column("kind"), RECORD)
            return pc.and_(mask(batch), pc.fill_null(is_record, self.state == ASYNC_STATE))

        return of_records


@dataclass(frozen=True)
class WithoutRows:
    """Function of batches that drops the rows of a condition."""

    mask: Mask

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield what is left of each batch."""
        for batch in batches:
            yield batch.filter(pc.invert(self.mask(batch)))


@dataclass(frozen=True)
class WithoutElements:
    """Function of batches of a keyed state that drops elements of its lists or maps, or its values, by a condition.

    A list or map state that becomes empty is NULL: the key has none any more, as in Flink.
    """

    state: str
    kind: str
    mask: Mask
    keys: tuple[str, ...]
    #: The column with the times of last access, which are those of the elements; None without a time to live.
    times: str | None = None

    @classmethod
    def of(cls, one: Elements, schema: pa.Schema) -> WithoutElements:
        """Return the function for the columns of a table."""
        column = one.column(schema)
        keys = tuple(name for name in ("key", "window") if name in schema.names)
        fields = [schema.field(name) for name in keys]
        kind = schema.field(column).type
        if pa.types.is_map(kind):
            fields += [pa.field("map_key", kind.key_type), pa.field("map_value", kind.item_type)]
        elif pa.types.is_list(kind):
            fields += [pa.field("list_index", pa.int64()), pa.field("list_value", kind.value_type)]
        else:
            fields += [schema.field(column)]
        times = column + LAST_ACCESS if column + LAST_ACCESS in schema.names else None
        return cls(column, one.kind, one.mask(pa.schema(fields)), keys, times)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield each batch without the elements."""
        for batch in batches:
            yield self.of_batch(batch)[0]

    def of_batch(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, int, int]:
        """Return a batch without the elements, and how many there were and are dropped."""
        column = batch.column(self.state)
        if pa.types.is_map(column.type) or pa.types.is_list(column.type):
            return self._of_collections(batch, column)
        is_erased = pc.and_(self.mask(batch.select([*self.keys, self.state])), column.is_valid())
        kept = {
            name: pc.if_else(is_erased, pa.nulls(len(batch), batch.column(name).type), batch.column(name))
            for name in (self.state, *([self.times] if self.times is not None else []))
        }
        return _with_columns(batch, kept), len(column) - column.null_count, is_erased.true_count

    def _of_collections(self, batch: pa.RecordBatch, column: pa.Array) -> tuple[pa.RecordBatch, int, int]:
        is_map = pa.types.is_map(column.type)
        valid = column.is_valid().to_numpy(zero_copy_only=False)
        counts, parts = flattened(column)
        parents = np.repeat(np.arange(len(column)), counts)
        within = np.arange(len(parents)) - np.repeat(np.cumsum(counts) - counts, counts)
        rows = {name: batch.column(name).take(pa.array(parents)) for name in self.keys}
        rows |= (
            dict(zip(MAP_COLUMNS, parts, strict=True))
            if is_map
            else {"list_index": pa.array(within), "list_value": parts[0]}
        )
        is_erased = self.mask(pa.record_batch(list(rows.values()), list(rows)))
        stays = pc.invert(is_erased)
        left = np.bincount(parents[stays.to_numpy(zero_copy_only=False)], minlength=len(column))
        ends = pa.array(np.concatenate([[0], np.cumsum(left)]).astype(np.int32))
        empty = (left == 0) & (counts > 0) if self.kind in ("LIST", "MAP") else np.zeros(len(column), bool)
        nulls = pa.array(empty | ~valid)
        changed = [self.state]
        if self.times is not None and self.kind in ("LIST", "MAP"):
            changed.append(self.times)
        kept = {}
        for name in changed:
            kind = batch.column(name).type
            array_class = pa.MapArray if pa.types.is_map(kind) else pa.ListArray
            elements = [part.filter(stays) for part in flattened(batch.column(name))[1]]
            kept[name] = array_class.from_arrays(ends, *elements, type=kind, mask=nulls)
        return _with_columns(batch, kept), len(parents), is_erased.true_count


def _with_columns(batch: pa.RecordBatch, columns: Mapping[str, pa.Array]) -> pa.RecordBatch:
    for name, column in columns.items():
        index = batch.schema.get_field_index(name)
        batch = batch.set_column(index, batch.schema.field(index), column)
    return batch
