"""DataFrames compared: the same columns of the same types, and the same rows in any order."""

from __future__ import annotations

from chispa import assert_df_equality
from pyspark.sql import DataFrame


def assert_same_rows(left: DataFrame, right: DataFrame, *by: str) -> None:
    """Fail with a list of the rows that differ; ``by`` are columns that order the rows, needed if others are maps."""
    if by:
        left, right = left.orderBy(*by), right.orderBy(*by)
    assert_df_equality(left, right, ignore_row_order=not by, ignore_nullable=True, ignore_metadata=True)
