"""Writer of table ``splits``: tasks collect rows, and the commit changes the source."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from pyspark_savepoint.formats.errors import SavepointError
from pyspark_savepoint.options.schema import arrow_schema
from pyspark_savepoint.source.reader import warn
from pyspark_savepoint.statebackends.connectors.edits.splits_write import SplitsWrite

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from pyspark_savepoint.options.write_options import SavepointWriteOptions


@dataclass
class SplitsMessage(WriterCommitMessage):
    """Rows of one task."""

    rows: tuple[Any, ...]


class SplitsDataSourceWriter(DataSourceArrowWriter):
    """Writer of the splits of one source."""

    def __init__(self, options: SavepointWriteOptions, schema: StructType, overwrite: bool) -> None:
        self.plan = SplitsWrite.plan(options.request(overwrite), arrow_schema(schema))

    def write(self, iterator: Iterator[pa.RecordBatch]) -> SplitsMessage:
        """Collect the rows of one partition."""
        return SplitsMessage(self.plan.collect(iterator))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Publish the changed source."""
        rows = [row for message in messages if isinstance(message, SplitsMessage) for row in message.rows]
        try:
            notes = self.plan.commit(rows)
        except SavepointError as error:
            raise error.with_traceback(None) from None
        warn(iter(notes))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Remove what this write has left."""
        self.plan.abort()
