"""Small inputs need no compiled kernel: it is interpreted, and compiled once that would take longer.

Compiling a kernel takes 0.1 to 2.5 s of the processor, once per machine; interpreting it takes a hundred times as long
as the compiled one, which for a savepoint of some thousand entries is less than a second. Both run the same definition:
an interpreted kernel is the Python function that numba would compile, with its helpers as Python functions, too.

A process interprets until it has spent :data:`PROCESS_SECONDS` on it, or on one kernel what compiling that one would
take, about which its size tells. A call is interpreted only if its arrays are small, and it is given up when its loops
have too many rounds, since the work of a damaged or malicious snapshot may exceed its size: the arrays are restored,
and the call is repeated with the compiled kernel.

Kernels that most reads and writes need have another form, too, in calls of numpy (``array_forms``, ``array_reads``,
``array_joins``) or in functions of Python for each type (``layout_forms``). It is about ten times as slow, so that it
is used for larger inputs, as long as it takes less than compiling.

Before numpy 2 every call is compiled: there ``np.uint64(1) + 1`` is a float, so that Python functions would compute
other values than compiled ones do (NEP 50).
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FunctionType
from typing import Any

import numpy as np

from pyspark_savepoint.formats.kernels import array_forms, array_joins, array_reads, layout_forms

#: Where this variable is ``compiled``, every call compiles its kernel, as calls of large inputs do; where it is
#: ``interpreted``, no call does, however long it takes. For tests and for debugging. Ignored before numpy 2.
VARIABLE = "PYSPARK_SAVEPOINT_KERNELS"
COMPILED, INTERPRETED = "compiled", "interpreted"

#: Kernels in other forms, by name.
FORMS = {**array_forms.FORMS, **array_reads.FORMS, **array_joins.FORMS, **layout_forms.FORMS}

#: Whether numpy's numbers keep their type when they meet Python's, as they do in compiled kernels (NEP 50).
KEEPS_TYPES = isinstance(np.uint64(1) + 1, np.uint64)

#: The most elements of all arrays of a call that is interpreted, and the most rounds of its loops.
MOST_ELEMENTS, MOST_ROUNDS = 1 << 20, 1 << 19
#: Seconds of the processor after which all kernels of this process are compiled.
PROCESS_SECONDS = 2.0
#: Seconds of compiling for each byte of Python's code of a kernel and its helpers (14 kernels: 0.08 to 0.48 ms), of
#: importing numba with what its first compiling loads, and of a round of a loop that is interpreted.
BYTE_SECONDS, NUMBA_SECONDS, ROUND_SECONDS = 0.0003, 1.5, 4e-6
#: The same for kernels that only need to be loaded, because there is a file with their compiled form: the first one
#: takes as long, as that imports llvmlite. A call with more elements than these may take as long by itself.
CACHED_SECONDS, CACHED_ELEMENTS = 0.05, 1 << 15

#: Seconds for each element of the arrays of a call, where the kernel has a form in calls of numpy.
ELEMENT_SECONDS = 2e-8

#: Seconds of compiling after which a line says so.
SILENT_SECONDS = 1.0
ONCE = (
    "savepoint: compiling the loops that read and write state, once per machine; "
    "'pyspark-savepoint warm-up' does it beforehand"
)
EVERY_TIME = (
    "savepoint: compiling the loops that read and write state, in each process, because no cache folder can be "
    "written: set NUMBA_CACHE_DIR to one that can"
)
#: The same where there is a folder, and others could have written what is in it.
NOT_SAFE = (
    "savepoint: compiling the loops that read and write state, in each process, because {reason}: set NUMBA_CACHE_DIR "
    "to a folder that is yours alone"
)


class TooLongError(Exception):
    """The loops of an interpreted call have too many rounds."""


class Choice(threading.local):
    """How kernels run in this thread: ``left`` are the rounds that loops of the interpreted call may still have."""

    left = 0


class Spending:
    """What this process has spent on interpretation and in numpy, and whether it may interpret at all."""

    def __init__(self) -> None:
        self.seconds = self.in_arrays = 0.0
        self.form = os.environ.get(VARIABLE, "") if KEEPS_TYPES else COMPILED


choice = Choice()
spending = Spending()


def always_compile() -> None:
    """Compile every kernel that is called from now on, whatever its input is, or load it from the cache."""
    spending.form = COMPILED


def seconds_of_numba() -> float:
    """Return what importing numba would take now, less what was spent to save it."""
    return 0.0 if "numba" in sys.modules else max(NUMBA_SECONDS - spending.in_arrays, 0.0)


class Kernel:
    """One kernel, called where no compiled form of it is loaded for the types of the arguments: it chooses a form.

    ``compiled`` returns the compiled form for arguments, ``in_cache`` whether it only needs to be loaded for them.
    """

    def __init__(
        self, function: Any, compiled: Callable[..., Any], in_cache: Callable[[tuple[Any, ...]], bool]
    ) -> None:
        self.function = function
        self.compiled = compiled
        self.in_cache = in_cache
        #: The kernel as calls of numpy, where there is such a form.
        self.arrays = FORMS.get(function.__name__) if is_own(function) else None
        self.seconds = 0.0
        self._compiling: float | None = None

    def __call__(self, *arguments: Any) -> Callable[..., Any]:
        """Return what is to be called with these arguments."""
        if self.arrays is not None and self._is_cheap(arguments):
            return self._in_arrays
        return self._interpreted if self._is_small(arguments) else self.compiled(*arguments)

    @property
    def left(self) -> float:
        """Return the seconds for which interpreting is still cheaper than compiling."""
        if self._compiling is None:  # not before: a kernel may call others that are defined after it
            self._compiling = BYTE_SECONDS * code_size(self.function)
        return self._compiling + seconds_of_numba() - self.seconds

    def _is_small(self, arguments: tuple[Any, ...]) -> bool:
        if spending.form:
            return spending.form == INTERPRETED
        if spending.seconds >= PROCESS_SECONDS or self.left <= 0:
            return False
        elements = sum(array.size for array in arguments if isinstance(array, np.ndarray))
        if elements > MOST_ELEMENTS:
            return False
        costs_little = spending.seconds < CACHED_SECONDS and elements <= CACHED_ELEMENTS
        return costs_little or not self.in_cache(arguments)

    def _is_cheap(self, arguments: tuple[Any, ...]) -> bool:
        """Return whether calls of numpy take less than compiling, and there is no machine code."""
        if spending.form:
            return False
        elements = sum(array.size for array in arguments if isinstance(array, np.ndarray))
        if elements * ELEMENT_SECONDS > self.left:
            return False
        return (elements <= CACHED_ELEMENTS and self.seconds < CACHED_SECONDS) or not self.in_cache(arguments)

    def _in_arrays(self, *arguments: Any) -> Any:
        assert self.arrays is not None
        start = time.thread_time()
        result = self.arrays(*arguments)
        seconds = time.thread_time() - start
        self.seconds += seconds
        spending.in_arrays += seconds
        if result is not NotImplemented:
            return as_compiled(result)
        return (self._interpreted if self._is_small(arguments) else self.compiled(*arguments))(*arguments)

    def _interpreted(self, *arguments: Any) -> Any:
        arrays = [array for array in arguments if isinstance(array, np.ndarray) and array.flags.writeable]
        before = [array.copy() for array in arrays]
        start = time.thread_time()
        rounds = min(MOST_ROUNDS, int(self.left / ROUND_SECONDS))
        try:
            # Numbers wrap around in silence, as compiled ones do.
            with counted(sys.maxsize if spending.form == INTERPRETED else rounds), np.errstate(all="ignore"):
                return as_compiled(python_form(self.function)(*arguments))
        except TooLongError:
            for array, content in zip(arrays, before, strict=True):
                array[...] = content
        finally:
            seconds = time.thread_time() - start
            self.seconds += seconds
            spending.seconds += seconds
        return self.compiled(*arguments)(*arguments)


@contextmanager
def counted(rounds: int) -> Iterator[None]:
    """Let the loops of an interpreted call have some rounds."""
    before, choice.left = choice.left, rounds
    try:
        yield
    finally:
        choice.left = before


def as_compiled(result: Any) -> Any:
    """Return the result of an interpreted kernel with the types of a compiled one's: Python's numbers, not numpy's."""
    if isinstance(result, tuple):
        return tuple(map(as_compiled, result))
    return result.item() if isinstance(result, np.generic) else result


def code_size(function: Any, known: set[Any] | None = None) -> int:
    """Return the bytes of Python's code of a kernel's function, and of all that it calls, each once."""
    known = set() if known is None else known
    if function in known:
        return 0
    known.add(function)
    code = function.__code__
    called = (function.__globals__.get(name) for name in code.co_names)
    return len(code.co_code) + sum(code_size(one.py_func, known) for one in called if hasattr(one, "py_func"))


def is_own(function: Any) -> bool:
    """Return whether a function is a kernel of this package."""
    return str(function.__module__).rpartition(".")[0] == __name__.rpartition(".")[0]


_python_forms: dict[Any, Any] = {}
_of_python_forms = threading.RLock()


def python_form(function: Any) -> Any:
    """Return a kernel's function such that all functions that it calls are Python functions, too."""
    with _of_python_forms:
        if function in _python_forms:
            return _python_forms[function]
        names: dict[str, Any] = {"__builtins__": function.__globals__["__builtins__"], "range": counted_range}
        form = FunctionType(function.__code__, names, function.__name__, function.__defaults__, function.__closure__)
        _python_forms[function] = form  # before its names, since kernels may call themselves
        for name in function.__code__.co_names:
            if name in function.__globals__:
                value = function.__globals__[name]
                names[name] = python_form(value.py_func) if hasattr(value, "py_func") else value
        return form


def counted_range(*bounds: Any) -> range:
    """Return the range, and count its rounds: raise TooLongError if the call has too many."""
    rounds = range(*bounds)
    choice.left -= len(rounds)
    if choice.left < 0:
        raise TooLongError
    return rounds


# -- saying that kernels are compiled --------------------------------------------------------------------------------


class Notice:
    """The line about compiling, on standard error: after a second of it, once for all processes that write there.

    Spark's workers of one executor share its log, and compile different kernels at the same time.
    """

    def __init__(self) -> None:
        self.text: str | None = ONCE
        self.said: set[str] = set()
        self.spent = 0.0
        self.depth = 0
        self.start = 0.0
        self.timer: threading.Timer | None = None

    def silence(self) -> None:
        """Print nothing."""
        self.text = None

    def begin(self) -> None:
        """Compiling begins; kernels may be compiled while others are, which they call."""
        self.depth += 1
        if self.depth == 1 and self.text is not None:
            self.start = time.monotonic()
            self.timer = threading.Timer(max(SILENT_SECONDS - self.spent, 0), self._print)
            self.timer.daemon = True
            self.timer.start()

    def end(self) -> None:
        """Compiling has ended."""
        self.depth -= 1
        if self.depth == 0 and self.timer is not None:
            self.timer.cancel()
            self.timer = None
            self.spent += time.monotonic() - self.start

    def say(self, text: str) -> None:
        """Print a line of its own, once, unless nothing is to be printed."""
        if self.text is not None and text not in self.said:
            self.said.add(text)
            self._write(text)

    def _print(self) -> None:
        text, self.text = self.text, None
        if text is not None:
            self._write(text)

    def _write(self, text: str) -> None:
        with suppress(OSError, ValueError, AttributeError):  # a closed stream, or none
            if is_first_to_say():
                print(text, file=sys.stderr, flush=True)


def is_first_to_say() -> bool:
    """Return whether no other process that runs has asked this about the same standard error: a pipe, file or terminal.

    The first one locks it until it ends. Such locks are of processes (POSIX), even where descriptors are inherited.
    """
    try:
        import fcntl

        fcntl.lockf(sys.stderr.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    except (ImportError, OSError, ValueError):  # Windows, or a stream without locks
        return True
    return True


notice = Notice()
