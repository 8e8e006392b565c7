"""Savepoints of `oracle.Fleet`, packed with the class files of its POJOs: the fixtures in `savepoints/fleet`.

python -m tests.oracle.fleet 2.3.0 rocksdb canonical 2 tests/oracle/savepoints/fleet/2.3.0-rocksdb.tar.xz
python -m tests.oracle.fleet 1.20.5 hashmap native 1 tests/oracle/savepoints/fleet/1.20.5-hashmap-native.tar.xz
"""

from __future__ import annotations

import sys
import tarfile
import tempfile
from pathlib import Path

from pyspark_savepoint.command_line.warming import unpack
from tests.oracle import flink

#: Numbers that the source has given, and parallelism, of the first run and of the one that starts from its savepoint.
RUNS = (40, 2), (60, 3)
FIXTURES = Path(__file__).parent / "savepoints" / "fleet"


def taken(version: str, out: Path, backend: str, form: str, runs: int, staging: Path | None = None) -> Path:
    """Run the job once, or again from its savepoint with another parallelism; return the last savepoint."""
    savepoint: Path | None = None
    for run, (numbers, parallelism) in enumerate(RUNS[:runs], 1):
        savepoint = again(version, out / f"run-{run}", backend, form, savepoint, numbers, parallelism, staging)
    assert savepoint is not None
    return savepoint


def again(
    version: str,
    folder: Path,
    backend: str,
    form: str,
    savepoint: Path | None,
    numbers: int,
    parallelism: int,
    staging: Path | None = None,
) -> Path:
    """Run the job from a savepoint if there is one, until its source has given some numbers; return its savepoint."""
    folder.mkdir(parents=True)
    arguments = [f"--out={folder}", f"--numbers={numbers}", f"--parallelism={parallelism}", f"--format={form}"]
    arguments += [f"--staging={staging or folder / 'tmp'}"]
    arguments += [f"--conf={key}={value}" for key, value in {**flink.BACKENDS[backend], **flink.PATIENCE}.items()]
    arguments += [f"--snapshot={savepoint.as_uri()}"] if savepoint else []
    flink.run(version, "oracle.Fleet", arguments)
    return folder / "savepoint"


def unpacked(name: str, folder: Path) -> Path:
    """Unpack a fixture; return its folder, with `savepoint` and `classes`."""
    unpack(FIXTURES / f"{name}.tar.xz", folder)
    return folder


def pack(version: str, backend: str, form: str, runs: int, archive: Path) -> None:
    """Have Flink write a savepoint, and pack it with the class files."""
    # Paths of small states stay in their names.
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory(dir="/dev/shm") as staging:
        savepoint = taken(version, Path(folder), backend, form, runs, Path(staging))
        with tarfile.open(archive, "w:xz") as tar:
            for path in sorted(savepoint.iterdir()):
                tar.add(path, f"savepoint/{path.name}", filter=_anonymous)
            for path in sorted(flink.compile_harness(version).glob("oracle/Fleet$*.class")):
                tar.add(path, f"classes/oracle/{path.name}", filter=_anonymous)


def _anonymous(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = entry.mtime = 0
    entry.uname = entry.gname = ""
    return entry


if __name__ == "__main__":
    pack(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), Path(sys.argv[5]).absolute())
