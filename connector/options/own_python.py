"""Names this interpreter as the Python of Spark sessions that start later, unless another is configured.

Spark starts ``python3`` of PATH unless PYSPARK_PYTHON, PYSPARK_DRIVER_PYTHON or ``spark.pyspark.python`` name another.
``.venv/bin/python script.py`` leaves PATH as it is, so that Spark runs a Python that lacks this package and reports
DATA_SOURCE_NOT_FOUND. A path of this machine is of no use to a cluster whose machines have Python elsewhere, so nothing
is set where Spark's JVM runs already (``spark-submit``, Databricks), runs elsewhere (Connect), or where Spark's
configuration names a Python or a master of several machines.

A PySpark that has no data sources in Python is warned of, since Spark itself would only say that it does not find the
format.

Spark: ``PythonUtils.defaultPythonExec``, ``pyspark.core.context.SparkContext``.
"""

from __future__ import annotations

import os
import sys

#: As in module typing, which is not imported: little comes before the command line's handler of Ctrl-C.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

#: Which Python Spark starts for tasks, and for the planning of Python data sources.
VARIABLES = ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")
#: Variables that name Spark's Python; that say that Spark's JVM runs already (``spark-submit``, Databricks), that it
#: runs elsewhere (Connect), or that this process is one that Spark started.
SETTLED = (
    *VARIABLES,
    "PYSPARK_GATEWAY_PORT",
    "SPARK_REMOTE",
    "DATABRICKS_RUNTIME_VERSION",
    "PYTHON_WORKER_FACTORY_PORT",
    "PYTHON_WORKER_FACTORY_SOCK_DIR",
    "PYTHON_WORKER_FACTORY_SOCK_PATH",
    "PYTHON_WORKER_FACTORY_SECRET",
)
#: The first release of Spark with data sources in Python.
FIRST_WITH_SOURCES = 4
#: A line of ``spark-defaults.conf`` that says which Python runs, or that other machines do.
CONFIGURED = r"\s*spark\.(pyspark\.(driver\.)?python|master[\s=:]+(?!local(\[|\s|$)))"


def prefer_this_python() -> None:
    """Set the two variables to this interpreter, unless it is settled which Python Spark runs."""
    if _has_gateway():
        return
    if not is_settled(os.environ):
        os.environ.update(dict.fromkeys(VARIABLES, sys.executable))
    elif _comes_with_tasks(os.environ):
        os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable


def _comes_with_tasks(environment: Mapping[str, str]) -> bool:
    """Return whether Spark's Python is in an archive that only tasks have unpacked, and this one plans queries.

    ``--archives env.tar.gz#environment`` with PYSPARK_PYTHON=./environment/bin/python: the driver in client mode has no
    such file, and Spark starts a Python there to plan a source.
    """
    python = environment.get("PYSPARK_PYTHON", "")
    others = any(environment.get(name) for name in SETTLED if name != "PYSPARK_PYTHON")
    relative = os.path.dirname(python) != "" and not os.path.isabs(python)
    return bool(sys.executable) and relative and not others and not os.path.exists(python)


def warn_of_old_spark() -> None:
    """Warn if the installed PySpark, which is not imported, is too old. The command line says so where it needs it."""
    if os.path.basename(sys.argv[0] if sys.argv else "") in ("-m", "pyspark-savepoint"):
        return
    version = _version_of_pyspark()
    major = version.partition(".")[0]
    if major.isdigit() and int(major) < FIRST_WITH_SOURCES:
        import warnings

        warnings.warn(
            f"pyspark_savepoint needs PySpark {FIRST_WITH_SOURCES}.0 or later, and PySpark {version} is installed: "
            "Spark will not find the format 'savepoint'; pyspark_savepoint.open(path) and commands need no Spark",
            stacklevel=3,
        )


def _version_of_pyspark() -> str:
    """Return the version of the PySpark that an import would find. An empty text if there is none."""
    imported = sys.modules.get("pyspark")
    if imported is not None:
        return str(getattr(imported, "__version__", ""))
    from importlib.machinery import PathFinder

    found = PathFinder.find_spec("pyspark")
    if found is None or not found.origin:
        return ""
    try:
        with open(os.path.join(os.path.dirname(found.origin), "version.py"), encoding="utf-8") as file:
            text = file.read()
    except (OSError, UnicodeDecodeError):
        return ""
    return text.partition("__version__")[2].partition("=")[2].strip().partition("\n")[0].strip("\"'")


def is_settled(environment: Mapping[str, str]) -> bool:
    """Return whether variables, or Spark's configuration, say which Python runs, or that it runs on other machines.

    Args:
        environment: The variables of this process.

    """
    if not sys.executable or any(environment.get(name) for name in SETTLED):
        return True
    lines = list(_defaults(environment))
    if not lines:
        return False
    import re

    return any(re.match(CONFIGURED, line) for line in lines)


def _defaults(environment: Mapping[str, str]) -> Iterator[str]:
    """Yield the lines of ``spark-defaults.conf``, where there is one."""
    home = environment.get("SPARK_HOME")
    folder = environment.get("SPARK_CONF_DIR") or (os.path.join(home, "conf") if home else None)
    if folder is not None:
        try:
            with open(os.path.join(folder, "spark-defaults.conf"), encoding="utf-8", errors="replace") as file:
                yield from file
        except OSError:
            return


def _has_gateway() -> bool:
    """Return whether this process has started Spark's JVM, which keeps the variables that it was started with."""
    context = sys.modules.get("pyspark.core.context")
    return context is not None and context.SparkContext._gateway is not None  # no public name says it
