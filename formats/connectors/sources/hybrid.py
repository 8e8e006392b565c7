"""HybridSource: several sources one after another, whose splits and enumerators it wraps.

    split      := i32 sourceIndex  utf splitId  i32 version  blob split            version 0
    enumerator := i32 sourceIndex  i32 version  blob enumerator                    version 0

There is one kind for each kind of inner source (such as ``hybrid_kafka``); ``hybrid`` shows all other ones as bytes.
Flink: ``HybridSourceSplitSerializer``, ``HybridSourceEnumeratorStateSerializer``. Written by Flink 2.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from pyspark_savepoint.formats.connectors.payloads.connector import Connector, Effect, Refusal
from pyspark_savepoint.formats.connectors.payloads.edits import (
    Edited,
    Key,
    ReaderSplit,
    S,
    Source,
    SplitEdits,
    Target,
)
from pyspark_savepoint.formats.connectors.payloads.kind import (
    READER_STATE,
    SOURCE_COORDINATOR,
    SPLIT_ID,
    SPLITS,
    VERSIONED,
    ConnectorKind,
    Payload,
    Position,
    Row,
    columns,
    unknown_version,
)
from pyspark_savepoint.formats.connectors.payloads.layouts import UTF
from pyspark_savepoint.formats.data_view import DataInputView, DataOutputView

NAME = "hybrid"
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


def _any_enumerator() -> ConnectorKind[Wrapped]:
    return _hybrid(NAME, ENUMERATOR_BYTES, by_content=False)


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


@dataclass(frozen=True)
class HybridEdits(SplitEdits):
    """Edits of the splits of the running source; earlier sources have ended, later ones have no splits yet."""

    inner: SplitEdits
    kind: ConnectorKind[Any]
    key_columns: tuple[str, ...]

    def key(self, value: Wrapped) -> Key:
        """Return what names a split."""
        return self.inner.key(value.value)

    def position_columns(self, target: Target) -> Row:
        """Return the columns that a position sets."""
        return self.inner.position_columns(target)

    def target(self, target: int | str) -> Row:
        """Return the columns that a number or a text sets."""
        return self.inner.target(target)

    def positioned(self, row: Row) -> Row:
        """Return the columns that a row of table offsets sets."""
        return self.inner.positioned(row)

    def moved(self, value: Wrapped, by: int, clamp: bool) -> Wrapped:
        """Return the split with its position moved."""
        return replace(value, value=self.inner.moved(value.value, by, clamp))

    def changed(self, value: Wrapped, row: Row) -> Wrapped:
        """Return the split with other values of some columns."""
        _refuse_other_source(row, value.source_index)
        return replace(value, value=self.inner.changed(value.value, row))

    def goes_back(self, before: Wrapped, after: Wrapped) -> bool:
        """Return whether records are read again."""
        return self.inner.goes_back(before.value, after.value)

    def pending(self, enumerator: Wrapped) -> Mapping[Key, Wrapped]:
        """Return the splits that the enumerator of the source that runs has not assigned."""
        return {key: self._wrapped(enumerator, value) for key, value in self.inner.pending(enumerator.value).items()}

    def with_pending(self, source: S, changed: Mapping[Key, Wrapped]) -> S:
        """Return the source with other splits in place of pending ones."""
        splits = {key: wrapped.value for key, wrapped in changed.items()}
        return self._outer(source, self.inner.with_pending(self._running(source), splits))

    def added(self, source: S, rows: Sequence[Row]) -> S:
        """Return the source with more splits of the source that runs."""
        for row in rows:
            _refuse_other_source(row, source.enumerator.source_index)
        return self._outer(source, self.inner.added(self._running(source), rows))

    def removed(self, source: S, keys: Sequence[Key], forget: bool | None) -> Edited[S]:
        """Return the source without splits of the source that runs."""
        edited = self.inner.removed(self._running(source), keys, forget)
        return Edited(self._outer(source, edited.source), edited.notes)

    def without_rows(self, source: S, rows: Sequence[Row]) -> S:
        """Return the source without what rows show of the source that runs."""
        return self._outer(source, self.inner.without_rows(self._running(source), rows))

    def _running(self, source: S) -> S:
        """Return the source that runs, as if it stood alone."""
        running: Wrapped = source.enumerator
        for split in source.splits:
            if split.value.source_index != running.source_index:
                raise ValueError(
                    f"a reader has a split of source {split.value.source_index}, while source {running.source_index} "
                    "is running: the job was switching from one to the other"
                )
        assert source.coordinator is not None
        return replace(
            source,
            kind=self.kind,
            splits=tuple(
                ReaderSplit(reader_split.subtask, reader_split.value.version, reader_split.value.value)
                for reader_split in source.splits
            ),
            coordinator=replace(source.coordinator, payload=Payload(running.version, b"")),
            enumerator=running.value,
        )

    def _outer(self, source: S, changed: Source) -> S:
        """Return the hybrid source, of which the source that runs has changed."""
        running: Wrapped = source.enumerator
        splits = (
            ReaderSplit(
                reader_split.subtask, VERSION, self._wrapped(running, reader_split.value, reader_split.version or 0)
            )
            for reader_split in changed.splits
        )
        return replace(source, splits=tuple(splits), enumerator=replace(running, value=changed.enumerator))

    def _wrapped(self, running: Wrapped, value: Any, version: int = 0) -> Wrapped:
        (row,) = self.kind.rows(value)
        return Wrapped(running.source_index, version, value, row[SPLIT_ID])


def _refuse_other_source(row: Row, running: int) -> None:
    if row.get("source_index") not in (None, running):
        raise ValueError(f"splits belong to source {running}, which is running, not to source {row['source_index']}")


def over_each(connectors: Iterable[Connector]) -> list[Connector]:
    """Return the hybrid sources over the sources of some connectors."""
    found = []
    for connector in connectors:
        inner = [kind for kind in connector.kinds if _is_inner(kind)]
        if inner:
            name = f"{NAME}_{connector.name}"
            kinds = tuple(_hybrid(name, kind) for kind in inner)
            found.append(
                Connector(
                    name,
                    kinds,
                    versions=str(VERSION),
                    proof="",
                    edits=None
                    if connector.edits is None
                    else HybridEdits(connector.edits, inner[0], connector.edits.key_columns),
                    retention=connector.retention,
                )
            )
    return found


def hybrid_connectors(connectors: Iterable[Connector]) -> list[Connector]:
    """Return the hybrid sources over the sources of some connectors, and those over any source."""
    return [
        *over_each(connectors),
        Connector(
            NAME,
            (_hybrid(NAME, BYTES), _any_enumerator()),
            about="HybridSource over any source, as bytes; `hybrid_KIND` over `KIND`",
            versions=str(VERSION),
            changes="splits of the source that runs, as of `KIND`",
            proof="measured",
            effects=(
                Effect(
                    "HybridSource over one of these",
                    "as that source",
                    "as that source",
                    "continues in the source that is running",
                ),
            ),
            refusals=(Refusal("splits of a source of a HybridSource that is not running"),),
        ),
    ]


def _is_inner(kind: ConnectorKind[Any]) -> bool:
    return kind.by_content and (kind.states == (READER_STATE,) or not kind.states)
