"""Savepoints of real SQL jobs with their compiled plans and EXPLAIN, packed: the fixtures in `savepoints/sql-plans`.

python -m tests.oracle.sql_plans 2.2.1
"""

from __future__ import annotations

import sys
import tarfile
import tempfile
from pathlib import Path

from tests.oracle import flink

ARCHIVES = Path(__file__).parent / "savepoints" / "sql-plans"
PHASES = ("one-phase", "two-phase")
QUERIES = {"groups": "", "windows": "-windows"}


def pack(version: str, phase: str, queries: str) -> None:
    """Has Flink run the queries of `oracle.SqlPlans`, and packs what it wrote."""
    with tempfile.TemporaryDirectory() as folder:
        flink.run(version, "oracle.SqlPlans", [folder, phase, queries], sql=True)
        write(Path(folder), ARCHIVES / f"{version}-{phase}{QUERIES[queries]}.tar.xz")


def write(folder: Path, archive: Path) -> None:
    """Packs a folder under the names in it."""
    with tarfile.open(archive, "w:xz") as tar:
        for path in sorted(folder.iterdir()):
            tar.add(path, path.name)


if __name__ == "__main__":
    for phase in PHASES:
        for queries in QUERIES:
            pack(sys.argv[1], phase, queries)
