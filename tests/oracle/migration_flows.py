"""Real Flink continues from migrated savepoints: jobs of windows, timers, joins, CEP and SQL emit what 1.20.5 emits.

    python -m tests.oracle.migration_flows [--releases 2.3.0] [--backend hashmap] [--jobs flow sql kryo]

1.20.5 runs every job of data set ``migration`` half way and takes a savepoint; it goes on from there, and
so does each release from the migrated one. Both must emit the same. The keys of flows are UUIDs, which Kryo writes:
they are in all keyed state, windows and timers. Of job ``kryo`` of the harness all entries are compared. Ends with 1
where a job is refused, fails, or emits something else.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pyspark_savepoint.engines.migrating import migration_of
from pyspark_savepoint.formats.errors import SavepointError
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from tests.oracle.compare import differences
from tests.oracle.flink import Case, compile_harness, generate, restore
from tests.oracle.make_data import FLOWS

WRITER = "1.20.5"
JOBS = {"flow": ("Flow", "flow-results.json", "flows"), "sql": ("Sql", "sql-results.json", "queries")}
#: Jobs of the harness whose state is read back after the restore.
TABLES = ("kryo",)
#: Keys that Kryo writes, in place of numbers.
KEYS = {
    "KeySelector<Long, Long> { @Override public Long getKey(Long v) { return v % 3; } }": (
        "KeySelector<Long, UUID> { @Override public UUID getKey(Long v) { return new UUID(7, v % 3); } }"
    ),
    "KeySelector<Tuple2<String, Long>, Long> { @Override public Long getKey(Tuple2<String, Long> v) "
    "{ return v.f1 % 3; } }": (
        "KeySelector<Tuple2<String, Long>, UUID> { @Override public UUID getKey(Tuple2<String, Long> v) "
        "{ return new UUID(7, v.f1 % 3); } }"
    ),
    "ProcessWindowFunction<Long, String, Long, W>": "ProcessWindowFunction<Long, String, UUID, W>",
    "public void process(Long k,": "public void process(UUID k,",
    "KeyedProcessFunction<Long, Long, String>": "KeyedProcessFunction<UUID, Long, String>",
}
#: The jobs with keys of Kryo's.
KEYED_BY_UUID = replace(FLOWS, changes={"Flow": KEYS})
#: Outputs by job, or what went wrong.
Emitted = Mapping[str, Any]


def run(version: str, job: str, what: str, backend: str, only: str, out: Path, given: Path | None = None) -> Emitted:
    """Run the jobs of one kind in one JVM; return the results by job."""
    main, file, name = JOBS[job]
    arguments = [what, f"--backend={backend}", f"--out={out}", f"--only={only}"]
    arguments += [f"--in={given}"] if given is not None else []
    KEYED_BY_UUID.run(version, f"miglab.{main}", arguments, wanted=out / file)
    results: dict[str, Emitted] = json.loads((out / file).read_text("utf-8"))
    return results[name]


def migrated(old: Path, new: Path, release: str) -> dict[str, str]:
    """Write the migrated savepoints of a folder; return why not, by job."""
    refused, classes = {}, [KEYED_BY_UUID.class_path(WRITER)[0]]
    for folder in sorted(old.iterdir()):
        if (folder / "savepoint" / "_metadata").exists():
            source = Snapshot.open(str(folder / "savepoint"))
            try:
                migration_of(source, release, classes=classes).write(str(new / folder.name / "savepoint"))
            except SavepointError as error:
                refused[folder.name] = str(error)[:300]
    return refused


def said(result: Mapping[str, Any] | None) -> Any:
    """Return the output of a job, in any order, or the message of its failure."""
    if result is None:
        return "not run"
    return sorted(result["out"]) if "out" in result else str(result.get("message"))[:200]


def compare(job: str, releases: list[str], backend: str, only: str, scratch: Path) -> int:
    """Run the jobs of one kind; print a line for each that differs, and return their number."""
    old = scratch / "old"
    run(WRITER, job, "gen", backend, only, old)
    expected = run(WRITER, job, "check", backend, only, scratch / "expected", old)
    failed = 0
    for release in releases:
        new = scratch / release
        refused = migrated(old, new, release.rpartition(".")[0])
        found = run(release, job, "check", backend, only, scratch / f"{release}-found", new)
        equal = rows = silent = 0
        for name, result in expected.items():
            wanted = said(result)
            got = refused.get(name) or said(found.get(name))
            if isinstance(wanted, str):
                print(f"{release} {name}: not comparable, for {WRITER} itself: {wanted}")
            elif wanted == got:
                equal += 1
                rows += len(wanted)
                silent += not wanted
            else:
                failed += 1
                print(f"{release} {name}: {len(wanted)} rows wanted\n  {str(wanted)[:300]}\n  {str(got)[:300]}")
        print(
            f"{WRITER} -> {release}, {backend}: {equal} of {len(expected)} {job} jobs emit the same, {rows} rows; "
            f"{silent} of them nothing, as their state of the first half has all that the second one brings",
            flush=True,
        )
    return failed


def harness(job: str, releases: list[str], backend: str, scratch: Path) -> int:
    """Migrate and restore a job of tables of the harness; print what differs from what it wrote."""
    old = generate(Case(WRITER, job, backend), scratch / "old")
    failed = 0
    for release in releases:
        new = scratch / f"{release}-migrated"
        source = Snapshot.open(str(old.path))
        migration_of(source, release.rpartition(".")[0], classes=[compile_harness(WRITER)]).write(str(new))
        found = restore(release, job, new, scratch / release, backend=backend)
        lines = differences(old.expected, found)
        failed += bool(lines)
        print(f"{WRITER} -> {release}, {backend}: job {job} of the harness: {'; '.join(lines)[:500] or 'equal'}")
    return failed


def main() -> int:
    """Run all that is asked for."""
    parser = argparse.ArgumentParser(prog="python -m tests.oracle.migration_flows", description=__doc__)
    parser.add_argument("--releases", nargs="*", default=["2.3.0"])
    parser.add_argument("--backend", default="hashmap")
    parser.add_argument("--jobs", nargs="*", choices=[*JOBS, *TABLES], default=[*JOBS, *TABLES])
    parser.add_argument("--only", default=".*", metavar="REGEX")
    args = parser.parse_args()
    failed = 0
    for job in args.jobs:
        with tempfile.TemporaryDirectory(prefix="savepoint-flows-") as scratch:
            if job in TABLES:
                failed += harness(job, args.releases, args.backend, Path(scratch))
            else:
                failed += compare(job, args.releases, args.backend, args.only, Path(scratch))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
