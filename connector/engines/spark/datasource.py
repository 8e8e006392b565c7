"""The entry point of ``spark.read.format("savepoint")``, without logic.

Spark imports this module in a separate process to find data sources, so everything but PySpark is imported on use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, DataSourceWriter

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql.types import StructType

    from pyspark_savepoint.options.options import SavepointReadOptions
    from pyspark_savepoint.statebackends.sources.open_operator import Shared


#: The option of writes that names the column of the key, and that column in tables.
KEY = "key"


def _key_of(options: Mapping[str, str]) -> str | None:
    return next((value for name, value in options.items() if name.casefold() == KEY), None)


class SavepointDataSource(DataSource):
    """Spark data source ``savepoint``: the tables of Flink savepoints and checkpoints, read and written.

    Spark finds it without registration. ``pyspark_savepoint.register(spark)`` registers it on platforms that do not.

    Example::

        spark.read.format("savepoint").option("uid", "accounts").load("/savepoints/savepoint-2f1a3c")
        df.write.format("savepoint").option("uid", "totals").option("key", "id").mode("append").save("/savepoints/new")
    """

    #: The name of the format.
    format_name = "savepoint"
    #: Serializers that the Python API was given, which options of this source may name.
    serializers: tuple[str, ...] = ()
    #: Warnings that :meth:`schema` has shown; Spark pickles them along to the process that makes the reader.
    shown_warnings: tuple[str, ...] = ()
    #: The options as :meth:`schema` has parsed them, so that the reader does not choose other snapshots of a folder.
    parsed: SavepointReadOptions | None = None
    #: Whether the columns are those of :meth:`schema`, and not given.
    inferred: bool = False
    #: The checkpoint whose columns :meth:`schema` has returned, of changes and streams.
    columns_of: int | None = None
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
        from pyspark_savepoint.engines.spark.output import warn
        from pyspark_savepoint.engines.table_reads import table_of
        from pyspark_savepoint.formats.errors import OptionError, SavepointError
        from pyspark_savepoint.formats.io.one_verb import one_verb
        from pyspark_savepoint.options.schema import spark_schema

        self._accept()
        try:
            if _key_of(self.options) is not None:
                raise OptionError(
                    "option 'key' is for writes",
                    remedy="to read some keys, option 'keys'; a view that creates an operator names its columns: "
                    "CREATE TEMPORARY VIEW totals (id BIGINT, total BIGINT) USING savepoint OPTIONS (path ..., "
                    "uid ..., key 'id')",
                )
            with one_verb():
                options, table = table_of(self.selected())
            if not options.streamed:
                self.parsed = options
            self.inferred = True
            newest = options.versions[-1] if options.versions else None
            self.columns_of = None if newest is None else newest.checkpoint_id
            if options.names_operator and not options.versions:
                from pyspark_savepoint.statebackends.sources.open_operator import OPENED

                self.opened = OPENED.shared(options.request())
        except SavepointError as error:
            raise error.with_traceback(None) from None
        self.shown_warnings = (*options.unread, *table.warnings)
        warn(iter(self.shown_warnings))
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
        from pyspark_savepoint.engines.spark.reader import SavepointDataSourceReader
        from pyspark_savepoint.formats.errors import SavepointError
        from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
        from pyspark_savepoint.options.options import SavepointReadOptions

        kind = SavepointDataSourceReader
        if hasattr(DataSourceReader, "pushLimit"):
            from pyspark_savepoint.engines.spark.pushed_reader import PushedReader as kind  # noqa: N813

        self._accept()
        option_texts, key = dict(self.options), _key_of(self.options)
        if key in schema.names:
            # A view with named columns, which is written and read: its key is the table's.
            from pyspark_savepoint.options.write_options import of_writes_alone

            alone = of_writes_alone()
            option_texts = {name: value for name, value in option_texts.items() if name.casefold() not in alone}
        else:
            key = None
        try:
            options = self.parsed or SavepointReadOptions.parse(option_texts)
            if self.inferred and self.parsed is None and not options.versions:
                # The columns are those of a stream: there is no snapshot, but a folder of several.
                Snapshot.find(options.located)
        except SavepointError as error:
            raise error.with_traceback(None) from None
        if self.opened is not None:
            from pyspark_savepoint.statebackends.sources.open_operator import OPENED

            OPENED.keep(self.opened)
        return kind(options, schema, self.shown_warnings, key)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """Return a reader of the changes from each checkpoint below a folder to the next.

        Args:
            schema: That of :meth:`schema`, or one that the user gave with ``.schema(...)``.

        Returns:
            The reader.

        Raises:
            SavepointError: If an option is invalid, or there is one snapshot at the path.

        """
        from pyspark_savepoint.engines.spark.stream import SavepointStreamReader
        from pyspark_savepoint.formats.errors import SavepointError
        from pyspark_savepoint.options.options import SavepointReadOptions

        self._accept()
        try:
            options = SavepointReadOptions.parse_stream(self.options)
            reader: DataSourceStreamReader = SavepointStreamReader(options, schema, self.columns_of)
        except SavepointError as error:
            raise error.with_traceback(None) from None
        return reader

    def streamWriter(self, schema: StructType, overwrite: bool) -> NoReturn:  # noqa: N802
        """Raise OptionError: a snapshot is published once and cannot be appended to continuously.

        Args:
            schema: The schema of the rows.
            overwrite: Whether the output mode is ``complete``.

        Raises:
            OptionError: Always.

        """
        from pyspark_savepoint.formats.errors import OptionError

        raise OptionError(
            "a savepoint cannot be written as a stream: it is published once",
            remedy="df.write.format('savepoint'), for instance in foreachBatch",
        )

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
        from pyspark_savepoint.engines.spark.writer import SavepointDataSourceWriter, SplitsDataSourceWriter
        from pyspark_savepoint.formats.errors import SavepointError
        from pyspark_savepoint.options.write_options import SavepointWriteOptions
        from pyspark_savepoint.statebackends.writing.planning.write_request import SPLITS

        self._accept()
        try:
            options = SavepointWriteOptions.parse(self.options)
            if options.table == SPLITS:
                return SplitsDataSourceWriter(options, schema, overwrite)
            return SavepointDataSourceWriter.of(options, schema, overwrite)
        except SavepointError as error:
            raise error.with_traceback(None) from None

    def selected(self) -> SavepointReadOptions:
        """Return the options of a read."""
        from pyspark_savepoint.options.options import options_of_load

        return options_of_load(self.options)

    def _accept(self) -> None:
        if self.serializers:
            from pyspark_savepoint.options.pickled_serializers import accept

            accept(self.serializers)


#: The name under which Spark finds the source in this package.
DefaultSource = SavepointDataSource
