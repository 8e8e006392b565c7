"""Counts of the differences between two snapshots: one row per operator, table and state.

Entries of keyed state are values, entries of maps, and timers, compared by a digest of their bytes; an operator in one
snapshot only is shown by ``operator_change``. If entries of an operator cannot be delimited (values in the heap format
that only user code can delimit), a row without counts says so in ``note``; other operators are not affected.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any

from pyspark_savepoint.savepoint.differences import SIDES, on_side
from pyspark_savepoint.statebackends.model.request import EntriesRequest
from pyspark_savepoint.statebackends.tables.entry_diff import AFTER, BEFORE, NULL_FLAG, SIDE

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row

    from pyspark_savepoint.plan.operator_plan import Base
    from pyspark_savepoint.savepoint.savepoint import Savepoint

OPERATORS = "operator_uid string, operator_uid_hash string, operator_name string, operator_change string"
COUNTED = (
    "table string, state string, before bigint, after bigint, added bigint, removed bigint, changed bigint, note string"
)
KEYED = ("keyed_state", "window_state", "timers")
COUNTS = ("before", "after", "added", "removed", "changed")


def overview(old: Savepoint, new: Savepoint) -> DataFrame:
    """Return one row per operator, table and state, with the numbers of entries and differences."""
    states = {side: savepoint.states().collect() for side, savepoint in zip(SIDES, (old, new), strict=True)}
    hashes = {side: {plan.identifier.operator_id.hex for plan in savepoint.plan.operators}
              for side, savepoint in zip(SIDES, (old, new), strict=True)}  # fmt: skip
    hidden = {
        uid_hash: note
        for side, savepoint in zip(SIDES, (old, new), strict=True)
        for uid_hash, note in _hidden(savepoint).items()
    }
    rows, frames = [], []
    for side, savepoint in zip(SIDES, (old, new), strict=True):
        for plan in savepoint.plan.operators:
            uid_hash = plan.identifier.operator_id.hex
            mine = [row for row in states[side] if row["operator_uid_hash"] == uid_hash]
            mine = [row for row in mine if uid_hash not in hidden or row["table"] not in KEYED]
            frames += _entries(savepoint, uid_hash, mine, side)
            if side == AFTER and uid_hash in hashes[BEFORE]:
                continue
            change = None if uid_hash in hashes[BEFORE] & hashes[AFTER] else ("removed", "added")[side]
            rows.append((plan.identifier.uid, uid_hash, plan.name, change))
    operators = old.spark.createDataFrame(rows, OPERATORS)
    noted = [(uid_hash, "keyed_state", *[None] * 6, note) for uid_hash, note in hidden.items()]
    counted = old.spark.createDataFrame(noted, f"operator_uid_hash string, {COUNTED}")
    if frames:
        all_entries = reduce(lambda left, right: left.union(right), frames)
        counted = counted.unionByName(_counted(all_entries), allowMissingColumns=True)
    joined = operators.join(counted, "operator_uid_hash", "left")
    columns = [part.split()[0] for part in f"{OPERATORS}, {COUNTED}".split(", ")]
    return joined.select(*columns).orderBy("operator_uid", "operator_uid_hash", "table", "state")


def _hidden(savepoint: Savepoint) -> dict[str, str]:
    """Return why keyed entries of operators cannot be delimited, by hash; sizes are read only if a type is opaque."""
    if not any(_is_opaque(plan.base) for plan in savepoint.plan.operators if plan.base is not None):
        return {}
    noted = savepoint.sizes().where("note IS NOT NULL AND entries IS NULL").select("operator_uid_hash", "note")
    return {row["operator_uid_hash"]: row["note"] for row in noted.collect()}


def _is_opaque(base: Base) -> bool:
    """Return whether a key or keyed state has a type whose values cannot be delimited, by the files' headers."""
    for header in base.opened.keyed.headers:
        values = [serializer for meta in header.states for serializer in meta.serializers.values()]
        if any(serializer.opaque_parts() for serializer in (header.key_serializer, *values)):
            return True
    return False


def _entries(savepoint: Savepoint, uid_hash: str, states: list[Row], side: int) -> list[DataFrame]:
    """Return an operator's entries: side, operator_uid_hash, table, state, key, digest; list elements are keys here."""
    from pyspark.sql import functions as F  # noqa: N812

    found = []
    place = [F.lit(side).alias(SIDE), F.lit(uid_hash).alias("operator_uid_hash")]
    keyed = list(dict.fromkeys((row["state"], row["table"]) for row in states if row["table"] in KEYED))
    if keyed:
        raw = any(row["table"] == "timers" and row["note"] for row in states)
        wanted = EntriesRequest(tuple((name, table == "timers") for name, table in keyed), raw_timers=raw)
        number = F.col("state") + 1
        named = [
            F.element_at(F.array(*(F.lit(text) for text in texts)), number).alias(column)
            for column, texts in (("table", [t for _, t in keyed]), ("state", [n for n, _ in keyed]))
        ]
        internal: dict[str, Any] = {"uid_hash": uid_hash, "entries": wanted.to_json()}
        entries = savepoint.table(**internal)
        maps = [
            n for n, (name, _) in enumerate(keyed) if any(r["kind"] == "MAP" and r["state"] == name for r in states)
        ]
        null = F.col("state").isin(maps) & (F.substring("value", 1, 1) == F.lit(NULL_FLAG))
        digest = F.md5(F.when(null, F.lit(NULL_FLAG)).otherwise(F.col("value")))
        found.append(entries.select(*place, *named, "key", digest.alias("digest")))
    for row in states:
        if row["table"] == "operator_state":
            about = [F.lit("operator_state").alias("table"), F.lit(row["state"]).alias("state")]
            elements = savepoint.table(uid_hash=uid_hash, table="operator_state", state=row["state"], raw=row["state"])
            key = F.col("key") if row["kind"] == "BROADCAST" else F.col("value")
            digest = F.md5("value") if row["kind"] == "BROADCAST" else F.lit(None).cast("string")
            found.append(elements.select(*place, *about, key.alias("key"), digest.alias("digest")))
    return found


def _counted(entries: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812

    grouped = entries.groupBy("operator_uid_hash", "table", "state", "key").agg(
        *(F.count(on_side(side, F.lit(1))).alias(name) for side, name in zip(SIDES, ("before", "after"), strict=True)),
        *(F.min(on_side(side, F.col("digest"))).alias(name) for side, name in zip(SIDES, ("old", "new"), strict=True)),
    )

    def more(left: str, right: str) -> Column:
        return F.greatest(F.col(left) - F.col(right), F.lit(0))

    changed = (F.col("before") > 0) & (F.col("after") > 0) & (F.col("old") != F.col("new"))
    counts = {
        "before": F.col("before"),
        "after": F.col("after"),
        "added": more("after", "before"),
        "removed": more("before", "after"),
        "changed": F.when(changed, 1).otherwise(0),
    }
    return grouped.groupBy("operator_uid_hash", "table", "state").agg(
        *(F.sum(count).alias(name) for name, count in counts.items())
    )
