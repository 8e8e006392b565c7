"""Structures of bytes: a class declares its fields once, and both reading and writing follow the declaration.

::

    @struct
    class StateChange(Struct):
        key_group: int = part(I32, "a key group")
        change: bytes = part(BLOB, "a change", shown=False)

    changes = many(of(StateChange))              # i32 n  {i32 keyGroup  blob change}[n]

An :class:`Encoding` is how values of one Python type are read and written; a type checker compares it with the
annotation of the field. A field may exist in some versions only (``since``, ``until``): elsewhere its value is
``absent``, and to write another value there is an error. An encoding is compiled once for each version
(:meth:`Encoding.at`), so that reading tests no version. Encodings are composed by functions: :func:`many`,
:func:`optional`, :func:`sized`, :func:`after`, :func:`by_version`, :class:`OneOf`.

Bytes may be hostile. A count is limited by the bytes that follow it: each encoding knows the fewest bytes of a value
(``least``). Structures that contain each other do so through :class:`OneOf`, which limits the depth.
"""

from __future__ import annotations

import struct as _struct
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields
from enum import IntEnum
from functools import cache
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, dataclass_transform, overload

from pyspark_savepoint.formats.data_view import DataInputView, DataOutputView
from pyspark_savepoint.formats.java import is_well_formed

T = TypeVar("T")
U = TypeVar("U")
S = TypeVar("S", bound="Struct")
E = TypeVar("E", bound=IntEnum)
Read = Callable[[DataInputView, str], T]
Write = Callable[[DataOutputView, T], object]
#: The version of what has only one.
ANY_VERSION = 1 << 31
# Flink nests at most three handles (a changelog of a key-groups handle of a stream); more could overflow the stack.
MAX_DEPTH = 16


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


class _ByVersion(Encoding[T]):
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
VERSION: Encoding[int] = _ByVersion(lambda version: implied(version))


def implied(value: T) -> Encoding[T]:
    """Return the encoding of a value that a version implies: it has no bytes."""
    return Encoding(lambda *_: value, lambda *_: None, 0)


def codes(names: type[E], number: Encoding[int]) -> Encoding[E]:
    """Return the encoding of constants as their numbers."""
    known = {int(name): name for name in names}

    def read(view: DataInputView, what: str) -> E:
        code = number.read(view, what)
        if code not in known:
            view.position -= number.least
            view.fail(f"{what}: one of {sorted(known)}", code)
        return known[code]

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

    return _ByVersion(compiled)


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

    return _ByVersion(compiled)


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

    return _ByVersion(compiled)


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

    return _ByVersion(compiled)


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

    return _ByVersion(compiled)


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

    return _ByVersion(compiled)


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

    return _ByVersion(compiled)


def by_version(encodings: Mapping[int, Encoding[T]]) -> Encoding[T]:
    """Return the encoding that begins with the greatest of these versions up to the one that is read."""
    return _ByVersion(lambda version: encodings[max(since for since in encodings if since <= version)].at(version))


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
    return _ByVersion(
        lambda version: Encoding(
            lambda view, _: read(view, version), lambda out, value: write(out, value, version), least
        )
    )


@dataclass(frozen=True, slots=True)
class _Part:
    """Declaration of a field."""

    encoding: Encoding[Any]
    what: str
    since: int
    until: int
    absent: Any
    droppable: bool
    zeros: int
    check: Callable[..., object] | None


@overload
def part(
    encoding: Encoding[T],
    what: str = ...,
    *,
    since: int = ...,
    until: int = ...,
    absent: object = ...,
    droppable: bool = ...,
    zeros: int = ...,
    check: Callable[..., object] | None = ...,
    shown: bool = ...,
) -> T: ...
@overload
def part(
    encoding: Encoding[T],
    what: str = ...,
    *,
    since: int = ...,
    until: int = ...,
    absent: object = ...,
    droppable: bool = ...,
    zeros: int = ...,
    check: Callable[..., object] | None = ...,
    shown: bool = ...,
    default: U,
) -> T | U: ...


def part(
    encoding: Encoding[Any],
    what: str = "",
    *,
    since: int = 0,
    until: int = ANY_VERSION,
    absent: object = None,
    droppable: bool = False,
    zeros: int = 0,
    check: Callable[..., object] | None = None,
    shown: bool = True,
    default: object = MISSING,
) -> Any:
    """Declare a field of a structure.

    Args:
        encoding: Its encoding.
        what: What errors call it.
        since: The first version that has it.
        until: The last version that has it.
        absent: Its value in the other versions, which can hold no other value.
        droppable: Whether the other versions are written without it, whatever its value is.
        zeros: A number of fields, from this one on, most of which have blank values: all are skipped together if their
            bytes are zero.
        check: Called after it is read, with the view and all values so far, in the order of the bytes; it calls
            ``view.fail`` if they do not fit together.
        shown: Whether ``repr`` shows it.
        default: Its default in the constructor.

    """
    metadata = {_Part: _Part(encoding, what, since, until, absent, droppable, zeros, check)}
    return field(metadata=metadata, repr=shown, **({} if default is MISSING else {"default": default}))  # type: ignore[call-overload]


@dataclass_transform(frozen_default=True, field_specifiers=(part, field))
def struct(cls: type[T]) -> type[T]:
    """Class decorator: a frozen data class whose fields are parts; others have a default, and no bytes."""
    return dataclass(frozen=True, slots=True)(cls)


@dataclass_transform(frozen_default=True, field_specifiers=(part, field))
def struct_with_dict(cls: type[T]) -> type[T]:
    """Class decorator: as :func:`struct`, for classes with cached properties."""
    return dataclass(frozen=True)(cls)


class Struct:
    """Base class of structures.

    ``order`` is the order of the bytes, where it is not that of the fields. ``types`` are the type bytes of the
    structure in a :class:`OneOf`; they are its versions there.
    """

    __slots__ = ()
    types: ClassVar[tuple[int, ...]] = ()
    order: ClassVar[tuple[str, ...]] = ()
    if TYPE_CHECKING:
        __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    @property
    def type_byte(self) -> int:
        """The type byte: the first one, or that of the last field which only later ones have and which is set."""
        return _type_of(type(self))(self)


_PARTS: dict[type[Any], Mapping[str, _Part]] = {}


def _parts(cls: type[Any]) -> Mapping[str, _Part]:
    """Return the declarations of a structure in the order of the bytes."""
    if cls not in _PARTS:
        declared = {one.name: one.metadata[_Part] for one in fields(cls) if _Part in one.metadata}
        order = cls.order if issubclass(cls, Struct) else ()
        _PARTS[cls] = {name: declared[name] for name in order} if order else declared
    return _PARTS[cls]


def _type_of(cls: type[Struct]) -> Callable[[Any], int]:
    first, *others = cls.types
    later = [
        (one.since, attrgetter(name)) for name, one in _parts(cls).items() if one.since in others and one.absent is None
    ]
    if len(later) == 1:
        ((last, get),) = later
        return lambda value: first if get(value) is None else last
    return lambda value: max([first, *(since for since, get in later if get(value) is not None)])


_PartAt = tuple[str, _Part, Encoding[Any] | None, Callable[[Any], Any]]
_PARTS_AT: dict[tuple[type[Any], int], Sequence[_PartAt]] = {}


def _parts_at(cls: type[Any], version: int) -> Sequence[_PartAt]:
    """Return the fields that are declared as parts, with encodings (None if the version has none) and their getters."""
    result = _PARTS_AT.get((cls, version))
    if result is None:
        result = _PARTS_AT[cls, version] = [
            (name, one, one.encoding.at(version) if one.since <= version <= one.until else None, attrgetter(name))
            for name, one in _parts(cls).items()
        ]
    return result


def read_parts(cls: type[Any], view: DataInputView, version: int, source: object) -> dict[str, Any]:
    """Read the fields of a data class that are declared as parts; return them by name, absent ones too."""
    values: dict[str, Any] = {}
    for name, one, encoding, _ in _parts_at(cls, version):
        if encoding is None:
            values[name] = one.absent
            continue
        values[name] = encoding.read_from(source) if isinstance(encoding, FromSource) else encoding.read(view, one.what)
        if one.check is not None:
            one.check(view, *values.values())
    return values


def write_parts(value: Any, out: DataOutputView, version: int) -> None:
    """Write the fields of an object that are declared as parts."""
    for _, _, encoding, get in _parts_at(type(value), version):
        if encoding is not None:
            encoding.write(out, get(value))


_ENCODINGS: dict[type[Any], Encoding[Any]] = {}


def of(cls: type[S]) -> Encoding[S]:
    """Return the encoding of a structure."""
    if cls not in _ENCODINGS:
        _ENCODINGS[cls] = _ByVersion(lambda version: _compiled(cls, version))
    return _ENCODINGS[cls]


def _compiled(cls: type[S], version: int) -> Encoding[S]:
    declared = _parts(cls)
    present = {name: one for name, one in declared.items() if one.since <= version <= one.until}
    encodings = {name: one.encoding.at(version) for name, one in present.items()}
    return Encoding(
        _reader(cls, present, encodings),
        _writer(declared, encodings, version),
        sum(encoding.least for encoding in encodings.values()),
    )


def _reader(cls: type[S], present: Mapping[str, _Part], encodings: Mapping[str, Encoding[Any]]) -> Read[S]:
    build = _builder(cls, present)
    steps = [(encodings[name].read, one.what) for name, one in present.items()]
    if any(one.check is not None for one in present.values()):
        checks = [one.check for one in present.values()]

        def read_checked(view: DataInputView, _: str = "") -> S:
            values: list[Any] = []
            for (read_part, what), check in zip(steps, checks, strict=True):
                values.append(read_part(view, what))
                if check is not None:
                    check(view, *values)
            return build(values)

        return read_checked
    groups = list(_groups(present, encodings))
    if any(zeros for _, zeros, _ in groups):
        blanks_of_all = [encoding.blank for encoding in encodings.values()]
        nothing = build([one[0] for one in blanks_of_all if one]) if all(blanks_of_all) else None

        def read_groups(view: DataInputView, _: str = "") -> S:
            values: list[Any] = []
            for parts, zeros, blanks in groups:
                if zeros and view.skip_zeros(zeros):
                    values += blanks
                else:
                    for read_part, what in parts:
                        values.append(read_part(view, what))
            return build(values) if nothing is None or any(values) else nothing

        return read_groups
    if 2 <= len(steps) <= 3 and [one.name for one in fields(cls)] == list(present):
        return _short_reader(cls, steps)

    def read(view: DataInputView, _: str = "") -> S:
        return build([read_part(view, what) for read_part, what in steps])

    return read


def _short_reader(cls: Callable[..., S], steps: list[tuple[Read[Any], str]]) -> Read[S]:
    """Return the reader of two or three fields, which most structures have: it makes no list."""
    (read_one, one), (read_two, two), *rest = steps

    def read(view: DataInputView, _: str = "") -> S:
        return cls(read_one(view, one), read_two(view, two))

    def read_more(view: DataInputView, _: str = "") -> S:
        return cls(read_one(view, one), read_two(view, two), read_three(view, three))

    if not rest:
        return read
    ((read_three, three),) = rest
    return read_more


def _groups(
    present: Mapping[str, _Part], encodings: Mapping[str, Encoding[Any]]
) -> Iterable[tuple[list[tuple[Read[Any], str]], int, list[Any]]]:
    """Yield fields that are read together: their readers, and the number of zeros in place of blank values."""
    names = list(present)
    while names:
        group = names[: present[names[0]].zeros or 1]
        del names[: len(group)]
        blanks = [encodings[name].blank for name in group]
        known = [blank for blank in blanks if blank is not None]
        zeros = sum(size for _, size in known) if len(known) == len(group) > 1 else 0
        yield [(encodings[name].read, present[name].what) for name in group], zeros, [value for value, _ in known]


def _builder(cls: type[S], present: Mapping[str, _Part]) -> Callable[[list[Any]], S]:
    """Return the function from values in the order of the bytes to the object."""
    declared = fields(cls)
    if [one.name for one in declared][: len(present)] == list(present) and len(present) == len(_parts(cls)):
        return lambda values: cls(*values)
    arguments = [one.name for one in declared if _Part in one.metadata]
    absent = [one.name for one in declared if one.name in arguments and one.name not in present]
    rest = [_parts(cls)[name].absent for name in absent]
    places = {name: place for place, name in enumerate([*present, *absent])}
    if len(arguments) == 1:
        (only,) = arguments
        return lambda values: cls(**{only: (values + rest)[0]})
    arranged = itemgetter(*(places[name] for name in arguments))
    if arguments == [one.name for one in declared[: len(arguments)]]:
        return lambda values: cls(*arranged(values + rest))
    return lambda values: cls(**dict(zip(arguments, arranged(values + rest), strict=True)))


def _writer(declared: Mapping[str, _Part], encodings: Mapping[str, Encoding[Any]], version: int) -> Write[Any]:
    lost = [
        (name, attrgetter(name), one.absent)
        for name, one in declared.items()
        if name not in encodings and not one.droppable
    ]
    writers = [_needed(name, encoding, declared[name], version) for name, encoding in encodings.items()]
    write = _writer_of(writers, attrgetter(*encodings or ["__class__"]))
    if any(one.zeros for one in declared.values()):
        write = _sparse_writer(encodings)
    if not lost:
        return write

    def write_checked(out: DataOutputView, value: Any) -> None:
        for name, get, absent in lost:
            if get(value) != absent:
                raise ValueError(f"version {version} cannot hold {name.replace('_', ' ')}")
        write(out, value)

    return write_checked


def _needed(name: str, encoding: Encoding[Any], one: _Part, version: int) -> Write[Any]:
    """Return the writer of a field; None is an error if this version needs a value that others do not have."""
    if not one.since or one.absent is not None or encoding.blank is not None:
        return encoding.write

    def write(out: DataOutputView, value: Any) -> None:
        if value is None:
            raise ValueError(f"version {version} needs {one.what or name.replace('_', ' ')}")
        encoding.write(out, value)

    return write


def _writer_of(writers: list[Write[Any]], values_of: Callable[[Any], Any]) -> Write[Any]:
    def write(out: DataOutputView, value: Any) -> None:
        for write_part, one in zip(writers, values_of(value)):  # noqa: B905 (as many; strict takes time)
            write_part(out, one)

    def write_two(out: DataOutputView, value: Any) -> None:
        first, second = values_of(value)
        write_first(out, first)
        write_second(out, second)

    def write_three(out: DataOutputView, value: Any) -> None:
        first, second, third = values_of(value)
        write_first(out, first)
        write_second(out, second)
        write_third(out, third)

    if len(writers) < 2:
        return (lambda out, value: writers[0](out, values_of(value))) if writers else lambda *_: None
    write_first, write_second, *rest = writers
    if len(rest) == 1:
        (write_third,) = rest
    return (write_two, write_three, write)[min(len(rest), 2)]


def _sparse_writer(encodings: Mapping[str, Encoding[Any]]) -> Write[Any]:
    """Return the writer of fields most of which are blank: their zeros are written without a call."""
    values_of = attrgetter(*encodings)
    steps = [(one.write, None if one.blank is None else bytes(one.blank[1])) for one in encodings.values()]

    def write(out: DataOutputView, value: Any) -> None:
        for (write_part, zeros), one in zip(steps, values_of(value)):  # noqa: B905 (as many; strict takes time)
            if one or zeros is None:
                write_part(out, one)
            else:
                out.buffer += zeros

    return write


class OneOf(Encoding[T]):
    """A type byte, and the structure of that type.

    The structures are given by a function, because they may contain each other; without a mapping, their type bytes
    are those of the classes. ``optional`` is the encoding where none, type 0, is allowed; some (``has_none=False``) do
    not have this type.
    """

    __slots__ = ("_all_writers", "_has_none", "_members", "_readers", "_tag", "_what", "_writers", "optional")

    def __init__(
        self,
        what: str,
        members: Callable[[], Sequence[type[Struct]] | Mapping[int, type[Struct]]],
        tag: str = "the type of a handle",
        *,
        has_none: bool = True,
    ) -> None:
        self._what = what
        self._members = members
        self._tag = tag
        self._has_none = has_none
        self._readers: dict[int, Read[T]] = {}
        self._writers: dict[type[Any], tuple[int, Write[Any], Callable[[Any], int] | None]] = {}
        self._all_writers: dict[int, Write[Any]] = {}
        write = self._writer()
        super().__init__(self._reader(required=True), write, 0)
        self.optional: Encoding[T | None] = Encoding(self._reader(required=False), write, 1, (None, 1))

    @property
    def types(self) -> Mapping[int, type[Struct]]:
        """The structures by type byte."""
        members = self._members()
        return members if isinstance(members, Mapping) else {tag: one for one in members for tag in one.types}

    @property
    def least(self) -> int:
        """The type byte and the shortest structure."""
        if not self._least:
            self._least = 1  # of one that is inside of itself
            self._least = 1 + min(of(one).at(tag).least for tag, one in self.types.items())
        return self._least

    def _compile(self) -> None:
        if self._has_none:
            self._readers[0] = lambda *_: None  # type: ignore[assignment]  # None is a value of T here
            self._writers[type(None)] = 0, lambda *_: None, None
        for tag, one in self.types.items():
            encoding: Encoding[Any] = of(one).at(tag)
            self._readers[tag] = encoding.read
            self._all_writers[tag] = encoding.write
            several = len(one.types) > 1 and one in self._writers
            self._writers[one] = (tag, encoding.write, _type_of(one) if several else None)

    def _reader(self, required: bool) -> Read[Any]:
        reader_of, read_other = self._readers.get, self._read_other

        def read(view: DataInputView, what: str = "") -> T | None:
            position, depth = view.position, view.depth
            read_one = reader_of(view.data[position]) if position < view.end else None
            if read_one is None or depth > MAX_DEPTH:
                return read_other(view, read)
            view.position = position + 1
            view.depth = depth + 1
            value = read_one(view, what)
            view.depth = depth
            if value is None and required:
                view.position -= 1
                view.fail(self._what, "none (type 0)")
            return value

        return read

    def _read_other(self, view: DataInputView, read: Read[T | None]) -> T | None:
        """Read the first handle of all; anything else is an error."""
        if view.depth > MAX_DEPTH:
            view.fail(f"handles nested at most {MAX_DEPTH} deep")
        tag = view.read_u8(self._tag)
        view.position -= 1
        if not self._readers:
            self._compile()
            return read(view, "")
        none = "0 or " if self._has_none else ""
        return view.fail(f"{self._what}: type {none}one of {sorted(self._all_writers)}", tag)

    def _writer(self) -> Write[Any]:
        writers, all_writers = self._writers, self._all_writers

        def write(out: DataOutputView, value: Any) -> None:
            try:
                tag, write_one, type_of = writers[type(value)]
            except KeyError:
                self._compile()
                tag, write_one, type_of = writers[type(value)]
            if type_of is not None and (last := type_of(value)) != tag:
                tag, write_one = last, all_writers[last]
            out.buffer.append(tag)
            write_one(out, value)

        return write
