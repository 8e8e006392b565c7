"""What became of a SQL job's state under its new query: of each operator and state, with entries before and after.

A report is made of the verdicts by which the savepoint was written, and of what both savepoints have: every state of
either is in it, also one that the query does not name, such as the positions of a source.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from pyspark_savepoint.insight.surveys import Surveys
from pyspark_savepoint.statebackends.evolution.changes import (
    Evolution,
    OperatorChange,
    StateChange,
    TimersChange,
    Verdict,
)
from pyspark_savepoint.statebackends.evolution.plans import read_plan
from pyspark_savepoint.statebackends.evolution.report import MERGED, uids_of
from pyspark_savepoint.statebackends.evolution.stable_plan import stable_plan
from pyspark_savepoint.statebackends.rows.descriptors import TIMER_PREFIX, service_of
from pyspark_savepoint.text import markdown

Row = dict[str, Any]
#: What was done with a state, by its verdict.
DONE: Mapping[Verdict, str] = {
    Verdict.AS_IS: "kept",
    Verdict.TRANSFORMED: "converted",
    Verdict.DERIVED: "rebuilt",
    Verdict.BACKFILLED: "backfilled",
    Verdict.FILLED: "filled",
    Verdict.BEGINS_EMPTY: "begun empty",
    Verdict.LOST: "dropped",
    Verdict.UNKNOWN: "refused",
    Verdict.AMBIGUOUS: "refused",
    Verdict.REFUSED: "refused",
}
#: What was done with timers, by the action.
DONE_WITH_TIMERS = {"as is": "kept", "made": "rebuilt", "dropped": "dropped"}
SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in ("operator", "old_uid", "new_uid", "state", "done")),
        ("entries_before", pa.int64()),
        ("entries_after", pa.int64()),
        ("how", pa.string()),
    ]
)
#: Operators, states and their entries; operators by their ids.
Entries = Mapping[str, Mapping[str, int]]


def counted_entries(surveys: Surveys) -> Entries:
    """Return how many entries each state of a savepoint has: those of maps and lists count one by one."""
    result: dict[str, dict[str, int]] = {str(one.operator_id): {} for one in surveys.snapshot.operators}
    ids = {one.uid or str(one.operator_id): str(one.operator_id) for one in surveys.snapshot.operators}
    for size in surveys.sizes:
        of_operator = result.setdefault(ids.get(size.operator, size.operator), {})
        name = size.state or size.table
        of_operator[name] = of_operator.get(name, 0) + size.entries
    return result


@dataclass(frozen=True, repr=False)
class EvolutionReport:
    """What became of a SQL job's state; ``sp.evolution`` of a savepoint that ``evolve`` made.

    Rows say of each operator and state what was ``done``: ``kept`` (its bytes), ``converted`` (moved, cast, merged),
    ``rebuilt`` (from other state), ``backfilled``, ``filled``, ``begun empty`` or ``dropped``. Of what is not written
    yet, ``entries_after`` is None.

    Example::

        new = sp.evolve("old.json", "new.json", fill="initial").write("/savepoints/evolved")
        print(new.evolution.to_markdown())

    """

    evolution: Evolution
    before: Entries
    after: Entries | None = None
    #: The new query's plan, as it was given.
    new_plan: Mapping[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        """Return one line: how many states were kept, converted, and so on."""
        return f"<EvolutionReport: {self.summary}>"

    @property
    def counts(self) -> dict[str, int]:
        """How many states were kept, converted, and so on."""
        counter = Counter(row["done"] for row in self.rows() if row["state"] is not None)
        return {outcome: counter[outcome] for outcome in dict.fromkeys(DONE.values()) if counter[outcome]}

    @property
    def summary(self) -> str:
        """The counts in a line."""
        return ", ".join(f"{count} {outcome}" for outcome, count in self.counts.items()) or "no state"

    @property
    def warnings(self) -> tuple[str, ...]:
        """Sentences about the job as a whole, such as rows that a sink keeps."""
        return self.evolution.warnings

    def rows(self) -> list[Row]:
        """Return a row for each operator and state."""
        return [row for change in self.evolution.operators for row in self._of_operator(change)]

    def stable_plan(self) -> dict[str, Any]:
        """Return the new plan with the ids of the old one, as command ``evolve --stable-plan`` writes it.

        Where all is kept, it restores the old savepoint as it is.
        """
        return stable_plan(read_plan(self.new_plan, "new_plan"), self.evolution)

    def to_arrow(self) -> pa.Table:
        """Return the rows as a table of Arrow."""
        return pa.Table.from_pylist(self.rows(), SCHEMA)

    def to_json(self) -> str:
        """Return the rows, the counts and the warnings as JSON."""
        content = {"counts": self.counts, "warnings": self.warnings, "states": self.rows()}
        return json.dumps(content, indent=1, ensure_ascii=False)

    def to_markdown(self) -> str:
        """Return the report as a page for people."""
        lines = ["# State of a SQL job under its new query", "", self.summary]
        for change in self.evolution.operators:
            rows = self._of_operator(change)
            lines += ["", f"## {uids_of(change)}", "", markdown.cell(rows[0]["operator"]), ""]
            lines += markdown.table(SCHEMA.names[SCHEMA.get_field_index("state") :], rows)
        lines += ["", *(f"* {markdown.cell(warning)}" for warning in self.warnings)] if self.warnings else []
        return "\n".join(lines) + "\n"

    def lines(self) -> Iterator[str]:
        """Yield the rows as text: a line for each operator and state."""
        for change in self.evolution.operators:
            yield uids_of(change)
            for row in self._of_operator(change):
                counted = [row["entries_before"], row["entries_after"]]
                entries = " -> ".join("-" if one is None else f"{one:,}" for one in counted)
                yield f"    {row['done']:<11} {row['state'] or 'no state'}: {entries} entries"
        yield self.summary

    def _of_operator(self, change: OperatorChange) -> list[Row]:
        before = {} if change.old is None else self.before.get(str(change.old.operator_id), {})
        after = None
        if self.after is not None:
            after = {} if change.new is None else self.after.get(str(change.new.operator_id), {})
        rows, names = [], set()
        for old, new, outcome, how in _states(change, dict.fromkeys([*before, *(after or ())]), after):
            was = before.get(old or "")
            now = None if after is None else after.get(new or "")
            if (old in names or new in names) or (was is None and now is None and after is not None):
                continue  # no row has come for it
            names |= {name for name in (old, new) if name is not None}
            rows.append(_row(change, new or old, outcome, (was, now), how))
        merged = (MERGED,) if change.merges else ()
        reasons = (*change.reasons, *change.candidates, *merged)
        if not rows:
            return [_row(change, None, _done(change.verdict, change), (None, None), reasons)]
        return [{**rows[0], "how": _joined((*reasons, rows[0]["how"]))}, *rows[1:]]


def _states(
    change: OperatorChange, names: Iterable[str], after: Mapping[str, int] | None
) -> Iterator[tuple[str | None, str | None, str, Iterable[str]]]:
    """Yield the old and the new name of each state, what was done, and how; then of those that no plan has.

    ``names`` are those of both savepoints, ``after`` the entries of the new one.
    """
    moves = "converted" if change.key or change.narrows else "kept"
    for state in change.states:
        outcome = "dropped" if state.new is None else _done(state.verdict, change)
        outcome = moves if outcome == "kept" else outcome
        yield state.old_name, state.new_name, outcome, _how(state)
    for name in names:
        stays = change.new is not None and (after is None or name in after)
        is_timer = name.startswith(TIMER_PREFIX)
        own = (one for one in change.timers if is_timer and service_of(name)[1] == one.service)
        timers = next(own, TimersChange("", "as is" if stays else "dropped"))
        outcome = DONE_WITH_TIMERS[timers.action]
        outcome = moves if is_timer and outcome == "kept" else outcome
        yield name, name if stays else None, outcome if stays else "dropped", (timers.reason,)


def _done(verdict: Verdict, change: OperatorChange) -> str:
    return "dropped" if change.new is None else DONE[verdict]


def _row(
    change: OperatorChange,
    state: str | None,
    done: str,
    entries: tuple[int | None, int | None],
    how: Iterable[str],
) -> Row:
    shape = change.new or change.old
    return {
        "operator": shape.description if shape is not None else "",
        "old_uid": change.old_uid,
        "new_uid": change.new_uid,
        "state": state,
        "done": done,
        "entries_before": entries[0],
        "entries_after": entries[1],
        "how": _joined(how),
    }


def _joined(sentences: Iterable[str | None]) -> str | None:
    return "; ".join(dict.fromkeys(one for one in sentences if one)) or None


def _how(state: StateChange) -> Iterator[str]:
    yield from state.reasons
    for one in state.fields:
        if one.verdict is not Verdict.AS_IS:
            yield f"{one.name}: {DONE[one.verdict]}" + (f" ({one.reason})" if one.reason else "")
