"""Changes of HybridSource: the splits of its running source, edited as those of that source alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyspark_savepoint.formats.connectors.payloads.kind import SPLIT_ID, ConnectorKind, Payload
from pyspark_savepoint.formats.connectors.sources.hybrid import VERSION, Wrapped
from pyspark_savepoint.statebackends.connectors.connector_states import ReaderSplit, SourceState
from pyspark_savepoint.statebackends.connectors.edits.splits import Edited, Key, Row, SplitEdits, Target


@dataclass(frozen=True)
class HybridEdits:
    """Edits of the splits of the running source; earlier sources have ended, later ones have no splits yet."""

    inner: SplitEdits
    kind: ConnectorKind[Any]

    @property
    def key_columns(self) -> tuple[str, ...]:
        """Return the columns that name a split of the source that runs."""
        return self.inner.key_columns

    def key(self, value: Wrapped) -> Key:
        """Return what names a split."""
        return self.inner.key(value.value)

    def target(self, target: Target) -> Row:
        """Return the columns that a position sets."""
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

    def with_pending(self, source: SourceState, changed: Mapping[Key, Wrapped]) -> SourceState:
        """Return the source with other splits in place of pending ones."""
        splits = {key: wrapped.value for key, wrapped in changed.items()}
        return self._outer(source, self.inner.with_pending(self._running(source), splits))

    def added(self, source: SourceState, rows: Sequence[Row]) -> SourceState:
        """Return the source with more splits of the source that runs."""
        for row in rows:
            _refuse_other_source(row, source.enumerator.source_index)
        return self._outer(source, self.inner.added(self._running(source), rows))

    def removed(self, source: SourceState, keys: Sequence[Key], forget: bool | None) -> Edited:
        """Return the source without splits of the source that runs."""
        edited = self.inner.removed(self._running(source), keys, forget)
        return Edited(self._outer(source, edited.source), edited.notes)

    def _running(self, source: SourceState) -> SourceState:
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

    def _outer(self, source: SourceState, changed: SourceState) -> SourceState:
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
