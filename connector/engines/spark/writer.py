"""Writer of one DataFrame: planned on the driver, written by tasks, then committed or completely removed.

Spark pickles the writer to tasks and to the process that commits, so it contains the plan and nothing open. Planning
and committing are separate processes in every write, so each imports only what it needs. Errors are raised again
without the frames below, which do not help users: Spark shows the full traceback.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from pyspark_savepoint.formats.errors import SavepointError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from pyspark_savepoint.options.write_options import SavepointWriteOptions
    from pyspark_savepoint.statebackends.writing.planning.planned_write import WritePlan
    from pyspark_savepoint.statebackends.writing.task_outputs import TaskOutput


@dataclass
class SubtaskStateMessage(WriterCommitMessage):
    """Output of one task."""

    output: TaskOutput


class SavepointDataSourceWriter(DataSourceArrowWriter):
    """Writer of one table of one operator."""

    def __init__(self, plan: WritePlan) -> None:
        self.plan = plan

    @classmethod
    def of(cls, options: SavepointWriteOptions, schema: StructType, overwrite: bool) -> SavepointDataSourceWriter:
        """Return the writer of a DataFrame with the options of a user."""
        from pyspark_savepoint.engines.spark.distribution import layout_of
        from pyspark_savepoint.engines.spark.output import warn
        from pyspark_savepoint.options.schema import table_schema
        from pyspark_savepoint.write.in_place import plan_write

        plan = plan_write(options.request(overwrite), table_schema(schema), layout_of(schema))
        warn(plan.notes)
        return cls(plan)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> SubtaskStateMessage:
        """Write the rows of one partition."""
        from pyspark_savepoint.statebackends.writing.write_task import write_rows

        context = TaskContext.get()
        partition = context.partitionId() if context is not None else 0
        try:
            return SubtaskStateMessage(write_rows(self.plan, partition, iterator))
        except SavepointError as error:
            raise error.with_traceback(None) from None

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Publish the output of all tasks."""
        from pyspark_savepoint.engines.spark.output import warn
        from pyspark_savepoint.statebackends.writing.assemble import merge_notes
        from pyspark_savepoint.statebackends.writing.committer import commit

        outputs = [message.output for message in messages if isinstance(message, SubtaskStateMessage)]
        warn(merge_notes(outputs))
        try:
            commit(self.plan, outputs)
        except SavepointError as error:
            raise error.with_traceback(None) from None

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Remove all files of this write, including those of failed tasks."""
        from pyspark_savepoint.statebackends.writing.committer import abort

        abort(self.plan, unfinished=sum(message is None for message in messages))


@dataclass
class SplitsMessage(WriterCommitMessage):
    """Rows of one task."""

    rows: tuple[Any, ...]


class SplitsDataSourceWriter(DataSourceArrowWriter):
    """Writer of the splits of one source: tasks collect rows, and the commit changes the source."""

    def __init__(self, options: SavepointWriteOptions, schema: StructType, overwrite: bool) -> None:
        from pyspark_savepoint.options.schema import arrow_schema
        from pyspark_savepoint.statebackends.connectors.edits.splits_write import SplitsWrite

        self.plan = SplitsWrite.plan(options.request(overwrite), arrow_schema(schema))

    def write(self, iterator: Iterator[pa.RecordBatch]) -> SplitsMessage:
        """Collect the rows of one partition."""
        return SplitsMessage(self.plan.collect(iterator))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Publish the changed source."""
        from pyspark_savepoint.engines.spark.output import warn

        rows = [row for message in messages if isinstance(message, SplitsMessage) for row in message.rows]
        try:
            notes = self.plan.commit(rows)
        except SavepointError as error:
            raise error.with_traceback(None) from None
        warn(iter(notes))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Remove what this write has left."""
        self.plan.abort()
