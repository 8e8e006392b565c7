"""Kernels in calls of numpy do what the kernels do: the same results, the same arrays afterwards."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pyspark_savepoint.formats.kernels import frames, keys, numbers, skip, sort, sst, strings, walk
from pyspark_savepoint.formats.kernels.interpretation import FORMS, as_compiled, counted, python_form
from pyspark_savepoint.formats.serializers.layout import program
from pyspark_savepoint.formats.serializers.notation.notation import parse_type
from pyspark_savepoint.formats.serializers.registry import read_serializer

KERNELS = {
    kernel.__name__: kernel
    for kernel in (
        frames.frame_sizes, frames.put_frames, keys.first_repeated_span, keys.key_groups, numbers.write_fixed,
        sort.common_prefix, sort.common_zero, sort.group_bounds, sort.scatter_words, sort.sort_groups,
        sort.sorted_offsets, sort.sorted_spans, walk.find_key_group_runs, numbers.read_i8, numbers.read_i16,
        numbers.read_i32, numbers.read_i64, numbers.read_flags, numbers.read_varints, skip.count_until_end,
        strings.string_sizes, strings.write_strings, strings.java_string_hash, strings.read_strings,
        walk.merge_key_groups, walk.hash_runs, sst.decode_blocks, sst.prefix_numbers, sst.resolve, sst.join_values,
        frames.zip_rows, frames.split_key_groups, frames.order_of_runs, frames.merge_rows, frames.hash_rows,
        frames.join_spans, numbers.copy_spans, skip.skip_rows, skip.locate_rows,
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


@pytest.mark.parametrize("prefix", [1, 2])
def test_entries_of_key_groups(prefix: int) -> None:
    chance, content, ends, key_groups = random.Random(prefix), bytearray(), [], [3, 5, 100]
    for key_group in key_groups:
        for state in chance.sample(range(4), chance.randrange(4)):
            content += state.to_bytes(2, "big")
            count = chance.randrange(1, 40)
            for entry in range(count):
                key = bytearray(key_group.to_bytes(prefix, "big") + chance.randbytes(chance.randrange(9)))
                key[0] |= 0x80 if entry == count - 1 else 0
                value = chance.randbytes(chance.randrange(5))
                content += len(key).to_bytes(4, "big") + key + len(value).to_bytes(4, "big") + value
        content += b"\xff\xff"
        ends.append(len(content))
    buf = np.frombuffer(content, np.uint8).copy()
    room = [*(np.full(200, -7) for _ in range(4)), np.full(200, -7, np.int32), np.zeros(4, np.int64)]
    arguments = np.array(ends), np.array(key_groups), prefix, 4

    both("split_key_groups", buf, *arguments, *room, out=(0, 5, 6, 7, 8, 9, 10))

    form, kernel = FORMS["split_key_groups"], python_form(KERNELS["split_key_groups"].py_func)
    for cut in range(0, len(content), 7):
        damaged = buf.copy()
        damaged[cut] ^= chance.randrange(1, 256)
        copies = [[one.copy() for one in (damaged, *room)] for _ in range(2)]
        with counted(1 << 40), np.errstate(all="ignore"):
            right = as_compiled(kernel(copies[0][0], *arguments, *copies[0][1:]))
        found = form(copies[1][0], *arguments, *copies[1][1:])
        if found is NotImplemented:
            for one, other in zip(copies[1], (damaged, *room), strict=True):
                np.testing.assert_array_equal(one, other)
        else:
            assert found == right
            for one, other in zip(*copies, strict=True):
                np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("kind", SPANS)
def test_rows_are_joined(kind: str) -> None:
    chance = random.Random(kind)
    runs = [[SPANS[kind](chance) for _ in range(chance.randrange(60))] for _ in range(4)]
    for order in ("ascending", "unique", "any"):
        if order != "any":
            runs = [sorted(set(run) if order == "unique" else run) for run in runs]
        spans = [span for run in runs for span in run]
        data = np.frombuffer(b"".join(spans) + bytes(8), np.uint8).copy()
        end = np.cumsum([len(span) for span in spans], dtype=np.int64)
        start = end - np.array([len(span) for span in spans], np.int64)
        high = np.cumsum([len(run) for run in runs], dtype=np.int64)
        low = high - np.array([len(run) for run in runs], np.int64)
        _, (orders,) = both("order_of_runs", data, start, end, low, high, np.full(4, -1, np.int64), out=(5,))
        room = np.full(len(spans), -1, np.int32), np.full(len(spans) + 5, -1, np.int64)
        if orders.min() > frames.UNSORTED:
            rows, (_, row_of, first) = both("merge_rows", data, start, end, low, high, 5, *room, out=(3, 6, 7))
            keys = [bytes(data[start[entry] : end[entry]]) for entry in first[5:rows].tolist()]
            assert keys == sorted(set(spans))
            assert [keys[row - 5] for row in row_of.tolist()] == spans
        elif kind != "empty":
            assert FORMS["merge_rows"](data, start, end, low.copy(), high, 5, *room) is NotImplemented
        secret = np.arange(1, 9, dtype=np.uint64)
        rows, _ = both("hash_rows", data, start, end, low, high, 5, *room, np.zeros(1024, np.int32), secret, out=(6, 7))
        assert rows == 5 + len(set(spans))

        size = end - start
        offsets = np.append(0, np.cumsum(size))
        some = np.array([chance.randrange(len(spans)) for _ in spans], np.int64)
        places = np.append(0, np.cumsum(size[some]))
        both("copy_spans", data, start[some], places, np.zeros(int(places[-1]), np.uint8), out=(3,))
        joined = offsets + places
        both(
            "join_spans", data, start[some], end[some], data, start, end, joined, np.zeros(int(joined[-1]), np.uint8),
            out=(7,),
        )  # fmt: skip


def test_large_spans_are_copied() -> None:
    data = np.frombuffer(random.Random(1).randbytes(1 << 20), np.uint8)
    end = np.array([0, 5, 1 << 19, 1 << 20])
    start = np.array([0, 1, 7, 3])
    offsets = np.append(0, np.cumsum(end - start))
    both("copy_spans", data, start, offsets, np.zeros(int(offsets[-1]), np.uint8), out=(3,))


# -- values that follow one another --------------------------------------------------------------------------------


def zoo() -> dict[str, tuple[Any, list[bytes]]]:
    """Values that Flink wrote, and the serializers of nested types."""
    file = Path(__file__).parent / "serializers" / "composite_zoo.jsonl"
    cases = {}
    for line in file.read_text().splitlines():
        case = json.loads(line)
        values = [bytes.fromhex(value) for value in case.get("values", ())]
        if values:
            cases[case["name"]] = read_serializer(bytes.fromhex(case["snapshot"])), values
    texts = parse_type("TUPLE<STRING, LONG, LIST<STRING>, BIG_INTEGER>")
    number = b"\0\0\0\6\1\2"
    long = bytes([0x81, 0x01]) + b"x" * 128
    cases["texts"] = texts, [b"\0" + bytes(12) + number, long + bytes(11) + b"\2\1\xe9\1" + number]
    return cases


ZOO = zoo()


def same_or_left(name: str, *arguments: Any) -> bool:
    """Call the form and the kernel; return whether the form gave what the kernel does, False if it is for that."""
    copies = [[one.copy() if isinstance(one, np.ndarray) else one for one in arguments] for _ in range(2)]
    found = FORMS[name](*copies[1])
    expected = arguments
    if found is not NotImplemented:
        expected = copies[0]
        with counted(1 << 40), np.errstate(all="ignore"):
            assert as_compiled(python_form(KERNELS[name].py_func)(*copies[0])) == found
    for one, other in zip(copies[1], expected, strict=True):
        np.testing.assert_array_equal(one, other, name)
    return found is not NotImplemented


@pytest.mark.parametrize("case", ZOO)
def test_values_that_follow_one_another(case: str) -> None:
    serializer, values = ZOO[case]
    compiled, chance = program(serializer), random.Random(case)
    if not compiled.is_known:
        return
    layouts = (*compiled.tables, int(compiled.parts[0]))
    for gap in (0, 1):
        counts = [chance.randrange(4) for _ in range(20)]
        rows = [bytes(gap).join(chance.choice(values) for _ in range(count)) for count in counts]
        content = np.frombuffer(b"".join(rows) + bytes(3), np.uint8)
        end = np.cumsum([len(row) for row in rows], dtype=np.int64)
        pos = end - np.array([len(row) for row in rows], np.int64)
        for attempt in range(12):
            buf, stop = content.copy(), end.copy()
            if attempt % 2:
                buf[chance.randrange(len(buf))] = chance.randrange(256)
            if attempt > 6:
                stop[chance.randrange(len(stop))] -= chance.randrange(3)
            room = [np.full((1, sum(counts)), -7) for _ in range(2)]
            places = same_or_left("skip_rows", *layouts, buf, pos, stop)
            places &= same_or_left("count_until_end", *layouts, buf, pos, stop, gap, np.zeros(20, np.int64))
            places &= same_or_left(
                "locate_rows", *compiled.tables, compiled.parts, buf, pos, stop, np.array(counts), gap, *room
            )
            assert places or attempt or case in FOR_KERNELS, case


#: Nested types with subclasses, or masks of elements.
FOR_KERNELS: tuple[str, ...] = ()


# -- reads -----------------------------------------------------------------------------------------------------------

WORDS = {
    "ASCII": ["", "a", "user-17", "x" * 40],
    "of two and three bytes": ["", "Müller", "日本", "a", "ÿ߿ࠀ\uffff"],
    "with pairs": ["😀", "a😀b", "", "é"],
}


@pytest.mark.parametrize("extra", [0, 1])
@pytest.mark.parametrize("kind", WORDS)
def test_texts(kind: str, extra: int) -> None:
    chance = random.Random(kind)
    texts = [chance.choice(WORDS[kind]) for _ in range(90)]
    data = np.frombuffer("".join(texts).encode(), np.uint8).copy()
    offsets = np.append(0, np.cumsum([len(text.encode()) for text in texts]))
    valid = np.array([bool(row % 7) or not extra for row in range(len(texts))])
    both("java_string_hash", offsets, data, np.zeros(len(texts), np.int32), out=(2,))
    _, (units, sizes) = both(
        "string_sizes", offsets, data, extra, np.zeros(len(texts), np.int64), np.zeros(len(texts), np.int64), out=(3, 4)
    )
    sizes = np.where(valid, sizes, 1)
    pos = np.cumsum(sizes) - sizes
    _, (buf, end) = both(
        "write_strings", np.zeros(int(sizes.sum()), np.uint8), pos, offsets, data, extra, units, valid, out=(0, 1)
    )
    room = np.zeros(len(texts) + 1, np.int32), np.zeros(3 * len(buf), np.uint8), np.zeros(len(texts), np.bool_)
    (_, _, size), (_, out, present, _) = both("read_strings", buf, pos, end, extra, *room, 0, out=(4, 5, 6, 1))
    expected = [text if there else "" for text, there in zip(texts, valid.tolist(), strict=True)]
    assert out[:size].tobytes().decode() == "".join(expected)
    assert present.tolist() == valid.tolist()
    for cut in (len(buf) - 1, 3):
        end = np.minimum(end, cut)
        assert FORMS["read_strings"](buf, np.minimum(pos, cut), end, extra, *room, 0) is NotImplemented


@pytest.mark.parametrize("text", ["\U0010ffffd800", "\U0010ffff"])
def test_escaped_surrogates_are_for_kernels(text: str) -> None:
    data = np.frombuffer(text.encode(), np.uint8).copy()
    offsets, room = np.array([0, len(data)]), np.zeros(1, np.int64)
    assert FORMS["java_string_hash"](offsets, data, np.zeros(1, np.int32)) is NotImplemented
    assert FORMS["string_sizes"](offsets, data, 1, room, room.copy()) is NotImplemented


@pytest.mark.parametrize("units", [[0xD800], [0xDC00], [0xD83D, 97], [0xDBFF, 0xDFFF]])
def test_surrogates_alone_are_for_kernels(units: list[int]) -> None:
    buf = np.array(
        [len(units) + 1, *(part for unit in units for part in (unit & 127 | 128, unit >> 7 & 127 | 128, unit >> 14))],
        np.uint8,
    )
    room = np.zeros(2, np.int32), np.zeros(40, np.uint8), np.zeros(1, np.bool_)
    pos, end = np.zeros(1, np.int64), np.array([len(buf)])
    assert FORMS["read_strings"](buf, pos, end, 1, *room, 2) is NotImplemented
    assert not pos.any()


@pytest.mark.parametrize(
    ("name", "dtype"),
    [("read_i8", "u1"), ("read_i16", "u2"), ("read_i32", "u4"), ("read_i64", "i8"), ("read_varints", "i8")],
)
def test_numbers_are_read(name: str, dtype: str) -> None:
    buf = np.frombuffer(random.Random(1).randbytes(300), np.uint8) & 0xBF
    buf[4::9] &= 0x7F
    pos = np.arange(0, 270, 9)
    both(name, buf, pos, pos + 9, np.zeros(30, dtype), out=(1, 3))
    assert FORMS[name](np.full(9, 255, np.uint8), pos[:1], pos[:1], np.zeros(1, dtype)) is NotImplemented


def test_flags_are_read() -> None:
    pos = np.arange(4)
    buf = np.array([0, 1, 1, 0], np.uint8)
    both("read_flags", buf, pos, pos + 1, np.zeros(4, np.bool_), out=(1, 3))
    assert FORMS["read_flags"](buf + 1, pos, pos + 1, np.zeros(4, np.bool_)) is NotImplemented


@pytest.mark.parametrize("gap", [0, 1])
def test_elements_of_one_width_are_counted(gap: int) -> None:
    nodes, none = np.array([[skip.FIXED, 8, 0, 0, 0]]), np.zeros(0, np.int64)
    counts = np.array([0, 1, 5, 300])
    end = 7 + np.where(counts, counts * (8 + gap) - gap, 0)
    arguments = nodes, none, none.astype(np.uint8), 0, np.zeros(4000, np.uint8), np.full(4, 7)
    _, (found,) = both("count_until_end", *arguments, end, gap, np.zeros(4, np.int64), out=(8,))
    assert found.tolist() == counts.tolist()
    both("count_until_end", *arguments, end + 1, gap, np.zeros(4, np.int64), out=(5, 8))


def runs_of(chance: random.Random, kind: str, groups: int, ascending: int) -> tuple[Any, Any, Any]:
    """Return entries of some states in key groups, of which the first ones ascend: bytes, runs, and bounds of these."""
    content, runs, bounds = bytearray(), [], [0]
    for group in range(groups):
        keys = list(dict.fromkeys(SPANS[kind](chance) for _ in range(30)))
        for column in range(3):
            mine = [key for key in keys if column < 2 or chance.random() < 0.7]
            mine = sorted(mine) if group < ascending else chance.sample(mine, len(mine))
            start = len(content)
            for key in mine:
                value = chance.randbytes(4 if column else chance.randrange(9))
                content += (1 + len(key)).to_bytes(4, "big") + bytes([group]) + key
                content += len(value).to_bytes(4, "big") + value
            if mine and chance.random() < 0.9:
                runs.append((column, start, len(content), len(mine)))
        bounds.append(len(runs))
    return np.frombuffer(bytes(content), np.uint8).copy(), np.array(runs).reshape(-1, 4), np.array(bounds)


@pytest.mark.parametrize("kind", SPANS)
@pytest.mark.parametrize("ascending", [5, 2])
def test_rows_of_key_groups(kind: str, ascending: int) -> None:
    chance = random.Random(kind)
    buf, runs, bounds = runs_of(chance, kind, 5, ascending)
    room = int(runs[:, 3].sum())
    rows = [np.full(shape, -7) for shape in ((room,), (room,), (3, room), (3, room))]
    # Of a key group that does not ascend the kernel has written some rows; what ends a missing value is not said.
    some = (5, 6, 7) if ascending == 5 or kind == "empty" else ()
    unsorted, found = both(
        "merge_key_groups", buf, runs, bounds, 1, 0, *rows, np.zeros(len(bounds), np.int64), np.ones(3, np.bool_),
        np.zeros(12, np.int64), out=(9, *some), kept=(5, 6, 7, 8),
    )  # fmt: skip
    assert unsorted == (2 if not some else -1)
    count = int(found[0][unsorted])
    key_start, key_end, value_start, value_end = found[-4:]
    keys = [(buf[a - 1], bytes(buf[a:b])) for a, b in zip(key_start[:count], key_end[:count], strict=True)]
    assert keys == sorted(set(keys))
    for column in range(3):
        for a, b in zip(value_start[column, :count].tolist(), value_end[column, :count].tolist(), strict=True):
            assert a < 0 or int.from_bytes(buf[a - 4 : a].tobytes(), "big") == b - a
    part = runs[bounds[1] : bounds[2]]
    arguments = buf, part[:, 1].copy(), part[:, 2].copy(), part[:, 0].copy(), 1, 0, 4
    after, found = both(
        "hash_runs", *arguments, *rows, np.zeros(256, np.int32), np.arange(1, 9, dtype=np.uint64), out=(7, 8, 9, 10)
    )
    keys = [bytes(buf[a:b]) for a, b in zip(found[0][4:after], found[1][4:after], strict=True)]
    assert len(set(keys)) == len(keys) > 0


@pytest.mark.parametrize("width", [8, 30])
@pytest.mark.parametrize("restart", [1, 4, 16])
def test_blocks_of_rocksdb(width: int, restart: int) -> None:
    chance, content, start, end = random.Random(width + restart), bytearray(), [], []
    key = 0
    for _ in range(6):
        start.append(len(content))
        places, before = [], b""
        for entry in range(chance.randrange(1, 60)):
            key += chance.randrange(3)
            tag = (1000 - entry << 8 | chance.choice([0, 1, 1, 7])).to_bytes(8, "little")
            whole = key.to_bytes(width, "big") + tag
            value = chance.randbytes(chance.choice([4, 4, 150]))
            shared = 0
            if entry % restart:
                while shared < len(whole) and whole[shared] == before[shared]:
                    shared += 1
            else:
                places.append(len(content) - start[-1])
            head = bytes([shared, len(whole) - shared])
            size = bytes([len(value)]) if len(value) < 128 else bytes([len(value) & 127 | 128, len(value) >> 7])
            content += head + size + whole[shared:] + value
            before = whole
        content += b"".join(place.to_bytes(4, "little") for place in places) + len(places).to_bytes(4, "little")
        end.append(len(content))
    buf = np.concatenate([np.frombuffer(bytes(content), np.uint8), np.zeros(40_000, np.uint8)])
    room = [np.full(400, -7) for _ in range(5)]
    blocks = np.array(start), np.array(end)
    (_, n, stop), arrays = both("decode_blocks", buf, *blocks, 1, len(content), *room, out=(5, 6, 7, 8, 9), kept=(0,))
    key_start, key_end, value_start, value_end, tag, keys = arrays
    assert [bytes(keys[a:b]) for a, b in zip(key_start[:n], key_end[:n], strict=True)] == sorted(
        bytes(keys[a:b]) for a, b in zip(key_start[:n], key_end[:n], strict=True)
    )
    assert stop == len(content) + n * (width + 8)
    short = [each[:7] for each in room]
    both("decode_blocks", buf, *blocks, 1, len(content), *short)
    for damaged in (buf.copy() for _ in range(20)):
        damaged[chance.randrange(len(content))] ^= chance.randrange(1, 256)
        expected = [damaged.copy(), *blocks, 1, len(content), *(each.copy() for each in room)]
        found = FORMS["decode_blocks"](damaged.copy(), *blocks, 1, len(content), *room)
        with counted(1 << 40), np.errstate(all="ignore"):
            right = as_compiled(python_form(KERNELS["decode_blocks"].py_func)(*expected))
        assert found is NotImplemented or found == right

    spans = keys, key_start[:n], key_end[:n]
    both("prefix_numbers", *spans, 2, np.zeros(n, np.int64), out=(4,))
    both("prefix_numbers", *spans, width + 3, np.zeros(n, np.int64), out=(4,))
    newest = np.lexsort((-tag[:n], [bytes(keys[a:b]) for a, b in zip(key_start[:n], key_end[:n], strict=True)]))
    none = np.zeros(0, np.int64)
    values = value_start[:n], value_end[:n]
    (rows, _), (first, last) = both(
        "resolve", *spans, *values, tag[:n], newest, none, none, none, np.zeros(n, np.int64), np.zeros(n, np.int64),
        out=(10, 11),
    )  # fmt: skip
    assert 0 < rows < n
    both(
        "join_values", keys, *values, newest, first[:rows], last[:rows], 0, np.zeros(rows, np.int64),
        np.zeros(rows, np.int64), out=(7, 8),
    )  # fmt: skip
    assert FORMS["resolve"](*spans, *values, tag[:n], newest[::-1], none, none, none, first, last) is NotImplemented

    several = np.concatenate([key_start[:n]] * 2), np.concatenate([key_end[:n]] * 2)
    bounds = np.array([0, n]), np.array([n, 2 * n])
    room2 = np.full(2 * n, -1, np.int32), np.full(2 * n, -1)
    assert (
        both("zip_rows", keys, *several, *bounds, 3, *(np.full(2 * n + 3, -1, one.dtype) for one in room2), out=(6, 7))[
            0
        ]
        == 3 + n
    )
    several[0][n + 1] += 1
    assert both("zip_rows", keys, *several, *bounds, 0, *room2)[0] == -1
    assert both("zip_rows", keys, *several, bounds[0], np.array([n, 2 * n - 1]), 0, *room2)[0] == -1
