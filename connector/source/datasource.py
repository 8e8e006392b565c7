"""The entry point of ``spark.read.format("savepoint")``, without logic.

Spark imports this module in a separate process to find data sources, so everything but PySpark is imported on use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceWriter

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql.types import StructType

    from pyspark_savepoint.options.options import SavepointReadOptions
    from pyspark_savepoint.statebackends.sources.opened_operators import Shared


#: The option of writes that names the column of the key, and that column in tables.
KEY = "key"


def _key_of(options: Mapping[str, str]) -> str | None:
    return next((value for name, value in options.items() if name.casefold() == KEY), None)


class SavepointDataSource(DataSource):
    """Spark data source ``savepoint``: the tables of Flink savepoints and checkpoints, read and written.

    Spark finds it without registration; ``pyspark_savepoint.register(spark)`` registers it on platforms that do not.

    Example::

        spark.read.format("savepoint").option("uid", "accounts").load("/savepoints/savepoint-2f1a3c")
        df.write.format("savepoint").option("uid", "totals").option("key", "id").mode("append").save("/savepoints/new")
    """

    #: The name of the format.
    format_name = "savepoint"
    #: Serializers that the Python API was given, which options of this source may name.
    given: tuple[str, ...] = ()
    #: Warnings that :meth:`schema` has shown; Spark pickles them along to the process that makes the reader.
    shown_warnings: tuple[str, ...] = ()
    #: The options as :meth:`schema` has parsed them, so that the reader does not choose other snapshots of a folder.
    parsed: SavepointReadOptions | None = None
    #: The operator that :meth:`schema` has opened, for the process that plans partitions.
    opened: Shared | None = None

    @classmethod
    def name(cls) -> str:
        """Return the name of the format, ``savepoint``."""
        return cls.format_name

    def schema(self) -> StructType:
        """Return the schema of the table that the options select.

        Returns:
            The schema, without reading any state.

        Raises:
            SavepointError: If an option is invalid, or the snapshot, operator or state does not exist.

        """
        from pyspark_savepoint.execution.table_reads import table_of
        from pyspark_savepoint.formats.errors import OptionError, SavepointError
        from pyspark_savepoint.options.options import SavepointReadOptions
        from pyspark_savepoint.options.schema import spark_schema
        from pyspark_savepoint.source.reader import warn

        self._accept()
        try:
            if _key_of(self.options) is not None:
                raise OptionError(
                    "option 'key' is for writes",
                    remedy="to read some keys, option 'keys'; a view that creates an operator names its columns: "
                    "CREATE TEMPORARY VIEW totals (id BIGINT, total BIGINT) USING savepoint OPTIONS (path ..., "
                    "uid ..., key 'id')",
                )
            options = SavepointReadOptions.parse(self.options)
            options, table = table_of(options)
            self.parsed = options
            if options.names_operator and not options.versions:
                from pyspark_savepoint.statebackends.sources.opened_operators import OPENED

                self.opened = OPENED.shared(options.request())
        except SavepointError as error:
            raise error.with_traceback(None) from None
        warn(iter(table.warnings))
        self.shown_warnings = table.warnings
        return spark_schema(table.schema)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a reader of the columns of a schema.

        Args:
            schema: That of :meth:`schema`, or one that the user gave with ``.schema(...)``.

        Returns:
            The reader.

        Raises:
            SavepointError: If an option is invalid.

        """
        from pyspark_savepoint.formats.errors import SavepointError
        from pyspark_savepoint.options.options import SavepointReadOptions
        from pyspark_savepoint.source.reader import SavepointDataSourceReader

        self._accept()
        given, key = dict(self.options), _key_of(self.options)
        if key in schema.names:
            # A view with named columns, which is written and read: its key is the table's.
            from pyspark_savepoint.options.write_options import of_writes_alone

            alone = of_writes_alone()
            given = {name: value for name, value in given.items() if name.casefold() not in alone}
        else:
            key = None
        try:
            options = self.parsed or SavepointReadOptions.parse(given)
        except SavepointError as error:
            raise error.with_traceback(None) from None
        if self.opened is not None:
            from pyspark_savepoint.statebackends.sources.opened_operators import OPENED

            OPENED.keep(self.opened)
        return SavepointDataSourceReader(options, schema, self.shown_warnings, key)

    def simpleStreamReader(self, schema: StructType) -> NoReturn:  # noqa: N802
        """Raise OptionError: a snapshot is finite and cannot be streamed.

        Args:
            schema: The schema of the rows.

        Raises:
            OptionError: Always.

        """
        from pyspark_savepoint.formats.errors import OptionError

        raise OptionError(
            "a savepoint is not a stream: readStream and writeStream cannot be used with it",
            remedy="spark.read.format('savepoint'), and df.write.format('savepoint')",
        )

    def streamReader(self, schema: StructType) -> NoReturn:  # noqa: N802
        """Raise OptionError: a snapshot is finite and cannot be streamed.

        Args:
            schema: The schema of the rows.

        Raises:
            OptionError: Always.

        """
        self.simpleStreamReader(schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> NoReturn:  # noqa: N802
        """Raise OptionError: a snapshot is published once and cannot be appended to continuously.

        Args:
            schema: The schema of the rows.
            overwrite: Whether the output mode is ``complete``.

        Raises:
            OptionError: Always.

        """
        self.simpleStreamReader(schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return a writer of one table of one operator, after all checks that need no rows.

        Args:
            schema: The schema of the rows.
            overwrite: Whether the mode is ``overwrite``.

        Returns:
            The writer.

        Raises:
            SavepointError: If an option is invalid, or the rows cannot be written to the savepoint at the path.

        """
        from pyspark_savepoint.formats.errors import SavepointError
        from pyspark_savepoint.options.write_options import SPLITS, SavepointWriteOptions
        from pyspark_savepoint.source.writer import SavepointDataSourceWriter

        self._accept()
        try:
            options = SavepointWriteOptions.parse(self.options)
            if options.table == SPLITS:
                from pyspark_savepoint.source.splits_writer import SplitsDataSourceWriter

                return SplitsDataSourceWriter(options, schema, overwrite)
            return SavepointDataSourceWriter(options, schema, overwrite)
        except SavepointError as error:
            raise error.with_traceback(None) from None

    def _accept(self) -> None:
        if self.given:
            from pyspark_savepoint.options.pickled_serializers import accept

            accept(self.given)
