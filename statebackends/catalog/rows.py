"""Shared parts of the catalog tables: rows, column types, and the operators of a request."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from pyspark_savepoint.formats.metadata import OperatorState
from pyspark_savepoint.formats.metadata.operator_handles import AnyChannelStateHandle
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.statebackends.requests.request import TableRequest

Row = dict[str, Any]


def schema(**fields: pa.DataType) -> pa.Schema:
    return pa.schema([pa.field(name, kind) for name, kind in fields.items()])


TEXT, LONG, INT, FLAG, BYTES = pa.string(), pa.int64(), pa.int32(), pa.bool_(), pa.binary()
#: The first columns of tables with rows of operators, filled by :func:`identity`.
OPERATOR = {"operator_uid": TEXT, "operator_uid_hash": TEXT, "operator_name": TEXT}


def identity(operator: OperatorState) -> Row:
    """Return the uid, uid hash and name of an operator."""
    return {
        "operator_uid": operator.uid,
        "operator_uid_hash": str(operator.operator_id),
        "operator_name": operator.name,
    }


def display_name(*names: str | None, otherwise: str) -> str:
    """Return the first of an operator's names that is not blank, as a uid that Flink took may be.

    >>> display_name(" ", None, otherwise="8409efe6adc6d20787611f16017c808f")
    '8409efe6adc6d20787611f16017c808f'
    """
    return next((name for name in names if name and name.strip()), otherwise)


def operators(savepoint: Snapshot, request: TableRequest) -> list[OperatorState]:
    """Return the operator that the request names, or all."""
    references = (request.uid, request.uid_hash, request.operator_name)
    if any(name is not None for name in references):
        return [savepoint.operator(uid=references[0], uid_hash=references[1], name=references[2])]
    return list(savepoint.operators)


def channels(operator: OperatorState) -> tuple[list[AnyChannelStateHandle], list[AnyChannelStateHandle]]:
    """Return the handles of in-flight records, which are not state: of input channels, and of results."""
    subtasks = [operator.subtasks[index] for index in sorted(operator.subtasks)]
    inputs = [handle for subtask in subtasks for handle in subtask.input_channel_state]
    return inputs, [handle for subtask in subtasks for handle in subtask.result_subpartition_state]
