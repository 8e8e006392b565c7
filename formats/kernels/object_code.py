"""Machine code of kernels, loaded and called without numba: importing numba takes longer than most reads do.

A file has the object code of one kernel for one signature::

    File := MAGIC  u8 numberOfResults  kind of each  u32 crc32 of the code  code

The code is one of ELF (or what the system has instead), which llvmlite links and loads. How it is called says
``compiling.py``. Files are found by their name: the digest in it is that of everything that the code depends on.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import struct
import sys
import sysconfig
import zlib
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

#: The name of the function of an entry, and what it returns for arrays of other types than its own.
ENTRY, OTHER_TYPES = "pyspark_savepoint_entry", 2
#: What a description of an array begins with: ``array int64 1 C``.
ARRAY = "array"
#: Bytes before the fields of an object: 16, and more in builds of Python without a GIL or with debugging.
HEADER_SIZE = object.__basicsize__
MAGIC = b"savepoint-kernel-1\n"
#: Settings of numba that change the code it makes.
SETTINGS = ("NUMBA_BOUNDSCHECK", "NUMBA_OPT", "NUMBA_LOOP_VECTORIZE", "NUMBA_SLP_VECTORIZE", "NUMBA_FULL_TRACEBACKS")


@dataclass(frozen=True)
class Signature:
    """The types of arguments: ``q``, ``Q``, ``?``, ``d`` for numbers, ``array int64 1 C``, tuples of these."""

    arguments: tuple[Any, ...]

    @classmethod
    def of(cls, arguments: tuple[Any, ...]) -> Signature:
        """Describe arguments."""
        return cls(tuple(map(_described, arguments)))

    def __str__(self) -> str:
        return repr(self.arguments)


@dataclass(frozen=True)
class Compiled:
    """Object code, and the kinds of the numbers that the kernel returns."""

    results: str
    code: bytes

    def to_bytes(self) -> bytes:
        """Return what a file has."""
        head = struct.pack(f"<B{len(self.results)}sI", len(self.results), self.results.encode(), zlib.crc32(self.code))
        return MAGIC + head + self.code

    @classmethod
    def from_bytes(cls, data: bytes) -> Compiled | None:
        """Parse a file; None if it is not one, or not as it was written."""
        if not data.startswith(MAGIC) or len(data) <= len(MAGIC):
            return None
        at = len(MAGIC) + 1
        results, code = data[at : at + data[at - 1]], data[at + data[at - 1] + 4 :]
        if data[at + len(results) : at + len(results) + 4] != struct.pack("<I", zlib.crc32(code)):
            return None
        return cls(results.decode("ascii"), code)


def _described(argument: Any) -> Any:
    if isinstance(argument, np.ndarray):
        flags = argument.flags
        if not flags.aligned or not argument.dtype.isnative:
            raise TypeError(f"kernels take aligned arrays in the machine's byte order, not {argument.dtype}")
        return f"{ARRAY} {argument.dtype.name} {argument.ndim} {'C' if flags.c_contiguous else 'A'}"
    if isinstance(argument, tuple):
        return tuple(map(_described, argument))
    if isinstance(argument, (bool, np.bool_)):
        return "?"
    if isinstance(argument, (float, np.floating)):
        return "d"
    if isinstance(argument, np.uint64):
        return "Q"
    if isinstance(argument, (int, np.integer)):
        return "q"
    raise TypeError(f"kernels take arrays and numbers, not {type(argument).__name__}")


# -- what code is for ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Target:
    """A processor: LLVM's name of it, and the features that its code uses."""

    triple: str
    cpu: str
    features: str


@cache
def this_machine() -> Target:
    """Return the processor of this machine, or what numba is told to compile for."""
    import llvmlite.binding as llvm

    return Target(
        llvm.get_process_triple(),
        os.environ.get("NUMBA_CPU_NAME") or llvm.get_host_cpu_name(),
        os.environ.get("NUMBA_CPU_FEATURES", llvm.get_host_cpu_features().flatten()),
    )


@cache
def features() -> dict[str, bool]:
    """Return the features that LLVM knows, and whether this machine has them."""
    import llvmlite.binding as llvm

    return dict(llvm.get_host_cpu_features())


@cache
def builds() -> dict[str, str]:
    """Return what must be the same where code is compiled and where it is loaded, besides the processor."""
    return {
        "python": f"{sys.implementation.cache_tag}{getattr(sys, 'abiflags', '')}-{sysconfig.get_platform()}",
        "numba": version("numba"),
        "llvmlite": version("llvmlite"),
        "object header": str(HEADER_SIZE),
        "kernels": sources(),
        "settings": " ".join(f"{name}={os.environ[name]}" for name in SETTINGS if name in os.environ),
    }


@cache
def sources() -> str:
    """Return the digest of the source code of all kernels: wherever it is installed, and whenever."""
    digest = hashlib.sha256()
    for file in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(f"{file.name}\0".encode() + file.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def file_name(kernel: Any, source: bytes, signature: Signature, target: Target) -> str:
    """Return the name of the file that has a kernel's code."""
    told = repr((kernel.__module__, kernel.__qualname__, str(signature), target, sorted(builds().items())))
    digest = hashlib.sha256(told.encode() + source).hexdigest()[:24]
    return f"{kernel.__module__.rpartition('.')[2]}.{kernel.__name__}-{digest}.code"


# -- loading and calling ---------------------------------------------------------------------------------------------


class Loaded:
    """Machine code of a kernel in this process.

    Instances are called with the arguments; :data:`NotImplemented` is returned, and nothing called, if their types are
    others than those of the signature.
    """

    def __init__(self, signature: Signature, compiled: Compiled) -> None:
        self.signature = signature
        self.results = compiled.results
        self._engine = _linked(compiled.code)
        address = self._engine.get_function_address(ENTRY)
        self._entry = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_char_p)(address)
        flat = list(_flat(signature.arguments))
        dtypes = [np.dtype(each.split(" ")[1]) for each in flat if each.startswith(ARRAY)]
        # The addresses of numpy's types of arrays and items, which live as long as numpy does.
        self._types = (ctypes.c_uint64 * (1 + len(dtypes)))(id(np.ndarray), *map(id, dtypes))
        self._dtypes = dtypes
        self._types_at = ctypes.addressof(self._types)
        codes = "".join("Q" if each.startswith(ARRAY) else {"?": "q"}.get(each, each) for each in flat)
        self._pack = struct.Struct(f"=QQ{codes}").pack
        self.call = self._calling()

    def takes(self, arguments: tuple[Any, ...]) -> bool:
        """Return whether the arrays have the very types that the entry compares with."""
        arrays = [each for each in arguments if isinstance(each, np.ndarray)]
        return all(
            type(array) is np.ndarray and array.dtype is dtype
            for array, dtype in zip(arrays, self._dtypes, strict=True)
        )

    def with_usual_types(self, *arguments: Any) -> Any:
        """Call the kernel with arrays of a class of their own (memory maps), or of a copy of numpy's type."""
        dtypes = iter(self._dtypes)
        return self(
            *(np.asarray(each).view(next(dtypes)) if isinstance(each, np.ndarray) else each for each in arguments)
        )

    def __call__(self, *arguments: Any) -> Any:
        """Call the kernel."""
        return self.call(*arguments)

    def _calling(self) -> Any:
        """Return a function that calls the kernel, made for the signature: some calls are for single keys.

        It takes 0.3 microseconds, and 0.7 if it looked at the kind of each argument.
        """
        one, names = len(self.results) == 1, [f"a{number}" for number in range(len(self.signature.arguments))]
        words = ", ".join(map(_word, names, self.signature.arguments))
        value = "number(results, out.value)" if one else "tuple(map(number, results, out))"
        plain = {"": "None", "q": "out.value"}.get(self.results, value)
        text = f"""
def call({", ".join(names)}):
    {"out = new()" if self.results else ""}
    try:
        status = entry(pack({"addressof(out)" if self.results else "0"}, types, {words}))
    except (struct_error, TypeError):
        return NotImplemented
    return failed(status) if status else {plain}
"""
        known: dict[str, Any] = {
            "new": ctypes.c_int64 if one else ctypes.c_int64 * len(self.results), "addressof": ctypes.addressof,
            "entry": self._entry, "pack": self._pack, "types": self._types_at, "struct_error": struct.error,
            "failed": _failed, "number": _number, "results": self.results,
        }  # fmt: skip
        exec(text, known)  # noqa: S102 (made of the numbers and kinds of arguments alone)
        return known["call"]


def _word(name: str, kind: Any) -> str:
    """Return what is packed for an argument."""
    if isinstance(kind, tuple):
        return ", ".join(_word(f"{name}[{place}]", each) for place, each in enumerate(kind))
    return f"id({name})" if kind.startswith(ARRAY) else name


def _failed(status: int) -> Any:
    if status == OTHER_TYPES:
        return NotImplemented
    raise IndexError("a kernel used an index that is out of bounds")


def _flat(arguments: Any) -> Any:
    for each in arguments:
        if isinstance(each, tuple):
            yield from _flat(each)
        else:
            yield each


def _number(kind: str, word: int) -> Any:
    if kind == "q":
        return word
    if kind == "Q":
        return word & 0xFFFFFFFFFFFFFFFF
    return bool(word) if kind == "?" else struct.unpack("=d", struct.pack("=q", word))[0]


@cache
def _machine() -> Any:
    import llvmlite.binding as llvm

    with_older = getattr(llvm, "initialize", None)
    if with_older is not None and tuple(map(int, version("llvmlite").split(".")[:2])) < (0, 45):
        with_older()
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm


def _linked(code: bytes) -> Any:
    """Return an engine of its own for object code, so that names of helpers in several kernels do not meet."""
    llvm = _machine()
    machine = llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine(codemodel="jitdefault")
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    return engine
