"""Keys lie in the key groups that their hashes lead to: where they do not, Flink would never find them.

Checked of the types that jobs mostly have and whose hash costs next to nothing, of large batches some keys only: what
happens is that whole key groups are misplaced, or hashed otherwise by the tool that wrote them.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from pyspark_savepoint.formats.columns import Ints, Longs
from pyspark_savepoint.formats.errors import CorruptStateError
from pyspark_savepoint.formats.key_groups import key_group_for_hash
from pyspark_savepoint.formats.keyed_block import KeyedBlock, SortedRows
from pyspark_savepoint.formats.serializers.base import TypeSerializer

CHECKED = frozenset({"LONG", "INT", "STRING"})
#: All keys of batches of so many; of larger ones as many, evenly spread.
SAMPLE = 1024


def check_key_groups(
    block: KeyedBlock | SortedRows,
    serializer: TypeSerializer,
    keys: pa.Array,
    start: Longs,
    key_group: Ints,
    max_parallelism: int,
) -> None:
    """Refuse the first of some keys that is not of its key group; ``start`` is where each begins in the block."""
    if serializer.flink_type not in CHECKED:
        return
    from pyspark_savepoint.formats.kernels import keys as kernels

    if len(keys) > SAMPLE:
        chosen = np.linspace(0, len(keys) - 1, SAMPLE).astype(np.int64)
        keys, start, key_group = keys.take(pa.array(chosen)), start[chosen], key_group[chosen]
    hashes = serializer.java_hash(keys)
    found = np.empty(len(keys), np.int32)
    kernels.key_groups(hashes, max_parallelism, found)
    wrong = np.flatnonzero(found != key_group)
    if len(wrong):
        row = int(wrong[0])
        raise CorruptStateError(
            f"a key in key group {int(key_group[row])} is not of this key group",
            expected=f"keys whose hash leads to key group {int(key_group[row])} of {max_parallelism}",
            found=f"{keys[row].as_py()!r}, of key group {key_group_for_hash(int(hashes[row]), max_parallelism)}",
            remedy="the file is damaged, or was written by a tool that hashes keys otherwise: take it from its origin "
            "again; option('raw', 'key') reads keys as bytes, unchecked",
            **block.origin.facts(int(start[row])),
        )
