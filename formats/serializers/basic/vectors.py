"""Serializers of the vectors of Flink ML.

    DenseVector    i32 n  f64[n]
    SparseVector   size  i32 n  {index  f64}[n]           size and index are i32, or i64 in a vector of longs

Flink ML: ``DenseVectorSerializer``, and of 2.3 ``DenseIntDoubleVectorSerializer``, ``SparseIntDoubleVectorSerializer``,
``SparseLongDoubleVectorSerializer``. Layout from source code. ``SparseVectorSerializer`` of earlier releases is not
read: its size has four or eight bytes, and the snapshot does not say which.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

from pyspark_savepoint.formats.serializers.basic.primitives import SimpleSerializer
from pyspark_savepoint.formats.serializers.basic.shapes import DOUBLE, INT, LONG, Fields, Repeated, Shaped
from pyspark_savepoint.formats.serializers.registry import register

FLINK_ML = "org.apache.flink.ml.linalg.typeinfo."
SPARSE = MappingProxyType(
    {
        f"{FLINK_ML}SparseIntDoubleVectorSerializer$SparseVectorSerializerSnapshot": ("SPARSE_VECTOR", INT),
        f"{FLINK_ML}SparseLongDoubleVectorSerializer$SparseLongDoubleVectorSerializerSnapshot": (
            "LONG_SPARSE_VECTOR",
            LONG,
        ),
    }
)


@register(
    f"{FLINK_ML}DenseIntDoubleVectorSerializer$DenseVectorSerializerSnapshot",
    f"{FLINK_ML}DenseVectorSerializer$DenseVectorSerializerSnapshot",
)
@dataclass(frozen=True)
class DenseVectorSerializer(Shaped, SimpleSerializer):
    """Serializer of DENSE_VECTOR, shown as a list of doubles."""

    shape: ClassVar[Repeated] = Repeated(DOUBLE)
    flink_type: ClassVar[str] = "DENSE_VECTOR"


@register(*SPARSE)
@dataclass(frozen=True)
class SparseVectorSerializer(Shaped, SimpleSerializer):
    """Serializer of SPARSE_VECTOR and LONG_SPARSE_VECTOR: the values that are not 0, with their indices."""

    @property
    def flink_type(self) -> str:
        return SPARSE[self.snapshot_class][0]

    @property
    def shape(self) -> Fields:
        index = SPARSE[self.snapshot_class][1]
        return Fields(("size", "values"), (index, Repeated(Fields(("index", "value"), (index, DOUBLE)))))
