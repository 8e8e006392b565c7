"""Key groups of key columns alone, for the layout of rows before they are written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from pyspark_savepoint.formats.columns import fixed_array
from pyspark_savepoint.statebackends.model.descriptors import KeyedDescriptor
from pyspark_savepoint.statebackends.model.key_codec import KeyCodec
from pyspark_savepoint.statebackends.writing.planning.describe import describe_keyed
from pyspark_savepoint.statebackends.writing.planning.write_request import WriteRequest
from pyspark_savepoint.statebackends.writing.rows.row_forms import keyed_columns


@dataclass(frozen=True)
class KeyHashing:
    """Function from key columns to key groups; pickles."""

    descriptor: KeyedDescriptor
    max_parallelism: int

    @classmethod
    def of(cls, schema: pa.Schema, request: WriteRequest, max_parallelism: int) -> KeyHashing:
        """Build the function from the key of a request for timers, which need only a key and a timestamp."""
        return cls(describe_keyed(schema, request, None), max_parallelism)

    @property
    def flink_type(self) -> str:
        """Return the key's type in Flink's notation."""
        return self.descriptor.key_serializer.flink_type

    def key_groups(self, columns: Sequence[pa.Array]) -> pa.Array:
        """Return the key group of every row, int32."""
        batch = pa.record_batch(list(columns), names=list(self.descriptor.key_columns))
        keyed = keyed_columns(batch, self.descriptor)
        codec = KeyCodec(self.descriptor, self.max_parallelism)
        return fixed_array(pa.int32(), codec.key_groups(codec.key_column(keyed), keyed))
