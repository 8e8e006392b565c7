"""The head of state files as bytes: how edited state tells the tasks that write it what it is."""

from __future__ import annotations

from pyspark_savepoint.formats.byte_source import InlineByteSource
from pyspark_savepoint.formats.data_view import DataOutputView
from pyspark_savepoint.formats.headers import read_header
from pyspark_savepoint.formats.meta_info import KeyedBackendHeader


def header_bytes(header: KeyedBackendHeader) -> bytes:
    """A head as it stands in a file."""
    view = DataOutputView()
    header.write(view)
    return view.getvalue()


def header_of(data: bytes) -> KeyedBackendHeader:
    """The mirror of :func:`header_bytes`; also around snapshots of serializers that are the user's own."""
    return read_header(KeyedBackendHeader, InlineByteSource("option 'header'", data), len(data))
