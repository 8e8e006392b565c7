"""Changes of number sequences and data generators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pyspark_savepoint.formats.connectors.sources.sequence import SequenceSplit
from pyspark_savepoint.statebackends.connectors.connector_states import ReaderSplit, SourceState
from pyspark_savepoint.statebackends.connectors.edits.splits import Edited, Key, Row, Target, named_in_source


class SequenceEdits:
    """Edits of ranges of numbers: the enumerator has only unassigned ones, and any reader may have a split."""

    key_columns = ("split_id",)

    def key(self, value: SequenceSplit) -> Key:
        """Return the id."""
        return (value.split_id,)

    def target(self, target: Target) -> Row:
        """Return the next number."""
        if isinstance(target, Mapping):
            return target
        if isinstance(target, str):
            raise ValueError(f"the next number of a split is a number, not {target!r}")
        return {"next": target}

    def positioned(self, row: Row) -> Row:
        """Return the columns that a row of table offsets sets."""
        return {"split_id": row["partition"], "next": row.get("offset")}

    def moved(self, value: SequenceSplit, by: int, clamp: bool) -> SequenceSplit:
        """Return the split with its next number moved."""
        return replace(value, next=value.next + by)

    def changed(self, value: SequenceSplit, row: Row) -> SequenceSplit:
        """Return the split with another next or last number."""
        first, last = row.get("next"), row.get("to")
        split = replace(
            value, next=value.next if first is None else int(first), to=value.to if last is None else int(last)
        )
        if split.next > split.to:
            raise ValueError(
                f"split {split.split_id} ends at {split.to}, before {split.next}: if it is over, remove it"
            )
        return split

    def goes_back(self, before: SequenceSplit, after: SequenceSplit) -> bool:
        """Return whether the next number is lower."""
        return after.next < before.next

    def pending(self, enumerator: tuple[SequenceSplit, ...]) -> Mapping[Key, SequenceSplit]:
        """Return the enumerator's splits."""
        return {self.key(split): split for split in enumerator}

    def with_pending(self, source: SourceState, changed: Mapping[Key, SequenceSplit]) -> SourceState:
        """Return the source with other splits of its enumerator."""
        splits = tuple(changed.get(self.key(split), split) for split in source.enumerator)
        return replace(source, enumerator=splits)

    def added(self, source: SourceState, rows: Sequence[Row]) -> SourceState:
        """Return the source with splits of its readers."""
        known = {self.key(split.value) for split in source.splits} | self.pending(source.enumerator).keys()
        for row in rows:
            split = SequenceSplit(str(row["split_id"]), int(row["next"]), int(row["to"]))
            if self.key(split) in known:
                raise ValueError(f"split {split.split_id} exists already: with_offsets changes it")
            known.add(self.key(split))
            reader = ReaderSplit(source.emptiest_subtask(), 1, self.changed(split, {}))
            source = replace(source, splits=(*source.splits, reader))
        return source

    def removed(self, source: SourceState, keys: Sequence[Key], forget: bool | None) -> Edited:
        """Return the source without splits, which are never found again."""
        if forget:
            raise ValueError("nothing finds a split of numbers again: leave forget out")
        gone = named_in_source(self, source, keys, self.pending(source.enumerator))
        splits = tuple(split for split in source.splits if self.key(split.value) not in gone)
        pending = tuple(split for split in source.enumerator if self.key(split) not in gone)
        return Edited(replace(source, splits=splits, enumerator=pending))
