"""Pulsar: splits and enumerator of the source, committables of the sink; from source.

    split       := Partition  [version 1: i32 mode]  blob stopCursor  bool [blob MessageId]  bool [i64 i64 transaction]
    Partition   := utf topic  i32 partition (-1: not partitioned)  i32 n {i32 start  i32 end}[n]; version 0: one range
    enumerator  := i32 n Partition[n]                                                               versions 2 and 3
    committable := i64 most  i64 least  utf topic                                                   version 1

The stop cursor is a Java object stream, which is kept. The message id, in Protocol Buffers, is that of the last message
consumed. Connector: ``PulsarPartitionSplitSerializer``, ``PulsarSourceEnumStateSerializer``,
``PulsarCommittableSerializer``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

import pyarrow as pa

from pyspark_savepoint.formats.connectors.committer import committer_kind
from pyspark_savepoint.formats.connectors.kind import (
    SOURCE_COORDINATOR,
    SPLITS,
    ConnectorKind,
    Position,
    Row,
    columns,
)
from pyspark_savepoint.formats.connectors.layouts import (
    BLOB,
    I32,
    I64,
    UTF,
    Codec,
    CountedList,
    JavaBytes,
    Optional,
    Record,
    Sized,
    reader,
    writer,
)

RANGE = Record(start=I32, end=I32)
PARTITION = Record(topic=UTF, partition=I32, ranges=CountedList(RANGE))
_BEHIND: Mapping[str, Codec] = {
    "stop_cursor": Sized(JavaBytes()),
    "message_id": Optional(BLOB),
    "transaction": Optional(Record(most=I64, least=I64)),
}
SPLIT: Mapping[int, Codec] = MappingProxyType(
    {
        0: Record(topic=UTF, partition=I32, range=RANGE, **_BEHIND),
        1: PARTITION.with_parts(mode=I32, **_BEHIND),
        2: PARTITION.with_parts(**_BEHIND),
    }
)
ENUMERATOR: Mapping[int, Codec] = MappingProxyType({2: CountedList(PARTITION), 3: CountedList(PARTITION)})
COMMITTABLE: Mapping[int, Codec] = MappingProxyType({1: Record(transaction_most=I64, transaction_least=I64, topic=UTF)})
#: Fields of a message id, by number.
LEDGER, ENTRY, BATCH = 1, 2, 4


def message_fields(data: bytes) -> dict[int, int]:
    """Return the numbers of a message id by field; fields behind one that is not a number are left out.

    >>> message_fields(bytes.fromhex("080a1014"))
    {1: 10, 2: 20}
    """
    found = {}
    numbers = iter(_varints(data))
    for tag in numbers:
        value = next(numbers, None)
        if tag & 7 or value is None:
            break
        found[tag >> 3] = value - (value >> 63 << 64)
    return found


def _varints(data: bytes) -> Iterator[int]:
    value = shift = 0
    for byte in data:
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            yield value & 0xFFFFFFFFFFFFFFFF
            value = shift = 0
        elif shift > 63:
            return


def _split_row(value: Row) -> Row:
    message = message_fields(value["message_id"] or b"")
    transaction = value["transaction"]
    return {
        **_partition_row(value),
        "last_ledger_id": message.get(LEDGER),
        "last_entry_id": message.get(ENTRY),
        "last_batch_index": message.get(BATCH),
        "transaction": None if transaction is None else f"({transaction['most']},{transaction['least']})",
    }


def _partition_row(value: Row) -> Row:
    partition = value["partition"]
    name = value["topic"] if partition < 0 else f"{value['topic']}-partition-{partition}"
    ranges = value["ranges"] if "ranges" in value else [value["range"]]
    shown = [f"{each['start']}-{each['end']}" for each in ranges]
    return {"split_id": name, "topic": value["topic"], "partition": partition, "ranges": shown}


def _position(value: Row) -> Position:
    row = _split_row(value)
    last = row["last_ledger_id"], row["last_entry_id"]
    known = None not in last
    return Position(
        value["topic"],
        value["partition"],
        f"after {last[0]}:{last[1]}" if known else None,
        None if known else "start cursor",
    )


PARTITION_COLUMNS = columns(topic=pa.string(), partition=pa.int32(), ranges=pa.list_(pa.string()))
PULSAR_SPLITS = ConnectorKind[Row](
    "pulsar",
    SPLITS,
    pa.schema(
        [
            *PARTITION_COLUMNS,
            *columns(
                last_ledger_id=pa.int64(),
                last_entry_id=pa.int64(),
                last_batch_index=pa.int64(),
                transaction=pa.string(),
            ),
        ]
    ),
    reader(SPLIT, "a split"),
    writer(SPLIT),
    lambda value: [_split_row(value)],
    positions=lambda value: [_position(value)],
)
PULSAR_ENUMERATOR = ConnectorKind[list[Row]](
    "pulsar",
    SOURCE_COORDINATOR,
    PARTITION_COLUMNS,
    reader(ENUMERATOR, "partitions"),
    writer(ENUMERATOR),
    lambda value: map(_partition_row, value),
    states=(),
)
PULSAR_COMMITTABLES = committer_kind(
    "pulsar",
    COMMITTABLE,
    columns(transaction_most=pa.int64(), transaction_least=pa.int64(), topic=pa.string()),
    doubt="any sink whose committables are two longs and a text",
)
