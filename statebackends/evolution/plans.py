"""Compiled plans as records: nodes with their types, inputs and attributes.

They are what ``COMPILE PLAN`` of Flink 1.16 to 2.3 writes.

An attribute that a release leaves out has its default. Types come in two forms: as texts (``VARCHAR(10) NOT NULL``) and
as objects (``{"type": "TIMESTAMP_WITHOUT_TIME_ZONE", "precision": 3, "kind": "ROWTIME"}``).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

from pyspark_savepoint.formats.errors import OptionError, SavepointError, type_name
from pyspark_savepoint.formats.flink_releases import parse_release
from pyspark_savepoint.formats.io.local_files import read_regular
from pyspark_savepoint.formats.json_text import parse_json
from pyspark_savepoint.formats.serializers.sql.logical_types import LogicalType
from pyspark_savepoint.statebackends.evolution.logical_types import logical_type_of
from pyspark_savepoint.statebackends.evolution.shapes import Column
from pyspark_savepoint.statebackends.sql_plans.compiled_plan import problem_of

NODE_TYPE = re.compile(r"stream-exec-([a-z0-9-]+)_([0-9]{1,6})")
FUNCTION = re.compile(r"\$(\$?[A-Za-z0-9_ ]+|[^$]+)\$[0-9]+")
UID_FORMAT = "table.exec.uid.format"
DEFAULT_UID_FORMAT = "<id>_<transformation>"
#: What a uid of Flink 1.15 looks like, and its parts.
UID_PARTS = ("<id>", "<type>", "<version>", "<transformation>")
MAX_NODES = 100_000
#: Bytes of a plan: those of large jobs have some megabytes.
MAX_BYTES = 256 << 20
WHAT = "what COMPILE PLAN writes, with 'nodes' and 'edges', unchanged"

Json = Mapping[str, Any]


@dataclass(frozen=True)
class AggregateCall:
    """A call of an aggregate: places of its arguments and of its filter (-1: none) among the input's fields."""

    function: str
    name: str
    arguments: tuple[int, ...]
    filter: int
    distinct: bool
    kind: LogicalType
    retracts: bool = False
    #: False for functions of the user.
    built_in: bool = True
    #: What else the plan says of it, as JSON: approximate, ignoreNulls.
    more: str = ""


@dataclass(frozen=True, eq=False)
class Node:
    """A node of a plan. ``kind`` is its type without prefix and version: ``group-aggregate``."""

    id: int
    kind: str
    version: int
    type: str
    description: str
    output: tuple[Column, ...]
    inputs: tuple[int, ...]
    attributes: Json

    def __str__(self) -> str:
        return f"node {self.id} {self.description[:300] or self.type}"

    @cached_property
    def distribution(self) -> Json:
        """What an exchange requires of its input: ``{"type": "HASH", "keys": [0]}``."""
        properties = self.attributes.get("inputProperties") or [{}]
        return dict(properties[0].get("requiredDistribution") or {})

    @cached_property
    def ttls(self) -> tuple[int, ...]:
        """Milliseconds that values of its states live, by the index of the state."""
        return tuple(_milliseconds(str(state.get("ttl", "0 ms"))) for state in self.attributes.get("state") or ())

    def ttl(self, index: int = 0) -> int:
        """Return the time to live of a state; 0 if there is none."""
        return self.ttls[index] if index < len(self.ttls) else 0

    def uid(self, transformation: str) -> str:
        """Return the uid of one of its operators."""
        form = str((self.attributes.get("configuration") or {}).get(UID_FORMAT) or DEFAULT_UID_FORMAT)
        parts = (str(self.id), self.type, str(self.version), transformation)
        for part, value in zip(UID_PARTS, parts, strict=True):
            form = form.replace(part, value)
        return form


@dataclass(frozen=True, eq=False)
class Plan:
    """A compiled plan. ``nodes`` are by id, in the plan's order, which is topological."""

    flink_version: str
    nodes: Mapping[int, Node]
    document: Json

    @cached_property
    def targets(self) -> dict[int, list[int]]:
        """The nodes behind each node."""
        found: dict[int, list[int]] = {number: [] for number in self.nodes}
        for node in self.nodes.values():
            for source in node.inputs:
                found[source].append(node.id)
        return found

    @property
    def says_time_to_live(self) -> bool:
        """Whether the plan says how long state lives; before Flink 1.18 that is a setting of the job alone."""
        return self.is_since(1, 18)

    def is_since(self, major: int, minor: int) -> bool:
        """Return whether the plan was compiled by a release, or a newer one, or does not say by which."""
        release = re.match(r"(\d+)\.(\d+)", self.flink_version)
        return release is None or (int(release[1]), int(release[2])) >= (major, minor)

    def with_time_to_live(self) -> Plan:
        """Return the plan of a job whose settings let its state expire, after some time."""
        lives = {"state": [{"index": 0, "ttl": "1 ms"}, {"index": 1, "ttl": "1 ms"}]}
        nodes = {number: replace(one, attributes={**one.attributes, **lives}) for number, one in self.nodes.items()}
        return replace(self, nodes=nodes)

    def inputs(self, node: Node) -> tuple[Node, ...]:
        return tuple(self.nodes[number] for number in node.inputs)

    def of_kind(self, *kinds: str) -> list[Node]:
        return [node for node in self.nodes.values() if node.kind in kinds]


PlanLike = str | PathLike[str] | Json


def read_plan(plan: PlanLike, argument: str = "plan") -> Plan:
    """Return a plan that is given as a path, a JSON text, or parsed JSON.

    Raises:
        OptionError: If it is not a compiled plan, or not all of one; the error names the argument.

    """
    with refusing(argument):
        document = _document(plan, argument)
        entries = document["nodes"]
        if len(entries) > MAX_NODES:
            raise ValueError(f"{len(entries)} nodes")
        sources: dict[int, list[int]] = {}
        for edge in document["edges"]:
            sources.setdefault(_number(edge["target"]), []).append(_number(edge["source"]))
        nodes: dict[int, Node] = {}
        for entry in entries:
            node = _node(entry, tuple(sources.pop(_number(entry["id"]), ())))
            if node.id in nodes:
                raise ValueError(f"two nodes have id {node.id}")
            for source in node.inputs:
                if source not in nodes:
                    raise ValueError(f"an edge from node {source} to node {node.id}, which does not follow it")
            nodes[node.id] = node
        if sources or not nodes:
            raise ValueError(f"edges to nodes that are not there: {sorted(sources)}" if sources else "no nodes")
        _check_inputs(nodes)
        return Plan(_release(document, argument), nodes, document)


def _release(document: Json, argument: str) -> str:
    """Return the release of Flink that compiled a plan; an empty text if the plan does not say it."""
    release = document.get("flinkVersion")
    if release is None:
        return ""
    try:
        parse_release(release, None)
    except OptionError as error:
        raise OptionError(
            f"argument '{argument}' was compiled by a release of Flink that is not known",
            expected=error.facts["expected"],
            found=f"Flink {release!r}"[:100],
            remedy="give the plan as COMPILE PLAN wrote it, by one of these releases",
        ) from None
    return str(release)


def _document(plan: PlanLike, argument: str) -> Json:
    if isinstance(plan, Mapping):
        return plan
    if not isinstance(plan, str | PathLike):
        raise OptionError(
            f"argument '{argument}' is no plan",
            found=type_name(plan),
            expected="the path of a file that COMPILE PLAN wrote, its text, or its JSON parsed",
        )
    text = str(plan)
    if not text.lstrip().startswith("{"):
        try:
            text = text_of_path(str(plan))
        except (OSError, ValueError) as error:
            raise OptionError(
                f"argument '{argument}' cannot be read",
                found=f"{why_not_read(error)}: {plan}"[:300],
                expected="the path of a file that COMPILE PLAN wrote, or its text",
            ) from None
    parsed = parse_json(text)
    if not isinstance(parsed, Mapping):
        raise TypeError(f"a {type(parsed).__name__} instead of an object")
    return parsed


def why_not_read(error: Exception) -> str:
    """Return why a file is not read; it is none of a snapshot, of which errors of its reading speak."""
    return "there is no such file" if isinstance(error, FileNotFoundError) else str(getattr(error, "message", error))


def text_of_path(path: str) -> str:
    """Return the text of a file; raise OSError or ValueError if it is none."""
    return read_regular(str(Path(path).expanduser()), MAX_BYTES).decode("utf-8-sig")


#: Numbers of inputs by kind; other kinds have one.
INPUTS = {"table-source-scan": (0, 0), "values": (0, 0), "data-stream-scan": (0, 0), "legacy-table-source-scan": (0, 0)}
TWO_INPUTS = ("join", "interval-join", "temporal-join", "window-join")
ANY_INPUTS = ("union", "multiple-input", "multi-join", "delta-join", "process-table-function")


def _check_inputs(nodes: Mapping[int, Node]) -> None:
    """Raise ValueError for a node whose inputs were cut out."""
    for node in nodes.values():
        low, high = INPUTS.get(node.kind, (1, 1))
        if node.kind in TWO_INPUTS:
            low, high = 2, 2
        elif node.kind in ANY_INPUTS:
            low, high = 1, MAX_NODES
        if not low <= len(node.inputs) <= high:
            raise ValueError(f"{len(node.inputs)} inputs of node {node.id} ({node.type})")


def _node(entry: Json, inputs: tuple[int, ...]) -> Node:
    kind = str(entry["type"])
    match = NODE_TYPE.fullmatch(kind)
    if match is None:
        raise ValueError(f"a node of type {kind!r}")
    properties = entry.get("inputProperties") or ()
    if not all(isinstance(one, Mapping) for one in properties) or not isinstance(entry.get("state") or [], list):
        raise TypeError(f"the attributes of node {entry['id']}")
    return Node(
        _number(entry["id"]),
        match[1],
        int(match[2]),
        kind,
        str(entry.get("description") or ""),
        row_of(entry["outputType"]),
        inputs,
        entry,
    )


def order_of(node: Node) -> Sequence[Json]:
    """Return the fields by which a rank orders rows: ``[{"index": 2, "isAscending": False, "nullIsLast": True}]``."""
    spec = node.attributes.get("orderBy") or node.attributes.get("sortSpec") or {}
    return list(spec.get("fields") or ())


def row_of(kind: Any) -> tuple[Column, ...]:
    """Return the fields of a row type."""
    row = logical_type_of(kind)
    if row.root != "ROW":
        raise ValueError(f"a row of type {row}")
    return tuple(Column(name, child) for name, child in zip(row.names, row.children, strict=True))


def calls_of(entries: Sequence[Json], retracts: Sequence[Any] | None = None) -> tuple[AggregateCall, ...]:
    """Return aggregate calls; ``retracts``: of each whether rows are also taken out of it."""
    flags = [bool(flag) for flag in retracts] if retracts else [False] * len(entries)
    return tuple(_call(entry, flag) for entry, flag in zip(entries, flags, strict=True))


def _call(entry: Json, retracts: bool) -> AggregateCall:
    internal = entry.get("internalName")
    match = FUNCTION.fullmatch(str(internal)) if internal is not None else None
    function = match[1] if match else _named(entry)
    more = {name: entry[name] for name in ("approximate", "ignoreNulls") if entry.get(name)}
    return AggregateCall(
        function.upper() if match else function,
        str(entry.get("name") or ""),
        tuple(map(_number, entry.get("argList") or ())),
        _number(entry.get("filterArg", -1)),
        bool(entry.get("distinct", False)),
        logical_type_of(entry["type"]),
        retracts,
        match is not None,
        json.dumps(more, sort_keys=True) if more else "",
    )


def _named(entry: Json) -> str:
    """Return the name of a function that is none of Flink's own, or that has a kind in place of a name."""
    names = (entry.get(name) for name in ("catalogName", "systemName", "class", "internalName", "sqlKind"))
    return str(next((name for name in names if name), "a function without a name"))


def _number(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{value!r} instead of a number")
    return value


DURATION = re.compile(r"\s*([0-9]{1,15})\s*([a-zµ]*)\s*")
UNITS = {"": 1, "ms": 1, "s": 1000, "min": 60_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def _milliseconds(text: str) -> int:
    match = DURATION.fullmatch(text)
    if match is None or match[2] not in UNITS:
        raise ValueError(f"a time to live of {text!r}")
    return int(match[1]) * UNITS[match[2]]


@contextmanager
def refusing(argument: str) -> Iterator[None]:
    """Raise OptionError for a part of a plan that is not as Flink writes it."""
    try:
        yield
    except SavepointError:
        raise
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError, RecursionError) as error:
        raise OptionError(
            f"argument '{argument}' is not a compiled plan, or not all of one",
            expected=WHAT,
            found=problem_of(error)[:300],
        ) from None
