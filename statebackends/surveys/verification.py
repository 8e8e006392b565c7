"""Table ``verification``: checks every byte of a snapshot against its format; rows per operator, state and subtask.

table                 what is checked                                               entries         bytes
keyed_state ...       every entry: see ``entry_checks``; framing, checksums         entries         of the entries
timers                key groups, keys, namespaces                                  timers          of the timers
operator_state        every element                                                 elements        in the file
raw_..., channels     that the bytes exist: only their owner can read them          pieces          in the file
coordinator_state     nothing: it is in ``_metadata``                               1               its length
states together       that an operator has all states that Flink needs together,  windows
                      and that sessions find their contents
files                 that the files of handles exist and have their length;        files, parts    of the handles
                      for files of this package, their checksums

``status`` is ok, warning (suspicious, but valid) or error; ``note`` has the findings, and the parts that only the
user's code can check. An error does not hide the rest: key groups are bisected until the damaged ones are isolated.
Parts are key groups of one handle; they hold one block of bytes in memory, whatever their size.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import TypeVar

import numpy as np
import pyarrow as pa

from pyspark_savepoint.formats.columns import DecodeOptions, Longs
from pyspark_savepoint.formats.errors import SavepointError, UndecodableStateError
from pyspark_savepoint.formats.io.byte_source import FileLocation, Read, StateLocation
from pyspark_savepoint.formats.io.snapshot_files import SIZE, WHOLE
from pyspark_savepoint.formats.keyed.meta_info import StateMetaInfoSnapshot
from pyspark_savepoint.formats.keyed.operator_streams import OperatorStream
from pyspark_savepoint.formats.metadata import OperatorState
from pyspark_savepoint.formats.metadata.keyed_handles import (
    KeyGroupsStateHandle,
)
from pyspark_savepoint.formats.metadata.manifest import BLOCK, Manifest
from pyspark_savepoint.formats.metadata.stream_handles import (
    FileStateHandle,
    RelativeFileStateHandle,
    SegmentFileStateHandle,
    StreamStateHandle,
)
from pyspark_savepoint.formats.snapshot.relocation import streams_of
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.formats.snapshot.snapshot_location import SnapshotLocation
from pyspark_savepoint.statebackends.python.python_state import name_of
from pyspark_savepoint.statebackends.requests.request import TableRequest
from pyspark_savepoint.statebackends.sources.keyed_plan import meets, table_of, vertices
from pyspark_savepoint.statebackends.sources.keyed_sources import (
    AnyKeyedSource,
    KeyedSource,
    KeyedStream,
    keyed_sources,
)
from pyspark_savepoint.statebackends.sources.operator_sources import OperatorSource, operator_sources
from pyspark_savepoint.statebackends.sources.raw_timers import RawTimerSource, raw_timer_sources
from pyspark_savepoint.statebackends.surveys.entry_checks import (
    TIMESTAMP_BYTES,
    UNREADABLE,
    EntryChecks,
    Tally,
    TimerChecks,
)
from pyspark_savepoint.statebackends.surveys.sizes import entry_bytes, entry_counts, requested_states
from pyspark_savepoint.statebackends.surveys.state_set_checks import plan_state_sets
from pyspark_savepoint.statebackends.surveys.survey import STATE_FIELDS, Row, Surveyed, SurveyPart
from pyspark_savepoint.statebackends.tables.keys import exact_options
from pyspark_savepoint.statebackends.tables.operator_table import OperatorPartition

OK, WARNING, ERROR = "ok", "warning", "error"
SCHEMA = pa.schema(
    [
        *STATE_FIELDS,
        pa.field("kind", pa.string()),
        pa.field("subtask", pa.int32()),
        pa.field("first_key_group", pa.int32()),
        pa.field("last_key_group", pa.int32()),
        pa.field("status", pa.string()),
        pa.field("entries", pa.int64()),
        pa.field("bytes", pa.int64()),
        pa.field("note", pa.string()),
    ]
)
#: Number of errors that a part lists; further ones are counted.
MAX_ERRORS = 100
#: Number of files that one part checks.
FILES_AT_ONCE = 64
S = TypeVar("S", KeyedSource, OperatorSource)
ONLY_OWNER = "bytes that only the operator's own code can read: only that they exist was checked"


def plan_verification(
    savepoint: Snapshot, operator: OperatorState, request: TableRequest, count: int
) -> Sequence[tuple[Surveyed, SurveyPart]]:
    """Return the parts of an operator; if planning fails, a part that reports the error."""
    surveyed = Surveyed.of(operator)
    parts: list[SurveyPart] = []
    for plan in (_keyed, plan_state_sets, _elements, _raw, _files):
        try:
            parts += plan(savepoint, operator, request, count)
        except SavepointError as error:
            parts.append(Failed(surveyed, PLANNED[plan], str(error)))
    return [(surveyed, part) for part in parts]


@dataclass(frozen=True, slots=True)
class Failed:
    """State of an operator that cannot be opened at all."""

    operator: Surveyed
    table: str
    why: str

    def rows(self, request: TableRequest) -> Iterator[Row]:
        """Yield one row with the reason."""
        yield self.operator.row(table=self.table, status=ERROR, note=self.why)


# -- keyed state and timers ---------------------------------------------------------------------------------


def _keyed(savepoint: Snapshot, operator: OperatorState, request: TableRequest, count: int) -> Iterator[SurveyPart]:
    surveyed = Surveyed.of(operator)
    sources = keyed_sources(savepoint, operator)
    timers = raw_timer_sources(savepoint, operator)
    for key_groups in vertices(operator, request, None, count):
        for source in sources:
            mine = tuple(group for group in key_groups if group in source.key_group_range)
            if mine:
                if isinstance(source, KeyedSource) and len(mine) == len(source.key_group_range):
                    yield KeyedVerification(surveyed, _noting(savepoint, source), mine)
                else:
                    yield KeyedVerification(surveyed, source, mine)
        for raw in timers:
            if meets(raw.offsets.key_group_range, key_groups):
                yield RawTimerVerification(surveyed, raw, key_groups)


def _noting(savepoint: Snapshot, source: S) -> S:
    """Return a source whose file is compared with its checksums while its state is checked, to read it once."""
    location, checksums = source.location, savepoint.metadata.checksums
    if checksums is None or not isinstance(location, FileLocation) or location.checksums is not None:
        return source
    folder, name = posixpath.split(location.path)
    if folder != savepoint.location.directory or name not in checksums:
        return source
    return replace(source, location=replace(location, checksums=checksums[name], refuses_damage=False))


#: Tallies by state id.
Tallies = dict[int, Tally]


@dataclass(slots=True)
class Errors:
    """Errors of a part, listed up to ``MAX_ERRORS``."""

    named: list[tuple[str | None, tuple[int, ...], str]] = field(default_factory=list)
    more: int = 0
    places: dict[str, int] = field(default_factory=dict)

    def add(self, error: SavepointError, key_groups: tuple[int, ...]) -> None:
        """Add an error; equal ones, such as those of a missing file, are one, of all their key groups."""
        same = self.places.get(str(error))
        if same is not None:
            state, before, why = self.named[same]
            self.named[same] = (state, (*before, *key_groups), why)
        elif len(self.named) < MAX_ERRORS:
            self.places[str(error)] = len(self.named)
            self.named.append((error.facts.get("state"), key_groups, str(error)))
        else:
            self.more += 1

    def rows(self, operator: Surveyed, table: str, subtask: int) -> Iterator[Row]:
        for state, key_groups, why in self.named:
            bounds = {"first_key_group": min(key_groups), "last_key_group": max(key_groups)}
            yield operator.row(table=table, state=state, subtask=subtask, status=ERROR, note=why, **bounds)
        if self.more:
            yield operator.row(table=table, subtask=subtask, status=ERROR, note=f"{self.more} more errors")


@dataclass(frozen=True, slots=True)
class KeyedVerification:
    """Verification of some key groups of one handle."""

    operator: Surveyed
    source: AnyKeyedSource
    key_groups: tuple[int, ...]

    def reads(self) -> Iterator[Read]:
        """Yield what is read when the source is opened."""
        return self.source.reads(set(self.key_groups))

    def rows(self, request: TableRequest) -> Iterator[Row]:
        """Yield one row per state and subtask, and one per error."""
        options = exact_options(request.decode)
        for subtask, groups in groupby(self.key_groups, self.operator.subtask):
            mine = tuple(groups)
            errors = Errors()
            tallies: Tallies = {}
            metas: Sequence[StateMetaInfoSnapshot] = ()
            try:
                with self.source.open(options) as stream:
                    metas = stream.header.states
                    for state in sorted(requested_states(stream, request)):
                        tallies[state] = Tally()
                    checks = EntryChecks(stream.header, self.operator.max_parallelism, options)
                    Walk(stream, checks, request.block_bytes, errors).walk(mine, set(tallies), tallies)
            except SavepointError as error:
                errors.add(error, mine)
            yield from errors.rows(self.operator, "keyed_state", subtask)
            for state, tally in tallies.items():
                meta = metas[state]
                assignment = {"subtask": subtask, "first_key_group": mine[0], "last_key_group": mine[-1]}
                what = {"table": table_of(meta), "state": name_of(meta), "kind": meta.state_type}
                yield self.operator.row(**what, **assignment, **tallied(tally))


def tallied(tally: Tally) -> Row:
    """Return the columns of a tally."""
    notes = [*tally.warnings, *(f"not checked: {note}" for note in tally.notes)]
    return {
        "status": WARNING if tally.warnings else OK,
        "entries": tally.entries,
        "bytes": tally.bytes,
        "note": "; ".join(notes) or None,
    }


@dataclass(frozen=True, slots=True)
class Walk:
    """Walk over the entries of one open stream; damaged key groups are found by bisection."""

    stream: KeyedStream
    checks: EntryChecks
    block_bytes: int
    errors: Errors

    def walk(self, key_groups: tuple[int, ...], states: set[int], tallies: Tallies) -> None:
        """Add the entries of some states in some key groups."""
        here: Tallies = {}
        try:
            for block in self.stream.blocks(set(key_groups), states, False, self.block_bytes):
                for state, entries in block.entries_by_state(states):
                    tally = here.setdefault(state, Tally())
                    self.checks.check(block, state, entries, tally)
                    tally.entries += int(entry_counts(block, entries).sum())
                    tally.bytes += int(entry_bytes(block, entries).sum())
        except UndecodableStateError as error:
            self._hidden(key_groups, states, tallies, error)
            return
        except SavepointError as error:
            if len(key_groups) == 1 or self.errors.more:
                self.errors.add(error, key_groups)
                return
            middle = len(key_groups) // 2
            self.walk(key_groups[:middle], states, tallies)
            self.walk(key_groups[middle:], states, tallies)
            return
        for state, tally in here.items():
            tallies[state].add(tally)

    def _hidden(
        self, key_groups: tuple[int, ...], states: set[int], tallies: Tallies, error: UndecodableStateError
    ) -> None:
        """Check the states that can be read although one cannot; note the others."""
        if error.readable is not None or len(states) == 1:
            readable = states & (error.readable or frozenset())
            for state in states - readable:
                tallies[state].warnings[f"not checked at all: {error.message}"] = None
            if readable:
                self.walk(key_groups, readable, tallies)
            return
        # Few states are the reason: halves find them sooner than single states.
        ordered = sorted(states)
        for half in (ordered[: len(ordered) // 2], ordered[len(ordered) // 2 :]):
            self.walk(key_groups, set(half), tallies)


@dataclass(frozen=True, slots=True)
class RawTimerVerification:
    """Verification of timers in raw keyed state, of some key groups."""

    operator: Surveyed
    source: RawTimerSource
    key_groups: tuple[int, ...]

    def rows(self, request: TableRequest) -> Iterator[Row]:
        """Yield one row per queue and subtask, and one per error."""
        options = exact_options(request.decode)
        for subtask, groups in groupby(self.key_groups, self.operator.subtask):
            mine = [group for group in groups if group in self.source.offsets.key_group_range]
            errors = Errors()
            tallies: dict[str, Tally] = {}
            for group in mine:
                try:
                    self._group(group, options, tallies)
                except SavepointError as error:
                    errors.add(error, (group,))
            yield from errors.rows(self.operator, "timers", subtask)
            for name, tally in tallies.items():
                assignment = {"subtask": subtask, "first_key_group": mine[0], "last_key_group": mine[-1]}
                yield self.operator.row(table="timers", state=name, kind="TIMER", **assignment, **tallied(tally))

    def _group(self, group: int, options: DecodeOptions, tallies: dict[str, Tally]) -> None:
        for queue, at, _ in self.source.timers({group}, options):
            tally = tallies.setdefault(queue.state_name, Tally())
            if len(at):
                tally.entries += len(at)
                tally.bytes += int((at.end - at.position).sum())
                groups = np.full(len(at), group, np.int32)
                timers = TimerChecks(self.operator.max_parallelism)
                timers.check(at, queue, groups, TIMESTAMP_BYTES, tally)


# -- operator state -----------------------------------------------------------------------------------------


def _elements(savepoint: Snapshot, operator: OperatorState, request: TableRequest, _count: int) -> Iterator[SurveyPart]:
    if request.key_groups is None:
        for source in operator_sources(savepoint, operator):
            yield OperatorStateVerification(Surveyed.of(operator), _noting(savepoint, source))


@dataclass(frozen=True, slots=True)
class OperatorStateVerification:
    """Verification of the operator state that one subtask wrote."""

    operator: Surveyed
    source: OperatorSource

    def reads(self) -> Iterator[Read]:
        """Yield what is read: all of it."""
        return self.source.reads()

    def rows(self, request: TableRequest) -> Iterator[Row]:
        """Yield one row per state."""
        request = replace(request, decode=exact_options(request.decode))
        common = {"table": "operator_state", "subtask": self.source.subtask}
        states_to_check = [
            state for state in self.source.states if request.states is None or state.name in request.states
        ]
        with ExitStack() as stack:
            try:
                opened = stack.enter_context(self.source.location.open())
                stream = self.source.stream(opened)
            except SavepointError as error:
                for state in states_to_check:
                    kind = state.mode.state_type
                    yield self.operator.row(state=state.name, kind=kind, status=ERROR, note=str(error), **common)
                return
            metas = {meta.name: meta for meta in reversed(stream.header.states)}
            for state in states_to_check:
                kind = state.mode.state_type
                try:
                    tally = self._state(
                        stream, metas.get(state.name), state.name, self.source.offsets(state.name), request
                    )
                except SavepointError as error:
                    yield self.operator.row(state=state.name, kind=kind, status=ERROR, note=str(error), **common)
                else:
                    yield self.operator.row(state=state.name, kind=kind, **tallied(tally), **common)

    def _state(
        self,
        stream: OperatorStream,
        meta: StateMetaInfoSnapshot | None,
        name: str,
        offsets: Longs,
        request: TableRequest,
    ) -> Tally:
        tally = Tally()
        tally.bytes = int(stream.sizes(offsets).sum())
        if not len(offsets):
            return tally
        opaque = [
            part for serializer in (meta.serializers.values() if meta else ()) for part in serializer.opaque_parts()
        ]
        for part in opaque:
            tally.notes[f"values of {part.flink_type}: only the user's code can read them"] = None
        try:
            tally.entries = self._count(stream, meta, name, offsets, request, raw=bool(opaque))
        except UNREADABLE as error:
            tally.notes[f"values are not decoded: {error.message}"] = None
            if not opaque:
                tally.entries = self._count(stream, meta, name, offsets, request, raw=True)
        return tally

    def _count(
        self,
        stream: OperatorStream,
        meta: StateMetaInfoSnapshot | None,
        name: str,
        offsets: Longs,
        request: TableRequest,
        raw: bool,
    ) -> int:
        """Read all elements; return their number. The stream is that of all states, of which there can be many."""
        mode = meta.state_type if meta is not None else ""
        fields = []
        for role, serializer in meta.serializers.items() if meta is not None else ():
            kind = pa.binary() if raw else serializer.arrow_type(request.decode)
            fields.append(pa.field("key" if role == "KEY_SERIALIZER" else "value", kind))
        count = 1 if mode == "BROADCAST" else len(offsets)
        partition = OperatorPartition((), name, mode, raw, pa.schema(fields), request)
        try:
            batches = partition.elements(stream, meta, offsets, self.source.subtask, 0, count)
            return sum(batch.num_rows for batch in batches)
        except SavepointError as error:
            raise error.with_facts(operator=self.source.operator, state=name) from None


# -- opaque bytes, and files --------------------------------------------------------------------------------


def _raw(savepoint: Snapshot, operator: OperatorState, request: TableRequest, _count: int) -> Iterator[SurveyPart]:
    if request.key_groups is not None or request.state is not None:
        return
    surveyed = Surveyed.of(operator)
    if operator.coordinator_state is not None:
        note = "not checked: bytes that only their owner can read"
        size = operator.coordinator_state_size
        yield Bytes(surveyed, "coordinator_state", None, 1, size, (), note)
    for source in operator_sources(savepoint, operator, raw=True):
        starts = tuple(sorted(offset for state in source.states for offset in state.offsets))
        yield Bytes(surveyed, "raw_operator_state", source.subtask, len(starts), None, (source.location,), ONLY_OWNER)
    timers = {source.location for source in raw_timer_sources(savepoint, operator)}
    for index in sorted(operator.subtasks):
        subtask = operator.subtasks[index]
        handle = subtask.raw_keyed_state
        if isinstance(handle, KeyGroupsStateHandle):
            location = savepoint.resolve(handle.delegate, operator)
            pieces = sum(offset >= 0 for _, offset in handle.offsets)
            if location not in timers:
                yield Bytes(surveyed, "raw_keyed_state", index, pieces, None, (location,), ONLY_OWNER)
        channels = (*subtask.input_channel_state, *subtask.result_subpartition_state)
        if channels:
            places = tuple(savepoint.resolve(channel.delegate, operator) for channel in channels)
            yield Bytes(surveyed, "channel_state", index, len(channels), None, places, ONLY_OWNER)


@dataclass(frozen=True, slots=True)
class Bytes:
    """Bytes that only their owner can read; ``size`` if known."""

    operator: Surveyed
    table: str
    subtask: int | None
    entries: int
    size: int | None
    locations: tuple[StateLocation, ...]
    note: str

    def reads(self) -> Iterator[Read]:
        """Yield what is read: how large each file is."""
        return ((location, SIZE) for location in self.locations)

    def rows(self, request: TableRequest) -> Iterator[Row]:
        what = {"table": self.table, "kind": "RAW", "subtask": self.subtask, "entries": self.entries}
        size = self.size or 0
        try:
            for location in self.locations:
                with location.open(SIZE) as opened:
                    size += opened.size
        except SavepointError as error:
            yield self.operator.row(status=ERROR, note=str(error), **what)
        else:
            yield self.operator.row(status=OK, bytes=size, note=self.note, **what)


def _files(savepoint: Snapshot, operator: OperatorState, request: TableRequest, _count: int) -> Iterator[SurveyPart]:
    if request.key_groups is not None or request.state is not None:
        return
    files = [handle for handle in dict.fromkeys(streams_of(operator)) if _is_file(handle)]
    for low in range(0, len(files), FILES_AT_ONCE):
        some = files[low : low + FILES_AT_ONCE]
        checksums, changelogs = _checksums(savepoint, some), savepoint.location.changelogs.intersection(some)
        location = replace(savepoint.location, checksums=checksums, checksums_required=False, changelogs=changelogs)
        yield Files(Surveyed.of(operator), location, tuple(some))


def _checksums(savepoint: Snapshot, handles: Sequence[StreamStateHandle]) -> Manifest | None:
    """Return the checksums of some files; None if the snapshot has no checksums."""
    checksums = savepoint.metadata.checksums
    if checksums is None:
        return None
    names = (handle.relative_path for handle in handles if isinstance(handle, RelativeFileStateHandle))
    return {name: checksums[name] for name in names if name in checksums}


def _is_file(handle: StreamStateHandle) -> bool:
    return isinstance(handle, FileStateHandle | RelativeFileStateHandle | SegmentFileStateHandle)


@dataclass(frozen=True, slots=True)
class Files:
    """Check of some files of an operator's handles."""

    operator: Surveyed
    location: SnapshotLocation
    handles: tuple[StreamStateHandle, ...]

    def reads(self) -> Iterator[Read]:
        """Yield what is read of each file: all of it if it has checksums, else how large it is."""
        for handle in self.handles:
            with suppress(SavepointError):
                yield self._read(handle)

    def _read(self, handle: StreamStateHandle) -> Read:
        location = self.location.resolve(handle, self.operator.label)
        return location, WHOLE if isinstance(location, FileLocation) and location.checksums is not None else SIZE

    def rows(self, request: TableRequest) -> Iterator[Row]:
        """Yield one row for all correct files, and one for each of the others."""
        count = size = 0
        buffer = bytearray(BLOCK)
        for handle in self.handles:
            try:
                longer = self._longer(handle, buffer)
            except SavepointError as error:
                yield self.operator.row(table="files", kind="FILE", status=ERROR, note=str(error))
                continue
            count, size = count + 1, size + handle.state_size
            if longer:
                yield self.operator.row(table="files", kind="FILE", status=WARNING, note=longer)
        if count:
            checksums = self.location.checksums
            note = None if checksums is None else f"{len(checksums)} of these files have checksums, which were verified"
            yield self.operator.row(table="files", kind="FILE", status=OK, entries=count, bytes=size, note=note)

    def _longer(self, handle: StreamStateHandle, buffer: bytearray) -> str | None:
        """Check one file: it must exist, be long enough and, if it has checksums, match them.

        Return a text if the file is longer than it was written.
        """
        location, opening = self._read(handle)
        if not isinstance(location, FileLocation):
            return None
        if location.is_verified and location.checksums is not None and location.size == location.checksums.size:
            return None  # while its state was checked
        with location.open(opening) as opened:
            if location.checksums is not None:
                for start in range(0, opened.size, BLOCK):
                    opened.read_into(start, memoryview(buffer)[: opened.size - start])
            if location.segment or location.size < 0 or opened.size == location.size:
                return None
            return f"{opened.path} has {opened.size} bytes, {location.size} were written"


PLANNED: dict[Callable[..., Iterator[SurveyPart]], str] = {
    _keyed: "keyed_state",
    plan_state_sets: "keyed_state",
    _elements: "operator_state",
    _raw: "raw_keyed_state",
    _files: "files",
}
