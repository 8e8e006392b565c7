"""Representations of a savepoint: one line per operator as text, a tree of operators and states in notebooks."""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark_savepoint.execution.texts import numbered, readable_size
from pyspark_savepoint.formats.errors import SavepointError
from pyspark_savepoint.formats.redaction import shown
from pyspark_savepoint.options.paths import reached
from pyspark_savepoint.statebackends.model.request import TableRequest
from pyspark_savepoint.statebackends.open_table import open_table

if TYPE_CHECKING:
    from pyspark_savepoint.plan.operator_plan import OperatorPlan
    from pyspark_savepoint.plan.savepoint_plan import SavepointPlan

MAX_OPERATORS, MAX_STATES = 50, 40
MAX_TEXT, MAX_PATH = 90, 2048
MAX_POSITIONS, MAX_POSITIONS_TEXT = 20, 600
HEADINGS = ("table", "state", "kind", "key", "Flink type", "Spark type")
STYLE = """
.savepoint-tree{font-size:13px;line-height:1.5;max-width:72em}
.savepoint-tree .path{font-family:monospace;font-weight:600;overflow-wrap:anywhere}
.savepoint-tree .dim{opacity:.65}
.savepoint-tree details{margin:.15em 0 .15em .2em;border-left:2px solid rgba(128,128,128,.35);padding-left:.7em}
.savepoint-tree summary{cursor:pointer}
.savepoint-tree summary b{font-family:monospace}
.savepoint-tree table{border-collapse:collapse;margin:.2em 0 .5em 1.1em}
.savepoint-tree th,.savepoint-tree td{text-align:left!important;padding:.1em 1.2em .1em 0;vertical-align:top;border:0;
 background:transparent;font-size:12px}
.savepoint-tree th{font-weight:normal;opacity:.65;border-bottom:1px solid rgba(128,128,128,.35)}
.savepoint-tree th:nth-child(1){min-width:10em}
.savepoint-tree th:nth-child(2){min-width:14em}
.savepoint-tree th:nth-child(3){min-width:8.5em}
.savepoint-tree th:nth-child(4){min-width:8em}
.savepoint-tree td.type{font-family:monospace;overflow-wrap:anywhere;min-width:8em}
"""

Row = Mapping[str, Any]


def text_tree(plan: SavepointPlan, path: str | None) -> str:
    """Return the path and one line per operator."""
    lines = [f"Savepoint {_plain(path or '(not written yet)', MAX_PATH)}: {_summary(plan)}"]
    labels = [_plain(operator.label) for operator in plan.operators[:MAX_OPERATORS]]
    width = max(map(len, labels), default=0)
    for label, operator in zip(labels, plan.operators, strict=False):
        lines.append(f"  {label:<{width}}  {', '.join(_facts(operator))}")
    return "\n".join(lines + _more(len(plan.operators) - MAX_OPERATORS, "operators"))


def html_tree(plan: SavepointPlan, path: str | None, options: Mapping[str, str]) -> str:
    """Return a tree of operators and states as HTML."""
    states = _states(path, options) if path is not None else {}
    parts = [f"<div class='savepoint-tree'><style>{STYLE}</style>"]
    parts.append(f"<span class='path'>{_text(path or '(not written yet)', 300)}</span>")
    parts.append(f" <span class='dim'>{_text(_summary(plan))}</span>")
    shown = plan.operators[:MAX_OPERATORS]
    for operator in shown:
        rows = states.get(operator.identifier.operator_id.hex, [])
        parts += _operator(operator, rows, is_open=len(shown) <= 8)
    parts += [f"<div class='dim'>{_text(line)}</div>" for line in _more(len(plan.operators) - len(shown), "operators")]
    return "".join([*parts, "</div>"])


def _states(path: str, options: Mapping[str, str]) -> dict[str, list[Row]]:
    """Return the rows of table ``states`` by uid hash; none if they cannot be read."""
    found: dict[str, list[Row]] = {}
    try:
        allowed = options.get("allowOutside") == "true"
        for part in open_table(TableRequest(reached(path, options), table="states", allow_outside=allowed)).partitions(
            1
        ):
            for batch in part.batches():
                for row in batch.to_pylist():
                    found.setdefault(row["operator_uid_hash"], []).append(row)
    except (SavepointError, OSError):
        return {}
    return found


def _summary(plan: SavepointPlan) -> str:
    bases = [operator.base.operator.state_size for operator in plan.operators if operator.base is not None]
    ids = {base.checkpoint_id for base in plan.bases}
    facts = [numbered(len(plan.operators), "operator"), *([readable_size(sum(bases))] if bases else [])]
    return ", ".join(facts + ([f"checkpoint {ids.pop()}"] if len(ids) == 1 else []))


def _facts(operator: OperatorPlan) -> list[str]:
    if operator.base is None:
        return [f"max parallelism {operator.max_parallelism}", "new"]
    state = operator.base.operator
    return [readable_size(state.state_size), f"parallelism {state.parallelism} of at most {operator.max_parallelism}"]


def _operator(operator: OperatorPlan, rows: Sequence[Row], is_open: bool) -> Iterator[str]:
    hashed = operator.identifier.operator_id.hex
    named = [operator.name] if operator.name and operator.name != operator.label else []
    facts = _text(" · ".join([*named, *_facts(operator), *([] if rows else ["no state to list"])]))
    yield f"<details{' open' if is_open and rows else ''}><summary title='uid hash {hashed}'>"
    yield f"<b>{_text(operator.label)}</b> <span class='dim'>{facts}</span></summary>"
    if rows:
        yield f"<table><tr>{''.join(f'<th>{name}</th>' for name in HEADINGS)}</tr>"
        for row in rows[:MAX_STATES]:
            yield _state(row)
        yield "</table>"
    positions = _positions(operator)
    if positions:
        yield f"<div class='dim'>continues at {_text(', '.join(positions[:MAX_POSITIONS]), MAX_POSITIONS_TEXT)}</div>"
    for line in _more(len(positions) - MAX_POSITIONS, "positions"):
        yield f"<div class='dim'>{_text(line)}</div>"
    for line in _more(len(rows) - MAX_STATES, "states"):
        yield f"<div class='dim'>{_text(line)}</div>"
    yield "</details>"


def _positions(operator: OperatorPlan) -> list[str]:
    """Return the positions of a source, also changed ones; empty if it is no source, or cannot be read."""
    if operator.base is None:
        return []
    from pyspark_savepoint.statebackends.connectors.connector_table import positions_of

    snapshot = operator.base.snapshot
    try:
        rows = list(positions_of(snapshot, operator.base.operator, TableRequest(snapshot.path)))
    except (SavepointError, OSError):
        return []
    return [f"{row['stream']} {row['partition']}: {row['position']}" for row in rows]


def _state(row: Row) -> str:
    if row["table"] is None and row["note"]:
        return f"<tr><td colspan='6' class='dim'>{_text(row['note'], 400)}</td></tr>"
    kind = f"{row['kind'] or ''}{', TTL' if row['ttl'] else ''}"
    keys = [row["spark_key_type"] or ""]
    if row["namespace_type"] not in (None, "VOID_NAMESPACE"):
        keys.append(row["namespace_type"])
    plain = [row["table"] or "", row["state"] or "", kind]
    types = [", ".join(filter(None, keys)), row["value_type"] or "", row["spark_value_type"] or ""]
    cells = [f"<td>{_text(cell)}</td>" for cell in plain]
    cells += [f"<td class='type' title='{_text(cell, 1000)}'>{_text(cell)}</td>" for cell in types]
    return f"<tr>{''.join(cells)}</tr>"


def _more(count: int, what: str) -> list[str]:
    return [f"  and {count} more {what}"] if count > 0 else []


def _plain(text: str, length: int = MAX_TEXT) -> str:
    """Return a text as a part of one line."""
    # What is cut off is not escaped: names may be long.
    text = shown(text[: 4 * length], 8 * length, line=True)
    return text if len(text) <= length else text[: length - 1] + "…"


def _text(text: str, length: int = MAX_TEXT) -> str:
    """Return a part of one line of HTML, also in single quotes."""
    return html.escape(_plain(text, length), quote=True)
