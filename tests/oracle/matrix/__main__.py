"""``python -m tests.oracle.matrix``: changes snapshots of every release, backend and format; Flink restores them.

Every value is compared. Results are kept by cell in a JSON file after each release, so that a run can be split:
``--resume`` leaves out what is there. Most of the time goes into changing bases: with ``--writers 1.16.3 2.0.2`` the
bases of a release are changed once, and restored by all releases up to the next writer. The table is printed, and with
``--record`` written into ``tests/RECORDS.md``.
The exit code is 1 if a cell was not restored.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

from pyspark.sql import SparkSession

from tests.oracle.flink import compile_harness, newest_version
from tests.oracle.matrix.bases import BASES
from tests.oracle.matrix.cells import ENGINES, NAMES, SPARK, Cell, Newest, Results, run
from tests.oracle.matrix.table import BEGIN, END, RECORDS, RELEASES, by_number, printed


def session() -> SparkSession:
    """A session as the tests have it."""
    conf = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.log.level": "OFF",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    return SparkSession.builder.master("local[2]").config(map=conf).getOrCreate()


def main() -> int:
    """Run, keep the results, print the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.oracle.matrix", description=__doc__)
    parser.add_argument("--releases", nargs="*", default=list(RELEASES))
    parser.add_argument("--changes", nargs="*", choices=NAMES, default=list(NAMES), metavar="CHANGE")
    parser.add_argument("--bases", nargs="*", choices=BASES, default=list(BASES), metavar="BASE")
    parser.add_argument(
        "--engine",
        choices=ENGINES,
        default=SPARK,
        help="what changes and writes: Spark, this process without Spark, or both, whose savepoints must be equal",
    )
    parser.add_argument("--results", type=Path, default=None, help="by default build/matrix-ENGINE.json")
    parser.add_argument("--resume", action="store_true", help="leave out changes that the results have of all bases")
    parser.add_argument(
        "--writers",
        nargs="*",
        default=[],
        help="releases that write bases for those that follow; default: each its own",
    )
    parser.add_argument("--newest", default=None, help="the release that writes bases for others; default: the newest")
    parser.add_argument("--record", action="store_true", help="write the table into tests/RECORDS.md")
    args = parser.parse_args()
    args.results = args.results or Path(f"build/matrix-{args.engine}.json")
    results: Results = json.loads(args.results.read_text("utf-8")) if args.results.exists() else {}
    with tempfile.TemporaryDirectory(prefix="savepoint-matrix-") as folder:
        newest = Newest(args.newest or newest_version(), Path(folder) / "newest")
        for writer, releases in lines(args.releases, args.writers).items():
            wanted = {
                name: [
                    release
                    for release in releases
                    if not (args.resume and is_there(results, release, name, args.bases))
                ]
                for name in args.changes
            }
            changes = [name for name, missing in wanted.items() if missing]
            restoring = [release for release in releases if any(release in missing for missing in wanted.values())]
            for release in restoring:
                compile_harness(release)
            begin = time.monotonic()
            for new in run(
                session(), writer, restoring, newest, Path(folder) / writer, changes, args.bases, args.engine
            ):
                results |= new
                args.results.parent.mkdir(parents=True, exist_ok=True)
                args.results.write_text(json.dumps(results, indent=0), "utf-8")
                failed = sum("error" in result for result in new.values())
                taken = time.monotonic() - begin
                print(f"{writer}: {len(new)} cells in {taken:.0f} s, {failed} not restored", flush=True)
    table = printed(results)
    print(table)
    if args.record:
        text = RECORDS.read_text("utf-8")
        before, _, rest = text.partition(BEGIN)
        RECORDS.write_text(f"{before}{BEGIN}\n{table}\n{END}{rest.partition(END)[2]}", "utf-8")
    return any("error" in result for result in results.values())


def lines(releases: list[str], writers: list[str]) -> dict[str, list[str]]:
    """The releases that restore the bases of each writer: the newest writer that is no newer; by default their own."""
    chosen: dict[str, list[str]] = {}
    for release in sorted(releases, key=by_number):
        older = [writer for writer in writers if by_number(writer) <= by_number(release)]
        chosen.setdefault(max(older, key=by_number, default=release), []).append(release)
    return chosen


def is_there(results: Results, release: str, change: str, bases: list[str]) -> bool:
    """Whether a change of a release was restored, for all bases."""
    return all("values" in results.get(Cell(release, base, BASES[base].own, change).name, {}) for base in bases)


if __name__ == "__main__":
    sys.exit(main())
