"""One kind of payload: the table that shows it, its columns, and how its bytes are read and written back.

Frames are around payloads: the version of the serializer that wrote a payload, and its bytes.

    element     := i32 n  { i32 version  blob payload }               list states of sources and sinks
    coordinator := i32 1  i32 version  blob payload                   since 1.13
    coordinator := i32 0  i32 version  blob payload  more             1.11 and 1.12; later releases ignore ``more``

Flink: ``SimpleVersionedListState``, ``SimpleVersionedSerialization``, ``SourceCoordinatorSerdeUtils``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import pyarrow as pa

from pyspark_savepoint.formats.data_view import DataInputView, DataOutputView
from pyspark_savepoint.formats.encodings import BLOB, I32, REST, sized, valid
from pyspark_savepoint.formats.structs import Struct, of, part, struct


@struct
class Payload(Struct):
    """Bytes of a connector's serializer, and its version; None if the state does not record one."""

    version: int | None = part(I32, "a version")
    data: bytes = part(BLOB, "a payload", shown=False)


VERSIONED = of(Payload)
ELEMENT = sized(VERSIONED, "an element")


def read_element(data: bytes) -> Payload:
    """Return the payload of a framed element of a list state."""
    view = DataInputView(data)
    payload = ELEMENT.read(view, "")
    view.expect_end("an element")
    return payload


def write_element(payload: Payload) -> bytes:
    """Return a framed element of a list state."""
    return ELEMENT.bytes(payload)


def _check_more(view: DataInputView, version: int, _: Payload, more: bytes) -> None:
    if version == 1 and more:
        view.position -= len(more)
        view.expect_end("the state of a coordinator")


@struct
class CoordinatorFrame(Struct):
    """State of a source's coordinator: the state of its enumerator, in version 0 followed by more bytes."""

    order = ("version", "payload", "more")
    payload: Payload = part(VERSIONED)
    version: int = part(
        valid(I32, (0, 1).__contains__, "version 0 or 1 of a source coordinator"),
        "the version of a coordinator",
        default=1,
    )
    more: bytes = part(REST, "more bytes", default=b"", shown=False, check=_check_more)

    @classmethod
    def read(cls, data: bytes) -> CoordinatorFrame:
        """Read the whole state of a coordinator."""
        return of(cls).read(DataInputView(data), "")

    def bytes(self) -> bytes:
        """Return the bytes of the state."""
        return of(CoordinatorFrame).bytes(self)


SPLITS, SOURCE_COORDINATOR, COMMITTABLES, IN_FLIGHT = "splits", "source_coordinator", "committables", "in_flight"
#: The positions of all sources, from splits and coordinators.
OFFSETS = "offsets"
#: Operator state of sources (FLIP-27), of committers, of asynchronous functions.
READER_STATE = "SourceReaderState"
COMMITTER_STATE = "streaming_committer_raw_states"
ASYNC_STATE = "_async_wait_operator_state_"
#: Union state of consumers of Kafka and Kinesis before FLIP-27.
KAFKA_CONSUMER_STATE, KINESIS_CONSUMER_STATE = "topic-partition-offset-states", "Kinesis-Stream-Shard-State"
#: Operator state of writers of sinks (V2), and of StreamingFileSink.
WRITER_STATE = "writer_raw_states"
BUCKET_STATE = "bucket-states"
#: The states that a table shows, also where no kind reads them.
STATES_OF_TABLES = {
    SPLITS: (READER_STATE,),
    COMMITTABLES: (COMMITTER_STATE, WRITER_STATE, BUCKET_STATE),
}
#: Those of them whose elements have a version.
FRAMED_STATES = frozenset({READER_STATE, COMMITTER_STATE, WRITER_STATE, BUCKET_STATE})
#: Columns of these tables in addition to those of a kind.
SPLIT_ID = "split_id"

V = TypeVar("V")
Row = dict[str, Any]


def _anything(_: Sequence[Any]) -> None:
    return


@dataclass(frozen=True)
class Position:
    """Position at which a source continues in a topic, stream or file: the next one, or a ``marker`` such as latest."""

    stream: str
    partition: int | str | None
    next: int | str | None
    marker: str | None = None


@dataclass(frozen=True, eq=False)
class ConnectorKind(Generic[V]):
    """A kind of payload. ``V`` is the content of a payload; a payload has one row or several.

    ``states`` are the operator states that hold it; none: the state of the operator's coordinator. ``framed`` elements
    begin with their length and have a version. ``check`` raises ValueError if the values of all elements together are
    not of this kind. A kind that is not recognised ``by_content`` must be named in option ``connector``. A kind with
    ``needs_state`` is tried only if the operator has that state too. ``doubt`` names other writers of such bytes, for
    kinds that the bytes do not prove. A row may have ``split_id``, a text, in addition to the kind's columns.
    ``positions`` returns the next positions in a payload, for kinds that have them; for a coordinator, those that are
    not assigned.
    """

    name: str
    table: str
    columns: pa.Schema
    decode: Callable[[int, DataInputView], V]
    encode: Callable[[int, V, DataOutputView], None]
    rows: Callable[[V], Iterable[Row]]
    states: tuple[str, ...] = (READER_STATE,)
    framed: bool = True
    by_content: bool = True
    check: Callable[[Sequence[V]], None] = _anything
    positions: Callable[[V], Iterable[Position]] | None = None
    needs_state: str | None = None
    doubt: str | None = None

    def read(self, payload: Payload) -> V:
        """Return the content of a payload; raise SavepointError or ValueError if it is not exactly of this kind."""
        view = DataInputView(payload.data)
        value = self.decode(-1 if payload.version is None else payload.version, view)
        view.expect_end(f"a payload of {self.name}")
        if self.write(payload.version, value).data != payload.data:
            raise ValueError("its bytes are not those that the connector writes")
        return value

    def write(self, version: int | None, value: V) -> Payload:
        """Return the payload of a value; raise ValueError if this version cannot hold it."""
        out = DataOutputView()
        self.encode(-1 if version is None else version, value, out)
        return Payload(version, out.getvalue())

    def read_all(self, payloads: Iterable[Payload]) -> list[V]:
        """Return the content of payloads; raise SavepointError or ValueError if one of them is not of this kind."""
        values = [self.read(payload) for payload in payloads]
        self.check(values)
        return values


def unknown_version(version: int, versions: Iterable[int]) -> ValueError:
    """Return the error for a version that a kind does not know."""
    return ValueError(f"version {version} is not known, only {', '.join(map(str, versions))}")


def columns(**fields: pa.DataType) -> pa.Schema:
    """Return columns of a kind."""
    return pa.schema([pa.field(name, kind) for name, kind in fields.items()])
