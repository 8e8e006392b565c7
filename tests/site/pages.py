"""The pages of the documentation site: which sections of the READMEs, and which public names, are on which page.

The READMEs and docstrings stay the only text. A page takes whole sections of them, so that a sentence is corrected in
one place; ``test_site.py`` fails if a section or a public name is on no page, or on two.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pyspark_savepoint.api.erasures import Erasures
from pyspark_savepoint.api.evolutions import Evolutions
from pyspark_savepoint.api.lookups import Lookups
from pyspark_savepoint.api.migrations import Migrations
from pyspark_savepoint.api.operator_edits import OperatorEdits
from pyspark_savepoint.api.salvages import Salvages
from pyspark_savepoint.api.state_edits import StateEdits
from pyspark_savepoint.api.tables import Tables
from pyspark_savepoint.api.writes import Writes

CONNECTOR = "connector/README.md"
COMMANDS = "connector/command_line/README.md"
ENGINES = "connector/api/spark/README.md"
FORMATS = "formats/README.md"
FUNCTIONS = "statebackends/README.md"
MIGRATION = "statebackends/migration/README.md"
ANSWERS = "connector/guide/answers.md"
GLOSSARY = "connector/guide/glossary.md"
SQL_CHANGES = "connector/guide/sql-changes.md"
#: Pages by task, in the order in which a new user needs them.
GUIDE = (
    "open-and-query",
    "fix-a-value",
    "change-operators",
    "another-key-or-class",
    "bootstrap",
    "rewind-a-source",
    "compare-and-follow",
    "erase-a-person",
    "check-and-salvage",
    "check-in-ci",
    "flink-1-to-2",
    "change-a-sql-job",
    "refused-sql-changes",
    "between-engines",
    "object-stores",
    "clusters",
    "errors",
)


@dataclass(frozen=True)
class Section:
    """A section of a README.

    ``heading`` is the text of its heading; None is the whole file. ``own`` leaves out the sections inside it.
    """

    readme: str
    heading: str | None = None
    own: bool = False


@dataclass(frozen=True)
class Names:
    """Public names under a heading.

    ``of`` is the class whose methods they are, or the module that has them. ``members`` documents the methods of each
    class, too: ``all`` with those that it inherits from another public class.
    """

    heading: str
    of: str
    names: tuple[str, ...]
    members: Literal["no", "own", "all"] = "own"
    text: str = ""


@dataclass(frozen=True)
class Page:
    """A page: the name of its file, its title (None: that of its first section), and its parts in order."""

    name: str
    title: str | None
    parts: tuple[Section | Names, ...]


@dataclass(frozen=True)
class Chapter:
    """Pages that stand together in the navigation."""

    title: str
    pages: tuple[Page, ...]


def _names(heading: str, of: str, names: str, members: Literal["no", "own", "all"] = "own", text: str = "") -> Names:
    return Names(heading, of, tuple(names.split()), members, text)


def _verbs(heading: str, of: type, first: str = "") -> Names:
    """The verbs that a class of ``connector/api`` adds to a savepoint, after others."""
    return Names(heading, SAVEPOINT, (*first.split(), *(name for name in vars(of) if not name.startswith("_"))))


PACKAGE = "pyspark_savepoint"
SAVEPOINT = "pyspark_savepoint.Savepoint"

HOW_TO = Chapter(
    "How to",
    (
        Page("answers", None, (Section(ANSWERS),)),
        *(Page(name, None, (Section(f"connector/guide/{name}.md"),)) for name in GUIDE),
        Page("sql-changes", None, (Section(SQL_CHANGES),)),
        Page("glossary", None, (Section(GLOSSARY),)),
    ),
)

DETAIL = Chapter(
    "In detail",
    (
        Page("reading", "Reading", (Section(CONNECTOR, "Read", own=True), Section(CONNECTOR, "Good to know"))),
        Page("following", "Following a running job", (Section(CONNECTOR, "Following a running job"),)),
        Page("writing", "Writing", (Section(CONNECTOR, "Write", own=True),)),
        Page("changing", "Changing state", (Section(CONNECTOR, "Change", own=True),)),
        Page("erasing", "Erasing", (Section(CONNECTOR, "Erase a person"),)),
        Page(
            "positions",
            "Sources and sinks",
            (
                Section(CONNECTOR, "Positions of sources"),
                Section(FUNCTIONS, "Sources"),
                Section(FUNCTIONS, "Sinks"),
            ),
        ),
        Page("migrating", "Migrating from Flink 1 to 2", (Section(MIGRATION),)),
        Page(
            "spark-to-flink",
            "From Spark to Flink",
            (
                Section(ENGINES, "Between Spark Structured Streaming and Flink", own=True),
                Section(ENGINES, "From Spark to Flink"),
                Section(ENGINES, "How it is tested"),
            ),
        ),
        Page("flink-to-spark", None, (Section(ENGINES, "From Flink to Spark"),)),
        Page("comparing", "Looking inside and comparing", (Section(CONNECTOR, "Look inside and compare"),)),
        Page(
            "checking",
            "Restore checks, and tests of jobs",
            (
                Section(FUNCTIONS, "Would this job restore?"),
                Section(COMMANDS, "A job's description for check-restore"),
                Section(COMMANDS, "In tests of a job"),
            ),
        ),
        Page("functions", "User functions", (Section(FUNCTIONS, "User functions"),)),
        Page(
            "stores",
            "Clusters and object stores",
            (
                Section(CONNECTOR, "Clusters"),
                Section(CONNECTOR, "Remote files"),
                Section(CONNECTOR, "Faster queries"),
            ),
        ),
        Page("databricks", "Databricks and notebooks", (Section(CONNECTOR, "Databricks and notebooks"),)),
    ),
)

REFERENCE = Chapter(
    "Reference",
    (
        Page(
            "options",
            "Tables and options",
            (
                Section(CONNECTOR, "Tables"),
                Section(CONNECTOR, "Options"),
                Section(CONNECTOR, "Options of a write"),
                Section(CONNECTOR, "Types of a write"),
            ),
        ),
        Page(
            "command-line",
            "Command line",
            (
                Section(COMMANDS, None, own=True),
                Section(COMMANDS, "Output"),
                Section(COMMANDS, "Commands that write"),
                Section(COMMANDS, "Completion and first use"),
                Section(COMMANDS, "Conditions"),
                Section(COMMANDS, "Files that are written as state"),
                Section(COMMANDS, "Commands"),
            ),
        ),
        Page(
            "types",
            "Types, formats, connectors",
            (
                Section(FORMATS, "Types"),
                Section(FORMATS, "Supported formats"),
                Section(FORMATS, "Sources and sinks"),
            ),
        ),
        Page(
            "api-savepoint",
            "Python: Savepoint",
            (
                _names("The class", PACKAGE, "Savepoint", "no"),
                _verbs("Open, create, write", Writes, "load create"),
                _verbs("Tables", Tables, "create_tables drop_tables"),
                _verbs("Change state", StateEdits),
                _verbs("Change operators", OperatorEdits),
                _verbs("Erase a person", Erasures),
                _names("Sources: sp.sources", f"{PACKAGE}.api.sources", "Sources", "all"),
                _names("Sinks: sp.sinks", f"{PACKAGE}.api.sinks", "Sinks", "all"),
                _names("Look inside: sp.inspect", f"{PACKAGE}.api.inspection", "Inspection", "all"),
                _names("A job: sp.job(job)", f"{PACKAGE}.api.jobs", "JobRestore", "all"),
                _names("The families of verbs", SAVEPOINT, "inspect sources sinks job"),
                _verbs("Find and compare", Lookups, "diff"),
                _verbs("Damaged savepoints", Salvages),
                _verbs("Other releases", Migrations),
                _verbs("Changed queries", Evolutions, "check_evolution"),
            ),
        ),
        Page(
            "api-spark",
            "Python: beside Savepoint",
            (
                _names("Whole folders, two savepoints", PACKAGE, "history diff"),
                _names(
                    "Between Spark and Flink",
                    PACKAGE,
                    "savepoint_from_streaming open_streaming initial_state starting_offsets",
                ),
                _names("A streaming query", PACKAGE, "StreamingCheckpoint", "all"),
                _names(
                    "Spark",
                    PACKAGE,
                    "register create_tables drop_tables key_by show_progress SavepointDataSource",
                    "no",
                ),
                _names("Operators", PACKAGE, "OperatorIdentifier"),
            ),
        ),
        Page(
            "api-without-spark",
            "Python: without Spark",
            (
                _names("Open, create", PACKAGE, "open create open_history open_changes open_retained"),
                _names("What is opened", PACKAGE, "LocalSavepoint LocalTable LocalHistory", "all"),
            ),
        ),
        Page(
            "api-functions",
            "Python: user functions",
            (
                _names("Transformations", PACKAGE, "OperatorTransformation"),
                _names(
                    "Steps of a transformation",
                    "pyspark_savepoint.api.functions.operator_transformation",
                    "OneInputTransformation KeyedTransformation WindowedTransformation",
                    "all",
                ),
                _names("Functions that read", PACKAGE, "KeyedStateReaderFunction WindowReaderFunction"),
                _names(
                    "Functions that build state",
                    PACKAGE,
                    "KeyedStateBootstrapFunction StateBootstrapFunction BroadcastStateBootstrapFunction",
                ),
                _names(
                    "Functions over sorted input",
                    PACKAGE,
                    "KeyedProcessFunction KeyedCoProcessFunction KeyedMultipleInputFunction "
                    "KeyedBroadcastProcessFunction ProcessWindowFunction",
                ),
                _names(
                    "Descriptors of states",
                    PACKAGE,
                    "ValueStateDescriptor ListStateDescriptor MapStateDescriptor ReducingStateDescriptor "
                    "AggregatingStateDescriptor AggregateFunction StateTtlConfig UpdateType StateVisibility",
                ),
                _names("Object reuse", PACKAGE, "ObjectReuseMode"),
            ),
        ),
        Page(
            "api-windows",
            "Python: windows",
            (
                _names(
                    "Assigners",
                    PACKAGE,
                    "WindowAssigner TumblingEventTimeWindows TumblingProcessingTimeWindows SlidingEventTimeWindows "
                    "SlidingProcessingTimeWindows EventTimeSessionWindows ProcessingTimeSessionWindows GlobalWindows "
                    "WindowStagger",
                ),
                _names("Windows", PACKAGE, "TimeWindow GlobalWindow"),
                _names(
                    "Triggers",
                    PACKAGE,
                    "Trigger TriggerResult EventTimeTrigger ProcessingTimeTrigger CountTrigger "
                    "ContinuousEventTimeTrigger ContinuousProcessingTimeTrigger ProcessingTimeoutTrigger DeltaTrigger "
                    "PurgingTrigger",
                ),
                _names("Evictors", PACKAGE, "Evictor EvictorContext CountEvictor TimeEvictor DeltaEvictor"),
            ),
        ),
        Page(
            "api-jobs",
            "Python: jobs and operator ids",
            (_names("Ids", PACKAGE, "operator_ids from_execution_plan StreamGraph ChainingStrategy"),),
        ),
        Page(
            "api-testing",
            "Python: assertions for tests",
            (
                _names(
                    "Assertions",
                    "pyspark_savepoint.testing",
                    "assert_state assert_schema assert_restores assert_verdict",
                ),
            ),
        ),
        Page(
            "api-plug-ins",
            "Python: serializers of your own",
            (_names("The base class", "pyspark_savepoint.formats.serializers.base", "TypeSerializer"),),
        ),
        Page(
            "api-errors",
            "Python: errors",
            (
                _names("The base class", PACKAGE, "SavepointError"),
                _names("Of user functions", PACKAGE, "UserFunctionError", "no"),
                _names(
                    "Kinds",
                    "pyspark_savepoint.errors",
                    "AccessDeniedError ConcurrentWriteError CorruptStateError DuplicateKeyError FileReplacedError "
                    "OperatorNotFoundError OptionError OutputError SnapshotGoneError SnapshotNotFoundError SpillError "
                    "StateExistsError StateFileNotFoundError StateNotFoundError StorageError StoreBusyError "
                    "TypeNotationError UncertainOutcomeError UndecodableStateError UnsafePathError "
                    "UnsupportedStateError UnsupportedVersionError ValueRangeError WorkerPythonError",
                    "no",
                ),
            ),
        ),
    ),
)

BACKGROUND = Chapter(
    "Background",
    (
        Page("architecture", None, (Section("connector/guide/architecture.md"),)),
        Page("safety", "Safety and damage", (Section(CONNECTOR, "Safety and damage"),)),
        Page(
            "how-it-works",
            "How it works",
            (
                Section(CONNECTOR, "How a read, a write and a function run"),
                Section(FUNCTIONS, "How rows are made"),
                Section(FORMATS, "What this package adds to `_metadata`"),
                Section(CONNECTOR, "Beside Flink's own tools"),
            ),
        ),
        Page("changelog", None, (Section("CHANGELOG.md"),)),
        Page("contributing", None, (Section("CONTRIBUTING.md"),)),
        Page("tests", "How it is tested", (Section("tests/README.md"),)),
        Page("records", None, (Section("tests/RECORDS.md"),)),
        Page("benchmarks", None, (Section("tests/benchmarks/README.md"),)),
        Page("oracle", None, (Section("tests/oracle/README.md"),)),
        Page("test-data", None, (Section("tests/data/README.md"),)),
        Page("fuzzing", None, (Section("tests/fuzz/README.md"),)),
    ),
)

CHAPTERS = (HOW_TO, DETAIL, REFERENCE, BACKGROUND)
#: The first page is README.md; the notebooks are pages of the same names.
FIRST = Page("index", None, (Section("README.md"),))
#: Of each README that is split, the sentence under its title stands on no page: there the page has a title of its own.
INTRODUCTIONS = (CONNECTOR, FORMATS, FUNCTIONS)


def pages() -> tuple[Page, ...]:
    """All pages but those of notebooks."""
    return (FIRST, *(page for chapter in CHAPTERS for page in chapter.pages))


def worth() -> dict[str, int]:
    """What a page is worth in a search, beside the words that it has: tasks come first, and the background last."""
    return {page.name: -6 for page in BACKGROUND.pages} | dict.fromkeys(GUIDE, 6) | {"answers": 5}
