"""The public face: every name is seen by people, type checkers and at run time alike."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import pyspark_savepoint
from pyspark_savepoint import errors
from pyspark_savepoint.formats import errors as internal

SCRIPT = Path(__file__).parent / "script_of_a_user.py"
STRICT = {
    "mypy": "[mypy]\nstrict = True\ndisallow_any_expr = True\ndisallow_any_explicit = True\nfollow_imports = silent\n",
    "basedpyright": json.dumps({"typeCheckingMode": "strict", "reportAny": "error", "reportExplicitAny": "error"}),
}


def test_names_for_type_checkers_are_those_at_run_time() -> None:
    tree = ast.parse(Path(pyspark_savepoint.__file__).read_text())
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    seen = {
        alias.asname or alias.name: (node.module, alias.name)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert set(pyspark_savepoint.__all__) == {*seen, "__version__"}
    for name, (module, attribute) in seen.items():
        assert module is not None
        __import__(module)
        assert getattr(pyspark_savepoint, name) is getattr(sys.modules[module], attribute), name


def test_the_version_is_that_of_the_package() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    assert pyspark_savepoint.__version__ == project["version"]


def test_every_error_is_public() -> None:
    own = {
        name
        for name, value in vars(internal).items()
        if isinstance(value, type) and value.__module__ == internal.__name__
    }
    assert set(errors.__all__) == {name for name in own if issubclass(getattr(internal, name), internal.SavepointError)}


@pytest.mark.parametrize("checker", STRICT)
def test_a_strict_type_checker_finds_no_any(checker: str, tmp_path: Path) -> None:
    """What a user writes is known to the last expression."""
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.read_text())
    if checker == "mypy":
        (tmp_path / "mypy.ini").write_text(STRICT[checker])
        options = ["--cache-dir", str(tmp_path / "cache")]
    else:
        # The folder that has the package, where it is not in the environment's own.
        found = {"extraPaths": [str(Path(pyspark_savepoint.__file__).parents[1])], **json.loads(STRICT[checker])}
        (tmp_path / "pyrightconfig.json").write_text(json.dumps(found))
        options = ["--pythonpath", sys.executable]
    command = [sys.executable, "-m", checker, *options, "script.py"]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
