"""Comments, docstrings and pages name modules, functions and files that there are.

Checked is what stands between backticks: a path of a ``.py`` file, and a dotted name that begins with a module of this
project. Names of Java, of other libraries and of values in examples are theirs.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest

import pyspark_savepoint
from tests.test_imports import FOLDERS, ROOT

pytestmark = pytest.mark.thorough("what a change of the source must keep")

QUOTED = re.compile(r"`([\w./-]+)`")
DOTTED = re.compile(r"[a-z_][a-z0-9_]*(\.\w+)+")
#: Folders of PyFlink, and what a dotted name can begin with that is also the name of a module here.
ELSEWHERE = ("fn_execution/",)
OTHERS = {
    "java",  # packages of Java
    "row",  # a row in an example
    "spark",  # a session, and settings of Spark
    "state",  # options of Flink
    "table",  # options of Flink SQL
    "storage",  # permissions of Google
}
#: Groups of entry points, which plug-ins name.
ENTRY_POINTS = {"pyspark_savepoint.connectors", "pyspark_savepoint.kryo_classes", "pyspark_savepoint.serializers"}
#: Files whose names begin with that of a module.
FILE = re.compile(r".*\.(json|jsonl|properties|md|toml|xz)")


def modules() -> Iterator[Path]:
    for folder in (*FOLDERS, "tests"):
        yield from sorted((ROOT / folder).rglob("*.py"))


def pages() -> Iterator[Path]:
    yield from sorted(ROOT.glob("*.md"))
    for folder in (*FOLDERS, "tests", "notebooks"):
        yield from sorted((ROOT / folder).rglob("*.md"))


def names_in(tree: ast.AST) -> Iterator[str]:
    """Yield what a module defines, assigns or imports, its classes' attributes included."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.alias):
            yield node.asname or node.name


@cache
def attributes() -> dict[str, set[str]]:
    """Return the names in each module or package, by its last name."""
    found: dict[str, set[str]] = defaultdict(set)
    for path in modules():
        name = path.parent.name if path.stem == "__init__" else path.stem
        found[name].update(names_in(ast.parse(path.read_text(encoding="utf-8"))))
        for inner, outer in pairwise([name, *(parent.name for parent in path.relative_to(ROOT).parents)]):
            found[outer or "pyspark_savepoint"].add(inner)
    for path in (ROOT / "tests").rglob("*.java"):
        found[path.parent.name].add(path.stem)
    return found


@cache
def paths() -> frozenset[str]:
    return frozenset("/" + str(path.relative_to(ROOT)) for path in modules())


def texts(path: Path) -> Iterator[str]:
    """Yield the page, or the comments and docstrings of a module."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        yield text
        return
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.string
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            yield ast.get_docstring(node) or ""


def missing(text: str) -> list[str]:
    """Return the names in a text that lead nowhere."""
    return [name for name in QUOTED.findall(text) if not leads_somewhere(name)]


def leads_somewhere(name: str) -> bool:
    if name.endswith(".py"):
        return name.startswith(ELSEWHERE) or any(path.endswith("/" + name) for path in paths())
    if not DOTTED.fullmatch(name) or FILE.fullmatch(name):
        return True
    first, second, *_ = name.split(".")
    if first == "pyspark_savepoint":
        return hasattr(pyspark_savepoint, second) or second in attributes() or name in ENTRY_POINTS
    return first not in attributes() or first in OTHERS or second in attributes()[first]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("see ``formats/columns.py`` and `columns.py`", []),
        ("see ``formats/no_columns.py``", ["formats/no_columns.py"]),
        ("see `columns.py` and `olumns.py`", ["olumns.py"]),
        ("``columns.Cursors``, ``columns.Nothing``, ``other.Nothing``", ["columns.Nothing"]),
        ("``pyspark_savepoint.open``, ``pyspark_savepoint.close``", ["pyspark_savepoint.close"]),
        ("``java.util.UUID``, `plan.json`", []),
    ],
)
def test_names_that_lead_nowhere_are_found(text: str, found: list[str]) -> None:
    assert missing(text) == found


def test_names_lead_somewhere() -> None:
    lost = {
        str(path.relative_to(ROOT)): names
        for path in (*modules(), *pages())
        if path != Path(__file__) and (names := [name for text in texts(path) for name in missing(text)])
    }
    assert lost == {}
