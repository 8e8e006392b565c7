"""RocksDB's numbers."""

from __future__ import annotations

import pytest

from pyspark_savepoint.formats.errors import CorruptStateError
from pyspark_savepoint.formats.rocksdb.block import Coding


def test_numbers_and_strings() -> None:
    view = Coding(bytes.fromhex("ac02 03 616263 01000000 ffffffff0f"), "f", 100)

    assert view.varint("n") == 300
    assert view.string("s") == b"abc"
    assert view.fixed(4, "n") == 1
    assert view.varint("n", 32) == 2**32 - 1
    view.expect_end("all")


@pytest.mark.parametrize(
    ("data", "bits"), [("", 64), ("80", 64), ("ff" * 10 + "01", 64), ("ffffffff1f", 32), ("ff" * 9 + "02", 64)]
)
def test_varints_that_are_none(data: str, bits: int) -> None:
    with pytest.raises(CorruptStateError):
        Coding(bytes.fromhex(data), "f").varint("n", bits)


def test_errors_say_where() -> None:
    view = Coding(b"\x05ab", "the file", 100)
    with pytest.raises(CorruptStateError) as raised:
        view.string("a name")
    assert raised.value.facts["path"] == "the file"
    assert raised.value.facts["offset"] == 101
    with pytest.raises(CorruptStateError):
        view.expect_end("all")
