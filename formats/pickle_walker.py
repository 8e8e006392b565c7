"""Decoder for PyFlink's pickled values as data: it interprets the opcodes and never unpickles.

A pickle is a program: opcodes push values on a stack, collect the values above a mark, and store values in a memo.
The opcodes that build None, booleans, numbers, strings, bytes, tuples, lists, dicts and sets give these values, of
protocols 0 to 5 as CPython writes them. Opcodes that name a class or call one (GLOBAL, REDUCE, NEWOBJ, BUILD, INST,
OBJ) give a description of the call (``pickled_objects.py``), so nothing is ever imported or called. Persistent ids and
extensions, which are defined outside of the pickle, raise an error.

Tuples and sets become arrays; a dict becomes an object, or an array of ``{"key", "value"}`` if a key is not a string.
datetime, date and Decimal become TIMESTAMP (or TIMESTAMP_NTZ), DATE and DECIMAL; a time or UUID becomes a text, a
timedelta its seconds as DECIMAL. Other objects become ``{"__class": "module.Name", field: value, ...}``, with
``__args`` where a class is called with arguments (namedtuples and enums).
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa

from pyspark_savepoint.formats.errors import (
    CorruptStateError,
    SavepointError,
    UndecodableStateError,
    ValueRangeError,
)
from pyspark_savepoint.formats.pickled_objects import (
    NAME,
    Duration,
    Global,
    Instance,
    PickledDict,
    WrongArgumentsError,
    Zone,
    call,
    size_of,
)
from pyspark_savepoint.formats.variant import FREE_GROWTH, MAX_DEPTH, MAX_GROWTH, VariantError, variant_array

#: Rows from which on it is faster to read pickles together.
MANY = 32
MAX_PROTOCOL = 5
#: The first opcode of every pickle since protocol 2.
PROTO = b"\x80"
#: Largest integer, in bytes.
MAX_NUMBER = 4096
#: Elements that conversions of a value may touch: a base, and more for each byte.
FREE_WORK, WORK_PER_BYTE = 1 << 12, 4
#: Longest name of a class, in characters.
MAX_NAME = 1024
RAW = 'read the state as bytes: option("raw", "<state>")'
#: Values that are described, rather than being values of a variant.
OBJECTS = (Instance, Duration, Zone, Global)
DECIMAL_FLOAT = re.compile(rb"-?(inf|nan|[0-9]+(\.[0-9]*)?(e[-+]?[0-9]+)?)")


class _Mark:
    """Marker on the stack for the start of a group."""


def _variants(column: pa.Array, value_of: Callable[[bytes], Any], framed: bool) -> pa.Array:
    """Return a column of values, or of their bytes where a variant cannot hold them."""
    if len(column) >= MANY:
        from pyspark_savepoint.formats.pickle_columns import read_together, rows_one_by_one

        with suppress(VariantError):
            first = [_one_by_one(column[some], value_of) for some in rows_one_by_one(len(column))]
            rest = column[sum(map(len, first)) :]
            if not len(rest):
                return pa.concat_arrays(first)
            together, variants = read_together(rest, framed, FREE_GROWTH + MAX_GROWTH * rest.nbytes)
            if together.all():
                return pa.concat_arrays([*first, variants])
            if together.any():
                others = _one_by_one(rest.filter(pa.array(~together)), value_of)
                places = np.argsort(np.append(np.flatnonzero(together), np.flatnonzero(~together)))
                return pa.concat_arrays([*first, pa.concat_arrays([variants, others]).take(pa.array(places))])
    try:
        return _one_by_one(column, value_of)
    except VariantError as error:
        raise ValueRangeError(
            f"a pickled value cannot be a VARIANT: {error}", found=", ".join(error.__notes__), remedy=RAW
        ) from None


def _one_by_one(column: pa.Array, value_of: Callable[[bytes], Any]) -> pa.Array:
    rows = column.to_pylist()
    return variant_array((None if data is None else value_of(data) for data in rows), column.nbytes, rows)


def decode_pyflink(column: pa.Array) -> pa.Array:
    """Convert a column of PyFlink's byte[] values to variants; a value that is not a plain pickle becomes BINARY.

    PyFlink writes ``i32 length  pickle``, and several of them where it flushes a batch: those become an array.
    """
    return _variants(column, _unframed, True)


def _unframed(data: bytes) -> Any:
    """Return the pickled value, a list of several values, or ``data`` itself if it is not a plain pickle."""
    values, at = [], 0
    try:
        if data[:1] == PROTO:
            return read_pickle(data)
        while at < len(data):
            end = at + 4 + int.from_bytes(data[at : at + 4], "big")
            if data[at + 4 : at + 5] != PROTO or end > len(data):
                return data
            values.append(read_pickle(data[at + 4 : end]))
            at = end
    except SavepointError:
        return data
    return values[0] if len(values) == 1 else values or data


def decode_pickled_or_binary(column: pa.Array) -> pa.Array:
    """Convert a column of pickles to variants; a value that is not a pickle, or not a variant, becomes BINARY in it."""

    def value_of(data: bytes) -> Any:
        try:
            return read_pickle(data)
        except SavepointError:
            return data

    return _variants(column, value_of, False)


def is_pickle(data: bytes) -> bool:
    """Return whether all bytes together are one pickle of protocol 2 or later."""
    if data[:1] != PROTO:
        return False
    try:
        _Walker(data, 0).run()
    except SavepointError:
        return False
    return True


def read_pickle(data: bytes, row: int = 0) -> Any:
    """Return the value of one pickle as plain data; ``row`` is used in errors only."""
    walker = _Walker(data, row)
    value = walker.run()
    return _plain(value, 0, {}, walker)


@dataclass
class _Walker:
    data: bytes
    row: int
    position: int = 0
    stack: list[Any] = field(default_factory=list)
    memo: dict[int, Any] = field(default_factory=dict)
    #: Elements that conversions of objects touched, and what those made, which lives as long as the walker.
    work: int = 0
    objects: list[Any] = field(default_factory=list)

    def fail(self, expected: str, found: object = None) -> NoReturn:
        """Raise a CorruptStateError at this position."""
        raise CorruptStateError(
            "the bytes are not a pickle as CPython writes it",
            expected=expected,
            found=found,
            offset=f"{self.position} of the value in row {self.row}",
            remedy="the file is damaged, or the state holds something else: " + RAW,
        )

    def run(self) -> Any:
        """Execute the opcodes up to STOP, which must be the last byte."""
        data, end, steps = self.data, len(self.data), STEPS
        while True:
            # What `take` does: each opcode would call it.
            position = self.position
            if position >= end:
                self.take(1)
            self.position = position + 1
            code = data[position : position + 1]
            if code == b".":
                break
            step = steps.get(code)
            if step is None:
                self._refuse(code)
            step(self)
        if self.position != len(self.data) or len(self.stack) != 1 or self.stack[0] is _Mark:
            self.fail("one value and the end of the bytes")
        return self.stack[0]

    def _refuse(self, code: bytes) -> NoReturn:
        raise UndecodableStateError(
            "a pickled value refers to an object outside of its bytes",
            expected="opcodes of CPython, without persistent ids and extensions",
            found=f"opcode {code.hex()} at byte {self.position - 1} of the value in row {self.row}",
            remedy=RAW,
        )

    def take(self, count: int) -> bytes:
        """Return the next ``count`` bytes."""
        end = self.position + count
        if end > len(self.data):
            self.fail(f"{count} more bytes", f"{len(self.data) - self.position} bytes until the end")
        self.position = end
        return self.data[end - count : end]

    def number(self, width: int) -> int:
        """Read an unsigned little-endian integer."""
        return int.from_bytes(self.take(width), "little")

    def line(self) -> bytes:
        """Read the bytes up to a line feed, as in text protocol 0."""
        end = self.data.find(b"\n", self.position)
        if end < 0:
            self.fail("the end of a line")
        return self.take(end + 1 - self.position)[:-1]

    def line_number(self, suffix: bytes = b"") -> int:
        """Read a line of decimal digits."""
        text = self.line().removesuffix(suffix)
        if not re.fullmatch(rb"-?[0-9]+", text) or len(text) > MAX_NUMBER:
            self.fail("a whole number", text[:40])
        return int(text)

    def pop(self) -> Any:
        if not self.stack or self.stack[-1] is _Mark:
            self.fail("a value on the stack")
        return self.stack.pop()

    def top(self, kind: type, what: str) -> Any:
        """Return the topmost value, which must be an instance of ``kind``."""
        if not self.stack or type(self.stack[-1]) is not kind:
            self.fail(f"{what} on the stack")
        return self.stack[-1]

    def elements(self) -> list[Any]:
        """Return the elements of the topmost list, set or object."""
        top = self.stack[-1] if self.stack else None
        elements: list[Any] = top.items if isinstance(top, Instance) else self.top(list, "a list or set")
        return elements

    def entries(self) -> list[tuple[Any, Any]]:
        """Return the entries of the topmost dict or object."""
        top = self.stack[-1] if self.stack else None
        mapping: PickledDict = top.entries if isinstance(top, Instance) else self.top(PickledDict, "a dict")
        return mapping.items

    def count(self, size: int) -> None:
        """Count elements that a conversion touches: parts may be shared, so only their number bounds the work."""
        self.work += size
        if self.work > FREE_WORK + WORK_PER_BYTE * len(self.data):
            raise ValueRangeError(
                f"a pickled value expands to more than {WORK_PER_BYTE} elements per byte",
                found=f"row {self.row}",
                remedy=RAW,
            )

    def call(self, called: Any, arguments: Any) -> Any:
        """Return the value of a call."""
        self.count(size_of(arguments) + sum(map(size_of, arguments if isinstance(arguments, tuple) else ())))
        try:
            return call(called, arguments)
        except WrongArgumentsError as error:
            self.fail("a call as CPython writes it", error)

    def group(self) -> list[Any]:
        """Pop the values above the topmost mark, and the mark."""
        start = len(self.stack) - 1
        while start >= 0 and self.stack[start] is not _Mark:
            start -= 1
        if start < 0:
            self.fail("a mark on the stack")
        values = self.stack[start + 1 :]
        del self.stack[start:]
        return values

    def pairs(self) -> list[tuple[Any, Any]]:
        """Pop the values above the topmost mark as pairs of key and value."""
        values = self.group()
        if len(values) % 2:
            self.fail("as many keys as values")
        return list(zip(values[::2], values[1::2], strict=True))

    def text(self, size: int) -> str:
        """Read ``size`` bytes of UTF-8; lone surrogates are kept."""
        data = self.take(size)
        try:
            return data.decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            self.fail("a text in UTF-8", data[:40])

    def remember(self, index: int) -> None:
        """Store the topmost value in the memo."""
        if not self.stack or self.stack[-1] is _Mark:
            self.fail("a value on the stack")
        self.memo[index] = self.stack[-1]

    def recall(self, index: int) -> Any:
        """Return a value of the memo."""
        if index not in self.memo:
            self.fail("a value in the memo", index)
        return self.memo[index]


def _push(read: Callable[[_Walker], Any]) -> Callable[[_Walker], None]:
    """Return a step that pushes the result of ``read``."""
    return lambda walker: walker.stack.append(read(walker))


def _make(new: Callable[[], Any]) -> Callable[[_Walker], None]:
    """Return a step that pushes a new value."""
    return lambda walker: walker.stack.append(new())


def _whole(walker: _Walker, width: int) -> int:
    size = walker.number(width)
    if size > MAX_NUMBER:
        walker.fail(f"a number of at most {MAX_NUMBER} bytes", size)
    return int.from_bytes(walker.take(size), "little", signed=True)


def _int_line(walker: _Walker) -> int | bool:
    """Read the argument of ``I``: a number, or a boolean as 00 or 01."""
    if walker.data[walker.position : walker.position + 3] in (b"00\n", b"01\n"):
        return walker.line() == b"01"
    return walker.line_number()


def _float_line(walker: _Walker) -> float:
    text = walker.line()
    if not DECIMAL_FLOAT.fullmatch(text):
        walker.fail("a number", text[:40])
    return float(text)


def _float(walker: _Walker) -> float:
    (value,) = struct.unpack(">d", walker.take(8))
    return float(value)


def _unicode_line(walker: _Walker) -> str:
    line = walker.line()
    try:
        return line.decode("raw-unicode-escape")
    except UnicodeDecodeError:
        walker.fail("a text in escaped Unicode", line[:40])


def _tuple(size: int) -> Callable[[_Walker], tuple[Any, ...]]:
    return lambda walker: tuple([walker.pop() for _ in range(size)][::-1])


def _protocol(walker: _Walker) -> None:
    protocol = walker.number(1)
    if protocol > MAX_PROTOCOL:
        walker.fail(f"a protocol from 0 to {MAX_PROTOCOL}", protocol)


def _frame(walker: _Walker) -> None:
    size = walker.number(8)
    if size > len(walker.data) - walker.position:
        walker.fail("a frame inside the value", f"{size} bytes")


def _pop(walker: _Walker) -> None:
    walker.pop()


def _append(walker: _Walker) -> None:
    value = walker.pop()
    walker.elements().append(value)


def _appends(walker: _Walker) -> None:
    values = walker.group()
    walker.elements().extend(values)


def _set_item(walker: _Walker) -> None:
    value, key = walker.pop(), walker.pop()
    walker.entries().append((key, value))


def _set_items(walker: _Walker) -> None:
    pairs = walker.pairs()
    walker.entries().extend(pairs)


def _global(walker: _Walker, module: Any, name: Any) -> Global:
    if not isinstance(name, str) or not isinstance(module, str) or len(name) + len(module) > MAX_NAME:
        walker.fail(f"the names of a module and of a class, of at most {MAX_NAME} characters")
    return Global(module, name)


def _global_lines(walker: _Walker) -> Global:
    try:
        return _global(walker, walker.line().decode(), walker.line().decode())
    except UnicodeDecodeError:
        walker.fail("a name in UTF-8")


def _stack_global(walker: _Walker) -> Global:
    name, module = walker.pop(), walker.pop()
    return _global(walker, module, name)


def _reduce(walker: _Walker) -> Any:
    arguments, called = walker.pop(), walker.pop()
    return walker.call(called, arguments)


def _new_object(walker: _Walker) -> Instance:
    arguments, kind = walker.pop(), walker.pop()
    if not isinstance(arguments, tuple):
        walker.fail("arguments on the stack")
    return Instance(kind, arguments)


def _new_object_with_names(walker: _Walker) -> Instance:
    names, arguments, kind = walker.pop(), walker.pop(), walker.pop()
    if not isinstance(arguments, tuple) or not isinstance(names, PickledDict):
        walker.fail("arguments on the stack")
    return Instance(kind, (*arguments, names) if names.items else arguments)


def _instance_of_name(walker: _Walker) -> Any:
    kind = _global_lines(walker)
    return walker.call(kind, tuple(walker.group()))


def _instance(walker: _Walker) -> Any:
    values = walker.group()
    if not values:
        walker.fail("a class on the stack")
    return walker.call(values[0], tuple(values[1:]))


def _build(walker: _Walker) -> None:
    """Set the state of an object; the attributes of a subclass of a plain type are left out."""
    state = walker.pop()
    if not walker.stack or walker.stack[-1] is _Mark:
        walker.fail("an object on the stack")
    if isinstance(walker.stack[-1], Instance):
        walker.stack[-1].state = state


STEPS: Mapping[bytes, Callable[[_Walker], None]] = {
    b"\x80": _protocol,
    b"\x95": _frame,
    b"(": _make(lambda: _Mark),
    b"0": _pop,
    b"1": lambda walker: walker.group().clear(),
    b"N": _make(lambda: None),
    b"\x88": _make(lambda: True),
    b"\x89": _make(lambda: False),
    b"I": _push(_int_line),
    b"J": _push(lambda walker: int.from_bytes(walker.take(4), "little", signed=True)),
    b"K": _push(lambda walker: walker.number(1)),
    b"M": _push(lambda walker: walker.number(2)),
    b"L": _push(lambda walker: walker.line_number(b"L")),
    b"\x8a": _push(lambda walker: _whole(walker, 1)),
    b"\x8b": _push(lambda walker: _whole(walker, 4)),
    b"F": _push(_float_line),
    b"G": _push(_float),
    b"V": _push(_unicode_line),
    b"X": _push(lambda walker: walker.text(walker.number(4))),
    b"\x8c": _push(lambda walker: walker.text(walker.number(1))),
    b"\x8d": _push(lambda walker: walker.text(walker.number(8))),
    b"B": _push(lambda walker: walker.take(walker.number(4))),
    b"C": _push(lambda walker: walker.take(walker.number(1))),
    b"\x8e": _push(lambda walker: walker.take(walker.number(8))),
    b"\x96": _push(lambda walker: walker.take(walker.number(8))),
    b")": _push(_tuple(0)),
    b"\x85": _push(_tuple(1)),
    b"\x86": _push(_tuple(2)),
    b"\x87": _push(_tuple(3)),
    b"t": _push(lambda walker: tuple(walker.group())),
    b"]": _make(list),
    b"l": _push(lambda walker: walker.group()),
    b"a": _append,
    b"e": _appends,
    b"}": _make(PickledDict),
    b"d": _push(lambda walker: PickledDict(walker.pairs())),
    b"s": _set_item,
    b"u": _set_items,
    b"\x8f": _make(list),
    b"\x90": _appends,
    b"\x91": _push(lambda walker: walker.group()),
    b"c": _push(_global_lines),
    b"\x93": _push(_stack_global),
    b"R": _push(_reduce),
    b"\x81": _push(_new_object),
    b"\x92": _push(_new_object_with_names),
    b"i": _push(_instance_of_name),
    b"o": _push(_instance),
    b"b": _build,
    b"p": lambda walker: walker.remember(walker.line_number()),
    b"q": lambda walker: walker.remember(walker.number(1)),
    b"r": lambda walker: walker.remember(walker.number(4)),
    b"\x94": lambda walker: walker.remember(len(walker.memo)),
    b"g": _push(lambda walker: walker.recall(walker.line_number())),
    b"h": _push(lambda walker: walker.recall(walker.number(1))),
    b"j": _push(lambda walker: walker.recall(walker.number(4))),
}


def _plain(value: Any, depth: int, done: dict[int, Any], walker: _Walker) -> Any:
    """Convert to Python's lists and dicts; shared values stay shared."""
    if not isinstance(value, (list, tuple, PickledDict, *OBJECTS)):
        return value
    if id(value) in done:
        return done[id(value)]
    if depth > MAX_DEPTH:
        raise ValueRangeError(
            f"a pickled value is nested deeper than {MAX_DEPTH}, or contains itself",
            found=f"row {walker.row}",
            remedy=RAW,
        )
    plain: Any
    if isinstance(value, Global):
        plain = {NAME: str(value)}
    elif isinstance(value, OBJECTS):
        walker.count(size_of(value))
        walker.objects.append(value.parts())
        plain = _plain(walker.objects[-1], depth + 1, done, walker)
    elif isinstance(value, PickledDict):
        pairs = [tuple(_plain(part, depth + 1, done, walker) for part in pair) for pair in value.items]
        texts = all(isinstance(key, str) for key, _ in pairs)
        plain = dict(pairs) if texts else [{"key": key, "value": item} for key, item in pairs]
    else:
        plain = [_plain(item, depth + 1, done, walker) for item in value]
    done[id(value)] = plain
    return plain
