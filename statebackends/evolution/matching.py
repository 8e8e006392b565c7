"""Which node of OLD a node of NEW continues: by what they mean, never by names, types or numbers alone.

Nodes of one family can be partners. What they share is weighed: the rows that come in, keys, settings, calls or
columns, filters, what is behind them. The best pair is taken first. What is tied is ambiguous, unless the tied nodes
mean the same in everything: then their order decides, as either has the same state.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from pyspark_savepoint.formats.errors import OptionError, did_you_mean
from pyspark_savepoint.statebackends.evolution.expected_aggregates import aggregate_calls
from pyspark_savepoint.statebackends.evolution.lineage import (
    AGGREGATES,
    JOINS,
    Lineage,
    digest,
    filters_of,
    pattern_of,
    windows_of,
)
from pyspark_savepoint.statebackends.evolution.plans import Node
from pyspark_savepoint.statebackends.evolution.shapes import OperatorShape

#: Kinds whose states mean the same.
FAMILIES = {"global-group-aggregate": "group-aggregate", "global-window-aggregate": "window-aggregate"}
Shapes = Mapping[int, tuple[OperatorShape, ...]]


@dataclass(frozen=True)
class Features:
    """What a node means, in parts that are compared one by one."""

    family: str
    relation: tuple[str, ...]
    keys: tuple[str, ...]
    settings: str
    parts: frozenset[str]
    filters: frozenset[str]
    tables: frozenset[str]
    sinks: frozenset[str]

    @property
    def whole(self) -> str:
        """The digest of all of it."""
        return digest(
            self.family,
            self.relation,
            self.keys,
            self.settings,
            sorted(self.parts),
            sorted(self.filters),
            sorted(self.sinks),
        )


@dataclass(frozen=True)
class Matches:
    """Partners by the id of NEW's node, and candidates of what is ambiguous."""

    partners: Mapping[int, int]
    ambiguous: Mapping[int, tuple[int, ...]] = field(default_factory=dict)


def match_nodes(
    old: Lineage, new: Lineage, old_shapes: Shapes, new_shapes: Shapes, given: Mapping[str, str] | None
) -> Matches:
    """Return the partners of NEW's nodes with state; ``given`` are those that the user names: new id to old id."""
    olds = {number: features(old, number) for number, one in old_shapes.items() if _compared(one)}
    news = {number: features(new, number) for number, one in new_shapes.items() if _compared(one)}
    partners = dict(_user_pairs(given or {}, old, new))
    left = {number: one for number, one in olds.items() if number not in partners.values()}
    open_ = {number: one for number, one in news.items() if number not in partners}
    ambiguous: dict[int, tuple[int, ...]] = {}
    while pairs := _scores(left, open_):
        best = max(pairs.values())
        top = [pair for pair, value in pairs.items() if value == best]
        number, partner = min(top, key=lambda pair: (_place(open_, pair[0]), _place(left, pair[1])))
        rivals = {other for one, other in top if one == number}
        claims = {one for one, other in top if other == partner}
        tied_old = len({left[other].whole for other in rivals}) > 1
        tied_new = len({open_[one].whole for one in claims}) > 1
        if tied_old or tied_new:
            for one in claims if tied_new else {number}:
                ambiguous[one] = tuple(sorted(rivals))
                del open_[one]
            for other in rivals:
                left.pop(other, None)
            continue
        partners[number] = partner
        del open_[number], left[partner]
    return Matches(partners, ambiguous)


def _place(among: Mapping[int, Features], number: int) -> int:
    return list(among).index(number)


def _compared(operators: tuple[OperatorShape, ...]) -> bool:
    """Return whether a node has state that is not that of a connector: sources and sinks are matched by tables."""
    return any(not one.of_connector for one in operators) and all(
        one.transformation != "upsert-materialize" for one in operators
    )


def _user_pairs(given: Mapping[str, str], old: Lineage, new: Lineage) -> Iterator[tuple[int, int]]:
    """Yield the pairs that the user names; raise OptionError for a node that is not there, or is of another kind."""
    for one, other in given.items():
        found = _node(new, str(one), "new_plan"), _node(old, str(other), "old_plan")
        if family(found[0]) != family(found[1]):
            raise OptionError(
                "argument 'nodes' pairs nodes of different kinds",
                expected="two nodes of one kind: their ids in new_plan and in old_plan",
                found=f"{found[0]}; {found[1]}",
            )
        yield found[0].id, found[1].id


def _node(lineage: Lineage, text: str, plan: str) -> Node:
    number = text.split("_")[0]
    if not number.isdecimal() or int(number) not in lineage.plan.nodes:
        names = [str(one) for one in lineage.plan.nodes]
        raise OptionError(
            f"argument 'nodes' names a node that argument '{plan}' does not have",
            expected="the id of a node of the new plan, and the id of the old node that it continues",
            found=text,
            remedy=did_you_mean(number, names),
        )
    return lineage.plan.nodes[int(number)]


def family(node: Node) -> str:
    """Return the kind of a node, one of those that mean the same."""
    return FAMILIES.get(node.kind, node.kind)


def _scores(olds: Mapping[int, Features], news: Mapping[int, Features]) -> dict[tuple[int, int], int]:
    found: dict[tuple[int, int], int] = {}
    for number, one in news.items():
        for other, two in olds.items():
            value = score(two, one)
            if value:
                found[number, other] = value
    return found


def score(old: Features, new: Features) -> int:
    """Return how much two nodes have in common; 0 if they cannot be partners."""
    if old.family != new.family or not old.tables & new.tables:
        return 0
    shared = len(set(old.keys) & set(new.keys))
    if old.keys != new.keys and not shared and old.relation != new.relation:
        return 0
    every = old.parts | new.parts
    common = 100 * len(old.parts & new.parts) // len(every) if every else 100
    return (
        1
        + 4000 * (old.relation == new.relation)
        + 3000 * (sorted(old.keys) == sorted(new.keys))
        + 1000 * (old.keys == new.keys)
        + (500 * shared // max(len(old.keys), len(new.keys), 1))
        + 1500 * (old.settings == new.settings)
        + 10 * common
        + 800 * (old.filters == new.filters)
        + 300 * (old.sinks == new.sinks)
    )


def features(lineage: Lineage, number: int) -> Features:
    """Return what a node means, in parts."""
    node = lineage.plan.nodes[number]
    inputs = lineage.inputs(node)
    relation = tuple(one.relation for one in inputs)
    filters = frozenset(filters_of(inputs))
    tables = frozenset[str]().union(*(one.tables for one in inputs))
    keys, parts, settings = _described(lineage, node)
    return Features(
        family(node),
        relation[::-1] if lineage.is_swapped(node) else relation,
        keys,
        settings,
        parts,
        filters,
        tables,
        frozenset(sinks_of(lineage, number)),
    )


def _described(lineage: Lineage, node: Node) -> tuple[tuple[str, ...], frozenset[str], str]:
    """Return the keys, the calls or columns, and the settings of a node."""
    inputs = lineage.inputs(node)
    columns = frozenset(one.digest for each in inputs for one in each.fields)
    if node.kind in (*AGGREGATES, "window-aggregate", "global-window-aggregate", "group-window-aggregate"):
        rows = lineage.rows_of(node)
        calls = frozenset(lineage.call(call, rows) for call in aggregate_calls(node))
        keys = tuple(one.digest for one in lineage.keys_of(node))
        return keys, calls, digest(windows_of(node, lineage.time_of(node)))
    if node.kind in JOINS:
        pairs = lineage.join_keys(node)
        keys = tuple(digest(*pair) for pair in pairs)
        return keys, columns, digest(lineage.join_type(node), lineage.residual(node))
    if node.kind == "over-aggregate":
        fields = inputs[0].fields
        partition = node.attributes["overSpec"]["partition"]["fields"]
        return tuple(fields[index].digest for index in partition), columns, lineage.over_window(node)
    fields = inputs[0].fields
    places = key_places(node)
    if node.kind == "match":
        return tuple(fields[index].digest for index in places), columns, digest(pattern_of(node))
    return tuple(fields[index].digest for index in places), columns, lineage.described(node)


def key_places(node: Node) -> tuple[int, ...]:
    """Return the places of the keys of a node that keeps rows of its only input."""
    attributes = node.attributes
    if node.kind == "over-aggregate":
        places = attributes["overSpec"]["partition"]["fields"]
    elif node.kind == "match":
        places = attributes["matchSpec"]["partition"]["fields"]
    else:
        places = attributes.get("uniqueKeys") or attributes.get("partitionKeys")
        partition = attributes.get("partition") or attributes.get("partitionSpec") or {}
        places = places or partition.get("fields") or ()
    return tuple(map(int, places))


def sinks_of(lineage: Lineage, number: int) -> Iterator[str]:
    """Yield the tables of the sinks that a node's rows reach."""
    waiting, seen = [number], {number}
    while waiting:
        for target in lineage.plan.targets[waiting.pop()]:
            node = lineage.plan.nodes[target]
            if node.kind == "sink":
                yield str((node.attributes.get("dynamicTableSink") or {}).get("table", {}).get("identifier") or target)
            if target not in seen:
                seen.add(target)
                waiting.append(target)
