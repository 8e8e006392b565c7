"""Payloads of sinks: bytes that real serializers wrote, bytes made by hand after the connectors' source."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pyspark_savepoint.formats.connectors.payloads.kind import (
    COMMITTABLES,
    COMMITTER_STATE,
    WRITER_STATE,
    ConnectorKind,
    Payload,
    Row,
    write_element,
)
from pyspark_savepoint.formats.connectors.registry import recognise_elements
from pyspark_savepoint.formats.connectors.sinks.committer import SINK_COMMITTABLES
from pyspark_savepoint.formats.connectors.sinks.file_sink import FILE_COMMITTABLES, FILE_WRITERS
from pyspark_savepoint.formats.connectors.sinks.iceberg import ICEBERG_COMMITTABLES, ICEBERG_COMMITTER, ICEBERG_JOB
from pyspark_savepoint.formats.connectors.sinks.jdbc import JDBC_COMMITTABLES, JDBC_WRITERS, JDBC_XA
from pyspark_savepoint.formats.connectors.sinks.kafka_sinks import (
    KAFKA_COMMITTABLES,
    KAFKA_PRODUCER,
    KAFKA_PRODUCER_HINT,
    KAFKA_WRITERS,
)
from pyspark_savepoint.formats.connectors.sources.pulsar import PULSAR_COMMITTABLES
from pyspark_savepoint.formats.errors import SavepointError


def i32(*values: int) -> bytes:
    return b"".join(value.to_bytes(4, "big", signed=True) for value in values)


def i64(*values: int) -> bytes:
    return b"".join(value.to_bytes(8, "big", signed=True) for value in values)


def utf(*texts: str) -> bytes:
    return b"".join(len(text.encode()).to_bytes(2, "big") + text.encode() for text in texts)


def blob(data: bytes) -> bytes:
    return i32(len(data)) + data


def versioned_list(version: int, *items: bytes) -> bytes:
    return i32(version, len(items)) + b"".join(map(blob, items))


def le32(*values: int) -> bytes:
    return b"".join(value.to_bytes(4, "little") for value in values)


def request(version: int, committable: bytes, retries: int = 0, state: int = 0) -> bytes:
    return i32(version) + blob(committable) + i32(retries, state)


def committer(*requests: bytes, subtask_version: int = 2, checkpoint_version: int = 1) -> bytes:
    """A committer of checkpoint 9 and subtask 1."""
    counts = i32(len(requests), 0) if subtask_version == 2 else i32(len(requests), 0, 0)
    subtask = (b"" if subtask_version == 0 else i32(1)) + versioned_list(0, *requests) + counts
    subtasks = versioned_list(subtask_version, subtask)
    checkpoint = i64(9) + (i32(2) if checkpoint_version else b"") + subtasks
    return bytes.fromhex("b91f252c") + versioned_list(checkpoint_version, checkpoint)


def rows(kind: ConnectorKind[Any], data: bytes, version: int | None = 2) -> list[Row]:
    """The rows of a payload, which is written back to the same bytes (``read`` sees to it)."""
    return list(kind.rows(kind.read(Payload(version, data))))


def kafka_cases(corpus: Path, kind: str) -> list[dict[str, Any]]:
    cases = json.loads((corpus / "connectors" / "bytes" / "kafka.json").read_text())
    return [case for case in cases if case["kind"] == kind]


@pytest.mark.parametrize(("checkpoint", "subtask"), [(0, 0), (1, 1), (1, 2)])
def test_committers_of_all_releases(corpus: Path, checkpoint: int, subtask: int) -> None:
    for case in kafka_cases(corpus, "KafkaCommittable"):
        own, value = bytes.fromhex(case["hex"]), case["value"]
        data = committer(request(1, own, 4, 1), subtask_version=subtask, checkpoint_version=checkpoint)
        assert rows(KAFKA_COMMITTABLES, data) == [
            {
                "checkpoint_id": 9,
                "writer_subtask": 1 if subtask else None,
                "expected": 1,
                "failed": 0,
                "position": 0,
                "status": "RETRY",
                "retries": 4,
                "committable_version": 1,
                "epoch": value["epoch"],
                "producer_id": value["producerId"],
                "transactional_id": value["transactionalId"],
            }
        ]


def test_committers_of_sinks_of_version_1_and_global_ones(corpus: Path) -> None:
    own = bytes.fromhex(kafka_cases(corpus, "KafkaCommittable")[0]["hex"])
    old = bytes.fromhex("b91f252c") + versioned_list(1, own, own)
    assert [row["producer_id"] for row in rows(KAFKA_COMMITTABLES, old, 1)] == [4711, 4711]
    behind = i32(2) + blob(committer(request(1, own)))
    for listed in (b"\0", b"\1" + versioned_list(5, b"abc")):
        data = bytes.fromhex("b91f252b") + listed + behind
        assert [row["producer_id"] for row in rows(KAFKA_COMMITTABLES, data, 1)] == [4711]


def test_what_no_committer_writes_is_refused(corpus: Path) -> None:
    own = bytes.fromhex(kafka_cases(corpus, "KafkaCommittable")[0]["hex"])
    good = committer(request(1, own))
    assert len(rows(SINK_COMMITTABLES, good)) == 1
    wrong = [good + b"\0", good[:-1], b"\0" + good[1:], committer(request(1, own, 0, 4))]
    for cut in range(len(good)):
        wrong.append(good[:cut])
    for data in wrong:
        with pytest.raises((SavepointError, ValueError)):
            rows(SINK_COMMITTABLES, data)
    with pytest.raises((SavepointError, ValueError)):
        rows(KAFKA_COMMITTABLES, committer(request(1, own + b"\0")))
    with pytest.raises(ValueError, match="version 3"):
        rows(SINK_COMMITTABLES, good, 3)


def test_committables_of_an_unknown_sink_are_bytes() -> None:
    element = write_element(Payload(2, committer(request(7, b"txn-1"))))
    found = recognise_elements(COMMITTABLES, COMMITTER_STATE, [element])
    assert found.kind is SINK_COMMITTABLES
    (row,) = found.kind.rows(found.values[0])
    assert (row["committable"], row["committable_version"], row["status"]) == (b"txn-1", 7, "RECEIVED")
    # A committer without committables is of any sink.
    empty = recognise_elements(COMMITTABLES, COMMITTER_STATE, [write_element(Payload(2, committer()))])
    assert empty.kind is SINK_COMMITTABLES


def test_writers_of_the_kafka_sink(corpus: Path) -> None:
    for case in kafka_cases(corpus, "KafkaWriterState"):
        found = rows(KAFKA_WRITERS, bytes.fromhex(case["hex"]), case["version"])
        listed = case["value"]["transactions"]
        assert {row["prefix"] for row in found} == {"prefix"}
        assert {row["ownership"] for row in found} == {
            ("IMPLICIT_BY_SUBTASK_ID", "EXPLICIT_BY_WRITER_STATE")[case["value"]["ownership"]]
        }
        assert [(row.get("transactional_id"), row.get("checkpoint_id")) for row in found] == [
            (each["id"], each["checkpoint"]) for each in listed
        ] or not listed
    assert rows(KAFKA_WRITERS, utf("prefix"), 1) == [{"prefix": "prefix"}]
    unnamed = recognise_elements(COMMITTABLES, WRITER_STATE, [write_element(Payload(1, utf("")))])
    assert unnamed.kind is None


S3 = le32(0x98761432, 3) + b"key" + le32(2) + b"up" + le32(1, 1, 1) + b"e" + (70).to_bytes(8, "little")
HADOOP = le32(0xD7436C5E) + (9).to_bytes(8, "little") + le32(6, 5) + b"/a/b-0" + b"/a/.b"


@pytest.mark.parametrize(
    ("recoverable", "target", "length"),
    [
        (S3 + le32(0) + bytes(8), "key", 70),
        (S3 + le32(1) + b"x" + (5).to_bytes(8, "little"), "key", 75),
        (HADOOP, "/a/b-0", 9),
        (utf("bucket", "object") + i32(0), None, None),
    ],
)
def test_files_of_other_file_systems(recoverable: bytes, target: str | None, length: int | None) -> None:
    file = i32(1) + blob(recoverable)
    pending = bytes.fromhex("2c853c89") + b"\1" + utf("s3://b/key") + i64(80) + file
    committable = bytes.fromhex("1e765c80") + utf("odd") + b"\1" + i32(2) + blob(pending) + b"\0\1" + utf("/old")
    found = rows(FILE_COMMITTABLES, committer(request(2, committable)))
    assert [(row["role"], row["target"], row.get("length"), row.get("size")) for row in found] == [
        ("PENDING", target, length, 80),
        ("CLEANUP", "/old", None, None),
    ]
    first = bytes.fromhex("1e765c80") + b"\1" + i32(1) + blob(bytes.fromhex("2c853c89") + file) + b"\0"
    assert [row["target"] for row in rows(FILE_COMMITTABLES, committer(request(1, first)))] == [target]
    head = bytes.fromhex("1e764b79") + i32(1) + blob(le32(3) + b"odd") + utf("/d/odd") + i64(5)
    oldest = head + b"\1" + file + i32(1, 1) + i64(7) + i32(1) + blob(recoverable)
    assert [(row["role"], row["bucket"], row["target"], row.get("checkpoint_id"))
            for row in rows(FILE_WRITERS, oldest, 1)] == [
        ("IN_PROGRESS", "odd", target, None), ("PENDING", "odd", target, 7),
    ]  # fmt: skip
    assert rows(FILE_WRITERS, head + b"\0", 3) == [{"bucket": "odd", "role": "EMPTY", "target": "/d/odd"}]
    dated = bytes.fromhex("1e764b79") + i32(4) + blob(b"\1\2") + utf("/d") + i64(5) + b"\0"
    assert rows(FILE_WRITERS, dated, 3)[0]["bucket"] == "0102"


def test_the_exactly_once_producer_before_the_kafka_sink() -> None:
    txn = b"\1" + utf("p-1") + i64(11) + b"\0\3" + i64(1700)
    none = b"\0" + i64(-1) + b"\xff\xff" + i64(0)
    data = b"\1" + none + i32(2) + txn + txn + b"\1" + i32(1) + utf("p-2")
    assert [(row["role"], row["transactional_id"], row["producer_id"], row["epoch"], row["started"])
            for row in rows(KAFKA_PRODUCER, data, None)] == [
        ("OPEN", None, -1, -1, 0), ("PENDING", "p-1", 11, 3, 1700), ("PENDING", "p-1", 11, 3, 1700),
    ]  # fmt: skip
    assert rows(KAFKA_PRODUCER_HINT, i64(5) + i32(2), None) == [{"next_free_id": 5, "last_parallelism": 2}]
    assert recognise_elements(COMMITTABLES, "state", [data]).kind is KAFKA_PRODUCER
    # Versions in which a sink always has an open transaction have no flag for it.
    for older in (data[1:], txn + i32(1) + txn + b"\0", none + i32(0) + b"\0"):
        assert recognise_elements(COMMITTABLES, "state", [older]).kind is KAFKA_PRODUCER
        assert rows(KAFKA_PRODUCER, older, None)[0]["role"] == "OPEN"
    assert [row["role"] for row in rows(KAFKA_PRODUCER, data[1:], None)] == ["OPEN", "PENDING", "PENDING"]
    assert recognise_elements(COMMITTABLES, "state", [bytes(24)]).kind is None
    # Without a transaction, six zeros may be anyone's.
    assert recognise_elements(COMMITTABLES, "state", [bytes(6)]).kind is None


def test_iceberg() -> None:
    manifest = b"\xc2\x01" + blob(b"{}") + bytes([2 * len("s3://t/m.avro")]) + b"s3://t/m.avro" + b"more"
    second = i32(2) + blob(blob(manifest) + blob(b"") + i32(1) + utf("s3://t/f.parquet"))
    first = i32(1) + blob(manifest)
    data = committer(request(1, utf("job", "op") + i64(12) + blob(second)))
    (row,) = rows(ICEBERG_COMMITTABLES, data)
    wanted = {"job_id": "job", "operator_id": "op", "sink_checkpoint_id": 12, "data_manifest": "s3://t/m.avro"}
    assert row.items() >= {**wanted, "delete_manifest": None, "referenced_files": 1}.items()
    older = i32(2) + i64(12) + b"\0" + blob(second) + i64(13) + b"\0" + blob(first)
    assert [(row["sink_checkpoint_id"], row["data_manifest"]) for row in rows(ICEBERG_COMMITTER, older, None)] == [
        (12, "s3://t/m.avro"), (13, "s3://t/m.avro"),
    ]  # fmt: skip
    job = "0123456789abcdef" * 2
    assert rows(ICEBERG_JOB, b"\x21" + job.encode(), None) == [{"job_id": job}]
    assert recognise_elements(COMMITTABLES, "iceberg-flink-job-id", [b"\4job"]).kind is None


def test_jdbc_keeps_the_garbage_behind_its_buffers() -> None:
    xid = i32(201) + b"\2ab" + b"\1c"
    shown = {"format_id": 201, "global_id": "6162", "branch": "63"}
    (row,) = rows(JDBC_COMMITTABLES, committer(request(1, xid + b"garbage")))
    assert row.items() >= shown.items()
    state = i32(1) + xid + i32(1) + i64(7) + i32(2) + xid
    assert rows(JDBC_XA, state, None) == [
        {"role": "HANGING", **shown}, {"role": "PREPARED", "checkpoint_id": 7, "attempts": 2, **shown},
    ]  # fmt: skip
    transaction = bytes(15) + b"\7" + i32(1, 4) + i64(8) + i32(3) + b"behind"
    writer = i32(1) + bytes([len(transaction)]) + transaction + i32(0) + b"garbage"
    (found,) = rows(JDBC_WRITERS, writer)
    assert (found["role"], found["transaction_subtask"], found["checkpoint_id"]) == ("HANGING", 1, 8)
    # Its bytes alone do not identify the connector: option connector is needed.
    assert recognise_elements(COMMITTABLES, WRITER_STATE, [write_element(Payload(2, writer))]).kind is None
    named = recognise_elements(COMMITTABLES, WRITER_STATE, [write_element(Payload(2, writer))], "jdbc")
    assert named.kind is JDBC_WRITERS


def test_pulsar_committables() -> None:
    element = write_element(Payload(2, committer(request(1, i64(3, 4) + utf("persistent://t/n/a")))))
    found = recognise_elements(COMMITTABLES, COMMITTER_STATE, [element])
    assert found.kind is PULSAR_COMMITTABLES
    assert next(iter(found.kind.rows(found.values[0])))["topic"] == "persistent://t/n/a"
