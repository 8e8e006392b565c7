"""Table files of every kind that RocksDB writes."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rocksdict import BlockBasedIndexType, ChecksumType, DataBlockIndexType, DBCompressionType, Options, SstFileWriter

from pyspark_savepoint.formats.errors import (
    CorruptStateError,
    SavepointError,
    StateFileNotFoundError,
    UnsupportedStateError,
    UnsupportedVersionError,
)
from pyspark_savepoint.formats.io.byte_source import InlineByteSource
from pyspark_savepoint.formats.rocksdb.block import small_entries
from pyspark_savepoint.formats.rocksdb.manifest import FileMetaData, InternalKey
from pyspark_savepoint.formats.rocksdb.sst import FOOTER, LEGACY_MAGIC, SstFile
from tests.formats.rocksdb.rocksdb_files import Pairs, options_of, read_all, writer
from tests.formats.rocksdb.test_manifest import varint

PAIRS: Pairs = [(bytes([group]) + b"key-%05d" % i, b"value" * (i % 7)) for group in (0, 3, 127) for i in range(150)]


def write(folder: Path, **options: Any) -> dict[str, bytes]:
    with writer(folder, **options) as opened:
        for key, value in PAIRS:
            opened.family[key] = value
        return opened.files()


def setting(**values: Any) -> Callable[[Any], None]:
    def apply(blocks: Any) -> None:
        for name, value in values.items():
            getattr(blocks, f"set_{name}")(value)

    return apply


@pytest.mark.parametrize("version", [1, 2, 3, 4, 5, 6])
@pytest.mark.parametrize("index", ["binary_search", "two_level_index_search"])
def test_format_versions_and_indexes(tmp_path: Path, version: int, index: str) -> None:
    kind = getattr(BlockBasedIndexType, index)()
    files = write(tmp_path, table=setting(format_version=version, index_type=kind, metadata_block_size=64))

    assert read_all(files) == PAIRS
    assert read_all(files, 1, 3) == PAIRS[150:300]


def test_the_oldest_format(tmp_path: Path) -> None:
    """Format version 0, of Flink 1.10 to 1.13: another footer, other forms of compressed blocks."""
    table = setting(format_version=0, checksum_type=ChecksumType.crc32c())
    files, packed = (
        write(tmp_path / name, compression=kind, table=table, block_size=4096)
        for name, kind in (("snappy", DBCompressionType.snappy()), ("lz4", DBCompressionType.lz4()))
    )
    name = table_file(files)
    assert files[name][-8:] == LEGACY_MAGIC.to_bytes(8, "little")
    assert read_all(files) == PAIRS

    with pytest.raises(UnsupportedStateError, match="compression that is not supported"):
        read_all(packed)
    damaged = bytearray(files[name])
    damaged[len(damaged) // 4] ^= 1
    with pytest.raises(CorruptStateError, match=r"is damaged(.|\n)*expected: checksum"):
        read_all(files | {name: bytes(damaged)})
    damaged = bytearray(files[name])
    damaged[-1] ^= 1
    with pytest.raises(CorruptStateError) as raised:
        read_all(files | {name: bytes(damaged)})
    assert "damaged" not in str(raised.value)


@pytest.mark.parametrize("version", [5, 6])
@pytest.mark.parametrize("checksum", ["no_checksum", "crc32c", "xxhash", "xxhash64", "xxh3"])
def test_checksums(tmp_path: Path, version: int, checksum: str) -> None:
    kind = getattr(ChecksumType, checksum)()
    files = write(tmp_path, table=setting(format_version=version, checksum_type=kind))

    assert read_all(files) == PAIRS


@pytest.mark.parametrize("version", [2, 5, 6])
@pytest.mark.parametrize("compression", ["none", "snappy", "zlib", "bz2", "lz4", "lz4hc", "zstd"])
def test_compressions(tmp_path: Path, version: int, compression: str) -> None:
    kind = getattr(DBCompressionType, compression)()
    plain, packed = (
        write(tmp_path / str(i), compression=chosen, table=setting(format_version=version), block_size=4096)
        for i, chosen in enumerate((DBCompressionType.none(), kind))
    )

    assert read_all(packed) == PAIRS
    size, most = (sum(len(data) for name, data in files.items() if name.endswith("sst")) for files in (packed, plain))
    assert size < most or compression == "none"


@pytest.mark.parametrize(
    "settings",
    [
        {"block_restart_interval": 1},
        {"block_restart_interval": 100, "index_block_restart_interval": 4},
        {"data_block_index_type": DataBlockIndexType.binary_and_hash(), "data_block_hash_ratio": 0.75},
        {"block_size": 1 << 20},
        {"bloom_filter": None},
    ],
    ids=" ".join,
)
def test_shapes_of_blocks(tmp_path: Path, settings: dict[str, Any]) -> None:
    def apply(blocks: Any) -> None:
        for name, value in settings.items():
            if name == "bloom_filter":
                blocks.set_bloom_filter(10, False)
            else:
                getattr(blocks, f"set_{name}")(value)

    assert read_all(write(tmp_path, table=apply)) == PAIRS


def test_ingested_files_have_one_sequence_number(tmp_path: Path) -> None:
    outside = str(tmp_path / "outside.sst")
    file = SstFileWriter(options=Options(raw_mode=True))
    file.open(outside)
    newer = [(key, b"newer") for key, _ in PAIRS[10:20]]
    for key, value in newer:
        file[key] = value
    file.finish()
    with writer(tmp_path) as opened:
        for key, value in PAIRS:
            opened.family[key] = value
        opened.family.flush()
        opened.family.ingest_external_file([outside])
        opened.family[PAIRS[15][0]] = b"newest"
        files = opened.files()

    assert read_all(files) == [*PAIRS[:10], *newer[:5], (PAIRS[15][0], b"newest"), *newer[6:], *PAIRS[20:]]


@pytest.mark.parametrize("number", [2**55, 2**56 - 1])
def test_a_sequence_number_that_no_database_gets(tmp_path: Path, number: int) -> None:
    outside = str(tmp_path / "outside.sst")
    file = SstFileWriter(options=Options(raw_mode=True))
    file.open(outside)
    file[b"a"] = b"1"
    file.finish()
    data = Path(outside).read_bytes()
    key = InternalKey(b"a", 1)
    info = FileMetaData(0, 1, len(data), key, key, number)
    table = SstFile(InlineByteSource("x", data), info, 1)
    with pytest.raises(CorruptStateError, match="out of range"):
        assert table.sequence


def test_prefixes_of_two_bytes(tmp_path: Path) -> None:
    pairs = [(group.to_bytes(2, "big") + b"k%d" % i, b"v") for group in (0, 1, 255, 256, 999) for i in range(5)]
    with writer(tmp_path) as opened:
        for key, value in pairs:
            opened.family[key] = value
        files = opened.files()

    assert read_all(files, 0, 32767, 2) == pairs
    assert read_all(files, 255, 256, 2) == pairs[10:20]
    assert read_all(files, 257, 998, 2) == []


# -- damage --------------------------------------------------------------------------------------------------------


@pytest.fixture
def files(tmp_path: Path) -> dict[str, bytes]:
    return write(tmp_path, compression=DBCompressionType.snappy(), table=setting(checksum_type=ChecksumType.crc32c()))


def table_file(files: dict[str, bytes]) -> str:
    (name,) = (name for name in files if name.endswith(".sst"))
    return name


def test_every_bit_counts(files: dict[str, bytes]) -> None:
    name = table_file(files)
    data = files[name]
    seen = []
    for at in [*range(0, len(data), 7), *range(len(data) - FOOTER, len(data))]:
        damaged = bytearray(data)
        damaged[at] ^= 1 << at % 8
        try:
            assert read_all(files | {name: bytes(damaged)}) == PAIRS
        except SavepointError as error:
            seen.append(error.facts["path"])
    # Undetected changes: padding of the footer, and meta blocks that are not read.
    assert len(seen) > 0.9 * len(data) / 7
    assert set(seen) == {name}


def test_truncated_files(files: dict[str, bytes]) -> None:
    name = table_file(files)
    for size in range(0, len(files[name]), 97):
        with pytest.raises(CorruptStateError, match="size of table file") as raised:
            read_all(files | {name: files[name][:size]})
        assert raised.value.facts["path"] == name


def test_another_file_of_the_same_size(tmp_path: Path) -> None:
    def of_group(group: int) -> dict[str, bytes]:
        with writer(tmp_path / str(group)) as opened:
            for i in range(20):
                opened.family[bytes([group]) + b"%02d" % i] = b"value"
            return opened.files()

    low, high = of_group(5), of_group(9)
    name = table_file(low)
    assert (table_file(high), len(high[name])) == (name, len(low[name]))
    for given in (low | {name: high[name]}, high | {name: low[name]}):
        with pytest.raises(CorruptStateError, match="not the one in its manifest") as raised:
            read_all(given)
        assert raised.value.facts["path"] == name


def test_a_file_of_another_state(tmp_path: Path) -> None:
    with writer(tmp_path) as opened:
        other = opened.database.create_column_family("other", options=options_of())
        for family, value in ((opened.family, b"mine"), (other, b"else")):
            family[b"\1key"] = value
            family.flush()
        other.close()
        files = opened.files()
    first, second = (name for name in files if name.endswith(".sst"))

    assert read_all(files) == [(b"\1key", b"mine")]
    with pytest.raises(CorruptStateError, match="holds the entries of another state"):
        read_all(files | {first: files[second], second: files[first]})


def test_missing_files(files: dict[str, bytes]) -> None:
    for name in files:
        with pytest.raises(StateFileNotFoundError, match=name):
            read_all({other: data for other, data in files.items() if other != name})


def test_unknown_versions(files: dict[str, bytes]) -> None:
    name = table_file(files)
    for version in (0, 7, 2**32 - 1):
        data = bytearray(files[name])
        data[-12:-8] = version.to_bytes(4, "little")
        with pytest.raises(UnsupportedVersionError):
            read_all(files | {name: bytes(data)})


def test_without_checksums_damage_does_no_harm(tmp_path: Path) -> None:
    kind = ChecksumType.no_checksum()
    for version in (5, 6):
        files = write(
            tmp_path / str(version),
            compression=DBCompressionType.lz4(),
            table=setting(checksum_type=kind, format_version=version),
        )
        name = table_file(files)
        for at in range(0, len(files[name]), 19):
            for value in (0, 0xFF, files[name][at] ^ 0x81):
                damaged = bytearray(files[name])
                damaged[at] = value
                try:
                    read_all(files | {name: bytes(damaged)})
                except SavepointError:
                    continue


def test_keys_that_share_what_they_have_do_not_grow_without_bound() -> None:
    """A key of 60 KB, and thousands that are the same but for a byte."""
    key = b"k" * 60_000
    first = b"\0" + varint(len(key)) + b"\0" + key
    block = first + (varint(len(key)) + b"\1\0x") * 30_000 + bytes(4) + b"\1\0\0\0"
    tracemalloc.start()
    with pytest.raises(CorruptStateError, match="keys of at most"):
        list(small_entries(block, "a file", 0))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 64 * len(block)
    assert [key for key, _ in small_entries(first + bytes(4) + b"\1\0\0\0", "a file", 0)] == [key]
