"""Elements of list and map states: of some entries of a block, the number of elements each, and the elements."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from pyspark_savepoint.formats.columns import Longs
from pyspark_savepoint.formats.keyed.keyed_block import CANONICAL, KeyedBlock
from pyspark_savepoint.statebackends.model.state_column import StateColumn, repeat_index

LIST_INDEX, LIST_VALUE, MAP_KEY, MAP_VALUE = "list_index", "list_value", "map_key", "map_value"


def chosen_entries(block: KeyedBlock) -> Longs:
    """Return the indices of the entries of the block's key groups."""
    chosen = [np.arange(low, high) for _, runs in block.groups for low, high in runs]
    return np.concatenate(chosen) if chosen else np.empty(0, np.int64)


def elements_of(block: KeyedBlock, column: StateColumn, entries: Longs) -> tuple[Longs, dict[str, pa.Array]]:
    """Return the number of elements of each entry, and the elements."""
    if column.many:
        keys, values = column.decode_map_entries(block, entries)
        return np.ones(len(entries), np.int64), {MAP_KEY: keys, MAP_VALUE: values}
    if column.meta.state_type == "LIST" and block.form == CANONICAL:
        counts, values = column.decode_list(block, block.value_start[entries], block.value_end[entries])
        return counts, {LIST_INDEX: repeat_index(counts), LIST_VALUE: values}
    whole = column.decode_values(block, block.value_start[entries], block.value_end[entries])
    offsets = np.asarray(whole.offsets, np.int64)
    counts = offsets[1:] - offsets[:-1]
    low, high = int(offsets[0]), int(offsets[-1])
    if pa.types.is_map(whole.type):
        return counts, {MAP_KEY: whole.keys[low:high], MAP_VALUE: whole.items[low:high]}
    return counts, {LIST_INDEX: repeat_index(counts), LIST_VALUE: whole.values[low:high]}
