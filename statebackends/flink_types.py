"""Which Flink type a Spark type becomes where nobody says: by one documented table."""

from __future__ import annotations

import pyarrow as pa

from pyspark_savepoint.formats.errors import OptionError
from pyspark_savepoint.formats.serializers.base import TypeSerializer
from pyspark_savepoint.formats.serializers.primitives import BY_SNAPSHOT, NumberSerializer
from pyspark_savepoint.formats.serializers.strings import STRING, StringSerializer

_NUMBERS = {
    kind.arrow: NumberSerializer.of(name)
    for name, (stem, kind) in BY_SNAPSHOT.items()
    if kind.flink_type.title() == stem
}


def default_serializer(kind: pa.DataType) -> TypeSerializer:
    """The serializer of a type."""
    if kind in _NUMBERS:
        return _NUMBERS[kind]
    if pa.types.is_string(kind):
        return StringSerializer.of(STRING)
    raise OptionError(f"{kind} has no type in Flink")
