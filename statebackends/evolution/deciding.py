"""What becomes of a job: each operator of NEW with its partner of OLD, decided by what both mean."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from pyspark_savepoint.formats.serializers.sql.logical_types import LogicalType
from pyspark_savepoint.statebackends.evolution.changes import (
    Call,
    Constant,
    Expression,
    FieldSource,
    Merge,
    OldField,
    OldKey,
    OldState,
    OperatorChange,
    Rex,
    StateChange,
    TimersChange,
    Verdict,
    Waiting,
    parts_of,
    worst,
)
from pyspark_savepoint.statebackends.evolution.deciding_aggregates import (
    Aggregation,
    accumulator_change,
    recounted,
    view_changes,
    with_conditions,
    with_lists,
)
from pyspark_savepoint.statebackends.evolution.deciding_rows import (
    ASSOCIATED,
    RANKED,
    RowState,
    row_change,
    state_of_emitted,
    with_associations,
)
from pyspark_savepoint.statebackends.evolution.emitters import emitted_before, insert_only
from pyspark_savepoint.statebackends.evolution.expected_rows import CLEANUP_TIMES, COUNTER
from pyspark_savepoint.statebackends.evolution.lineage import (
    AGGREGATES,
    JOINS,
    WINDOW_AGGREGATES,
    Lineage,
    Term,
    delay_of,
    grouped,
    join_spec,
    quotients,
    sql_of,
)
from pyspark_savepoint.statebackends.evolution.matching import (
    Features,
    Matches,
    Shapes,
    features,
    key_places,
    sinks_of,
)
from pyspark_savepoint.statebackends.evolution.plans import Node
from pyspark_savepoint.statebackends.evolution.settings import Settings, compare_settings
from pyspark_savepoint.statebackends.evolution.shapes import Layout, OperatorShape, StateShape
from pyspark_savepoint.statebackends.evolution.sources_of_fields import Available, Options, of_key, of_rows, taken

#: States of first rows by their time, of Flink 2.
WAITING, EMITTED = "waiting-to-emit-on-timer", "already-emitted-state-boolean"
OTHER_RELEASE = (
    "another release keeps first rows by time in other states, and its watermark is not known: compile the new query "
    "with the release of the old one"
)
OTHER_KEYS = (
    "its keys are others, under which its numbered rows and its timers cannot be put: let the job drain, and start "
    "this join without its state"
)
UNMATCHED = "partial matches are not put under other keys, or keys of another type: they are lost"
OTHER_KEY = (
    "its key has {names} now, which the old one has not: it begins anew, unless its history is given in argument "
    "'backfill'"
)
SORTED = (
    "its sort keys have other types, and their comparator is code that Flink makes: cast the columns by which it "
    "orders to their types of before"
)
UNSORTED = "rows that it would sort are not made: the comparator of its sort keys is code that Flink makes"
UNCOUNTED = "how many rows of the other side match each row is not counted for a new join"
COUNTED = "it counts the first rows up to the old limit: later ones are taken for the next"
WAIT = (
    "rows later than the watermark, which is the latest time of all first rows less its delay, wait for it, and are "
    "emitted then, though the old job has emitted them: the sink must take them as updates"
)
TAKEN_OUT = (
    "Rows of its input are also changed and taken out, as far as the plan tells, and the new conditions would take out "
    "old rows that were never counted, and leave others in for ever: filters='keep' is not for it. Give the rows of "
    "its tables in argument 'backfill', or put the new conditions behind it, where they need no state"
)
TO_WHERE = (
    "conditions of FILTER are in WHERE now: a key stays in its state, and in the sink, also if no row of it meets them"
)
TO_FILTER = (
    "conditions of WHERE are in FILTER now: a key without a row that met them is not in its state, and comes into the "
    "sink with its next row"
)
OF_KEYS = (
    "its new conditions are of its key alone: keys that they leave out stay in the sink, and in its state, where "
    "nothing reads them"
)
MIXED = (
    "{name} divides what begins anew by what goes on, or the other way round: it is wrong for all keys of before, "
    "until their history is given"
)
COUNTED_ANEW = "counted anew, of the rows under their new keys"
PARTITIONED_ANEW = (
    "its rows move to the keys that they have themselves, equal ones in any order: the sink keeps what it has, see "
    "catch_up"
)
TIMERS_OF_ROWS = "user-timers", "made", "at the time of each row that waits"
RANKED_ANEW = "it is made anew, as its order or partition is another one: the sink keeps what it has, see catch_up"
MADE_ANEW = "its rows are made anew"
#: Operators that emit only when a row of a key comes.
WITHOUT_TIME = (*AGGREGATES, "rank", "deduplicate", "changelog-normalize")
AGGREGATING = (*AGGREGATES, *WINDOW_AGGREGATES, "incremental-group-aggregate")


@dataclass
class Decision:
    """Both plans, the partners, what the user says, and what was decided so far (upstream first)."""

    old: Lineage
    new: Lineage
    old_shapes: Shapes
    new_shapes: Shapes
    matches: Matches
    options: Options
    decided: dict[int, OperatorChange] = field(default_factory=dict)
    #: Nodes of OLD whose partner is made anew, of the rows that the operator before it has emitted.
    renewed: set[int] = field(default_factory=set)

    @cached_property
    def steps(self) -> tuple[Lineage, Lineage]:
        """Both plans, where what comes out of a node with state is told by this node alone."""
        return self.old.cut_at(_keeping(self.old_shapes)), self.new.cut_at(_keeping(self.new_shapes))

    def operators(self) -> Iterator[OperatorChange]:
        """Yield what becomes of the nodes with state that is not a connector's, upstream first."""
        for number, operators in self.new_shapes.items():
            if number in _keeping({number: operators}):
                change = self._operator(self.new.plan.nodes[number], operators[0])
                self.decided[number] = change
                yield change

    def _operator(self, node: Node, shape: OperatorShape) -> OperatorChange:
        rivals = self.matches.ambiguous.get(node.id)
        if rivals is not None:
            return self._ambiguous(node, shape, rivals)
        partner = self.matches.partners.get(node.id)
        if partner is None:
            return self._new(node, shape)
        before = self.old.plan.nodes[partner]
        old_shape = self.old_shapes[partner][0]
        one, other = features(self.old, partner), features(self.new, node.id)
        if not shape.known or not old_shape.known:
            return _unknown(before, node, old_shape, shape, one, other)
        pair = Pair(self, before, node, old_shape, shape)
        harmless = tuple(pair.harmless_conditions())
        refusal = None if harmless else self._refusal(before, node, one, other)
        settings = compare_settings(self.old, self.new, before, node)
        change = pair.change(settings)
        anew = self._ranked_anew(node, shape, change)
        if anew is not None:
            self.renewed.add(partner)
            return anew
        change = replace(change, reasons=(*change.reasons, *harmless, *self._mixed(node, shape, change)))
        return _refused(change, refusal) if refusal else change if harmless else _warned(change, one, other)

    def _ranked_anew(self, node: Node, shape: OperatorShape, change: OperatorChange) -> OperatorChange | None:
        """Return a rank with another order or partition that is made of what the operator before it has emitted.

        None if its state stays, if the user gives it, or if what was emitted does not tell it.
        """
        losing = (Verdict.LOST, Verdict.BACKFILLED, Verdict.BEGINS_EMPTY)
        given = self.options.backfill_of(node.id, str(node.id))
        if node.kind != "rank" or change.verdict not in losing or given is not None:
            return None
        anew = self._new(node, shape)
        end = node.attributes["rankRange"].get("end")
        if anew.verdict is not Verdict.DERIVED or not isinstance(end, int):
            return None
        states = tuple(replace(one, limit=end) for one in anew.states)
        return replace(anew, states=states, reasons=(RANKED_ANEW,))

    def _ambiguous(self, node: Node, shape: OperatorShape, rivals: Sequence[int]) -> OperatorChange:
        shown = tuple(f"nodes={{'{node.id}': '{one}'}}: {self._told_apart(one)}" for one in rivals)
        reason = f"{node} may continue several operators: say which"
        return OperatorChange(Verdict.AMBIGUOUS, None, shape, reasons=(reason,), candidates=shown)

    def _told_apart(self, number: int) -> str:
        """Return a node of OLD in words that tell it from one with the same description: its sinks, its conditions."""
        sinks = [name.replace("`", "").rpartition(".")[2] for name in sinks_of(self.old, number)]
        where = dict.fromkeys(
            text for one in self.old.inputs(self.old.plan.nodes[number]) for text in one.filters.values()
        )
        words = [f"whose rows go to table {' and '.join(sorted(set(sinks)))}"] if sinks else []
        words += [f"and come through {', '.join(where)}"] if where else []
        return ", ".join([str(self.old.plan.nodes[number]), *words])

    def _new(self, node: Node, shape: OperatorShape) -> OperatorChange:
        if not shape.known:
            return OperatorChange(Verdict.UNKNOWN, None, shape, reasons=shape.notes)
        layouts = {state.layout for state in shape.states}
        reason = (
            UNSORTED if Layout.SORT_KEY_COUNTS in layouts else UNCOUNTED if layouts.intersection(ASSOCIATED) else ""
        )
        if reason:
            # Either all of its states have rows, or none has.
            states = [StateChange(Verdict.BEGINS_EMPTY, None, state, reasons=(reason,)) for state in shape.states]
            return OperatorChange(Verdict.BEGINS_EMPTY, None, shape, tuple(states), reasons=("it is new",))
        states = []
        for state in shape.states:
            emitted = emitted_before(self.new, self.decided, node, state)
            terms = self.new.inputs(node)[state.input].fields if state.input is not None else ()
            rows = RowState(state, terms)
            states.append(row_change(None, rows, Available({}), self.options, node.id, may_fill=False, emitted=emitted))
        verdict = worst(one.verdict for one in states) if states else Verdict.BEGINS_EMPTY
        return OperatorChange(verdict, None, shape, tuple(states), reasons=("it is new",))

    def _refusal(self, before: Node, node: Node, one: Features, other: Features) -> str | None:
        """Return why rows of before are not those that NEW would have had; None if they are, or the user accepts it."""
        if one.filters != other.filters:
            what = "conditions before it are others: its state has old rows that they treat otherwise"
        elif sorted(one.relation) != sorted(other.relation):
            what = "operators before it give it other rows than before, which its state has not seen"
        else:
            return None
        if self._goes_wrong(before, node):
            return f"{what}. {TAKEN_OUT}"
        return None if self.options.keeps_filters else f"{what}. filters='keep' accepts that, for {node}"

    def _goes_wrong(self, before: Node, node: Node) -> bool:
        """Return whether rows whose conditions changed may be taken out later, so that the state does not fit them.

        Conditions before another operator with state do not matter here: what that one takes out is what it had
        emitted, as its state stays.
        """
        old, new = self.steps
        olds, news = old.inputs(before), new.inputs(node)
        if self.old.is_swapped(before) != self.new.is_swapped(node):
            olds = olds[::-1]
        return any(
            (one.relation, one.filters.keys()) != (other.relation, other.filters.keys())
            and not insert_only(self.new, node, place)
            for place, (one, other) in enumerate(zip(olds, news, strict=False))
        )

    def _mixed(self, node: Node, shape: OperatorShape, change: OperatorChange) -> Iterator[str]:
        """Yield a sentence of each quotient of a call that is filled, and of one that goes on.

        The planner makes AVG of OVER, STDDEV and VAR of sums and counts, which other columns may have had before.
        """
        if node.kind not in (*AGGREGATING, "over-aggregate"):
            return
        aggregation = Aggregation(self.new, node, shape)
        state = next((one for one in change.states if one.new is not None and one.new == aggregation.state), None)
        verdicts: dict[int, Verdict] = {}
        for one, buffer in zip(state.fields if state else (), aggregation.accumulator.buffers, strict=False):
            if buffer.call is not None and buffer.call >= 0 and buffer.part != "view":
                verdicts[buffer.call] = worst((one.verdict, verdicts.get(buffer.call, Verdict.AS_IS)))
        below = self.new.inputs(node)[0].fields if node.kind == "over-aggregate" else self.new.keys_of(node)
        filled = {len(below) + call for call, one in verdicts.items() if one is Verdict.FILLED}
        kept = {len(below) + call for call in verdicts} - filled
        for target in self.new.plan.targets[node.id] if filled and kept else ():
            behind = self.new.plan.nodes[target]
            if behind.kind == "calc":
                for rex, term in zip(behind.attributes["projection"], self.new.of(behind).fields, strict=True):
                    if any(places & filled and places & kept for places in quotients(rex)):
                        yield MIXED.format(name=sql_of(term))


def _warned(change: OperatorChange, one: Features, other: Features) -> OperatorChange:
    if one.filters == other.filters and sorted(one.relation) == sorted(other.relation):
        return change
    reason = "old rows came in under other conditions, and stay in its state, as you accept"
    return replace(change, reasons=(*change.reasons, reason))


def _keeping(shapes: Shapes) -> frozenset[int]:
    """Return the nodes with state that is not that of a connector."""
    return frozenset(
        number
        for number, operators in shapes.items()
        if any(not one.of_connector and one.transformation != "upsert-materialize" for one in operators)
    )


def _refused(change: OperatorChange, reason: str) -> OperatorChange:
    return replace(change, verdict=worst((change.verdict, Verdict.REFUSED)), reasons=(reason, *change.reasons))


def _unknown(
    before: Node, node: Node, old: OperatorShape, new: OperatorShape, one: Features, other: Features
) -> OperatorChange:
    """Return the change of a node that is not known: kept only if everything about it is equal, and its id."""
    same = one.whole == other.whole and before.description == node.description and before.type == node.type
    plain = [
        {name: value for name, value in each.attributes.items() if name not in ("id", "inputProperties")}
        for each in (before, node)
    ]
    if same and plain[0] == plain[1] and old.uid == new.uid:
        return OperatorChange(Verdict.AS_IS, old, new, reasons=("it is equal in everything, and has its id",))
    notes = dict.fromkeys((*old.notes, *new.notes, "what it keeps is not known"))
    return OperatorChange(Verdict.UNKNOWN, old, new, reasons=tuple(notes))


@dataclass(frozen=True)
class Pair:
    """An operator of NEW and its partner."""

    decision: Decision
    before: Node
    node: Node
    old: OperatorShape
    new: OperatorShape

    @cached_property
    def aggregations(self) -> tuple[Aggregation, Aggregation]:
        """Both as nodes that aggregate."""
        old = Aggregation(self.decision.old, self.before, self.old)
        new = Aggregation(self.decision.new, self.node, self.new)
        return with_conditions(old, new, of_windows=self.decision.options.keeps_filters)

    def harmless_conditions(self) -> Iterator[str]:
        """Yield sentences of conditions that are others, where what is kept has seen the rows that NEW would have seen.

        Nothing: conditions are equal, or what is kept has seen other rows.
        """
        old, new = (features(each, node.id) for each, node in self._nodes)
        more, less = new.filters - old.filters, old.filters - new.filters
        if sorted(old.relation) != sorted(new.relation) or not (more or less):
            return
        if self.node.kind in AGGREGATING and self.aggregations[0].conditions != self.aggregations[1].conditions:
            yield from [sentence for sentence, moved in ((TO_WHERE, more), (TO_FILTER, less)) if moved]
        elif not less and self.node.kind in WITHOUT_TIME and not self.new.timers:
            keys = of_key(key_terms_of(self.decision.new, self.node), self.new.key)
            conditions = self.decision.new.conditions
            if all(one in conditions and keys.of(conditions[one]) is not None for one in more):
                yield OF_KEYS

    @property
    def _nodes(self) -> tuple[tuple[Lineage, Node], ...]:
        return (self.decision.old, self.before), (self.decision.new, self.node)

    def change(self, settings: Settings) -> OperatorChange:
        """Return what becomes of it."""
        key, merges = self._key()
        if settings.refusal is not None or key is None:
            reason = settings.refusal or OTHER_KEY.format(names=", ".join(self._missing_keys()))
            verdict = settings.verdict if settings.refusal else Verdict.LOST
            given = self.decision.options.backfill_of(self.node.id, str(self.node.id))
            if given is not None:
                return self._of_history(given, reason)
            states = tuple(StateChange(verdict, None, state, reasons=(reason,)) for state in self.new.states)
            return OperatorChange(verdict, self.old, self.new, states, timers=settings.timers, reasons=(reason,))
        rekeyed = any(one.verdict is not Verdict.AS_IS for one in key)
        rekeyed |= self.node.kind in JOINS and len(self.old.key) != len(self.new.key)
        states = tuple(self._states(rekeyed=rekeyed))
        states = tuple(with_time_to_live(one) for one in states)
        if merges:
            states = tuple(_merged(one) for one in self._recounted(states))
            if self.node.attributes.get("rankStrategy", {}).get("type") == "AppendFast":
                settings = replace(settings, limit=settings.limit or int(self.node.attributes["rankRange"]["end"]))
        if self.node.kind in (*AGGREGATING, "over-aggregate"):
            states = tuple(with_lists(one, self.aggregations[1], moves=rekeyed or merges) for one in states)
        if settings.is_larger:
            states = tuple(self._larger(one) for one in states)
        elif settings.limit is not None:
            states = tuple(_limited(one, settings.limit, self.before) for one in states)
        if rekeyed and self.node.kind in JOINS and self.node.kind != "join":
            states = tuple(StateChange(Verdict.REFUSED, None, one, reasons=(OTHER_KEYS,)) for one in self.new.states)
            return OperatorChange(Verdict.REFUSED, self.old, self.new, states, reasons=(OTHER_KEYS,))
        if rekeyed and self.node.kind == "match":
            states = tuple(StateChange(Verdict.LOST, None, one, reasons=(UNMATCHED,)) for one in self.new.states)
            return OperatorChange(Verdict.LOST, self.old, self.new, states, reasons=(UNMATCHED,))
        if self.old.state(SESSIONS) is not None:
            states = tuple(_of_sessions(one, moves=rekeyed, merges=merges) for one in states)
        verdict = worst((*(one.verdict for one in states), *(one.verdict for one in key), settings.verdict))
        if rekeyed:
            states = tuple(self._rekeyed(one) for one in states)
            verdict = worst((verdict, *(one.verdict for one in states)))
        timers, sentences = settings.timers, settings.sentences
        if rekeyed and self._ranks_all_rows and not self._has_keys:
            sentences = (*sentences, PARTITIONED_ANEW)
        if any(one.waiting is not None for one in states):
            timers = (*timers, TimersChange(*TIMERS_OF_ROWS))
        return OperatorChange(verdict, self.old, self.new, states, key if rekeyed else (), merges, timers, sentences)

    def _recounted(self, states: tuple[StateChange, ...]) -> tuple[StateChange, ...]:
        """Return the changes of an operator whose keys may become one, with what is counted once counted anew."""
        if self.node.kind not in AGGREGATING:
            return states
        return tuple(recounted(one, *self.aggregations) for one in states)

    def _of_history(self, given: str, reason: str) -> OperatorChange:
        states = tuple(StateChange(Verdict.BACKFILLED, None, one, reasons=(reason,)) for one in self.new.states)
        return OperatorChange(Verdict.BACKFILLED, self.old, self.new, states, reasons=(f"{given}: {reason}",))

    def _larger(self, change: StateChange) -> StateChange:
        """Return the state of a Top-N that becomes larger: made of what the operator before it has emitted."""
        decision, state = self.decision, change.new
        if state is not None and state.name == COUNTER:
            return replace(change, verdict=worst((change.verdict, Verdict.FILLED)), reasons=(COUNTED,))
        if state is None or state.input is None:
            return change
        emitted = emitted_before(decision.new, decision.decided, self.node, state)
        if emitted is None or self.node.attributes["rankStrategy"]["type"] != "UpdateFast":
            given = decision.options.backfill_of(self.node.id, str(self.node.id))
            verdict = Verdict.BACKFILLED if given else Verdict.FILLED
            return replace(change, verdict=worst((change.verdict, verdict)))
        rows = RowState(state, decision.new.inputs(self.node)[state.input].fields)
        made = state_of_emitted(rows, decision.options, self.node.id, emitted, {})
        end = int(self.node.attributes["rankRange"]["end"])
        return replace(made, old=change.old, limit=end, verdict=worst((made.verdict, Verdict.DERIVED)))

    # -- keys ----------------------------------------------------------------------------------------------------

    def _key(self) -> tuple[tuple[FieldSource, ...] | None, bool]:
        """Return where the fields of the key come from (None: not from OLD), and whether two keys may become one."""
        olds, news = key_terms_of(self.decision.old, self.before), key_terms_of(self.decision.new, self.node)
        fields: list[FieldSource] = []
        for place, (found, column) in enumerate(zip(self._key_values(olds, news), self.new.key, strict=False)):
            if found is None:
                return None, False
            cast = self.decision.options.asks_cast(self.node.id, column.kind, column.name)
            here = place if isinstance(found[0], OldKey) else None
            one = taken(column.name, column.kind, found, place=here, cast=cast)
            fields.append(one)
        used = {one.digest for one in news}
        # Rows of a join go to the keys that they have themselves; of one without a key, all to the same.
        gone = [term for term in olds if term.digest not in used]
        if self.decision.old.sets.keys() & {term.digest for term in olds} and len(olds) == len(news):
            gone = []  # each set has a number of its own, also one that is gone
        fewer = bool(gone) and (self.node.kind not in JOINS or not news)
        return tuple(fields), fewer or any(isinstance(one.source, Rex) for one in fields)

    def _key_values(
        self, olds: Sequence[Term], news: Sequence[Term]
    ) -> Iterator[tuple[Expression, LogicalType | None] | None]:
        """Yield what OLD has for each field of NEW's key; None for one that it does not have."""
        available = of_key(olds, self.old.key)
        for side in (1,) if self.node.kind in JOINS else ():
            available = available.with_more(
                of_key(_side_keys(self.decision.old, self.before, side), self.old.key).values
            )
        for term in news:
            yield available.of(term) or self._of_sets(term, olds) or self._of_rows(term)

    def _missing_keys(self) -> Iterator[str]:
        """Yield the names of the fields of NEW's key that OLD does not have."""
        olds, news = key_terms_of(self.decision.old, self.before), key_terms_of(self.decision.new, self.node)
        for value, column in zip(self._key_values(olds, news), self.new.key, strict=False):
            if value is None:
                yield column.name

    def _of_sets(self, term: Term, olds: Sequence[Term]) -> tuple[Expression, LogicalType | None] | None:
        """Return a key of GROUPING SETS: a column that more or fewer sets have, or the number of a set, renumbered."""
        new = self.decision.new.sets.get(term.digest)
        for place, one in enumerate(olds):
            old = self.decision.old.sets.get(one.digest)
            key, kind = OldKey(place, self.old.key[place].name), self.old.key[place].kind
            if grouped(term.digest) == one.digest or grouped(one.digest) == term.digest:
                return key, kind
            if new is not None and old is not None and new.relation == old.relation:
                numbers = {number: new.numbers.get(columns, -1 - number) for columns, number in old.numbers.items()}
                moved = any(number != other for number, other in numbers.items() if other >= 0)
                clashes = any(other < 0 and number in new.numbers.values() for number, other in numbers.items())
                return (Rex(_renumbered(numbers), (key,)) if moved or clashes else key), kind
        return None

    def _of_rows(self, term: Term) -> tuple[Expression, LogicalType | None] | None:
        """Return a key that the rows of the first input have, which then move to new keys.

        Of joins, and of ranks that keep all rows.
        """
        state = next((one for one in self.old.states if one.input == 0), None)
        if state is None or not (self.node.kind in JOINS or self._ranks_all_rows):
            return None
        return of_rows(state.name, self.decision.old.inputs(self.before)[0].fields, state.columns).of(term)

    def _rekeyed(self, change: StateChange) -> StateChange:
        """Return a state's change with the keys of its rows, where they are not those of the operator."""
        if self.node.kind not in JOINS and not (self._ranks_all_rows and not self._has_keys):
            return change
        if change.new is not None and change.new.layout is Layout.SORT_KEY_COUNTS:
            return self._counted(change)
        if change.old is None or change.old.input is None:
            return change
        side = change.new.input if change.new is not None and change.new.input is not None else 0
        keys = _side_keys(self.decision.new, self.node, side)
        if self.node.kind not in JOINS:
            keys = tuple(key_terms_of(self.decision.new, self.node))
        rows = of_rows(
            change.old.name, self.decision.old.inputs(self.before)[change.old.input].fields, change.old.columns
        )
        fields = []
        for term, column in zip(keys, self.new.key, strict=True):
            found = rows.of(term)
            if found is None:
                reason = f"its rows do not have {column.name}, which is a key now: all of it from history"
                return StateChange(Verdict.LOST, change.old, change.new, reasons=(reason,))
            fields.append(taken(column.name, column.kind, found))
        return replace(change, key=tuple(fields), verdict=worst((change.verdict, Verdict.TRANSFORMED)))

    @property
    def _ranks_all_rows(self) -> bool:
        """Whether it is a rank that keeps all rows, and counts them by their place in the order."""
        return all(
            {one.layout for one in shape.states} == {Layout.ROWS_BY_SORT_KEY, Layout.SORT_KEY_COUNTS}
            for shape in (self.old, self.new)
        )

    @property
    def _has_keys(self) -> bool:
        """Whether NEW's key follows from OLD's alone."""
        old = of_key(key_terms_of(self.decision.old, self.before), self.old.key)
        return all(old.of(term) is not None for term in key_terms_of(self.decision.new, self.node))

    def _counted(self, change: StateChange) -> StateChange:
        """Return the numbers of rows by their place in the order, of the rows that have moved to other keys."""
        rows = next(one for one in self.old.states if one.layout is Layout.ROWS_BY_SORT_KEY)
        assert change.new is not None
        fields = tuple(
            FieldSource(one.name, one.kind, Verdict.TRANSFORMED, OldField(rows.name, place, one.name))
            for place, one in zip(rows.by, change.new.columns, strict=True)
        )
        parts: dict[str, Expression] = {"number": Constant(1)}
        verdict = worst((change.verdict, Verdict.TRANSFORMED))
        return replace(
            change,
            verdict=verdict,
            fields=fields,
            parts=parts,
            merge=Merge.ADD,
            rows_of=rows.name,
            reasons=(COUNTED_ANEW,),
        )

    # -- states --------------------------------------------------------------------------------------------------

    def _states(self, *, rekeyed: bool) -> Iterator[StateChange]:
        decision = self.decision
        if self.node.kind in (*AGGREGATING, "over-aggregate"):
            change = accumulator_change(*self.aggregations, decision.options)
            if change is not None:
                yield change
            yield from view_changes(*self.aggregations, decision.options)
        changes = [self._rows(one, one.input) for one in self.new.states if one.input is not None]
        if self.node.kind == "join" and len(changes) == 2:
            same = decision.old.residual(self.before) == decision.new.residual(self.node)
            filtered = join_spec(self.node).get("filterNulls") or ()
            nulls = [place for place, filters in enumerate(filtered) if filters]
            changes = [
                with_associations(
                    one,
                    other,
                    whole=rekeyed
                    or not same
                    or other.verdict in (Verdict.BEGINS_EMPTY, Verdict.LOST, Verdict.BACKFILLED),
                    condition=join_spec(self.node).get("nonEquiCondition"),
                    nulls=nulls,
                )
                for one, other in (changes, changes[::-1])
            ]
        yield from changes
        done = {change.new.name for change in changes if change.new is not None}
        for state in self.new.states:
            if (
                state.input is None
                and state.layout in (Layout.OTHER, Layout.SORT_KEY_COUNTS)
                and state.name not in done
                and not _is_view(state)
            ):
                yield self._other(state)
        names = {state.name for state in self.new.states} | {one.old.name for one in changes if one.old is not None}
        for state in self.old.states:
            if state.name not in names and state.layout is not Layout.ACCUMULATORS and not _is_view(state):
                if any(one.emitted_by is not None for one in changes):
                    yield StateChange(Verdict.DERIVED, state, None, reasons=(MADE_ANEW,))
                    continue
                yield StateChange(Verdict.LOST, state, None, reasons=("the new operator keeps no such state",))

    @property
    def _turns(self) -> bool:
        """Whether the sides of a join have changed places."""
        return self.decision.old.is_swapped(self.before) != self.decision.new.is_swapped(self.node)

    def _partner(self, state: StateShape) -> StateShape | None:
        """Return the state of OLD with the rows of the same input: of swapped sides that of the other one."""
        place = state.input
        if place is not None and self._turns:
            place = 1 - place
        same = [one for one in self.old.states if one.input is not None and one.input == place]
        return next((one for one in same if one.name == state.name), same[0] if len(same) == 1 else None)

    def _rows(self, state: StateShape, place: int) -> StateChange:
        decision, before = self.decision, self._partner(state)
        new = RowState(state, decision.new.inputs(self.node)[place].fields)
        if state.layout is Layout.OTHER:
            return self._other(state)
        old = None
        if before is not None and before.input is not None:
            if state.layout is not before.layout and state.layout is Layout.RANKED_ROWS:
                before = None
            else:
                old = RowState(before, decision.old.inputs(self.before)[before.input or 0].fields)
        emitted = emitted_before(decision.new, decision.decided, self.node, state)
        change = row_change(
            old,
            new,
            of_key(key_terms_of(decision.old, self.before), self.old.key),
            decision.options,
            self.node.id,
            may_fill=not _is_found_by_row(state) or insert_only(decision.new, self.node, place),
            emitted=emitted,
        )
        if before is not None and WAITING in (before.name, state.name) and before.name != state.name:
            waiting = self._waiting(before, state)
            if waiting is None:
                return StateChange(Verdict.REFUSED, before, state, reasons=(OTHER_RELEASE,))
            return replace(change, waiting=waiting, reasons=(*change.reasons, WAIT))
        return change

    def _waiting(self, before: StateShape, state: StateShape) -> Waiting | None:
        """Return which first rows wait for the watermark, where Flink 2 keeps those that Flink 1 emitted at once."""
        delay = delay_of(self.decision.old, self.before)
        time = next((place for place, one in enumerate(before.columns) if one.kind.kind == "ROWTIME"), None)
        times = sum(one.kind.kind == "ROWTIME" for one in before.columns)
        if delay is None or time is None or times != 1 or state.name == before.name or before.name == WAITING:
            return None
        return Waiting(time, delay)

    def _other(self, state: StateShape) -> StateChange:
        """Return the change of a state without rows: a counter, a flag, a time."""
        turned = dict(zip(CLEANUP_TIMES, CLEANUP_TIMES[::-1], strict=True)) if self._turns else {}
        before = self.old.state(turned.get(state.name, state.name))
        first = self.old.state("deduplicate-state")
        if state.name == EMITTED and first is not None and first.layout is Layout.ROW:
            waiting = self._waiting(first, state)
            if waiting is not None:
                waiting = replace(waiting, waits=False)
                reason = "first rows that the watermark has reached are not emitted again"
                parts: dict[str, Expression] = {"value": Call("true")}
                return StateChange(Verdict.TRANSFORMED, first, state, parts=parts, waiting=waiting, reasons=(reason,))
        if before is None:
            return StateChange(Verdict.BEGINS_EMPTY, None, state, reasons=("OLD has no such state",))
        if before.value_type == state.value_type:
            return StateChange(Verdict.AS_IS, before, state)
        if state.layout is Layout.SORT_KEY_COUNTS:
            return StateChange(Verdict.REFUSED, before, state, reasons=(SORTED,))
        reason = f"{before.value_type} cannot become {state.value_type}"
        return StateChange(Verdict.LOST, before, state, reasons=(reason,))


def _renumbered(numbers: Mapping[int, int]) -> Mapping[str, Any]:
    """Return the expression ``CASE WHEN key = 1 THEN 2 ... END`` over the only operand."""

    def literal(value: int) -> dict[str, Any]:
        return {"kind": "LITERAL", "value": value, "type": "BIGINT NOT NULL"}

    key = {"kind": "INPUT_REF", "inputIndex": 0, "type": "BIGINT NOT NULL"}
    parts: list[Mapping[str, Any]] = []
    for number, other in numbers.items():
        equal = {"kind": "CALL", "internalName": "$=$1", "operands": [key, literal(number)], "type": "BOOLEAN NOT NULL"}
        parts += [equal, literal(other)]
    return {"kind": "CALL", "internalName": "$CASE$1", "operands": [*parts, key], "type": "BIGINT NOT NULL"}


def _is_view(state: StateShape) -> bool:
    """Return whether a state is the view of a call."""
    return state.name.startswith(("agg", "distinctAcc_"))


#: Layouts whose rows are found by all of their columns when one is taken out.
RETRACTABLE = (Layout.COUNTED_ROWS, Layout.COUNTED_ROWS_ASSOCIATED)
#: The state of a rank with the same, whose input is no changelog only if it ranks in another way.
RETRACTED_RANK = "data-state"


def _is_found_by_row(state: StateShape) -> bool:
    """Return whether a row is taken out of a state by all of its columns."""
    return state.layout in RETRACTABLE or state.name == RETRACTED_RANK


def key_terms_of(lineage: Lineage, node: Node) -> Sequence[Term]:
    """Return what the fields of an operator's key mean."""
    if node.kind in AGGREGATING:
        return lineage.keys_of(node)
    if node.kind in JOINS:
        return _side_keys(lineage, node, 0)
    fields = lineage.inputs(node)[0].fields
    return tuple(fields[index] for index in key_places(node))


def _side_keys(lineage: Lineage, node: Node, side: int) -> tuple[Term, ...]:
    keys = join_spec(node).get(("leftKeys", "rightKeys")[side]) or ()
    fields = lineage.inputs(node)[side].fields
    return tuple(fields[int(index)] for index in keys)


def with_time_to_live(change: StateChange) -> StateChange:
    """Return the change of a state whose time to live begins or ends: its values get a time, or lose it."""
    old, new = change.old, change.new
    if old is None or new is None or bool(old.ttl) == bool(new.ttl):
        return change
    reason = "its values live from the time of the write on" if new.ttl else "its values do not expire any more"
    return replace(change, verdict=worst((change.verdict, Verdict.TRANSFORMED)), reasons=(*change.reasons, reason))


def _merged(change: StateChange) -> StateChange:
    """Return the change of a state whose keys may become one."""
    if change.verdict is Verdict.AS_IS:
        change = replace(change, verdict=Verdict.TRANSFORMED)
    if change.new is not None and change.new.layout is Layout.RANKED_ROWS:
        reason = "rows of keys that become one have to be ranked among each other, which is not supported for updates"
        return replace(change, verdict=Verdict.REFUSED, reasons=(*change.reasons, reason))
    if change.new is not None and change.new.layout is Layout.SORT_KEY_COUNTS:
        return replace(change, merge=Merge.ADD)
    if change.new is not None and change.new.layout in (Layout.ROW, Layout.ROW_ASSOCIATED):
        reason = "it has one row for each key: keys that become one are an error"
        return replace(change, reasons=(*change.reasons, reason))
    never = [one.name for one in change.fields if one.merge is Merge.NEVER]
    if never and change.new is not None and change.new.layout is Layout.ACCUMULATORS:
        reason = f"{', '.join(never)} of two keys cannot be made one: keys that become one are an error"
        return replace(change, reasons=(*change.reasons, reason))
    return change


#: The state that says which windows were merged, of windows that end with a gap.
SESSIONS = "session-window-mapping"


def _of_sessions(change: StateChange, *, moves: bool, merges: bool) -> StateChange:
    """Refuse what would need windows of other keys to be merged, or sets that other windows have."""
    reason = "its windows end with a gap, and are not put under other keys, or keys of another type" if moves else ""
    if merges:
        reason = "its windows end with a gap, so that those of keys that become one may be one window"
    if any(
        one.verdict is Verdict.DERIVED and any(isinstance(part, OldState) for part in parts_of(one.source))
        for one in change.fields
    ):
        reason = "its windows end with a gap: what their sets of values tell is not computed"
    if not reason:
        return change
    return replace(change, verdict=Verdict.REFUSED, reasons=(*change.reasons, reason))


def _limited(change: StateChange, limit: int, before: Node) -> StateChange:
    if change.new is None or change.old is None or change.new.layout not in RANKED:
        return change
    fewer = limit != (before.attributes.get("rankRange") or {}).get("end")
    reason = f"the best {limit} rows of each key stay" + ("; the sink keeps the others" if fewer else "")
    verdict = worst((change.verdict, Verdict.TRANSFORMED))
    return replace(change, verdict=verdict, limit=limit, reasons=(*change.reasons, reason))


def dropped(decision: Decision) -> Iterator[OperatorChange]:
    """Yield the operators of OLD that no operator of NEW continues."""
    taken_nodes = set(decision.matches.partners.values()) - decision.renewed
    rivals = {one for each in decision.matches.ambiguous.values() for one in each}
    for number, operators in decision.old_shapes.items():
        for one in operators:
            if (
                one.of_connector
                or one.transformation == "upsert-materialize"
                or number in taken_nodes
                or number in rivals
            ):
                continue
            reason = (
                "no operator of the new query continues it (a table that was renamed is told by argument 'sources')"
            )
            verdict = Verdict.LOST
            if number in decision.renewed:
                verdict, reason = Verdict.DERIVED, MADE_ANEW
            states = tuple(StateChange(verdict, state, None) for state in one.states)
            yield OperatorChange(verdict, one, None, states, reasons=(reason,))
