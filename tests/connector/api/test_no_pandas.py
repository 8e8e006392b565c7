"""Writing rows and reading them again does not import pandas, whose import takes 0.3 s and 50 MB in each process."""

from __future__ import annotations

import datetime
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import pyarrow as pa

ROWS = 300
KEYS = [f"key {row}" for row in range(ROWS)]
DAY = datetime.date(2026, 11, 29)
NOON = datetime.datetime(2026, 11, 29, 12)
VALUES = {
    "number": (pa.int64(), 7),
    "half": (pa.float64(), 0.5),
    "flag": (pa.bool_(), True),
    "text": (pa.string(), "seven"),
    "octets": (pa.binary(), b"seven"),
    "day": (pa.date32(), DAY),
    "noon": (pa.timestamp("us"), NOON),
    "noon_utc": (pa.timestamp("us", "UTC"), NOON),
    "amount": (pa.decimal128(10, 2), Decimal("7.50")),
    "numbers": (pa.list_(pa.int64()), [7, 8]),
    "texts": (pa.list_(pa.string()), ["seven"]),
    "counts": (pa.map_(pa.string(), pa.int64()), [("seven", 7)]),
    "item": (pa.struct([("name", pa.string()), ("sold", pa.bool_())]), {"name": "seven", "sold": False}),
}
WRITE_AND_READ = """
import sys
import pyarrow as pa
import pyspark_savepoint
rows = pa.ipc.open_file(sys.argv[1]).read_all()
pyspark_savepoint.create(max_parallelism=128).with_operator("stock", rows, key="key").write(sys.argv[2])
print("pandas" in sys.modules)
read = pyspark_savepoint.open(sys.argv[2]).keyed_state("stock").to_arrow()
assert read.num_rows == rows.num_rows
print("pandas" in sys.modules)
"""


def test_rows_are_written_and_read_without_pandas(tmp_path: Path) -> None:
    # A third of the values of each column is NULL.
    columns = {
        name: pa.array([None if (row + place) % 3 == 0 else value for row in range(ROWS)], kind)
        for place, (name, (kind, value)) in enumerate(VALUES.items())
    }
    rows = pa.record_batch({"key": pa.array(KEYS), **columns})
    with pa.ipc.new_file(tmp_path / "rows.arrow", rows.schema) as file:
        file.write(rows)
    command = [sys.executable, "-c", WRITE_AND_READ, tmp_path / "rows.arrow", tmp_path / "savepoint"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]
