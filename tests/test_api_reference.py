"""The API reference builds without a warning, and has every public name."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyspark_savepoint

ROOT = Path(__file__).parents[1]


def test_it_builds(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "tests.api_reference", str(tmp_path)], cwd=ROOT, check=True)
    page = (tmp_path / "pyspark_savepoint.html").read_text()
    missing = [name for name in pyspark_savepoint.__all__ if f'id="{name}"' not in page]
    assert missing in ([], ["__version__"])
    assert (tmp_path / "pyspark_savepoint" / "errors.html").exists()
