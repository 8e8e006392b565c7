"""The report: what it says, that it keeps keys and hostile names to itself, and that a browser shows it offline."""

from __future__ import annotations

import html
import os
import re
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import pyspark_savepoint
from pyspark_savepoint import Savepoint
from pyspark_savepoint.formats.errors import OptionError
from pyspark_savepoint.formats.serializers.registry import OpaqueSerializer
from pyspark_savepoint.insight.restore import check_snapshot
from pyspark_savepoint.insight.section_parts import MOST_COMPARED, MOST_OF_STATE
from tests.connector.command_line.test_texts_that_leave import acting
from tests.connector.insight.browser import BROWSER, Page, opened
from tests.connector.insight.read_page import Read
from tests.fuzz.shapes import keyed_subtask, made, operator, snapshot, state

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SHOP = Path(__file__).parents[2] / "oracle" / "savepoints" / "shop" / "savepoint"
ALWAYS = ["what", "findings", "sizes", "skew", "heaviest", "ttl", "timers", "sources", "types"]
HOSTILE = "</script><img src=x onerror=alert(1)>\x1b[2J\u202e'\"&{{ 7*7 }}\n<b>" + "💥" * 40
LARGEST = 3_000_000


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("reports")


@pytest.fixture(scope="module")
def of_shop(room: Path) -> Path:
    shop = pyspark_savepoint.open(SHOP)
    return Path(shop.inspect.report(room / "shop.html", since=SHOP, job=shop, flink_version="1.20"))


@pytest.fixture(scope="module")
def of_history(room: Path, corpus: Path) -> Path:
    folder = next((corpus / "history" / "2.3.0-rocksdb-incr" / "checkpoints").glob("*"))
    newest = pyspark_savepoint.open(folder, version_as_of="latest", allow_outside=True)
    return Path(newest.inspect.report(room / "history.html", folder=folder, last=5))


@pytest.fixture(scope="module")
def of_hostile(room: Path) -> Path:
    own = OpaqueSerializer(f"com.shop.{HOSTILE}", 1, b"payload")
    states = [state(HOSTILE, "VALUE", "LONG"), state("b" + HOSTILE, "VALUE", own)]
    with made(snapshot(operator(keyed_subtask(states, (1, 2)), HOSTILE, name=HOSTILE + "!"))) as (path, _):
        return Path(pyspark_savepoint.open(path).inspect.report(room / "hostile.html", show_keys=True))


def test_sections_and_numbers(of_shop: Path) -> None:
    page = Read(of_shop)
    assert page.sections == [*ALWAYS, "since", "restore", "migration"]
    sizes = {(row[0], row[1]): row for row in page.rows["sizes-1"] if row}
    rows = [row for row in pyspark_savepoint.open(SHOP).inspect.sizes("accounts").rows() if row["state"] == "total"]
    assert sizes["accounts", "total"][4] == f"{sum(row['entries'] for row in rows):,}"
    skew = next(row for row in page.rows["skew-1"] if row and row[0] == "accounts")
    groups: dict[int, int] = {}
    for row in pyspark_savepoint.open(SHOP).inspect.sizes("accounts", by="key-group").rows():
        groups[row["key_group"]] = groups.get(row["key_group"], 0) + row["bytes"]
    assert skew[2] == f"{max(groups.values()) * len(groups) / sum(groups.values()):.2f}"
    assert len(page.rows["types-1"]) == 1 + pyspark_savepoint.open(SHOP).states().to_arrow().num_rows
    shop = pyspark_savepoint.open(SHOP)
    verdicts = (
        check_snapshot(shop._snapshot(), shop._snapshot(), flink_version="1.20")
        .to_arrow()
        .column("verdict")
        .to_pylist()
    )
    assert sorted(row[0] for row in page.rows["restore-1"] if row) == sorted(verdicts)
    timers = next(row for row in page.rows["timers-1"] if row and row[:2] == ["accounts", "event"])
    assert timers[2] == "200"


def test_of_a_folder(of_history: Path) -> None:
    page = Read(of_history)
    assert page.sections == [*ALWAYS, "growth", "changes"]
    checkpoints = [row for row in page.rows["growth-1"] if row]
    assert [row[0] for row in checkpoints] == ["9", "10", "11", "12", "13"]
    assert {row[0] for row in page.rows["changes-1"] if row} == {"10", "11", "12", "13"}
    assert any(row[4] != "0" for row in page.rows["changes-1"] if row)


def test_of_snapshots_of_one_id_and_older_ones_that_are_not_compared(tmp_path: Path) -> None:
    for number in range(MOST_COMPARED + 3):
        rows = pa.table({"id": range(number + 1), "v": [number] * (number + 1)})
        last = (
            pyspark_savepoint.create().with_operator("a", rows, key="id").write(tmp_path / "folder" / f"sp-{number:02}")
        )
    page = Read(Path(last.inspect.report(tmp_path / "a.html", folder=tmp_path / "folder")))
    assert len(page.rows["growth-1"]) == 1 + MOST_COMPARED + 3
    changes = [row for row in page.rows["changes-1"] if row]
    assert [row[0] for row in changes] == [f"0.{MOST_COMPARED + 3 - place}" for place in range(MOST_COMPARED)]
    assert [row[4] for row in changes] == ["1"] * MOST_COMPARED
    assert [row[5] for row in changes] == [str(MOST_COMPARED + 2 - place) for place in range(MOST_COMPARED)]


def test_keys_are_shown_only_if_asked(of_shop: Path, tmp_path: Path) -> None:
    hidden = [row[2] for row in Read(of_shop).rows["heaviest-1"] if row]
    assert {word for text in hidden for word in text.split()} == {"(hidden)"}
    shown = Path(pyspark_savepoint.open(SHOP).inspect.report(tmp_path / "shown.html", show_keys=True))
    keys = {row["key"] for row in pyspark_savepoint.open(SHOP).table("heaviest_keys", top=5).rows()}
    shown_keys = [row[:3] for row in Read(shown).rows["heaviest-1"] if row]
    assert {key for operator, _, key in shown_keys if operator == "accounts"} <= keys
    assert max(Counter((operator, state) for operator, state, _ in shown_keys).values()) == MOST_OF_STATE


def test_hostile_names_are_text(of_hostile: Path, of_shop: Path) -> None:
    text = of_hostile.read_text("utf-8")
    page, plain = Read(of_hostile), Read(of_shop)
    assert acting(text) == set()
    assert page.tags <= plain.tags
    assert page.attributes <= plain.attributes
    assert "onerror=alert(1)&gt;" in text
    assert "7*7" in text
    names = {row[0] for row in page.rows["sizes-1"] if row}
    assert all(name.startswith("</script><img src=x onerror=alert(1)>") for name in names)


def test_no_address_and_one_policy(of_shop: Path, of_hostile: Path) -> None:
    for path in (of_shop, of_hostile):
        text = path.read_text("utf-8")
        assert not re.findall(r"https?://|url\(|@import|<link|<iframe|<object", text.replace("http://www.w3.org/", ""))
        policy = html.unescape(re.search(r'Security-Policy" content="([^"]*)"', text)[1])  # type: ignore[index]
        assert policy.startswith("default-src 'none'; ")
        assert "unsafe" not in policy
        assert len(text) < LARGEST


def test_arguments_that_cannot_be(tmp_path: Path, corpus: Path) -> None:
    sp = pyspark_savepoint.open(SHOP)
    with pytest.raises(OptionError, match="last"):
        sp.inspect.report(tmp_path / "a.html", folder=SHOP, last=1)
    with pytest.raises(OptionError, match="does not have the snapshot"):
        sp.inspect.report(tmp_path / "a.html", folder=corpus / "real" / "ops-120")
    assert not list(tmp_path.iterdir())


# -- in a browser -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    if BROWSER is None:
        pytest.skip("no Chromium on this machine")
    with opened(tmp_path_factory.mktemp("profile")) as page:
        yield page


#: Pictures to look at are written to this folder, if it is given.
PICTURES = os.environ.get("REPORT_PICTURES")
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1200, 400])
@pytest.mark.parametrize("name", ["of_shop", "of_history", "of_hostile"])
def test_it_opens(page: Page, request: pytest.FixtureRequest, name: str, width: int, theme: str) -> None:
    path: Path = request.getfixturevalue(name)
    page.complaints.clear()
    page.requests.clear()
    page.open(path, width, theme)
    assert page.run("document.title").endswith("report of a Flink snapshot")
    assert page.run(OVERFLOW) <= 0, "it scrolls sideways"
    assert (
        page.run(
            "[...document.querySelectorAll('figure svg')].filter((s) => s.getBoundingClientRect().width > 200).length"
        )
        > 0
    )
    assert page.run(
        "[...document.querySelectorAll('figure svg')].every((s) => getComputedStyle(s).display !== 'inline')"
    )
    ink, paper = page.run("[getComputedStyle(document.body).color, getComputedStyle(document.body).backgroundColor]")
    assert (brightness(ink) > brightness(paper)) is (theme == "dark")
    assert page.complaints == []
    assert set(page.requests) == {path.as_uri()}
    if PICTURES:
        page.picture(Path(PICTURES) / f"{name}-{width}-{theme}.png")


def brightness(colour: str) -> int:
    return sum(map(int, re.findall(r"\d+", colour)[:3]))


def visible(page: Page, table: str) -> int:
    count: int = page.run(
        f"[...document.getElementById('{table}').tBodies[0].rows].filter((row) => !row.hidden).length"
    )
    return count


def test_filters_and_order(page: Page, of_shop: Path) -> None:
    page.open(of_shop)
    whole = visible(page, "types-1")
    page.run(
        "{const input = document.querySelector('input[data-table=types-1]'); input.value = 'accounts long';"
        "input.dispatchEvent(new Event('input'))}"
    )
    assert 0 < visible(page, "types-1") < whole
    assert (
        page.run("document.querySelector('output[for=types-1]').textContent")
        == f"{visible(page, 'types-1')} of {whole} rows"
    )
    verdicts = page.run(
        "[...document.querySelectorAll('select[data-table=migration-1] option')].map((one) => one.value)"
    )
    page.run(
        f"{{const select = document.querySelector('select[data-table=migration-1]'); select.value = {verdicts[1]!r};"
        "select.dispatchEvent(new Event('input'))}"
    )
    shown = page.run(
        "[...document.getElementById('migration-1').tBodies[0].rows].filter((row) => !row.hidden)"
        ".map((row) => row.cells[0].textContent)"
    )
    assert set(shown) == {verdicts[1]}
    numbers = "[...document.getElementById('sizes-1').tBodies[0].rows].map((row) => +row.cells[2].dataset.v)"
    page.run("document.querySelectorAll('#sizes-1 th button')[2].click()")
    assert page.run(numbers) == sorted(page.run(numbers))
    assert page.run("document.querySelector('#sizes-1 th[aria-sort]').textContent") == "bytes"
    page.run("document.querySelectorAll('#sizes-1 th button')[2].click()")
    assert page.run(numbers) == sorted(page.run(numbers), reverse=True)


def test_keyboard_and_screen_readers(page: Page, of_history: Path) -> None:
    page.open(of_history)
    page.press("Tab")
    assert page.run("document.activeElement.textContent") == "Skip to the report"
    page.press("Enter")
    page.press("Tab")
    assert page.run("document.activeElement.closest('main') !== null")
    named: Any = page.run(
        "[...document.querySelectorAll('section, [role=region], [role=img], input, select, table')].filter((one) => "
        "!(one.getAttribute('aria-label') || one.labels?.length || one.caption || document.getElementById("
        "one.getAttribute('aria-labelledby')))).map((one) => one.outerHTML.slice(0, 80))"
    )
    assert named == []
    # The landmarks of a page have names of their own.
    landmarks: list[str] = page.run(
        "[...document.querySelectorAll('section, nav, [role=region]')].map((one) => one.getAttribute('aria-label') || "
        "document.getElementById(one.getAttribute('aria-labelledby')).textContent)"
    )
    assert len(set(landmarks)) == len(landmarks)
    assert page.run("['header', 'nav', 'main', 'footer'].every((name) => document.querySelectorAll(name).length === 1)")
    assert page.run("document.querySelectorAll('h1').length") == 1


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"last": 3}, "'last' is for the snapshots of a folder"),
        ({"flink_version": "9.9"}, "the Flink release is not known"),
    ],
)
def test_arguments_without_effect_are_refused(tmp_path: Path, given: dict[str, Any], problem: str) -> None:
    with pytest.raises(OptionError, match=problem):
        pyspark_savepoint.open(SHOP).inspect.report(tmp_path / "report.html", **given)
    assert not list(tmp_path.iterdir())


# -- with Spark -------------------------------------------------------------------------------------------------------


@pytest.mark.slow("two reports, each of dozens of jobs of Spark")
def test_tasks_of_spark_count_the_same(spark: SparkSession, room: Path, of_shop: Path, of_history: Path) -> None:
    shop = Savepoint.load(spark, SHOP)
    pages = [(shop.inspect.report(room / "spark.html", since=SHOP, job=shop, flink_version="1.20"), of_shop)]
    folder = re.search(r"<dt>path</dt><dd>(.*)/chk-13</dd>", of_history.read_text("utf-8"))
    assert folder is not None
    newest = Savepoint.load(spark, f"{folder[1]}/chk-13", allow_outside=True)
    tracker = spark.sparkContext.statusTracker()
    with_jobs = len(tracker.getJobIdsForGroup())
    pages.append((newest.inspect.report(room / "spark-history.html", folder=folder[1], last=5), of_history))
    # Of each snapshot the sizes, of each but the first the changes, and tables of the newest.
    assert len(tracker.getJobIdsForGroup()) - with_jobs >= 5 + 4 + 3
    for mine, of_process in pages:
        for one, other in zip(Read(Path(mine)).rows.items(), Read(of_process).rows.items(), strict=True):
            assert one == other
    assert shop.inspect.plot.timers("accounts").axes[0].get_title() == "Timers by time"
    assert shop.inspect.doctor().count() == pyspark_savepoint.open(SHOP).inspect.doctor().to_arrow().num_rows


@pytest.mark.thorough("pages that are made without Spark")
def test_a_task_that_fails_is_a_note(spark: SparkSession, tmp_path: Path) -> None:
    copy = tmp_path / "damaged"
    shutil.copytree(SHOP, copy)
    largest = max((path for path in copy.iterdir() if path.name != "_metadata"), key=lambda path: path.stat().st_size)
    largest.write_bytes(largest.read_bytes()[:-40])
    text = Path(Savepoint.load(spark, copy).inspect.report(tmp_path / "a.html")).read_text("utf-8")
    plain = Path(pyspark_savepoint.open(copy).inspect.report(tmp_path / "b.html")).read_text("utf-8")
    for page in (text, plain):
        assert "1 of 7 operators cannot be read, with " in page
        assert "What cannot be read" in page
        assert "Traceback" not in page
        assert "JVM" not in page


def test_a_missing_file_is_said_and_hints_are_no_warnings(tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(SHOP, broken)
    gone = next(path for path in sorted(broken.iterdir()) if path.name != "_metadata")
    gone.unlink()
    pyspark_savepoint.open(broken).inspect.report(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text("utf-8")
    assert f'<p class="note">1 file is not in its folder: {gone.name}. ' in page
    assert "all in its folder" not in page
    assert re.search(r"<td[^>]*>missing</td>", page)
    assert re.search(r'<p class="hint">[^\n]*--job JOB', page)


def test_emoji_are_shown_as_they_are(tmp_path: Path) -> None:
    name = "\U0001f469\u200d\U0001f680 \u2764\ufe0f \U0001f600"
    with made(snapshot(operator(keyed_subtask([state(name, "VALUE", "LONG")], (1, 2)), name))) as (path, _):
        pyspark_savepoint.open(path).inspect.report(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text("utf-8")
    assert page.count(name) > 3
    assert not re.search(r"\\u200d|\\ud83d|\\U0001f", page)
