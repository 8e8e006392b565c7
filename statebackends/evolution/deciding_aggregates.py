"""What becomes of accumulators: which call of OLD each call of NEW continues, and what others tell about a new one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from pyspark_savepoint.statebackends.evolution.accumulators import (
    BIGINT,
    IN_LISTS,
    Accumulator,
    Buffer,
)
from pyspark_savepoint.statebackends.evolution.changes import (
    Call,
    Cast,
    Constant,
    Expression,
    FieldSource,
    Merge,
    OldField,
    OldState,
    StateChange,
    Verdict,
    parts_of,
    worst,
)
from pyspark_savepoint.statebackends.evolution.expected_aggregates import (
    accumulator,
    aggregate_calls,
    aggregate_rows,
    retracts,
)
from pyspark_savepoint.statebackends.evolution.lineage import (
    AGGREGATES,
    WINDOW_AGGREGATES,
    Lineage,
    Term,
    constants_of,
    digest,
    explained,
    needed_of,
)
from pyspark_savepoint.statebackends.evolution.plans import AggregateCall, Node
from pyspark_savepoint.statebackends.evolution.shapes import Layout, OperatorShape, StateShape
from pyspark_savepoint.statebackends.evolution.sources_of_fields import GIVE, Options, missing, taken

STORES_VALUES = (
    "it keeps the values themselves, which can neither be given nor begin: leave the aggregate out, or start without "
    "this savepoint"
)
NOT_REWRITTEN = (
    "ARRAY_AGG and LAG keep their values in lists of Java's, which are kept only with the whole row as it is: leave "
    "the other aggregates, the keys and the time to live as they were, or put them into a query of their own"
)
NOT_RECOUNTED = (
    "values of DISTINCT of keys that become one have to be counted once, which is not supported for several columns, "
    "for calls with a filter, and for several calls of one column whose values are counted for each"
)
COUNTED_BY_CALL = (
    "how often the calls that are new have counted each value of DISTINCT is not known: leave them out, or put them "
    "into a query of their own"
)
RETRACTED = "rows of before are taken out later, which a filled value has not counted"
COUNT_STAR = AggregateCall("COUNT", "", (), -1, distinct=False, kind=BIGINT)
#: What a value of DISTINCT, or NULL, has in a state, where that is no number.
NUMBERS_OF_VALUES = {
    Layout.DISTINCT_NULLS: "value",
    Layout.DISTINCT_COUNTS: "counts",
    Layout.DISTINCT_NULL_COUNTS: "counts",
}
#: What OVER computes from the rows that it keeps.
OF_ROWS = {"COUNT": "count_of_field", "SUM": "sum_of_rows", "$SUM0": "sum_of_rows"}


@dataclass(frozen=True)
class Aggregation:
    """A node that aggregates: its calls, what their arguments mean, its accumulator and shape."""

    lineage: Lineage
    node: Node
    shape: OperatorShape
    #: Conditions of all of its rows that are compared as if each call had them as its FILTER.
    conditions: frozenset[str] = frozenset()

    @cached_property
    def calls(self) -> tuple[AggregateCall, ...]:
        return aggregate_calls(self.node)

    @cached_property
    def rows(self) -> Sequence[Term]:
        return (*self.lineage.rows_of(self.node), *constants_of(self.node))

    @cached_property
    def accumulator(self) -> Accumulator:
        return accumulator(self.lineage.plan, self.node)

    @cached_property
    def digests(self) -> tuple[str, ...]:
        plain = (self.lineage.call(replace(call, filter=-1), self.rows) for call in self.calls)
        return tuple(digest(one, self.where(call)) for one, call in zip(plain, self.calls, strict=True))

    @property
    def state(self) -> StateShape | None:
        """The state with the accumulator; None of one that keeps only views."""
        return next((one for one in self.shape.states if one.layout is Layout.ACCUMULATORS), None)

    def arguments(self, call: AggregateCall) -> str:
        """Return the digest of the arguments, filter and DISTINCT of a call, whatever its function."""
        return digest([self.rows[index].digest for index in call.arguments], self.where(call), call.distinct)

    def keys_of(self, buffer: Buffer) -> tuple[tuple[str, str], ...]:
        """Return what a buffer means: its call and part, and COUNT(*) if it counts a column that is never NULL."""
        if buffer.call is None:
            return ((digest([self.rows[index].digest for index in buffer.distinct]), "view"),)
        one = self.calls[buffer.call] if buffer.call >= 0 else COUNT_STAR
        rows = (digest("COUNT(*)", self.where(one)), "rows")
        call = (self.digests[buffer.call], buffer.part)
        if one.function != "COUNT" or one.distinct or len(one.arguments) > 1:
            return (call,)
        if not one.arguments:
            return (rows,)
        return (call, rows) if self.is_never_null(one.arguments[0]) else (call,)

    def is_never_null(self, place: int) -> bool:
        """Return whether a field of the rows has always a value, by its type or by a condition of the rows."""
        rows = aggregate_rows(self.lineage.plan, self.node)
        return place < len(rows) and (not rows[place].kind.nullable or self.rows[place].digest in self._with_values)

    @cached_property
    def _with_values(self) -> frozenset[str]:
        """Digests of what has a value in all rows, as a condition of theirs is not true without it."""
        conditions = self.lineage.conditions
        filters = self.lineage.inputs(self.node)[0].filters
        return frozenset(has for one in filters if one in conditions for has in needed_of(conditions[one]))

    @cached_property
    def never_null(self) -> frozenset[str]:
        """Digests of columns that the query's tables, or the input, have as NOT NULL."""
        columns = list(zip(self.rows, aggregate_rows(self.lineage.plan, self.node), strict=False))
        for node in self.lineage.plan.of_kind("table-source-scan"):
            columns += zip(self.lineage.of(node).fields, node.output, strict=True)
        return frozenset(term.digest for term, column in columns if not column.kind.nullable)

    def where(self, call: AggregateCall) -> str | None:
        """Return the digest of the conditions of a call; None if it is of all rows."""
        own = self.lineage.conjuncts(self.rows[call.filter]) if call.filter >= 0 else ()
        whole = self.conditions.union(own)
        return digest(sorted(whole)) if whole else None

    @property
    def retracts(self) -> bool:
        """Whether rows are also taken out."""
        return retracts(self.node)

    @property
    def counts_rows(self) -> bool:
        """Whether it counts its rows for itself."""
        return self.retracts or any(buffer.call is not None and buffer.call < 0 for buffer in self.accumulator.buffers)


def with_conditions(old: Aggregation, new: Aggregation, *, of_windows: bool) -> tuple[Aggregation, Aggregation]:
    """Return both with the conditions before them, if some of these are in WHERE of one and in FILTER of the other.

    Calls with equal conditions have seen the same rows then. Rows that are taken out, and windows that hop, are also
    counted without regard to a FILTER: these are returned as they are. ``of_windows``: so are other windows unless it
    is asked for, as windows without such rows are emitted too.
    """
    kinds = (*AGGREGATES, *WINDOW_AGGREGATES) if of_windows else AGGREGATES
    if old.node.kind not in kinds or new.node.kind not in kinds or old.counts_rows or new.counts_rows:
        return old, new
    (ours, above), (theirs, below) = (one.lineage.conditions_before(one.node) for one in (new, old))
    if ours == theirs or (above.relation, above.filters.keys()) != (below.relation, below.filters.keys()):
        return old, new
    before, after = replace(old, conditions=theirs), replace(new, conditions=ours)
    return (before, after) if set(before.digests) & set(after.digests) else (old, new)


def accumulator_change(old: Aggregation, new: Aggregation, options: Options) -> StateChange | None:
    """Return what becomes of the accumulator; None if NEW has none."""
    state, before = new.state, old.state
    if state is None:
        return None
    if before is None:
        fields = tuple(_missing(new, buffer, options) for buffer in new.accumulator.buffers)
        return StateChange(worst(one.verdict for one in fields), None, state, fields)
    known = {
        key: place
        for place, buffer in reversed(list(enumerate(old.accumulator.buffers)))
        for key in old.keys_of(buffer)
    }
    fields = tuple(_field(old, new, place, known, options) for place in range(len(new.accumulator.buffers)))
    fields = _all_or_nothing(new, fields, options)
    needed = {key for buffer in new.accumulator.buffers for key in new.keys_of(buffer)}
    read = {part.index for one in fields for part in parts_of(one.source) if isinstance(part, OldField)}
    gone = [
        buffer.column.name
        for place, buffer in enumerate(old.accumulator.buffers)
        if not needed.intersection(old.keys_of(buffer)) and buffer.part != "view" and place not in read
    ]
    same = state.value_type == before.value_type and state.name == before.name
    verdict = worst(one.verdict for one in fields)
    if verdict is Verdict.AS_IS and not same:
        verdict = Verdict.TRANSFORMED
    reasons = (f"the new query does without {', '.join(gone)}",) if gone else ()
    return StateChange(verdict, before, state, fields, reasons=reasons)


def _all_or_nothing(new: Aggregation, fields: tuple[FieldSource, ...], options: Options) -> tuple[FieldSource, ...]:
    """Return the fields of calls that begin anew without what other calls tell of a part of them.

    An AVG whose sum begins with 0 must not divide by the number of all values that OLD has counted.
    """
    anew = {
        buffer.call
        for one, buffer in zip(fields, new.accumulator.buffers, strict=True)
        if one.verdict is Verdict.FILLED and buffer.call is not None
    }
    return tuple(
        _missing(new, buffer, options) if buffer.call in anew and one.verdict is Verdict.DERIVED else one
        for one, buffer in zip(fields, new.accumulator.buffers, strict=True)
    )


def _field(
    old: Aggregation, new: Aggregation, place: int, known: dict[tuple[str, str], int], options: Options
) -> FieldSource:
    buffer = new.accumulator.buffers[place]
    assert old.state is not None
    column = buffer.column
    if buffer.part == "view":
        return FieldSource(column.name, column.kind, Verdict.AS_IS, Constant(None), Merge.SAME)
    found = next((known[key] for key in new.keys_of(buffer) if key in known), None)
    names = (_label(new, buffer), column.name)
    cast = options.asks_cast(new.node.id, column.kind, *names)
    named = options.column_of(new.node.id, *names)
    told = _place_of(old, named, buffer) if named is not None else None
    if told is not None and (
        found is None or set(old.keys_of(old.accumulator.buffers[told])) & set(new.keys_of(buffer))
    ):
        found = told
        options.follow(new.node.id, *names)
    if found is not None:
        before = old.accumulator.buffers[found].column
        source = (OldField(old.state.name, found, before.name), before.kind)
        call = new.calls[buffer.call] if buffer.call is not None and buffer.call >= 0 else None
        ordered = (
            call is not None
            and call.function in ("MIN", "MAX")
            and not _orders_alike(before.kind.root, column.kind.root)
        )
        if not (cast and ordered):
            return taken(
                column.name, column.kind, source, place=found if found == place else None, cast=cast, merge=buffer.merge
            )
    derived = _derived(old, new, buffer)
    if derived is not None:
        return FieldSource(column.name, column.kind, Verdict.DERIVED, derived[0], buffer.merge, reason=derived[1])
    return _missing(new, buffer, options)


def with_lists(change: StateChange, new: Aggregation, *, moves: bool) -> StateChange:
    """Return the change of an accumulator; refused if it has lists of Java's, and its rows do not stay as they are."""
    has = any(buffer.part.startswith(IN_LISTS) for buffer in new.accumulator.buffers)
    kept = change.old is None or change.verdict in (Verdict.AS_IS, Verdict.REFUSED)
    if not has or change.new != new.state or (kept and not moves):
        return change
    return replace(change, verdict=Verdict.REFUSED, reasons=(*change.reasons, NOT_REWRITTEN))


def recounted(change: StateChange, old: Aggregation, new: Aggregation) -> StateChange:
    """Return the change of an accumulator whose keys may become one: DISTINCT is counted anew, of the united values."""
    if change.new is None or change.new.layout is not Layout.ACCUMULATORS or change.old is None:
        return change
    fields: list[FieldSource] = []
    refused = any(
        each.accumulator.counts_by_call(users) for each in (old, new) for _, users in each.accumulator.distinct
    )
    for one, buffer in zip(change.fields, new.accumulator.buffers, strict=True):
        call = new.calls[buffer.call] if buffer.call is not None and buffer.call >= 0 else None
        if (
            call is None
            or not call.distinct
            or call.function in ("MIN", "MAX")
            or not isinstance(one.source, OldField | Cast)
        ):
            fields.append(one)
            continue
        state = _set_of(old, new, call)
        refused |= state is None
        fields.append(one if state is None else _of_united(one, buffer, call, state))
    if refused:
        return replace(change, verdict=Verdict.REFUSED, reasons=(*change.reasons, NOT_RECOUNTED))
    return replace(change, fields=tuple(fields), verdict=worst((change.verdict, *(one.verdict for one in fields))))


def _set_of(old: Aggregation, new: Aggregation, call: AggregateCall) -> str | None:
    """Return the state of OLD with the values of a DISTINCT call; None if some of them may be of other calls."""
    wanted = [new.rows[index].digest for index in call.arguments]
    for number, (arguments, users) in enumerate(old.accumulator.distinct):
        if [old.rows[index].digest for index in arguments] == wanted and len(arguments) == 1:
            return f"distinctAcc_{number}" if all(old.where(old.calls[user]) is None for user in users) else None
    return None


def _of_united(field: FieldSource, buffer: Buffer, call: AggregateCall, state: str) -> FieldSource:
    counts = call.function == "COUNT" or buffer.part == "count"
    source = Call("count_of_values" if counts else "sum_of_values", (OldState(state),))
    if not counts and buffer.initial == 0:
        source = Call("zero_if_null", (source,))
    reason = "of the values of keys that become one, each once"
    return replace(field, verdict=Verdict.DERIVED, source=source, reason=reason)


def _place_of(old: Aggregation, name: str, buffer: Buffer) -> int | None:
    """Return the place of a column of OLD that the user names, of the same part."""
    for place, one in enumerate(old.accumulator.buffers):
        if one.part == buffer.part and name in (_label(old, one), one.column.name):
            return place
    return None


def _orders_alike(one: str, other: str) -> bool:
    texts = ("CHAR", "VARCHAR")
    return (one in texts) == (other in texts)


def _label(new: Aggregation, buffer: Buffer) -> str:
    """Return the name by which the user gives values: the column of the plan, else the call."""
    if buffer.call is None or buffer.call < 0:
        return buffer.column.name
    name = new.calls[buffer.call].name
    return name if name and "$" not in name else buffer.column.name


def _missing(new: Aggregation, buffer: Buffer, options: Options) -> FieldSource:
    label = _label(new, buffer)
    kind = buffer.column.kind
    if buffer.part == "views" or buffer.part.startswith(IN_LISTS):
        return FieldSource(buffer.column.name, kind, Verdict.REFUSED, None, Merge.NEVER, reason=STORES_VALUES)
    field = missing(options, new.node.id, label, kind, buffer.initial, may_fill=not new.retracts, why_not=RETRACTED)
    if buffer.part == "delimiter":
        field = FieldSource(label, kind, Verdict.AS_IS, Constant(","), Merge.SAME)
    call = new.calls[buffer.call] if buffer.call is not None and buffer.call >= 0 else None
    used = () if call is None else (*call.arguments, *((call.filter,) if call.filter >= 0 else ()))
    field = field.that_is(explained(new.rows[place] for place in used if place < len(new.rows)))
    return replace(field, name=buffer.column.name, merge=buffer.merge)


def _derived(old: Aggregation, new: Aggregation, buffer: Buffer) -> tuple[Expression, str] | None:
    """Return what another aggregate of OLD tells about a new one, and a sentence."""
    if buffer.call is None or buffer.call < 0 or old.state is None:
        return None
    call, state = new.calls[buffer.call], old.state.name
    alike = {
        (one.function, part.part): (place, part.column.name)
        for place, part in enumerate(old.accumulator.buffers)
        if part.call is not None and part.call >= 0
        for one in [old.calls[part.call]]
        if old.arguments(one) == new.arguments(call)
    }
    if call.function == "SUM" and not buffer.part and ("AVG", "sum") in alike:
        total, count = (OldField(state, *alike["AVG", part]) for part in ("sum", "count"))
        return Call("sum_if_counted", (total, count)), "from AVG of the same values"
    if (call.function == "COUNT" or buffer.part == "count") and ("AVG", "count") in alike:
        return OldField(state, *alike["AVG", "count"]), "from AVG of the same values"
    if (
        (call.function == "AVG" or (call.function == "SUM" and buffer.part))
        and buffer.part == "count"
        and ("COUNT", "") in alike
    ):
        return OldField(state, *alike["COUNT", ""]), "from COUNT of the same values"
    if call.function == "AVG" and buffer.part == "sum" and ("SUM", "") in alike and ("COUNT", "") in alike:
        return Call("zero_if_null", (OldField(state, *alike["SUM", ""]),)), "from SUM of the same values"
    return (
        _of_other_count(old, new, call)
        or _of_other_sum(old, new, call)
        or _of_distinct(old, new, call, buffer)
        or _of_buffered_rows(old, new, call, buffer)
        or _of_kept_values(old, new, call, buffer)
    )


def _of_other_count(old: Aggregation, new: Aggregation, call: AggregateCall) -> tuple[Expression, str] | None:
    """Return COUNT of a column from COUNT(*), or the other way round: the planner exchanges them where it is NOT NULL.

    A column that is NOT NULL in OLD has no NULL. Of one that is so in NEW, COUNT goes on as COUNT(*).
    """
    if call.function != "COUNT" or call.distinct or len(call.arguments) > 1 or old.state is None:
        return None
    for place, buffer in enumerate(old.accumulator.buffers):
        if buffer.call is None or buffer.part not in ("", "rows"):
            continue
        # Where rows are also taken out, or windows hop, rows are counted beside the calls.
        one = old.calls[buffer.call] if buffer.call >= 0 else COUNT_STAR
        if one.function != "COUNT" or one.distinct or old.where(one) != new.where(call):
            continue
        columns = [old.rows[index].digest for index in one.arguments]
        columns += [new.rows[index].digest for index in call.arguments]
        side, name = (old, "old") if call.arguments else (new, "new")
        if len(columns) == 1 and columns[0] in side.never_null:
            source = OldField(old.state.name, place, buffer.column.name)
            return source, f"from {buffer.column.name}: the column is NOT NULL in the {name} query"
    return None


def _of_other_sum(old: Aggregation, new: Aggregation, call: AggregateCall) -> tuple[Expression, str] | None:
    """Return SUM from the sum that is 0 without values, or the other way round: they are equal if no value is NULL.

    The planner exchanges them where counts are summed.
    """
    if call.function not in ("SUM", "$SUM0") or call.filter >= 0 or old.retracts or new.retracts or old.state is None:
        return None
    for place, buffer in enumerate(old.accumulator.buffers):
        one = old.calls[buffer.call] if buffer.call is not None and buffer.call >= 0 else COUNT_STAR
        alike = one.function in ("SUM", "$SUM0") and old.arguments(one) == new.arguments(call)
        if alike and old.is_never_null(one.arguments[0]):
            return OldField(
                old.state.name, place, buffer.column.name
            ), "from the sum of the same values, none of them NULL"
    return None


def _of_distinct(
    old: Aggregation, new: Aggregation, call: AggregateCall, buffer: Buffer
) -> tuple[Expression, str] | None:
    """Return an aggregate of different values, of which OLD has the set."""
    extreme = call.function in ("MIN", "MAX")
    if (
        not (call.distinct or extreme)
        or len(call.arguments) != 1
        or new.retracts
        or old.retracts
        or new.where(call) is not None
    ):
        return None
    wanted = new.rows[call.arguments[0]].digest
    functions = {"COUNT": "count_of_values", "SUM": "sum_of_values", "MIN": "min_of_values", "MAX": "max_of_values"}
    if call.function == "AVG":
        functions["AVG"] = "sum_of_values" if buffer.part == "sum" else "count_of_values"
    elif call.function not in functions or buffer.part:
        return None
    for number, (arguments, users) in enumerate(old.accumulator.distinct):
        unfiltered = all(old.where(old.calls[user]) is None for user in users)
        if [old.rows[index].digest for index in arguments] == [wanted] and unfiltered:
            source = Call(functions[call.function], (OldState(f"distinctAcc_{number}"),))
            source = Call("zero_if_null", (source,)) if buffer.part == "sum" else source
            return source, "from the set of DISTINCT values of this column"
    return None


def _of_kept_values(
    old: Aggregation, new: Aggregation, call: AggregateCall, buffer: Buffer
) -> tuple[Expression, str] | None:
    """Return MAX of the values that MIN keeps, as rows are also taken out, or MIN of those of MAX."""
    if buffer.part != "extreme":
        return None
    for number, one in enumerate(old.calls):
        state = f"agg{number}$map"
        kept = one.function in ("MIN", "MAX") and old.shape.state(state) is not None
        if kept and old.arguments(one) == new.arguments(call):
            source = Call(f"{call.function.lower()}_structure_of_rows", (OldState(state), 0))
            return source, f"from the values that {one.function} keeps"
    return None


def _of_buffered_rows(
    old: Aggregation, new: Aggregation, call: AggregateCall, buffer: Buffer
) -> tuple[Expression, str] | None:
    """Return an aggregate of OVER, from the rows that it keeps to take them out later."""
    place = _buffered_place(old, new, call)
    if place is None:
        return None
    if call.distinct:
        return _of_buffered_values(old, new, call, buffer)
    state, reason = OldState("inputState"), "from the rows that OVER keeps"
    if call.function in OF_ROWS and not buffer.part:
        return Call(OF_ROWS[call.function], (state, place)), reason
    if buffer.part == "count":
        return Call("count_of_field", (state, place)), reason
    if call.function in ("MIN", "MAX") and buffer.part == "extreme":
        return Call(f"{call.function.lower()}_structure_of_rows", (state, place)), reason
    return None


def _buffered_place(old: Aggregation, new: Aggregation, call: AggregateCall) -> int | None:
    """Return where the rows that OVER keeps have the argument of a call; None if they do not."""
    rows = next((one for one in old.shape.states if one.name == "inputState"), None)
    if rows is None or not old.retracts or len(call.arguments) != 1 or call.filter >= 0:
        return None
    if old.lineage.over_window(old.node) != new.lineage.over_window(new.node):
        return None
    wanted = new.rows[call.arguments[0]].digest
    return next((index for index, term in enumerate(old.rows[: len(rows.columns)]) if term.digest == wanted), None)


def _of_buffered_values(
    old: Aggregation, new: Aggregation, call: AggregateCall, buffer: Buffer
) -> tuple[Expression, str] | None:
    """Return an aggregate of different values, of the map of values that is made of the rows that OVER keeps."""
    number = [arguments for arguments, _ in new.accumulator.distinct].index(call.arguments)
    state = f"distinctAcc_{number}"
    sums = call.function in ("SUM", "$SUM0", "AVG") and buffer.part != "count"
    if old.shape.state(state) is not None or not (sums or call.function == "COUNT" or buffer.part == "count"):
        return None
    source = Call("sum_of_values" if sums else "count_of_values", (OldState(state),))
    source = Call("zero_if_null", (source,)) if sums and buffer.initial == 0 else source
    return source, "from the rows that OVER keeps"


def view_changes(old: Aggregation, new: Aggregation, options: Options) -> Iterator[StateChange]:
    """Yield what becomes of the states of views: of DISTINCT, and of MIN and MAX with retraction."""
    for number, (arguments, users) in enumerate(new.accumulator.distinct):
        yield from _distinct_change(old, new, number, arguments, users, options)
    for buffer in new.accumulator.buffers:
        if buffer.part == "extreme" and buffer.call is not None:
            yield _extreme_change(old, new, buffer, options)
        if buffer.part == "views" and buffer.call is not None:
            yield from _value_changes(old, new, buffer.call)
    yield from _dropped_views(old, new)


def _distinct_change(
    old: Aggregation,
    new: Aggregation,
    number: int,
    arguments: tuple[int, ...],
    users: tuple[int, ...],
    options: Options,
) -> Iterator[StateChange]:
    meaning = [new.rows[index].digest for index in arguments]
    partner = next(
        (
            (place, theirs)
            for place, (given, theirs) in enumerate(old.accumulator.distinct)
            if [old.rows[index].digest for index in given] == meaning
        ),
        None,
    )
    for suffix in ("", "_null_state"):
        state = new.shape.state(f"distinctAcc_{number}{suffix}")
        if state is None:
            continue
        before = old.shape.state(f"distinctAcc_{partner[0]}{suffix}") if partner else None
        if partner is None or before is None:
            yield _view_of_rows(old, new, state, users) or _new_view(new, state, options)
            continue
        bits = _bits(old, new, partner[1], users, options)
        anew = [call for call, bit in zip(users, bits, strict=True) if bit is None]
        by_call = old.accumulator.counts_by_call(partner[1]) or new.accumulator.counts_by_call(users)
        if by_call and anew:
            yield StateChange(Verdict.REFUSED, before, state, reasons=(COUNTED_BY_CALL,))
            continue
        if anew or old.retracts != new.retracts:
            may_fill = bool(anew) and not (old.retracts or new.retracts)
            column, why = state.columns[0], "" if may_fill else RETRACTED
            field = missing(options, new.node.id, column.name, column.kind, 0, may_fill=may_fill, why_not=why)
            field = _without_values(field, options)
            if field.verdict is not Verdict.FILLED or options.fill != "initial":
                yield StateChange(field.verdict, before, state, (field,), reasons=(field.reason,))
                continue
        kept = tuple((one, place) for place, one in enumerate(bits) if one is not None)
        moves = anew or any(one != other for one, other in kept) or len(kept) != len(partner[1])
        pairs = tuple(bit for pair in kept for bit in pair)
        # Where rows are also taken out the number says how often a value is there.
        moved = Call("moved_bits", pairs) if moves and not new.retracts else None
        if by_call:
            old_calls = tuple(one for one, _ in kept)
            function = "counts_of_calls" if len(users) > 1 else "count_of_call"
            moved = Call(function, old_calls) if old_calls != tuple(range(len(partner[1]))) else None
        change = _view_change(before, state, moved, Merge.ADD if new.retracts else Merge.UNION)
        if anew:
            names = ", ".join(dict.fromkeys(new.calls[call].name or new.calls[call].function for call in anew))
            reason = f"{names} begins without values: those that it would have counted are not marked for it"
            change = replace(change, verdict=worst((change.verdict, Verdict.FILLED)), reasons=(reason,))
        yield change


def _bits(
    old: Aggregation, new: Aggregation, theirs: tuple[int, ...], ours: tuple[int, ...], options: Options
) -> tuple[int | None, ...]:
    """Return OLD's bit of each call of NEW with one list of arguments; None of a call that counts anew.

    A call with the filter of another one has seen the same values. One that is filled has counted none of them.
    """
    of_filter = {old.where(old.calls[call]): place for place, call in reversed(list(enumerate(theirs)))}

    def counted(call: int) -> bool:
        if new.retracts or new.digests[call] in old.digests:
            return True
        buffers = [one for one in new.accumulator.buffers if one.call == call]
        return all(
            _derived(old, new, one) is not None
            or options.column_of(new.node.id, _label(new, one), one.column.name) is not None
            or options.backfill_of(new.node.id, _label(new, one)) is not None
            for one in buffers
        )

    return tuple(of_filter.get(new.where(new.calls[call])) if counted(call) else None for call in ours)


def _view_change(before: StateShape, state: StateShape, number: Call | None, merge: Merge) -> StateChange:
    fields = tuple(
        taken(new.name, new.kind, (OldField(before.name, place, new.name), one.kind), place=place)
        for place, (one, new) in enumerate(zip(before.columns, state.columns, strict=True))
    )
    same = before.name == state.name and before.value_type == state.value_type and number is None
    verdict = Verdict.AS_IS if same else Verdict.TRANSFORMED
    part = NUMBERS_OF_VALUES.get(state.layout, "number")
    return StateChange(verdict, before, state, fields, parts={part: number} if number else {}, merge=merge)


def _new_view(new: Aggregation, state: StateShape, options: Options) -> StateChange:
    users = [_label(new, buffer) for buffer in new.accumulator.buffers if _is_distinct(new, buffer)]
    names = (*users, state.columns[0].name)
    given = next((one for one in names if options.backfill_of(new.node.id, one)), names[0])
    field = missing(
        options, new.node.id, given, state.columns[0].kind, None, may_fill=not new.retracts, why_not=RETRACTED
    )
    field = _without_values(field, options)
    return StateChange(field.verdict, None, state, (field,), reasons=(field.reason,), merge=Merge.UNION)


def _view_of_rows(old: Aggregation, new: Aggregation, state: StateShape, users: tuple[int, ...]) -> StateChange | None:
    """Return the values of DISTINCT, or the number of NULLs, of the rows that OVER keeps; None if it keeps none."""
    places = {_buffered_place(old, new, new.calls[user]) for user in users}
    (place, *others) = places
    layouts = (Layout.DISTINCT_VALUES, Layout.DISTINCT_NULLS)
    if place is None or others or old.shape.state(state.name) is not None or state.layout not in layouts:
        return None
    function = "nulls_of_rows" if state.layout is Layout.DISTINCT_NULLS else "view_of_rows"
    column, reason = state.columns[0], "from the rows that OVER keeps"
    source = Call(function, (OldState("inputState"), place))
    field = FieldSource(column.name, column.kind, Verdict.DERIVED, source, reason=reason)
    return StateChange(Verdict.DERIVED, None, state, (field,), merge=Merge.ADD, reasons=(reason,))


def _without_values(field: FieldSource, options: Options) -> FieldSource:
    """Return the field of a set that is filled, in words that fit a set."""
    if field.verdict is not Verdict.FILLED:
        return field
    reason = "begins without values" if options.fill == "initial" else GIVE.format(what="no values")
    return replace(field, reason=reason)


def _is_distinct(new: Aggregation, buffer: Buffer) -> bool:
    return buffer.call is not None and buffer.call >= 0 and new.calls[buffer.call].distinct


def _extreme_change(old: Aggregation, new: Aggregation, buffer: Buffer, options: Options) -> StateChange:
    call = buffer.call or 0
    state = new.shape.state(f"agg{call}$map")
    assert state is not None
    wanted = new.digests[call]
    for number, mark in enumerate(old.digests):
        before = old.shape.state(f"agg{number}$map")
        if mark == wanted and before is not None:
            return _view_change(before, state, None, Merge.ADD)
    derived = _derived(old, new, buffer)
    if derived is not None and isinstance(derived[0], Call):
        source = Call("view_of_rows", derived[0].arguments)
        field = FieldSource(state.columns[0].name, state.columns[0].kind, Verdict.DERIVED, source, reason=derived[1])
        return StateChange(Verdict.DERIVED, None, state, (field,), merge=Merge.ADD, reasons=(derived[1],))
    field = missing(
        options, new.node.id, _label(new, buffer), state.columns[0].kind, None, may_fill=False, why_not=RETRACTED
    )
    return StateChange(field.verdict, None, state, (field,), merge=Merge.ADD, reasons=(field.reason,))


def _value_changes(old: Aggregation, new: Aggregation, call: int) -> Iterator[StateChange]:
    """Yield the views of a call that keeps values: those of the same call, under the name that its place gives."""
    partner = next((number for number, mark in enumerate(old.digests) if mark == new.digests[call]), None)
    for state in new.shape.states:
        if not state.name.startswith(f"agg{call}$"):
            continue
        before = old.shape.state(f"agg{partner}${state.name.partition('$')[2]}") if partner is not None else None
        if before is not None and before.value_type == state.value_type:
            yield StateChange(Verdict.AS_IS, before, state)
        else:
            yield StateChange(Verdict.REFUSED, before, state, reasons=(STORES_VALUES,))


def _dropped_views(old: Aggregation, new: Aggregation) -> Iterator[StateChange]:
    """Yield states of views that NEW does not have: nothing is lost that a call of NEW needs."""
    ours = {tuple(new.rows[index].digest for index in arguments) for arguments, _ in new.accumulator.distinct}
    for number, (arguments, _) in enumerate(old.accumulator.distinct):
        if tuple(old.rows[index].digest for index in arguments) not in ours:
            for suffix in ("", "_null_state"):
                state = old.shape.state(f"distinctAcc_{number}{suffix}")
                if state is not None:
                    yield StateChange(Verdict.TRANSFORMED, state, None, reasons=("no call needs it any more",))
    for number, mark in enumerate(old.digests):
        for state in old.shape.states:
            if state.name.startswith(f"agg{number}$") and mark not in new.digests:
                yield StateChange(Verdict.TRANSFORMED, state, None, reasons=("no call needs it any more",))
