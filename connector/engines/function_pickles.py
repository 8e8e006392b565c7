"""Pickling of user functions for tasks, by cloudpickle; they are never stored.

Spark pickles what it sends by a copy of cloudpickle of its own (``pyspark.cloudpickle``). Tasks with user functions are
pickled by cloudpickle itself (:class:`Pickled`), so Spark's copy only sees their bytes, and modules that users register
with ``cloudpickle.register_pickle_by_value`` are sent by value.

A function that cannot be pickled is rejected before the job starts; the error names the attribute or variable that
prevents it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from types import FunctionType
from typing import Any, TypeVar

import cloudpickle

from pyspark_savepoint.formats.errors import UserFunctionError
from pyspark_savepoint.statebackends.processing.runtime.user_code import name_of

F = TypeVar("F")


@dataclass(frozen=True)
class Pickled:
    """A dataclass whose objects are pickled by cloudpickle itself, also inside objects that Spark pickles."""

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[type, bytes]]:
        """Return how to make an equal object from the bytes of its fields."""
        return _unpickled, (type(self), cloudpickle.dumps([self.__dict__[field.name] for field in fields(self)]))


def _unpickled(kind: type, values: bytes) -> Any:
    return kind(*cloudpickle.loads(values))


def copy_of(function: F) -> F:
    """Return a copy of a function as tasks get it; raise UserFunctionError if it cannot be pickled."""
    problem = _problem(function)
    if problem is None:
        copy: F = cloudpickle.loads(cloudpickle.dumps(function))
        return copy
    # Imported here: processes that only read have no windows.
    from pyspark_savepoint.statebackends.processing.operators.window_operator import WindowSpec

    if isinstance(function, WindowSpec):
        # The window specification is this package's; the user's functions are its parts.
        for part in _culprits(_parts(function)).values():
            copy_of(part)
    culprits = [f"{name} ({type(value).__name__})" for name, value in _culprits(_parts(function)).items()]
    where = "variable" if isinstance(function, FunctionType) else "attribute"
    raise UserFunctionError(
        "the function cannot be pickled, so it cannot be sent to the tasks",
        function=name_of(function),
        found=f"{where} {', '.join(culprits)}" if culprits else problem,
        remedy="create in open() what cannot be pickled: connections, locks, files, Spark's own objects",
    )


def _parts(function: Any) -> Mapping[str, Any]:
    """Return the objects that are pickled with a function, by name."""
    if not isinstance(function, FunctionType):
        return getattr(function, "__dict__", {})
    closure = inspect.getclosurevars(function)
    defaults = zip(reversed(inspect.getfullargspec(function).args), reversed(function.__defaults__ or ()), strict=False)
    return {**closure.globals, **closure.nonlocals, **dict(defaults)}


def _culprits(parts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the objects that cannot be pickled."""
    return {name: value for name, value in parts.items() if _problem(value) is not None}


def _problem(value: Any) -> str | None:
    """Return why an object cannot be pickled; None if it can."""
    attempt = _Attempt()
    with attempt:
        cloudpickle.dumps(value)
    return attempt.problem


class _Attempt:
    """Context manager that records any exception of pickling as the result, instead of raising it."""

    problem: str | None = None

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> bool:
        if not isinstance(error, Exception):
            return False
        self.problem = f"{type(error).__name__}: {error}"
        return True
