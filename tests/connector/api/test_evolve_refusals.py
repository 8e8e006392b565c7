"""What evolve does not understand is one error, before anything is written."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

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
    ],
    ids=[
        "compiled again", "a node cut", "an edge cut", "edited", "another version", "Python", "table function",
        "delta join", "asynchronous lookups", "own function",
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
