"""How Spark cuts the Arrow batches of a write: by their number of rows, where rows cannot be large.

From Spark 4.1 on a batch for Python also ends at ``spark.sql.execution.arrow.maxBytesPerBatch``, for which Spark
measures the batch after every row: 0.4 µs a row, more than all else that it does with a row of a few numbers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    NumericType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MAX_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
#: The value with which Spark does not measure.
UNMEASURED = str((1 << 31) - 1)


@contextmanager
def unmeasured_batches(frame: DataFrame, key: Collection[str]) -> Iterator[None]:
    """End batches by row count alone, in queries of this thread, if all columns but the key's have a fixed width.

    A local property does not override a value that the user has set, and does not change the session.
    """
    if not hasattr(frame.sparkSession, "_jsparkSession") or not is_narrow(frame.schema, key):
        yield
        return
    # Any: None removes a property, which the annotation does not allow.
    context: Any = frame.sparkSession.sparkContext
    before = context.getLocalProperty(MAX_BYTES)
    context.setLocalProperty(MAX_BYTES, UNMEASURED)
    try:
        yield
    finally:
        context.setLocalProperty(MAX_BYTES, before)


def is_narrow(schema: StructType, key: Collection[str]) -> bool:
    """Return whether the values of all columns have a fixed width; keys may be text."""
    return all(_is_narrow(field.dataType, field.name in key) for field in schema)


def _is_narrow(kind: DataType, text: bool) -> bool:
    if isinstance(kind, StructType):
        return all(_is_narrow(field.dataType, text) for field in kind)
    if isinstance(kind, StringType | BinaryType):
        return text
    return isinstance(kind, NumericType | BooleanType | DateType | TimestampType | TimestampNTZType)
