"""DataFrames compared: the same columns of the same types, and the same rows in any order."""

from __future__ import annotations

from chispa import assert_df_equality
from pyspark.sql import DataFrame


def assert_same_rows(left: DataFrame, right: DataFrame) -> None:
    """Fail with a list of the rows that differ."""
    assert_df_equality(left, right, ignore_row_order=True, ignore_nullable=True, ignore_metadata=True)
