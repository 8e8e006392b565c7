"""Sinks of Kafka: KafkaSink, and FlinkKafkaProducer, the exactly-once sink before it.

::

    committable := i16 epoch  i64 producerId  utf transactionalId                            version 1
    writer      := utf prefix                                                                version 1
                 | utf prefix  i32 subtask  i32 subtasks  i32 ownership                      version 2, since 4.0.0
                   i32 n {utf transactionalId  i64 checkpoint}[n]

Connector: ``KafkaCommittableSerializer``, ``KafkaWriterStateSerializer``. Both were written by the real serializers.

The two states of FlinkKafkaProducer:

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
from types import MappingProxyType

import pyarrow as pa

from pyspark_savepoint.formats.connectors.payloads.connector import Connector
from pyspark_savepoint.formats.connectors.payloads.kind import COMMITTABLES, WRITER_STATE, ConnectorKind, Row, columns
from pyspark_savepoint.formats.connectors.payloads.layouts import (
    UNVERSIONED,
    UTF,
    Layouts,
    Record,
    reader,
    words,
    writer,
)
from pyspark_savepoint.formats.connectors.sinks.committer import committer_kind
from pyspark_savepoint.formats.data_view import DataInputView, DataOutputView
from pyspark_savepoint.formats.encodings import I16, I32, I64, many, optional
from pyspark_savepoint.formats.errors import CorruptStateError

#: Who owns a transactional id: every subtask that of its index, or the writer state that lists it.
OWNERSHIP = MappingProxyType({0: "IMPLICIT_BY_SUBTASK_ID", 1: "EXPLICIT_BY_WRITER_STATE"})
COMMITTABLE: Layouts = MappingProxyType({1: Record(epoch=I16, producer_id=I64, transactional_id=UTF)})
WRITER: Layouts = MappingProxyType(
    {
        1: Record(prefix=UTF),
        2: Record(
            prefix=UTF,
            writer_subtask=I32,
            number_of_subtasks=I32,
            ownership=words(OWNERSHIP),
            transactions=many(Record(transactional_id=UTF, checkpoint_id=I64)),
        ),
    }
)


def writer_rows(value: Row) -> Iterator[Row]:
    """Yield the transactions that a writer lists; a row without one if it lists none."""
    shown = {name: field for name, field in value.items() if name != "transactions"}
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


STATE, HINT_STATE = "state", "next-transactional-id-hint-v2"
TRANSACTION = Record(transactional_id=optional(UTF), producer_id=I64, epoch=I16, started=I64)
ELEMENT = Record(open=optional(TRANSACTION), pending=many(TRANSACTION), ids=optional(many(UTF)))
#: Layout of older releases, which always have an open transaction.
ALWAYS_OPEN = Record(always_open=TRANSACTION, pending=many(TRANSACTION), ids=optional(many(UTF)))
#: Producer and epoch of a sink that is not exactly-once.
NOT_TRANSACTIONAL = (-1, -1)
HINT = Record(next_free_id=I64, last_parallelism=I32)


def _read_producer(_: int, view: DataInputView) -> Row:
    """Read the newer layout if it takes all bytes, else the older one."""
    start = view.position
    with suppress(CorruptStateError):
        value = ELEMENT.read(view, "the transactions of a sink")
        if not view.remaining:
            return value
    view.position = start
    return ALWAYS_OPEN.read(view, "the transactions of a sink")


def _write_producer(_: int, value: Row, out: DataOutputView) -> None:
    (ALWAYS_OPEN if "always_open" in value else ELEMENT).write(out, value)


def _open_transaction(value: Row) -> Row | None:
    return value["always_open"] if "always_open" in value else value["open"]  # type: ignore[no-any-return]


def _producer_rows(value: Row) -> Iterator[Row]:
    """Yield the transactions: the open one, then those that wait for their commit."""
    opened = _open_transaction(value)
    if opened is not None:
        yield {"role": "OPEN", **opened}
    for transaction in value["pending"]:
        yield {"role": "PENDING", **transaction}


def _check_producers(values: Sequence[Row]) -> None:
    # Many states are named "state": without any transaction, nothing shows that this one belongs to a Kafka sink.
    if not any(_open_transaction(value) or value["pending"] or value["ids"] for value in values):
        raise ValueError("there are no transactions")
    for opened in filter(None, map(_open_transaction, values)):
        if opened["transactional_id"] is None and (opened["producer_id"], opened["epoch"]) != NOT_TRANSACTIONAL:
            raise ValueError("a transaction has a producer, but no id")


KAFKA_PRODUCER = ConnectorKind[Row](
    "kafka_producer",
    COMMITTABLES,
    columns(
        role=pa.string(), transactional_id=pa.string(), producer_id=pa.int64(), epoch=pa.int16(), started=pa.int64()
    ),
    _read_producer,
    _write_producer,
    _producer_rows,
    (STATE,),
    framed=False,
    check=_check_producers,
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


CONNECTORS = (
    Connector(
        "kafka",
        (KAFKA_COMMITTABLES, KAFKA_WRITERS),
        rank=2,
        versions="committable 1, writer 2",
        changes="commits",
        proof="measured (writer 1: source)",
    ),
    Connector(
        "kafka_producer",
        (KAFKA_PRODUCER, KAFKA_PRODUCER_HINT),
        about="FlinkKafkaProducer",
        versions="open and pending transactions, id hint",
        proof="source",
    ),
)
