"""Parsing of the plans that Flink returns: what they contain, what they lack, and what is rejected."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pyspark_savepoint.formats.errors import OptionError
from pyspark_savepoint.statebackends.jobs.graph.operator_ids import generated_ids
from pyspark_savepoint.statebackends.jobs.graph.stream_graph import StreamGraph
from pyspark_savepoint.statebackends.jobs.graph.stream_plan import from_execution_plan, read_job_plan

#: As `env.getExecutionPlan()` of Flink 2.3 prints it, without spaces.
PLAN: dict[str, Any] = {
    "nodes": [
        {"id": 1, "type": "Source: orders", "pact": "Data Source", "contents": "Source: orders", "parallelism": 2},
        {
            "id": 3,
            "type": "count",
            "pact": "Operator",
            "contents": "count",
            "parallelism": 2,
            "predecessors": [{"id": 1, "ship_strategy": "HASH", "side": "second"}],
        },
        {
            "id": 9,
            "type": "log: Writer",
            "pact": "Data Sink",
            "contents": "log: Writer",
            "parallelism": 2,
            "predecessors": [{"id": 1, "ship_strategy": "FORWARD", "side": "second"}],
        },
    ]
}


def same_by_hand(sink_first: bool = False, legacy: bool = False, **count: Any) -> StreamGraph:
    graph = StreamGraph(parallelism=2)
    source = graph.source("orders", legacy=legacy)
    if sink_first:
        graph.sink("log", source)
    graph.operator("count", source.key_by(), **count)
    if not sink_first:
        graph.sink("log", source)
    return graph


def ids(graph: StreamGraph) -> dict[str, str]:
    return {graph.nodes[k].name.removeprefix("Source: "): str(v) for k, v in generated_ids(graph).items()}


@pytest.mark.parametrize("plan", [PLAN, json.dumps(PLAN)])
def test_a_plan_gives_the_ids_of_the_graph(plan: str | dict[str, Any]) -> None:
    assert ids(from_execution_plan(plan)) == ids(same_by_hand())


def test_what_a_plan_leaves_open_is_named() -> None:
    graph = from_execution_plan(PLAN)
    assert graph.assumptions == (
        "no uid: 'Source: orders' (node 1), 'count' (node 3), 'log: Writer' (node 9)",
        "all operators are in one slot sharing group",
        "disableChaining and startNewChain are not used, except in operators with setting 'chaining'",
        "the job adds the sinks of 'Source: orders' (node 1) after other outputs: setting 'outputs' changes this",
        "'Source: orders' (node 1) is no SourceFunction: setting 'legacy' changes this",
    )


def test_settings_say_the_rest() -> None:
    settings = {"Source: orders": {"legacy": True, "outputs": ["log: Writer", "count"]}, "3": {"uid": "count"}}
    graph = from_execution_plan(PLAN, settings)
    assert ids(graph) == ids(same_by_hand(sink_first=True, legacy=True, uid="count"))
    assert ids(graph) != ids(from_execution_plan(PLAN))
    assert not any("after other outputs" in text or "SourceFunction" in text for text in graph.assumptions)
    group = from_execution_plan(PLAN, {"log: Writer": {"slot_sharing_group": "own"}})
    assert ids(group)["orders"] == "bc764cd8ddf7a0cff126f51c16239658"
    unchained = from_execution_plan(PLAN, {"log: Writer": {"chaining": "NEVER"}})
    assert ids(unchained) == ids(group) == ids(from_execution_plan(PLAN, chaining=False))
    hashed = from_execution_plan(PLAN, {"count": {"uid_hash": "ab" * 16, "max_parallelism": 64}})
    assert str(hashed.node("count").uid_hash) == "ab" * 16
    assert hashed.node("count").max_parallelism == 64


def test_slot_sharing_groups_are_inherited() -> None:
    graph = from_execution_plan(PLAN, {"Source: orders": {"slot_sharing_group": "red"}})
    assert {node.slot_sharing_group for node in graph.nodes.values()} == {"red"}


@pytest.mark.parametrize(
    ("plan", "settings", "message"),
    [
        ("{", None, "not JSON"),
        ("[]", None, "a plan must be a JSON object"),
        ({}, None, "not an execution plan"),
        ({"nodes": [{"id": "bc764cd8", "description": "x"}]}, None, "job vertices, not operators"),
        ({"nodes": [{"step_function": [], "id": -1}]}, None, "iterations"),
        (PLAN, {"counts": {}}, "no operator has that name"),
        (PLAN, {"count": {"uidd": "x"}}, "no such setting: uidd"),
        (PLAN, {"Source: orders": {"outputs": ["count"]}}, "does not match the operators of the plan"),
        (
            {"nodes": [PLAN["nodes"][0], {**PLAN["nodes"][0], "id": 2}]},
            {"Source: orders": {}},
            "several operators have",
        ),
    ],
)
def test_what_is_no_plan_is_refused(plan: Any, settings: Any, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        from_execution_plan(plan, settings)


REST: dict[str, Any] = {
    "jid": "5fc9ef37a11dc62c3946cd65d2f78258",
    "vertices": [{"id": "cbc357ccb763df2852fee8c4fc7d55f2", "maxParallelism": 128}],
    "plan": {
        "nodes": [
            {
                "id": "cbc357ccb763df2852fee8c4fc7d55f2",
                "parallelism": 2,
                "description": "Source: orders<br/>:- a &lt;b&gt;<br/>:  +- c<br/>+- log: Writer<br/>",
            },
            {"id": "7df19f87deec5680128845fd9a6ca18d", "parallelism": 3, "description": "count<br/>"},
        ]
    },
}


@pytest.mark.parametrize("plan", [REST, json.dumps(REST)])
def test_a_plan_of_the_rest_interface(plan: str | dict[str, Any]) -> None:
    first, second = read_job_plan(plan)
    assert first.descriptions == ("Source: orders", "a <b>", "c", "log: Writer")
    assert (first.parallelism, first.max_parallelism) == (2, 128)
    assert (str(second.head), second.descriptions, second.max_parallelism) == (
        "7df19f87deec5680128845fd9a6ca18d",
        ("count",),
        None,
    )
    assert read_job_plan(REST["plan"])[0].max_parallelism is None


def test_a_running_job_has_the_ids_of_its_graph() -> None:
    heads = {vertex.head for vertex in read_job_plan(REST)}
    assert heads <= set(generated_ids(same_by_hand()).values())
    assert not heads & set(generated_ids(from_execution_plan(PLAN, chaining=False)).values())


@pytest.mark.parametrize("plan", [PLAN, {"plan": 7}, {"nodes": [{"id": 1}]}])
def test_what_is_no_plan_of_the_rest_interface_is_refused(plan: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match="not a plan of the REST API"):
        read_job_plan(plan)
