"""Encodings: how values of one type are read from bytes and written, and what composes them.

::

    changes = many(of(StateChange))              # i32 n  {i32 keyGroup  blob change}[n]

A type checker compares an encoding with the annotation of the field that has it (:mod:`.structs`). It is compiled once
for each version (:meth:`Encoding.at`), so that reading tests no version. Encodings are composed by functions:
:func:`many`, :func:`optional`, :func:`sized`, :func:`after`, :func:`by_version`.

Bytes may be hostile. A count is limited by the bytes that follow it: each encoding knows the fewest bytes of a value
(``least``).
"""

from __future__ import annotations

import struct as _struct
from collections.abc import Callable, Hashable, Iterable, Mapping
from enum import IntEnum
from functools import cache
from typing import Any, Generic, TypeVar

from pyspark_savepoint.formats.data_view import DataInputView, DataOutputView
from pyspark_savepoint.formats.java import is_well_formed

T = TypeVar("T")
U = TypeVar("U")
E = TypeVar("E", bound=IntEnum)
Read = Callable[[DataInputView, str], T]
Write = Callable[[DataOutputView, T], object]
#: The version of what has only one.
ANY_VERSION = 1 << 31


class Encoding(Generic[T]):
    """How values are read, given what an error calls them, and written; a value has at least ``least`` bytes.

    ``blank`` is a value whose bytes are all zero, and the number of them: several of these are read at once. ``code``
    is that of a number in module ``struct``.
    """

    __slots__ = ("_least", "blank", "code", "read", "write")

    def __init__(
        self, read: Read[T], write: Write[T], least: int, blank: tuple[T, int] | None = None, code: str = ""
    ) -> None:
        self.code = code
        self.read = read
        self.write = write
        self._least = least
        self.blank = blank

    @property
    def least(self) -> int:
        """The fewest bytes of a value."""
        return self._least

    def at(self, version: int) -> Encoding[T]:
        """Return the encoding of a version."""
        return self

    def bytes(self, value: T) -> bytes:
        """Return the bytes of a value."""
        out = DataOutputView()
        self.write(out, value)
        return out.getvalue()


class ByVersion(Encoding[T]):
    """An encoding that is compiled when a version is known."""

    __slots__ = ("_compile",)

    def __init__(self, compile_at: Callable[[int], Encoding[T]]) -> None:
        self._compile = cache(compile_at)
        super().__init__(lambda view, what: self.at(ANY_VERSION).read(view, what), self._write_any, 0)

    def _write_any(self, out: DataOutputView, value: T) -> None:
        self.at(ANY_VERSION).write(out, value)

    def at(self, version: int) -> Encoding[T]:
        return self._compile(version)


def number(code: str) -> Encoding[int]:
    """Return the encoding of a number with a code of module ``struct``."""
    form = _struct.Struct(code)

    def read(view: DataInputView, what: str) -> int:
        value: int = form.unpack(view.read(form.size, what))[0]
        return value

    return Encoding(read, lambda out, value: out.write(form.pack(value)), form.size)


I8, U32, LE_I32, LE_U32, LE_I64 = map(number, (">b", ">I", "<i", "<I", "<q"))
U8 = Encoding(DataInputView.read_u8, DataOutputView.write_u8, 1)
I16 = Encoding(DataInputView.read_i16, DataOutputView.write_i16, 2)
I32 = Encoding(DataInputView.read_i32, DataOutputView.write_i32, 4, code="i")
I64 = Encoding(DataInputView.read_i64, DataOutputView.write_i64, 8, code="q")
BOOL = Encoding(DataInputView.read_bool, DataOutputView.write_bool, 1)
UTF = Encoding(DataInputView.read_utf, DataOutputView.write_utf, 2)
BLOB = Encoding(DataInputView.read_blob, DataOutputView.write_blob, 4)
STRING_VALUE = Encoding(DataInputView.read_string_value, DataOutputView.write_string_value, 1)
#: All bytes that are left.
REST = Encoding(lambda view, what: view.read(view.remaining, what), DataOutputView.write, 0)


def _read_longs(view: DataInputView, what: str) -> tuple[int, ...]:
    count = view.read_count(what, each=8)
    start = view.position
    view.position = start + 8 * count
    return _struct.unpack_from(f">{count}q", view.data, start)


def _write_longs(out: DataOutputView, values: tuple[int, ...]) -> None:
    out.buffer += _struct.pack(f">i{len(values)}q", len(values), *values)


#: A count, and longs.
LONGS: Encoding[tuple[int, ...]] = Encoding(_read_longs, _write_longs, 4, ((), 4))
#: The version in which a structure is read and written: no bytes.
VERSION: Encoding[int] = ByVersion(lambda version: implied(version))


def implied(value: T) -> Encoding[T]:
    """Return the encoding of a value that a version implies: it has no bytes."""
    return Encoding(lambda *_: value, lambda *_: None, 0)


def codes(names: type[E], number: Encoding[int]) -> Encoding[E]:
    """Return the encoding of constants as their numbers."""
    members = {int(name): name for name in names}

    def read(view: DataInputView, what: str) -> E:
        code = number.read(view, what)
        if code not in members:
            view.position -= number.least
            view.fail(f"{what}: one of {sorted(members)}", code)
        return members[code]

    return Encoding(read, number.write, number.least)


def valid(encoding: Encoding[T], is_valid: Callable[[T], bool], expected: str) -> Encoding[T]:
    """Return the encoding of values that are valid; others are an error where they begin."""

    def read(view: DataInputView, what: str) -> T:
        start, value = view.position, encoding.read(view, what)
        if not is_valid(value):
            view.position = start
            view.fail(expected, value)
        return value

    return Encoding(read, encoding.write, encoding.least)


def well_formed(encoding: Encoding[T]) -> Encoding[T]:
    """Return the encoding of texts that columns can hold: without lone surrogates."""

    def read(view: DataInputView, what: str) -> T:
        start, text = view.position, encoding.read(view, what)
        if isinstance(text, str) and not is_well_formed(text):
            view.position = start
            view.fail(f"{what} without lone surrogates")
        return text

    return Encoding(read, encoding.write, encoding.least)


#: ``writeUTF`` of a text that columns can hold.
COLUMN_TEXT = well_formed(UTF)


def at_least(number: Encoding[int], limit: int, expected: str) -> Encoding[int]:
    """Return the encoding of a number from a limit on; ``expected`` says what is, where ``{}`` is what it is called."""
    read_any = number.read

    def read(view: DataInputView, what: str) -> int:
        value = read_any(view, what)
        if value < limit:
            view.position -= number.least
            view.fail(expected.format(what), value)
        return value

    return Encoding(read, number.write, number.least)


def at_most(limit: int) -> Encoding[int]:
    """Return the encoding of an int from 0 to a limit."""
    return Encoding(lambda view, what: view.read_count(what, each=0, limit=limit), DataOutputView.write_i32, 4)


def count_of(each: int) -> Encoding[int]:
    """Return the encoding of the number of items that follow, which have at least so many bytes each."""
    return Encoding(lambda view, what: view.read_count(what, each), DataOutputView.write_i32, 4)


def constant(number: Encoding[int], value: int, what: str) -> Encoding[None]:
    """Return the encoding of a number that is always the same, such as a magic number."""
    mask = (1 << 8 * number.least) - 1

    def shown(code: int) -> str:
        return str(code) if -1 <= value <= 9 else f"{code & mask:#0{2 + 2 * number.least}x}"

    def read(view: DataInputView, _: str) -> None:
        found = number.read(view, what)
        if found != value:
            view.position -= number.least
            view.fail(f"{what} {shown(value)}", shown(found))

    return Encoding(read, lambda out, _: number.write(out, value), number.least)


def after(before: Iterable[Encoding[None]], encoding: Encoding[T]) -> Encoding[T]:
    """Return an encoding with constants before it."""
    constants = tuple(before)

    def compiled(version: int) -> Encoding[T]:
        inner = encoding.at(version)

        def read(view: DataInputView, what: str) -> T:
            for one in constants:
                one.read(view, what)
            return inner.read(view, what)

        def write(out: DataOutputView, value: T) -> None:
            for one in constants:
                one.write(out, None)
            inner.write(out, value)

        return Encoding(read, write, inner.least + sum(one.least for one in constants))

    return ByVersion(compiled)


def optional(encoding: Encoding[T], flag: Encoding[Any] = BOOL, asked: str = "") -> Encoding[T | None]:
    """Return the encoding of a value that may be None: a flag, and the value if it is 1."""

    def compiled(version: int) -> Encoding[T | None]:
        inner = encoding.at(version)
        none, some = flag.bytes(False), flag.bytes(True)

        def read(view: DataInputView, what: str) -> T | None:
            return inner.read(view, what) if flag.read(view, asked or f"whether there is {what}") else None

        def write(out: DataOutputView, value: T | None) -> None:
            if value is None:
                out.buffer += none
            else:
                out.buffer += some
                inner.write(out, value)

        return Encoding(read, write, flag.least, (None, flag.least))

    return ByVersion(compiled)


def _read_count(count: Encoding[int], view: DataInputView, what: str, each: int, called: str = "") -> int:
    """Read a number of items of at least ``each`` bytes; it is limited by the remaining bytes."""
    start, value = view.position, count.read(view, called or f"the number of {what}")
    most = view.remaining // each
    if not 0 <= value <= most:
        view.position = start
        view.fail(f"a number of {what} from 0 to {most}", value)
    return value


def many(
    encoding: Encoding[T], number_of: Encoding[int] = I32, behind: Encoding[None] | None = None, each: str = ""
) -> Encoding[tuple[T, ...]]:
    """Return the encoding of a count and values; ``behind`` is a constant between them, ``each`` what a value is."""

    def compiled(version: int) -> Encoding[tuple[T, ...]]:
        inner = encoding.at(version)
        read_one, write_one = inner.read, inner.write

        def read(view: DataInputView, what: str) -> tuple[T, ...]:
            least = inner.least or 1
            count = view.read_count(what, least) if number_of is I32 else _read_count(number_of, view, what, least)
            if behind is not None:
                behind.read(view, what)
            return tuple([read_one(view, each or what) for _ in range(count)]) if count else ()

        def write(out: DataOutputView, values: tuple[T, ...]) -> None:
            number_of.write(out, len(values))
            if behind is not None:
                behind.write(out, None)
            for value in values:
                write_one(out, value)

        least = number_of.least + (behind.least if behind is not None else 0)
        return Encoding(read, write, least, ((), least))

    return ByVersion(compiled)


def pair(first: Encoding[T], what: str, second: Encoding[U], other: str) -> Encoding[tuple[T, U]]:
    """Return the encoding of two values, and what errors call them."""
    return row((first, what), (second, other))


def row(*parts: tuple[Encoding[Any], str]) -> Encoding[Any]:
    """Return the encoding of a tuple of values, and what errors call them."""

    def compiled(version: int) -> Encoding[Any]:
        steps = [(encoding.at(version), what) for encoding, what in parts]

        def write(out: DataOutputView, values: tuple[Any, ...]) -> None:
            for (one, _), value in zip(steps, values, strict=True):
                one.write(out, value)

        def read(view: DataInputView, _: str) -> tuple[Any, ...]:
            return tuple([one.read(view, what) for one, what in steps])

        if all(one.code for one, _ in steps):
            return _numbers("".join([one.code for one, _ in steps]), read)
        return Encoding(read, write, sum(one.least for one, _ in steps))

    return ByVersion(compiled)


def _numbers(codes: str, read_each: Read[tuple[int, ...]]) -> Encoding[tuple[int, ...]]:
    """Return the encoding of numbers that are read and written at once; where bytes are missing, each is read."""
    form = _struct.Struct(">" + codes)

    def read(view: DataInputView, what: str) -> tuple[int, ...]:
        start = view.position
        if view.end - start < form.size:
            return read_each(view, what)
        view.position = start + form.size
        return form.unpack_from(view.data, start)

    def write(out: DataOutputView, values: tuple[int, ...]) -> None:
        out.buffer += form.pack(*values)

    return Encoding(read, write, form.size)


def distinct(encoding: Encoding[tuple[T, ...]], key: Callable[[T], Hashable], expected: str) -> Encoding[tuple[T, ...]]:
    """Return the encoding of values of which no two have the same key."""

    def compiled(version: int) -> Encoding[tuple[T, ...]]:
        inner = encoding.at(version)

        def read(view: DataInputView, what: str) -> tuple[T, ...]:
            values = inner.read(view, what)
            keys = [key(value) for value in values]
            if len(set(keys)) < len(keys):
                known: set[Hashable] = set()
                view.fail(expected, next(one for one in keys if one in known or known.add(one)))  # type: ignore[func-returns-value]
            return values

        return Encoding(read, inner.write, inner.least, inner.blank)

    return ByVersion(compiled)


def sized(encoding: Encoding[T], what: str = "", length: Encoding[int] = I32) -> Encoding[T]:
    """Return the encoding of a length in bytes, and a value of exactly this length; ``what`` is what errors call it."""

    def compiled(version: int) -> Encoding[T]:
        inner = encoding.at(version)

        def read(view: DataInputView, called: str) -> T:
            name = what or called
            count = _read_count(length, view, f"bytes of {name}", 1, f"the length of {name}")
            part_of = view.sub_view(count, name)
            value = inner.read(part_of, called)
            part_of.expect_end(name)
            return value

        def write(out: DataOutputView, value: T) -> None:
            data = inner.bytes(value)
            length.write(out, len(data))
            out.write(data)

        return Encoding(read, write, length.least + inner.least)

    return ByVersion(compiled)


def mapping(key: Encoding[T], value: Encoding[U], what: str) -> Encoding[Mapping[T, U]]:
    """Return the encoding of a count, and keys with their values, all of which errors call the same."""
    entries = many(pair(key, what, value, what))
    return Encoding(
        lambda view, called: dict(entries.read(view, called)),
        lambda out, values: entries.write(out, tuple(values.items())),
        4,
    )


def mapped(encoding: Encoding[T], after_read: Callable[[T], T]) -> Encoding[T]:
    """Return an encoding whose values are completed after they are read."""

    def compiled(version: int) -> Encoding[T]:
        inner = encoding.at(version)
        return Encoding(lambda view, what: after_read(inner.read(view, what)), inner.write, inner.least)

    return ByVersion(compiled)


def by_version(encodings: Mapping[int, Encoding[T]]) -> Encoding[T]:
    """Return the encoding that begins with the greatest of these versions up to the one that is read."""
    return ByVersion(lambda version: encodings[max(since for since in encodings if since <= version)].at(version))


class FromSource(Encoding[T]):
    """An encoding of what is read from more than a view: from the ``source`` that :func:`read_parts` is given."""

    __slots__ = ("read_from",)

    def __init__(self, read_from: Callable[[Any], T], write: Write[T]) -> None:
        super().__init__(lambda view, _: read_from(view), write, 0)
        self.read_from = read_from


def versioned(
    read: Callable[[DataInputView, int], T], write: Callable[[DataOutputView, T, int], object], least: int
) -> Encoding[T]:
    """Return the encoding of two functions to which the version is given."""
    return ByVersion(
        lambda version: Encoding(
            lambda view, _: read(view, version), lambda out, value: write(out, value, version), least
        )
    )
