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

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# An example that is the first to call a kernel waits for its compilation.
settings.register_profile("project", deadline=None)
settings.load_profile("project")

# Every query starts processes that import the package: without bytecode each of them compiles it again, 0.3 s a time.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# Tests are of compiled kernels, also where a user's small input would be interpreted; those of interpreted ones say so.
os.environ.setdefault("PYSPARK_SAVEPOINT_KERNELS", "compiled")

#: Tests marked ``slow``, by folder, file, or beginning of an id below ``tests``, and what takes long.
SLOW = {
    "benchmarks": "they measure, and write large savepoints",
    "corpus": "thousands of files of real Flink, each in full",
    "faults": "processes are killed while they write",
    **{
        f"fuzz/test_{name}.py": "damaged snapshots by the hundred"
        for name in ("bounds", "formats", "fuzz", "one_byte", "shapes")
    },
    "remote": "an S3 server, with failures and waits",
    "site": "the documentation site is built, and opened in a browser",
    "test_readme.py": "the examples of all READMEs",
    "test_recipes.py": "a copy of the project is changed, and tested",
    "test_notebooks.py": "notebooks, each with a Spark of its own",
    "test_without_jit.py": "interpreted kernels",
    "connector/test_public_names.py": "type checkers read Spark's stubs",
    "connector/erasure/test_person.py::test_spark": "49 places, each by tasks; test_erasing.py has a small job",
    "connector/erasure/test_put_back.py": "a person is put back in one place after the other",
    "connector/report/test_report.py::test_tasks": "two reports, each of dozens of jobs of Spark",
    "connector/source/test_in_a_terminal.py": "Spark starts three times, and compiles",
    "connector/options/test_worker_python.py": "Spark with a Python that lacks the package",
    "connector/functions/test_functions.py": "all examples of FLIP-43, on every backend",
    "connector/savepoint/test_given_serializers.py": "serializers that travel to tasks and back",
    "connector/savepoint/test_insights.py": "whole savepoints compared and surveyed, again and again",
    "connector/savepoint/test_recipes.py": "long chains of changes",
    "connector/savepoint/test_sources.py": "a source rewound in every way, and read again after each",
    **{
        f"connector/savepoint/test_streaming.py::test_{name}": "streaming queries; one of each kind of table is quick"
        for name in (
            "windows_without_a_key",
            "keys_whose_names",
            "deduplication",
            "rows_that_wait",
            "state_of_groups",
            "values_of_a_schema",
            "what_cannot",
        )
    },
    "connector/savepoint/test_streaming_keys.py": "queries with composite keys; test_streaming.py has simple ones",
    "connector/source/test_opened_files.py": "a process for each query",
    "connector/source/test_pyflink.py": "the states of PyFlink, read and written back",
    "connector/source/test_sessions.py": "sessions of their own: Spark Connect, a cluster",
    "connector/source/test_write_inferred.py": "types as jobs infer them, written and read by every way",
    "statebackends/merging/test_shared_files.py::test_changes_of_real_checkpoints[1.20.5": "two more histories of jobs",
    "statebackends/merging/test_shared_files.py::test_numbers_of_real_checkpoints[1.20.5": "two more histories of jobs",
}
#: Tests marked ``thorough``, by beginning of an id below ``tests``, and what README's command has of the same. So are
#: all sets of parameters but the first :data:`SETS` of a test that queries Spark, or that stands in :data:`MANY`.
THOROUGH = {
    **{
        f"connector/savepoint/test_streaming.py::test_{name}": "an aggregation, initial state, offsets of a savepoint"
        for name in (
            "variables_of_transform_with_state",
            "windows_become_those_of_a_window_operator",
            "offsets_become_a_kafka_source",
            "offsets_of_several_kafka_sources",
            "keys_that_flink_has_not",
            "a_query_that_runs",
            "several_operators",
            "files_go_on",
        )
    },
    "connector/erasure/test_erasing.py::test_spark_erases_the_same": "conditions on columns of Spark, by tasks",
    **{
        f"connector/savepoint/test_savepoint_changes.py::test_{name}": "a state is replaced, added, renamed, removed"
        for name in (
            "a_savepoint_from_tables_of_every_kind",
            "hash_codes_that_are_given",
            "rows_that_are_moved_as_they_are",
        )
    },
    **{
        f"connector/savepoint/test_subtasks_that_differ.py::test_{name}": "values of all subclasses, and class files"
        for name in (
            "subclasses_that_no_snapshot_lists",
            "edits_keep_such_texts",
            "edits_beside_such_subclasses",
            "a_migration_back_and_forth",
        )
    },
    **{
        f"test_{name}.py": "what a change of the source must keep"
        for name in ("docstrings", "imports", "names", "release_files", "safety")
    },
    "connector/command_line/test_texts_that_leave.py::test_streams_of_spark": "the texts of commands",
    "connector/erasure/test_erasing.py::test_entries_with_equal_keys": "keys of every backend and format",
    "connector/erasure/test_person.py::test_keys_alone_leave_what_the_report_names": "a person with all places",
    "connector/erasure/test_person.py::test_the_person_is_erased_everywhere_and_nobody_else[1.20.5": "2.3.0",
    "connector/source/test_kryo_classes.py::test_sql_over_them": "their columns, written back",
    "connector/source/test_stream.py::test_what_spark_says_of_a_checkpoint_that_is_gone": "it without Spark",
    "connector/source/test_stream.py::test_the_log_gives_the_same_rows_in_another_process[4.0": "the log of 4.2",
    "connector/report/test_report.py::test_a_task_that_fails_is_a_note": "pages that are made without Spark",
    "connector/savepoint/test_arrow_batches.py::test_tasks_of_a_write_do_not_measure": "the batches themselves",
    "connector/savepoint/test_copy_tasks.py::test_tasks_copy_what_the_driver_would": "copies by the driver",
    "connector/savepoint/test_session_inputs.py::test_contents_go_under": "window state is replaced",
    "connector/savepoint/test_state_backend.py::test_what_a_backend_cannot_restore": "a backend that is refused",
    "connector/command_line/test_commands.py::test_warm_up_compiles": "warm-up reads every kind of table",
    "connector/command_line/test_process.py::test_warm_up_compiles": "warm-up reads every kind of table",
    "connector/command_line/test_compiled_code.py::test_code_that_others_may": "compiles what is not used",
    "connector/command_line/test_compiled_code.py::test_the_command_packs": "compiles, as the function does",
    "connector/command_line/test_output.py::test_wide_cuts_nothing_on_a_terminal": "80, 120 and 200 columns",
    "connector/command_line/test_output.py::test_completion[pyspark-savepoint show": "completion of commands",
    "connector/command_line/test_process.py::test_head_is_silent[s": "head after --help",
    "formats/test_interpretation.py::test_code_of_an_older_source": "compiling, in a process of its own",
    "formats/serializers/kryo/test_described.py::test_a_plug_in_reads_what_a_serializer_of_the_job_wrote[True": "False",
    **{
        f"statebackends/merging/test_shared_files.py::test_{name}": "changes of any history, and of one real one"
        for name in (
            "a_key_that_is_left_out",
            "changes_of_real_checkpoints[2.3.0-forst",
            "changes_of_real_checkpoints[2.3.0-rocksdb-incr-l",
            "changes_of_real_checkpoints[2.3.0-rocksdb-incr-o",
            "changes_of_real_checkpoints[2.3.0-rocksdb-incr-t",
            "changes_of_real_checkpoints[2.3.0-rocksdb-incr-w",
            "no_more_is_read",
            "numbers_of_real_checkpoints[2.3.0-rocksdb",
            "states_of_pyflink",
            "windows_that_merge",
        )
    },
    "statebackends/migration/test_processes.py": "migrations by one process",
    "oracle/test_shop_changelog.py::test_little_memory_gives_the_same[16384": "less memory",
}
#: Tests with sets of parameters that take the processor for long.
MANY = (
    "connector/command_line/test_special_files.py",
    "connector/erasure",
    "connector/source/test_stream.py",
    "connector/savepoint/test_subtasks_that_differ.py",
    "fuzz/test_texts.py",
    "statebackends/processing/test_backends.py",
    "statebackends/tables/test_look_up_in_files.py",
    "statebackends/tables/test_spill.py",
    "statebackends/writing/test_merged_state.py",
)
SETS = 2
#: Files whose tests take long: they come first, else one of two processes would wait for the other at the end.
LONG = (
    "test_notebooks.py",
    "connector/savepoint/test_streaming.py",
    "connector/erasure",
    "connector/report",
    "statebackends/merging/test_shared_files.py",
    "statebackends/migration/test_processes.py",
)
ALL_TESTS = "python -m pytest -n 2 --dist loadfile"
#: How many tests a process left out by their marks.
LEFT_OUT = pytest.StashKey[dict[str, int]]()


def pytest_configure(config: pytest.Config) -> None:
    """Let pytest-xdist take files in their order, and not those with the most tests first."""
    if hasattr(config.option, "loadscopereorder"):
        config.option.loadscopereorder = False


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark slow and thorough tests, before ``-m`` chooses, and leave out those that read what is not there.

    Long files come first.
    """
    here = Path(__file__).parent
    sets: Counter[str] = Counter()
    for item in items:
        path = item.path.relative_to(here)
        name = f"{path.as_posix()}::{item.nodeid.partition('::')[2]}"
        if any(name.startswith(slow) if "::" in slow else path.is_relative_to(slow) for slow in SLOW):
            item.add_marker(pytest.mark.slow)
        else:
            queries = "spark" in getattr(item, "fixturenames", ())
            if queries:
                item.add_marker(pytest.mark.spark)
            if queries or name.startswith(MANY):
                sets[name.partition("[")[0]] += 1
            if name.startswith(tuple(THOROUGH)) or sets[name.partition("[")[0]] > SETS:
                item.add_marker(pytest.mark.thorough)
        if "flink_resources" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.resources)
    if RESOURCES not in os.environ:
        left_out = [item for item in items if item.get_closest_marker("resources")]
        if left_out:
            left_out[0].config.hook.pytest_deselected(items=left_out)
            items[:] = [item for item in items if item.get_closest_marker("resources") is None]
    items.sort(key=lambda item: not any(item.path.is_relative_to(here / long) for long in LONG))


def pytest_deselected(items: Sequence[pytest.Item]) -> None:
    """Count what ``-m`` leaves out, in each process that collects tests."""
    for item in items:
        counts = item.config.stash.setdefault(LEFT_OUT, {"resources": 0, "flink": 0, "slow": 0, "thorough": 0})
        for mark in counts:
            if item.get_closest_marker(mark) is not None:
                counts[mark] += 1
                break


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
    """One session for all tests, in which Spark finds the installed package by itself.

    Its JVM lives for minutes, in which the compiler for hot code takes more of the processor than it saves: tests with
    Spark take 0.6 times as much without it. Benchmarks are measured with it.
    """
    from pyspark.sql import SparkSession

    measured = any(item.path.is_relative_to(Path(__file__).parent / "benchmarks") for item in request.session.items)
    # Spark would take the python3 of PATH, which need not be the one that has this package.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    conf = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": "" if measured else "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
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
