"""Kafka sink: committables and the state of its writers.

    committable := i16 epoch  i64 producerId  utf transactionalId                            version 1
    writer      := utf prefix                                                                version 1
                 | utf prefix  i32 subtask  i32 subtasks  i32 ownership                      version 2, since 4.0.0
                   i32 n {utf transactionalId  i64 checkpoint}[n]

Connector: ``KafkaCommittableSerializer``, ``KafkaWriterStateSerializer``. Both were written by the real serializers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

import pyarrow as pa

from pyspark_savepoint.formats.connectors.payloads.kind import COMMITTABLES, WRITER_STATE, ConnectorKind, Row, columns
from pyspark_savepoint.formats.connectors.payloads.layouts import (
    I16,
    I32,
    I64,
    UTF,
    Codec,
    Coded,
    CountedList,
    Record,
    reader,
    writer,
)
from pyspark_savepoint.formats.connectors.sinks.committer import committer_kind

#: Who owns a transactional id: every subtask that of its index, or the writer state that lists it.
OWNERSHIP = MappingProxyType({0: "IMPLICIT_BY_SUBTASK_ID", 1: "EXPLICIT_BY_WRITER_STATE"})
COMMITTABLE: Mapping[int, Codec] = MappingProxyType({1: Record(epoch=I16, producer_id=I64, transactional_id=UTF)})
WRITER: Mapping[int, Codec] = MappingProxyType(
    {
        1: Record(prefix=UTF),
        2: Record(
            prefix=UTF,
            writer_subtask=I32,
            number_of_subtasks=I32,
            ownership=Coded(OWNERSHIP),
            transactions=CountedList(Record(transactional_id=UTF, checkpoint_id=I64)),
        ),
    }
)


def writer_rows(value: Row) -> Iterator[Row]:
    """Yield the transactions that a writer lists; a row without one if it lists none."""
    shown = {name: each for name, each in value.items() if name != "transactions"}
    for transaction in value.get("transactions") or [{}]:
        yield {**shown, **transaction}


def _check_writers(values: Sequence[Row]) -> None:
    if not all(value["prefix"] for value in values):
        raise ValueError("a prefix of transactional ids is empty")


KAFKA_COMMITTABLES = committer_kind(
    "kafka",
    COMMITTABLE,
    columns(transactional_id=pa.string(), producer_id=pa.int64(), epoch=pa.int16()),
    doubt="any sink whose committables are a short, a long and a text",
)
KAFKA_WRITERS = ConnectorKind[Row](
    "kafka",
    COMMITTABLES,
    columns(
        prefix=pa.string(),
        writer_subtask=pa.int32(),
        number_of_subtasks=pa.int32(),
        ownership=pa.string(),
        transactional_id=pa.string(),
        checkpoint_id=pa.int64(),
    ),
    reader(WRITER, "the state of a Kafka writer"),
    writer(WRITER),
    writer_rows,
    (WRITER_STATE,),
    check=_check_writers,
    doubt="any sink whose writers keep a text",
)
