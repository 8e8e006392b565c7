"""Ten questions of a person who runs Flink, each answered from what a browser shows below one heading of the report.

A question has an answer that is computed in another way (by a table of the snapshot). It must be in the line of "In
short" that links to the section, or in the first rows of its table, as it is seen at 1,200 and at 400 pixels.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import pyspark_savepoint
from pyspark_savepoint.api.local_savepoint import LocalSavepoint
from pyspark_savepoint.command_line.warming import unpack
from pyspark_savepoint.insight.restore import check_snapshot
from pyspark_savepoint.text.texts import readable_size
from tests.connector.insight.browser import BROWSER, Page, opened

pytestmark = pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine")

SHOP = Path(__file__).parents[2] / "oracle" / "savepoints" / "shop" / "savepoint"
IN_FLIGHT = SHOP.parents[1] / "in-flight" / "2.2.1.tar.xz"
#: What is seen of a section by its heading: its line in the summary, its text, and the rows of its tables.
SEEN = """(heading => {
  document.querySelectorAll('details').forEach(one => { one.open = true; });
  const shown = one => one.checkVisibility() && one.getBoundingClientRect().width > 0;
  const head = [...document.querySelectorAll('h2')].find(one => one.innerText === heading && shown(one));
  const section = head.closest('section');
  const lines = [...document.querySelectorAll('.short li')].filter(shown);
  const line = lines.find(one => one.innerText.startsWith(heading + ': '));
  const tables = [...section.querySelectorAll('table')].filter(shown);
  const texts = cells => [...cells].map(one => one.textContent);
  return {
    line: line ? line.innerText.slice(heading.length + 2) : '',
    text: section.innerText,
    tables: Object.fromEntries(tables.map(one => [
      one.caption.innerText, [...one.tBodies[0].rows].filter(shown).map(row => texts(row.cells)),
    ])),
    titles: Object.fromEntries(tables.map(one => [one.caption.innerText, texts(one.tHead.rows[0].cells)])),
  };
})"""


@dataclass(frozen=True)
class Seen:
    """What a browser shows of a section."""

    line: str
    text: str
    tables: dict[str, list[list[str]]]
    titles: dict[str, list[str]]

    def rows(self, caption: str) -> list[dict[str, str]]:
        """Return the rows of a table, by the titles of its columns."""
        return [dict(zip(self.titles[caption], row, strict=True)) for row in self.tables[caption]]


class Pages:
    """The reports of some snapshots, each made once."""

    def __init__(self, room: Path, corpus: Path, browser: Page, width: int) -> None:
        self.room, self.corpus, self.browser, self.width = room, corpus, browser, width

    def seen(self, name: str, heading: str, snapshot: LocalSavepoint, **asked: Any) -> Seen:
        """Open the report of a snapshot, made at the first use of its name, and return what is below a heading."""
        path = self.room / f"{name}.html"
        if not path.exists():
            snapshot.inspect.report(path, **asked)
        self.browser.open(path, self.width)
        return Seen(**self.browser.run(f"{SEEN}({heading!r})"))

    @property
    def history(self) -> Path:
        """Checkpoints of one job."""
        return next((self.corpus / "history" / "2.3.0-rocksdb-incr" / "checkpoints").glob("*"))

    def checkpoint(self, number: int) -> LocalSavepoint:
        return pyspark_savepoint.open(self.history / f"chk-{number}", allow_outside=True)

    @property
    def kryo(self) -> LocalSavepoint:
        """A savepoint with many types of Kryo."""
        return pyspark_savepoint.open(next((self.corpus / "real" / "kryo-120" / "sp").glob("savepoint-*")))

    def of_history(self, heading: str) -> Seen:
        asked = {"folder": self.history, "last": 5, "since": self.history / "chk-9"}
        return self.seen("history", heading, self.checkpoint(13), **asked)

    def of_shop(self, heading: str) -> Seen:
        return self.seen("shop", heading, pyspark_savepoint.open(SHOP))

    def of_kryo(self, heading: str) -> Seen:
        return self.seen("kryo", heading, self.kryo, flink_version="2.3")


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("questions")


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with opened(tmp_path_factory.mktemp("profile")) as page:
        yield page


@pytest.fixture(params=[1200, 400])
def pages(request: pytest.FixtureRequest, room: Path, corpus: Path, browser: Page) -> Pages:
    return Pages(room, corpus, browser, request.param)


def bytes_of_states(snapshot: LocalSavepoint) -> Counter[tuple[str, str]]:
    sizes: Counter[tuple[str, str]] = Counter()
    for row in snapshot.inspect.sizes().rows():
        sizes[row["operator_uid"], row["state"] or row["table"]] += row["bytes"]
    return sizes


def test_which_state_grows(pages: Pages) -> None:
    first, last = bytes_of_states(pages.checkpoint(9)), bytes_of_states(pages.checkpoint(13))
    (operator, state), more = max(((place, last[place] - first[place]) for place in last), key=lambda one: one[1])
    seen = pages.of_history("Growth over checkpoints")
    assert seen.line.startswith(f"{operator} / {state} has grown most: +{readable_size(more)} to ")
    row = seen.rows("Growth of states from the first checkpoint to the last")[0]
    assert (row["operator"], row["state"], row["growth"]) == (operator, state, f"+{readable_size(more)}")


def test_which_key_group_and_which_subtask_is_heavy_and_at_other_parallelisms(pages: Pages) -> None:
    groups: Counter[int] = Counter()
    for row in pyspark_savepoint.open(SHOP).inspect.sizes("accounts", by="key-group").rows():
        groups[row["key_group"]] += row["bytes"]
    ((worst, most),) = groups.most_common(1)
    seen = pages.of_shop("Key groups and subtasks")
    assert seen.line.startswith(f"the heaviest is key group {worst} of accounts: {readable_size(most)}, ")
    operator = next(each for each in pyspark_savepoint.open(SHOP)._snapshot().operators if each.uid == "accounts")
    row = next(row for row in seen.rows("Heaviest subtasks of operators") if row["operator"] == "accounts")

    def of_subtasks(parallelism: int) -> Counter[int]:
        sizes: Counter[int] = Counter()
        for group, size in groups.items():
            sizes[group * parallelism // operator.max_parallelism] += size
        return sizes

    ((subtask, size),) = of_subtasks(operator.parallelism).most_common(1)
    assert (row["subtask"], row["bytes of the heaviest"]) == (str(subtask), readable_size(size))
    twice = 2 * operator.parallelism
    ((_, size),) = of_subtasks(twice).most_common(1)
    ratio = size * twice / groups.total()
    assert f"{readable_size(size)} ({ratio:.2f}) at {twice}" in row["at other parallelisms"]
    assert f"the heaviest subtask is {subtask} of accounts: {row['bytes of the heaviest']}, " in seen.line


def test_is_a_timer_late(pages: Pages) -> None:
    seen = pages.of_shop("Timers")
    earliest = {}
    for row in seen.rows("Timers by operator, the earliest first"):
        stored = pyspark_savepoint.open(SHOP).timers(row["operator"]).rows()
        times = [timer["timestamp"] for timer in stored if timer["domain"] == row["time"]]
        assert row["timers"] == f"{len(times):,}"
        earliest[min(times)] = row
    row = earliest[min(earliest)]
    assert row == seen.rows("Timers by operator, the earliest first")[0]
    assert row["earliest"].endswith(" days before")
    for time in ("processing", "event"):
        of_time = [each for each in earliest.values() if each["time"] == time and each["before the snapshot"] != "0"]
        late = sum(int(each["before the snapshot"].replace(",", "")) for each in of_time)
        assert (f"{late:,} {time} timer" in seen.line) is (late > 0)
    assert f"the earliest {row['earliest'].removesuffix(' before')}, of {row['operator']}" in seen.line


def test_which_partition_of_a_source_is_behind(pages: Pages, tmp_path: Path) -> None:
    folder = next((pages.corpus / "connectors" / "1.20.5-kafka-v3.4.0").glob("savepoint-*"))
    older = pyspark_savepoint.open(folder)
    rows: list[dict[str, Any]] = older.sources.offsets().to_arrow().to_pylist()
    slow = {"stream": "clicks", "partition": "1"}
    offsets = {
        (row["stream"], row["partition"]): row["offset"] + (3 if slow.items() <= row.items() else 1000) for row in rows
    }
    newer = older.sources.with_offsets(None, offsets).write(tmp_path / "newer")
    seen = pages.seen(f"kafka-{pages.width}", "Sources", newer, since=folder)
    assert "0 did not move since the older snapshot; the slowest is " in seen.line
    assert " / clicks 1: 3 in " in seen.line
    by_split = {
        (row["topic or stream"], row["partition"]): row for row in seen.rows("Positions at which the sources continue")
    }
    assert {split: row["next position"] for split, row in by_split.items()} == {
        split: str(offset) for split, offset in offsets.items()
    }
    assert {split for split, row in by_split.items() if row["moved"] == "3"} == {("clicks", "1")}


def test_would_the_new_job_restore_it_and_why_not(pages: Pages, tmp_path: Path) -> None:
    shop = pyspark_savepoint.open(SHOP)
    job = shop.remove_operator("accounts").write(tmp_path / "job")
    verdicts: list[dict[str, Any]] = shop.job(job).check_restore().to_arrow().to_pylist()
    found = next(row for row in verdicts if row["operator_uid"] == "accounts")
    seen = pages.seen(f"restore-{pages.width}", "Would the job restore it?", shop, job=job)
    assert seen.line == f"verdict: {found['verdict']}; accounts: {found['reasons'][0]}"
    row = seen.rows("Verdicts by operator, the worst first")[0]
    assert (row["verdict"], row["operator"], row["what to do"]) == (found["verdict"], "accounts", found["remedy"])


def test_what_has_changed_since_yesterday(pages: Pages) -> None:
    kinds = ("added", "changed", "removed")
    differences: list[dict[str, Any]] = pages.checkpoint(9).diff(pages.checkpoint(13)).to_arrow().to_pylist()
    counts = {kind: sum(row[kind] or 0 for row in differences) for kind in kinds}
    most = max(differences, key=lambda row: sum(row[kind] or 0 for kind in kinds))
    seen = pages.of_history("What differs from the older snapshot")
    more = sum(bytes_of_states(pages.checkpoint(13)).values()) - sum(bytes_of_states(pages.checkpoint(9)).values())
    first, last = bytes_of_states(pages.checkpoint(9)), bytes_of_states(pages.checkpoint(13))
    (operator, state), grown = max(((place, last[place] - first[place]) for place in last), key=lambda one: one[1])
    assert seen.line.startswith(
        f"entries: {', '.join(f'{count:,} {kind}' for kind, count in counts.items())}, most in "
        f"{most['operator_uid']} / {most['state']}; bytes: +{readable_size(more)}, most in {operator} / {state}: "
        f"+{readable_size(grown)}"
    )
    row = seen.rows("Differences by state, most entries first")[0]
    assert (row["operator"], row["state"]) == (most["operator_uid"], most["state"])
    assert row["added"] == f"{most['added']:,}"


def test_is_the_time_to_live_doing_its_work(pages: Pages) -> None:
    rows = [row for row in pyspark_savepoint.open(SHOP).inspect.ttl_ages().rows() if row["units"]]
    oldest = max(row["from_seconds"] for row in rows)
    entries = sum(row["units"] for row in rows if row["from_seconds"] == oldest)
    seen = pages.of_shop("Ages of state with a time to live")
    states = pyspark_savepoint.open(SHOP).states().to_arrow().to_pylist()
    keyed = [row["ttl"] for row in states if row["table"] in ("keyed_state", "window_state")]
    have = f"{sum(keyed)} of {len(keyed)} keyed states have a time to live"
    first, last = next((row["from_seconds"], row["to_seconds"]) for row in rows if row["from_seconds"] == oldest)
    age = f"{first // 86_400} to {last // 86_400} days"
    assert seen.line == f"{have}; the oldest are {entries} entries of accounts / coupon: {age}"
    assert "what is older than the job's code says has expired, and is still stored" in seen.text


def test_whose_types_are_kryos(pages: Pages) -> None:
    states = pages.kryo.states().to_arrow().to_pylist()
    by_kryo = [row for row in states if "KRYO<" in f"{row['key_type']} {row['value_type']}"]
    operators = {row["operator_uid_hash"] for row in by_kryo}
    seen = pages.of_kryo("Types")
    assert seen.line.startswith(f"Kryo is in {len(by_kryo)} of {len(states)} states, of {len(operators)} operators, ")
    shown = [row for row in seen.rows("Types of states") if "KRYO<" in f"{row['key type']} {row['value type']}"]
    assert {row["operator"] for row in shown} == operators
    assert len(shown) == len(by_kryo)


def test_which_checkpoint_is_the_oldest_and_what_is_new_in_the_newest(pages: Pages) -> None:
    summary = pages.of_history("What it is")
    assert "5 snapshots, checkpoints 9 to 13; the oldest is 9, " in summary.text
    seen = pages.of_history("Growth over checkpoints")
    files = {path.name: path.stat().st_size for path in pages.history.rglob("*") if path.is_file()}
    newest = seen.rows("Checkpoints, the newest last")[-1]
    assert newest["checkpoint"] == "13"
    full = sum(operator.state_size for operator in pages.checkpoint(13)._snapshot().operators)
    assert newest["all files"] == readable_size(full)
    assert f"the newest has {newest['all files']} in files, {newest['new files']} of them new" in seen.line
    assert full <= sum(files.values())


def test_what_to_do_before_the_next_release(pages: Pages) -> None:
    parts = pages.kryo.check_migration("2.3").to_arrow().to_pylist()
    needs = [row for row in parts if row["verdict"] == "needs"]
    seen = pages.of_kryo("Migration to Flink 2.3")
    fail = sum("fails" in f"{row['hashmap']}{row['rocksdb']}" for row in parts)
    assert f"fails at {fail} of {len(parts)} parts" in seen.line
    assert f"; a migration: {len(needs)} need an argument, " in seen.line
    rows = seen.rows("What a migration does with each part, and what Flink does without one, the worst first")
    assert [row["verdict"] for row in rows[: len(needs)]] == ["needs"] * len(needs)
    assert rows[0]["what to do"] == needs[0]["remedy"]
    assert needs[0]["remedy"] in seen.line


def test_what_is_in_flight_and_which_files_to_copy(pages: Pages, tmp_path: Path) -> None:
    seen = pages.of_history("What it is")
    snapshot = pages.checkpoint(13)._snapshot()
    inside = {path.name for path in (pages.history / "chk-13").iterdir()} - {"_metadata"}
    paths = [Path(row["file"]) for row in seen.rows("Files")]
    outside = {row["file"] for row in seen.rows("Files") if row["where"] == "outside"}
    assert {path.name for path in paths if str(path) not in outside} == inside
    assert all((pages.history / "shared" / Path(file).name).exists() for file in outside)
    assert f"; {len(outside):,} of them (" in seen.text
    assert "in flight\nno records" in seen.text
    unpack(IN_FLIGHT, tmp_path)
    unaligned = pyspark_savepoint.open(next(tmp_path.rglob("_metadata")).parent, allow_outside=True)
    sizes = [
        handle.state_size
        for operator in unaligned._snapshot().operators
        for subtask in operator.subtasks.values()
        for handle in (*subtask.input_channel_state, *subtask.result_subpartition_state)
    ]
    assert sizes
    text = pages.seen(f"in-flight-{pages.width}", "What it is", unaligned).text
    assert f"{readable_size(sum(sizes))} of records, in {len(sizes)} channels of " in text
    assert snapshot.metadata.checkpoint_id == 13


def test_what_cannot_be_read_is_said_before_every_number(pages: Pages, tmp_path: Path) -> None:
    copy = tmp_path / "damaged"
    shutil.copytree(SHOP, copy)
    largest = max((path for path in copy.iterdir() if path.name != "_metadata"), key=lambda path: path.stat().st_size)
    largest.write_bytes(largest.read_bytes()[:-40])
    damaged = pyspark_savepoint.open(copy)
    operators = len(damaged._snapshot().operators)
    name = f"damaged-{pages.width}"
    for heading in ("What it is", "Operators and states", "Key groups and subtasks", "Heaviest keys", "Timers"):
        assert f"1 of {operators} operators cannot be read, with " in pages.seen(name, heading, damaged).text
    seen = pages.seen(name, "Operators and states", damaged)
    (row,) = seen.rows("What cannot be read")
    assert seen.line.startswith(f"1 of {operators} operators cannot be read; ")
    assert seen.line.endswith(" entries")
    assert " % of what can be read" in seen.line
    assert row["why"]
    assert row["what to do"]
    found = pages.seen(name, "Findings", damaged).rows("Findings, the worst first")
    assert "not-examined" in {row["check"] for row in found}


def test_no_column_is_out_of_sight(pages: Pages) -> None:
    """Each cell is within the page at 400 pixels; at 1,200 those of numbers are: types scroll."""
    cells = "td" if pages.width == 400 else "td.n"
    for seen in (pages.of_history("Timers"), pages.of_kryo("Timers"), pages.of_shop("Timers")):
        assert seen.text
        cut = f"""[...document.querySelectorAll({cells!r})].filter(one => one.checkVisibility()
          && one.getBoundingClientRect().right > innerWidth).map(one => one.closest('table').caption.innerText)"""
        assert set(pages.browser.run(cut)) == set()


def test_the_release_is_that_of_the_new_job_too(pages: Pages) -> None:
    seen = pages.seen("release", "Would the job restore it?", pages.kryo, job=pages.kryo, flink_version="2.3")
    kryo = pages.kryo._snapshot()
    rows: list[dict[str, Any]] = check_snapshot(kryo, kryo, flink_version="2.3").to_arrow().to_pylist()
    assert {row["verdict"] for row in rows} != {"restores"}
    shown = seen.rows("Verdicts by operator, the worst first")
    assert Counter(row["verdict"] for row in shown) == Counter(row["verdict"] for row in rows)
    assert seen.line.startswith(f"verdict on Flink 2.3: {shown[0]['verdict']}")
