"""Spark's Python daemon with this package loaded, so that each worker that it forks starts at once.

    SparkSession.builder.config("spark.python.daemon.module", "pyspark_savepoint.daemon")

Spark forks a Python worker for each concurrent task, and a new one after a query that did not read to its end
(``show``). Each worker imports this package and loads compiled kernels, which takes about a second of processor time,
unless the daemon did so before the fork. Daemons of other worker modules, which plan one query each, preload nothing.
Spark: ``pyspark.daemon``.
"""

from __future__ import annotations

import sys
from contextlib import redirect_stdout, suppress
from tempfile import TemporaryDirectory

from pyspark.daemon import manager

#: The module that runs in the workers of tasks, which Spark gives as an argument.
WORKER = "pyspark.worker"


def main() -> None:
    """Load what workers need, and serve as Spark's daemon."""
    if WORKER in sys.argv[1:]:
        load()
    manager()


def load() -> None:
    """Import what tasks import, and read a small savepoint, so that compiled kernels are loaded too."""
    from pyspark_savepoint.api.local_savepoint import open_savepoint
    from pyspark_savepoint.command_line.warming import read_all, write_sample
    from pyspark_savepoint.engines.spark import reader, writer  # noqa: F401
    from pyspark_savepoint.formats.errors import SavepointError
    from pyspark_savepoint.formats.kernels.interpretation import always_compile

    always_compile()
    # Spark reads the daemon's port from stdout. If the savepoint cannot be written, workers load kernels themselves.
    with redirect_stdout(sys.stderr), suppress(OSError, SavepointError), TemporaryDirectory() as folder:
        write_sample(folder)
        read_all(open_savepoint(folder))


if __name__ == "__main__":
    main()
