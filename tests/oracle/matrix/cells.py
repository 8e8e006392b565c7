"""The cells of the matrix: savepoints that are changed, restored and compared, as many as possible at once.

The bases are written in one process of Flink, changed in one session of Spark, and restored in one more process by each
release. If a savepoint of many changes is not written or not restored, each change is tried in a separate savepoint.
"""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import pyspark_savepoint
from pyspark_savepoint import Savepoint
from tests.oracle.compare import differences
from tests.oracle.evolution import Job, evolve
from tests.oracle.matrix.bases import BASES, CLUSTER, Base, generate
from tests.oracle.matrix.changes import CHANGES, Change, Operators, change_of, job_of
from tests.oracle.matrix.rows import Here, Rows, parted, same_bytes

Found = dict[str, dict[str, list[Any]]]
#: Changes of a savepoint as a whole, each made in a separate savepoint.
WIDE, FOR_RELEASE, REFERENCED, PORTABLE = (
    "with_max_parallelism",
    "write(flink_version=...), base of the newest release",
    'write(files="reference")',
    "write(portable=True)",
)
#: What writes: Spark, this process alone, or both, which must come to the same; Flink restores what this one wrote.
SPARK, LOCAL, BOTH = ENGINES = ("spark", "local", "both")
WHOLE = (WIDE, FOR_RELEASE, REFERENCED, PORTABLE)
NAMES = (*CHANGES, *WHOLE)
MAX_PARALLELISM = 512
UNTOUCHED = [CHANGES["nothing"], CHANGES["nothing, operator state"]]


def unchanged(sp: Savepoint) -> Savepoint:
    """Return the savepoint without changes."""
    return sp


def widened(sp: Savepoint) -> Savepoint:
    """All keyed state has other key groups."""
    return sp.with_max_parallelism(MAX_PARALLELISM)


#: The plan, the arguments of ``write``, and the settings of the job.
WAYS: dict[str, tuple[Callable[[Savepoint], Savepoint], dict[str, Any], dict[str, Any]]] = {
    WIDE: (widened, {"portable": True}, {"maxParallelism": MAX_PARALLELISM}),
    REFERENCED: (unchanged, {"files": "reference"}, {}),
    PORTABLE: (unchanged, {"portable": True}, {}),
}


@dataclass(frozen=True)
class Cell:
    """One cell: its name in the results."""

    release: str
    base: str
    backend: str
    change: str

    @property
    def name(self) -> str:
        """The cell as a key of the results."""
        return " | ".join((self.release, self.base, self.backend, self.change))


@dataclass
class Written:
    """A changed savepoint, and what is expected of it."""

    release: str
    base: Base
    changes: tuple[str, ...]
    path: Path
    operators: Operators
    backends: tuple[str, ...]
    #: The cells that it shows in addition to those of the changes, by backend.
    shows: tuple[str, ...] = ()
    settings: dict[str, Any] = field(default_factory=dict)

    def cells(self, backend: str) -> list[Cell]:
        """The cells that a restore on a backend shows."""
        return [Cell(self.release, self.base.name, backend, name) for name in (*self.changes, *self.shows)]

    def job(self, backend: str, number: int) -> Job:
        """Return the job that restores it and prints what it finds."""
        told = {"name": f"restore {number}", "held": "read", "restore": str(self.path), **self.settings}
        return job_of(self.operators, **told, **self.base.settings(backend))


Results = dict[str, dict[str, Any]]


def read(
    release: str, folder: Path, bases: list[Base], paths: dict[str, Path], operators: Operators
) -> dict[str, Found]:
    """Return what Flink finds in the unchanged bases."""
    jobs = [
        job_of(operators, name=base.name, held="read", restore=str(paths[base.name]), **base.settings(base.own))
        for base in bases
    ]
    answers = evolve(release, folder / "read", jobs, CLUSTER, timeout=1200)
    for job, answer in zip(jobs, answers, strict=True):
        if "found" not in answer:
            raise RuntimeError(f"Flink {release} does not restore its own {job['name']}: {answer}")
    return {base.name: answer["found"] for base, answer in zip(bases, answers, strict=True)}


class Newest:
    """Bases of the newest release, written for other releases; generated once, on first use."""

    def __init__(self, release: str, folder: Path) -> None:
        self.release, self.folder = release, folder
        self.paths: dict[str, Path] = {}
        self.found: dict[str, Found] = {}

    def make(self, bases: list[Base]) -> None:
        """Run Flink to write and read those that are missing."""
        if missing := [base for base in bases if base.name not in self.paths]:
            operators = {uid: each for change in UNTOUCHED for uid, each in change.base().items()}
            folder = self.folder / str(len(self.paths))
            paths = generate(self.release, folder, missing, operators)
            self.found |= read(self.release, folder, missing, paths, operators)
            self.paths |= paths


class Bench:
    """The bases that one release writes, and what is done with them."""

    def __init__(
        self, spark: SparkSession, writer: str, newest: Newest, folder: Path, changes: list[str], engine: str
    ) -> None:
        self.spark, self.writer, self.newest, self.folder = spark, writer, newest, folder
        #: That of the savepoint that is being written; ``both``: whether the other one writes it, too.
        self.engine, self.both = SPARK if engine == SPARK else LOCAL, engine == BOTH
        self.same = [0, 0]
        self.changes = [CHANGES[name] for name in changes if name in CHANGES]
        self.whole = [name for name in changes if name in WHOLE]
        self.results: Results = {}
        self.read: dict[tuple[str, Path], Rows] = {}
        self.number = 0

    @property
    def operators(self) -> Operators:
        """The operators that the bases have: those of all changes, and those that whole savepoints are shown with."""
        chosen = {change.name: change for change in (*UNTOUCHED, *self.changes)}
        return {uid: each for change in chosen.values() for uid, each in change.base().items()}

    def run(self, bases: list[Base], releases: list[str]) -> Iterator[Results]:
        """Write the bases, change them, and restore the results with each release; return the results by cell."""
        shutil.rmtree(self.folder, ignore_errors=True)
        paths = generate(self.writer, self.folder, bases, self.operators)
        self.found = read(self.writer, self.folder, bases, paths, self.operators)
        changed: list[Written] | None = None
        for release in releases:
            self.release, self.results = release, {}
            if changed is None:
                changed = [each for base in bases for each in self.written(base, paths[base.name])]
                not_written = dict(self.results)
            self.results |= {
                replace(Cell(*name.split(" | ")), release=release).name: why for name, why in not_written.items()
            }
            written = [replace(each, release=release) for each in changed]
            if FOR_RELEASE in self.whole:
                written += self.for_release(bases)
            again = self.restored(written)
            # One by one, what failed together.
            self.restored([each for failed in again for each in self.one_by_one(failed, paths)])
            yield {name: {**result, "base of": self.writer} for name, result in self.results.items()}

    # -- writing -----------------------------------------------------------------------------------------

    def path(self) -> Path:
        """A new folder."""
        self.number += 1
        return self.folder / f"changed-{self.number}"

    def load(self, path: Path) -> Savepoint:
        """Return a base; changelogs have a separate folder."""
        if self.engine == LOCAL:
            here: Any = Here(pyspark_savepoint.open(path, allow_outside=True))
            return here
        return Savepoint.load(self.spark, str(path), allow_outside=True)

    def rows(self, path: Path) -> Rows:
        """Return the content of a base, read on first use."""
        place = self.engine, path
        if place not in self.read:
            self.read[place] = Rows(self.spark, self.load(path), path)
        return self.read[place]

    def before(self, base: Base, changes: list[Change], found: dict[str, Found]) -> Operators:
        """The operators of some changes, with what Flink found in them."""
        operators = {uid: each for change in changes for uid, each in change.base().items()}
        for uid, operator in operators.items():
            operator.entries = {state: list(entries) for state, entries in found[base.name][uid].items()}
        return operators

    def only(self, sp: Savepoint, operators: Operators) -> Savepoint:
        """The base without the operators of other changes."""
        for uid in self.operators:
            if uid not in operators:
                sp = sp.remove_operator(uid)
        return sp

    def written(self, base: Base, path: Path) -> Iterator[Written]:
        """The changed savepoints of a base."""
        backends = (base.own,) if base.only_own else (base.own, base.other)
        if self.changes:
            yield from self.changed(base, path, self.changes, backends)
            if base.only_own:
                yield from self.changed(base, path, self.changes, (base.other,))
        for name in self.whole:
            if name != FOR_RELEASE:
                operators = self.before(base, UNTOUCHED, self.found)
                way, told, settings = WAYS[name]
                made = self.write(base, partial(self.whole_plan, way, path, operators), told, (name,))
                if made is not None:
                    on = backends if name == REFERENCED else (base.own, base.other)
                    yield Written(self.release, base, (), made, operators, on, (name,), settings)

    def whole_plan(self, way: Callable[[Savepoint], Savepoint], path: Path, operators: Operators) -> Savepoint:
        """A change of a base as a whole."""
        return way(self.only(self.load(path), operators))

    def changed(self, base: Base, path: Path, changes: list[Change], backends: tuple[str, ...]) -> Iterator[Written]:
        """The changes in one savepoint; in one each where that is not written."""
        # One more, so that the job has an operator when the change removes its own.
        operators = self.before(base, [UNTOUCHED[0], *changes], self.found)

        def plan() -> Savepoint:
            rows = self.rows(path)
            sp = self.only(rows.savepoint, operators)
            for change in changes:
                sp = change.apply(sp, rows, change.name)
            return sp

        names = tuple(change.name for change in changes)
        told = {"portable": True} if base.only_own and base.own not in backends else {}
        made = self.write(base, plan, told, names if len(changes) == 1 else (), backends)
        if made is not None:
            for change in changes:
                change.expect(operators, change.name)
            yield Written(self.release, base, names, made, operators, backends)
        elif len(changes) > 1:
            for change in changes:
                yield from self.changed(base, path, [change], backends)

    def write(
        self,
        base: Base,
        plan: Callable[[], Savepoint],
        told: dict[str, Any],
        cells: tuple[str, ...],
        backends: tuple[str, ...] = (),
    ) -> Path | None:
        """The folder that was written; None, and errors of the cells, where it was not."""
        new = self.path()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                plan().write(str(new), **told)
                if self.both:
                    self.compare(plan, told, new)
        except Exception as error:
            for name in cells:
                for backend in backends or (base.own, base.other):
                    cell = Cell(self.release, base.name, backend, name)
                    self.results.setdefault(cell.name, {"error": f"not written: {str(error)[:1000]}"})
            print(f"  {base.name}: {', '.join(cells) or 'all changes'} not written: {str(error)[:500]}", flush=True)
            return None
        return new

    def compare(self, plan: Callable[[], Savepoint], told: dict[str, Any], new: Path) -> None:
        """Write the same with Spark; raise AssertionError if its content differs from what this process wrote."""
        other = self.path()
        self.engine = SPARK
        try:
            plan().write(str(other), **told)
        finally:
            self.engine = LOCAL
        if lines := parted(new, other):
            raise AssertionError(f"with Spark it differs: {'; '.join(lines)[:2000]}")
        same, count = same_bytes(new, other)
        self.same = [self.same[0] + same, self.same[1] + count]
        shutil.rmtree(other)

    def for_release(self, bases: list[Base]) -> Iterator[Written]:
        """Bases of the newest release, written for this one."""
        self.newest.make(bases)
        version = ".".join(self.release.split(".")[:2])
        for base in bases:
            operators = self.before(base, UNTOUCHED, self.newest.found)
            told = {"flink_version": version, "portable": True}
            plan = partial(self.load, self.newest.paths[base.name])
            made = self.write(base, plan, told, (FOR_RELEASE,))
            if made is not None:
                yield Written(self.release, base, (), made, operators, (base.own, base.other), (FOR_RELEASE,))

    # -- restoring ---------------------------------------------------------------------------------------

    def restored(self, written: list[Written]) -> list[Written]:
        """Run Flink to restore, and compare; return what was not restored correctly, by backend."""
        planned = [(each, backend) for each in written for backend in each.backends]
        jobs = [each.job(backend, number) for number, (each, backend) in enumerate(planned)]
        answers = evolve(self.release, self.folder / "restore", jobs, CLUSTER, timeout=3600) if jobs else []
        again = []
        for (each, backend), answer in zip(planned, answers, strict=True):
            problem = self.compared(each, backend, answer)
            if problem is not None:
                shown = ", ".join(each.changes + each.shows)[:80]
                print(f"  {each.base.name} on {backend}, {shown}: {problem[:1000]}", flush=True)
                if len(each.changes) > 1:
                    again.append(replace(each, backends=(backend,)))
                else:
                    for cell in each.cells(backend):
                        self.results[cell.name] = {"error": problem[:1500]}
        return again

    def compared(self, each: Written, backend: str, answer: dict[str, Any]) -> str | None:
        """What is wrong, or None and the number of values in each cell."""
        if "found" not in answer:
            return str(answer.get("error", answer))
        expected = {
            "operators": [
                {
                    "uid": uid,
                    "states": [{"name": name, "entries": entries} for name, entries in operator.entries.items()],
                }
                for uid, operator in each.operators.items()
            ]
        }
        lines = differences(expected, answer["found"])
        names = {f"{uid}/{state}" for uid, states in answer["found"].items() for state in states}
        known = {f"{uid}/{state}" for uid, operator in each.operators.items() for state in operator.entries}
        lines += [f"{name}: not told of" for name in sorted(names ^ known)]
        if lines:
            return "; ".join(lines)
        for cell in each.cells(backend):
            own = [uid for uid in each.operators if change_of(uid) == cell.change]
            counted = own if cell.change in each.changes else list(each.operators)
            values = sum(len(found) for uid in counted for found in answer["found"][uid].values())
            self.results.setdefault(cell.name, {"values": values})
        return None

    def one_by_one(self, failed: Written, paths: dict[str, Path]) -> Iterator[Written]:
        """Try each change of a savepoint that was not restored in a separate savepoint."""
        for name in failed.changes:
            yield from self.changed(failed.base, paths[failed.base.name], [CHANGES[name]], failed.backends)


def run(
    spark: SparkSession,
    writer: str,
    releases: list[str],
    newest: Newest,
    folder: Path,
    changes: list[str],
    bases: list[str],
    engine: str = SPARK,
) -> Iterator[Results]:
    """The results of the releases that restore the bases of one, by cell; those of a release as soon as it is done."""
    bench = Bench(spark, writer, newest, folder, changes, engine)
    try:
        yield from bench.run([BASES[name] for name in bases], releases)
        if bench.both:
            print(f"  {bench.same[0]} of {bench.same[1]} state files have the same bytes with and without Spark")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
