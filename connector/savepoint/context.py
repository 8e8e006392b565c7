"""Context of the methods of a :class:`Savepoint`: session, plan, path and options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark_savepoint.formats.errors import OptionError
from pyspark_savepoint.formats.redaction import redacted
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.options.operators import OperatorRef
from pyspark_savepoint.options.option_values import inheriting
from pyspark_savepoint.options.paths import reached
from pyspark_savepoint.options.worker_python import explaining_worker_python
from pyspark_savepoint.plan.savepoint_plan import SavepointPlan
from pyspark_savepoint.source.given_source import format_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@redacted
@dataclass(frozen=True)
class SavepointContext:
    """A session, and the plan, path and options of a savepoint; without a path, it is not written yet."""

    spark: SparkSession
    plan: SavepointPlan
    path: str | None
    options: Mapping[str, str]

    def written_path(self, problem: str, remedy: str) -> str:
        """Return the path; raise OptionError if the savepoint is not written yet."""
        if self.path is None:
            raise OptionError(f"this savepoint is not written yet, so {problem}", remedy=remedy)
        return self.path

    def read_path(self) -> str:
        """Return the path to read tables from."""
        return self.written_path(
            "it has no tables or state to read", "call write(path), and read the Savepoint that it returns"
        )

    def read(self, texts: Mapping[str, str]) -> DataFrame:
        """Return the table that options choose."""
        options = inheriting(self.options, texts)
        path = self.read_path()
        with explaining_worker_python(self.spark):
            return self.spark.read.format(format_of(self.spark, options)).options(**options).load(path)

    def of_operator(self, uid: OperatorRef | None) -> dict[str, str]:
        """Return the options that select an operator, if one is given; raise OperatorNotFoundError if it is unknown."""
        return {} if uid is None else {"uidHash": self.plan.operator(uid).identifier.operator_id.hex}

    def snapshot(self) -> Snapshot:
        """Open the snapshot; raise OptionError if the savepoint is not written yet."""
        problem, remedy = "there is nothing to restore", "check the savepoint that write(path) returns"
        path = reached(self.written_path(problem, remedy), self.options)
        return Snapshot.open(path, allow_outside=self.options.get("allowOutside") == "true")
