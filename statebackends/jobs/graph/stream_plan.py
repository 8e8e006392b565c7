"""Stream graphs from the execution plan of a job, and job vertices from Flink's REST interface.

``env.getExecutionPlan()`` contains every operator: name, parallelism, inputs in order, partitioning. It lacks uids
and uid hashes, max parallelism, slot sharing groups, ``disableChaining`` and ``startNewChain``, whether a source is a
``SourceFunction``, which operators yield, which inputs are united, and in which order outputs were added. These have
defaults here, each of which is listed in ``StreamGraph.assumptions``, and argument ``settings`` overrides them::

    graph = from_execution_plan(plan, {"Source: orders": {"uid": "orders"}, "join": {"chaining": "HEAD"}})

The plan of the REST interface (``/jobs/:id/plan``, or ``/jobs/:id``, which contains it) has job vertices: each with the
id of its first operator, and only names of the operators chained to it. :func:`read_job_plan` reads these.
Flink: ``JSONGenerator``, ``JsonPlanGenerator``.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark_savepoint.formats.errors import OptionError, did_you_mean
from pyspark_savepoint.formats.json_text import parse_json
from pyspark_savepoint.formats.metadata.identifiers import OperatorID
from pyspark_savepoint.formats.metadata.key_groups import UPPER_BOUND_MAX_PARALLELISM
from pyspark_savepoint.statebackends.jobs.graph.stream_graph import StreamGraph
from pyspark_savepoint.statebackends.jobs.graph.stream_nodes import (
    DEFAULT_SLOT_SHARING_GROUP,
    ChainingStrategy,
    Partitioner,
    SourceKind,
    StreamEdge,
    StreamNode,
)

#: A test of values, and what they are.
Kind = tuple[Callable[[Any], bool], str]
#: Longer texts are not taken for paths; longer values are cut in errors.
MAX_PATH, MAX_VALUE = 4096, 80


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_parallelism(value: Any) -> bool:
    return _is_number(value) and 1 <= value <= UPPER_BOUND_MAX_PARALLELISM


def _each(test: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list | tuple) and all(map(test, value))


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


A_TEXT: Kind = (_is_text, "a text")
AN_OBJECT: Kind = (lambda value: isinstance(value, Mapping), "a JSON object")
_FLAG: Kind = (lambda value: isinstance(value, bool), "true or false")
_PARALLELISM: Kind = (_is_parallelism, f"a whole number from 1 to {UPPER_BOUND_MAX_PARALLELISM}")
#: Fields of a node of an execution plan, and of the edge to a node before it.
NODE: dict[str, Kind] = {
    "type": A_TEXT,
    "parallelism": _PARALLELISM,
    "predecessors": (_each(lambda value: isinstance(value, Mapping)), "a list of objects"),
}
PREDECESSOR: dict[str, Kind] = {"id": (_is_number, "the number of a node"), "ship_strategy": A_TEXT}
#: Fields of a node of a plan of the REST interface.
VERTEX: dict[str, Kind] = {
    "id": (_is_text, "32 hex digits"),
    "description": A_TEXT,
    "parallelism": _PARALLELISM,
}
#: What an execution plan lacks.
SETTINGS: dict[str, Kind] = {
    "uid": (lambda value: isinstance(value, str | None), "a text"),
    "uid_hash": (lambda value: isinstance(value, str | None), "32 hex digits"),
    "max_parallelism": (lambda value: value is None or _is_parallelism(value), _PARALLELISM[1]),
    "slot_sharing_group": A_TEXT,
    "chaining": (lambda value: value in list(ChainingStrategy), ", ".join(ChainingStrategy)),
    "legacy": _FLAG,
    "yielding": _FLAG,
    "ports": (_each(_is_number), "a list of numbers"),
    "outputs": (_each(_is_text), "a list of names"),
}
#: Default names of legacy sources (``addSource``, ``fromElements``, ...).
LEGACY_NAMES = {"Source: Custom Source", "Source: Collection Source", "Source: Socket Stream"}
#: The suffix and the name that identify operators that yield.
YIELDING_SUFFIX, YIELDING_NAME = ": Writer", "async wait operator"

Settings = Mapping[str, Mapping[str, Any]]


def from_execution_plan(
    plan: str | Mapping[str, Any],
    settings: Settings | None = None,
    *,
    max_parallelism: int | None = None,
    chaining: bool = True,
    chain_different_max_parallelism: bool = True,
) -> StreamGraph:
    """Return the stream graph of an execution plan.

    Args:
        plan: The JSON of ``env.getExecutionPlan()``, as text or parsed.
        settings: What the plan lacks, by an operator's name or number: ``uid``, ``uid_hash``, ``max_parallelism``,
            ``slot_sharing_group``, ``chaining``, ``legacy`` and ``yielding`` as in :meth:`StreamGraph.operator`;
            ``ports``: the index of the input of each predecessor, in the plan's order; ``outputs``: names of the
            operators that follow, in the order in which the job adds them.
        max_parallelism: The environment's max parallelism.
        chaining: Setting ``pipeline.operator-chaining.enabled``.
        chain_different_max_parallelism: Setting
            ``pipeline.operator-chaining.chain-operators-with-different-max-parallelism``.

    Returns:
        The graph, with its ``assumptions``.

    Raises:
        OptionError: If the plan is of another form, or a setting does not fit it.

    Example::

        graph = from_execution_plan(plan, {"Source: orders": {"uid": "orders"}, "join": {"chaining": "HEAD"}})
        savepoint.assign_uids(graph)

    """
    nodes = _nodes_of(plan)
    graph = StreamGraph(
        max_parallelism=max_parallelism,
        chaining=chaining,
        chain_different_max_parallelism=chain_different_max_parallelism,
    )
    settings_by_id = _settings_by_id(nodes, {} if settings is None else settings)
    for node in sorted(nodes, key=lambda node: int(node["id"])):
        graph.add(_stream_node(node, settings_by_id[node["id"]], max_parallelism))
    for node in sorted(nodes, key=lambda node: int(node["id"])):
        for position, edge in enumerate(node.get("predecessors", ())):
            graph.connect(_stream_edge(node, position, edge, settings_by_id[node["id"]]))
    for node in nodes:
        _inherit_slot_sharing_group(graph.nodes[node["id"]], graph, settings_by_id[node["id"]])
        _order_outputs(graph.nodes[node["id"]], graph, settings_by_id[node["id"]])
    graph.assumptions = tuple(_assumptions(graph, settings_by_id))
    graph.knows_uids = any(node.uid or node.uid_hash for node in graph.nodes.values())
    return graph


def _nodes_of(plan: str | Mapping[str, Any]) -> list[dict[str, Any]]:
    parsed = _parse(plan)
    nodes = parsed.get("nodes")
    if not isinstance(nodes, list) or not all(isinstance(node, dict) for node in nodes):
        raise OptionError(
            "this is not an execution plan", expected="an object with a list 'nodes'", found=str(parsed)[:80]
        )
    if any("step_function" in node for node in nodes):
        raise OptionError("a plan with iterations does not contain the order of their operators")
    if any(not _is_number(node.get("id")) for node in nodes):
        raise OptionError(
            "the nodes of this plan are job vertices, not operators",
            expected="env.getExecutionPlan(), whose nodes have numbers",
            remedy="read it with read_job_plan",
        )
    for node in nodes:
        _check(node, NODE, f"node {node['id']}", required=("parallelism",))
        for edge in node.get("predecessors", ()):
            _check(edge, PREDECESSOR, f"a predecessor of node {node['id']}", required=("id",))
    return nodes


def read_json(text: str, what: str) -> Any:
    """Return the value of a JSON text, or raise OptionError for another text, and say so if it is a path."""
    try:
        return parse_json(text)
    except ValueError as error:
        is_path = not text.lstrip().startswith(("{", "[")) and len(text) < MAX_PATH and "\n" not in text.strip()
        raise OptionError(
            f"{what} must be JSON",
            expected="an object, such as {...}",
            found=f"{text!r} is not JSON" if is_path else f"this is not JSON: {error}",
            remedy="if this is the path of a file, give its content: Path(...).read_text()" if is_path else None,
        ) from None


def expect_kind(value: Any, kind: Kind, what: str) -> None:
    """Raise OptionError if a value of JSON is of another kind."""
    is_kind, expected = kind
    if not is_kind(value):
        raise OptionError(f"{what} must be {expected}", found=repr(value)[:MAX_VALUE])


def _check(plan: Any, kinds: Mapping[str, Kind], what: str, required: Iterable[str] = ()) -> None:
    """Raise OptionError unless an object has its fields, and these are of their kinds."""
    expect_kind(plan, AN_OBJECT, what)
    for name in required:
        if name not in plan:
            raise OptionError(f"{what} has no field {name!r}", expected=kinds[name][1], found=", ".join(map(str, plan)))
    for name in plan:
        if name in kinds:
            expect_kind(plan[name], kinds[name], f"field {name!r} of {what}")


def _parse(plan: str | Mapping[str, Any]) -> Mapping[str, Any]:
    parsed = read_json(plan, "a plan") if isinstance(plan, str) else plan
    expect_kind(parsed, AN_OBJECT, "a plan")
    checked: Mapping[str, Any] = parsed
    return checked


def _settings_by_id(nodes: Iterable[dict[str, Any]], settings: Settings) -> dict[int, Mapping[str, Any]]:
    expect_kind(settings, AN_OBJECT, "'settings'")
    ids_by_name: dict[str, list[int]] = {}
    for node in nodes:
        for key in (str(node["id"]), str(node.get("type", ""))):
            ids_by_name.setdefault(key, []).append(node["id"])
    result: dict[int, Mapping[str, Any]] = {node["id"]: {} for node in nodes}
    for name, values in settings.items():
        ids = ids_by_name.get(str(name), [])
        if len(ids) != 1:
            problem = "several operators have" if ids else "no operator has"
            remedy = f"name them by number: {ids}" if ids else did_you_mean(str(name), ids_by_name)
            raise OptionError(f"settings for an operator that {problem} that name", operator=name, remedy=remedy)
        expect_kind(values, AN_OBJECT, f"the settings of {name!r}")
        for key in values:
            if key not in SETTINGS:
                raise OptionError(f"no such setting: {key}", operator=name, remedy=did_you_mean(str(key), SETTINGS))
            expect_kind(values[key], SETTINGS[key], f"setting {key!r} of {name!r}")
        result[ids[0]] = values
    return result


def _stream_node(node: Mapping[str, Any], content: Mapping[str, Any], max_parallelism: int | None) -> StreamNode:
    name = str(node.get("type", ""))
    is_source = "predecessors" not in node
    legacy = content.get("legacy", name in LEGACY_NAMES)
    return StreamNode(
        id=node["id"],
        name=name,
        parallelism=node["parallelism"],
        uid=content.get("uid"),
        uid_hash=OperatorID.from_hex(content["uid_hash"]) if content.get("uid_hash") else None,
        max_parallelism=content.get("max_parallelism", max_parallelism),
        slot_sharing_group=content.get("slot_sharing_group", DEFAULT_SLOT_SHARING_GROUP),
        chaining=ChainingStrategy(content.get("chaining", ChainingStrategy.ALWAYS)),
        source=None if not is_source else SourceKind.LEGACY if legacy else SourceKind.SOURCE,
        yielding=content.get("yielding", name.endswith(YIELDING_SUFFIX) or name == YIELDING_NAME),
    )


def _stream_edge(
    node: Mapping[str, Any], position: int, edge: Mapping[str, Any], content: Mapping[str, Any]
) -> StreamEdge:
    shipped = str(edge.get("ship_strategy", ""))
    partitioner = Partitioner(shipped) if shipped in list(Partitioner) else Partitioner.CUSTOM
    ports = content.get("ports", ())
    return StreamEdge(int(edge["id"]), node["id"], partitioner, ports[position] if position < len(ports) else position)


def _inherit_slot_sharing_group(node: StreamNode, graph: StreamGraph, content: Mapping[str, Any]) -> None:
    if "slot_sharing_group" not in content and node.in_edges:
        groups = {graph.nodes[edge.source].slot_sharing_group for edge in node.in_edges}
        node.slot_sharing_group = groups.pop() if len(groups) == 1 else DEFAULT_SLOT_SHARING_GROUP


def _order_outputs(node: StreamNode, graph: StreamGraph, content: Mapping[str, Any]) -> None:
    if "outputs" not in content:
        return
    names = [graph.nodes[edge.target].name for edge in node.out_edges]
    output_names = list(content["outputs"])
    if sorted(names) != sorted(output_names):
        raise OptionError(
            "the given order of outputs does not match the operators of the plan",
            operator=node.label,
            expected=", ".join(names),
            found=", ".join(output_names),
        )
    places = {name: place for place, name in reversed(list(enumerate(output_names)))}
    node.out_edges.sort(key=lambda edge: places[graph.nodes[edge.target].name])


def _assumptions(graph: StreamGraph, nodes: Mapping[int, Mapping[str, Any]]) -> Iterable[str]:
    """Yield a sentence for each default that may change an id in this graph."""
    plain = [node for node in graph.nodes.values() if not ({"uid", "uid_hash"} & nodes[node.id].keys())]
    if plain:
        yield "no uid: " + ", ".join(node.label for node in plain)
    if all("slot_sharing_group" not in values for values in nodes.values()):
        yield "all operators are in one slot sharing group"
    if any("chaining" not in values for values in nodes.values()):
        yield "disableChaining and startNewChain are not used, except in operators with setting 'chaining'"
    yielding = [node.id for node in graph.nodes.values() if node.yielding]
    for node in graph.nodes.values():
        behind = [graph.nodes[edge.target] for edge in node.out_edges]
        sinks = [target for target in behind if target.name.endswith(YIELDING_SUFFIX)]
        if sinks and len(sinks) < len(behind) and "outputs" not in nodes[node.id]:
            yield f"the job adds the sinks of {node.label} after other outputs: setting 'outputs' changes this"
        if node.source and "legacy" not in nodes[node.id] and yielding:
            what = "a SourceFunction" if node.source is SourceKind.LEGACY else "no SourceFunction"
            yield f"{node.label} is {what}: setting 'legacy' changes this"


# -- the REST interface --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PlannedVertex:
    """Vertex of a running job: the id of its head, descriptions of its operators (head first), and its parallelism.

    A description is the operator's name, unless Flink or the job sets another. Flink: ``JobVertex``.
    """

    head: OperatorID
    descriptions: tuple[str, ...]
    parallelism: int
    max_parallelism: int | None = None


def read_job_plan(plan: str | Mapping[str, Any]) -> tuple[PlannedVertex, ...]:
    """Return the job vertices of a plan of the REST interface.

    Args:
        plan: The JSON of ``/jobs/:id/plan`` or ``/jobs/:id``, as text or parsed. Only the latter has max parallelism.

    Returns:
        The vertices, in the order of the plan.

    Raises:
        OptionError: If the plan is of another form.

    """
    parsed = _parse(plan)
    _check(parsed, {"vertices": NODE["predecessors"]}, "a plan of the REST API")
    limits = {}
    for vertex in parsed.get("vertices", ()):
        # A vertex without max parallelism has -1 there.
        _check(vertex, {"maxParallelism": (_is_number, "a whole number")}, "a vertex")
        limits[str(vertex.get("id"))] = vertex.get("maxParallelism")
    nodes = parsed.get("plan", parsed)
    nodes = nodes.get("nodes") if isinstance(nodes, Mapping) else None
    if not isinstance(nodes, list) or not all(isinstance(node, dict) and "description" in node for node in nodes):
        raise OptionError(
            "this is not a plan of the REST API",
            expected="an object with a list 'nodes', each with 'id' and 'description'",
            remedy="an execution plan of env.getExecutionPlan() is read by from_execution_plan",
        )
    for node in nodes:
        _check(node, VERTEX, "a node", required=("id", "description"))
    return tuple(
        PlannedVertex(
            OperatorID.from_hex(str(node["id"])),
            tuple(_descriptions(node["description"])) or (node["id"],),
            node.get("parallelism", 1),
            limits.get(str(node["id"])),
        )
        for node in nodes
    )


def _descriptions(description: str) -> list[str]:
    """Return the operators of a chain, drawn as a tree, one per line: ``A<br/>:- B<br/>:  +- C<br/>+- D<br/>``."""
    lines = [html.unescape(line) for line in description.split("<br/>")]
    return [line.lstrip(" :+-") if number else line for number, line in enumerate(lines) if line.strip()]
