"""Plan of a whole savepoint: its operators in order, each with its own plan. Immutable; nothing runs."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from pyspark_savepoint.formats.errors import (
    OperatorNotFoundError,
    OptionError,
    SavepointWarning,
    StateExistsError,
    did_you_mean,
)
from pyspark_savepoint.formats.metadata.identifiers import OperatorID, OperatorIdentifier
from pyspark_savepoint.formats.metadata.key_groups import check_parallelism
from pyspark_savepoint.formats.snapshot.relocation import with_prefix
from pyspark_savepoint.options.operators import OperatorRef, identifier_of
from pyspark_savepoint.plan.keyed_edits import rehashed
from pyspark_savepoint.plan.named import NamedSequence
from pyspark_savepoint.plan.operator_plan import Base, OperatorPlan, States, expect_rows, headers_of_bases
from pyspark_savepoint.statebackends.requests.parallelism import DEFAULT_MAX_PARALLELISM
from pyspark_savepoint.statebackends.writing.planning.kept_states import usual_max_parallelism

if TYPE_CHECKING:
    from pyspark_savepoint.formats.metadata import CheckpointMetadata, OperatorState
    from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
    from pyspark_savepoint.plan.engine import Engine
    from pyspark_savepoint.plan.evolved_from import EvolvedFrom

HASHMAP, ROCKSDB, FORST = "hashmap", "rocksdb", "forst"


class Operators(NamedSequence[OperatorPlan]):
    """The operators of a savepoint, by their ids and by the uids of their identifiers."""

    __slots__ = ()

    @staticmethod
    def names(item: OperatorPlan) -> Iterable[Hashable]:
        """Return the names by which an operator is found."""
        uid = item.identifier.uid
        return (item.identifier.operator_id,) if uid is None else (item.identifier.operator_id, uid)


@dataclass(frozen=True, repr=False)
class SavepointPlan:
    """The operators of a planned savepoint, and the metadata of the snapshots that they come from.

    ``state_backend`` is that of the job that restores it, if it is known.
    """

    operators: Operators = field(default_factory=Operators)
    bases: tuple[CheckpointMetadata, ...] = ()
    max_parallelism: int = DEFAULT_MAX_PARALLELISM
    state_backend: str | None = None
    #: Of a savepoint for another query of its SQL job.
    evolved: EvolvedFrom | None = None

    def __repr__(self) -> str:
        """Return one line: how many operators there are."""
        return f"<plan of {len(self.operators)} operator{'' if len(self.operators) == 1 else 's'}>"

    @classmethod
    def of(cls, snapshot: Snapshot, path: str, options: Mapping[str, str]) -> SavepointPlan:
        """Return the plan that contains a snapshot unchanged."""
        plans = []
        for operator in snapshot.operators:
            identifier = OperatorIdentifier(operator.operator_id, operator.uid)
            plans.append(OperatorPlan(identifier, operator.name, Base(snapshot, operator, path, options)))
        return cls(Operators(plans), (snapshot.metadata,), usual_max_parallelism(snapshot.operators))

    def find(self, named: OperatorRef) -> OperatorPlan | None:
        """Return the operator with a uid or uid hash, or None.

        While identifiers change, an operator that had the name from the beginning precedes one that got it.
        """
        found = self.operators.called(identifier_of(named).operator_id)
        if not found and isinstance(named, str):
            # If a job sets both uid and uid hash, the hash is the id, and the uid is recorded too.
            return next(iter(self.operators.called(named)), None)
        return next((one for one in found if not one.renamed), next(iter(found), None))

    def operator(self, named: OperatorRef) -> OperatorPlan:
        """Return the operator with a uid or uid hash; raise OperatorNotFoundError, which names the nearest."""
        plan = self.find(named)
        if plan is not None:
            return plan
        identifier = identifier_of(named)
        labels = [operator.identifier.uid or operator.identifier.operator_id.hex for operator in self.operators]
        raise OperatorNotFoundError(
            "the savepoint has no such operator",
            operator=str(identifier),
            remedy=did_you_mean(identifier.uid or identifier.operator_id.hex, labels)
            if labels
            else "add it first: with_operator(uid)",
        )

    def new_operator(self, identifier: OperatorIdentifier, name: str | None) -> OperatorPlan:
        """Return an operator without state; warn if its uid is another's but for upper and lower case, or blanks."""
        near = [one.identifier.uid for one in self.operators if _is_near(one.identifier.uid, identifier.uid)]
        if near:
            warnings.warn(
                f"the new operator {identifier.uid!r} is not {near[0]!r}, which the savepoint has: uids differ in "
                "upper and lower case, and in blanks",
                SavepointWarning,
                stacklevel=4,
            )
        return OperatorPlan(identifier, name, default_max_parallelism=self.max_parallelism, states=States())

    def taken(self, other: SavepointPlan, named: OperatorRef) -> SavepointPlan:
        """Add an operator of another savepoint."""
        return self._with(other, (other.operator(named),))

    def with_new(self, *operators: OperatorPlan) -> SavepointPlan:
        """Add operators; raise StateExistsError if the savepoint has one of them."""
        for operator in operators:
            if self.find(operator.identifier) is not None:
                raise StateExistsError(
                    "the savepoint has this operator already",
                    operator=operator.label,
                    remedy="remove_operator removes it first; with_state replaces or adds one of its states",
                )
        return replace(self, operators=self.operators.with_added(*operators))

    def _with(self, other: SavepointPlan, operators: Iterable[OperatorPlan]) -> SavepointPlan:
        """Add operators of another plan, and what its snapshots are."""
        plan = self.with_new(*operators)
        return replace(plan, bases=(*self.bases, *(base for base in other.bases if base not in self.bases)))

    def with_changed(self, old: OperatorPlan, new: OperatorPlan) -> SavepointPlan:
        """Replace the plan of one operator."""
        return replace(self, operators=self.operators.with_replaced((old, new)))

    def without(self, *operators: OperatorPlan) -> SavepointPlan:
        """Leave operators out."""
        return replace(self, operators=self.operators.without(*operators))

    def with_identifier(self, operator: OperatorPlan, identifier: OperatorIdentifier) -> SavepointPlan:
        """Change the identifier of an operator; another operator may have it until its own is changed."""
        return self.with_changed(operator, replace(operator, identifier=identifier, renamed=True))

    def refuse_same_ids(self) -> None:
        """Raise StateExistsError if two operators have the same id, now that all changes apply."""
        seen: dict[OperatorID, OperatorPlan] = {}
        for operator in self.operators:
            other = seen.setdefault(operator.identifier.operator_id, operator)
            if other is not operator:
                raise StateExistsError(
                    "two operators would have the same id",
                    operator=operator.label,
                    found=", ".join(_before(duplicate) for duplicate in (other, operator)),
                    remedy="change the identifier of one of them: all changes apply together, so two can be swapped",
                )

    def merged(self, other: SavepointPlan) -> SavepointPlan:
        """Add the operators of another plan."""
        return self._with(other, other.operators)

    def with_max_parallelism(
        self,
        engine: Engine,
        number: int,
        key_hashes: Mapping[str, object],
        named: Collection[OperatorRef] | None = None,
    ) -> SavepointPlan:
        """Change the max parallelism of the named operators; by default of all, and of operators added later."""
        check_parallelism(number, 1)
        chosen = {operator.identifier for operator in self.operators if named is None}
        for one in named or ():
            chosen.add(self.operator(one).identifier)
        hashes = {}
        for one, key_hash in key_hashes.items():
            operator = self.operator(one)
            hashes[operator.identifier] = expect_rows(engine, key_hash, operator, "key_hashes")
            if operator.identifier not in chosen:
                raise OptionError(
                    "key_hashes are given for an operator whose max parallelism stays", operator=operator.label
                )
        with headers_of_bases([plan.base for plan in self.operators if plan.identifier in chosen]):
            operators = Operators(
                rehashed(plan, number, hashes.get(plan.identifier)) if plan.identifier in chosen else plan
                for plan in self.operators
            )
        return replace(self, operators=operators, max_parallelism=number if named is None else self.max_parallelism)

    def relocated(self, old: str, new: str) -> SavepointPlan:
        """Replace a prefix of the absolute paths in handles; raise OptionError if none has it."""
        based = [plan.base.operator for plan in self.operators if plan.base is not None]
        moved = iter(with_prefix(based, old, new))
        operators = (plan if plan.base is None else _relocated(plan, plan.base, next(moved)) for plan in self.operators)
        return replace(self, operators=Operators(operators))


def _is_near(uid: str | None, other: str | None) -> bool:
    """Return whether two uids differ in upper and lower case, or in blanks, alone."""
    if uid is None or other is None or uid == other:
        return False
    return "".join(uid.split()).casefold() == "".join(other.split()).casefold()


def _relocated(plan: OperatorPlan, base: Base, moved: OperatorState) -> OperatorPlan:
    if moved == base.operator:
        return plan
    return replace(plan, base=replace(base, operator=moved, relocated=True))


def _before(plan: OperatorPlan) -> str:
    """Return the name that an operator has in the snapshot that it comes from."""
    return plan.base.operator.label if plan.base is not None else f"{plan.label} (new)"


def expect_backend(name: str | None) -> None:
    """Raise OptionError for a state backend that restores no canonical savepoint, or that Flink does not have."""
    if name == FORST:
        raise OptionError(
            "state backend forst cannot restore a canonical savepoint, the format that is written",
            expected=f"{HASHMAP} or {ROCKSDB}",
            found=name,
            remedy="name rocksdb, and run the job on it",
        )
    if name not in (None, HASHMAP, ROCKSDB):
        raise OptionError(
            "there is no such state backend",
            expected=f"{HASHMAP} or {ROCKSDB}",
            found=name,
            remedy=did_you_mean(str(name), (HASHMAP, ROCKSDB)),
        )
