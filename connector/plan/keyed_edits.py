"""Edits of an operator's keyed state as tables of its entries.

Added tables are converted to entries, deleted keys to rows without state. They are written as table ``entries``, whose
tasks merge them with the entries of the base, which they read as bytes. Only if tasks cannot know the key groups of
keys (hash codes are given, or only user code computes them), the base is read as a table too, and joined.

Rows of one table alone, added to the remaining state as they are (:class:`RowsToMerge`), are encoded by the task that
writes: the engine moves the columns that were given. All other edits are encoded before they are moved.

Rows for an operator of PyFlink are converted to the form that Flink stores before edits use the registered types.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from math import gcd
from typing import TYPE_CHECKING

import pyarrow as pa

from pyspark_savepoint.formats.columns import DecodeOptions
from pyspark_savepoint.formats.errors import (
    OptionError,
    StateNotFoundError,
    UndecodableStateError,
    UnsupportedStateError,
    type_name,
)
from pyspark_savepoint.formats.filesystems.storage_options import OPTION
from pyspark_savepoint.formats.keyed.meta_info import KeyedBackendHeader
from pyspark_savepoint.formats.metadata.keyed_handles import KeyGroupsStateHandle
from pyspark_savepoint.formats.snapshot.changes import has_channel_state
from pyspark_savepoint.options.options import SavepointReadOptions
from pyspark_savepoint.plan.operator_plan import (
    KEYED,
    OPERATOR,
    TIMERS,
    Base,
    OperatorPlan,
    PlannedState,
    StateInput,
    States,
)
from pyspark_savepoint.statebackends.python.python_rows import PythonRows
from pyspark_savepoint.statebackends.python.python_state import (
    PREFIX,
    is_python_operator,
    is_python_state,
    job_name_of,
    python_states,
    unwrapped,
)
from pyspark_savepoint.statebackends.python.resolve import python_key
from pyspark_savepoint.statebackends.requests.request import EntriesRequest, TableRequest
from pyspark_savepoint.statebackends.rows.descriptors import KeyedDescriptor, StateDescriptor, StateKind
from pyspark_savepoint.statebackends.rows.entry_bytes import (
    ENTRIES,
    KEYED_ENTRIES,
    SERIALIZED_KEY,
    is_timer,
    map_namespaces,
)
from pyspark_savepoint.statebackends.rows.json_values import from_json
from pyspark_savepoint.statebackends.rows.state_column import unwrap
from pyspark_savepoint.statebackends.tables.keys import exact_options
from pyspark_savepoint.statebackends.writing.entry_encoder import (
    KEYS,
    ORDERED_PLACES,
    PLACE,
    PLACES,
    DeletionEncoder,
    EntryEncoder,
    KeyEncoder,
    LaterPlaces,
    PlacedEntries,
    PlacedRows,
    Regroup,
    RegroupByKey,
    RemapStateIds,
    key_columns,
)
from pyspark_savepoint.statebackends.writing.planning.describe_key import KEY
from pyspark_savepoint.statebackends.writing.planning.describe_state import entry_columns
from pyspark_savepoint.statebackends.writing.planning.edited_header import KeyedStates
from pyspark_savepoint.statebackends.writing.planning.write_request import ENTRIES as ENTRIES_TABLE
from pyspark_savepoint.statebackends.writing.planning.write_request import KEYED_STATE, WINDOW_STATE, WriteSpec
from pyspark_savepoint.statebackends.writing.planning.write_request import TIMERS as TIMERS_TABLE
from pyspark_savepoint.statebackends.writing.row_forms import DescribedRows

if TYPE_CHECKING:
    from pyspark_savepoint.formats.serializers.base import TypeSerializer
    from pyspark_savepoint.plan.engine import Engine, Rows
    from pyspark_savepoint.statebackends.sources.open_operator import OpenOperator

KEY_COLUMN = "key"
MAP = "MAP"


@dataclass(frozen=True)
class PythonEncoder:
    """Function of batches that converts rows of PyFlink's."""

    rows: PythonRows

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the converted batches."""
        for batch in batches:
            yield self.rows.batch(batch)


def python_name(plan: OperatorPlan, name: str) -> str | None:
    """Return the name under which PyFlink registers a state of the operator; None for a state of Java's."""
    opened = _opened(plan)
    registered = PREFIX + job_name_of(name)
    return registered if opened is not None and is_python_state(opened, registered) else None


def python_names(plan: OperatorPlan) -> frozenset[str]:
    """Return the names under which PyFlink registers states of the operator; none for an operator of Java's."""
    opened = _opened(plan)
    return frozenset(python_states(opened)) if opened is not None else frozenset()


def with_stored_values(
    plan: OperatorPlan, name: str, column: str, rows: Rows, texts: Mapping[str, str], *, namespaced: bool
) -> Rows:
    """Return rows of a state of PyFlink with the column that Flink stores, under its registered name."""
    opened = _opened(plan)
    assert opened is not None
    if "key" in texts:
        raise OptionError(
            "option 'key' is not for operators of PyFlink",
            operator=plan.label,
            remedy=f"name the column {KEY_COLUMN!r}",
        )
    shown = job_name_of(name)
    named = rows.renamed({column: shown})
    request = TableRequest(opened.savepoint.path, py_types=texts.get("pyTypes"))
    return _converted(named, PythonRows.of(opened, request, named.schema, KEY_COLUMN, namespaced))


def python_key_type(plan: OperatorPlan) -> pa.DataType | None:
    """Return the type of a PyFlink operator's keys as the job has them; None for other operators."""
    opened = _opened(plan)
    if opened is None or not is_python_operator(opened):
        return None
    key = python_key(opened, TableRequest(opened.savepoint.path))
    inner = unwrapped(key.wrapped) if key is not None else None
    if key is None or inner is None:
        return None
    return key.pickled or inner.arrow_type(DecodeOptions())


def with_stored_keys(plan: OperatorPlan, keys: Rows) -> Rows:
    """Return keys as Flink stores them; those of operators of Java as they are."""
    opened = _opened(plan)
    if opened is None or not is_python_operator(opened) or keys.schema.names != [KEY_COLUMN]:
        return keys
    request = TableRequest(opened.savepoint.path)
    return _converted(keys, PythonRows.of(opened, request, keys.schema, KEY_COLUMN, namespaced=False))


def stored_keys(plan: OperatorPlan, batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch of keys as Flink stores them; those of operators of Java as they are."""
    opened = _opened(plan)
    if opened is None or not is_python_operator(opened):
        return batch
    return PythonRows.of(opened, TableRequest(opened.savepoint.path), batch.schema, KEY_COLUMN, namespaced=False).batch(
        batch
    )


def _converted(rows: Rows, form: PythonRows) -> Rows:
    return rows.mapped(PythonEncoder(form), form.schema(rows.schema))


def _opened(plan: OperatorPlan) -> OpenOperator | None:
    return plan.base.opened if plan.base is not None else None


PLAIN = DecodeOptions(timestamps="raw")
HASH_CODE = "hash_code"
#: Options of ``Savepoint.load`` that determine how the snapshot's bytes are found and read.
READ_OPTIONS = frozenset({"allowOutside", "checksums", "classes", "kryo", "kryoTypes", "memory", OPTION})
#: Number of times that tasks may read a file of the base for a larger max parallelism, instead of a shuffle.
MAX_READS = 8


def with_states(plan: OperatorPlan) -> OperatorPlan:
    """Return the plan with its list of states, read from the headers of the base's files."""
    if plan.states is not None:
        return plan
    if plan.base is None:
        return replace(plan, states=States())
    opened = plan.base.opened
    keyed = KeyedStates.of(opened)
    states = [
        PlannedState(TIMERS if timer else KEYED, meta, origin=name) for (name, timer), meta in keyed.metas.items()
    ]
    of_operator = {meta.name: meta for meta in opened.operator_states}
    states += [PlannedState(OPERATOR, meta, origin=name) for name, meta in of_operator.items()]
    return replace(
        plan,
        states=States(states),
        key_serializer=keyed.key_serializer,
        compressed=keyed.compressed,
        raw_timers=keyed.raw_timers,
    )


def decode_options(plan: OperatorPlan) -> DecodeOptions:
    """Return the options that read an operator's keys as they are, with the Kryo of the release that wrote them."""
    if plan.base is None:
        return PLAIN
    request = SavepointReadOptions.parse({**read_options(plan.base), "path": plan.base.path}).request()
    return replace(PLAIN, kryo=request.of_version(plan.base.snapshot.metadata.version).decode.kryo)


def read_options(base: Base) -> dict[str, str]:
    """Return the options that determine how the bytes of a base are found and read."""
    return {name: text for name, text in base.options.items() if name in READ_OPTIONS}


def with_keys_deleted(engine: Engine, plan: OperatorPlan, keys: object) -> OperatorPlan:
    """Return the plan without some keys, given as a table or a list; its columns or the keys are checked."""
    plan = with_states(plan)
    if plan.key_serializer is None:
        raise StateNotFoundError("the operator has no keyed state", operator=plan.label)
    refuse_raw_state(plan, "deleted")
    kind = python_key_type(plan) or plan.key_serializer.arrow_type(PLAIN)
    rows = engine.rows(keys)
    stored = with_stored_keys(plan, _listed_keys(engine, plan, kind, keys) if rows is None else rows)
    (*columns,) = key_columns(plan.key_serializer, stored.schema, plan.label)
    return plan.with_deleted_keys(stored.renamed({columns[0]: KEY}) if columns == [SERIALIZED_KEY] else stored)


def with_stored_keys_deleted(plan: OperatorPlan, keys: Rows) -> OperatorPlan:
    """Return the plan without some keys, given by the bytes that its files have: column ``serialized_key``."""
    plan = with_states(plan)
    refuse_raw_state(plan, "deleted")
    return plan.with_deleted_keys(keys)


def _listed_keys(engine: Engine, plan: OperatorPlan, kind: pa.DataType, keys: object) -> Rows:
    """Return a table of keys that are given as a list."""
    if not isinstance(keys, list | tuple | set | frozenset | range):
        raise OptionError(
            f"keys must be {engine.rows_are} or a list",
            operator=plan.label,
            found=type_name(keys),
            remedy="remove_keys(uid, [1, 2]), or remove_keys(uid, rows.select('key'))",
        )
    try:
        column = pa.array([from_json(key, kind, "key") for key in keys], kind)
    except OptionError as error:
        raise error.with_facts(operator=plan.label) from None
    return engine.of_arrow(pa.table({"key": column}))


def rehashed(plan: OperatorPlan, number: int, key_hashes: Rows | None) -> OperatorPlan:
    """Return the plan with another max parallelism; raise an error if key groups of its keys cannot be computed."""
    if any(one.spec.max_parallelism is not None or one.rows.laid_out for one in plan.inputs):
        raise OptionError(
            "the rows added to this savepoint were partitioned for another max parallelism",
            operator=plan.label,
            remedy="call with_max_parallelism(...) first, or create(max_parallelism=...)",
        )
    plan = replace(plan, new_max_parallelism=number, default_max_parallelism=number, key_hashes=key_hashes)
    plan = replace(plan, inputs=tuple(_regrouped_input(plan, one) for one in plan.inputs))
    if plan.base is not None and plan.base.has_operator_state and plan.base.operator.parallelism > number:
        raise OptionError(
            "the max parallelism must not be less than the parallelism of an operator",
            operator=plan.label,
            expected=f"{plan.base.operator.parallelism} at least",
            found=number,
        )
    if not plan.rehashes:
        return plan
    plan = with_states(plan)
    refuse_raw_state(plan, "rehashed")
    assert plan.base is not None
    if has_channel_state(plan.base.operator):
        raise UnsupportedStateError(
            "the checkpoint has in-flight records, which belong to channels of the old key groups",
            path=plan.base.snapshot.path,
            operator=plan.label,
            remedy="start from a savepoint or an aligned checkpoint: they have no such records; or "
            "with_max_parallelism(n, operators=[...]) keeps the operator as it is",
        )
    if key_hashes is None and plan.key_serializer is not None:
        _check_hash(plan, plan.key_serializer)
    return plan


def _regrouped_input(plan: OperatorPlan, state: StateInput) -> StateInput:
    """Return a table in the new key groups: rows get theirs when they are encoded, entries have those of before."""
    if state.spec.table != ENTRIES_TABLE:
        return state
    descriptor = state.descriptor
    assert isinstance(descriptor, KeyedDescriptor)
    same = RemapStateIds(descriptor, tuple(range(len(descriptor.states))), with_keys=True)
    entries = state.rows.mapped(same, KEYED_ENTRIES)
    if plan.key_hashes is not None:
        rows = _regrouped(plan, entries).select(*ENTRIES.names)
    else:
        _check_hash(plan, descriptor.key_serializer)
        options = exact_options(decode_options(plan))
        rows = entries.mapped(RegroupByKey(descriptor.key_serializer, plan.max_parallelism, options), ENTRIES)
    return replace(state, rows=rows, bases=(), rest=None)


def _check_hash(plan: OperatorPlan, serializer: TypeSerializer) -> None:
    try:
        serializer.java_hash(pa.array([], serializer.arrow_type(PLAIN)))
    except UndecodableStateError as error:
        raise UndecodableStateError(
            "the key groups of this key type cannot be computed: its hashCode is defined by the job's own code",
            operator=plan.label,
            found=error.facts.get("found", serializer.flink_type),
            remedy="with_max_parallelism(n, key_hashes={uid: rows}) takes them from a table with the key and "
            "hash_code; with_max_parallelism(n, operators=[...]) keeps the operator as it is, remove_operator leaves "
            "it out",
        ) from None


def refuse_raw_state(plan: OperatorPlan, what: str) -> None:
    """Raise an error for raw keyed state other than timers: only its owner can find keys in it."""
    assert plan.base is not None or not plan.raw_timers
    if plan.base is None or plan.raw_timers:
        return
    for subtask in plan.base.operator.subtasks.values():
        raw = subtask.raw_keyed_state
        if isinstance(raw, KeyGroupsStateHandle) and any(offset >= 0 for offset in raw.offsets.offsets):
            raise UnsupportedStateError(
                f"the operator has raw keyed state, in which keys cannot be {what}: only the operator's own code can "
                "read it",
                path=plan.base.snapshot.path,
                operator=plan.label,
                remedy="table raw_keyed_state shows it; remove_operator leaves the operator out"
                + (", with_max_parallelism(n, operators=[...]) keeps it as it is" if what == "rehashed" else ""),
            )


@dataclass(frozen=True)
class EditedState:
    """All entries of an operator after its edits, and the header of their files.

    ``bases`` are reads of the entries of existing operators, which the writing tasks merge with those of the
    rows. ``rows`` is None if there is nothing to merge with them.
    """

    rows: Rows | None
    header: KeyedBackendHeader
    bases: tuple[SavepointReadOptions, ...] = ()


def edited_state(
    engine: Engine, plan: OperatorPlan, merges: bool = False, *, marks: bool = False
) -> EditedState | None:
    """Return the keyed state of an operator after all edits, None if there is none left; no job runs yet.

    ``merges``: entries of existing operators may be left to the tasks that write. ``marks``: the rows may have marks,
    by which these tasks find the entries that rows replace.
    """
    states = plan.of_kind(KEYED, TIMERS)
    if not states or plan.key_serializer is None:
        return None
    merges = merges and can_merge(plan) and (marks or not has_updates(plan))
    joins = any(len(state.inputs) > 1 or (state.updates and not merges) for state in states)
    with_keys = bool(plan.deletions) or plan.key_hashes is not None or joins
    of_maps = updates_maps(states)
    merged = {i for i, one in enumerate(plan.inputs) if merges and one.bases and not plan.deletions and not of_maps}
    marks = marks and merges and any(state.from_input in {-1, *merged} for state in states)
    replaced = _replaced(plan, states)
    tables: list[Rows] = []
    bases: list[SavepointReadOptions] = []
    if any(state.from_input < 0 for state in states):
        if merges:
            bases.append(base_read(plan, states, with_keys or of_maps))
            tables += [_deleted(plan, keys) for _, keys in plan.deletions]
        else:
            entries = without_deleted(plan, base_entries(engine, plan, states, with_keys), -1)
            tables.append(_superseded(entries, states, -1, replaced))
    for i, state_input in enumerate(plan.inputs):
        numbers = {(state.origin, state.kind): number for number, state in enumerate(states) if i in state.inputs}
        if not numbers:
            continue
        added: StateInput | None = state_input
        if i in merged:
            bases += [renumbered(base, own_numbers(state_input, numbers), len(states)) for base in state_input.bases]
            added = replace(state_input, rows=state_input.rest) if state_input.rest is not None else None
        if added is not None:
            marked = [n for n, state in enumerate(states) if i in state.updates or state.meta.state_type == MAP]
            encoded = _encoded(plan, added, numbers, with_keys, tuple(marked) if marks else ())
            tables.append(_superseded(without_deleted(plan, encoded, i), states, i, replaced))
    whole = [table.select(*ENTRIES.names) for table in tables]
    header = KeyedBackendHeader(plan.compressed, plan.key_serializer, tuple(state.meta for state in states))
    return EditedState(all_rows(whole) if whole else None, header, tuple(bases))


def has_updates(plan: OperatorPlan) -> bool:
    """Return whether rows were laid over a state that has others."""
    return any(state.updates for state in plan.of_kind(KEYED))


def updates_maps(states: Sequence[PlannedState]) -> bool:
    """Return whether rows were laid over map state, whose entries are found by the keys in them."""
    return any(state.updates and state.meta.state_type == MAP for state in states)


def _replaced(plan: OperatorPlan, states: Sequence[PlannedState]) -> Rows | None:
    """Return the places of all rows that were laid over states, each with the number of its table."""
    updated: dict[int, list[int]] = {}
    for place, state in enumerate(states):
        for update in state.updates:
            updated.setdefault(update, []).append(place)
    tables = []
    for update, places in updated.items():
        state_input = plan.inputs[update]
        assert isinstance(state_input.descriptor, KeyedDescriptor)
        rows = DescribedRows(state_input.descriptor, state_input.rows.schema, plan.max_parallelism, plan.label)
        tables.append(state_input.rows.mapped(PlacedRows(rows, tuple(places), update), ORDERED_PLACES))
    return all_rows(tables).held() if tables else None


def _superseded(entries: Rows, states: Sequence[PlannedState], number: int, replaced: Rows | None) -> Rows:
    """Return the entries of the base (-1) or of a table without those that rows of later tables replace."""
    if replaced is None or not any(
        state.updates and number in (state.from_input, *state.updates[:-1]) for state in states
    ):
        return entries
    maps = tuple((n, size) for n, size in map_namespaces([state.meta for state in states]).items())
    placed = entries.mapped(PlacedEntries(maps), KEYED_ENTRIES.append(PLACES.field(0)))
    is_first = number < min(update for state in states for update in state.updates)
    later = replaced.select(PLACE) if is_first else replaced.mapped(LaterPlaces(number), PLACES)
    return placed.without(later, PLACE).select(*KEYED_ENTRIES.names)


def entries_descriptor(header: KeyedBackendHeader) -> KeyedDescriptor:
    """Return the descriptor of entries: names, kinds and serializers, without columns."""
    states = []
    for meta in header.states:
        kind = StateKind.TIMER if is_timer(meta) else StateKind(meta.options["KEYED_STATE_TYPE"])
        states.append(StateDescriptor(meta.name, kind, meta.serializers["VALUE_SERIALIZER"]))
    return KeyedDescriptor((), header.key_serializer, tuple(states))


def all_rows(tables: Sequence[Rows]) -> Rows:
    """Return the rows of all tables."""
    return reduce(lambda one, other: one.union(other), tables)


def renumbered(base: SavepointReadOptions, numbers: Sequence[int], count: int) -> SavepointReadOptions:
    """Return a read of entries with other state numbers; -1: these are not read."""
    assert base.entries is not None
    states: list[tuple[str, bool] | None] = [None] * count
    for state, number in zip(base.entries.states, numbers, strict=True):
        if number >= 0:
            states[number] = state
    return replace(base, entries=replace(base.entries, states=tuple(states)))


def own_numbers(state_input: StateInput, numbers: Mapping[tuple[str, str], int]) -> tuple[int, ...]:
    """Return the new numbers of the states of a table, -1 for one that is not written."""
    assert isinstance(state_input.descriptor, KeyedDescriptor)
    states = state_input.descriptor.states
    return tuple(numbers.get((state.name, TIMERS if state.kind is StateKind.TIMER else KEYED), -1) for state in states)


def can_merge(plan: OperatorPlan) -> bool:
    """Return whether tasks can merge entries of the base: whether they find the key groups of the keys themselves."""
    if plan.key_hashes is not None or plan.key_serializer is None:
        return False
    if plan.base is not None and plan.rehashes:
        old, new = plan.base.operator.max_parallelism, plan.max_parallelism
        if new // gcd(old, new) > MAX_READS:
            return False
    if plan.deletions:
        try:
            plan.key_serializer.java_hash(pa.array([], plan.key_serializer.arrow_type(PLAIN)))
        except UndecodableStateError:
            return False
    return True


def _key_columns(plan: OperatorPlan, schema: pa.Schema) -> tuple[str, ...]:
    """Return the key columns of a table of keys; those of keys as bytes have a name of their own."""
    assert plan.key_serializer is not None
    if schema.names == [SERIALIZED_KEY]:
        return (SERIALIZED_KEY,)
    return key_columns(plan.key_serializer, schema, plan.label)


def _deleted(plan: OperatorPlan, keys: Rows) -> Rows:
    """Return keys as rows that delete their entries from the base."""
    assert plan.key_serializer is not None
    columns = _key_columns(plan, keys.schema)
    encoder = DeletionEncoder(
        KeyEncoder(plan.key_serializer, columns, (), plan.label),
        plan.key_serializer,
        plan.max_parallelism,
        exact_options(decode_options(plan)),
    )
    return keys.select(*columns).mapped(encoder, ENTRIES)


def base_read(plan: OperatorPlan, states: list[PlannedState], with_keys: bool) -> SavepointReadOptions:
    """Return the read of the remaining entries of the base."""
    assert plan.base is not None
    base = plan.base
    if base.relocated:
        raise UnsupportedStateError(
            "an operator cannot be relocated and edited in one write",
            operator=plan.label,
            remedy="write the relocated savepoint first, then load and edit that",
        )
    by_hash = plan.rehashes and plan.key_hashes is None
    entries = EntriesRequest(
        tuple((state.origin, state.kind == TIMERS) if state.from_input < 0 else None for state in states),
        keys=with_keys,
        max_parallelism=plan.max_parallelism if by_hash else None,
        raw_timers=plan.raw_timers,
        digest=base.snapshot.digest.hex(),
        lost_subtasks=base.lost.subtasks,
        lost_raw=base.lost.raw,
        lost_key_groups=base.lost.key_groups,
        lost_files=base.lost.files,
    )
    own = {"path": base.path, "uidHash": base.operator.operator_id.hex, "checksums": base.checksums_of_entries}
    return replace(SavepointReadOptions.parse(read_options(base) | own), entries=entries)


def base_entries(engine: Engine, plan: OperatorPlan, states: list[PlannedState], with_keys: bool) -> Rows:
    """Return the entries of states of the base, in the key groups of the plan."""
    entries = engine.read(base_read(plan, states, with_keys))
    return _regrouped(plan, entries) if plan.rehashes and plan.key_hashes is not None else entries


def _encoded(
    plan: OperatorPlan,
    state_input: StateInput,
    numbers: Mapping[tuple[str, str], int],
    with_keys: bool,
    marked: tuple[int, ...] = (),
) -> Rows:
    assert isinstance(state_input.descriptor, KeyedDescriptor)
    own = own_numbers(state_input, numbers)
    if state_input.spec.table == ENTRIES_TABLE:
        renumbered = RemapStateIds(state_input.descriptor, own, with_keys)
        return state_input.rows.mapped(renumbered, KEYED_ENTRIES if with_keys else ENTRIES)
    label = f"{state_input.spec.operator} ({plan.identifier.operator_id})"
    rows = DescribedRows(state_input.descriptor, state_input.rows.schema, plan.max_parallelism, label)
    encoder = EntryEncoder(rows, state_input.spec.table == TIMERS_TABLE, own, with_keys, marked)
    return state_input.rows.mapped(encoder, KEYED_ENTRIES if with_keys else ENTRIES)


def without_deleted(plan: OperatorPlan, entries: Rows, from_input: int) -> Rows:
    """Return the entries without the keys deleted after table ``from_input`` was added (-1: the base)."""
    deleted = [key_bytes(plan, keys) for inputs_before, keys in plan.deletions if from_input < inputs_before]
    return entries.without(all_rows(deleted), SERIALIZED_KEY) if deleted else entries


def key_bytes(plan: OperatorPlan, keys: Rows, *more: str) -> Rows:
    """Return the keys of a table as bytes, with some of its other columns."""
    assert plan.key_serializer is not None
    schema = keys.schema
    columns = _key_columns(plan, pa.schema([field for field in schema if field.name not in more]))
    encoder = KeyEncoder(plan.key_serializer, columns, more, plan.label)
    return keys.select(*columns, *more).mapped(encoder, pa.schema([*KEYS, *(schema.field(name) for name in more)]))


def _regrouped(plan: OperatorPlan, entries: Rows) -> Rows:
    """Return the entries with key groups computed from the given hashes."""
    assert plan.key_hashes is not None
    hashes = key_bytes(plan, plan.key_hashes, HASH_CODE)
    regroup = Regroup(plan.max_parallelism, plan.label)
    return entries.joined(hashes, SERIALIZED_KEY).mapped(regroup, KEYED_ENTRIES)


@dataclass(frozen=True)
class RowsToMerge:
    """Rows, how they are written, and the read of the entries with which they are merged."""

    rows: Rows
    spec: WriteSpec
    descriptor: KeyedDescriptor
    header: KeyedBackendHeader
    base: SavepointReadOptions


def merged_rows(plan: OperatorPlan) -> RowsToMerge | None:
    """Return the only edit of an operator's keyed state if it is a table of its states; None for all others."""
    states = plan.of_kind(KEYED, TIMERS)
    sources = {number for state in states for number in (state.from_input, *state.updates)}
    if len(sources) != 2 or -1 not in sources or plan.deletions or plan.key_serializer is None or not can_merge(plan):
        return None
    number = max(sources)
    state_input = plan.inputs[number]
    if state_input.spec.table not in (KEYED_STATE, WINDOW_STATE) or not isinstance(
        state_input.descriptor, KeyedDescriptor
    ):
        return None
    header = KeyedBackendHeader(plan.compressed, plan.key_serializer, tuple(state.meta for state in states))
    descriptor = state_input.descriptor
    spec = WriteSpec(
        table=ENTRIES_TABLE,
        compression="snappy" if plan.compressed else "none",
        key=descriptor.key_columns,
        key_group=descriptor.key_group,
        composite_key=descriptor.composite,
        entry_columns=entry_columns(descriptor, {s.origin: i for i, s in enumerate(states) if number in s.inputs}),
        updated=tuple(i for i, state in enumerate(states) if number in state.updates),
        sort_memory=state_input.spec.sort_memory,
        serializers=state_input.spec.serializers,
    )
    described = _described(descriptor, header, states, number)
    if described is None:
        return None
    columns = [
        *descriptor.key_columns,
        *(name for name in (descriptor.namespace_column, descriptor.key_group) if name is not None),
    ]
    columns += [name for _, *names in spec.entry_columns for name in names if name is not None]
    base = base_read(plan, states, updates_maps(states))
    return RowsToMerge(state_input.rows.select(*columns), spec, described, header, base)


def _described(
    descriptor: KeyedDescriptor, header: KeyedBackendHeader, states: list[PlannedState], number: int
) -> KeyedDescriptor | None:
    """Return the descriptor of the states of a table that are written, under their names in the header.

    None if the serializers of the header do not encode the rows exactly as those that were determined for them.
    """
    names = {state.origin: (place, state.name) for place, state in enumerate(states) if number in state.inputs}
    written = []
    for state in (state for state in descriptor.states if state.name in names):
        place, name = names[state.name]
        meta = header.states[place]
        if (meta.state_type, unwrap(meta.value_serializer)) != (state.kind.value, state.serializer):
            return None
        if (meta.namespace_serializer, header.key_serializer) != (state.namespace, descriptor.key_serializer):
            return None
        written.append(replace(state, name=name))
    return replace(descriptor, states=tuple(written))
