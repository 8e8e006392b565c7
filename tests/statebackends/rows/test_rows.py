"""Rows of keyed tables equal those of a dictionary, whatever the order of entries, the format and the memory."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyspark_savepoint.formats.columns import Origin
from pyspark_savepoint.formats.errors import CorruptStateError
from pyspark_savepoint.formats.keyed.keyed_block import CANONICAL, KeyedBlock, Runs
from pyspark_savepoint.statebackends.rows.rows import join
from tests.statebackends.keyed_models import KEYED, Model, by_key, expected, models, write

LARGE, SMALL = 1 << 23, 80
TABLES = (KEYED, ("total",), ("total", "name"), ("items",), ("by_name", "total"), ("sums",))
tables = st.sampled_from(TABLES)
orders = st.none() | st.randoms(use_true_random=False)


@settings(deadline=None)
@given(models, tables, orders, st.booleans(), st.sampled_from([LARGE, SMALL, 500]), st.sampled_from([1000, 3]))
def test_rows_of_the_full_format(
    model: Model, states: tuple[str, ...], order: random.Random | None, compressed: bool, window: int, rows: int
) -> None:
    written = write(model, heap=False, compressed=compressed, shuffle=order)

    assert by_key(written.rows(states, window, rows)) == expected(model, states)


@settings(deadline=None)
@given(models, tables, orders, st.booleans(), st.sampled_from([LARGE, SMALL, 500]), st.sampled_from([1000, 3]))
def test_rows_of_the_heap_format(
    model: Model, states: tuple[str, ...], order: random.Random | None, compressed: bool, window: int, rows: int
) -> None:
    written = write(model, heap=True, compressed=compressed, shuffle=order)

    assert by_key(written.rows(states, window, rows)) == expected(model, states)


@settings(deadline=None, max_examples=30)
@given(models, st.integers(0, 3))
def test_one_key_group_of_either_format_is_told_apart(model: Model, state: int) -> None:
    states = (KEYED[state],)
    for heap in (False, True):
        written = write(model, heap=heap, max_parallelism=1)

        assert by_key(written.rows(states, LARGE)) == expected(model, states)


keys = st.binary(max_size=9) | st.integers(0, 5).map(lambda number: number.to_bytes(12, "big"))
runs = st.lists(st.lists(keys, unique=True, min_size=1, max_size=8), min_size=1, max_size=4)


def block_of(groups: list[list[list[bytes]]]) -> KeyedBlock:
    """Entries whose spans are the given bytes: key groups of runs."""
    flat = [key for group in groups for run in group for key in run]
    state = np.array([i for group in groups for i, run in enumerate(group) for _ in run], np.int32)
    ends = np.cumsum([len(key) for key in flat], dtype=np.int64)
    starts = ends - np.array([len(key) for key in flat], np.int64)
    buffer = np.frombuffer(bytearray(b"".join(flat)), np.uint8)
    key_group = np.repeat(np.arange(len(groups)), [sum(map(len, group)) for group in groups]).astype(np.int32)
    bounds = np.array([0, *np.cumsum([sum(map(len, group)) for group in groups]).tolist()])
    runs = Runs.of(state, np.arange(len(groups), dtype=np.int32), bounds)
    return KeyedBlock(
        CANONICAL, (), buffer, Origin(), state, key_group,
        starts, ends, starts, ends, starts, ends, starts, ends, starts, ends, runs,
    )  # fmt: skip


@pytest.mark.parametrize("order", ["sorted", "same", "any"])
@given(data=st.data())
@settings(deadline=None, max_examples=60)
def test_every_way_to_join_numbers_keys_alike(order: str, data: st.DataObject) -> None:
    groups = data.draw(st.lists(runs, min_size=1, max_size=3))
    if order == "sorted":  # merged
        groups = [[sorted(run) for run in group] for group in groups]
    if order == "same":  # side by side
        groups = [[sorted(group[0])] * len(group) for group in groups]
    block = block_of(groups)

    rows = join(block)

    numbers: dict[tuple[int, bytes], int] = {}
    entries = [(i, key) for i, group in enumerate(groups) for run in group for key in run]
    for entry, row in zip(entries, rows.row_of.tolist(), strict=True):
        assert numbers.setdefault(entry, row) == row
    assert sorted(numbers.values()) == list(range(len(rows)))
    first = [entries[i] for i in rows.first.tolist()]
    assert [numbers[entry] for entry in first] == list(range(len(rows)))
    if order == "sorted":
        assert first == sorted(first)


def test_a_key_that_a_state_has_twice_is_refused() -> None:
    block = block_of([[[b"a", b"b"], [b"b", b"a"]]])
    block.state[:] = 0
    one, two = np.array([0, 2]), np.array([2, 4])
    block.runs = Runs(np.zeros(1, np.int32), one, one, two)
    block.states = (_Named(),)  # type: ignore[assignment]

    with pytest.raises(CorruptStateError, match="a key has two values") as raised:
        join(block).single_entries(0)
    assert raised.value.facts["state"] == "twice"


class _Named:
    name = "twice"
