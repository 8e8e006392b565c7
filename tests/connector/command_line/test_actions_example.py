"""The GitHub Actions example of the README: its steps run, and fail where the state has changed."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

README = Path(__file__).parents[3] / "connector" / "command_line" / "README.md"


def steps() -> list[str]:
    """The commands of the example that use the package."""
    (workflow,) = re.findall(r"```yaml\n(name: state\n.*?)```", README.read_text(), re.DOTALL)
    return re.findall(r"- run: (pyspark-savepoint .*)", workflow)


def run(command: str, folder: Path) -> int:
    """Run a step as a shell does, with this Python's package."""
    script = command.replace("pyspark-savepoint", f"{sys.executable} -m pyspark_savepoint", 1)
    return subprocess.run(["bash", "-ec", script], cwd=folder, capture_output=True, check=False).returncode


@pytest.fixture
def checkout(tmp_path: Path, shop: Path) -> Path:
    for name in ("golden", "new"):
        shutil.copytree(shop, tmp_path / name)
    assert run("pyspark-savepoint schema golden --file golden.schema.json", tmp_path) == 0
    return tmp_path


def test_all_steps_pass(checkout: Path) -> None:
    assert len(steps()) == 3
    assert [run(step, checkout) for step in steps()] == [0, 0, 0]
    assert "<testsuite" in (checkout / "restore.xml").read_text()


def test_a_changed_type_fails_the_build(checkout: Path) -> None:
    schema = checkout / "golden.schema.json"
    assert '"LONG"' in schema.read_text()
    schema.write_text(schema.read_text().replace('"LONG"', '"INT"', 1))
    (step,) = (step for step in steps() if " schema " in step)
    assert run(step, checkout) == 1
