"""Makes the data sets of `tests/data` anew: real Flink runs the jobs in `java/data`.

    python -m tests.oracle.make_data lab 2.2.1 rocksdb canonical
    python -m tests.oracle.make_data lab 2.3.0 hashmap canonical --compressed
    python -m tests.oracle.make_data lab 2.2.1 hashmap canonical --job sql
    python -m tests.oracle.make_data history 2.3.0 rocksdb-incr --steps 20
    python -m tests.oracle.make_data migration 1.20.5 cases --backend rocksdb --only 'pojo-.*'
    python -m tests.oracle.make_data connectors 2.3.0 files txnsink
    python -m tests.oracle.make_data real kryo-120

Results are in `build/data/SET/CASE`, or below `--out`; `python -m tests.data pack` makes archives of them. The packages
and classes of the jobs (`flinklab`, `miglab`, `connlab`, `rd`) are in the bytes of the state, so that they keep their
names.
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

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
        """Run a main class to its end; `wanted` is the file that it writes last."""
        java, *options = command_line(version, main, arguments, heap="1500m")
        options[options.index("-cp") + 1] = class_path(self.class_path(version))
        opened = [f"--add-opens={package}=ALL-UNNAMED" for package in OPENED]
        done = subprocess.run(
            [java, *opened, *options], capture_output=True, encoding="utf-8", timeout=timeout, check=False
        )
        if not wanted.exists():
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


LAB = Jobs(("flinklab",), sql=True)
CASES = Jobs(("flinklab", "miglab"), without=("Flow", "Sql", "History", "SavepointGen", "SqlJob"))
FLOWS = Jobs(("flinklab", "miglab"), sql=True)
CONNECTORS = Jobs(("flinklab", "connlab"), sql=True, without=("History", "SavepointGen", "SqlJob"))
REAL = Jobs(("rd",), sql=True)
