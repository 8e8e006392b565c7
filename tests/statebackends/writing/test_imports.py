"""What the processes of a write import: each is new on a short-lived machine, and imports take longer than few rows."""

from __future__ import annotations

import subprocess
import sys

import pytest

TASK = "write_task"
COMMIT = "committer state_file"
#: Packages for types in words, other codecs, other state, and merges with it, which are imported when they are used.
FOR_SOME = (
    "formats.serializers.avro",
    "formats.serializers.kryo",
    "formats.serializers.notation",
    "formats.serializers.sql",
    "statebackends.merging",
    "statebackends.python",
    "statebackends.sql_plans",
    "statebackends.tables",
    "statebackends.type_extraction",
)
IMPORTED = """
import sys
from importlib import import_module
for name in sys.argv[1:]:
    import_module(f"pyspark_savepoint.statebackends.writing.{name}")
print(*sys.modules)
"""


@pytest.mark.parametrize("modules", [TASK, COMMIT])
def test_tasks_and_the_commit_import_what_every_write_needs(modules: str) -> None:
    command = [sys.executable, "-c", IMPORTED, *modules.split()]
    imported = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert [name for name in FOR_SOME if f"pyspark_savepoint.{name}" in imported] == []
