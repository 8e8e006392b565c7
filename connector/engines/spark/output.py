"""What the processes of Spark that plan and commit print: it appears in the driver's output."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from pyspark_savepoint.formats.redaction import shown


def warn(warnings: Iterable[str]) -> None:
    """Print warnings: planning runs in a process of its own, whose output appears in the driver's."""
    for warning in warnings:
        print(f"WARNING savepoint: {shown(warning)}", file=sys.stderr, flush=True)
