"""Payloads of sources beside KafkaSource: FlinkKafkaConsumer's own bytes, others made by hand after the source code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pyspark_savepoint.formats.connectors.payloads.kind import (
    READER_STATE,
    SPLITS,
    ConnectorKind,
    CoordinatorFrame,
    Payload,
    Position,
    Row,
    write_element,
)
from pyspark_savepoint.formats.connectors.registry import recognise_coordinator, recognise_elements
from pyspark_savepoint.formats.connectors.sources.cdc import CDC, MYSQL_CDC
from pyspark_savepoint.formats.connectors.sources.dynamodb_streams import DYNAMODB_ENUMERATOR, DYNAMODB_SPLITS
from pyspark_savepoint.formats.connectors.sources.kafka_consumer import KAFKA_CONSUMER, STATE, last_offset
from pyspark_savepoint.formats.connectors.sources.kinesis import (
    CONSUMER_STATE,
    KINESIS_CONSUMER,
    KINESIS_ENUMERATOR,
    KINESIS_SPLITS,
)
from pyspark_savepoint.formats.connectors.sources.pulsar import PULSAR_ENUMERATOR, PULSAR_SPLITS
from pyspark_savepoint.formats.errors import OptionError
from tests.formats.connectors.test_sinks import blob, i32, i64, rows, utf

ARN = "arn:aws:kinesis:eu-west-1:1:stream/orders"
TABLE = "arn:aws:dynamodb:eu-west-1:1:table/orders/stream/2025-01-01T00:00:00.000"


def splits(*payloads: tuple[int, bytes]) -> tuple[ConnectorKind[Any] | None, list[Row], list[Position]]:
    """The kind of splits, their rows and positions."""
    found = recognise_elements(SPLITS, READER_STATE, [write_element(Payload(*payload)) for payload in payloads])
    kind = found.kind
    if kind is None or kind.positions is None:
        return kind, [], []
    return (
        kind,
        [row for value in found.values for row in kind.rows(value)],
        [position for value in found.values for position in kind.positions(value)],
    )


def legacy(corpus: Path) -> list[dict[str, Any]]:
    cases = json.loads((corpus / "connectors" / "bytes" / "kafka.json").read_text())
    return [case for case in cases if case["kind"] == "topic-partition-offset-states element"]


def test_partitions_of_the_consumer_before_kafka_source(corpus: Path) -> None:
    cases = legacy(corpus)
    assert len(cases) == 3
    words = {-915623761775: "earliest", -915623761773: "committed"}
    for case in cases:
        data, value = bytes.fromhex(case["hex"]), case["value"]
        (row,) = rows(KAFKA_CONSUMER, data, None)
        marker = words.get(value["offset"])
        assert row == {
            "split_id": f"{value['topic']}-{value['partition']}",
            "topic": value["topic"],
            "partition": value["partition"],
            "offset": None if marker else value["offset"] + 1,
            "marker": marker,
            "last_offset": None if marker else value["offset"],
        }
        assert last_offset(marker or value["offset"] + 1) == value["offset"]
    found = recognise_elements(SPLITS, STATE, [bytes.fromhex(case["hex"]) for case in cases])
    assert found.kind is KAFKA_CONSUMER
    with pytest.raises(OptionError, match="earliest"):
        last_offset("first")


@pytest.mark.parametrize("topic", ["ab", "o", "x" * 63, "x" * 64, "orders-é", "x" * 9000, "\u20ac" * 70])
def test_topics_of_any_length_are_written_as_kryo_does(topic: str) -> None:
    value = {"class_id": 87, "topic": topic, "partition": 3, "offset": 4}
    payload = KAFKA_CONSUMER.write(None, value)
    assert KAFKA_CONSUMER.read(payload) == value
    assert recognise_elements(SPLITS, STATE, [payload.data[:-1]]).kind is None
    assert recognise_elements(SPLITS, STATE, [b"\x56" + payload.data]).kind is None


def test_kinesis_splits_of_all_versions() -> None:
    head = utf(ARN, "shardId-1", "AFTER_SEQUENCE_NUMBER") + b"\1\0\1" + utf("4957")
    more = head + i32(1) + utf("shardId-0", "0", "99")
    for version, data in enumerate((head, more, more + b"\1")):
        kind, (row,), positions = splits((version, data))
        assert kind is KINESIS_SPLITS
        assert (row["shard"], row["sequence_number"], row["timestamp"]) == ("shardId-1", "4957", None)
        assert row["finished"] is (True if version == 2 else None)
        assert positions == [Position(ARN, "shardId-1", "4957", "AFTER_SEQUENCE_NUMBER")]
    at = utf(ARN, "s", "AT_TIMESTAMP") + b"\1\1" + i64(1700) + b"\0"
    assert splits((0, at))[1][0]["timestamp"] == 1700
    assert splits((0, utf(ARN, "s", "LATEST") + b"\0"))[2] == [Position(ARN, "s", None, "LATEST")]
    assert splits((0, utf("orders", "s", "LATEST") + b"\0"))[0] is None
    assert splits((0, utf(ARN, "s", "SOON") + b"\0"))[0] is None


def test_the_enumerator_of_kinesis() -> None:
    split = utf(ARN, "s", "LATEST") + b"\0"
    newest = b"\1" + utf("s") + i32(1, 0) + blob(split) + i32(2)
    found = rows(KINESIS_ENUMERATOR, newest, 1)
    assert [(row["shard"], row["status"], row["last_seen_shard"]) for row in found] == [("s", "finished", "s")]
    oldest = b"\0" + i32(1, 0) + blob(split)
    assert rows(KINESIS_ENUMERATOR, oldest, 0)[0]["status"] is None
    assert recognise_coordinator(CoordinatorFrame(Payload(1, newest)).bytes()).kind is KINESIS_ENUMERATOR
    with pytest.raises(ValueError, match="version 0, 1, 2 of splits"):
        rows(KINESIS_ENUMERATOR, b"\0" + i32(1, 5) + blob(split), 0)


def test_shards_of_dynamodb_of_all_versions() -> None:
    head = utf(TABLE, "shardId-1", "AFTER_SEQUENCE_NUMBER") + b"\1\1" + utf("4957") + b"\1" + utf("shardId-0")
    children = i32(2) + utf("shardId-2", "shardId-1", "4960") + b"\0" + utf("shardId-3", "shardId-1", "4961")
    for version, data in enumerate((head, head + b"\1", head + b"\1" + children + b"\1" + utf("4999"))):
        kind, (row,), positions = splits((version, data))
        assert kind is DYNAMODB_SPLITS
        assert (row["shard"], row["parent"], row["sequence_number"]) == ("shardId-1", "shardId-0", "4957")
        assert row["finished"] is (True if version else None)
        assert positions == [Position(TABLE, "shardId-1", "4957", "AFTER_SEQUENCE_NUMBER")]
    at = utf(TABLE, "s", "TRIM_HORIZON") + b"\0\0"
    assert splits((0, at))[2] == [Position(TABLE, "s", None, "TRIM_HORIZON")]
    assert splits((0, utf(TABLE, "s", "AT_TIMESTAMP") + b"\0\0"))[0] is None
    assert splits((0, utf(ARN, "s", "LATEST") + b"\0\0"))[0] is None


def test_the_enumerator_of_dynamodb_streams() -> None:
    shards = blob(utf(TABLE, "s", "LATEST") + b"\0\0\0") + i32(0) + blob(utf(TABLE, "t", "LATEST") + b"\0\0\1")
    data = i32(2, 1) + shards + i32(2) + i64(1700)
    found = rows(DYNAMODB_ENUMERATOR, data, 0)
    assert [(row["shard"], row["status"], row["finished"], row["start_timestamp"]) for row in found] == [
        ("s", "assigned", False, 1700),
        ("t", "finished", True, 1700),
    ]
    assert recognise_coordinator(CoordinatorFrame(Payload(0, data)).bytes()).kind is DYNAMODB_ENUMERATOR


def consumer_shard(number: bytes) -> bytes:
    names = [None, None, None, None, "shardId-1", None, None, "orders"]
    shard = b"".join(b"\1" if name is None else b"\0" + bytes([len(name) + 1]) + name.encode() for name in names)
    return b"\2" + shard + b"\x57\1\x88\x77\1" + number + b"\1"


def test_shards_of_the_consumer_before_the_kinesis_source() -> None:
    read = consumer_shard(b"495" + b"\xb7")
    assert rows(KINESIS_CONSUMER, read, None) == [
        {"split_id": "shardId-1", "stream": "orders", "shard": "shardId-1", "sequence_number": "4957", "marker": None}
    ]
    latest = consumer_shard(b"LATEST_SEQUENCE_NU" + bytes([ord("M") | 0x80]))
    (row,) = rows(KINESIS_CONSUMER, latest, None)
    assert (row["sequence_number"], row["marker"]) == (None, "latest")
    assert recognise_elements(SPLITS, CONSUMER_STATE, [read, latest]).kind is KINESIS_CONSUMER
    assert recognise_elements(SPLITS, CONSUMER_STATE, [b"\4" + read[1:]]).kind is None


MYSQL_OFFSET = b'{"file":"mysql-bin.000003","pos":"154","gtids":"a:1-7","event":"0"}'
LSN = b'{"lsn":"23456","txId":"556","ts_usec":"0"}'


def stream(split_id: str, offset: bytes, catalog: bytes, behind: bytes) -> bytes:
    present = b"\1" + blob(offset)
    factory = utf("aced0005") if split_id != "binlog-split" else b""
    finished = i32(1) + utf("db.orders", "db.orders:0", "aced", "") + factory + present + catalog
    schemas = i32(1) + catalog + utf("db.orders") + blob(b"{}")
    return i32(2) + utf(split_id, "") + present + b"\0" + finished + schemas + behind


def snapshot(offset: bytes, catalog: bytes) -> bytes:
    end = b"\1" + blob(offset) if offset else b"\0"
    return i32(1) + catalog + utf("db.orders", "db.orders:1", "id INT", "aced", "") + end + i32(0)


@pytest.mark.parametrize(
    ("version", "catalog", "behind"),
    [(3, b"", i32(4)), (4, b"\0", i32(4)), (5, b"\0", i32(4) + b"\0"), (6, b"\1", i32(4) + b"\0\1")],
)
def test_cdc_of_all_versions(version: int, catalog: bytes, behind: bytes) -> None:
    kind, found, positions = splits((version, stream("stream-split", LSN, catalog, behind)))
    assert kind is CDC
    assert (found[0]["phase"], found[0]["tables"], found[0]["finished_splits"]) == ("stream", ["db.orders"], 4)
    assert (found[0]["start_offset"], found[0]["end_offset"]) == (LSN.decode(), None)
    assert positions == [Position("stream-split", None, LSN.decode())]
    kind, (row,), positions = splits((version, snapshot(LSN, catalog)))
    assert kind is CDC
    assert (row["phase"], row["split_id"], row["table"]) == ("snapshot", "db.orders:1", "db.orders")
    assert not positions


def test_a_resume_token_is_json_in_a_text() -> None:
    token = b'{"resumeToken":"{\\"_data\\": \\"8263\\", \\"a\\": [1]}","timestamp":"7"}'
    kind, (row,), _ = splits((5, stream("stream-split", token, b"\0", i32(4) + b"\0")))
    assert kind is CDC
    assert row["start_offset"] == token.decode()


@pytest.mark.parametrize(
    ("version", "behind", "suspended"),
    [(3, i32(4), None), (4, i32(4) + b"\1", True), (4, i32(4), None)],
)
def test_mysql_cdc_of_all_versions(version: int, behind: bytes, suspended: bool | None) -> None:
    kind, found, _ = splits((version, snapshot(b"", b"")), (version, stream("binlog-split", MYSQL_OFFSET, b"", behind)))
    assert kind is MYSQL_CDC
    assert [row["phase"] for row in found] == ["snapshot", "stream"]
    assert found[1]["start_offset"] == MYSQL_OFFSET.decode()
    assert found[1]["suspended"] is suspended


def test_what_no_cdc_connector_writes_is_bytes() -> None:
    first = b"\1" + utf("bin.1") + i64(4) + b"\0" + i32(0)
    oldest = i32(2) + utf("binlog-split", "") + first + i32(1) + utf("db.orders", "{}")
    kind, (row,), _ = splits((1, oldest))
    assert kind is MYSQL_CDC
    assert row["start_offset"] == '{"file": "bin.1", "pos": "4"}'
    deep = b'{"a":' * 2000 + b"1" + b"}" * 2000
    endless = b'{"' + b'\\"' * 200_000  # in time that grows with the square of its length, minutes
    for offset in (b"[1]", b"{", b'{"a":[1]}', deep, endless, b"\xff"):
        assert splits((3, stream("binlog-split", offset, b"", i32(0))))[0] is None
    assert splits((3, stream("another", LSN, b"", i32(0))))[0] is None


def test_pulsar_splits_and_partitions() -> None:
    ranges = i32(1, 0, 65535)
    cursor = bytes.fromhex("aced0005") + b"\x70"
    behind = blob(cursor) + b"\1" + blob(bytes.fromhex("080a1014" + "20" + "ff" * 9 + "01")) + b"\1" + i64(1, 2)
    topic = utf("persistent://t/n/a") + i32(3)
    for version, data in ((0, topic + ranges[4:]), (1, topic + ranges + i32(0)), (2, topic + ranges)):
        kind, (row,), positions = splits((version, data + behind))
        assert kind is PULSAR_SPLITS
        assert row["split_id"] == "persistent://t/n/a-partition-3"
        assert (row["last_ledger_id"], row["last_entry_id"], row["last_batch_index"]) == (10, 20, -1)
        assert (row["ranges"], row["transaction"]) == (["0-65535"], "(1,2)")
        assert positions == [Position("persistent://t/n/a", 3, "after 10:20")]
    start = topic + ranges + blob(cursor) + b"\0\0"
    assert splits((2, start))[2] == [Position("persistent://t/n/a", 3, None, "start cursor")]
    assert splits((2, topic + ranges + blob(b"cursor") + b"\0\0"))[0] is None
    older = utf("persistent://t/n/a") + i32(3, 0, 65535)
    first = older + blob(cursor) + b"\0\0"
    for version, data in (
        (3, i32(1) + topic + ranges),
        (2, i32(1) + topic + ranges + i32(1)),
        (1, i32(1) + older),
        (0, i32(1) + older + i32(1) + first + i32(1, 0, 1) + first + i32(1, 0, 1) + utf("a") + b"\1"),
    ):
        (row,) = rows(PULSAR_ENUMERATOR, data, version)
        assert (row["partition"], row["ranges"]) == (3, ["0-65535"])
