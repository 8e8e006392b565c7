"""What a user writes; type checkers find every name, and no Any."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Unpack

from pyspark.sql import DataFrame, SparkSession

import pyspark_savepoint
from pyspark_savepoint import KeyedStateReaderFunction, OperatorIdentifier, Savepoint, history, key_by
from pyspark_savepoint.errors import SavepointError, StateNotFoundError

if TYPE_CHECKING:
    from pyspark_savepoint.options.keywords import StateOptions


class Totals(KeyedStateReaderFunction):
    def read_key(self, key: object, ctx: object) -> Iterator[tuple[object, int]]:
        yield key, 1


def accounts_of(savepoint: Savepoint, **options: "Unpack[StateOptions]") -> DataFrame:
    return savepoint.keyed_state("accounts", **options)


def repair(spark: SparkSession, path: str, target: str) -> Savepoint:
    savepoint: Savepoint = Savepoint.load(spark, path)
    accounts: DataFrame = accounts_of(savepoint, state="total", keys=[1042, 1043])
    fixed = accounts.selectExpr("key", "greatest(total, 0L) AS total")
    plan = savepoint.with_state("accounts", "total", fixed).remove_operator(OperatorIdentifier.for_uid("old"))
    plan = plan.remove_keys("accounts", accounts.where("total < 0").select("key"))
    plan = plan.with_operator("new", key_by(fixed, "key", max_parallelism=128), key="key", ttl=["total"])
    savepoint.read_keyed_state("accounts", Totals(), "key long, n long").show()
    history(spark, path, "accounts").show()
    try:
        return plan.with_max_parallelism(512).write(target)
    except StateNotFoundError as error:
        raise SavepointError(str(error)) from error


def without_spark(path: str) -> list[dict[str, object]]:
    savepoint = pyspark_savepoint.open(path)
    table = savepoint.keyed_state("accounts", keys=[1042]).to_arrow()
    rows: int = table.num_rows
    timers = savepoint.table("timers", uid="accounts")
    print(", ".join(timers.schema.names), table.schema.field("key").type.id)
    for batch in timers.batches():
        rows += batch.num_rows
        print(batch.num_columns, rows, batch.column("timestamp").null_count)
        print([field.name for field in batch.schema], batch.select(["key"]).to_pylist())
    print(table.sort_by("total").column(0).to_pylist(), table.slice(0, 5).column_names)
    return table.to_pylist() + savepoint.check_migration("2.3").to_arrow().to_pylist()
