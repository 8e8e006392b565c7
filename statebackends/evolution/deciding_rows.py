"""What becomes of states with rows: of joins, ranks, deduplication, OVER, sorts, materializers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from pyspark_savepoint.formats.errors import UnsupportedStateError
from pyspark_savepoint.formats.serializers.sql.logical_types import LogicalType
from pyspark_savepoint.statebackends.evolution.changes import (
    Call,
    Condition,
    Constant,
    Expression,
    FieldSource,
    Merge,
    OldField,
    OldState,
    StateChange,
    Verdict,
    worst,
)
from pyspark_savepoint.statebackends.evolution.emitters import Emitted
from pyspark_savepoint.statebackends.evolution.exact import raw_type
from pyspark_savepoint.statebackends.evolution.lineage import Term, explained
from pyspark_savepoint.statebackends.evolution.rex import RexValues
from pyspark_savepoint.statebackends.evolution.shapes import Layout, StateShape
from pyspark_savepoint.statebackends.evolution.sources_of_fields import (
    Available,
    Options,
    missing,
    of_rows,
    taken,
)

COUNTED = (Layout.COUNTED_ROWS, Layout.COUNTED_ROWS_ASSOCIATED)
BY_KEY = (Layout.UNIQUE_ROWS, Layout.UNIQUE_ROWS_ASSOCIATED, Layout.ROW, Layout.ROW_ASSOCIATED)
ASSOCIATED = (Layout.ROW_ASSOCIATED, Layout.COUNTED_ROWS_ASSOCIATED, Layout.UNIQUE_ROWS_ASSOCIATED)
#: Layouts of a side of a join, which can be made of each other.
SIDES = (*COUNTED, *BY_KEY)
#: Layouts of the best rows. The place of a row among equal ones, which RANKED_ROWS have, is not made.
RANKED = (Layout.ROW, Layout.ROWS_BY_SORT_KEY, Layout.RANKED_ROWS)
RETRACTED = "a later change of an old row would not find it, as it is found by all of its columns"


@dataclass(frozen=True)
class RowState:
    """A state with rows, and what its rows mean."""

    shape: StateShape
    terms: Sequence[Term]


def row_change(
    old: RowState | None,
    new: RowState,
    key: Available,
    options: Options,
    node: int,
    *,
    may_fill: bool,
    emitted: Emitted | None = None,
) -> StateChange:
    """Return what becomes of a state with rows; ``emitted``: what an operator before it has emitted, if known."""
    if old is None:
        return state_of_emitted(new, options, node, emitted, {})
    available = of_rows(old.shape.name, old.terms, old.shape.columns).with_more(key.values)
    fields, derived = [], False
    for place, (term, column) in enumerate(zip(new.terms, new.shape.columns, strict=False)):
        cast = options.asks_cast(node, column.kind, column.name)
        found, told = available.of(term), _user_column(options, node, column.name, old)
        if told is not None and found in (None, told):
            found = told
            options.follow(node, column.name)
        derived |= found is None and emitted is not None and emitted.rows.of(term) is not None
        if found is not None:
            here = place if isinstance(found[0], OldField) else None
            fields.append(taken(column.name, column.kind, found, place=here, cast=cast))
        else:
            why = "" if may_fill else RETRACTED
            field = missing(options, node, column.name, column.kind, None, may_fill=may_fill, why_not=why)
            fields.append(field.that_is(explained([term])))
    if derived and all(one.verdict is not Verdict.BACKFILLED or one.source is None for one in fields):
        made = state_of_emitted(new, options, node, emitted, available.values)
        if all(one.source is not None for one in made.fields):
            return replace(made, old=old.shape)
    return _with_layout(old.shape, new.shape, tuple(fields))


def _user_column(options: Options, node: int, name: str, old: RowState) -> tuple[Expression, LogicalType] | None:
    """Return the column of OLD that the user names for one of NEW."""
    given = options.column_of(node, name)
    for place, column in enumerate(old.shape.columns):
        if given == column.name:
            return OldField(old.shape.name, place, column.name), column.kind
    return None


def state_of_emitted(
    new: RowState, options: Options, node: int, emitted: Emitted | None, had: Mapping[str, object]
) -> StateChange:
    """Return a state that is made of what an operator has emitted; one that begins empty if there is none.

    ``had`` are digests of what OLD's rows had: the other fields are worth what the emitting operator is.
    """
    if emitted is None:
        return StateChange(Verdict.BEGINS_EMPTY, None, new.shape, reasons=("nothing of before belongs to it",))
    emitter, fields = emitted.uid, []
    for term, column in zip(new.terms, new.shape.columns, strict=False):
        found = emitted.rows.of(term)
        if found is None:
            field = missing(options, node, column.name, column.kind, None, may_fill=False)
            fields.append(field.that_is(explained([term])))
        else:
            one = taken(column.name, column.kind, found)
            better = worst((one.verdict, Verdict.DERIVED))
            if term.digest not in had and had:
                better = worst((better, emitted.verdict))
            fields.append(replace(one, verdict=better, reason=f"what {emitter} has emitted"))
    verdict = worst(one.verdict for one in fields)
    parts: dict[str, Expression] = {"count": Constant(1)} if new.shape.layout in COUNTED else {}
    reason = f"made of the rows that {emitter} has emitted by now"
    return StateChange(verdict, None, new.shape, tuple(fields), parts=parts, emitted_by=emitter, reasons=(reason,))


def _with_layout(old: StateShape, new: StateShape, fields: tuple[FieldSource, ...]) -> StateChange:
    """Return the change of a state whose rows may be kept in another way."""
    verdict = worst(one.verdict for one in fields)
    reasons: list[str] = []
    parts: dict[str, Expression] = {}
    merge: Merge | None = None
    if old.layout is not new.layout:
        ranked = old.layout in RANKED and new.layout in RANKED and new.layout is not Layout.RANKED_ROWS
        if not ranked and (old.layout not in SIDES or new.layout not in SIDES):
            reason = f"{old.layout.value} cannot become {new.layout.value}"
            return StateChange(Verdict.BEGINS_EMPTY, None, new, reasons=(reason,))
        verdict = worst((verdict, Verdict.TRANSFORMED))
        if new.layout in COUNTED and old.layout not in COUNTED:
            parts["count"] = Constant(1)
        if new.layout not in COUNTED and old.layout in COUNTED:
            reasons.append("rows are kept by their unique key: two rows of one key are an error")
    if new.layout in COUNTED:
        merge = Merge.ADD
    elif new.layout in BY_KEY:
        merge = Merge.NEVER
    same = old.value_type == new.value_type and old.name == new.name and old.by == new.by
    if verdict is Verdict.AS_IS and not same:
        verdict = Verdict.TRANSFORMED
    return StateChange(verdict, old, new, fields, parts=parts, merge=merge, reasons=tuple(reasons))


def with_associations(
    change: StateChange,
    other: StateChange,
    *,
    whole: bool,
    condition: Mapping[str, Any] | None,
    nulls: Sequence[int] = (),
) -> StateChange:
    """Return the change of a join's side, with the numbers of matching rows where they have to be counted.

    ``whole``: the keys, the condition or the rows of the other side are other ones, so that numbers that are there are
    wrong. ``condition`` is that beyond the keys. ``nulls``: fields of the key in which NULL matches nothing.
    """
    if change.new is None or change.new.layout not in ASSOCIATED or change.verdict is Verdict.BEGINS_EMPTY:
        return change
    has = change.old is not None and change.old.layout in ASSOCIATED and change.emitted_by is None
    if has and not whole:
        return change
    name = other.new.name if other.new is not None else ""
    source = Call(
        "new_associations" if other.verdict is not Verdict.AS_IS else "associations", (OldState(name), *nulls)
    )
    reason = "how many rows of the other side match each row is counted"
    if condition is not None:
        of_left = change.new.input == 0
        sides = (change, other) if of_left else (other, change)
        source = Call(
            "matching", (OldState(name), Condition(condition, sides[0].fields, sides[1].fields, of_left), *nulls)
        )
        hindrance = _uncounted(condition, *sides)
        if hindrance:
            reason = f"how many rows match each row is counted with the condition beyond the keys: {hindrance}"
            return replace(change, verdict=worst((change.verdict, Verdict.REFUSED)), reasons=(*change.reasons, reason))
        reason += ", by the whole condition"
    verdict = worst((change.verdict, Verdict.DERIVED))
    return replace(
        change, verdict=verdict, parts={**change.parts, "associations": source}, reasons=(*change.reasons, reason)
    )


def _uncounted(condition: Mapping[str, Any], left: StateChange, right: StateChange) -> str:
    """Return why the rows for which a condition is true cannot be counted; empty if they can."""
    if any(one.old is None or one.emitted_by is not None for one in (left, right)):
        return "the rows of one side are made anew, for which that is not supported"
    try:
        RexValues([pa.nulls(0, raw_type(one.kind)) for one in (*left.fields, *right.fields)], 0).of(condition)
    except UnsupportedStateError as error:
        return f"{error.facts.get('found', error.message)} is not known here"
    return ""
