"""DynamoDB streams: splits and enumerator of the source.

    split      := utf streamArn  utf shardId  utf iteratorType  bool [bool isText [utf sequenceNumber]]
                  bool [utf parent]  [version 1, 2: bool finished]
                  [version 2: i32 n {utf child  utf parent  utf firstNumber  bool [utf lastNumber]}[n]]
    enumerator := i32 n  i32 splitVersion  {blob split  i32 status}[n]  i64 startTimestamp           version 0

Layout from source code. Connector: ``DynamoDbStreamsShardSplitSerializer``,
``DynamoDbStreamsSourceEnumeratorStateSerializer``. Shards are those of Kinesis, without positions in time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from pyspark_savepoint.formats.connectors.payloads.connector import Connector, Effect, Refusal
from pyspark_savepoint.formats.connectors.payloads.edits import refuse_changes
from pyspark_savepoint.formats.connectors.payloads.kind import (
    SOURCE_COORDINATOR,
    SPLITS,
    ConnectorKind,
    Row,
    columns,
)
from pyspark_savepoint.formats.connectors.payloads.layouts import (
    UTF,
    Layouts,
    Record,
    payloads,
    reader,
    words,
    writer,
)
from pyspark_savepoint.formats.connectors.sources.kinesis import (
    ITERATOR_TYPES,
    STATUS,
    TIMESTAMP,
    KinesisEdits,
    iterator_type,
    split_position,
    split_row,
    splits_of_one_version,
)
from pyspark_savepoint.formats.encodings import BOOL, I64, many, optional, valid

NAME = "dynamodb_streams"
POSITIONS = tuple(each for each in ITERATOR_TYPES if each != TIMESTAMP)
CHILD = Record(shard=UTF, parent=UTF, first_sequence_number=UTF, last_sequence_number=optional(UTF))
_FIRST = Record(
    stream=valid(UTF, lambda stream: stream.split(":")[::2][:2] == ["arn", "dynamodb"], "the ARN of a DynamoDB stream"),
    shard=UTF,
    iterator_type=iterator_type(POSITIONS),
    marker=optional(Record(sequence_number=optional(UTF))),
    parent=optional(UTF),
)
_SECOND = _FIRST.with_parts(finished=BOOL)
SPLIT: Layouts = MappingProxyType({0: _FIRST, 1: _SECOND, 2: _SECOND.with_parts(children=many(CHILD))})
ENUMERATOR = Record(splits=splits_of_one_version(SPLIT, status=words(STATUS)), start=I64)
SPLIT_COLUMNS = columns(
    stream=pa.string(),
    shard=pa.string(),
    parent=pa.string(),
    iterator_type=pa.string(),
    sequence_number=pa.string(),
    finished=pa.bool_(),
)


def _row(split: Row) -> Row:
    row = {**split_row(split), "parent": split["parent"]}
    del row["timestamp"]
    return row


def _enumerator_rows(value: Row) -> Iterator[Row]:
    for entry in value["splits"]["items"]:
        yield {**_row(entry["split"]), "status": entry["status"], "start_timestamp": value["start"]}


DYNAMODB_SPLITS = ConnectorKind[Row](
    NAME,
    SPLITS,
    SPLIT_COLUMNS,
    reader(SPLIT, "a split"),
    writer(SPLIT),
    lambda split: [_row(split)],
    positions=lambda split: [split_position(split)],
)
DYNAMODB_ENUMERATOR = ConnectorKind[Row](
    NAME,
    SOURCE_COORDINATOR,
    pa.schema([*SPLIT_COLUMNS, *columns(status=pa.string(), start_timestamp=pa.int64())]),
    *payloads(ENUMERATOR, (0,), "an enumerator"),
    _enumerator_rows,
    states=(),
)


class DynamoDbEdits(KinesisEdits):
    """Edits of shards of DynamoDbStreamsSource."""

    iterator_types = POSITIONS
    empty_marker: Mapping[str, Any] = MappingProxyType({"sequence_number": None})

    def changed(self, value: Row, row: Row) -> Row:
        """Return the split with another position."""
        refuse_changes(row, value, ("parent",))
        return super().changed(value, row)


CONNECTORS = (
    Connector(
        NAME,
        (DYNAMODB_SPLITS, DYNAMODB_ENUMERATOR),
        versions="split 0 to 2, enumerator 0",
        changes="`with_offsets`",
        proof="source",
        edits=DynamoDbEdits(),
        effects=(
            Effect(
                "DynamoDB streams: `with_offsets`",
                "type of iterator with sequence number",
                "of shards not assigned",
                "continues after the record (not tried)",
            ),
        ),
        refusals=(
            Refusal("DynamoDB streams: shards that are added or removed", "Children wait for their parents' end."),
        ),
    ),
)
