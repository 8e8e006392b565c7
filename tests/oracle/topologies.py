"""Jobs as lists of steps, which real Flink (`oracle.Topologies`) and our stream graph both build; and random ones."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from typing import Any

from pyspark_savepoint.formats.metadata.identifiers import OperatorID
from pyspark_savepoint.statebackends.jobs.graph.stream_graph import StreamGraph
from pyspark_savepoint.statebackends.jobs.graph.stream_nodes import (
    ChainingStrategy,
    Partitioner,
    SourceKind,
    Stream,
    StreamEdge,
    StreamNode,
)
from tests.oracle.flink import FlinkError, run

Step = dict[str, Any]
Job = dict[str, Any]


def ask(version: str, jobs: Iterable[Job]) -> list[dict[str, Any]]:
    """Return Flink's result for each job."""
    given = "".join(json.dumps(job) + "\n" for job in jobs)
    answers = [json.loads(line) for line in run(version, "oracle.Topologies", given=given, heap="512m").splitlines()]
    for answer in answers:
        if "error" in answer:
            raise FlinkError(answer["error"])
    return answers


def described(job: Job) -> StreamGraph:
    """The graph of a job's steps, built as a user of this package builds it."""
    options = job.get("configuration", {})
    different = options.get("pipeline.operator-chaining.chain-operators-with-different-max-parallelism", "true")
    graph = StreamGraph(
        job.get("parallelism", 1),
        job.get("maxParallelism"),
        chaining=job.get("chaining", True),
        chain_different_max_parallelism=different == "true",
    )
    streams: dict[str, Stream] = {}
    for step in job["steps"]:
        streams[step["name"]] = _add(graph, step, streams)
    return graph


def _add(graph: StreamGraph, step: Step, streams: dict[str, Stream]) -> Stream:
    op, name = step["op"], step["name"]
    names = ("uid", "parallelism", "max_parallelism", "slot_sharing_group", "chaining", "uid_hash")
    given = {key: step[camel(key)] for key in names if step.get(camel(key)) is not None}
    if op in ("source", "legacy"):
        return graph.source(name, legacy=op == "legacy", **given)
    inputs = [_input(port, streams) for port in step["inputs"]]
    if op in ("sink", "committing"):
        return graph.sink(name, inputs[0], committer=op == "committing", **given)
    if op == "coGroup":
        inputs = [graph.operator("Map", stream, parallelism=stream.node.parallelism) for stream in inputs]
        return graph.operator(name, inputs[0].union(inputs[1]).key_by(), **given)
    if op in ("reduce", "window"):
        inputs = [inputs[0].key_by()]
    if op == "windowAll":
        given["parallelism"] = 1
    if op == "broadcast":
        inputs[1] = inputs[1].broadcast()
        given.pop("chaining", None)  # Flink ignores it here
    if op == "multipleWithSources":
        given.setdefault("chaining", ChainingStrategy.HEAD_WITH_SOURCES)
    return graph.operator(name, *inputs, yielding=op == "async", **given)


def camel(name: str) -> str:
    """``max_parallelism`` as ``maxParallelism``."""
    first, *more = name.split("_")
    return first + "".join(word.title() for word in more)


def _input(port: list[list[str]], streams: dict[str, Stream]) -> Stream:
    parts = []
    for name, *partitioner in port:
        chosen = partitioner[0] if partitioner and partitioner[0] not in ("", "SIDE") else None
        parts.append(streams[name].partition(Partitioner(chosen)) if chosen else streams[name])
    return parts[0].union(*parts[1:]) if len(parts) > 1 else parts[0]


def rebuilt(answer: dict[str, Any], job: Job) -> StreamGraph:
    """Return the graph that Flink prints, node by node and edge by edge."""
    options = job.get("configuration", {})
    different = options.get("pipeline.operator-chaining.chain-operators-with-different-max-parallelism", "true")
    graph = StreamGraph(chaining=job.get("chaining", True), chain_different_max_parallelism=different == "true")
    for node in answer["nodes"]:
        graph.add(
            StreamNode(
                id=node["id"],
                name=node["name"],
                uid=node["uid"],
                uid_hash=node["uidHash"] and OperatorID.from_hex(node["uidHash"]),
                parallelism=node["parallelism"],
                max_parallelism=node["maxParallelism"] if node["maxParallelism"] > 0 else None,
                slot_sharing_group=node["slotSharingGroup"],
                chaining=ChainingStrategy(node["chaining"]),
                source=node["source"] and SourceKind(node["source"]),
                yielding=node["yielding"],
            )
        )
    for node in answer["nodes"]:
        graph.nodes[node["id"]].out_edges.extend(map(_edge, node["outputs"]))
        graph.nodes[node["id"]].in_edges.extend(map(_edge, node["inputs"]))
    return graph


def _edge(edge: dict[str, Any]) -> StreamEdge:
    partitioner = Partitioner(edge["partitioner"].split(" ")[0])
    return StreamEdge(edge["source"], edge["target"], partitioner, edge["port"], edge["exchange"] == "BATCH")


# -- random jobs ---------------------------------------------------------------------------------------------

ONE_INPUT = ("map", "process", "reduce", "window", "async")
TWO_INPUTS = ("connect", "broadcast", "coGroup")
PARTITIONERS = ("", "", "", "HASH", "REBALANCE", "BROADCAST", "GLOBAL", "SHUFFLE", "RESCALE", "CUSTOM")


def random_job(seed: int, with_settings: bool = True) -> Job:
    """A job of some sources, some operators and sinks; ``with_settings`` adds all that a plan does not contain."""
    chance = random.Random(seed)
    steps: list[Step] = [
        {"op": chance.choice(("source", "source", "legacy")), "name": f"source {i}"}
        for i in range(chance.randint(1, 4))
    ]
    for i in range(chance.randint(2, 12)):
        steps.append(_random_step(chance, f"operator {i}", steps))
    used = {part[0] for step in steps for port in step.get("inputs", ()) for part in port}
    for i, name in enumerate([step["name"] for step in steps if step["name"] not in used]):
        op = chance.choice(("sink", "committing", "map"))
        steps.append({"op": op, "name": f"sink {i}", "inputs": [[[name, ""]]]})
    for step in steps:
        _random_settings(chance, step, with_settings)
    job: Job = {"parallelism": chance.choice((1, 2, 3)), "steps": steps}
    if with_settings:
        job["chaining"] = chance.random() < 0.9
        if chance.random() < 0.3:
            job["maxParallelism"] = chance.choice((64, 256))
        if chance.random() < 0.3:
            option = "pipeline.operator-chaining.chain-operators-with-different-max-parallelism"
            job["configuration"] = {option: "false"}
    return job


def _random_step(chance: random.Random, name: str, steps: list[Step]) -> Step:
    kind = chance.random()
    if kind < 0.7:
        op, ports = chance.choice(ONE_INPUT), 1
    elif kind < 0.9:
        op, ports = chance.choice(TWO_INPUTS), 2
    else:
        op, ports = chance.choice(("multiple", "multipleWithSources")), chance.randint(1, 3)
    return {"op": op, "name": name, "inputs": [_random_input(chance, op, steps) for _ in range(ports)]}


def _random_input(chance: random.Random, op: str, steps: list[Step]) -> list[list[str]]:
    count = 1 if op in ("broadcast", "coGroup", *TWO_INPUTS) else chance.choice((1, 1, 1, 2, 3))
    chosen = chance.sample(steps, min(count, len(steps)))
    parts = []
    for step in chosen:
        partitioner = "" if op in TWO_INPUTS or op in ("reduce", "window") else chance.choice(PARTITIONERS)
        if step["op"] == "process" and chance.random() < 0.4 and not partitioner:
            partitioner = "SIDE"
        parts.append([step["name"], partitioner])
    return parts


def _random_settings(chance: random.Random, step: Step, with_settings: bool) -> None:
    if step["op"] not in ("multiple", "multipleWithSources") and chance.random() < 0.3:
        step["parallelism"] = chance.choice((1, 2, 4))
    if not with_settings:
        return
    if chance.random() < 0.2:
        step["uid"] = f"uid of {step['name']}"
    if chance.random() < 0.15:
        step["slotSharingGroup"] = chance.choice(("default", "red", "blue"))
    sink = step["op"] in ("sink", "committing")
    if chance.random() < 0.2:
        step["chaining"] = "NEVER" if sink or step["op"] in ("source", "legacy") else chance.choice(("NEVER", "HEAD"))
    if not sink and chance.random() < 0.1:
        step["uidHash"] = f"{chance.getrandbits(128):032x}"
    if not sink and chance.random() < 0.2:
        step["maxParallelism"] = chance.choice((32, 128))
