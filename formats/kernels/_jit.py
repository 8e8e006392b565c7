"""Decorators of all kernels: interpreted while inputs are small, then loaded from compiled code, or compiled.

Kernels are module-level functions over numpy arrays: no objects, no exceptions, no bounds checks, no arrays of their
own. Every kernel gets the ends of its input, never reads beyond them, and returns the failing row (or -1). Arrays have
the machine's byte order.

numba compiles a kernel (``compiling.py``), and only then it is imported. Compiled code is an object file
(``object_code.py``), in a cache or in what came with the job (``code_folders.py``), and loads in a few milliseconds.
"""

from __future__ import annotations

import functools
import inspect
import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from pyspark_savepoint.formats.kernels import code_folders
from pyspark_savepoint.formats.kernels.cache_folders import reason_against
from pyspark_savepoint.formats.kernels.code_folders import one_process, read_file, write_file
from pyspark_savepoint.formats.kernels.interpretation import (
    EVERY_TIME,
    NOT_SAFE,
    Kernel,
    as_compiled,
    counted,
    notice,
    python_form,
)
from pyspark_savepoint.formats.kernels.object_code import Compiled, Loaded, Signature, file_name, this_machine

F = TypeVar("F", bound=Callable[..., Any])

_folder = code_folders.cache_folder()
#: Seconds for which machine code that was not there is not looked for again where it would only save time.
MISSING_SECONDS = 0.5
#: For debuggers: kernels are Python functions.
DISABLED = os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0")


def has_cache() -> bool:
    """Return whether machine code is kept on disk."""
    return _folder is not None


def kernel(function: F) -> F:
    """Compile on the first call that is not small, without the GIL."""
    return function if DISABLED else _Kernel(function)  # type: ignore[return-value]


def inline(function: F) -> F:
    """Mark a helper of kernels that is always inlined, so that loads of bytes become one instruction.

    LLVM inlines it. If numba did (``inline="always"``), it would infer the types of each copy, which takes twice as
    long for the same machine code.
    """
    return function if DISABLED else _Inline(function)  # type: ignore[return-value]


class _Inline:
    """A helper of kernels; called from Python, it is a Python function."""

    is_inlined = True

    def __init__(self, function: Any) -> None:
        functools.update_wrapper(self, function)
        self.py_func = function

    def __call__(self, *arguments: Any) -> Any:
        with counted(sys.maxsize), np.errstate(all="ignore"):
            return as_compiled(python_form(self.py_func)(*arguments))


class _Kernel:
    """A kernel, which chooses its form where no machine code is loaded for the types of the arguments.

    ``compiled_here`` counts what this process has compiled, ``signatures`` names what it has in machine code.
    """

    is_inlined = False

    def __init__(self, function: Any) -> None:
        functools.update_wrapper(self, function)
        self.py_func = function
        self.compiled_here = 0
        self.choice = Kernel(function, self.compiled, self.is_cached)
        self._last: Callable[..., Any] | None = None
        self._by_signature: dict[Signature, Loaded] = {}
        #: Until when machine code that was not there is not looked for again: an answer takes 20 calls of the system.
        self._missing: dict[Signature, float] = {}
        self._lock = threading.RLock()

    @property
    def signatures(self) -> list[Signature]:
        """The types of arguments for which this process has machine code."""
        return list(self._by_signature)

    def __call__(self, *arguments: Any) -> Any:
        last = self._last
        if last is not None:
            result = last(*arguments)
            if result is not NotImplemented:
                return result
        form = self.choice(*arguments)
        if isinstance(form, Loaded):
            self._last = form.call
        return form(*arguments)

    def compiled(self, *arguments: Any) -> Callable[..., Any]:
        """Return machine code for arguments: that of this process, else from a file, else compiled now."""
        signature = Signature.of(arguments)
        found = self._by_signature.get(signature)
        if found is None:
            with self._lock:
                found = self._by_signature.get(signature)
                if found is None:
                    found = self._by_signature[signature] = Loaded(signature, self._read_or_compile(signature))
        return found if found.takes(arguments) else found.with_usual_types

    def compile_for(self, signature: Signature) -> None:
        """Have machine code for types of arguments, in the cache if there is one."""
        self._read_or_compile(signature)

    def is_cached(self, arguments: tuple[Any, ...]) -> bool:
        """Return whether there is machine code for arguments, which only needs to be loaded."""
        return self.has_code(Signature.of(arguments))

    def has_code(self, signature: Signature) -> bool:
        """Return whether there is machine code for types of arguments."""
        if signature in self._by_signature:
            return True
        if time.monotonic() < self._missing.get(signature, 0.0):
            return False
        is_there = self._read(signature) is not None
        if not is_there:
            self._missing[signature] = time.monotonic() + MISSING_SECONDS
        return is_there

    def _read(self, signature: Signature) -> Compiled | None:
        """Return machine code that came with the job, or is in the cache."""
        pack = _shipped()
        if pack is not None:
            data = pack.read(file_name(self.py_func, self._source(), signature, pack.target))
            if data is not None:
                return Compiled.from_bytes(data)
        file = self._file(signature)
        if file is None:
            return None
        data, reason = read_file(file)
        if reason is not None and notice.text is not None:
            notice.text = NOT_SAFE.format(reason=reason)
        return None if data is None else Compiled.from_bytes(data)

    def _read_or_compile(self, signature: Signature) -> Compiled:
        result = self._read(signature)
        if result is not None:
            return result
        file = self._file(signature)
        with one_process(file and file.with_suffix(".lock")):
            result = self._read(signature)
            if result is not None:
                return result
            notice.begin()
            try:
                from pyspark_savepoint.formats.kernels.compiling import compiled

                made = compiled(self.py_func, signature)
            finally:
                notice.end()
            self.compiled_here += 1
            if file is not None and reason_against(file.parent) is None:
                write_file(file, made.to_bytes())
            return made

    def _file(self, signature: Signature) -> Path | None:
        if _folder is None:
            return None
        return _folder / file_name(self.py_func, self._source(), signature, this_machine())

    @functools.cache  # noqa: B019  (kernels live as long as their modules)
    def _source(self) -> bytes:
        """Return the source of the module that a kernel is in, for one that is not of this package."""
        file = inspect.getfile(self.py_func)
        if Path(file).parent == Path(__file__).parent:  # `builds()` has them all
            return b""
        with suppress(OSError):
            return Path(file).read_bytes()
        return b""


def _shipped() -> code_folders.Pack | None:
    """Return the code that came with the job; say once why it is not used."""
    path = os.environ.get(code_folders.VARIABLE)
    if not path:
        return None
    pack, reason = code_folders.shipped(path)
    if reason is not None:
        notice.say(f"savepoint: compiled code of {path} is not used: {reason}")
    return pack


if not has_cache() and notice.text is not None:
    notice.text = EVERY_TIME
