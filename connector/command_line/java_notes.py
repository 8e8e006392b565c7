"""What Java and Spark print on standard error whenever they start, and that no user needs, is left out."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread

STANDARD_ERROR = 2
#: Lines of each start of Spark on any machine: they look like problems, and there is nothing to do.
NOTES = re.compile(
    rb"WARNING: Using incubator modules: "
    rb"|Using Spark's default log4j profile: "
    rb"|.* WARN Utils: (Your hostname, |Set SPARK_LOCAL_IP )"
    rb"|.* WARN NativeCodeLoader: "
    rb"|Setting (default|Spark) log level to "
    rb"|To adjust logging level use "
)


@contextmanager
def without_java_notes() -> Iterator[None]:
    """Let a process that is started meanwhile write its errors without :data:`NOTES`, for as long as it lives.

    Example::

        with without_java_notes():
            spark = SparkSession.builder.getOrCreate()
    """
    try:
        own = os.dup(STANDARD_ERROR)
    except OSError:  # it is closed
        yield
        return
    from_java, to_us = os.pipe()
    os.dup2(to_us, STANDARD_ERROR)
    os.close(to_us)
    forwarding = Thread(target=_forward, args=(from_java, os.dup(own)), daemon=True)
    forwarding.start()
    is_running = False
    try:
        yield
        is_running = True
    finally:
        os.dup2(own, STANDARD_ERROR)
        os.close(own)
        if not is_running:  # Java has ended: its own words come before ours
            forwarding.join(timeout=5)


def _forward(source: int, target: int) -> None:
    """Copy lines from one file descriptor to another until all writers have ended."""
    with os.fdopen(source, "rb") as lines, os.fdopen(target, "wb", buffering=0) as errors:
        for line in lines:
            if not NOTES.match(line):
                errors.write(line)
