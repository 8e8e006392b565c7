"""Changes of positions in Kinesis sources. The sources find the shards of a stream themselves.

A removed shard would never be read, and its child shards would wait for its end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NoReturn

from pyspark_savepoint.formats.connectors.sources.kinesis import (
    ITERATOR_TYPES,
    SENTINELS,
    split_row,
    with_sequence_number,
)
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

HORIZON, LATEST, TIMESTAMP, AT_NUMBER, AFTER_NUMBER = ITERATOR_TYPES
WORDS = {"earliest": HORIZON, "latest": LATEST}
SENTINEL_WORDS = {word: number for number, word in SENTINELS.items() if word in WORDS}
DISCOVERED = "the source finds shards itself, with their parents and hash keys"


class _ShardEdits:
    """What both sources have in common: a shard is named by its id."""

    key_columns = ("shard",)

    def moved(self, value: Row, by: int, clamp: bool) -> NoReturn:
        """Raise ValueError: sequence numbers are not consecutive."""
        raise ValueError(f"sequence numbers are not consecutive, so that no shard can be moved by {by}")

    def added(self, source: SourceState, rows: Sequence[Row]) -> NoReturn:
        """Raise ValueError: shards are found."""
        raise ValueError(f"{DISCOVERED}: none can be added")


class KinesisEdits(_ShardEdits):
    """Edits of shards of KinesisStreamsSource: positions are those of readers, of unassigned ones the enumerator's."""

    def key(self, value: Row) -> Key:
        """Return the shard."""
        return (value["shard"],)

    def target(self, target: Target) -> Row:
        """Return type of iterator and sequence number: a number is that of the last record read."""
        if isinstance(target, Mapping):
            return target
        word = str(target).strip().casefold()
        if word in WORDS:
            return {"iterator_type": WORDS[word]}
        return {"iterator_type": AFTER_NUMBER, "sequence_number": _number(target)}

    def positioned(self, row: Row) -> Row:
        """Return the columns that a row of table offsets sets."""
        *number, word = str(row["position"]).split(" ")
        return {"shard": row["partition"], "iterator_type": word, "sequence_number": number[0] if number else None}

    def changed(self, value: Row, row: Row) -> Row:
        """Return the split with another position."""
        before = split_row(value)
        refuse_changes(row, before, ("stream", "finished"))
        names = ("iterator_type", "sequence_number", "timestamp")
        if all(row.get(name) == before[name] for name in names) or not any(name in row for name in names):
            return value
        if value.get("finished"):
            raise ValueError(f"shard {value['shard']} was read to its end, and its child shards are read")
        number, time = row.get("sequence_number"), row.get("timestamp")
        kind = row.get("iterator_type") or (AFTER_NUMBER if number is not None else TIMESTAMP if time else None)
        if kind not in ITERATOR_TYPES:
            raise ValueError(f"iterator_type is one of {', '.join(ITERATOR_TYPES)}, not {kind!r}")
        if (number is not None) != (kind in (AT_NUMBER, AFTER_NUMBER)) or (time is not None) != (kind == TIMESTAMP):
            raise ValueError(f"{AT_NUMBER} and {AFTER_NUMBER} have a sequence_number, {TIMESTAMP} a timestamp in ms")
        marker = None
        if kind not in (HORIZON, LATEST):
            marker = {
                "timestamp": None if time is None else whole(time, "timestamp"),
                "sequence_number": None if number is None else _number(number),
            }
        return {**value, "iterator_type": kind, "marker": marker}

    def goes_back(self, before: Row, after: Row) -> bool:
        """Return whether records are read again, or may be."""
        first, second = split_row(before), split_row(after)
        if first == second or second["iterator_type"] == LATEST or first["iterator_type"] == HORIZON:
            return False
        numbers = first["sequence_number"], second["sequence_number"]
        return None in numbers or int(numbers[1]) < int(numbers[0])

    def pending(self, enumerator: Row) -> Mapping[Key, Row]:
        """Return the shards that are not assigned: in version 0 all that the enumerator keeps."""
        return {
            self.key(entry["split"]): entry["split"]
            for entry in enumerator["splits"]
            if entry.get("status") in (None, "unassigned")
        }

    def with_pending(self, source: SourceState, changed: Mapping[Key, Row]) -> SourceState:
        """Return the source with other positions of shards that are not assigned."""
        splits = [
            {**entry, "split": changed.get(self.key(entry["split"]), entry["split"])}
            if entry.get("status") in (None, "unassigned")
            else entry
            for entry in source.enumerator["splits"]
        ]
        return replace(source, enumerator={**source.enumerator, "splits": splits})

    def removed(self, source: SourceState, keys: Sequence[Key], forget: bool | None) -> NoReturn:
        """Raise ValueError: nothing would read the shard or its children."""
        named_in_source(self, source, keys, self.pending(source.enumerator))
        raise ValueError(
            "a removed shard is never found again, and its child shards wait for its end: use "
            "with_offsets to 'latest' to skip its records"
        )


class KinesisConsumerEdits(_ShardEdits):
    """Shards of FlinkKinesisConsumer: union state, and no enumerator."""

    def key(self, value: Row) -> Key:
        """Return the shard."""
        return (value["shardId"],)

    def target(self, target: Target) -> Row:
        """Return sequence number, that of the last record read, or word."""
        if isinstance(target, Mapping):
            return target
        word = str(target).strip().casefold()
        if word in SENTINEL_WORDS:
            return {"marker": word}
        return {"sequence_number": _number(target)}

    def positioned(self, row: Row) -> Row:
        """Return the columns that a row of table offsets sets."""
        position = str(row["position"])
        return {
            "shard": row["partition"],
            "sequence_number" if position.isascii() and position.isdigit() else "marker": position,
        }

    def changed(self, value: Row, row: Row) -> Row:
        """Return the shard with another sequence number."""
        refuse_changes(row, {"stream": value["streamName"]}, ("stream",))
        number, marker = row.get("sequence_number"), row.get("marker")
        if number is not None and marker is not None:
            raise ValueError(f"give sequence_number or marker, not both: {number} and {marker}")
        if marker is not None and marker != SENTINELS.get(value["number"]):
            if marker not in SENTINEL_WORDS:
                raise ValueError(f"marker is one of {', '.join(SENTINEL_WORDS)}, not {marker!r}")
            number = SENTINEL_WORDS[marker]
        elif number is not None:
            number = _number(number)
        if number is None or number == value["number"]:
            return value
        if SENTINELS.get(value["number"]) == "finished":
            raise ValueError(f"shard {value['shardId']} was read to its end, and its child shards are read")
        return with_sequence_number(value, number)

    def goes_back(self, before: Row, after: Row) -> bool:
        """Return whether records are read again, or may be."""
        first, second = before["number"], after["number"]
        if first == second or SENTINELS.get(second) == "latest" or SENTINELS.get(first) == "earliest":
            return False
        return not (first.isdigit() and second.isdigit()) or int(second) < int(first)

    def pending(self, enumerator: object) -> Mapping[Key, Row]:
        """Return nothing: there is no enumerator."""
        return {}

    def with_pending(self, source: SourceState, changed: Mapping[Key, Row]) -> SourceState:
        """Return the source: there is no enumerator."""
        return source

    def removed(self, source: SourceState, keys: Sequence[Key], forget: bool | None) -> Edited:
        """Return the source without shards, which are read from their beginning as long as the stream has them."""
        if not forget:
            raise ValueError(
                "FlinkKinesisConsumer reads a shard that is not in its state from the beginning: use with_offsets to "
                "'latest' to skip its records, or forget=True to remove it anyway"
            )
        gone = named_in_source(self, source, keys, {})
        splits = tuple(split for split in source.splits if self.key(split.value) not in gone)
        note = f"{', '.join(sorted(map(split_text, gone)))} is read from its beginning, if the stream still has it"
        return Edited(replace(source, splits=splits), (note,))


def _number(given: object) -> str:
    text = str(given).strip()
    if isinstance(given, bool) or not (text.isascii() and text.isdigit()):
        raise ValueError(f"a position in a shard is the sequence number of a record, earliest or latest, not {given!r}")
    return text
