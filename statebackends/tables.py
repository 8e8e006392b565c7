"""Which table a request means, and that table. The only door of this package for a reader."""

from __future__ import annotations

from dataclasses import replace

from pyspark_savepoint.formats.savepoint import Savepoint
from pyspark_savepoint.statebackends.keyed_table import KeyedTable
from pyspark_savepoint.statebackends.request import Table, TableRequest

#: The first release of Flink with Kryo 5 wrote this version of ``_metadata``.
FIRST_METADATA_OF_FLINK_2 = 5


def open_table(request: TableRequest) -> Table:
    """The table of a request; errors name what is there instead of what was asked for."""
    savepoint = Savepoint.open(request.path, allow_outside=request.allow_outside)
    kryo = request.kryo or (5 if savepoint.metadata.version >= FIRST_METADATA_OF_FLINK_2 else 2)
    request = replace(request, decode=replace(request.decode, kryo=kryo))
    operator = savepoint.operator(uid=request.uid, uid_hash=request.uid_hash, name=request.operator_name)
    return KeyedTable(savepoint, operator, request, request.table == "window_state")
