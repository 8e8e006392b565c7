"""Compiled and interpreted, kernels have the same effect, and all tables are the same."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pyspark_savepoint.formats.kernels.interpretation import COMPILED, INTERPRETED, KEEPS_TYPES, VARIABLE

pytestmark = pytest.mark.slow("interpreted kernels")

in_both_forms = pytest.mark.skipif(not KEEPS_TYPES, reason="before numpy 2 every kernel is compiled")

ROOT = Path(__file__).parents[1]
PLUGIN = "tests.kernels_in_both_forms"
SERIALIZERS = {
    "basic": ("arrays", "java_math", "strings", "temporal"),
    "composite": ("collections", "pojo"),
    "runtime": ("windows",),
    "sql": ("rowdata",),
}


#: What selects a form of the kernels. ``disabled`` is for debuggers: numba compiles nothing and calls functions.
FORMS = {
    "compiled": {VARIABLE: COMPILED},
    "interpreted": {VARIABLE: INTERPRETED},
    "disabled": {"NUMBA_DISABLE_JIT": "1"},
}


def run(form: str, *arguments: str) -> str:
    """Return the output of a separate process, which must succeed."""
    command = [sys.executable, *arguments]
    environment = {**os.environ, **FORMS[form]}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    return done.stdout


def both_forms(*tests: str) -> None:
    """Run tests with each kernel in both forms, on the same arguments."""
    output = run("compiled", "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-p", PLUGIN, *tests)
    assert "kernels compared" in output


@in_both_forms
def test_serializers() -> None:
    both_forms(
        *(f"tests/formats/serializers/{room}/test_{m}.py" for room, modules in SERIALIZERS.items() for m in modules)
    )


@in_both_forms
def test_databases() -> None:
    both_forms(
        *(f"tests/formats/rocksdb/test_{module}.py" for module in ("checksum", "database", "entries", "manifest"))
    )


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
    compiled = run("compiled", *command)
    assert len(compiled.splitlines()) > 20
    assert run("interpreted", *command) == compiled  # before numpy 2 the variable is ignored
    if KEEPS_TYPES:
        assert run("disabled", *command) == compiled
