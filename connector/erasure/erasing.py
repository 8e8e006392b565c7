"""Erasure of keys from a snapshot: what is found, what is removed, and what cannot be looked into.

::

    1  examine   every table is read once: rows with the keys are counted, and all other rows are searched for them;
                 every file is searched for the bytes of the keys
    2  plan      keys are removed from keyed state, windows and timers, as ``remove_keys`` does; rows and elements that
                 a condition names, as ``with_state`` does. Databases whose files still have bytes of the keys, which no
                 table shows, are written anew without the entries that are not visible
    3  finish    the files of the new savepoint are searched, and both snapshots are compared
"""

from __future__ import annotations

import json
import posixpath
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pyspark_savepoint.erasure.elements import Elements, WithoutElements, WithoutRows
from pyspark_savepoint.erasure.files import Searched, SharedFiles, searched_files
from pyspark_savepoint.erasure.patterns import AS_STORED, Patterns, Search, certain_of
from pyspark_savepoint.erasure.sought import KEY, NONE, KeysOfOperator, SearchedKeys, fitting
from pyspark_savepoint.erasure.tables import (
    COUNTS,
    KEYED_TABLES,
    NO_STATE,
    Leaves,
    Looked,
    Place,
    batches_of,
    exact,
    look_at_keyed,
    look_at_rows,
    reading,
)
from pyspark_savepoint.formats.connectors.payloads.kind import (
    ASYNC_STATE,
    COMMITTABLES,
    COMMITTER_STATE,
    IN_FLIGHT,
    SOURCE_COORDINATOR,
    SPLITS,
)
from pyspark_savepoint.formats.errors import (
    OptionError,
    SavepointError,
    StateNotFoundError,
    UnsupportedStateError,
    did_you_mean,
)
from pyspark_savepoint.formats.io.byte_source import FileLocation, Read, opened_ahead
from pyspark_savepoint.formats.io.run_ahead import read_to_the_end, small_together
from pyspark_savepoint.formats.metadata import OperatorState
from pyspark_savepoint.formats.metadata.keyed_handles import (
    ChangelogStateBackendHandle,
    IncrementalRemoteKeyedStateHandle,
)
from pyspark_savepoint.formats.name_lists import join_names
from pyspark_savepoint.formats.redaction import redacted
from pyspark_savepoint.formats.snapshot.relocation import streams_of
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.options.operators import identifier_of
from pyspark_savepoint.options.option_values import inheriting
from pyspark_savepoint.plan.connector_changes import (
    base_of,
    with_committables_removed,
    with_operator,
    with_source,
)
from pyspark_savepoint.plan.engine import Engine
from pyspark_savepoint.plan.keyed_edits import base_read, with_states, with_stored_keys_deleted
from pyspark_savepoint.plan.operator_plan import KEYED, TIMERS, OperatorPlan, headers_of_bases
from pyspark_savepoint.plan.savepoint_plan import Operators, SavepointPlan
from pyspark_savepoint.plan.state_inputs import add_state
from pyspark_savepoint.statebackends.connectors.channel_records import parts_of
from pyspark_savepoint.statebackends.connectors.connector_states import list_states
from pyspark_savepoint.statebackends.connectors.edits.committables import without_queued, without_records
from pyspark_savepoint.statebackends.connectors.edits.sources import without_rows
from pyspark_savepoint.statebackends.open_table import open_table
from pyspark_savepoint.statebackends.rows.entry_bytes import SERIALIZED_KEY
from pyspark_savepoint.statebackends.rows.state_column import LAST_ACCESS
from pyspark_savepoint.text.conditions import mask_of

#: The table that shows a state, in the note of table ``states``.
SHOWN_BY = re.compile(r"option\('table', '(\w+)'\)")
#: Begins the name under which what a condition removes of a state of keys is counted.
ELEMENTS = "elements of "

By = Mapping[str, str | Mapping[str, str]]
Where = Mapping[str, Any]


#: Tables of sources and sinks that conditions name as ``UID.TABLE``.
OF_CONNECTORS = (SPLITS, SOURCE_COORDINATOR, COMMITTABLES)
#: Columns of these tables that only name a place, and of all kinds: no condition selects by them, and edits know none.
NOT_SELECTED = frozenset({"fields", "note"})


@redacted
@dataclass
class Erasing:
    """One erasure: what is sought in which snapshot, and what was found so far."""

    engine: Engine
    plan: SavepointPlan
    path: str
    options: Mapping[str, str]
    searched: SearchedKeys
    by: By
    where: Where
    record_types: Mapping[str, str] = field(default_factory=dict)
    #: ``by`` and ``record_types``, by uid hash.
    columns: dict[str, str | Mapping[str, str]] = field(default_factory=dict)
    types: dict[tuple[str, str], str] = field(default_factory=dict)
    keys: dict[str, KeysOfOperator] = field(default_factory=dict)
    elements: dict[str, list[Elements]] = field(default_factory=dict)
    looked: Looked = field(default_factory=Looked)
    files: list[Searched] = field(default_factory=list)
    states: list[Place] = field(default_factory=list)
    #: Keys of rows of which conditions leave nothing, by operator, table, and state where states are compared alone.
    emptied: dict[tuple[str, str, str | None], KeysOfOperator] = field(default_factory=dict)
    patterns: Patterns = field(default_factory=Patterns)
    search: Search = field(default_factory=lambda: Search(Patterns()))
    #: What arguments name may be gone: the snapshot is the one without it, or another one of the job.
    may_be_gone: bool = False
    shared_files: SharedFiles = field(default_factory=SharedFiles)
    #: Uids by their hashes: those that arguments name, and those of a report.
    uids: dict[str, str] = field(default_factory=dict)

    # -- what is there ----------------------------------------------------------------------------------------

    @read_to_the_end()
    def examine(self) -> None:
        """Read all tables and files; raise OptionError if no operator can have the keys, and there is no condition."""
        self._prepare()
        self._expect_operators()
        conditions = self._conditions()
        self.patterns.include(self.searched.patterns())
        for plan in self.plan.operators:
            self._keys_of(plan, conditions.get(plan.identifier.operator_id.hex))
            self._find_keys(plan)
        fits = any(one.fits or one.problem for one in self.keys.values())
        if self.searched.columns and not fits and not self.where and not self.may_be_gone:
            types = sorted({f"{one.plan.label}: {one.column_type}" for one in self.keys.values()})
            raise OptionError(
                "no operator can have any of the keys: nothing would be removed",
                path=self.path,
                found=", ".join(sorted({type(value).__name__ for value in self.searched.values})),
                expected="; ".join(types) or "an operator with keyed state",
                remedy="give keys of these types; by={uid: {FIELD: COLUMN}} names a field of a composite key",
            )
        search = self.search = Search(self.patterns)
        leaves = Leaves.of(self.searched.values, search)
        for plans in small_together(self.plan.operators, _state_bytes):
            with opened_ahead(_reads(plans)):
                for plan in plans:
                    self._look(plan, leaves)
        for row in self.states:
            if row["table"] == "master_state":
                location = {"operator_uid": None, "operator_uid_hash": None, "table": "master_state", "state": None}
                self._read_rows(location, leaves, table="master_state")
                break
        self.files = searched_files(self.snapshot, search, self.shared_files)

    @property
    def snapshot(self) -> Snapshot:
        """The snapshot that is searched."""
        bases = [plan.base for plan in self.plan.operators if plan.base is not None]
        if not bases:
            raise OptionError("the snapshot has no operators, so there is nothing to erase", path=self.path)
        return bases[0].snapshot

    def search_files(self, search: Search) -> None:
        """Search the files for the patterns of another erasure."""
        self.files = searched_files(self.snapshot, search, self.shared_files)

    def held_counts(self) -> dict[str, int]:
        """Return how often the snapshot, examined, has what is sought; hits that may be chance are not counted."""
        removed = Counter[bool]()
        for (_, table, state), one in self.looked.states.items():
            removed[table in KEYED_TABLES and not state.startswith(ELEMENTS)] += one.removed
        standing = sum(one.equal + certain_of(one.hits) for one in self.looked.standing.values())
        counts = removed[True], removed[False], standing, sum(certain_of(one.hits) for one in self.files)
        return dict(zip(COUNTS, counts, strict=True))

    def _prepare(self) -> None:
        with headers_of_bases([plan.base for plan in self.plan.operators]):
            plans = Operators(with_states(plan) for plan in self.plan.operators)
        self.plan = SavepointPlan(plans, self.plan.bases, self.plan.max_parallelism, self.plan.state_backend)
        listed = batches_of(self.options, self.path, table="states")[1]
        self.states = [row for batch in listed for row in batch.to_pylist()]

    def _expect_operators(self) -> None:
        """Raise StateNotFoundError for a name in ``by`` or ``record_types`` that is none: keys would stay unnoticed."""
        keyed = [plan for plan in self.plan.operators if KeysOfOperator.of(plan) is not None]
        for name, columns in self.by.items():
            plan = self.plan.find(name) if name.strip() else None
            if plan is None or plan not in keyed:
                if self.may_be_gone:
                    continue
                raise StateNotFoundError(
                    f"by names {name!r}, which is not an operator with keyed state",
                    path=self.path,
                    expected="a uid, or a uid hash",
                    remedy=did_you_mean(name, [plan.label for plan in keyed]),
                )
            self._note_uid(name, plan)
            self.columns[plan.identifier.operator_id.hex] = columns
        for name, kind in self.record_types.items():
            resolved = self._named(name)
            if resolved is None:
                continue
            plan, rows = resolved
            parts = [row["state"] for row in rows if row["table"] == IN_FLIGHT and row["state"] != ASYNC_STATE]
            if not parts:
                raise StateNotFoundError(
                    f"record_types names {name!r}, which has no records in flight",
                    path=self.path,
                    expected="UID.input 0, UID.output 0, and so on",
                    remedy=did_you_mean(name, self._names()),
                )
            self.types |= {(plan.identifier.operator_id.hex, part): kind for part in parts}

    def _rows_of(self, plan: OperatorPlan) -> list[Place]:
        own = plan.identifier.operator_id.hex
        return [row for row in self.states if row.get("operator_uid_hash") == own]

    def uid_of(self, plan: OperatorPlan) -> str | None:
        """Return the uid of an operator, which option ``uids``, arguments or a report may know alone."""
        uid = next((row["operator_uid"] for row in self._rows_of(plan)), None) or plan.identifier.uid
        return uid or self.uids.get(plan.identifier.operator_id.hex)

    def _note_uid(self, name: str, plan: OperatorPlan) -> None:
        """Keep the uid by which an argument names an operator."""
        if identifier_of(name).uid is not None:
            self.uids.setdefault(plan.identifier.operator_id.hex, name)

    def known_uids(self) -> dict[str, str]:
        """Return the uids that are known, by their hashes."""
        uids = {plan.identifier.operator_id.hex: self.uid_of(plan) for plan in self.plan.operators}
        return {own: uid for own, uid in uids.items() if uid}

    def keyed_tables(self, plan: OperatorPlan) -> list[str]:
        """Return the tables of keyed state that the operator has."""
        tables = {row["table"] for row in self._rows_of(plan)}
        return [table for table in KEYED_TABLES if table in tables]

    def _conditions(self) -> dict[str, tuple[object, str]]:
        """Return the conditions on keys by operator, and keep those on states and on tables of connectors."""
        conditions: dict[str, tuple[object, str]] = {}
        for name, condition in self.where.items():
            resolved = self._named(name)
            if resolved is None:
                continue
            plan, rows = resolved
            argument = f"where={{{name!r}: ...}}"
            own = plan.identifier.operator_id.hex
            if not rows:
                if not self.keyed_tables(plan):
                    raise StateNotFoundError(
                        "the operator has no keyed state: name one of its states",
                        operator=plan.label,
                        remedy=f"where={{'{plan.label}.STATE': ...}}",
                    )
                if own in conditions:
                    raise _twice(argument, plan.label)
                conditions[own] = (condition, argument)
                continue
            existing = self.elements.setdefault(own, [])
            for row in rows:
                new = Elements(row["state"], row["table"], row["kind"], condition, argument, row["ttl"] or False)
                both = (SPLITS, SOURCE_COORDINATOR)
                if any(
                    not {*one.changes}.isdisjoint(new.changes) and {one.table, new.table} != {*both} for one in existing
                ):
                    raise _twice(argument, plan.label)
                existing.append(new)
        return conditions

    def _named(self, name: str) -> tuple[OperatorPlan, list[Place]] | None:
        """Find ``UID`` (no rows), ``UID.STATE``, ``UID.TABLE`` or a part in flight; uids and states may have dots.

        Returns None for what the snapshot does not have, where it may be gone; else that is an error.
        """
        plan = self.plan.find(name) if name.strip() else None
        if plan is not None:
            self._note_uid(name, plan)
            return plan, []
        for dot in (position for position, sign in enumerate(name) if sign == "."):
            plan = self.plan.find(name[:dot]) if name[:dot].strip() else None
            if plan is None:
                continue
            rest = name[dot + 1 :]
            for row in self._rows_of(plan):
                is_state = row["state"] == rest and rest != ASYNC_STATE
                if is_state and row["table"] in ("keyed_state", "window_state", "operator_state"):
                    self._note_uid(name[:dot], plan)
                    return plan, [row]
            nothing: Place = {"state": None, "kind": "", "ttl": False}
            if rest in OF_CONNECTORS and rest in self._others(plan):
                self._note_uid(name[:dot], plan)
                return plan, [{**nothing, "table": rest}]
            parts = [part for part in self._in_flight(plan) if rest in (part, IN_FLIGHT)]
            if parts:
                self._note_uid(name[:dot], plan)
                return plan, [{**nothing, "table": IN_FLIGHT, "state": part} for part in parts]
        if self.may_be_gone:
            return None
        raise StateNotFoundError(
            f"{name!r} is neither an operator nor a state of one",
            path=self.path,
            expected="UID, UID.STATE, UID.splits, UID.source_coordinator, UID.committables, UID.in_flight",
            remedy=did_you_mean(name, self._names()),
        )

    def _names(self) -> list[str]:
        """Return all that conditions can name."""
        result = [operator.label for operator in self.plan.operators]
        for row in self.states:
            if row["state"]:
                own = row["operator_uid_hash"]
                result.append(f"{row['operator_uid'] or self.uids.get(own, own)}.{row['state']}")
        for plan in self.plan.operators:
            uid = self.uid_of(plan) or plan.identifier.operator_id.hex
            result += [f"{uid}.{table}" for table in self._others(plan) if table in OF_CONNECTORS]
            result += [f"{uid}.{part}" for part in self._in_flight(plan)]
        return result

    def _others(self, plan: OperatorPlan) -> list[str]:
        """Return the tables of an operator that show what is neither of keys nor operator state of the user's."""
        tables: list[str] = []
        for row in self._rows_of(plan):
            if row["table"] in ("coordinator_state", "raw_operator_state") or (
                row["table"] == "raw_keyed_state" and not plan.raw_timers
            ):
                tables.append(row["table"])
            match = SHOWN_BY.search(row["note"] or "")
            if match is not None and match[1] != IN_FLIGHT:
                tables.append(match[1])
        return list(dict.fromkeys(tables))

    def _in_flight(self, plan: OperatorPlan) -> list[str]:
        """Return the parts of table ``in_flight`` that an operator has."""
        assert plan.base is not None
        operator = plan.base.operator
        queue = [ASYNC_STATE] if ASYNC_STATE in list_states(operator) else []
        return [*queue, *dict.fromkeys(part.name for part in parts_of(operator))]

    def _keys_of(self, plan: OperatorPlan, condition: tuple[object, str] | None) -> None:
        """Determine the keys of an operator that are erased."""
        keys = KeysOfOperator.of(plan)
        if keys is None:
            return
        own = plan.identifier.operator_id.hex
        self.keys[own] = keys
        by = self.columns.get(own)
        if not isinstance(by, Mapping):
            keys.add_values(self.searched.column(by, plan.label))
        elif self.keyed_tables(plan):
            self._add_by_fields(plan, keys, by)
        if condition is not None:
            self._add_by_condition(plan, keys, *condition)

    def _find_keys(self, plan: OperatorPlan) -> None:
        """Take the bytes of keys whose type cannot be written from the state; search for those of all keys."""
        keys = self.keys.get(plan.identifier.operator_id.hex)
        if keys is None:
            return
        if keys.values:
            assert plan.base is not None
            read = base_read(plan, plan.of_kind(KEYED, TIMERS), with_keys=True)
            try:
                table = open_table(read.request())
                parts = (batch for part in table.partitions(1) for batch in part.batches())
                keys.find(batch.column(SERIALIZED_KEY) for batch in parts)
            except SavepointError as error:
                keys.problem = str(error)
        self.patterns.add(keys.patterns())

    def _add_by_fields(self, plan: OperatorPlan, keys: KeysOfOperator, by: Mapping[str, str]) -> None:
        """Add the keys whose fields have the values of one of the rows."""
        columns = [self.searched.column(column, plan.label) for column in by.values()]
        for table in self.keyed_tables(plan):
            own = plan.identifier.operator_id.hex
            for batch in batches_of(self.options, self.path, ("key",), uidHash=own, table=table)[1]:
                key = batch.column("key")
                is_erased = pa.repeat(pa.scalar(True), len(batch))
                for path, values in zip(by, columns, strict=True):
                    leaf = _field(key, path, plan.label)
                    fitting_values = [value for value in values if _fits(value, leaf.type)]
                    keys.fits = max(keys.fits, len(fitting_values))
                    is_erased = pc.and_(is_erased, pc.is_in(leaf, value_set=pa.array(fitting_values, leaf.type)))
                keys.add_rows(batch.filter(is_erased))

    def _add_by_condition(self, plan: OperatorPlan, keys: KeysOfOperator, condition: object, argument: str) -> None:
        schema, batches = batches_of(
            self.options, self.path, uidHash=plan.identifier.operator_id.hex, table=self.keyed_tables(plan)[0]
        )
        mask, _ = mask_of(condition, schema, argument)
        for batch in batches:
            keys.add_rows(batch.filter(mask(batch)))

    def _look(self, plan: OperatorPlan, leaves: Leaves) -> None:
        """Read the tables of an operator."""
        own, rows = plan.identifier.operator_id.hex, self._rows_of(plan)
        base = {"operator_uid": self.uid_of(plan), "operator_uid_hash": own}
        keys = self.keys.get(own)
        for table in self.keyed_tables(plan):
            assert keys is not None  # of all operators that have tables of keys
            location = {**base, "table": table, "state": None}
            look, has_elements = partial(self._look_keyed, plan, keys, table), bool(self.elements.get(own))
            failed = [
                states
                for states in self._readable_together(rows, table)
                if not reading(self.looked, location, partial(look, states, location, leaves), is_on=has_elements)
            ]
            if failed:
                reading(self.looked, location, partial(self._count_keys, keys, own, table))
        others: list[tuple[str, str | None]] = [
            ("operator_state", row["state"])
            for row in rows
            if row["table"] == "operator_state" and row["state"] != ASYNC_STATE  # which is in flight
        ]
        others += [(table, None) for table in self._others(plan)]
        others += [(IN_FLIGHT, part) for part in self._in_flight(plan)]
        for table, state in dict.fromkeys(others):
            location = {**base, "table": table, "state": state}
            texts = {"uidHash": own, "table": table} | ({"state": state} if state is not None else {})
            if table == IN_FLIGHT:
                texts |= self._record_type(own, state)
            removed = [one for one in self.elements.get(own, ()) if (one.table, one.state) == (table, state)]
            self._read_rows(location, leaves, removed, **texts)

    def _record_type(self, own: str, part: str | None) -> dict[str, str]:
        """Return the option with the type of records in flight, if one is given."""
        flink_type = self.types.get((own, str(part)))
        return {} if flink_type is None else {"recordTypes": json.dumps({part: flink_type})}

    @staticmethod
    def _readable_together(rows: Sequence[Place], table: str) -> list[tuple[str, ...]]:
        """Return the states that one read of a table of keys shows, none for all: a table has windows of one type."""
        by_type: dict[Any, list[str]] = {}
        for row in rows:
            if row["table"] == table and row["state"] is not None:
                by_type.setdefault(row["namespace_type"], []).append(row["state"])
        if table != "window_state" or len(by_type) < 2:
            return [()]
        return [tuple(states) for states in by_type.values()]

    def compared_alone(self, own: str, table: str) -> list[str | None]:
        """Return the states of a table of keys that have to be compared one by one; None: all together."""
        groups = self._readable_together([row for row in self.states if row.get("operator_uid_hash") == own], table)
        return [None] if groups == [()] else [state for states in groups for state in states]

    def _look_keyed(
        self,
        plan: OperatorPlan,
        keys: KeysOfOperator,
        table: str,
        states: tuple[str, ...],
        place: Place,
        leaves: Leaves,
    ) -> None:
        edits = [one for one in self.elements.get(place["operator_uid_hash"], ()) if one.table == table]
        edits = [one for one in edits if not states or one.state in states]
        texts = {"uidHash": place["operator_uid_hash"], "table": table}
        texts |= {"state": join_names(states)} if states else {}
        texts |= {"includeTtl": "true"} if any(one.ttl for one in edits) else {}
        schema, batches = batches_of(self.options if edits else exact(self.options), self.path, **texts)
        for one in edits:
            batches = self._counting(one, plan, keys, schema, batches)
        if edits:
            batches = self._emptied(plan, table, schema, batches)
        if "includeTtl" in texts:
            names = [name for name in schema.names if not name.endswith(LAST_ACCESS)]
            schema, batches = pa.schema([schema.field(name) for name in names]), (one.select(names) for one in batches)
        look_at_keyed(self.looked, place, schema, batches, keys.mask, leaves)

    def _emptied(
        self, plan: OperatorPlan, table: str, schema: pa.Schema, batches: Iterator[pa.RecordBatch]
    ) -> Iterator[pa.RecordBatch]:
        """Note the rows of which conditions leave no state: they are missing from the new snapshot."""
        states = [name for name in schema.names if name not in NO_STATE and not name.endswith(LAST_ACCESS)]
        for batch in batches:
            is_empty = pa.repeat(pa.scalar(True), len(batch))
            for name in states:
                is_empty = pc.and_(is_empty, batch.column(name).is_null())
            self._add_emptied(plan, table, None, batch.filter(is_empty))
            yield batch

    def _add_emptied(self, plan: OperatorPlan, table: str, state: str | None, rows: pa.RecordBatch) -> None:
        state_id = plan.identifier.operator_id.hex, table, state
        keys = self.emptied.get(state_id) or KeysOfOperator.of(plan)
        assert keys is not None
        keys.add_rows(rows)
        self.emptied[state_id] = keys

    def unexplained(self, own: str, table: str, state: str | None, keys: Sequence[Any], kind: pa.DataType) -> int:
        """Return how many rows that are missing, by their keys, are neither of the keys nor emptied by conditions."""
        batch = pa.record_batch([pa.array(keys, kind)], [KEY])
        has_key = self.keys[own].mask(batch)
        emptied = self.emptied.get((own, table, state))
        has_key = has_key if emptied is None else pc.or_(has_key, emptied.mask(batch))
        return len(keys) - int(has_key.true_count)

    def _count_keys(self, keys: KeysOfOperator, own: str, table: str) -> None:
        """Count the rows of a table whose states cannot be read."""
        for name in [name for name in self.looked.states if name[:2] == (own, table)]:
            del self.looked.states[name]
        counts = self.looked.counts(own, table, "")
        for batch in batches_of(exact(self.options), self.path, ("key",), uidHash=own, table=table)[1]:
            counts.seen += len(batch)
            counts.removed += keys.mask(batch).true_count

    def _counting(
        self,
        one: Elements,
        plan: OperatorPlan,
        keys: KeysOfOperator,
        schema: pa.Schema,
        batches: Iterator[pa.RecordBatch],
    ) -> Iterator[pa.RecordBatch]:
        """Yield batches without the elements that a condition removes, which are counted."""
        without, column = WithoutElements.of(one, schema), one.column(schema)
        counts = self.looked.counts(plan.identifier.operator_id.hex, one.table, f"{ELEMENTS}{one.state}")
        for batch in batches:
            kept, seen_count, removed = without.of_batch(batch)
            counts.seen += seen_count
            counts.removed += removed
            is_erased = pc.and_(batch.column(column).is_valid(), kept.column(column).is_null())
            self._add_emptied(plan, one.table, one.state, batch.filter(is_erased))
            yield kept

    def _read_rows(self, place: Place, leaves: Leaves, removed: Sequence[Elements] = (), **texts: str) -> None:
        def read() -> None:
            schema, batches = batches_of(self.options if removed else exact(self.options), self.path, **texts)
            mask = removed[0].mask(schema) if removed else None
            look_at_rows(self.looked, place, schema, batches, leaves, mask)

        reading(self.looked, place, read, is_on=bool(removed) or "recordTypes" in texts)

    # -- what is written --------------------------------------------------------------------------------------

    def planned(self) -> SavepointPlan:
        """Return the plan without what is erased; nothing runs yet."""
        plan = self.plan
        without = self._without_records()
        for old in self.plan.operators:
            own = old.identifier.operator_id.hex
            new = with_operator(old, without[own]) if own in without else old
            new = self._elements_removed(self._removed_from_connectors(new))
            keys = self.keys.get(own)
            if keys is not None and self._may_have(old) and len(keys.stored):
                new = with_stored_keys_deleted(new, self.engine.of_arrow(keys.table))
            elif self._has_hidden(old) and not new.edits_keyed_state:
                new = new.with_rewritten(KEYED)
            plan = plan.with_changed(old, new) if new is not old else plan
        return plan

    def _selected(self, plan: OperatorPlan, one: Elements) -> list[Place]:
        """Return the rows of a table of connectors, or in flight, that a condition removes."""
        options = self.rows_options(plan.identifier.operator_id.hex, one)
        schema, batches = batches_of(self.options, self.path, **options)
        mask = one.mask(schema)
        return [row for batch in batches for row in batch.filter(mask(batch)).to_pylist()]

    def rows_options(self, own: str, one: Elements) -> dict[str, str]:
        """Return the options that read the rows of a table without keys that a condition is on."""
        texts = {"uidHash": own, "table": one.table}
        return texts if one.state is None else texts | {"state": one.state, **self._record_type(own, one.state)}

    def _without_records(self) -> dict[str, OperatorState]:
        """Return the operators whose buffers change, by uid hash."""
        positions: dict[tuple[str, str, int, int], set[int]] = {}
        for plan in self.plan.operators:
            own = plan.identifier.operator_id.hex
            for one in self.elements.get(own, ()):
                if one.table == IN_FLIGHT and one.state not in (None, ASYNC_STATE):
                    for row in self._selected(plan, one):
                        channel_id = own, str(one.state), row["subtask"], row["channel"]
                        positions.setdefault(channel_id, set()).add(row["position"])
        return without_records(self.snapshot, positions) if positions else {}

    def _removed_from_connectors(self, plan: OperatorPlan) -> OperatorPlan:
        """Return an operator without the rows of splits, committables and asynchronous calls that conditions name."""
        elements = self.elements.get(plan.identifier.operator_id.hex, ())
        rows = {
            table: [row for one in elements if one.table == table for row in self._selected(plan, one)]
            for table in OF_CONNECTORS
        }
        splits = [*rows[SPLITS], *rows[SOURCE_COORDINATOR]]
        if splits:
            plan = with_source(plan, self.options.get("connector"), lambda source: without_rows(source, splits))
        if rows[COMMITTABLES]:
            other = next((row for row in rows[COMMITTABLES] if row["state"] != COMMITTER_STATE), None)
            if other is not None:
                raise UnsupportedStateError(
                    "rows of this state of a sink can be read, but not removed one by one",
                    operator=plan.label,
                    state=other["state"],
                    expected=COMMITTER_STATE,
                    remedy="have the job finish its transactions: stop it with a savepoint, and erase from that",
                )
            removals = [
                {name: value for name, value in row.items() if name not in NOT_SELECTED} for row in rows[COMMITTABLES]
            ]
            plan = with_committables_removed(self.engine, plan, removals, True, self.options.get("connector"))
        calls = [one for one in elements if one.state == ASYNC_STATE and one.table == IN_FLIGHT]
        places = {(row["subtask"], row["position"]) for one in calls for row in self._selected(plan, one)}
        return with_operator(plan, without_queued(base_of(plan).opened, places)) if places else plan

    def _elements_removed(self, plan: OperatorPlan) -> OperatorPlan:
        own = plan.identifier.operator_id.hex
        for one in self.elements.get(own, ()):
            if one.state is None or one.table == IN_FLIGHT:
                continue
            named = one.state if one.table == "operator_state" else join_names([one.state])
            texts = {"path": self.path, "uidHash": own, "table": one.table, "state": named}
            texts |= {"includeTtl": "true"} if one.ttl else {}
            rows = self.engine.read(inheriting(self.options, texts))
            if one.table == "operator_state":
                rows = rows.mapped(WithoutRows(one.mask(rows.schema)), rows.schema)
            else:
                rows = rows.mapped(WithoutElements.of(one, rows.schema), rows.schema)
            plan = add_state(self.engine, plan, one.state, rows, {})
        return plan

    def _may_have(self, plan: OperatorPlan) -> bool:
        """Return whether an operator has rows with the keys, or a table that could not be read to its end."""
        own = plan.identifier.operator_id.hex
        unread = any(one["operator_uid_hash"] == own and one["table"] in KEYED_TABLES for one in self.looked.unread)
        return unread or self.looked.removed_from(own) > 0

    def _has_hidden(self, plan: OperatorPlan) -> bool:
        """Return whether files of a database of the operator have bytes of the keys."""
        assert plan.base is not None
        kinds = (IncrementalRemoteKeyedStateHandle, ChangelogStateBackendHandle)
        handles = [subtask.managed_keyed_state for subtask in plan.base.operator.subtasks.values()]
        if not any(isinstance(handle, kinds) for handle in handles):
            return False
        own = (plan.identifier.operator_id.hex, "keyed state")
        return any(certain or name == AS_STORED for one in self.files if own in one.of for name, certain, _ in one.hits)


def _state_bytes(plan: OperatorPlan) -> int:
    return 0 if plan.base is None else plan.base.operator.state_size


def _reads(plans: Sequence[OperatorPlan]) -> Iterator[Read]:
    """Yield what is read first of operators that are read one after the other; a single one reads ahead itself."""
    for base in (plan.base for plan in plans if len(plans) > 1):
        with suppress(SavepointError):  # which who reads it notes
            for source in () if base is None else base.opened.keyed.sources:
                yield from source.reads(source.key_group_range)


def is_self_contained(plan: SavepointPlan) -> bool:
    """Return whether all files of a snapshot are in its own folder."""
    for operator in plan.operators:
        assert operator.base is not None
        snapshot = operator.base.snapshot
        for handle in streams_of(operator.base.operator):
            location = snapshot.resolve(handle)
            if isinstance(location, FileLocation) and posixpath.dirname(location.path) != snapshot.location.directory:
                return False
    return True


def _twice(argument: str, operator: str) -> OptionError:
    return OptionError(
        f"{argument} is a second condition on the same state",
        operator=operator,
        remedy="join both with OR, and name the state once",
    )


def _field(key: pa.Array, path: str, operator: str) -> pa.Array:
    """Return a field of composite keys."""
    for name in path.split("."):
        names = (
            [key.type.field(number).name for number in range(key.type.num_fields)]
            if pa.types.is_struct(key.type)
            else []
        )
        if name not in names:
            raise OptionError(
                f"the key of the operator has no field {path!r}", operator=operator, remedy=did_you_mean(name, names)
            )
        key = pc.struct_field(key, [name])
    return key


def _fits(value: Any, kind: pa.DataType) -> bool:
    return fitting(value, kind) is not NONE
