"""Rooms have one-way doors: no cycle of imports, among modules or among packages, and every package is packed."""

from __future__ import annotations

import ast
import os
import posixpath
import runpy
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import pyspark_savepoint

pytestmark = pytest.mark.thorough("what a change of the source must keep")

ROOT = Path(__file__).parents[1]
FOLDERS = {
    "connector": "pyspark_savepoint",
    "formats": "pyspark_savepoint.formats",
    "statebackends": "pyspark_savepoint.statebackends",
}
Graph = dict[str, set[str]]


def modules() -> dict[str, Path]:
    """All modules of the package, packages by their own name."""
    found = {}
    for folder, package in FOLDERS.items():
        for path in (ROOT / folder).rglob("*.py"):
            parts = path.relative_to(ROOT / folder).with_suffix("").parts
            found[".".join([package, *(part for part in parts if part != "__init__")])] = path
    return found


def imports(tree: ast.AST, known: dict[str, Path]) -> Iterator[str]:
    """The modules that a module imports, also inside of functions and for type checkers."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom) and node.module in known:
            for alias in node.names:
                module = f"{node.module}.{alias.name}"
                yield module if module in known else node.module


@cache
def graph() -> Graph:
    known = modules()
    return {module: set(imports(ast.parse(path.read_text()), known)) - {module} for module, path in known.items()}


def package_of(module: str, path: Path) -> str:
    return module if path.name == "__init__.py" else module.rpartition(".")[0]


def cycles(edges: Graph) -> set[frozenset[str]]:
    """Return the modules that reach themselves, with all modules on their cycles."""
    reached: Graph = {}
    for start in edges:
        seen: set[str] = set()
        queue = [start]
        while queue:
            queue += (new := edges[queue.pop()] - seen)
            seen |= new
        reached[start] = seen
    return {frozenset(other for other in reached[node] if node in reached[other]) for node in edges} - {frozenset()}


def test_cycles_are_found() -> None:
    edges = {"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": {"e"}, "e": set()}
    assert cycles(edges) == {frozenset("abc")}


def test_packages_have_no_cycle() -> None:
    """Deferred imports count, because readers follow them too."""
    homes = {module: package_of(module, path) for module, path in modules().items()}
    edges: Graph = {home: set() for home in homes.values()}
    for module, imported in graph().items():
        edges[homes[module]] |= {homes[other] for other in imported} - {homes[module]}
    assert cycles(edges) == set()


def test_modules_have_no_cycle() -> None:
    """Not inside of functions or as types either."""
    assert cycles(graph()) == set()


def test_every_package_is_packed() -> None:
    packed = runpy.run_path(str(ROOT / "setup.py"))["packages"](ROOT)
    assert packed == sorted(name for name, path in modules().items() if path.name == "__init__.py")


def test_links_of_packed_pages_lead_to_packed_pages() -> None:
    setup = runpy.run_path(str(ROOT / "setup.py"))
    tables = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    packed = {}
    for package, patterns in tables["package-data"].items():
        name = package.removeprefix("pyspark_savepoint").removeprefix(".").replace(".", "/")
        folder = ROOT / name if name.split("/")[0] in FOLDERS else ROOT / "connector" / name
        found = (path for pattern in patterns for path in folder.glob(pattern))
        packed |= {setup["installed_path"](path.relative_to(ROOT).as_posix()): path for path in found}
    pages = {name: path for name, path in packed.items() if path.suffix == ".md"}
    assert {"README.md", "guide/errors.md", "formats/README.md", "statebackends/migration/README.md"} < pages.keys()
    for name, path in pages.items():
        page = setup["installed_page"](path.relative_to(ROOT).as_posix(), path.read_text("utf-8"), packed)
        for _, target, _ in setup["LINK"].findall(page):
            assert posixpath.normpath(posixpath.join(posixpath.dirname(name), target)) in packed, (name, target)
    moved = setup["installed_page"]("connector/guide/x.md", "[a](../../formats/README.md#b) [c](../../LICENSE)", packed)
    assert moved == "[a](../formats/README.md#b) c (`LICENSE` of the repository)"


def test_every_folder_is_a_package() -> None:
    """Also those of tests: modules of two rooms may have one name."""
    for folder in (*FOLDERS, "tests"):
        without = {path.parent for path in (ROOT / folder).rglob("*.py")}
        assert all((path / "__init__.py").exists() for path in without if "java" not in path.parts)


def test_public_names_are_found_in_an_archive(tmp_path: Path) -> None:
    """As Spark hands over the package: ``--py-files wheel.zip``."""
    package = Path(pyspark_savepoint.__file__).parent
    archive = shutil.make_archive(str(tmp_path / "wheel"), "zip", package.parent, package.name)
    code = "import pyspark_savepoint as p; print(p.__file__, p.SavepointError.__module__, len(p.__all__))"
    run = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": archive},
        capture_output=True,
        text=True,
        check=True,
    )
    file, module, count = run.stdout.split()
    assert Path(archive) in Path(file).parents
    assert (module, int(count)) == ("pyspark_savepoint.formats.errors", len(pyspark_savepoint.__all__))
