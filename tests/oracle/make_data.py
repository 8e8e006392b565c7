"""Makes the data sets of `tests/data` anew: real Flink runs the jobs in `java/data`.

    python -m tests.oracle.make_data lab 2.2.1 rocksdb canonical
    python -m tests.oracle.make_data lab 2.3.0 hashmap canonical --compressed
    python -m tests.oracle.make_data lab 2.2.1 hashmap canonical --job sql
    python -m tests.oracle.make_data history 2.3.0 rocksdb-incr --steps=20
    python -m tests.oracle.make_data migration 1.20.5 cases --backend rocksdb --only 'pojo-.*'
    python -m tests.oracle.make_data bytes 2.3.0
    python -m tests.oracle.make_data connectors 2.3.0 files txnsink
    python -m tests.oracle.make_data real kryo-120

Results are in `build/data/SET/CASE`, or below `--out`; `python -m tests.data pack` makes archives of them. The packages
and classes of the jobs (`flinklab`, `miglab`, `connlab`, `rd`) are in the bytes of the state, so that they keep their
names.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tests.oracle.flink import (
    JAVA,
    FlinkError,
    cache_folder,
    class_path,
    command_line,
    fetch,
    filled_at_once,
    jdk_tool,
    why_it_failed,
)

JOBS = JAVA / "data"
#: What jobs with classes of the JDK reach by reflection, beside what the harness opens.
OPENED = (
    "java.base/java.io",
    "java.base/java.util.concurrent.locks",
    "java.base/java.util.regex",
    "java.base/java.nio.charset",
    "java.base/sun.util.calendar",
    "java.base/sun.nio.cs",
    "java.sql/java.sql",
)


@dataclass(frozen=True)
class Jobs:
    """Packages of jobs that are compiled together, and what they need beside Flink's base jars."""

    packages: tuple[str, ...]
    sql: bool = False
    #: Sources that are left out, since they need jars that the others do not.
    without: tuple[str, ...] = ()
    #: Other text in sources, by name; white space does not count in what is replaced.
    changes: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    jars: tuple[Path, ...] = ()

    def sources(self, version: str) -> dict[str, str]:
        """The text of each source for a release, by its path."""
        roots = [JOBS / "common", JOBS / f"flink{version.partition('.')[0]}", *[JOBS / "kafka"] * bool(self.jars)]
        paths = sorted(path for root in roots for name in self.packages for path in (root / name).glob("*.java"))
        found = {}
        for path in (path for path in paths if path.stem not in self.without):
            text = path.read_text("utf-8").replace(".LEGACY.", "." if version.startswith("1.") else ".legacy.")
            found[str(path.relative_to(JOBS))] = changed(text, self.changes.get(path.stem, {}))
        return found

    def class_path(self, version: str) -> list[Path]:
        """What the jobs run with, compiled the first time."""
        jars = [*self.jars, *fetch(version, sql=self.sql)]
        sources = self.sources(version)
        mark = hashlib.sha256(json.dumps([sources, list(map(str, self.jars))]).encode()).hexdigest()[:12]
        folder = cache_folder() / "classes" / f"data-{version}-{mark}"
        if not folder.exists():
            with tempfile.TemporaryDirectory() as name, filled_at_once(folder) as scratch:
                paths = [Path(name) / path for path in sources]
                for path, text in zip(paths, sources.values(), strict=True):
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_text(text, "utf-8")
                command = [jdk_tool("javac"), "-nowarn", "-Xlint:none", "-proc:none", "-d", str(scratch)]
                command += ["-encoding", "UTF-8", "-cp", class_path(jars), *map(str, paths)]
                done = subprocess.run(command, capture_output=True, text=True, check=False)
                if done.returncode:
                    raise FlinkError(f"the jobs do not compile for Flink {version}:\n{done.stderr}")
        return [folder, *jars]

    def run(self, version: str, main: str, arguments: Sequence[str], *, wanted: Path, timeout: float = 3600) -> None:
        """Run a main class to its end; `wanted` is a file that it writes, at the latest then."""
        java, *options = command_line(version, main, arguments, heap="1500m")
        options[options.index("-cp") + 1] = class_path(self.class_path(version))
        opened = [f"--add-opens={package}=ALL-UNNAMED" for package in OPENED]
        done = subprocess.run(
            [java, *opened, *options], capture_output=True, encoding="utf-8", timeout=timeout, check=False
        )
        if done.returncode or not wanted.exists():
            reason = why_it_failed(done.stderr + done.stdout)
            raise FlinkError(f"{main} on Flink {version} ended with {done.returncode}:\n    {reason}")


def changed(text: str, changes: Mapping[str, str]) -> str:
    """A source with other text; white space does not count in what is replaced."""
    for old, new in changes.items():
        pattern = r"\s*".join(map(re.escape, re.findall(r"\w+|[^\w\s]", old)))
        text, count = re.subn(pattern, lambda _, new=new: new, text)  # type: ignore[misc]
        if not count:
            raise FlinkError(f"the jobs have no {old}")
    return text


@dataclass
class Running:
    """A job of real Flink that keeps its newest checkpoints, and takes the next one when it may.

    Args:
        folder: Where it writes: ``checkpoints``, and ``truth`` with what each has.
        version: Flink's.
        steps: How many checkpoints it takes.
        arguments: More of those of the job.

    """

    folder: Path
    version: str
    steps: int
    arguments: Sequence[str] = ()
    retained: int = 3
    allowed: int = 0

    def __post_init__(self) -> None:
        """Start the job."""
        self.folder.mkdir(parents=True)
        self._steps = empty(self.folder / "allowed")
        kept = [f"--out={self.folder}", "--backend=rocksdb-incr", f"--retained={self.retained}"]
        arguments = [*kept, f"--steps={self.steps}", f"--allowed={self._steps}", *self.arguments]
        self._thread = threading.Thread(
            target=LAB.run,
            args=(self.version, "flinklab.History", arguments),
            kwargs={"wanted": self.folder / "history.json"},
            daemon=True,
        )
        self._thread.start()

    def allow(self, count: int) -> None:
        """Let the job take some more checkpoints, without waiting for them."""
        for _ in range(count):
            (self._steps / str(self.allowed)).touch()
            self.allowed += 1

    def take(self) -> int:
        """Return the number of the next checkpoint when it is there, and older ones are deleted."""
        self.allow(1)
        while True:
            taken, there = self.taken(), [*self.folder.glob("checkpoints/*/chk-*")]
            if len(taken) == self.allowed and len(there) <= self.retained:
                return int(taken[-1]["id"])
            if not self.running:
                raise FlinkError(f"the job ended before checkpoint {self.allowed} of {self.steps}")
            time.sleep(0.1)

    def taken(self) -> list[dict[str, Any]]:
        """The checkpoints that the job has taken, as it writes them down: it replaces the file."""
        with suppress(FileNotFoundError, json.JSONDecodeError):
            found: list[dict[str, Any]] = json.loads((self.folder / "history.json").read_text())["checkpoints"]
            return found
        return []

    @property
    def running(self) -> bool:
        """Whether the job runs."""
        return self._thread.is_alive()

    def end(self) -> list[dict[str, Any]]:
        """Wait until the job has taken all that it may, and ends; return its checkpoints."""
        self.allow(self.steps - self.allowed)
        self._thread.join()
        return self.taken()


LAB = Jobs(("flinklab",), sql=True)
CASES = Jobs(("flinklab", "miglab"), without=("Flow", "Sql", "History", "SavepointGen", "SqlJob"))
FLOWS = Jobs(("flinklab", "miglab"), sql=True)
CONNECTORS = Jobs(("flinklab", "connlab"), sql=True, without=("History", "SavepointGen", "SqlJob"))
OF_KRYO = Jobs(("rd",), without=("OpsJob",))
OF_OPERATORS = Jobs(("rd",), sql=True)
#: What Flink 1.10 has.
OF_1_10 = Jobs(("rd",), without=("OpsJob", "KryoJob", "HoldSource"))
#: Jobs of data set ``connectors``, and when they are stopped: name of the case to job and arguments.
CONNECTOR_CASES = {
    "seq": ("seq", ["--after=150"]),
    "datagen": ("datagen", ["--after=150"]),
    "files": ("files", ["--after=150"]),
    "files-continuous": ("files-continuous", ["--after=150"]),
    "hybrid-first": ("hybrid", ["--after=100"]),
    "hybrid-second": ("hybrid", ["--after=300"]),
    "filesink": ("filesink", ["--after=230", "--checkpoints=400"]),
    "streamingfilesink": ("streamingfilesink", ["--after=230", "--checkpoints=400"]),
    "txnsink": ("txnsink", ["--after=20", "--hold"]),
    "async": ("async", ["--after=12", "--hold"]),
    "kafka": ("KafkaJob", ["--after=300"]),
}
#: Cases of data set ``real``: release, what is compiled, main class, arguments.
REAL_JOBS = {
    "kryo-120": ("1.20.5", OF_KRYO, "rd.KryoJob", ["--backend=rocksdb"]),
    "ops-120": ("1.20.5", OF_OPERATORS, "rd.OpsJob", ["--backend=hashmap"]),
    "old-110-incr": (
        "1.10.3",
        OF_1_10,
        "rd.BaseJob",
        ["--backend=rocksdb-incr", "--mode=chk", "--periodic", "--interval=3000"],
    ),
}
#: Main class of each part of data set ``migration``, and the file that it writes last.
MIGRATION_PARTS = {
    "cases": ("miglab.MigLab", "results.json"),
    "flows": ("miglab.Flow", "flow-results.json"),
    "sql": ("miglab.Sql", "sql-results.json"),
}


def empty(folder: Path) -> Path:
    """A folder with nothing in it."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder.resolve()


def without_scratch(folder: Path) -> Path:
    """Remove what only the running job needed."""
    for name in ("tmp", "rocks"):
        shutil.rmtree(folder / name, ignore_errors=True)
    return folder


def make_lab(told: argparse.Namespace) -> list[Path]:
    """A savepoint or retained checkpoint of the job with every kind of state, or of SQL."""
    parts = [told.version, told.backend, told.format, *["compressed"] * told.compressed]
    parts += [f"maxp{told.max_parallelism}"] * (told.max_parallelism != 128) + ["sql"] * (told.job == "sql")
    folder = empty(told.out / "lab" / "-".join(parts))
    arguments = [f"--out={folder}", f"--backend={told.backend}", f"--format={told.format}", f"--job={told.job}"]
    arguments += [f"--maxp={told.max_parallelism}", f"--parallelism={told.parallelism}"]
    arguments += ["--compress"] * told.compressed
    LAB.run(told.version, "flinklab.SavepointGen", arguments, wanted=folder / "expected.json")
    return [without_scratch(folder)]


def make_history(told: argparse.Namespace) -> list[Path]:
    """All retained checkpoints of a job, with the truth of each."""
    folder = empty(told.out / "history" / f"{told.version}-{told.backend}{told.suffix}")
    arguments = [f"--out={folder}", f"--backend={told.backend}", *told.arguments]
    LAB.run(told.version, "flinklab.History", arguments, wanted=folder / "history.json")
    return [without_scratch(folder)]


def make_migration(told: argparse.Namespace) -> list[Path]:
    """Savepoints of cases, flows or SQL: a folder for each, with one for the release and backend."""
    main, results = MIGRATION_PARTS[told.part]
    made = []
    with tempfile.TemporaryDirectory() as name:
        scratch, jobs = Path(name), CASES if told.part == "cases" else FLOWS
        arguments = ["gen", f"--out={scratch}", f"--backend={told.backend}", f"--only={told.only}"]
        jobs.run(told.version, main, arguments, wanted=scratch / results)
        for metadata in sorted(scratch.rglob("_metadata")):
            case = metadata.parents[1]
            folder = told.out / "migration" / told.part / case.name
            target = folder / f"{told.version}-{told.backend}"
            shutil.copytree(metadata.parent, empty(target), dirs_exist_ok=True)
            if (case / "expected.json").exists():
                shutil.copy(case / "expected.json", folder)
            made.append(target)
    return made


def make_bytes(told: argparse.Namespace) -> list[Path]:
    """What a release's serializers write of the values of all cases, and the class files of the values."""
    out = told.out / "migration"
    out.mkdir(parents=True, exist_ok=True)
    written = out.resolve() / f"bytes-{told.version}.json"
    CASES.run(told.version, "miglab.MigLab", ["bytes", f"--out={written}"], wanted=written)
    classes = empty(out / "classes" / "miglab")
    for name in ("Model*.class", "MyKryo.class"):
        for path in (CASES.class_path(told.version)[0] / "miglab").glob(name):
            shutil.copy(path, classes)
    return [written]


def make_connectors(told: argparse.Namespace) -> list[Path]:
    """Savepoints of sources and sinks that were stopped in the middle, with the records that were emitted before."""
    jobs = replace(CONNECTORS, jars=tuple(Path(each) for each in told.jars))
    made = []
    for name in told.cases:
        job, more = CONNECTOR_CASES[name]
        folder = empty(told.out / "connectors" / f"{told.version}-{name}")
        with tempfile.TemporaryDirectory() as data:
            arguments = ["--mode=gen", f"--job={job}", f"--out={folder}", f"--data={data}", *more]
            jobs.run(told.version, "connlab.Run", arguments, wanted=folder / "expected.json")
        made.append(folder)
    return made


def make_real(told: argparse.Namespace) -> list[Path]:
    """A savepoint or checkpoint of a job with classes, CEP or windows."""
    version, jobs, main, arguments = REAL_JOBS[told.case]
    folder = empty(told.out / "real" / told.case)
    jobs.run(version, main, [f"--out={folder}", *arguments], wanted=folder / "path")
    (folder / "path").unlink()
    return [without_scratch(folder)]


def arguments_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.oracle.make_data",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--out", type=Path, default=Path("build/data"), help="where data sets are written")
    sets = parser.add_subparsers(dest="set", required=True)
    lab = sets.add_parser("lab", help=make_lab.__doc__)
    lab.add_argument("version")
    lab.add_argument("backend", help="hashmap, rocksdb, rocksdb-incr, rocksdb-heaptimers, changelog, forst, ...")
    lab.add_argument("format", choices=("canonical", "native", "checkpoint"))
    lab.add_argument("--compressed", action="store_true")
    lab.add_argument("--job", choices=("stream", "sql"), default="stream")
    lab.add_argument("--max-parallelism", type=int, default=128)
    lab.add_argument("--parallelism", type=int, default=2)
    lab.set_defaults(make=make_lab)
    history = sets.add_parser("history", help=make_history.__doc__)
    history.add_argument("version")
    history.add_argument("backend")
    history.add_argument("--suffix", default="", help="behind the name of the folder")
    history.add_argument(
        "arguments", nargs=argparse.REMAINDER, help="--steps=12 --keys=400 --records=300 --retained=3 ..."
    )
    history.set_defaults(make=make_history)
    migration = sets.add_parser("migration", help=make_migration.__doc__)
    migration.add_argument("version")
    migration.add_argument("part", choices=MIGRATION_PARTS)
    migration.add_argument("--backend", default="hashmap")
    migration.add_argument("--only", default=".*", metavar="REGEX")
    migration.set_defaults(make=make_migration)
    written = sets.add_parser("bytes", help=make_bytes.__doc__)
    written.add_argument("version")
    written.set_defaults(make=make_bytes)
    connectors = sets.add_parser("connectors", help=make_connectors.__doc__)
    connectors.add_argument("version")
    connectors.add_argument("cases", nargs="+", choices=CONNECTOR_CASES)
    connectors.add_argument("--jars", nargs="*", default=[], help="of a Kafka connector and its client")
    connectors.set_defaults(make=make_connectors)
    real = sets.add_parser("real", help=make_real.__doc__)
    real.add_argument("case", choices=REAL_JOBS)
    real.set_defaults(make=make_real)
    return parser


def main() -> None:
    """Make what is asked for, and print where it is."""
    told = arguments_parser().parse_args()
    try:
        print(*told.make(told), sep="\n")
    except FlinkError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
