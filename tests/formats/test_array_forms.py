"""Kernels in calls of numpy do what the kernels do: the same results, the same arrays afterwards."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from pyspark_savepoint.formats.kernels import frames, keys, numbers, sort, walk
from pyspark_savepoint.formats.kernels.array_forms import FORMS
from pyspark_savepoint.formats.kernels.interpretation import as_compiled, counted, python_form

KERNELS = {
    kernel.__name__: kernel
    for kernel in (
        frames.frame_sizes, frames.put_frames, keys.first_repeated_span, keys.key_groups, numbers.write_fixed,
        sort.common_prefix, sort.common_zero, sort.group_bounds, sort.scatter_words, sort.sort_groups,
        sort.sorted_offsets, sort.sorted_spans, walk.find_key_group_runs,
    )
}  # fmt: skip


def both(name: str, *arguments: Any, out: tuple[int, ...] = (), kept: tuple[int, ...] = ()) -> tuple[Any, list[Any]]:
    """Call the form and the kernel; expect the same, and return its result and the arrays that it wrote.

    Arrays ``kept`` are returned besides, and may differ.
    """
    copies = [[one.copy() if isinstance(one, np.ndarray) else one for one in arguments] for _ in range(2)]
    with counted(1 << 40), np.errstate(all="ignore"):
        expected = as_compiled(python_form(KERNELS[name].py_func)(*copies[0]))
        found = FORMS[name](*copies[1])
    assert found is not NotImplemented, name
    assert as_compiled(found) == expected, name
    for at in out:
        np.testing.assert_array_equal(copies[1][at], copies[0][at], f"{name}, argument {at}")
    return expected, [copies[1][at] for at in (*out, *kept)]


def test_every_form_is_tested() -> None:
    assert FORMS.keys() == KERNELS.keys()


SPANS = {
    "LONG": lambda chance: chance.randrange(300).to_bytes(8, "big"),
    "text": lambda chance: b"user-" + str(chance.randrange(400)).encode() + b"\0" * chance.randrange(2),
    "long text": lambda chance: b"a long beginning " + chance.choice([b"", b"x" * 30, b"x" * 30 + b"y", b"y"]),
    "zero at the end": lambda chance: chance.randbytes(chance.randrange(12)) + b"\0",
    "empty": lambda chance: b"",
}


@pytest.mark.parametrize("rows", [0, 1, 700])
@pytest.mark.parametrize("kind", SPANS)
@pytest.mark.parametrize("prefix", [1, 2])
def test_a_write(kind: str, rows: int, prefix: int) -> None:
    chance = random.Random(f"{kind} {rows} {prefix}")
    spans = [SPANS[kind](chance) for _ in range(rows)]
    data = np.frombuffer(b"".join(spans), np.uint8).copy()
    end = np.cumsum([len(span) for span in spans], dtype=np.int64)
    start = end - np.array([len(span) for span in spans], np.int64)
    hashes = np.array([chance.randrange(-(1 << 31), 1 << 31) for _ in range(rows)], np.int32)
    _, (group,) = both("key_groups", hashes, 7, np.empty(rows, np.int32), out=(2,))
    _, (bounds,) = both("group_bounds", group, np.empty(8, np.int64), out=(1,))

    zero, _ = both("common_zero", data, start, end)
    end -= zero if rows else 0
    skip, _ = both("common_prefix", data, start, end)
    words, order = np.zeros(rows, np.uint64), np.zeros(rows, np.int32)
    _, (_, words, order) = both(
        "scatter_words", group, bounds[:-1].copy(), data, start, end, skip, words, order, out=(1, 6, 7)
    )
    room = np.zeros(rows, np.uint64), np.zeros(rows, np.int32), np.zeros(sort.BUCKETS + 1, np.int64)
    more = np.zeros((rows, 3), np.int64), np.zeros(64, np.int64), np.zeros(64, np.int64)
    _, (order, words) = both(
        "sort_groups", data, start, end, bounds, skip, words, order, *room, *more, out=(6,), kept=(5,)
    )
    ascending = [(int(group[row]), bytes(data[start[row] : end[row]]), row) for row in order.tolist()]
    assert ascending == sorted(ascending)

    _, (offsets,) = both("sorted_offsets", start, end, words, order, skip, zero, np.zeros(rows + 1, np.int64), out=(6,))
    if rows:
        out = np.zeros(int(offsets[-1]), np.uint8)
        both("sorted_spans", data, start, end, words, order, skip, zero, offsets, out, out=(8,))
    group, start, end = group[order], start[order], end[order]
    both("first_repeated_span", group, data, start, end)

    values = np.arange(rows, dtype=np.int64) % 5
    _, (_, sizes) = both(
        "frame_sizes", bounds, start, end, values, values + 3, 8 + prefix, np.zeros(7, np.int64), out=(0, 6)
    )
    used = np.flatnonzero(sizes)
    at = np.cumsum(sizes) - sizes + 5
    stream = np.zeros(int(sizes.sum()) + 10, np.uint8)
    content = np.arange(20, dtype=np.uint8)
    both(
        "put_frames", stream, at, at + sizes, bounds, np.arange(7), prefix, data, start, end, content, values,
        values + 3, np.zeros(7, np.int64), out=(0, 12),
    )  # fmt: skip
    assert used.size or not rows


@pytest.mark.parametrize("width", [1, 2, 4, 8])
def test_numbers(width: int) -> None:
    values = np.array([0, -1, 1 << 62, -(1 << 63), 258], np.int64)
    both("write_fixed", np.zeros(60, np.uint8), np.array([0, 11, 20, 48, 33]), values, width, out=(0, 1))


@pytest.mark.parametrize("prefix", [1, 2])
def test_runs_of_key_groups(prefix: int) -> None:
    chance, content, ends, key_groups = random.Random(prefix), bytearray(), [], [3, 5, 100]
    for key_group in key_groups:
        for state in sorted(chance.sample(range(4), chance.randrange(1, 4))):
            content += state.to_bytes(2, "big")
            count = chance.randrange(1, 90)
            for entry in range(count):
                key = bytearray(key_group.to_bytes(prefix, "big") + bytes(8 if entry % 9 else 9))
                key[0] |= 0x80 if entry == count - 1 else 0
                content += len(key).to_bytes(4, "big") + key + (3).to_bytes(4, "big") + b"\x80bc"
        content += b"\xff\xff"
        ends.append(len(content))
    buf, column_of = np.frombuffer(content, np.uint8).copy(), np.array([1, -1, 0, 2])
    arrays = np.array(ends), np.array(key_groups), prefix, column_of
    room = np.zeros((12, 4), np.int64), np.zeros(4, np.int64), np.zeros((4, 4), np.int64)

    entries, _ = both("find_key_group_runs", buf, *arrays, *room, out=(0, 5, 6))

    assert entries > 0
    damaged = buf.copy()
    damaged[3] = 0x7F
    assert FORMS["find_key_group_runs"](damaged, *arrays, *room) is NotImplemented
    assert damaged[3] == 0x7F
    assert FORMS["find_key_group_runs"](buf[:-1].copy(), np.array([*ends[:-1], len(buf) - 1]), *arrays[1:], *room) is (
        NotImplemented
    )
