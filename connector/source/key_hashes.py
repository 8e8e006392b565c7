"""Key groups of keys whose Java hash a Python function of the user computes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.types import IntegerType, StringType, StructField, StructType

from pyspark_savepoint.formats.errors import OptionError, ValueRangeError, type_name
from pyspark_savepoint.formats.metadata.key_groups import key_group_for_hash
from pyspark_savepoint.statebackends.processing.runtime.row import rows_of_columns
from pyspark_savepoint.statebackends.processing.runtime.user_code import UserCode
from pyspark_savepoint.statebackends.processing.runtime.values import to_python

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: A function of a key that returns its ``hashCode()`` in Java: a signed int of 32 bits.
HashCode = Callable[[Any], int]
KEY_GROUP = "key_group"


def with_hashed_key_groups(
    df: DataFrame, keys: Sequence[str], hash_code: HashCode, max_parallelism: int, name: str = KEY_GROUP
) -> DataFrame:
    """Add a column with the key group of every row, by the hashes that a function returns."""
    expect_hash_code(hash_code)
    if name in df.columns:
        raise OptionError(f"there is a column {name!r} already, which hash_code would add", remedy="rename it")

    def hashed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            groups = key_groups(_keys(batch, keys), hash_code, max_parallelism)
            yield batch.append_column(name, pa.array(groups, pa.int32()))

    return df.mapInArrow(hashed, StructType([*df.schema, StructField(name, IntegerType())]))


def wrong_key_groups(df: DataFrame, hash_code: HashCode, max_parallelism: int) -> DataFrame:
    """Return the keys, as text, for which a function leads to another key group than the one that they are in."""
    expect_hash_code(hash_code)

    def wrong(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            keys, there = to_python(batch.column("key")), batch.column(KEY_GROUP).to_pylist()
            groups = key_groups(keys, hash_code, max_parallelism)
            rows = [(f"{k!r:.200}", a, b) for k, a, b in zip(keys, there, groups, strict=True) if a != b]
            columns = zip(*rows, strict=True) if rows else ((), (), ())
            kinds = (pa.string(), pa.int32(), pa.int32())
            arrays = [pa.array(list(column), kind) for column, kind in zip(columns, kinds, strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, names=["key", "there", "computed"])

    kinds = (("key", StringType()), ("there", IntegerType()), ("computed", IntegerType()))
    return df.select("key", KEY_GROUP).mapInArrow(wrong, StructType([StructField(*kind) for kind in kinds]))


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


def _keys(batch: pa.RecordBatch, names: Sequence[str]) -> list[Any]:
    """Return keys as user functions get them: values, or rows of several columns."""
    columns = [to_python(batch.column(name)) for name in names]
    return columns[0] if len(columns) == 1 else list(rows_of_columns(tuple(names), columns, batch.num_rows))
