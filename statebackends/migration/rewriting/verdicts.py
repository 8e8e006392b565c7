"""Verdicts about the parts of a state, and the table that shows them.

==============  ===============================================================================================
as is           the bytes are right for the other release, and stay
rewritten       a migration writes other bytes; the values are equal
is lost         rewritten, but Flink itself cannot keep something: the order of a TreeMap in a field of type Map
needs           the migration needs an argument: class files, types
impossible      no rewriting helps; the reason says why
==============  ===============================================================================================

``unmigrated`` is what Flink does with the part if nothing is done:

==============  ===============================================================================================
restores        the values are equal
wrong values    the restore succeeds without an error, but values are wrong
fails           the restore fails; with RocksDB, keyed state fails at the first access to the state or key
unknown         it depends on the missing argument
==============  ===============================================================================================
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import pyarrow as pa


class MigrationVerdict(StrEnum):
    """What a migration does with a part of a state."""

    AS_IS = "as is"
    REWRITTEN = "rewritten"
    IS_LOST = "is lost"
    NEEDS = "needs"
    IMPOSSIBLE = "impossible"

    @property
    def severity(self) -> int:
        return list(MigrationVerdict).index(self)


class Outcome(StrEnum):
    """What Flink does with a part of a state that is not migrated."""

    RESTORES = "restores"
    UNKNOWN = "unknown"
    WRONG_VALUES = "wrong values"
    FAILS = "fails"

    @property
    def severity(self) -> int:
        return list(Outcome).index(self)


FAILS_WHEN_RESTORING = "fails when restoring"
FAILS_AT_FIRST_ACCESS = "fails at first access"

TEXT, LONG = pa.string(), pa.int64()
SCHEMA = pa.schema(
    {
        "operator_uid": TEXT,
        "operator_uid_hash": TEXT,
        "operator_name": TEXT,
        "state": TEXT,
        "kind": TEXT,
        "part": TEXT,
        "verdict": TEXT,
        "hashmap": TEXT,
        "rocksdb": TEXT,
        "type": TEXT,
        "new_type": TEXT,
        "reason": TEXT,
        "remedy": TEXT,
        "values": LONG,
        "changed": LONG,
    }
)


@dataclass(frozen=True)
class StateRef:
    """A state of an operator; ``keyed`` state is decoded by RocksDB when it is accessed."""

    operator_uid: str | None
    operator_uid_hash: str
    operator_name: str | None
    state: str
    kind: str
    keyed: bool

    @property
    def label(self) -> str:
        """The name by which options mention the state."""
        return f"{self.operator_uid or self.operator_uid_hash}.{self.state}"

    def is_named(self, names: Iterable[str]) -> bool:
        """Return whether the state, or its operator, is among names of an option."""
        operators = (self.operator_uid, self.operator_uid_hash)
        known = {self.state, *operators, *(f"{operator}.{self.state}" for operator in operators)}
        return not known.isdisjoint(names)


@dataclass(frozen=True)
class PartVerdict:
    """Row of the table: a part of a state. ``values`` were looked at; ``changed`` of them get other bytes."""

    ref: StateRef
    part: str
    verdict: MigrationVerdict
    outcome: Outcome
    type: str
    new_type: str | None = None
    reason: str | None = None
    remedy: str | None = None
    values: int | None = None
    changed: int | None = None

    def row(self) -> dict[str, Any]:
        """Return the row."""
        ref = self.ref
        return {
            "operator_uid": ref.operator_uid,
            "operator_uid_hash": ref.operator_uid_hash,
            "operator_name": ref.operator_name,
            "state": ref.state,
            "kind": ref.kind,
            "part": self.part,
            "verdict": self.verdict.value,
            "hashmap": FAILS_WHEN_RESTORING if self.outcome is Outcome.FAILS else self.outcome.value,
            "rocksdb": self._rocksdb(),
            "type": self.type,
            "new_type": self.new_type,
            "reason": self.reason,
            "remedy": self.remedy,
            "values": self.values,
            "changed": self.changed,
        }

    def _rocksdb(self) -> str:
        if self.outcome is not Outcome.FAILS:
            return self.outcome.value
        return FAILS_AT_FIRST_ACCESS if self.ref.keyed and not self.fails_in_header else FAILS_WHEN_RESTORING

    @property
    def fails_in_header(self) -> bool:
        """Return whether Flink fails when it reads the header: a snapshot class is missing."""
        return self.reason is not None and self.reason.startswith(MISSING_CLASS)


MISSING_CLASS = "there is no class "


@dataclass(frozen=True)
class MigrationCheck:
    """All verdicts about a snapshot."""

    parts: tuple[PartVerdict, ...]

    @property
    def restores(self) -> bool:
        """Return whether Flink restores everything without migration."""
        return all(part.outcome is Outcome.RESTORES for part in self.parts)

    @property
    def missing(self) -> tuple[PartVerdict, ...]:
        """Return the parts that keep a migration from being written."""
        return tuple(
            part for part in self.parts if part.verdict in (MigrationVerdict.NEEDS, MigrationVerdict.IMPOSSIBLE)
        )

    def to_arrow(self) -> pa.Table:
        """Return the table of :data:`SCHEMA`, the worst first."""
        rows = sorted(self.parts, key=lambda part: (-part.verdict.severity, -part.outcome.severity))
        return pa.Table.from_pylist([part.row() for part in rows], SCHEMA)
