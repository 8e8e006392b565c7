"""Write of the edited parts of one operator: each by an engine, as a fragment in the pending folder.

A fragment is an unpublished snapshot of one operator: its ``_metadata`` is ``.pending-TOKEN/PART``. Added operator
state is written to fragments too, and then combined with the remaining one, since a subtask has one stream of operator
state.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from pyspark_savepoint.formats.columns import DecodeOptions
from pyspark_savepoint.formats.flink_releases import first_with_metadata
from pyspark_savepoint.formats.keyed.meta_info import KeyedBackendHeader, OperatorBackendHeader
from pyspark_savepoint.formats.metadata import OperatorState, read_metadata
from pyspark_savepoint.formats.metadata.operator_handles import OperatorStreamStateHandle
from pyspark_savepoint.formats.redaction import redacted
from pyspark_savepoint.formats.snapshot.changes import target_version
from pyspark_savepoint.formats.snapshot.finished import finished_key_groups, finished_subtasks, running_subtasks
from pyspark_savepoint.formats.snapshot.publication import Staging
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.formats.snapshot.snapshot_location import SnapshotLocation
from pyspark_savepoint.options.options import SavepointReadOptions
from pyspark_savepoint.plan.engine import Engine, Rows
from pyspark_savepoint.plan.keyed_edits import edited_state, merged_rows
from pyspark_savepoint.plan.operator_plan import KEYED, OPERATOR, TIMERS, OperatorPlan, StateInput
from pyspark_savepoint.statebackends.rows.descriptors import KeyedDescriptor, OperatorStateDescriptor
from pyspark_savepoint.statebackends.rows.entry_bytes import ENTRIES as ENTRY_COLUMNS
from pyspark_savepoint.statebackends.rows.entry_bytes import KEY, KEY_GROUP
from pyspark_savepoint.statebackends.sources.keyed_sources import keyed_sources
from pyspark_savepoint.statebackends.sources.operator_sources import operator_sources
from pyspark_savepoint.statebackends.writing.operator_edit import OperatorPart, write_operator_streams
from pyspark_savepoint.statebackends.writing.planning.planned_write import PartOfWrite
from pyspark_savepoint.statebackends.writing.planning.write_request import ELEMENTS, ENTRIES, WriteSpec


@redacted
@dataclass(frozen=True)
class OperatorWriter:
    """Writer of the edited parts of one operator. ``path`` is that of the new savepoint, as the user gave it.

    ``unchanged`` are subtasks for which no file of keyed state is written unless something of their key groups changes.
    """

    engine: Engine
    plan: OperatorPlan
    path: str
    staging: Staging
    part: str
    version: int
    unchanged: frozenset[int] = frozenset()
    #: Called with those of them whose files stay, as soon as that is known.
    stay: Callable[[Collection[int]], None] | None = None

    def keyed_state(self) -> OperatorState | None:
        """Write all keyed state and timers in the canonical format; return None if there is none left."""
        direct = self._direct()
        if direct is not None:
            spec = replace(direct.spec, compression=self._compression(self.plan.compressed))
            return self._keyed(
                self._fragment(self._laid_out(direct), spec, f"{self.part}k", _described(direct), direct.header)
            )
        limit = self.plan.max_parallelism
        rows = merged_rows(self.plan)
        if rows is not None:
            placed = self.engine.by_key(rows.rows, rows.descriptor, limit, self.parallelism)
            part = f"{self.part}k"
            return self._keyed(self._fragment(placed, rows.spec, part, rows.descriptor, rows.header, [rows.base]))
        edited = edited_state(self.engine, self.plan, merges=True, marks=True)
        if edited is None:
            return None
        spec = WriteSpec(table=ENTRIES, compression=self._compression(edited.header.compressed))
        if edited.rows is None:
            placed = self.engine.no_rows(ENTRY_COLUMNS, limit, self.parallelism or 1)
        else:
            placed = self.engine.by_key_group(edited.rows, KEY_GROUP, KEY, limit, self.parallelism)
        return self._keyed(self._fragment(placed, spec, f"{self.part}k", None, edited.header, edited.bases))

    def check(self) -> None:
        """Run the checks of the plan that read state, but for those whose errors the write itself would raise."""
        for check in self.plan.checks:
            if not check.is_implied:
                check.run(self.plan)

    def _keyed(self, fragment: Snapshot) -> OperatorState:
        """Return the written keyed state, without files of subtasks that have finished, which have no entries.

        Raise UnsupportedStateError if one has.
        """
        (written,) = fragment.operators
        if self.plan.base is None or not finished_subtasks(self.plan.base.operator):
            return written
        finished = finished_subtasks(self.plan.base.operator)
        for source in keyed_sources(fragment, written):
            subtask = source.key_group_range.start * written.parallelism // written.max_parallelism
            if subtask not in finished:
                continue
            with source.open(DecodeOptions()) as stream:
                groups, states = set(source.key_group_range), set(range(len(stream.header.states)))
                if any(block.state.size for block in stream.blocks(groups, states, False, 1 << 20)):
                    raise finished_key_groups(self.plan.base.operator, subtask)
        return replace(written, subtasks={i: one for i, one in written.subtasks.items() if i not in finished})

    @staticmethod
    def _compression(compressed: bool) -> str:
        return "snappy" if compressed else "none"

    @property
    def parallelism(self) -> int | None:
        """The base's parallelism, or the requested one; None if there is neither."""
        if self.plan.base is not None:
            return min(self.plan.base.operator.parallelism, self.plan.max_parallelism)
        asked = [
            state_input.spec.parallelism for state_input in self.plan.inputs if state_input.spec.parallelism is not None
        ]
        return max(asked, default=None)

    def _laid_out(self, state_input: StateInput) -> Rows:
        """Return the rows of a table distributed by subtask, unless they are already."""
        if state_input.spec.table == ENTRIES or state_input.rows.laid_out:
            return state_input.rows
        assert isinstance(state_input.descriptor, KeyedDescriptor)
        return self.engine.by_key(state_input.rows, state_input.descriptor, self.plan.max_parallelism, self.parallelism)

    def _direct(self) -> StateInput | None:
        """Return the single table that is the whole keyed state, as it was given: its options give all of its types."""
        states = self.plan.of_kind(KEYED, TIMERS)
        sources = {state.from_input for state in states}
        if self.plan.deletions or len(sources) != 1 or -1 in sources or any(state.updates for state in states):
            return None
        state_input = self.plan.inputs[sources.pop()]
        if state_input.spec.table == ENTRIES and not state_input.rows.laid_out:
            return None  # entries of other operators, in any key group
        if state_input.bound_key:
            return None
        assert isinstance(state_input.descriptor, KeyedDescriptor)
        given = [state.meta_info() for state in state_input.descriptor.states]
        return state_input if given == [state.meta for state in states] else None

    def operator_state(self) -> Mapping[int, OperatorStreamStateHandle | None]:
        """Write the operator state of every subtask, combined from remaining and added state."""
        return write_operator_streams(self._operator_parts(), self.staging, f"{self.part}o", self._places())

    def _places(self) -> Mapping[int, int]:
        """Return the subtasks that get the operator state of those that have finished."""
        if self.plan.base is None:
            return {}
        operator = self.plan.base.operator
        finished = sorted(finished_subtasks(operator))
        running = running_subtasks(operator) if finished else []
        return {index: running[number % len(running)] for number, index in enumerate(finished)}

    def _operator_parts(self) -> Iterator[OperatorPart]:
        """Yield streams with the wanted states, by their names there."""
        states = self.plan.of_kind(OPERATOR)
        base = self.plan.base
        if base is not None:
            names = {state.origin: state.name for state in states if state.from_input < 0}
            if names:
                for source, header in zip(base.read_for_write.streams, base.opened.stream_headers, strict=True):
                    metas = {meta.name: self.plan.with_new_classes(meta) for meta in header.states}
                    yield OperatorPart(source, names, header, metas)
        for i, state_input in enumerate(self.plan.inputs):
            names = {state.origin: state.name for state in states if i in state.inputs}
            if names:
                part, described = f"{self.part}o{i}", _described(state_input)
                written = self._fragment(state_input.rows, state_input.spec, part, described, state_input.header)
                updates = any(i in state.updates for state in states)
                for source in operator_sources(written, written.operators[0]):
                    yield OperatorPart.of(source, names, updates=updates)

    def _fragment(
        self,
        rows: Rows,
        spec: WriteSpec,
        part: str,
        descriptor: KeyedDescriptor | OperatorStateDescriptor | None,
        header: KeyedBackendHeader | OperatorBackendHeader | None = None,
        bases: Sequence[SavepointReadOptions] = (),
    ) -> Snapshot:
        """Write a table as a fragment, and open it.

        ``header`` is that of elements, or of entries, which are merged with those of ``bases``.
        """
        plan = self.plan
        written = replace(
            spec,
            uid=None,
            uid_hash=plan.identifier.operator_id.hex,
            label=plan.label,
            flink_version=spec.flink_version or first_with_metadata(self.version).version,
            max_parallelism=(spec.max_parallelism or plan.max_parallelism) if spec.is_keyed else spec.max_parallelism,
            parallelism=spec.parallelism or (self.parallelism if plan.base is not None else None),
        )
        of_write = PartOfWrite(
            replace(self.staging, part=part),
            self.path,
            written,
            descriptor,
            target_version([], written.flink_version),
            header,
            tuple(base.request() for base in bases),
            self.unchanged if len(bases) == 1 else frozenset(),
            self.stay,
        )
        self.engine.write(rows, of_write)
        return open_fragment(self.staging, part)


def _described(state_input: StateInput) -> KeyedDescriptor | OperatorStateDescriptor | None:
    """Return the descriptor of a table of rows; None for one of entries or elements, whose header says it all."""
    if state_input.spec.table in (ENTRIES, ELEMENTS):
        return None
    assert not isinstance(state_input.descriptor, tuple)
    return state_input.descriptor


def open_fragment(staging: Staging, part: str) -> Snapshot:
    """Open a written fragment as a snapshot."""
    filesystem = staging.filesystem
    path = posixpath.join(staging.pending, part)
    folder = posixpath.dirname(staging.state_path("_"))
    metadata = read_metadata(memoryview(staging.part_data(part)), path)
    kept = staging.here().kept
    if kept is not None:
        kept.update(metadata.checksums or {})
    return Snapshot(SnapshotLocation(filesystem, folder), path, metadata)
