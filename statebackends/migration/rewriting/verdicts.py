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
... or fails    no class file says whether a field is primitive, which Java cannot set to the null that is read
fails           an error: see :class:`Stage`
unknown         it depends on the missing argument
==============  ===============================================================================================
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pyspark_savepoint.formats.metadata.identifiers import OperatorID

if TYPE_CHECKING:
    from pyspark_savepoint.statebackends.requests.arrow_types import ArrowTable


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
    WRONG_OR_FAILS = "wrong values or fails"
    FAILS = "fails"

    @property
    def severity(self) -> int:
        return list(Outcome).index(self)


class Loss(StrEnum):
    """What the new release does not keep, as the reason of a verdict says it."""

    COLLECTION = "the classes are lost, with what they add, such as an order"
    OUTER = "without the outer object of inner classes, and the variables that they capture"
    OFFSET = (
        "without offsets of times: where clocks are set back, the second of the two equal hours becomes the first, in"
    )
    SCRIPT = "without the script and extensions of"
    FLAGS = "without the flags of"
    TRANSIENT = "without transient parts, such as ids of offsets and rules of zones, which Kryo 2 does not write, of"
    WITH_SCALA = (
        "in the form of jobs with flink-scala on their class path, as in Flink's distribution, which others misread, "
        "for objects of inner classes"
    )
    UNWRITTEN = "without the content, which Kryo did not write because it is in transient fields, of"


@dataclass
class Losses:
    """Names of the classes of which something is lost, by what it is; the one list of rules is :class:`Loss`."""

    names: dict[Loss, set[str]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.names)

    def note(self, loss: Loss, name: str) -> None:
        """Keep the name of a class."""
        self.names.setdefault(loss, set()).add(name)

    def copy(self) -> Losses:
        """Return the same losses, which others are not added to."""
        return Losses({loss: set(names) for loss, names in self.names.items()})

    def add(self, other: Losses) -> None:
        """Add what was found in other values."""
        for loss, names in other.names.items():
            self.names.setdefault(loss, set()).update(names)

    @property
    def reasons(self) -> Iterator[str]:
        """Yield a sentence for each."""
        for loss in Loss:
            if loss in self.names:
                names = ", ".join(sorted(self.names[loss]))[:300]
                yield f"{loss}{':' if loss in (Loss.COLLECTION, Loss.OUTER, Loss.WITH_SCALA) else ''} {names}"


#: Packages that Flink 2's own ``config.yaml`` opens.
OPENED = frozenset(
    f"java.{name}"
    for name in (
        *("lang", "lang.reflect", "io", "net", "nio", "text", "time", "util", "util.concurrent"),
        *("util.concurrent.atomic", "util.concurrent.locks"),
    )
)


def opening(classes: Iterable[str]) -> Iterator[str]:
    """Yield what Flink 2 needs on Java 17 to set the fields of classes of Java, a sentence for each package."""
    packages: dict[str, list[str]] = {}
    for name in sorted(classes):
        packages.setdefault(name.rpartition(".")[0], []).append(name)
    for package, names in packages.items():
        known = "as its own config.yaml has it" if package in OPENED else "which its own config.yaml has not"
        yield (
            f"on Java 17 Flink needs --add-opens=java.base/{package}=ALL-UNNAMED in env.java.opts.all ({known}), "
            f"because it sets the fields of {', '.join(names)[:300]}"
        )


class Stage(StrEnum):
    """When Flink fails.

    Restoring: it reads the header, and with the hashmap backend, and for operator state, all values. Registration:
    the operator names the state, and Flink compares serializers (``StateMigrationException``). Access: RocksDB decodes
    a value when the job reads it.
    """

    RESTORING = "fails when restoring"
    REGISTRATION = "fails when the state is registered"
    ACCESS = "fails at first access"


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

    def is_of_operator(self, name: str) -> bool:
        """Return whether a name is the uid of the operator, which snapshots of Flink 1 have as a hash, or its hash."""
        return name in (self.operator_uid, self.operator_uid_hash) or _uid_hash(name) == self.operator_uid_hash

    def is_state(self, name: str) -> bool:
        """Return whether a name is that of the state: ``state``, ``uid.state`` or ``hash.state``."""
        operator = name.removesuffix(f".{self.state}")
        return name == self.state or (operator != name and self.is_of_operator(operator))

    def is_named(self, names: Iterable[str]) -> bool:
        """Return whether the state, or its operator, is among names of an option."""
        return any(self.is_state(name) or self.is_of_operator(name) for name in names)


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
    #: Whether Flink refuses the new serializer of the state when it is registered.
    is_refused: bool = False
    #: Whether Flink fails to read values of the state, whatever its new serializer.
    is_unreadable: bool = True
    #: Classes of Java whose fields Flink 2 sets: Kryo 5 in values, or the POJO serializer.
    opened: frozenset[str] = frozenset()

    @property
    def label(self) -> str:
        """The state, and the part of it, as text."""
        return " ".join(filter(None, (self.ref.label, self.part)))

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
            "hashmap": self._unmigrated(reads_all=True),
            "rocksdb": self._unmigrated(reads_all=not ref.keyed),
            "type": self.type,
            "new_type": self.new_type,
            "reason": "; ".join([*filter(None, [self.reason]), *opening(self.opened)]) or None,
            "remedy": self.remedy,
            "values": self.values,
            "changed": self.changed,
        }

    def _unmigrated(self, *, reads_all: bool) -> str:
        """Return what a backend does, which reads all values when it restores them, or each when it is accessed."""
        if self.outcome is not Outcome.FAILS:
            return self.outcome.value
        # The key of an operator is compared when the backend is restored.
        in_header = self.fails_in_header or (self.is_refused and self.ref.kind == KEY_KIND)
        if in_header or (reads_all and self.is_unreadable):
            return Stage.RESTORING.value
        # A queue of RocksDB reads its first timers when it is made.
        at_once = self.is_refused or self.ref.kind == TIMERS_KIND
        return Stage.REGISTRATION.value if at_once else Stage.ACCESS.value

    @property
    def fails_in_header(self) -> bool:
        """Return whether Flink fails when it reads the header: a snapshot class is missing."""
        return self.reason is not None and self.reason.startswith(MISSING_CLASS)


@lru_cache(maxsize=4096)
def _uid_hash(uid: str) -> str:
    return str(OperatorID.from_uid(uid))


#: The kind of the key of an operator, which is a state of its own in the table.
KEY_KIND = "KEY"
#: The kind of a queue of timers.
TIMERS_KIND = "TIMER"
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
    def opening(self) -> list[str]:
        """What Flink needs on Java 17 to read the values, a sentence for each package."""
        return list(opening({name for part in self.parts for name in part.opened}))

    @property
    def missing(self) -> tuple[PartVerdict, ...]:
        """Return the parts that keep a migration from being written."""
        return tuple(
            part for part in self.parts if part.verdict in (MigrationVerdict.NEEDS, MigrationVerdict.IMPOSSIBLE)
        )

    def to_arrow(self) -> ArrowTable:
        """Return the table of :data:`SCHEMA`, the worst first."""
        rows = sorted(self.parts, key=lambda part: (-part.verdict.severity, -part.outcome.severity))
        table: ArrowTable = pa.Table.from_pylist([part.row() for part in rows], SCHEMA)
        return table
