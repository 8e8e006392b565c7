"""The recipes of CONTRIBUTING are followed on a copy of the project, and what they add is run there."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow("a copy of the project is changed, and tested")

ROOT = Path(__file__).parents[1]
PACKAGES = ("connector", "formats", "statebackends")
NEW = "new file "
#: Tests of the project that look at all serializers, options, tables, commands, modules.
OF_THE_PROJECT = (
    "tests/test_imports.py",
    "tests/connector/options/test_options.py",
    "tests/connector/command_line/test_commands.py::test_the_readme_has_every_argument",
    "tests/connector/command_line/test_commands.py::test_help_has_examples",
    "tests/connector/command_line/test_stores.py",
    "tests/statebackends/requests/test_applicability.py",
    "tests/test_readme.py::test_tables_are_those_of_the_code",
    "tests/connector/test_public_names.py::test_keyword_types_have_the_options_that_are_parsed",
)
#: Of a file with many tests, those that look at what a recipe adds.
PARTS = {"tests/connector/insight/test_report.py": "::test_sections_and_numbers"}


def changes() -> Iterator[tuple[str, list[str]]]:
    """The file of each change, and its lines with their marks."""
    for block in re.findall(r"```diff\n(.*?)```", (ROOT / "CONTRIBUTING.md").read_text(), re.DOTALL):
        for change in re.split(r"^--- ", block, flags=re.MULTILINE)[1:]:
            file, *lines = change.splitlines()
            yield file, lines


def follow(file: str, lines: list[str], root: Path) -> str:
    """Make a change; lines that are not added must be in the file, once and together. Return the file's name."""
    before = "".join(f"{line[1:]}\n" for line in lines if line[0] in " -")
    after = "".join(f"{line[1:]}\n" for line in lines if line[0] in " +")
    if file.startswith(NEW):
        path = root / file.removeprefix(NEW)
        assert not path.exists()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(after)
    else:
        path = root / file
        text = path.read_text()
        assert text.count(before) == 1, f"CONTRIBUTING names lines of {file} that are there {text.count(before)} times"
        path.write_text(text.replace(before, after))
    return path.relative_to(root).as_posix()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A copy of the project, and beside it a folder from which its package is imported."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False).stdout
    for name in filter(None, listed.split("\0")):
        (tmp_path / "project" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, tmp_path / "project" / name)
    copy = tmp_path / "project"
    release = Path("connector") / "options" / "_release.py"
    if (ROOT / release).exists():
        shutil.copyfile(ROOT / release, copy / release)
    package = tmp_path / "imported" / "pyspark_savepoint"
    package.mkdir(parents=True)
    for path in (copy / "connector").iterdir():
        (package / path.name).symlink_to(path)
    for folder in PACKAGES[1:]:
        (package / folder).symlink_to(copy / folder)
    return copy


def test_every_recipe_works(project: Path) -> None:
    files = [follow(file, lines, project) for file, lines in changes()]
    python = [name for name in dict.fromkeys(files) if name.endswith(".py")]
    # Commands of this package may have been added beside the others after the folder was linked.
    env = {**os.environ, "PYTHONPATH": f"{project.parent / 'imported'}{os.pathsep}{project}"}

    def run(*words: str) -> None:
        done = subprocess.run(
            [sys.executable, *words], cwd=project, env=env, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{words}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"

    run("-m", "tests.pages")
    run("-m", "ruff", "format", "--check", *python)
    run("-m", "ruff", "check", *python)
    run("-c", "from importlinter.cli import lint_imports_command; lint_imports_command()", "--no-cache")
    of_recipes = dict.fromkeys(name + PARTS.get(name, "") for name in files if "/test_" in name)
    # The package of the copy consists of links, which an archive leaves out.
    without = "--deselect=tests/test_imports.py::test_public_names_are_found_in_an_archive"
    run("-m", "pytest", "-q", "-p", "no:cacheprovider", without, *of_recipes, *OF_THE_PROJECT)
