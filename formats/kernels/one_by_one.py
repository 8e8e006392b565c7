"""Rows that Python takes one by one, where kernels that take them together would have to be compiled first.

Kernels of Kryo and of pickles are the largest ones, which take seconds of the processor to compile. Python reads and
writes the same values one by one, since the kernels leave some to it, in 4 to 60 microseconds a row: some ten thousand
rows take less.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from typing import Any

from pyspark_savepoint.formats.kernels.all_kernels import signatures_of
from pyspark_savepoint.formats.kernels.interpretation import (
    BYTE_SECONDS,
    CACHED_SECONDS,
    code_size,
    seconds_of_numba,
    spending,
)

#: What compiling a byte of these kernels takes, of that of smaller ones.
SHARE = 0.6
#: Rows after which it is asked again whether the others are for kernels, and the first ones, which load what all need.
STEP, FIRST = 64, 256


def rows_one_by_one(rows: int, kernel: Any, *others: Any) -> Iterator[slice]:
    """Yield the first rows, some at a time, while Python takes all in less time than compiling kernels would take.

    The caller takes the rows of a slice before it asks for the next one. Rows that are not in a slice are for kernels.

    Args:
        rows: The number of rows.
        kernel: The kernel that takes all of them together.
        others: Kernels that would be compiled as well.

    Example::

        for some in rows_one_by_one(len(column), kryo_objects.write_rows):
            values += [write(value) for value in column[some]]

    """
    choice = getattr(kernel, "choice", None)  # none if kernels are Python functions
    if choice is None or spending.form or is_ready(kernel, choice.seconds):
        return
    compiling = SHARE * BYTE_SECONDS * sum(code_size(each.py_func) for each in (kernel, *others))
    seconds, at, is_cached = 0.0, 0, None
    while at < rows:
        left = compiling + seconds_of_numba() - choice.seconds
        rest = seconds / (at - FIRST) * (rows - at) if at > FIRST else 0.0
        if left <= rest:
            choice.seconds = math.inf  # from now on the kernel takes them, without being interpreted
            return
        if is_cached is None and choice.seconds + rest > CACHED_SECONDS:
            is_cached = is_ready(kernel, math.inf)
        if is_cached:
            return
        start = time.thread_time()
        yield slice(at, min(at + STEP, rows))
        spent = time.thread_time() - start
        seconds += spent if at >= FIRST else 0.0
        choice.seconds += spent
        spending.in_arrays += spent
        at += STEP


def is_ready(kernel: Any, seconds: float) -> bool:
    """Return whether there is machine code of a kernel, in a file only where Python has spent more than loading it."""
    if kernel.signatures:
        return True
    return seconds > CACHED_SECONDS and any(map(kernel.has_code, signatures_of(kernel.py_func)))
