"""Distribution of rows by key group: partition i of a DataFrame contains the keys of subtask i.

A Spark data source in Python cannot request a distribution of the rows it writes, so :func:`key_by` creates it before
the write: then each task writes the state file of one subtask, and the commit only collects the files. Without it, the
result is the same, but the commit merges the rows of all tasks in one process. Flink: ``DataStream#keyBy``,
``KeyGroupRangeAssignment``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Unpack

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import IntegerType, StructField, StructType

from pyspark_savepoint.formats.errors import OptionError, SavepointError, did_you_mean
from pyspark_savepoint.formats.metadata.key_groups import check_parallelism
from pyspark_savepoint.options.option_values import to_options
from pyspark_savepoint.options.paths import located, located_types
from pyspark_savepoint.options.schema import arrow_schema
from pyspark_savepoint.options.write_options import parse_spec
from pyspark_savepoint.plan.key_hashes import KEY_GROUP as HASHED_KEY_GROUP
from pyspark_savepoint.plan.key_hashes import HashCode, expect_hash_code, key_groups, keys_of
from pyspark_savepoint.statebackends.requests.parallelism import DEFAULT_MAX_PARALLELISM
from pyspark_savepoint.statebackends.writing.planning.planned_write import Distribution

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from pyspark_savepoint.options.keywords import KeyOptions
    from pyspark_savepoint.plan.key_hashes import KeyHashing
    from pyspark_savepoint.statebackends.requests.request import BatchFunction
    from pyspark_savepoint.statebackends.rows.descriptors import KeyedDescriptor
    from pyspark_savepoint.statebackends.writing.planning.write_request import WriteSpec

#: Field metadata of a key column: the distribution that :func:`key_by` created.
LAYOUT = "savepoint.keyBy"
KEY_GROUP, SUBTASK = "__savepoint_key_group", "__savepoint_subtask"
#: Flink types whose hash Spark expressions compute.
NATIVE = ("LONG", "INT", "SHORT", "BYTE", "BOOLEAN")
LOW_32 = 0xFFFFFFFF


def key_by(
    rows: DataFrame,
    *keys: str,
    max_parallelism: int = DEFAULT_MAX_PARALLELISM,
    parallelism: int | None = None,
    hash_code: HashCode | None = None,
    **options: Unpack[KeyOptions],
) -> DataFrame:
    """Return the rows with partition i containing those whose keys belong to subtask i of ``parallelism``.

    Write the result as it is: filters keep the distribution, another shuffle loses it, and only the speed of the write
    depends on it. Flink: ``DataStream#keyBy``, ``KeyGroupRangeAssignment``.

    Args:
        rows: The rows.
        *keys: The columns of the key. Several form a composite key.
        max_parallelism: The job's max parallelism, the number of key groups: 1 to 32768.
        parallelism: The number of partitions, so of subtasks. By default the number of tasks that the session runs at a
            time.
        hash_code: For keys whose hash only the job's code can compute: a function of a key (a Row of several columns)
            that returns its ``hashCode()`` in Java. The result then has column ``key_group``, for option ``keyGroup``
            of the write. :meth:`Inspection.check_hash_code` tests the function on keys of a savepoint.
        **options: Options of the write that determine the key's type: ``types``, ``types_from``, ``inferred_by``,
            ``key_group``.

    Returns:
        The same rows and columns, repartitioned.

    Raises:
        OptionError: If there is no such column, a number is out of range, or an option is invalid.
        UndecodableStateError: If only the job's code can compute the hash of a key. ``key_group`` names a column with
            it.

    Example::

        large = key_by(df, "account_id", max_parallelism=128)
        large.write.format("savepoint").option("uid", "accounts").option("key", "account_id").mode("append").save(path)

    """
    texts = to_options(options)
    if hash_code is not None:
        rows = with_hashed_key_groups(rows, keys, hash_code, max_parallelism)
        texts["keyGroup"] = HASHED_KEY_GROUP
    spec = replace(parse_spec(located_types(partial(located, rows.sparkSession), texts)), key=keys)
    return by_key(rows, spec, max_parallelism, parallelism)


def with_hashed_key_groups(
    df: DataFrame, keys: Sequence[str], hash_code: HashCode, max_parallelism: int, name: str = HASHED_KEY_GROUP
) -> DataFrame:
    """Add a column with the key group of every row, by the hashes that a function returns."""
    expect_hash_code(hash_code)
    if name in df.columns:
        raise OptionError(f"there is a column {name!r} already, which hash_code would add", remedy="rename it")

    def hashed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            groups = key_groups(keys_of(batch, keys), hash_code, max_parallelism)
            yield batch.append_column(name, pa.array(groups, pa.int32()))

    return mapped_in_arrow(df, hashed, StructType([*df.schema, StructField(name, IntegerType())]))


def quoted(name: str) -> str:
    """Return the name of a column as Spark's expressions take it: else a dot in it would stand before a field.

    >>> quoted("order.id")
    '`order.id`'
    """
    return f"`{name.replace('`', '``')}`"


def mapped_in_arrow(df: DataFrame, function: BatchFunction, schema: StructType | str) -> DataFrame:
    """Return what a function makes of the batches of each partition, whatever the names of their columns are.

    ``DataFrame.mapInArrow`` looks its columns up as expressions, where a dot stands before a field, and names that
    differ only in case are one. Such columns have other names on their way to the function.
    """
    mapped: Any = function
    names = df.columns
    if all(name.isidentifier() for name in names) and len({name.casefold() for name in names}) == len(names):
        return df.mapInArrow(mapped, schema)
    mapped = Renamed(function, tuple(names))
    return df.toDF(*(f"c{number}" for number in range(len(names)))).mapInArrow(mapped, schema)


@dataclass(frozen=True)
class Renamed:
    """Function of ``mapInArrow`` that gives batches the names of columns that another function knows."""

    function: BatchFunction
    names: tuple[str, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        """Return what the other function makes of the batches."""
        return self.function(batch.rename_columns(list(self.names)) for batch in batches)


def by_key(df: DataFrame, spec: WriteSpec, max_parallelism: int, parallelism: int | None) -> DataFrame:
    """Distribute rows by a key as :func:`key_by` does."""
    keys = spec.key
    partition_count = parallelism or min(max_parallelism, cores(df))
    check_parallelism(max_parallelism, partition_count)
    for name in keys:
        if name not in df.columns:
            raise OptionError(f"there is no column {name!r} to use as key", remedy=did_you_mean(name, df.columns))
    if not keys:
        raise OptionError("key_by needs the columns of the key", remedy="key_by(df, 'id', max_parallelism=128)")
    if spec.key_group is not None:
        grouped = df.withColumn(KEY_GROUP, F.col(quoted(spec.key_group)).cast("int"))
    else:
        grouped = _hashed(df, _hashing(df, spec, max_parallelism))
    return by_key_group(grouped, KEY_GROUP, keys[0], max_parallelism, partition_count).drop(KEY_GROUP)


def by_described_key(
    df: DataFrame, descriptor: KeyedDescriptor, max_parallelism: int, parallelism: int | None
) -> DataFrame:
    """Distribute rows by their key as :func:`key_by` does, with the type that a descriptor has."""
    partition_count = parallelism or min(max_parallelism, cores(df))
    grouped = with_key_groups(df, descriptor, max_parallelism)
    return by_key_group(grouped, KEY_GROUP, descriptor.key_columns[0], max_parallelism, partition_count).drop(KEY_GROUP)


def with_key_groups(df: DataFrame, descriptor: KeyedDescriptor, max_parallelism: int) -> DataFrame:
    """Add column KEY_GROUP, of a key with the type that a descriptor has."""
    from pyspark_savepoint.plan.key_hashes import KeyHashing

    if descriptor.key_group is not None:
        return df.withColumn(KEY_GROUP, F.col(quoted(descriptor.key_group)).cast("int"))
    return _hashed(df, KeyHashing.described(descriptor, max_parallelism))


def by_key_group(df: DataFrame, key_group: str, key: str, max_parallelism: int, parallelism: int) -> DataFrame:
    """Distribute rows by a column of key groups, and record that in the metadata of column ``key`` for the writer."""
    subtask = F.floor(F.col(quoted(key_group)).cast("long") * parallelism / F.lit(max_parallelism)).cast("int")
    laid_out = _partitioned(df.withColumn(SUBTASK, subtask), parallelism).drop(SUBTASK)
    layout = _recorded(Distribution(max_parallelism, parallelism))
    metadata = {**df.schema[key].metadata, **layout}
    columns = {name: F.col(quoted(name)) for name in laid_out.columns}
    # ``withMetadata`` takes a dot in the name for a field.
    return laid_out.select(*(columns | {key: columns[key].alias(key, metadata=metadata)}).values())


def with_layout(schema: StructType, layout: Distribution) -> StructType:
    """Return a schema with the distribution of its rows in the metadata of the first column."""
    first, *others = schema.fields
    return StructType([StructField(first.name, first.dataType, first.nullable, _recorded(layout)), *others])


def _recorded(layout: Distribution) -> dict[str, dict[str, int]]:
    return {LAYOUT: {"maxParallelism": layout.max_parallelism, "parallelism": layout.parallelism}}


def layout_of(schema: StructType) -> Distribution | None:
    """Return the distribution that :func:`key_by` recorded in a schema, or None if it was not used."""
    for field in schema:
        layout = field.metadata.get(LAYOUT)
        if isinstance(layout, dict):
            return Distribution(int(layout["maxParallelism"]), int(layout["parallelism"]))
    return None


def cores(df: DataFrame) -> int:
    """Return the number of tasks that run at a time. On Spark Connect, which does not report it, that of a shuffle."""
    session = df.sparkSession
    if hasattr(session, "_jsparkSession"):
        return int(session.sparkContext.defaultParallelism)
    return int(session.conf.get("spark.sql.shuffle.partitions") or 1)


def _partitioned(df: DataFrame, parallelism: int) -> DataFrame:
    """Move each row into the partition whose number is in column SUBTASK."""
    if hasattr(df, "repartitionById"):
        return df.repartitionById(parallelism, F.col(SUBTASK))
    # PySpark 4.0 only hashes: pick an int that hashes to each partition, as the column that is hashed.
    places = F.array(*(F.lit(value) for value in hashed_to(parallelism)))
    placed = df.withColumn(SUBTASK, F.get(places, F.col(SUBTASK)))
    return placed.repartition(parallelism, F.col(SUBTASK))


# -- key groups ---------------------------------------------------------------------------------------------


def _hashing(df: DataFrame, spec: WriteSpec, max_parallelism: int) -> KeyHashing:
    """Return the function from key columns to key groups, or raise an error if only the job's code computes them."""
    from pyspark_savepoint.plan.key_hashes import KeyHashing

    schema = arrow_schema(StructType([df.schema[name] for name in spec.key]))
    try:
        return KeyHashing.of(schema, spec, max_parallelism)
    except SavepointError as error:
        raise error.with_traceback(None) from None


def _hashed(df: DataFrame, hashing: KeyHashing) -> DataFrame:
    """Add a column of key groups, computed by Spark's expressions if these can, else in Python over Arrow."""
    keys = hashing.descriptor.key_columns
    if len(keys) == 1 and hashing.flink_type in NATIVE:
        return _native(df, F.col(quoted(keys[0])), hashing.flink_type, hashing.max_parallelism)
    return _by_arrow(df, keys, hashing)


def _native(df: DataFrame, key: Column, flink_type: str, max_parallelism: int) -> DataFrame:
    """Compute the key group of an integral key: Murmur of its ``hashCode``, one column for each value used twice."""
    if flink_type == "LONG":
        whole = key.cast("long")
        code = whole.bitwiseXOR(F.shiftrightunsigned(whole, 32))
    elif flink_type == "BOOLEAN":
        code = F.when(key.cast("boolean"), F.lit(1231).cast("long")).otherwise(F.lit(1237).cast("long"))
    else:
        code = key.cast("long")
    h = F.col(KEY_GROUP)
    for step in (
        code.bitwiseAND(F.lit(LOW_32)),
        _times(h, 0xCC9E2D51),
        _rotated(h, 15),
        _times(h, 0x1B873593),
        _rotated(h, 13),
        (h * 5 + F.lit(0xE6546B64)).bitwiseAND(F.lit(LOW_32)).bitwiseXOR(F.lit(4)),
        h.bitwiseXOR(F.shiftright(h, 16)),
        _times(h, 0x85EBCA6B),
        h.bitwiseXOR(F.shiftright(h, 13)),
        _times(h, 0xC2B2AE35),
        h.bitwiseXOR(F.shiftright(h, 16)),
        # Java's abs of a signed int, where the smallest int becomes 0.
        F.when(h < 0x80000000, h).otherwise((F.lit(1 << 32) - h).bitwiseAND(F.lit(0x7FFFFFFF))),
    ):
        df = df.withColumn(KEY_GROUP, step)
    return df.withColumn(KEY_GROUP, (h % max_parallelism).cast("int"))


def _times(value: Column, constant: int) -> Column:
    """Return the low 32 bits of the product of two unsigned ints, in longs that must not overflow."""
    low = value * F.lit(constant & 0xFFFF)
    high = (value * F.lit(constant >> 16)).bitwiseAND(F.lit(0xFFFF))
    return (low + F.shiftleft(high, 16)).bitwiseAND(F.lit(LOW_32))


def _rotated(value: Column, bits: int) -> Column:
    return F.shiftleft(value, bits).bitwiseOR(F.shiftright(value, 32 - bits)).bitwiseAND(F.lit(LOW_32))


def _by_arrow(df: DataFrame, keys: Sequence[str], hashing: KeyHashing) -> DataFrame:
    if hasattr(F, "arrow_udf"):
        # One struct argument: type hints of Arrow UDFs have no form for a variable number of arrays.
        def key_groups(key: pa.Array) -> pa.Array:
            return hashing.key_groups(key.flatten())

        return df.withColumn(KEY_GROUP, F.arrow_udf(key_groups, IntegerType())(F.struct(*map(quoted, keys))))

    def with_key_groups(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield batch.append_column(KEY_GROUP, hashing.key_groups([batch.column(name) for name in keys]))

    return mapped_in_arrow(df, with_key_groups, StructType([*df.schema, StructField(KEY_GROUP, IntegerType())]))


# -- hashing of Spark 4.0 -----------------------------------------------------------------------------------


def hashed_to(partitions: int) -> list[int]:
    """Return for each partition an int that Spark's hash partitioning assigns to it.

    >>> hashed_to(4)
    [12, 6, 2, 0]
    """
    by_partition: dict[int, int] = {}
    value = 0
    while len(by_partition) < partitions:
        by_partition.setdefault(spark_hash(value) % partitions, value)
        value += 1
    return [by_partition[i] for i in range(partitions)]


def spark_hash(value: int) -> int:
    """Return Spark's ``hash`` of an int: Murmur3 with seed 42, as a signed int.

    >>> spark_hash(1)
    -559580957
    """
    k = value * 0xCC9E2D51 & LOW_32
    k = (k << 15 | k >> 17) & LOW_32
    h = 42 ^ (k * 0x1B873593 & LOW_32)
    h = (h << 13 | h >> 19) & LOW_32
    h = (h * 5 + 0xE6546B64 & LOW_32) ^ 4
    h = (h ^ h >> 16) * 0x85EBCA6B & LOW_32
    h = (h ^ h >> 13) * 0xC2B2AE35 & LOW_32
    h ^= h >> 16
    return h - (1 << 32) if h >= 1 << 31 else h
