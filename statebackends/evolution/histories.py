"""History: rows that the user gives, from which follows what an operator of NEW would have by now.

They are rows of a source's table, which pass the expressions and conditions between the source and the operator; or
rows of the operator's own input. An operator whose rows come through another one with state needs its own.

    fields     the operator keeps what it has, and what is added is computed
    whole      all of its state is computed, under its own keys

Names of what is computed begin with :data:`HISTORY`: they are states, as those of OLD are, for the expressions of
``changes``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from math import gcd
from typing import Any

from pyspark_savepoint.formats.errors import OptionError
from pyspark_savepoint.statebackends.evolution.accumulators import Accumulator
from pyspark_savepoint.statebackends.evolution.changes import (
    Backfilled,
    FieldSource,
    Merge,
    Nested,
    OldField,
    OperatorChange,
    StateChange,
    TimersChange,
    Verdict,
    worst,
)
from pyspark_savepoint.statebackends.evolution.expected import SOURCES
from pyspark_savepoint.statebackends.evolution.expected_aggregates import accumulator, aggregate_calls
from pyspark_savepoint.statebackends.evolution.lineage import AGGREGATES, HARMLESS, LOCAL, PASSING, Lineage
from pyspark_savepoint.statebackends.evolution.plans import AggregateCall, Node
from pyspark_savepoint.statebackends.evolution.shapes import VIEWS, Column, Layout, OperatorShape, StateShape
from pyspark_savepoint.statebackends.sql_plans.compiled_plan import milliseconds_of

HISTORY = "__history_"
#: The state of the rows of an input themselves.
ROWS = HISTORY + "rows_"
SIDES = ("left", "right")
SLICED = ("window-aggregate", "global-window-aggregate")
#: Windows that are known, with what says how far apart they are.
WINDOWS = {"TumblingWindow": "", "HoppingWindow": "slide", "CumulativeWindow": "step"}
#: Nodes that keep rows of their input: what is added to a row is found by its other fields.
KEEPING = ("deduplicate", "changelog-normalize", "join", "rank", "interval-join", "temporal-join", "over-aggregate")
#: Of these the whole state follows from the rows of the input.
FOLLOWING = ("deduplicate", "changelog-normalize", "join", "rank")
#: Joins that keep rows of both inputs until the watermark has passed them.
BY_TIME = ("interval-join", "temporal-join", "window-join")
BY_COLUMNS = "give the added values by the other columns of its rows, under the name of the column"
OTHER_TIMES = (
    "which rows wait for the watermark, and which have matched, is not computed: a join by time keeps its state under "
    "the same keys, windows and bounds alone. Columns can be added to its rows. Else start the new query without it, "
    "and let its sources begin early enough"
)
#: The state of OVER that has rows.
BUFFER = "inputState"
#: Aggregates that depend on the order of rows.
ORDERED = ("LISTAGG", "FIRST_VALUE", "LAST_VALUE")

Json = Mapping[str, Any]


@dataclass(frozen=True)
class Step:
    """What a node does to each row: expressions over its fields, of the rows that satisfy the condition.

    An expression that nothing needs is None.
    """

    projection: tuple[Json | None, ...] | None
    condition: Json | None = None


@dataclass(frozen=True)
class Branch:
    """A way from rows that the user gives, under this name and with these columns, to an input of an operator.

    A column that nothing needs is None.
    """

    table: str
    columns: tuple[Column | None, ...]
    steps: tuple[Step, ...] = ()

    def pruned(self, wanted: set[int]) -> Branch:
        """Return the branch with what these fields of the operator's input need alone."""
        steps: list[Step] = []
        for step in reversed(self.steps):
            needed = _references(step.condition)
            if step.projection is None:
                needed |= wanted
                steps.append(step)
            else:
                kept = tuple(one if place in wanted else None for place, one in enumerate(step.projection))
                needed = needed.union(*map(_references, kept))
                steps.append(replace(step, projection=kept))
            wanted = needed
        columns = tuple(column if place in wanted else None for place, column in enumerate(self.columns))
        return Branch(self.table, columns, tuple(reversed(steps)))


def _references(rex: Any) -> set[int]:
    """Return the places of the fields that an expression has."""
    if isinstance(rex, Mapping):
        if rex.get("kind") == "INPUT_REF":
            return {int(rex["inputIndex"])}
        return set().union(*map(_references, rex.values()))
    return set().union(*map(_references, rex)) if isinstance(rex, list) else set()


@dataclass(frozen=True)
class Slices:
    """Slices of windows by the field ``time``, in milliseconds: a slice stays until its last window ends."""

    time: int
    length: int
    slide: int
    size: int
    offset: int = 0
    #: Windows begin together, and each is a slice longer than the one before.
    cumulates: bool = False


@dataclass(frozen=True)
class Aggregates:
    """Calls over the rows of an input, their accumulator, and whether rows are also taken out."""

    calls: tuple[AggregateCall, ...]
    accumulator: Accumulator
    retracts: bool

    @property
    def in_order(self) -> bool:
        return any(call.function in ORDERED for call in self.calls)

    @property
    def fields(self) -> set[int]:
        """The fields of the rows that the calls have."""
        places = {place for call in self.calls for place in call.arguments}
        return places | {call.filter for call in self.calls if call.filter >= 0}


@dataclass(frozen=True)
class RowRetention:
    """Which rows of a key stay: ``all``, ``first``, ``last``; by the field ``time``, or as they come."""

    which: str = "all"
    time: int | None = None

    @property
    def in_order(self) -> bool:
        return self.which != "all"


@dataclass(frozen=True)
class OperatorHistory:
    """What is computed for an operator of NEW: from which rows, under which fields of them as its key."""

    operator: OperatorShape
    inputs: tuple[tuple[Branch, ...], ...]
    keys: tuple[tuple[int, ...], ...]
    whole: bool
    aggregates: Aggregates | None = None
    slices: Slices | None = None
    kept: RowRetention = RowRetention()
    #: Values that OLD has too: of a field of NEW's accumulator the place, and the state and place of OLD.
    compared: tuple[tuple[int, str, int], ...] = ()
    #: The kind of a join, and whether it has a condition beyond its keys.
    join: str | None = None
    #: States of rows whose added fields are found by the others: the name, and the number of the input.
    found: tuple[tuple[str, int], ...] = ()
    #: Of OVER: its aggregates, which are over rows that it keeps, or of which it keeps those to come.
    over: Aggregates | None = None
    #: Of a Top-N: how many rows stay; None: all.
    limit: int | None = None

    @property
    def in_order(self) -> bool:
        """Whether the order of the rows matters."""
        aggregates = self.aggregates is not None and self.aggregates.in_order
        return aggregates or (self.whole and self.kept.in_order) or (self.whole and self.limit is not None)


class NotGivenError(Exception):
    """The rows of an input do not follow from what the user gives."""


def tables_of(lineage: Lineage) -> dict[str, str]:
    """Return the names by which a source's table may be given, with its identifier; those of several are left out."""
    identifiers = {_identifier(node) for node in lineage.plan.of_kind(*SOURCES)}
    names: dict[str, set[str]] = {}
    for identifier in identifiers:
        parts = identifier.replace("`", "").split(".")
        for name in (identifier, *(".".join(parts[place:]) for place in range(len(parts)))):
            names.setdefault(name, set()).add(identifier)
    return {name: next(iter(found)) for name, found in names.items() if len(found) == 1}


def _identifier(node: Node) -> str:
    table = (node.attributes.get("scanTableSource") or {}).get("table") or {}
    return str(table.get("identifier") or node.description)


def slices_of(lineage: Lineage) -> dict[str, Slices]:
    """Return the slices of windows, by the uid of their operator: of those that are known."""
    found = {}
    for node in lineage.plan.of_kind(*SLICED):
        with suppress(OptionError):
            found[node.uid(node.kind)] = Histories(lineage, frozenset()).slices(node)
    return found


def history_names(lineage: Lineage, changes: Iterable[OperatorChange]) -> list[str]:
    """Return the names under which rows may be given: of tables, and ids of nodes with their sides."""
    names = list(tables_of(lineage))
    for change in changes:
        if change.new is not None and not change.new.of_connector:
            names += _own_names(lineage.plan.nodes[change.new.node])
    return names


def _own_names(node: Node) -> tuple[str, ...]:
    """Return the names of a node's own rows, one for each input."""
    return (str(node.id),) if len(node.inputs) < 2 else tuple(f"{node.id}.{side}" for side in SIDES)


@dataclass(frozen=True)
class Histories:
    """What is given for a plan, by name."""

    lineage: Lineage
    given: frozenset[str]
    #: Whether values that both have are compared.
    compares: bool = True

    def applied(
        self, changes: Sequence[OperatorChange]
    ) -> tuple[tuple[OperatorChange, ...], dict[str, OperatorHistory]]:
        """Return the changes with what the given rows add, and what is computed, by the uid of the operator."""
        found: dict[str, OperatorHistory] = {}
        after: list[OperatorChange] = []
        for change in changes:
            history = self._of(change)
            if history is None:
                after.append(_behind(change, found))
                continue
            uid = history.operator.uid
            found[uid] = history
            after.append(self._whole(change, history) if history.whole else self._added(change, history))
            if not history.whole:
                found[uid] = replace(
                    history,
                    compared=tuple(_compared(change)) if self.compares else (),
                    found=_states_from_history(after[-1]),
                )
        return tuple(after), found

    # -- which operators -------------------------------------------------------------------------------------------

    def _of(self, change: OperatorChange) -> OperatorHistory | None:
        shape = change.new
        if not self.given or shape is None or shape.of_connector or not shape.known or not _lacks(change):
            return None
        node = self.lineage.plan.nodes.get(shape.node)
        if node is None or shape.transformation == "upsert-materialize":
            return None
        whole = not _has_fields(change)
        try:
            needed = [number for number in range(len(node.inputs)) if whole or _needs(change, number)]
            inputs = tuple(
                self._branches(node, number) if number in needed else () for number in range(len(node.inputs))
            )
        except NotGivenError as error:
            if str(error):
                raise _refused(node, str(error)) from None
            return None
        if any(state is not None and state.ttl for state in (one.old for one in change.states)):
            raise _refused(node, "its old state has a time to live, so that rows of the history may have expired in it")
        history = _pruned(self._described(node, shape, inputs, whole=whole))
        if history.in_order and any(len(branches) > 1 for branches in inputs):
            raise _refused(node, "the order matters in which rows of several tables came, and is not known")
        return history

    def _branches(self, node: Node, number: int) -> tuple[Branch, ...]:
        own = _own_names(node)[number]
        rows = self._row_node(node, number)
        if own in self.given:
            return (Branch(own, rows.output),)
        return tuple(self._ways(rows))

    def _row_node(self, node: Node, number: int) -> Node:
        """Return the node whose rows the operator's state is made of: of two phases the input of the first."""
        below = self.lineage.plan.inputs(node)[number]
        wanted = LOCAL.get(node.kind)
        if wanted is not None:
            while below.kind == "exchange":
                (below,) = self.lineage.plan.inputs(below)
            if below.kind == wanted:
                (below,) = self.lineage.plan.inputs(below)
        return below

    def _ways(self, node: Node) -> Iterator[Branch]:
        plan = self.lineage.plan
        if node.kind in SOURCES:
            yield self._scan(node)
        elif node.kind in PASSING:
            yield from self._ways(plan.inputs(node)[0])
        elif node.kind == "union":
            for one in plan.inputs(node):
                yield from self._ways(one)
        elif node.kind == "calc":
            step = Step(tuple(node.attributes["projection"]), node.attributes.get("condition"))
            for branch in self._ways(plan.inputs(node)[0]):
                yield replace(branch, steps=(*branch.steps, step))
        elif any(set(self._names(one)) & self.given for one in self._sources(node)):
            raise NotGivenError(f"its rows come through {node}, which has state or is not computed here")
        else:
            raise NotGivenError

    def _sources(self, node: Node) -> Iterator[Node]:
        waiting = [node]
        while waiting:
            one = waiting.pop()
            if one.kind in SOURCES:
                yield one
            waiting += self.lineage.plan.inputs(one)

    def _names(self, node: Node) -> list[str]:
        identifier = _identifier(node)
        return [name for name, of in tables_of(self.lineage).items() if of == identifier]

    def _scan(self, node: Node) -> Branch:
        given = [name for name in self._names(node) if name in self.given]
        if not given:
            raise NotGivenError
        if len(given) > 1:
            raise _refused(node, f"its table is given under two names: {', '.join(map(repr, given))}")
        pushed: list[Json] = []
        for ability in node.attributes["scanTableSource"].get("abilities") or ():
            kind = str(ability.get("type"))
            if kind == "FilterPushDown":
                pushed += ability.get("predicates") or ()
            elif kind not in HARMLESS:
                raise _refused(node, f"its source applies {kind}, which is not computed here")
        if not pushed:
            return Branch(given[0], node.output)
        return self._filtered(node, given[0], pushed)

    @staticmethod
    def _filtered(node: Node, given: str, pushed: Sequence[Json]) -> Branch:
        """Return the branch of a source that filters by itself: by columns of its table, not of its output."""
        from pyspark_savepoint.statebackends.evolution.expected_rows import table_columns

        columns = table_columns(node.attributes["scanTableSource"]["table"])
        places: dict[str, int] = {}
        needed: list[Column] = []

        def place(column: Column) -> int:
            if column.name not in places:
                places[column.name] = len(needed)
                needed.append(column)
            return places[column.name]

        output = [place(column) for column in node.output]

        def moved(rex: Any) -> Any:
            if isinstance(rex, Mapping):
                if rex.get("kind") == "INPUT_REF":
                    return {**rex, "inputIndex": place(columns[int(rex["inputIndex"])])}
                return {name: moved(value) for name, value in rex.items()}
            return [moved(value) for value in rex] if isinstance(rex, list) else rex

        steps = [Step(None, moved(one)) for one in pushed]
        steps.append(Step(tuple({"kind": "INPUT_REF", "inputIndex": one} for one in output)))
        return Branch(given, tuple(needed), tuple(steps))

    # -- what of them ----------------------------------------------------------------------------------------------

    def _described(
        self, node: Node, shape: OperatorShape, inputs: tuple[tuple[Branch, ...], ...], *, whole: bool
    ) -> OperatorHistory:
        if node.kind in (*AGGREGATES, *SLICED):
            return self._aggregating(node, shape, inputs, whole=whole)
        if node.kind not in (FOLLOWING if whole else KEEPING):
            what = "its whole state" if whole else "what is added to its state"
            remedy = None if node.kind not in BY_TIME else OTHER_TIMES if whole else BY_COLUMNS
            raise _refused(node, f"{what} is not computed from history here", remedy)
        keys = tuple(tuple(_key_places(node, number)) for number in range(len(node.inputs)))
        if node.kind == "over-aggregate":
            return self._over(node, shape, inputs, keys)
        kept, limit, join = RowRetention(), None, None
        if node.kind == "deduplicate":
            last, by_time = bool(node.attributes["keepLastRow"]), bool(node.attributes["isRowtime"])
            rows = self.lineage.plan.inputs(node)[0].output
            time = next((place for place, one in enumerate(rows) if one.kind.kind == "ROWTIME"), None)
            kept = RowRetention("last" if last else "first", time if by_time else None)
        elif node.kind == "changelog-normalize":
            kept = RowRetention("last")
        elif node.kind == "rank":
            limit = int(node.attributes["rankRange"]["end"])
            limit = None if node.attributes["rankStrategy"]["type"] == "Retract" else limit
        elif node.kind == "join":
            join = str(node.attributes["joinSpec"]["joinType"])
            if whole and join != "INNER" and node.attributes["joinSpec"].get("nonEquiCondition") is not None:
                raise _refused(node, "how many rows match by a condition beyond the keys is not computed here")
        if whole and any(state.layout not in COMPUTED for state in shape.states):
            names = ", ".join(state.name for state in shape.states if state.layout not in COMPUTED)
            raise _refused(node, f"state {names} is not computed from history here")
        return OperatorHistory(shape, inputs, keys, whole, kept=kept, limit=limit, join=join)

    def _aggregating(
        self, node: Node, shape: OperatorShape, inputs: tuple[tuple[Branch, ...], ...], *, whole: bool
    ) -> OperatorHistory:
        plan = self.lineage.plan
        found, calls = accumulator(plan, node), aggregate_calls(node)
        retracts = bool(node.attributes.get("needRetraction")) or any(call.retracts for call in calls)
        if any(call.distinct and (len(call.arguments) != 1 or call.function not in OF_DISTINCT) for call in calls):
            raise _refused(node, "a DISTINCT aggregate of several columns, or of this function, is not computed here")
        if retracts and any(call.distinct and call.filter >= 0 for call in calls):
            raise _refused(node, "DISTINCT with FILTER over rows that are also taken out is not computed here")
        if any(found.counts_by_call(users) for _, users in found.distinct):
            raise _refused(node, "several calls of DISTINCT that count each value for themselves are not computed here")
        slices = None if node.kind in AGGREGATES else self.slices(node)
        return OperatorHistory(
            shape,
            inputs,
            (self._grouping(node),),
            whole,
            Aggregates(calls, found, retracts),
            slices,
        )

    def _over(
        self,
        node: Node,
        shape: OperatorShape,
        inputs: tuple[tuple[Branch, ...], ...],
        keys: tuple[tuple[int, ...], ...],
    ) -> OperatorHistory:
        """Return what is computed for OVER: of the rows that it has seen, or of those that it keeps."""
        found, calls = accumulator(self.lineage.plan, node), aggregate_calls(node)
        width = len(self.lineage.plan.inputs(node)[0].output)
        known = all(not call.distinct and all(place < width for place in call.arguments) for call in calls)
        if not known or any(call.function in ORDERED for call in calls):
            raise _refused(node, "an aggregate of OVER with DISTINCT, constants or an order is not computed here")
        retracts = any(call.retracts for call in calls)
        aggregates = Aggregates(calls, found, retracts)
        if shape.state(BUFFER) is None:  # by processing time, without a bound: no row waits or goes
            return OperatorHistory(shape, inputs, keys, whole=False, aggregates=aggregates)
        return OperatorHistory(shape, inputs, keys, whole=False, over=aggregates)

    def _grouping(self, node: Node) -> tuple[int, ...]:
        below = self.lineage.plan.inputs(node)[0]
        while node.kind in LOCAL and below.kind == "exchange":
            (below,) = self.lineage.plan.inputs(below)
        own = below if below.kind == LOCAL.get(node.kind) else node
        return tuple(int(place) for place in own.attributes["grouping"])

    def slices(self, node: Node) -> Slices:
        """Return the slices of a node's windows; raise OptionError if they are not known."""
        below = self.lineage.plan.inputs(node)[0]
        while node.kind in LOCAL and below.kind == "exchange":
            (below,) = self.lineage.plan.inputs(below)
        own = below if below.kind == LOCAL.get(node.kind) else node
        windowing = own.attributes.get("windowing") or {}
        window = windowing.get("window") or {}
        kind, rows = str(window.get("type")), self.lineage.plan.inputs(own)[0].output
        place = int(windowing.get("timeAttributeIndex", -1))
        if windowing.get("strategy") != "TimeAttribute" or kind not in WINDOWS:
            raise _refused(node, f"windows of type {kind} are not computed from history here")
        if rows[place].kind.kind != "ROWTIME" or rows[place].kind.root != "TIMESTAMP_WITHOUT_TIME_ZONE":
            raise _refused(node, f"windows by a time of type {rows[place].kind} are not computed from history here")
        size = milliseconds_of(str(window.get("maxSize" if kind == "CumulativeWindow" else "size")))
        slide = milliseconds_of(str(window.get(WINDOWS[kind]))) if WINDOWS[kind] else size
        offset = milliseconds_of(str(window["offset"])) if window.get("offset") else 0
        if not size or not slide or offset is None:
            raise _refused(node, f"the length of its windows is not known: {dict(window)}")
        return Slices(place, gcd(size, slide), slide, size, offset, kind == "CumulativeWindow")

    # -- changes ---------------------------------------------------------------------------------------------------

    def _whole(self, change: OperatorChange, history: OperatorHistory) -> OperatorChange:
        reason = f"computed from the rows of {_row_names(history)}"
        states = tuple(_of_history(one, reason) for one in history.operator.states)
        timers = change.timers
        if history.slices is not None:
            timers = (TimersChange("window-timers", "made", "at the end of each open window"),)
        return OperatorChange(Verdict.BACKFILLED, change.old, change.new, states, timers=timers, reasons=(reason,))

    def _added(self, change: OperatorChange, history: OperatorHistory) -> OperatorChange:
        reason = f"computed from the rows of {_row_names(history)}"
        states = tuple(_with_added(one, reason) for one in change.states)
        verdicts = [*(one.verdict for one in states), *(one.verdict for one in change.key)]
        return replace(change, states=states, verdict=worst(verdicts))


def _pruned(history: OperatorHistory) -> OperatorHistory:
    """Return what is computed, with the columns that it needs: of rows that are kept all."""
    if history.aggregates is None:
        return history
    times = set() if history.slices is None else {history.slices.time}
    wanted = history.aggregates.fields | set(history.keys[0]) | times
    return replace(history, inputs=(tuple(branch.pruned(wanted) for branch in history.inputs[0]),))


#: Layouts of states that follow from rows.
COMPUTED = (
    Layout.ROW, Layout.ROW_ASSOCIATED, Layout.COUNTED_ROWS, Layout.COUNTED_ROWS_ASSOCIATED, Layout.UNIQUE_ROWS,
    Layout.UNIQUE_ROWS_ASSOCIATED, Layout.ROWS_BY_SORT_KEY, Layout.RANKED_ROWS, Layout.SORT_KEY_COUNTS, Layout.OTHER,
)  # fmt: skip
OF_DISTINCT = ("COUNT", "SUM", "$SUM0", "AVG", "MIN", "MAX")


def _key_places(node: Node, number: int) -> Sequence[int]:
    attributes = node.attributes
    join = attributes.get("joinSpec") or (attributes.get("intervalJoinSpec") or {}).get("joinSpec")
    if join is not None:
        return [int(place) for place in join[("leftKeys", "rightKeys")[number]]]
    if "overSpec" in attributes:
        return [int(place) for place in attributes["overSpec"]["partition"]["fields"]]
    if "partition" in attributes:
        return [int(place) for place in attributes["partition"]["fields"]]
    return [int(place) for place in attributes["uniqueKeys"]]


def _refused(node: Node, reason: str, remedy: str | None = None) -> OptionError:
    own = f", or the rows of its own input as {' and '.join(map(repr, _own_names(node)))}" if node.inputs else ""
    return OptionError(
        f"the history that is given does not give the state of {node}",
        found=reason,
        remedy=remedy or f"give the added values by key{own}, or leave the history out",
    )


def history_row_names(history: OperatorHistory) -> list[str]:
    """Return the names of the rows that an operator's state is computed from."""
    return list(dict.fromkeys(branch.table for branches in history.inputs for branch in branches))


def _row_names(history: OperatorHistory) -> str:
    return ", ".join(f"node {name}" if name[:1].isdigit() else name for name in history_row_names(history))


def _is_missing(field: FieldSource) -> bool:
    """Return whether nothing of OLD, and no value of the user, gives a field."""
    if isinstance(field.source, Backfilled):
        return False
    if isinstance(field.source, Nested):
        return field.verdict is Verdict.FILLED
    return field.backfill is not None and field.verdict in (Verdict.FILLED, Verdict.BACKFILLED)


def _lacks(change: OperatorChange) -> bool:
    """Return whether an operator lacks something that history could give."""
    if change.verdict in (Verdict.UNKNOWN, Verdict.AMBIGUOUS) or (change.old is None and change.new is None):
        return False
    if _is_refused(change):
        return True
    if any(_is_missing(field) for state in change.states if state.new is not None for field in state.fields):
        return True
    filled = change.verdict in (Verdict.LOST, Verdict.BEGINS_EMPTY, Verdict.BACKFILLED, Verdict.FILLED)
    return filled and not any(one.emitted_by for one in change.states) and not _is_user_given(change)


def _is_user_given(change: OperatorChange) -> bool:
    """Return whether the user gives values for all that is missing."""
    fields = [field for state in change.states for field in state.fields]
    return bool(fields) and all(field.source is not None for field in fields) and change.verdict is Verdict.BACKFILLED


def _is_refused(change: OperatorChange) -> bool:
    """Return whether an operator as a whole is refused, because other rows reached it."""
    fields = [field.verdict for state in change.states for field in state.fields]
    parts = [*fields, *(one.verdict for one in change.key)]
    return change.verdict is Verdict.REFUSED and Verdict.REFUSED not in parts


def _has_fields(change: OperatorChange) -> bool:
    """Return whether what is missing are fields of states that stay."""
    if change.old is None or _is_refused(change) or change.verdict in (Verdict.LOST, Verdict.BEGINS_EMPTY):
        return False
    states = [state for state in change.states if state.new is not None]
    missing = [field for state in states for field in state.fields if _is_missing(field)]
    views = [one for one in states if one.new is not None and one.new.layout in VIEWS]
    return bool(missing) and all(state.old is not None or state in views for state in states)


def _needs(change: OperatorChange, number: int) -> bool:
    """Return whether something that is missing follows from rows of an input."""
    states = [state for state in change.states if state.new is not None and any(map(_is_missing, state.fields))]
    return any(state.new is not None and state.new.input in (number, None) for state in states)


def _of_history(state: StateShape, reason: str) -> StateChange:
    """Return the change of a state all of which is computed."""
    old = replace(state, name=HISTORY + state.name, ttl=0)
    fields = tuple(
        FieldSource(column.name, column.kind, Verdict.BACKFILLED, OldField(old.name, place, column.name), reason=reason)
        for place, column in enumerate(state.columns)
    )
    merge = Merge.ADD if state.layout in (Layout.COUNTED_ROWS, Layout.COUNTED_ROWS_ASSOCIATED) else None
    return StateChange(Verdict.BACKFILLED, old, state, fields, merge=merge, reasons=(reason,))


def _with_added(change: StateChange, reason: str) -> StateChange:
    state = change.new
    if state is None or not any(_is_missing(field) for field in change.fields):
        return change
    if state.layout in VIEWS:
        return _of_history(state, reason)
    fields = []
    for place, field in enumerate(change.fields):
        one = field
        if _is_missing(field):
            source = OldField(HISTORY + state.name, place, field.name)
            found = Backfilled(f"{ROWS}{state.input}")
            given = source if state.layout is Layout.ACCUMULATORS else found
            one = replace(field, verdict=Verdict.BACKFILLED, source=given, reason=reason)
        fields.append(one)
    verdict = worst(one.verdict for one in fields)
    return replace(change, fields=tuple(fields), verdict=verdict)


def _compared(change: OperatorChange) -> Iterator[tuple[int, str, int]]:
    """Yield fields of NEW's accumulator that OLD has as they are, if both must be equal in every bit."""
    for state in change.states:
        if state.new is None or state.old is None or state.new.layout is not Layout.ACCUMULATORS:
            continue
        for place, field in enumerate(state.fields):
            exact = field.kind.root not in ("FLOAT", "DOUBLE", "RAW", "STRUCTURED_TYPE")
            if isinstance(field.source, OldField) and exact and field.merge in (Merge.SUM, Merge.MIN, Merge.MAX):
                yield place, field.source.state, field.source.index


def _states_from_history(change: OperatorChange) -> tuple[tuple[str, int], ...]:
    """Return the states of rows whose added fields are found in the history."""
    return tuple(
        (state.new.name, state.new.input)
        for state in change.states
        if state.new is not None and state.new.input is not None
        if any(isinstance(one.source, Backfilled) and one.source.name.startswith(ROWS) for one in state.fields)
    )


def sentences(histories: Mapping[str, OperatorHistory]) -> Iterator[str]:
    """Yield what the user has to see to: where nothing of OLD stays, nothing tells where the history ends."""
    for history in histories.values():
        if history.whole:
            yield (
                f"{history.operator.uid} has nothing of before to compare with: rows of {_row_names(history)} must end "
                "where the savepoint was taken, which the positions of its sources tell"
            )
        if history.over is not None and not history.over.retracts:
            yield (
                f"{history.operator.uid} has dropped rows that were later than the watermark: rows of "
                f"{_row_names(history)} must be without them"
            )


def _behind(change: OperatorChange, found: Mapping[str, OperatorHistory]) -> OperatorChange:
    """Return the change of an operator made of what another has emitted, whose added values are now computed."""
    if not any(state.emitted_by in found for state in change.states):
        return change

    def better(verdict: Verdict) -> Verdict:
        return Verdict.BACKFILLED if verdict is Verdict.FILLED else verdict

    states = tuple(
        replace(
            state,
            verdict=better(state.verdict),
            fields=tuple(replace(one, verdict=better(one.verdict)) for one in state.fields),
        )
        if state.emitted_by in found
        else state
        for state in change.states
    )
    verdicts = [*(one.verdict for one in states), *(one.verdict for one in change.key)]
    return replace(change, states=states, verdict=worst(verdicts))
