"""Parts of values whose ends are known: a field without a known end reaches to the end of the value.

If only the user's code can find the end of a field, all bytes from its start on are one BINARY (:class:`Rest`), and the
fields after it are null (:class:`AfterRest`). ``open_ended.py`` determines these fields.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NoReturn

import numpy as np
import pyarrow as pa

from pyspark_savepoint.formats.columns import Cursors, DecodeOptions, Longs, scatter
from pyspark_savepoint.formats.data_view import DataOutputView
from pyspark_savepoint.formats.errors import UndecodableStateError
from pyspark_savepoint.formats.serializers.base import SnapshotReader, TypeSerializer
from pyspark_savepoint.formats.serializers.basic.blobs import read_blocks
from pyspark_savepoint.formats.serializers.basic.shapes import Flagged, Shaped
from pyspark_savepoint.formats.serializers.layout import UNKNOWN, Layout, Part


@dataclass(frozen=True)
class OpenPart(ABC):
    """Part that is only read: the fields of a value that is cut have no bytes of their own to write."""

    part: Part

    @property
    def flink_type(self) -> str:
        return self.part.flink_type

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return self.part.arrow_type(options)

    def layout(self, layout: Layout) -> int:
        return UNKNOWN

    @abstractmethod
    def decode(self, at: Cursors) -> pa.Array:
        """Read one value per cursor."""

    def sizes(self, column: pa.Array) -> Longs:
        self._refuse()

    def encode(self, column: pa.Array, at: Cursors) -> None:
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise UndecodableStateError(f"values with a part of {self.flink_type} that is not decoded cannot be written")


@dataclass(frozen=True)
class Rest(OpenPart):
    """Field that only the user's code can read, with all bytes after it."""

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return pa.binary()

    def decode(self, at: Cursors) -> pa.Array:
        return read_blocks(at, at.end - at.position)


@dataclass(frozen=True)
class AfterRest(OpenPart):
    """Part after one that may take all remaining bytes; null if it has taken them."""

    def decode(self, at: Cursors) -> pa.Array:
        there = at.position < at.end
        if there.all():
            return self.part.decode(at)
        present = at.select(there)
        column = self.part.decode(present)
        at.update(there, present)
        return scatter(column, np.asarray(there))

    def flagged(self) -> AfterRest:
        """Return the part preceded by a null flag, which is also missing if all bytes are taken."""
        return AfterRest(Flagged(self.part))


@dataclass(frozen=True)
class PartSerializer(Shaped):
    """Serializer of a field as one of these parts; its snapshot is that of the field's own serializer."""

    inner: TypeSerializer
    part: OpenPart

    @classmethod
    def of(cls, inner: TypeSerializer, part: OpenPart) -> PartSerializer:
        """Return the serializer of a field that is read as a part."""
        return cls(inner.snapshot_class, inner.snapshot_version, inner, part)

    @classmethod
    def read_snapshot(cls, name: str, version: int, reader: SnapshotReader) -> TypeSerializer:
        """Read the snapshot of the field's own serializer."""
        return reader.versioned()

    def write_payload(self, view: DataOutputView) -> None:
        self.inner.write_payload(view)

    @property
    def flink_type(self) -> str:
        return self.inner.flink_type

    @property
    def shape(self) -> Part:
        return self.part
