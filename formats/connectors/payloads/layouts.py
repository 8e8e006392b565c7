"""Descriptions of bytes: one description both reads and writes the bytes of a connector's serializer.

Numbers are big-endian, except those whose name begins with ``LE``. Values are plain: int, bool, str, bytes, None, list,
and dict for a record.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from pyspark_savepoint.formats.connectors.payloads.kind import is_text, read_text, unknown_version
from pyspark_savepoint.formats.data_view import DataInputView, DataOutputView
from pyspark_savepoint.formats.java_stream import skip_java_object


class Codec(Protocol):
    """Description of a sequence of bytes, which reads and writes a value."""

    def read(self, view: DataInputView, what: str) -> Any:
        """Read a value; ``what`` names it in errors."""

    def write(self, view: DataOutputView, value: Any) -> None:
        """Write a value."""


def encoded(part: Codec, value: Any) -> bytes:
    """Return the bytes of a value."""
    view = DataOutputView()
    part.write(view, value)
    return view.getvalue()


@dataclass(frozen=True)
class Number:
    """Integer with a ``struct`` code; any other number than ``constant`` is an error, if it is set."""

    code: str
    constant: int | None = None

    def read(self, view: DataInputView, what: str) -> int:
        """Read the number."""
        data = view.read(struct.calcsize(self.code), what)
        value: int = struct.unpack(self.code, data)[0]
        if self.constant is not None and value != self.constant:
            view.position -= len(data)
            view.fail(f"{what}: {self.constant:#x}", f"{value:#x}")
        return value

    def write(self, view: DataOutputView, value: int | None) -> None:
        """Write the number, or the constant if it is set."""
        view.write(struct.pack(self.code, value if self.constant is None else self.constant))

    def only(self, constant: int) -> Number:
        """Return the constant, such as a magic number."""
        return Number(self.code, constant)


I8, I16, I32, I64 = Number(">b"), Number(">h"), Number(">i"), Number(">q")
U32 = Number(">I")
LE_I32, LE_U32, LE_I64 = Number("<i"), Number("<I"), Number("<q")


@dataclass(frozen=True)
class Flag:
    """A byte 0 or 1."""

    def read(self, view: DataInputView, what: str) -> bool:
        return view.read_bool(what)

    def write(self, view: DataOutputView, value: bool) -> None:
        view.write_bool(value)


@dataclass(frozen=True)
class Utf:
    """``writeUTF`` of a text that columns can hold."""

    def read(self, view: DataInputView, what: str) -> str:
        return read_text(view, what)

    def write(self, view: DataOutputView, value: str) -> None:
        view.write_utf(value)


@dataclass(frozen=True)
class StringValue:
    """A text or None as ``StringSerializer`` writes it."""

    def read(self, view: DataInputView, what: str) -> str | None:
        start, text = view.position, view.read_string_value(what)
        if text is not None and not is_text(text):
            view.position = start
            view.fail(f"{what} without lone surrogates")
        return text

    def write(self, view: DataOutputView, value: str | None) -> None:
        view.write_string_value(value)


@dataclass(frozen=True)
class Fixed:
    """Bytes of a fixed number."""

    count: int

    def read(self, view: DataInputView, what: str) -> bytes:
        return view.read(self.count, what)

    def write(self, view: DataOutputView, value: bytes) -> None:
        view.write(value)


@dataclass(frozen=True)
class RemainingBytes:
    """All bytes that are left."""

    def read(self, view: DataInputView, what: str) -> bytes:
        return view.read(view.remaining, what)

    def write(self, view: DataOutputView, value: bytes) -> None:
        view.write(value)


@dataclass(frozen=True)
class JavaBytes:
    """A Java object stream, kept as bytes: its end is found without loading a class."""

    def read(self, view: DataInputView, what: str) -> bytes:
        return skip_java_object(view)

    def write(self, view: DataOutputView, value: bytes) -> None:
        view.write(value)


@dataclass(frozen=True)
class Text:
    """UTF-8 text that takes all bytes that are left."""

    def read(self, view: DataInputView, what: str) -> str:
        start, data = view.position, view.read(view.remaining, what)
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError:
            view.position = start
            view.fail(f"{what} in UTF-8")

    def write(self, view: DataOutputView, value: str) -> None:
        view.write(value.encode("utf-8"))


@dataclass(frozen=True)
class Sized:
    """A length in bytes, and a part of exactly this length."""

    part: Codec
    length: Number = I32

    def read(self, view: DataInputView, what: str) -> Any:
        inner = view.sub_view(self.length.read(view, f"the length of {what}"), what)
        value = self.part.read(inner, what)
        inner.expect_end(what)
        return value

    def write(self, view: DataOutputView, value: Any) -> None:
        data = encoded(self.part, value)
        self.length.write(view, len(data))
        view.write(data)


@dataclass(frozen=True)
class Optional:
    """A flag, and the part if it is set; else None."""

    part: Codec

    def read(self, view: DataInputView, what: str) -> Any:
        return self.part.read(view, what) if view.read_bool(f"whether there is {what}") else None

    def write(self, view: DataOutputView, value: Any) -> None:
        view.write_bool(value is not None)
        if value is not None:
            self.part.write(view, value)


@dataclass(frozen=True)
class CountedList:
    """A number of parts of at least one byte each, and the parts."""

    part: Codec
    count: Number = I32

    def read(self, view: DataInputView, what: str) -> list[Any]:
        count = self.count.read(view, f"the number of {what}")
        if not 0 <= count <= view.remaining:
            view.fail(f"a number of {what} from 0 to {view.remaining}", count)
        return [self.part.read(view, what) for _ in range(count)]

    def write(self, view: DataOutputView, value: list[Any]) -> None:
        self.count.write(view, len(value))
        for element in value:
            self.part.write(view, element)


class Record:
    """Parts one after another; a part whose name begins with ``_`` is a constant that values do not have."""

    parts: Mapping[str, Codec]

    def __init__(self, **parts: Codec) -> None:
        self.parts = parts

    def read(self, view: DataInputView, what: str) -> dict[str, Any]:
        fields = {name: part.read(view, f"{name} of {what}") for name, part in self.parts.items()}
        return {name: value for name, value in fields.items() if not name.startswith("_")}

    def write(self, view: DataOutputView, value: Mapping[str, Any]) -> None:
        for name, part in self.parts.items():
            part.write(view, value.get(name) if name.startswith("_") else value[name])

    def with_parts(self, **parts: Codec) -> Record:
        """Return a record with more parts after these."""
        return Record(**{**self.parts, **parts})


@dataclass(frozen=True)
class Coded:
    """A number that is read as a word."""

    words: Mapping[int, str]
    number: Number = I32

    def read(self, view: DataInputView, what: str) -> str:
        start, value = view.position, self.number.read(view, what)
        if value not in self.words:
            view.position = start
            view.fail(f"{what}: one of {sorted(self.words)}", value)
        return self.words[value]

    def write(self, view: DataOutputView, value: str) -> None:
        self.number.write(view, next(code for code, word in self.words.items() if word == value))


@dataclass(frozen=True)
class Variants:
    """A number, and the part that it selects. The number becomes field ``field`` of the value, a record."""

    parts: Mapping[int, Codec]
    field: str = "version"
    number: Number = I32
    sized: ClassVar[bool] = False

    def read(self, view: DataInputView, what: str) -> dict[str, Any]:
        start, chosen = view.position, self.number.read(view, f"the {self.field} of {what}")
        if chosen not in self.parts:
            view.position = start
            view.fail(f"{self.field} {', '.join(map(str, self.parts))} of {what}", chosen)
        part = Sized(self.parts[chosen]) if self.sized else self.parts[chosen]
        return {self.field: chosen, **part.read(view, what)}

    def write(self, view: DataOutputView, value: Mapping[str, Any]) -> None:
        chosen = value[self.field]
        self.number.write(view, chosen)
        (Sized(self.parts[chosen]) if self.sized else self.parts[chosen]).write(view, value)


@dataclass(frozen=True)
class Versioned(Variants):
    """``SimpleVersionedSerialization``: the version, the length, the part of that version."""

    sized: ClassVar[bool] = True


#: A length and bytes.
BLOB = Sized(RemainingBytes())
#: Version, length and bytes of another serializer: kept as they are.
VERSIONED_BLOB = Record(version=I32, data=BLOB)
UTF, FLAG = Utf(), Flag()


def reader(versions: Mapping[int, Codec], what: str) -> Callable[[int, DataInputView], Any]:
    """Return the function that reads a payload of some versions; it raises ValueError for another version."""

    def read(version: int, view: DataInputView) -> Any:
        if version not in versions:
            raise unknown_version(version, versions)
        return versions[version].read(view, what)

    return read


def writer(versions: Mapping[int, Codec]) -> Callable[[int, Any, DataOutputView], None]:
    """Return the function that writes a payload of some versions."""

    def write(version: int, value: Any, view: DataOutputView) -> None:
        if version not in versions:
            raise unknown_version(version, versions)
        versions[version].write(view, value)

    return write


#: The version of payloads whose state does not record one.
UNVERSIONED = -1
