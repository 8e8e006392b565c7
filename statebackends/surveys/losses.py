"""What of an operator's state cannot be read: which handles, key groups, table files and states, and why.

what is damaged                         what is lost
the header of a file, or all of it      the handle: all states of its key groups
a part of it                            its key groups: all states in them
a table file of a database              all entries of its state between its smallest and its largest key
operator state                          the states of which an element cannot be read, in the subtask; or all of them
in-flight records, raw state            the handle

Table files are found in the manifest, and read block by block, with their checksums; entries are checked as
:mod:`verification` checks them. Values without known ends cannot be checked, and are no damage.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from pyspark_savepoint.formats.columns import DecodeOptions
from pyspark_savepoint.formats.errors import (
    CorruptStateError,
    SavepointError,
    StateFileNotFoundError,
    UndecodableStateError,
)
from pyspark_savepoint.formats.io.byte_source import opened_ahead
from pyspark_savepoint.formats.io.run_ahead import ahead
from pyspark_savepoint.formats.io.snapshot_files import BEGINNING
from pyspark_savepoint.formats.metadata import OperatorState, OperatorSubtaskState
from pyspark_savepoint.formats.metadata.keyed_handles import KeyGroupsStateHandle
from pyspark_savepoint.formats.metadata.operator_handles import OperatorStreamStateHandle
from pyspark_savepoint.formats.rocksdb.database import Database
from pyspark_savepoint.formats.rocksdb.manifest import ColumnFamily, FileMetaData
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.statebackends.requests.request import TableRequest
from pyspark_savepoint.statebackends.sources.keyed_source import RocksDBSource
from pyspark_savepoint.statebackends.sources.keyed_sources import AnyKeyedSource, keyed_sources
from pyspark_savepoint.statebackends.sources.lost_state import LostState
from pyspark_savepoint.statebackends.sources.operator_sources import operator_sources
from pyspark_savepoint.statebackends.surveys.entry_checks import EntryChecks, Tally
from pyspark_savepoint.statebackends.surveys.sizes import requested_states
from pyspark_savepoint.statebackends.surveys.survey import STATE_FIELDS, Row, Surveyed
from pyspark_savepoint.statebackends.surveys.verification import Errors, Walk
from pyspark_savepoint.statebackends.tables.keys import exact_options

SCHEMA = pa.schema(
    [
        *STATE_FIELDS,
        pa.field("subtask", pa.int32()),
        pa.field("first_key_group", pa.int32()),
        pa.field("last_key_group", pa.int32()),
        pa.field("first_key", pa.binary()),
        pa.field("last_key", pa.binary()),
        pa.field("note", pa.string()),
    ]
)
KEYED = "keyed_state"
#: What is damage; a store that cannot be reached, or a file outside of the snapshot, is none.
DAMAGE = (CorruptStateError, StateFileNotFoundError)


@dataclass
class Damage:
    """What one operator loses: a row for each loss, the keyed state that is left out, and what is left of it."""

    rows: list[Row]
    lost: LostState
    left: OperatorState


#: An operator of a snapshot, and how it is read.
Searched = tuple[Snapshot, OperatorState, TableRequest]


def damages_of(operators: Sequence[Searched]) -> list[Damage]:
    """Read all state of some operators, and return what of each is damaged; of stores many subtasks at a time."""
    subtasks = [(one, index) for one in operators for index in sorted(one[1].subtasks)]
    remote = any(savepoint.location.filesystem.is_remote for savepoint, *_ in operators)

    def search(subtask: tuple[Searched, int]) -> _Search:
        of_subtask = _Search(*subtask[0], subtask[1])
        of_subtask.run()
        return of_subtask

    def size(subtask: tuple[Searched, int]) -> int:
        return subtask[0][1].subtasks[subtask[1]].state_size

    searches = ahead(search, subtasks, remote=remote, size=size)
    return [_damage(operator, [next(searches) for _ in operator.subtasks]) for _, operator, _ in operators]


def _damage(operator: OperatorState, searches: Sequence[_Search]) -> Damage:
    """Return what the searches of all subtasks of an operator have found."""
    lost = LostState(
        tuple(one.index for one in searches if one.is_lost),
        tuple(one.index for one in searches if one.is_raw_lost),
        tuple(sorted({group for one in searches for group in one.key_groups})),
        tuple(file for one in searches for file in one.files),
    )
    left = replace(operator, subtasks={one.index: one.left for one in searches})
    return Damage([row for one in searches for row in one.rows], lost, lost.left_of(left))


class _Every(Errors):
    """All errors, however many."""

    def add(self, error: SavepointError, key_groups: tuple[int, ...]) -> None:
        """Add an error; raise one that is no damage."""
        if not isinstance(error, DAMAGE):
            raise error
        self.named.append((error.facts.get("state"), key_groups, str(error)))


@dataclass
class _Search:
    """The search of one subtask."""

    savepoint: Snapshot
    operator: OperatorState
    request: TableRequest
    index: int
    rows: list[Row] = field(default_factory=list)
    is_lost: bool = False
    is_raw_lost: bool = False
    key_groups: list[int] = field(default_factory=list)
    files: list[tuple[int, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.surveyed = Surveyed.of(self.operator)
        self.left = self.operator.subtasks[self.index]

    def run(self) -> None:
        """Find what the subtask loses."""
        subtask = self.left
        if subtask.managed_keyed_state is not None:
            self._keyed(subtask.managed_keyed_state)
        raw = subtask.raw_keyed_state
        if isinstance(raw, KeyGroupsStateHandle) and (why := self._unreadable([raw.delegate])):
            self.is_raw_lost = True
            self._add("raw_keyed_state", why, groups=list(raw.key_group_range))
        self._operator_state()
        for name in ("input_channel_state", "result_subpartition_state"):
            kept = [handle for handle in getattr(subtask, name) if not self._channel(handle)]
            self.left = _with(self.left, name, tuple(kept))

    def _add(
        self,
        table: str,
        why: object,
        state: str | None = None,
        groups: Sequence[int] = (),
        keys: tuple[bytes, bytes] | None = None,
    ) -> None:
        bounds = {"first_key_group": min(groups), "last_key_group": max(groups)} if groups else {}
        between = {} if keys is None else {"first_key": keys[0], "last_key": keys[1]}
        self.rows.append(
            self.surveyed.row(table=table, state=state, subtask=self.index, note=str(why), **bounds, **between)
        )

    def _unreadable(self, handles: Sequence[Any]) -> SavepointError | None:
        for handle in handles:
            try:
                with self.savepoint.resolve(handle, self.operator).open() as source:
                    if source.size:
                        source.read(source.size - 1, 1)
            except DAMAGE as error:
                return error
        return None

    def _channel(self, handle: Any) -> bool:
        why = self._unreadable([handle.delegate])
        if why is not None:
            self._add("channel_state", why)
        return why is not None

    # -- keyed state ---------------------------------------------------------------------------------------

    def _keyed(self, handle: Any) -> None:
        alone = replace(self.operator, subtasks={self.index: self.operator.subtasks[self.index]})
        try:
            sources = keyed_sources(self.savepoint, alone)
            for source in sources:
                if isinstance(source, RocksDBSource):
                    self._open_database(source)
                else:
                    source.header()
        except UndecodableStateError:
            return  # a serializer snapshot of an unknown class is no damage
        except DAMAGE as error:
            self.is_lost = True
            self._add(KEYED, error, groups=list(handle.key_group_range))
            return
        for source in sources:
            if isinstance(source, RocksDBSource):
                self._database(source)
            self._entries(source)

    @staticmethod
    def _open_database(source: RocksDBSource) -> None:
        source.header()
        with Database(dict(source.files), source.prefix):
            pass

    def _database(self, source: RocksDBSource) -> None:
        """Read the table files one by one."""
        listed = dict(source.files)
        with Database(listed, source.prefix) as database:
            tables = [
                (family, info)
                for family in database.families.values()
                for info in sorted(family.files.values(), key=lambda info: info.number)
            ]
            bounds = source.key_group_range
            first = database.first_reads((info for _, info in tables if info.name in listed), bounds.start, bounds.end)
            with opened_ahead(first):
                for family, info in tables:
                    why = self._damaged_file(database, family, info, source)
                    if why is not None:
                        self.files.append((bounds.start, info.name))
                        self._lost_file(family, info, source, why)
        # Flink needs all files of a handle to restore it, also those that have no state, such as OPTIONS.
        live = {info.name for _, info in tables}
        others = {name: location for name, location in source.files if name not in live}
        with opened_ahead((location, BEGINNING) for location in others.values()):
            for name, location in others.items():
                try:
                    with location.open():
                        pass
                except DAMAGE as error:
                    self.files.append((bounds.start, name))
                    self._add("files", f"no state is lost: {name} has none; {error}")

    def _damaged_file(
        self, database: Database, family: ColumnFamily, info: FileMetaData, source: RocksDBSource
    ) -> SavepointError | None:
        alone = replace(family, files={info.number: info})
        bounds = source.key_group_range
        try:
            known, database.families[family.name] = database.families[family.name], alone
            reader = database.family(family.name, bounds.start, bounds.end, None, {info.number})
            for run in reader.runs:
                for _ in run.steps(bounds.start, bounds.end, self.request.block_bytes):
                    pass
        except DAMAGE as error:
            return error
        finally:
            database.families[family.name] = known
        return None

    def _lost_file(self, family: ColumnFamily, info: FileMetaData, source: RocksDBSource, why: SavepointError) -> None:
        smallest, largest = info.smallest.user_key, info.largest.user_key
        first, last = (int.from_bytes(key[: source.prefix], "big") for key in (smallest, largest))
        owned = source.key_group_range
        groups = range(max(first, owned.start), min(last, owned.end) + 1)
        if groups:
            keys = (smallest[source.prefix :], largest[source.prefix :])
            self._add(KEYED, why, family.name, groups, keys)

    def _entries(self, source: AnyKeyedSource) -> None:
        """Read all entries, key group by key group where some are damaged."""
        (left,) = LostState(files=tuple(self.files)).without([source])
        options: DecodeOptions = exact_options(self.request.decode)
        errors, groups = _Every(), tuple(source.key_group_range)
        try:
            with left.open(options) as stream:
                states = requested_states(stream, self.request)
                tallies = {state: Tally() for state in states}
                checks = EntryChecks(stream.header, self.operator.max_parallelism, options)
                Walk(stream, checks, self.request.block_bytes, errors).walk(groups, set(states), tallies)
        except UndecodableStateError:
            return
        except DAMAGE as error:
            errors.add(error, groups)
        for _, damaged, why in errors.named:
            self.key_groups += damaged
            self._add(KEYED, why, groups=damaged)

    # -- operator state ------------------------------------------------------------------------------------

    def _operator_state(self) -> None:
        subtask = self.operator.subtasks[self.index]
        for raw, name in ((False, "managed_operator_state"), (True, "raw_operator_state")):
            handle = getattr(subtask, name)
            if not isinstance(handle, OperatorStreamStateHandle):
                continue
            table = "raw_operator_state" if raw else "operator_state"
            alone = replace(self.operator, subtasks={self.index: subtask})
            try:
                broken = self._broken_states(alone, raw)
            except UndecodableStateError:
                continue
            except DAMAGE as error:
                self._add(table, error)
                self.left = _with(self.left, name, None)
                continue
            for state, why in broken.items():
                self._add(table, why, state)
            if broken:
                kept = tuple(state for state in handle.states if state.name not in broken)
                self.left = _with(self.left, name, replace(handle, states=kept))

    def _broken_states(self, alone: OperatorState, raw: bool) -> dict[str, SavepointError]:
        broken: dict[str, SavepointError] = {}
        for source in operator_sources(self.savepoint, alone, raw=raw):
            with source.location.open() as opened:
                if raw:
                    opened.read(opened.size - 1, 1)
                    continue
                stream = source.stream(opened)
                for state in source.states:
                    try:
                        for _ in stream.windows(source.offsets(state.name), self.request.block_bytes):
                            pass
                    except DAMAGE as error:
                        broken[state.name] = error
        return broken


def _with(subtask: OperatorSubtaskState, name: str, handle: Any) -> OperatorSubtaskState:
    """Return the subtask with another handle."""
    changes: dict[str, Any] = {name: handle}
    return replace(subtask, **changes)
