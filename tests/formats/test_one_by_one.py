"""Values of Kryo and pickles of a first read or write: Python takes them while that is less than compiling."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pyspark_savepoint.formats.kernels import interpretation
from pyspark_savepoint.formats.kernels._jit import DISABLED, kernel
from pyspark_savepoint.formats.kernels.one_by_one import FIRST, SHARE, STEP, rows_one_by_one
from tests.formats.test_interpretation import start

pytestmark = pytest.mark.skipif(DISABLED or not interpretation.KEEPS_TYPES, reason="kernels have one form")

VALUES = """
import json, pickle, sys
from pathlib import Path

import pyarrow as pa
from pyspark_savepoint.formats.columns import Cursors, DecodeOptions
from pyspark_savepoint.formats.data_view import DataInputView
from pyspark_savepoint.formats.pickle_walker import decode_pyflink
from pyspark_savepoint.formats.serializers.base import UnknownPayloads
from pyspark_savepoint.formats.serializers.kryo.described.job_classes import JobClasses
from pyspark_savepoint.formats.serializers.registry import snapshot_reader
from pyspark_savepoint.statebackends.rows.state_entries import encode_column

folder, count = Path(sys.argv[1]), int(sys.argv[2])
recorded = json.loads((folder / "bytes-2.3.0.json").read_text())
classes, shown = JobClasses((str(folder / "classes"),), kryo=5), []
for case in ("kryo-optional", "kryo-zoned-date-time", "kryo-object", "kryo-u-simple"):
    snapshot = DataInputView(bytes.fromhex(recorded[case]["snapshot"]))
    serializer = snapshot_reader(snapshot, UnknownPayloads(classes=classes)).versioned()
    values = [bytes.fromhex(value) for value in recorded[case]["values"]]
    values = [values[row % len(values)] for row in range(count)]
    column = serializer.decode(Cursors.over(values, options=DecodeOptions(kryo=5, timestamps="truncate")))
    shown.append(repr(column.to_pylist()))
    if case == "kryo-u-simple":
        buffer, start, end = encode_column(serializer, column)
        shown.append([buffer[low:high].tobytes() for low, high in zip(start, end)] == values)
shown.append(repr(decode_pyflink(pa.array([pickle.dumps({"a": row}) for row in range(count)])).to_pylist()))
print(hash(tuple(shown)), shown[-2], "numba" in sys.modules)
"""


@kernel
def doubled(values: Any) -> Any:
    for row in range(len(values)):
        values[row] *= 2


def spend(seconds: float) -> None:
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A kernel that no process has compiled, where nothing was spent yet."""
    monkeypatch.setattr(interpretation.spending, "form", "")
    monkeypatch.setattr(interpretation.spending, "in_arrays", 0.0)
    return kernel(doubled.py_func)


def test_a_first_use_of_some_thousand_values_compiles_nothing(corpus: Path, tmp_path: Path) -> None:
    given = (VALUES, str(corpus / "migration"), "2000")
    without = start(tmp_path, *given).communicate(timeout=120)
    assert without[0].endswith(" True False\n"), without
    assert not any(tmp_path.rglob("*.code"))


def test_all_rows_are_for_python_while_they_take_less_than_compiling(fresh: Any) -> None:
    rows = 3 * STEP + 1
    taken = list(rows_one_by_one(rows, fresh))
    assert [(some.start, some.stop) for some in taken] == [(0, 64), (64, 128), (128, 192), (192, 193)]


def test_rows_that_take_long_are_for_the_kernel_which_is_then_compiled(fresh: Any) -> None:
    left, taken = SHARE * fresh.choice.left, 0
    for _ in rows_one_by_one(1000 * STEP, fresh):
        spend(left / 100)
        taken += 1
    assert taken == FIRST // STEP + 1
    assert list(rows_one_by_one(1000, fresh)) == []
    values = np.arange(3)
    fresh(values)
    assert (values.tolist(), len(fresh.signatures)) == ([0, 2, 4], 1)


def test_what_earlier_columns_took_counts(fresh: Any) -> None:
    left, columns = SHARE * fresh.choice.left, 0
    while [spend(left / 4) for _ in rows_one_by_one(STEP, fresh)]:
        columns += 1
    assert 3 <= columns <= 4


def test_machine_code_of_this_process_is_used_from_the_first_row_on(fresh: Any) -> None:
    fresh.compiled(np.arange(3))
    assert list(rows_one_by_one(1000, fresh)) == []
