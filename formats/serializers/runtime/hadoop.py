"""Serializer of Hadoop's Text: a variable-length integer n, then n bytes of UTF-8.

``kernels/values/hadoop.py`` reads the integers. Text occurs in snapshots only as the class of a ``WritableSerializer``.
Hadoop: ``org.apache.hadoop.io.Text``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from pyspark_savepoint.formats.columns import Cursors, DecodeOptions, Longs
from pyspark_savepoint.formats.serializers.basic.blobs import block_sizes, read_blocks, write_blocks
from pyspark_savepoint.formats.serializers.basic.primitives import SimpleSerializer
from pyspark_savepoint.formats.serializers.basic.strings import expect_utf8
from pyspark_savepoint.formats.serializers.checks import refuse_nulls

HADOOP = "org.apache.hadoop.io."


@dataclass(frozen=True)
class TextSerializer(SimpleSerializer):
    """Serializer of TEXT, which becomes STRING."""

    flink_type: ClassVar[str] = "TEXT"

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return pa.string()

    def decode(self, at: Cursors) -> pa.Array:
        from pyspark_savepoint.formats.kernels.values import hadoop

        start = at.at(at.position.copy(), at.end)
        sizes = np.zeros(len(at), np.int64)
        at.check(hadoop.read_vints(at.buffer, at.position, at.end, sizes), "the length of a text")
        wrong = np.flatnonzero((sizes < 0) | (sizes > at.end - at.position))
        at.check(int(wrong[0]) if len(wrong) else -1, "as many bytes as its length")
        column = read_blocks(at, sizes).view(pa.string())
        try:
            column.validate(full=True)
        except pa.ArrowInvalid:
            start.fail(_first_damaged(column.view(pa.binary())), "text in UTF-8", "other bytes")
        return column

    def sizes(self, column: pa.Array) -> Longs:
        refuse_nulls(column, self.flink_type)
        expect_utf8(column)
        lengths = block_sizes(column)
        return lengths + _length_sizes(lengths)

    def encode(self, column: pa.Array, at: Cursors) -> None:
        from pyspark_savepoint.formats.kernels.values import hadoop

        lengths = block_sizes(column)
        hadoop.write_lengths(at.buffer, at.position, lengths, _length_sizes(lengths))
        write_blocks(column, at)


def _length_sizes(lengths: Longs) -> Longs:
    from pyspark_savepoint.formats.kernels.values import hadoop

    sizes = np.zeros(len(lengths), np.int64)
    hadoop.length_sizes(lengths, sizes)
    return sizes


def _first_damaged(column: pa.Array) -> int:
    for row, value in enumerate(column.to_pylist()):
        try:
            value.decode("utf-8")
        except UnicodeDecodeError:
            return row
    return 0
