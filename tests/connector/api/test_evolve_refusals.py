"""What evolve does not understand is one error, before anything is written."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import pyspark_savepoint
from pyspark_savepoint.formats.errors import OptionError, SavepointError, UnsupportedStateError
from tests.connector.api.test_evolve import folder_of

Plan = dict[str, Any]
OLD, NEW = "old.json", "new.json"


def node(plan: Plan) -> Plan:
    """The aggregate of a plan."""
    return next(one for one in plan["nodes"] if "group-aggregate" in one["type"])


def of_type(kind: str, **more: Any) -> Callable[[Plan], None]:
    return lambda plan: node(plan).update(type=f"stream-exec-{kind}", **more)


def own_function(plan: Plan) -> None:
    call = node(plan)["aggCalls"][-1]
    del call["internalName"]
    call["class"] = "com.shop.MyAggregate"


def other_ids(plan: Plan) -> None:
    for one in plan["nodes"]:
        one["id"] += 5
    for edge in plan["edges"]:
        edge.update(source=edge["source"] + 5, target=edge["target"] + 5)


@pytest.mark.parametrize(
    ("which", "change", "error", "message"),
    [
        (OLD, other_ids, OptionError, "'old_plan' is not the plan of this savepoint"),
        (OLD, lambda plan: plan["nodes"].pop(2), OptionError, "'old_plan' is not a compiled plan, or not all of one"),
        (OLD, lambda plan: plan["edges"].pop(), OptionError, "'old_plan' is not a compiled plan, or not all of one"),
        (NEW, lambda plan: node(plan).update(grouping=[70]), OptionError, "'new_plan' is not a compiled plan"),
        (NEW, of_type("group-aggregate_9"), UnsupportedStateError, "stream-exec-group-aggregate_9 is not known"),
        (NEW, of_type("python-group-aggregate_1"), UnsupportedStateError, "python-group-aggregate_1 is not known"),
        (NEW, of_type("process-table-function_1"), UnsupportedStateError, "process-table-function_1 is not known"),
        (NEW, of_type("delta-join_1"), UnsupportedStateError, "it looks rows up in both tables"),
        (NEW, of_type("lookup-join_1", asyncOptions={"capacity": 10}), UnsupportedStateError, "asynchronously"),
        (NEW, own_function, UnsupportedStateError, "the accumulator of com.shop.MyAggregate"),
        (OLD, own_function, UnsupportedStateError, "the accumulator of com.shop.MyAggregate"),
    ],
    ids=[
        "compiled again", "a node cut", "an edge cut", "edited", "another version", "Python", "table function",
        "delta join", "asynchronous lookups", "own function", "own function of before",
    ],
)  # fmt: skip
def test_plans(which: str, change: Callable[[Plan], object], error: type[SavepointError], message: str) -> None:
    folder = folder_of("2.3.0", "sum-added")
    plans = {name: json.loads((folder / name).read_text("utf-8")) for name in (OLD, NEW)}
    change(plans[which])
    before = copy.deepcopy(plans)
    with pytest.raises(error) as raised:
        pyspark_savepoint.open(folder / "before").evolve(plans[OLD], plans[NEW], fill="initial")
    assert message in str(raised.value)
    assert plans == before


def test_the_plan_of_another_job() -> None:
    folder, other = folder_of("2.3.0", "sum-added"), folder_of("2.3.0", "join-becomes-left")
    with pytest.raises(OptionError, match="'old_plan' is not the plan of this savepoint"):
        pyspark_savepoint.open(folder / "before").evolve(other / OLD, folder / NEW, fill="initial")


@pytest.mark.parametrize("release", ["9.9", "2", "1.15", "", 2.3, []])
@pytest.mark.parametrize("which", [OLD, NEW])
def test_the_plan_of_a_release_that_is_not_known(which: str, release: object) -> None:
    folder = folder_of("2.3.0", "sum-added")
    plans = {name: json.loads((folder / name).read_text("utf-8")) for name in (OLD, NEW)}
    plans[which]["flinkVersion"] = release
    message = f"argument '{which[:3]}_plan' was compiled by a release of Flink that is not known"
    with pytest.raises(OptionError, match=message) as raised:
        pyspark_savepoint.open(folder / "before").evolve(plans[OLD], plans[NEW], fill="initial")
    assert "from 1.16 to 1.20, or from 2.0 to 2.3" in raised.value.facts["expected"]
    assert raised.value.facts["found"] == f"Flink {release!r}"


@pytest.mark.parametrize("plan", [5, None, [1], b'{"nodes": []}'])
def test_what_is_no_plan(plan: object) -> None:
    folder = folder_of("2.3.0", "sum-added")
    with pytest.raises(OptionError, match="argument 'new_plan' is no plan"):
        pyspark_savepoint.open(folder / "before").evolve(folder / OLD, plan)  # type: ignore[arg-type]


TOTALS = pa.table({"shop": ["shop 0", "shop 1", "shop 2"], "total": pa.array([1, 2, 3], pa.int32())})
TWICE = pa.Table.from_arrays([*TOTALS.columns, TOTALS["total"]], ["shop", "total", "total"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"backfill": TOTALS}, "argument 'backfill' is no mapping"),
        ({"backfill": [TOTALS]}, "argument 'backfill' is no mapping"),
        ({"backfill": {5: TOTALS}}, "no field of the new query is given under the name '5'"),
        ({"backfill": {"total": TWICE}}, "several columns have the same name"),
        ({"nodes": "6=6"}, "argument 'nodes' is no mapping"),
        ({"nodes": [("6", "6")]}, "argument 'nodes' is no mapping"),
        ({"sources": "orders"}, "argument 'sources' is no mapping"),
        ({"columns": 5}, "argument 'columns' is no mapping"),
        ({"casts": "INT"}, "argument 'casts' is no mapping"),
        ({"casts": {"total": "BLAH"}}, "argument 'casts' names another type for 'total' than the new query has"),
        ({"casts": {"total": "BIGINT"}}, "argument 'casts' names another type for 'total' than the new query has"),
        ({"casts": {"shop": "INT"}}, "argument 'casts' names another type for 'shop' than the new query has"),
    ],
)  # fmt: skip
def test_arguments(arguments: dict[str, Any], message: str) -> None:
    folder = folder_of("2.3.0", "sum-added")
    with pytest.raises(OptionError, match=message):
        pyspark_savepoint.open(folder / "before").evolve(folder / OLD, folder / NEW, fill="initial", **arguments)


def test_a_name_of_backfill_is_no_list_of_letters() -> None:
    folder = folder_of("2.3.0", "sum-added")
    savepoint = pyspark_savepoint.open(folder / "before")
    with pytest.raises(OptionError, match=r"argument 'backfill' is a text(.|\n)*\['total'\]"):
        savepoint.check_evolution(folder / OLD, folder / NEW, backfill="total")


def test_a_text_of_explain_that_is_not_there() -> None:
    folder = folder_of("2.3.0", "sum-added")
    with pytest.raises(OptionError, match="what EXPLAIN JSON_EXECUTION_PLAN printed cannot be read") as raised:
        pyspark_savepoint.open(folder / "before").evolve(folder / OLD, folder / NEW, old_explain="/none")
    assert raised.value.facts["found"] == "there is no such file"
