"""Class names in values: identification of the name at every cursor among a few known ones."""

from __future__ import annotations

from typing import Any

from pyspark_savepoint.formats.kernels._jit import kernel
from pyspark_savepoint.formats.kernels.load import be_u16

UNKNOWN_NAME = -1


@kernel
def match_names(buf: Any, pos: Any, end: Any, offsets: Any, names: Any, out: Any) -> int:
    """Match the name (u16 length, bytes) at every cursor; ``out`` is its index in ``names``, or UNKNOWN_NAME.

    Name k is ``names[offsets[k]:offsets[k + 1]]``. Returns the first truncated row, or -1.
    """
    for i in range(pos.shape[0]):
        p = pos[i]
        if p + 2 > end[i]:
            return i
        size = be_u16(buf, p)
        p += 2
        if p + size > end[i]:
            return i
        out[i] = UNKNOWN_NAME
        for k in range(offsets.shape[0] - 1):
            first = offsets[k]
            if offsets[k + 1] - first != size:
                continue
            same = True
            for j in range(size):
                if names[first + j] != buf[p + j]:
                    same = False
                    break
            if same:
                out[i] = k
                break
        pos[i] = p + size
    return -1
