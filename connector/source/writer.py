"""The writer of one DataFrame: planned on the driver, written by tasks, committed or left without a trace.

Spark pickles the writer along to tasks and to the process that commits, so it holds what was decided and nothing open.
Planning and committing are processes of their own for every write: each imports only what it needs.
Errors are raised again without the frames below, which mean nothing to a user: Spark shows a traceback in full.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from pyspark_savepoint.formats.errors import SavepointError
from pyspark_savepoint.statebackends.writing.files.write_results import TaskOutput

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from pyspark_savepoint.options.write_options import SavepointWriteOptions


@dataclass
class SubtaskStateMessage(WriterCommitMessage):
    """What a task has written."""

    output: TaskOutput


class SavepointDataSourceWriter(DataSourceArrowWriter):
    """Writes one part of one operator."""

    def __init__(self, options: SavepointWriteOptions, schema: StructType, overwrite: bool) -> None:
        from pyspark_savepoint.options.schema import arrow_schema
        from pyspark_savepoint.source.distribution import layout_of
        from pyspark_savepoint.statebackends.writing.planning.write_plan import plan_write

        self.plan = plan_write(options.request(overwrite), arrow_schema(schema), layout_of(schema))

    def write(self, iterator: Iterator[pa.RecordBatch]) -> SubtaskStateMessage:
        """The rows of one partition."""
        from pyspark_savepoint.statebackends.writing.commit.write_task import write_rows

        context = TaskContext.get()
        partition = context.partitionId() if context is not None else 0
        try:
            return SubtaskStateMessage(write_rows(self.plan, partition, iterator))
        except SavepointError as error:
            raise error.with_traceback(None) from None

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Publish what all tasks have written."""
        from pyspark_savepoint.statebackends.writing.commit.committer import commit

        outputs = [message.output for message in messages if isinstance(message, SubtaskStateMessage)]
        try:
            commit(self.plan, outputs)
        except SavepointError as error:
            raise error.with_traceback(None) from None

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Leave nothing, of failed tasks and of others."""
        from pyspark_savepoint.statebackends.writing.commit.committer import abort

        abort(self.plan)
