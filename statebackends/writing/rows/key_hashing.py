"""Key groups of key columns alone, for the layout of rows before they are written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from pyspark_savepoint.formats.columns import fixed_array
from pyspark_savepoint.statebackends.model.descriptors import KeyedDescriptor
from pyspark_savepoint.statebackends.model.key_codec import KeyCodec
from pyspark_savepoint.statebackends.writing.planning.describe_key import KEY, describe_key
from pyspark_savepoint.statebackends.writing.planning.describe_types import expect_names
from pyspark_savepoint.statebackends.writing.planning.flink_types import parts_of
from pyspark_savepoint.statebackends.writing.planning.operator_types import OperatorTypes
from pyspark_savepoint.statebackends.writing.planning.write_request import KeySpec
from pyspark_savepoint.statebackends.writing.rows.row_forms import keyed_columns


@dataclass(frozen=True)
class KeyHashing:
    """Function from key columns to key groups; pickles."""

    descriptor: KeyedDescriptor
    max_parallelism: int

    @classmethod
    def of(cls, schema: pa.Schema, spec: KeySpec, max_parallelism: int) -> KeyHashing:
        """Build the function for the key columns of a schema."""
        expect_names(
            "types", spec.types, [KEY, *(path for field in schema for path in parts_of(field.type, field.name))]
        )
        types = OperatorTypes.named_by(spec)
        known = types.described(spec.job_classes).key if types is not None else None
        key = describe_key(schema, spec, None, known)
        found = KeyedDescriptor(key.columns, key.serializer, (), key_group=spec.key_group, composite=key.composite)
        return cls(found, max_parallelism)

    @classmethod
    def described(cls, rows: KeyedDescriptor, max_parallelism: int) -> KeyHashing:
        """Build the function for the key of described rows."""
        key = KeyedDescriptor(
            rows.key_columns, rows.key_serializer, (), key_group=rows.key_group, composite=rows.composite
        )
        return cls(key, max_parallelism)

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
