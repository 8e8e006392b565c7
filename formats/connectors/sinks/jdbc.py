"""JDBC sinks with XA transactions: hanging and prepared transactions (layout from source code).

    Xid           := i32 formatId  i8 n globalId  i8 n branch
    committable   := Xid  garbage                                                       sink V2, version 1
    XaSinkState   := i32 n Xid[n] hanging  i32 n {i64 checkpoint  i32 attempts  Xid}[n] prepared
    writer        := i32 n {i8 n TransactionId  garbage}[n] hanging  the same prepared  garbage      version 2
    TransactionId := jobId(16)  i32 subtask  i32 subtasks  i64 checkpoint  i32 attempts

The connector writes its whole buffer: bytes after the content are garbage, which is kept. Therefore only
``XaSinkState`` is recognised by its content. Connector: ``JdbcCommitableSerializer``, ``XaSinkStateSerializer``,
``JdbcWriterStateSerializer``.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import MappingProxyType

import pyarrow as pa

from pyspark_savepoint.formats.connectors.payloads.connector import Connector
from pyspark_savepoint.formats.connectors.payloads.kind import COMMITTABLES, WRITER_STATE, ConnectorKind, Row, columns
from pyspark_savepoint.formats.connectors.payloads.layouts import UNVERSIONED, Layouts, Record, fixed, reader, writer
from pyspark_savepoint.formats.connectors.sinks.committer import committer_kind
from pyspark_savepoint.formats.encodings import I8, I32, I64, REST, many, sized

STATE = "XaSinkState"
XID = Record(format_id=I32, global_id=sized(REST, length=I8), branch=sized(REST, length=I8))
PREPARED = Record(checkpoint_id=I64, attempts=I32, xid=XID)
XA_STATE = Record(hanging=many(XID), prepared=many(PREPARED))
TRANSACTION = Record(
    job_id=fixed(16),
    transaction_subtask=I32,
    number_of_subtasks=I32,
    checkpoint_id=I64,
    attempts=I32,
    garbage=REST,
)
WRITER: Layouts = MappingProxyType(
    {
        2: Record(
            hanging=many(sized(TRANSACTION, length=I8)),
            prepared=many(sized(TRANSACTION, length=I8)),
            garbage=REST,
        )
    }
)
COMMITTABLE: Layouts = MappingProxyType({1: XID.with_parts(garbage=REST)})


def _xid(value: Row) -> Row:
    return {"format_id": value["format_id"], "global_id": value["global_id"].hex(), "branch": value["branch"].hex()}


def _state_rows(value: Row) -> Iterator[Row]:
    for xid in value["hanging"]:
        yield {"role": "HANGING", **_xid(xid)}
    for transaction in value["prepared"]:
        common = {"checkpoint_id": transaction["checkpoint_id"], "attempts": transaction["attempts"]}
        yield {"role": "PREPARED", **common, **_xid(transaction["xid"])}


def _writer_rows(value: Row) -> Iterator[Row]:
    for role, transactions in (("HANGING", value["hanging"]), ("PREPARED", value["prepared"])):
        for transaction in transactions:
            yield {"role": role, **transaction, "job_id": transaction["job_id"].hex()}


XID_COLUMNS = columns(format_id=pa.int32(), global_id=pa.string(), branch=pa.string())
JDBC_COMMITTABLES = committer_kind("jdbc", COMMITTABLE, XID_COLUMNS, lambda value: [_xid(value)], by_content=False)
JDBC_XA = ConnectorKind[Row](
    "jdbc",
    COMMITTABLES,
    pa.schema([*columns(role=pa.string(), checkpoint_id=pa.int64(), attempts=pa.int32()), *XID_COLUMNS]),
    reader({UNVERSIONED: XA_STATE}, "XA transactions"),
    writer({UNVERSIONED: XA_STATE}),
    _state_rows,
    (STATE,),
    framed=False,
)
JDBC_WRITERS = ConnectorKind[Row](
    "jdbc",
    COMMITTABLES,
    columns(
        role=pa.string(),
        job_id=pa.string(),
        transaction_subtask=pa.int32(),
        number_of_subtasks=pa.int32(),
        checkpoint_id=pa.int64(),
        attempts=pa.int32(),
    ),
    reader(WRITER, "the state of a JDBC writer"),
    writer(WRITER),
    _writer_rows,
    (WRITER_STATE,),
    by_content=False,
)


CONNECTORS = (
    Connector(
        "jdbc",
        (JDBC_COMMITTABLES, JDBC_XA, JDBC_WRITERS),
        about="XA",
        versions="committable 1, writer 2, `XaSinkState`. All but the last are recognised by name only",
        changes="commits of the sink V2",
        proof="source",
    ),
)
