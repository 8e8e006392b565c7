"""Snapshots that real Flink has just written are read to the values that the jobs stored."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from pyspark_savepoint.formats.data_view import DataOutputView
from pyspark_savepoint.formats.errors import UndecodableStateError, ValueRangeError
from pyspark_savepoint.formats.keyed.meta_info import KeyedBackendHeader
from pyspark_savepoint.formats.metadata.key_groups import key_group_for_hash
from pyspark_savepoint.formats.serializers.base import TypeSerializer, write_enveloped
from pyspark_savepoint.formats.serializers.basic.strings import java_text
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.statebackends.open_table import open_table
from pyspark_savepoint.statebackends.sources.keyed_plan import OperatorHeaders
from pyspark_savepoint.statebackends.sources.open_operator import OpenOperator
from pyspark_savepoint.statebackends.sources.operator_sources import operator_sources
from tests.corpus.expected import (
    EXACT,
    Json,
    RecordedSnapshot,
    differences,
    is_opaque,
    kind_of,
    multiset_differences,
    read_keyed,
)
from tests.corpus.written import from_variant, is_variant, written
from tests.oracle.compare import comparable
from tests.oracle.flink import Generated, Oracle, SavepointOf

pytestmark = pytest.mark.flink

TYPES: dict[str, dict[str, Any]] = {
    "canonical": {"job": "types"},
    "rocksdb": {"job": "types", "backend": "rocksdb"},
    "native": {"job": "types", "format": "native", "compressed": True},
}
KEYS: dict[str, Any] = {"job": "keys", "compressed": True, "max_parallelism": 1000, "parallelism": 3}

#: A registered subclass has a field of a class for Kryo, so only the user's code can find its end.
OF_ANIMALS = {"pojos/subclasses", "pojos/animals", "operator-states/animals"}
#: Their entries have no lengths, so the rest of their container is lost too.
WITHOUT_LENGTHS = {"operator-states/rules"}
#: Types of keys whose hash code only the user's code computes.
WITHOUT_LAW = {"pojo", "record"}
#: The constants of an enum of the job: without its class file they are read by number.
SUITS = {f"oracle.Model$Suit#{number}": name for number, name in enumerate(("CLUBS", "DIAMONDS", "HEARTS", "SPADES"))}
#: Kryo's values of the job's own classes.
OF_USER = {"object-enum", "registered-class", "other-class", "other-class-in-list"}


def snapshot_of(generated: Generated, **options: Any) -> RecordedSnapshot:
    depth = len(Path(generated.expected["meta"]["savepoint"]).parts)
    return RecordedSnapshot(generated.path.parents[depth - 1], options, generated.expected["meta"]["parallelism"])


def operator_of(snapshot: RecordedSnapshot, uid: str) -> Json:
    (operator,) = [operator for operator in snapshot.expected["operators"] if operator["uid"] == uid]
    return operator


def without(snapshot: RecordedSnapshot, *uids: str) -> RecordedSnapshot:
    """The same without some operators."""
    kept = [operator for operator in snapshot.expected["operators"] if operator["uid"] not in uids]
    snapshot.__dict__["expected"] = {**snapshot.expected, "operators": kept}
    return snapshot


def headers_of(snapshot: RecordedSnapshot, uid: str) -> OperatorHeaders:
    savepoint = Snapshot.open(snapshot.path)
    return OpenOperator(savepoint, savepoint.operator(uid=uid)).keyed


def serializer_of(header: KeyedBackendHeader, state: str) -> TypeSerializer:
    (meta,) = [meta for meta in header.states if meta.name == state]
    return meta.value_serializer


def flink_reads(oracle: Oracle, serializer: TypeSerializer, values: Iterable[bytes]) -> list[dict[str, Any]]:
    """What Flink makes of values, with the serializer that our own snapshot of it makes."""
    view = DataOutputView()
    write_enveloped(serializer, view)
    read: list[dict[str, Any]] = oracle.serializer(bytes(view.getvalue()), values, 1000)["values"]
    return read


# -- types -------------------------------------------------------------------------------------------------------


@pytest.fixture(params=TYPES)
def types(request: pytest.FixtureRequest, flink_version: str, savepoint_of: SavepointOf) -> RecordedSnapshot:
    return snapshot_of(savepoint_of(flink_version, **TYPES[request.param]))


def test_all_types_read_to_what_went_in(types: RecordedSnapshot) -> None:
    least, most = WITHOUT_LENGTHS, WITHOUT_LENGTHS
    if types.expected["meta"]["format"] == "native":
        # The order of states in a file differs between runs: states after the animals are lost with them.
        pojos = {f"pojos/{state['name']}" for state in operator_of(types, "pojos")["states"]}
        least, most = least | (pojos & OF_ANIMALS), most | pojos

    assert differences(without(types, "broken-strings")) == []

    assert least <= types.undecodable.keys() <= most
    for error in types.undecodable.values():
        assert "oracle.Model$Animal" in str(error)
        assert error.facts["state"]
        assert re.search("kryoTypes|take a canonical savepoint", error.facts["remedy"])


def test_only_what_the_user_wrote_is_binary(flink_version: str, savepoint_of: SavepointOf) -> None:
    types = snapshot_of(savepoint_of(flink_version, "types"))

    binary = set()
    for operator in types.operators("keyed"):
        if operator["uid"] != "broken-strings":
            binary |= {f"{operator['uid']}/{name}" for name in read_keyed(types, operator).opaque}
    for state in operator_of(types, "operator-states")["states"]:
        if f"operator-states/{state['name']}" not in WITHOUT_LENGTHS:
            table = open_table(types.request(operator_of(types, "operator-states"), state=state["name"]))
            binary |= {f"operator-states/{state['name']}"} if is_opaque(table.schema.field("value")) else set()

    assert binary == OF_ANIMALS


def test_flink_reads_the_bytes_of_what_the_user_wrote(
    flink_version: str, savepoint_of: SavepointOf, flink_oracle: Oracle
) -> None:
    types = snapshot_of(savepoint_of(flink_version, "types"))
    pojos, states = operator_of(types, "pojos"), operator_of(types, "operator-states")
    header = headers_of(types, "pojos").headers[0]
    savepoint = Snapshot.open(types.path)
    sources = operator_sources(savepoint, savepoint.operator(uid="operator-states"))
    (animals,) = [meta for meta in sources[0].header().states if meta.name == "animals"]

    values = types.table(pojos, state="subclasses")
    elements = types.table(states, state="animals").column("value").to_pylist()

    (subclasses,) = [state for state in pojos["states"] if state["name"] == "subclasses"]
    read = flink_reads(flink_oracle, serializer_of(header, "subclasses"), values.column("subclasses").to_pylist())
    entries = [[key, None, value["json"]] for key, value in zip(values.column("key").to_pylist(), read, strict=True)]
    assert not list(multiset_differences("pojos/subclasses", subclasses["entries"], entries))
    (union,) = [state for state in states["states"] if state["name"] == "animals"]
    read = flink_reads(flink_oracle, animals.value_serializer, elements)
    assert not list(multiset_differences("animals", union["entries"], [value["json"] for value in read]))


def test_half_of_a_surrogate_pair_is_an_error_with_a_way_out(types: RecordedSnapshot) -> None:
    operator = operator_of(types, "broken-strings")

    with pytest.raises(ValueRangeError) as raised:
        types.table(operator, decode=replace(EXACT, text="error"))
    raw = types.table(operator, raw=("value",))
    escaped = types.table(operator)

    assert raised.value.facts["state"] == "value"
    assert 'option("raw", "value")' in str(raised.value)
    found = dict(zip(raw.column("key").to_pylist(), map(java_string, raw.column("value").to_pylist()), strict=True))
    assert found == {key: value for key, _, value in operator["states"][0]["entries"]}
    texts = escaped.column("value").to_pylist()
    assert dict(zip(escaped.column("key").to_pylist(), map(java_text, texts), strict=True)) == found


def java_string(data: bytes) -> str:
    """A string as Flink writes it: its length and one, and its UTF-16 units, as numbers of seven bits a byte."""
    numbers, number, shift = [], 0, 0
    for byte in data:
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            numbers.append(number)
            number, shift = 0, 0
    assert numbers[0] == len(numbers)
    return b"".join(unit.to_bytes(2, "big") for unit in numbers[1:]).decode("utf-16-be", "surrogatepass")


@pytest.mark.parametrize("case", [{}, {"backend": "rocksdb-heap-timers", "format": "checkpoint"}], ids=str)
def test_timers_have_keys_and_namespaces_as_bytes(
    flink_version: str, savepoint_of: SavepointOf, case: dict[str, Any]
) -> None:
    snapshot = snapshot_of(savepoint_of(flink_version, "types", **case))
    operator = operator_of(snapshot, "namespaces")
    (timers,) = [service for service in operator["timers"] if service["service"] == "text-timers"]

    table = snapshot.table(operator, table="timers", state="text-timers", raw=("key", "namespace"))

    found = [
        [int.from_bytes(row["key"], "big"), java_string(row["namespace"]), row["timestamp"]]
        for row in table.to_pylist()
    ]
    assert sorted(found) == sorted(timers["eventTime"] + timers["processingTime"])


def test_namespaces_are_there_as_bytes(types: RecordedSnapshot) -> None:
    operator = operator_of(types, "namespaces")
    (by_text,) = [state for state in operator["states"] if state["name"] == "by-text"]

    table = types.table(operator, table="window_state", state="by-text", raw=("window",))

    found = [[row["key"], java_string(row["window"]), row["by-text"]] for row in table.to_pylist()]
    assert sorted(found) == sorted(by_text["entries"])


def test_a_database_and_its_timers_on_the_heap_read(flink_version: str, savepoint_of: SavepointOf) -> None:
    generated = savepoint_of(flink_version, "types", backend="rocksdb-heap-timers", format="checkpoint")
    snapshot = snapshot_of(generated)
    operator = operator_of(snapshot, "namespaces")
    assert (
        sum(len(service[domain]) for service in operator["timers"] for domain in ("eventTime", "processingTime")) > 60
    )

    assert differences(without(snapshot, "broken-strings")) == []


# -- keys --------------------------------------------------------------------------------------------------------


@pytest.fixture
def keys(flink_version: str, savepoint_of: SavepointOf) -> RecordedSnapshot:
    return snapshot_of(savepoint_of(flink_version, **KEYS))


def operators_of_keys(keys: RecordedSnapshot) -> Iterator[tuple[Json, bool]]:
    """Every operator, and whether its keys can be shown: of the chars one is half a character."""
    for operator in keys.operators("keyed"):
        yield operator, operator["uid"] != "char"


def test_keys_of_all_types_read_to_what_went_in(keys: RecordedSnapshot) -> None:
    counts = {operator["uid"]: len(operator["keyGroups"]) for operator in keys.operators("keyed")}

    assert differences(without(keys, "char")) == []

    assert not keys.undecodable
    assert len(counts) >= 26
    assert min(counts.values()) >= 2


def test_key_groups_are_those_that_flink_computed(keys: RecordedSnapshot) -> None:
    for operator, _ in operators_of_keys(without(keys, "char")):
        told = {comparable(key): group for key, group in operator["keyGroups"]}
        assert read_keyed(keys, operator).key_groups == told


def test_hash_codes_are_javas(keys: RecordedSnapshot, flink_oracle: Oracle) -> None:
    lawless = set()
    for operator, shown in operators_of_keys(keys):
        uid = operator["uid"]
        serializer = headers_of(keys, uid).headers[0].key_serializer
        raw = keys.table(operator, raw=("key",), include_key_group=True)
        read = flink_reads(flink_oracle, serializer, raw.column("key").to_pylist())
        groups = raw.column("key_group").to_pylist()
        assert [value["keyGroup"] for value in read] == groups
        if not shown:
            continue
        column = keys.table(operator).column("key").combine_chunks()
        told = [value["json"] for value in read]
        kind = kind_of(keys.table(operator).schema.field("key"))[1]
        assert not list(multiset_differences(uid, told, [written(kind, key) for key in column.to_pylist()]))
        try:
            hashes = serializer.java_hash(column)
        except UndecodableStateError:
            lawless.add(uid)
            continue
        assert hashes.dtype == np.int32
        assert hashes.tolist() == [value["hash"] for value in read], uid
        assert [key_group_for_hash(value, 1000) for value in hashes.tolist()] == groups

    assert lawless == WITHOUT_LAW & {operator["uid"] for operator in keys.operators("keyed")}


def test_every_key_is_found(keys: RecordedSnapshot) -> None:
    for operator, shown in operators_of_keys(keys):
        if not shown:
            continue
        table = keys.table(operator)
        everything = table.column("key").to_pylist()
        told = written_keys(table)
        groups = {group for _, group in operator["keyGroups"]}

        found = keys.table(operator, keys=json.dumps(everything))
        last = keys.table(operator, keys=json.dumps(everything[-1:]))
        partitions: Any = open_table(keys.request(operator, keys=json.dumps(everything))).partitions(1000)

        assert not list(multiset_differences(operator["uid"], told, written_keys(found)))
        assert written_keys(last) == told[-1:], operator["uid"]
        opened = {group for partition in partitions for group in partition.split.key_groups}
        assert opened == groups or operator["uid"] in WITHOUT_LAW


def written_keys(table: pa.Table) -> list[Json]:
    _, kind = kind_of(table.schema.field("key"))
    return [written(kind, key) for key in table.column("key").to_pylist()]


def test_keys_that_are_half_a_character_are_an_error_with_a_way_out(keys: RecordedSnapshot) -> None:
    operator = operator_of(keys, "char")

    with pytest.raises(ValueRangeError) as raised:
        keys.table(operator, decode=replace(EXACT, text="error"))
    raw = keys.table(operator, raw=("key",))

    assert 'option("raw", "key")' in str(raised.value)
    found = {key.decode("utf-16-be", "surrogatepass"): index for key, index in _pairs(raw)}
    assert found == {key: index for key, _, index in operator["states"][0]["entries"]}
    assert keys.table(operator, raw=("key",), keys='["a"]').column("key").to_pylist() == ["a".encode("utf-16-be")]


def _pairs(table: pa.Table) -> Iterator[tuple[bytes, int]]:
    yield from zip(table.column("key").to_pylist(), table.column("index").to_pylist(), strict=True)


# -- Kryo --------------------------------------------------------------------------------------------------------


def test_kryos_values_are_what_went_in_or_bytes(
    flink_version: str, savepoint_of: SavepointOf, flink_oracle: Oracle
) -> None:
    snapshot = snapshot_of(savepoint_of(flink_version, "kryo"))
    (operator,) = snapshot.expected["operators"]
    names = [state["name"] for state in operator["states"]]
    table = snapshot.table(operator)
    bytes_of = snapshot.table(operator, raw=tuple(names))
    header = headers_of(snapshot, "kryo").headers[0]
    foreign = OF_USER

    wrong, as_bytes = [], set()
    for state in operator["states"]:
        name = state["name"]
        _, kind = kind_of(table.schema.field(name))
        expected = {key: value for key, _, value in state["entries"]}
        raw = dict(zip(bytes_of.column("key").to_pylist(), bytes_of.column(name).to_pylist(), strict=True))
        for key, value in zip(table.column("key").to_pylist(), table.column(name).to_pylist(), strict=True):
            shown = from_variant(value) if is_variant(value) else value
            if isinstance(shown, bytes) and "hex" not in expected[key]:
                as_bytes.add(name)
                assert shown == raw[key]
            else:
                got = retold(shown, expected[key]) if is_variant(value) else written(kind, value)
                wrong += multiset_differences(f"{name} of {key}", [expected[key]], [got])
        if name in foreign:
            read = flink_reads(flink_oracle, serializer_of(header, name), raw.values())
            got = [[key, None, value["json"]] for key, value in zip(raw, read, strict=True)]
            wrong += multiset_differences(f"{name} in bytes", state["entries"], got)

    assert wrong == []
    assert as_bytes == foreign & set(names)


def retold(value: Any, like: Json) -> Json:
    """A value out of a VARIANT in the words of what is expected in its place, for a VARIANT has fewer types."""
    match like:
        case {"map": entries} if isinstance(value, dict):
            likes = dict(entries)
            return {"map": [[key, retold(item, likes.get(key))] for key, item in value.items()]}
        case {"map": entries}:
            pairs = zip(value, entries, strict=True)
            return {"map": [[retold(pair["key"], k), retold(pair["value"], v)] for pair, (k, v) in pairs]}
        case {"set": _}:
            return {"set": [SUITS.get(item, item) for item in value]}
        case {"ms": _}:
            return {"ms": value}
        case {"hex": _}:
            return {"hex": value.hex()}
        case {"class": name, "text": _}:
            return {"class": name, "text": value}
        case {"class": name, "fields": {"value": inner}}:
            return {"class": name, "fields": {"value": retold(value, inner)}}
        case list():
            return [retold(item, inner) for item, inner in zip(value, like, strict=True)]
        case "NaN":
            return str(value).replace("nan", "NaN")
        case str() if not isinstance(value, str):
            return str(value)
    return value
