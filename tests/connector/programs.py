"""``python -m tests.connector.programs``: random programs of edits, run by both engines, which must come to the same.

A program is three to eight edits of a snapshot that real Flink wrote, then a write. Edits are drawn from all verbs,
with operators, states, keys and rows of that snapshot. An edit that one engine refuses, the other refuses with the same
error; only which of two errors comes first can differ, where values cannot be read: Spark reads them at ``write``. The
written savepoints have the same content, and the same bytes if no rows were given, whose order is Spark's.

    python -m tests.connector.programs --seeds 0 60     # programs 0 to 59
    python -m tests.connector.programs --seeds 0 60 --restore 1.20.5 2.3.0

With ``--restore`` the snapshots are those that Flink writes now, of every backend and format, whose content is known.
Each edit is made on that content, too, and Flink must find just it in what this process wrote, with the states that the
savepoint declares; the first release writes the snapshots.
"""

from __future__ import annotations

import argparse
import copy
import hashlib
import random
import re
import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import pyspark_savepoint
from pyspark_savepoint import LocalSavepoint, OperatorIdentifier, Savepoint
from pyspark_savepoint.errors import SavepointError
from pyspark_savepoint.formats.serializers.notation.notation import parse_type
from tests.connector.test_engines import content
from tests.data import located
from tests.oracle.compare import differences
from tests.oracle.evolution import Job, evolve
from tests.oracle.matrix.__main__ import session
from tests.oracle.matrix.bases import BASES, CLUSTER, Base, generate
from tests.oracle.matrix.cells import read
from tests.oracle.matrix.changes import Operator, Operators

SHOP = Path(__file__).parents[1] / "oracle" / "savepoints" / "shop" / "savepoint"
RECORDED: dict[str, Callable[[], str | Path]] = {
    "shop": lambda: str(SHOP),
    "hashmap canonical": lambda: located("lab/2.2.1-hashmap-canonical/savepoint"),
    "hashmap native": lambda: located("lab/1.20.5-hashmap-native/savepoint"),
    "rocksdb native": lambda: located("lab/2.2.1-rocksdb-native/savepoint"),
}
#: The operators of the snapshots that Flink writes now, and the source that its harness adds.
MADE: Operators = {"first": Operator.keyed(), "second": Operator.keyed(), "lists": Operator.plain()}
SOURCE = "numbers"
#: Entries by operator and state, timers by service and domain, as Flink says them; None: those of Flink's own source.
Contents = dict[str, dict[str, list[Any] | None]]
#: Errors in values, which Spark reads when it writes.
OF_VALUES = ("UndecodableStateError", "ValueRangeError")
#: What Spark's VARIANT is refused with before Flink 2.1; without Spark these values are JSON, and so STRING.
VARIANT = "has a type without a counterpart in Flink"
#: What JSON is refused with, where Spark's VARIANT may be refused for what is in it.
JSON = "is no VARIANT, which is not written from JSON"
#: Edits that only the engines are compared by, as they change types or build on an edit before, and types to try.
COMPARED = (
    "update_state", "retype", "ttl", "rekey", "written by its new name", "removed and added", "retyped twice", "undone"
)  # fmt: skip
TYPES = ("LONG", "INT", "STRING", "DOUBLE", "NULLABLE<LONG>", "LIST<STRING>", "MAP<STRING, LONG>", "LNG")
#: Programs that a process of Flink restores.
TOGETHER = 10
WRITES: tuple[dict[str, Any], ...] = (
    {}, {}, {}, {"portable": True}, {"files": "reference"}, {"checkpoint_id": 42}, {"flink_version": "1.20"},
)  # fmt: skip


@dataclass(frozen=True)
class Start:
    """A snapshot that programs begin with; what is in it and what restores it, if Flink wrote it now."""

    name: str
    path: str
    options: dict[str, Any] = field(default_factory=dict)
    contents: Contents | None = None
    base: Base | None = None

    def uid(self, operator: OperatorIdentifier) -> str:
        """The uid of an operator, also where the snapshot has its hash only; that hash if nobody knows the uid."""
        hashes = {OperatorIdentifier.for_uid(uid).operator_id: uid for uid in self.options.get("uids", ())}
        return operator.uid or hashes.get(operator.operator_id, operator.operator_id.hex)

    def opened(self, path: Path | str) -> LocalSavepoint:
        """Open the snapshot, or one that was made of it, without Spark."""
        return pyspark_savepoint.open(path, allow_outside=True, **self.options)

    def with_spark(self, spark: SparkSession) -> Savepoint:
        """Open the snapshot with Spark."""
        return Savepoint.load(spark, self.path, allow_outside=True, **self.options)


@dataclass
class Part:
    """A table of an operator of the snapshot: an operator state has a name."""

    operator: str
    table: str
    states: list[str] = field(default_factory=list)


class Edit(NamedTuple):
    """An edit: of a savepoint, given the unchanged snapshot as its face has it, and of what is in it."""

    text: str
    apply: Callable[[Any, Any], Any]
    expect: Callable[[Contents, Contents], None] = lambda contents, base: None


class Program:
    """Edits drawn for one snapshot; ``text`` is the program so far."""

    def __init__(self, seed: int, start: Start) -> None:
        self.random = random.Random(seed)
        self.start = start
        self.base: Any = start.opened(start.path)
        self.text: list[str] = []
        self.has_rows = False
        self.names = 0
        parts: dict[tuple[str, str, str], Part] = {}
        for row in self.base.states().rows():
            operator, table = row["operator_uid"] or row["operator_uid_hash"], row["table"]
            state = dict(row["options"])["state"] if table == "timers" else row["state"]
            own = state if table == "operator_state" else ""
            parts.setdefault((operator, table, own), Part(operator, table)).states.append(state)
        self.parts = list(parts.values())

    def of(self, *tables: str) -> Part:
        """A table of some kinds."""
        return self.random.choice([part for part in self.parts if part.table in tables])

    def new(self) -> str:
        """A new name."""
        self.names += 1
        return f"new-{self.names}"

    def keys(self, part: Part) -> list[Any]:
        """Some keys of an operator, as they are read; none if values before them end where only the job knows."""
        table = self.base.table(part.table, part.operator, **part_of(part))
        rows, _ = tried(lambda given, _: [row["key"] for row in given.select("key").rows()], table, None)
        keys = {repr(key): key for key in rows or ()}
        names = self.random.sample(sorted(keys), min(len(keys), self.random.choice((1, 2, 30))))
        return [keys[name] for name in names]

    def edit(self, current: LocalSavepoint) -> Edit:
        """An edit of the savepoint as it is now."""
        operators = [plan.identifier for plan in current.plan.operators]
        any_operator = self.random.choice(operators)
        uid = self.start.uid(any_operator)
        keyed, listed = self.of("keyed_state"), self.of("operator_state")
        state, name = self.random.choice(keyed.states), self.new()
        kind = self.random.choice(
            ["remove_operator", "identifier", "copy", "merge_operator", "merge", "max_parallelism", "timers",
             "operator_state", "with_state", "with_state", "remove_state", "remove_state", "rename_state",
             "remove_keys", "remove_keys", "with_operator", "coordinator", "windows", "split",
             *(COMPARED if self.start.contents is None else ())]
        )  # fmt: skip
        rows = kind in ("timers", "operator_state", "with_state", "with_operator", "windows", *COMPARED)
        self.has_rows = self.has_rows or (rows and kind != "undone")
        if kind in COMPARED:
            return self.compared(kind, keyed, state, name)
        if kind == "remove_operator":
            return Edit(
                f"remove_operator({any_operator})",
                lambda sp, _: sp.remove_operator(any_operator),
                lambda contents, _: without(contents, uid),
            )
        if kind == "identifier":
            return Edit(
                f"change({any_operator}, {name})",
                lambda sp, _: sp.change_operator_identifier(any_operator, name),
                lambda contents, _: contents.update({name: contents.pop(uid)}),
            )
        if kind == "copy":
            return Edit(
                f"copy({any_operator}, {name})",
                lambda sp, _: sp.copy_operator(any_operator, name),
                lambda contents, _: contents.update({name: dict(contents[uid])}),
            )
        if kind == "merge_operator":
            into = self.random.choice(operators)
            return Edit(
                f"merge({any_operator}, {into})",
                lambda sp, _: sp.merge_operator(any_operator, into=into),
                lambda contents, _: merge_contents(contents, uid, self.start.uid(into)),
            )
        if kind == "merge":
            return Edit(
                f"merge(only {keyed.operator})",
                lambda sp, base: sp.remove_operator(keyed.operator).merge(only_of(base, keyed.operator)),
                lambda contents, base: contents.update({keyed.operator: dict(base[keyed.operator])}),
            )
        if kind == "max_parallelism":
            wanted = self.random.choice((64, 128, 200, 512, 4096))
            return Edit(f"with_max_parallelism({wanted})", lambda sp, _: sp.with_max_parallelism(wanted))
        if kind == "timers":
            part = self.of("timers")
            service = part.states[0]
            return Edit(
                f"with_timers({name}, {part.operator})",
                lambda sp, base: sp.with_operator(name).with_timers(
                    name, base.table("timers", part.operator, state=service)
                ),
                lambda contents, base: contents.update({name: only_state(base[part.operator], service, service)}),
            )
        if kind == "operator_state":
            verb = self.random.choice(("with_list_state", "with_union_state", "with_broadcast_state"))
            return Edit(
                f"{verb}({name}, {listed.operator} {listed.states[0]})",
                lambda sp, base: getattr(sp.with_operator(name), verb)(
                    name, "s", base.table("operator_state", listed.operator, state=listed.states[0])
                ),
                lambda contents, base: contents.update(
                    {name: only_state(base[listed.operator], listed.states[0], "s")}
                ),
            )
        if kind == "with_state":
            into_state = self.random.choice((state, name))

            def with_state(sp: Any, base: Any) -> Any:
                rows = base.table("keyed_state", keyed.operator, state=state)
                return sp.with_state(keyed.operator, into_state, renamed(rows, state, into_state))

            return Edit(
                f"with_state({keyed.operator}, {into_state}, {state})",
                with_state,
                lambda contents, base: contents[keyed.operator].update(
                    as_rows(only_state(base[keyed.operator], state, into_state), into_state != state)
                ),
            )
        if kind == "with_operator":
            return Edit(
                f"with_operator({name}, {keyed.operator} {state})",
                lambda sp, base: sp.with_operator(
                    name, base.table("keyed_state", keyed.operator, state=state), key="key"
                ),
                lambda contents, base: contents.update({name: as_rows(only_state(base[keyed.operator], state, state))}),
            )
        if kind == "windows":
            part = self.of("window_state", "keyed_state")
            return Edit(
                f"with_state({part.operator}, {part.states[0]})",
                lambda sp, base: sp.with_state(
                    part.operator, part.states[0], base.table(part.table, part.operator, state=part.states[0])
                ),
                lambda contents, base: contents[part.operator].update(
                    only_state(base[part.operator], part.states[0], part.states[0])
                ),
            )
        if kind in ("remove_state", "rename_state"):
            part = self.of("keyed_state", "operator_state", "window_state", "timers")
            one = self.random.choice(part.states)
            if kind == "remove_state":
                return Edit(
                    f"remove_state({part.operator}, {one})",
                    lambda sp, _: sp.remove_state(part.operator, one),
                    lambda contents, _: without(
                        contents[part.operator], *only_state(contents[part.operator], one, one)
                    ),
                )
            return Edit(
                f"rename_state({part.operator}, {one})",
                lambda sp, _: sp.rename_state(part.operator, one, name),
                lambda contents, _: contents[part.operator].update(
                    only_state(take_state(contents[part.operator], one), one, name)
                ),
            )
        if kind == "coordinator":
            return Edit(f"coordinator({any_operator})", lambda sp, _: sp.with_coordinator_state(any_operator, None))
        part = self.of("keyed_state", "window_state", "timers")
        keys = self.keys(part)
        if kind == "split":
            return Edit(
                f"split({part.operator}, {name}, {keys})",
                lambda sp, _: sp.copy_operator(part.operator, name).remove_keys(part.operator, keys),
                lambda contents, _: contents.update(
                    {name: dict(contents[part.operator]), part.operator: without_keys(contents[part.operator], keys)}
                ),
            )
        return Edit(
            f"remove_keys({part.operator}, {keys})",
            lambda sp, _: sp.remove_keys(part.operator, keys),
            lambda contents, _: contents.update({part.operator: without_keys(contents[part.operator], keys)}),
        )

    def compared(self, kind: str, keyed: Part, state: str, name: str) -> Edit:
        """An edit whose result is what both engines say."""
        uid, keys = keyed.operator, self.keys(keyed)
        first, second = self.random.choice(TYPES), self.random.choice(TYPES)
        ttl: bool | list[str] = self.random.choice((True, False, [state], [name]))

        def rows(base: Any, **options: Any) -> Any:
            return base.table("keyed_state", uid, state=state, **options)

        applied: dict[str, Callable[[Any, Any], Any]] = {
            "update_state": lambda sp, base: sp.update_state(uid, state, rows(base, keys=keys)),
            "retype": lambda sp, base: sp.with_state(uid, state, rows(base), types={state: first}),
            "ttl": lambda sp, base: sp.with_state(uid, state, rows(base), ttl=ttl),
            "rekey": lambda sp, _: sp.rekey(uid, types={"key": first}),
            "written by its new name": lambda sp, base: sp.rename_state(uid, state, name).with_state(
                uid, name, renamed(rows(base, keys=keys), state, name), replace=True
            ),
            "removed and added": lambda sp, base: sp.remove_state(uid, state).with_state(uid, state, rows(base)),
            "retyped twice": lambda sp, base: sp.with_state(uid, state, rows(base), types={state: first}).with_state(
                uid, state, rows(base), types={state: second}, replace=True
            ),
            "undone": lambda sp, _: sp.rename_state(uid, state, name).rename_state(uid, name, state),
        }
        return Edit(f"{kind}({uid}, {state}, {name}, {first}, {second}, {ttl}, {keys})", applied[kind])


def part_of(part: Part) -> dict[str, Any]:
    """The option for timers of one service: those of an operator can have windows of several types."""
    return {"state": part.states[0]} if part.table == "timers" else {}


# -- what is in a savepoint -----------------------------------------------------------------------------------------


def only_state(states: Mapping[str, list[Any] | None], old: str, new: str) -> dict[str, list[Any] | None]:
    """One of the states of an operator, or both domains of a timer service, by another name."""
    return {new + name[len(old) :]: states[name] for name in states if name.partition("/")[0] == old}


def without(named: dict[str, Any], *names: str) -> None:
    """Drop operators or states."""
    for name in names:
        del named[name]


def as_rows(states: Mapping[str, list[Any] | None], new: bool = True) -> dict[str, list[Any] | None]:
    """New states, whose structs are Rows, as no type is given; those that are there keep the type that they have."""
    return {
        name: [
            [*place, {"row": list(value["fields"].values()), "kind": "+I"} if new and is_pojo(value) else value]
            for *place, value in entries or ()
        ]
        for name, entries in states.items()
    }


def is_pojo(value: Any) -> bool:
    """Whether Flink says a value as an object of a class."""
    return isinstance(value, dict) and "fields" in value


def take_state(states: dict[str, list[Any] | None], name: str) -> dict[str, list[Any] | None]:
    """Take a state or a timer service out of those of an operator, and return it."""
    return {one: states.pop(one) for one in only_state(states, name, name)}


def without_keys(states: Mapping[str, list[Any] | None], keys: list[Any]) -> dict[str, list[Any] | None]:
    """The keyed states of an operator without some keys."""
    return {name: [entry for entry in entries or () if entry[0] not in keys] for name, entries in states.items()}


def merge_contents(contents: Contents, uid: str, into: str) -> None:
    """Move the states of an operator into another one."""
    target = contents[into]
    target.update({name: [*(target.get(name) or ()), *(entries or ())] for name, entries in contents.pop(uid).items()})


# -- both engines ---------------------------------------------------------------------------------------------------


def only_of(savepoint: Any, uid: str) -> Any:
    """The savepoint with one of its operators, which a uid or a uid hash names."""
    for plan in savepoint.plan.operators:
        if plan.identifier.operator_id.hex not in (uid, OperatorIdentifier.for_uid(uid).operator_id.hex):
            savepoint = savepoint.remove_operator(plan.identifier)
    return savepoint


def renamed(table: Any, old: str, new: str) -> Any:
    """Rows with another name of a column, of Spark or of Arrow."""
    if hasattr(table, "withColumnRenamed"):
        return table.withColumnRenamed(old, new)
    rows = table.to_arrow()
    return rows.rename_columns([new if name == old else name for name in rows.schema.names])


def tried(edit: Callable[[Any, Any], Any], savepoint: Any, other: Any) -> tuple[Any, str | None]:
    """What an edit gives, or its error as text."""
    try:
        return edit(savepoint, other), None
    except SavepointError as error:
        return None, f"{type(error).__name__}: {error.message}"
    except PySparkException as error:
        in_task = re.findall(r"^pyspark_savepoint\.[\w.]+\.(\w+: .*)$", str(error), re.MULTILINE)
        if not in_task:
            raise
        return None, str(in_task[-1])


def digests(folder: Path) -> list[str]:
    """The digests of all state files."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.name != "_metadata"]
    return sorted(hashlib.sha256(path.read_bytes()).hexdigest() for path in files)


@dataclass
class Outcome:
    """A program as text, what differs between the engines, and what must be in the savepoint if it was written."""

    text: str
    differs: list[str]
    written: Path | None = None
    contents: Contents | None = None
    portable: bool = False


def run(seed: int, spark: SparkSession, start: Start, folder: Path) -> Outcome:
    """Run a program on both engines."""
    program = Program(seed, start)
    base = start.with_spark(spark)
    local: Any = program.base
    with_spark: Any = base
    contents = copy.deepcopy(start.contents)
    differs: list[str] = []
    edits, wanted = 0, program.random.randint(3, 8)
    for _ in range(30):
        if edits == wanted:
            break
        had_rows = program.has_rows
        edit = program.edit(local)
        edited, refused = tried(edit.apply, local, program.base)
        other, other_refused = tried(edit.apply, with_spark, base)
        unreadable = refused and other_refused and refused.startswith(OF_VALUES)
        if refused and other is not None and refused.startswith(OF_VALUES):
            _, other_refused = tried(lambda sp, path: sp.write(str(path)), other, folder / f"{seed}-late")
        variant = other_refused is not None and (VARIANT in other_refused if refused is None else JSON in refused)
        if refused != other_refused and not unreadable and not variant:
            differs.append(f"{edit.text}: without Spark {refused}, with {other_refused}")
        if edited is None or other is None:
            program.has_rows = had_rows
            continue
        local, with_spark = edited, other
        if contents is not None and start.contents is not None:
            edit.expect(contents, start.contents)
        program.text.append(edit.text)
        edits += 1
    write = program.random.choice(WRITES)
    program.text.append(f"write({write})")
    here, by_spark = folder / f"{seed}-local", folder / f"{seed}-spark"
    _, refused = tried(lambda sp, path: sp.write(str(path), **write), local, here)
    _, other_refused = tried(lambda sp, path: sp.write(str(path), **write), with_spark, by_spark)
    if refused != other_refused:
        differs.append(f"write: without Spark {refused}, with {other_refused}")
    outcome = Outcome("", differs, contents=contents, portable=write.get("portable", False))
    if refused is None and other_refused is None:
        written, other = (start.opened(path) for path in (here, by_spark))
        differs += different(readable(written), readable(other))
        if sorted(map(repr, written.states().rows())) != sorted(map(repr, other.states().rows())):
            differs.append("table 'states' differs")
        wrong = [row for row in written.inspect.verify().rows() if row["status"] == "error"]
        differs += [f"verify: {row}" for row in wrong]
        if not program.has_rows and digests(here) != digests(by_spark):
            differs.append("bytes of state files differ, and no rows were given")
        outcome.written = here
    else:
        program.text.append(f"refused: {refused}")
    shutil.rmtree(by_spark, ignore_errors=True)
    outcome.text = f"{seed} {start.name}: " + "; ".join(program.text)
    return outcome


def readable(savepoint: LocalSavepoint) -> Any:
    """The rows of all tables, or the error of one whose values only the job's classes delimit."""
    rows, refused = tried(lambda given, _: content(given), savepoint, None)
    return {"refused": {("", None): [refused]}} if rows is None else rows


def different(one: Any, other: Any) -> list[str]:
    """The tables whose rows differ."""
    lines = [f"operators {sorted(one.keys() ^ other.keys())}"] if one.keys() != other.keys() else []
    for uid in one.keys() & other.keys():
        for table in one[uid].keys() | other[uid].keys():
            rows = [tables[uid].get(table, []) for tables in (one, other)]
            if rows[0] != rows[1]:
                first = next((pair for pair in zip(*rows, strict=False) if pair[0] != pair[1]), None)
                lines.append(f"{uid} {table}: {len(rows[0])} and {len(rows[1])} rows, first {first}")
    return lines


# -- real Flink -----------------------------------------------------------------------------------------------------


def made(release: str, folder: Path) -> list[Start]:
    """Snapshots of every backend and format that Flink writes now, with what it finds in them."""
    bases = list(BASES.values())
    paths = generate(release, folder, bases, MADE)
    contents = read(release, folder, bases, paths, MADE)
    uids = [*MADE, SOURCE, *(f"new-{number}" for number in range(1, 31))]
    starts = []
    for base in bases:
        states: Contents = {SOURCE: {"SourceReaderState": None}}
        states |= {uid: dict(entries) for uid, entries in contents[base.name].items()}
        starts.append(Start(base.name, str(paths[base.name]), {"uids": uids}, states, base))
    return starts


def job(number: int, start: Start, path: Path, backend: str) -> Job:
    """The job that restores a savepoint: its operators, with all states that the savepoint declares."""
    assert start.base is not None
    savepoint = start.opened(path)
    operators: dict[str, Job] = {}
    for plan in savepoint.plan.operators:
        uid = start.uid(plan.identifier)
        operators[uid] = {"uid": uid, "states": {}, "operatorStates": {}, "timers": {}}
    for row in savepoint.states().rows():
        operator = operators[row["operator_uid"]]
        if row["table"] == "operator_state":
            key = {"key": row["key_type"]} if row["kind"] == "BROADCAST" else {}
            operator["operatorStates"][row["state"]] = {"kind": row["kind"], "type": row["value_type"], **key}
        elif row["table"] == "timers":
            windowed = "TIME_WINDOW" if row["namespace_type"] == "TIME_WINDOW" else "VOID"
            operator["timers"][dict(row["options"])["state"]] = windowed
        elif row["table"] in ("keyed_state", "window_state"):
            operator["states"][row["state"]] = described(row)
        if row["key_type"] and row["kind"] != "BROADCAST":
            operator["key"] = row["key_type"]
    return {
        "name": f"program {number} on {backend}",
        "held": "read",
        "restore": str(path),
        "parallelism": 2,
        "operators": [operator for uid, operator in operators.items() if uid != SOURCE],
        **start.base.settings(backend),
    }


def described(row: Mapping[str, Any]) -> Job:
    """A keyed state for the harness, by its row in the table of states."""
    told: Job = {"kind": row["kind"], "ttl": row["ttl"], "windowed": row["namespace_type"] == "TIME_WINDOW"}
    serializer = parse_type(row["value_type"].removeprefix("TTL<").removesuffix(">" * row["ttl"]))
    if row["kind"] == "MAP":
        return {**told, "key": serializer.children[0].flink_type, "type": serializer.children[1].flink_type}
    return {**told, "type": (serializer.children[0] if row["kind"] == "LIST" else serializer).flink_type}


def restored(releases: list[str], outcomes: list[tuple[int, Start, Outcome]], folder: Path) -> int:
    """Have releases of Flink restore what was written, and print what they do not find; return how many failed."""
    jobs, expected = [], []
    for seed, start, outcome in outcomes:
        if outcome.written is not None and start.base is not None and outcome.contents is not None:
            both = outcome.portable or not start.base.only_own
            for backend in (start.base.own, *[start.base.other] * both):
                jobs.append(job(seed, start, outcome.written, backend))
                expected.append(outcome.contents)
    failed = 0
    for release in releases:
        answers = evolve(release, folder / f"restore-{release}", jobs, CLUSTER, timeout=3600)
        for one, contents, answer in zip(jobs, expected, answers, strict=True):
            problems = missed(contents, answer)
            failed += bool(problems)
            if problems:
                print("\n  ".join([f"not restored by {release}: {one['name']}", *problems]), flush=True)
        states = [entries for contents in expected for states in contents.values() for entries in states.values()]
        values = sum(len(entries or ()) for entries in states)
        print(f"{release}: {len(jobs)} restores, {values:,} values", flush=True)
    return failed


def missed(contents: Contents, answer: Mapping[str, Any]) -> list[str]:
    """What Flink says that differs from what must be in a savepoint: its error, states, values."""
    if "found" not in answer:
        return [str(answer.get("error", answer))[:1500]]
    known = {uid: states for uid, states in contents.items() if uid != SOURCE}
    expected = [
        {"uid": uid, "states": [{"name": name, "entries": entries}]}
        for uid, states in known.items()
        for name, entries in states.items()
        if entries is not None
    ]
    names = [{(uid, name) for uid, states in of.items() for name in states} for of in (known, answer["found"])]
    strange = [f"{name}: not told of" for name in sorted(names[0] ^ names[1])]
    return differences({"operators": expected}, answer["found"]) + strange


def main() -> int:
    """Run programs, and print those that differ, or that Flink does not restore."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.connector.programs",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--seeds", nargs=2, type=int, default=(0, 60), metavar=("FIRST", "END"))
    parser.add_argument("--restore", nargs="+", default=[], metavar="RELEASE")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    spark = session()
    differing = failed = 0
    outcomes: list[tuple[int, Start, Outcome]] = []
    with tempfile.TemporaryDirectory(prefix="savepoint-programs-") as name:
        folder = Path(name)
        if arguments.restore:
            starts = made(arguments.restore[0], folder)
        else:
            starts = [Start(base, str(path())) for base, path in RECORDED.items()]
        for seed in range(*arguments.seeds):
            start = starts[seed % len(starts)]
            outcome = run(seed, spark, start, folder)
            differing += bool(outcome.differs)
            word = "differs" if outcome.differs else "equal"
            print("\n  ".join([f"{word} {outcome.text}", *outcome.differs]), flush=True)
            outcomes.append((seed, start, outcome))
            if arguments.restore and (len(outcomes) == TOGETHER or seed + 1 == arguments.seeds[1]):
                failed += restored(arguments.restore, outcomes, folder)
                outcomes = []
    print(
        f"{differing} of {len(range(*arguments.seeds))} programs differ"
        + f", {failed} restores failed" * bool(arguments.restore)
    )
    return min(differing + failed, 1)


if __name__ == "__main__":
    sys.exit(main())
