"""``python -m tests.connector.programs``: random programs of edits, run by both engines, which must come to the same.

A program is three to six edits of a snapshot that real Flink wrote, then a write; edits are drawn from all verbs, with
operators, states, keys and rows of that snapshot. An edit that one engine refuses, the other refuses with the same
error; only which of two errors comes first can differ, where values cannot be read: Spark reads them last. The written
savepoints have the same content, and the same bytes if no rows were given, whose order is Spark's.

    python -m tests.connector.programs --seeds 0 60     # programs 0 to 59
"""

from __future__ import annotations

import argparse
import hashlib
import random
import re
import sys
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import pyspark_savepoint
from pyspark_savepoint import LocalSavepoint, Savepoint
from pyspark_savepoint.errors import SavepointError
from tests.connector.test_engines import content
from tests.data import located
from tests.oracle.matrix.__main__ import session

SHOP = Path(__file__).parents[1] / "oracle" / "savepoints" / "shop" / "savepoint"
BASES: dict[str, Callable[[], str]] = {
    "shop": lambda: str(SHOP),
    "hashmap canonical": lambda: located("lab/2.2.1-hashmap-canonical/savepoint"),
    "hashmap native": lambda: located("lab/1.20.5-hashmap-native/savepoint"),
    "rocksdb native": lambda: located("lab/2.2.1-rocksdb-native/savepoint"),
}
#: Edits and arguments of a write, of a savepoint and of the unchanged snapshot as a face has them.
Edit = Callable[[Any, Any], Any]
UNREADABLE = "UndecodableStateError"
WRITES: tuple[dict[str, Any], ...] = (
    {}, {}, {}, {"portable": True}, {"files": "reference"}, {"checkpoint_id": 42}, {"flink_version": "1.20"},
)  # fmt: skip


@dataclass
class Part:
    """A table of an operator of the snapshot: an operator state has a name."""

    operator: str
    table: str
    states: list[str] = field(default_factory=list)


class Program:
    """Edits drawn for one snapshot; ``text`` is the program so far."""

    def __init__(self, seed: int, path: str) -> None:
        self.random = random.Random(seed)
        self.base = pyspark_savepoint.open(path)
        self.text: list[str] = []
        self.has_rows = False
        self.names = 0
        found: dict[tuple[str, str, str], Part] = {}
        for row in self.base.states().rows():
            operator, table = row["operator_uid"] or row["operator_uid_hash"], row["table"]
            own = row["state"] if table == "operator_state" else ""
            found.setdefault((operator, table, own), Part(operator, table)).states.append(row["state"])
        self.parts = list(found.values())

    def of(self, *tables: str) -> Part:
        """A table of some kinds."""
        return self.random.choice([part for part in self.parts if part.table in tables])

    def new(self) -> str:
        """A new name."""
        self.names += 1
        return f"new-{self.names}"

    def keys(self, part: Part) -> list[Any]:
        """Some keys of an operator, as they are read."""
        rows = [row["key"] for row in self.base.table(part.table, part.operator).select("key").rows()]
        keys = {repr(key): key for key in rows}
        names = self.random.sample(sorted(keys), min(len(keys), self.random.choice((1, 2, 30))))
        return [keys[name] for name in names]

    def edit(self, current: LocalSavepoint) -> tuple[str, Edit]:
        """An edit of the savepoint as it is now, and its text."""
        operators = [plan.identifier for plan in current.plan.operators]
        any_operator = self.random.choice(operators)
        keyed, listed = self.of("keyed_state"), self.of("operator_state")
        state, name = self.random.choice(keyed.states), self.new()
        kind = self.random.choice(
            ["remove_operator", "identifier", "copy", "merge_operator", "merge", "max_parallelism", "timers",
             "operator_state", "with_state", "with_state", "remove_state", "remove_state", "rename_state",
             "remove_keys", "remove_keys", "with_operator", "coordinator", "windows", "split"]
        )  # fmt: skip
        rows = kind in ("timers", "operator_state", "with_state", "with_operator", "windows")
        self.has_rows = self.has_rows or rows
        if kind == "remove_operator":
            return f"remove_operator({any_operator})", lambda sp, _: sp.remove_operator(any_operator)
        if kind == "identifier":
            return f"change({any_operator}, {name})", lambda sp, _: sp.change_operator_identifier(any_operator, name)
        if kind == "copy":
            return f"copy({any_operator}, {name})", lambda sp, _: sp.copy_operator(any_operator, name)
        if kind == "merge_operator":
            into = self.random.choice(operators)
            return f"merge({any_operator}, {into})", lambda sp, _: sp.merge_operator(any_operator, into=into)
        if kind == "merge":
            return (
                f"merge(only {keyed.operator})",
                lambda sp, base: sp.remove_operator(keyed.operator).merge(only_of(base, keyed.operator)),
            )
        if kind == "max_parallelism":
            wanted = self.random.choice((64, 128, 200, 512, 4096))
            return f"with_max_parallelism({wanted})", lambda sp, _: sp.with_max_parallelism(wanted)
        if kind == "timers":
            part = self.of("timers")
            return (
                f"with_timers({name}, {part.operator})",
                lambda sp, base: sp.with_operator(name).with_timers(name, base.table("timers", part.operator)),
            )
        if kind == "operator_state":
            verb = self.random.choice(("with_list_state", "with_union_state", "with_broadcast_state"))
            return (
                f"{verb}({name}, {listed.operator} {listed.states[0]})",
                lambda sp, base: getattr(sp.with_operator(name), verb)(
                    name, "s", base.table("operator_state", listed.operator, state=listed.states[0])
                ),
            )
        if kind == "with_state":
            into_state = self.random.choice((state, name))

            def with_state(sp: Any, base: Any) -> Any:
                rows = base.table("keyed_state", keyed.operator, state=state)
                return sp.with_state(keyed.operator, into_state, renamed(rows, state, into_state))

            return f"with_state({keyed.operator}, {into_state}, {state})", with_state
        if kind == "with_operator":
            return (
                f"with_operator({name}, {keyed.operator} {state})",
                lambda sp, base: sp.with_operator(
                    name, base.table("keyed_state", keyed.operator, state=state), key="key"
                ),
            )
        if kind == "windows":
            part = self.of("window_state", "keyed_state")
            return (
                f"with_state({part.operator}, window-contents)",
                lambda sp, base: sp.with_state(
                    part.operator, part.states[0], base.table(part.table, part.operator, state=part.states[0])
                ),
            )
        if kind in ("remove_state", "rename_state"):
            part = self.of("keyed_state", "operator_state", "window_state", "timers")
            one = self.random.choice(part.states)
            if kind == "remove_state":
                return f"remove_state({part.operator}, {one})", lambda sp, _: sp.remove_state(part.operator, one)
            return f"rename_state({part.operator}, {one})", lambda sp, _: sp.rename_state(part.operator, one, name)
        if kind == "coordinator":
            return f"coordinator({any_operator})", lambda sp, _: sp.with_coordinator_state(any_operator, None)
        part = self.of("keyed_state", "window_state", "timers")
        keys = self.keys(part)
        if kind == "split":
            return (
                f"split({part.operator}, {name}, {keys})",
                lambda sp, _: sp.copy_operator(part.operator, name).remove_keys(part.operator, keys),
            )
        return f"remove_keys({part.operator}, {keys})", lambda sp, _: sp.remove_keys(part.operator, keys)


def only_of(savepoint: Any, uid: str) -> Any:
    """The savepoint with one of its operators, which a uid or a uid hash names."""
    for plan in savepoint.plan.operators:
        if uid not in (plan.identifier.uid, plan.identifier.operator_id.hex):
            savepoint = savepoint.remove_operator(plan.identifier)
    return savepoint


def renamed(table: Any, old: str, new: str) -> Any:
    """Rows with another name of a column, of Spark or of Arrow."""
    if hasattr(table, "withColumnRenamed"):
        return table.withColumnRenamed(old, new)
    found = table.to_arrow()
    return found.rename_columns([new if name == old else name for name in found.schema.names])


def tried(edit: Edit, savepoint: Any, other: Any) -> tuple[Any, str | None]:
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


def run(seed: int, spark: SparkSession, folder: Path) -> tuple[str, list[str]]:
    """Run a program on both engines; return its text, and what differs."""
    name = list(BASES)[seed % len(BASES)]
    path = BASES[name]()
    program = Program(seed, path)
    base = Savepoint.load(spark, path)
    local: Any = program.base
    with_spark: Any = base
    differs: list[str] = []
    edits, wanted = 0, program.random.randint(3, 6)
    for _ in range(30):
        if edits == wanted:
            break
        had_rows = program.has_rows
        text, edit = program.edit(local)
        found, refused = tried(edit, local, program.base)
        other, other_refused = tried(edit, with_spark, base)
        if refused != other_refused and not (refused and other_refused and refused.startswith(UNREADABLE)):
            differs.append(f"{text}: without Spark {refused}, with {other_refused}")
        if found is None or other is None:
            program.has_rows = had_rows
            continue
        local, with_spark = found, other
        program.text.append(text)
        edits += 1
    write = program.random.choice(WRITES)
    program.text.append(f"write({write})")
    here, there = folder / f"{seed}-local", folder / f"{seed}-spark"
    _, refused = tried(lambda sp, path: sp.write(str(path), **write), local, here)
    _, other_refused = tried(lambda sp, path: sp.write(str(path), **write), with_spark, there)
    if refused != other_refused:
        differs.append(f"write: without Spark {refused}, with {other_refused}")
    if refused is None and other_refused is None:
        written, other = (pyspark_savepoint.open(path, allow_outside=True) for path in (here, there))
        differs += different(readable(written), readable(other))
        if sorted(map(repr, written.states().rows())) != sorted(map(repr, other.states().rows())):
            differs.append("table 'states' differs")
        wrong = [row for row in written.verify().rows() if row["status"] == "error"]
        differs += [f"verify: {row}" for row in wrong]
        if not program.has_rows and digests(here) != digests(there):
            differs.append("bytes of state files differ, and no rows were given")
    else:
        program.text.append(f"refused: {refused}")
    return f"{seed} {name}: " + "; ".join(program.text), differs


def readable(savepoint: LocalSavepoint) -> Any:
    """The rows of all tables, or the error of one whose values only the job's classes delimit."""
    rows, refused = tried(lambda given, _: content(given), savepoint, None)
    return {"refused": {("", None): [refused]}} if rows is None else rows


def different(one: Any, other: Any) -> list[str]:
    """The tables whose rows differ."""
    found = [f"operators {sorted(one.keys() ^ other.keys())}"] if one.keys() != other.keys() else []
    for uid in one.keys() & other.keys():
        for table in one[uid].keys() | other[uid].keys():
            rows = [each[uid].get(table, []) for each in (one, other)]
            if rows[0] != rows[1]:
                first = next((pair for pair in zip(*rows, strict=False) if pair[0] != pair[1]), None)
                found.append(f"{uid} {table}: {len(rows[0])} and {len(rows[1])} rows, first {first}")
    return found


def main() -> int:
    """Run programs, and print those that differ."""
    parser = argparse.ArgumentParser(prog="python -m tests.connector.programs", description=__doc__)
    parser.add_argument("--seeds", nargs=2, type=int, default=(0, 60), metavar=("FIRST", "END"))
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    spark = session()
    failed = 0
    with tempfile.TemporaryDirectory(prefix="savepoint-programs-") as folder:
        for seed in range(*arguments.seeds):
            text, differs = run(seed, spark, Path(folder))
            failed += bool(differs)
            print("\n  ".join([f"{'differs' if differs else 'equal'} {text}", *differs]), flush=True)
    print(f"{failed} of {len(range(*arguments.seeds))} programs differ")
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
