"""Representations: a savepoint as one line, or one per operator; in notebooks a tree with sizes, and columns."""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pyspark_savepoint.formats.errors import SavepointError
from pyspark_savepoint.formats.redaction import shown
from pyspark_savepoint.options.paths import reached
from pyspark_savepoint.statebackends.open_table import open_table
from pyspark_savepoint.statebackends.requests.request import TableRequest
from pyspark_savepoint.text.texts import numbered, readable_size

if TYPE_CHECKING:
    from pyspark_savepoint.plan.operator_plan import OperatorPlan
    from pyspark_savepoint.plan.savepoint_plan import SavepointPlan

MAX_OPERATORS, MAX_STATES = 50, 40
MAX_TEXT, MAX_PATH = 90, 2048
MAX_POSITIONS, MAX_POSITIONS_TEXT = 20, 600
HEADINGS = ("table", "state", "size", "kind", "key", "Flink type", "Spark type")
MAX_TYPE, MAX_COLUMNS = 400, 100
#: Bytes of state up to which those of each state are read; of a larger savepoint only metadata is.
MAX_READ = 32 << 20
#: Widest bar, in pixels.
BAR = 60
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
.savepoint-tree th:nth-child(4){min-width:8.5em}
.savepoint-tree th:nth-child(5){min-width:8em}
.savepoint-tree td.type{font-family:monospace;min-width:8em}
.savepoint-tree td.size{white-space:nowrap}
.savepoint-tree .bar{display:inline-block;height:.6em;background:#2f6fb3;margin-right:.4em}
"""

Row = Mapping[str, Any]


def line(plan: SavepointPlan, path: str | None) -> str:
    """Return one line: the path, how many operators, bytes, and the checkpoint."""
    return f"Savepoint {_plain(path or '(not written yet)', MAX_PATH)}: {_summary(plan)}"


def text_tree(plan: SavepointPlan, path: str | None) -> str:
    """Return the path and one line per operator."""
    lines = [line(plan, path)]
    labels = [_plain(operator.label) for operator in plan.operators[:MAX_OPERATORS]]
    width = max(map(len, labels), default=0)
    for label, operator in zip(labels, plan.operators, strict=False):
        lines.append(f"  {label:<{width}}  {', '.join(_facts(operator))}")
    return "\n".join(lines + _more(len(plan.operators) - MAX_OPERATORS, "operators"))


def html_tree(plan: SavepointPlan, path: str | None, options: Mapping[str, str]) -> str:
    """Return a tree of operators and states as HTML."""
    states = _states(path, options) if path is not None else {}
    sizes = _sizes(plan, path, options) if path is not None else {}
    largest = max(map(_size_of, plan.operators), default=0)
    parts = [f"<div class='savepoint-tree'><style>{STYLE}</style>"]
    parts.append(f"<span class='path'>{_text(path or '(not written yet)', 300)}</span>")
    parts.append(f" <span class='dim'>{_text(_summary(plan))}</span>")
    operators = plan.operators[:MAX_OPERATORS]
    for operator in operators:
        rows = states.get(operator.identifier.operator_id.hex, [])
        parts += _operator(operator, rows, sizes, largest, is_open=len(operators) <= 8)
    parts += [
        f"<div class='dim'>{_text(line)}</div>" for line in _more(len(plan.operators) - len(operators), "operators")
    ]
    return "".join([*parts, "</div>"])


def _states(path: str, options: Mapping[str, str]) -> dict[str, list[Row]]:
    """Return the rows of table ``states`` by uid hash; none if they cannot be read."""
    states: dict[str, list[Row]] = {}
    try:
        allowed = options.get("allowOutside") == "true"
        for part in open_table(TableRequest(reached(path, options), table="states", allow_outside=allowed)).partitions(
            1
        ):
            for batch in part.batches():
                for row in batch.to_pylist():
                    states.setdefault(row["operator_uid_hash"], []).append(row)
    except (SavepointError, OSError):
        return {}
    return states


def _sizes(plan: SavepointPlan, path: str, options: Mapping[str, str]) -> dict[tuple[str, ...], int]:
    """Return the bytes of states by uid hash, table and name; none of a large savepoint, or if they cannot be read."""
    sizes: dict[tuple[str, ...], int] = {}
    if sum(map(_size_of, plan.operators)) > MAX_READ:
        return sizes
    try:
        request = TableRequest(
            reached(path, options), table="sizes", allow_outside=options.get("allowOutside") == "true"
        )
        for part in open_table(request).partitions(1):
            for batch in part.batches():
                for row in batch.to_pylist():
                    state_id = _place(row)
                    sizes[state_id] = sizes.get(state_id, 0) + (row["bytes"] or 0)
    except (SavepointError, OSError):
        return {}
    return sizes


def _place(row: Row) -> tuple[str, ...]:
    return row["operator_uid_hash"], row["table"] or "", row["state"] or ""


def _size_of(operator: OperatorPlan) -> int:
    return 0 if operator.base is None else operator.base.operator.state_size


def _bar(size: int, largest: int) -> str:
    """Return a bar whose width is the share of the largest."""
    width = max(1, round(BAR * size / largest)) if size and largest else 0
    return f"<span class='bar' style='width:{width}px'></span>" if width else ""


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


def _operator(
    operator: OperatorPlan, rows: Sequence[Row], sizes: Mapping[tuple[str, ...], int], largest: int, is_open: bool
) -> Iterator[str]:
    hashed = operator.identifier.operator_id.hex
    names = [operator.name] if operator.name and operator.name != operator.label else []
    facts = _text(" · ".join([*names, *_facts(operator), *([] if rows else ["no state to list"])]))
    yield f"<details{' open' if is_open and rows else ''}><summary title='uid hash {hashed}'>"
    bar = _bar(_size_of(operator), largest)
    yield f"<b>{_text(operator.label)}</b> {bar}<span class='dim'>{facts}</span></summary>"
    if rows:
        yield f"<table><tr>{''.join(f'<th>{name}</th>' for name in HEADINGS)}</tr>"
        for row in rows[:MAX_STATES]:
            yield _state(row, sizes)
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
    """Return the positions of a source, also changed ones; empty if it is not a source, or cannot be read."""
    if operator.base is None:
        return []
    from pyspark_savepoint.statebackends.connectors.connector_table import positions_of

    snapshot = operator.base.snapshot
    try:
        rows = list(positions_of(snapshot, operator.base.operator, TableRequest(snapshot.path)))
    except (SavepointError, OSError):
        return []
    return [f"{row['stream']} {row['partition']}: {row['position']}" for row in rows]


def _state(row: Row, sizes: Mapping[tuple[str, ...], int]) -> str:
    if row["table"] is None and row["note"]:
        return f"<tr><td colspan='{len(HEADINGS)}' class='dim'>{_text(row['note'], 400)}</td></tr>"
    kind = f"{row['kind'] or ''}{', TTL' if row['ttl'] else ''}"
    keys = [row["spark_key_type"] or ""]
    if row["namespace_type"] not in (None, "VOID_NAMESPACE"):
        keys.append(row["namespace_type"])
    size = sizes.get(_place(row))
    sized = "" if size is None else _bar(size, max(sizes.values())) + _text(readable_size(size))
    types = [", ".join(filter(None, keys)), row["value_type"] or "", row["spark_value_type"] or ""]
    cells = [f"<td>{_text(cell)}</td>" for cell in (row["table"] or "", row["state"] or "")]
    cells += [f"<td class='size'>{sized}</td>", f"<td>{_text(kind)}</td>"]
    cells += [f"<td class='type'>{_type(cell)}</td>" for cell in types]
    return f"<tr>{''.join(cells)}</tr>"


def _type(text: str) -> str:
    """Return a type, which is broken after its commas."""
    return _text(text, MAX_TYPE).replace(",", ",<wbr>")


def html_columns(title: str, schema: pa.Schema) -> str:
    """Return the columns of a table as HTML; its rows are not read for that."""
    parts = [f"<div class='savepoint-tree'><style>{STYLE}</style><span class='path'>{_text(title, 300)}</span>"]
    parts.append("<table><tr><th>column</th><th>Arrow type</th><th>Flink type</th></tr>")
    for field in list(schema)[:MAX_COLUMNS]:
        comment = (field.metadata or {}).get(b"comment", b"").decode("utf-8", "replace")
        types = f"<td class='type'>{_type(str(field.type))}</td><td class='type'>{_type(comment)}</td>"
        parts.append(f"<tr><td>{_text(field.name)}</td>{types}</tr>")
    parts.append("</table>")
    more = [
        *_more(len(schema) - MAX_COLUMNS, "columns"),
        "rows are read by to_arrow(), to_pandas(), rows() or batches()",
    ]
    return "".join([*parts, *(f"<div class='dim'>{_text(text)}</div>" for text in more), "</div>"])


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
