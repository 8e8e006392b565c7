"""Checks of columns before they are written: refuse values that the bytes of a type cannot represent."""

from __future__ import annotations

import pyarrow as pa

from pyspark_savepoint.formats.columns import Flags
from pyspark_savepoint.formats.errors import ValueRangeError


def refuse_nulls(column: pa.Array, flink_type: str, why: str = "this serializer has no byte that means null") -> None:
    """Raise ValueRangeError if a column has nulls, for types without an encoding of null."""
    if column.null_count:
        row = column.is_null().index(True).as_py()
        raise ValueRangeError(
            f"a value of {flink_type} cannot be null",
            found=f"null in row {row} of a column of {len(column)}",
            remedy=f"filter these rows, or give them a value: {why}; "
            f"if the job has NULLABLE<{flink_type}>, name that in option 'types'",
        )


def refuse_where(bad: Flags, column: pa.Array, expected: str, remedy: str) -> None:
    """Raise ValueRangeError for the first of the marked values."""
    if bad.any():
        row = int(bad.argmax())
        raise ValueRangeError(
            "a value cannot be written exactly",
            expected=expected,
            found=f"{column[row]} in row {row} of a column of {len(column)}",
            remedy=remedy,
        )
