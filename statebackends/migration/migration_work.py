"""Work of a migration, in pieces that run in any process, in any order: scans of values, and files to write.

Work can be pickled: it has the savepoint, knowledge about the new job, and the target path, and no open files. Each
process makes its own plans. Results are bytes: JSON of a scan, and a ``_metadata`` with the handle of a file that was
written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from pyspark_savepoint.formats.metadata import (
    VERSIONS,
    CheckpointMetadata,
    OperatorState,
    OperatorSubtaskState,
    read_metadata,
    write_metadata,
)
from pyspark_savepoint.formats.snapshot.publication import Staging
from pyspark_savepoint.formats.snapshot.relocation import Relocation
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.statebackends.migration.findings import StateFindings, from_json, merged, to_json
from pyspark_savepoint.statebackends.migration.migration_plan import Knowledge, OperatorMigration, plan_migration
from pyspark_savepoint.statebackends.migration.rewriting.verdicts import StateRef
from pyspark_savepoint.statebackends.migration.value_scan import Scan, ScanUnit, hidden_parts
from pyspark_savepoint.statebackends.sources.open_operator import OpenOperator

#: The version of metadata in which handles are returned: the newest, which has all kinds.
VERSION = max(VERSIONS)

if TYPE_CHECKING:
    from pyspark_savepoint.statebackends.migration.migrated_files import MigratedOperator


@dataclass(frozen=True)
class Planned:
    """Input of a migration: a savepoint, knowledge about the new job, states to leave out or to keep as they are."""

    savepoint: Snapshot
    knowledge: Knowledge
    drop: frozenset[str] = frozenset()
    as_is: frozenset[str] = frozenset()
    #: What values have shown: by the number of the operator, states and roles whose unlisted subclasses change.
    hidden: Mapping[int, frozenset[tuple[StateRef, str]]] = field(default_factory=dict)
    #: Opens an operator in this process, if its headers may have been read.
    opened: Callable[[OperatorState], OpenOperator] | None = field(default=None, repr=False, compare=False)

    @cached_property
    def plans(self) -> list[OperatorMigration]:
        """The plans of all operators."""
        return plan_migration(self.savepoint, self.knowledge, self.opened)

    @cached_property
    def wanted(self) -> list[OperatorMigration]:
        """The plans without the states that are left out or as they are."""
        names = self.drop | self.as_is
        return [plan.without(names) for plan in self.plans] if names else self.plans

    def unopened(self) -> Planned:
        """Return a copy without open files and cached results, for another process."""
        return replace(self, knowledge=replace(self.knowledge), opened=None)

    def knowing(self, findings: Mapping[int, Mapping[str, StateFindings]]) -> Planned:
        """Return the input with what values have shown.

        That is the form in which Kryo 2 wrote objects of inner classes, and unlisted subclasses with parts that change.
        ``findings`` are by the number of the operator.
        """
        hidden = {number: hidden_parts(self.wanted[number], states) for number, states in findings.items()}
        shown = (state.synthetic for states in findings.values() for state in states.values())
        synthetic = next((flag for flag in shown if flag is not None), None)
        knowledge = self.knowledge if synthetic is None else replace(self.knowledge, synthetic=synthetic)
        return replace(self, knowledge=knowledge, hidden=hidden)


@dataclass(frozen=True)
class ScanWork:
    """Scan of the values of all states that are migrated."""

    planned: Planned
    limit: int | None = None

    @cached_property
    def pieces(self) -> list[ScanUnit]:
        """The pieces, in order."""
        return Scan(self.limit).pieces(self.planned.wanted)

    def unopened(self) -> ScanWork:
        """Return a copy without open files and cached results, for another process."""
        return replace(self, planned=self.planned.unopened())

    def run(self, number: int) -> bytes:
        """Return the findings in a piece, as JSON."""
        return to_json(Scan(self.limit).run(self.planned.wanted, self.pieces[number]))

    def findings(self, results: Mapping[int, bytes]) -> dict[int, Mapping[str, StateFindings]]:
        """Return findings by the number of the operator; ``results`` are by the number of the piece."""
        by_operator: dict[int, list[Mapping[str, StateFindings]]] = {}
        for number, result in sorted(results.items()):
            by_operator.setdefault(self.pieces[number].operator, []).append(from_json(result))
        return {operator: merged(findings) for operator, findings in by_operator.items()}


@dataclass(frozen=True)
class WriteWork:
    """Writing of all files that change: a piece is the keyed state, or the operator state, of a subtask."""

    planned: Planned
    staging: Staging
    #: Whether files that are rewritten are verified, so that what is damaged gets no new checksums.
    verifies: bool

    def operator(self, number: int) -> MigratedOperator:
        """Return the files of an operator."""
        # Imported here: checks, findings and reports scan only.
        from pyspark_savepoint.statebackends.migration.migrated_files import MigratedOperator

        planned = self.planned
        hidden = planned.hidden.get(number, frozenset())
        plan = planned.plans[number]
        return MigratedOperator(plan, planned.drop, planned.as_is, hidden, self.staging, f"{number}-", self.verifies)

    @cached_property
    def pieces(self) -> list[ScanUnit]:
        """The pieces, in order."""
        pieces = []
        for number in range(len(self.planned.plans)):
            files = self.operator(number)
            pieces += [ScanUnit(number, True, index, index) for index in files.keyed_subtasks]
            pieces += [ScanUnit(number, False, index, index) for index in files.operator_subtasks]
        return pieces

    def unopened(self) -> WriteWork:
        """Return a copy without open files and cached results, for another process."""
        return replace(self, planned=self.planned.unopened())

    def run(self, number: int) -> bytes:
        """Write the file of a piece; return its handle in a ``_metadata``."""
        piece = self.pieces[number]
        files = self.operator(piece.operator)
        if piece.keyed:
            subtask = OperatorSubtaskState(managed_keyed_state=files.keyed_state(piece.first))
        else:
            subtask = OperatorSubtaskState(managed_operator_state=files.operator_state(piece.first))
        operator = replace(files.plan.operator, coordinator_state=None, subtasks={piece.first: subtask})
        return write_metadata(CheckpointMetadata(VERSION, 0, (), (operator,)))

    def operators(self, results: Mapping[int, bytes], relocation: Relocation) -> list[OperatorState]:
        """Return the operators with the files that were written, and copies of the others."""
        written: dict[tuple[int, bool], dict[int, OperatorSubtaskState]] = {}
        for number, result in results.items():
            piece = self.pieces[number]
            (operator,) = read_metadata(memoryview(result), self.planned.savepoint.path).operators
            written.setdefault((piece.operator, piece.keyed), {})[piece.first] = operator.subtasks[piece.first]
        return [
            self._operator(number, written.get((number, True), {}), written.get((number, False), {}), relocation)
            for number in range(len(self.planned.plans))
        ]

    def _operator(
        self,
        number: int,
        keyed: Mapping[int, OperatorSubtaskState],
        listed: Mapping[int, OperatorSubtaskState],
        relocation: Relocation,
    ) -> OperatorState:
        files = self.operator(number)
        operator = files.plan.operator
        moved = files.drops_unread_timers or (files.changes_keyed_state and files.moves_timers)

        def left(subtask: OperatorSubtaskState) -> OperatorSubtaskState:
            return replace(
                subtask,
                managed_keyed_state=None if files.changes_keyed_state else subtask.managed_keyed_state,
                raw_keyed_state=None if moved else subtask.raw_keyed_state,
                managed_operator_state=None if files.changes_operator_state else subtask.managed_operator_state,
            )

        kept = replace(operator, subtasks={index: left(subtask) for index, subtask in operator.subtasks.items()})
        copied = relocation.copied(self.planned.savepoint, kept)
        subtasks = dict(copied.subtasks)
        for index, written in keyed.items():
            subtask = subtasks.get(index, OperatorSubtaskState())
            subtasks[index] = replace(subtask, managed_keyed_state=written.managed_keyed_state)
        for index, written in listed.items():
            subtasks[index] = replace(subtasks[index], managed_operator_state=written.managed_operator_state)
        return replace(copied, subtasks=subtasks)
