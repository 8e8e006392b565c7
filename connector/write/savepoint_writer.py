"""Write of a planned savepoint: edited operators by an engine, copies of untouched files, ``_metadata`` last.

::

    1  edited parts      each one a write of one table, which creates a fragment in the pending folder
       unchanged files   of edited operators, in whose key groups nothing changes, are copied, in a store meanwhile
    2  untouched parts   their files are copied (``files="copy"``), within an object store by it, or referred to where
                         they are (``"reference"``)
       renamed states    their files are copied with new headers
    3  ``_metadata``     assembled and published, if the path is still free

A state is named in the header of each file alone; entries name it by its number. So the file of a renamed state needs a
new header, and its key groups begin as many bytes later as the header is longer. Untouched parts that must be
rewritten, for an older release or for any state backend, become edits before anything runs: their entries are read and
written unchanged.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import NoneType
from typing import Any

import xxhash

from pyspark_savepoint.formats.errors import OptionError, SavepointWarning
from pyspark_savepoint.formats.flink_releases import Flink, Release, release_of
from pyspark_savepoint.formats.metadata import CheckpointMetadata, OperatorState, OperatorSubtaskState
from pyspark_savepoint.formats.metadata.key_groups import KeyGroupRange
from pyspark_savepoint.formats.metadata.keyed_handles import (
    IncrementalRemoteKeyedStateHandle,
    KeyGroupsSavepointStateHandle,
)
from pyspark_savepoint.formats.redaction import redacted
from pyspark_savepoint.formats.snapshot.changes import (
    assemble,
    target_version,
    with_identifier,
    with_keyed_state,
    with_operator_state,
    without_empty_segments,
)
from pyspark_savepoint.formats.snapshot.finished import finished_subtasks, running_subtasks
from pyspark_savepoint.formats.snapshot.publication import Staging
from pyspark_savepoint.formats.snapshot.relocation import FileCopy, NewHeader, Relocation, referenced
from pyspark_savepoint.formats.snapshot.savepoint import IGNORE
from pyspark_savepoint.formats.snapshot.write_folder import to_free_path
from pyspark_savepoint.plan.engine import Engine
from pyspark_savepoint.plan.keyed_edits import with_states
from pyspark_savepoint.plan.operator_plan import KEYED, TIMERS, Base, OperatorPlan
from pyspark_savepoint.plan.savepoint_plan import ROCKSDB, Operators, SavepointPlan
from pyspark_savepoint.statebackends.rows.state_sets import Registered, refuse_halves
from pyspark_savepoint.statebackends.sources.keyed_plan import is_key_value
from pyspark_savepoint.statebackends.sources.keyed_sources import KeyedSource
from pyspark_savepoint.statebackends.writing.planning.release_fit import (
    expect_one_kryo,
    operator_fit,
)
from pyspark_savepoint.write.copying import CopiesAhead, publish
from pyspark_savepoint.write.operator_writer import OperatorWriter
from pyspark_savepoint.write.target_release import for_release, without_edited
from pyspark_savepoint.write.unchanged_files import copies_of, unchanged_subtasks, with_unchanged

COPY, REFERENCE = "copy", "reference"
#: The number of an operator, its plan, the remaining state of its base, its keyed state if only names change, and the
#: subtasks whose files may stay.
PartOfSavepoint = tuple[int, tuple[OperatorPlan, OperatorState, OperatorState | None, frozenset[int]]]
#: Begins to copy what stays while other files are written: all that is known, and the files of some subtasks.
Stay = Callable[[OperatorPlan, Collection[int]], None]


@redacted
@dataclass
class SavepointWriter:
    """One call of ``Savepoint.write``. ``written_path`` is the path as the user gave it."""

    engine: Engine
    plan: SavepointPlan
    written_path: str
    staging: Staging
    files: str
    version: int
    release: Release | None
    relocation: Relocation

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
        for operator in plan.operators:
            if operator.base is not None and operator.inputs:
                running_subtasks(operator.base.operator)
            _refuse_halves(operator)
        staging = to_free_path(path, checkpoint_id)
        release = release_of(flink_version) if flink_version is not None else None
        if release is not None:
            plan = for_release(plan, release, copied=files == COPY)
        elif not plan.bases:
            _expect_one_kryo(plan, path)
        if portable or plan.state_backend is not None:
            plan = all_portable(plan, None if portable else plan.state_backend)
        _warn_of_one_backend(plan)
        _warn_of_finished(plan)
        version = target_version(plan.bases, flink_version)
        verifies = any(one.base is not None and one.base.checksums != IGNORE for one in plan.operators)
        relocation = Relocation(f"{staging.token}-copy", verifies=verifies)
        return cls(engine, plan, path, staging, files, version, release, relocation)

    def run(self) -> None:
        """Write the savepoint; on failure, remove everything."""
        publish(self.staging, self._assembled, self.relocation, self._copy)

    def _copy(self, copies: Sequence[FileCopy], staging: Staging) -> Mapping[str, int]:
        edited = any(plan.edits_keyed_state for plan in self.plan.operators)
        return self.engine.copy(copies, staging, shared=edited)

    def _assembled(self, ahead: CopiesAhead) -> CheckpointMetadata:
        kept = [self._kept(plan) for plan in self.plan.operators]
        renamed = [renamed_state(plan, self.relocation, self.release) for plan in self.plan.operators]
        plans = self.plan.operators
        unchanged = [
            unchanged_subtasks(plan) if new is None else frozenset() for plan, new in zip(plans, renamed, strict=True)
        ]
        parts = list(enumerate(zip(plans, kept, renamed, unchanged, strict=True)))
        together = self.staging.filesystem.is_remote and not any(plan.inputs for plan in self.plan.operators)
        changing = threading.Lock()

        def stay(plan: OperatorPlan, subtasks: Collection[int]) -> None:
            with changing:
                copies_of(plan, subtasks, self.relocation)
                ahead.begin(self.relocation.copies.values())

        begin = None if self.staging.filesystem.renames else stay
        written = self.engine.written(partial(self._operator, begin), parts, _bytes_of, together=together)
        operators = [
            with_unchanged(operator, plan, files, self.relocation)
            for operator, plan, files in zip(written, plans, unchanged, strict=True)
        ]
        return assemble(operators, self.plan.bases, self.version)

    def _operator(self, stay: Stay | None, part: PartOfSavepoint) -> OperatorState:
        number, (plan, kept, renamed, unchanged) = part
        operator = replace(with_identifier(kept, plan.identifier), name=plan.name, max_parallelism=plan.max_parallelism)
        writer = OperatorWriter(
            self.engine,
            plan,
            self.written_path,
            self.staging,
            f"op{number}",
            self.version,
            unchanged,
            None if stay is None else partial(stay, plan),
        )
        writer.check()
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


def _bytes_of(part: PartOfSavepoint) -> int:
    """Return the bytes of the state that is written anew."""
    plan = part[1][0]
    is_edited = plan.edits_keyed_state or plan.edits_operator_state
    return plan.base.operator.state_size if is_edited and plan.base is not None else 0


def _refuse_halves(plan: OperatorPlan) -> None:
    """Raise OptionError if a changed operator would have states without others that Flink needs with them."""
    if plan.states is None or not plan.edits_keyed_state:
        return
    now = Registered.of((one.meta for one in plan.of_kind(KEYED)), [one.name for one in plan.of_kind(TIMERS)])
    before = None
    if plan.base is not None:
        states = with_states(OperatorPlan(plan.identifier, base=plan.base))
        before = Registered.of(
            (one.meta for one in states.of_kind(KEYED)), [one.name for one in states.of_kind(TIMERS)]
        )
    refuse_halves(now.halves(before), plan.label)


def _expect_one_kryo(plan: SavepointPlan, path: str) -> None:
    """Raise OptionError for generic types in a new savepoint for no named release."""
    remedy = "write(..., flink_version='2.3') or '1.20': that of the job which restores the savepoint"
    for operator in plan.operators:
        key = [] if operator.key_serializer is None else [operator.key_serializer]
        states = [serializer for state in operator.states or () for serializer in state.meta.serializers.values()]
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


def _warn_of_finished(plan: SavepointPlan) -> None:
    """Warn if an operator is left out whose subtasks have finished with those of another, maybe in one task."""
    kept = {operator.base.operator.operator_id for operator in plan.operators if operator.base is not None}
    for base in plan.bases:
        finished = [operator for operator in base.operators if finished_subtasks(operator)]
        for gone in (operator for operator in finished if operator.operator_id not in kept):
            with_it = [
                other.label
                for other in finished
                if other.operator_id in kept and finished_subtasks(other) == finished_subtasks(gone)
            ]
            if with_it:
                warnings.warn(
                    f"{gone.label} is left out, whose subtasks had finished, as had those of {', '.join(with_it[:5])}: "
                    "if they are one task, Flink refuses the savepoint; leave out all operators of the task, or none",
                    SavepointWarning,
                    stacklevel=5,
                )


#: New names of states, by old name and whether they are timers.
Names = dict[tuple[str, bool], str]


def renamed_state(plan: OperatorPlan, relocation: Relocation, release: Release | None) -> OperatorState | None:
    """Return the operator with its keyed state alone, in copies with new headers; None if more than names changes."""
    names = _names(plan)
    base = plan.base
    if names is None or base is None or (release is not None and operator_fit(base.opened, release).keyed_state):
        return None
    headers = _headers(plan, base, names)
    if headers is None:
        return None
    subtasks = {}
    for index, subtask in base.operator.subtasks.items():
        handle = subtask.managed_keyed_state
        if isinstance(handle, KeyGroupsSavepointStateHandle):
            copy = relocation.with_header(base.snapshot, base.operator, handle, headers[handle.key_group_range])
            subtasks[index] = OperatorSubtaskState(managed_keyed_state=copy)
    return replace(base.operator, subtasks=subtasks, coordinator_state=None)


def _names(plan: OperatorPlan) -> Names | None:
    """Return the names of all keyed states of the base; None if there are other changes than names."""
    if plan.base is None or plan.deletions or plan.rehashes or plan.raw_timers or not plan.edits_keyed_state:
        return None
    if plan.base.lost.in_part:
        return None
    planned = plan.of_kind(KEYED, TIMERS)
    names = {(state.origin, state.kind == TIMERS): state.name for state in planned}
    if any(state.inputs for state in planned) or len(names) < len(planned):
        return None
    return names if names.keys() == plan.base.opened.keyed.metas().keys() else None


def _headers(plan: OperatorPlan, base: Base, names: Names) -> dict[KeyGroupRange, NewHeader] | None:
    """Return the new header of each file by its key groups; None if a file is not canonical, or not understood."""
    subtasks = base.operator.subtasks.values()
    handles = [subtask.managed_keyed_state for subtask in subtasks if subtask.managed_keyed_state is not None]
    if not all(isinstance(handle, KeyGroupsSavepointStateHandle) and handle.key_group_range for handle in handles):
        return None
    headers = {}
    keyed = base.opened.keyed
    for source, header in zip(keyed.sources, keyed.headers, strict=True):
        assert isinstance(source, KeyedSource)
        if xxhash.xxh3_128_digest(header.to_bytes()) != header.digest:
            return None
        states = tuple(
            replace(plan.with_new_classes(meta), name=names[meta.name, not is_key_value(meta)])
            for meta in header.states
        )
        key = plan.of_new_class(header.key_serializer)
        new = replace(header, key_serializer=key, states=states)
        headers[source.key_group_range] = NewHeader(new.to_bytes(), header.size)
    return headers


def all_portable(plan: SavepointPlan, backend: str | None = None) -> SavepointPlan:
    """Rewrite keyed state that a state backend, by default any of them, cannot restore, so that it is canonical."""
    return replace(
        plan,
        operators=Operators(
            operator if is_portable(operator, backend) else with_states(operator).with_rewritten(KEYED)
            for operator in plan.operators
        ),
    )


def is_portable(plan: OperatorPlan, backend: str | None = None) -> bool:
    """Return whether a state backend, by default every one, can restore the keyed state of the planned operator.

    The files of a database are RocksDB's. Which backend wrote key groups that are not canonical is not recorded.
    """
    if plan.base is None or plan.edits_keyed_state:
        return True
    kinds: tuple[type[Any], ...] = (KeyGroupsSavepointStateHandle, NoneType)
    kinds += (IncrementalRemoteKeyedStateHandle,) * (backend == ROCKSDB)
    return all(isinstance(subtask.managed_keyed_state, kinds) for subtask in plan.base.operator.subtasks.values())
