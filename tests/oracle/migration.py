"""Real Flink restores migrated savepoints: 194 states that Flink 1 wrote, each a job of its own, values compared.

    python -m tests.oracle.migration [--writers 1.20.5] [--releases 2.2.1 2.3.0] [--backends hashmap rocksdb]
                                     [--runs 1.16.3/2.0.2/hashmap ...] [--cases REGEX] [--record]

The jobs are those of data set ``migration`` (``make_data``); one JVM runs all cases of a release and backend, without
allowNonRestoredState, and takes the next savepoint of each, which is compared with the migrated one. Savepoints of
1.20.5 are those of the data set; other writers run the jobs once, and their savepoints are kept beside Flink's jars.
Types come from class files and from the savepoints that 2.3.0 took of the same jobs. Ends with 1 where a case that was
migrated fails, or differs in what the check does not call lost.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import product
from pathlib import Path

from pyspark_savepoint.api.local_savepoint import open_savepoint
from pyspark_savepoint.engines.migrating import Migration, migration_of
from pyspark_savepoint.formats.errors import SavepointError
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.statebackends.migration.rewriting.verdicts import MigrationVerdict
from tests.data import unpacked
from tests.oracle.make_data import CASES

MIGRATION = unpacked() / "migration"
WRITER = "1.20.5"
RECORDS = Path(__file__).parents[1] / "RECORDS.md"
BEGIN, END = "<!-- migrations: printed by python -m tests.oracle.migration -->\n", "<!-- end of migrations -->"
DIFFERS = ("operator_change", "note", "added", "removed", "changed")
EQUAL, LOST, FAILED, REFUSED = "equal", "lost, as the check says", "fails or differs", "refused"
NEXT = "next savepoint differs"


def written(version: str, backend: str = "hashmap") -> Path:
    """The folder of the savepoints that a release of Flink 1 took of all cases, written the first time."""
    classes = CASES.class_path(version)[0]
    folder = classes.with_name(f"migration-savepoints-{backend}-{classes.name}")
    if not (folder / "results.json").exists():
        _run(version, "gen", backend, folder)
    return folder


def migration(case: str, backend: str = "hashmap", flink: str = "2.3", writer: str = WRITER) -> Migration:
    """The migration of a case, with all that is known."""
    folder = MIGRATION / "cases" / case
    old, new = folder / f"1.20.5-{backend}", folder / "2.3.0-hashmap"
    told = Snapshot.open(str(new)) if new.exists() else None
    if writer != WRITER:
        old = written(writer) / case / "savepoint"
    source = Snapshot.open(str(old if old.exists() else folder / "1.20.5-hashmap"))
    return migration_of(source, flink, classes=[MIGRATION / "classes"], types_from=told)


def migrated(
    cases: Iterable[str], folder: Path, backend: str = "hashmap", flink: str = "2.3", writer: str = WRITER
) -> dict[str, str]:
    """Write the migrated savepoints; return the verdict of the check for each case."""
    said = {}
    for case in cases:
        one = migration(case, backend, flink, writer)
        try:
            one.write(str(folder / case / "savepoint"))
        except SavepointError:
            said[case] = REFUSED
        else:
            lost = any(part.verdict is MigrationVerdict.IS_LOST for part in one.check().parts)
            said[case] = LOST if lost else EQUAL
    return said


def _run(version: str, what: str, backend: str, out: Path, *arguments: str) -> Mapping[str, Mapping[str, str]]:
    """Run the cases in one JVM; return outcome and message by case."""
    results = out / "results.json"
    CASES.run(version, "miglab.MigLab", [what, f"--backend={backend}", f"--out={out}", *arguments], wanted=results)
    found: dict[str, Mapping[str, Mapping[str, str]]] = json.loads(results.read_text("utf-8"))
    return found["cases"]


def restored(version: str, backend: str, folder: Path, out: Path, only: str = ".*") -> Mapping[str, Mapping[str, str]]:
    """Restore the savepoints in a folder with Flink; return outcome and message by case."""
    return _run(version, "check", backend, out, "--next", f"--in={folder}", f"--only={only}")


def outcomes(said: Mapping[str, str], found: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """Return the outcome of each case; a difference that the check announced is a loss."""
    made = {}
    for case, predicted in said.items():
        outcome = found[case]["outcome"] if case in found else REFUSED
        made[case] = (
            outcome
            if outcome in (EQUAL, REFUSED)
            else (LOST if predicted == LOST and outcome == "DIFFERENT" else FAILED)
        )
    return made


def next_differences(folder: Path, out: Path, cases: Iterable[str]) -> dict[str, str]:
    """What differs between a migrated savepoint and the one that Flink took after it was restored, by case."""
    found = {}
    for case in cases:
        old, new = (open_savepoint(each / case / "savepoint") for each in (folder, out))
        rows = [row for row in old.diff(new).rows() if any(row[name] for name in DIFFERS)]
        if rows:
            found[case] = "; ".join(str({name: row[name] for name in DIFFERS if row[name]}) for row in rows)
    return found


def table(lines: Iterable[str]) -> str:
    """The table of these lines; of two about the same run, the later one."""
    rows = {tuple(line.split("|")[1:3]): line for line in lines}
    heads = ("written by", "restored by", EQUAL, LOST, FAILED, REFUSED, NEXT)
    return (
        "\n".join([f"| {' | '.join(heads)} |", "| --- " * len(heads) + "|", *(rows[name] for name in sorted(rows))])
        + "\n"
    )


def main() -> int:
    """Run and print the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.oracle.migration", description=__doc__)
    parser.add_argument("--writers", nargs="*", default=[WRITER])
    parser.add_argument("--releases", nargs="*", default=["2.2.1", "2.3.0"])
    parser.add_argument("--backends", nargs="*", default=["hashmap", "rocksdb"])
    parser.add_argument("--runs", nargs="*", metavar="WRITER/RELEASE/BACKEND", help="these instead of all of them")
    parser.add_argument("--cases", default=".*", metavar="REGEX")
    parser.add_argument("--record", action="store_true", help="put the rows into tests/RECORDS.md")
    args = parser.parse_args()
    cases = sorted(path.name for path in (MIGRATION / "cases").iterdir() if re.fullmatch(args.cases, path.name))
    names = (EQUAL, LOST, FAILED, REFUSED)
    lines: list[str] = []
    failed = 0
    runs = [run.split("/") for run in args.runs or ()] or product(args.writers, args.releases, args.backends)
    with tempfile.TemporaryDirectory(prefix="savepoint-migration-") as name:
        for writer, release, backend in runs:
            folder = Path(name) / f"{writer}-{release}-{backend}"
            said = migrated(cases, folder, backend, release.rpartition(".")[0], writer)
            out = folder / "out"
            made = outcomes(said, restored(release, backend, folder, out, args.cases))
            later = next_differences(folder, out, (case for case, outcome in made.items() if outcome in (EQUAL, LOST)))
            shutil.rmtree(folder)
            count = Counter(made.values())
            cells = [*(str(count[each]) for each in names), str(len(later))]
            lines.append(f"| {writer} | {release}, {backend} | {' | '.join(cells)} |")
            print(lines[-1], flush=True)
            failed += count[FAILED]
            for case, outcome in made.items():
                if outcome in (FAILED, LOST):
                    print(writer, release, backend, case, outcome, flush=True)
            for case, rows in later.items():
                print(writer, release, backend, case, NEXT, rows, flush=True)
    print(table(lines))
    if args.record:
        before, _, rest = RECORDS.read_text("utf-8").partition(BEGIN)
        kept, _, after = rest.partition(END)
        RECORDS.write_text(f"{before}{BEGIN}{table([*kept.splitlines()[2:], *lines])}{END}{after}", "utf-8")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
