"""Sinks of the job's own that derive from ``TwoPhaseCommitSinkFunction``: their transactions.

The serializer of the state, which the snapshot has, says what a transaction is; there is no layout of bytes that such
sinks share. The open transaction is aborted on restore, the pending ones are committed. Flink:
``TwoPhaseCommitSinkFunction.StateSerializer``, ``State``.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from pyspark_savepoint.formats.columns import Cursors, DecodeOptions
from pyspark_savepoint.formats.connectors.payloads.kind import COMMITTABLES, ConnectorKind, Row, columns
from pyspark_savepoint.formats.data_view import DataInputView, DataOutputView
from pyspark_savepoint.formats.serializers.runtime.timers_and_sinks import TwoPhaseCommitSerializer

STATE = "state"
#: The connector. Its kind is made of the serializer of each state, so that no list of kinds has it.
TWO_PHASE_COMMIT = "two_phase_commit"
#: The bytes of an element, as they were read: nothing writes other transactions.
_DATA = "data"


def two_phase_commit(serializer: TwoPhaseCommitSerializer, options: DecodeOptions) -> ConnectorKind[Row]:
    """Return the kind of the elements that a serializer reads, all of whose parts must be known."""

    def decode(_: int, view: DataInputView) -> Row:
        data = view.read(view.remaining, "the transactions of a sink")
        at = Cursors.over([data], options=options)
        column = serializer.decode(at)
        at.expect_end()
        return {_DATA: data, **column[0].as_py()}

    def encode(_: int, value: Row, out: DataOutputView) -> None:
        out.write(value[_DATA])

    return ConnectorKind[Row](
        TWO_PHASE_COMMIT,
        COMMITTABLES,
        columns(role=pa.string(), transaction=serializer.nested[0].arrow_type(options), started=pa.int64()),
        decode,
        encode,
        _rows,
        (STATE,),
        framed=False,
    )


def _rows(value: Row) -> Iterator[Row]:
    """Yield the transactions: the open one, then those that wait for their commit."""
    if value["pending_transaction"] is not None:
        yield _row("OPEN", value["pending_transaction"])
    for each in value["pending_commit_transactions"]:
        yield _row("PENDING", each)


def _row(role: str, transaction: Row) -> Row:
    return {"role": role, "transaction": transaction["handle"], "started": transaction["transaction_start_time"]}
