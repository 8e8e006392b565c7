"""A TypeSerializer as users write them: sums of money, in a currency that the snapshot names."""

from __future__ import annotations

import sys
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from cloudpickle import register_pickle_by_value

from pyspark_savepoint.formats.columns import Cursors, DecodeOptions, Ints, Longs
from pyspark_savepoint.formats.data_view import DataOutputView
from pyspark_savepoint.formats.serializers.base import SnapshotReader, TypeSerializer

# Workers have no such module to import: its class travels whole, as that of a notebook does.
register_pickle_by_value(sys.modules[__name__])


@dataclass(frozen=True)
class MoneySerializer(TypeSerializer):
    """Cents as a long, behind the currency of the snapshot; shown as text: ``EUR 12.50``."""

    currency: str = "EUR"

    @classmethod
    def read_snapshot(cls, name: str, version: int, reader: SnapshotReader) -> TypeSerializer:
        return cls(name, version, reader.view.read_utf("the currency"))

    def write_payload(self, view: DataOutputView) -> None:
        view.write_utf(self.currency)

    @property
    def flink_type(self) -> str:
        return "MONEY"

    @property
    def length(self) -> int:
        return 8

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return pa.string()

    def decode(self, at: Cursors) -> pa.Array:
        short = np.flatnonzero(at.end - at.position < 8)
        at.check(int(short[0]) if len(short) else -1, "8 bytes")
        cents = at.buffer[at.position[:, None] + np.arange(8)].view(">i8")[:, 0]
        at.position += 8
        return pa.array([f"{self.currency} {each / 100:.2f}" for each in cents], pa.string())

    def sizes(self, column: pa.Array) -> Longs:
        return np.full(len(column), 8, np.int64)

    def encode(self, column: pa.Array, at: Cursors) -> None:
        at.buffer[at.position[:, None] + np.arange(8)] = cents_of(column).astype(">i8").view(np.uint8).reshape(-1, 8)
        at.position += 8

    def java_hash(self, column: pa.Array) -> Ints:
        """``(int) (31 * cents)``, as the class of the job has it."""
        return (31 * cents_of(column)).astype(np.int32)


def cents_of(column: pa.Array) -> Longs:
    return np.array([round(float(text.split()[1]) * 100) for text in column.to_pylist()], np.int64)
