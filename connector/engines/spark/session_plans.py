"""Data source of the plans of one session: the driver sends one pickled plan, and tasks read or write rows.

Plans are what options of users do not say: reads of entries and of differences, and writes of one table.

A plan is pickled, as user functions are, so unpickling one runs code. The data source has a secret of its session,
which Spark sends inside of the pickled class. What was sealed with it alone is unpickled: never an option that somebody
else sets, in SQL or a view, and never anything of a snapshot.
"""

from __future__ import annotations

import base64
import binascii
import hmac
from typing import TYPE_CHECKING, Any

import cloudpickle

from pyspark_savepoint.engines.spark.datasource import SavepointDataSource

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceWriter
    from pyspark.sql.types import StructType

    from pyspark_savepoint.options.options import SavepointReadOptions
    from pyspark_savepoint.statebackends.writing.planning.planned_write import WritePlan

#: The option that has the sealed plan.
PLAN = "plan"
DIGEST = "sha256"
SEAL = 32


def sealed(plan: SavepointReadOptions | WritePlan, secret: bytes) -> str:
    """Return a plan as text, with the seal of a secret."""
    data = cloudpickle.dumps(plan)
    return base64.b64encode(hmac.digest(secret, data, DIGEST) + data).decode("ascii")


def opened(text: str, secret: bytes) -> Any:
    """Return the plan of :func:`sealed`, or raise OptionError for a text that has another seal."""
    from pyspark_savepoint.formats.errors import OptionError

    try:
        content = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        content = b""
    seal, data = content[:SEAL], content[SEAL:]
    if not hmac.compare_digest(seal, hmac.digest(secret, data, DIGEST)):
        raise OptionError(
            "option 'plan' is for methods of Savepoint: users do not set it",
            remedy="df.write.format('savepoint'), or with_state(...).write(path)",
        )
    return cloudpickle.loads(data)


class SessionPlans(SavepointDataSource):
    """Data source that carries out the plans of one session, which registers a class of its own with its secret."""

    format_name = "savepoint_plans"
    secret = b""

    def selected(self) -> SavepointReadOptions:
        """Return the plan of a read."""
        read: SavepointReadOptions = opened(self.options.get(PLAN, ""), self.secret)
        return read

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return the writer of the plan in the options.

        Args:
            schema: The schema of the rows, which the plan has already.
            overwrite: Never.

        Returns:
            The writer.

        Raises:
            OptionError: If the plan was not made by this session.

        """
        from pyspark_savepoint.engines.spark.writer import SavepointDataSourceWriter
        from pyspark_savepoint.formats.errors import SavepointError

        try:
            plan: WritePlan = opened(self.options.get(PLAN, ""), self.secret)
            # This process commits on the machine that has the folder.
            return SavepointDataSourceWriter(plan.with_near_files())
        except SavepointError as error:
            raise error.with_traceback(None) from None
