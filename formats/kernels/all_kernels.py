"""All kernels that Python calls, with the types of their arguments: what compiled code for other machines has.

``signatures.txt`` has a line for each: the kernel, and the types as ``Signature`` writes them. It has what the package
called while its tests ran (``python -m tests.kernel_signatures``).
"""

from __future__ import annotations

import ast
from functools import cache
from importlib import import_module
from importlib.resources import files
from typing import Any

from pyspark_savepoint.formats.kernels.object_code import Signature

SIGNATURES = "signatures.txt"


@cache
def lines() -> list[list[str]]:
    """Return the names of kernels, each with the types of its arguments."""
    text = files(__package__).joinpath(SIGNATURES).read_text(encoding="utf-8")
    return [line.split(" ", 1) for line in text.splitlines()]


def listed() -> list[tuple[str, Signature]]:
    """Return the kernels, by module and name, and the types of their arguments."""
    return [(name, Signature(ast.literal_eval(types))) for name, types in lines()]


def signatures_of(function: Any) -> list[Signature]:
    """Return the types of the arguments with which Python calls the kernel of a function."""
    return [Signature(ast.literal_eval(types)) for name, types in lines() if name == name_of(function)]


def name_of(function: Any) -> str:
    """Return the module and the name of a kernel's function."""
    return f"{function.__module__.rpartition('.')[2]}.{function.__name__}"


def kernel_named(name: str) -> Any:
    """Return the kernel of a module and name."""
    module, _, function = name.rpartition(".")
    return getattr(import_module(f"{__package__}.{module}"), function)
