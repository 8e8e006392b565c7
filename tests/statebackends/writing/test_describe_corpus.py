"""States of real savepoints, read, described with ``typesFrom`` and encoded again: the very bytes that were there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from pyspark_savepoint.formats.columns import DecodeOptions
from pyspark_savepoint.formats.errors import UndecodableStateError, ValueRangeError
from pyspark_savepoint.formats.serializers.composite.pojo import PojoSerializer
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.statebackends.open_table import open_table
from pyspark_savepoint.statebackends.requests.request import TableRequest
from pyspark_savepoint.statebackends.rows.descriptors import KeyedDescriptor, StateDescriptor, StateKind
from pyspark_savepoint.statebackends.rows.state_entries import encode_column, state_entries
from pyspark_savepoint.statebackends.sources.open_operator import OpenOperator
from pyspark_savepoint.statebackends.writing.planning.describe_state import describe_keyed, describe_operator_state
from pyspark_savepoint.statebackends.writing.planning.exact_casts import (
    access_serializer,
    check_writable,
    conform_column,
)
from pyspark_savepoint.statebackends.writing.planning.write_request import WriteRequest
from tests.corpus.everything import NAMES, states_of
from tests.corpus.expected import read

SNAPSHOTS = ("2.2.1-hashmap-canonical", "1.18.1-rocksdb-canonical")
#: How the values are seen between reading and writing.
FORMS = (DecodeOptions("raw", "string", row_kind=True), DecodeOptions(row_kind=True))
#: Values of subclasses that the hashmap backend did not record: nobody can read them.
UNREADABLE = "shape"


@pytest.fixture(params=SNAPSHOTS)
def snapshot(request: pytest.FixtureRequest, corpus: Path) -> Path:
    (metadata,) = (corpus / "lab" / request.param).rglob("_metadata")
    return metadata.parent


def operators_of(path: Path, table: str) -> Iterator[dict[str, str]]:
    """The options that name each operator which has a table."""
    seen = set()
    for row in states_of(path):
        options = {name: value for name, value in row["options"] if name != "state"}
        if row["table"] == table and tuple(options.items()) not in seen:
            seen.add(tuple(options.items()))
            yield {"uid" if name == "uid" else "uid_hash": value for name, value in options.items() if name != "table"}


def writable(path: Path, operator: dict[str, str], table: str) -> list[str]:
    """The states whose values can be written."""
    savepoint = Snapshot.open(str(path))
    found = savepoint.operator(**operator)
    states = OpenOperator(savepoint, found).keyed.choose(table == "window_state", None)
    names = []
    for name, metas in states.items():
        serializer = metas[0].value_serializer
        try:
            check_writable(serializer.arrow_type(DecodeOptions()), serializer, name)
        except UndecodableStateError:
            continue
        if name != UNREADABLE:
            names.append(name)
    return names


def has_own_hash(path: Path, operator: dict[str, str]) -> bool:
    """Whether only user code knows the hash of the keys."""
    savepoint = Snapshot.open(str(path))
    return isinstance(OpenOperator(savepoint, savepoint.operator(**operator)).keyed.key_serializers[0], PojoSerializer)


def request_of(path: Path, operator: dict[str, str], table: str) -> WriteRequest:
    key_group = "key_group" if has_own_hash(path, operator) else None
    return WriteRequest("/new", **operator, table=table, type_source=str(path), key_group=key_group)


def tables_of(path: Path, operator: dict[str, str], table: str, form: DecodeOptions) -> tuple[pa.Table, pa.Table]:
    """The rows as columns, and as the bytes that they are."""
    states = writable(path, operator, table)
    names = {"state": ",".join(states), "table": table, **operator}
    raw = ("key", *states) + (("window",) if table == "window_state" else ())
    group = has_own_hash(path, operator)
    columns = read(TableRequest(str(path), **names, decode=form, include_ttl=True, include_key_group=group), 1)
    return columns.drop_columns(["subtask"] if group else []), read(TableRequest(str(path), **names, raw=raw), 1)


def column_of(table: pa.Table, name: str) -> pa.Array:
    return table.column(name).combine_chunks()


def bytes_of(serializer: object, column: pa.Array, name: str) -> list[bytes]:
    buffer, start, end = encode_column(serializer, conform_column(column, serializer, name))
    return [buffer[low:high].tobytes() for low, high in zip(start, end, strict=True)]


def values_of(state: StateDescriptor, table: pa.Table) -> list[tuple[int, bytes, bytes]]:
    """Row, user key and value of every entry that a state's column becomes."""
    column = conform_column(column_of(table, state.column), state.serializer, state.column)
    access = None
    if state.last_access is not None:
        access = conform_column(column_of(table, state.last_access), access_serializer(state), state.last_access)
    nothing = np.zeros(len(column), np.int64)
    found = state_entries(state, column, access, (np.zeros(0, np.uint8), nothing, nothing))
    entries = found.entries
    rows = range(len(column)) if found.row is None else found.row.tolist()
    spans = zip(rows, entries.key_start, entries.key_end, entries.value_start, entries.value_end, strict=True)
    return [(row, entries.buffer[k:e].tobytes(), entries.value_buffer[v:w].tobytes()) for row, k, e, v, w in spans]


def raw_values(state: StateDescriptor, table: pa.Table) -> list[tuple[int, bytes, bytes]]:
    """Return the same values as bytes of the savepoint."""
    found = []
    for row, value in enumerate(column_of(table, state.column).to_pylist()):
        if value is None:
            continue
        if state.kind is not StateKind.MAP:
            found.append((row, b"", value))
            continue
        # A null has its flag, and whatever stands behind it.
        found += [(row, key, b"\0" + entry if entry is not None else b"\1") for key, entry in sorted(value)]
    return found


def check_states(described: KeyedDescriptor, columns: pa.Table, raw: pa.Table) -> int:
    for state in described.states:
        written, there = values_of(state, columns), raw_values(state, raw)
        assert [entry[:2] for entry in written] == [entry[:2] for entry in there], state.name
        for (row, _, mine), (_, _, theirs) in zip(written, there, strict=True):
            assert mine == theirs or (mine[:1] == theirs[:1] == b"\1"), (state.name, row)
    return len(described.states)


@pytest.mark.parametrize("table", ["keyed_state", "window_state"])
@pytest.mark.parametrize("form", FORMS, ids=("raw", "default"))
def test_keyed_state_is_written_as_it_was_read(snapshot: Path, table: str, form: DecodeOptions) -> None:
    states = 0
    for operator in operators_of(snapshot, table):
        if not writable(snapshot, operator, table):
            continue
        try:
            columns, raw = tables_of(snapshot, operator, table, form)
        except ValueRangeError:
            assert form.timestamps == "micros"  # there are times finer than Spark's, or beyond its years
            continue
        described = describe_keyed(columns.schema, request_of(snapshot, operator, table), None)
        key = described.key_serializer
        assert bytes_of(key, column_of(columns, "key"), "key") == column_of(raw, "key").to_pylist()
        if described.namespace_column is not None:
            assert described.namespace is not None
            window = bytes_of(described.namespace, column_of(columns, "window"), "window")
            assert window == column_of(raw, "window").to_pylist()
        states += check_states(described, columns, raw)
    assert states >= (4 if table == "window_state" else 20)


def test_descriptors_are_what_flink_registered(snapshot: Path) -> None:
    """Names, kinds, options and serializers of states and timers, equal those in the savepoint's headers."""
    savepoint = Snapshot.open(str(snapshot))
    for table in ("keyed_state", "window_state", "timers"):
        for operator in operators_of(snapshot, table):
            schema = open_table(TableRequest(str(snapshot), **operator, table=table)).schema
            if table != "timers":
                names = [name for name in schema.names if name not in ("key", "window")]
                kept = set(writable(snapshot, operator, table))
                schema = pa.schema([field for field in schema if field.name not in set(names) - kept])
            if not [name for name in schema.names if name not in ("key", "window")]:
                continue
            request = request_of(snapshot, operator, table)
            if request.key_group is not None:
                schema = schema.append(pa.field("key_group", pa.int32()))
            described = describe_keyed(schema, request, None)
            headers = OpenOperator(savepoint, savepoint.operator(**operator)).keyed.headers
            there = {meta.name: meta for header in headers for meta in header.states}
            assert described.key_serializer == headers[0].key_serializer
            for state in described.states:
                assert state.meta_info() == there[state.name]
                assert list(state.meta_info().serializers) == list(there[state.name].serializers)


def test_operator_state_is_written_as_it_was_read(snapshot: Path) -> None:
    savepoint = Snapshot.open(str(snapshot))
    seen = 0
    for row in states_of(snapshot):
        if row["table"] != "operator_state":
            continue
        options = {NAMES[name]: value for name, value in row["options"]}
        request = TableRequest(str(snapshot), **options)
        columns = read(request, 1)
        described = describe_operator_state(
            columns.schema,
            WriteRequest("/new", **options, table="operator_state", type_source=str(snapshot)),
        )
        assert described.element.flink_type == row["value_type"]
        assert described.meta_info().state_type == row["kind"]
        assert len(bytes_of(described.element, column_of(columns, described.columns[-1]), "value")) == len(columns)
        seen += 1
    assert seen >= 5
    assert savepoint.operators
