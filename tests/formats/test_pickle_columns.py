"""Pickles of a column that are read together: they give what the walker gives for each of them."""

from __future__ import annotations

import datetime
import pickle
import random
import time
from typing import Any

import pyarrow as pa
import pytest

from pyspark_savepoint.formats import pickle_columns, pickle_walker
from pyspark_savepoint.formats.pickle_columns import read_together
from pyspark_savepoint.formats.pickle_walker import decode_pickled_or_binary, decode_pyflink

#: Opcodes that the kernel knows, with what may follow them, and some that it leaves to the walker.
OPCODES = [
    *(b"N", b"\x88", b"\x89", b"K\xff", b"K\x01", b"M\xff\xff", b"J\xff\xff\xff\xff", b"\x8a\x00", b"\x8a\x01\x80"),
    *(b"\x8a\x08" + b"\xff" * 8, b"\x8a\x09" + b"\x01" * 9, b"G?\xf0" + b"\0" * 6, b"\x8c\x01a", b"\x8c\x02\xc3\xa9"),
    *(b"\x8c\x01b", b"\x8c\x03\xed\xa0\x80", b"\x8c\x01\xff", b"X\x01\0\0\0a", b"C\x01\xff", b"B\0\0\0\0", b"(", b"}"),
    *(b"]", b")", b"\x8f", b"a", b"e", b"\x90", b"s", b"u", b"\x85", b"\x86", b"\x87", b"t", b"\x94", b"q\0", b"q\1"),
    *(b"h\0", b"h\1", b"r\2\0\0\0", b"j\2\0\0\0", b"0", b"1", b"d", b"l", b"\x95" + b"\1" + b"\0" * 7, b"\x80\4"),
]


def value(chosen: random.Random, depth: int = 0) -> Any:
    """A value of what pickles of users hold."""
    kind = chosen.randrange(16 if depth < 5 else 9)
    if kind < 2:
        return None if kind == 0 else chosen.random() < 0.5
    if kind < 4:
        return chosen.choice([0, -1, 255, 256, 65536, 2**31, -(2**31), 2**63 - 1, -(2**63), 2**63, 10**30])
    if kind < 6:
        return chosen.choice(["", "a", "é", "\U0001f600", "\ud800", "x" * 70, f"k{chosen.randrange(9)}"])
    if kind < 9:
        return chosen.choice([b"", b"abc" * 50, chosen.random(), float("nan"), datetime.date(2020, 1, 1), "same"])
    if kind < 11:
        return {f"k{chosen.randrange(30)}": value(chosen, depth + 1) for _ in range(chosen.randrange(5))}
    if kind == 11:
        keys = [1, 2, "a", None, True, (1, 2), 2.5]
        return {chosen.choice(keys): value(chosen, depth + 1) for _ in range(chosen.randrange(4))}
    if kind < 14:
        elements = [value(chosen, depth + 1) for _ in range(chosen.randrange(6))]
        return tuple(elements) if kind == 12 else elements
    if kind == 14:
        return chosen.choice([{1, 2}, frozenset(["a"]), set()])
    again = value(chosen, depth + 1)
    return [again, again]


def written(chosen: random.Random) -> bytes:
    """A pickle as CPython writes it, perhaps with one byte that is another."""
    data = bytearray(pickle.dumps(value(chosen), chosen.choice([0, 2, 3, 4, 5, 5])))
    if chosen.random() < 0.3:
        data[chosen.randrange(len(data))] = chosen.choice([0, 1, 40, 46, 0x85, 0x90, 0x94, 97, 101, 115, 117, 255])
    return bytes(data)


def program(chosen: random.Random) -> bytes:
    """Opcodes in any order, which CPython would not write; some of them are a pickle."""
    opcodes = b"".join(chosen.choice(OPCODES) for _ in range(chosen.randrange(14)))
    return b"\x80\4(" + opcodes + chosen.choice([b"t.", b"\x85.", b".", b"t"])


def row(chosen: random.Random) -> bytes | None:
    if chosen.random() < 0.03:
        return None
    data = written(chosen) if chosen.random() < 0.5 else program(chosen)
    return len(data).to_bytes(4, "big") + data if chosen.random() < 0.4 else data


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("decode", [decode_pyflink, decode_pickled_or_binary])
def test_rows_read_together_are_those_of_the_walker(decode: Any, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = random.Random(seed)
    column = pa.array([row(chosen) for _ in range(4000)], pa.binary())
    found = decode(column)
    with monkeypatch.context() as patch:
        patch.setattr(pickle_columns, "rows_one_by_one", lambda rows: iter([slice(0, 3), slice(3, rows // 2)]))
        assert found.equals(decode(column))
    monkeypatch.setattr(pickle_walker, "MANY", len(column) + 1)
    assert found.equals(decode(column))


def test_plain_pickles_are_read_together() -> None:
    rows = [pickle.dumps({"user": f"u-{at}", "count": at, "tags": ("a", ["é"], 2.5, None)}) for at in range(100)]
    together, variants = read_together(pa.array([*rows, None, pickle.dumps(datetime.date(2020, 1, 1))]), False, 1 << 20)
    assert together.tolist() == [True] * 101 + [False]
    assert len(variants) == 101
    assert variants.null_count == 1


def test_a_slice_is_read_as_its_rows() -> None:
    rows = [pickle.dumps([at, str(at)]) for at in range(200)]
    assert decode_pyflink(pa.array(rows)[100:]).equals(decode_pyflink(pa.array(rows[100:])))


def test_a_value_with_more_nodes_than_the_first_room() -> None:
    rows = [pickle.dumps(list(range(100_000)))] * 2 + [pickle.dumps("after")] * 40
    together, _ = read_together(pa.array(rows), False, 1 << 30)
    assert together.all()


@pytest.mark.parametrize(
    "unit",
    [b")", b"]\x94", b"\x8c\x01a\x94\x85", b"(" * 3, b"K\1\x85" * 2 + b"\x86", b"h\0", b"N0"],
    ids=["empty", "memo", "tuples", "marks", "nested", "again", "popped"],
)
def test_time_follows_bytes(unit: bytes) -> None:
    def seconds(size: int) -> float:
        row = b"\x80\4(\x8c\x01a\x94" + unit * (1500 // len(unit)) + b"t."
        column = pa.array([row] * (size // len(row)), pa.binary())
        best = 60.0
        for _ in range(2):
            before = time.process_time()
            read_together(column, False, 1 << 30)
            best = min(best, time.process_time() - before)
        return best

    seconds(100_000)
    assert seconds(4_000_000) < 12 * seconds(1_000_000) + 0.5
    assert seconds(4_000_000) < 4
