"""Checks of the session: that it is one, and that the Python which Spark starts has this package."""

from __future__ import annotations

import os
import shutil
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pyspark_savepoint.formats.errors import OptionError, SavepointWarning, WorkerPythonError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


#: Parts of Spark's errors about the Python that it starts, and what each means.
OF_OTHER_PYTHON = {
    "No module named 'pyspark_savepoint'": "the Python that Spark starts does not have pyspark_savepoint",
    "DATA_SOURCE_NOT_FOUND": "the Python that Spark starts does not find the format: it may not have pyspark_savepoint",
    "PYTHON_VERSION_MISMATCH": "the Python that Spark starts is of another version than this one",
}


def expect_session(spark: object, call: str) -> None:
    """Raise OptionError if an argument is no Spark session, with the call as it should be."""
    if not hasattr(spark, "dataSource"):
        raise OptionError(
            "the first argument must be the Spark session",
            found=f"{spark!r:.100}" if isinstance(spark, str | os.PathLike) else type(spark).__name__,
            remedy=f"{call}; without Spark: pyspark_savepoint.open(path)",
        )


@contextmanager
def explaining_worker_python(spark: SparkSession) -> Iterator[None]:
    """Raise WorkerPythonError instead of Spark's error where Spark starts a Python without this package."""
    try:
        yield
    except Exception as error:
        text = str(error)
        problem = next((problem for sign, problem in OF_OTHER_PYTHON.items() if sign in text), None)
        if problem is None:
            raise
        classic = hasattr(spark, "_jsparkSession")
        raise WorkerPythonError(
            problem,
            expected=f"Python {sys.version_info.major}.{sys.version_info.minor} with pyspark_savepoint"
            + ("" if classic else ", on the server too"),
            found=str(spark.sparkContext.pythonExec) if classic else None,
            remedy="install the package where Spark's driver and executors run, and set PYSPARK_PYTHON to that Python "
            f"before the session starts; on one machine: PYSPARK_PYTHON={sys.executable}",
        ) from error


def check_worker_python(spark: SparkSession) -> None:
    """Warn if a local session starts a Python that is not that of this virtual environment.

    Spark starts ``python3`` of PATH unless PYSPARK_PYTHON names another, so it misses an environment that is used but
    not activated, and then reports that a format or a module is not found.
    """
    if sys.prefix == sys.base_prefix or not hasattr(spark, "_jsparkSession"):
        return
    context = spark.sparkContext
    interpreter = shutil.which(str(context.pythonExec))
    if not str(context.master).startswith("local") or _environment(interpreter) == _environment(sys.executable):
        return
    warnings.warn(
        f"Spark starts {interpreter or context.pythonExec} for its tasks, which is not the Python of this virtual "
        f"environment ({sys.prefix}) and may not have pyspark_savepoint: set PYSPARK_PYTHON={sys.executable} before "
        "the session starts, or activate the environment",
        SavepointWarning,
        stacklevel=3,
    )


def _environment(python: str | None) -> str | None:
    """Return the folder of the environment of an interpreter, whose links are not followed."""
    return None if python is None else os.path.dirname(os.path.dirname(os.path.abspath(python)))
