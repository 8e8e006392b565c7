"""Reader that gets conditions and a limit of a query from Spark, where Spark keeps them with the scan that gets them.

PySpark 4.1 to 4.3 pass the filters of one use of a DataFrame to another one, and fail every query of a source that
takes filters while ``spark.sql.python.filterPushdown.enabled`` is off. The release with ``DataSourceReader.pushLimit``
(SPARK-58551) does neither, and only there is this the reader (``datasource``).

Keys and key groups of conditions are read as options ``keys`` and ``keyGroups`` do. Spark evaluates all conditions
again, so that they only need to choose enough.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark.sql import datasource

from pyspark_savepoint.engines.spark.reader import SavepointDataSourceReader
from pyspark_savepoint.engines.table_reads import SIGNS, table_of
from pyspark_savepoint.formats.errors import SavepointError
from pyspark_savepoint.statebackends.requests.applicability import KEYED_TABLES

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.datasource import Filter, InputPartition

    from pyspark_savepoint.options.options import SavepointReadOptions

KEY, KEY_GROUP = "key", "key_group"
#: Tables of keys; keyed state is that of an operator alone.
TABLES = (None, *KEYED_TABLES)
#: Most keys that are looked up for a condition; more are rather read with all others.
MOST_KEYS = 10_000


class PushedReader(SavepointDataSourceReader):
    """Reader that opens the key groups of wanted keys alone, and ends a task after its limit."""

    limit: int | None = None

    def pushFilters(self, filters: list[Filter]) -> list[Filter]:  # noqa: N802
        """Read less for conditions on the key and the key group; return all of them, which Spark evaluates too."""
        for one in filters:
            self.options = self._narrowed(one)
        return filters

    def pushLimit(self, limit: int) -> bool:  # noqa: N802
        """Take the limit for each task; Spark applies it to the rows of all."""
        self.limit = limit
        return True

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the batches of a partition, up to the limit."""
        left = self.limit
        for batch in super().read(partition):
            yield batch if left is None else batch.slice(0, left)
            if left is not None and (left := left - len(batch)) <= 0:
                return

    def _narrowed(self, condition: Filter) -> SavepointReadOptions:
        """Return the options that read what a condition can hold for."""
        options = self.options
        if _is_of(condition, KEY_GROUP) and options.table in TABLES and options.key_groups is None:
            groups = _groups(condition, (table_of(options)[1].max_parallelism or 0) - 1)
            return options if groups is None else self._if_possible(replace(options, key_groups=(groups,)))
        if not _is_of(condition, self.key or KEY) or options.table not in TABLES or options.keys:
            return options
        values = _values(condition)
        if not 0 < len(values) <= MOST_KEYS or not all(_is_plain(value) for value in values):
            return options
        return self._if_possible(replace(options, keys=json.dumps(values)))

    def _if_possible(self, options: SavepointReadOptions) -> SavepointReadOptions:
        """Return the options, unless the table does not take them: Spark's own evaluation is right then too."""
        try:
            table_of(options)
        except SavepointError:
            return self.options
        return options


def _is_of(condition: Filter, column: str) -> bool:
    """Return whether a condition is one on a whole column."""
    return getattr(condition, "attribute", None) == (column,)


def _values(condition: Filter) -> Sequence[Any]:
    """Return the values that a condition allows; none if they are not listed."""
    if isinstance(condition, datasource.EqualTo | datasource.EqualNullSafe):
        return [condition.value]
    return list(condition.value) if isinstance(condition, datasource.In) else []


def _is_plain(value: Any) -> bool:
    """Return whether a key is shown in one form alone, so that equal rows have equal keys."""
    if isinstance(value, str):
        return not any(sign in value for sign in SIGNS.values())
    return type(value) in (int, bool)


def _groups(condition: Filter, last: int) -> tuple[int, int] | None:
    """Return the first and the last key group up to ``last`` that a condition allows; None if it tells none."""
    values = _values(condition) or [getattr(condition, "value", None)]
    if not all(type(value) is int and 0 <= value <= last for value in values):
        return None
    if isinstance(condition, datasource.LessThan | datasource.LessThanOrEqual):
        return 0, values[0]
    if isinstance(condition, datasource.GreaterThan | datasource.GreaterThanOrEqual):
        return values[0], last
    return (min(values), max(values)) if _values(condition) else None
