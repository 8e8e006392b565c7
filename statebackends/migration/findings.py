"""Findings of a scan of values, by state; they can be merged, and cross processes as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from pyspark_savepoint.statebackends.migration.rewriting.verdicts import Loss, Losses, MigrationVerdict, Outcome

#: Number of reasons that are kept for each part; every unknown class is one.
MAX_HINDRANCES = 20


@dataclass(frozen=True)
class Blocker:
    """Why values cannot be rewritten, and the remedy."""

    verdict: MigrationVerdict
    reason: str
    remedy: str
    #: Whether Flink fails to read such values in any case.
    fails: bool = False
    #: Whether the outcome of the state tells what Flink makes of such values.
    is_predicted: bool = False


@dataclass
class PartFindings:
    """What was found in the values of one part of a state."""

    values: int = 0
    changed: int = 0
    #: What the new release does not keep.
    lost: Losses = field(default_factory=Losses)
    #: Old and new type, of a part of a POJO's subclass, which is only known from the values.
    types: tuple[str, str] | None = None
    blockers: dict[str, Blocker] = field(default_factory=dict)
    #: Classes of Java in the values whose fields Kryo 5 sets.
    opened: set[str] = field(default_factory=set)

    def add_blocker(self, blocker: Blocker) -> None:
        """Keep a reason, once."""
        if len(self.blockers) < MAX_HINDRANCES:
            self.blockers.setdefault(blocker.reason, blocker)

    def add(self, other: PartFindings) -> None:
        """Add what was found in other values."""
        self.values += other.values
        self.changed += other.changed
        self.lost.add(other.lost)
        self.types = self.types or other.types
        self.opened |= other.opened
        for blocker in other.blockers.values():
            self.add_blocker(blocker)


@dataclass
class StateFindings:
    """What was found in the entries of one state: ``parts`` by role and name; "" concerns all of them."""

    outcome: Outcome = Outcome.RESTORES
    #: Whether some values fail to be read, if they are not migrated.
    is_unreadable: bool = False
    #: Whether Kryo 2 wrote fields of the compiler (``this$0``), if values show it.
    synthetic: bool | None = None
    parts: dict[tuple[str, str], PartFindings] = field(default_factory=dict)

    def part(self, role: str, name: str) -> PartFindings:
        """Return what was found in a part."""
        return self.parts.setdefault((role, name), PartFindings())

    @property
    def whole(self) -> PartFindings:
        """What concerns all parts."""
        return self.part("", "")

    @property
    def is_hindered(self) -> bool:
        """Return whether some values cannot be rewritten."""
        return any(part.blockers for part in self.parts.values())

    def record(self, outcome: Outcome) -> None:
        """Keep the worst outcome."""
        self.is_unreadable = self.is_unreadable or outcome is Outcome.FAILS
        self.outcome = max(self.outcome, outcome, key=lambda each: each.severity)

    def add(self, other: StateFindings) -> None:
        """Add what was found in other entries."""
        self.record(other.outcome)
        self.is_unreadable = self.is_unreadable or other.is_unreadable
        self.synthetic = other.synthetic if self.synthetic is None else self.synthetic
        for part_id, part in other.parts.items():
            self.part(*part_id).add(part)


#: What was found, by the name of a state in its operator.
Findings = dict[str, StateFindings]


def merged(findings: Iterable[Mapping[str, StateFindings]]) -> Findings:
    """Return what several scans found."""
    result: Findings = {}
    for states in findings:
        for name, state in states.items():
            result.setdefault(name, StateFindings()).add(state)
    return result


def to_json(findings: Mapping[str, StateFindings]) -> bytes:
    """Return the text of findings."""
    states = {
        name: {
            "outcome": state.outcome,
            "unreadable": state.is_unreadable,
            "synthetic": state.synthetic,
            "parts": [[*part_id, asdict(part)] for part_id, part in state.parts.items()],
        }
        for name, state in findings.items()
    }
    return json.dumps(states, default=sorted).encode()


def from_json(text: bytes) -> Findings:
    """Return the findings of a text."""
    states: Mapping[str, Any] = json.loads(text)
    return {name: _state(state) for name, state in states.items()}


def _state(state: Mapping[str, Any]) -> StateFindings:
    parts = {(role, name): _part(part) for role, name, part in state["parts"]}
    return StateFindings(Outcome(state["outcome"]), state["unreadable"], state["synthetic"], parts)


def _part(part: Mapping[str, Any]) -> PartFindings:
    blockers = [
        Blocker(MigrationVerdict(h["verdict"]), h["reason"], h["remedy"], h["fails"], h["is_predicted"])
        for h in part["blockers"].values()
    ]
    return PartFindings(
        part["values"],
        part["changed"],
        Losses({Loss(kind): set(names) for kind, names in part["lost"]["names"].items()}),
        tuple(part["types"]) if part["types"] else None,
        {blocker.reason: blocker for blocker in blockers},
        set(part["opened"]),
    )
