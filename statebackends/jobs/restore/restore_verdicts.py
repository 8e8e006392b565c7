"""Verdicts about a restore, and the table that shows them.

=================== =========================================================================================
nothing to restore  an operator of the snapshot that has no state
restores            the state is restored unchanged
migrates            the state is restored, and some of it is rewritten
begins empty        an operator of the job that finds no state
is dropped          state is left behind, and Flink reports nothing: because of ``allowNonRestoredState``, because the
                    operator takes other state, or because it is not keyed any more
unknown             the description of the job is not sufficient
is misread          the restore succeeds, but state is read wrongly: Flink does not notice
fails               the restore of the whole job fails
=================== =========================================================================================
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pyspark_savepoint.formats.metadata.operator_handles import OperatorStreamStateHandle
from pyspark_savepoint.statebackends.jobs.compatibility import Compatibility
from pyspark_savepoint.statebackends.jobs.restore.job_description import OperatorDescription
from pyspark_savepoint.statebackends.jobs.restore.restore_plan import Match

if TYPE_CHECKING:
    from pyspark_savepoint.statebackends.requests.arrow_types import ArrowTable


class Verdict(StrEnum):
    """Verdict about an operator's state."""

    NOTHING_TO_RESTORE = "nothing to restore"
    RESTORES = "restores"
    MIGRATES = "migrates"
    BEGINS_EMPTY = "begins empty"
    IS_DROPPED = "is dropped"
    UNKNOWN = "unknown"
    IS_MISREAD = "is misread"
    FAILS = "fails"

    @property
    def severity(self) -> int:
        return list(Verdict).index(self)


#: Verdicts of operators by the verdict about a serializer.
OF_COMPATIBILITY = {
    Compatibility.AS_IS: Verdict.RESTORES,
    Compatibility.RECONFIGURED: Verdict.RESTORES,
    Compatibility.AFTER_MIGRATION: Verdict.MIGRATES,
    Compatibility.UNKNOWN: Verdict.UNKNOWN,
    Compatibility.MISREAD: Verdict.IS_MISREAD,
    Compatibility.INCOMPATIBLE: Verdict.FAILS,
}

SOURCE_READER_STATE = "SourceReaderState"
TEXT, INT = pa.string(), pa.int32()
STATE_FIELDS = ("state", "kind", "verdict", "reason", "part")
SCHEMA = pa.schema(
    {
        "verdict": TEXT,
        "job_operator": TEXT,
        "matched_by": TEXT,
        "operator_uid": TEXT,
        "operator_uid_hash": TEXT,
        "operator_name": TEXT,
        "parallelism": INT,
        "job_parallelism": INT,
        "max_parallelism": INT,
        "job_max_parallelism": INT,
        "reasons": pa.list_(TEXT),
        "remedy": TEXT,
        "states": pa.list_(pa.struct([(name, TEXT) for name in STATE_FIELDS])),
    }
)


@dataclass(frozen=True)
class StateVerdict:
    """Verdict about one state of a matched operator: ``verdict`` is a Compatibility, "new", or "not used".

    For a ``part`` of a type whose values another Flink reads differently, it is what becomes of them.
    """

    state: str
    kind: str
    verdict: str
    reason: str
    part: str = ""


@dataclass(frozen=True)
class ValueVerdicts:
    """How another Flink reads the values of one operator without a migration: by part, and as reasons."""

    states: tuple[StateVerdict, ...]
    reasons: tuple[tuple[Verdict, str], ...]
    remedy: str


@dataclass(frozen=True)
class OperatorVerdict:
    """Row of the table: an operator of the job, of the snapshot, or of both."""

    verdict: Verdict
    operator: OperatorDescription | None = None
    match: Match | None = None
    reasons: tuple[str, ...] = ()
    remedy: str | None = None
    states: tuple[StateVerdict, ...] = ()


@dataclass(frozen=True)
class RestoreCheck:
    """All verdicts, and the assumptions of the job description."""

    operators: tuple[OperatorVerdict, ...]
    notes: tuple[str, ...] = ()

    @property
    def verdict(self) -> Verdict:
        """Return the worst verdict."""
        verdicts = [row.verdict for row in self.operators]
        return max(verdicts, key=lambda verdict: verdict.severity, default=Verdict.NOTHING_TO_RESTORE)

    @property
    def undescribed(self) -> list[str]:
        """The operators whose state the job restores, but whose types its description lacks.

        Their verdicts are about ids and parallelism alone. Sources keep their splits as bytes, without a description.
        """
        labels = []
        for row in self.operators:
            if row.operator is None or row.match is None or row.verdict is not Verdict.RESTORES:
                continue
            subtasks = row.match.state.subtasks.values()
            keyed = any(subtask.managed_keyed_state is not None for subtask in subtasks)
            handles = [subtask.managed_operator_state for subtask in subtasks]
            names = {
                state.name
                for handle in handles
                if isinstance(handle, OperatorStreamStateHandle)
                for state in handle.states
            }
            if (keyed and row.operator.keyed_states is None) or (
                names - {SOURCE_READER_STATE} and row.operator.operator_states is None
            ):
                labels.append(row.operator.label)
        return labels

    def to_arrow(self) -> ArrowTable:
        """Return the table of :data:`SCHEMA`, the worst verdict first."""
        rows = sorted(self.operators, key=lambda row: -row.verdict.severity)
        table: ArrowTable = pa.Table.from_pylist([_row(row) for row in rows], SCHEMA)
        return table


def _row(row: OperatorVerdict) -> dict[str, Any]:
    state = row.match.state if row.match else None
    job = row.operator
    return {
        "verdict": row.verdict.value,
        "job_operator": job.label if job else None,
        "matched_by": row.match.by if row.match and job else None,
        "operator_uid": state.uid if state else None,
        "operator_uid_hash": str(state.operator_id) if state else str(job.ids.generated) if job else None,
        "operator_name": state.name if state else None,
        "parallelism": state.parallelism if state else None,
        "job_parallelism": job.parallelism if job else None,
        "max_parallelism": state.max_parallelism if state else None,
        "job_max_parallelism": job.max_parallelism if job else None,
        "reasons": list(row.reasons),
        "remedy": row.remedy,
        "states": list(map(_state, row.states)),
    }


def _state(state: StateVerdict) -> dict[str, str]:
    return dict(zip(STATE_FIELDS, (state.state, state.kind, state.verdict, state.reason, state.part), strict=True))
