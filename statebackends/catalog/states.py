"""Table ``states``: one row per state, with the options that read it, found from headers without reading values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import pyarrow as pa

from pyspark_savepoint.formats.connectors.payloads.kind import (
    ASYNC_STATE,
    COMMITTABLES,
    IN_FLIGHT,
    KAFKA_CONSUMER_STATE,
    KINESIS_CONSUMER_STATE,
    SOURCE_COORDINATOR,
    SPLITS,
    STATES_OF_TABLES,
)
from pyspark_savepoint.formats.errors import SavepointError, StateFileNotFoundError
from pyspark_savepoint.formats.keyed.meta_info import StateMetaInfoSnapshot
from pyspark_savepoint.formats.keyed.operator_streams import channels_of
from pyspark_savepoint.formats.metadata import OperatorState
from pyspark_savepoint.formats.name_lists import join_names
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.statebackends.catalog.rows import (
    FLAG,
    OPERATOR,
    TEXT,
    Row,
    channels,
    identity,
    operators,
    schema,
)
from pyspark_savepoint.statebackends.python.python_state import is_python, job_name_of, unwrapped
from pyspark_savepoint.statebackends.requests.request import TableRequest
from pyspark_savepoint.statebackends.rows.descriptors import service_of
from pyspark_savepoint.statebackends.rows.state_column import has_ttl, value_type_of
from pyspark_savepoint.statebackends.sources.keyed_plan import (
    check_decodable,
    distinct,
    is_key_value,
    is_namespaced,
    key_type,
    state_type,
)
from pyspark_savepoint.statebackends.sources.open_operator import OpenOperator, headers_ahead
from pyspark_savepoint.statebackends.sources.operator_sources import operator_sources
from pyspark_savepoint.statebackends.sources.raw_timers import raw_timer_sources
from pyspark_savepoint.statebackends.sql_plans.compiled_plan import CompiledPlan, names_of
from pyspark_savepoint.statebackends.types.type_names import spark_type
from pyspark_savepoint.statebackends.types.unify import merge_registrations

STATES = schema(
    **OPERATOR,
    table=TEXT,
    state=TEXT,
    kind=TEXT,
    key_type=TEXT,
    namespace_type=TEXT,
    value_type=TEXT,
    spark_key_type=TEXT,
    spark_namespace_type=TEXT,
    spark_value_type=TEXT,
    ttl=FLAG,
    serializer=TEXT,
    options=pa.map_(TEXT, TEXT),
    note=TEXT,
)


#: The tables of the state of sources, sinks and asynchronous functions.
_TABLES_OF_STATES = {state: table for table, names in STATES_OF_TABLES.items() for state in names} | {
    ASYNC_STATE: IN_FLIGHT,
    KAFKA_CONSUMER_STATE: SPLITS,
    KINESIS_CONSUMER_STATE: SPLITS,
}
#: Of sinks with a two-phase commit, such as FlinkKafkaProducer: the type of their states, which have any name.
_TWO_PHASE_COMMIT = "TWO_PHASE_COMMIT<"


def states(savepoint: Snapshot, request: TableRequest) -> Iterator[Row]:
    """Yield all states, operator by operator, and those of master hooks."""
    yield from operator_states(savepoint, operators(savepoint, request), request)
    yield from master_states(savepoint)


def operator_states(savepoint: Snapshot, listed: Sequence[OperatorState], request: TableRequest) -> Iterator[Row]:
    """Yield the states of some operators."""
    naming = names_of(request.field_names or "{}") or {}
    plan = CompiledPlan(naming) if "nodes" in naming else None
    with headers_ahead(savepoint, listed):
        for operator in listed:
            # A job may have a uid of white space, which no option takes.
            by_uid = operator.uid is not None and operator.uid.strip()
            reads = {"uid": operator.uid} if by_uid else {"uidHash": str(operator.operator_id)}
            names = {**identity(operator), **_names_of_plan(plan, operator)}
            for part in (_keyed, _timers_on_the_heap, _operator_states, _bytes_only):
                try:
                    for row in part(savepoint, operator, request):
                        row["options"] = {**reads, **row.get("options", {})}
                        yield {**names, **row}
                except SavepointError as error:
                    # An operator that cannot be read does not hide the others.
                    yield {**names, "note": str(error)}


def _names_of_plan(plan: CompiledPlan | None, operator: OperatorState) -> Row:
    """Return the uid and the description that a compiled plan has for an operator that is known by its hash."""
    node = None if plan is None or (operator.uid and operator.name) else plan.node(operator.operator_id)
    if node is None:
        return {}
    return {"operator_uid": operator.uid or node.uid, "operator_name": operator.name or node.description or None}


def master_states(savepoint: Snapshot) -> Iterator[Row]:
    """Yield the states of master hooks."""
    for master in savepoint.metadata.master_states:
        yield {"table": "master_state", "state": master.name, "kind": "MASTER", "options": {"table": "master_state"}}


def _keyed(savepoint: Snapshot, operator: OperatorState, request: TableRequest) -> Iterator[Row]:
    opened = OpenOperator(savepoint, operator)
    missing = None
    try:
        keyed = opened.keyed
    except StateFileNotFoundError as error:
        # All subtasks have the same states: those whose file is there show them.
        missing, keyed = error, opened.keyed_that_is_there()
    if any(is_python(meta) for header in keyed.headers for meta in header.states if is_key_value(meta)):
        if missing is not None:
            raise missing
        yield from _python(opened, request)
        return
    headers = distinct(keyed.headers)
    notes = keyed.notes
    metas: dict[tuple[str, bool], list[StateMetaInfoSnapshot]] = {}
    for header in headers:
        for meta in header.states:
            metas.setdefault((meta.name, is_key_value(meta)), []).append(meta)
    for (name, key_value), registered in metas.items():
        key = headers[0].key_serializer
        row = {
            "state": name,
            "key_type": key.flink_type,
            "spark_key_type": spark_type(
                key_type([h.key_serializer for h in headers], request.decode, "key" in request.raw)
            ),
            "kind": registered[0].state_type,
            "note": notes[0] if notes else None,
        }
        yield row | (_key_value(registered, request) if key_value else _timer(registered[0], request))
    if missing is not None:
        raise missing


def _python(opened: OpenOperator, request: TableRequest) -> Iterator[Row]:
    """Yield the states of a PyFlink operator by the names that the job gave them; types where they are known."""
    # Imported only for PyFlink's operators: most of the second that a listing takes is imports.
    from pyspark_savepoint.statebackends.python.resolve import listed_states

    operator = listed_states(opened, request)
    keyed = opened.keyed
    wrapped = keyed.headers[0].key_serializer
    inner = unwrapped(wrapped)
    key, shown = wrapped.flink_type, spark_type(key_type(keyed.key_serializers, request.decode, "key" in request.raw))
    if inner is not None and "key" not in request.raw:
        pickled = operator.key.pickled if operator.key is not None else None
        key = inner.flink_type if pickled is None else "PICKLED"
        shown = spark_type(inner.arrow_type(request.decode) if pickled is None else pickled)
    for (name, timer), registered in keyed.metas().items():
        row: Row = {"state": name, "key_type": key, "spark_key_type": shown, "kind": registered[0].state_type}
        if timer:
            yield row | _timer(registered[0], request)
            continue
        row |= _key_value(registered, request)
        if is_python(registered[0]):
            state = operator.states.get(name)
            row |= {
                "state": job_name_of(name),
                "options": {"table": row["table"], "state": join_names([job_name_of(name)])},
            }
            if state is not None and name not in request.raw and job_name_of(name) not in request.raw:
                row |= {
                    "kind": state.kind,
                    "value_type": state.flink_type,
                    "spark_value_type": spark_type(state.arrow_type(request.decode)),
                }
            if state is None or state.coder is None:
                row["note"] = "a savepoint does not have the type of the values: give it in option 'pyTypes'"
        yield row


def _key_value(metas: list[StateMetaInfoSnapshot], request: TableRequest) -> Row:
    common = merge_registrations(metas)
    meta = common or metas[0]
    table = "window_state" if is_namespaced(meta) else "keyed_state"
    namespace = meta.namespace_serializer
    return {
        "table": table,
        "namespace_type": namespace.flink_type,
        "spark_namespace_type": spark_type(namespace.arrow_type(request.decode)),
        "value_type": value_type_of(meta),
        "spark_value_type": spark_type(state_type(metas, common, request.decode, meta.name in request.raw)),
        "ttl": has_ttl(meta),
        "serializer": meta.value_serializer.snapshot_class,
        "options": {"table": table, "state": join_names([meta.name])},
    } | _note_of(metas, request)


def _note_of(metas: list[StateMetaInfoSnapshot], request: TableRequest) -> Row:
    """Return the warning of the table of a state, as a note."""
    note = None if metas[0].name in request.raw else check_decodable(metas, "binary", "")
    return {} if note is None else {"note": note}


def _timer(meta: StateMetaInfoSnapshot, request: TableRequest) -> Row:
    _, service = service_of(meta.name)
    parts = meta.value_serializer.children
    namespace = parts[1] if len(parts) == 2 else None
    return {
        "table": "timers",
        "namespace_type": namespace.flink_type if namespace else None,
        "spark_namespace_type": spark_type(namespace.arrow_type(request.decode)) if namespace else None,
        "value_type": "TIMER",
        "spark_value_type": "bigint",
        "ttl": False,
        "serializer": meta.value_serializer.snapshot_class,
        "options": {"table": "timers", "state": join_names([service])},
    }


def _timers_on_the_heap(savepoint: Snapshot, operator: OperatorState, request: TableRequest) -> Iterator[Row]:
    services = set()
    for source in raw_timer_sources(savepoint, operator):
        for queue in source.queues(request.decode):
            if (queue.domain, queue.service) in services:
                continue
            services.add((queue.domain, queue.service))
            yield {
                "table": "timers",
                "state": queue.state_name,
                "kind": "TIMER",
                "key_type": queue.key.flink_type,
                "spark_key_type": spark_type(queue.key.arrow_type(request.decode)),
                "namespace_type": queue.namespace.flink_type,
                "spark_namespace_type": spark_type(queue.namespace.arrow_type(request.decode)),
                "value_type": "TIMER",
                "spark_value_type": "bigint",
                "ttl": False,
                "options": {"table": "timers", "state": join_names([queue.service])},
                "note": "raw keyed state",
            }


def _operator_states(savepoint: Snapshot, operator: OperatorState, request: TableRequest) -> Iterator[Row]:
    state_names = set()
    for source in operator_sources(savepoint, operator):
        for meta in source.header().states:
            if meta.name in state_names:
                continue
            state_names.add(meta.name)
            key = meta.serializers.get("KEY_SERIALIZER")
            value = meta.value_serializer
            kind = pa.binary() if value.opaque_parts() else value.arrow_type(request.decode)
            yield {
                "table": "operator_state",
                "state": meta.name,
                "kind": meta.state_type,
                "key_type": key.flink_type if key else None,
                "spark_key_type": spark_type(key.arrow_type(request.decode)) if key else None,
                "value_type": value.flink_type,
                "spark_value_type": spark_type(kind),
                "ttl": False,
                "serializer": value.snapshot_class,
                "options": {"state": meta.name},
                "note": _table_note(
                    COMMITTABLES if value.flink_type.startswith(_TWO_PHASE_COMMIT) else _TABLES_OF_STATES.get(meta.name)
                ),
            }


def _table_note(table: str | None) -> str | None:
    """Return where the content of a connector's state is shown as rows."""
    return None if table is None else f"option('table', '{table}') shows its content as rows"


def _bytes_only(_savepoint: Snapshot, operator: OperatorState, _request: TableRequest) -> Iterator[Row]:
    binary = {"value_type": "BYTES", "spark_value_type": "binary"}
    if operator.coordinator_state is not None:
        note = f"option('table', '{SOURCE_COORDINATOR}') shows its content as rows, if it is that of a source"
        own = {"table": "coordinator_state"}
        yield {**own, "kind": "COORDINATOR", "options": own, "note": note, **binary}
    if any(subtask.raw_operator_state for subtask in operator.subtasks.values()):
        yield {"table": "raw_operator_state", "kind": "RAW", "options": {"table": "raw_operator_state"}, **binary}
    if any(subtask.raw_keyed_state for subtask in operator.subtasks.values()):
        yield {"table": "raw_keyed_state", "kind": "RAW", "options": {"table": "raw_keyed_state"}, **binary}
    for direction, handles in zip(("input", "output"), channels(operator), strict=True):
        counts = Counter(channel.index for channel in channels_of(handles))
        for index, count in sorted(counts.items()):
            own = {"table": IN_FLIGHT, "state": f"{direction} {index}"}
            note = f"{count} channel{'s' if count > 1 else ''} of an unaligned checkpoint: records in flight, if any"
            yield {**own, "kind": "CHANNEL", "options": own, "note": note, **binary}
