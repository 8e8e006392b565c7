"""Changes of the file source."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from pyspark_savepoint.formats.connectors.sources.files import (
    BYTE,
    ID_DIGITS,
    NO_OFFSET,
    FilePath,
    FileSplit,
    PendingSplits,
)
from pyspark_savepoint.statebackends.connectors.connector_states import SourceState
from pyspark_savepoint.statebackends.connectors.edits.splits import (
    Edited,
    Key,
    Row,
    Target,
    moved_from,
    named_in_source,
    whole,
)

#: Column ``status`` of a path that a continuous source has found, and does not read again.
PROCESSED = "processed"


def without_paths(source: SourceState, paths: Collection[str]) -> SourceState:
    """Return the source without paths that it has processed: those that are still there are read as new files."""
    pending: PendingSplits = source.enumerator
    kept = tuple(path for path in pending.processed if path not in paths)
    return replace(source, enumerator=replace(pending, processed=kept))


class FileEdits:
    """Edits of file splits: the enumerator has unassigned splits and, if the source is continuous, all paths found."""

    key_columns = ("split_id",)

    def key(self, value: FileSplit) -> Key:
        """Return the id."""
        return (value.split_id,)

    def target(self, target: Target) -> Row:
        """Return the number of records that were read, or the start of the split."""
        if isinstance(target, Mapping):
            return target
        if isinstance(target, str):
            if target.strip().casefold() != "earliest":
                raise ValueError(f"a position in a file is a number of records, or earliest, not {target!r}")
            return {"position_offset": None, "position_records": None}
        return {"position_offset": None, "position_records": target}

    def positioned(self, row: Row) -> Row:
        """Return the columns that a row of table offsets sets."""
        _, _, byte = str(row.get("position")).partition(BYTE)
        position = {"position_offset": int(byte) if byte else None, "position_records": row.get("offset")}
        return {"split_id": row["partition"], **position}

    def moved(self, value: FileSplit, by: int, clamp: bool) -> FileSplit:
        """Return the split with another number of records, if it counts them from its start."""
        offset, records = value.position or (NO_OFFSET, 0)
        if offset != NO_OFFSET:
            raise ValueError(f"split {value.split_id} counts from byte {offset}, so it cannot be moved by {by}")
        moved = moved_from(records, by, clamp, f"split {value.split_id}")
        return replace(value, position=(NO_OFFSET, moved))

    def changed(self, value: FileSplit, row: Row) -> FileSplit:
        """Return the split with another position; both columns NULL: its start."""
        if not {"position_offset", "position_records"} & set(row):
            return value
        offset, records = row.get("position_offset"), row.get("position_records")
        if offset is None and records is None:
            return replace(value, position=None)
        byte = NO_OFFSET if offset is None else whole(offset, "position_offset")
        return replace(value, position=(byte, whole(records or 0, "position_records")))

    def goes_back(self, before: FileSplit, after: FileSplit) -> bool:
        """Return whether the position is lower, or may be."""
        start = (NO_OFFSET, 0)
        return before.position is not None and (after.position or start) < before.position

    def pending(self, enumerator: PendingSplits) -> Mapping[Key, FileSplit]:
        """Return the enumerator's splits."""
        return {self.key(split): split for split in enumerator.splits}

    def with_pending(self, source: SourceState, changed: Mapping[Key, FileSplit]) -> SourceState:
        """Return the source with other splits of its enumerator."""
        splits = tuple(changed.get(self.key(split), split) for split in source.enumerator.splits)
        return replace(source, enumerator=replace(source.enumerator, splits=splits))

    def added(self, source: SourceState, rows: Sequence[Row]) -> SourceState:
        """Return the source with splits that its enumerator will assign; their ids follow the greatest."""
        pending: PendingSplits = source.enumerator
        known = {self.key(split.value) for split in source.splits} | self.pending(pending).keys()
        number = max((int(key[0]) for key in known), default=0)
        for row in rows:
            number += 1
            split_id = str(row.get("split_id") or f"{number:0{ID_DIGITS}}")
            if (split_id,) in known:
                raise ValueError(f"split {split_id} exists already: with_offsets changes its position")
            known.add((split_id,))
            start, length = whole(row.get("start") or 0, "start"), whole(row["length"], "length")
            size = row.get("file_size")
            split = FileSplit(
                split_id,
                FilePath.parse(str(row["path"])),
                start,
                length,
                int(row.get("modification_time") or 0),
                start + length if size is None else int(size),
                tuple(row.get("hosts") or ()),
            )
            pending = replace(pending, splits=(*pending.splits, self.changed(split, row)))
        return replace(source, enumerator=pending)

    def removed(self, source: SourceState, keys: Sequence[Key], forget: bool | None) -> Edited:
        """Return the source without splits; ``forget``: a continuous source finds their files again."""
        pending: PendingSplits = source.enumerator
        gone = named_in_source(self, source, keys, self.pending(pending))
        values = [*(split.value for split in source.splits), *pending.splits]
        paths = {str(value.path) for value in values if self.key(value) in gone}
        seen = sorted(paths & set(pending.processed))
        if seen and forget is None:
            raise ValueError(
                f"give forget for {seen[0]}: with forget=False it is not read again; with forget=True it "
                "is found as a new file and read from its start"
            )
        if forget and not seen:
            raise ValueError(
                "the source does not look for new files, so a removed split is never found again: leave forget out"
            )
        splits = tuple(split for split in source.splits if self.key(split.value) not in gone)
        rest = tuple(split for split in pending.splits if self.key(split) not in gone)
        processed = tuple(path for path in pending.processed if not (forget and path in paths))
        changed = replace(source, splits=splits, enumerator=PendingSplits(rest, processed))
        return Edited(
            changed, tuple(f"{path} is read again from its start, if it is still there" for path in seen if forget)
        )
