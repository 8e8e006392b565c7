"""Files that the driver opens for one query: the headers of an operator are read once per process."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pyspark_savepoint.formats.metadata.identifiers import OperatorID
from tests.statebackends.writing.written_operators import write_both

pytestmark = pytest.mark.slow("a process for each query")

ROOT = Path(__file__).parents[4]
#: Three subtasks, each with a file of keyed state.
THREE = "lab/2.2.1-rocksdb-canonical-maxp1000/savepoint"
Counted = dict[str, tuple[dict[str, int], int]]


def counted(tmp_path: Path, snapshot: Path, kind: str, **options: str) -> Counted:
    """Openings by file, and bytes read, of each step of a query."""
    places = [tmp_path / "warm", tmp_path / "measured"]
    for place in places:
        shutil.copytree(snapshot, place)
    command = [sys.executable, "-m", "tests.opened_by_query", *map(str, places), kind, json.dumps(options)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    found: Counted = json.loads(done.stdout)
    return found


def state_files(opened: dict[str, int]) -> list[int]:
    """Openings of each file of state that was there before."""
    return sorted(count for name, count in opened.items() if name != "_metadata" and not name.startswith("."))


def test_a_table_opens_each_file_once(tmp_path: Path) -> None:
    write_both(tmp_path / "four", "both")
    # Which table it is depends on keyed and on operator state, so the headers of both are read.
    found = counted(tmp_path, tmp_path / "four", "read", uidHash=OperatorID.from_uid("both").hex)
    opened, size = found["load"]
    assert opened.pop("_metadata") == 1
    assert state_files(opened) == [1] * 8
    assert size < 16_000  # of 200,000
    # The process that plans partitions gets the opened operator, and only checks that the file is unchanged.
    assert found["show"][0] == {}
    assert found["show"][1] < 1_000


def test_a_write_opens_each_file_once(tmp_path: Path, corpus: Path) -> None:
    found = counted(tmp_path, corpus / THREE, "write", uid="kv-string", state="int,short", flinkVersion="2.2")
    opened, size = found["plan"]
    # Three files of the operator, and six of the others, which must fit the release too.
    assert state_files(opened) == [1] * 9
    assert opened["_metadata"] == 1
    assert size < 350_000
    opened, size = found["commit"]
    # Headers once, then the states that stay.
    assert state_files(opened) == [2] * 3
    # What is replaced: when it is read, and just before; then what was published.
    assert opened["_metadata"] == 3
    assert size < 1_800_000
