"""Metrics: what Prometheus' own parser reads of them is what ``sizes`` says; their number is bounded."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.openmetrics import parser as openmetrics_parser
from prometheus_client.parser import text_string_to_metric_families

import pyspark_savepoint
from pyspark_savepoint.insight.metrics import METRICS, PREFIX
from tests.connector.command_line.conftest import EVIL, Run
from tests.connector.command_line.test_texts_that_leave import acting

DASHBOARD = Path(__file__).parents[3] / "notebooks" / "grafana.json"


def parsed(text: str) -> dict[str, dict[tuple[str, ...], float]]:
    """Values by metric and labels; equal series twice are refused."""
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for family in openmetrics_parser.text_string_to_metric_families(text):
        assert family.type == "gauge"
        assert family.documentation
        for sample in family.samples:
            labels = tuple(sample.labels.values())
            assert labels not in found.setdefault(sample.name, {})
            found[sample.name][labels] = sample.value
    return found


def test_states_have_the_numbers_of_sizes(run: Run, shop: Path) -> None:
    found = parsed(run("metrics", shop).out)
    expected: dict[tuple[str, ...], list[int]] = {}
    for row in pyspark_savepoint.open(shop).inspect.sizes().rows():
        if row["note"] is None:
            numbers = expected.setdefault((row["operator_uid"], row["table"], row["state"] or ""), [0, 0, 0])
            numbers[0] += row["entries"]
            numbers[1] += row["bytes"]
            numbers[2] = max(numbers[2], row["largest"])
    assert len(expected) > 10
    for place, name in enumerate(("state_entries", "state_bytes", "state_largest_entry_bytes")):
        assert found[PREFIX + name] == {labels: numbers[place] for labels, numbers in expected.items()}
    assert found[PREFIX + "operator_parallelism"][("accounts",)] == 2
    assert 1 <= found[PREFIX + "subtask_skew_ratio"][("accounts",)] <= 2
    assert found[PREFIX + "snapshots"] == {(): 1}


def test_every_metric_is_printed_in_both_formats(run: Run, shop: Path) -> None:
    names = [metric.full_name for metric in METRICS.values()]
    assert list(parsed(run("metrics", shop).out)) == names
    records = run("metrics", shop, "--format", "json", "--label", "job_name=shop").records
    assert list(dict.fromkeys(record["name"] for record in records)) == names
    assert {record["labels"]["job_name"] for record in records} == {"shop"}
    assert run("metrics", shop, "--json").records == [
        {**record, "labels": {name: text for name, text in record["labels"].items() if name != "job_name"}}
        for record in records
    ]


def test_of_a_folder_the_newest_snapshot(run: Run, corpus: Path) -> None:
    folder = corpus / "history" / "2.3.0-rocksdb-incr" / "checkpoints"
    found = parsed(run("metrics", folder, "--allow-outside").out)
    chosen = max(folder.glob("**/chk-*"), key=lambda path: int(path.name[4:]))
    assert found[PREFIX + "checkpoint_id"] == {(): int(chosen.name[4:])}
    assert found[PREFIX + "snapshots"] == {(): len(list(folder.glob("**/_metadata")))}
    alone = parsed(run("metrics", chosen, "--allow-outside").out)
    # A checkpoint is incremental: the files of the one before are not new.
    assert 0 < found[PREFIX + "new_bytes"][()] < alone[PREFIX + "new_bytes"][()] == alone[PREFIX + "size_bytes"][()]


def test_others_are_added_up(run: Run, shop: Path) -> None:
    whole, some = parsed(run("metrics", shop).out), parsed(run("metrics", shop, "--most", 2).out)
    for name, joined in (("state_bytes", sum), ("state_largest_entry_bytes", max)):
        states = some[PREFIX + name]
        assert len(states) == 3
        assert ("", "", "(others)") in states
        assert joined(states.values()) == joined(whole[PREFIX + name].values())
    operators = some[PREFIX + "operator_size_bytes"]
    assert len(operators) == 3
    assert sum(operators.values()) == sum(whole[PREFIX + "operator_size_bytes"].values())


def test_hostile_names(run: Run, evil: str) -> None:
    done = run("metrics", evil, "--label", f"note={EVIL}")
    assert acting(done.out) == set()
    found = parsed(done.out)
    assert len(found[PREFIX + "state_bytes"]) >= 2
    assert all(
        "<b>'" in labels[2] for labels in found[PREFIX + "operator_size_bytes"] for labels in [("", "", *labels)]
    )


def test_the_file_for_a_node_exporter_is_replaced_whole(run: Run, shop: Path, tmp_path: Path) -> None:
    file = tmp_path / "savepoint.prom"
    file.write_text("before")
    kept = file.open()
    assert run("metrics", shop, "--push-textfile", file).out == ""
    assert kept.read() == "before"  # another file has its name now
    assert [path.name for path in tmp_path.iterdir()] == ["savepoint.prom"]
    text = file.read_text()
    assert text == run("metrics", shop).out
    # Node exporters read the format that Prometheus had before OpenMetrics.
    assert {family.name for family in text_string_to_metric_families(text)} == {m.full_name for m in METRICS.values()}


@pytest.mark.parametrize("label", ["job", "=x", "operator=x", "a-b=c", "__name__=x"])
def test_labels_that_cannot_be(run: Run, shop: Path, label: str) -> None:
    done = run("metrics", shop, "--label", label)
    assert (done.code, done.out) == (2, "")
    twice = run("metrics", shop, "--label", "job=a", "--label", "job=b")
    assert (twice.code, twice.out) == (2, "")
    assert "a label twice" in twice.err
    assert "--label takes NAME=VALUE" in done.err


def texts(value: Any) -> Iterator[str]:
    """All texts of a JSON document."""
    if isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from texts(each)
    elif isinstance(value, str):
        yield value


def test_the_dashboard_has_the_names_and_labels_of_the_command() -> None:
    dashboard = json.loads(DASHBOARD.read_text())
    expressions = [each for each in texts(dashboard) if PREFIX in each]
    used = {name for each in expressions for name in re.findall(rf"{PREFIX}(\w+)", each)}
    assert used == set(METRICS)
    shown = {label for each in texts(dashboard) for label in re.findall(r"{{(\w+)}}", each)}
    assert shown <= {"job_name", *(label for metric in METRICS.values() for label in metric.labels)}
