"""State that only its owner can read, as bytes: of coordinators and master hooks, and raw state of operators."""

from __future__ import annotations

from collections.abc import Iterator

from pyspark_savepoint.formats.errors import SavepointError
from pyspark_savepoint.formats.io.byte_source import ByteSource
from pyspark_savepoint.formats.metadata import OperatorState
from pyspark_savepoint.formats.metadata.keyed_handles import KeyGroupsStateHandle
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.statebackends.catalog.rows import BYTES, INT, OPERATOR, TEXT, Row, identity, operators, schema
from pyspark_savepoint.statebackends.model.request import TableRequest
from pyspark_savepoint.statebackends.sources.operator_sources import operator_sources

COORDINATOR_STATE = schema(**OPERATOR, value=BYTES)
MASTER_STATE = schema(name=TEXT, version=INT, value=BYTES)
RAW_OPERATOR_STATE = schema(**OPERATOR, subtask=INT, name=TEXT, value=BYTES)
RAW_KEYED_STATE = schema(**OPERATOR, subtask=INT, key_group=INT, value=BYTES)


def coordinator_state(savepoint: Snapshot, request: TableRequest) -> Iterator[Row]:
    """Yield the state of each operator's coordinator."""
    for operator in operators(savepoint, request):
        if operator.coordinator_state is not None:
            yield {**identity(operator), "value": operator.coordinator_state.data}


def master_state(savepoint: Snapshot, _request: TableRequest) -> Iterator[Row]:
    """Yield the state of master hooks."""
    for master in savepoint.metadata.master_states:
        yield {"name": master.name, "version": master.version, "value": master.data}


def raw_operator_state(savepoint: Snapshot, request: TableRequest) -> Iterator[Row]:
    """Yield each piece of an operator's raw streams, with the name of its list."""
    for operator in operators(savepoint, request):
        for source in operator_sources(savepoint, operator, raw=True):
            places = sorted((offset, state.name) for state in source.states for offset in state.offsets)
            with source.location.open() as opened:
                for (start, name), end in zip(places, [*(p for p, _ in places), opened.size][1:], strict=True):
                    value = _piece(opened, start, end, operator)
                    yield {**identity(operator), "subtask": source.subtask, "name": name, "value": value}


def raw_keyed_state(savepoint: Snapshot, request: TableRequest) -> Iterator[Row]:
    """Yield each key group of an operator's raw keyed state."""
    for operator in operators(savepoint, request):
        for index in sorted(operator.subtasks):
            handle = operator.subtasks[index].raw_keyed_state
            if not isinstance(handle, KeyGroupsStateHandle):
                continue
            places = sorted((offset, group) for group, offset in handle.offsets if offset >= 0)
            with savepoint.open_state(handle.delegate, operator) as opened:
                for (start, group), end in zip(places, [*(p for p, _ in places), opened.size][1:], strict=True):
                    if request.wanted((group,)):
                        value = _piece(opened, start, end, operator)
                        yield {**identity(operator), "subtask": index, "key_group": group, "value": value}


def _piece(opened: ByteSource, start: int, end: int, operator: OperatorState) -> bytes:
    try:
        return opened.read(start, max(0, end - start))
    except SavepointError as error:
        raise error.with_facts(operator=operator.label) from None
