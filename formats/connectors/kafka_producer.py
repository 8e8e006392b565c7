"""FlinkKafkaProducer, the exactly-once sink before KafkaSink: its two states.

    state                         := bool [txn  i64 started]  i32 n {txn  i64 started}[n]  bool [i32 n utf[n]]
    txn                           := bool [utf transactionalId]  i64 producerId  i16 epoch
    next-transactional-id-hint-v2 := i64 nextFreeId  i32 lastParallelism

The first transaction is open (aborted on restore), the listed ones wait for their commit (committed on restore).
Connector: ``FlinkKafkaProducer.TransactionStateSerializer``, ``TwoPhaseCommitSinkFunction.StateSerializer``; from
source.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from pyspark_savepoint.formats.connectors.kind import COMMITTABLES, ConnectorKind, Row, columns
from pyspark_savepoint.formats.connectors.layouts import (
    I16,
    I32,
    I64,
    UNVERSIONED,
    UTF,
    Optional,
    Record,
    Repeated,
    reader,
    writer,
)

STATE, HINT_STATE = "state", "next-transactional-id-hint-v2"
TRANSACTION = Record(transactional_id=Optional(UTF), producer_id=I64, epoch=I16, started=I64)
ELEMENT = Record(open=Optional(TRANSACTION), pending=Repeated(TRANSACTION), ids=Optional(Repeated(UTF)))
HINT = Record(next_free_id=I64, last_parallelism=I32)


def _rows(value: Row) -> Iterator[Row]:
    """Yield the transactions: the open one, then those that wait for their commit."""
    if value["open"] is not None:
        yield {"role": "OPEN", **value["open"]}
    for each in value["pending"]:
        yield {"role": "PENDING", **each}


def _check(values: Sequence[Row]) -> None:
    # Many things are named "state": a sink that has no transaction at all says nothing.
    if not any(value["open"] or value["pending"] or value["ids"] for value in values):
        raise ValueError("there are no transactions")


KAFKA_PRODUCER = ConnectorKind[Row](
    "kafka_producer",
    COMMITTABLES,
    columns(
        role=pa.string(), transactional_id=pa.string(), producer_id=pa.int64(), epoch=pa.int16(), started=pa.int64()
    ),
    reader({UNVERSIONED: ELEMENT}, "the transactions of a sink"),
    writer({UNVERSIONED: ELEMENT}),
    _rows,
    (STATE,),
    framed=False,
    check=_check,
)
KAFKA_PRODUCER_HINT = ConnectorKind[Row](
    "kafka_producer",
    COMMITTABLES,
    columns(next_free_id=pa.int64(), last_parallelism=pa.int32()),
    reader({UNVERSIONED: HINT}, "the next transactional ids"),
    writer({UNVERSIONED: HINT}),
    lambda value: [value],
    (HINT_STATE,),
    framed=False,
)
