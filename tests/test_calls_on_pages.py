"""Pages, docstrings and messages call methods that there are, with arguments that they have, and name real commands.

Code of the guide and of READMEs runs elsewhere. Here is what nothing runs: calls in sentences and tables, examples of
docstrings, and command lines with their options.
"""

from __future__ import annotations

import ast
import inspect
import re
import shlex
from argparse import _SubParsersAction
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import pyspark_savepoint
from pyspark_savepoint import LocalSavepoint, LocalTable, Savepoint, StreamGraph
from pyspark_savepoint.api.inspection import Inspection
from pyspark_savepoint.api.jobs import JobRestore
from pyspark_savepoint.api.sinks import Sinks
from pyspark_savepoint.api.sources import Sources
from pyspark_savepoint.command_line.parsing import parser
from pyspark_savepoint.insight.plots import Plots
from pyspark_savepoint.options import keywords
from tests.test_names import modules, pages

pytestmark = pytest.mark.thorough("what a change of the source must keep")

#: What recipes add.
ADDED = frozenset({"prefix_states"})
#: What names stand for on pages.
ROOTS: dict[str, tuple[Any, ...]] = {
    "pyspark_savepoint": (pyspark_savepoint,),
    "Savepoint": (Savepoint,),
    "LocalSavepoint": (LocalSavepoint,),
    "sp": (Savepoint, LocalSavepoint),
}
#: What a call or a property returns, by the beginning of its annotation.
RETURNED: dict[str, tuple[Any, ...]] = {
    "Self": (Savepoint, LocalSavepoint),
    "S": (Savepoint, LocalSavepoint),
    "Savepoint": (Savepoint,),
    "LocalSavepoint": (LocalSavepoint,),
    "Inspection": (Inspection,),
    "JobRestore": (JobRestore,),
    "Plots": (Plots,),
    "Sinks": (Sinks,),
    "Sources": (Sources,),
    "StreamGraph": (StreamGraph,),
    "LocalTable": (LocalTable,),
}
CALL = re.compile(rf"(?<![\w./-])(?:{'|'.join(ROOTS)})(?:\.\w+)+\(")
LINE = re.compile(r"(?<![\w/.-])pyspark-savepoint ([a-z][a-z-]+)((?: [^`\n|;]*)?)")
COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
LONG = re.compile(r"--[a-z][a-z-]+")


def calls(text: str) -> Iterator[ast.Call]:
    """Yield each call of a text that begins with a known name, with the calls that follow it in a chain."""
    for found in CALL.finditer(text):
        for end in reversed(ends(text, found.end())):
            try:
                parsed = ast.parse(text[found.start() : end].replace("\n", " "), mode="eval").body
            except (SyntaxError, ValueError):
                continue
            if isinstance(parsed, ast.Call):
                yield parsed
                break


def ends(text: str, start: int) -> list[int]:
    """Where the call ends whose parenthesis was opened, and each call of the chain behind it."""
    found: list[int] = []
    while True:
        depth, place, quoted = 1, start, ""
        while depth and place < min(len(text), start + 2000):
            sign = text[place]
            if quoted:
                quoted = "" if sign == quoted else quoted
            elif sign in "\"'":
                quoted = sign
            else:
                depth += (sign in "([{") - (sign in ")]}")
            place += 1
        if depth:
            return found
        found.append(place)
        more = re.match(r"\s*\.\w+\(", text[place:])
        if more is None:
            return found
        start = place + more.end()


def wrong(text: str) -> list[str]:
    """Return the calls of a text that do not work."""
    found = []
    for call in calls(text):
        try:
            objects(call)
        except LookupError as error:
            found.append(f"{ast.unparse(call)}: {error.args[0]}")
    return found


def objects(node: ast.expr) -> tuple[Any, ...]:
    """Return what an expression may be. Empty if that is not known."""
    if isinstance(node, ast.Name):
        return ROOTS.get(node.id, ())
    if isinstance(node, ast.Attribute):
        owners = objects(node.value)
        found = [attribute(owner, node.attr) for owner in owners if hasattr(owner, node.attr)]
        if owners and not found and node.attr not in ADDED:
            raise LookupError(f"there is no {node.attr}")
        plain = (each.__func__ if isinstance(each, classmethod | staticmethod) else each for each in found)
        return tuple(one for each in plain for one in (returned(each.fget) if isinstance(each, property) else (each,)))
    if isinstance(node, ast.Call):
        functions = objects(node.func)
        given = {keyword.arg for keyword in node.keywords if keyword.arg}
        unknown = [given - (given if (names := taken(function)) is None else names) for function in functions]
        if unknown and all(unknown):
            raise LookupError(f"there is no argument {', '.join(sorted(min(unknown, key=len)))}")
        return tuple(one for function in functions for one in returned(function))
    return ()


def attribute(owner: Any, name: str) -> Any:
    return inspect.getattr_static(owner, name) if isinstance(owner, type) else getattr(owner, name)


def returned(function: Any) -> tuple[Any, ...]:
    name = re.match(r"\w+", str(getattr(function, "__annotations__", {}).get("return", "")))
    return RETURNED.get(name[0], ()) if name else ()


@cache
def taken(function: Any) -> frozenset[str] | None:
    """Return the names of the arguments of a function, with those of its options. None if it takes any."""
    names = set()
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind is not parameter.VAR_KEYWORD:
            names.add(name)
            continue
        options = re.fullmatch(r"Unpack\[(\w+)\]", str(parameter.annotation))
        if options is None:
            return None
        names.update(getattr(keywords, options[1]).__annotations__)
    return frozenset(names)


@cache
def commands() -> dict[str, frozenset[str]]:
    """Return the options of each command."""
    (action,) = (each for each in parser()._actions if isinstance(each, _SubParsersAction))
    return {name: frozenset(one._option_string_actions) for name, one in action.choices.items()}


def wrong_lines(text: str, *, prose: bool = False) -> list[str]:
    """Return the command lines of a text with an option, and outside prose a command, that there is not."""
    found = []
    for name, more in LINE.findall(re.sub(r"\s*\\\n\s*", " ", text)):
        if name not in commands():
            found += [] if prose else [f"{name}: no such command"]
            continue
        unknown = sorted(set(LONG.findall(unquoted(more))) - commands()[name])
        found += [f"{name} {option}: no such option" for option in unknown]
    return found


def unquoted(words: str) -> str:
    """Return a command line without comments and what is quoted."""
    try:
        return " ".join(word for word in shlex.split(words, comments=True) if word.startswith("--"))
    except ValueError:  # a line that is cut
        return words


def docstrings(source: str) -> str:
    """Return the docstrings of a module as one text."""
    nodes = (
        node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
    )
    return "\n\n".join(ast.get_docstring(node) or "" for node in nodes)


def sources() -> Sequence[Path]:
    return [*pages(), *(path for path in modules() if "tests" not in path.parts)]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("`sp.inspect.sizes(by='state')`", []),
        ("`sp.inspect.size()`", ["sp.inspect.size(): there is no size"]),
        ("sp.keyed_state('a', keys=[1]).show()", []),
        ("sp.keyed_state('a', kees=[1])", ["sp.keyed_state('a', kees=[1]): there is no argument kees"]),
        (
            "sp.salvage().write(path, dryrun=True)",
            ["sp.salvage().write(path, dryrun=True): there is no argument dryrun"],
        ),
        ("pyspark_savepoint.open(path).evolv(a)", ["pyspark_savepoint.open(path).evolv(a): there is no evolv"]),
        ("Savepoint.laod(spark)", ["Savepoint.laod(spark): there is no laod"]),
    ],
)
def test_calls_that_do_not_work_are_found(text: str, found: list[str]) -> None:
    assert wrong(text) == found


def test_lines_that_do_not_work_are_found() -> None:
    text = "`pyspark-savepoint ls PATH --json`, `pyspark-savepoint lst`, `pyspark-savepoint put --upset`"
    assert wrong_lines(text) == ["lst: no such command", "put --upset: no such option"]


def test_calls_work() -> None:
    written = {str(path): text for path in sources() if CALL.search(text := path.read_text("utf-8"))}
    written = {
        path: COMMENT.sub("", text) if path.endswith(".md") else docstrings(text) for path, text in written.items()
    }
    found = {path: wrong(text) for path, text in written.items()}
    assert {path: lines for path, lines in found.items() if lines} == {}
    assert sum(len(CALL.findall(text)) for text in written.values()) > 300


def test_command_lines_work() -> None:
    found = {str(path): wrong_lines(path.read_text("utf-8"), prose=path.suffix == ".py") for path in sources()}
    assert {path: lines for path, lines in found.items() if lines} == {}
