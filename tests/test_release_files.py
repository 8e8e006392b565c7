"""Workflows, the conda recipe and the support matrix say of releases what pyproject.toml says."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import yaml

import pyspark_savepoint
from pyspark_savepoint.formats.flink_releases import RELEASES
from tests.pages import section

pytestmark = pytest.mark.thorough("what a change of the source must keep")

ROOT = Path(__file__).parents[1]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PYTHONS = [text.rpartition(" ")[2] for text in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", text)]


def read_yaml(path: str) -> Any:
    return yaml.safe_load((ROOT / path).read_text())


def test_the_version_is_that_of_the_build() -> None:
    assert pyspark_savepoint.__version__ == version("pyspark-savepoint")


def test_the_workflow_tries_the_pythons_that_are_declared() -> None:
    matrix = read_yaml(".github/workflows/test.yml")["jobs"]["readme"]["strategy"]["matrix"]
    assert matrix["python"] == PYTHONS
    assert PROJECT["requires-python"] == f">={PYTHONS[0]}"
    (oldest,) = (entry["pyspark"] for entry in matrix["include"])
    assert f"pyspark[sql]>={oldest.removesuffix('.*')},<5" in PROJECT["optional-dependencies"]["spark"]


def test_workflows_run_the_commands_of_the_readme() -> None:
    steps = read_yaml(".github/workflows/test.yml")["jobs"]["readme"]["steps"]
    commands = [re.search(r"grep -m 1 '(.*)' README.md", step.get("run", "")) for step in steps]
    readme = (ROOT / "README.md").read_text()
    assert [bool(re.search(found[1], readme, re.MULTILINE)) for found in commands if found] == [True, True]


def test_the_recipe_needs_what_the_package_needs() -> None:
    recipe = read_yaml(".conda/recipe.yaml")
    names = {"xxhash": "python-xxhash"}
    declared = [re.fullmatch(r"([a-z0-9-]+)(.*)", text) for text in PROJECT["dependencies"]]
    wanted = {f"{names.get(found[1], found[1])} {found[2]}" for found in declared if found}
    assert set(recipe["requirements"]["run"]) == wanted | {f"python {PROJECT['requires-python']}"}
    (script,) = recipe["build"]["python"]["entry_points"]
    assert dict([script.split(" = ")]) == PROJECT["scripts"]
    assert recipe["about"]["summary"] == PROJECT["description"]


def test_the_support_matrix_has_the_release_of_the_changelog() -> None:
    _, _, *rows = section(ROOT / ".github" / "SECURITY.md", "support matrix").splitlines()
    release, pythons, pyspark, _, flink, _ = (cell.strip() for cell in rows[0].strip("|").split("|"))
    heading = r"^## (\d+\.\d+)\.\d+ \((unreleased|\d{4}-\d\d-\d\d)\)$"
    newest = re.search(heading, (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert newest is not None
    assert release == newest[1]
    assert pythons == f"{PYTHONS[0]} to {PYTHONS[-1]}"
    assert pyspark.startswith("4.0")
    versions = [".".join(map(str, known.version)) for known in RELEASES]
    assert flink == f"{versions[0]} to {versions[-1]}"
