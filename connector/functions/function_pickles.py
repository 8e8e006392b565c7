"""User functions on their way to the tasks: pickled as Spark pickles any function of a user, never stored.

A function that cannot be pickled is refused before the job starts, with the attribute because of which it cannot, or
the variable.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from types import FunctionType
from typing import Any, TypeVar

from pyspark.serializers import CloudPickleSerializer

from pyspark_savepoint.formats.errors import UserFunctionError
from pyspark_savepoint.statebackends.processing.operators.window_operator import WindowSpec
from pyspark_savepoint.statebackends.processing.runtime.user_code import name_of

F = TypeVar("F")


def copy_of(function: F) -> F:
    """A copy as tasks will have it; UserFunctionError where the function cannot be sent to them."""
    problem = _problem(function)
    if problem is None:
        pickles: Any = _pickles()
        copy: F = pickles.loads(pickles.dumps(function))
        return copy
    if isinstance(function, WindowSpec):
        # It is ours: the user's functions are its parts.
        for part in _culprits(_parts(function)).values():
            copy_of(part)
    culprits = [f"{name} ({type(value).__name__})" for name, value in _culprits(_parts(function)).items()]
    where = "variable" if isinstance(function, FunctionType) else "attribute"
    raise UserFunctionError(
        "a function cannot be sent to the tasks, for it cannot be pickled",
        function=name_of(function),
        found=f"{where} {', '.join(culprits)}" if culprits else problem,
        remedy="make in open() what cannot be pickled: connections, locks, files, Spark's own objects",
    )


def _parts(function: Any) -> Mapping[str, Any]:
    """What is pickled along with a function, by its name."""
    if not isinstance(function, FunctionType):
        return getattr(function, "__dict__", {})
    found = inspect.getclosurevars(function)
    given = zip(reversed(inspect.getfullargspec(function).args), reversed(function.__defaults__ or ()), strict=False)
    return {**found.globals, **found.nonlocals, **dict(given)}


def _culprits(parts: Mapping[str, Any]) -> dict[str, Any]:
    """Those that cannot be pickled."""
    return {name: value for name, value in parts.items() if _problem(value) is not None}


def _pickles() -> Any:
    """What Spark itself sends functions with."""
    return CloudPickleSerializer()  # type: ignore[no-untyped-call]


def _problem(value: Any) -> str | None:
    """Why something cannot be pickled; None where it can."""
    attempt = _Attempt()
    with attempt:
        _pickles().dumps(value)
    return attempt.problem


class _Attempt:
    """Whatever a pickle raises, which may be anything, is the answer and not an error."""

    problem: str | None = None

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> bool:
        if not isinstance(error, Exception):
            return False
        self.problem = f"{type(error).__name__}: {error}"
        return True
