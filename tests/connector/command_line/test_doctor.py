"""Findings of the doctor: each risk is found, none without a risk; the exit code follows severity."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pyspark_savepoint
from pyspark_savepoint.errors import OptionError
from pyspark_savepoint.insight.budgets import Budgets
from pyspark_savepoint.insight.doctor import Finding, examine
from pyspark_savepoint.options.write_options import SavepointWriteOptions
from pyspark_savepoint.statebackends.writing.committer import commit
from pyspark_savepoint.statebackends.writing.write_task import write_rows
from pyspark_savepoint.write.in_place import plan_write
from tests.connector.command_line.conftest import Run

DAY = 86_400_000
NOW = 1_767_355_200_000
CLEAN = (
    "connectors/2.3.0-kafka-v5.0.0",
    "connectors/2.3.0-filesink",
    "lab/2.2.1-hashmap-canonical-sql",
    "migration/cases/record-list/2.3.0-hashmap",
    "migration/flows/keyed-everything/1.20.5-hashmap",
    "migration/flows/window-session/1.20.5-hashmap",
    "migration/sql/dedup-first/1.20.5-hashmap",
    "migration/sql/session-tvf/1.20.5-hashmap",
    "migration/sql/top-n/1.20.5-hashmap",
    "real/ops-120",
)


def written(path: Path, columns: Mapping[str, Any], **options: str) -> Path:
    """A savepoint with one operator, written as a task of Spark writes it."""
    table = pa.table(dict(columns))
    given = {"path": str(path), "uid": "totals", "key": "key", "maxParallelism": "128", **options}
    plan = plan_write(SavepointWriteOptions.parse(given).request(False), table.schema)
    commit(plan, [write_rows(plan, 0, table.to_batches())])
    return path


def keyed(path: Path, keys: int, heavy: int = 0, **options: str) -> Path:
    values = ["x" * 100] * keys
    values[0] += "x" * heavy
    return written(path, {"key": list(range(keys)), "value": values}, **options)


def found(path: Path, budget: str | None = None, since: Path | None = None, job: Any = None) -> dict[str, Finding]:
    older = pyspark_savepoint.open(since) if since is not None else None
    findings = examine(pyspark_savepoint.open(path), Budgets.parse(budget), older, job)
    assert all(finding.evidence and finding.remedy for finding in findings)
    return {finding.check: finding for finding in findings}


@pytest.mark.parametrize("name", CLEAN)
def test_clean_snapshots_have_no_findings(corpus: Path, name: str) -> None:
    assert found(next((corpus / name).rglob("_metadata")).parent) == {}


def test_operators_without_uid(corpus: Path, shop: Path) -> None:
    assert "5" in str(found(corpus / "lab" / "2.2.1-hashmap-canonical" / "savepoint")["no-uid"].operator)
    assert found(shop) == {}


def test_skewed_key_groups(tmp_path: Path) -> None:
    budget = "floor=10k,key=1g"
    skewed = found(keyed(tmp_path / "skewed", 1000, heavy=50_000), budget)
    assert list(skewed) == ["skewed-key-groups"]
    assert found(keyed(tmp_path / "even", 1000), budget) == {}


def test_heavy_keys(tmp_path: Path) -> None:
    heavy = found(keyed(tmp_path / "heavy", 100, heavy=50_000), "key=40k")
    assert list(heavy) == ["heavy-key"]
    assert "key 0 has 1 entries" in heavy["heavy-key"].evidence
    assert found(tmp_path / "heavy", "key=60k") == {}


def test_states_that_only_grow(tmp_path: Path) -> None:
    small, large = keyed(tmp_path / "small", 100), keyed(tmp_path / "large", 200)
    grown = found(large, since=small)
    assert (grown["grows-without-ttl"].state, list(grown)) == ("value", ["grows-without-ttl"])
    assert found(small, since=large) == {}
    assert found(keyed(tmp_path / "ttl", 200, ttl="true"), since=keyed(tmp_path / "less", 100, ttl="true")) == {}


def test_timers_that_only_grow(tmp_path: Path) -> None:
    def timers(name: str, count: int) -> Path:
        rows = {"key": list(range(count)), "timestamp": [1_000 + n for n in range(count)], "domain": ["event"] * count}
        savepoint = pyspark_savepoint.open(keyed(tmp_path / f"{name}-base", 10, ttl="true"))
        return Path(str(savepoint.with_timers("totals", pa.table(rows)).write(tmp_path / name).path))

    less, more = timers("less", 299), timers("more", 1427)
    grown = found(more, since=less)
    assert list(grown) == ["timers-grow"]
    assert grown["timers-grow"].evidence.startswith("from 299 to 1427 timers since ")
    assert found(less, since=more) == {}


def test_kryo_and_flink_2(corpus: Path) -> None:
    cases = corpus / "migration" / "cases"
    first = found(next((cases / "hint-array-list" / "1.20.5-hashmap").rglob("_metadata")).parent)
    assert set(first) == {"kryo", "misread-by-flink-2"}
    assert "KRYO<java.util.ArrayList>" in first["misread-by-flink-2"].evidence
    assert "pyspark-savepoint migrate" in first["misread-by-flink-2"].remedy
    # Kryo 5 reads the same bytes; and an unknown class of the job.
    assert set(found(next((cases / "kryo-atomic-long" / "1.20.5-hashmap").rglob("_metadata")).parent)) == {"kryo"}
    hint = next((cases / "broadcast-hint-list" / "1.20.5-hashmap").rglob("_metadata")).parent
    assert set(found(hint)) == {"kryo", "unclear-for-flink-2"}
    assert "types_from" in found(hint)["unclear-for-flink-2"].remedy
    second = found(next((cases / "kryo-array-list" / "2.3.0-hashmap").rglob("_metadata")).parent)
    assert set(second) == {"kryo"}
    sink = corpus / "migration" / "flows" / "two-phase-sink" / "1.20.5-hashmap"
    assert set(found(next(sink.rglob("_metadata")).parent)) == {"unreadable-by-flink-2"}


def test_max_parallelism(tmp_path: Path) -> None:
    small = found(keyed(tmp_path / "small", 100, maxParallelism="4", parallelism="3"))
    assert list(small) == ["max-parallelism-small"]
    large = found(keyed(tmp_path / "large", 100, maxParallelism="8192"))
    assert list(large) == ["max-parallelism-large"]
    assert found(keyed(tmp_path / "fine", 100, maxParallelism="128", parallelism="3")) == {}


def test_timers_far_in_the_past(tmp_path: Path) -> None:
    def timers(path: Path, first: int, last: int = NOW) -> Path:
        keyed(path, 10)
        times = [first, *(NOW + number * DAY for number in range(8)), last]
        columns = {"key": list(range(10)), "timestamp": times, "domain": ["event"] * 10}
        table = pa.table(columns)
        given = {"path": str(path), "uid": "totals", "key": "key", "table": "timers"}
        plan = plan_write(SavepointWriteOptions.parse(given).request(False), table.schema)
        commit(plan, [write_rows(plan, 0, table.to_batches())])
        return path

    old = found(timers(tmp_path / "old", NOW - 800 * DAY))
    assert list(old) == ["old-timers"]
    assert "1 event timers are more than 365 days behind" in old["old-timers"].evidence
    assert found(timers(tmp_path / "fine", NOW - 80 * DAY)) == {}
    assert "old-timers" in found(tmp_path / "fine", "timer-age=30d")
    # A timer that cleans up in many years is in the future, and does not make the others late.
    assert found(timers(tmp_path / "ahead", NOW - DAY, NOW + 10_000 * DAY), "timer-age=3650d") == {}


def test_orphaned_operators(shop: Path) -> None:
    assert found(shop, job={"operators": [{"uid": "accounts"}]})["orphaned-operator"].operator
    assert found(shop, job=pyspark_savepoint.open(shop)._snapshot()) == {}


def test_files_outside_of_the_snapshot(run: Run, corpus: Path, tmp_path: Path) -> None:
    name = "2.2.1-rocksdb-incr-checkpoint"
    checkpoint = next((corpus / "lab" / name).rglob("_metadata")).parent
    prefix = f"file:{checkpoint.parent}/shared"
    assert run("relocate", checkpoint, "file:/there/is/nothing", prefix, tmp_path / "x").code == 2
    assert (
        run("relocate", checkpoint, f"file:/data/corpus/{name}", f"file:{corpus}/lab/{name}", tmp_path / "y").code == 0
    )
    outside = found(tmp_path / "y")["outside-files"]
    assert outside.severity == "error"
    assert "outside-files" not in found(checkpoint)


def test_budgets_of_size_and_age(shop: Path) -> None:
    assert list(found(shop, "size=10k")) == ["size"]
    assert found(shop, "size=1GB") == {}
    assert found(shop, "ttl-age=1s")["old-ttl-state"].state == "coupon"
    assert found(shop, "ttl-age=3650d") == {}


@pytest.mark.parametrize("budget", ["sise=3", "size=big", "skew=0", "ttl-age=soon"])
def test_budgets_that_say_nothing(run: Run, shop: Path, budget: str) -> None:
    done = run("doctor", shop, "--budget", budget)
    assert done.code == 2
    assert done.err.startswith("error: ")


def test_the_exit_code_is_by_severity(run: Run, shop: Path, tmp_path: Path) -> None:
    assert run("doctor", shop).out == "0 errors, 0 warnings, 0 notes\n"
    done = run("doctor", shop, "--budget", "ttl-age=1s")
    assert done.code == 1
    assert done.out.splitlines()[0] == "warning  old-ttl-state: accounts, coupon"
    assert run("doctor", shop, "--budget", "ttl-age=1s", "--fail-on", "error").code == 0
    (tmp_path / "job.json").write_text(json.dumps({"operators": [{"uid": "accounts"}]}))
    records = run("doctor", shop, "--job", tmp_path / "job.json", "--json").records
    assert {record["check"] for record in records} == {"orphaned-operator"}


def test_budgets_are_a_text_or_a_mapping(shop: Path) -> None:
    sp = pyspark_savepoint.open(shop)
    rows = list(sp.inspect.doctor({"size": 1000, "ttl_age": "1s"}).rows())
    assert rows == list(sp.inspect.doctor("size=1000,ttl-age=1s").rows())
    assert [row["check"] for row in rows if row["check"] == "size"] == ["size"]
    for budgets, match in (
        ({"sise": 3}, "no budget 'sise'"),
        ({"size": None}, "texts or numbers"),
        (5, "or a mapping"),
    ):
        with pytest.raises(OptionError, match=match):
            sp.inspect.doctor(budgets)  # type: ignore[arg-type]
