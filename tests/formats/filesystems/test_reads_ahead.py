"""What is read ahead of a file in a store: of a scan much, and of single blocks nothing."""

from __future__ import annotations

import pytest

from pyspark_savepoint.formats.filesystems.filesystem import locate
from pyspark_savepoint.formats.filesystems.storage_options import StorageOptions, StoragePath
from pyspark_savepoint.formats.io.snapshot_files import Opening
from tests.remote.measured_store import MeasuredStore

SIZE, BLOCK = 40 << 20, 100_000


def given(store: MeasuredStore, step: int, opening: Opening) -> int:
    """Read thirty blocks that begin a step after one another; return how many bytes came."""
    store.objects["file"] = bytes(SIZE)
    filesystem, path = locate(StoragePath.of("s3://bucket/file", StorageOptions.of({"endpoint": store.endpoint})))
    file = filesystem.open_input(path, None, opening)
    for number in range(30):
        file.read_into(number * step, bytearray(BLOCK))
    file.close()
    return sum(one.given for one in store.requests)


def test_blocks_that_two_lookups_share_are_no_scan(measured: MeasuredStore) -> None:
    """Each begins in the last part of the one before."""
    assert given(measured, 90_000, Opening(count=BLOCK)) < 8 << 20


@pytest.mark.parametrize("step", [90_000, BLOCK])
def test_a_scan_that_says_where_it_stops_is_read_ahead_until_there(measured: MeasuredStore, step: int) -> None:
    stop = 29 * step + BLOCK
    assert stop <= given(measured, step, Opening(count=BLOCK, stop=stop)) <= 2 * stop
    assert len(measured.requests) < 12
