"""Migration of a snapshot to another release of Flink, without Spark: shared by the Python API and the command line."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike

from pyspark_savepoint.execution import progress
from pyspark_savepoint.execution.copying import publish, to_free_path
from pyspark_savepoint.formats.errors import OptionError, UnsupportedStateError
from pyspark_savepoint.formats.snapshot.changes import assemble, metadata_version
from pyspark_savepoint.formats.snapshot.relocation import Relocation
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.options.paths import path_text
from pyspark_savepoint.options.write_options import expect_release_text
from pyspark_savepoint.plan.engine import Pieces
from pyspark_savepoint.statebackends.migration.findings import StateFindings
from pyspark_savepoint.statebackends.migration.migration_check import verdicts_of
from pyspark_savepoint.statebackends.migration.migration_plan import Knowledge, expect_known, expect_types_fit
from pyspark_savepoint.statebackends.migration.migration_work import Planned, ScanWork, WriteWork
from pyspark_savepoint.statebackends.migration.rewriting.verdicts import MigrationCheck, PartVerdict
from pyspark_savepoint.statebackends.type_extraction import ExtractionRelease

#: Verdicts that an error lists; its text is bounded.
LISTED = 6
Paths = str | PathLike[str] | Sequence[str | PathLike[str]] | None


#: Runs all pieces of some work, and returns their results by their numbers.
Run = Callable[[Pieces], Mapping[int, bytes]]


def run_here(work: Pieces) -> dict[int, bytes]:
    """Run the pieces of some work in this process."""
    progress.detail("scanned" if isinstance(work, ScanWork) else "migrated")
    progress.parts(len(work.pieces))
    results: dict[int, bytes] = {}
    for number in range(len(work.pieces)):
        results[number] = work.run(number)
        progress.part_done()
    return results


@dataclass(frozen=True)
class Migration:
    """A migration of a snapshot, not written yet."""

    source: Snapshot
    knowledge: Knowledge
    drop: frozenset[str] = frozenset()
    as_is: frozenset[str] = frozenset()

    def check(self, run: Run = run_here) -> MigrationCheck:
        """Return the verdicts about all parts."""
        planned = Planned(self.source, self.knowledge)
        self._expect_known(self._planned() if self.drop or self.as_is else planned)
        return verdicts_of(planned.wanted, self._scanned(planned, run))

    def _planned(self) -> Planned:
        return Planned(self.source, self.knowledge, self.drop, self.as_is)

    def _expect_known(self, planned: Planned) -> None:
        expect_known(planned.plans, self.drop, "drop")
        expect_known(planned.plans, self.as_is, "as_is")
        expect_types_fit(planned.plans, self.knowledge)

    @staticmethod
    def _scanned(planned: Planned, run: Run) -> Mapping[int, Mapping[str, StateFindings]]:
        work = ScanWork(planned)
        return work.findings(run(work))

    def write(self, path: str, run: Run = run_here) -> MigrationCheck:
        """Write the migrated savepoint to a free path, and return the verdicts about its parts.

        Raises UnsupportedStateError before anything is written if a part cannot be.
        """
        planned = self._planned()
        self._expect_known(planned)
        staging = to_free_path(path)
        named = self.drop | self.as_is
        findings = self._scanned(planned, run)
        checked = verdicts_of(planned.wanted, findings)
        hindered = [part for part in checked.missing if not part.ref.is_named(named)]
        if hindered:
            raise _hindered(hindered, self.source)
        relocation = Relocation(f"{staging.token}-copy")
        work = WriteWork(planned.knowing(findings), replace(staging, begun=True))
        # Readers of the savepoint derive the version of Kryo from this version.
        version = metadata_version(self.knowledge.release.version)
        publish(
            staging,
            lambda: assemble(work.operators(run(work), relocation), [self.source.metadata], version),
            relocation,
        )
        return checked


def migration_of(
    source: Snapshot,
    flink: str,
    *,
    classes: Paths = None,
    types: Mapping[str, str] | None = None,
    types_from: Snapshot | None = None,
    kryo_types: str | None = None,
    drop: Iterable[str] | None = None,
    as_is: Iterable[str] | None = None,
) -> Migration:
    """Return a migration to a release, such as 2.3, with what is known of the new job."""
    expect_release_text(flink)
    paths = [classes] if isinstance(classes, str | PathLike) else list(classes or ())
    located = tuple(path_text(path) for path in paths)
    words = dict(types or {})
    for name, kind in words.items():
        if not (isinstance(name, str) and isinstance(kind, str)):
            raise OptionError(
                "types maps states to types in words", expected="texts", found=f"{name!r}: {kind!r}"[:200]
            )
    knowledge = Knowledge(ExtractionRelease.parse(flink), located, words, types_from, kryo_types or "")
    knowledge.described  # noqa: B018 (jars that are not there are an error now, not when a class is looked for)
    if both := names_of(drop) & names_of(as_is):
        raise OptionError("a state is left out (drop), or keeps its bytes (as_is), not both", found=min(both))
    return Migration(source, knowledge, names_of(drop), names_of(as_is))


def names_of(given: Iterable[str] | None) -> frozenset[str]:
    """Return the names of an argument: of one state, or of several."""
    names = [given] if isinstance(given, str) else list(given or ())
    for name in names:
        if not isinstance(name, str):
            raise OptionError("states are named by texts", found=repr(name)[:200])
    return frozenset(names)


def _hindered(parts: Sequence[PartVerdict], source: Snapshot) -> UnsupportedStateError:
    """Return the error that lists what is missing."""
    lines = [f"{part.label}: {part.reason}" for part in parts[:LISTED]]
    remedies = list(dict.fromkeys(part.remedy for part in parts if part.remedy))[:3]
    if not any("(drop)" in remedy for remedy in remedies):
        remedies.append("leave the states out (drop), or as they are (as_is)")
    more = f"; and {len(parts) - LISTED} more, which check_migration lists" if len(parts) > LISTED else ""
    return UnsupportedStateError(
        f"{len(parts)} part{'' if len(parts) == 1 else 's'} of the state cannot be migrated with the given types "
        "and classes; nothing was written",
        path=source.path,
        found="; ".join(line[:240] for line in lines) + more,
        remedy="; or: ".join(remedies),
    )
