"""Settings of Python's cyclic garbage collector while millions of records become objects.

The collector walks all long-lived objects (half a million for the modules of a worker alone) after a certain number of
new objects, and rows come in thousands: this took twice as long as everything else together. Objects that exist when a
task begins are therefore frozen, and young objects are collected less often. Cycles made by a function are still found.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

#: Number of new objects between two collections of the young generation: some chunks of records.
YOUNG_OBJECTS = 50_000


@contextmanager
def relaxed_gc() -> Iterator[None]:
    """Relax the garbage collector while records are processed."""
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(max(before[0], YOUNG_OBJECTS), *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
