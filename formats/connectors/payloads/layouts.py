"""Descriptions of bytes whose values are plain: int, bool, str, bytes, None, tuple, and dict for a record.

They are encodings as those of ``formats/encodings.py``, and composed with them: one description both reads and writes
the bytes of a connector's serializer.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeVar

from pyspark_savepoint.formats import encodings
from pyspark_savepoint.formats.connectors.payloads.kind import unknown_version
from pyspark_savepoint.formats.data_view import DataInputView, DataOutputView
from pyspark_savepoint.formats.encodings import ANY_VERSION, COLUMN_TEXT, I32, REST, Encoding, many, sized, well_formed
from pyspark_savepoint.formats.java_stream import skip_java_object

V = TypeVar("V")
#: Encodings by version.
Layouts = Mapping[int, Encoding[Any]]


def _read_text(view: DataInputView, what: str) -> str:
    start, data = view.position, view.read(view.remaining, what)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        view.position = start
        view.fail(f"{what} in UTF-8")


#: ``writeUTF`` of a text that columns can hold.
UTF = COLUMN_TEXT
#: A text or None as ``StringSerializer`` writes it.
STRING_VALUE = well_formed(encodings.STRING_VALUE)
#: A text in UTF-8 that takes all bytes that are left.
TEXT = Encoding(_read_text, lambda out, value: out.write(value.encode("utf-8")), 0)
#: A Java object stream, kept as bytes: its end is found without loading a class.
JAVA_BYTES = Encoding(lambda view, _: skip_java_object(view), DataOutputView.write, 0)
#: A length and bytes.
BLOB = sized(REST)


def fixed(count: int) -> Encoding[bytes]:
    """Return the encoding of bytes of a fixed number."""
    return Encoding(lambda view, what: view.read(count, what), DataOutputView.write, count)


class Record(Encoding[dict[str, Any]]):
    """Parts one after another; a part whose name begins with ``_`` is a constant that values do not have."""

    __slots__ = ("parts",)

    def __init__(self, **parts: Encoding[Any]) -> None:
        self.parts = {name: part.at(ANY_VERSION) for name, part in parts.items()}
        super().__init__(self._read, self._write, sum(part.least for part in self.parts.values()))

    def _read(self, view: DataInputView, what: str) -> dict[str, Any]:
        fields = {name: part.read(view, f"{name} of {what}") for name, part in self.parts.items()}
        return {name: value for name, value in fields.items() if not name.startswith("_")}

    def _write(self, out: DataOutputView, value: dict[str, Any]) -> None:
        for name, part in self.parts.items():
            part.write(out, None if name.startswith("_") else value[name])

    def with_parts(self, **parts: Encoding[Any]) -> Record:
        """Return a record with more parts after these."""
        return Record(**{**self.parts, **parts})


def words(of: Mapping[int, str], number: Encoding[int] = I32) -> Encoding[str]:
    """Return the encoding of a number that is read as a word."""
    codes = {word: code for code, word in of.items()}

    def read(view: DataInputView, what: str) -> str:
        start, value = view.position, number.read(view, what)
        if value not in of:
            view.position = start
            view.fail(f"{what}: one of {sorted(of)}", value)
        return of[value]

    return Encoding(read, lambda out, word: number.write(out, codes[word]), number.least)


def variants(
    parts: Mapping[int, Encoding[Any]], field: str = "version", number: Encoding[int] = I32
) -> Encoding[dict[str, Any]]:
    """Return the encoding of a number and the record that it selects; the number becomes a field of the record."""

    def read(view: DataInputView, what: str) -> dict[str, Any]:
        start, chosen = view.position, number.read(view, f"the {field} of {what}")
        if chosen not in parts:
            view.position = start
            view.fail(f"{field} {', '.join(map(str, parts))} of {what}", chosen)
        return {field: chosen, **parts[chosen].read(view, what)}

    def write(out: DataOutputView, value: dict[str, Any]) -> None:
        number.write(out, value[field])
        parts[value[field]].write(out, value)

    return Encoding(read, write, number.least)


def versioned(parts: Layouts) -> Encoding[dict[str, Any]]:
    """Return the encoding of ``SimpleVersionedSerialization``: the version, the length, the record of that version."""
    return variants({version: sized(part) for version, part in parts.items()})


def versioned_list(parts: Layouts) -> Encoding[dict[str, Any]]:
    """Return the encoding of ``SimpleVersionedListSerializer``: the version, and the parts with their lengths."""
    lists = {version: many(sized(part)) for version, part in parts.items()}

    def read(view: DataInputView, what: str) -> dict[str, Any]:
        start, version = view.position, view.read_i32(f"the version of {what}")
        if version not in lists:
            view.position = start
            view.fail(f"version {', '.join(map(str, parts))} of {what}", version)
        return {"version": version, "items": lists[version].read(view, what)}

    def write(out: DataOutputView, value: dict[str, Any]) -> None:
        out.write_i32(value["version"])
        lists[value["version"]].write(out, value["items"])

    return Encoding(read, write, 8)


#: Version, length and bytes of another serializer: kept as they are.
VERSIONED_BLOB = Record(version=I32, data=BLOB)


def reader(versions: Layouts, what: str) -> Callable[[int, DataInputView], Any]:
    """Return the function that reads a payload of some versions; it raises ValueError for another version."""

    def read(version: int, view: DataInputView) -> Any:
        if version not in versions:
            raise unknown_version(version, versions)
        return versions[version].read(view, what)

    return read


def writer(versions: Layouts) -> Callable[[int, Any, DataOutputView], None]:
    """Return the function that writes a payload of some versions."""

    def write(version: int, value: Any, out: DataOutputView) -> None:
        if version not in versions:
            raise unknown_version(version, versions)
        versions[version].write(out, value)

    return write


def payloads(
    encoding: Encoding[V], versions: Collection[int], what: str = ""
) -> tuple[Callable[[int, DataInputView], V], Callable[[int, V, DataOutputView], None]]:
    """Return the functions that read and write a payload of some versions of an encoding."""
    layouts = {version: encoding.at(version) for version in versions}
    return reader(layouts, what), writer(layouts)


#: The version of payloads whose state does not record one.
UNVERSIONED = -1
