"""A process that dies while it commits."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pyspark_savepoint.formats.errors import SnapshotNotFoundError
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot

KILLED = """
import os, sys
from pyspark_savepoint.formats.snapshot import publisher as module
from pyspark_savepoint.statebackends.writing.committer import commit
from tests.statebackends.writing.written_operators import planned
import pyarrow as pa
from pyspark_savepoint.statebackends.writing.write_task import write_rows
table = pa.table({"key": [1, 2, 3], "n": [1, 2, 3]})
plan = planned(sys.argv[1], table.schema, overwrite=True)
outputs = [write_rows(plan, 0, table.to_batches())]
module.publish_metadata = lambda *_: os._exit(7)
commit(plan, outputs)
"""


def test_a_driver_that_dies_before_the_end_publishes_nothing(tmp_path: Path) -> None:
    """Its files are there, but no snapshot; where there was one, it is the old one."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    path = tmp_path / "sp"
    command = [sys.executable, "-c", KILLED, str(path)]
    assert subprocess.run(command, env=environment, check=False).returncode == 7
    assert path.exists()
    with pytest.raises(SnapshotNotFoundError, match="not completed"):
        Snapshot.open(str(path))
    # The same write again succeeds despite the files that the first one left.
    finished = KILLED.replace("module.publish_metadata", "unused")
    subprocess.run([sys.executable, "-c", finished, str(path)], env=environment, check=True)
    before = (path / "_metadata").read_bytes()
    assert subprocess.run(command, env=environment, check=False).returncode == 7
    assert (path / "_metadata").read_bytes() == before
    assert Snapshot.open(str(path)).metadata.version == 4
