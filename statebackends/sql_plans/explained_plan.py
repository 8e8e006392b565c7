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
from functools import cached_property

from pyspark_savepoint.formats.errors import OptionError
from pyspark_savepoint.formats.metadata import OperatorState
from pyspark_savepoint.statebackends.sql_plans.compiled_plan import (
    PlanNode,
    accumulator_of,
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
#: Attributes with the fields that a node emits.
NAMING = {"select", "fields"}
UID = re.compile(r"\d+_(?:stream-exec-[a-z0-9-]+_\d+_)?([a-z-]+)")
NAME = re.compile(r"([A-Za-z]+)\[\d+\]")
UPDATE = re.compile(r"UpdateFastStrategy\[([0-9]{1,9}(?:,[0-9]{1,9})*+)\]")
DIRECTION = re.compile(r" (ASC|DESC).*$")
#: A function, the text of its call, and whether rows are also taken out of it.
Call = tuple[str, str, bool]


@dataclass(eq=False)
class ExplainedNode:
    """A line of the plan. What follows from it is found once, as other nodes may reuse it."""

    kind: str
    attributes: Mapping[str, str]
    inputs: list[ExplainedNode] = field(default_factory=list)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the fields that the node emits: its own, or those of the first node below that has some."""
        above: list[ExplainedNode] = []
        node = self
        while "names" not in node.__dict__ and not node.attributes.keys() & NAMING and node.inputs:
            above.append(node)
            node = node.inputs[0]
        names = node.__dict__.get("names")
        if names is None:
            listed = node.attributes.get("select", node.attributes.get("fields", ""))
            names = tuple(_alias(item)[1] for item in items(listed))
        for each in (*above, node):
            each.__dict__["names"] = names
        return names

    @cached_property
    def first_phase(self) -> ExplainedNode:
        """The local aggregate below a global one; itself if it has none."""
        above: list[ExplainedNode] = []
        phase = self
        while phase.kind.startswith(("Global", "Exchange")) and phase.inputs and "below" not in phase.__dict__:
            above.append(phase)
            phase = phase.inputs[0]
        below = phase.__dict__.get("below", phase)
        for each in above:
            each.__dict__["below"] = below
        return below if below.kind.startswith("Local") else self

    @cached_property
    def calls(self) -> tuple[tuple[Call, ...], tuple[str, ...]]:
        """The aggregate calls of its fields, and the names of views of DISTINCT."""
        calls: list[Call] = []
        views: list[str] = []
        grouping = {name for attribute in AGGREGATES for name in items(self.attributes.get(attribute, ""))}
        for item in items(self.attributes.get("select", "")):
            expression, alias = _alias(item)
            match = CALL.fullmatch(expression)
            if match is None or expression == alias or expression in grouping or expression.startswith(OF_WINDOWS):
                continue
            function = match[1].lower()
            arguments = DISTINCT.sub("distinct ", match[3]).replace("DISTINCT ", "distinct ")
            call_text = f"{function}({arguments}){(match[4] or '').replace(' FILTER ', ' filter ')}"
            if function == "distinct":
                views.append(call_text)
                continue
            calls.append((function, call_text, bool(match[2])))
            if arguments.startswith("distinct "):
                views.append(f"distinct({arguments.removeprefix('distinct ')})")
        return tuple(calls), tuple(dict.fromkeys(views))

    @cached_property
    def accumulators(self) -> dict[tuple[bool, bool], dict[int, tuple[str, ...]]]:
        """The names of the fields of its accumulator, by their number: see :meth:`accumulator`."""
        return {}

    def accumulator(self, *, retracted: bool, sliced: bool) -> Mapping[int, tuple[str, ...]]:
        """Return the names of the fields of its accumulator, by their number.

        ``retracted``: rows are taken out of all of its aggregates. ``sliced``: its windows have several slices.
        """
        result = self.accumulators.get((retracted, sliced))
        if result is None:
            calls, views = self.calls
            buffers = [name for call, text, back in calls for name in buffers_of(call, text, retracted or back)]
            more = unique_names((*["count(*)"] * sliced, *views))
            result = self.accumulators[retracted, sliced] = accumulator_of(unique_names(buffers), more)
        return result

    @cached_property
    def hashed_by(self) -> tuple[str, ...]:
        """The fields by which an exchange distributes."""
        hashed = re.fullmatch(r"hash\[(.*)\]", self.attributes.get("distribution", ""))
        return tuple(items(hashed[1])) if hashed else ()


def is_explained(text: str) -> bool:
    """Return whether a text is what EXPLAIN prints, or a part of it."""
    return bool(nodes_of(text))


def nodes_of(text: str) -> list[ExplainedNode]:
    """Return the nodes of a plan; of a whole EXPLAIN, those of its optimized plan."""
    text = next((section[1] for plan in PLANS if (section := plan.search(text))), text).replace(WINDOW, WINDOW[1:])
    nodes: list[ExplainedNode] = []
    open_nodes: list[tuple[int, ExplainedNode]] = []
    nodes_by_name: dict[str, ExplainedNode] = {}
    for line in text.splitlines():
        match = LINE.fullmatch(line)
        if match is None:
            open_nodes.clear()
            continue
        depth = len(match[1]) + len(match[2] or "")
        while open_nodes and open_nodes[-1][0] >= depth:
            open_nodes.pop()
        reused = re.fullmatch(r"reference_id=\[(\d+)\]", match[4]) if match[3] == "Reused" else None
        node = nodes_by_name.get(reused[1]) if reused else ExplainedNode(match[3], attributes_of(match[4]))
        if node is None:
            continue
        if reused and any(node is above for _, above in open_nodes):
            raise OptionError(
                "the text of EXPLAIN in option 'fieldNames' has a node that is its own input",
                found=line.strip()[:200],
                remedy="give the text as Flink prints it",
            )
        if open_nodes:
            open_nodes[-1][1].inputs.append(node)
        if reused:
            continue
        nodes.append(node)
        open_nodes.append((depth, node))
        identifier = REUSE.search(match[4])
        if identifier:
            nodes_by_name[identifier[1]] = node
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
    inputs = tuple(each.names for each in node.inputs)
    window = node.attributes.get("window", "")
    retracted = "BETWEEN" in window and "UNBOUNDED PRECEDING" not in window
    span = explained_span(node.attributes)
    accumulator = (
        node.first_phase.accumulator(retracted=retracted, sliced=is_sliced(span))
        if "Aggregate" in node.kind
        else accumulator_of((), ("count(*)",) if is_sliced(span) else ())
    )
    return PlanNode(
        "",
        f"{node.kind}({node.attributes.get('select', '')})",
        inputs,
        _key(node),
        accumulator,
        unique_names([DIRECTION.sub("", each) for each in items(node.attributes.get("orderBy", ""))]),
        _unique_keys(node, inputs),
        span,
    )


def _key(node: ExplainedNode) -> tuple[str, ...]:
    for attribute in KEYS:
        if attribute in node.attributes:
            return tuple(items(node.attributes[attribute]))
    return node.inputs[0].hashed_by if node.inputs else ()


def _unique_keys(node: ExplainedNode, inputs: Sequence[tuple[str, ...]]) -> tuple[tuple[tuple[str, ...], ...], ...]:
    update = UPDATE.search(node.attributes.get("strategy", ""))
    if update and inputs:
        return ((unique_names([inputs[0][number] for number in _numbers(update[1]) if number < len(inputs[0])]),),)
    return ()


def _numbers(text: str) -> Iterator[int]:
    return map(int, text.split(","))
