"""Rows of keys that become one: each field of the old state is merged as it says, whatever is made of it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from pyspark_savepoint.formats.errors import DuplicateKeyError
from pyspark_savepoint.statebackends.evolution.changes import Cast, FieldSource, Nested, OldField, StateChange, Verdict
from pyspark_savepoint.statebackends.evolution.logical_types import logical_type_of
from pyspark_savepoint.statebackends.evolution.rewriting.merging import merged
from pyspark_savepoint.statebackends.evolution.rewriting.state_rows import StateRows
from pyspark_savepoint.statebackends.evolution.shapes import Column, Layout, StateShape

ROW = logical_type_of("ROW<`a` INT>")
OLD = OldField("acc", 0, "last")


@pytest.mark.parametrize("source", [OLD, Cast(OLD, ROW), Nested(OLD, ())], ids=["field", "cast", "nested row"])
def test_values_that_cannot_be_merged_are_refused(source: OldField | Cast | Nested) -> None:
    """Of a row with other fields inside, the first of both was taken in silence."""
    shape = StateShape("acc", "value", Layout.ACCUMULATORS, "ROWDATA", (Column("last", ROW),))
    change = StateChange(Verdict.TRANSFORMED, shape, shape, (FieldSource("last", ROW, Verdict.TRANSFORMED, source),))
    rows = StateRows(np.array([0, 0]), (pa.array([{"a": 1}, {"a": 2}]),))
    with pytest.raises(DuplicateKeyError, match="two keys become one, and their values of last cannot be merged"):
        merged(shape, rows, change)
