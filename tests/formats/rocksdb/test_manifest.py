"""The log of version edits."""

from __future__ import annotations

import numpy as np
import pytest

from pyspark_savepoint.formats.errors import (
    CorruptStateError,
    SavepointError,
    UnsupportedStateError,
    UnsupportedVersionError,
)
from pyspark_savepoint.formats.rocksdb.block import masked_crc32c
from pyspark_savepoint.formats.rocksdb.manifest import PAGE, read_current, read_manifest
from tests.processor_time import processor_seconds

A_KEY, Z_KEY = b"a" + bytes(8), b"z" + (5 << 8 | 1).to_bytes(8, "little")


def varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def string(data: bytes) -> bytes:
    return varint(len(data)) + data


def part(kind: int, data: bytes) -> bytes:
    array = np.frombuffer(bytearray([kind]) + bytearray(data), np.uint8)
    checksum = int(masked_crc32c(array, np.array([0]), np.array([len(array)]))[0])
    return checksum.to_bytes(4, "little") + len(data).to_bytes(2, "little") + bytes([kind]) + data


def log(*records: bytes) -> bytes:
    """Records, divided where pages end."""
    out = b""
    for record in records:
        first = True
        while True:
            left = PAGE - len(out) % PAGE
            if left < 7:
                out += bytes(left)
                continue
            here, record = record[: left - 7], record[left - 7 :]
            out += part((1 if first else 4) if not record else (2 if first else 3), here)
            first = False
            if not record:
                break
    return out


def add(
    number: int, level: int = 0, form: int = 103, smallest: bytes = A_KEY, largest: bytes = Z_KEY, sequence: int = 9
) -> bytes:
    out = varint(form) + varint(level) + varint(number)
    out += varint(0) if form == 102 else b""
    out += varint(1000 + number) + string(smallest) + string(largest)
    out += varint(3) + varint(sequence) if form != 7 else b""
    return out + (varint(5) + string(b"\1") + varint(1) if form == 103 else b"")


FAMILY = varint(200) + varint(1)
NEW_FAMILY = FAMILY + varint(201) + string(b"state")
HEAD = varint(1) + string(b"leveldb.BytewiseComparator") + varint(2) + varint(4)


@pytest.mark.parametrize("form", [7, 100, 102, 103])
def test_files_are_added_and_deleted(form: int) -> None:
    data = log(
        HEAD,
        NEW_FAMILY,
        FAMILY + add(7, form=form) + add(8, form=form),
        FAMILY
        + varint(6)
        + varint(0)
        + varint(7)
        + varint(5)
        + varint(1)
        + string(A_KEY)
        + varint(8193)
        + string(b"?"),
    )

    files = read_manifest(data, "m")["state"].files

    assert list(files) == [8]
    assert (files[8].name, files[8].size, files[8].level) == ("000008.sst", 1008, 0)
    assert (files[8].smallest.user_key, files[8].largest.user_key, files[8].largest.tag) == (b"a", b"z", 5 << 8 | 1)
    assert files[8].largest_sequence == (None if form == 7 else 9)


def test_a_moved_file_is_on_its_new_level() -> None:
    data = log(NEW_FAMILY, FAMILY + add(7), FAMILY + varint(6) + varint(0) + varint(7) + add(7, level=2))

    assert read_manifest(data, "m")["state"].files[7].level == 2


def test_runs_are_files_of_level_0_and_whole_other_levels() -> None:
    def key(letter: str) -> bytes:
        return letter.encode() + bytes(8)

    data = log(
        NEW_FAMILY,
        FAMILY + add(4) + add(3) + add(9, 1, 103, key("p"), key("q")) + add(8, 1, 103, key("r"), key("s")) + add(5, 6),
    )

    runs = read_manifest(data, "m")["state"].runs()

    assert [[file.number for file in run] for run in runs] == [[3], [4], [9, 8], [5]]


def test_dropped_families_are_gone() -> None:
    data = log(NEW_FAMILY, FAMILY + varint(202), FAMILY + add(3))

    assert list(read_manifest(data, "m")) == ["default"]


def test_records_go_over_pages() -> None:
    long_name = b"n" * (2 * PAGE + 100)
    data = log(b"", varint(8193) + string(bytes(PAGE - 30)), FAMILY + varint(201) + string(long_name), HEAD)

    assert list(read_manifest(data, "m")) == ["default", long_name.decode()]


def test_a_group_counts_as_a_whole() -> None:
    first, second = varint(300) + varint(1) + NEW_FAMILY, varint(300) + varint(0) + FAMILY + add(3)

    assert list(read_manifest(log(first, second), "m")["state"].files) == [3]
    with pytest.raises(CorruptStateError, match="manifest"):
        read_manifest(log(first), "m")


@pytest.mark.parametrize(
    ("record", "error"),
    [
        (varint(1) + string(b"rocksdb.ReverseBytewiseComparator"), UnsupportedStateError),
        (varint(400) + varint(1), UnsupportedStateError),
        (varint(99) + varint(1), UnsupportedVersionError),
        (varint(6) + varint(0) + varint(7), CorruptStateError),
        (add(7) + add(7), CorruptStateError),
        (varint(201) + string(b"again"), CorruptStateError),
        (FAMILY + varint(201) + string(b"\xff"), CorruptStateError),
        (add(7, smallest=b"short"), CorruptStateError),
        (add(7, sequence=2**64 - 1), CorruptStateError),
        (add(7, sequence=2**56), CorruptStateError),
        (varint(7) + varint(0), CorruptStateError),
    ],
)
def test_what_cannot_be(record: bytes, error: type[SavepointError]) -> None:
    with pytest.raises(error):
        read_manifest(log(record), "m")


def test_every_truncation_and_every_wrong_byte_is_seen() -> None:
    data = log(HEAD, NEW_FAMILY, FAMILY + add(3))
    whole = [len(log(HEAD)), len(log(HEAD, NEW_FAMILY)), 0]
    for end in range(len(data)):
        if end not in whole:
            with pytest.raises(CorruptStateError):
                read_manifest(data[:end], "m")
    for at in range(len(data)):
        with pytest.raises(CorruptStateError):
            read_manifest(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :], "m")


def test_current() -> None:
    assert read_current(b"MANIFEST-000004\n", "c") == "MANIFEST-000004"
    for data in (b"", b"MANIFEST-000004", b"MANIFEST-../x\n", b"000004.sst\n"):
        with pytest.raises(CorruptStateError):
            read_current(data, "c")


def seconds_of_levels(count: int) -> float:
    """The processor time of sorting files into runs, each file on a level of its own."""
    files = b"".join(add(number, number, 7) for number in range(1, count + 1))
    family = read_manifest(log(NEW_FAMILY, FAMILY + files), "m")["state"]
    assert len(family.runs()) == count
    return processor_seconds(family.runs)


def test_thousands_of_levels_take_time_in_proportion() -> None:
    assert seconds_of_levels(4000) < 0.1 + 4 * seconds_of_levels(1000)
