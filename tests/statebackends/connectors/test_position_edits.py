"""Positions of sources of bytes made by hand, such as Kinesis and Flink CDC, and of a real HybridSource."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pyspark_savepoint.formats.connectors.payloads.kind import READER_STATE, CoordinatorFrame, Payload, write_element
from pyspark_savepoint.formats.connectors.sources.cdc import CDC, MYSQL_CDC
from pyspark_savepoint.formats.connectors.sources.dynamic_kafka import (
    DYNAMIC_KAFKA_ENUMERATOR,
    ClusterEnumerator,
    DynamicKafkaEnumerator,
    DynamicKafkaSplit,
)
from pyspark_savepoint.formats.connectors.sources.dynamodb_streams import DYNAMODB_SPLITS
from pyspark_savepoint.formats.connectors.sources.kafka import KafkaEnumerator, KafkaPartition, KafkaSplit
from pyspark_savepoint.formats.connectors.sources.kinesis import CONSUMER_STATE, KINESIS_CONSUMER, KINESIS_SPLITS
from pyspark_savepoint.formats.connectors.sources.pulsar import PULSAR_SPLITS
from pyspark_savepoint.formats.errors import OptionError, UnsupportedStateError
from pyspark_savepoint.formats.metadata.stream_handles import ByteStreamStateHandle
from pyspark_savepoint.statebackends.connectors.connector_states import SourceState, connector_states
from pyspark_savepoint.statebackends.connectors.connector_table import offsets_of
from pyspark_savepoint.statebackends.connectors.edits.sources import (
    AT_LEAST_ONCE_WARNING,
    add_splits,
    positioned,
    remove_splits,
    start_over,
    with_offsets,
)
from pyspark_savepoint.statebackends.connectors.operator_streams import with_elements
from pyspark_savepoint.statebackends.requests.request import TableRequest
from pyspark_savepoint.statebackends.sources.open_operator import OpenOperator
from tests.formats.connectors.test_other_sources import ARN, TABLE, blob, consumer_shard, i32, i64, stream, utf
from tests.statebackends.connectors.test_source_edits import opened, written


def made(
    corpus: Path, splits: Sequence[Payload], coordinator: Payload | None, state: str = READER_STATE
) -> SourceState:
    """A source of these bytes, in place of one that real Flink wrote."""
    there = opened(corpus, "2.3.0-seq")
    empty = replace(there.operator, subtasks={}, coordinator_state=None)
    elements = {0: [each.data if each.version is None else write_element(each) for each in splits]}
    operator = with_elements(OpenOperator(there.savepoint, empty), state, elements)
    if coordinator is not None:
        handle = ByteStreamStateHandle("coordinator", CoordinatorFrame(coordinator).bytes())
        operator = replace(operator, coordinator_state=handle)
    return SourceState.read(OpenOperator(there.savepoint, operator))


def offsets(source: SourceState) -> list[Any]:
    """The rows of table offsets."""
    savepoint = source.opened.savepoint
    request = TableRequest(savepoint.path)
    (found,) = connector_states(savepoint, source.written(), "splits", request)
    return list(offsets_of(found))


def rows(source: SourceState) -> list[Any]:
    """The rows of table splits, from the bytes that are written."""
    after = written(source)
    return [row for split in after.splits for row in after.kind.rows(split.value)]


def shard(name: str, kind: str, number: str | None, finished: bool = False) -> bytes:
    marker = b"\1\0\1" + utf(number) if number is not None else b"\0"
    return utf(ARN, name, kind) + marker + i32(1) + utf("shardId-0", "0", "99") + bytes([finished])


@pytest.fixture
def kinesis(corpus: Path) -> SourceState:
    """Shards 1 and 2 of readers, of which 2 is finished; shard 3, which none has."""
    pending = b"\1" + utf("shardId-3") + i32(2, 2)
    pending += blob(shard("shardId-1", "TRIM_HORIZON", None)) + i32(0)
    pending += blob(shard("shardId-3", "TRIM_HORIZON", None)) + i32(1)
    splits = [shard("shardId-1", "AFTER_SEQUENCE_NUMBER", "495"), shard("shardId-2", "LATEST", None, finished=True)]
    return made(corpus, [Payload(2, each) for each in splits], Payload(1, pending))


def places(source: SourceState) -> dict[str, Any]:
    return {row["shard"]: (row["iterator_type"], row["sequence_number"], row["timestamp"]) for row in rows(source)}


def test_kinesis_shards_go_on_elsewhere(kinesis: SourceState) -> None:
    assert kinesis.kind is KINESIS_SPLITS
    assert kinesis.written() == kinesis.opened.operator
    end = ("LATEST", None, None)
    rewound = with_offsets(kinesis, {"shardId-1": 17})
    assert rewound.notes == (AT_LEAST_ONCE_WARNING,)
    assert places(rewound.source) == {"shardId-1": ("AFTER_SEQUENCE_NUMBER", "17", None), "shardId-2": end}
    for given, place in (
        ("496", ("AFTER_SEQUENCE_NUMBER", "496", None)),
        ("earliest", ("TRIM_HORIZON", None, None)),
        ("latest", end),
        ({"timestamp": 1700000000000}, ("AT_TIMESTAMP", None, 1700000000000)),
        ({"iterator_type": "AT_SEQUENCE_NUMBER", "sequence_number": "9"}, ("AT_SEQUENCE_NUMBER", "9", None)),
    ):
        assert places(with_offsets(kinesis, {"shardId-1": given}).source)["shardId-1"] == place
    # Unassigned shards are in the enumerator; the assigned shard there stays as it was.
    later = with_offsets(kinesis, {"shardId-3": 88}).source
    assert places(later)["shardId-1"] == ("AFTER_SEQUENCE_NUMBER", "495", None)
    kept, moved = written(later).enumerator["splits"]["items"]
    assert (kept["split"]["marker"], moved["split"]["marker"]["sequence_number"]) == (None, "88")
    theirs = {row["partition"]: positioned(kinesis, row) for row in offsets(rewound.source)}
    assert places(with_offsets(kinesis, theirs).source) == places(rewound.source)


def test_what_a_kinesis_source_could_not_do_is_refused(kinesis: SourceState) -> None:
    for given, why in (
        ({"shardId-1": "noon"}, "sequence number of a record"),
        ({"shardId-1": {"iterator_type": "LATEST", "sequence_number": "7"}}, "have a sequence_number"),
        ({"shardId-1": {"iterator_type": "NEWEST"}}, "iterator_type is one of"),
        ({"shardId-1": {"stream": "arn:another", "sequence_number": "7"}}, "cannot become"),
        ({"shardId-2": 4}, "was read to its end"),
    ):
        with pytest.raises(OptionError, match=why):
            with_offsets(kinesis, given)
    with pytest.raises(OptionError, match="not consecutive"):
        with_offsets(kinesis, None, by=1)
    with pytest.raises(OptionError, match="wait for its end"):
        remove_splits(kinesis, ["shardId-1"], forget=False)
    with pytest.raises(OptionError, match="finds shards itself"):
        add_splits(kinesis, [{"shard": "shardId-9"}])


def test_dynamodb_shards_go_on_elsewhere(corpus: Path) -> None:
    first, second = (utf(TABLE, name, "LATEST") + b"\0\0\0" for name in ("s-1", "s-2"))
    pending = i32(2, 1) + blob(first) + i32(0) + blob(second) + i32(1) + i64(9)
    read = utf(TABLE, "s-1", "AFTER_SEQUENCE_NUMBER") + b"\1\1" + utf("495") + b"\0\0"
    source = made(corpus, [Payload(1, read)], Payload(0, pending))
    assert source.kind is DYNAMODB_SPLITS
    assert source.written() == source.opened.operator
    (row,) = rows(with_offsets(source, {"s-1": 17}).source)
    assert (row["iterator_type"], row["sequence_number"]) == ("AFTER_SEQUENCE_NUMBER", "17")
    later = written(with_offsets(source, {"s-2": "earliest"}).source)
    assert [each["split"]["iterator_type"] for each in later.enumerator["splits"]["items"]] == [
        "LATEST",
        "TRIM_HORIZON",
    ]
    (moved,) = offsets(with_offsets(source, {"s-1": 17}).source)[:1]
    assert rows(with_offsets(source, {"s-1": positioned(source, moved)}).source)[0]["sequence_number"] == "17"
    with pytest.raises(OptionError, match="not 'AT_TIMESTAMP'"):
        with_offsets(source, {"s-1": {"iterator_type": "AT_TIMESTAMP"}})
    with pytest.raises(OptionError, match="timestamp"):
        with_offsets(source, {"s-1": {"timestamp": 1700000000000}})
    with pytest.raises(OptionError, match="parent is None, and cannot become"):
        with_offsets(source, {"s-1": {"parent": "s-0", "sequence_number": "17"}})


def test_sequence_numbers_of_any_length_are_compared(corpus: Path) -> None:
    read = shard("shardId-1", "AFTER_SEQUENCE_NUMBER", "9" * 5000)
    source = made(corpus, [Payload(2, read)], Payload(1, b"\0" + i32(1, 2) + blob(read) + i32(0)))
    assert with_offsets(source, {"shardId-1": "1" + "0" * 5000}).notes == ()
    assert with_offsets(source, {"shardId-1": "8" * 5000}).notes == (AT_LEAST_ONCE_WARNING,)


def test_the_consumer_before_the_kinesis_source(corpus: Path) -> None:
    source = made(corpus, [Payload(None, consumer_shard(b"495" + b"\xb7"))], None, CONSUMER_STATE)
    assert source.kind is KINESIS_CONSUMER
    assert source.written() == source.opened.operator
    rewound = with_offsets(source, {"shardId-1": 12})
    assert (rewound.notes, rows(rewound.source)[0]["sequence_number"]) == ((AT_LEAST_ONCE_WARNING,), "12")
    # The hash 58053 (37 * 1569), not null, the text, -1 for no part of an aggregate.
    assert written(rewound.source).splits[0].value["kryo"] == b"\x57\1\x8a\x8b\7\1" + b"1\xb2" + b"\1"
    assert rows(with_offsets(source, None, to="latest").source)[0]["marker"] == "latest"
    (row,) = offsets(rewound.source)
    assert rows(with_offsets(source, {"shardId-1": positioned(source, row)}).source)[0]["sequence_number"] == "12"
    assert remove_splits(source, ["shardId-1"], forget=True).source.splits == ()
    with pytest.raises(OptionError, match="from the beginning"):
        remove_splits(source, ["shardId-1"], forget=False)
    with pytest.raises(OptionError, match="of another connector"):
        SourceState.read(source.opened, "kafka")
    with pytest.raises(UnsupportedStateError, match="union state"):
        start_over(source.opened)


ENUMERATOR = Payload(5, i32(4, 2) + b"\0\1\2")


def binlog(corpus: Path, **fields: str) -> SourceState:
    offset = {"file": "bin.000003", "pos": "154", "event": "2", "row": "1", **fields}
    split = stream("binlog-split", json.dumps(offset).encode(), b"", i32(1) + b"\0")
    return made(corpus, [Payload(4, split)], ENUMERATOR)


def start(source: SourceState) -> Any:
    return json.loads(rows(source)[0]["start_offset"])


def test_mysql_goes_on_elsewhere_in_its_binary_log(corpus: Path) -> None:
    source = binlog(corpus, kind="LATEST")
    assert source.kind is MYSQL_CDC
    assert source.written() == source.opened.operator
    rewound = with_offsets(source, {"binlog-split": {"file": "bin.000002", "pos": 4}})
    assert rewound.notes == (AT_LEAST_ONCE_WARNING,)
    assert start(rewound.source) == {
        "file": "bin.000002", "pos": "4", "event": "0", "row": "0", "kind": "SPECIFIC",
    }  # fmt: skip
    assert written(rewound.source).enumerator == ENUMERATOR.data
    assert with_offsets(source, {"binlog-split": '{"file":"bin.000010","pos":"4"}'}).notes == ()
    (row,) = offsets(rewound.source)
    assert start(with_offsets(source, {"binlog-split": positioned(source, row)}).source) == start(rewound.source)
    with_gtids = binlog(corpus, gtids="a:1-7")
    assert start(with_offsets(with_gtids, {"binlog-split": {"gtids": "a:1-5"}}).source)["gtids"] == "a:1-5"
    for given, why in (
        ({"pos": "4"}, "continues at gtids"),
        ({"lsn": "4"}, "has the fields"),
        ({"pos": "x", "gtids": "a:1"}, "number of bytes"),
        ("earliest", "fields such as file"),
        ({"start_offset": '{"pos":"4","gtids":"a:1"}', "end_offset": "{}"}, "cannot become"),
    ):
        with pytest.raises(OptionError, match=why):
            with_offsets(with_gtids, {"binlog-split": given})
    for change in (lambda: with_offsets(source, None, by=1), lambda: remove_splits(source, ["binlog-split"], True)):
        with pytest.raises(OptionError, match=r"not consecutive|enumerator counts them"):
            change()


def wal(corpus: Path, **fields: str) -> SourceState:
    split = stream("stream-split", json.dumps(fields).encode(), b"\0", i32(1) + b"\0")
    return made(corpus, [Payload(5, split)], Payload(6, i32(5, 2) + b"\0"))


POSTGRES = {"lsn": "23456", "lsn_proc": "23400", "lsn_commit": "23400", "txId": "7", "ts_usec": "1700"}


def test_postgres_goes_on_elsewhere_in_its_write_ahead_log(corpus: Path) -> None:
    source = wal(corpus, **POSTGRES)
    assert source.kind is CDC
    assert source.written() == source.opened.operator
    # The connector would continue at lsn_proc, and search the transaction behind lsn_commit.
    rewound = with_offsets(source, {"stream-split": 20000})
    assert start(rewound.source) == {"lsn": "20000", "ts_usec": "1700"}
    assert rewound.notes[0] == AT_LEAST_ONCE_WARNING
    assert "confirmed_flush_lsn" in rewound.notes[1]
    assert written(rewound.source).enumerator == source.enumerator
    assert with_offsets(source, {"stream-split": 23401}).notes == ()
    for given, lsn in (("16/B374D848", "97500059720"), ("earliest", "0"), ({"lsn": 9, "lsn_proc": "8"}, "9")):
        assert start(with_offsets(source, {"stream-split": given}).source)["lsn"] == lsn
    # From another savepoint: all fields, as they were.
    (row,) = offsets(source)
    assert start(with_offsets(rewound.source, {"stream-split": positioned(source, row)}).source) == POSTGRES
    for given, why in (
        ("latest", "is an LSN"),
        (-1, "is an LSN"),
        (1 << 63, "is an LSN"),
        ({"file": "x", "lsn": "1"}, "an offset has lsn"),
        ({"lsn_proc": "1"}, "an offset has lsn"),
        ({"lsn": "16/B3"}, "an offset has lsn"),
    ):
        with pytest.raises(OptionError, match=why):
            with_offsets(source, {"stream-split": given})
    with pytest.raises(OptionError, match="not consecutive"):
        with_offsets(source, None, by=1)
    with pytest.raises(OptionError, match="only offsets of PostgreSQL"):
        with_offsets(wal(corpus, scn="5"), {"stream-split": 4})


CURSOR = blob(bytes.fromhex("aced000570"))
TOPIC = "persistent://t/n/orders"


def partition(number: int, message: str = "", full: bool = True, mode: bytes = b"") -> bytes:
    """A partition that has read up to a message."""
    ranges = i32(1, 0, 65535 if full else 100) + mode
    return (
        utf(TOPIC)
        + i32(number)
        + ranges
        + CURSOR
        + (b"\1" + blob(bytes.fromhex(message)) if message else b"\0")
        + b"\0"
    )


def assigned(*numbers: int, mode: bytes = b"") -> bytes:
    return i32(len(numbers)) + b"".join(utf(TOPIC) + i32(number) + i32(1, 0, 65535) + mode for number in numbers)


def test_pulsar_goes_on_behind_another_message(corpus: Path) -> None:
    # Partition 0 behind 10:20, partition 1 behind the third of eight messages of 10:21, partition 2 at its start.
    splits = [partition(0, "080a10141800"), partition(1, "080a1015180120023008"), partition(2)]
    source = made(corpus, [Payload(2, each) for each in splits], Payload(3, assigned(0, 1, 2)))
    assert source.kind is PULSAR_SPLITS
    assert source.written() == source.opened.operator
    assert [row["position"] for row in offsets(source)] == ["after 10:20", "after 10:21:2/8", "start cursor"]
    rewound = with_offsets(source, {(TOPIC, 0): "9:3", (TOPIC, 2): {"last_ledger_id": 8, "last_entry_id": -1}})
    assert rewound.notes[0] == AT_LEAST_ONCE_WARNING
    assert "retains" in rewound.notes[1]
    after = written(rewound.source)
    ids = [split.value["message_id"].hex() for split in after.splits]
    assert ids == ["080910031800", "080a1015180120023008", "080810" + "ff" * 9 + "011802"]
    assert after.enumerator == source.enumerator
    theirs = {(TOPIC, int(row["partition"])): positioned(source, row) for row in offsets(source)}
    back = written(with_offsets(rewound.source, {key: row for key, row in theirs.items() if key[1] < 2}).source)
    assert [split.value for split in back.splits[:2]] == [split.value for split in source.splits[:2]]
    assert with_offsets(source, {(TOPIC, 1): "10:21:3/8"}).notes == ()
    assert with_offsets(source, {(TOPIC, 1): "10:21"}).notes == ()  # behind the whole batch
    assert with_offsets(source, {(TOPIC, 1): "10:21:1/8"}).notes != ()
    for given, why in (
        ("earliest", "subscription's cursor"),
        (7, "ledger:entry"),
        ("10:21:8/8", "below last_batch_size"),
        ({"last_entry_id": 4}, "give both"),
        ({"last_ledger_id": -3, "last_entry_id": 4}, "whole number"),
        ({"ranges": ["0-1"], "last_ledger_id": 3, "last_entry_id": 4}, "cannot become"),
    ):
        with pytest.raises(OptionError, match=why):
            with_offsets(source, {(TOPIC, 1): given})
    with pytest.raises(OptionError, match="not consecutive"):
        with_offsets(source, None, by=-1)
    never = written(remove_splits(source, [(TOPIC, 1)], forget=False).source)
    assert [split.value["partition"] for split in never.splits] == [0, 2]
    assert never.enumerator == source.enumerator
    forgotten = remove_splits(source, [(TOPIC, 1)], forget=True)
    assert [each["partition"] for each in written(forgotten.source).enumerator["partitions"]] == [0, 2]
    assert "cursor of its subscription" in forgotten.notes[0]
    with pytest.raises(OptionError, match="give forget"):
        remove_splits(source, [(TOPIC, 1)], None)
    with pytest.raises(OptionError, match="finds partitions itself"):
        add_splits(source, [{"topic": TOPIC, "partition": 9}])


def test_shared_subscriptions_of_pulsar_have_their_position_at_the_broker(corpus: Path) -> None:
    splits = [Payload(2, partition(0, "080a1014", full=False))]
    shared = made(corpus, splits, Payload(3, assigned(0)))
    with pytest.raises(OptionError, match="one cursor for all readers"):
        with_offsets(shared, {TOPIC: "9:3"})
    mode = i32(1)
    older = made(corpus, [Payload(1, partition(0, mode=mode))], Payload(2, assigned(0, mode=mode)))
    assert older.kind is PULSAR_SPLITS
    with pytest.raises(OptionError, match="names no message"):
        with_offsets(older, {TOPIC: "9:3"})
    with pytest.raises(OptionError, match="does not know"):
        remove_splits(made(corpus, splits, Payload(3, assigned(1))), [TOPIC], forget=False)


def test_partitions_of_clusters_go_on_elsewhere(corpus: Path) -> None:
    state = KafkaEnumerator(
        (KafkaPartition("orders", 0, True, KafkaSplit("orders", 0, -2)),
         KafkaPartition("orders", 1, False, KafkaSplit("orders", 1, 5)))
    )  # fmt: skip
    enumerator = DynamicKafkaEnumerator((), 3, (ClusterEnumerator("east", state),))
    split = utf("east") + i32(0) + utf("orders") + i32(0) + (40).to_bytes(8, "big") + b"\x80" + bytes(7)
    source = made(corpus, [Payload(1, split)], DYNAMIC_KAFKA_ENUMERATOR.write(1, enumerator))
    assert source.written() == source.opened.operator
    after = written(with_offsets(source, {("east", "orders"): 7}).source)
    assert after.splits[0].value == DynamicKafkaSplit("east", KafkaSplit("orders", 0, 7))
    kept, moved = after.enumerator.clusters[0].state.partitions
    assert (kept.split.offset, moved.split.offset) == (-2, 7)
    (row,) = offsets(after)
    again = with_offsets(source, {("east", "orders", 0): positioned(source, row)}).source
    assert written(again).splits[0].value.split.offset == 7
    assert written(with_offsets(source, {("east", "orders", 0): "latest"}).source).splits[0].value.split.offset == -1
    for change in (add_splits, lambda source, rows: remove_splits(source, [("east", "orders", 0)], False)):
        with pytest.raises(OptionError, match="discovers the partitions"):
            change(source, [{"cluster": "east", "topic": "orders", "partition": 2}])


def test_the_source_of_a_hybrid_that_runs_goes_on_elsewhere(corpus: Path) -> None:
    source = SourceState.read(opened(corpus, "2.3.0-hybrid-second"))
    assert source.written() == source.opened.operator
    first = source.splits[0].value
    name = first.value.split_id
    rewound = with_offsets(source, {name: first.value.next - 3})
    assert rewound.notes == (AT_LEAST_ONCE_WARNING,)
    after = written(rewound.source).splits
    assert after[0].value == replace(first, value=replace(first.value, next=first.value.next - 3))
    assert after[1:] == source.splits[1:]
    added = written(add_splits(source, [{"split_id": "77", "next": 5, "to": 6}]).source)
    (new,) = [split.value for split in added.splits if split not in source.splits]
    assert (new.source_index, new.split_id, new.value.to) == (first.source_index, "77", 6)
    assert written(remove_splits(added, ["77"], None).source).splits == source.splits
    with pytest.raises(OptionError, match="which is running"):
        with_offsets(source, {name: {"source_index": 0, "next": 3}})
    earlier = replace(source.splits[0], value=replace(first, source_index=0))
    with pytest.raises(OptionError, match="was switching"):
        add_splits(replace(source, splits=(earlier, *source.splits[1:])), [{"split_id": "77", "next": 5, "to": 6}])
