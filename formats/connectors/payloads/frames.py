"""Frames around payloads of connectors: the version of the serializer that wrote a payload, and its bytes.

    element     := i32 n  { i32 version  blob payload }               list states of sources and sinks
    coordinator := i32 1  i32 version  blob payload                   since 1.13
    coordinator := i32 0  i32 version  blob payload  more             1.11 and 1.12; later releases ignore ``more``

Flink: ``SimpleVersionedListState``, ``SimpleVersionedSerialization``, ``SourceCoordinatorSerdeUtils``.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pyspark_savepoint.formats.data_view import DataInputView, DataOutputView

LENGTH_AND_VERSION = 8


@dataclass(frozen=True, slots=True)
class Payload:
    """Bytes of a connector's serializer, and its version; None if the state does not record one."""

    version: int | None
    data: bytes = field(repr=False)


def read_element(data: bytes) -> Payload:
    """Return the payload of a framed element of a list state."""
    view = DataInputView(data)
    inner = view.sub_view(view.read_count("bytes of an element"), "an element")
    view.expect_end("an element")
    payload = read_versioned(inner)
    inner.expect_end("an element")
    return payload


def write_element(payload: Payload) -> bytes:
    """Return a framed element of a list state."""
    out = DataOutputView()
    out.write_i32(LENGTH_AND_VERSION + len(payload.data))
    write_versioned(payload, out)
    return out.getvalue()


def read_versioned(view: DataInputView) -> Payload:
    """Read a version and the bytes after it."""
    return Payload(view.read_i32("a version"), view.read_blob("a payload"))


def write_versioned(payload: Payload, out: DataOutputView) -> None:
    """Write a version, which the payload must have, and the bytes."""
    assert payload.version is not None
    out.write_i32(payload.version)
    out.write_blob(payload.data)


@dataclass(frozen=True, slots=True)
class CoordinatorFrame:
    """State of a source's coordinator: the state of its enumerator, in version 0 followed by more bytes."""

    payload: Payload
    version: int = 1
    more: bytes = field(default=b"", repr=False)

    @classmethod
    def read(cls, data: bytes) -> CoordinatorFrame:
        """Read the whole state of a coordinator."""
        view = DataInputView(data)
        version = view.read_i32("the version of a coordinator")
        if version not in (0, 1):
            view.position -= 4
            view.fail("version 0 or 1 of a source coordinator", version)
        payload = read_versioned(view)
        if version == 1:
            view.expect_end("the state of a coordinator")
        return cls(payload, version, view.read(view.remaining))

    def bytes(self) -> bytes:
        """Return the bytes of the state."""
        out = DataOutputView()
        out.write_i32(self.version)
        write_versioned(self.payload, out)
        out.write(self.more)
        return out.getvalue()


def is_text(text: str) -> bool:
    """Return whether a text has no lone surrogates, which columns of text cannot hold."""
    return text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)


def read_text(view: DataInputView, what: str) -> str:
    """Read ``writeUTF`` of a text without lone surrogates, which columns of text cannot hold."""
    return without_surrogates(view, view.read_utf(what), what)


def without_surrogates(view: DataInputView, text: str, what: str) -> str:
    """Return a text that was read; fail if it has lone surrogates."""
    if not is_text(text):
        # Java writes a character beyond the BMP as two surrogates, which are one character here: others are lone.
        view.fail(f"{what} without lone surrogates")
    return text
