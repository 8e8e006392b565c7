"""No module reads a private name of another one, no Protocol has any, no call between own classes goes unchecked.

A line that must do so, because a library has no public name for it, says it in a comment at its end.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCES = {
    str(path.relative_to(ROOT)): path.read_text()
    for folder in ("connector", "formats", "statebackends")
    for path in sorted((ROOT / folder).rglob("*.py"))
}
#: Documented, whatever their names look like.
PUBLIC = {"_asdict", "_fields", "_make", "_replace", "_exit"}
#: What mypy says of calls and values; the rest is about libraries without types, and overridden members.
OF_CALLS = {"", "arg-type", "assignment", "attr-defined", "call-arg", "type-arg", "union-attr"}
#: What a module with such a name has in its text; few have, and only these are parsed.
READS_ONE = re.compile(r"(?<!\bself)(?<!\bcls)\._[a-z]|import .*\b_[a-z]|^    _[a-z]\w*,$", re.MULTILINE)
IGNORED = re.compile(r"# type: ignore(?:\[([a-z, -]+)])?(.*)")


def private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("__") and name not in PUBLIC


def defined(tree: ast.AST) -> Iterator[str]:
    """The names of methods and attributes that a module defines itself."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.id if isinstance(node, ast.Name) else node.attr


def of_others(source: str) -> Iterator[tuple[int, str]]:
    """The private names of other modules that a module reads, each with its line."""
    tree = ast.parse(source)
    own = set(defined(tree))
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            yield from ((node.lineno, alias.name) for alias in node.names if private(alias.name))
        elif isinstance(node, ast.Attribute) and private(node.attr) and node.attr not in own:
            holder = node.value.func if isinstance(node.value, ast.Call) else node.value
            if not (isinstance(holder, ast.Name) and holder.id in ("self", "cls", "super")):
                yield node.end_lineno or node.lineno, node.attr


def in_protocols(source: str) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ClassDef) and any(ast.unparse(base).startswith("Protocol") for base in node.bases):
            yield from ((member.lineno, name) for member in node.body for name in defined(member) if private(name))


def unchecked(source: str) -> Iterator[tuple[int, str]]:
    """Calls that type checkers are told to ignore, without a comment that says why."""
    for number, line in enumerate(source.splitlines(), 1):
        if (found := IGNORED.search(line)) and not found[2].strip():
            yield from ((number, code) for code in re.split(r", *", found[1] or "") if code in OF_CALLS)


def test_they_are_found() -> None:
    found = "from a import _b\nself._c\nx._d\nx.y()._e\nx._f()\nx._asdict()\ndef _f(): ...\nsuper()._g()"
    assert [*of_others(found)] == [(1, "_b"), (3, "_d"), (4, "_e")]
    assert [*in_protocols("class A(Protocol[T]):\n    _a: int\n    def _b(self): ...\n    def c(self): ...")] == [
        (2, "_a"),
        (3, "_b"),
    ]
    assert [*unchecked("a  # type: ignore\nb  # type: ignore[misc, call-arg]\nc  # type: ignore[misc]")] == [
        (1, ""),
        (2, "call-arg"),
    ]
    assert [*unchecked("a  # type: ignore[call-arg]  # why")] == []


def test_no_module_reads_them() -> None:
    read = []
    for path, source in SOURCES.items():
        lines = source.splitlines()
        if not READS_ONE.search(source):
            continue
        read += [f"{path}:{line}: {name}" for line, name in of_others(source) if "  # " not in lines[line - 1]]
    assert read == []


def test_no_protocol_has_them() -> None:
    with_protocols = {path: source for path, source in SOURCES.items() if "(Protocol" in source}
    assert [
        f"{path}:{line}: {name}" for path, source in with_protocols.items() for line, name in in_protocols(source)
    ] == []


def test_calls_are_checked() -> None:
    assert [f"{path}:{line}: {code}" for path, source in SOURCES.items() for line, code in unchecked(source)] == []
