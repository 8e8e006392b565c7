"""What becomes of a SQL job's state, as text: in SQL's words, the operators that change first."""

from __future__ import annotations

from collections.abc import Iterator

from pyspark_savepoint.statebackends.evolution.changes import (
    ORDER_OF_VERDICTS,
    Evolution,
    OperatorChange,
    StateChange,
    Verdict,
)

OUTCOMES = (
    "Nothing is lost.",
    "Something begins anew, or is lost: see above.",
    "Nothing can be written yet: see what has to be said or given above.",
)

MERGED = "keys that become one are merged"


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
    yield OUTCOMES[evolution.exit_code]


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
            yield from _state(state)
    for timers in one.timers:
        yield f"    timers {timers.service}: {timers.action}{_because(timers.reason)}"


def uids_of(one: OperatorChange) -> str:
    """Return the uid of an operator, and how it changes."""
    if one.old_uid == one.new_uid:
        return str(one.new_uid)
    if one.new_uid is None:
        return f"{one.old_uid} (dropped)"
    return f"{one.old_uid} -> {one.new_uid}" if one.old_uid is not None else f"{one.new_uid} (new)"


def _state(state: StateChange) -> Iterator[str]:
    name = state.new_name or f"{state.old_name} (dropped)"
    if state.old_name is not None and state.new_name not in (None, state.old_name):
        name = f"{state.old_name} -> {state.new_name}"
    yield f"    {name}: {state.verdict.value}{_because('; '.join(state.reasons))}"
    for field in state.fields:
        yield f"        {field.name}: {field.verdict.value}{_because(field.reason)}"


def _because(reason: str) -> str:
    return f" ({reason})" if reason else ""
