"""A savepoint whose files lie elsewhere: its types are read where the user allows that."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import pyspark_savepoint
from pyspark_savepoint.api.local_savepoint import LocalSavepoint
from pyspark_savepoint.formats.errors import UnsafePathError

RATES = pa.table({"key": ["EUR", "USD"], "value": [1.0, 1.25]})


@pytest.fixture
def elsewhere(shop: Path, tmp_path: Path) -> LocalSavepoint:
    """An operator with keyed state, whose files are those of another savepoint, and broadcast state."""
    base = pyspark_savepoint.open(shop).with_broadcast_state("accounts", "rates", RATES).write(tmp_path / "base")
    assert base.path is not None
    base.write(tmp_path / "elsewhere", files="reference")
    return pyspark_savepoint.open(tmp_path / "elsewhere", allow_outside=True)


def test_rows_of_a_broadcast_state_replace_others(elsewhere: LocalSavepoint, tmp_path: Path) -> None:
    new = elsewhere.with_state("accounts", "rates", RATES.slice(1), replace=True).write(tmp_path / "new")
    assert new.broadcast_state("accounts", "rates").to_arrow().to_pydict() == RATES.slice(1).to_pydict()
    before, after = (one.keyed_state("accounts").to_arrow().sort_by("key") for one in (elsewhere, new))
    assert after == before


def test_types_from_it(elsewhere: LocalSavepoint, tmp_path: Path) -> None:
    source, empty = f"{elsewhere.path}#accounts", pyspark_savepoint.create()
    rows = pa.table({"key": [1, 2], "total": [5, 15]})
    with pytest.raises(UnsafePathError, match=r"(?s)outside of the snapshot.*allow_outside"):
        empty.with_operator("totals", rows, types_from=source)
    new = empty.with_operator("totals", rows, types_from=source, allow_outside=True).write(tmp_path / "new")
    assert new.keyed_state("totals").to_arrow().sort_by("key").to_pydict() == rows.to_pydict()
