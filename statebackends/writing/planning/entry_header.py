"""Header of state files as the text of an option, which passes the header of edited state to the writing tasks."""

from __future__ import annotations

import base64
import binascii

from pyspark_savepoint.formats.data_view import DataOutputView
from pyspark_savepoint.formats.errors import OptionError
from pyspark_savepoint.formats.io.byte_source import InlineByteSource
from pyspark_savepoint.formats.keyed.headers import read_header
from pyspark_savepoint.formats.keyed.meta_info import KeyedBackendHeader


def header_text(header: KeyedBackendHeader) -> str:
    """Return a header as base64."""
    view = DataOutputView()
    header.write(view)
    return base64.b64encode(view.getvalue()).decode("ascii")


def header_of(text: str) -> KeyedBackendHeader:
    """Parse the result of :func:`header_text`; snapshots of serializers may be of the user's own classes."""
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise OptionError("option 'header' is what the fluent API makes of it: it is not for users") from None
    return read_header(KeyedBackendHeader, InlineByteSource("option 'header'", data), len(data))
