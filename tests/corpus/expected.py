"""Compare the tables of a snapshot with its `expected.json`."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa

from pyspark_savepoint.formats.errors import StateNotFoundError, UndecodableStateError
from pyspark_savepoint.statebackends.open_table import open_table
from pyspark_savepoint.statebackends.requests.request import TableRequest
from tests.corpus.written import EXACT, Kind, parse, written
from tests.oracle.compare import comparable

Json = Any
LAST_ACCESS = "__last_access"
STATE_KINDS = ("key", "VALUE", "LIST", "MAP", "REDUCING", "AGGREGATING", "UNION", "BROADCAST")


@dataclass(frozen=True)
class RecordedSnapshot:
    """A snapshot, and what is in it. ``options`` go into every request.

    ``undecodable`` gets, by operator and state, what only the user's code could have read.
    """

    folder: Path
    options: dict[str, Any] = field(default_factory=dict)
    parallelism: int = 2
    undecodable: dict[str, UndecodableStateError] = field(default_factory=dict)

    @cached_property
    def expected(self) -> Json:
        return json.loads((self.folder / "expected.json").read_text())

    @property
    def path(self) -> str:
        return str(self.folder / self.expected["meta"]["savepoint"])

    def operators(self, kind: str) -> list[Json]:
        """Return the expected operators of a kind: `keyed` or `operator`."""
        return [operator for operator in self.expected["operators"] if operator["kind"] == kind]

    def name(self, operator: Json) -> dict[str, str]:
        """Return the option that names an operator: its uid, or its id if it has no uid."""
        for known in self.expected["operatorIds"]:
            if known["name"] == operator["uid"] and known["uid"] is None:
                return {"uid_hash": known["operatorId"]}
        return {"uid": operator["uid"]}

    def request(self, operator: Json, **options: Any) -> TableRequest:
        """A request for a table of an operator."""
        return TableRequest(self.path, **self.name(operator), **{"decode": EXACT, **self.options, **options})

    def table(self, operator: Json, **options: Any) -> pa.Table:
        """A table of an operator, all of it."""
        return read(self.request(operator, **options), self.parallelism)


def read(request: TableRequest, parallelism: int = 2) -> pa.Table:
    """All rows of a table; every batch is checked as Arrow's own validation has it."""
    table = open_table(request)
    batches = []
    for partition in table.partitions(parallelism):
        for batch in partition.batches():
            batch.validate(full=True)
            assert 0 < batch.num_rows <= request.batch_rows
            batches.append(batch)
    return pa.Table.from_batches(batches, table.schema)


def kind_of(field: pa.Field) -> tuple[str, Kind]:
    """The kind of state (or `key`) and the type that a column's comment names."""
    comment = field.metadata[b"comment"].decode()
    what, _, notation = comment.partition(" ")
    return (what, parse(notation)) if what in STATE_KINDS else ("", parse(comment))


def differences(snapshot: RecordedSnapshot) -> list[str]:
    """One line per difference between a snapshot's tables and what is expected in them."""
    lines: list[str] = []
    for operator in snapshot.operators("keyed"):
        lines += keyed_differences(snapshot, operator)
        lines += timer_differences(snapshot, operator)
    for operator in snapshot.operators("operator"):
        for state in operator["states"]:
            lines += operator_differences(snapshot, operator, state)
    return lines


# -- keyed state -------------------------------------------------------------------------------------------------


@dataclass
class Keyed:
    """The keyed state of an operator as its tables have it."""

    entries: dict[str, list[Json]] = field(default_factory=dict)
    kinds: dict[str, tuple[str, Kind]] = field(default_factory=dict)
    accesses: dict[str, list[Any]] = field(default_factory=dict)
    key_groups: dict[Any, int] = field(default_factory=dict)
    twice: list[Any] = field(default_factory=list)
    opaque: set[str] = field(default_factory=set)

    def add(self, table: pa.Table, namespace: Kind) -> None:
        """The rows of a table with the columns `key_group` and `subtask`; windows that are all one have no column."""
        names = [name for name in table.schema.names if name not in ("key", "window", "key_group", "subtask")]
        names = [name for name in names if not name.endswith(LAST_ACCESS)]
        for name in names:
            self.entries.setdefault(name, [])
            self.kinds[name] = kind_of(table.schema.field(name))
            if is_opaque(table.schema.field(name)):
                self.opaque.add(name)
        _, key_kind = kind_of(table.schema.field("key"))
        if "window" in table.schema.names:
            assert str(kind_of(table.schema.field("window"))[1]) == str(namespace)
        seen = set()
        for row in table.to_pylist():
            key, space = written(key_kind, row["key"]), written(namespace, row.get("window"))
            place = comparable([key, space])
            self.twice += [place] if place in seen else []
            seen.add(place)
            self.key_groups[comparable(key)] = row["key_group"]
            for name in names:
                if row[name] is not None:
                    self.entries[name].append([key, space, self._value(name, row[name])])
                    self.accesses.setdefault(name, []).append(row.get(name + LAST_ACCESS))

    def _value(self, name: str, value: Any) -> Json:
        return value if name in self.opaque else written(self.kinds[name][1], value)


def is_opaque(column: pa.Field) -> bool:
    """Whether a column is the bytes of values that only the user's code could decode."""
    kind = kind_of(column)[1]
    return bool(pa.types.is_binary(column.type)) and str(kind) != "PRIM<BYTE>"


def read_keyed(snapshot: RecordedSnapshot, operator: Json) -> Keyed:
    """The keyed state of an operator from its tables: one for each kind of namespace."""
    found = Keyed()
    spaces: dict[str, list[Json]] = {}
    for state in operator["states"]:
        spaces.setdefault(state.get("namespace") or "VOID", []).append(state)
    for space, states in spaces.items():
        try:
            found.add(_states_of(snapshot, operator, space, states), parse(space))
        except UndecodableStateError:
            for state in states:
                try:
                    found.add(_states_of(snapshot, operator, space, [state]), parse(space))
                except UndecodableStateError as error:
                    snapshot.undecodable[f"{operator['uid']}/{state['name']}"] = error
        except StateNotFoundError:
            assert not any(state["entries"] for state in states)
    return found


def _states_of(snapshot: RecordedSnapshot, operator: Json, space: str, states: list[Json]) -> pa.Table:
    table = "keyed_state" if space == "VOID" else "window_state"
    chosen = ",".join(state["name"] for state in states)
    return snapshot.table(operator, state=chosen, table=table, include_ttl=True, include_key_group=True)


def keyed_differences(snapshot: RecordedSnapshot, operator: Json) -> list[str]:
    """Differences of one operator's keyed states, their types, times of last access and key groups."""
    found = read_keyed(snapshot, operator)
    lines = []
    if found.twice:
        lines.append(f"{operator['uid']}: a key comes twice: {found.twice[0]}")
    for state in operator["states"]:
        label = f"{operator['uid']}/{state['name']}"
        if "entries" in state and label not in snapshot.undecodable:
            lines += state_differences(label, state, found)
            lines += access_differences(label, state, found, snapshot.expected["meta"]["writtenBetween"])
    for key, key_group in operator.get("keyGroups", ()):
        place = found.key_groups.get(comparable(key), key_group)
        if place != key_group:
            lines.append(f"{operator['uid']}: key {key} is in key group {place}")
    return lines


def state_differences(label: str, state: Json, found: Keyed) -> Iterator[str]:
    """Differences of one state."""
    name = state["name"]
    if name not in found.entries:
        if state["entries"]:
            yield f"{label}: is not there"
        return
    what, kind = found.kinds[name]
    if what.lower() != state["kind"]:
        yield f"{label}: is {what}"
    if not same_type(state, kind):
        yield f"{label}: has type {kind}"
    expected, got = state["entries"], found.entries[name]
    if got and isinstance(got[0][2], bytes):
        expected, got = [[*entry[:2], bytes] for entry in expected], [[*entry[:2], type(entry[2])] for entry in got]
    yield from multiset_differences(label, expected, got)


def is_declared(state: Json, kind: Kind) -> bool:
    """Whether a type is the one that values were declared with; `AUTO` leaves it to Flink."""
    declared = parse(state["type"])
    return declared.name == "AUTO" or str(declared) == str(kind)


def same_type(state: Json, kind: Kind) -> bool:
    """Whether the type of a keyed state is the one that it was declared with."""
    if state["kind"] in ("list", "map"):
        kind = kind if kind.name in ("LIST", "MAP") else Kind("", (kind,))
        keys = (parse(state["keyType"]),) if state["kind"] == "map" else ()
        return [str(part) for part in kind.parts] == [str(part) for part in (*keys, parse(state["type"]))]
    return is_declared(state, kind)


def access_differences(label: str, state: Json, found: Keyed, between: Sequence[int]) -> Iterator[str]:
    """Times of last access outside the time in which the job ran; times where there must be none."""
    times = [time for times in found.accesses.get(state["name"], ()) for time in _flat(times)]
    if state.get("ttl"):
        outside = [time for time in times if not between[0] <= time <= between[1]]
        if outside or len(times) < len(state["entries"]):
            yield f"{label}: last access {outside[:3]} of {len(times)}"
    elif times:
        yield f"{label}: has times of last access"


def _flat(times: Any) -> Iterator[int]:
    if isinstance(times, list):
        for time in times:
            yield from _flat(time[1] if isinstance(time, tuple) else time)
    elif times is not None:
        yield times


def multiset_differences(label: str, expected: Sequence[Json], got: Sequence[Json]) -> Iterator[str]:
    """One line where two lists do not hold the same values, in any order."""
    wanted, seen = Counter(map(_comparable, expected)), Counter(map(_comparable, got))
    missing, extra = list((wanted - seen).elements()), list((seen - wanted).elements())
    if missing or extra:
        yield f"{label}: missing {len(missing)} {missing[:1]}, unexpected {len(extra)} {extra[:1]}"


def _comparable(value: Json) -> object:
    return comparable(_without_nulls(value))


def _without_nulls(value: Json) -> Json:
    """Objects without fields that are null: a column has the fields of all subclasses."""
    match value:
        case {"class": name, "fields": dict(fields)}:
            return {"class": name, "fields": {k: _without_nulls(v) for k, v in fields.items() if v is not None}}
        case dict():
            return {key: _without_nulls(item) for key, item in value.items()}
        case list():
            return [_without_nulls(item) for item in value]
    return value


# -- timers and operator state -----------------------------------------------------------------------------------


def timer_differences(snapshot: RecordedSnapshot, operator: Json) -> list[str]:
    """Differences of one operator's timers, by service and domain."""
    services = operator.get("timers") or []
    if not any(service["eventTime"] or service["processingTime"] for service in services):
        return []
    try:
        table = snapshot.table(operator, table="timers")
    except UndecodableStateError as error:
        snapshot.undecodable[f"{operator['uid']}/timers"] = error
        return []
    _, key_kind = kind_of(table.schema.field("key"))
    rows = table.to_pylist()
    lines: list[str] = []
    for service in services:
        space = parse(service["namespace"])
        for domain, name in (("event", "eventTime"), ("processing", "processingTime")):
            got = []
            for row in rows:
                if row["service"] == service["service"] and row["domain"] == domain:
                    spaces = [] if space.name == "VOID" else [written(space, row["namespace"])]
                    got.append([written(key_kind, row["key"]), *spaces, row["timestamp"]])
            lines += multiset_differences(f"{operator['uid']}/{service['service']}/{name}", service[name], got)
    return lines


def operator_differences(snapshot: RecordedSnapshot, operator: Json, state: Json) -> list[str]:
    """Differences of one operator state: elements in any order; broadcast entries once."""
    label = f"{operator['uid']}/{state['name']}"
    try:
        table = snapshot.table(operator, state=state["name"])
    except UndecodableStateError as error:
        snapshot.undecodable[label] = error
        return []
    what, kind = kind_of(table.schema.field("value"))
    lines = [] if what.lower() == state["kind"] else [f"{label}: is {what}"]
    lines += [] if is_declared(state, kind) else [f"{label}: has type {kind}"]
    values = table.column("value").to_pylist()
    if is_opaque(table.schema.field("value")):
        return [*lines, *multiset_differences(label, [bytes] * len(state["entries"]), list(map(type, values)))]
    values = [written(kind, value) for value in values]
    if state["kind"] == "broadcast":
        _, key_kind = kind_of(table.schema.field("key"))
        keys = [written(key_kind, key) for key in table.column("key").to_pylist()]
        return [*lines, *multiset_differences(label, state["entries"], list(map(list, zip(keys, values, strict=True))))]
    return [*lines, *multiset_differences(label, state["entries"], values)]
