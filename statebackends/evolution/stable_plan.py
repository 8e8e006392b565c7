"""NEW's plan with the ids of OLD, so that it restores OLD's savepoint without a change of it, where all is as it is.

Nodes that continue one of OLD get its id, others a number that is free. An aggregate of two phases has another name in
its uid than one of a single phase: the node's own format of uids then keeps the old one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pyspark_savepoint.statebackends.evolution.changes import Evolution
from pyspark_savepoint.statebackends.evolution.plans import UID_FORMAT, Plan


def stable_plan(new: Plan, evolution: Evolution) -> dict[str, Any]:
    """Return the document of NEW's plan with the ids of OLD's operators."""
    wanted = dict(_partners(evolution))
    used = set(wanted.values())
    ids: dict[int, int] = {}
    following = max((*new.nodes, *used), default=0)
    for number in new.nodes:
        if number in wanted:
            ids[number] = wanted[number]
        elif number not in used:
            ids[number] = number
        else:
            following += 1
            ids[number] = following
    names = dict(_names(evolution))
    nodes = [_renumbered(node, ids, names) for node in new.document["nodes"]]
    edges = [{**edge, "source": ids[edge["source"]], "target": ids[edge["target"]]} for edge in new.document["edges"]]
    return {**new.document, "nodes": nodes, "edges": edges}


def _partners(evolution: Evolution) -> Iterator[tuple[int, int]]:
    """Yield the nodes of NEW with the ids of their partners."""
    taken: set[int] = set()
    seen: set[int] = set()
    for one in evolution.operators:
        if one.old is None or one.new is None or one.new.node in seen or one.old.node in taken:
            continue
        seen.add(one.new.node)
        taken.add(one.old.node)
        yield one.new.node, one.old.node


def _names(evolution: Evolution) -> Iterator[tuple[int, str]]:
    """Yield the nodes whose operators have another name in OLD, with the uid that it has there."""
    for one in evolution.operators:
        if one.old is None or one.new is None or one.new.of_connector or one.old.is_generated:
            continue
        if one.old.transformation != one.new.transformation:
            yield one.new.node, one.old.uid


def _renumbered(node: Mapping[str, Any], ids: Mapping[int, int], names: Mapping[int, str]) -> dict[str, Any]:
    found = {**node, "id": ids[node["id"]]}
    if node["id"] in names:
        found["configuration"] = {**(node.get("configuration") or {}), UID_FORMAT: names[node["id"]]}
    return found
