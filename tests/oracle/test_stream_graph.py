"""Ids of operators: those that real Flink gives to the same jobs, built here, rebuilt, and read from plans."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pyspark_savepoint.formats.metadata.identifiers import OperatorID
from pyspark_savepoint.statebackends.jobs.graph.operator_ids import generated_ids, operator_id_pairs
from pyspark_savepoint.statebackends.jobs.graph.stream_graph import StreamGraph
from pyspark_savepoint.statebackends.jobs.graph.stream_plan import from_execution_plan, read_job_plan
from tests.oracle.topologies import Job, ask, described, random_job, rebuilt

pytestmark = pytest.mark.flink

SOURCE: dict[str, Any] = {"op": "source", "name": "orders"}
LEGACY: dict[str, Any] = {"op": "legacy", "name": "clicks"}


def step(op: str, name: str, *inputs: list[list[str]], **settings: Any) -> dict[str, Any]:
    return {"op": op, "name": name, "inputs": list(inputs), **settings}


JOBS: dict[str, Job] = {
    "union": {
        "parallelism": 2,
        "steps": [
            SOURCE,
            LEGACY,
            step("map", "both", [["orders"], ["clicks"]]),
            step("map", "end", [["both", "HASH"]]),
        ],
    },
    "side outputs": {
        "steps": [
            SOURCE,
            step("process", "split", [["orders"]]),
            step("map", "late", [["split", "SIDE"]]),
            step("map", "all", [["split"], ["split", "SIDE"]]),
            step("sink", "kept", [["late"]]),
        ]
    },
    "broadcast": {
        "parallelism": 3,
        "steps": [
            SOURCE,
            LEGACY,
            step("broadcast", "rules", [["orders"]], [["clicks"]]),
            step("print", "out", [["rules"]]),
        ],
    },
    "keyed connect": {
        "steps": [
            SOURCE,
            LEGACY,
            step("connect", "join", [["orders", "HASH"]], [["clicks", "HASH"]]),
            step("reduce", "sum", [["join"]], uid="sum"),
        ]
    },
    "co-group and windows": {
        "parallelism": 2,
        "steps": [
            SOURCE,
            LEGACY,
            step("coGroup", "together", [["orders"]], [["clicks"]]),
            step("window", "per minute", [["together"]]),
            step("windowAll", "in all", [["per minute"]]),
        ],
    },
    "many inputs": {
        "steps": [
            SOURCE,
            {"op": "source", "name": "rates"},
            LEGACY,
            step("multipleWithSources", "all", [["orders"]], [["rates"]], [["clicks"]]),
            step("multiple", "again", [["all"]], [["all", "HASH"]]),
        ]
    },
    "asynchronous, behind both kinds of sources": {
        "steps": [
            SOURCE,
            LEGACY,
            step("async", "ask", [["orders"]]),
            step("async", "ask too", [["clicks"]]),
            step("map", "between", [["clicks"]]),
            step("async", "ask last", [["between"]]),
        ]
    },
    "sinks": {
        "steps": [
            SOURCE,
            LEGACY,
            step("committing", "files", [["orders"]], uid="files"),
            step("committing", "more files", [["orders", "HASH"]], parallelism=2),
            step("sink", "log", [["clicks"]]),
            step("map", "behind", [["orders"]]),
        ]
    },
    "chains": {
        "parallelism": 2,
        "maxParallelism": 64,
        "steps": [
            SOURCE,
            step("map", "a", [["orders"]]),
            step("map", "b", [["a"]], chaining="HEAD"),
            step("map", "c", [["b"]], chaining="NEVER"),
            step("map", "d", [["b"]], slotSharingGroup="own"),
            step("map", "e", [["d"]]),
            step("map", "f", [["e"]], parallelism=1, uidHash="0123456789abcdef0123456789abcdef"),
            step("map", "g", [["e"]], maxParallelism=128, uid="g"),
        ],
    },
    "no chaining": {
        "chaining": False,
        "steps": [SOURCE, step("map", "a", [["orders"]]), step("map", "b", [["a"]])],
    },
}
RANDOM = {f"random {seed}": random_job(seed) for seed in range(40)}
PLAIN = {f"plain {seed}": random_job(seed, with_settings=False) for seed in range(1000, 1030)}


@pytest.fixture(scope="module")
def answers(flink_version: str) -> dict[str, tuple[Job, dict[str, Any]]]:
    """Every job and what Flink makes of it. The setting about max parallelism came with Flink 1.17."""
    jobs = {**JOBS, **RANDOM, **PLAIN}
    if flink_version.startswith("1.16"):
        jobs = {
            name: {key: value for key, value in job.items() if key != "configuration"} for name, job in jobs.items()
        }
    return dict(zip(jobs, zip(jobs.values(), ask(flink_version, jobs.values()), strict=True), strict=True))


def generated(graph: StreamGraph) -> dict[str, str]:
    """Ids by name; the helpers of a co-group have one name, and are left to the comparison by number."""
    ids = generated_ids(graph)
    return {node.name: str(ids[node.id]) for node in graph.nodes.values() if node.name != "Map"}


def expected(answer: dict[str, Any]) -> dict[str, str]:
    return {node["name"]: node["operatorId"] for node in answer["nodes"] if node["name"] != "Map"}


def test_ids_of_described_jobs(answers: dict[str, tuple[Job, dict[str, Any]]]) -> None:
    wrong = []
    for name, (job, answer) in answers.items():
        if any(one["op"] == "print" for one in job["steps"]):
            continue  # what `print` adds has a name of Flink's
        found = {key.removeprefix("Source: "): value for key, value in expected(answer).items()}
        if generated(described(job)) != found:
            wrong.append(name)
    assert wrong == []


def test_ids_and_tasks_of_graphs_as_flink_has_them(answers: dict[str, tuple[Job, dict[str, Any]]]) -> None:
    for name, (job, answer) in answers.items():
        graph = rebuilt(answer, job)
        ids = {number: str(operator_id) for number, operator_id in generated_ids(graph).items()}
        assert ids == {node["id"]: node["operatorId"] for node in answer["nodes"]}, name
        vertices = {vertex["id"]: [pair["generated"] for pair in vertex["operators"]] for vertex in answer["vertices"]}
        assert {ids[head]: [ids[number] for number in chain] for head, chain in graph.tasks().items()} == vertices, name


def test_user_hashes_are_the_alternatives(answers: dict[str, tuple[Job, dict[str, Any]]]) -> None:
    for name, (job, answer) in answers.items():
        pairs = operator_id_pairs(rebuilt(answer, job)).values()
        ours = {str(pair.generated): [str(operator_id) for _, operator_id in pair.alternatives] for pair in pairs}
        for vertex in answer["vertices"]:
            for pair in vertex["operators"]:
                wanted = [] if pair["userDefined"] is None else [pair["userDefined"]]
                assert ours[pair["generated"]] == wanted, name


def test_max_parallelism_of_a_task_is_that_of_its_head(answers: dict[str, tuple[Job, dict[str, Any]]]) -> None:
    for name, (job, answer) in answers.items():
        graph = rebuilt(answer, job)
        ids = generated_ids(graph)
        heads = {str(ids[head]): graph.nodes[head].max_parallelism for head in graph.tasks()}
        assert heads == {
            v["id"]: v["maxParallelism"] if v["maxParallelism"] > 0 else None for v in answer["vertices"]
        }, name


def test_execution_plans_with_what_they_do_not_say(answers: dict[str, tuple[Job, dict[str, Any]]]) -> None:
    for name, (job, answer) in answers.items():
        if job.get("chaining") is False or "configuration" in job:
            continue
        graph = from_execution_plan(answer["plan"], settings_of(rebuilt(answer, job)))
        assert generated(graph) == expected(answer), name
        assert heads_of_running_job(answer) <= set(generated_ids(graph).values()), name


def heads_of_running_job(answer: dict[str, Any]) -> set[OperatorID]:
    return {vertex.head for vertex in read_job_plan(answer["rest"])}


def settings_of(graph: StreamGraph) -> dict[str, dict[str, Any]]:
    settings = {}
    for node in graph.nodes.values():
        if node.name != "Map":
            settings[node.name] = {
                "uid": node.uid,
                "max_parallelism": node.max_parallelism,
                "slot_sharing_group": node.slot_sharing_group,
                "chaining": node.chaining,
                "legacy": node.source == "LEGACY",
                "yielding": node.yielding,
                "ports": [edge.port for edge in node.in_edges],
                "outputs": [graph.nodes[edge.target].name for edge in node.out_edges],
            }
    return settings


def test_execution_plans_alone_say_it_when_they_do_not_suffice(answers: dict[str, tuple[Job, dict[str, Any]]]) -> None:
    right = 0
    for name in PLAIN:
        _, answer = answers[name]
        graph = from_execution_plan(answer["plan"])
        same = generated(graph) == expected(answer)
        right += same
        # The plan of the running job tells, unless only operators behind the heads of chains differ.
        if not heads_of_running_job(answer) <= set(generated_ids(graph).values()):
            assert not same, name
        if not same:
            assert any("SourceFunction" in text or "outputs" in text for text in graph.assumptions), name
    assert right > len(PLAIN) * 0.8


def test_plans_of_the_rest_interface_have_the_heads(answers: dict[str, tuple[Job, dict[str, Any]]]) -> None:
    for name, (_, answer) in answers.items():
        texts = {node["id"]: node["contents"] for node in json.loads(answer["plan"])["nodes"]}
        numbers = {vertex["id"]: len(vertex["operators"]) for vertex in answer["vertices"]}
        for vertex in read_job_plan(answer["rest"]):
            # The text of an operator with several inputs ends with its chained sources in brackets.
            assert {text.partition(" [Source")[0] for text in vertex.descriptions} <= set(texts.values()), name
            assert len(vertex.descriptions) == numbers[str(vertex.head)], name
