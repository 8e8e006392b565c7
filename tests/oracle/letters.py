"""Snapshots of DataStream jobs of old and new releases: the data set `datastream` of `tests/data`.

    python -m tests.oracle.letters                       # all releases, and the archive
    python -m tests.oracle.letters --out FOLDER 1.20.5   # a release, into a folder

`oracle.Letters` has the jobs: keyed states and timers of functions and of operators, broadcast state, a serializer of
the job's own, operators that are known by their position, and sources with state. Releases are those at which
something changed: 1.10 (the first from PyPI), 1.13 (hashmap and the canonical savepoint of both backends), 1.15 (native
savepoints, metadata 4), 1.17, 1.20, and 2.3 (uids in the metadata).
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.data import pack
from tests.oracle import flink

RELEASES = ("1.10.3", "1.13.6", "1.15.4", "1.17.2", "1.20.5", "2.3.0")
#: Of these, every backend and format. Values of a job's own serializer can be told apart in files of RocksDB alone.
IN_FULL = {"udf": ("heap", "rocksdb"), "broadcast": ("heap", "rocksdb"), "custom": ("rocksdb",)}


def cases(version: str) -> Iterator[str]:
    """What a release writes: JOB/BACKEND/FORMAT."""
    numbers = tuple(map(int, version.split(".")))
    heap = "hashmap" if numbers >= (1, 13) else "filesystem"
    formats = ("savepoint", "native", "checkpoint") if numbers >= (1, 15) else ("savepoint", "checkpoint")
    for job, backends in IN_FULL.items():
        for backend in backends:
            for form in formats:
                yield f"{job}/{backend.replace('heap', heap)}/{form}"
    yield "udf/rocksdb_heap_timers/savepoint"
    if numbers >= (1, 15):
        yield "udf/changelog/checkpoint"
    yield f"by-position/{heap}/savepoint"
    yield f"by-position-keyed/{heap}/savepoint"


def write(version: str, out: Path, prefixes: list[str]) -> None:
    """Have a release write the folders `JOB-BACKEND-FORMAT-VERSION`."""
    wanted = [case for case in cases(version) if case.startswith(tuple(prefixes or [""]))]
    with tempfile.TemporaryDirectory() as scratch:
        flink.run(version, "oracle.Migrated", [scratch, *wanted], timeout=600)
        for folder in Path(scratch).iterdir():
            shutil.move(folder, out / f"{folder.name}-{'.'.join(version.split('.')[:2])}")


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.oracle.letters")
    parser.add_argument("versions", nargs="*", default=RELEASES)
    parser.add_argument("--cases", nargs="*", default=[], help="the beginnings of JOB/BACKEND/FORMAT")
    parser.add_argument("--out", type=Path, help="keep the snapshots here, and make no archive")
    told = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        out = told.out or Path(scratch)
        out.mkdir(parents=True, exist_ok=True)
        for version in told.versions:
            write(version, out, told.cases)
            print(version, "is written", flush=True)
        if told.out is None:
            print(pack("datastream", out))


if __name__ == "__main__":
    main()
