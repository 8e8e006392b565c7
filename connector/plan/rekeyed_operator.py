"""Re-key of an operator: all of its entries become one table of entries with new keys. Only keys are decoded.

A new key is the old key in another type, the result of an expression or a function, or comes from a table of pairs.
Before the operator is written, all pairs are sorted to find two keys that would become one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from pyspark_savepoint.formats.columns import DecodeOptions
from pyspark_savepoint.formats.errors import (
    DuplicateKeyError,
    OptionError,
    StateNotFoundError,
    UndecodableStateError,
    UnsupportedStateError,
    did_you_mean,
)
from pyspark_savepoint.formats.keyed.meta_info import KeyedBackendHeader, StateMetaInfoSnapshot
from pyspark_savepoint.formats.serializers.base import TypeSerializer
from pyspark_savepoint.formats.serializers.basic.primitives import NumberSerializer
from pyspark_savepoint.formats.snapshot.changes import has_channel_state
from pyspark_savepoint.options.option_values import to_options
from pyspark_savepoint.plan.engine import Engine, Rows
from pyspark_savepoint.plan.keyed_edits import (
    all_rows,
    decode_options,
    edited_state,
    entries_descriptor,
    refuse_raw_state,
    with_states,
)
from pyspark_savepoint.plan.operator_plan import KEYED, OPERATOR, TIMERS, OperatorPlan, PlannedState, StateInput, States
from pyspark_savepoint.plan.state_inputs import parsed_spec
from pyspark_savepoint.statebackends.python.python_state import is_python_operator
from pyspark_savepoint.statebackends.rows.descriptors import KeyedDescriptor
from pyspark_savepoint.statebackends.rows.entry_bytes import (
    ENTRIES,
    KEY_GROUP,
    KEYED_ENTRIES,
    SERIALIZED_KEY,
    is_timer,
)
from pyspark_savepoint.statebackends.rows.key_codec import key_text
from pyspark_savepoint.statebackends.types.serializer_parts import with_parts
from pyspark_savepoint.statebackends.writing.entry_encoder import KeyEncoder, RemapStateIds, key_columns
from pyspark_savepoint.statebackends.writing.entry_rows import EntryRows, NoOtherEntries
from pyspark_savepoint.statebackends.writing.new_keys import (
    BOTH,
    INTERNAL_ENTRIES,
    MOVING,
    NEW,
    NEW_BYTES,
    OLD,
    PAIRS,
    Collisions,
    FoundKeys,
    GivenPairs,
    HeldEntries,
    KeyDecoder,
    KeyPairs,
    MovedEntries,
    NewKeyEncoder,
    NewKeys,
    PairEncoder,
    between,
)
from pyspark_savepoint.statebackends.writing.planning.describe_key import describe_key
from pyspark_savepoint.statebackends.writing.planning.exact_casts import fits
from pyspark_savepoint.statebackends.writing.planning.flink_types import default_serializer
from pyspark_savepoint.statebackends.writing.planning.operator_types import OperatorTypes, inference_of
from pyspark_savepoint.statebackends.writing.planning.write_request import ENTRIES as ENTRIES_TABLE
from pyspark_savepoint.statebackends.writing.planning.write_request import KEYED_STATE, WriteSpec

#: Options of a write from which the type of a key follows, and how many bytes are sorted in memory.
KEY_OPTIONS = (
    "types", "typesFrom", "inferredBy", "classes", "kryoTypes", "serializers", "allowOutside", "storageOptions",
    "flinkVersion", "sortMemory",
)  # fmt: skip
INTERNAL_KEY = INTERNAL_ENTRIES.names[KEYED_ENTRIES.names.index(SERIALIZED_KEY)]


@dataclass(frozen=True)
class KeysStayApart:
    """Check that no two keys become one, or that no key is given twice (``given``); all pairs are sorted."""

    engine: Engine
    pairs: Rows
    max_parallelism: int
    parallelism: int | None
    memory: int
    label: str
    old: TypeSerializer
    new: TypeSerializer
    given: bool = False
    #: The keys cannot become one: each has the same value in another type.
    is_implied: bool = False

    def run(self, _: OperatorPlan) -> None:
        """Raise DuplicateKeyError for the first two keys."""
        limit = self.max_parallelism
        placed = self.engine.by_key_group(self.pairs, KEY_GROUP, NEW_BYTES, limit, self.parallelism)
        found = placed.mapped(Collisions(self.memory), BOTH).first()
        if found is None:
            return
        one, other, both = (bytes(found[name]) for name in BOTH.names)
        if self.given:
            raise DuplicateKeyError(
                "the rows say twice what a key becomes",
                operator=self.label,
                found=key_text(self.old, both, ""),
                remedy=f"give one row per {OLD!r}",
            )
        raise DuplicateKeyError(
            "two keys of the operator would become one",
            operator=self.label,
            expected="another key for each",
            found=f"{key_text(self.old, one, '')} and {key_text(self.old, other, '')} become "
            f"{key_text(self.new, both, '')}",
            remedy="remove one of them first (remove_keys), or keep them apart: what two keys have of one state "
            "cannot be one value",
        )


def rekeyed(engine: Engine, plan: OperatorPlan, keys: object, options: Mapping[str, Any]) -> OperatorPlan:
    """Return the operator with all keyed state, windows and timers under other keys; no job runs yet.

    ``keys`` is an expression or a function of column ``key``, or rows with ``key`` and ``new_key``. A mapping has an
    expression or a function for each state, which takes the columns of its rows. With None, the key is converted to
    the type in the options.
    """
    plan = with_states(plan)
    _expect_keys(plan)
    edited = edited_state(engine, plan)
    assert edited is not None, "it has keyed state"
    assert edited.rows is not None
    old = edited.header.key_serializer
    moves = _Moves(engine, plan, old, _spec(engine, plan, options), edited.header)
    descriptor = entries_descriptor(edited.header)
    numbers = tuple(range(len(descriptor.states)))
    entries = edited.rows.mapped(RemapStateIds(descriptor, numbers, with_keys=True), KEYED_ENTRIES)
    if isinstance(keys, Mapping):
        return moves.by_rows(entries, keys)
    rows = None if keys is None else engine.rows(keys)
    return moves.by_pairs(entries, rows) if rows is not None else moves.computed(entries, keys)


def _spec(engine: Engine, plan: OperatorPlan, options: Mapping[str, Any]) -> WriteSpec:
    texts = to_options(options)
    for name in texts:
        if name not in KEY_OPTIONS:
            raise OptionError(
                f"option {name!r} does not apply to new keys",
                operator=plan.label,
                remedy=did_you_mean(name, KEY_OPTIONS),
            )
    spec = parsed_spec(engine, plan, KEYED_STATE, texts)
    others = [name for name in spec.types if name != OLD and not name.startswith(f"{OLD}.")]
    if others:
        raise OptionError(
            f"option 'types' names {others[0]!r}, and only the key gets another type",
            operator=plan.label,
            expected=f"types={{{OLD!r}: 'TYPE'}}",
            remedy="with_state(...) changes the type of a state",
        )
    return spec


def _expect_keys(plan: OperatorPlan) -> None:
    """Raise an error for an operator whose keys cannot be changed."""
    if plan.key_serializer is None or not plan.of_kind(KEYED, TIMERS):
        raise StateNotFoundError("the operator has no keyed state", operator=plan.label)
    refuse_raw_state(plan, "changed")
    if plan.base is None:
        return
    if is_python_operator(plan.base.opened):
        raise UnsupportedStateError(
            "the operator is one of PyFlink, whose keys are rows that its Python workers pickle: they cannot change",
            operator=plan.label,
            remedy="read its tables, and write them to a new operator with functions of the job",
        )
    if has_channel_state(plan.base.operator):
        raise UnsupportedStateError(
            "the checkpoint has in-flight records, which belong to channels of the old keys",
            path=plan.base.snapshot.path,
            operator=plan.label,
            remedy="start from a savepoint or an aligned checkpoint: they have no such records",
        )


@dataclass(frozen=True)
class _Moves:
    """What is known of an operator whose entries get new keys."""

    engine: Engine
    plan: OperatorPlan
    old: TypeSerializer
    spec: WriteSpec
    header: KeyedBackendHeader

    def by_rows(self, entries: Rows, keys: Mapping[Any, object]) -> OperatorPlan:
        """Return the operator with new keys. An expression computes the key of each entry from the state's row."""
        numbers = {meta.name: number for number, meta in enumerate(self.header.states) if not is_timer(meta)}
        wrong = [name for name in keys if name not in numbers]
        if wrong or not keys:
            raise StateNotFoundError(
                f"the operator has no state {wrong[0]!r}" if wrong else "no state is named whose rows make the keys",
                operator=self.plan.label,
                remedy=f"{did_you_mean(str(wrong[0]) if wrong else '', numbers)} (pairs of keys are rows with "
                f"columns {OLD!r} and {NEW!r})",
            )
        decoded = self._decoded(entries)
        tables, encoder = [], None
        for name, key in keys.items():
            number = numbers[name]
            rows = EntryRows(
                number, self.header.states[number], decoded.schema.field(OLD).type, self._options, self.plan.label
            )
            rows.check()
            selected = self.engine.with_selected(decoded.mapped(rows, rows.schema), key, NEW)
            encoder = self._encoder(selected.schema.field(NEW).type)
            tables.append(selected.mapped(NewKeys(encoder), MOVING))
        assert encoder is not None
        others = NoOtherEntries(
            frozenset(map(numbers.__getitem__, keys)), self.header.states, self.old, self.plan.label
        )
        moving = all_rows([*tables, decoded.mapped(others, MOVING)])
        return self._moved(moving, encoder, several=True)

    @property
    def _options(self) -> DecodeOptions:
        return replace(decode_options(self.plan), timestamps="micros")

    def _decoded(self, entries: Rows) -> Rows:
        decoder = KeyDecoder(self.old, self._options)
        return entries.mapped(decoder, decoder.schema)

    def computed(self, entries: Rows, keys: object) -> OperatorPlan:
        """Return the operator with keys that an expression computes from the old keys, or keys in another type."""
        if self.old.opaque_parts():
            raise UndecodableStateError(
                "the keys cannot be computed from the old ones, which only the job's own code can decode",
                operator=self.plan.label,
                found=self.old.flink_type,
                remedy=f"give rows with columns {OLD!r} (the bytes of a key, as they are read) and {NEW!r}",
            )
        rows = self._decoded(entries)
        kind = self.old.arrow_type(self._options)
        if keys is not None:
            rows = self.engine.with_selected(rows, keys, NEW)
            encoder = self._encoder(rows.schema.field(NEW).type)
        else:
            encoder = self._cast(kind)
        moving = rows.mapped(NewKeys(encoder), MOVING)
        integers = all(_is_integer(one) for one in (self.old, encoder.key.key_serializer))
        return self._moved(moving, encoder, implied=keys is None and integers)

    def _cast(self, kind: pa.DataType) -> NewKeyEncoder:
        """Return the encoder of the old keys in another type."""
        known = self._known()
        if known is None and OLD not in self.spec.types:
            raise OptionError(
                "neither new keys nor their type are given",
                operator=self.plan.label,
                expected=f"keys, or types={{{OLD!r}: 'LONG'}}",
                remedy="give the type that the job has now; or an expression, a function, or rows with columns "
                f"{OLD!r} and {NEW!r}",
            )
        target = known or self._named(kind)
        if fits(kind, target):
            return self._encoder(kind)
        middle = between(kind, target.arrow_type(DecodeOptions()))
        return replace(self._encoder(middle), cast=middle) if middle is not None else self._encoder(kind)

    def _named(self, kind: pa.DataType) -> TypeSerializer:
        spec = self.spec
        return default_serializer(
            kind, OLD, spec.restoring_flink, spec.types, inference_of(spec), serializers=spec.serializers
        )

    def _known(self) -> TypeSerializer | None:
        """Return the key of the operator in option ``typesFrom``."""
        types = OperatorTypes.named_by(self.spec)
        if types is None:
            return None
        if types.key is None:
            raise StateNotFoundError("option 'typesFrom': the operator has no keys", operator=types.label)
        return types.described(self.spec.job_classes).key

    def _encoder(self, kind: pa.DataType) -> NewKeyEncoder:
        """Return the encoder of new keys of a type of Arrow; raise OptionError if they cannot be the operator's."""
        known = self._known()
        given = any(name == OLD or name.startswith(f"{OLD}.") for name in self.spec.types)
        bound = self.old if known is None and not given else None
        try:
            key = describe_key(pa.schema([pa.field(OLD, kind)]), self.spec, bound, known)
        except UndecodableStateError as error:
            error.facts["remedy"] = (
                "give the keys a type whose hash follows from its data; or write the tables of the operator to a new "
                "one: with_operator(uid, rows, key_group=...) takes a column of key groups"
            )
            raise
        described = KeyedDescriptor(key.columns, key.serializer, (), composite=key.composite)
        return NewKeyEncoder(described, self.plan.max_parallelism, self.plan.label)

    def by_pairs(self, entries: Rows, pairs: Rows) -> OperatorPlan:
        """Return the operator with the keys of a table; keys that it lacks stay if their type does."""
        missing = [name for name in (OLD, NEW) if name not in pairs.schema.names]
        if missing:
            raise OptionError(
                f"rows with new keys need column {missing[0]!r}",
                operator=self.plan.label,
                expected=f"columns {OLD!r} and {NEW!r}",
                found=", ".join(pairs.schema.names),
                remedy="rename the columns",
            )
        pairs = pairs.select(OLD, NEW)
        columns = key_columns(self.old, pa.schema([pairs.schema.field(OLD)]), self.plan.label)
        old = KeyEncoder(self.old, columns, (), self.plan.label)
        encoder = self._encoder(pairs.schema.field(NEW).type)
        pair_encoder = PairEncoder(old, encoder)
        encoded = pairs.mapped(pair_encoder, pair_encoder.schema)
        stays = encoder.key.key_serializer == self.old
        joined = entries.mapped(HeldEntries(), INTERNAL_ENTRIES).joined(encoded, INTERNAL_KEY)
        moving = joined.mapped(FoundKeys(self.old, stays, self.plan.label), MOVING)
        limit = self.plan.max_parallelism
        given = self._apart(encoded.mapped(GivenPairs(limit), PAIRS), self.old, given=True)
        return self._moved(moving, encoder, checks=(given,))

    def _apart(self, pairs: Rows, new: TypeSerializer, *, given: bool = False) -> KeysStayApart:
        plan = self.plan
        parallelism = None if plan.base is None else min(plan.base.operator.parallelism, plan.max_parallelism)
        memory = self.spec.sort_memory
        return KeysStayApart(
            self.engine, pairs, plan.max_parallelism, parallelism, memory, plan.label, self.old, new, given
        )

    def _moved(
        self,
        moving: Rows,
        encoder: NewKeyEncoder,
        *,
        implied: bool = False,
        several: bool = False,
        checks: Sequence[KeysStayApart] = (),
    ) -> OperatorPlan:
        """Return the operator whose only keyed state are entries with new keys.

        With ``several``, one key may become several keys, and several keys one. The write fails if two values have
        one place.
        """
        new = encoder.key.key_serializer
        plan = self.plan
        moved = moving.mapped(MovedEntries(self.header.states, self.old, new), ENTRIES)
        metas = tuple(with_key(meta, new) for meta in self.header.states)
        header = KeyedBackendHeader(plan.compressed, new, metas)
        state_input = StateInput(moved, WriteSpec(table=ENTRIES_TABLE), entries_descriptor(header), header)
        apart = replace(self._apart(moving.mapped(KeyPairs(), PAIRS), new), is_implied=implied)
        # Operator state that was given stays where it is among the tables.
        kept = [state for state in plan.states or () if state.kind == OPERATOR]
        number = len(plan.inputs)
        states = [PlannedState(TIMERS if is_timer(meta) else KEYED, meta, meta.name, number) for meta in metas]
        return replace(
            plan,
            states=States((*states, *kept)),
            inputs=(*plan.inputs, state_input),
            key_serializer=new,
            deletions=(),
            key_hashes=None,
            edited=plan.edited | {KEYED, TIMERS},
            checks=(*plan.earlier_checks, *checks, *(() if several else (apart,))),
        )


def with_key(meta: StateMetaInfoSnapshot, key: TypeSerializer) -> StateMetaInfoSnapshot:
    """Return the registration of a state under other keys: timers contain their key."""
    if not is_timer(meta):
        return meta

    def changed(part: TypeSerializer, path: tuple[str, ...]) -> TypeSerializer:
        return key if path == ("key",) else part

    return replace(meta, serializers={"VALUE_SERIALIZER": with_parts(meta.value_serializer, changed)})


def _is_integer(serializer: TypeSerializer) -> bool:
    kind = serializer.arrow_type(DecodeOptions())
    return type(serializer) is NumberSerializer and bool(pa.types.is_integer(kind))
