"""Number sequence and data generator: ranges of numbers (of the generator: indices of its records).

    split      := utf id  i64 next  i64 to                                                           version 1
    enumerator := i32 n  split[n]                    the splits that are not assigned yet            version 1

``to`` is the last number. Finished splits are not stored. Both sources write the same bytes, so ``datagen`` must be
named in option ``connector``. Flink: ``NumberSequenceSource``, ``DataGeneratorSource``.
"""

from __future__ import annotations

import pyarrow as pa

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
from pyspark_savepoint.formats.structs import I64, Struct, many, of, part, struct, valid

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
