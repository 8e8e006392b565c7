"""Processor time of a piece of work, to be compared with that of a smaller piece."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable


def processor_seconds(work: Callable[[], object], runs: int = 3) -> float:
    """Return the least time of some runs: of this thread alone, and without collecting garbage of other tests."""
    best = float("inf")
    enabled = gc.isenabled()
    gc.disable()
    try:
        for _ in range(runs):
            start = time.thread_time()
            work()
            best = min(best, time.thread_time() - start)
    finally:
        if enabled:
            gc.enable()
    return best
