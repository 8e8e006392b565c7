"""Which operator of a job gets the state of which operator of a snapshot.

Every operator of the job has its ids in order; it takes the first one under which state is left, and nobody else gets
that. The document of StreamGraphHasherV3 shows what becomes of state when each alternative is looked up on its own:
the second lookup finds nothing, and what the first one found is replaced by nothing. Here one operator is looked up
once. Flink: ``StateAssignmentOperation#assignStates``, as that document proposes it; with at most one alternative,
which is what Flink has, the two agree.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from pyspark_savepoint.formats.metadata import OperatorState
from pyspark_savepoint.statebackends.jobs.graph.hashers import OperatorIDPair
from pyspark_savepoint.statebackends.jobs.restore.job_description import JobDescription

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True)
class Match:
    """The state that an operator gets, and by which of its ids: ``uid hash``, ``uid``, ``v2``, ``v3``."""

    state: OperatorState
    by: str


def match_operators(pairs: Mapping[K, OperatorIDPair], states: Iterable[OperatorState]) -> dict[K, Match]:
    """The state of every operator that finds some, in the order of ``pairs``."""
    left = {state.operator_id: state for state in states}
    found: dict[K, Match] = {}
    for operator, pair in pairs.items():
        for by, operator_id in pair.candidates:
            if operator_id in left:
                found[operator] = Match(left.pop(operator_id), by)
                break
    return found


def match_job(job: JobDescription, states: Iterable[OperatorState]) -> dict[int, Match]:
    """The same for the operators of a job, by their number; sources inside other operators find nothing."""
    pairs = {number: one.ids for number, one in enumerate(job.operators) if not one.is_inlined}
    return match_operators(pairs, states)
