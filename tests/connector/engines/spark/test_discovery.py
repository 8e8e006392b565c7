"""How Spark finds the data source, and what it imports for that: ``test_sessions.py`` reads with what it found."""

from __future__ import annotations

from tests.script import run_script

LOOK_UP = """
import json, sys, time
import pyspark.sql.datasource
from importlib import import_module
from pkgutil import iter_modules
before = set(sys.modules)
start = time.process_time()
names = [info.name for info in iter_modules() if info.name == "pyspark_savepoint"]
source = import_module(names[0]).DefaultSource
seconds = time.process_time() - start
new = sorted(set(sys.modules) - before)
print(json.dumps({"names": names, "source": source.name(), "new": new, "seconds": seconds}))
"""

NO_SPARK = """
import json, sys
import pyspark_savepoint, pyspark_savepoint.formats.snapshot.savepoint, pyspark_savepoint.statebackends.open_table
print(json.dumps([name for name in sys.modules if name.split(".")[0] == "pyspark"]))
"""


def test_the_scan_for_sources_finds_it_and_imports_no_more() -> None:
    found, _ = run_script(LOOK_UP)
    assert found["names"] == ["pyspark_savepoint"]
    assert found["source"] == "savepoint"
    modules = ["", ".engines", ".engines.spark", ".engines.spark.datasource", ".options"]
    modules += [f".options.{name}" for name in ("own_python", "public_names", "release")]
    new = [name for name in found["new"] if not name.endswith("._release")]  # only a build has it
    assert new == ["pyspark_savepoint" + name for name in modules]
    assert found["seconds"] < 1


def test_the_package_and_its_formats_do_not_import_spark() -> None:
    names, _ = run_script(NO_SPARK)
    assert names == []
