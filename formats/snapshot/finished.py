"""Subtasks that had finished when a snapshot was taken (FLIP-147): they have no state, and it says that they finished.

All operators of a task finish together. At a restore Flink compares them: operators of one task must have finished
alike, and no task may have finished behind one that runs. So an edit keeps what has finished. Flink:
``VertexFinishedStateChecker``, ``FullyFinishedOperatorState``, ``FinishedOperatorSubtaskState``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark_savepoint.formats.errors import UnsupportedStateError

if TYPE_CHECKING:
    from pyspark_savepoint.formats.metadata import OperatorState


def finished_subtasks(operator: OperatorState) -> frozenset[int]:
    """Return the subtasks of an operator that have finished."""
    if operator.is_fully_finished:
        return frozenset(range(operator.parallelism))
    return frozenset(index for index, subtask in operator.subtasks.items() if subtask.is_finished)


def running_subtasks(operator: OperatorState) -> list[int]:
    """Return the subtasks that run; raise UnsupportedStateError if all have finished."""
    finished = finished_subtasks(operator)
    running = [index for index in range(operator.parallelism) if index not in finished]
    if not running:
        raise UnsupportedStateError(
            "the operator has finished: a job that restores the snapshot does not run it, so it can have no state",
            operator=operator.label,
            remedy="start from a snapshot that was taken before it finished; remove_operator of all operators of its "
            "task has them run again, without state",
        )
    return running


def finished_key_groups(operator: OperatorState, subtask: int) -> UnsupportedStateError:
    """Return the error for keyed state that belongs to a subtask which has finished."""
    return UnsupportedStateError(
        f"subtask {subtask} of the operator has finished, so there can be no state of its key groups",
        operator=operator.label,
        remedy="leave out these keys, or start from a snapshot that was taken before it finished",
    )
