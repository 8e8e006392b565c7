"""The list of kernels that are packed for other machines has every kernel that the package calls from Python."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path

from pyspark_savepoint.formats.kernels._jit import DISABLED
from pyspark_savepoint.formats.kernels.all_kernels import kernel_named, listed

ROOT = Path(__file__).parents[2]
KERNELS = ROOT / "formats" / "kernels"
PACKAGE = "pyspark_savepoint.formats.kernels"
REMEDY = "the list of kernels is older than the source: python -m tests.kernel_signatures"
DECORATORS = {"kernel", "inline", "form"}


def is_decorated(node: ast.AST, names: set[str]) -> bool:
    return isinstance(node, ast.FunctionDef) and any(
        isinstance(one, ast.Name) and one.id in names for one in node.decorator_list
    )


def kernels() -> set[str]:
    """All kernels, by module and name."""
    return {
        f"{file.stem}.{node.name}"
        for file in KERNELS.glob("*.py")
        for node in ast.parse(file.read_text()).body
        if isinstance(node, ast.FunctionDef) and is_decorated(node, {"kernel"})
    }


def called_from_python(tree: ast.Module, module: str | None) -> Iterator[str]:
    """Names that Python functions of a module take from modules of kernels, or have themselves."""
    modules, names = {}, {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == PACKAGE:
            modules |= {one.asname or one.name: one.name for one in node.names}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith(f"{PACKAGE}."):
            names |= {
                one.asname or one.name: f"{(node.module or '')[len(PACKAGE) + 1 :]}.{one.name}" for one in node.names
            }
    todo: list[ast.AST] = list(tree.body)
    while todo:
        node = todo.pop()
        if is_decorated(node, DECORATORS) or isinstance(node, ast.ImportFrom):
            continue
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in modules:
            yield f"{modules[node.value.id]}.{node.attr}"
        elif isinstance(node, ast.Name):
            yield names.get(node.id, f"{module}.{node.id}")
        todo += ast.iter_child_nodes(node)


def test_every_kernel_that_python_calls_is_listed() -> None:
    called = set()
    for folder in ("formats", "statebackends", "connector"):
        for file in (ROOT / folder).rglob("*.py"):
            called |= set(
                called_from_python(ast.parse(file.read_text()), file.stem if file.parent == KERNELS else None)
            )
    missing = (called & kernels()) - {name for name, _ in listed()}
    assert not missing, "python -m tests.kernel_signatures"


def test_the_list_has_kernels_only_and_what_they_take() -> None:
    every = kernels()
    assert len(listed()) == len(set(listed()))
    for name, signature in listed():
        assert name in every, REMEDY
        function = kernel_named(name) if DISABLED else kernel_named(name).py_func
        assert len(inspect.signature(function).parameters) == len(signature.arguments), REMEDY
