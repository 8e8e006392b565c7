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

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NoReturn

import pyarrow as pa

from pyspark_savepoint.formats.connectors.payloads.connector import Connector, Effect, Refusal
from pyspark_savepoint.formats.connectors.payloads.edits import (
    Edited,
    Key,
    S,
    SplitEdits,
    named_in_source,
    refuse_changes,
    split_text,
    split_texts,
    whole,
)
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
from pyspark_savepoint.formats.encodings import BOOL, I32, I64, Encoding, many, optional, sized

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


LAST_LEDGER, LAST_ENTRY, LAST_INDEX, LAST_SIZE = POSITION_COLUMNS = (
    "last_ledger_id",
    "last_entry_id",
    "last_batch_index",
    "last_batch_size",
)
#: ``ledger:entry``, with ``:index/size`` of a message of a batch, as table offsets shows it.
MESSAGE = re.compile(r"(?:after )?(\d{1,19}):(-1|\d{1,19})(?::(\d{1,9})/(\d{1,9}))?", re.ASCII)


class PulsarEdits(SplitEdits):
    """Edits of partitions: the last message that was read. The enumerator has the assigned partitions."""

    key_columns = ("topic", "partition")

    def key(self, value: Row) -> Key:
        """Return topic and partition, and the key ranges if they are not all."""
        row = partition_row(value)
        ranges = () if row["ranges"] == FULL_RANGE else (" ".join(row["ranges"]),)
        return (row["topic"], row["partition"], *ranges)

    def target(self, target: int | str) -> Row:
        """Return the columns of the last message read."""
        match = MESSAGE.fullmatch(str(target).strip())
        if match is None:
            raise ValueError(
                "a position is the last message that was read, as ledger:entry, such as '1042:17' (entry -1: none of "
                f"the ledger), and cannot be {target!r}; earliest and latest are places of the subscription's cursor, "
                "which pulsar-admin resets"
            )
        return {
            name: int(text) for name, text in zip(POSITION_COLUMNS, match.groups(), strict=True) if text is not None
        }

    def positioned(self, row: Row) -> Row:
        """Return the columns that a row of table offsets sets."""
        position = str(row["position"])
        columns = self.target(position) if position.startswith("after ") else {}
        return {"topic": row["stream"], "partition": int(row["partition"]), **columns}

    def moved(self, value: Row, by: int, clamp: bool) -> NoReturn:
        """Raise ValueError: message ids are not consecutive."""
        raise ValueError(f"ids of messages are not consecutive, so that no partition can be moved by {by}")

    def changed(self, value: Row, row: Row) -> Row:
        """Return the split after another message; a batch is read to its end unless index and size are given."""
        before = split_row(value)
        refuse_changes(row, before, ("ranges", "transaction"))
        last_message = _last_message(row)
        if last_message in ((None,) * 4, _last_message(before)):
            return value
        ledger, entry, index, size = last_message
        if ledger is None or entry is None:
            raise ValueError(f"the last message read has {LAST_LEDGER} and {LAST_ENTRY}: give both")
        if (index is None) != (size is None) or (index is not None and size is not None and not 0 <= index < size):
            raise ValueError(
                f"a message of a batch has {LAST_INDEX} below {LAST_SIZE}; without both, all of the batch was read"
            )
        name = before["split_id"]
        if before["ranges"] != FULL_RANGE or value["transaction"] is not None:
            raise ValueError(f"the subscription of {name} is shared: the broker has one cursor for all readers")
        if value["message_id"] is None and ("mode" in value or "range" in value):
            raise ValueError(
                f"{name} names no message: this release of the connector reads shared subscriptions too, and ignores a "
                "position of these"
            )
        entry = -1 if entry == -1 else whole(entry, LAST_ENTRY)
        return {**value, "message_id": message_id(value, whole(ledger, LAST_LEDGER), entry, index, size)}

    def goes_back(self, before: Row, after: Row) -> bool:
        """Return whether messages are read again."""
        return before["message_id"] is not None and _order(after) < _order(before)

    def added(self, source: S, rows: Sequence[Row]) -> NoReturn:
        """Raise ValueError: partitions are found."""
        raise ValueError("the source finds partitions itself, with the stop cursor of the job: none can be added")

    def removed(self, source: S, keys: Sequence[Key], forget: bool | None) -> Edited[S]:
        """Return the source without partitions; ``forget``: a job that subscribes to them finds them as new ones."""
        if forget is None:
            raise ValueError(
                "give forget: with forget=False the partitions are never read again; with forget=True a job that still "
                "subscribes to them finds them as new and reads from the cursor of its subscription"
            )
        removed_keys = named_in_source(self, source, keys, {})
        partitions = source.enumerator["partitions"]
        missing = removed_keys - set(map(self.key, partitions))
        if not forget and missing:
            raise ValueError(f"the enumerator does not know {split_text(min(missing))}, and would find it as new")
        if not forget:
            return Edited(self.without(source, removed_keys))
        kept = [partition for partition in partitions if self.key(partition) not in removed_keys]
        note = (
            f"a job that still subscribes to {split_texts(removed_keys)} reads it from the cursor of "
            "its subscription; without one at the broker, from where the job's settings start"
        )
        return Edited(
            replace(self.without(source, removed_keys), enumerator={**source.enumerator, "partitions": kept}), (note,)
        )


def _last_message(row: Row) -> tuple[int | None, ...]:
    """Return ledger, entry, index and size; index and size of messages without a batch are None."""
    position = tuple(row.get(name) for name in POSITION_COLUMNS)
    batch = position[2:]
    return (*position[:2], *((None, None) if all(part is None or part < 0 for part in batch) else batch))


def _order(value: Row) -> tuple[int, int, float]:
    """Return the place of a split in the order of messages: a whole batch is after its messages."""
    ledger, entry, index, _ = _last_message(split_row(value))
    return ledger or 0, entry or 0, float("inf") if index is None else index


CONNECTORS = (
    Connector(
        "pulsar",
        (PULSAR_SPLITS, PULSAR_ENUMERATOR, PULSAR_COMMITTABLES),
        rank=7,
        versions="split 0 to 2, enumerator 0 to 3, committable 1",
        changes="`with_offsets`, `remove_splits`, commits",
        proof="source",
        edits=PulsarEdits(),
        retention="the broker deletes messages that were acknowledged, unless its namespace retains them",
        effects=(
            Effect(
                "Pulsar: `with_offsets`",
                "the last message read",
                "nothing",
                "the reader moves the cursor of its subscription to the next message (not tried)",
            ),
            Effect(
                "Pulsar: `remove_splits`",
                "removed",
                "stays, or with `forget=True` removed",
                "never reads it again, or finds it as new, at the cursor of its subscription (not tried)",
            ),
        ),
        refusals=(Refusal("Pulsar: positions of shared subscriptions", "The broker has one cursor for all readers."),),
    ),
)
