"""Kernels also run as plain Python: with ``NUMBA_DISABLE_JIT=1``, for debugging, all tables are the same."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
SERIALIZERS = {
    "basic": ("arrays", "java_math", "strings", "temporal"),
    "composite": ("collections", "pojo"),
    "runtime": ("windows",),
    "sql": ("rowdata",),
}


def run(jit: bool, *arguments: str) -> str:
    """Return the output of a separate process, which must succeed."""
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "0" if jit else "1"}
    command = [sys.executable, *arguments]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    return done.stdout


def test_serializers() -> None:
    tests = [f"tests/formats/serializers/{room}/test_{m}.py" for room, modules in SERIALIZERS.items() for m in modules]
    run(False, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests)


def test_databases() -> None:
    tests = [f"tests/formats/rocksdb/test_{module}.py" for module in ("checksum", "database", "entries", "manifest")]
    run(False, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests)


def test_tables(corpus: Path) -> None:
    snapshots = [ROOT / "tests" / "oracle" / "savepoints" / "shop" / "savepoint"]
    for name in (
        "2.3.0-hashmap-canonical-compressed",
        "1.20.5-hashmap-native",
        "2.2.1-hashmap-canonical-sql",
        "2.2.1-forst-native",
    ):
        snapshots += [path.parent for path in (corpus / "lab" / name).rglob("_metadata")]
    command = [str(ROOT / "tests" / "table_digests.py"), *map(str, snapshots)]
    compiled = run(True, *command)
    assert len(compiled.splitlines()) > 20
    assert run(False, *command) == compiled
