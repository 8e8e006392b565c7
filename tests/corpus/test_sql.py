"""SQL jobs of Flink's planner tests: every state of every one reads."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from pyspark_savepoint.formats.columns import DecodeOptions
from tests.corpus.everything import KEYED, misplaced_keys, read_state, states_of

PLACE = ("key_group", "subtask")


def test_every_state_reads_and_every_key_is_in_its_key_group(flink_resources: Path) -> None:
    problems: list[str] = []
    kinds: Counter[str] = Counter()
    for path in sorted((flink_resources / "sql").iterdir()):
        for listed in states_of(path):
            note = listed["note"]
            assert note is None or "shows its content as rows" in note, note
            if listed["state"] is None:
                continue
            table = read_state(path, listed)
            assert table is not None
            kinds[listed["kind"]] += 1
            if listed["table"] in KEYED:
                problems += misplaced_keys(path, listed)

    assert problems == []
    assert kinds["VALUE"] >= 90
    assert kinds["MAP"] >= 56


def test_nothing_is_binary_but_what_is_bytes(flink_resources: Path) -> None:
    binary: Counter[str] = Counter()
    for path in sorted((flink_resources / "sql").iterdir()):
        for listed in states_of(path):
            if listed["spark_value_type"] == "binary" and listed["table"] in (*KEYED, "operator_state"):
                binary[listed["value_type"]] += 1

    assert set(binary) == {"PRIMITIVE_ARRAY<BYTE>"}


#: Some states whose content follows from what the test programs put into their sources.
CONTENTS: dict[tuple[str, str], list[dict[str, Any]]] = {
    ("group-aggregate_1__group-aggregate-simple", "accState"): [
        {"key": {"f0": 1}, "accState": {"f0": 1, "f1": 0, "f2": 0, "f3": "Hi"}},
        {"key": {"f0": 2}, "accState": {"f0": 2, "f1": 4, "f2": 2, "f3": "Hello"}},
    ],
    ("group-aggregate_1__agg-with-state-ttl-hint", "accState"): [
        {"key": {"f0": 1}, "accState": {"f0": 1, "f1": 0, "f2": 0, "f3": "Hi"}},
        {"key": {"f0": 2}, "accState": {"f0": 2, "f1": 4, "f2": 2, "f3": "Hello"}},
    ],
    ("sort-limit_1__sort-limit-asc", "data-state-with-append"): [
        {
            "key": {},
            "data-state-with-append": [
                ({"f0": 1}, [{"f0": 1, "f1": "a", "f2": 5}]),
                ({"f0": 2}, [{"f0": 2, "f1": "a", "f2": 6}]),
                ({"f0": 3}, [{"f0": 3, "f1": "b", "f2": 7}]),
            ],
        }
    ],
    ("temporal-join_1__temporal-join-table-join", "next-index"): [
        {"key": {"f0": "Euro"}, "next-index": 2},
        {"key": {"f0": "USD"}, "next-index": 1},
        {"key": {"f0": "Yen"}, "next-index": 1},
    ],
    ("window-aggregate_1__window-aggregate-tumble-event-time", "window-aggs"): [
        {
            "key": {"f0": "b"},
            "window": 1602288035000,
            "window-aggs": {"f0": 1, "f1": 1, "f2": 1, "f3": None},
        },
        {
            "key": {"f0": None},
            "window": 1602288035000,
            "window-aggs": {"f0": 1, "f1": 7, "f2": 0, "f3": None},
        },
    ],
    ("window-aggregate_1__window-aggregate-tumble-event-time", "distinctAcc_0"): [
        {"key": {"f0": "b"}, "window": 1602288035000, "distinctAcc_0": [("Comment#3", 1)]},
    ],
    ("window-aggregate_1__window-aggregate-tumble-event-time", "watermark"): [{"value": 1602288033000}],
}


@pytest.mark.parametrize(("name", "state"), CONTENTS, ids=str)
def test_what_operators_keep(flink_resources: Path, name: str, state: str) -> None:
    path = flink_resources / "sql" / f"stream-exec-{name}"
    (listed,) = [row for row in states_of(path) if row["state"] == state]
    table = read_state(path, listed, DecodeOptions())
    assert table is not None

    rows = [{column: row[column] for column in row if column not in PLACE} for row in table.to_pylist()]

    assert sorted(map(_in_order, rows), key=str) == CONTENTS[name, state]


def _in_order(row: dict[str, Any]) -> dict[str, Any]:
    return {name: sorted(value, key=str) if isinstance(value, list) else value for name, value in row.items()}


def test_the_timers_of_windows_fire_at_their_ends(flink_resources: Path) -> None:
    found = 0
    for path in sorted((flink_resources / "sql").glob("stream-exec-window-aggregate*")):
        for listed in states_of(path):
            if listed["table"] == "timers" and listed["namespace_type"] == "LONG":
                table = read_state(path, listed)
                assert table is not None
                for row in table.to_pylist():
                    assert row["domain"] in ("event", "processing")
                    assert row["timestamp"] == row["namespace"] - 1
                    found += 1
    assert found >= 10
