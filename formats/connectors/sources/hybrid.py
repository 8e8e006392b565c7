"""HybridSource: several sources one after another, whose splits and enumerators it wraps.

    split      := i32 sourceIndex  utf splitId  i32 version  blob split            version 0
    enumerator := i32 sourceIndex  i32 version  blob enumerator                    version 0

There is one kind for each kind of inner source (such as ``hybrid_kafka``); ``hybrid`` shows all other ones as bytes.
Flink: ``HybridSourceSplitSerializer``, ``HybridSourceEnumeratorStateSerializer``. Written by Flink 2.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from pyspark_savepoint.formats.connectors.payloads.kind import (
    READER_STATE,
    SOURCE_COORDINATOR,
    SPLITS,
    VERSIONED,
    ConnectorKind,
    Position,
    Row,
    columns,
    unknown_version,
)
from pyspark_savepoint.formats.connectors.payloads.layouts import UTF
from pyspark_savepoint.formats.data_view import DataInputView, DataOutputView

VERSION = 0
#: More sources than any job has one after another.
MAX_SOURCES = 1000


@dataclass(frozen=True, slots=True)
class Wrapped:
    """State of a source of the chain: its index, the version of its serializer, and the content of the payload."""

    source_index: int
    version: int
    value: Any
    split_id: str | None = None


def hybrid_kinds(kinds: Iterable[ConnectorKind[Any]]) -> list[ConnectorKind[Wrapped]]:
    """Return the kinds of hybrid sources over the sources of some kinds, and those over any source."""
    inner = [kind for kind in kinds if kind.by_content and (kind.states == (READER_STATE,) or not kind.states)]
    return [*(_hybrid(f"hybrid_{kind.name}", kind) for kind in inner), _hybrid("hybrid", BYTES), _any_enumerator()]


def _any_enumerator() -> ConnectorKind[Wrapped]:
    return _hybrid("hybrid", ENUMERATOR_BYTES, by_content=False)


def _hybrid(name: str, inner: ConnectorKind[Any], by_content: bool = True) -> ConnectorKind[Wrapped]:
    is_split = inner.table == SPLITS
    places = inner.positions

    def decode(version: int, view: DataInputView) -> Wrapped:
        if version != VERSION:
            raise unknown_version(version, (VERSION,))
        index = view.read_count("sources", each=0, limit=MAX_SOURCES)
        split_id = UTF.read(view, "the id of a split") if is_split else None
        payload = VERSIONED.read(view, "")
        if split_id == "":
            view.fail("the id of a split")
        return Wrapped(index, payload.version or 0, inner.read(payload), split_id)

    def encode(_: int, wrapped: Wrapped, out: DataOutputView) -> None:
        out.write_i32(wrapped.source_index)
        if wrapped.split_id is not None:
            out.write_utf(wrapped.split_id)
        VERSIONED.write(out, inner.write(wrapped.version, wrapped.value))

    def rows(wrapped: Wrapped) -> Iterator[Row]:
        common = {"source_index": wrapped.source_index, "source_version": wrapped.version}
        own = {"split_id": wrapped.split_id} if is_split else {}
        # An enumerator that has assigned all splits still has the index of the running source.
        for row in list(inner.rows(wrapped.value)) or [{}]:
            yield {**row, **common, **own}

    def positions(wrapped: Wrapped) -> Iterable[Position]:
        return places(wrapped.value) if places is not None else ()

    return ConnectorKind(
        name,
        inner.table,
        pa.schema([*columns(source_index=pa.int32(), source_version=pa.int32()), *inner.columns]),
        decode,
        encode,
        rows,
        inner.states,
        by_content=by_content,
        check=lambda found: inner.check([wrapped.value for wrapped in found]),
        positions=positions if is_split and places is not None else None,
    )


def _bytes_kind(table: str, states: tuple[str, ...]) -> ConnectorKind[bytes]:
    return ConnectorKind[bytes](
        "bytes",
        table,
        columns(payload=pa.binary()),
        lambda _, view: view.read(view.remaining),
        lambda _, value, out: out.write(value),
        lambda value: [{"payload": value}],
        states,
    )


BYTES, ENUMERATOR_BYTES = _bytes_kind(SPLITS, (READER_STATE,)), _bytes_kind(SOURCE_COORDINATOR, ())
