"""Write of a planned savepoint: edited operators by an engine, copies of untouched files, ``_metadata`` last.

::

    1  edited parts      each one a write of one table, which creates a fragment in the pending folder
    2  untouched parts   their files are copied (``files="copy"``), or referred to where they are (``"reference"``)
       renamed states    their files are copied with new headers
    3  ``_metadata``     assembled and published, if the path is still free
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from pyspark_savepoint.execution.copying import publish, to_free_path
from pyspark_savepoint.execution.operator_writer import OperatorWriter, without_edited
from pyspark_savepoint.execution.renamed_states import renamed_state
from pyspark_savepoint.execution.rewritten_parts import all_portable, for_release, is_portable
from pyspark_savepoint.formats.errors import OptionError, SavepointWarning
from pyspark_savepoint.formats.flink_releases import Flink, Release, release_of
from pyspark_savepoint.formats.metadata import CheckpointMetadata, OperatorState
from pyspark_savepoint.formats.redaction import redacted
from pyspark_savepoint.formats.snapshot.changes import (
    assemble,
    target_version,
    with_identifier,
    with_keyed_state,
    with_operator_state,
    without_empty_segments,
)
from pyspark_savepoint.formats.snapshot.publication import Staging
from pyspark_savepoint.formats.snapshot.relocation import FileCopy, Relocation, referenced
from pyspark_savepoint.plan.engine import Engine
from pyspark_savepoint.plan.operator_plan import OperatorPlan
from pyspark_savepoint.plan.savepoint_plan import SavepointPlan
from pyspark_savepoint.statebackends.writing.planning.release_fit import expect_one_kryo

COPY, REFERENCE = "copy", "reference"


@redacted
@dataclass
class SavepointWriter:
    """One call of ``Savepoint.write``. ``given`` is the path as the user gave it."""

    engine: Engine
    plan: SavepointPlan
    given: str
    staging: Staging
    files: str
    version: int
    release: Release | None
    relocation: Relocation
    checkpoint_id: int | None = None

    @classmethod
    def to(
        cls,
        engine: Engine,
        plan: SavepointPlan,
        path: str,
        files: str,
        flink_version: Flink | None,
        portable: bool,
        checkpoint_id: int | None = None,
    ) -> SavepointWriter:
        """Prepare a write to a free path; raise every error that can be found before anything is written."""
        if files not in (COPY, REFERENCE):
            raise OptionError(
                "argument 'files' has an unknown value", expected=f"'{COPY}' or '{REFERENCE}'", found=files
            )
        staging = to_free_path(path)
        release = release_of(flink_version) if flink_version is not None else None
        if release is not None:
            plan = for_release(plan, release, copied=files == COPY)
        elif not plan.bases:
            _expect_one_kryo(plan, path)
        if portable or plan.state_backend is not None:
            plan = all_portable(plan, None if portable else plan.state_backend)
        _warn_of_one_backend(plan)
        version = target_version(plan.bases, flink_version)
        return cls(
            engine, plan, path, staging, files, version, release, Relocation(f"{staging.token}-copy"), checkpoint_id
        )

    def run(self) -> None:
        """Write the savepoint; on failure, remove everything."""
        publish(self.staging, self._assembled, self.relocation, self._copy)

    def _copy(self, copies: Sequence[FileCopy], staging: Staging) -> None:
        edited = any(plan.edits_keyed_state for plan in self.plan.operators)
        self.engine.copy(copies, staging, shared=edited)

    def _assembled(self) -> CheckpointMetadata:
        kept = [self._kept(plan) for plan in self.plan.operators]
        renamed = [renamed_state(plan, self.relocation, self.release) for plan in self.plan.operators]
        # With Spark an edited operator takes one or two jobs, whose planning takes most of the time if state is small.
        with ThreadPoolExecutor(self.engine.writers) as pool:
            run = self.engine.runner(self._operator)
            parts = enumerate(zip(self.plan.operators, kept, renamed, strict=True))
            writing = [pool.submit(run, part) for part in parts]
            try:
                operators = [future.result() for future in writing]
            finally:
                pool.shutdown(cancel_futures=True)
        metadata = assemble(operators, self.plan.bases, self.version)
        return metadata if self.checkpoint_id is None else replace(metadata, checkpoint_id=self.checkpoint_id)

    def _operator(self, part: tuple[int, tuple[OperatorPlan, OperatorState, OperatorState | None]]) -> OperatorState:
        number, (plan, kept, renamed) = part
        operator = replace(with_identifier(kept, plan.identifier), name=plan.name, max_parallelism=plan.max_parallelism)
        writer = OperatorWriter(self.engine, plan, self.given, self.staging, f"op{number}", self.version)
        if plan.edits_keyed_state:
            written = renamed or writer.keyed_state()
            operator = with_keyed_state(operator, written) if written is not None else operator
        if plan.edits_operator_state:
            operator = with_operator_state(operator, writer.operator_state())
        return operator

    def _kept(self, plan: OperatorPlan) -> OperatorState:
        """Return the remaining state of the base, with the handles that its files will have."""
        if plan.base is None:
            return OperatorState(plan.identifier.operator_id, 1, plan.max_parallelism)
        operator = without_edited(plan)
        if self.release is not None and not self.release.merged_files:
            operator = without_empty_segments(operator)
        if self.files == REFERENCE:
            return referenced(plan.base.snapshot, operator, plan.base.path)
        return self.relocation.copied(plan.base.snapshot, operator)


def _expect_one_kryo(plan: SavepointPlan, path: str) -> None:
    """Raise OptionError for generic types in a new savepoint for no named release."""
    remedy = "write(..., flink_version='2.3') or '1.20': that of the job which restores the savepoint"
    for operator in plan.operators:
        key = [] if operator.key_serializer is None else [operator.key_serializer]
        states = [each for state in operator.states or () for each in state.meta.serializers.values()]
        expect_one_kryo([*key, *states], path, operator.label, remedy)


def _warn_of_one_backend(plan: SavepointPlan) -> None:
    """Warn if changed state becomes canonical while other state stays in files of one state backend."""
    kept = [operator.label for operator in plan.operators if not is_portable(operator)]
    if kept and any(operator.edits_keyed_state for operator in plan.operators):
        named = ", ".join(kept[:5]) + (f" and {len(kept) - 5} more" if len(kept) > 5 else "")
        warnings.warn(
            f"only the state backend that wrote {named} restores this savepoint: its files stay as they are; "
            "write(..., portable=True) writes all keyed state in the canonical format",
            SavepointWarning,
            stacklevel=5,
        )
