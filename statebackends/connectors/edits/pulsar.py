"""Changes of Pulsar sources: the message after which a partition continues.

A restored reader moves the cursor of its subscription to the message after the last one that the split names
(``PulsarPartitionSplitReader.handleSplitsChanges``, ``CursorPosition``). Subscriptions that several readers share have
one cursor for all of them, which splits do not set.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NoReturn

from pyspark_savepoint.formats.connectors.sources.pulsar import FULL_RANGE, message_id, partition_row, split_row
from pyspark_savepoint.statebackends.connectors.connector_states import SourceState
from pyspark_savepoint.statebackends.connectors.edits.splits import (
    Edited,
    Key,
    Row,
    Target,
    named_in_source,
    refuse_changes,
    split_text,
    whole,
)

LEDGER, ENTRY, INDEX, SIZE = COLUMNS = ("last_ledger_id", "last_entry_id", "last_batch_index", "last_batch_size")
#: ``ledger:entry``, with ``:index/size`` of a message of a batch, as table offsets shows it.
MESSAGE = re.compile(r"(?:after )?(\d{1,19}):(-1|\d{1,19})(?::(\d{1,9})/(\d{1,9}))?", re.ASCII)


class PulsarEdits:
    """Edits of partitions: the last message that was read. The enumerator has the assigned partitions."""

    key_columns = ("topic", "partition")

    def key(self, value: Row) -> Key:
        """Return topic and partition, and the key ranges if they are not all."""
        row = partition_row(value)
        ranges = () if row["ranges"] == FULL_RANGE else (" ".join(row["ranges"]),)
        return (row["topic"], row["partition"], *ranges)

    def target(self, target: Target) -> Row:
        """Return the columns of the last message read."""
        if isinstance(target, Mapping):
            return target
        match = MESSAGE.fullmatch(str(target).strip())
        if match is None:
            raise ValueError(
                "a position is the last message that was read, as ledger:entry, such as '1042:17' (entry -1: none of "
                f"the ledger), and cannot be {target!r}; earliest and latest are places of the subscription's cursor, "
                "which pulsar-admin resets"
            )
        return {name: int(text) for name, text in zip(COLUMNS, match.groups(), strict=True) if text is not None}

    def positioned(self, row: Row) -> Row:
        """Return the columns that a row of table offsets sets."""
        position = str(row["position"])
        columns = self.target(position) if position.startswith("after ") else {}
        return {"topic": row["stream"], "partition": int(row["partition"]), **columns}

    def moved(self, value: Row, by: int, clamp: bool) -> NoReturn:
        """Raise ValueError: message ids are not consecutive."""
        raise ValueError(f"ids of messages are not consecutive, so that no partition can be moved by {by}")

    def changed(self, value: Row, row: Row) -> Row:
        """Return the split after another message; a batch is read to its end unless index and size are given."""
        before = split_row(value)
        refuse_changes(row, before, ("ranges", "transaction"))
        given = _position(row)
        if given in ((None,) * 4, _position(before)):
            return value
        ledger, entry, index, size = given
        if ledger is None or entry is None:
            raise ValueError(f"the last message read has {LEDGER} and {ENTRY}: give both")
        if (index is None) != (size is None) or (index is not None and size is not None and not 0 <= index < size):
            raise ValueError(f"a message of a batch has {INDEX} below {SIZE}; without both, all of the batch was read")
        name = before["split_id"]
        if before["ranges"] != FULL_RANGE or value["transaction"] is not None:
            raise ValueError(f"the subscription of {name} is shared: the broker has one cursor for all readers")
        if value["message_id"] is None and ("mode" in value or "range" in value):
            raise ValueError(
                f"{name} names no message: this release of the connector reads shared subscriptions too, and ignores a "
                "position of these"
            )
        entry = -1 if entry == -1 else whole(entry, ENTRY)
        return {**value, "message_id": message_id(value, whole(ledger, LEDGER), entry, index, size)}

    def goes_back(self, before: Row, after: Row) -> bool:
        """Return whether messages are read again."""
        return before["message_id"] is not None and _order(after) < _order(before)

    def pending(self, enumerator: object) -> Mapping[Key, Row]:
        """Return nothing: the enumerator keeps no position."""
        return {}

    def with_pending(self, source: SourceState, changed: Mapping[Key, Row]) -> SourceState:
        """Return the source: the enumerator keeps no position."""
        return source

    def added(self, source: SourceState, rows: Sequence[Row]) -> NoReturn:
        """Raise ValueError: partitions are found."""
        raise ValueError("the source finds partitions itself, with the stop cursor of the job: none can be added")

    def removed(self, source: SourceState, keys: Sequence[Key], forget: bool | None) -> Edited:
        """Return the source without partitions; ``forget``: a job that subscribes to them finds them as new ones."""
        if forget is None:
            raise ValueError(
                "give forget: with forget=False the partitions are never read again; with forget=True a job that still "
                "subscribes to them finds them as new and reads from the cursor of its subscription"
            )
        gone = named_in_source(self, source, keys, {})
        splits = tuple(split for split in source.splits if self.key(split.value) not in gone)
        partitions = source.enumerator["partitions"]
        missing = gone - set(map(self.key, partitions))
        if not forget and missing:
            raise ValueError(f"the enumerator does not know {split_text(min(missing))}, and would find it as new")
        if not forget:
            return Edited(replace(source, splits=splits))
        kept = [partition for partition in partitions if self.key(partition) not in gone]
        note = (
            f"a job that still subscribes to {', '.join(sorted(map(split_text, gone)))} reads it from the cursor of "
            "its subscription; without one at the broker, from where the job's settings start"
        )
        return Edited(replace(source, splits=splits, enumerator={**source.enumerator, "partitions": kept}), (note,))


def _position(row: Row) -> tuple[int | None, ...]:
    """Return ledger, entry, index and size; index and size of messages without a batch are None."""
    position = tuple(row.get(name) for name in COLUMNS)
    batch = position[2:]
    return (*position[:2], *((None, None) if all(part is None or part < 0 for part in batch) else batch))


def _order(value: Row) -> tuple[int, int, float]:
    """Return the place of a split in the order of messages: a whole batch is after its messages."""
    ledger, entry, index, _ = _position(split_row(value))
    return ledger or 0, entry or 0, float("inf") if index is None else index
