"""Migration of a snapshot to another release of Flink, without Spark: the code behind all faces of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from typing import TypedDict

from pyspark_savepoint.formats.errors import UnsupportedStateError
from pyspark_savepoint.formats.metadata import OperatorState, OperatorSubtaskState
from pyspark_savepoint.formats.snapshot.changes import assemble, metadata_version
from pyspark_savepoint.formats.snapshot.publication import Staging
from pyspark_savepoint.formats.snapshot.relocation import Relocation
from pyspark_savepoint.formats.snapshot.savepoint import Savepoint
from pyspark_savepoint.local.copying import publish, to_free_path
from pyspark_savepoint.options.paths import path_text
from pyspark_savepoint.statebackends.migration.migrated_files import MigratedOperator
from pyspark_savepoint.statebackends.migration.migration_check import DEFAULT_VALUES, check_plans
from pyspark_savepoint.statebackends.migration.migration_plan import (
    Knowledge,
    OperatorPlan,
    expect_known,
    plan_migration,
)
from pyspark_savepoint.statebackends.migration.verdicts import MigrationCheck, PartVerdict
from pyspark_savepoint.statebackends.type_extraction import Release

#: Verdicts that an error lists; its text is bounded.
LISTED = 6
Paths = str | PathLike[str] | Sequence[str | PathLike[str]] | None


class MigrationArguments(TypedDict, total=False):
    """What is known of the new job."""

    classes: Paths
    types: Mapping[str, str] | None
    types_from: str | PathLike[str] | None


@dataclass(frozen=True)
class Migration:
    """A migration of a snapshot, not written yet."""

    source: Savepoint
    knowledge: Knowledge
    drop: frozenset[str] = frozenset()
    as_is: frozenset[str] = frozenset()

    def check(self, values: int | None = DEFAULT_VALUES) -> MigrationCheck:
        """Return the verdicts about all parts; ``values`` of each state are looked at, None: all."""
        return check_plans(self._plans(), values)

    def _plans(self) -> list[OperatorPlan]:
        plans = plan_migration(self.source, self.knowledge)
        expect_known(plans, self.drop, "drop")
        expect_known(plans, self.as_is, "as_is")
        return plans

    def write(self, path: str) -> None:
        """Write the migrated savepoint to a free path; raise UnsupportedStateError, before, if anything hinders."""
        plans = self._plans()
        hindered = [
            part
            for part in check_plans(self._wanted(plans)).missing
            if not part.ref.is_named(self.drop) and not part.ref.is_named(self.as_is)
        ]
        if hindered:
            raise _hindered(hindered, self.source)
        staging = to_free_path(path)
        relocation = Relocation(f"{staging.token}-copy")

        def assembled() -> list[OperatorState]:
            return [self._migrated(plan, place, staging, relocation) for place, plan in enumerate(plans)]

        # The version says which Kryo wrote the values: readers of the savepoint go by it.
        version = metadata_version(self.knowledge.release.version)
        publish(staging, lambda: assemble(assembled(), [self.source.metadata], version), relocation)

    def _wanted(self, plans: Iterable[OperatorPlan]) -> list[OperatorPlan]:
        """Return the plans without the states that are left out or as they are."""
        return [plan.without(self.drop | self.as_is) for plan in plans]

    def _migrated(self, plan: OperatorPlan, place: int, staging: Staging, relocation: Relocation) -> OperatorState:
        files = MigratedOperator(plan, self.drop, self.as_is, staging, f"{place}-")
        operator = plan.operator
        keyed, listed = files.changes_keyed_state, files.changes_operator_state
        moved = keyed and files.moves_timers

        def left(subtask: OperatorSubtaskState) -> OperatorSubtaskState:
            return replace(
                subtask,
                managed_keyed_state=None if keyed else subtask.managed_keyed_state,
                raw_keyed_state=None if moved else subtask.raw_keyed_state,
                managed_operator_state=None if listed else subtask.managed_operator_state,
            )

        kept = replace(operator, subtasks={index: left(subtask) for index, subtask in operator.subtasks.items()})
        copied = relocation.copied(self.source, kept)
        subtasks = dict(copied.subtasks)
        for index, handle in (files.keyed_state() if keyed else {}).items():
            subtasks[index] = replace(subtasks[index], managed_keyed_state=handle)
        for index, written in (files.operator_state() if listed else {}).items():
            subtasks[index] = replace(subtasks[index], managed_operator_state=written)
        return replace(copied, subtasks=subtasks)


def migration_of(
    source: Savepoint,
    flink: str,
    *,
    classes: Paths = None,
    types: Mapping[str, str] | None = None,
    types_from: Savepoint | None = None,
    drop: Iterable[str] | None = None,
    as_is: Iterable[str] | None = None,
) -> Migration:
    """Return a migration to a release, such as 2.3, with what is known of the new job."""
    paths = [classes] if isinstance(classes, str | PathLike) else list(classes or ())
    located = tuple(path_text(path) for path in paths)
    knowledge = Knowledge(Release.parse(flink), located, dict(types or {}), types_from)
    return Migration(source, knowledge, names_of(drop), names_of(as_is))


def names_of(given: Iterable[str] | None) -> frozenset[str]:
    """Return the names of an argument: of one state, or of several."""
    return frozenset([given] if isinstance(given, str) else given or ())


def _hindered(parts: Sequence[PartVerdict], source: Savepoint) -> UnsupportedStateError:
    """Return the error that lists what is missing."""
    lines = [f"{part.ref.label}{' ' + part.part if part.part else ''}: {part.reason}" for part in parts[:LISTED]]
    remedies = dict.fromkeys(part.remedy for part in parts if part.remedy)
    more = f"; and {len(parts) - LISTED} more, which check_migration lists" if len(parts) > LISTED else ""
    return UnsupportedStateError(
        f"{len(parts)} part{'' if len(parts) == 1 else 's'} of the state cannot be migrated with the given types "
        "and classes; nothing was written",
        path=source.path,
        found="; ".join(line[:240] for line in lines) + more,
        remedy="; or: ".join(list(remedies)[:3]) + "; or leave the states out (drop), or as they are (as_is)",
    )
