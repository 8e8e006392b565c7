"""Kernels compiled by numba into object files, which load without numba (``object_code.py``).

Each kernel gets an entry, which is called with the address of numbers of 64 bits::

    entry := address of the results  address of the types  argument of each

An argument is a number, or the address of an array object, whose fields numpy promises to all extensions. The entry
compares the types of arrays with those that it was compiled for, so that a call needs no look at them from Python. The
entry of an array of another type returns :data:`OTHER_TYPES`, and the kernel was not called.

Numba's own wrappers, which take Python objects of any kind, are left out: they are half of what it would compile.
"""

# numba has no types.
# mypy: disable-error-code="no-untyped-call,no-untyped-def,misc"

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from types import FunctionType
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import register_pass
from numba.core.errors import NumbaError
from numba.core.lowering import Lower
from numba.core.typed_passes import BaseNativeLowering, NativeLowering
from numba.np.numpy_support import as_dtype, from_dtype

from pyspark_savepoint.formats.kernels.object_code import ARRAY, ENTRY, HEADER_SIZE, OTHER_TYPES, Compiled, Signature

#: Fields of an array object after the header that all objects have.
DATA, NDIM, SHAPE, STRIDES, DTYPE, FLAGS = 0, 8, 16, 24, 40, 48
#: The flags of numpy: in the order of C without gaps, and aligned.
CONTIGUOUS, ALIGNED = 0x1, 0x100
#: What machine code may call besides itself: functions of every C library.
OF_LIBC = ("memcpy", "memset", "memmove", "memcmp")

WORD, HALF = ir.IntType(64), ir.IntType(32)
SHARED: dict[str, Any] = {
    "nogil": True,
    "boundscheck": False,
    "error_model": "numpy",
    "no_cpython_wrapper": True,
    "_nrt": False,
}

_forms: dict[Any, Any] = {}


def compiled(kernel: Any, signature: Signature) -> Compiled:
    """Return the machine code of a kernel for arguments of some types.

    Raises:
        AssertionError: If numba cannot compile it, or it calls functions that a process without numba does not have.

    """
    njit: Any = numba.njit
    dispatcher = njit(**SHARED, pipeline_class=_Compiler)(_with_names(kernel))
    dispatcher.py_func.__globals__[kernel.__name__] = dispatcher
    given = tuple(map(_numba_type, signature.arguments))
    try:
        with _without_collector():
            dispatcher.compile(given)
    except NumbaError as error:
        raise AssertionError(f"kernel {kernel.__name__} does not compile for {signature}") from error
    (result,) = dispatcher.overloads.values()
    library = result.library
    unknown = [
        function.name
        for function in library._final_module.functions  # no public name
        if function.is_declaration and not function.name.startswith("llvm.") and function.name not in OF_LIBC
    ]
    assert not unknown, f"{kernel.__name__} calls {unknown}"
    code = library._get_compiled_object()  # no public name
    return Compiled("".join(map(_kind, _parts(result.fndesc.restype))), code)


@contextmanager
def _without_collector() -> Iterator[None]:
    """Do not look for garbage: numba makes so many objects that it would take a fifth of the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _with_names(function: Any, of_itself: Any = None) -> Any:
    """Return the function such that the names of helpers and of other kernels in it are numba's functions."""
    names: dict[str, Any] = {name: function.__globals__[name] for name in ("__builtins__", "__name__")}
    form = FunctionType(function.__code__, names, function.__name__, function.__defaults__, function.__closure__)
    for name in function.__code__.co_names:
        if name in function.__globals__:
            value = function.__globals__[name]
            names[name] = helper(value) if hasattr(value, "py_func") else value
    if of_itself is not None:
        names[function.__name__] = of_itself
    return form


def helper(called: Any) -> Any:
    """Return numba's function of what a kernel calls: a helper, which is inlined, or another kernel."""
    function = called.py_func
    if function not in _forms:
        inlined = getattr(called, "is_inlined", True)
        how = {**SHARED, "no_cfunc_wrapper": True, "forceinline": inlined, "pipeline_class": _HelperCompiler}
        form = FunctionType(function.__code__, {}, function.__name__, function.__defaults__, function.__closure__)
        njit: Any = numba.njit
        dispatcher = _forms[function] = njit(**how)(form)  # before its names, since kernels may call themselves
        find = dispatcher.get_call_template
        # Numba would compile a helper once more for each literal that it is called with.
        dispatcher.get_call_template = lambda args, kws: find(tuple(map(types.unliteral, args)), kws)
        form.__globals__.update(_with_names(function, _forms[function]).__globals__)
    return _forms[function]


def _numba_type(argument: Any) -> Any:
    if isinstance(argument, tuple):
        return types.Tuple(tuple(map(_numba_type, argument)))
    if not argument.startswith(ARRAY):
        return {"q": types.int64, "Q": types.uint64, "?": types.boolean, "d": types.float64}[argument]
    _, dtype, ndim, layout = argument.split(" ")
    return types.Array(from_dtype(np.dtype(dtype)), int(ndim), layout)


def _parts(result: Any) -> list[Any]:
    if isinstance(result, types.BaseTuple):
        parts: Any = result
        return list(parts)
    return [] if result is types.none else [types.unliteral(result)]


def _kind(part: Any) -> str:
    if isinstance(part, types.Boolean):
        return "?"
    if isinstance(part, types.Float):
        return "d"
    return "q" if part.signed else "Q"


class _Lower(Lower):
    """Adds the entry where numba would add a function of C."""

    def create_cfunc_wrapper(self) -> None:
        context, descriptor = self.context, self.fndesc
        module = context.create_module("entry")
        function_type = context.call_conv.get_function_type(descriptor.restype, descriptor.argtypes)
        function = ir.Function(module, function_type, descriptor.llvm_func_name)
        entry = ir.Function(module, ir.FunctionType(HALF, [WORD.as_pointer()]), ENTRY)
        builder = ir.IRBuilder(entry.append_basic_block("entry"))
        reader = _Reader(context, builder, entry.args[0])
        results = reader.word()
        reader.types = builder.inttoptr(reader.word(), WORD.as_pointer())
        values = [reader.value(each) for each in descriptor.argtypes]
        status, out = context.call_conv.call_function(
            builder, function, descriptor.restype, descriptor.argtypes, values
        )
        with builder.if_then(status.is_error, likely=False):
            builder.ret(HALF(1))
        for number, part in enumerate(_parts(descriptor.restype)):
            value = builder.extract_value(out, number) if isinstance(descriptor.restype, types.BaseTuple) else out
            place = builder.gep(builder.inttoptr(results, WORD.as_pointer()), [WORD(number)])
            builder.store(_word(context, builder, part, value), place)
        builder.ret(HALF(0))
        self.library.add_ir_module(module)


def _word(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    """Return a number as 64 bits."""
    if isinstance(kind, types.Float):
        return builder.bitcast(context.cast(builder, value, kind, types.float64), WORD)
    wide = types.int64 if isinstance(kind, types.Boolean) or kind.signed else types.uint64
    return context.cast(builder, value, kind, wide)


class _Reader:
    """Reads the arguments of an entry, one after the other."""

    def __init__(self, context: Any, builder: Any, words: Any) -> None:
        self.context, self.builder, self.words = context, builder, words
        self.types: Any = None
        self.read, self.arrays = 0, 0

    def word(self) -> Any:
        place = self.builder.gep(self.words, [WORD(self.read)])
        self.read += 1
        return self.builder.load(place)

    def value(self, kind: Any) -> Any:
        if isinstance(kind, types.BaseTuple):
            return self.context.make_tuple(self.builder, kind, [self.value(part) for part in _parts(kind)])
        if isinstance(kind, types.Array):
            return self.array(kind)
        word = self.word()
        if isinstance(kind, types.Float):
            return self.builder.bitcast(word, ir.DoubleType())
        return self.context.cast(self.builder, word, types.int64, kind)

    def field(self, address: Any, offset: int, kind: Any = WORD) -> Any:
        place = self.builder.add(address, WORD(offset))
        return self.builder.load(self.builder.inttoptr(place, kind.as_pointer()))

    def expect(self, holds: Any) -> None:
        """Return from the entry if a condition does not hold."""
        with self.builder.if_then(self.builder.not_(holds), likely=False):
            self.builder.ret(HALF(OTHER_TYPES))

    def array(self, kind: Any) -> Any:
        """Return an array as numba passes it, from its object."""
        builder, address = self.builder, self.word()
        for offset, place in ((HEADER_SIZE - 8, 0), (HEADER_SIZE + DTYPE, 1 + self.arrays)):
            expected = builder.load(builder.gep(self.types, [WORD(place)]))
            self.expect(builder.icmp_unsigned("==", self.field(address, offset), expected))
        self.arrays += 1
        ndim = self.field(address, HEADER_SIZE + NDIM, HALF)
        self.expect(builder.icmp_unsigned("==", ndim, HALF(kind.ndim)))
        wanted = HALF(ALIGNED | (CONTIGUOUS if kind.layout == "C" else 0))
        flags = builder.and_(self.field(address, HEADER_SIZE + FLAGS, HALF), wanted)
        self.expect(builder.icmp_unsigned("==", flags, wanted))
        shape, strides = (self.field(address, HEADER_SIZE + each) for each in (SHAPE, STRIDES))
        sizes = [self.field(shape, 8 * axis) for axis in range(kind.ndim)]
        array = self.context.make_array(kind)(self.context, builder)
        array.data = builder.inttoptr(self.field(address, HEADER_SIZE + DATA), array.data.type)
        array.shape = cgutils.pack_array(builder, sizes)
        array.strides = cgutils.pack_array(builder, [self.field(strides, 8 * axis) for axis in range(kind.ndim)])
        items = WORD(1)
        for size in sizes:
            items = builder.mul(items, size)
        array.nitems = items
        array.itemsize = WORD(as_dtype(kind.dtype).itemsize)
        array.meminfo = array.meminfo.type(None)
        array.parent = array.parent.type(None)
        return array._getvalue()  # no public name


@register_pass(mutates_CFG=True, analysis_only=False)
class _Lowering(BaseNativeLowering):
    _name: Any = "lowering_with_entry"

    @property
    def lowering_class(self) -> Any:
        return _Lower


class _Part(JITCodeLibrary):
    """The code of a helper, which is only linked into kernels: these are optimized with all that is in them.

    Numba would optimize it and make machine code of it alone, which takes longer than the kernels themselves.
    """

    def _optimize_final_module(self) -> None:
        return

    def _finalize_final_module(self) -> None:
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        """Return none, as Python does not call it."""
        self._ensure_finalized()
        return 0

    @property
    def codegen(self) -> Any:
        """What takes the environments of functions that Python calls."""
        return self

    def set_env(self, name: str, env: Any) -> None:
        """Drop the environment."""


@register_pass(mutates_CFG=True, analysis_only=False)
class _HelperLowering(NativeLowering):
    _name: Any = "lowering_of_helper"

    def run_pass(self, state: Any) -> bool:
        state.library = _Part(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.enable_object_caching()
        return bool(super().run_pass(state))


class _Compiler(CompilerBase):
    """Numba's compiler, but for the entry."""

    def define_pipelines(self) -> list[Any]:
        return _passes(self.state, _Lowering)


class _HelperCompiler(CompilerBase):
    """Numba's compiler of what is only linked."""

    def define_pipelines(self) -> list[Any]:
        return _passes(self.state, _HelperLowering)


#: Passes for what kernels do not have: closures, ``with``, literals as types, arrays as operands; and annotations.
_NOT_NEEDED = (
    *("WithLift", "InlineClosureLikes", "InlineInlinables", "FindLiterallyCalls", "LiteralUnroll"),
    *("LiteralPropagationSubPipelinePass", "MakeFunctionToJitFunction", "NopythonRewrites", "InlineOverloads"),
    *("AnnotateTypes", "RewriteSemanticConstants", "DeadBranchPrune"),
)


def _passes(state: Any, lowering: Any) -> list[Any]:
    passes = DefaultPassBuilder.define_nopython_pipeline(state)
    passes.passes = [
        (lowering if each is NativeLowering else each, text)
        for each, text in passes.passes
        if each.__name__ not in _NOT_NEEDED
    ]
    state.type_annotation = None
    passes.finalize()
    return [passes]
