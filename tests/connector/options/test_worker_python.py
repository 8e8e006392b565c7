"""Arguments that are not sessions, and tasks' Pythons without the package: each has one plain message."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import py4j
import pyspark
import pytest

import pyspark_savepoint
from pyspark_savepoint import Savepoint, SavepointError
from pyspark_savepoint.options.own_python import SETTLED, VARIABLES, is_settled
from tests.error_examples import OF_SPARK

pytestmark = pytest.mark.slow("Spark with a Python that lacks the package")

SHOP = Path(__file__).parents[2] / "oracle" / "savepoints" / "shop" / "savepoint"
#: Calls with wrong arguments. To type checkers all of these are errors.
ANY: Any = Savepoint
REGISTER: Any = pyspark_savepoint.register
HISTORY: Any = pyspark_savepoint.history
SCRIPT = """
import sys
sys.prefix = sys.prefix if sys.prefix != sys.base_prefix else sys.prefix + "-venv"
from pyspark.sql import SparkSession
from pyspark_savepoint import Savepoint
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
sp = Savepoint.load(spark, sys.argv[1])
from pyspark_savepoint.formats.errors import WorkerPythonError
rows = spark.createDataFrame([(1, 2)], "key int, total int")
for call in (lambda: sp.states(), lambda: Savepoint.create(spark).with_operator("a", rows).write(sys.argv[2])):
    try:
        call()
    except WorkerPythonError as error:
        print(error)
"""
#: Prints the Python that runs tasks, and how many rows they read.
SCRIPT_OF_A_USER = """
import json, os, shutil, sys
import pyspark_savepoint
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
python = spark.sparkContext.parallelize([0], 1).map(lambda _: __import__("sys").executable).first()
rows = spark.read.format("savepoint").option("uid", "accounts").load(sys.argv[1]).count()
print(json.dumps({"python": python, "rows": rows}))
"""


@pytest.mark.parametrize(
    ("call", "found", "remedy"),
    [
        (lambda: ANY.load(SHOP), str(SHOP), "Savepoint.load(spark, path)"),
        (lambda: ANY.load("notspark", SHOP), "'notspark'", "Savepoint.load(spark, path)"),
        (lambda: ANY.load(None, SHOP), "NoneType", "pyspark_savepoint.open(path)"),
        (lambda: ANY.create(), None, ""),
        (lambda: ANY.create("/new"), "'/new'", "Savepoint.create(spark)"),
        (lambda: ANY(None, SHOP), "PosixPath", "Savepoint.load(spark, path)"),
        (lambda: REGISTER(None), "NoneType", "pyspark_savepoint.register(spark)"),
        (lambda: HISTORY(SHOP.parent, "accounts"), str(SHOP.parent), "pyspark_savepoint.history(spark, folder)"),
    ],
)
def test_what_is_no_session_is_told_with_the_right_call(
    call: Callable[[], object], found: str | None, remedy: str
) -> None:
    if found is None:  # Python's own message names the argument
        with pytest.raises(TypeError, match="'spark'"):
            call()
        return
    with pytest.raises(SavepointError) as refused:
        call()
    assert found in str(refused.value.facts["found"])
    assert remedy in str(refused.value.facts["remedy"])


def python_without_the_package(tmp_path: Path) -> Path:
    """Make a Python that has only PySpark."""
    other, packages = tmp_path / "bin" / "python3", tmp_path / "packages"
    packages.mkdir()
    for package in (pyspark, py4j):
        folder = Path(str(package.__file__)).parent
        (packages / folder.name).symlink_to(folder)
    other.parent.mkdir()
    other.write_text(f'#!/bin/sh\nPYTHONPATH={packages} exec {sys.executable} -S "$@"\n')
    other.chmod(0o755)
    return other


@pytest.mark.spark
def test_a_python_without_the_package_is_named_and_explained(tmp_path: Path) -> None:
    other = python_without_the_package(tmp_path)

    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(SHOP), str(tmp_path / "new")],
        env={**os.environ, **dict.fromkeys(VARIABLES, str(other))},
        capture_output=True,
        text=True,
        timeout=300,
    )

    assert done.returncode == 0, done.stderr
    assert f"Spark starts {other} for its tasks" in done.stderr
    assert f"set PYSPARK_PYTHON={sys.executable}" in done.stderr
    assert done.stdout.count("the Python that Spark starts does not") == 2, done.stdout
    told = done.stdout.replace(str(other), "/usr/bin/python3").replace(sys.executable, "/venv/bin/python")
    assert OF_SPARK.replace("Python 3.11", f"Python {sys.version_info.major}.{sys.version_info.minor}") in told, told


@pytest.mark.spark
def test_a_script_of_an_environment_that_is_not_activated_finds_the_format(tmp_path: Path) -> None:
    """The first Python on the path has only PySpark, and no variable names another."""
    other = python_without_the_package(tmp_path)
    env = {name: text for name, text in os.environ.items() if name not in SETTLED}

    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", SCRIPT_OF_A_USER, str(SHOP)],
        env={**env, "PATH": f"{other.parent}{os.pathsep}{env['PATH']}"},
        capture_output=True,
        text=True,
        timeout=300,
    )

    assert done.returncode == 0, done.stderr[-4000:]
    assert json.loads(done.stdout) == {"python": sys.executable, "rows": 200}


def test_this_python_is_named_only_where_none_is(tmp_path: Path) -> None:
    assert not is_settled({"PATH": "/nowhere", "SPARK_HOME": str(tmp_path)})
    for name in SETTLED:  # what is configured, a JVM that runs already, Spark's own processes
        assert is_settled({name: "given"}), name


@pytest.mark.parametrize(
    ("line", "settled"),
    [
        ("spark.pyspark.python /usr/bin/python3.12", True),
        ("  spark.pyspark.driver.python=/usr/bin/python3.12", True),
        ("spark.master spark://host:7077", True),
        ("spark.master=yarn", True),
        ("spark.master local[4]", False),
        ("spark.master=local", False),
        ("# spark.master yarn", False),
        ("spark.sql.shuffle.partitions 8", False),
    ],
)
def test_sparks_defaults_have_precedence(tmp_path: Path, line: str, settled: bool) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "spark-defaults.conf").write_text(f"spark.ui.enabled false\n{line}\n")
    assert is_settled({"SPARK_HOME": str(tmp_path)}) is settled
    assert is_settled({"SPARK_CONF_DIR": str(tmp_path / "conf")}) is settled


@pytest.mark.parametrize(
    ("version", "script", "warned"),
    [
        ("3.5.0", "import pyspark_savepoint", True),
        ("3.5.0", "import pyspark; import pyspark_savepoint", True),
        ("4.0.0", "import pyspark_savepoint", False),
        ("4.0.0", "import pyspark; import pyspark_savepoint", False),
    ],
)
def test_an_old_pyspark_is_said_at_the_import(tmp_path: Path, version: str, script: str, warned: bool) -> None:
    package = tmp_path / "pyspark"
    package.mkdir()
    (package / "__init__.py").write_text("from pyspark.version import __version__\n")
    (package / "version.py").write_text(f'#\n__version__: str = "{version}"\n')
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    run = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert (f"needs PySpark 4.0 or later, and PySpark {version} is installed" in run.stderr) == warned
    assert bool(run.stderr) == warned
    listed = subprocess.run(
        [sys.executable, "-m", "pyspark_savepoint", "--version"], env=environment, capture_output=True, text=True
    )
    assert (listed.returncode, listed.stderr) == (0, "")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"PYSPARK_PYTHON": "./environment/bin/python"}, sys.executable),
        ({"PYSPARK_PYTHON": "./environment/bin/python", "PYSPARK_DRIVER_PYTHON": "/a/python"}, "/a/python"),
        ({"PYSPARK_PYTHON": "./environment/bin/python", "PYSPARK_GATEWAY_PORT": "1"}, None),
        ({"PYSPARK_PYTHON": "/opt/environment/bin/python"}, None),
        ({"PYSPARK_PYTHON": "python3"}, None),
    ],
)
def test_a_python_of_tasks_alone_does_not_plan(tmp_path: Path, given: dict[str, str], expected: str | None) -> None:
    own = {name: text for name, text in os.environ.items() if name not in SETTLED}
    script = "import os, pyspark_savepoint; print(os.environ.get('PYSPARK_DRIVER_PYTHON'))"
    run = subprocess.run(
        [sys.executable, "-c", script], env={**own, **given}, cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == str(expected)
