"""Savepoints of `oracle.Fleet`, taken before and after the job was rescaled: those below `savepoints/fleet`.

python -m tests.oracle.fleet 2.3.0 OUT --backend rocksdb --format canonical
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

from tests.oracle import flink

#: Numbers that the source has given, and parallelism, of the first and the second run.
FIRST, SECOND = (40, 2), (60, 3)


def taken(version: str, out: Path, backend: str, form: str, runs: int = 2) -> Path:
    """Run the job, and again from its savepoint with another parallelism; return the last savepoint."""
    savepoint: Path | None = None
    for run, (numbers, parallelism) in enumerate((FIRST, SECOND)[:runs], 1):
        folder = out / f"run-{run}"
        folder.mkdir(parents=True)
        configuration: Mapping[str, str] = {**flink.BACKENDS[backend], **flink.PATIENCE}
        arguments = [f"--out={folder}", f"--numbers={numbers}", f"--parallelism={parallelism}", f"--format={form}"]
        arguments += [f"--staging={folder / 'tmp'}", *(f"--conf={key}={value}" for key, value in configuration.items())]
        arguments += [f"--snapshot={savepoint.as_uri()}"] if savepoint else []
        flink.run(version, "oracle.Fleet", arguments)
        savepoint = folder / "savepoint"
    assert savepoint is not None
    return savepoint


def main() -> None:
    """Take the savepoints that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("version")
    parser.add_argument("out", type=Path)
    parser.add_argument("--backend", default="rocksdb", choices=flink.BACKENDS)
    parser.add_argument("--format", default="canonical", choices=flink.FORMATS)
    parser.add_argument("--runs", type=int, default=2, help="1: without the run of another parallelism")
    arguments = parser.parse_args()
    print(taken(arguments.version, arguments.out.resolve(), arguments.backend, arguments.format, arguments.runs))


if __name__ == "__main__":
    main()
