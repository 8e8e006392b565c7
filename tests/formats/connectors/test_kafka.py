"""Payloads of the Kafka source: bytes that its real serializers wrote, and what they never write."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pyspark_savepoint.formats.connectors.payloads.kind import CoordinatorFrame, Payload, read_element, write_element
from pyspark_savepoint.formats.connectors.registry import recognise_coordinator, recognise_elements
from pyspark_savepoint.formats.connectors.sources.kafka import (
    KAFKA_ENUMERATOR,
    KAFKA_SPLITS,
    NONE,
    KafkaEnumerator,
    KafkaPartition,
    KafkaSplit,
)
from pyspark_savepoint.formats.errors import OptionError, SavepointError

READERS = "SourceReaderState"
ORDERS_1 = bytes.fromhex("00066f726465727300000001000000000000007880000000 00000000")


def written(corpus: Path, kind: str) -> list[dict[str, Any]]:
    cases = json.loads((corpus / "connectors" / "bytes" / "kafka.json").read_text())
    return [case for case in cases if case["kind"] == kind]


def element(data: bytes, version: int = 0) -> bytes:
    return write_element(Payload(version, data))


def test_splits_have_the_values_that_the_serializer_was_given(corpus: Path) -> None:
    cases = written(corpus, "KafkaPartitionSplit")
    assert len(cases) >= 3
    for case in cases:
        payload = Payload(case["version"], bytes.fromhex(case["hex"]))
        split, value = KAFKA_SPLITS.read(payload), case["value"]
        assert split == KafkaSplit(value["topic"], value["partition"], value["offset"], value["stop"])
        assert KAFKA_SPLITS.write(0, split) == payload


def test_enumerators_of_all_versions_have_the_values_that_the_serializer_was_given(corpus: Path) -> None:
    cases = written(corpus, "KafkaSourceEnumState")
    assert {case["version"] for case in cases} == {0, 1, 2, 3}
    for case in cases:
        payload = Payload(case["version"], bytes.fromhex(case["hex"]))
        found = KAFKA_ENUMERATOR.read(payload)
        expected = case["value"]["partitions"]
        assert [(known.topic, known.partition) for known in found.partitions] == [
            (value["topic"], value["partition"]) for value in expected
        ]
        assert [not known.assigned for known in found.partitions] == [
            bool(value.get("status", 0)) for value in expected
        ]
        assert [known.reader for known in found.partitions] == [value.get("reader") for value in expected]
        assert [known.split and known.split.offset for known in found.partitions] == [
            value.get("offset") for value in expected
        ]
        assert found.initial_discovery_finished == case["value"]["initialDiscoveryFinished"]
        assert KAFKA_ENUMERATOR.write(case["version"], found) == payload


def test_markers_are_words() -> None:
    rows = [KafkaSplit("t", 0, offset, stop).row() for offset, stop in ((7, NONE), (-2, 9), (-1, -1), (-3, -3))]

    assert [(row["offset"], row["marker"]) for row in rows] == [
        (7, None), (None, "earliest"), (None, "latest"), (None, "committed"),
    ]  # fmt: skip
    assert [(row["stop_offset"], row["stop_marker"]) for row in rows] == [
        (None, "none"), (9, None), (None, "latest"), (None, "committed"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("data", "version"),
    [
        (ORDERS_1 + b"\0", 0),
        (ORDERS_1[:-1], 0),
        (ORDERS_1, 1),
        (ORDERS_1.replace(b"\0\0\0\1", b"\xff\xff\xff\xff"), 0),
        (ORDERS_1[:12] + (-7).to_bytes(8, "big", signed=True) + ORDERS_1[20:], 0),
        (ORDERS_1[:12] + NONE.to_bytes(8, "big", signed=True) + ORDERS_1[20:], 0),
        (ORDERS_1[:20] + (-2).to_bytes(8, "big", signed=True), 0),
        (b"\0\0" + ORDERS_1[8:], 0),
        (b"\0\3\xed\xa0\x80" + ORDERS_1[8:], 0),
        (b"\0\2\xc0\xaf" + ORDERS_1[8:], 0),
    ],
)
def test_a_payload_that_kafka_never_writes_is_bytes_with_a_reason(data: bytes, version: int) -> None:
    whole = recognise_elements("splits", READERS, [element(ORDERS_1)])
    assert whole.kind is KAFKA_SPLITS
    assert whole.values == (KafkaSplit("orders", 1, 120),)

    # One invalid element makes all of them bytes.
    found = recognise_elements("splits", READERS, [element(ORDERS_1), element(data, version)])
    assert found.kind is None
    assert found.payloads[1] == Payload(version, data)
    assert "not kafka" in (found.reason or "")


def test_elements_without_a_frame_are_bytes() -> None:
    for data in (b"", ORDERS_1, element(ORDERS_1) + b"\0", element(ORDERS_1)[:-1], b"\xff" * 12):
        found = recognise_elements("splits", READERS, [data])
        assert found.kind is None
        assert found.payloads == (Payload(None, data),)
        assert "do not begin with a version" in (found.reason or "")


def test_frames_of_coordinators_keep_what_is_behind_the_first_version() -> None:
    for frame in (CoordinatorFrame(Payload(2, b"abc")), CoordinatorFrame(Payload(0, b""), 0, b"more")):
        assert CoordinatorFrame.read(frame.bytes()) == frame
    for wrong in (b"", CoordinatorFrame(Payload(2, b"abc")).bytes() + b"\0", b"\0\0\0\2" + bytes(8)):
        with pytest.raises(SavepointError):
            CoordinatorFrame.read(wrong)
        assert recognise_coordinator(wrong).kind is None
    assert read_element(write_element(Payload(-3, b"x"))) == Payload(-3, b"x")


def test_an_enumerator_says_only_what_its_version_can() -> None:
    split = KafkaSplit("t", 0, 5)
    whole = KAFKA_ENUMERATOR.read(KAFKA_ENUMERATOR.write(3, _enumerator(KafkaPartition("t", 0, False, split))))
    assert whole.partitions[0].split == split
    for version in (0, 1):
        with pytest.raises(ValueError, match=f"version {version}"):
            KAFKA_ENUMERATOR.write(version, whole)
        with pytest.raises(ValueError, match=f"version {version}"):
            KAFKA_ENUMERATOR.write(version, replace(whole, partitions=(), initial_discovery_finished=False))
    with pytest.raises(ValueError, match="version 3 needs a split"):
        KAFKA_ENUMERATOR.write(3, _enumerator(KafkaPartition("t", 0)))
    with pytest.raises(ValueError, match="not known"):
        KAFKA_ENUMERATOR.write(4, whole)
    twice = KAFKA_ENUMERATOR.write(2, _enumerator(KafkaPartition("t", 0), KafkaPartition("t", 0)))
    with pytest.raises(ValueError, match="twice"):
        KAFKA_ENUMERATOR.read_all([twice])


def test_an_unknown_connector_is_answered_with_the_nearest() -> None:
    with pytest.raises(OptionError, match=r"there is no connector 'kafk'(.|\n)*did you mean 'kafka'"):
        recognise_elements("splits", READERS, [], "kafk")


def _enumerator(*partitions: KafkaPartition) -> Any:
    return KafkaEnumerator(partitions)
