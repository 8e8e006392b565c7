"""What becomes of a SQL job's state under another plan, decided from both plans alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from pyspark_savepoint.formats.errors import OptionError, type_name
from pyspark_savepoint.formats.io.one_verb import one_verb
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.statebackends.evolution.belongs import (
    as_it_ran,
    check_belongs,
    notes_of_forst,
    notes_of_over,
    with_early_results,
)
from pyspark_savepoint.statebackends.evolution.changes import Evolution, OperatorChange, Verdict, worst
from pyspark_savepoint.statebackends.evolution.connector_parts import with_parts
from pyspark_savepoint.statebackends.evolution.connectors import connector_changes, short, table_names
from pyspark_savepoint.statebackends.evolution.deciding import Decision, dropped
from pyspark_savepoint.statebackends.evolution.expected import SOURCES, shapes_of
from pyspark_savepoint.statebackends.evolution.histories import Histories, history_names, sentences
from pyspark_savepoint.statebackends.evolution.lineage import Lineage
from pyspark_savepoint.statebackends.evolution.matching import Shapes, match_nodes
from pyspark_savepoint.statebackends.evolution.planless import with_generated_ids
from pyspark_savepoint.statebackends.evolution.plans import Plan, PlanLike, read_plan, refusing
from pyspark_savepoint.statebackends.evolution.shapes import OperatorShape
from pyspark_savepoint.statebackends.evolution.sources_of_fields import Options
from pyspark_savepoint.statebackends.evolution.unsaid import unsaid
from pyspark_savepoint.statebackends.jobs.restore.restore_check import has_state

#: Nodes whose operators run in one task with the one before and the one behind.
CHAINED = ("calc", "drop-update-before")
FILLS, FILTERS = ("refuse", "initial"), ("refuse", "keep")


def check_options(
    *,
    fill: str = "refuse",
    backfill: Iterable[str] = (),
    filters: str = "refuse",
    nodes: Mapping[str, str] | None = None,
    sources: Mapping[str, str] | None = None,
    columns: Mapping[str, str] | None = None,
    casts: Mapping[str, str] | None = None,
) -> Options:
    """Return what the user says, checked.

    Raises:
        OptionError: If ``fill`` or ``filters`` is another word, ``backfill`` a text, or another argument no mapping.

    """
    for name, value, known in (("fill", fill, FILLS), ("filters", filters, FILTERS)):
        if value not in known:
            raise OptionError(
                f"argument '{name}' is unknown", expected=" or ".join(map(repr, known)), found=repr(value)
            )
    if isinstance(backfill, str):
        raise OptionError("argument 'backfill' is a text", expected=f"a list of names: [{backfill!r}]", found="str")
    pairs = []
    for argument, mapping, form in (
        ("casts", casts, "{'total': 'BIGINT'}"),
        ("columns", columns, "{'total': 'amount'}"),
        ("nodes", nodes, "{'8': '6'}"),
        ("sources", sources, "{'orders_v2': 'orders'}"),
    ):
        expect_mapping(argument, mapping, form)
        pairs.append({str(one): str(other) for one, other in (mapping or {}).items()})
    return Options(fill, frozenset(backfill), filters == "keep", *pairs)


def expect_mapping(argument: str, value: object, form: str) -> None:
    """Raise OptionError if the value of an argument is no mapping; ``form`` shows one."""
    if value is not None and not isinstance(value, Mapping):
        raise OptionError(
            f"argument '{argument}' is no mapping", expected=f"a mapping, such as {form}", found=type_name(value)
        )


@one_verb()
def evolution_of(
    old_plan: PlanLike,
    new_plan: PlanLike,
    options: Options,
    savepoint: Snapshot | None = None,
    *,
    old_explain: str | None = None,
    new_explain: str | None = None,
) -> Evolution:
    """Return what becomes of each operator, state and field of OLD under NEW.

    ``savepoint`` is checked to be one of OLD's plan. ``old_explain`` and ``new_explain`` are what EXPLAIN
    JSON_EXECUTION_PLAN prints for a job that runs without a plan.

    Raises:
        OptionError: If a plan is not one, or not that of the savepoint, or an argument names what is not there.

    """
    old, new = read_plan(old_plan, "old_plan"), read_plan(new_plan, "new_plan")
    if savepoint is not None:
        old, new = as_it_ran(old, savepoint), as_it_ran(new, savepoint)
    with refusing("old_plan"):
        old_shapes = shapes_of(old)
        old_lineage = Lineage(old)
    with refusing("new_plan"):
        new_shapes = shapes_of(new)
        known = frozenset(old_lineage.table_of(node) for node in old.of_kind(*SOURCES))
        new_lineage = Lineage(new, table_names(old, new, options.sources), known)
    if old_explain is not None:
        old_shapes = with_generated_ids(old, old_shapes, old_explain, "old_explain")
    if new_explain is not None:
        new_shapes = with_generated_ids(new, new_shapes, new_explain, "new_explain")
    if savepoint is not None:
        old_shapes = with_parts(old, old_shapes, savepoint)
        check_belongs(old_shapes, savepoint)
    with refusing("old_plan' or 'new_plan"):
        matches = match_nodes(old_lineage, new_lineage, old_shapes, new_shapes, options.nodes)
        decision = Decision(old_lineage, new_lineage, old_shapes, new_shapes, matches, options)
        changes = [*decision.operators(), *connector_changes(decision), *dropped(decision)]
        options.refuse_unknown(_fields(changes))
        given = Histories(new_lineage, options.backfill, compares=not options.keeps_filters)
        applied, histories = given.applied(changes)
        operators = list(_narrowed(applied, Singles(old, old_shapes), Singles(new, new_shapes), savepoint))
        stateful = frozenset(number for number, one in new_shapes.items() if any(not each.of_connector for each in one))
        warnings = (*_warnings(decision), *sentences(histories), *_settings(new), *unsaid(old, new, stateful))
        if savepoint is not None:
            operators, early = with_early_results(operators, savepoint)
            warnings += (*early, *notes_of_over(old_shapes, savepoint, new), *notes_of_forst(savepoint, operators))
    kept = None
    if savepoint is not None:
        kept = frozenset(str(operator.operator_id) for operator in savepoint.operators if has_state(operator))
    names = tuple(history_names(new_lineage, changes))
    return Evolution(tuple(_relevant(operators, kept)), warnings, histories, names)


@dataclass(frozen=True)
class Singles:
    """Operators of a plan that have one key group: those without a key, and sinks that are chained to one."""

    plan: Plan
    shapes: Shapes

    def has(self, shape: OperatorShape) -> bool:
        """Return whether an operator has one key group."""
        if not self.plan.is_since(1, 17):
            return False
        return self._is_behind_one(shape.node) if shape.of_connector else shape.is_single

    def _is_behind_one(self, number: int) -> bool:
        node = self.plan.nodes[number]
        if node.attributes.get("requireUpsertMaterialize"):
            return False
        while len(node.inputs) == 1:
            (node,) = self.plan.inputs(node)
            if any(one.is_single for one in self.shapes[node.id]):
                return True
            if node.kind not in CHAINED:
                return False
        return False


def _narrowed(
    changes: Iterable[OperatorChange], old: Singles, new: Singles, savepoint: Snapshot | None
) -> Iterator[OperatorChange]:
    """Yield changes, and of operators that have one key group in one plan alone, that they get it or lose it."""
    stored = {str(one.operator_id): one for one in savepoint.operators} if savepoint is not None else {}
    for change in changes:
        if change.new is None or (change.old is None and change.new.of_connector):
            yield change
            continue
        if not new.has(change.new):
            widens = change.old is not None and old.has(change.old)
            yield replace(change, widens=widens)
            continue
        if change.old is None:
            yield replace(change, narrows=True)
            continue
        planned, operator = 1 if old.has(change.old) else None, stored.get(str(change.old.operator_id))
        if change.old.of_connector and planned == 1 and operator is not None and operator.parallelism > 1:
            yield change  # its connector does not follow the operator before it
            continue
        limit = planned if operator is None else operator.max_parallelism
        if limit == 1 or (limit is None and change.old.of_connector):
            yield change
            continue
        has = "more than one key group" if limit is None else f"max parallelism {limit}"
        reason = f"it has {has}; Flink {new.plan.flink_version} gives it 1, as it has no key"
        reason += "" if change.old.of_connector else ": its rows move to one key group"
        verdict = worst((change.verdict, Verdict.TRANSFORMED))
        yield replace(change, verdict=verdict, narrows=True, reasons=(*change.reasons, reason))


def _fields(changes: Iterable[OperatorChange]) -> Iterator[tuple[int, str]]:
    """Yield the fields of NEW's states and keys, with the ids of their nodes."""
    for change in changes:
        if change.new is not None:
            of_states = (one for state in change.states for one in state.fields)
            yield from ((change.new.node, one.name) for one in (*change.key, *of_states))


def _relevant(changes: Iterable[OperatorChange], kept: frozenset[str] | None) -> Iterator[OperatorChange]:
    """Yield changes, without parts of connectors that the savepoint does not have: many have no state."""
    for change in changes:
        old = change.old
        if old is not None and old.of_connector and kept is not None and str(old.operator_id) not in kept:
            continue
        if old is None and change.new is not None and change.new.of_connector and change.new.transformation != "source":
            continue
        yield change


def _warnings(decision: Decision) -> Iterator[str]:
    """Yield sentences about sinks, whose rows of before stay where a condition behind the last state changed."""
    for table in sorted(decision.new.added):
        yield f"rows of table {short(table)} come in addition, from where its source begins"
    marks, others = _watermarks(decision.old), _watermarks(decision.new)
    for table in sorted(marks.keys() & others.keys()):
        if marks[table] != others[table]:
            yield (
                f"the watermark of table {short(table)} is another one: windows and patterns that have ended were "
                "emitted under the old one, and do not begin again"
            )
    olds = {_sink_name(node): decision.old.of(node) for node in decision.old.plan.of_kind("sink")}
    for node in decision.new.plan.of_kind("sink"):
        before, after = olds.get(_sink_name(node)), decision.new.of(node)
        if before is not None and before.relation == after.relation and after.filters.keys() - before.filters.keys():
            yield f"the table {_sink_name(node)} keeps rows of before that the new conditions leave out"


def _watermarks(lineage: Lineage) -> dict[str, str]:
    """Return what the watermark of each table means, where it is not that of several tables."""
    found = {}
    for node in lineage.plan.of_kind("watermark-assigner"):
        (below,) = lineage.inputs(node)
        if len(below.tables) == 1:
            found[min(below.tables)] = lineage.term(node.attributes["watermarkExpr"], below.fields, "").digest
    return found


def _settings(new: Plan) -> Iterator[str]:
    """Yield a sentence about a setting that the savepoint has, and the new plan does not say."""
    if not new.says_time_to_live and any(node.ttls for node in new.nodes.values()):
        yield (
            f"a plan of Flink {new.flink_version} does not say how long state lives: give the new job a time to live, "
            "table.exec.state.ttl, as the old one has"
        )


def _sink_name(node: object) -> str:
    attributes = getattr(node, "attributes", {})
    table = (attributes.get("dynamicTableSink") or {}).get("table") or {}
    return short(str(table.get("identifier") or ""))
