"""Records that Spark has sorted by their key already, within every task: taken as they come, and checked on the way.

``sortWithinPartitions("id")`` orders rows by the key, not by its serialized bytes. For functions either will do, as
long as a key does not come back; whether the order is kept shows in the key column itself.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from pyspark_savepoint.formats.columns import Flags, Longs
from pyspark_savepoint.formats.errors import OptionError, ValueRangeError


class SortedKeys:
    """Checks batch by batch that keys ascend, and of each key the timestamps."""

    def __init__(self) -> None:
        self._last: tuple[pa.Array, int | None] | None = None

    def check(self, keys: pa.Array, times: Longs | None) -> None:
        """The keys of one batch, without nulls; ValueRangeError where one stands before its predecessor."""
        refuse_type(keys.type)
        if self._last is not None:
            last, time = self._last
            keys = pa.concat_arrays([last, keys])
            times = np.concatenate([[time], times]).astype(np.int64) if times is not None else None
        self._last = keys[-1:], int(times[-1]) if times is not None else None
        before, after = keys[:-1], keys[1:]
        back = _flags(pc.less(after, before))
        if times is not None:
            back |= _flags(pc.equal(after, before)) & (np.diff(times) < 0)
        if back.any():
            row = int(back.argmax())
            raise ValueRangeError(
                "the records do not come in the order of their keys, as option 'presorted' promises",
                expected="keys ascending in every partition"
                + (", of each key the timestamps" if times is not None else ""),
                found=f"key {after[row].as_py()!r} behind key {before[row].as_py()!r}",
                remedy="key_by(df, 'id').sortWithinPartitions('id'), or leave presorted out: then tasks sort",
            )


def refuse_type(kind: pa.DataType) -> None:
    """OptionError for keys whose order in Spark says nothing of whether they are the same."""
    plain = (pt.is_integer, pt.is_string, pt.is_binary, pt.is_boolean, pt.is_date, pt.is_timestamp, pt.is_decimal)
    if not any(matches(kind) for matches in plain):
        raise OptionError(
            "records can be presorted by one key column that is a number without fraction, a text, bytes or a time",
            found=str(kind),
            remedy="leave presorted out: then tasks sort by the bytes of keys",
        )


def _flags(column: pa.BooleanArray) -> Flags:
    return np.array(column.to_numpy(zero_copy_only=False), np.bool_)
