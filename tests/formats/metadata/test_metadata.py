"""The metadata file: every real one byte for byte, every version, and what damage does."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from pyspark_savepoint.formats.errors import CorruptStateError, SavepointError, UnsupportedVersionError
from pyspark_savepoint.formats.metadata import (
    FINISHED_SUBTASK,
    NULL_PROPERTIES,
    VERSIONS,
    CheckpointMetadata,
    OperatorState,
    OperatorSubtaskState,
    SnapshotKind,
    read_metadata,
    snapshot_kind,
    write_metadata,
)
from pyspark_savepoint.formats.metadata.identifiers import OperatorID
from tests.data import every_metadata
from tests.formats.metadata.metadata_strategies import metadata

INCREMENTAL = "lab/2.2.1-rocksdb-incr-checkpoint/checkpoints/65a294ca136017d8ec4399f050e1b402"
SMALL = "migration/flows/keyed-reduce/1.20.5-hashmap/_metadata"


def test_every_real_metadata_is_written_as_it_was_read() -> None:
    versions: Counter[int] = Counter()
    for path in every_metadata():
        data = path.read_bytes()
        read = read_metadata(data, str(path))
        assert write_metadata(read) == data, path
        versions[read.version] += 1
    assert set(versions) == set(VERSIONS)
    assert sum(versions.values()) > 150


def test_a_real_metadata_says_what_the_file_says(corpus: Path) -> None:
    read = read_metadata((corpus / SMALL).read_bytes())
    assert (read.version, read.checkpoint_id, len(read.operators)) == (4, 1, 3)
    keyed, source, sink = read.operators
    assert str(keyed.operator_id) == "2e10a607b4c70e691d47ead33ce714c9"
    assert (keyed.parallelism, keyed.max_parallelism, list(keyed.subtasks)) == (1, 128, [0])
    handle = keyed.subtasks[0].managed_keyed_state
    assert handle is not None
    assert handle.type_byte == 7
    assert len(handle.offsets.offsets) == 128
    assert keyed.state_size == 461
    states = source.subtasks[0].managed_operator_state
    assert states is not None
    assert [(state.name, state.offsets) for state in states.states] == [("SourceReaderState", (234,))]
    assert sink.subtasks == {0: OperatorSubtaskState()}


@pytest.mark.parametrize(
    ("folder", "kind"),
    [
        ("lab/2.2.1-hashmap-canonical/savepoint", SnapshotKind.CANONICAL_SAVEPOINT),
        ("lab/2.2.1-rocksdb-native/savepoint", SnapshotKind.NATIVE_SAVEPOINT),
        (
            f"{INCREMENTAL}/chk-2",
            SnapshotKind.CHECKPOINT,
        ),
        ("real/old-110-incr/chk/202e8a9ce5902ef58dc440f4e425ed89/chk-1", SnapshotKind.UNKNOWN),
    ],
)
def test_properties_tell_the_kind(corpus: Path, folder: str, kind: SnapshotKind) -> None:
    assert snapshot_kind(read_metadata((corpus / folder / "_metadata").read_bytes()).properties) is kind


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large], deadline=None)
@given(metadata())
def test_what_is_written_is_read_again(given_: CheckpointMetadata) -> None:
    data = write_metadata(given_)
    read = read_metadata(data)
    assert read == given_
    assert [list(operator.subtasks) for operator in read.operators] == [
        list(operator.subtasks) for operator in given_.operators
    ]
    assert write_metadata(read) == data


def test_every_proper_prefix_of_a_real_file_is_refused(corpus: Path) -> None:
    data = (corpus / SMALL).read_bytes()
    for end in range(len(data)):
        with pytest.raises(CorruptStateError):
            read_metadata(data[:end])
    with pytest.raises(CorruptStateError):
        read_metadata(data + b"\0")


def test_flipped_bits_raise_nothing_but_our_errors(corpus: Path) -> None:
    data = (corpus / SMALL).read_bytes()
    refused = 0
    for position in range(len(data)):
        for bit in (0, 3, 7):
            damaged = bytearray(data)
            damaged[position] ^= 1 << bit
            try:
                assert write_metadata(read_metadata(damaged)) == damaged
            except SavepointError:
                refused += 1
    assert refused > 300


def test_hostile_numbers_raise_nothing_but_our_errors(corpus: Path) -> None:
    rng = random.Random(7)
    (path,) = corpus.glob("lab/2.2.1-rocksdb-incr-checkpoint/checkpoints/*/chk-*/_metadata")
    data = path.read_bytes()
    refused = 0
    for _ in range(50):
        damaged = bytearray(data)
        for _ in range(rng.randrange(1, 5)):
            at = rng.randrange(8, len(damaged))
            damaged[at : at + 4] = rng.choice([b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", rng.randbytes(4)])
        try:
            assert write_metadata(read_metadata(bytes(damaged))) == damaged
        except SavepointError:
            refused += 1
    assert refused


@pytest.mark.parametrize("number", [0, 1, 7, 2**31 - 1, -1])
def test_other_versions_are_refused_with_the_supported_ones(corpus: Path, number: int) -> None:
    data = bytearray((corpus / SMALL).read_bytes())
    data[4:8] = number.to_bytes(4, "big", signed=True)
    with pytest.raises(UnsupportedVersionError, match=r"6 \(Flink 2.1 to 2.3\)") as raised:
        read_metadata(data, "/sp/_metadata")
    assert raised.value.facts["path"] == "/sp/_metadata"


def test_another_file_is_refused_by_its_first_bytes() -> None:
    with pytest.raises(CorruptStateError, match="not the _metadata of a Flink snapshot"):
        read_metadata(b"PK\x03\x04....")
    with pytest.raises(CorruptStateError, match="an empty file"):
        read_metadata(b"")


def test_errors_name_the_operator(corpus: Path) -> None:
    data = (corpus / SMALL).read_bytes()
    with pytest.raises(CorruptStateError) as raised:
        read_metadata(data[:0x88], "/sp/_metadata")
    assert raised.value.facts["operator"] == "2e10a607b4c70e691d47ead33ce714c9"
    assert raised.value.facts["path"] == "/sp/_metadata"


def operator(**changes: object) -> OperatorState:
    return replace(OperatorState(OperatorID(bytes(16)), 2, 128, subtasks={1: FINISHED_SUBTASK}), **changes)  # type: ignore[arg-type]


def test_impossible_operators_are_refused() -> None:
    for wrong in (
        operator(parallelism=0),
        operator(parallelism=129),
        operator(max_parallelism=40_000),
        operator(subtasks={2: FINISHED_SUBTASK}),
    ):
        data = write_metadata(CheckpointMetadata(3, 1, operators=(wrong,)))
        with pytest.raises(CorruptStateError):
            read_metadata(data)


def test_version_2_loses_nothing_silently() -> None:
    with pytest.raises(UnsupportedVersionError, match="finished"):
        write_metadata(CheckpointMetadata(2, 1, operators=(operator(),)))


def test_absent_properties_are_written_as_null() -> None:
    assert write_metadata(CheckpointMetadata(6, 1)).endswith(NULL_PROPERTIES)
