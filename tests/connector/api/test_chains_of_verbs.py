"""Thousands of single verbs, as a loop makes them: each takes about as long as the first, and the write is linear."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

import pyspark_savepoint
from pyspark_savepoint.api.local_savepoint import LocalSavepoint
from tests.processor_time import processor_seconds

KEYS = pa.array(range(10), pa.int64())


def base(path: Path, states: int) -> LocalSavepoint:
    """A savepoint of one operator with some states, and as many operators without."""
    rows = pa.table({"key": KEYS, **{f"s{n}": KEYS for n in range(states)}})
    new = pyspark_savepoint.create().with_operator("op", rows)
    for number in range(states):
        new = new.with_operator(f"o{number}")
    return new.write(path)


ONE = pa.table({"key": KEYS.slice(3, 1), "s0": pa.array([7], pa.int64())})
VERBS: dict[str, Callable[[LocalSavepoint, int], LocalSavepoint]] = {
    "rename_state": lambda sp, n: sp.rename_state("op", f"s{n}", f"t{n}"),
    "remove_state": lambda sp, n: sp.remove_state("op", f"s{n}"),
    "update_state": lambda sp, n: sp.update_state("op", "s0", ONE),
    "remove_keys": lambda sp, n: sp.remove_keys("op", [n]),
    "with_state": lambda sp, n: sp.with_state("op", f"n{n}", ONE.rename_columns(["key", f"n{n}"])),
    "with_operator": lambda sp, n: sp.with_operator(f"new{n}", ONE),
    "change_operator_identifier": lambda sp, n: sp.change_operator_identifier(f"o{n}", f"p{n}"),
    "remove_operator": lambda sp, n: sp.remove_operator(f"o{n}"),
}


@pytest.mark.thorough
@pytest.mark.parametrize("verb", list(VERBS))
def test_a_chain_takes_time_by_its_length(verb: str, tmp_path: Path) -> None:
    """Four times as many: at most eight times the time, where a walk over all of them takes sixteen."""
    savepoint = base(tmp_path / "base", 2000)

    def chain(count: int) -> None:
        chained = savepoint
        for number in range(count):
            chained = VERBS[verb](chained, number)

    few, many = (processor_seconds(partial(chain, count), runs=2) for count in (500, 2000))
    assert many < 8 * few + 0.2, (few, many)


def test_the_last_of_many_updates_stays(tmp_path: Path) -> None:
    """Hundreds of them were as many nested reads, which Python refuses."""
    savepoint = base(tmp_path / "base", 2)
    for number in range(500):
        rows = pa.table({"key": KEYS.slice(number % 7, 1), "s0": pa.array([number], pa.int64())})
        savepoint = savepoint.update_state("op", "s0", rows)
    written = savepoint.write(tmp_path / "new").keyed_state("op").rows()
    found = {row["key"]: (row["s0"], row["s1"]) for row in written}
    last = {number % 7: number for number in range(500)}
    assert found == {key: (last.get(key, key), key) for key in range(10)}


def test_keys_that_are_removed_one_by_one(tmp_path: Path) -> None:
    """Between updates, which may write them again."""
    savepoint = base(tmp_path / "base", 2)
    for number in range(400):
        savepoint = savepoint.remove_keys("op", [number % 8])
        if number == 396:
            savepoint = savepoint.update_state("op", "s0", ONE)
    written = savepoint.write(tmp_path / "new").keyed_state("op").rows()
    assert {row["key"]: (row["s0"], row["s1"]) for row in written} == {3: (7, None), 8: (8, 8), 9: (9, 9)}


def test_an_operator_can_be_renamed_to_one_that_moves_away(tmp_path: Path) -> None:
    """Two names are swapped: the operator that had the name from the beginning is found first."""
    savepoint = base(tmp_path / "base", 2)
    swapped = savepoint.change_operator_identifier("o0", "o1").change_operator_identifier("o1", "o0")
    assert {row["operator_uid"] for row in swapped.write(tmp_path / "new").metadata().rows()} == {"op", "o0", "o1"}
