"""Payloads of sources other than Kafka: written as real Flink does, and what it never writes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pyspark_savepoint.formats.connectors.payloads.kind import CoordinatorFrame, Payload, write_element
from pyspark_savepoint.formats.connectors.registry import recognise_coordinator, recognise_elements
from pyspark_savepoint.formats.connectors.sources.dynamic_kafka import (
    DYNAMIC_KAFKA_ENUMERATOR,
    DYNAMIC_KAFKA_SPLITS,
    ClusterEnumerator,
    ClusterOfStream,
    DynamicKafkaEnumerator,
    DynamicKafkaSplit,
)
from pyspark_savepoint.formats.connectors.sources.files import (
    FILE_ENUMERATOR,
    FILE_SPLITS,
    FilePath,
    FileSplit,
    PendingSplits,
)
from pyspark_savepoint.formats.connectors.sources.kafka import KafkaEnumerator, KafkaPartition, KafkaSplit
from pyspark_savepoint.formats.connectors.sources.sequence import (
    NUMBER_SEQUENCE,
    NUMBER_SEQUENCE_ENUMERATOR,
    SequenceSplit,
)
from pyspark_savepoint.formats.errors import SavepointError

READERS = "SourceReaderState"
HERE = FilePath("file", None, None, -1, "/in/c.txt", None, None)
THERE = FilePath("hdfs", "me", "node", 9000, "/in/\N{GREEK SMALL LETTER ALPHA}\0.txt", "q", "f")
SPLIT = FileSplit("0000000004", HERE, 0, 480, 1795337240703, 480, ("a", "b"), (-1, 21))
#: A file split as a job of 2.3.0 wrote it, with another path.
BYTES = bytes.fromhex(
    "000a30303030303030303034" "01" "010566696c65" "0000" "ffffffff" "010a2f696e2f632e747874" "0000"
    "0000000000000000" "00000000000001e0" "000001a201e9ae3f" "00000000000001e0" "00000000"
    "01" "ffffffffffffffff" "0000000000000015"
)  # fmt: skip


def test_file_splits_are_read_and_written_back() -> None:
    found = FILE_SPLITS.read(Payload(1, BYTES))
    assert found == replace(SPLIT, modified=found.modified, hosts=())
    for split in (SPLIT, replace(SPLIT, path=THERE, position=(6, 0)), replace(SPLIT, path=None, position=None)):
        payload = FILE_SPLITS.write(1, split)
        assert FILE_SPLITS.read(payload) == split
        assert recognise_elements("splits", READERS, [write_element(payload)]).kind is FILE_SPLITS
    assert str(THERE) == "hdfs://me@node:9000/in/\N{GREEK SMALL LETTER ALPHA}\0.txt?q#f"
    assert (SPLIT.row()["position_offset"], SPLIT.row()["position_records"]) == (None, 21)


def test_the_enumerator_of_files_is_little_endian() -> None:
    pending = PendingSplits((replace(SPLIT, position=None),), ("file:/in/a.txt", "file:/in/\N{SNOWMAN}"))
    payload = FILE_ENUMERATOR.write(1, pending)
    assert payload.data.startswith(bytes.fromhex("efbeadde 01000000 01000000 02000000"))
    assert FILE_ENUMERATOR.read(payload) == pending
    for wrong in (
        payload.data + b"\0",
        payload.data[:-1],
        payload.data[:8] + b"\xff" * 8,
        payload.data.replace(b"\xe2\x98\x83", b"\xff\xff\xff"),
        payload.data[:4] + b"\2" + payload.data[5:],
    ):
        with pytest.raises(SavepointError):
            FILE_ENUMERATOR.read(Payload(1, wrong))


@pytest.mark.parametrize("change", [{"split_id": "4"}, {"position": (-2, 0)}, {"position": (0, -1)}, {"length": -1}])
def test_a_file_split_that_flink_never_writes_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(SavepointError):
        FILE_SPLITS.read(FILE_SPLITS.write(1, replace(SPLIT, **change)))


def test_number_sequences() -> None:
    split = SequenceSplit("12", -5, 7)
    payload = NUMBER_SEQUENCE.write(1, split)
    assert payload.data == b"\0\x0212" + (-5).to_bytes(8, "big", signed=True) + (7).to_bytes(8, "big")
    assert NUMBER_SEQUENCE.read(payload) == split
    pending = NUMBER_SEQUENCE_ENUMERATOR.write(1, (split, split))
    assert NUMBER_SEQUENCE_ENUMERATOR.read(pending) == (split, split)
    for wrong in (replace(split, next=8), replace(split, split_id="a"), replace(split, split_id="")):
        with pytest.raises(SavepointError):
            NUMBER_SEQUENCE.read(NUMBER_SEQUENCE.write(1, wrong))
    named = recognise_elements("splits", READERS, [write_element(payload)], "datagen")
    assert named.kind is not None
    assert named.kind.name == "datagen"
    assert recognise_elements("splits", READERS, [write_element(payload)]).kind is NUMBER_SEQUENCE


def test_an_empty_coordinator_is_whose_its_splits_are() -> None:
    nothing = CoordinatorFrame(Payload(1, bytes(4))).bytes()
    found = recognise_coordinator(nothing)
    assert found.kind is None
    assert found.reason == "its bytes fit kafka and number_sequence and pulsar: name one in option 'connector'"
    assert recognise_coordinator(nothing, splits="number_sequence").kind is NUMBER_SEQUENCE_ENUMERATOR
    assert recognise_coordinator(nothing, "number_sequence").kind is NUMBER_SEQUENCE_ENUMERATOR
    assert recognise_coordinator(nothing, splits="").kind is None


@pytest.mark.parametrize("version", [1, 2, 3])
def test_dynamic_kafka(version: int) -> None:
    kafka = KafkaSplit("orders", 1, 120)
    split = DynamicKafkaSplit("cluster-0", kafka, 17 if version == 2 else None)
    if version < 3:
        payload = DYNAMIC_KAFKA_SPLITS.write(version, split)
        assert DYNAMIC_KAFKA_SPLITS.read(payload) == split
        found = recognise_elements("splits", READERS, [write_element(payload)])
        assert found.kind is DYNAMIC_KAFKA_SPLITS
        assert split.row()["split_id"] == "cluster-0-orders-1"
    initializers = (None, b"\xac\xed") if version >= 2 else None
    state = KafkaEnumerator((KafkaPartition("orders", 1),), False)
    enumerator = DynamicKafkaEnumerator(
        (
            ("all", (ClusterOfStream("cluster-0", ("orders", "clicks"), "host:9092", initializers),)),
            ("none", ()),
        ),
        2,
        (ClusterEnumerator("cluster-0", state),),
        (ClusterEnumerator("cluster-1", state, 99),) if version == 3 else (),
    )
    payload = DYNAMIC_KAFKA_ENUMERATOR.write(version, enumerator)
    assert DYNAMIC_KAFKA_ENUMERATOR.read(payload) == enumerator
    rows = list(DYNAMIC_KAFKA_ENUMERATOR.rows(enumerator))
    assert [row["status"] for row in rows] == ["subscribed", "subscribed", *["assigned"] * (1 + (version == 3))]
    assert recognise_coordinator(CoordinatorFrame(payload).bytes()).kind is DYNAMIC_KAFKA_ENUMERATOR
