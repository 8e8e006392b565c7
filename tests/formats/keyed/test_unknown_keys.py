"""Ends of keys that only the job's own serializer knows: the one place from which the rest parses, or none."""

from __future__ import annotations

import numpy as np
import pytest

from pyspark_savepoint.formats.columns import Cursors
from pyspark_savepoint.formats.errors import CorruptStateError
from pyspark_savepoint.formats.keyed.unknown_keys import skip_unknown_keys
from tests.statebackends.keyed_models import LONG, STRING, VOID


def cursors(*rows: bytes) -> Cursors:
    end = np.cumsum([len(row) for row in rows]).astype(np.int64)
    start = end - np.array([len(row) for row in rows], np.int64)
    return Cursors(np.frombuffer(bytearray(b"".join(rows)), np.uint8), start, end)


def keys(*rows: bytes) -> list[bytes] | None:
    at = cursors(*rows)
    start = at.position.tolist()
    if not skip_unknown_keys(at, [VOID, STRING]):
        return None
    return [at.buffer[a:b].tobytes() for a, b in zip(start, at.position.tolist(), strict=True)]


def test_a_key_ends_where_the_rest_parses_to_the_end() -> None:
    assert keys(b"key\0\4abc", b"\0\0\0\3ab", b"\0\0\1") == [b"key", b"\0\0", b"\0"]


def test_other_rows_tell_where_a_key_ends() -> None:
    ambiguous = b"ab\0\3\0\1"  # behind `ab` a text of two letters, behind `ab 00 03` an empty one
    assert keys(ambiguous) is None
    assert keys(ambiguous, b"ab\0\2z") == [b"ab", b"ab"]


def test_a_row_without_such_a_place_is_damaged() -> None:
    with pytest.raises(CorruptStateError, match="a key"):
        keys(b"key\0\4abc", b"key\0\4ab")
    with pytest.raises(CorruptStateError, match="a key"):
        skip_unknown_keys(cursors(b"\0" * 8), [VOID, LONG])


def test_work_is_bounded_by_the_bytes() -> None:
    # Each of many places begins a text that reaches nearly to the end.
    head = b"".join(b"\0" + bytes([0x80 | n & 0x7F, 0x40]) for n in range(4000))
    assert keys(head + b"a" * 20_000) is None
