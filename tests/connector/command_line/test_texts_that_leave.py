"""Names that a hostile snapshot has chosen: none of the texts that leave this package has a character that acts.

Control characters are commands of terminals, others turn the direction of text or are not shown. Every exit is tried:
errors, warnings, representations, HTML, the command line as text, JSON and XML, assertions, progress, notes of tables.
"""

from __future__ import annotations

import sys
import unicodedata
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException

from pyspark_savepoint import open as open_savepoint
from pyspark_savepoint.api.spark.progress import _Line
from pyspark_savepoint.engines.display import html_tree, text_tree
from pyspark_savepoint.engines.spark.output import warn
from pyspark_savepoint.formats.errors import SavepointError, SavepointWarning
from pyspark_savepoint.formats.redaction import UNPRINTABLE, printable
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.plan.savepoint_plan import SavepointPlan
from pyspark_savepoint.testing import assert_restores, assert_schema, assert_state
from tests.connector.command_line.conftest import EVIL, Run

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CATEGORIES = {"Cc", "Cf", "Zl", "Zp", "Cs"}


def acting(text: str) -> set[str]:
    """The characters of a text that do more than to be shown; line breaks and tabs are those of the package."""
    return {char for char in text if unicodedata.category(char) in CATEGORIES and char not in "\n\t"}


def test_the_pattern_has_every_character_of_the_categories() -> None:
    every = "".join(map(chr, range(sys.maxunicode + 1)))
    found = set(UNPRINTABLE.findall(every))
    assert acting(every) <= found
    # What a newer Unicode may assign: still no character that people read.
    assert {unicodedata.category(char) for char in found - acting(every)} <= {"Cn"}
    assert acting(printable(every)) == set()
    assert set("\n\t").isdisjoint(printable(every, line=True))
    assert printable("Größe, حجم, サイズ, 🙂") == "Größe, حجم, サイズ, 🙂"


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize(
    "words",
    [
        ("ls",), ("show", EVIL), ("show", EVIL, "--table", "timers"), ("show", EVIL + "?"), ("sizes",), ("heaviest",),
        ("verify",), ("doctor",), ("metrics",), ("offsets",), ("schema",), ("check-migration", "--flink", "1.20"),
        ("check-migration", "--flink", "1.20", "--drop", EVIL),
    ],
    ids=lambda words: printable(" ".join(words), line=True)[:30],
)  # fmt: skip
def test_commands(run: Run, evil: str, words: tuple[str, ...], form: str) -> None:
    command, *rest = words
    done = run(command, evil, *rest, *(["--json"] if form == "json" else []))
    assert acting(done.out + done.err) == set()
    assert "this is a bug" not in done.err
    if form == "text":
        assert not [line for line in done.out.splitlines() if line.startswith("  to do: run it")]


def test_commands_of_two_snapshots_and_their_files(run: Run, evil: str, tmp_path: Path) -> None:
    other, file = tmp_path / "other", tmp_path / "report.xml"
    for words in (
        ("diff", evil, evil),
        ("diff", evil, evil, EVIL),
        ("check-restore", evil, evil, "--junit", file),
        ("cp", evil, other),
        ("diff", evil, other),
    ):
        done = run(*words)
        assert acting(done.out + done.err) == set()
    assert acting(file.read_text()) == set()


def test_representations(evil: str) -> None:
    plan = SavepointPlan.of(Snapshot.open(evil), evil, {})
    text = text_tree(plan, EVIL)
    assert acting(text) == set()
    assert len(text.splitlines()) == 2
    html = html_tree(plan, evil, {})
    assert acting(html) == set()
    assert "<b>'" not in html
    assert acting(repr(open_savepoint(evil))) == set()
    assert acting(repr(Snapshot.open(evil).operators)) == set()


def test_warnings(evil: str, capsys: pytest.CaptureFixture[str]) -> None:
    opened = open_savepoint(evil)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        table = opened.keyed_state(EVIL)
        warnings.warn(EVIL, SavepointWarning, stacklevel=1)
    assert len(caught) >= 3
    for each in caught:
        assert acting(str(each.message)) == set()
    assert not any("\n  to do: run it" in each for each in table.warnings)
    warn(iter([*table.warnings, EVIL]))
    shown = capsys.readouterr().err
    assert "WARNING savepoint" in shown
    assert acting(shown) == set()


@pytest.mark.filterwarnings("ignore")
def test_errors(evil: str) -> None:
    opened = open_savepoint(evil)
    tries: list[Callable[[], Any]] = [
        lambda: opened.keyed_state(EVIL + "?").to_arrow(),
        lambda: opened.table("keyed_state", uid=EVIL, state="other").to_arrow(),
        lambda: opened.operator_state(EVIL, EVIL).to_arrow(),
        lambda: opened.table("keyed_state", uid=EVIL, undecodable="error").to_arrow(),
        lambda: open_savepoint(evil + EVIL).states(),
        lambda: opened.keyed_state(EVIL).select(EVIL + "?"),
    ]
    for attempt in tries:
        with pytest.raises(SavepointError) as raised:
            attempt()
        assert acting(str(raised.value) + repr(raised.value)) == set()
        assert "\n  to do: run it" not in str(raised.value)


@pytest.mark.filterwarnings("ignore")
def test_assertions(evil: str, shop: Path, tmp_path: Path, run: Run) -> None:
    file = tmp_path / "schema.json"
    assert run("schema", shop, "--file", file).code == 0
    tries: list[Callable[[], None]] = [
        lambda: assert_state(evil, EVIL, EVIL, {1: 8, 3: 9}),
        lambda: assert_schema(evil, file),
        lambda: assert_restores(evil, {"operators": [{"uid": EVIL, "key": "STRING", "states": {EVIL: "STRING"}}]}),
    ]
    for attempt in tries:
        with pytest.raises(AssertionError) as raised:
            attempt()
        assert acting(str(raised.value)) == set()


def test_progress(capsys: pytest.CaptureFixture[str]) -> None:
    line = _Line()
    line.show(EVIL)
    line.end(EVIL)
    shown = capsys.readouterr().err
    assert acting(shown.replace("\r", "")) == set()
    assert "x\\x1b" in shown


@pytest.mark.spark
@pytest.mark.slow  # streams in processes of their own
def test_streams_of_spark(spark: SparkSession, evil: str, tmp_path: Path) -> None:
    """Errors where a stream is planned, and what the progress of its query says."""
    data = (Path(evil) / "_metadata").read_bytes()
    for number in (1, 2):
        folder = tmp_path / "job" / f"chk-{number}"
        folder.mkdir(parents=True)
        (folder / "_metadata").write_bytes(data[:8] + number.to_bytes(8, "big") + data[16:])

    def stream(**options: str) -> DataFrame:
        return spark.readStream.format("savepoint").options(**options).load(str(tmp_path / "job"))

    for options in (
        {"uid": EVIL + "?"},
        {"uid": EVIL, "state": EVIL + "?"},
        {"uid": EVIL, "table": EVIL},
        {"uid": EVIL, "undecodable": "error"},
    ):
        with pytest.raises(PySparkException) as raised:
            stream(**options)
        assert acting(str(raised.value)) == set()
        assert "x\\x1b" in str(raised.value)

    sink = stream(uid=EVIL).writeStream.format("noop").option("checkpointLocation", str(tmp_path / "query"))
    query = sink.trigger(availableNow=True).start()
    query.awaitTermination()
    assert query.recentProgress
    assert acting("".join(progress.json for progress in query.recentProgress)) == set()
