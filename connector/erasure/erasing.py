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

import posixpath
import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyspark_savepoint.erasure.files import Searched, searched_files
from pyspark_savepoint.erasure.patterns import AS_STORED, Hits, Patterns, Search, described
from pyspark_savepoint.erasure.sought import NONE, KeysOfOperator, Sought, fitting, mask_of, salted
from pyspark_savepoint.erasure.tables import (
    KEYED_TABLES,
    Leaves,
    Looked,
    Mask,
    Place,
    batches_of,
    exact,
    look_at_keyed,
    look_at_rows,
    reading,
)
from pyspark_savepoint.formats.errors import (
    OptionError,
    StateNotFoundError,
    UnsupportedStateError,
    did_you_mean,
)
from pyspark_savepoint.formats.io.byte_source import FileLocation
from pyspark_savepoint.formats.metadata.keyed_handles import (
    ChangelogStateBackendHandle,
    IncrementalRemoteKeyedStateHandle,
)
from pyspark_savepoint.formats.redaction import redacted
from pyspark_savepoint.formats.snapshot.relocation import streams_of
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.options.option_values import inheriting
from pyspark_savepoint.options.release import __version__
from pyspark_savepoint.plan.engine import Engine
from pyspark_savepoint.plan.keyed_edits import with_keys_deleted, with_states
from pyspark_savepoint.plan.operator_plan import KEYED, OperatorPlan
from pyspark_savepoint.plan.savepoint_plan import SavepointPlan
from pyspark_savepoint.plan.state_inputs import put_state

FORM = "pyspark-savepoint erasure"
VERSION = 1
SHOWN_BY = re.compile(r"option\('table', '(\w+)'\)")
BYTES_OF_OWNER = "bytes that only the job, or Flink's coordinator, can read"
BYTE_ARRAY = "PRIMITIVE_ARRAY<BYTE>"
#: Columns of the rows of a list or map state, beside its key.
LIST_COLUMNS, MAP_COLUMNS = ("list_index", "list_value"), ("map_key", "map_value")

By = Mapping[str, str | Mapping[str, str]]
Where = Mapping[str, Any]


@dataclass(frozen=True)
class Elements:
    """Rows, elements or entries of a state that a condition removes."""

    state: str
    table: str
    kind: str
    condition: object
    argument: str


@redacted
@dataclass
class Erasing:
    """One erasure: what is sought in which snapshot, and what was found so far."""

    engine: Engine
    plan: SavepointPlan
    path: str
    held: Mapping[str, str]
    sought: Sought
    by: By
    where: Where
    keys: dict[str, KeysOfOperator] = field(default_factory=dict)
    elements: dict[str, list[Elements]] = field(default_factory=dict)
    looked: Looked = field(default_factory=Looked)
    files: list[Searched] = field(default_factory=list)
    states: list[Place] = field(default_factory=list)
    patterns: Patterns = field(default_factory=Patterns)

    # -- what is there ----------------------------------------------------------------------------------------

    def examine(self) -> None:
        """Read all tables and files; raise OptionError if no operator can have the keys, and there is no condition."""
        self._prepare()
        self._expect_operators()
        conditions = self._conditions()
        self.patterns = self.sought.patterns()
        for plan in self.plan.operators:
            self._keys_of(plan, conditions.get(plan.identifier.operator_id.hex))
        if self.sought.columns and not any(one.fits or one.problem for one in self.keys.values()) and not self.where:
            types = sorted({f"{one.plan.label}: {one.kind}" for one in self.keys.values()})
            raise OptionError(
                "no operator can have any of the keys: nothing would be removed",
                path=self.path,
                found=", ".join(sorted({type(value).__name__ for value in self.sought.values})),
                expected="; ".join(types) or "an operator with keyed state",
                remedy="give keys of these types; by={uid: {FIELD: COLUMN}} names a field of a composite key",
            )
        search = Search(self.patterns)
        leaves = Leaves.of(self.sought.values, search)
        for plan in self.plan.operators:
            self._look(plan, leaves)
        for row in self.states:
            if row["table"] == "master_state":
                place = {"operator_uid": None, "operator_uid_hash": None, "table": "master_state", "state": None}
                self._read_rows(place, leaves, table="master_state")
                break
        self.files = searched_files(self.snapshot, search)

    @property
    def snapshot(self) -> Snapshot:
        """The snapshot that is searched."""
        bases = [plan.base for plan in self.plan.operators if plan.base is not None]
        if not bases:
            raise OptionError("the snapshot has no operators, so there is nothing to erase", path=self.path)
        return bases[0].snapshot

    def search_files(self) -> None:
        """Search the files for the patterns."""
        self.files = searched_files(self.snapshot, Search(self.patterns))

    def rows_with_keys(self) -> int:
        """Return how many rows of keyed tables have one of the keys; nothing else is read."""
        self._prepare()
        count = 0
        for plan in self.plan.operators:
            self._keys_of(plan, None)
            own = plan.identifier.operator_id.hex
            keys = self.keys.get(own)
            if keys is None or not len(keys.stored):
                continue
            for table in self._tables(plan):
                for batch in batches_of(exact(self.held), self.path, ("key",), uidHash=own, table=table)[1]:
                    count += keys.mask(batch).true_count
        return count

    def _prepare(self) -> None:
        plans = tuple(with_states(plan) for plan in self.plan.operators)
        self.plan = SavepointPlan(plans, self.plan.bases, self.plan.max_parallelism, self.plan.state_backend)
        listed = batches_of(self.held, self.path, table="states")[1]
        self.states = [row for batch in listed for row in batch.to_pylist()]

    def _expect_operators(self) -> None:
        """Raise StateNotFoundError if ``by`` names no operator, or one without keys: its keys would stay unnoticed."""
        keyed = [plan for plan in self.plan.operators if KeysOfOperator.of(plan) is not None]
        known = {name for plan in keyed for name in (plan.identifier.uid, plan.identifier.operator_id.hex)}
        for name in self.by:
            if name not in known:
                raise StateNotFoundError(
                    f"by names {name!r}, which is no operator with keyed state",
                    path=self.path,
                    expected="a uid, or a uid hash",
                    remedy=did_you_mean(name, [plan.label for plan in keyed]),
                )

    def _rows_of(self, plan: OperatorPlan) -> list[Place]:
        own = plan.identifier.operator_id.hex
        return [row for row in self.states if row.get("operator_uid_hash") == own]

    def _tables(self, plan: OperatorPlan) -> list[str]:
        there = {row["table"] for row in self._rows_of(plan)}
        return [table for table in KEYED_TABLES if table in there]

    def _conditions(self) -> dict[str, tuple[object, str]]:
        """Return the conditions on keys by operator, and keep those on states."""
        found: dict[str, tuple[object, str]] = {}
        for name, condition in self.where.items():
            plan, row = self._named(name)
            argument = f"where[{name!r}]"
            own = plan.identifier.operator_id.hex
            if row is None:
                if not self._tables(plan):
                    raise StateNotFoundError(
                        "the operator has no keyed state: name one of its states",
                        operator=plan.label,
                        remedy=f"where={{'{plan.label}.STATE': ...}}",
                    )
                found[own] = (condition, argument)
                continue
            if row["ttl"]:
                raise UnsupportedStateError(
                    "elements of a state with a time to live cannot be removed one by one: their times would be lost",
                    operator=plan.label,
                    state=row["state"],
                    remedy="name the operator alone, which removes whole keys",
                )
            one = Elements(row["state"], row["table"], row["kind"], condition, argument)
            self.elements.setdefault(own, []).append(one)
        return found

    def _named(self, name: str) -> tuple[OperatorPlan, Place | None]:
        """Find ``UID`` or ``UID.STATE``; uids and states may have dots."""
        plan = self.plan.find(name) if name.strip() else None
        if plan is not None:
            return plan, None
        for dot in (place for place, sign in enumerate(name) if sign == "."):
            plan = self.plan.find(name[:dot]) if name[:dot].strip() else None
            for row in self._rows_of(plan) if plan is not None else ():
                if row["state"] == name[dot + 1 :] and row["table"] in (
                    "keyed_state",
                    "window_state",
                    "operator_state",
                ):
                    assert plan is not None
                    return plan, row
        known = [each.label for each in self.plan.operators]
        known += [
            f"{row['operator_uid'] or row['operator_uid_hash']}.{row['state']}" for row in self.states if row["state"]
        ]
        raise StateNotFoundError(
            f"where names {name!r}, which is no operator and no state of one",
            path=self.path,
            expected="UID, or UID.STATE",
            remedy=did_you_mean(name, known),
        )

    def _keys_of(self, plan: OperatorPlan, condition: tuple[object, str] | None) -> None:
        """Determine the keys of an operator that are erased."""
        keys = KeysOfOperator.of(plan)
        if keys is None:
            return
        own = plan.identifier.operator_id.hex
        self.keys[own] = keys
        by = next((self.by[name] for name in (plan.identifier.uid, own) if name is not None and name in self.by), None)
        if not isinstance(by, Mapping):
            keys.add_values(self.sought.column(by, plan.label))
        elif self._tables(plan):
            self._add_by_fields(plan, keys, by)
        if condition is not None:
            self._add_by_condition(plan, keys, *condition)
        self.patterns.add(keys.patterns())

    def _add_by_fields(self, plan: OperatorPlan, keys: KeysOfOperator, by: Mapping[str, str]) -> None:
        """Add the keys whose fields have the values of one of the rows."""
        columns = [self.sought.column(column, plan.label) for column in by.values()]
        for table in self._tables(plan):
            own = plan.identifier.operator_id.hex
            for batch in batches_of(self.held, self.path, ("key",), uidHash=own, table=table)[1]:
                key = batch.column("key")
                gone = pa.repeat(pa.scalar(True), len(batch))
                for path, values in zip(by, columns, strict=True):
                    leaf = _field(key, path, plan.label)
                    wanted = [value for value in values if _fits(value, leaf.type)]
                    keys.fits = max(keys.fits, len(wanted))
                    gone = pc.and_(gone, pc.is_in(leaf, value_set=pa.array(wanted, leaf.type)))
                keys.add_rows(batch.filter(gone))

    def _add_by_condition(self, plan: OperatorPlan, keys: KeysOfOperator, condition: object, argument: str) -> None:
        schema, batches = batches_of(
            self.held, self.path, uidHash=plan.identifier.operator_id.hex, table=self._tables(plan)[0]
        )
        mask, _ = mask_of(condition, schema, argument)
        for batch in batches:
            keys.add_rows(batch.filter(mask(batch)))

    def _look(self, plan: OperatorPlan, leaves: Leaves) -> None:
        """Read the tables of an operator."""
        own, rows = plan.identifier.operator_id.hex, self._rows_of(plan)
        base = {"operator_uid": plan.identifier.uid, "operator_uid_hash": own}
        keys = self.keys.get(own)
        for table in self._tables(plan):
            assert keys is not None  # of all operators that have tables of keys
            place = {**base, "table": table, "state": None}
            if not reading(self.looked, place, partial(self._look_keyed, plan, keys, table, place, leaves)):
                reading(self.looked, place, partial(self._count_keys, keys, own, table))
        others: list[tuple[str, str | None]] = []
        for row in rows:
            if row["table"] == "operator_state":
                others.append(("operator_state", row["state"]))
            elif row["table"] in ("coordinator_state", "raw_operator_state", "in_flight") or (
                row["table"] == "raw_keyed_state" and not plan.raw_timers
            ):
                others.append((row["table"], None))
            shown = SHOWN_BY.search(row["note"] or "")
            if shown is not None:
                others.append((shown[1], None))
        for table, state in dict.fromkeys(others):
            place = {**base, "table": table, "state": state}
            texts = {"uidHash": own, "table": table} | ({"state": state} if state is not None else {})
            removed = [one for one in self.elements.get(own, ()) if (one.table, one.state) == (table, state)]
            self._read_rows(place, leaves, removed, **texts)

    def _look_keyed(self, plan: OperatorPlan, keys: KeysOfOperator, table: str, place: Place, leaves: Leaves) -> None:
        edited = any(one.table == table for one in self.elements.get(place["operator_uid_hash"], ()))
        held = self.held if edited else exact(self.held)
        schema, batches = batches_of(held, self.path, uidHash=place["operator_uid_hash"], table=table)
        for one in self.elements.get(place["operator_uid_hash"], ()):
            if one.table == table:
                batches = self._counting(one, plan, keys, schema, batches)
        look_at_keyed(self.looked, place, schema, batches, keys.mask, leaves)

    def _count_keys(self, keys: KeysOfOperator, own: str, table: str) -> None:
        """Count the rows of a table whose states cannot be read."""
        for name in [name for name in self.looked.states if name[:2] == (own, table)]:
            del self.looked.states[name]
        counts = self.looked.counts(own, table, "")
        for batch in batches_of(exact(self.held), self.path, ("key",), uidHash=own, table=table)[1]:
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
        without = WithoutElements.of(one, schema)
        counts = self.looked.counts(plan.identifier.operator_id.hex, one.table, f"elements of {one.state}")
        for batch in batches:
            kept, seen, removed = without.of_batch(batch)
            counts.seen += seen
            counts.removed += removed
            yield kept

    def _read_rows(self, place: Place, leaves: Leaves, removed: Sequence[Elements] = (), **texts: str) -> None:
        def read() -> None:
            schema, batches = batches_of(self.held if removed else exact(self.held), self.path, **texts)
            mask = mask_of(removed[0].condition, schema, removed[0].argument)[0] if removed else None
            look_at_rows(self.looked, place, schema, batches, leaves, mask)

        reading(self.looked, place, read)

    # -- what is written --------------------------------------------------------------------------------------

    def planned(self) -> SavepointPlan:
        """Return the plan without what is erased; nothing runs yet."""
        plan = self.plan
        for old in self.plan.operators:
            new = self._elements_removed(old)
            keys = self.keys.get(old.identifier.operator_id.hex)
            if keys is not None and self._may_have(old):
                for table in keys.tables:
                    new = with_keys_deleted(self.engine, new, self.engine.of_arrow(table))
            elif self._has_hidden(old) and not new.edits_keyed_state:
                new = new.with_rewritten(KEYED)
            plan = plan.with_changed(old, new) if new is not old else plan
        return plan

    def _elements_removed(self, plan: OperatorPlan) -> OperatorPlan:
        own = plan.identifier.operator_id.hex
        for one in self.elements.get(own, ()):
            texts = {"path": self.path, "uidHash": own, "table": one.table, "state": one.state}
            rows = self.engine.read(inheriting(self.held, texts))
            if one.table == "operator_state":
                mask, _ = mask_of(one.condition, rows.schema, one.argument)
                rows = rows.mapped(Kept(mask), rows.schema)
            else:
                rows = rows.mapped(WithoutElements.of(one, rows.schema), rows.schema)
            plan = put_state(self.engine, plan, one.state, rows, {})
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

    # -- what is said -----------------------------------------------------------------------------------------

    def report(self, salt: bytes, keeps_salt: bool, strict: bool, dry_run: bool) -> dict[str, Any]:
        """Return the report before anything is written."""
        return {
            "form": FORM,
            "version": VERSION,
            "package": __version__,
            "time": datetime.now(UTC).isoformat(timespec="seconds"),
            "arguments": {
                "salt": salt.hex() if keeps_salt else None,
                "keys": self.sought.hashes(salt),
                "by": {name: dict(one) if isinstance(one, Mapping) else one for name, one in self.by.items()},
                "where": {name: salted(salt, str(condition)) for name, condition in self.where.items()},
                "strict": strict,
                "dry_run": dry_run,
            },
            "before": {"path": self.path, "files": files_of(self.files)},
            "after": None,
            "operators": [self._of_operator(plan) for plan in self.plan.operators],
            "not_looked_into": self.not_looked_into(),
            "standing": [one.row() for one in self.looked.standing.values()],
            "not_searched": dict(self.patterns.too_short),
            "differences": None,
            "others": [],
        }

    def _of_operator(self, plan: OperatorPlan) -> Place:
        own = plan.identifier.operator_id.hex
        keys = self.keys.get(own)
        states = [
            {"table": table, "state": state or None, "seen": one.seen, "removed": one.removed}
            for (operator, table, state), one in self.looked.states.items()
            if operator == own
        ]
        return {
            "operator_uid": plan.identifier.uid,
            "operator_uid_hash": own,
            "operator_name": plan.name,
            "key_type": None if plan.key_serializer is None else plan.key_serializer.flink_type,
            "can_hold": None if keys is None else keys.fits,
            "cannot_hold": None if keys is None else keys.misfits,
            "states": states,
        }

    def not_looked_into(self) -> list[Place]:
        """Return the state whose content is not known, with its size, and the hits of patterns in it."""
        return list(self._unknown())

    def _unknown(self) -> Iterator[Place]:
        sizes: dict[tuple[str, str], int] = {}
        for batch in batches_of(self.held, self.path, table="sizes")[1]:
            for row in batch.to_pylist():
                place = row["operator_uid_hash"], row["state"] or ""
                sizes[place] = sizes.get(place, 0) + (row["bytes"] or 0)
        unread = {(one["operator_uid_hash"], one["table"], one["state"]): one["why"] for one in self.looked.unread}
        for row in self.states:
            why = self._why(row, unread)
            if why is None:
                continue
            own, state = row.get("operator_uid_hash"), row["state"]
            hits = self._hits_of(own, row["table"], state)
            size = sizes.get((own or "", state or ""))
            kind = {"coordinator_state": "coordinator state", "raw_keyed_state": "raw keyed state"}
            kind |= {"raw_operator_state": "raw operator state", "in_flight": "records in flight"}
            if row["table"] in kind:
                size = sum(one.size or 0 for one in self.files if (own, kind[row["table"]]) in one.of)
                hits = self._hits_in_files(own, kind[row["table"]])
            yield {
                "operator_uid": row.get("operator_uid"),
                "operator_uid_hash": own,
                "table": row["table"],
                "state": state,
                "bytes": size,
                "why": why,
                "hits": described(hits),
            }
        for owner, keys in self.keys.items():
            if keys.problem is not None:
                named = {"operator_uid": keys.plan.identifier.uid, "operator_uid_hash": owner, "table": "keyed_state"}
                hits = self._hits_in_files(owner, "keyed state")
                yield {**named, "state": "key", "bytes": None, "why": keys.problem, "hits": described(hits)}
        known = {(row.get("operator_uid_hash"), row["table"]) for row in self.states}
        for one in self.looked.unread:
            if (one["operator_uid_hash"], one["table"]) not in known:
                continue
            if one["table"] in KEYED_TABLES:
                hits = self._hits_in_files(one["operator_uid_hash"], "keyed state")
                yield {**one, "bytes": None, "hits": described(hits)}

    def _hits_in_files(self, own: str | None, kind: str) -> Hits:
        found: Hits = Hits()
        for one in self.files:
            if (own or "", kind) in one.of:
                found += one.hits
        return found

    def _hits_of(self, own: str | None, table: str, state: str | None) -> Hits:
        hits = Hits()
        for one in self.looked.standing.values():
            place = one.place
            here = place["state"] or re.split(r"[.\[{]", one.column)[0]
            if (place["operator_uid_hash"], place["table"]) == (own, table) and state in (here, place["state"]):
                hits += one.hits
        return hits

    def _why(self, row: Place, unread: Mapping[tuple[Any, ...], str]) -> str | None:
        """Return why the content of a state is not known; None if it is."""
        table, note = row["table"], row["note"]
        own = row.get("operator_uid_hash")
        shown = SHOWN_BY.search(note or "")
        if table == "operator_state" and shown is not None:
            return unread.get((own, shown[1], None)) or self.looked.unknown.get((own or "", shown[1]))
        if table == "coordinator_state":
            failed = unread.get((own, "source_coordinator", None))
            return failed or self.looked.unknown.get((own or "", "source_coordinator"))
        if table in ("raw_operator_state", "raw_keyed_state", "master_state"):
            plan = self.plan.find(own) if own else None
            return None if table == "raw_keyed_state" and plan is not None and plan.raw_timers else BYTES_OF_OWNER
        if table == "in_flight":
            return unread.get((own, table, None)) or self.looked.unknown.get((own or "", table))
        if table == "operator_state":
            opaque = row["spark_value_type"] == "binary"
            return BYTES_OF_OWNER if opaque else unread.get((own, table, row["state"]))
        if table in KEYED_TABLES:
            if note is not None and note != "raw keyed state":
                return str(note)
            return BYTES_OF_OWNER if row["value_type"] == BYTE_ARRAY else None
        return str(note) if note is not None else None


def is_self_contained(plan: SavepointPlan) -> bool:
    """Return whether all files of a snapshot are in its own folder."""
    for operator in plan.operators:
        assert operator.base is not None
        snapshot = operator.base.snapshot
        for handle in streams_of(operator.base.operator):
            place = snapshot.resolve(handle)
            if isinstance(place, FileLocation) and posixpath.dirname(place.path) != snapshot.location.directory:
                return False
    return True


def files_of(files: Sequence[Searched]) -> list[Place]:
    """Return files for a report, in order of their names."""
    return [one.row() for one in sorted(files, key=lambda one: one.name)]


@dataclass(frozen=True)
class Kept:
    """Function of batches that drops the rows of a condition."""

    mask: Mask

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield what is left of each batch."""
        for batch in batches:
            yield batch.filter(pc.invert(self.mask(batch)))


@dataclass(frozen=True)
class WithoutElements:
    """Function of batches of a keyed state that drops elements of its lists or maps, or its values, by a condition.

    A list or map state that becomes empty is NULL: the key has none any more, as in Flink.
    """

    state: str
    kind: str
    mask: Mask
    keys: tuple[str, ...]

    @classmethod
    def of(cls, one: Elements, schema: pa.Schema) -> WithoutElements:
        """Return the function for the columns of a table."""
        column = one.state if one.state in schema.names else f"state_{one.state}"
        keys = tuple(name for name in ("key", "window") if name in schema.names)
        fields = [schema.field(name) for name in keys]
        kind = schema.field(column).type
        if pa.types.is_map(kind):
            fields += [pa.field("map_key", kind.key_type), pa.field("map_value", kind.item_type)]
        elif pa.types.is_list(kind):
            fields += [pa.field("list_index", pa.int64()), pa.field("list_value", kind.value_type)]
        else:
            fields += [schema.field(column)]
        mask, _ = mask_of(one.condition, pa.schema(fields), one.argument)
        return cls(column, one.kind, mask, keys)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield each batch without the elements."""
        for batch in batches:
            yield self.of_batch(batch)[0]

    def of_batch(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, int, int]:
        """Return a batch without the elements, and how many there were and are dropped."""
        column = batch.column(self.state)
        if pa.types.is_map(column.type) or pa.types.is_list(column.type):
            kept, seen, removed = self._of_collection(batch, column)
        else:
            gone = pc.and_(self.mask(batch.select([*self.keys, self.state])), column.is_valid())
            kept, seen, removed = (
                pc.if_else(gone, pa.nulls(len(batch), column.type), column),
                len(column) - column.null_count,
                gone.true_count,
            )
        place = batch.schema.get_field_index(self.state)
        return batch.set_column(place, batch.schema.field(place), kept), seen, removed

    def _of_collection(self, batch: pa.RecordBatch, column: pa.Array) -> tuple[pa.Array, int, int]:
        is_map = pa.types.is_map(column.type)
        # Compact, so that offsets begin at 0 and NULLs are empty.
        column = pa.concat_arrays([pa.array([], column.type), column])
        lengths = (
            pc.list_value_length(pa.ListArray.from_arrays(column.offsets, column.keys))
            if is_map
            else pc.list_value_length(column)
        )
        valid = column.is_valid()
        counts = pc.if_else(valid, lengths, 0).to_numpy(zero_copy_only=False).astype("int64")
        offsets = column.offsets.to_numpy().astype(np.int64)
        parents = np.repeat(np.arange(len(column)), counts)
        within = np.arange(len(parents)) - np.repeat(np.cumsum(counts) - counts, counts)
        places = pa.array(np.repeat(offsets[:-1], counts) + within)
        rows = {name: batch.column(name).take(pa.array(parents)) for name in self.keys}
        if is_map:
            rows |= {"map_key": column.keys.take(places), "map_value": column.items.take(places)}
        else:
            rows |= {"list_index": pa.array(within), "list_value": column.values.take(places)}
        gone = self.mask(pa.record_batch(list(rows.values()), list(rows)))
        stays = pc.invert(gone)
        left = np.bincount(parents[stays.to_numpy(zero_copy_only=False)], minlength=len(column))
        ends = pa.array(np.concatenate([[0], np.cumsum(left)]).astype(np.int32))
        empty = (left == 0) & (counts > 0) if self.kind in ("LIST", "MAP") else np.zeros(len(column), bool)
        nulls = pa.array(empty | ~valid.to_numpy(zero_copy_only=False))
        parts = [rows[name].filter(stays) for name in (MAP_COLUMNS if is_map else LIST_COLUMNS[1:])]
        kind = column.type
        made = (
            pa.MapArray.from_arrays(ends, *parts, type=kind, mask=nulls)
            if is_map
            else pa.ListArray.from_arrays(ends, *parts, type=kind, mask=nulls)
        )
        return made, len(parents), gone.true_count


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


def new_salt() -> bytes:
    """Return a random salt."""
    return secrets.token_bytes(16)
