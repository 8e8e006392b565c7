"""What all tests share."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

from tests.data import RESOURCES, unpacked
from tests.short_lived_jvm import SUBMIT_ARGUMENTS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# An example that is the first to call a kernel waits for its compilation.
settings.register_profile("project", deadline=None)
settings.load_profile("project")

# Every query starts processes that import the package: without bytecode each of them compiles it again, 0.3 s a time.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# A session of this process, and those of scripts and commands that tests start.
os.environ.setdefault("PYSPARK_SUBMIT_ARGS", SUBMIT_ARGUMENTS)

# Tests are of compiled kernels, also where a user's small input would be interpreted; those of interpreted ones say so.
os.environ.setdefault("PYSPARK_SAVEPOINT_KERNELS", "compiled")

#: Folders whose tests are all slow, and what takes long. Other tests are marked where they are.
SLOW = {
    "benchmarks": "they measure, and write large savepoints",
    "corpus": "thousands of files of real Flink, each in full",
    "faults": "processes are killed while they write",
    "remote": "an S3 server, with failures and waits",
    "site": "the documentation site is built, and opened in a browser",
}
#: Of a test that queries Spark, or is marked ``many_sets``, as many sets of parameters are quick, the others thorough.
SETS = 2
#: Files whose tests take long: they come first, else one of two processes would wait for the other at the end.
LONG = (
    "test_notebooks.py",
    "connector/api/spark/test_streaming.py",
    "connector/erasure",
    "connector/insight",
    "statebackends/merging/test_shared_files.py",
    "statebackends/migration/test_processes.py",
)
#: What leaves a test out, the first of them if several do.
MARKS = ("resources", "flink", "slow", "thorough")
ALL_TESTS = "python -m pytest -n 2 --dist loadfile"
#: How many tests a process left out by their marks.
LEFT_OUT = pytest.StashKey[dict[str, int]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let the gate try each test once with dependencies that it has tried all of them with in other releases."""
    parser.addoption("--one-set", action="store_true", help="of each test, try one set of parameters")


def pytest_configure(config: pytest.Config) -> None:
    """Let pytest-xdist take files in their order, and not those with the most tests first."""
    if hasattr(config.option, "loadscopereorder"):
        config.option.loadscopereorder = False


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark tests by folder and by sets, before ``-m`` chooses, and leave out those that read what is not there.

    Long files come first.
    """
    here = Path(__file__).parent
    sets: Counter[str] = Counter()
    for item in items:
        path = item.path.relative_to(here)
        test, _, chosen = item.nodeid.partition("[")
        # A mark of some sets of parameters is none of the others.
        item.own_markers[:] = [mark for mark in item.own_markers if chosen.startswith(mark.kwargs.get("sets", ""))]
        if any(path.is_relative_to(slow) for slow in SLOW):
            item.add_marker(pytest.mark.slow)
        if item.get_closest_marker("slow") is None:
            queries = "spark" in getattr(item, "fixturenames", ())
            if queries:
                item.add_marker(pytest.mark.spark)
            if queries or item.get_closest_marker("many_sets") is not None:
                sets[test] += 1
            if sets[test] > SETS:
                item.add_marker(pytest.mark.thorough)
        if "flink_resources" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.resources)
    if RESOURCES not in os.environ:
        leave_out(config, items, [item for item in items if item.get_closest_marker("resources")])
    if config.getoption("one_set"):
        quick = [item for item in items if not any(map(item.get_closest_marker, ("slow", "thorough", "flink")))]
        first = {item.nodeid.partition("[")[0]: item for item in reversed(quick)}
        leave_out(config, items, [item for item in quick if first[item.nodeid.partition("[")[0]] is not item])
    items.sort(key=lambda item: not any(item.path.is_relative_to(here / long) for long in LONG))


def leave_out(config: pytest.Config, items: list[pytest.Item], left_out: Sequence[pytest.Item]) -> None:
    """Take tests from those that were collected."""
    gone = {id(item) for item in left_out}
    items[:] = [item for item in items if id(item) not in gone]
    if gone:
        config.hook.pytest_deselected(items=left_out)


def pytest_deselected(items: Sequence[pytest.Item]) -> None:
    """Count what ``-m`` leaves out, in each process that collects tests."""
    for item in items:
        counts = item.config.stash.setdefault(LEFT_OUT, dict.fromkeys((*MARKS, "sets"), 0))
        counts[next((mark for mark in MARKS if item.get_closest_marker(mark) is not None), "sets")] += 1


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Tell the process that started this one what was left out."""
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["left_out"] = session.config.stash.get(LEFT_OUT, {})


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take from a worker of pytest-xdist what was left out; all workers collect the same tests."""
    node.config.stash[LEFT_OUT] = getattr(node, "workeroutput", {}).get("left_out", {})


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say which tests were left out, and how to run them."""
    counts = config.stash.get(LEFT_OUT, {})
    if any(counts.values()):
        terminalreporter.section("left out")
        terminalreporter.line(f"{counts['flink']} tests with real Flink: python -m pytest -m flink (downloads it)")
        terminalreporter.line(f"{counts['slow']} slow tests: python -m pytest -m slow")
        terminalreporter.line(f"{counts['thorough']} thorough tests: python -m pytest -m thorough")
        terminalreporter.line(f"{counts['resources']} tests on test resources of Flink, with {RESOURCES}=FOLDER")
        if config.getoption("one_set"):
            terminalreporter.line(f"{counts['sets']} sets of parameters, by --one-set")
        terminalreporter.line(f"Run all of them: {ALL_TESTS}")


@pytest.fixture(scope="session")
def corpus() -> Path:
    """The folder with all data sets of `tests/data`: what real Flink wrote."""
    return unpacked()


@pytest.fixture(scope="session")
def flink_resources() -> Path:
    """The folder with test resources of Flink; a test that asks for it is left out where none is named."""
    return Path(os.environ[RESOURCES]).resolve(strict=True)


@pytest.fixture(scope="session")
def spark(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """One session for all tests, in which Spark finds the installed package by itself."""
    from pyspark.sql import SparkSession

    if any(item.path.is_relative_to(Path(__file__).parent / "benchmarks") for item in request.session.items):
        os.environ.pop("PYSPARK_SUBMIT_ARGS", None)
    # Spark would take the python3 of PATH, which need not be the one that has this package.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    conf = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        # Benchmarks of real size aggregate more than the default of 1g holds.
        "spark.driver.memory": "4g" if {"BENCH_KEYS", "BENCH_RECORDS"} & set(os.environ) else "1g",
        "spark.log.level": "ERROR",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    builder = SparkSession.builder.master("local[2]").appName("pyspark-savepoint tests")
    session = builder.config(map=conf).getOrCreate()
    yield session
    session.stop()
