"""Files of a migrated operator: keyed state and operator state, one file per subtask, each in any process.

Keyed state is read from any format and written in the canonical one, some key groups at a time: entries of states that
need no change are copied as bytes, and no entry changes its key group. Keys that become other bytes are sorted again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from pyspark_savepoint.formats.errors import CorruptStateError, SavepointError, UnsupportedStateError
from pyspark_savepoint.formats.io.snapshot_files import OutputFile
from pyspark_savepoint.formats.keyed.canonical_writer import CanonicalKeyedStreamWriter
from pyspark_savepoint.formats.keyed.meta_info import KeyedBackendHeader, OperatorBackendHeader, StateMetaInfoSnapshot
from pyspark_savepoint.formats.keyed.operator_streams import OperatorStreamWriter
from pyspark_savepoint.formats.metadata import OperatorState
from pyspark_savepoint.formats.metadata.key_groups import KeyGroupRange, range_for_operator_index
from pyspark_savepoint.formats.metadata.keyed_handles import KeyedStateHandle, has_database
from pyspark_savepoint.formats.metadata.operator_handles import OperatorStreamStateHandle
from pyspark_savepoint.formats.metadata.stream_handles import RelativeFileStateHandle
from pyspark_savepoint.formats.redaction import redacted
from pyspark_savepoint.formats.snapshot.publication import Staging
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.statebackends.merging.comparison import Runs
from pyspark_savepoint.statebackends.merging.entry_chunk import EXPANDED, EntryChunk, concat, together
from pyspark_savepoint.statebackends.merging.keyed_input import KeyedInput, OpenInput, StateNumbers, open_inputs
from pyspark_savepoint.statebackends.migration.migration_plan import OperatorMigration, StatePlan
from pyspark_savepoint.statebackends.migration.operator_elements import elements_in
from pyspark_savepoint.statebackends.migration.rewriting.chunk_rewriter import ChunkRewriter
from pyspark_savepoint.statebackends.migration.rewriting.kryo_values import PartError
from pyspark_savepoint.statebackends.migration.rewriting.state_programs import KEY, EntryProgram
from pyspark_savepoint.statebackends.migration.rewriting.value_program import UnknownSubclassError
from pyspark_savepoint.statebackends.migration.rewriting.verdicts import StateRef
from pyspark_savepoint.statebackends.requests.request import TableRequest
from pyspark_savepoint.statebackends.requests.table_options import DEFAULT_MEMORY
from pyspark_savepoint.statebackends.sources.keyed_sources import keyed_sources
from pyspark_savepoint.statebackends.sources.operator_sources import operator_sources
from pyspark_savepoint.statebackends.sources.raw_timers import raw_timer_sources
from pyspark_savepoint.statebackends.writing.operator_edit import VERSION
from pyspark_savepoint.statebackends.writing.planning.edited_header import StateId, header_of_states
from pyspark_savepoint.statebackends.writing.state_file import expect_written
from pyspark_savepoint.statebackends.writing.task_outputs import StateFile


@redacted
@dataclass(frozen=True)
class MigratedOperator:
    """Files of one operator: its plan, the states to leave out or as they are, and where the files go.

    ``hidden`` are the states and roles with values of unlisted subclasses of POJOs, in which parts change. If it
    ``verifies``, files that are rewritten must have the checksums that are known of them.
    """

    plan: OperatorMigration
    dropped: frozenset[str]
    as_is: frozenset[str]
    hidden: frozenset[tuple[StateRef, str]]
    staging: Staging
    prefix: str
    verifies: bool
    memory: int = DEFAULT_MEMORY

    def is_dropped(self, plan: StatePlan) -> bool:
        """Return whether a state is left out."""
        return plan.ref.is_named(self.dropped)

    def is_as_is(self, plan: StatePlan) -> bool:
        """Return whether a state keeps its bytes, whatever they are."""
        return plan.ref.is_named(self.as_is)

    @property
    def changes_keyed_state(self) -> bool:
        """Return whether keyed state is rewritten."""
        key = self.plan.key
        of_key = (key is not None and bool(key.parts)) or self._hides(self.plan.key_ref)
        return of_key or any(map(self._changes, self.plan.keyed_plans.values()))

    @property
    def changes_operator_state(self) -> bool:
        """Return whether operator state is rewritten."""
        return any(map(self._changes, self.plan.operator_plans))

    def _changes(self, plan: StatePlan) -> bool:
        changes = any(plan.parts) or self._hides(plan.ref)
        return self.is_dropped(plan) or (changes and not self.is_as_is(plan))

    def _hides(self, ref: StateRef) -> bool:
        return any(ref == hiding for hiding, _ in self.hidden)

    def _program(self, plan: StatePlan) -> EntryProgram:
        walks = {role for ref, role in self.hidden if ref == plan.ref}
        return self.plan.entry_program(plan, walks=walks | ({KEY} if self._hides(self.plan.key_ref) else set()))

    # -- keyed state ---------------------------------------------------------------------------------------------

    @property
    def keyed_subtasks(self) -> list[int]:
        """The subtasks whose keyed state is rewritten."""
        if not self.changes_keyed_state:
            return []
        if self.plan.moves_keys:
            return list(range(self.plan.operator.parallelism))
        moved = self.moves_timers
        return [
            index
            for index, subtask in sorted(self.plan.operator.subtasks.items())
            if subtask.managed_keyed_state is not None or (subtask.raw_keyed_state is not None and moved)
        ]

    def keyed_state(self, index: int) -> KeyedStateHandle | None:
        """Write the keyed state of a subtask; return the handle, None if no state is left."""
        keyed, key = self.plan.keyed, self.plan.key
        assert keyed is not None
        assert key is not None
        kept = {state: plan for state, plan in self.plan.keyed_plans.items() if not self.is_dropped(plan)}
        if not kept:
            return None
        metas = [self._registered(plan) for plan in kept.values()]
        header = header_of_states(key.serializer, metas, keyed.compressed, self.plan.operator.label)
        programs = {state: self._program(plan) for state, plan in kept.items() if not self.is_as_is(plan)}
        return self._keyed_file(index, header, list(kept), programs)

    @property
    def moves_timers(self) -> bool:
        """Return whether timers in raw keyed state are written with the managed state.

        Their keys change, or some of them are left out.
        """
        names = {queue.state_name for queue in self.plan.raw_queues}
        timers = [plan for (name, timer), plan in self.plan.keyed_plans.items() if timer and name in names]
        return any(plan.has_values or self.is_dropped(plan) or self._hides(plan.ref) for plan in timers)

    @property
    def drops_unread_timers(self) -> bool:
        """Return whether timers in raw keyed state are left out that cannot be read."""
        unread = self.plan.unread_timers
        return unread is not None and unread.ref.is_named(self.dropped)

    def _registered(self, plan: StatePlan) -> StateMetaInfoSnapshot:
        if self.is_as_is(plan):
            return plan.meta
        return replace(plan.meta, serializers={role: target.serializer for role, target in plan.roles.items()})

    def _keyed_file(
        self, index: int, header: KeyedBackendHeader, states: list[StateId], programs: Mapping[StateId, EntryProgram]
    ) -> KeyedStateHandle:
        operator = self.plan.operator
        key_groups = range_for_operator_index(operator.max_parallelism, operator.parallelism, index)
        name = self.staging.unique(f"{self.prefix}{index}")
        file = self.staging.create_state(name)
        try:
            with CanonicalKeyedStreamWriter(file, header, key_groups, operator.max_parallelism, self.memory) as writer:
                if self.plan.moves_keys:
                    self._moved_entries(key_groups, writer, states, programs)
                else:
                    self._entries(index, key_groups, writer, states, programs)
                offsets = np.array(writer.finish().offsets, np.int64)
            file.close()
        finally:
            file.abort()
        written = StateFile(name, file.size, index, offsets.tobytes(), np.array(writer.entries, np.int64).tobytes())
        names = [meta.name for meta in header.states]
        expect_written(self.staging, written, key_groups, operator.max_parallelism, names, operator.label)
        return written.handle(key_groups)

    def _entries(
        self,
        index: int,
        key_groups: KeyGroupRange,
        writer: CanonicalKeyedStreamWriter,
        states: list[StateId],
        programs: Mapping[StateId, EntryProgram],
    ) -> None:
        operator = self.plan.operator
        described = self._input(replace(operator, subtasks={index: operator.subtasks[index]}))
        rewriter = _rewriter(states, programs)
        some = range(key_groups.start, key_groups.end + 1)
        with open_inputs([(OpenInput(described, StateNumbers(states)), some)]) as (opened_input,):
            for groups in together(some, described.sizes(), self.memory // EXPANDED):
                if len(groups) > 1:
                    chunks = [self._rewritten(rewriter, chunk) for chunk in opened_input.chunks(set(groups))]
                    self._put(writer, concat(chunks))
                else:
                    self._put_group(writer, rewriter, opened_input.chunks(set(groups)))

    @property
    def _rewritten_from(self) -> Snapshot:
        """The savepoint whose files are rewritten."""
        savepoint = self.plan.described.savepoint
        return savepoint.verified() if self.verifies else savepoint

    def _input(self, part: OperatorState) -> KeyedInput:
        """Return the keyed state of some subtasks of the operator."""
        operator, savepoint = self.plan.operator, self._rewritten_from
        if any(has_database(one.managed_keyed_state) for one in part.subtasks.values()):
            savepoint = self.plan.described.savepoint  # its files have checksums of their own
        raw = tuple(raw_timer_sources(savepoint, part)) if self.moves_timers else ()
        return KeyedInput(
            tuple(keyed_sources(savepoint, part)),
            raw,
            part.max_parallelism,
            operator.state_size * len(part.subtasks) // max(1, len(operator.subtasks)),
            TableRequest(savepoint.path).of_version(savepoint.metadata.version),
            serial=False,
        )

    def _moved_entries(
        self,
        key_groups: KeyGroupRange,
        writer: CanonicalKeyedStreamWriter,
        states: list[StateId],
        programs: Mapping[StateId, EntryProgram],
    ) -> None:
        """Write entries whose keys move to these key groups: all are read, for as many of them at a time as fit."""
        operator = self.plan.operator
        described, rewriter = self._input(operator), _rewriter(states, programs)
        moved, every = self.plan.moved_key_groups(states), range(operator.max_parallelism)
        limit = self.memory // EXPANDED
        own = operator.state_size // operator.parallelism
        step = max(1, len(key_groups) * limit // max(1, own)) if own > limit else len(key_groups)
        for low in range(key_groups.start, key_groups.end + 1, step):
            high = min(low + step - 1, key_groups.end)
            chunks: list[EntryChunk] = []
            with open_inputs([(OpenInput(described, StateNumbers(states)), every)]) as (opened_input,):
                for groups in together(every, described.sizes(), limit):
                    for chunk in opened_input.chunks(set(groups)):
                        new = moved.of(chunk)
                        rows = np.flatnonzero((new >= low) & (new <= high))
                        if len(rows):
                            moved_chunk = replace(chunk.take(rows), key_group=new[rows])
                            chunks.append(self._rewritten(rewriter, EntryChunk.of_batch(moved_chunk.entries())))
            self._put(writer, concat(chunks))

    def _put_group(
        self, writer: CanonicalKeyedStreamWriter, rewriter: ChunkRewriter, chunks: Iterator[EntryChunk]
    ) -> None:
        """Write one key group: piece by piece where keys keep their order, else as a whole."""
        if rewriter.keeps_order and len(self.plan.opened.keyed.sources) == 1:
            for chunk in chunks:
                self._put(writer, self._rewritten(rewriter, chunk))
        else:
            self._put(writer, concat([self._rewritten(rewriter, chunk) for chunk in chunks]))

    def _put(self, writer: CanonicalKeyedStreamWriter, chunk: EntryChunk) -> None:
        if not len(chunk):
            return
        runs = Runs.of(chunk, self.plan.operator.max_parallelism)
        if runs.first_unordered() >= 0:
            runs = runs.sorted()
        runs.write(writer)

    def _rewritten(self, rewriter: ChunkRewriter, chunk: EntryChunk) -> EntryChunk:
        try:
            return rewriter.rewritten(chunk)
        except PartError as error:
            raise _unexpected(error, self.plan.operator) from error
        except UnknownSubclassError as error:
            raise _unknown_subclass(error, self.plan.operator) from error
        except SavepointError as error:
            raise error.with_facts(operator=self.plan.operator.label) from None

    # -- operator state ------------------------------------------------------------------------------------------

    @property
    def operator_subtasks(self) -> list[int]:
        """The subtasks whose operator state is rewritten."""
        return [source.subtask for source in self.plan.opened.streams] if self.changes_operator_state else []

    def operator_state(self, index: int) -> OperatorStreamStateHandle:
        """Write the operator state of a subtask; return the handle."""
        opened = self.plan.opened
        header = next(
            header
            for source, header in zip(opened.streams, opened.stream_headers, strict=True)
            if source.subtask == index
        )
        name = self.staging.unique(f"{self.prefix}{index}")
        file = self.staging.create_state(name)
        try:
            states = self._operator_file(file, index, header)
            file.close()
        finally:
            file.abort()
        return replace(states, delegate=RelativeFileStateHandle(name, file.size))

    def _operator_file(
        self, file: OutputFile, subtask: int, header: OperatorBackendHeader
    ) -> OperatorStreamStateHandle:
        opened = self.plan.opened
        sources = operator_sources(self._rewritten_from, opened.operator)
        source = next(source for source in sources if source.subtask == subtask)
        plans = {meta.name: self.plan.plan(meta, keyed=False) for meta in header.states}
        kept = {name: plan for name, plan in plans.items() if not self.is_dropped(plan)}
        lists, broadcasts = (
            tuple(self._registered(kept[meta.name]) for meta in metas if meta.name in kept)
            for metas in (header.list_states, header.broadcast_states)
        )
        writer = OperatorStreamWriter(file, OperatorBackendHeader(VERSION, False, lists, broadcasts))
        for meta in (*lists, *broadcasts):
            plan = kept[meta.name]
            program = None if self.is_as_is(plan) else self.plan.element_program(plan)
            for data, count in elements_in(source, header, meta.name):
                try:
                    new_elements = program.elements(data, count) if program is not None else [data]
                    if program is None and count > 1:
                        new_elements = self.plan.element_program(plan).elements(data, count)
                except PartError as error:
                    raise _unexpected(error, opened.operator) from error
                except UnknownSubclassError as error:
                    raise _unknown_subclass(error, opened.operator) from error
                if meta in broadcasts:
                    whole = np.frombuffer(new_elements[0], np.uint8)
                    writer.add_broadcast(meta.name, int.from_bytes(new_elements[0][:4], "big"), whole[4:])
                else:
                    offsets = np.cumsum([0, *map(len, new_elements)]).astype(np.int64)
                    writer.add_list(meta.name, np.frombuffer(b"".join(new_elements), np.uint8), offsets)
        states = tuple(writer.finish().values())
        return OperatorStreamStateHandle(states, RelativeFileStateHandle("", 0))


def _rewriter(states: list[StateId], programs: Mapping[StateId, EntryProgram]) -> ChunkRewriter:
    changes = {number: programs[state] for number, state in enumerate(states) if state in programs}
    return ChunkRewriter({n: program for n, program in changes.items() if not program.changes_nothing})


def _unexpected(error: PartError, operator: OperatorState) -> SavepointError:
    """Return the error for a value that the check before the writing did not look at."""
    return CorruptStateError(
        f"a value of {error.part.old.flink_type} cannot be rewritten",
        operator=operator.label,
        state=error.part.name or None,
        found=": ".join(map(str, error.error.args))[:500],
        remedy="name the class files of its class (classes), or leave the state out (drop)",
    )


def _unknown_subclass(error: UnknownSubclassError, operator: OperatorState) -> SavepointError:
    """Return the error for a value of a subclass that nothing describes."""
    return UnsupportedStateError(
        "values are of a subclass of a POJO that the snapshot does not describe",
        operator=operator.label,
        found=str(error),
        remedy="name the class files of that class (classes), or leave the state out (drop)",
    )
