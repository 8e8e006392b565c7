"""Key groups: the hash's vectors, and the ranges of subtasks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_savepoint.formats.data_view import DataInputView, DataOutputView
from pyspark_savepoint.formats.errors import CorruptStateError, OptionError
from pyspark_savepoint.formats.java import string_hash
from pyspark_savepoint.formats.metadata.key_groups import (
    EMPTY_KEY_GROUP_RANGE,
    KeyGroupRange,
    KeyGroupRangeOffsets,
    default_max_parallelism,
    key_group_for_hash,
    operator_index_for_key_group,
    range_for_operator_index,
)
from tests.formats.metadata.metadata_strategies import key_group_ranges, offsets


def test_hash_vectors() -> None:
    assert key_group_for_hash(string_hash("hello"), 128) == 35
    assert key_group_for_hash(42, 128) == 29
    assert key_group_for_hash(42, 32768) == 28189


def test_keys_of_real_jobs_are_in_the_key_groups_that_flink_put_them_in(corpus: Path) -> None:
    expected = json.loads((corpus / "lab/2.2.1-rocksdb-canonical-maxp1000/expected.json").read_text())
    checked = 0
    for operator in expected["operators"]:
        if operator.get("keyType") == "STRING":
            for key, key_group in operator["keyGroups"]:
                assert key_group_for_hash(string_hash(key), 1000) == key_group
                checked += 1
    assert checked > 50


@given(st.integers(-(1 << 31), (1 << 31) - 1), st.integers(1, 32768))
def test_every_hash_has_a_key_group(java_hash: int, max_parallelism: int) -> None:
    assert 0 <= key_group_for_hash(java_hash, max_parallelism) < max_parallelism


@given(st.integers(1, 600), st.data())
def test_ranges_of_subtasks_partition_the_key_groups(max_parallelism: int, data: st.DataObject) -> None:
    parallelism = data.draw(st.integers(1, max_parallelism))
    ranges = [range_for_operator_index(max_parallelism, parallelism, i) for i in range(parallelism)]
    assert [key_group for owned in ranges for key_group in owned] == list(range(max_parallelism))
    for index, owned in enumerate(ranges):
        assert {operator_index_for_key_group(max_parallelism, parallelism, g) for g in owned} == {index}


@pytest.mark.parametrize(("parallelism", "expected"), [(1, 128), (85, 128), (86, 256), (21845, 32768), (32768, 32768)])
def test_default_max_parallelism(parallelism: int, expected: int) -> None:
    assert default_max_parallelism(parallelism) == expected


@pytest.mark.parametrize("parallelism", [0, -1, 32769])
def test_impossible_parallelism_is_an_option_error(parallelism: int) -> None:
    with pytest.raises(OptionError):
        default_max_parallelism(parallelism)


@given(key_group_ranges(), key_group_ranges())
def test_intersection_is_that_of_sets(one: KeyGroupRange, other: KeyGroupRange) -> None:
    both = one.intersection(other)
    assert set(both) == set(one) & set(other)
    assert both or both == EMPTY_KEY_GROUP_RANGE
    assert all(key_group in one and key_group in other for key_group in both)


@given(offsets(), key_group_ranges())
def test_offsets_keep_their_key_groups_when_cut_and_written(given_: KeyGroupRangeOffsets, cut: KeyGroupRange) -> None:
    assert dict(given_.intersection(cut)) == {g: offset for g, offset in given_ if g in cut}
    out = DataOutputView()
    given_.write(out)
    view = DataInputView(out.getvalue())
    assert KeyGroupRangeOffsets.read(view) == given_
    view.expect_end("offsets")


@pytest.mark.parametrize(("start", "count"), [(-1, 1), (0, -1), (32768, 1), (0, 32769), (5, 2**31 - 1)])
def test_ranges_beyond_the_bounds_are_refused(start: int, count: int) -> None:
    out = DataOutputView()
    out.write_i32(start)
    out.write_i32(count)
    with pytest.raises(CorruptStateError):
        KeyGroupRange.read(DataInputView(out.getvalue()))
