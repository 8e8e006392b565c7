"""FlinkKafkaProducer, the exactly-once sink before KafkaSink: its two states.

    state                         := bool [txn  i64 started]  i32 n {txn  i64 started}[n]  bool [i32 n utf[n]]
                                   | txn  i64 started         the same                                older releases
    txn                           := bool [utf transactionalId]  i64 producerId  i16 epoch
    next-transactional-id-hint-v2 := i64 nextFreeId  i32 lastParallelism

The first transaction is open (aborted on restore), the listed ones wait for their commit (committed on restore).
Layout from source code. Connector: ``FlinkKafkaProducer.TransactionStateSerializer``,
``TwoPhaseCommitSinkFunction.StateSerializer``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress

import pyarrow as pa

from pyspark_savepoint.formats.connectors.payloads.kind import COMMITTABLES, ConnectorKind, Row, columns
from pyspark_savepoint.formats.connectors.payloads.layouts import (
    I16,
    I32,
    I64,
    UNVERSIONED,
    UTF,
    CountedList,
    Optional,
    Record,
    reader,
    writer,
)
from pyspark_savepoint.formats.data_view import DataInputView, DataOutputView
from pyspark_savepoint.formats.errors import CorruptStateError

STATE, HINT_STATE = "state", "next-transactional-id-hint-v2"
TRANSACTION = Record(transactional_id=Optional(UTF), producer_id=I64, epoch=I16, started=I64)
ELEMENT = Record(open=Optional(TRANSACTION), pending=CountedList(TRANSACTION), ids=Optional(CountedList(UTF)))
#: Layout of older releases, which always have an open transaction.
ALWAYS_OPEN = Record(always_open=TRANSACTION, pending=CountedList(TRANSACTION), ids=Optional(CountedList(UTF)))
#: Producer and epoch of a sink that is not exactly-once.
NOT_TRANSACTIONAL = (-1, -1)
HINT = Record(next_free_id=I64, last_parallelism=I32)


def _read(_: int, view: DataInputView) -> Row:
    """Read the newer layout if it takes all bytes, else the older one."""
    start = view.position
    with suppress(CorruptStateError):
        value = ELEMENT.read(view, "the transactions of a sink")
        if not view.remaining:
            return value
    view.position = start
    return ALWAYS_OPEN.read(view, "the transactions of a sink")


def _write(_: int, value: Row, out: DataOutputView) -> None:
    (ALWAYS_OPEN if "always_open" in value else ELEMENT).write(out, value)


def _open(value: Row) -> Row | None:
    return value["always_open"] if "always_open" in value else value["open"]  # type: ignore[no-any-return]


def _rows(value: Row) -> Iterator[Row]:
    """Yield the transactions: the open one, then those that wait for their commit."""
    opened = _open(value)
    if opened is not None:
        yield {"role": "OPEN", **opened}
    for each in value["pending"]:
        yield {"role": "PENDING", **each}


def _check(values: Sequence[Row]) -> None:
    # Many states are named "state": without any transaction, nothing shows that this one belongs to a Kafka sink.
    if not any(_open(value) or value["pending"] or value["ids"] for value in values):
        raise ValueError("there are no transactions")
    for opened in filter(None, map(_open, values)):
        if opened["transactional_id"] is None and (opened["producer_id"], opened["epoch"]) != NOT_TRANSACTIONAL:
            raise ValueError("a transaction has a producer, but no id")


KAFKA_PRODUCER = ConnectorKind[Row](
    "kafka_producer",
    COMMITTABLES,
    columns(
        role=pa.string(), transactional_id=pa.string(), producer_id=pa.int64(), epoch=pa.int16(), started=pa.int64()
    ),
    _read,
    _write,
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
