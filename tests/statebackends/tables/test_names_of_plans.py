"""Option ``fieldNames`` on real SQL jobs of ten queries, and of twelve about windows (`oracle.SqlPlans`).

Every field has the name of its values.

Columns of the generated rows have ranges of their own, so that a value shows its column.
"""

from __future__ import annotations

import re
import shutil
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pyspark_savepoint
from pyspark_savepoint.api.local_savepoint import LocalSavepoint
from pyspark_savepoint.command_line.warming import unpack
from pyspark_savepoint.formats.errors import OptionError, SavepointWarning
from pyspark_savepoint.options.write_options import SavepointWriteOptions
from pyspark_savepoint.statebackends.sql_plans.compiled_plan import WindowSpan, planned_span
from pyspark_savepoint.statebackends.tables.named_fields import TIME, WindowColumns
from pyspark_savepoint.statebackends.writing.committer import commit
from pyspark_savepoint.statebackends.writing.write_task import write_rows
from pyspark_savepoint.write.in_place import plan_write

ARCHIVES = Path(__file__).parents[2] / "oracle" / "savepoints" / "sql-plans"
EPOCH = datetime(1970, 1, 1)
RANGES = {"k": (0, 2), "j": (0, 2), "a": (1000, 1006), "b": (2000, 2010), "x": (5000, 5008), "n": (1, 60)}
#: Aggregates of a column whose values are values of it.
OF_VALUES = re.compile(r"max\((\w)\)")
SUMS = re.compile(r"(?:sum0?|avg)\(b\)(?: sum)?")


@dataclass(frozen=True)
class Job:
    savepoint: LocalSavepoint
    plan: str
    explain: str

    def listed(self) -> list[dict[str, Any]]:
        """Rows of table ``states``; that Flink 1 records no uids is warned about, and of no concern here."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SavepointWarning)
            return self.savepoint.table("states", fieldNames=self.plan).to_arrow().to_pylist()

    def states(self, names: str) -> Iterator[tuple[dict[str, Any], Any]]:
        for row in self.listed():
            if row["table"] in ("keyed_state", "window_state"):
                options = {"uidHash": row["operator_uid_hash"], "state": row["state"], "fieldNames": names}
                yield row, self.savepoint.table(row["table"], **options).to_arrow()


@pytest.fixture(scope="module", params=["1.20.5-one-phase", "1.20.5-two-phase", "2.2.1-one-phase", "2.2.1-two-phase"])
def job(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Job:
    return unpacked(request.param, tmp_path_factory.mktemp("sql"))


@pytest.fixture(scope="module", params=["1.20.5-two-phase-windows", "2.2.1-one-phase-windows"])
def windows(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Job:
    return unpacked(request.param, tmp_path_factory.mktemp("sql"))


def unpacked(name: str, folder: Path) -> Job:
    unpack(ARCHIVES / f"{name}.tar.xz", folder)
    savepoint = pyspark_savepoint.open(str(folder / "savepoint"))
    return Job(savepoint, (folder / "plan.json").read_text(), (folder / "explain.txt").read_text())


def named_values(value: Any) -> Iterator[tuple[str, Any]]:
    """Every field with its value, however deep."""
    if isinstance(value, dict):
        for name, inner in value.items():
            if not isinstance(inner, dict | list | tuple):
                yield name, inner
            yield from named_values(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from named_values(inner)


def checked(name: str, value: Any) -> bool:
    """Return whether a field's name determines its values, after a check of them."""
    column = OF_VALUES.fullmatch(name)
    name = column[1] if column else name
    if name == "m":  # MAX(b) by another name
        name = "b"
    if value is None:
        return False
    if name in RANGES:
        low, high = RANGES[name]
        assert low <= value <= high, (name, value)
    elif name == "c":
        assert re.fullmatch("c[0-4]", value)
    elif SUMS.fullmatch(name):
        assert value > 2000
    elif "count" in name:
        assert 1 <= value <= 200, (name, value)
    else:
        return False
    return True


def test_every_field_has_the_name_of_its_values(job: Job) -> None:
    seen = set()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for row, table in job.states(job.plan):
            rows = table.to_pylist()
            found = {
                name for name, value in named_values([each[row["state"]] for each in rows]) if checked(name, value)
            }
            seen |= {
                (row["operator_uid"].split("_", 1)[1].removeprefix("global-"), row["state"], name) for name in found
            }
            assert all(re.fullmatch("f[0-9]+", name) is None for name, _ in named_values(rows)), row
    assert seen >= {
        ("group-aggregate", "accState", "max(a)"),
        ("group-aggregate", "accState", "avg(b) sum"),
        ("group-aggregate", "accState", "count(distinct c)"),
        ("over-aggregate", "accState", "sum0(b)"),
        ("over-aggregate", "inputState", "b"),
        ("window-aggregate", "window-aggs", "max(a)"),
        ("rank", "data-state-with-append", "c"),
        ("rank", "data-state-with-update", "m"),
        ("deduplicate", "deduplicate-state", "a"),
        ("join", "left-records", "a"),
        ("join", "right-records", "x"),
        ("interval-join", "IntervalJoinLeftCache", "a"),
    }


def kind_of(row: dict[str, Any]) -> str:
    return str(row["operator_uid"]).split("_", 1)[1].removeprefix("global-")


def test_windows_have_names_starts_and_ends(windows: Job) -> None:
    seen: dict[tuple[str, str], Any] = {}
    spans = set()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for row, table in windows.states(windows.plan):
            rows = table.to_pylist()
            assert all(re.fullmatch("f[0-9]+", name) is None for name, _ in named_values(rows)), row
            for name, value in named_values([each[row["state"]] for each in rows]):
                if checked(name, value):
                    seen[kind_of(row), row["state"], name] = value
            for start, end in (("window_start", "window_end"), ("slice_start", "slice_end")):
                if start in table.column_names:
                    spans |= {(kind_of(row), start, each[end] - each[start]) for each in rows}
                    assert all(each[end] == EPOCH + timedelta(milliseconds=each["window"]) for each in rows)
            for each in rows:
                in_rows(row["state"], each)
    assert spans == {
        ("window-aggregate", "slice_start", timedelta(minutes=10)),
        ("window-aggregate", "slice_start", timedelta(seconds=10)),
        ("window-rank", "window_start", timedelta(hours=1)),
        ("window-deduplicate", "window_start", timedelta(hours=1)),
        ("window-join", "window_start", timedelta(hours=1)),
    }
    assert set(seen) >= {
        ("window-aggregate", "window-aggs", "max(a)"),
        ("window-aggregate", "window-aggs", "avg(b) sum"),
        ("window-aggregate", "window-aggs", "count(*)"),
        ("group-window-aggregate", "window-aggs", "sum(b)"),
        ("group-window-aggregate", "window-aggs", "avg(b) count"),
        ("window-rank", "window_rank", "b"),
        ("window-rank", "window_rank", "c"),
        ("window-deduplicate", "window_deduplicate", "a"),
        ("window-join", "left-records", "a"),
        ("window-join", "right-records", "x"),
        ("temporal-join", "right", "x"),
        ("match", "sharedBuffer-events", "a"),
    }


def in_rows(state: str, row: dict[str, Any]) -> None:
    """Rows of window joins and the like have their window too: it is that of the columns."""
    found = row[state] if state in ("left-records", "right-records") and "window" in row else []
    for each in found:
        assert (each["window_start"], each["window_end"]) == (row["window_start"], row["window_end"])


def test_columns_of_windows_are_chosen_alone_and_are_in_timers(windows: Job) -> None:
    (rank,) = [row for row in windows.listed() if row["state"] == "window_rank"]
    options = {"uidHash": rank["operator_uid_hash"], "fieldNames": windows.plan}
    table = windows.savepoint.table("window_state", **options)
    for columns in (["window_end"], ["window_start", "key"], ["window"], ["window", "window_start"]):
        chosen = table.select(*columns).to_arrow()
        assert chosen.column_names == columns
        assert chosen == table.to_arrow().select(columns)
    timers = windows.savepoint.table("timers", **options).to_arrow().to_pylist()
    assert {row["window_end"] for row in timers} == {EPOCH + timedelta(hours=1)}
    explained = windows.savepoint.table(
        "window_state", uid=rank["operator_uid"], state="window_rank", fieldNames=windows.explain
    )
    assert explained.to_arrow() == table.to_arrow()


def test_rows_of_windows_and_timers_are_written_as_they_were_read(windows: Job, tmp_path: Path) -> None:
    path = str(shutil.copytree(windows.savepoint.path, tmp_path / "savepoint"))
    (last,) = [row for row in windows.listed() if row["state"] == "window_deduplicate"]
    operator = {"uidHash": last["operator_uid_hash"]}
    for table, options in (("window_state", {"state": "window_deduplicate"}), ("timers", {})):
        rows = windows.savepoint.table(table, fieldNames=windows.plan, **operator, **options).to_arrow()
        assert "window_start" in rows.column_names
        types = {"types": '{"namespace": "LONG"}'} if table == "timers" else {}
        parsed = SavepointWriteOptions.parse({"path": path, "table": table, **operator, **options, **types})
        plan = plan_write(parsed.request(True), rows.schema)
        commit(plan, [write_rows(plan, 0, rows.to_batches())])
        written = pyspark_savepoint.open(path).table(table, fieldNames=windows.plan, **operator, **options).to_arrow()
        assert sorted(map(repr, written.to_pylist())) == sorted(map(repr, rows.to_pylist()))
    states = pyspark_savepoint.open(path).table("states", fieldNames=windows.plan).to_arrow().to_pylist()
    assert sorted(row["state"] for row in states) == sorted(row["state"] for row in windows.listed())


def test_windows_that_cumulate_begin_with_the_last_full_one() -> None:
    spans = {
        "WindowAttached": WindowSpan(1_800_000, whole=True, cumulates=True, offset=60_000),
        "TimeAttribute": WindowSpan(600_000, whole=False),
    }
    window = {"type": "CumulativeWindow", "maxSize": "PT30M", "step": "PT10M", "offset": "PT1M"}
    for strategy, span in spans.items():
        assert planned_span({"windowing": {"strategy": strategy, "window": window}}) == span
    ends = pa.record_batch({"window": pa.array([660_000, 1_860_000, 2_460_000, None, 2**63 - 1], pa.int64())})
    schema = pa.schema([pa.field("window_start", TIME), pa.field("window_end", TIME)])
    columns = WindowColumns(spans["WindowAttached"], "window", schema).added(ends).to_pylist()
    assert [row["window_start"] and (row["window_start"] - EPOCH).seconds for row in columns] == [
        60,
        60,
        1860,
        None,
        None,
    ]
    for other in ({}, {"windowing": {"window": {"type": "SessionWindow", "gap": "PT1M"}}}, {"windowing": 3}):
        assert planned_span(other) is None


def test_keys_of_maps_are_named_by_hand_and_when_flattened(job: Job) -> None:
    (join,) = [row for row, _ in job.states(job.plan) if row["state"] == "left-records"]
    operator = {"uidHash": join["operator_uid_hash"], "state": "left-records"}
    names = '{"left-records.key": ["one", "two"]}'
    found = job.savepoint.table("keyed_state", fieldNames=names, **operator).to_arrow().to_pylist()
    assert set(found[0]["left-records"][0][0]) == {"one", "two"}
    flat = job.savepoint.table("keyed_state", fieldNames=job.plan, flatten=True, **operator).to_arrow().to_pylist()
    assert set(flat[0]["map_key"]) == {"k", "a"}


def test_the_text_of_explain_gives_the_same_names_or_says_what_it_needs(job: Job) -> None:
    by_plan = {(row["operator_uid_hash"], row["state"]): table.schema for row, table in job.states(job.plan)}
    found = refused = 0
    for row in job.listed():
        if row["table"] not in ("keyed_state", "window_state"):
            continue
        options = {"uid": row["operator_uid"], "state": row["state"], "fieldNames": job.explain}
        try:
            schema = job.savepoint.table(row["table"], **options).to_arrow().schema
        except OptionError as error:
            refused += "nodes in the text of EXPLAIN may be this operator" in str(error)
            continue
        found += 1
        assert schema == by_plan[row["operator_uid_hash"], row["state"]]
    assert found >= 12
    assert found + refused == len(by_plan)
    assert refused <= 4


def test_the_part_of_explain_that_is_the_operators_names_it_without_a_uid(job: Job) -> None:
    accumulators = [(row, table) for row, table in job.states(job.plan) if row["state"] == "accState"]
    (over,) = [
        row
        for row, table in accumulators
        if row["operator_uid"].endswith("over-aggregate") and table.schema.field("accState").type.num_fields == 3
    ]
    lines = job.explain.split("== Optimized Execution Plan ==")[1].splitlines()
    start = next(i for i, line in enumerate(lines) if "OverAggregate" in line and "UNBOUNDED" in line)
    part = "\n".join([*lines[start : start + 2], "      +- TableSourceScan(table=[[t]], fields=[k, a, b, ts])"])
    table = job.savepoint.table("keyed_state", uidHash=over["operator_uid_hash"], state="accState", fieldNames=part)
    (row, *_) = table.to_arrow().to_pylist()
    assert list(row["accState"]) == ["max(a)", "count(b)", "sum0(b)"]
