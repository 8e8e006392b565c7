"""Number sequence and data generator: ranges of numbers (of the generator: indices of its records).

    split      := utf id  i64 next  i64 to                                                           version 1
    enumerator := i32 n  split[n]                    the splits that are not assigned yet            version 1

``to`` is the last number. Finished splits are not stored. Both sources write the same bytes, so ``datagen`` must be
named in option ``connector``. Flink: ``NumberSequenceSource``, ``DataGeneratorSource``.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from pyspark_savepoint.formats.connectors.payloads.kind import (
    SOURCE_COORDINATOR,
    SPLITS,
    ConnectorKind,
    Position,
    Row,
    columns,
    read_text,
    unknown_version,
)
from pyspark_savepoint.formats.data_view import DataInputView, DataOutputView

UNASSIGNED = "unassigned"


@dataclass(frozen=True, slots=True)
class SequenceSplit:
    """The numbers of a split that are still to come."""

    split_id: str
    next: int
    to: int

    @classmethod
    def read(cls, view: DataInputView) -> SequenceSplit:
        """Read id, next and last number."""
        split = cls(read_text(view, "the id of a split"), view.read_i64("a number"), view.read_i64("a number"))
        if not (split.split_id.isascii() and split.split_id.isdigit()):
            view.fail("the id of a split, a number", split.split_id)
        if split.next > split.to:
            view.fail("a next number that is not after the last one", f"{split.next} and {split.to}")
        return split

    def write(self, out: DataOutputView) -> None:
        """Write id, next and last number."""
        out.write_utf(self.split_id)
        out.write_i64(self.next)
        out.write_i64(self.to)

    def row(self) -> Row:
        """Return the columns of a split."""
        return {"split_id": self.split_id, "next": self.next, "to": self.to}


Splits = tuple[SequenceSplit, ...]


def _decode(version: int, view: DataInputView) -> SequenceSplit:
    if version != 1:
        raise unknown_version(version, (1,))
    return SequenceSplit.read(view)


def _decode_enumerator(version: int, view: DataInputView) -> Splits:
    if version != 1:
        raise unknown_version(version, (1,))
    return tuple(SequenceSplit.read(view) for _ in range(view.read_count("splits", each=18)))


def _encode_enumerator(_: int, splits: Splits, out: DataOutputView) -> None:
    out.write_i32(len(splits))
    for split in splits:
        split.write(out)


COLUMNS = columns(next=pa.int64(), to=pa.int64())


def _kinds(name: str, by_content: bool) -> tuple[ConnectorKind[SequenceSplit], ConnectorKind[Splits]]:
    def position(split: SequenceSplit) -> Position:
        return Position(name, split.split_id, split.next)

    splits = ConnectorKind[SequenceSplit](
        name,
        SPLITS,
        COLUMNS,
        _decode,
        lambda _, split, out: split.write(out),
        lambda split: [split.row()],
        by_content=by_content,
        positions=lambda split: [position(split)],
    )
    enumerator = ConnectorKind[Splits](
        name,
        SOURCE_COORDINATOR,
        pa.schema([*COLUMNS, *columns(status=pa.string())]),
        _decode_enumerator,
        _encode_enumerator,
        lambda splits: [{**split.row(), "status": UNASSIGNED} for split in splits],
        states=(),
        by_content=by_content,
        positions=lambda splits: [position(split) for split in splits],
    )
    return splits, enumerator


NUMBER_SEQUENCE, NUMBER_SEQUENCE_ENUMERATOR = _kinds("number_sequence", by_content=True)
DATAGEN, DATAGEN_ENUMERATOR = _kinds("datagen", by_content=False)
