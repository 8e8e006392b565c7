"""Option ``fieldNames``: names from a compiled plan or by hand, on savepoints of real SQL jobs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pyspark_savepoint
from pyspark_savepoint.formats.errors import OptionError
from pyspark_savepoint.formats.snapshot.savepoint import find_snapshots
from pyspark_savepoint.statebackends.types.type_names import spark_type

GROUP = ("sql/stream-exec-group-aggregate_1__group-aggregate-simple", "23eaad2bb152dd975bbc63554c2ca61f")
TUMBLE = (
    "sql/stream-exec-window-aggregate_1__window-aggregate-tumble-event-time",
    "3d17b56e44d4b31007e2ac302fac7b04",
)
DEDUPLICATE = ("sql/stream-exec-deduplicate_1__deduplicate-asc", "ee66688ce5e6ce36d972a4f69b73ae3a")


def call(function: str, *arguments: int, distinct: bool = False, where: int = -1) -> dict[str, Any]:
    return {
        "name": "x",
        "internalName": f"${function}$1",
        "argList": list(arguments),
        "distinct": distinct,
        "filterArg": where,
    }


def plan(number: int, kind: str, row: Any, keys: list[int], **node: Any) -> str:
    """A compiled plan with an exchange in front of a node, as COMPILE PLAN writes it."""
    distribution = {"requiredDistribution": {"type": "HASH", "keys": keys}}
    nodes = [
        {
            "id": number - 1,
            "type": "stream-exec-exchange_1",
            "outputType": row,
            "inputProperties": [distribution],
        },
        {"id": number, "type": f"stream-exec-{kind}_1", **node},
    ]
    return json.dumps({"flinkVersion": "1.19", "nodes": nodes, "edges": [{"source": number - 1, "target": number}]})


GROUP_PLAN = plan(
    4,
    "group-aggregate",
    "ROW<`b` BIGINT, `a` INT, `$f2` BOOLEAN NOT NULL, `c` VARCHAR(2147483647)>",
    [0],
    aggCalls=[call("COUNT"), call("AVG", 1, where=2), call("MIN", 3)],
    description="GroupAggregate(groupBy=[b])",
)
FIELDS = [{"name": name, "fieldType": "INT"} for name in ("name", "a_int", "comment", "rowtime")]
TUMBLE_PLAN = plan(
    6,
    "window-aggregate",
    {"type": "ROW", "fields": FIELDS},
    [0],
    aggCalls=[call("COUNT"), call("SUM", 1), call("COUNT", 2, distinct=True)],
)


def table(folder: Path, case: tuple[str, str], names: str, name: str = "keyed_state", **options: str) -> pa.Table:
    savepoint = pyspark_savepoint.open(find_snapshots(str(folder / case[0]))[0].path)
    return savepoint.table(name, uidHash=case[1], fieldNames=names, **options).to_arrow()


def test_a_plan_names_keys_and_aggregates(flink_resources: Path) -> None:
    found = table(flink_resources, GROUP, GROUP_PLAN)
    rows = {row["key"]["b"]: row["accState"] for row in found.to_pylist()}

    assert spark_type(found.schema.field("key").type) == "struct<b:bigint>"
    assert list(rows[2]) == ["count(*)", "avg(a) filter $f2 sum", "avg(a) filter $f2 count", "min(c)"]
    plain = table(flink_resources, GROUP, '{"key": ["b"]}').to_pylist()
    assert {row["key"]["b"]: list(row["accState"].values()) for row in plain} == {
        key: list(row.values()) for key, row in rows.items()
    }


def test_a_plan_names_operators_that_are_known_by_hash(flink_resources: Path) -> None:
    savepoint = pyspark_savepoint.open(find_snapshots(str(flink_resources / GROUP[0]))[0].path)
    rows = savepoint.table("states", fieldNames=GROUP_PLAN).to_arrow().to_pylist()

    assert {(row["operator_uid"], row["operator_name"]) for row in rows if row["operator_uid_hash"] == GROUP[1]} == {
        ("4_group-aggregate", "GroupAggregate(groupBy=[b])")
    }


def test_views_of_distinct_aggregates_and_windows(flink_resources: Path) -> None:
    found = table(flink_resources, TUMBLE, TUMBLE_PLAN, "window_state", state="window-aggs").to_pylist()

    assert {"count(*)": 1, "sum(a_int)": 1, "count(distinct comment)": 1, "distinct(comment)": None} in [
        row["window-aggs"] for row in found
    ]
    assert {row["key"]["name"] for row in found} >= {"b", None}


def test_rows_of_the_input(flink_resources: Path) -> None:
    names = ["order_id", "user", "product", "order_time", "event_time"]
    row = "ROW<" + ", ".join(f"`{name}` ROW<`x` INT, `y` CHAR(1)>" for name in names) + ">"
    found = table(flink_resources, DEDUPLICATE, plan(5, "deduplicate", row, [2]))

    assert list(found.to_pylist()[0]["deduplicate-state"]) == names
    assert list(found.to_pylist()[0]["key"]) == ["product"]


def test_what_does_not_fit_is_refused_or_said(flink_resources: Path) -> None:
    with pytest.raises(OptionError, match="no node of this operator"):
        table(flink_resources, TUMBLE, GROUP_PLAN, "window_state")
    with pytest.raises(OptionError, match="2 names for the 4 fields"):
        table(flink_resources, GROUP, '{"accState": ["a", "b"]}')
    with pytest.raises(OptionError, match="not a column with fields"):
        table(flink_resources, GROUP, '{"acc": ["a"]}')
    with pytest.raises(OptionError, match="is not a compiled plan"):
        table(flink_resources, GROUP, '{"nodes": [{"id": 4, "type": "stream-exec-group-aggregate_1"}]}')
    for wrong in ("names", "[1]", '{"key": ["a", "A"]}', '{"nodes": 1}'):
        with pytest.raises(OptionError, match="a compiled plan, or names by column"):
            table(flink_resources, GROUP, wrong)
    short = plan(4, "group-aggregate", "ROW<`b` BIGINT>", [0], aggCalls=[call("COUNT")])
    with pytest.warns(UserWarning, match="no names for 'accState'"):
        table(flink_resources, GROUP, short)
