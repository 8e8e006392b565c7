"""What becomes of sources, sinks' writers and materializers: matched by their tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from pyspark_savepoint.formats.errors import OptionError, did_you_mean
from pyspark_savepoint.statebackends.evolution.changes import OperatorChange, StateChange, Verdict, worst
from pyspark_savepoint.statebackends.evolution.connector_parts import moved_part
from pyspark_savepoint.statebackends.evolution.deciding import Decision, with_time_to_live
from pyspark_savepoint.statebackends.evolution.deciding_rows import RowState, row_change
from pyspark_savepoint.statebackends.evolution.emitters import emitted_before
from pyspark_savepoint.statebackends.evolution.expected import SOURCES
from pyspark_savepoint.statebackends.evolution.expected_rows import primary_key, sink_table, table_columns
from pyspark_savepoint.statebackends.evolution.plans import Node, Plan
from pyspark_savepoint.statebackends.evolution.shapes import OperatorShape
from pyspark_savepoint.statebackends.evolution.sources_of_fields import Available, of_key

#: Options that say what a source reads: tables with equal ones are the same, whatever their names.
PLACES = (
    "topic", "topic-pattern", "topics", "path", "table-name", "database-name", "stream", "stream.arn", "collection",
    "url",
)  # fmt: skip
#: Parts of a sink that each plan has.
PLANNED = ("sink", "committer", "global committer")
NEW_SOURCE = "it is new: it reads from where its options say, which must be its beginning if old rows matter"
NEW_MATERIALIZER = "the rows of the new materializer do not come from it"
BY_KEY = "its lists are in the order of their keys, as the order of arrival is not known"


def short(identifier: str) -> str:
    """Return the last part of a table's name, without backquotes."""
    return identifier.replace("`", "").rsplit(".", 1)[-1]


def _table(node: Node) -> tuple[str, Mapping[str, object]]:
    given = node.attributes.get("scanTableSource") or node.attributes.get("dynamicTableSink") or {}
    table = given.get("table") or {}
    options = (table.get("resolvedTable") or {}).get("options") or {}
    return str(table.get("identifier") or node.description), options


def table_names(old: Plan, new: Plan, given: Mapping[str, str]) -> dict[str, str]:
    """Return OLD's names of NEW's source tables: as the user says, else by name, else by equal options of one other.

    Raises:
        OptionError: If the user names a table that is not there.

    """
    olds = {_table(node)[0]: _table(node)[1] for node in old.of_kind(*SOURCES)}
    news = {_table(node)[0]: _table(node)[1] for node in new.of_kind(*SOURCES)}
    names: dict[str, str] = {}
    for one, other in given.items():
        names[_with_table_names(one, news, "new_plan")] = _with_table_names(other, olds, "old_plan")
    for name, options in news.items():
        if name in names or name in olds:
            continue
        free = [other for other in olds if other not in news and other not in names.values()]
        like = [other for other in free if olds[other] == options]
        rivals = [one for one in news if one not in olds and one not in names and news[one] == options]
        if len(like) == 1 and len(rivals) == 1 and any(one in PLACES for one in options):
            names[name] = like[0]
    return names


def _with_table_names(text: str, tables: Mapping[str, object], plan: str) -> str:
    for name in tables:
        if text in (name, name.replace("`", ""), short(name)) or name.replace("`", "").endswith("." + text):
            return name
    raise OptionError(
        f"argument 'sources' names a table that argument '{plan}' does not have",
        expected=", ".join(short(name) for name in tables),
        found=text,
        remedy=did_you_mean(text, [short(name) for name in tables]),
    )


def connector_changes(decision: Decision) -> Iterator[OperatorChange]:
    """Yield what becomes of sources and of the parts of sinks."""
    yield from _sources(decision)
    yield from _sinks(decision)


def _sources(decision: Decision) -> Iterator[OperatorChange]:
    waiting: dict[str, list[int]] = {}
    for node in decision.old.plan.of_kind(*SOURCES):
        waiting.setdefault(decision.old.table_of(node), []).append(node.id)
    for node in decision.new.plan.of_kind(*SOURCES):
        (shape,) = decision.new_shapes[node.id]
        partners = waiting.get(decision.new.table_of(node))
        if not partners:
            yield OperatorChange(Verdict.BEGINS_EMPTY, None, shape, reasons=(NEW_SOURCE,))
            continue
        before, *parts = decision.old_shapes[partners.pop(0)]
        reasons = ["it goes on where it was"]
        options = _table(decision.old.plan.nodes[before.node])[1], _table(node)[1]
        other = sorted(one for one in {*options[0], *options[1]} if options[0].get(one) != options[1].get(one))
        if other:
            reasons.append(f"options of its table are others: {', '.join(other)}")
        yield OperatorChange(Verdict.AS_IS, before, shape, reasons=tuple(reasons))
        for part in parts:
            yield _part(decision, part, node)
    for numbers in waiting.values():
        for number in numbers:
            for before in decision.old_shapes[number]:
                yield OperatorChange(Verdict.LOST, before, None, reasons=("the new query does not read it",))


def _part(decision: Decision, part: OperatorShape, node: Node) -> OperatorChange:
    """Return what becomes of a part of a connector that no plan names."""
    before = decision.old.plan.nodes[part.node]
    connectors = [_options(one).get("connector") for one in (before, node)]
    if connectors[0] != connectors[1]:
        return OperatorChange(Verdict.LOST, part, None, reasons=("its table has another connector now",))
    return OperatorChange(Verdict.AS_IS, part, moved_part(part, before, node), reasons=("its state moves with it",))


def _options(node: Node) -> Mapping[str, Any]:
    """Return the options of the table of a source or sink."""
    return (
        _table(node)[1] if node.kind in SOURCES else (sink_table(node).get("resolvedTable") or {}).get("options") or {}
    )


def _sinks(decision: Decision) -> Iterator[OperatorChange]:
    waiting = {node.id: _table(node)[0] for node in decision.old.plan.of_kind("sink")}
    open_ = {node.id: _table(node)[0] for node in decision.new.plan.of_kind("sink")}
    pairs: dict[int, int] = {}
    for number, name in open_.items():
        free = [other for other, theirs in waiting.items() if theirs == name and other not in pairs.values()]
        if free:
            pairs[number] = free[0]
    left = [one for one in open_ if one not in pairs], [one for one in waiting if one not in pairs.values()]
    if len(left[0]) == len(left[1]) == 1:
        pairs[left[0][0]] = left[1][0]
    for number in open_:
        yield from _sink(decision, decision.new.plan.nodes[number], pairs.get(number))
    for number in waiting:
        if number not in pairs.values():
            for shape in decision.old_shapes[number]:
                yield OperatorChange(Verdict.LOST, shape, None, reasons=("the new query does not write to it",))


def _sink(decision: Decision, node: Node, partner: int | None) -> Iterator[OperatorChange]:
    olds = {one.transformation: one for one in decision.old_shapes[partner]} if partner is not None else {}
    for shape in decision.new_shapes[node.id]:
        before = olds.pop(shape.transformation, None)
        if not shape.of_connector:
            change = _materializer(decision, node, shape, before, partner)
            yield change
            if before is not None and change.old is None:
                states = tuple(StateChange(Verdict.DERIVED, state, None) for state in before.states)
                yield OperatorChange(Verdict.DERIVED, before, None, states, reasons=(NEW_MATERIALIZER,))
        elif before is None:
            yield OperatorChange(Verdict.BEGINS_EMPTY, None, shape, reasons=("it is new",))
        else:
            yield OperatorChange(Verdict.AS_IS, before, shape, reasons=("its state moves with it",))
    for before in olds.values():
        if before.of_connector and before.transformation not in PLANNED and not before.is_generated:
            yield _part(decision, before, node)
            continue
        reason = "the sink needs no materializer any more" if not before.of_connector else "the sink has no such part"
        yield OperatorChange(Verdict.LOST, before, None, reasons=(reason,))


def _materializer(
    decision: Decision, node: Node, shape: OperatorShape, before: OperatorShape | None, partner: int | None
) -> OperatorChange:
    if not shape.known:
        if before is not None and partner is not None and _is_equal(decision, decision.old.plan.nodes[partner], node):
            return OperatorChange(Verdict.AS_IS, before, shape, reasons=("its rows, key and strategy are the same",))
        return OperatorChange(Verdict.UNKNOWN, before, shape, reasons=shape.notes)
    if before is not None and not before.known:
        before = None
    (state,) = shape.states
    terms = decision.new.inputs(node)[0].fields
    emitted = emitted_before(decision.new, decision.decided, node, state)
    old, key = None, Available({})
    if before is not None and partner is not None:
        theirs = decision.old.inputs(decision.old.plan.nodes[partner])[0].fields
        one, other = decision.old.of(decision.old.plan.nodes[partner]), decision.new.of(node)
        same = one.relation == other.relation and one.filters.keys() == other.filters.keys()
        if [one.name for one in before.key] == [one.name for one in shape.key] and same:
            old = RowState(before.states[0], theirs)
            places = key_places(decision.old.plan.nodes[partner])
            key = of_key([theirs[place] for place in places], before.key)
    change: StateChange = row_change(
        old, RowState(state, terms), key, decision.options, node.id, may_fill=False, emitted=emitted
    )
    if change.emitted_by is not None:
        change = replace(change, reasons=(*change.reasons, BY_KEY))
    change = with_time_to_live(change)
    return OperatorChange(worst((change.verdict,)), before if old is not None else None, shape, (change,))


def _is_equal(decision: Decision, before: Node, node: Node) -> bool:
    """Return whether a sink materializes the same rows in the same way."""
    sides = []
    for lineage, one in ((decision.old, before), (decision.new, node)):
        meaning, table = lineage.inputs(one)[0], sink_table(one)
        settings = [
            one.attributes.get(name) for name in ("upsertMaterializeStrategy", "inputUpsertKey", "conflictStrategy")
        ]
        kinds = [column.kind for column in table_columns(table)]
        fields = [field.digest for field in meaning.fields]
        sides.append((meaning.relation, set(meaning.filters), fields, kinds, key_places(one), settings, one.type))
    return sides[0] == sides[1]


def key_places(node: Node) -> list[int]:
    """Return the places of a sink table's primary key among its columns."""
    table = sink_table(node)
    names = [column.name for column in table_columns(table)]
    return [names.index(name) for name in primary_key(table)]
