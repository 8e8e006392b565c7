"""Key groups of rows before they are written: of key columns, or by hashes that a function of the user computes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pyspark_savepoint.formats.columns import fixed_array
from pyspark_savepoint.formats.errors import OptionError, ValueRangeError, type_name
from pyspark_savepoint.formats.metadata.key_groups import key_group_for_hash
from pyspark_savepoint.statebackends.processing.runtime.row import rows_of_columns
from pyspark_savepoint.statebackends.processing.runtime.user_code import UserCode
from pyspark_savepoint.statebackends.processing.runtime.values import to_python
from pyspark_savepoint.statebackends.rows.descriptors import KeyedDescriptor
from pyspark_savepoint.statebackends.rows.key_codec import KeyCodec
from pyspark_savepoint.statebackends.writing.planning.describe_key import KEY, describe_key
from pyspark_savepoint.statebackends.writing.planning.exact_casts import expect_names
from pyspark_savepoint.statebackends.writing.planning.flink_types import parts_of
from pyspark_savepoint.statebackends.writing.planning.operator_types import OperatorTypes
from pyspark_savepoint.statebackends.writing.row_forms import keyed_columns

if TYPE_CHECKING:
    from pyspark_savepoint.plan.engine import Rows
    from pyspark_savepoint.statebackends.writing.planning.write_request import WriteSpec

#: A function of a key that returns its ``hashCode()`` in Java: a signed int of 32 bits.
HashCode = Callable[[Any], int]
KEY_GROUP = "key_group"


def wrong_key_groups(keys: Rows, hash_code: HashCode, max_parallelism: int) -> Rows:
    """Return the keys, as text, for which a function leads to another key group than the one that they are in."""
    expect_hash_code(hash_code)
    schema = pa.schema([("key", pa.string()), ("stored", pa.int32()), ("computed", pa.int32())])

    def wrong(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            keys, stored = to_python(batch.column("key")), batch.column(KEY_GROUP).to_pylist()
            groups = key_groups(keys, hash_code, max_parallelism)
            rows = [(f"{k!r:.200}", a, b) for k, a, b in zip(keys, stored, groups, strict=True) if a != b]
            columns = zip(*rows, strict=True) if rows else ((), (), ())
            arrays = [pa.array(list(column), field.type) for column, field in zip(columns, schema, strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    return keys.select("key", KEY_GROUP).mapped(wrong, schema)


def key_groups(keys: Sequence[Any], hash_code: HashCode, max_parallelism: int) -> list[int]:
    """Return the key group of each key."""
    groups = []
    with UserCode(hash_code, "hash_code"):
        for key in keys:
            code = hash_code(key)
            if type(code) is not int or not -(2**31) <= code < 2**31:
                raise ValueRangeError(
                    "hash_code must return a 32-bit int, as hashCode() does in Java",
                    key=f"{key!r:.200}",
                    expected="-2147483648 to 2147483647",
                    found=f"{code!r:.100}",
                    remedy="keep 32 bits: (h + 2**31) % 2**32 - 2**31",
                )
            groups.append(key_group_for_hash(code, max_parallelism))
    return groups


def expect_hash_code(hash_code: object) -> None:
    """Raise OptionError if this is not a function."""
    if not callable(hash_code):
        raise OptionError("hash_code must be a function of a key", found=type_name(hash_code))


def keys_of(batch: pa.RecordBatch, names: Sequence[str]) -> list[Any]:
    """Return keys as user functions get them: values, or rows of several columns."""
    columns = [to_python(batch.column(name)) for name in names]
    return columns[0] if len(columns) == 1 else list(rows_of_columns(tuple(names), columns, batch.num_rows))


@dataclass(frozen=True)
class KeyHashing:
    """Function from key columns to key groups; pickles."""

    descriptor: KeyedDescriptor
    max_parallelism: int

    @classmethod
    def of(cls, schema: pa.Schema, spec: WriteSpec, max_parallelism: int) -> KeyHashing:
        """Build the function for the key columns of a schema."""
        expect_names(
            "types", spec.types, [KEY, *(path for field in schema for path in parts_of(field.type, field.name))]
        )
        types = OperatorTypes.named_by(spec)
        known = types.described(spec.job_classes).key if types is not None else None
        key = describe_key(schema, spec, None, known)
        descriptor = KeyedDescriptor(key.columns, key.serializer, (), key_group=spec.key_group, composite=key.composite)
        return cls(descriptor, max_parallelism)

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
