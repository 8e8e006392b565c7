"""Headers of state streams, read in steps, even if they contain serializer snapshots of user classes.

A snapshot of an unknown class may have a payload of unknown length and format. The end of the header is known, however,
because the first data begin there. So lengths are tried, shortest first, until the header parses up to exactly that
byte.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Generic, TypeVar

from pyspark_savepoint.formats.data_view import DataInputView
from pyspark_savepoint.formats.errors import SavepointError
from pyspark_savepoint.formats.io import snappy
from pyspark_savepoint.formats.io.byte_source import ByteSource, InlineByteSource
from pyspark_savepoint.formats.keyed.meta_info import KeyedBackendHeader, OperatorBackendHeader
from pyspark_savepoint.formats.serializers.base import UnknownPayloads

# Headers have kilobytes; Kryo and Avro snapshots may be larger. They are read in steps, up to this size.
FIRST_READ = 1 << 16
MAX_HEADER = 1 << 26
# The payload of a user's snapshot usually consists of a few names.
MAX_PAYLOAD = 1 << 12
#: Number of parsed headers to keep, of at most FIRST_READ bytes each: subtasks of an operator mostly have equal ones.
KEPT_HEADERS = 32
#: Number of larger ones, and their bytes.
KEPT_LARGE_HEADERS, MAX_KEPT = 4, 1 << 24

H = TypeVar("H", KeyedBackendHeader, OperatorBackendHeader)


def read_header(kind: type[H], source: ByteSource, end: int) -> H:
    """Return the header of a stream whose data begin at ``end``; equal bytes give the same object."""
    most = min(end, source.size, MAX_HEADER)
    size = min(FIRST_READ, most)
    data = source.read(0, size)
    if size == most:
        try:
            return _parsed(kind, data, source.classes)  # type: ignore
        except SavepointError:
            pass  # parsed once more below, for an error with the path of this stream
    elif most <= MAX_KEPT:
        # Tables of operator state read the header again for each of its states, which may be many.
        data = source.read(0, most)
        try:
            return _parsed_large(kind, data, source.classes)  # type: ignore
        except SavepointError:
            pass
    return _read_in_steps(kind, source, data, most)


@lru_cache(maxsize=KEPT_HEADERS)
def _parsed(kind: type[Any], data: bytes, classes: Any) -> Any:
    return _read_in_steps(kind, InlineByteSource("", data, classes), data, len(data))


@lru_cache(maxsize=KEPT_LARGE_HEADERS)
def _parsed_large(kind: type[Any], data: bytes, classes: Any) -> Any:
    return _read_in_steps(kind, InlineByteSource("", data, classes), data, len(data))


def _read_in_steps(kind: type[H], source: ByteSource, data: bytes, most: int) -> H:
    """Return the header that begins with ``data``; read more of the source, up to ``most``, if that is too short."""
    size = len(data)
    while True:
        view = DataInputView(data, source.path)
        unknown = UnknownPayloads(classes=source.classes)
        header, problem = None, None
        try:
            header = kind.read(view, unknown)
        except SavepointError as error:
            problem = error
        if header is not None and (not unknown.met or _ends_at(header, most)):
            return header
        if size == most:
            fitting = _Fit(kind, view, most).fit(unknown) or header
            if fitting is None:
                assert problem is not None
                raise problem
            return fitting
        size = min(4 * size, most)
        data = source.read(0, size)


def _ends_at(header: KeyedBackendHeader | OperatorBackendHeader, end: int) -> bool:
    # A compressed operator stream begins with an identifier; its first offset is before or after the identifier.
    if isinstance(header, OperatorBackendHeader) and header.compressed:
        return header.size in (end, end - len(snappy.IDENTIFIER))
    return header.size == end


class _Fit(Generic[H]):
    """Search for the lengths of unknown payloads with which the header ends at ``end``."""

    def __init__(self, kind: type[H], view: DataInputView, end: int) -> None:
        self.kind: type[H] = kind
        self.view = view
        self.end = end

    def fit(self, unknown: UnknownPayloads) -> H | None:
        """Try lengths for the first payload without one, then for the following ones; None if none fits."""
        start = next((place for place in sorted(unknown.met) if place not in unknown.lengths), None)
        if start is None:
            return None
        for length in range(min(MAX_PAYLOAD, self.end - start) + 1):
            attempt = unknown.with_length(start, length)
            found = self._attempt(attempt) or self.fit(attempt)
            if found is not None or attempt.work.exhausted(self.view):
                return found
        return None

    def _attempt(self, unknown: UnknownPayloads) -> H | None:
        self.view.position = 0
        unknown.work.add(0)
        try:
            header = self.kind.read(self.view, unknown)
        except SavepointError:
            return None
        return header if _ends_at(header, self.end) else None
