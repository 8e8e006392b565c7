"""Lets a Spark session that starts on this machine find the Python that runs, as activating its environment does.

Spark starts ``python3`` of PATH unless PYSPARK_PYTHON, PYSPARK_DRIVER_PYTHON or ``spark.pyspark.python`` name another.
``.venv/bin/python script.py`` leaves PATH as it is, so that Spark runs a Python that lacks this package and reports
DATA_SOURCE_NOT_FOUND. The folder of this interpreter is therefore put first on PATH of this process. Variables are not
set: Spark would send their value, a path of this machine, to all machines of a cluster, and which master a session will
have is not known when a package is imported. What is configured has precedence, as before.

Spark: ``PythonUtils.defaultPythonExec``, ``pyspark.core.context.SparkContext``.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

#: What Spark starts where nothing names another Python.
DEFAULT = "python3"
#: Variables that name Spark's Python; that say that Spark's JVM runs already (``spark-submit``, Databricks), that it
#: runs elsewhere (Connect), or that this process is one that Spark started.
SETTLED = (
    "PYSPARK_PYTHON",
    "PYSPARK_DRIVER_PYTHON",
    "PYSPARK_GATEWAY_PORT",
    "SPARK_REMOTE",
    "DATABRICKS_RUNTIME_VERSION",
    "PYTHON_WORKER_FACTORY_PORT",
    "PYTHON_WORKER_FACTORY_SOCK_DIR",
    "PYTHON_WORKER_FACTORY_SOCK_PATH",
    "PYTHON_WORKER_FACTORY_SECRET",
)


def prefer_this_python() -> None:
    """Put the folder of this interpreter first on PATH, unless that does not matter to Spark or is settled already."""
    path = path_with_this_python(os.environ)
    if path is not None and not _has_gateway():
        os.environ["PATH"] = path


def path_with_this_python(environment: Mapping[str, str]) -> str | None:
    """Return a PATH on which ``python3`` is this interpreter.

    Args:
        environment: The variables of this process.

    Returns:
        The value for PATH; None if it must stay as it is: one of :data:`SETTLED` is set, this interpreter is no
        ``python3`` in its folder, or that of PATH is the same.

    """
    own = os.path.join(os.path.dirname(sys.executable), DEFAULT)
    if any(environment.get(name) for name in SETTLED) or not _same(own, sys.executable):
        return None
    folders = environment.get("PATH", os.defpath)
    found = (os.path.join(folder, DEFAULT) for folder in folders.split(os.pathsep) if folder)
    first = next((python for python in found if os.access(python, os.X_OK)), None)
    # Links are not followed: an environment is the folder in which an interpreter is started.
    if first is not None and os.path.abspath(first) == os.path.abspath(own):
        return None
    return os.pathsep.join((os.path.dirname(own), folders))


def _same(one: str, other: str) -> bool:
    try:
        return os.path.samefile(one, other)
    except OSError:
        return False


def _has_gateway() -> bool:
    """Return whether a JVM of Spark runs in this process's service, which keeps the PATH that it was started with."""
    context = sys.modules.get("pyspark.core.context")
    return context is not None and context.SparkContext._gateway is not None
