"""A savepoint of real Flink, whose values real coders of Apache Beam wrote: every value is the one of the job."""

from __future__ import annotations

import json
import warnings
from datetime import date
from pathlib import Path
from typing import Any

import pytest

import pyspark_savepoint
from pyspark_savepoint.formats.errors import SavepointWarning
from pyspark_savepoint.formats.java_stream import JavaObject
from pyspark_savepoint.formats.serializers.beam.serializer import _may_prefix

BEAM = Path(__file__).parents[3] / "oracle" / "savepoints" / "beam"
EXPECTED: dict[str, list[Any]] = json.loads((BEAM / "expected.json").read_text("utf-8"))["beam"]
#: Coders whose values stay bytes, with the first bytes of the value of key-2.
BINARY = {"bits": b"\x01\x02", "moved_row": b"\x02\x01\x02\x02a2", "enum_row": b"\x01\x00\x00"}
#: States whose numbers are decimals, or texts of such.
NUMBERS = ("decimal", "big_integer")
WINDOWED = ("windowed", "in_global_window", "value_only")


@pytest.fixture(scope="module")
def rows() -> dict[str, dict[str, Any]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SavepointWarning)
        return {row["key"]: row for row in pyspark_savepoint.open(BEAM / "savepoint").keyed_state("beam").rows()}


def plain(value: Any) -> Any:
    """Return a value as the job wrote it down."""
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, date):
        return (value - date(1970, 1, 1)).days
    if isinstance(value, dict) and "member0" in value:
        return next(one for one in value.values() if one is not None)
    if isinstance(value, dict):
        return [plain(one) for one in value.values()]
    return [plain(one) for one in value] if isinstance(value, list | tuple) else value


@pytest.mark.parametrize("state", sorted(set(EXPECTED) - {*BINARY, *NUMBERS, *WINDOWED, "bag", "timers"}))
def test_values(rows: dict[str, dict[str, Any]], state: str) -> None:
    assert {key: plain(row[state]) for key, row in rows.items()} == dict(EXPECTED[state])
    assert len(rows) == 20


@pytest.mark.parametrize("state", NUMBERS)
def test_numbers(rows: dict[str, dict[str, Any]], state: str) -> None:
    assert {key: str(row[state]) for key, row in rows.items()} == dict(EXPECTED[state])


def test_values_in_windows(rows: dict[str, dict[str, Any]]) -> None:
    for key, (timestamp, windows, value, *pane) in EXPECTED["windowed"]:
        assert plain(rows[key]["windowed"]) == [timestamp, windows, pane, value]
    for key, (timestamp, _, value, *pane) in EXPECTED["in_global_window"]:
        assert plain(rows[key]["in_global_window"]) == [timestamp, [None], pane, value]
    assert {key: row["value_only"] for key, row in rows.items()} == {
        key: value for key, (_, _, value, *_) in EXPECTED["value_only"]
    }


def test_other_coders_are_bytes(rows: dict[str, dict[str, Any]]) -> None:
    for state, first in BINARY.items():
        assert rows["key-2"][state].startswith(first)


def test_bags_and_timers() -> None:
    sp = pyspark_savepoint.open(BEAM / "savepoint")
    bags = sp.table("window_state", "beam").rows()
    assert sorted([row["key"], row["window"], row["bag"]] for row in bags) == sorted(EXPECTED["bag"])
    timers = [[row["key"], *row["namespace"].values()] for row in sp.timers("beam").rows()]
    assert sorted(timers) == sorted(EXPECTED["timers"])
    assert all(row["timestamp"] == row["namespace"]["timestamp"] for row in sp.timers("beam").rows())


def test_a_length_that_may_stand_before_each_value() -> None:
    """One form of the serializer with fasterCopy writes it, another does not: values are bytes, not a guess."""
    for fields, may in (
        ({"fasterCopy": True}, True),
        ({"fasterCopy": False}, False),
        ({"fasterCopy": True, "pipelineOptions": None}, False),
        ({}, False),
    ):
        assert _may_prefix(JavaObject("CoderTypeSerializer", fields)) is may
