"""Checksums after the metadata: read as written, and any flipped bit of the metadata or the checksums is found."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from pyspark_savepoint.formats.errors import CorruptStateError, SavepointError
from pyspark_savepoint.formats.metadata import read_metadata, uids_beside, write_metadata
from pyspark_savepoint.formats.metadata.manifest import BLOCK, MAGIC, FileChecksums, split_manifest, with_manifest

METADATA = (Path(__file__).parents[2] / "oracle" / "savepoints" / "shop" / "savepoint" / "_metadata").read_bytes()
FILES = {"a": FileChecksums(3, b"x" * 16, b"y" * 8), "ü": FileChecksums(2 * BLOCK, b"z" * 16, bytes(16))}


def test_the_metadata_and_the_checksums_come_back() -> None:
    data = with_manifest(METADATA, FILES)
    assert data.startswith(METADATA)
    metadata = read_metadata(data)
    assert metadata.checksums == FILES
    assert write_metadata(metadata) == METADATA
    assert read_metadata(METADATA) == metadata
    assert read_metadata(METADATA).checksums is None
    assert {FileChecksums.from_bytes(one.to_bytes()) for one in FILES.values()} == set(FILES.values())


def test_what_files_are_copies_of_comes_back() -> None:
    copies = {"a": bytes(16), "b": b"z" * 16}
    assert read_metadata(with_manifest(METADATA, FILES, copies=copies)).copies == copies
    assert read_metadata(with_manifest(METADATA, FILES)).copies == read_metadata(METADATA).copies == {}


def test_uids_that_the_metadata_has_no_place_for_come_back() -> None:
    shop = read_metadata(METADATA)
    older = replace(shop, version=4, operators=tuple(replace(each, name=None) for each in shop.operators))
    assert uids_beside(shop) == []
    told = [*uids_beside(older), "no operator's", ""]
    assert uids_beside(older) == [each.uid for each in shop.operators]
    found = read_metadata(with_manifest(write_metadata(older), {}, told))
    assert [each.uid for each in found.operators] == [each.uid for each in shop.operators]
    assert [each.uid for each in read_metadata(write_metadata(older)).operators] == [None] * len(shop.operators)


def test_no_flipped_bit_passes() -> None:
    data = with_manifest(METADATA, FILES)
    behind = range(8 * len(METADATA), 8 * len(data))
    for bit in [*range(0, 8 * len(METADATA), 211), *behind]:
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(SavepointError):
            read_metadata(bytes(damaged))


@given(
    st.binary(max_size=60)
    | st.sampled_from([b"{}", b"[]", b'{"metadata": 1, "files": {"a": {"size": 1e999}}}', b"[" * 5000])
)
def test_what_nobody_wrote_is_damage(text: bytes) -> None:
    tail = len(text).to_bytes(4, "big") + xxhash.xxh3_64_digest(text) + MAGIC
    with pytest.raises(CorruptStateError, match="checksum"):
        split_manifest(memoryview(METADATA + text + tail), "the path")
