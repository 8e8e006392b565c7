"""What a process imports to read keyed state: not pandas, whose import takes longer than to read small state."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SHOP = Path(__file__).parents[1] / "oracle" / "savepoints" / "shop" / "savepoint"
READS = """
import sys
from pyspark_savepoint.statebackends.requests.request import TableRequest
from pyspark_savepoint.statebackends.open_table import open_table
partitions = open_table(TableRequest(sys.argv[1], uid="accounts", memory=int(sys.argv[2]))).partitions(2)
assert sum(batch.num_rows for part in partitions for batch in part.batches())
print("pandas" in sys.modules)
"""


@pytest.mark.parametrize("memory", ["67108864", "1"], ids=["whole key groups", "by windows"])
def test_reads_do_not_import_pandas(memory: str) -> None:
    done = subprocess.run([sys.executable, "-c", READS, str(SHOP), memory], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
