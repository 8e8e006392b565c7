"""How user code runs: its errors, with the function, the key and the position in its code; garbage collection.

The collector walks all long-lived objects (half a million for the modules of a worker alone) after a certain number of
new objects, and rows come in thousands: this took twice as long as everything else together. Objects that exist when a
task begins are therefore frozen, and young objects are collected less often. Cycles made by a function are still found.
"""

from __future__ import annotations

import gc
import inspect
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import GeneratorType, TracebackType
from typing import Any, Protocol

from pyspark_savepoint.formats.errors import OptionError, SavepointError, UserFunctionError

#: Folder of this package, whose frames are removed from tracebacks.
HOME = str(Path(__file__).parents[3])


class HasKey(Protocol):
    """Object that has the current key."""

    @property
    def key(self) -> Any: ...


class UserCode:
    """Context of calls to a user's function: its exceptions become UserFunctionError, without this package's frames."""

    def __init__(self, function: object, doing: str, keys: HasKey | None = None) -> None:
        self.name = name_of(function)
        self.doing = doing
        self.keys = keys

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        # sys.exit() in a function would end Spark's worker, without an error that names the function.
        if not isinstance(error, Exception | SystemExit) or isinstance(error, UserFunctionError):
            return
        key = None if self.keys is None else f"{self.keys.key!r:.500}"
        if isinstance(error, SavepointError):
            raise error.with_facts(function=self.name, key=key).with_traceback(None) from None
        raise UserFunctionError(
            f"{self.name} failed in {self.doing}: {type(error).__name__}: {error}",
            function=self.name,
            key=key,
            remedy="see the Python traceback below; nothing was written",
            traceback="\n" + user_traceback(error),
        ) from None


class HasOpen(Protocol):
    """Object that is opened before its first call."""

    def open(self, ctx: Any) -> None:
        """Acquire resources."""


def open_function(function: HasOpen, context: Any) -> None:
    """Open a function with its runtime context, which it also keeps if it is a frozen dataclass."""
    object.__setattr__(function, "_runtime_context", context)
    function.open(context)


class HasClose(Protocol):
    """Object that is closed after its last call."""

    def close(self) -> None:
        """Release resources."""


class Closing:
    """Context of all calls to a function, including ``open``: closes the function in any case.

    After an error, a function often cannot close either; then the first error is raised.
    """

    def __init__(self, function: HasClose | None) -> None:
        self.function = function

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if self.function is None:
            return
        try:
            with UserCode(self.function, "close"):
                self.function.close()
        except SavepointError:
            if not isinstance(error, Exception):
                raise


def exhaust(rows: object) -> None:
    """Run a method of a user's function to its end if it is a generator, whose rows are not wanted."""
    if isinstance(rows, GeneratorType):
        for _ in rows:
            pass


def yields_nothing(process_element: object) -> None:
    """Raise OptionError if a method that only fills state has a ``yield``.

    Its result is not iterated, so none of its lines would ever run.
    """
    if inspect.isgeneratorfunction(process_element):
        raise OptionError(
            "process_element of a bootstrap function must not yield: its rows would be lost",
            function=name_of(process_element),
            remedy="remove yield; key_by(...).process(function, schema) returns rows",
        )


def expect_function(function: object, kind: type) -> None:
    """Raise OptionError for an object that is not a function of the required kind, or has other arguments."""
    if not isinstance(function, kind):
        given = isinstance(function, type)
        article = "an" if kind.__name__[0] in "AE" else "a"
        raise OptionError(
            f"{article} {kind.__name__} is needed",
            found=f"the class {name_of(function)} itself" if given else type(function).__name__,
            remedy=f"{function.__name__}(...)" if isinstance(function, type) else f"derive it from {kind.__name__}",
        )
    expect_arguments(function, kind)


def expect_arguments(function: object, kind: type) -> None:
    """Raise OptionError for a method with other arguments than the kind's: a Collector, for example."""
    methods = {name: method for part in reversed(kind.__mro__) for name, method in part.__dict__.items()}
    for name, declared in methods.items():
        if name.startswith("_") or not inspect.isfunction(declared):
            continue
        parameters = inspect.signature(declared).parameters
        wanted = list(parameters)
        needed = [argument for argument, parameter in parameters.items() if parameter.default is parameter.empty]
        method = getattr(function, name)
        signature = inspect.signature(method)
        if not takes(method, *wanted[1:]) and not takes(method, *needed[1:]):
            raise OptionError(
                f"{name} does not accept the arguments that it is called with",
                function=name_of(function),
                expected=f"{name}({', '.join(wanted)})",
                found=f"{name}({', '.join(['self', *signature.parameters])})",
                remedy="take these arguments"
                + ("; there is no Collector: yield rows" if "out" in signature.parameters else ""),
            )


def takes(method: Callable[..., Any], *arguments: object) -> bool:
    """Return whether a method can be called with some arguments."""
    try:
        inspect.signature(method).bind(*arguments)
    except TypeError:
        return False
    return True


def name_of(function: object) -> str:
    """Return the full name of a function or class."""
    kind = function if isinstance(function, type) or hasattr(function, "__qualname__") else type(function)
    name = getattr(kind, "__qualname__", str(kind))
    module = getattr(kind, "__module__", None)
    return name if module in (None, "__main__", "builtins") else f"{module}.{name}"


def user_traceback(error: BaseException) -> str:
    """Return the traceback without the frames of this package."""
    frames = traceback.TracebackException.from_exception(error)
    theirs = [frame for frame in frames.stack if not frame.filename.startswith(HOME)]
    frames.stack = traceback.StackSummary.from_list(theirs or list(frames.stack))
    return "".join(frames.format()).rstrip()


#: Number of new objects between two collections of the young generation: some chunks of records.
YOUNG_OBJECTS = 50_000


@contextmanager
def relaxed_gc() -> Iterator[None]:
    """Relax the garbage collector while records are processed."""
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(max(before[0], YOUNG_OBJECTS), *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
