"""Commands on state of serializers whose snapshots have no known ends."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.connector.command_line.conftest import Run
from tests.oracle.foreign import WITH_LENGTHS, unpacked


@pytest.fixture(scope="module")
def foreign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the savepoints, by backend and format."""
    return unpacked(tmp_path_factory.mktemp("foreign"))


@pytest.mark.parametrize("case", WITH_LENGTHS)
def test_commands_look_and_edit(foreign: Path, tmp_path: Path, run: Run, case: str) -> None:
    path, target, report = foreign / case, tmp_path / "new", tmp_path / "report.json"
    assert '"state": "total", "kind": "VALUE", "key": "LONG", "value": "LONG"' in run("schema", path).out
    assert run("verify", path).out.startswith("0 errors")
    assert run("check-migration", path, "--flink", "2.3").code in (0, 1)
    where = ("--where", "keyed: key = 3")
    assert "6 rows removed" in run("erase", path, target, *where, "--report", report).out
    proof = run("verify-erasure", target, report, *where, "--old", path)
    assert proof.code in (0, 1), proof.err
