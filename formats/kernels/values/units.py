"""Single UTF-16 code units (Java's char), to and from utf8 columns with strings of one character."""

from __future__ import annotations

from typing import Any

import numpy as np

from pyspark_savepoint.formats.kernels._jit import kernel
from pyspark_savepoint.formats.kernels.values.strings import code_point, put_utf8


@kernel
def units_to_utf8(units: Any, offsets: Any, out: Any) -> int:
    """Write one character per row to ``out``, of 3 bytes per row; return the first row with a surrogate, or -1."""
    o = np.int64(0)
    offsets[0] = 0
    for i in range(units.shape[0]):
        c = np.int64(units[i])
        if 0xD800 <= c < 0xE000:
            return i
        o = put_utf8(out, o, c)
        offsets[i + 1] = o
    return -1


@kernel
def utf8_to_units(offsets: Any, data: Any, units: Any) -> int:
    """Read the code unit of every row; return the first row that is not exactly one unit, or -1."""
    for i in range(units.shape[0]):
        if offsets[i] >= offsets[i + 1]:
            return i
        c, p = code_point(data, offsets[i], offsets[i + 1])
        if p != offsets[i + 1] or c > 0xFFFF:
            return i
        units[i] = c
    return -1
