"""Serializers whose snapshot is the fields that they declare with ``part`` (``formats/structs.py``).

::

    @struct_with_dict
    class TtlAwareSerializer(WrappingSerializer, DeclaredSerializer):
        is_ttl: bool = part(BOOL, "time to live is enabled")
        inner: TypeSerializer = part(SNAPSHOT)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from pyspark_savepoint.formats.data_view import DataOutputView
from pyspark_savepoint.formats.encodings import FromSource
from pyspark_savepoint.formats.java_stream import skip_java_object
from pyspark_savepoint.formats.serializers.base import SnapshotReader, TypeSerializer, expect_version, write_versioned
from pyspark_savepoint.formats.structs import read_parts, write_parts

#: The snapshot of another serializer.
SNAPSHOT: FromSource[TypeSerializer] = FromSource(SnapshotReader.versioned, lambda out, one: write_versioned(one, out))
#: A Java object, which is kept as bytes.
JAVA_OBJECT: FromSource[bytes] = FromSource(lambda reader: reader.once(skip_java_object), DataOutputView.write)


@dataclass(frozen=True)
class DeclaredSerializer(TypeSerializer):
    """Base class of serializers whose payload consists of the fields that are declared with ``part``."""

    #: Supported versions of the snapshot.
    snapshot_versions: ClassVar[tuple[int, ...]] = (3,)

    @classmethod
    def read_snapshot(cls, name: str, version: int, reader: SnapshotReader) -> TypeSerializer:
        """Read the fields."""
        return cls(name, version, **cls.read_fields(name, version, reader))

    @classmethod
    def read_fields(cls, name: str, version: int, reader: SnapshotReader) -> dict[str, Any]:
        """Return the fields by name, for a subclass that needs more than its constructor."""
        expect_version(name, version, cls.snapshot_versions, reader)
        return read_parts(cls, reader.view, version, reader)

    def write_payload(self, view: DataOutputView) -> None:
        """Write the fields."""
        write_parts(self, view, self.snapshot_version)
