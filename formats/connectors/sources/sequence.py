"""Number sequence and data generator: ranges of numbers (of the generator: indices of its records).

    split      := utf id  i64 next  i64 to                                                           version 1
    enumerator := i32 n  split[n]                    the splits that are not assigned yet            version 1

``to`` is the last number. Finished splits are not stored. Both sources write the same bytes, so ``datagen`` must be
named in option ``connector``. Flink: ``NumberSequenceSource``, ``DataGeneratorSource``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from pyspark_savepoint.formats.connectors.payloads.connector import Connector, Effect
from pyspark_savepoint.formats.connectors.payloads.edits import (
    Edited,
    Key,
    S,
    SplitEdits,
    named_in_source,
)
from pyspark_savepoint.formats.connectors.payloads.kind import (
    SOURCE_COORDINATOR,
    SPLITS,
    ConnectorKind,
    Position,
    Row,
    columns,
)
from pyspark_savepoint.formats.connectors.payloads.layouts import UTF, payloads
from pyspark_savepoint.formats.data_view import DataInputView
from pyspark_savepoint.formats.encodings import I64, many, valid
from pyspark_savepoint.formats.structs import Struct, of, part, struct

UNASSIGNED = "unassigned"


def _check_numbers(view: DataInputView, _: str, following: int, to: int) -> None:
    if following > to:
        view.fail("a next number that is not after the last one", f"{following} and {to}")


@struct
class SequenceSplit(Struct):
    """The numbers of a split that are still to come."""

    split_id: str = part(
        valid(UTF, lambda text: text.isascii() and text.isdigit(), "the id of a split, a number"), "the id of a split"
    )
    next: int = part(I64, "a number")
    to: int = part(I64, "a number", check=_check_numbers)

    def row(self) -> Row:
        """Return the columns of a split."""
        return {"split_id": self.split_id, "next": self.next, "to": self.to}


VERSIONS = (1,)
Splits = tuple[SequenceSplit, ...]


COLUMNS = columns(next=pa.int64(), to=pa.int64())


def _kinds(name: str, by_content: bool) -> tuple[ConnectorKind[SequenceSplit], ConnectorKind[Splits]]:
    def position(split: SequenceSplit) -> Position:
        return Position(name, split.split_id, split.next)

    splits = ConnectorKind[SequenceSplit](
        name,
        SPLITS,
        COLUMNS,
        *payloads(of(SequenceSplit), VERSIONS),
        lambda split: [split.row()],
        by_content=by_content,
        positions=lambda split: [position(split)],
    )
    enumerator = ConnectorKind[Splits](
        name,
        SOURCE_COORDINATOR,
        pa.schema([*COLUMNS, *columns(status=pa.string())]),
        *payloads(many(of(SequenceSplit)), VERSIONS, "splits"),
        lambda splits: [{**split.row(), "status": UNASSIGNED} for split in splits],
        states=(),
        by_content=by_content,
        positions=lambda splits: [position(split) for split in splits],
    )
    return splits, enumerator


NUMBER_SEQUENCE, NUMBER_SEQUENCE_ENUMERATOR = _kinds("number_sequence", by_content=True)
DATAGEN, DATAGEN_ENUMERATOR = _kinds("datagen", by_content=False)


class SequenceEdits(SplitEdits):
    """Edits of ranges of numbers: the enumerator has only unassigned ones, and any reader may have a split."""

    key_columns = ("split_id",)

    def key(self, value: SequenceSplit) -> Key:
        """Return the id."""
        return (value.split_id,)

    def target(self, target: int | str) -> Row:
        """Return the next number."""
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

    def with_pending(self, source: S, changed: Mapping[Key, SequenceSplit]) -> S:
        """Return the source with other splits of its enumerator."""
        splits = tuple(changed.get(self.key(split), split) for split in source.enumerator)
        return replace(source, enumerator=splits)

    def added(self, source: S, rows: Sequence[Row]) -> S:
        """Return the source with splits of its readers."""
        existing_keys = {self.key(split.value) for split in source.splits} | self.pending(source.enumerator).keys()
        for row in rows:
            split = SequenceSplit(str(row["split_id"]), int(row["next"]), int(row["to"]))
            if self.key(split) in existing_keys:
                raise ValueError(f"split {split.split_id} exists already: with_offsets changes it")
            existing_keys.add(self.key(split))
            source = source.with_split(1, self.changed(split, {}))
        return source

    def removed(self, source: S, keys: Sequence[Key], forget: bool | None) -> Edited[S]:
        """Return the source without splits, which are never found again."""
        if forget:
            raise ValueError("nothing finds a split of numbers again: leave forget out")
        removed_keys = named_in_source(self, source, keys, self.pending(source.enumerator))
        pending = tuple(split for split in source.enumerator if self.key(split) not in removed_keys)
        return Edited(replace(self.without(source, removed_keys), enumerator=pending))


CONNECTORS = (
    Connector(
        "number_sequence",
        (NUMBER_SEQUENCE, NUMBER_SEQUENCE_ENUMERATOR),
        rank=4,
        versions="1",
        changes="splits",
        proof="edited",
        edits=SequenceEdits(),
        new_enumerator=(),
        effects=(
            Effect(
                "number sequences: all changes",
                "next and last number",
                "splits that are not assigned",
                "reads from there. Nothing finds a removed split again",
            ),
        ),
    ),
    Connector(
        "datagen",
        (DATAGEN, DATAGEN_ENUMERATOR),
        about="data generator",
        rank=4,
        versions="1",
        changes="splits",
        proof="measured",
        edits=SequenceEdits(),
    ),
)
