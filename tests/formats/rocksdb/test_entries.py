"""The current values of keys with many versions, compared with a model."""

from __future__ import annotations

from itertools import groupby

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_savepoint.formats.errors import CorruptStateError, UnsupportedStateError
from pyspark_savepoint.formats.rocksdb.entries import DatabaseEntries, DeletedRanges, resolve
from pyspark_savepoint.formats.rocksdb.sst import RangeTombstone
from tests.formats.rocksdb.rocksdb_files import Pairs, pairs_of

Version = tuple[bytes, int, int, bytes]
DELETE, PUT, MERGE, SINGLE_DELETE = 0, 1, 2, 7
KEYS = st.binary(min_size=1, max_size=3).map(lambda data: bytes(byte % 3 for byte in data))
VERSIONS = st.lists(st.tuples(KEYS, st.sampled_from([DELETE, PUT, MERGE, MERGE, SINGLE_DELETE])), max_size=40)
NOTHING = DeletedRanges.of([])


def run_of(versions: list[Version]) -> DatabaseEntries:
    """(key, sequence, type, value) as a sorted run."""
    ordered = sorted(versions, key=lambda version: (version[0], -version[1]))
    parts = [part for key, _, _, value in ordered for part in (key, value)]
    end = np.cumsum([len(part) for part in parts], dtype=np.int64)
    start = end - [len(part) for part in parts]
    tag = np.array([sequence << 8 | kind for _, sequence, kind, _ in ordered], np.int64)
    buffer = np.frombuffer(bytearray(b"".join(parts)), np.uint8)
    return DatabaseEntries(buffer, start[::2], end[::2], start[1::2], end[1::2], tag)


def model(versions: list[Version], ranges: list[RangeTombstone]) -> Pairs:
    """The values of all keys by the rules, one key after the other."""
    left = []
    for key, of_key in groupby(sorted(versions, key=lambda version: (version[0], -version[1])), lambda each: each[0]):
        below = max((each.sequence for each in ranges if each.start <= key < each.end), default=0)
        parts: list[bytes] = []
        for _, sequence, kind, value in of_key:
            if sequence < below or kind in (DELETE, SINGLE_DELETE):
                break
            parts.insert(0, value)
            if kind == PUT:
                break
        if parts:
            left.append((key, b",".join(parts)))
    return left


@given(VERSIONS, st.lists(st.tuples(KEYS, KEYS), max_size=4), st.integers(1, 5), st.randoms(use_true_random=False))
def test_versions_in_runs(
    written: list[tuple[bytes, int]], deleted: list[tuple[bytes, bytes]], number: int, random: object
) -> None:
    versions = [(key, 2 * i + 1, kind, b"v%d" % i) for i, (key, kind) in enumerate(written)]
    ranges = [
        RangeTombstone(min(bounds), max(bounds), 2 * random.randint(0, len(written)))  # type: ignore[attr-defined]
        for bounds in deleted
        if bounds[0] != bounds[1]
    ]
    runs: list[list[Version]] = [[] for _ in range(number)]
    for version in versions:
        random.choice(runs).append(version)  # type: ignore[attr-defined]
    present = [run_of(run) for run in runs if run]

    if present:
        assert pairs_of(resolve(present, DeletedRanges.of(ranges), "db")) == model(versions, ranges)


def test_parts_of_lists_are_joined_oldest_first() -> None:
    newer = run_of([(b"k", 9, MERGE, b"d"), (b"k", 7, MERGE, b"c"), (b"l", 8, MERGE, b"x")])
    older = run_of([(b"k", 4, MERGE, b"b"), (b"k", 2, PUT, b"a"), (b"k", 1, PUT, b"gone"), (b"l", 3, DELETE, b"")])

    assert pairs_of(resolve([older, newer], NOTHING, "db")) == [(b"k", b"a,b,c,d"), (b"l", b"x")]


def test_a_part_without_bytes_is_a_part() -> None:
    run = run_of([(b"k", 3, MERGE, b""), (b"k", 2, MERGE, b"a"), (b"k", 1, PUT, b"")])

    assert pairs_of(resolve([run], NOTHING, "db")) == [(b"k", b",a,")]


def test_overlapping_ranges_count_where_they_are_newest() -> None:
    ranges = [RangeTombstone(b"b", b"f", 5), RangeTombstone(b"d", b"h", 3), RangeTombstone(b"a", b"c", 9)]

    found = DeletedRanges.of(ranges)

    assert list(zip(found.bounds, found.below, strict=True)) == [
        (b"a", 9),
        (b"b", 9),
        (b"c", 5),
        (b"d", 5),
        (b"f", 3),
        (b"h", 0),
    ]


def test_entries_out_of_order_are_damage() -> None:
    run = run_of([(b"a", 1, PUT, b""), (b"b", 2, PUT, b"")])
    backwards = DatabaseEntries(
        run.buffer, run.key_start[::-1].copy(), run.key_end[::-1].copy(), run.value_start, run.value_end, run.tag
    )

    with pytest.raises(CorruptStateError):
        resolve([backwards], NOTHING, "db")


@pytest.mark.parametrize("kind", [3, 15, 17, 22, 255])
def test_other_types_are_refused(kind: int) -> None:
    with pytest.raises(UnsupportedStateError, match="kind that Flink does not write") as raised:
        resolve([run_of([(b"a", 1, kind, b"")])], NOTHING, "db")
    assert raised.value.facts["found"] == f"type {kind}"
