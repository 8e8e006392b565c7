"""The notebooks run with the outputs that are stored: no errors, no noise, no data of the machine."""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.notebook_runner import FOLDER, NAMES, outputs, plain, read, run

pytestmark = pytest.mark.slow("notebooks, each with a Spark of its own")

FULL_PATH = re.compile(r"(?<![\w.])/(?:home|mnt|opt|private|root|tmp|usr|Users|var|work)/")
MAX_BYTES = 300_000
#: What the repository has itself.
OWN = {"pyspark_savepoint", "tests"}


def needs_flink(name: str) -> bool:
    return any(re.search(r"^from tests\.oracle\b", cell.source, re.M) for cell in read(name).cells)


def texts(output: Mapping[str, Any]) -> list[str]:
    """Return an output as text."""
    data = output.get("data", {"text/plain": output.get("text", "")})
    return [text for kind, text in data.items() if kind.startswith("text/")]


def test_there_are_notebooks() -> None:
    assert len(NAMES) == 9


def contained(extra: str, extras: Mapping[str, list[str]]) -> list[str]:
    """The requirements of an extra, and of those that it contains."""
    own = []
    for requirement in extras[extra]:
        inner = re.fullmatch(r"pyspark-savepoint\[([a-z,]+)\]", requirement)
        own += [one for name in inner[1].split(",") for one in contained(name, extras)] if inner else [requirement]
    return own


def test_an_extra_has_what_they_import() -> None:
    project = tomllib.loads((FOLDER.parent / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    required = [*project["dependencies"], *contained("notebooks", extras)]
    installed = {re.split(r"\W", requirement)[0] for requirement in required}
    source = "\n".join(cell.source for name in NAMES for cell in read(name).cells if cell.cell_type == "code")
    imported = {name for name in re.findall(r"^(?:from|import) (\w+)", source, re.M) if name not in OWN}
    assert imported - sys.stdlib_module_names <= installed
    assert "jupyterlab" in installed
    assert "pyspark[connect]" in contained("notebooks", extras)  # protobuf, for the workers of transformWithState


@pytest.mark.parametrize("name", NAMES)
def test_what_is_kept_is_small_and_clean(name: str) -> None:
    notebook = read(name)
    kept = list(outputs(notebook))
    assert len(kept) >= 5
    assert {output.output_type for output in kept} <= {"execute_result", "display_data", "stream"}
    assert not [output for output in kept if output.get("name") == "stderr"]
    found = [text for output in kept for text in texts(output)]
    assert not [text for text in found + [cell.source for cell in notebook.cells] if FULL_PATH.search(text)]
    assert (FOLDER / f"{name}.ipynb").stat().st_size < MAX_BYTES


@pytest.mark.spark
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.flink if needs_flink(name) else ()) for name in NAMES]
)
def test_it_shows_what_is_kept(name: str, tmp_path: Path) -> None:
    notebook = run(name, tmp_path)
    assert plain(notebook) == plain(read(name))
    assert list((tmp_path / "notebooks").iterdir()) == []
