"""Pulsar: splits and enumerator of the source, committables of the sink (layout from source code).

    split       := Partition  blob stopCursor  bool [blob MessageId]  bool [i64 i64 transaction]
    Partition   := utf topic  i32 partition (-1: not partitioned)
                   i32 n {i32 start  i32 end}[n]  [version 1: i32 mode]      version 0: one range
    enumerator  := i32 n Partition[n]                                        versions 1, 2, 3: Partition 0, 1, 2
                   [version 0: Partition 0;  i32 n split[n]  i32 n {i32 reader  i32 n split[n]}[n]
                    i32 n {i32 reader  i32 n utf splitId[n]}[n]  bool initialized]
    committable := i64 most  i64 least  utf topic                            version 1

The stop cursor is a Java object stream, which is kept. The message id, in Protocol Buffers (``MessageIdData``), is that
of the last message consumed. Connector: ``PulsarPartitionSplitSerializer`` (``serializeTopicPartition``),
``PulsarSourceEnumStateSerializer``, ``PulsarSerdeUtils``, ``PulsarCommittableSerializer``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from pyspark_savepoint.formats.connectors.payloads.kind import (
    SOURCE_COORDINATOR,
    SPLITS,
    ConnectorKind,
    Position,
    Row,
    columns,
)
from pyspark_savepoint.formats.connectors.payloads.layouts import BLOB, JAVA_BYTES, UTF, Layouts, Record, reader, writer
from pyspark_savepoint.formats.connectors.sinks.committer import committer_kind
from pyspark_savepoint.formats.data_view import DataOutputView
from pyspark_savepoint.formats.structs import BOOL, I32, I64, Encoding, many, optional, sized

RANGE = Record(start=I32, end=I32)
PARTITION = Record(topic=UTF, partition=I32, ranges=many(RANGE))
FIRST_PARTITION = Record(topic=UTF, partition=I32, range=RANGE)
SECOND_PARTITION = PARTITION.with_parts(mode=I32)
_BEHIND: Mapping[str, Encoding[Any]] = {
    "stop_cursor": sized(JAVA_BYTES),
    "message_id": optional(BLOB),
    "transaction": optional(Record(most=I64, least=I64)),
}
SPLIT: Layouts = MappingProxyType(
    {
        0: FIRST_PARTITION.with_parts(**_BEHIND),
        1: SECOND_PARTITION.with_parts(**_BEHIND),
        2: PARTITION.with_parts(**_BEHIND),
    }
)
_OF_READERS = many(Record(reader=I32, splits=many(SPLIT[0])))
_SHARED = many(Record(reader=I32, splits=many(UTF)))
ENUMERATOR: Layouts = MappingProxyType(
    {
        0: Record(
            partitions=many(FIRST_PARTITION),
            pending=many(SPLIT[0]),
            pending_of_readers=_OF_READERS,
            shared=_SHARED,
            initialized=BOOL,
        ),
        1: Record(partitions=many(FIRST_PARTITION)),
        2: Record(partitions=many(SECOND_PARTITION)),
        3: Record(partitions=many(PARTITION)),
    }
)
COMMITTABLE: Layouts = MappingProxyType({1: Record(transaction_most=I64, transaction_least=I64, topic=UTF)})
#: Fields of a message id, by number.
LEDGER, ENTRY, PARTITION_INDEX, BATCH, BATCH_SIZE = 1, 2, 3, 4, 6
#: Ranges of the hash of keys: the whole range, except in Key_Shared subscriptions.
FULL_RANGE = ["0-65535"]


def message_fields(data: bytes) -> dict[int, int]:
    """Return the numbers of a message id by field, up to the first field that is not a number.

    >>> message_fields(bytes.fromhex("080a1014"))
    {1: 10, 2: 20}
    """
    fields = {}
    numbers = iter(_varints(data))
    for tag in numbers:
        value = next(numbers, None)
        if tag & 7 or value is None:
            break
        fields[tag >> 3] = value - (value >> 63 << 64)
    return fields


def message_id(split: Mapping[str, Any], ledger: int, entry: int, index: int | None, size: int | None) -> bytes:
    """Return the id of a message of a split's partition, of a batch if it has an index.

    >>> message_id({"message_id": None, "partition": 3}, 10, 20, None, None).hex()
    '080a10141803'
    """
    known = message_fields(split["message_id"] or b"").get(PARTITION_INDEX, split["partition"])
    fields = {LEDGER: ledger, ENTRY: entry, PARTITION_INDEX: known, BATCH: index, BATCH_SIZE: size}
    out = DataOutputView()
    for number, value in fields.items():
        if value is None or (number == PARTITION_INDEX and value < 0):
            continue
        _write_varint(out, number << 3)
        _write_varint(out, value & 0xFFFFFFFFFFFFFFFF)
    return out.getvalue()


def _write_varint(out: DataOutputView, value: int) -> None:
    while value >= 0x80:
        out.write_u8(value & 0x7F | 0x80)
        value >>= 7
    out.write_u8(value)


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


def split_row(value: Mapping[str, Any]) -> Row:
    message = message_fields(value["message_id"] or b"")
    transaction = value["transaction"]
    return {
        **partition_row(value),
        "last_ledger_id": message.get(LEDGER),
        "last_entry_id": message.get(ENTRY),
        "last_batch_index": message.get(BATCH),
        "last_batch_size": message.get(BATCH_SIZE),
        "transaction": None if transaction is None else f"({transaction['most']},{transaction['least']})",
    }


def partition_row(value: Mapping[str, Any]) -> Row:
    partition = value["partition"]
    name = value["topic"] if partition < 0 else f"{value['topic']}-partition-{partition}"
    ranges = value["ranges"] if "ranges" in value else [value["range"]]
    shown = [f"{hash_range['start']}-{hash_range['end']}" for hash_range in ranges]
    return {"split_id": name, "topic": value["topic"], "partition": partition, "ranges": shown}


def _check_enumerators(values: Sequence[Row]) -> None:
    if not all(value["partitions"] or value.get("initialized", True) for value in values):
        raise ValueError("an empty enumerator of version 0 consists of zeros, as other states may")


def _position(value: Row) -> Position:
    row = split_row(value)
    last = row["last_ledger_id"], row["last_entry_id"]
    known = None not in last
    size = row["last_batch_size"]
    batch = f":{row['last_batch_index']}/{size}" if size and (row["last_batch_index"] or 0) >= 0 else ""
    return Position(
        value["topic"],
        value["partition"],
        f"after {last[0]}:{last[1]}{batch}" if known else None,
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
                last_batch_size=pa.int64(),
                transaction=pa.string(),
            ),
        ]
    ),
    reader(SPLIT, "a split"),
    writer(SPLIT),
    lambda value: [split_row(value)],
    positions=lambda value: [_position(value)],
)
PULSAR_ENUMERATOR = ConnectorKind[Row](
    "pulsar",
    SOURCE_COORDINATOR,
    PARTITION_COLUMNS,
    reader(ENUMERATOR, "partitions"),
    writer(ENUMERATOR),
    lambda value: map(partition_row, value["partitions"]),
    states=(),
    check=_check_enumerators,
)
PULSAR_COMMITTABLES = committer_kind(
    "pulsar",
    COMMITTABLE,
    columns(transaction_most=pa.int64(), transaction_least=pa.int64(), topic=pa.string()),
    doubt="any sink whose committables are two longs and a text",
)
