"""The snapshots that the matrix begins with: one of every backend and format, by each release."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.oracle.evolution import Job, evolve
from tests.oracle.flink import BACKENDS, CHANGELOG, PATIENCE
from tests.oracle.matrix.changes import KEYS, Operators, job_of

#: Settings that all jobs of a cluster share: a job cannot set where changes are logged.
CLUSTER = {**PATIENCE, **{name: value for name, value in CHANGELOG.items() if not name.endswith(".enabled")}}
HASHMAP, ROCKSDB = "hashmap", "rocksdb"


@dataclass(frozen=True)
class Base:
    """A snapshot: the backend that writes it, its format, and whether only that backend reads its files."""

    name: str
    backend: str
    format: str
    own: str
    only_own: bool = True

    @property
    def other(self) -> str:
        """The backend that did not write it."""
        return ROCKSDB if self.own == HASHMAP else HASHMAP

    def settings(self, backend: str) -> dict[str, Any]:
        """Return the configuration of a job that restores it, or a changed copy of it, on a backend."""
        conf: Mapping[str, str] = BACKENDS[self.backend if backend == self.own else backend]
        return {"stateBackend": backend, "conf": dict(conf)}


BASES = {
    base.name: base
    for base in (
        Base("hashmap canonical", "hashmap", "CANONICAL", HASHMAP, only_own=False),
        Base("hashmap native", "hashmap", "NATIVE", HASHMAP),
        Base("hashmap checkpoint", "hashmap", "CHECKPOINT", HASHMAP),
        Base("changelog checkpoint", "changelog", "CHECKPOINT", HASHMAP),
        Base("RocksDB canonical", "rocksdb", "CANONICAL", ROCKSDB, only_own=False),
        Base("RocksDB native", "rocksdb", "NATIVE", ROCKSDB),
        Base("RocksDB incremental checkpoint", "rocksdb-incremental", "CHECKPOINT", ROCKSDB),
    )
}


def generate(release: str, folder: Path, bases: list[Base], operators: Operators) -> dict[str, Path]:
    """Run a release to write the bases, all in one cluster."""
    jobs: list[Job] = []
    for number, base in enumerate(bases):
        path = folder / f"base-{number}"
        where = {} if base.format == "CHECKPOINT" else {"savepoint": str(path)}
        told = {"name": base.name, "held": "fill", "count": KEYS, "format": base.format, **where}
        jobs.append(job_of(operators, **told, **base.settings(base.own)))
    answers = evolve(release, folder / "generate", jobs, CLUSTER, timeout=1200)
    failed = {job["name"]: answer["error"] for job, answer in zip(jobs, answers, strict=True) if "error" in answer}
    if failed:
        raise RuntimeError(f"Flink {release} did not write its bases: {failed}")
    return {
        base.name: Path(answer.get("path", folder / f"base-{number}"))
        for number, (base, answer) in enumerate(zip(bases, answers, strict=True))
    }
