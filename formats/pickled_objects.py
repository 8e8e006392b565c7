"""Objects of pickles as data: the calls in a pickle and their arguments, without calling anything.

A pickle names classes and functions and calls them. :data:`CONSTRUCTORS` is a fixed list of constructors of Python's
own types (datetime, decimal, uuid, collections, ...), whose calls become the values that they create. Every other call
becomes an :class:`Instance`: the name of what is called, its arguments, and its state. Nothing is imported or called by
a name in a pickle.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from types import MappingProxyType
from typing import Any
from uuid import UUID

from pyspark_savepoint.formats.variant import Date, Timestamp

EPOCH = datetime.datetime(1970, 1, 1)
MICROSECOND = datetime.timedelta(microseconds=1)
SECONDS_PER_DAY = 86_400
NUMBER = re.compile(r"[+-]?((\d+\.?\d*|\.\d+)([eE][+-]?\d{1,6})?|Infinity|s?NaN)", re.ASCII)
#: Keys that describe an object itself, in addition to its fields.
CLASS, ARGUMENTS, STATE, ITEMS, ENTRIES, NAME = "__class", "__args", "__state", "__items", "__entries", "__name"


class WrongArgumentsError(ValueError):
    """Arguments that Python's own constructor does not pickle."""


@dataclass(eq=False, repr=False)
class PickledDict:
    """The items of a dict, as a list: keys need not be hashable."""

    items: list[tuple[Any, Any]] = field(default_factory=list)


@dataclass(frozen=True, eq=False)
class Global:
    """A class or function, by its name."""

    module: str
    name: str

    def __str__(self) -> str:
        module = "builtins" if self.module == "__builtin__" else self.module
        return f"{module}.{self.name}"


@dataclass(eq=False, repr=False)
class Instance:
    """Result of a call of a class or function: its name, arguments, state, and the elements added to it."""

    called: Any
    arguments: tuple[Any, ...]
    state: Any = None
    items: list[Any] = field(default_factory=list)
    entries: PickledDict = field(default_factory=PickledDict)

    def parts(self) -> Any:
        """Return the text of a UUID; for all other objects a dict of their class, fields and elements."""
        fields, rest = _fields(self.state)
        name = str(self.called) if isinstance(self.called, Global) else self.called
        if name == "uuid.UUID" and isinstance(fields.get("int"), int) and 0 <= fields["int"] < 1 << 128:
            return str(UUID(int=fields["int"]))
        pairs: list[tuple[Any, Any]] = [(CLASS, name)]
        pairs += [(key, value) for key, value in fields.items() if key != CLASS]
        optional = (ARGUMENTS, self.arguments), (STATE, rest), (ITEMS, self.items), (ENTRIES, self.entries.items)
        pairs += [(key, value) for key, value in optional if value and key not in fields]
        return PickledDict([(key, PickledDict(value) if key is ENTRIES else value) for key, value in pairs])


@dataclass(frozen=True, eq=False)
class Duration:
    """A timedelta: microseconds."""

    micros: int

    def parts(self) -> Decimal:
        """Return the seconds."""
        return Decimal(self.micros).scaleb(-6)


@dataclass(frozen=True, eq=False)
class Zone:
    """A time zone: its name, or its offset from UTC in microseconds."""

    name: str
    offset: int | None = None

    def parts(self) -> str:
        return self.name


def _fields(state: Any) -> tuple[dict[str, Any], Any]:
    """Return the attributes in an object's state, and the state itself if it does not consist of attributes."""
    if isinstance(state, PickledDict) and all(isinstance(key, str) for key, _ in state.items):
        return dict(state.items), None
    if (
        isinstance(state, tuple)
        and len(state) == 2
        and all(part is None or type(part) is PickledDict for part in state)
    ):
        both = [_fields(part) for part in state if part is not None]
        if all(rest is None for _, rest in both):
            return {key: value for attributes, _ in both for key, value in attributes.items()}, None
    return {}, state


def size_of(value: Any) -> int:
    """Return the number of elements or characters that a conversion of a value touches."""
    if isinstance(value, Instance):
        return size_of(value.state) + size_of(value.arguments) + len(value.items) + len(value.entries.items)
    if isinstance(value, PickledDict):
        return len(value.items)
    return len(value) if isinstance(value, list | tuple | str | bytes) else 1


def call(called: Any, arguments: Any) -> Any:
    """Return the result of a call; raise WrongArgumentsError if a known constructor does not accept the arguments."""
    if not isinstance(arguments, tuple):
        raise WrongArgumentsError("the arguments of a call are not a tuple")
    known = CONSTRUCTORS.get(str(called)) if isinstance(called, Global) else None
    if known is None:
        return Instance(called, arguments)
    try:
        return known(*arguments)
    except (TypeError, ValueError, OverflowError) as error:
        raise WrongArgumentsError(f"arguments of {called}: {error}") from None


def _bytes_of(data: Any, size: int) -> bytes:
    if isinstance(data, str):
        data = data.encode("latin-1")
    if not isinstance(data, bytes) or len(data) != size:
        raise ValueError(f"{size} bytes")
    return data


def _datetime(data: Any, zone: Any = None) -> Any:
    packed = _bytes_of(data, 10)
    micros = (packed[7] << 16) | (packed[8] << 8) | packed[9]
    when = datetime.datetime(
        packed[0] << 8 | packed[1], packed[2] & 0x7F, packed[3], packed[4], packed[5], packed[6], micros
    )
    local = (when - EPOCH) // MICROSECOND
    if zone is None:
        return Timestamp(local, zoned=False)
    if isinstance(zone, Zone) and zone.offset is not None:
        return Timestamp(local - zone.offset)
    return PickledDict([("local", Timestamp(local, zoned=False)), ("zone", zone)])


def _date(data: Any) -> Date:
    packed = _bytes_of(data, 4)
    day = datetime.date(packed[0] << 8 | packed[1], packed[2], packed[3])
    return Date((day - EPOCH.date()).days)


def _time(data: Any, zone: Any = None) -> Any:
    packed = _bytes_of(data, 6)
    micros = (packed[3] << 16) | (packed[4] << 8) | packed[5]
    text = datetime.time(packed[0] & 0x7F, packed[1], packed[2], micros).isoformat()
    return text if zone is None else PickledDict([("local", text), ("zone", zone)])


def _timedelta(days: int = 0, seconds: int = 0, micros: int = 0) -> Duration:
    if not all(isinstance(part, int) for part in (days, seconds, micros)):
        raise ValueError("whole numbers")
    return Duration(datetime.timedelta(days, seconds, micros) // MICROSECOND)


def _timezone(offset: Any, name: Any = None) -> Zone:
    if not isinstance(offset, Duration):
        raise TypeError("a timedelta")
    zone = datetime.timezone(datetime.timedelta(microseconds=offset.micros))
    return Zone(name if isinstance(name, str) else str(zone), offset.micros)


def _zone_info(name: Any, *_: Any) -> Zone:
    return Zone(_text(name), 0 if name in ("UTC", "Etc/UTC") else None)


def _pytz(name: Any, offset: Any = None, *_: Any) -> Zone:
    if offset is not None and not (isinstance(offset, int) and abs(offset) <= SECONDS_PER_DAY):
        raise ValueError("an offset of at most a day")
    return Zone(_text(name), None if offset is None else offset * 1_000_000)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("a text")
    return value


def _decimal(value: Any) -> Decimal:
    if not NUMBER.fullmatch(_text(value)):
        raise ValueError("a number")
    return Decimal(value)


def _fraction(numerator: Any, denominator: Any = None) -> str:
    if denominator is None:
        return _text(numerator)
    if not isinstance(numerator, int) or not isinstance(denominator, int):
        raise TypeError("whole numbers")
    return f"{numerator}/{denominator}"


def _complex(real: Any, imaginary: Any) -> str:
    if not all(isinstance(part, int | float) for part in (real, imaginary)):
        raise TypeError("numbers")
    return f"{real!r}{imaginary:+}j"


def _bytes(data: Any = b"", encoding: Any = None) -> bytes:
    if encoding is not None:
        return _encode(data, encoding)
    if not isinstance(data, bytes):
        raise TypeError("bytes")
    return data


def _encode(text: Any, encoding: Any) -> bytes:
    if encoding not in ("latin1", "latin-1"):
        raise ValueError("latin1")
    return _text(text).encode("latin-1")


def _list(items: Any = ()) -> list[Any]:
    if not isinstance(items, list | tuple):
        raise TypeError("a list")
    return list(items)


def _deque(items: Any = (), *_: Any) -> list[Any]:
    return _list(items)


def _dict(items: Any = ()) -> PickledDict:
    return PickledDict(list(items.items)) if isinstance(items, PickledDict) else PickledDict()


def _default_dict(_: Any = None, items: Any = ()) -> PickledDict:
    return _dict(items)


def _reconstructor(kind: Any, _base: Any, value: Any) -> Instance:
    """Return an object of protocols 0 and 1; ``value`` is its value as an object of its base class."""
    return Instance(kind, value if isinstance(value, tuple) else () if value is None else (value,))


def _newobj(kind: Any, *arguments: Any) -> Instance:
    return Instance(kind, arguments)


def _attribute(owner: Any, name: Any) -> Any:
    """Return an attribute of a class by its name: a member of an enum, a method."""
    return Global(str(owner), _text(name)) if isinstance(owner, Global) else Instance("getattr", (owner, name))


def _row(names: Any, values: Any, *_: Any) -> Any:
    """Return a Row of PyFlink: its fields by name, or a list."""
    if isinstance(names, list | tuple) and len(names) == len(values):
        return PickledDict(list(zip(names, values, strict=True)))
    return list(values)


def _skeleton_class(_: Any, name: Any, _bases: Any, attributes: Any, *_more: Any) -> Global:
    """Return a class that cloudpickle defines, by its name."""
    module = _fields(attributes)[0].get("__module__", "__main__")
    return Global(module if isinstance(module, str) else "__main__", _text(name))


def _skeleton_enum(_bases: Any, _name: Any, qualified: Any, _members: Any, module: Any, *_more: Any) -> Global:
    return Global(_text(module), _text(qualified))


def _class_state(kind: Any, _: Any) -> Any:
    return kind


CONSTRUCTORS: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        "datetime.datetime": _datetime,
        "datetime.date": _date,
        "datetime.time": _time,
        "datetime.timedelta": _timedelta,
        "datetime.timezone": _timezone,
        "zoneinfo.ZoneInfo._unpickle": _zone_info,
        "pytz._UTC": lambda: Zone("UTC", 0),
        "pytz._p": _pytz,
        "decimal.Decimal": _decimal,
        "fractions.Fraction": _fraction,
        "builtins.complex": _complex,
        "builtins.bytes": _bytes,
        "builtins.bytearray": _bytes,
        "_codecs.encode": _encode,
        "builtins.set": _list,
        "builtins.frozenset": _list,
        "builtins.list": _list,
        "builtins.dict": _dict,
        "builtins.getattr": _attribute,
        "collections.deque": _deque,
        "collections.OrderedDict": _dict,
        "collections.Counter": _dict,
        "collections.defaultdict": _default_dict,
        "copyreg._reconstructor": _reconstructor,
        "copy_reg._reconstructor": _reconstructor,
        "copyreg.__newobj__": _newobj,
        "pyflink.common.types._create_row": _row,
        "cloudpickle.cloudpickle._make_skeleton_class": _skeleton_class,
        "cloudpickle.cloudpickle._make_skeleton_enum": _skeleton_enum,
        "cloudpickle.cloudpickle._class_setstate": _class_state,
    }
)
