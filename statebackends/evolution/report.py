"""What becomes of a SQL job's state, as text: in SQL's words, the operators that change first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pyspark_savepoint.statebackends.evolution.changes import (
    ORDER_OF_VERDICTS,
    Evolution,
    OperatorChange,
    StateChange,
    Verdict,
)

MERGED = "keys that become one are merged"


#: What a state has, by the beginning of its name, in SQL's words.
CONTENTS = {
    "accState": "the aggregates of each key",
    "window-aggs": "the aggregates of open windows",
    "distinctAcc_": "different values of DISTINCT",
    "agg": "values of an aggregate, and how often each is there",
    "left-records": "rows of the left side",
    "right-records": "rows of the right side",
    "IntervalJoinLeftCache": "rows of the left side",
    "IntervalJoinRightCache": "rows of the right side",
    "left": "rows of the left side that wait for the watermark",
    "right": "versions of the right side",
    "deduplicate-state": "the row that is kept of each key",
    "waiting-to-emit-on-timer": "first rows that wait for the watermark",
    "data-state": "the rows that are ranked",
    "sorted-map": "how many rows there are of each place in the order",
    "Top1-Rank-State": "the best row of each key",
    "window_rank": "the rows that are ranked in open windows",
    "counterState": "how many rows have come",
    "inputState": "rows that OVER keeps",
    "dataState": "rows that are sorted by time",
    "values": "rows of each key of the sink, in order of arrival",
}


def content_of(state: str) -> str:
    """Return what a state has; empty if that is not known."""
    return next((text for name, text in CONTENTS.items() if state == name), "") or next(
        (text for name, text in CONTENTS.items() if state.startswith(name) and name not in ("left", "right")), ""
    )


def lines_of(evolution: Evolution) -> Iterator[str]:
    """Yield the lines of the report."""
    ordered = sorted(
        evolution.operators, key=lambda one: (-ORDER_OF_VERDICTS.index(one.verdict), one.new is None, one.new_uid or "")
    )
    for one in ordered:
        yield from _operator(one)
    for warning in evolution.warnings:
        yield f"note: {warning}"
    needed = sorted({field.backfill for field in evolution.needed if field.backfill})
    if needed:
        yield f"to give: {', '.join(needed)}"
    yield evolution.outcome


def _operator(one: OperatorChange) -> Iterator[str]:
    shape = one.new or one.old
    assert shape is not None
    yield f"{one.verdict.value:<14}{uids_of(one)}  {shape.description}"
    for reason in (*one.reasons, *one.candidates):
        yield f"    {reason}"
    for key in one.key:
        if key.verdict is not Verdict.AS_IS:
            yield f"    key {key.name}: {key.verdict.value}{_because(key.reason)}"
    if one.merges:
        yield f"    {MERGED}"
    if one.verdict is not Verdict.AS_IS:
        for state in one.states:
            yield from _state(state, one.reasons)
    for timers in one.timers:
        yield f"    timers {timers.service}: {timers.action}{_because(timers.reason)}"


def uids_of(one: OperatorChange) -> str:
    """Return the uid of an operator, and how it changes."""
    if one.old_uid == one.new_uid:
        return str(one.new_uid)
    if one.new_uid is None:
        return f"{one.old_uid} (dropped)"
    return f"{one.old_uid} -> {one.new_uid}" if one.old_uid is not None else f"{one.new_uid} (new)"


def _state(state: StateChange, above: Sequence[str]) -> Iterator[str]:
    """Yield the lines of a state; reasons that the lines above have are not repeated."""
    name = state.new_name or f"{state.old_name} (dropped)"
    if state.old_name is not None and state.new_name not in (None, state.old_name):
        name = f"{state.old_name} -> {state.new_name}"
    content = content_of(state.new_name or state.old_name or "")
    name += f", {content}" if content else ""
    reasons = [reason for reason in state.reasons if reason not in above]
    yield f"    {name}: {state.verdict.value}{_because('; '.join(reasons))}"
    for field in state.fields:
        yield f"        {field.name}: {field.verdict.value}{_because('' if field.reason in reasons else field.reason)}"


def _because(reason: str) -> str:
    return f" ({reason})" if reason else ""
