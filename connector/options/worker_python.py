"""Check of the Python that Spark starts: one outside of this environment has no packages of it."""

from __future__ import annotations

import os
import shutil
import sys
import warnings
from typing import TYPE_CHECKING

from pyspark_savepoint.formats.errors import SavepointWarning

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def check_worker_python(spark: SparkSession) -> None:
    """Warn if a local session starts a Python that is not that of this virtual environment.

    Spark takes ``python3`` of PATH unless PYSPARK_PYTHON names another: as where an environment is used but not
    activated. Its error then is that a format or a module is not found.
    """
    if sys.prefix == sys.base_prefix or not hasattr(spark, "_jsparkSession"):
        return
    context = spark.sparkContext
    found = shutil.which(str(context.pythonExec))
    if not str(context.master).startswith("local") or _environment(found) == _environment(sys.executable):
        return
    warnings.warn(
        f"Spark starts {found or context.pythonExec} for its tasks, which is not the Python of this virtual "
        f"environment ({sys.prefix}) and may not have pyspark_savepoint: set PYSPARK_PYTHON={sys.executable} before "
        "the session starts, or activate the environment",
        SavepointWarning,
        stacklevel=3,
    )


def _environment(python: str | None) -> str | None:
    """Return the folder of the environment of an interpreter, whose links are not followed."""
    return None if python is None else os.path.dirname(os.path.dirname(os.path.abspath(python)))
