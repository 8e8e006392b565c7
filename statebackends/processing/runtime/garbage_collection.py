"""Python's cyclic garbage collector while millions of records become objects.

It walks all objects that live long (the modules of a worker alone are half a million) once so many new ones have come,
and rows come in thousands: that alone cost twice as much as everything else. So what is there when a task begins is
set aside, and young objects are looked at less often. Cycles that a function makes are still found.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

#: Objects between two looks at the young ones: some chunks of records.
YOUNG_OBJECTS = 50_000


@contextmanager
def relaxed_gc() -> Iterator[None]:
    """While records are processed."""
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(max(before[0], YOUNG_OBJECTS), *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
