"""Operator ids of a job that runs without a plan: from ``EXPLAIN`` with JSON_EXECUTION_PLAN, beside the compiled plan.

Nodes of the graph have the number of the exec node, ``GroupAggregate[6]``, and its description as ``contents``. The
numbers of a compilation are other ones, so that the description finds the node, and of equal ones their order.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from pyspark_savepoint.formats.errors import OptionError
from pyspark_savepoint.statebackends.evolution.plans import Plan
from pyspark_savepoint.statebackends.evolution.shapes import OperatorShape
from pyspark_savepoint.statebackends.jobs.graph.operator_ids import generated_ids
from pyspark_savepoint.statebackends.jobs.graph.stream_plan import from_execution_plan

NUMBERED = re.compile(r"\[(\d+)\]:(.*)", re.DOTALL)
HEADING = "== Physical Execution Plan =="
#: Names of a sink's parts in a graph, as uids name them.
PARTS = {"Writer": "sink", "Committer": "committer", "Global Committer": "global committer"}
Shapes = Mapping[int, tuple[OperatorShape, ...]]
WHAT = "what EXPLAIN JSON_EXECUTION_PLAN prints for the same statements"


def execution_plan_of(text: str, argument: str) -> str:
    """Return the JSON in the text of EXPLAIN, or the text itself if it is JSON."""
    found = text[text.index(HEADING) + len(HEADING) :] if HEADING in text else text
    start = found.find("{")
    if start < 0:
        raise OptionError(
            f"argument '{argument}' has no execution plan", expected=WHAT, found=text[:100] or "an empty text"
        )
    return found[start:].strip()


def with_generated_ids(plan: Plan, shapes: Shapes, text: str, argument: str) -> dict[int, tuple[OperatorShape, ...]]:
    """Return the operators with the ids that Flink derives from the graph, instead of those of a plan."""
    document = execution_plan_of(text, argument)
    graph = from_execution_plan(document)
    ids = {number: str(identifier) for number, identifier in generated_ids(graph).items()}
    entries = json.loads(document)["nodes"]
    places = dict(_places(plan, entries))
    missing = [
        node for node in plan.nodes.values() if shapes[node.id] and node.id not in places and node.kind != "sink"
    ]
    if missing:
        raise OptionError(
            f"argument '{argument}' is not the execution plan of the compiled plan beside it",
            expected=f"{WHAT}, with {missing[0]}",
            found=f"{len(places)} of {len(plan.nodes)} nodes of the plan",
        )
    found: dict[int, tuple[OperatorShape, ...]] = {}
    behind = _behind(entries)
    for number, operators in shapes.items():
        node = plan.nodes[number]
        if node.kind != "sink":
            found[number] = tuple(replace(one, uid=ids[places[number]], is_generated=True) for one in operators)
            continue
        parts = _parts_of_sink(node.inputs[0], plan, places, behind)
        materializer = [one for one in operators if not one.of_connector]
        if materializer:
            raise OptionError(
                f"the materializer of {node} has no name in an execution plan",
                remedy="run the job from its compiled plan",
            )
        found[number] = tuple(
            replace(
                operators[0], uid=ids[part], transformation=PARTS.get(name.rpartition(": ")[2], name), is_generated=True
            )
            for part, name in parts
        )
    return found


def _part(name: str) -> str:
    return PARTS.get(name.rpartition(": ")[2], name)


def _places(plan: Plan, entries: list[Mapping[str, Any]]) -> Iterator[tuple[int, int]]:
    """Yield nodes of the plan with their nodes of the graph: by description, then by order."""
    by_description: dict[str, list[int]] = {}
    for entry in entries:
        match = NUMBERED.match(str(entry.get("contents", "")))
        if match:
            by_description.setdefault(match[2], []).append(int(entry["id"]))
    for node in plan.nodes.values():
        waiting = by_description.get(node.description)
        if waiting:
            yield node.id, waiting.pop(0)


def _behind(entries: list[Mapping[str, Any]]) -> dict[int, list[Mapping[str, Any]]]:
    found: dict[int, list[Mapping[str, Any]]] = {}
    for entry in entries:
        for edge in entry.get("predecessors") or ():
            found.setdefault(int(edge["id"]), []).append(entry)
    return found


def _parts_of_sink(
    source: int, plan: Plan, places: Mapping[int, int], behind: Mapping[int, list[Mapping[str, Any]]]
) -> list[tuple[int, str]]:
    """Return the operators of a sink: those without a number behind its input."""
    while source not in places and plan.nodes[source].inputs:
        source = plan.nodes[source].inputs[0]
    waiting = [places[source]] if source in places else []
    parts: list[tuple[int, str]] = []
    taken = set(places.values())
    while waiting:
        for entry in behind.get(waiting.pop(), ()):
            if int(entry["id"]) not in taken:
                parts.append((int(entry["id"]), str(entry["type"])))
                waiting.append(int(entry["id"]))
    return parts
