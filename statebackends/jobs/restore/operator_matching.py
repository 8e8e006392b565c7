"""Matching of a job's operators with a snapshot's state by operator id.

Each operator of the job has an ordered list of ids. It takes the first id that has state; this state is then not
available to other operators. The document of StreamGraphHasherV3 shows a problem of separate lookups per alternative:
the second lookup finds nothing and replaces the result of the first with nothing. Here one lookup per operator tries
all ids. Flink: ``StateAssignmentOperation#assignStates``, as that document proposes it; with at most one alternative,
as in Flink today, the results are the same.
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
    """State of an operator, and the kind of id that found it: ``uid hash``, ``uid``, ``v2``, ``v3``."""

    state: OperatorState
    by: str


def match_operators(pairs: Mapping[K, OperatorIDPair], states: Iterable[OperatorState]) -> dict[K, Match]:
    """Return the state of every operator that has some, in the order of ``pairs``."""
    left = {state.operator_id: state for state in states}
    found: dict[K, Match] = {}
    for operator, pair in pairs.items():
        for by, operator_id in pair.candidates:
            if operator_id in left:
                found[operator] = Match(left.pop(operator_id), by)
                break
    return found


def match_job(job: JobDescription, states: Iterable[OperatorState]) -> dict[int, Match]:
    """Match the operators of a job, by their number; sources inside other operators get no state."""
    pairs = {number: one.ids for number, one in enumerate(job.operators) if not one.is_inlined}
    return match_operators(pairs, states)
