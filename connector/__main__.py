"""Command line ``python -m pyspark_savepoint``: the same as ``pyspark-savepoint``."""

from __future__ import annotations

import sys

from pyspark_savepoint.command_line.main import console

if __name__ == "__main__":
    sys.exit(console())
