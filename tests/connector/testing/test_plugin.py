"""The plug-in in a separate session of pytest: it provides the savepoint, and imports nothing if no test uses it."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[3]
SHOP = ROOT / "tests" / "oracle" / "savepoints" / "shop" / "savepoint"
TESTS = """
import sys
import pytest
from pyspark_savepoint.testing import assert_state

def test_1_nothing_is_imported():
    assert not {"pyarrow", "numpy", "pyspark", "pandas"} & set(sys.modules)

def test_2_setting(savepoint_golden):
    assert_state(savepoint_golden, "accounts", "total", {1042: 68520})

@pytest.mark.savepoint_golden("other")
def test_3_marker(savepoint_golden):
    assert savepoint_golden.path.endswith("/other")

def test_4_fails(savepoint_golden):
    assert_state(savepoint_golden, "accounts", "total", {1042: 297})
"""


def test_a_session_with_the_plug_in(tmp_path: Path) -> None:
    (tmp_path / "test_job.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\nsavepoint_golden = kept/golden\naddopts = --strict-markers\n")
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "golden").symlink_to(SHOP)
    (tmp_path / "other").symlink_to(SHOP)
    plugins = ["-p", "no:cacheprovider", "-p", "no:hypothesispytest", "-p", "pyspark_savepoint.testing.plugin"]
    command = [sys.executable, "-m", "pytest", "-q", *plugins, "test_job.py"]
    # Arguments for the session that runs this test are none of that session.
    environment = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": ""}
    done = subprocess.run(
        command, cwd=tmp_path, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    assert "1 failed, 3 passed" in done.stdout, done.stdout + done.stderr
    shown = [line.removeprefix("E").strip() for line in done.stdout.splitlines()]
    assert "AssertionError: state 'total' of 'accounts' differs:" in shown
    assert "key 1042: expected 297, found 68520" in shown
    assert "asserts.py" not in done.stdout.partition("short test summary")[0]


def test_the_entry_point_names_the_plug_in() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["pytest11"] == {"pyspark_savepoint": "pyspark_savepoint.testing.plugin"}
