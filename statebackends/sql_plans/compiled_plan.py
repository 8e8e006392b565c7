"""Names of rows and accumulators of SQL operators, from a compiled plan (``COMPILE PLAN``).

Snapshots of SQL jobs have the types of rows but no names. The JSON of a compiled plan has the rows that flow between
its nodes, and the operators' uids follow from it: ``4_group-aggregate``, up to Flink 1.18 with the type in the middle.

    key                            fields by which the input is distributed
    accState, window-aggs          one field per aggregate call, two for AVG, and for SUM that rows are taken out of;
                                   then count(*) for retractions, and views of DISTINCT
    window, namespace              windows or slices of SQL: see below
    left..., right..., other rows  fields of that input; keys of their maps: unique or sort keys, or whole rows

The second of two phases has the aggregates of the first one's input.

Windows and slices keep only their ends, a number of milliseconds:

    window aggregates      ends of slices: a window that tumbles is one slice, one that hops has several, and a
                           window that cumulates has one for each step, the first of which has all that came so far
    windows of the input   ends of windows: WindowRank, WindowDeduplicate, WindowJoin, aggregates of aggregates

Both are times without a zone, as ``window_start`` and ``window_end`` in SQL are. A compiled plan (ISO 8601: ``PT1H``)
and the text of EXPLAIN (``1 h``) describe the windows.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pyspark_savepoint.formats.errors import OptionError
from pyspark_savepoint.formats.json_text import parse_json
from pyspark_savepoint.formats.metadata.identifiers import OperatorID

#: Columns with starts and ends.
OF_WINDOWS, OF_SLICES = ("window_start", "window_end"), ("slice_start", "slice_end")
SPAN_COLUMNS = (*OF_WINDOWS, *OF_SLICES)
#: Shapes of windows in a compiled plan, as EXPLAIN calls them.
SHAPES = {"TumblingWindow": "TUMBLE", "HoppingWindow": "HOP", "CumulativeWindow": "CUMULATE"}
EXPLAINED = re.compile(r"(TUMBLE|HOP|CUMULATE)\((.*)\)")
ITEM = re.compile(r"(?<!\w)(\w++)=\[([^\[\]]*+)\]")
ISO = re.compile(r"PT(?:([0-9]{1,15})H)?(?:([0-9]{1,15})M)?(?:([0-9]{1,15})(?:\.([0-9]{1,9}))?S)?")
UNITS = {"d": 86_400_000, "h": 3_600_000, "min": 60_000, "s": 1_000, "ms": 1}
TEXT = re.compile(r"([0-9]{1,15}) (d|h|min|s|ms)")
NODE_TYPE = re.compile(r"stream-exec-([a-z0-9-]+)_[0-9]+")
#: Of a row type: a quoted name, with the space that follows the name of a field; a quoted text; a bracket; a quote that
#: nothing ends.
PART = re.compile(r"`((?:[^`]|``)*+)`( ?)|'[^']*+'|[<(>)`']")
FUNCTION = re.compile(r"\$+([A-Za-z0-9_ ]+)\$[0-9]+")
ACCUMULATORS = ("accState", "window-aggs")
#: States with rows of the first input, or of the second.
ROWS = (
    (
        "deduplicate-state", "waiting-to-emit-on-timer", "inputState", "left", "left-records", "IntervalJoinLeftCache",
        "data-state", "data-state-with-append", "data-state-with-update", "window_rank", "window_deduplicate",
        "dataState", "eventQueuesStateName", "sharedBuffer-events",
    ),
    ("right", "right-records", "IntervalJoinRightCache"),
)  # fmt: skip
#: States that may have a row and a number or flag instead of a row: the place of the row among two fields, their names.
WRAPPED = {
    "IntervalJoinLeftCache": (0, ("row", "emitted")),
    "IntervalJoinRightCache": (0, ("row", "emitted")),
    "left-records": (0, ("row", "associations")),
    "right-records": (0, ("row", "associations")),
    "data-state-with-update": (0, ("row", "rank")),
    "sharedBuffer-events": (1, ("ref_count", "element")),
}
#: States of top-n whose map keys are sort keys, and those whose map keys are unique keys.
BY_SORT_KEY = ("data-state", "data-state-with-append", "sorted-map", "window_rank")
BY_UNIQUE_KEY = ("data-state-with-update",)
#: States that a plan has names for, and the key.
NAMED_STATES = frozenset(("key", *ACCUMULATORS, *ROWS[0], *ROWS[1], *BY_SORT_KEY, *BY_UNIQUE_KEY))
#: States with more fields than the input has: constants after them.
WITH_MORE = ("inputState",)
#: Characters of a call's arguments, and of a name that is repeated, that are shown; those after them are left out.
MAX_ARGUMENTS = 400


@dataclass(frozen=True, slots=True)
class WindowSpan:
    """What lies before the ends that an operator keeps: ``size`` milliseconds; ``whole``: windows, not slices.

    Windows that cumulate begin where the last one of full size ended: every ``size`` after ``offset``.
    """

    size: int
    whole: bool
    cumulates: bool = False
    offset: int = 0

    @property
    def columns(self) -> tuple[str, str]:
        """Return the names of the columns with starts and ends."""
        return OF_WINDOWS if self.whole else OF_SLICES


def planned_span(node: Mapping[str, Any]) -> WindowSpan | None:
    """Return the windows of a node of a compiled plan; None for a node without, and for sessions."""
    windowing = node.get("windowing") or node.get("leftWindowing")
    if not isinstance(windowing, Mapping) or not isinstance(windowing.get("window"), Mapping):
        return None
    window = windowing["window"]
    shape = SHAPES.get(str(window.get("type")))
    lengths = {str(name): milliseconds_of(value) for name, value in window.items() if isinstance(value, str)}
    return _span(shape, lengths, attached=windowing.get("strategy") == "WindowAttached")


def explained_span(attributes: Mapping[str, str]) -> WindowSpan | None:
    """Return the windows of a line of EXPLAIN.

    >>> explained_span({"window": "HOP(time_col=[ts], size=[30 min], slide=[10 min])"})
    WindowSpan(size=600000, whole=False, cumulates=False, offset=0)
    """
    match = EXPLAINED.fullmatch(attributes.get("window", attributes.get("leftWindow", "")))
    if match is None:
        return None
    items: dict[str, str] = dict(ITEM.findall(match[2]))
    lengths = {"maxSize" if name == "max_size" else name: _text(value) for name, value in items.items()}
    return _span(match[1], lengths, attached="win_end" in items)


def _span(shape: str | None, lengths: Mapping[str, int | None], *, attached: bool) -> WindowSpan | None:
    offset = lengths.get("offset") or 0
    size = lengths.get("maxSize") if shape == "CUMULATE" else lengths.get("size")
    part = {"TUMBLE": size, "HOP": lengths.get("slide"), "CUMULATE": lengths.get("step")}.get(shape or "")
    if not size or not part:
        return None
    if attached:
        return WindowSpan(size, whole=True, cumulates=shape == "CUMULATE", offset=offset)
    return WindowSpan(math.gcd(size, part), whole=shape == "TUMBLE")


def milliseconds_of(text: str) -> int | None:
    """Return the milliseconds of a duration.

    >>> milliseconds_of("PT1H30M"), milliseconds_of("PT0.5S"), milliseconds_of("PT-1S")
    (5400000, 500, None)
    """
    match = ISO.fullmatch(text)
    if match is None:
        return None
    hours, minutes, seconds = (int(digits or 0) for digits in match.groups()[:3])
    return (hours * 60 + minutes) * 60_000 + seconds * 1_000 + int((match[4] or "").ljust(3, "0")[:3])


def _text(text: str) -> int | None:
    match = TEXT.fullmatch(text)
    return int(match[1]) * UNITS[match[2]] if match else None


@dataclass(frozen=True)
class PlanNode:
    """A node: its fields, those of its inputs, and the fields by which they are distributed."""

    uid: str
    description: str
    inputs: tuple[tuple[str, ...], ...]
    key: tuple[str, ...]
    #: Names of the fields of its accumulator, by their number: see :func:`accumulator_of`.
    accumulator: Mapping[int, tuple[str, ...]]
    sort_key: tuple[str, ...] = ()
    #: Of each input, sets of fields that are unique.
    unique_keys: tuple[tuple[tuple[str, ...], ...], ...] = ()
    #: Its windows or slices, of which it keeps the ends.
    span: WindowSpan | None = None

    def fields_of(self, state: str, count: int) -> tuple[str, ...] | None:
        """Return the names of the fields of a state's rows; None if the plan does not have as many."""
        if state == "key":
            return self.key if len(self.key) == count else None
        if state in ACCUMULATORS:
            return self.accumulator.get(count)
        for number, states in enumerate(ROWS):
            if state in states and number < len(self.inputs):
                names = self.inputs[number]
                if len(names) < count and state in WITH_MORE:
                    return names + tuple(f"f{index}" for index in range(len(names), count))
                return names if len(names) == count else None
        return None

    def fields_of_map_key(self, state: str, count: int) -> tuple[str, ...] | None:
        """Return the names of the fields of a map's keys; None if the plan does not have as many."""
        if state in BY_SORT_KEY:
            return self.sort_key if len(self.sort_key) == count else None
        for number, states in enumerate(ROWS):
            if state in states and number < len(self.inputs):
                unique = self.unique_keys[number] if number < len(self.unique_keys) else ()
                rows = () if state in BY_UNIQUE_KEY else (self.inputs[number],)
                matches = [names for names in (*unique, *rows) if len(names) == count]
                return matches[0] if len(set(matches)) == 1 else None
        return None


def accumulator_of(buffers: tuple[str, ...], more: tuple[str, ...]) -> dict[int, tuple[str, ...]]:
    """Return the names of an accumulator's fields, by their number.

    ``more`` are names of a count(*) for retractions and of views, which only some operators have.
    """
    return {len(names): names for names in (buffers, buffers + more[1:], buffers + more)}


def names_of(text: str) -> dict[str, Any] | None:
    """Return the JSON of names or of a compiled plan; None for the text of EXPLAIN."""
    try:
        document: dict[str, Any] = parse_json(text)
    except (ValueError, RecursionError):
        return None
    return document


class CompiledPlan:
    """The nodes of a compiled plan, found by the uids that Flink gives to them."""

    def __init__(self, plan: Mapping[str, Any]) -> None:
        """Index the nodes; raise OptionError for what is not a compiled plan."""
        with _refusing():
            self._nodes = {int(node["id"]): node for node in plan["nodes"]}
            self._uids = {
                OperatorID.from_uid(uid): (number, uid)
                for number, node in reversed(self._nodes.items())
                for uid in reversed(list(_uids(number, str(node["type"]))))
            }
            self._sources: dict[int, list[int]] = {}
            for edge in plan["edges"]:
                self._sources.setdefault(int(edge["target"]), []).append(int(edge["source"]))
        self._fields: dict[int, tuple[str, ...]] = {}

    def node(self, operator_id: OperatorID) -> PlanNode | None:
        """Return the node of an operator; None if the plan does not have it."""
        existing = self._uids.get(operator_id)
        if existing is None:
            return None
        with _refusing():
            return self._node(*existing)

    def _fields_of(self, number: int) -> tuple[str, ...]:
        """Return the fields that a node emits."""
        if number not in self._fields:
            self._fields[number] = _fields(self._nodes[number]["outputType"])
        return self._fields[number]

    def _node(self, number: int, uid: str) -> PlanNode:
        node, numbers = self._nodes[number], self._sources.get(number, [])
        inputs = tuple(map(self._fields_of, numbers))
        key: tuple[str, ...] = ()
        if numbers:
            source = self._nodes[numbers[0]]
            key_indices = (
                source["inputProperties"][0]["requiredDistribution"].get("keys")
                if "exchange" in str(source["type"])
                else node.get("grouping")
            )
            key = unique_names([inputs[0][int(index)] for index in key_indices or ()])
        rows = _fields(node["localAggInputRowType"]) if "localAggInputRowType" in node else (*inputs, ())[0]
        calls, retracted = _calls(node)
        names = [name for call, back in zip(calls, retracted, strict=True) for name in _call(call, rows, back)]
        distinct = dict.fromkeys(_arguments(call, rows) for call in calls if call.get("distinct"))
        span = planned_span(node)
        counted = node.get("needRetraction") or is_sliced(span)
        more = (*(["count(*)"] if counted else []), *(f"distinct({column})" for column in distinct))
        order = (node.get("orderBy") or node.get("sortSpec") or {}).get("fields", ())
        sort_key = [rows[int(column["index"])] for column in order]
        return PlanNode(
            uid,
            str(node.get("description", "")),
            inputs,
            key,
            accumulator_of(unique_names(names), unique_names(more)),
            unique_names(sort_key),
            _unique_keys(node, inputs),
            span,
        )


@contextmanager
def _refusing() -> Iterator[None]:
    """Raise OptionError for a part of a plan that is not as Flink writes it."""
    try:
        yield
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError, RecursionError) as error:
        raise OptionError(
            "option 'fieldNames' is not a compiled plan",
            expected="what COMPILE PLAN writes, with 'nodes' and 'edges'",
            found=problem_of(error)[:200],
        ) from None


def problem_of(error: Exception) -> str:
    """Return what is wrong with a plan that is not as Flink writes it, from the error of reading it.

    >>> problem_of(KeyError("nodes")), problem_of(ValueError("Expecting value: line 1 column 1 (char 0)"))
    ("no 'nodes'", 'Expecting value: line 1 column 1 (char 0)')
    """
    if isinstance(error, KeyError):
        return f"no {error.args[0]!r}"
    if isinstance(error, ValueError):
        return str(error)
    return (
        "nested too deeply" if isinstance(error, RecursionError) else "a value of another kind than Flink writes there"
    )


def _uids(number: int, kind: str) -> Iterator[str]:
    match = NODE_TYPE.fullmatch(kind)
    if match is None:
        return
    name = match[1]
    for variant in (name, f"global-{name}", name.removeprefix("global-"), name.removesuffix("-table-scan")):
        yield f"{number}_{variant}"
        yield f"{number}_{kind}_{variant}"


def is_sliced(span: WindowSpan | None) -> bool:
    """Return whether windows have several slices, some of which may be empty: those that hop count their rows."""
    return span is not None and not span.whole


def _calls(node: Mapping[str, Any]) -> tuple[Sequence[Mapping[str, Any]], Sequence[bool]]:
    """Return the aggregate calls of a node, and of each whether rows are also taken out of it."""
    if "overSpec" in node:
        over = [
            (call, group["lowerBound"]["kind"] != "UNBOUNDED_PRECEDING")
            for group in node["overSpec"]["groups"]
            for call in group["aggCalls"]
        ]
        return [call for call, _ in over], [back for _, back in over]
    calls = node.get("aggCalls") or ()
    retracted = node.get("aggCallNeedRetractions") or [False] * len(calls)
    return calls, [bool(flag) for flag in retracted]


def _unique_keys(node: Mapping[str, Any], inputs: Sequence[tuple[str, ...]]) -> tuple[tuple[tuple[str, ...], ...], ...]:
    primary = (node.get("rankStrategy") or {}).get("primaryKeys")
    keys = [[primary] if primary else []] if "rankStrategy" in node else []
    keys = keys or [node.get("leftUpsertKeys") or [], node.get("rightUpsertKeys") or []]
    return tuple(
        tuple(unique_names([names[int(index)] for index in key]) for key in input_keys)
        for names, input_keys in zip(inputs, keys, strict=False)
    )


def _fields(kind: object) -> tuple[str, ...]:
    """Return the names of the fields of a row type, as text or as an object.

    >>> _fields("ROW<`b` BIGINT, `r` ROW<`x` INT> NOT NULL>")
    ('b', 'r')
    """
    if isinstance(kind, Mapping):
        return tuple(str(field["name"]) for field in kind["fields"])
    depth, names = 0, []
    for part in PART.finditer(str(kind)):
        if part[1] is None:
            if part[0] in ("`", "'"):
                raise ValueError("a quoted name does not end")
            depth += {"<": 1, "(": 1, ">": -1, ")": -1}.get(part[0], 0)
        elif depth == 1 and part[2]:
            names.append(part[1].replace("``", "`"))
    return tuple(names)


def _call(call: Mapping[str, Any], fields: Sequence[str], retracted: bool) -> list[str]:
    """Return the names of the fields of an aggregate call's accumulator."""
    match = FUNCTION.fullmatch(str(call.get("internalName") or call.get("catalogName") or call["name"]))
    function = match[1].lower() if match else str(call.get("catalogName") or call["name"])
    arguments = _arguments(call, fields)
    text = f"{function}({'distinct ' if call.get('distinct') else ''}{arguments or '*'})"
    where = int(call.get("filterArg", -1))
    if where >= 0:
        text += f" filter {fields[where][:MAX_ARGUMENTS]}"
    return buffers_of(function, text, retracted)


def buffers_of(function: str, text: str, retracted: bool) -> list[str]:
    """Return the names of the fields of an aggregate's accumulator; ``retracted``: rows are also taken out of it."""
    if function == "avg":
        return [f"{text} sum", f"{text} count"]
    return [text, f"{text} count"] if retracted and function in ("sum", "sum0") else [text]


def _arguments(call: Mapping[str, Any], fields: Sequence[str]) -> str:
    """Return the arguments of a call; of very many, the first."""
    shown, size = [], 0
    for index in call.get("argList") or ():
        shown.append(fields[int(index)])
        size += len(shown[-1])
        if size > MAX_ARGUMENTS:
            return ", ".join(shown)[:MAX_ARGUMENTS] + "..."
    return ", ".join(shown)


def unique_names(names: Sequence[str]) -> tuple[str, ...]:
    """Return the names, with a number where one is repeated.

    >>> unique_names(["a", "a", "a 2", "a"])
    ('a', 'a 2', 'a 2 2', 'a 3')
    """
    distinct: dict[str, None] = {}
    #: The last number that was tried for a name: every number is tried once.
    numbers: dict[str, int] = {}
    for given in names:
        name = unique = given
        while unique in distinct:
            name = name[:MAX_ARGUMENTS]
            number = numbers[name] = numbers.get(name, 1) + 1
            unique = f"{name} {number}"
        distinct[unique] = None
    return tuple(distinct)
