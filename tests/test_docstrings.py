"""Docstrings of what users and plug-ins call, without Spark: parameters, results, errors and examples.

The rules, for every public function, class and method that a class of this package declares:

- ``Args:`` names each parameter, and no other; ``**options`` with its stars. A class whose objects are made by one of
  its methods, or by another class, may leave it out.
- ``Returns:`` or ``Yields:``, unless it returns None. A property says in its first line what it is, and a method
  without parameters says it in a first line that begins with "Return" or "Yield".
- ``Raises:`` names each exception that its body raises, or a base class of it, and each error that its text names.
- ``Example:``, or lines that begin with ``>>>``, in classes, functions and the verbs of ``Savepoint``; helpers for
  serializers do without.
- A method that overrides a documented one of a base class may leave the sections to it.
"""

from __future__ import annotations

import ast
import builtins
import importlib
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import pytest

import pyspark_savepoint
from pyspark_savepoint import errors

pytestmark = pytest.mark.thorough("what a change of the source must keep")

PACKAGE = "pyspark_savepoint"
FORMATS = f"{PACKAGE}.formats"
API = f"{PACKAGE}.statebackends.processing.api"
#: Modules of what public names return and of what plug-ins derive from, each with the names that are internal.
MODULES = {
    **{f"{API}.{name}": () for name in ("evictors", "functions", "state", "triggers")},
    f"{API}.contexts": ("HasTaskInfo",),
    f"{API}.timers": ("FiringTimers", "Timers", "check_time", "millis", "now_millis"),
    f"{API}.windows": ("window_start",),
    f"{API}.state_descriptors": ("DefaultValueState", "serializer_of", "with_default"),
    f"{PACKAGE}.api.inspection": ("one_row_per_error", "sizes_by"),
    f"{PACKAGE}.api.jobs": (),
    f"{PACKAGE}.api.sinks": (),
    f"{PACKAGE}.api.sources": (),
    f"{PACKAGE}.api.functions.operator_transformation": (),
    f"{PACKAGE}.api.functions.connected_transformation": ("ConnectedSource",),
    f"{PACKAGE}.api.functions.state_transformation": (),
    f"{FORMATS}.serializers.base": ("ClassDescriptions", "UnknownPayload", "UnknownPayloads", "Work"),
    f"{FORMATS}.serializers.kryo.objects.plugged_classes": ("plugged_classes", "plugged_bodies"),
    f"{PACKAGE}.testing.asserts": (),
}
SECTION = re.compile(r"^(Args|Returns|Yields|Raises|Example):{1,2}$\n((?:^(?: +.*)?$\n?)*)", re.MULTILINE)
NAME = re.compile(r"^    (\*{0,2}\w+(?:, \*{0,2}\w+)*):", re.MULTILINE)


@dataclass(frozen=True)
class Documented:
    """A function, class or method: its name for messages, and its docstring in sections."""

    name: str
    target: Any
    owner: type | None = None

    @property
    def text(self) -> str:
        return inspect.cleandoc(self.target.__doc__ or "")

    def section(self, *names: str) -> str | None:
        """Return the text of the first of these sections."""
        return next((text for name, text in SECTION.findall(self.text) if name in names), None)

    def named_in(self, section: str) -> set[str]:
        """Return the names that a section explains."""
        return {name for names in NAME.findall(self.section(section) or "") for name in names.split(", ")}

    @property
    def parameters(self) -> set[str]:
        stars: dict[Any, str] = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
        found = list(inspect.signature(self.target).parameters.values())
        if found and found[0].name in ("self", "cls"):
            found = found[1:]
        return {stars.get(each.kind, "") + each.name for each in found}

    @property
    def is_override(self) -> bool:
        """Whether a base class in this package documents a method of this name."""
        bases = self.owner.__mro__[1:] if self.owner else ()
        return any(vars(base).get(self.target.__name__) for base in bases if base.__module__.startswith(PACKAGE))

    def raised(self) -> Iterator[str]:
        """Yield the names of the classes that the body raises by their names."""
        tree = ast.parse(textwrap.dedent(inspect.getsource(self.target)))
        for node in ast.walk(tree):
            error = node.exc.func if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) else None
            if isinstance(error, ast.Name) and error_class(error.id):
                yield error.id

    def mentioned(self) -> Iterator[str]:
        """Yield the names of the errors that the text names outside its sections."""
        yield from (name for name in re.findall(r"\b[A-Z]\w+Error\b", SECTION.sub("", self.text)) if error_class(name))


def error_class(name: str) -> type[BaseException] | None:
    found = getattr(errors, name, None) or getattr(builtins, name, None)
    return found if isinstance(found, type) and issubclass(found, BaseException) else None


def in_modules() -> Iterator[tuple[str, Any]]:
    for module, left_out in MODULES.items():
        for name, value in vars(importlib.import_module(module)).items():
            public = not name.startswith("_") and name not in left_out
            if public and (inspect.isclass(value) or inspect.isfunction(value)) and value.__module__ == module:
                yield name, value


def exported() -> dict[Any, str]:
    """Return the public functions and classes with their names, each once."""
    named = [(name, getattr(pyspark_savepoint, name)) for name in pyspark_savepoint.__all__ if name != "__version__"]
    return {value: name for name, value in (*in_modules(), *named)}


def members(owner: type, of: Callable[[Any], bool]) -> Iterator[Documented]:
    """Yield the public methods, or properties, that a class declares or has from a private base."""
    for name, value in inspect.getmembers_static(owner):
        declared = next((base for base in owner.__mro__ if name in vars(base)), owner)
        target = value.__func__ if isinstance(value, classmethod | staticmethod) else value
        if not name.startswith("_") and declared.__module__.startswith(PACKAGE) and of(target):
            yield Documented(f"{owner.__name__}.{name}", target, declared)


def classes() -> list[Documented]:
    return [Documented(name, value) for value, name in exported().items() if inspect.isclass(value)]


def functions() -> list[Documented]:
    return [Documented(name, value) for value, name in exported().items() if inspect.isfunction(value)]


def callables() -> list[Documented]:
    """Return the functions and methods, each once."""
    methods = [method for owner in classes() for method in members(owner.target, inspect.isfunction)]
    return list({each.target: each for each in (*methods, *functions())}.values())


def test_everything_has_a_sentence() -> None:
    properties = [
        each for owner in classes() for each in members(owner.target, lambda value: isinstance(value, property))
    ]
    public_errors = [Documented(name, getattr(errors, name)) for name in errors.__all__]
    everything = [*classes(), *callables(), *properties, *public_errors]
    assert len(everything) > 400
    assert [each.name for each in everything if not re.match(r"[A-Z`].*[.:]\n?", each.text)] == []


def test_no_sentence_ends_in_the_middle() -> None:
    """A docstring that a formatter has split is two texts, of which Python takes the first."""
    root = Path(__file__).parents[1]
    places = []
    folders = [root / name for name in ("connector", "formats", "statebackends")]
    for path in (path for folder in folders for path in folder.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                first = (ast.get_docstring(node) or ".").partition("\n\n")[0].rstrip()
                if first[-1:] not in ".:?!":
                    places.append(f"{path.relative_to(root)}: {first}")
    assert places == []


def test_args_are_the_parameters() -> None:
    wrong = {
        each.name: sorted(each.parameters ^ each.named_in("Args"))
        for each in callables()
        if each.parameters != each.named_in("Args") and not (each.is_override and each.section("Args") is None)
    }
    assert wrong == {}


def test_args_of_classes_are_the_parameters() -> None:
    wrong = {
        each.name: sorted(each.parameters ^ each.named_in("Args"))
        for each in classes()
        if not issubclass(each.target, Enum)
        if each.section("Args") is not None and each.parameters != each.named_in("Args")
    }
    assert wrong == {}


def test_results_are_described() -> None:
    missing = [
        each.name
        for each in callables()
        if each.target.__annotations__["return"] not in ("None", "NoReturn")
        if each.section("Returns", "Yields") is None and not each.is_override
        if each.parameters or not re.match("Returns? |Yields? ", each.text)
    ]
    assert missing == []


def test_errors_are_described() -> None:
    missing = []
    for each in callables():
        described = tuple(filter(None, map(error_class, each.named_in("Raises"))))
        for name in {*each.raised(), *each.mentioned()}:
            error = error_class(name)
            if error is None or not issubclass(error, described):
                missing.append(f"{each.name}: {name}")
    assert missing == []


def test_described_errors_exist() -> None:
    wrong = {each.name: each.named_in("Raises") - {"PySparkException"} for each in (*callables(), *classes())}
    assert {name: found for name, names in wrong.items() if (found := {x for x in names if not error_class(x)})} == {}


def test_examples() -> None:
    verbs = members(pyspark_savepoint.Savepoint, inspect.isfunction)
    missing = [
        each.name
        for each in (
            *classes(),
            *verbs,
            *(each for each in functions() if not each.target.__module__.startswith(FORMATS)),
        )
        if each.section("Example") is None and ">>> " not in each.text
        if not (inspect.isclass(each.target) and issubclass(each.target, Exception))
    ]
    assert missing == []
