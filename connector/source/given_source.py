"""The data source for reads and writes with serializers of the user's.

An option is text, which anyone who can write SQL can set, and serializers are code. So the code travels inside a data
source that the Python API registers in its session, as user functions travel inside a plan; the option only names it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from pyspark_savepoint.options.pickled_serializers import texts_in
from pyspark_savepoint.source.datasource import SavepointDataSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_REGISTERED: WeakKeyDictionary[SparkSession, set[str]] = WeakKeyDictionary()


def format_of(spark: SparkSession, options: Mapping[str, str]) -> str:
    """Return the name of the format that reads or writes with some options."""
    given = texts_in(options)
    if not given:
        return SavepointDataSource.format_name
    name = f"savepoint_{hashlib.sha256(','.join(given).encode()).hexdigest()[:16]}"
    known = _REGISTERED.setdefault(spark, set())
    if name not in known:
        spark.dataSource.register(
            type("GivenDataSource", (SavepointDataSource,), {"format_name": name, "given": given})
        )
        known.add(name)
    return name
