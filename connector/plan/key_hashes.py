"""Key groups of keys whose Java hash a Python function of the user computes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from pyspark_savepoint.formats.errors import OptionError, ValueRangeError, type_name
from pyspark_savepoint.formats.metadata.key_groups import key_group_for_hash
from pyspark_savepoint.plan.engine import Rows
from pyspark_savepoint.statebackends.processing.runtime.row import rows_of_columns
from pyspark_savepoint.statebackends.processing.runtime.user_code import UserCode
from pyspark_savepoint.statebackends.processing.runtime.values import to_python

#: A function of a key that returns its ``hashCode()`` in Java: a signed int of 32 bits.
HashCode = Callable[[Any], int]
KEY_GROUP = "key_group"


def wrong_key_groups(keys: Rows, hash_code: HashCode, max_parallelism: int) -> Rows:
    """Return the keys, as text, for which a function leads to another key group than the one that they are in."""
    expect_hash_code(hash_code)
    schema = pa.schema([("key", pa.string()), ("there", pa.int32()), ("computed", pa.int32())])

    def wrong(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            keys, there = to_python(batch.column("key")), batch.column(KEY_GROUP).to_pylist()
            groups = key_groups(keys, hash_code, max_parallelism)
            rows = [(f"{k!r:.200}", a, b) for k, a, b in zip(keys, there, groups, strict=True) if a != b]
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
