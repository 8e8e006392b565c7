"""Changes of sources, sinks, asynchronous functions and older sources in a plan: computed when they are asked for.

Splits are few and inline in ``_metadata``.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pyspark_savepoint.formats.connectors.payloads.edits import Edited
from pyspark_savepoint.formats.connectors.payloads.kind import READER_STATE, Row
from pyspark_savepoint.formats.connectors.sources.kafka_consumer import STATE as CONSUMER_STATE
from pyspark_savepoint.formats.errors import (
    OptionError,
    SavepointWarning,
    StateNotFoundError,
    UnsupportedStateError,
    type_name,
)
from pyspark_savepoint.formats.filesystems.filesystem import LocalFileSystem
from pyspark_savepoint.formats.metadata import CheckpointMetadata, OperatorState
from pyspark_savepoint.formats.metadata.stream_handles import ByteStreamStateHandle
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.formats.snapshot.snapshot_location import SnapshotLocation
from pyspark_savepoint.plan.engine import Engine
from pyspark_savepoint.plan.operator_plan import Base, OperatorPlan, expect_rows
from pyspark_savepoint.statebackends.connectors.connector_states import SourceState, list_states
from pyspark_savepoint.statebackends.connectors.edits.committables import (
    marked_committables,
    without_committables,
    without_in_flight,
)
from pyspark_savepoint.statebackends.connectors.edits.sources import key_columns, new_source, positioned, split_rows
from pyspark_savepoint.statebackends.connectors.migrated_sources import (
    KAFKA_SOURCE,
    MARKERS,
    enumerator_version,
    kafka_source,
)
from pyspark_savepoint.statebackends.sources.open_operator import OpenOperator

#: The user's call, above the frames of this module and of Savepoint.
CALLER = 6
#: Version of the metadata of a source that is in no snapshot yet; it has no effect on that of the savepoint.
NEW_METADATA = 4
WITHOUT_COORDINATOR = (
    "without the state of its coordinator a source starts from the beginning: it assigns all splits again, also those "
    "that its readers still have"
)
OTHER_COORDINATOR = (
    "the state of the coordinator is replaced without a check: splits that it assigns again are read twice"
)


def base_of(plan: OperatorPlan) -> Base:
    """Return the operator's base; raise OptionError if there is none, or its splits were changed as a table."""
    if plan.base is None:
        raise OptionError(
            "the operator has no source that could be changed", operator=plan.label, remedy="write the savepoint first"
        )
    ours = [state for state in plan.states or () if state.meta.name == READER_STATE and state.from_input < 0]
    if plan.states is not None and plan.base.has_operator_state and plan.edits_operator_state and not ours:
        raise OptionError(
            f"state {READER_STATE!r} was replaced or removed: its splits cannot be changed in the same write",
            operator=plan.label,
            remedy="write the savepoint, then load the written one and change it",
        )
    return plan.base


def only_source(plans: Sequence[OperatorPlan], connector: str | None) -> OperatorPlan:
    """Return the operator whose splits can be changed; raise OptionError unless there is exactly one."""
    sources = []
    for plan in plans:
        names = list_states(plan.base.operator) if plan.base is not None else ()
        if READER_STATE in names or CONSUMER_STATE in names:
            try:
                source_of(plan, connector)
            except (StateNotFoundError, UnsupportedStateError):
                continue
            sources.append(plan)
    if len(sources) != 1:
        raise OptionError(
            "the snapshot has no source whose offsets could be changed"
            if not sources
            else f"the snapshot has {len(sources)} sources: name one of them",
            expected=", ".join(plan.label for plan in sources) or "a source of a known kind",
        )
    return sources[0]


def source_of(plan: OperatorPlan, connector: str | None) -> SourceState:
    """Return the state of the operator's source."""
    return SourceState.read(base_of(plan).opened, connector)


def with_source(
    plan: OperatorPlan, connector: str | None, change: Callable[[SourceState], Edited[SourceState]]
) -> OperatorPlan:
    """Return the plan with a changed source; its notes are warnings."""
    edited = change(source_of(plan, connector))
    for note in edited.notes:
        warnings.warn(f"{plan.label}: {note}", SavepointWarning, stacklevel=CALLER)
    return with_operator(plan, edited.source.written())


def as_new_source(
    plan: OperatorPlan, connector: str, connector_version: str, rows: Sequence[Mapping[str, Any]]
) -> OperatorPlan:
    """Return a new operator as a source that continues at these splits; its state is in no file."""
    identifier = plan.identifier
    operator = OperatorState(identifier.operator_id, 1, plan.max_parallelism, plan.name, identifier.uid)
    nowhere = Snapshot(SnapshotLocation(LocalFileSystem(), ""), "", CheckpointMetadata(NEW_METADATA, 0))
    version = enumerator_version(connector_version) if connector == "kafka" else 1
    source = new_source(OpenOperator(nowhere, operator), connector, version, list(map(dict, rows)))
    return replace(plan, base=Base(nowhere, source, "", {}), states=None)


def with_operator(plan: OperatorPlan, operator: OperatorState) -> OperatorPlan:
    """Return the plan with another state of its base."""
    return replace(plan, base=replace(base_of(plan), operator=operator))


def with_coordinator(plan: OperatorPlan, data: bytes | None) -> OperatorPlan:
    """Return the plan with other state of the coordinator, or none, and warn of what that does."""
    operator = base_of(plan).operator
    if data is not None and not isinstance(data, bytes | bytearray | memoryview):
        raise OptionError(
            "the state of a coordinator must be given as bytes",
            operator=plan.label,
            found=type_name(data),
            remedy="table 'coordinator_state' has the bytes; None removes the state",
        )
    warnings.warn(
        f"{plan.label}: {WITHOUT_COORDINATOR if data is None else OTHER_COORDINATOR}",
        SavepointWarning,
        stacklevel=CALLER,
    )
    handle = None if data is None else ByteStreamStateHandle("coordinator", bytes(data))
    return with_operator(plan, replace(operator, coordinator_state=handle))


def positions_of(plan: OperatorPlan, connector: str | None) -> dict[Any, Row]:
    """Return the positions of an operator's splits, to be given to another snapshot of it."""
    return split_rows(source_of(plan, connector))


def rows_of_table(engine: Engine, source: object, plan: OperatorPlan) -> list[Any]:
    """Return a list of rows, or the rows of a table; where a table has columns of operators, those of this one."""
    if isinstance(source, Collection) and engine.rows(source) is None:
        wrong = next((row for row in source if not isinstance(row, Mapping)), None)
        if wrong is not None:
            raise OptionError(
                "splits are given as rows, and offsets as rows or by split",
                operator=plan.label,
                expected='such as {("orders", 3): 1200}, or [{"topic": "orders", "partition": 3, "offset": 1200}]',
                found=type_name(wrong),
            )
        return list(source)
    rows = expect_rows(engine, source, plan, "splits").collected()
    own = plan.identifier.operator_id.hex
    return [row for row in rows if row.get("operator_uid_hash", own) in (own, None)]


def offset_rows(offsets: Mapping[Any, Any], plan: OperatorPlan) -> list[dict[str, Any]]:
    """Return a row of table ``splits`` for each partition of Kafka, given with its next offset or a marker."""
    rows = []
    for key, target in offsets.items():
        if not isinstance(key, tuple) or len(key) != 2 or isinstance(target, bool) or not isinstance(target, int | str):
            raise OptionError(
                "offsets are given by topic and partition",
                operator=plan.label,
                expected="such as {('orders', 3): 1200}",
                found=f"{key!r:.80}: {target!r:.80}",
            )
        column = "marker" if isinstance(target, str) else "offset"
        rows.append({"topic": key[0], "partition": key[1], column: target})
    return rows


def offsets_of_rows(source: SourceState, rows: Sequence[Mapping[str, Any]]) -> dict[Any, Row]:
    """Return the fields of each split's row; raise OptionError for a split that is repeated or not named."""
    columns = key_columns(source)
    by_split: dict[Any, Row] = {}
    for given in rows:
        row = positioned(source, dict(given))
        missing = [name for name in columns if row.get(name) is None]
        if missing:
            raise OptionError(
                f"column {missing[0]!r} names a split, and is missing or NULL",
                operator=source.label,
                expected=", ".join(columns),
                found=", ".join(row),
            )
        key = tuple(row[name] for name in columns)
        if key in by_split:
            raise OptionError("two rows have the same split", operator=source.label, found="-".join(map(str, key)))
        by_split[key] = row
    return by_split


def with_committables_removed(
    engine: Engine,
    plan: OperatorPlan,
    rows: object,
    lose_data: bool,
    connector: str | None,
) -> OperatorPlan:
    """Return the plan without committables."""
    opened = _opened(plan)
    return with_operator(plan, without_committables(opened, _rows(engine, rows, plan), lose_data, connector))


def with_committables_marked(
    engine: Engine,
    plan: OperatorPlan,
    rows: object,
    status: str,
    connector: str | None,
) -> OperatorPlan:
    """Return the plan with another status of committables."""
    opened = _opened(plan)
    return with_operator(plan, marked_committables(opened, _rows(engine, rows, plan), status, connector))


def with_in_flight_cleared(plan: OperatorPlan, lose_data: bool) -> OperatorPlan:
    """Return the plan with an empty queue of asynchronous calls."""
    return with_operator(plan, without_in_flight(_opened(plan), lose_data))


def with_migrated_source(
    plan: OperatorPlan, to: str, connector_version: str, not_set: str | None, lose_data: bool
) -> OperatorPlan:
    """Return the plan with the state of a KafkaSource in place of that of a FlinkKafkaConsumer."""
    if to != KAFKA_SOURCE:
        raise OptionError(
            "the state of a FlinkKafkaConsumer can be migrated to a KafkaSource only",
            operator=plan.label,
            expected=KAFKA_SOURCE,
            found=to,
        )
    if not_set is not None and not_set not in MARKERS:
        raise OptionError(
            "argument 'not_set' is not a position in a partition", expected=", ".join(MARKERS), found=not_set
        )
    version = enumerator_version(connector_version)
    # The states that were planned before are not those of the new source.
    return replace(with_operator(plan, kafka_source(_opened(plan), version, not_set, lose_data)), states=None)


def _opened(plan: OperatorPlan) -> OpenOperator:
    """Return the operator in the base; raise OptionError if its operator state was changed as a table before."""
    if plan.base is not None and plan.edits_operator_state:
        raise OptionError(
            "the operator state was replaced, renamed or removed: the state of its connector cannot be changed "
            "in the same write",
            operator=plan.label,
            remedy="write the savepoint, load the written one and change it; or change the connector's state first",
        )
    return base_of(plan).opened


def _rows(engine: Engine, rows: object, plan: OperatorPlan) -> list[Mapping[str, Any]] | None:
    if rows is None:
        return None
    return list(rows_of_table(engine, rows, plan))
