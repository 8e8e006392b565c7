"""Structures of bytes: a class declares its fields once, and both reading and writing follow the declaration.

::

    @struct
    class StateChange(Struct):
        key_group: int = part(I32, "a key group")
        change: bytes = part(BLOB, "a change", shown=False)

    changes = many(of(StateChange))              # i32 n  {i32 keyGroup  blob change}[n]

A type checker compares the encoding of a field (:mod:`.encodings`) with its annotation. A field may exist in some
versions only (``since``, ``until``): elsewhere its value is ``absent``, and to write another value there is an error.
A structure is an encoding as well (:func:`of`). Structures that contain each other do so through :class:`OneOf`, which
limits the depth, as bytes may be hostile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, dataclass_transform, overload

from pyspark_savepoint.formats.data_view import DataInputView, DataOutputView
from pyspark_savepoint.formats.encodings import ANY_VERSION, ByVersion, Encoding, FromSource, Read, Write

T = TypeVar("T")
U = TypeVar("U")
S = TypeVar("S", bound="Struct")
# Flink nests at most three handles (a changelog of a key-groups handle of a stream); more could overflow the stack.
MAX_DEPTH = 16


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
        _ENCODINGS[cls] = ByVersion(lambda version: _compiled(cls, version))
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
