"""``spark.read.format("savepoint")``: the face that Spark sees. No logic.

Spark imports this in a process of its own to find its sources, so nothing but PySpark is imported before it is needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceWriter

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


class SavepointDataSource(DataSource):
    """Savepoints and checkpoints of Apache Flink as tables."""

    #: Warnings that :meth:`schema` has shown; Spark pickles them along to the process that makes the reader.
    shown_warnings: tuple[str, ...] = ()

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "savepoint"

    def schema(self) -> StructType:
        """The schema of the table that the options name."""
        from pyspark_savepoint.formats.errors import SavepointError
        from pyspark_savepoint.options.options import SavepointReadOptions
        from pyspark_savepoint.options.schema import spark_schema
        from pyspark_savepoint.source.reader import of_one_version, warn
        from pyspark_savepoint.statebackends.open_table import open_table

        try:
            request = SavepointReadOptions.parse(self.options).request()
            table = of_one_version(lambda: open_table(request))
        except SavepointError as error:
            raise error.with_traceback(None) from None
        warn(iter(table.warnings))
        self.shown_warnings = table.warnings
        return spark_schema(table.schema)

    def reader(self, schema: StructType) -> DataSourceReader:
        """A reader of the columns of the schema, which may be a user's."""
        from pyspark_savepoint.formats.errors import SavepointError
        from pyspark_savepoint.options.options import SavepointReadOptions
        from pyspark_savepoint.source.reader import SavepointDataSourceReader

        try:
            options = SavepointReadOptions.parse(self.options)
        except SavepointError as error:
            raise error.with_traceback(None) from None
        return SavepointDataSourceReader(options, schema, self.shown_warnings)

    def simpleStreamReader(self, schema: StructType) -> NoReturn:  # noqa: N802
        """A snapshot does not go on."""
        from pyspark_savepoint.formats.errors import OptionError

        raise OptionError(
            "a savepoint is no stream, for it does not go on: readStream and writeStream cannot apply to it",
            remedy="spark.read.format('savepoint'), and df.write.format('savepoint')",
        )

    def streamReader(self, schema: StructType) -> NoReturn:  # noqa: N802
        """A snapshot does not go on."""
        self.simpleStreamReader(schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> NoReturn:  # noqa: N802
        """Nothing is added to a snapshot while it is there."""
        self.simpleStreamReader(schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """A writer of one part of one operator; everything that can be refused is refused here."""
        from pyspark_savepoint.formats.errors import SavepointError
        from pyspark_savepoint.options.write_options import SavepointWriteOptions
        from pyspark_savepoint.source.writer import SavepointDataSourceWriter

        try:
            return SavepointDataSourceWriter(SavepointWriteOptions.parse(self.options), schema, overwrite)
        except SavepointError as error:
            raise error.with_traceback(None) from None
