"""Names of rows and accumulators of SQL operators, from the text of ``EXPLAIN``.

    == Optimized Execution Plan ==
    Sink(table=[...], fields=[user, total])
    +- GroupAggregate(groupBy=[user], select=[user, SUM(amount) AS total])
       +- Exchange(distribution=[hash[user]])
          +- Calc(select=[user, amount])(reuse_id=[1])
             +- ...

A line is a node with its attributes; those below it, further to the right, are its inputs. ``Reused`` refers to the
node with that ``reuse_id``. Of two phases the second one's aggregates are those of the first. Unlike a compiled plan
the text has no uids: the nodes of an operator are those of its kind, where a uid or name tells it, whose fields fit.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from pyspark_savepoint.formats.metadata import OperatorState
from pyspark_savepoint.statebackends.model.compiled_plan import (
    PlanNode,
    buffers_of,
    explained_span,
    is_sliced,
    unique_names,
)

PLANS = tuple(
    re.compile(rf"== Optimized {name} Plan ==\s*\n(.*?)(?=\n== |\Z)", re.DOTALL) for name in ("Execution", "Physical")
)
LINE = re.compile(r"([ :|]*)([+:]- )?([A-Za-z]+)\((.*)\)\s*")
REUSE = re.compile(r"\)\(reuse_id=\[(\d+)\]$")
ATTRIBUTE = re.compile(r"(?:^|, )([A-Za-z]+)=\[")
CALL = re.compile(r"\$?([A-Z][A-Z0-9_]*?)(_RETRACT)?\((.*?)\)( FILTER .*)?", re.DOTALL)
DISTINCT = re.compile(r"distinct\$\d+ ")
#: Functions of windows, which are no aggregates.
OF_WINDOWS = ("start(", "end(", "rowtime(", "proctime(", "slice_end(", "window_start(", "window_end(")
#: A window in calls such as ``start('w$)``: no quoted text.
WINDOW = "'w$"
AGGREGATES = ("groupBy", "partitionBy")
#: Attributes with the fields of the key.
KEYS = (*AGGREGATES, "partitionKeys", "key")
UID = re.compile(r"\d+_(?:stream-exec-[a-z0-9-]+_\d+_)?([a-z-]+)")
NAME = re.compile(r"([A-Za-z]+)\[\d+\]")


@dataclass
class ExplainedNode:
    """A line of the plan."""

    kind: str
    attributes: Mapping[str, str]
    inputs: list[ExplainedNode] = field(default_factory=list)

    def names(self) -> tuple[str, ...]:
        """Return the names of the fields that the node emits."""
        node = self
        while "select" not in node.attributes and "fields" not in node.attributes and node.inputs:
            node = node.inputs[0]
        listed = node.attributes.get("select", node.attributes.get("fields", ""))
        return tuple(_alias(item)[1] for item in items(listed))


def is_explained(text: str) -> bool:
    """Return whether a text is what EXPLAIN prints, or a part of it."""
    return bool(nodes_of(text))


def nodes_of(text: str) -> list[ExplainedNode]:
    """Return the nodes of a plan; of a whole EXPLAIN, those of its optimized plan."""
    text = next((section[1] for plan in PLANS if (section := plan.search(text))), text).replace(WINDOW, WINDOW[1:])
    nodes: list[ExplainedNode] = []
    open_nodes: list[tuple[int, ExplainedNode]] = []
    known: dict[str, ExplainedNode] = {}
    for line in text.splitlines():
        match = LINE.fullmatch(line)
        if match is None:
            open_nodes.clear()
            continue
        depth = len(match[1]) + len(match[2] or "")
        while open_nodes and open_nodes[-1][0] >= depth:
            open_nodes.pop()
        reused = re.fullmatch(r"reference_id=\[(\d+)\]", match[4]) if match[3] == "Reused" else None
        node = known.get(reused[1]) if reused else ExplainedNode(match[3], attributes_of(match[4]))
        if node is None:
            continue
        if open_nodes:
            open_nodes[-1][1].inputs.append(node)
        if reused:
            continue
        nodes.append(node)
        open_nodes.append((depth, node))
        identifier = REUSE.search(match[4])
        if identifier:
            known[identifier[1]] = node
    return nodes


def attributes_of(text: str) -> dict[str, str]:
    """Return the attributes of a node, without their outer brackets.

    >>> attributes_of("groupBy=[k], select=[k, MAX(a[1]) AS m]")
    {'groupBy': 'k', 'select': 'k, MAX(a[1]) AS m'}
    """
    attributes: dict[str, str] = {}
    position = 0
    while (match := ATTRIBUTE.search(text, position)) is not None:
        end = _closing(text, match.end())
        attributes.setdefault(match[1], text[match.end() : end])
        position = end
    return attributes


def _closing(text: str, position: int) -> int:
    depth = 1
    while position < len(text):
        if text[position] == "'":
            position = text.find("'", position + 1)
            if position < 0:
                return len(text)
        depth += {"[": 1, "(": 1, "]": -1, ")": -1}.get(text[position], 0)
        if depth == 0:
            return position
        position += 1
    return position


def items(text: str) -> list[str]:
    """Return the items of a list with commas between them.

    >>> items("k, COALESCE(a, 'x, y') AS c")
    ['k', "COALESCE(a, 'x, y') AS c"]
    """
    parts, start, depth, quoted = [], 0, 0, False
    for position, character in enumerate(text):
        quoted ^= character == "'"
        if not quoted:
            depth += {"[": 1, "(": 1, "]": -1, ")": -1}.get(character, 0)
        if character == "," and depth == 0 and not quoted:
            parts.append(text[start:position].strip())
            start = position + 1
    return [item for item in (*parts, text[start:].strip()) if item]


def _alias(item: str) -> tuple[str, str]:
    expression, _, name = item.rpartition(" AS ")
    return (expression, name) if expression else (item, item)


def nodes_for(text: str, operator: OperatorState, uid: str | None) -> Iterator[PlanNode]:
    """Yield the nodes that an operator may be: those of its kind, if its uid or name tells it."""
    kind = _kind(uid or operator.uid, operator.name)
    for node in nodes_of(text):
        if kind is None or node.kind.casefold() == kind:
            yield _plan_node(node)


def _kind(uid: str | None, name: str | None) -> str | None:
    by_uid, by_name = UID.fullmatch(uid or ""), NAME.match(name or "")
    if by_uid:
        return by_uid[1].replace("-", "")
    return by_name[1].casefold() if by_name else None


def _plan_node(node: ExplainedNode) -> PlanNode:
    inputs = tuple(each.names() for each in node.inputs)
    first = _first_phase(node)
    calls: list[str] = []
    views: list[str] = []
    grouping = [name for attribute in AGGREGATES for name in items(first.attributes.get(attribute, ""))]
    retracted = (
        "BETWEEN" in node.attributes.get("window", "") and "UNBOUNDED PRECEDING" not in node.attributes["window"]
    )
    if "Aggregate" in node.kind:
        for item in items(first.attributes.get("select", "")):
            expression, alias = _alias(item)
            match = CALL.fullmatch(expression)
            if match is None or expression == alias or expression in grouping or expression.startswith(OF_WINDOWS):
                continue
            function, arguments = (
                match[1].lower(),
                DISTINCT.sub("distinct ", match[3]).replace("DISTINCT ", "distinct "),
            )
            named = f"{function}({arguments}){(match[4] or '').replace(' FILTER ', ' filter ')}"
            if function == "distinct":
                views.append(named)
                continue
            calls += buffers_of(function, named, retracted or bool(match[2]))
            if arguments.startswith("distinct "):
                views.append(f"distinct({arguments.removeprefix('distinct ')})")
    span = explained_span(node.attributes)
    more = (*["count(*)"] * is_sliced(span), *dict.fromkeys(views))
    sort_key = tuple(re.sub(r" (ASC|DESC).*$", "", each) for each in items(node.attributes.get("orderBy", "")))
    return PlanNode(
        "",
        f"{node.kind}({node.attributes.get('select', '')})",
        inputs,
        _key(node),
        unique_names(calls),
        unique_names(more),
        unique_names(sort_key),
        _unique_keys(node, inputs),
        span,
    )


def _first_phase(node: ExplainedNode) -> ExplainedNode:
    """Return the local aggregate below a global one."""
    phase = node
    while phase.kind.startswith(("Global", "Exchange")) and phase.inputs:
        phase = phase.inputs[0]
    return phase if phase.kind.startswith("Local") else node


def _key(node: ExplainedNode) -> tuple[str, ...]:
    for attribute in KEYS:
        if attribute in node.attributes:
            return tuple(items(node.attributes[attribute]))
    exchange = node.inputs[0].attributes.get("distribution", "") if node.inputs else ""
    hashed = re.fullmatch(r"hash\[(.*)\]", exchange)
    return tuple(items(hashed[1])) if hashed else ()


def _unique_keys(node: ExplainedNode, inputs: Sequence[tuple[str, ...]]) -> tuple[tuple[tuple[str, ...], ...], ...]:
    update = re.search(r"UpdateFastStrategy\[([\d,]+)\]", node.attributes.get("strategy", ""))
    if update and inputs:
        return ((tuple(inputs[0][int(index)] for index in update[1].split(",") if int(index) < len(inputs[0])),),)
    return ()
