"""Vectors of Flink ML: snapshots and values are read and written byte for byte."""

from __future__ import annotations

import struct

import pytest

from pyspark_savepoint.formats.serializers.notation.notation import parse_type
from tests.formats.serializers.codec_checks import check_value, simple

FLINK_ML = "org.apache.flink.ml.linalg.typeinfo."


@pytest.mark.parametrize("stem", ["DenseVector", "DenseIntDoubleVector"])
def test_dense_vectors(stem: str) -> None:
    dense = simple(f"{FLINK_ML}{stem}Serializer$DenseVectorSerializerSnapshot")
    assert dense.flink_type == "DENSE_VECTOR"
    check_value(dense, struct.pack(">i2d", 2, 0.5, -1.0), [0.5, -1.0])
    check_value(dense, bytes(4), [])


@pytest.mark.parametrize(
    ("snapshot", "word", "layout"),
    [
        ("SparseIntDoubleVectorSerializer$SparseVectorSerializerSnapshot", "SPARSE_VECTOR", ">iiidid"),
        (
            "SparseLongDoubleVectorSerializer$SparseLongDoubleVectorSerializerSnapshot",
            "LONG_SPARSE_VECTOR",
            ">qiqdqd",
        ),
    ],
)
def test_sparse_vectors(snapshot: str, word: str, layout: str) -> None:
    sparse = simple(FLINK_ML + snapshot)
    assert parse_type(word) == sparse
    values = [{"index": 0, "value": 0.5}, {"index": 7, "value": -1.0}]
    check_value(sparse, struct.pack(layout, 9, 2, 0, 0.5, 7, -1.0), {"size": 9, "values": values})
    check_value(sparse, struct.pack(layout[:3], 9, 0), {"size": 9, "values": []})


def test_the_newest_class_is_written() -> None:
    dense = parse_type("DENSE_VECTOR")
    assert dense == simple(f"{FLINK_ML}DenseIntDoubleVectorSerializer$DenseVectorSerializerSnapshot")
