"""State of sink V2 committers: committables that were not committed when the snapshot was taken.

    committer  := u32 B91F252C  list of checkpoints (payload version 2), of committables (1: sink V1, to Flink 1.14)
    global     := u32 B91F252B  bool hasGlobal [list of global committables]  i32 version  blob committer
    list       := i32 version  i32 n  blob[n]
    checkpoint := i64 checkpoint  [version 1: i32 subtasks]  list of subtasks
    subtask    := [version 1, 2: i32 subtask]  list of requests  i32 expected  [version 0, 1: i32 drained]  i32 failed
    request    := i32 version  blob committable  i32 retries  i32 state

Flink: ``CommittableCollectorSerializer``, ``SinkV1CommittableDeserializer``, ``GlobalCommittableWrapper``. Bytes of
1/1/0 and 1/2/0 (checkpoint, subtask, request) were written by Flink 1.20 and 2.3; the others follow from source.

Sinks of the job's own that derive from ``TwoPhaseCommitSinkFunction`` keep transactions instead. The serializer of the
state, which the snapshot has, says what a transaction is; there is no layout of bytes that such sinks share. The open
transaction is aborted on restore, the pending ones are committed. Flink:
``TwoPhaseCommitSinkFunction.StateSerializer``, ``State``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from pyspark_savepoint.formats.columns import Cursors, DecodeOptions
from pyspark_savepoint.formats.connectors.payloads.connector import Connector
from pyspark_savepoint.formats.connectors.payloads.kind import (
    COMMITTABLES,
    COMMITTER_STATE,
    ConnectorKind,
    Row,
    columns,
)
from pyspark_savepoint.formats.connectors.payloads.layouts import (
    BLOB,
    Layouts,
    Record,
    reader,
    versioned,
    versioned_list,
    words,
    writer,
)
from pyspark_savepoint.formats.data_view import DataInputView, DataOutputView
from pyspark_savepoint.formats.encodings import I32, I64, U32, constant, many, optional
from pyspark_savepoint.formats.serializers.runtime.operators import TwoPhaseCommitSerializer

MAGIC, GLOBAL_MAGIC = 0xB91F252C, 0xB91F252B
RECEIVED, RETRY, FAILED, COMMITTED = "RECEIVED", "RETRY", "FAILED", "COMMITTED"
STATES = MappingProxyType({0: RECEIVED, 1: RETRY, 2: FAILED, 3: COMMITTED})


BYTES_LIST = Record(version=I32, items=many(BLOB))
REQUEST = Record(version=I32, committable=BLOB, retries=I32, state=words(STATES))
REQUESTS = versioned_list({0: REQUEST})
SUBTASKS = versioned_list(
    {
        0: Record(requests=REQUESTS, expected=I32, drained=I32, failed=I32),
        1: Record(subtask=I32, requests=REQUESTS, expected=I32, drained=I32, failed=I32),
        2: Record(subtask=I32, requests=REQUESTS, expected=I32, failed=I32),
    }
)
CHECKPOINTS = versioned_list(
    {
        0: Record(checkpoint=I64, subtasks=SUBTASKS),
        1: Record(checkpoint=I64, number_of_subtasks=I32, subtasks=SUBTASKS),
    }
)
#: Layouts by the version of the payload.
COMMITTER: Layouts = MappingProxyType(
    {
        1: Record(_magic=constant(U32, MAGIC, "the magic number of a committer"), committables=BYTES_LIST),
        2: Record(_magic=constant(U32, MAGIC, "the magic number of a committer"), checkpoints=CHECKPOINTS),
    }
)
GLOBAL_COMMITTER = Record(
    _magic=constant(U32, GLOBAL_MAGIC, "the magic number of a committer"),
    global_committables=optional(BYTES_LIST),
    committer=versioned(COMMITTER),
)
COLUMNS = columns(
    checkpoint_id=pa.int64(),
    writer_subtask=pa.int32(),
    position=pa.int32(),
    status=pa.string(),
    retries=pa.int32(),
    expected=pa.int32(),
    failed=pa.int32(),
    committable_version=pa.int32(),
)


def read_committer(version: int, view: DataInputView) -> Row:
    """Read the state of a committer, or of a global committer, with committables as bytes."""
    if bytes(view.data[:4]) == GLOBAL_MAGIC.to_bytes(4, "big"):
        return GLOBAL_COMMITTER.read(view, "a global committer")
    return {"committer": reader(COMMITTER, "a committer")(version, view)}


def write_committer(version: int, value: Row, out: DataOutputView) -> None:
    """Write the state of a committer."""
    if "global_committables" in value:
        GLOBAL_COMMITTER.write(out, value)
    else:
        writer(COMMITTER)(version, value["committer"], out)


def requests(value: Row) -> Iterator[tuple[Row, Row]]:
    """Yield the committables of a committer, each with the values that it shares with others of its subtask."""
    frame = value["committer"]
    for checkpoint in frame.get("checkpoints", {}).get("items", ()):
        for subtask in checkpoint["subtasks"]["items"]:
            common = {
                "checkpoint_id": checkpoint["checkpoint"],
                "writer_subtask": subtask.get("subtask"),
                "expected": subtask["expected"],
                "failed": subtask["failed"],
            }
            for request in subtask["requests"]["items"]:
                yield common, request


@dataclass(frozen=True)
class Committables:
    """State of a committer, and the content of each committable: ``contents`` has them in the order of the bytes."""

    frame: Row
    contents: tuple[tuple[Row, Any], ...]

    def rows(self, rows: Callable[[Any], Iterable[Row]]) -> Iterator[Row]:
        """Yield a row for each committable, or several if it has several."""
        for common, value in self.contents:
            for row in rows(value):
                yield {**common, **row}


def committer_kind(
    name: str,
    committables: Layouts | None,
    columns: pa.Schema,
    rows: Callable[[Any], Iterable[Row]] = lambda value: [value],
    by_content: bool = True,
    doubt: str | None = None,
) -> ConnectorKind[Committables]:
    """Return the kind of a sink's committers; ``committables`` are layouts by version, or None to keep all as bytes."""

    def decode(version: int, view: DataInputView) -> Committables:
        frame = read_committer(version, view)
        decoded = []
        for common, own, payload in _payloads(frame):
            if committables is None:
                value: Any = {"committable": payload}
            else:
                inner = DataInputView(payload)
                value = reader(committables, f"a committable of {name}")(own, inner)
                inner.expect_end(f"a committable of {name}")
                if committables[own].bytes(value) != payload:
                    raise ValueError("the bytes of a committable are not those that its sink writes")
            decoded.append(({**common, "committable_version": own}, value))
        return Committables(frame, tuple(decoded))

    def encode(version: int, value: Committables, out: DataOutputView) -> None:
        write_committer(version, value.frame, out)

    def check(states: Sequence[Committables]) -> None:
        if committables is not None and not any(element.contents for element in states):
            raise ValueError("there are no committables")

    return ConnectorKind(
        name,
        COMMITTABLES,
        pa.schema([*COLUMNS, *columns]),
        decode,
        encode,
        lambda value: value.rows(rows),
        (COMMITTER_STATE,),
        by_content=by_content,
        doubt=doubt,
        check=check,
    )


def _payloads(value: Row) -> Iterator[tuple[Row, int, bytes]]:
    """Yield the committables as bytes, each with its columns and its version."""
    frame = value["committer"]
    if "committables" in frame:
        for position, payload in enumerate(frame["committables"]["items"]):
            yield {"position": position}, frame["committables"]["version"], payload
        return
    for position, (common, request) in enumerate(requests(value)):
        columns = {**common, "position": position, "status": request["state"], "retries": request["retries"]}
        yield columns, request["version"], request["committable"]


def with_changed(value: Row, positions: Collection[int], status: str | None) -> Row:
    """Return the state of a committer with a new status for some committables, or without them if it is None.

    Removed committables are also subtracted from the number of expected ones, because Flink waits for all of these.
    """
    frame = value["committer"]
    numbers = count()
    if "committables" in frame:
        kept = [payload for payload in frame["committables"]["items"] if next(numbers) not in positions]
        if status is not None and positions:
            raise ValueError("committers of version 1 sinks have no status")
        return {**value, "committer": {"committables": {**frame["committables"], "items": kept}}}

    def changed(requests: Row) -> Row:
        kept = []
        for request in requests["items"]:
            if next(numbers) not in positions:
                kept.append(request)
            elif status is not None:
                kept.append({**request, "state": status})
        return {**requests, "items": kept}

    def without(subtask: Row) -> Row:
        requests = changed(subtask["requests"])
        gone = len(subtask["requests"]["items"]) - len(requests["items"])
        return {**subtask, "requests": requests, "expected": subtask["expected"] - gone}

    def each(listed: Row, change: Callable[[Row], Row]) -> Row:
        return {**listed, "items": [change(item) for item in listed["items"]]}

    checkpoints = each(
        frame["checkpoints"],
        lambda checkpoint: {**checkpoint, "subtasks": each(checkpoint["subtasks"], without)},
    )
    return {**value, "committer": {**frame, "checkpoints": checkpoints}}


#: Committers of any sink.
SINK_COMMITTABLES = committer_kind("sink", None, columns(committable=pa.binary()))


TWO_PHASE_COMMIT_STATE = "state"
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
        _transaction_rows,
        (TWO_PHASE_COMMIT_STATE,),
        framed=False,
    )


def _transaction_rows(value: Row) -> Iterator[Row]:
    """Yield the transactions: the open one, then those that wait for their commit."""
    if value["pending_transaction"] is not None:
        yield _transaction_row("OPEN", value["pending_transaction"])
    for transaction in value["pending_commit_transactions"]:
        yield _transaction_row("PENDING", transaction)


def _transaction_row(role: str, transaction: Row) -> Row:
    return {"role": role, "transaction": transaction["handle"], "started": transaction["transaction_start_time"]}


CONNECTORS = (
    Connector(
        "sink",
        (SINK_COMMITTABLES,),
        about="any sink V2",
        versions="committer of all releases, committables as bytes",
        changes="commits",
        proof="edited: 1.20, 2.3 (1.14 to 1.19: source)",
        rank=99,
    ),
    Connector(
        TWO_PHASE_COMMIT,
        (),  # the serializer of each state makes its kind
        about="a `TwoPhaseCommitSinkFunction` of the job's own",
        versions="open and pending transactions, decoded by the state's serializer",
        proof="measured: 1.20",
        rank=99,
    ),
)
