"""Comparing what was found with what was expected."""

from __future__ import annotations

import pytest

from tests.oracle.compare import comparable, differences

EXPECTED = {
    "operators": [
        {
            "uid": "counts",
            "states": [{"name": "n", "entries": [["a", None, 1], ["b", None, 2], ["b", None, 2]]}],
            "timers": [{"service": "user-timers", "eventTime": [["a", 5]], "processingTime": []}],
        }
    ]
}


@pytest.mark.parametrize(
    ("one", "same"),
    [
        ({"map": [["a", 1], ["b", 2]]}, {"map": [["b", 2], ["a", 1]]}),
        ({"set": [1, 2]}, {"set": [2, 1]}),
        ({"x": 1, "y": [2]}, {"y": [2], "x": 1}),
        ({"map": None, "list": [1]}, {"list": [1], "map": None}),
    ],
)
def test_order_counts_only_where_it_means_something(one: object, same: object) -> None:
    assert comparable(one) == comparable(same)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, True),
        (1, 1.0),
        (0.0, -0.0),
        ([1, 2], [2, 1]),
        (None, "None"),
        ({"set": [1]}, {"set": [1, 1]}),
        ([], {"set": []}),
    ],
)
def test_what_differs_in_java_differs(one: object, other: object) -> None:
    assert comparable(one) != comparable(other)


def test_nothing_differs() -> None:
    found = {"counts": {"n": [["b", None, 2], ["a", None, 1], ["b", None, 2]], "user-timers/eventTime": [["a", 5]]}}

    assert differences(EXPECTED, found) == []


def test_lost_repeated_and_changed_entries_are_told() -> None:
    found = {"counts": {"n": [["a", None, 1], ["b", None, 2], ["c", None, 3]]}}

    lost_one, lost_timer = differences(EXPECTED, found)

    assert lost_one.startswith("counts/n: missing 1 ")
    assert "'c'" in lost_one
    assert lost_timer.startswith("counts/user-timers/eventTime: missing 1 ")
