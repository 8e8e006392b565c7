"""What an erasure found, as its report says it: places, sizes, and state that cannot be looked into."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

import pyarrow as pa

from pyspark_savepoint.erasure.erasing import SHOWN_BY, Erasing
from pyspark_savepoint.erasure.files import Searched
from pyspark_savepoint.erasure.patterns import Hits, described
from pyspark_savepoint.erasure.sought import salted
from pyspark_savepoint.erasure.tables import KEYED_TABLES, Place, batches_of
from pyspark_savepoint.formats.connectors.payloads.kind import (
    ASYNC_STATE,
    COMMITTABLES,
    COMMITTER_STATE,
    IN_FLIGHT,
    SOURCE_COORDINATOR,
    SPLITS,
)
from pyspark_savepoint.formats.errors import SavepointError
from pyspark_savepoint.options.release import __version__
from pyspark_savepoint.plan.connector_changes import source_of
from pyspark_savepoint.plan.operator_plan import OperatorPlan
from pyspark_savepoint.statebackends.connectors.connector_states import list_states

FORM = "pyspark-savepoint erasure"
VERSION = 1
BYTES_OF_OWNER = "bytes that only the job, or Flink's coordinator, can read"
OPAQUE_KEYS = "keys that only the job's own serializer can read: they are erased as the bytes that tables show"
BYTE_ARRAY = "PRIMITIVE_ARRAY<BYTE>"


@dataclass(frozen=True)
class Findings:
    """Findings of an erasure."""

    erasing: Erasing

    def report(self, salt: bytes, strict: bool, accept: Sequence[str], dry_run: bool) -> dict[str, Any]:
        """Return the report before anything is written; the salt is not in it."""
        return {
            "form": FORM,
            "version": VERSION,
            "package": __version__,
            "time": datetime.now(UTC).isoformat(timespec="seconds"),
            "arguments": {
                "keys": self.erasing.searched.hashes(salt),
                "by": {name: dict(one) if isinstance(one, Mapping) else one for name, one in self.erasing.by.items()},
                "where": {name: salted(salt, str(condition)) for name, condition in self.erasing.where.items()},
                "record_types": dict(self.erasing.record_types),
                "strict": strict,
                "accept": sorted(accept),
                "dry_run": dry_run,
            },
            "before": {"path": self.erasing.path, "files": files_of(self.erasing.files)},
            "after": None,
            "operators": [self._of_operator(plan) for plan in self.erasing.plan.operators],
            "not_looked_into": self.not_looked_into(),
            "standing": [
                {**one.row(), "removable": self.can_remove(one.place)} for one in self.erasing.looked.standing.values()
            ],
            "not_searched": dict(self.erasing.patterns.too_short),
            "differences": None,
            "below": None,
            "others": [],
        }

    def _of_operator(self, plan: OperatorPlan) -> Place:
        own = plan.identifier.operator_id.hex
        keys = self.erasing.keys.get(own)
        states = [
            {"table": table, "state": state or None, "seen": one.seen, "removed": one.removed}
            for (operator, table, state), one in self.erasing.looked.states.items()
            if operator == own
        ]
        return {
            "operator_uid": self.erasing.uid_of(plan),
            "operator_uid_hash": own,
            "operator_name": plan.name,
            "key_type": None if plan.key_serializer is None else plan.key_serializer.flink_type,
            "can_hold": None if keys is None else keys.fits,
            "cannot_hold": None if keys is None else keys.misfits,
            "states": states,
        }

    def can_remove(self, place: Place) -> bool:
        """Return whether keys or conditions can remove what stands at a place."""
        plan = self.erasing.plan.find(place["operator_uid_hash"]) if place["operator_uid_hash"] else None
        table = place["table"]
        if plan is None or table in (SPLITS, SOURCE_COORDINATOR):
            try:
                return plan is not None and bool(source_of(plan, self.erasing.options.get("connector")))
            except SavepointError:
                return False
        if table == COMMITTABLES:
            assert plan.base is not None
            return COMMITTER_STATE in list_states(plan.base.operator)
        return table in (*KEYED_TABLES, "operator_state", IN_FLIGHT)

    def not_looked_into(self) -> list[Place]:
        """Return the state whose content is not known, with its size, and the hits of patterns in it."""
        return list(self._unknown())

    @cached_property
    def _sizes(self) -> dict[tuple[str, str], int]:
        """The bytes of all states, by uid hash and name."""
        columns = ("operator_uid_hash", "state", "bytes")
        sizes: dict[tuple[str, str], int] = {}
        for batch in batches_of(self.erasing.options, self.erasing.path, columns, table="sizes")[1]:
            by_state = pa.Table.from_batches([batch]).group_by([*columns[:2]]).aggregate([("bytes", "sum")])
            for row in by_state.to_pylist():
                state_id = row["operator_uid_hash"], row["state"] or ""
                sizes[state_id] = sizes.get(state_id, 0) + (row["bytes_sum"] or 0)
        return sizes

    def _unknown(self) -> Iterator[Place]:
        looked = self.erasing.looked
        unread = {(one["operator_uid_hash"], one["table"], one["state"]): one["why"] for one in looked.unread}
        for row in self.erasing.states:
            why = self._why(row, unread)
            if why is None:
                continue
            own, state = row.get("operator_uid_hash"), row["state"]
            hits = self._hits_of(own, row["table"], state)
            kind = {"coordinator_state": "coordinator state", "raw_keyed_state": "raw keyed state"}
            kind |= {"raw_operator_state": "raw operator state", "in_flight": "records in flight"}
            if row["table"] not in kind:
                size = self._sizes.get((own or "", state or ""))
            else:
                size = sum(one.size or 0 for one in self.erasing.files if (own, kind[row["table"]]) in one.of)
                hits = self._hits_in_files(own, kind[row["table"]])
            yield {
                "operator_uid": row.get("operator_uid") or self.erasing.uids.get(own or ""),
                "operator_uid_hash": own,
                "table": row["table"],
                "state": state,
                "bytes": size,
                "why": why,
                "hits": described(hits),
            }
        for owner, keys in self.erasing.keys.items():
            why = keys.problem or (OPAQUE_KEYS if keys.opaque and self.erasing.keyed_tables(keys.plan) else None)
            if why is not None:
                identity = {
                    "operator_uid": self.erasing.uid_of(keys.plan),
                    "operator_uid_hash": owner,
                    "table": "keyed_state",
                }
                hits = self._hits_in_files(owner, "keyed state")
                yield {**identity, "state": "key", "bytes": None, "why": why, "hits": described(hits)}
        tables = {(row.get("operator_uid_hash"), row["table"]) for row in self.erasing.states}
        for one in looked.unread:
            if (one["operator_uid_hash"], one["table"]) not in tables:
                continue
            if one["table"] in KEYED_TABLES:
                hits = self._hits_in_files(one["operator_uid_hash"], "keyed state")
                yield {**one, "bytes": None, "hits": described(hits)}

    def _hits_in_files(self, own: str | None, kind: str) -> Hits:
        hits: Hits = Hits()
        for one in self.erasing.files:
            if (own or "", kind) in one.of:
                hits += one.hits
        return hits

    def _hits_of(self, own: str | None, table: str, state: str | None) -> Hits:
        hits = Hits()
        for one in self.erasing.looked.standing.values():
            location = one.place
            here = location["state"] or re.split(r"[.\[{]", one.column)[0]
            if (location["operator_uid_hash"], location["table"]) == (own, table) and state in (
                here,
                location["state"],
            ):
                hits += one.hits
        return hits

    def _why(self, row: Place, unread: Mapping[tuple[Any, ...], str]) -> str | None:
        """Return why the content of a state is not known; None if it is."""
        table, note = row["table"], row["note"]
        own, unknown = row.get("operator_uid_hash"), self.erasing.looked.unknown
        match = SHOWN_BY.search(note or "")
        if table == "operator_state" and match is not None:
            part = ASYNC_STATE if match[1] == IN_FLIGHT else None
            return unread.get((own, match[1], part)) or unknown.get((own or "", match[1], part or ""))
        if table == "coordinator_state":
            failed = unread.get((own, "source_coordinator", None))
            return failed or unknown.get((own or "", "source_coordinator", ""))
        if table in ("raw_operator_state", "raw_keyed_state", "master_state"):
            plan = self.erasing.plan.find(own) if own else None
            return None if table == "raw_keyed_state" and plan is not None and plan.raw_timers else BYTES_OF_OWNER
        if table == IN_FLIGHT:
            return unread.get((own, table, row["state"])) or unknown.get((own or "", table, row["state"] or ""))
        if table == "operator_state":
            opaque = row["spark_value_type"] == "binary"
            return BYTES_OF_OWNER if opaque else unread.get((own, table, row["state"]))
        if table in KEYED_TABLES:
            if note is not None and note != "raw keyed state":
                return str(note)
            return BYTES_OF_OWNER if row["value_type"] == BYTE_ARRAY else None
        return str(note) if note is not None else None


def files_of(files: Sequence[Searched]) -> list[Place]:
    """Return files for a report, in order of their names."""
    return [one.row() for one in sorted(files, key=lambda one: one.name)]
