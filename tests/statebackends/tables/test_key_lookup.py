"""Keys given as JSON: their bytes, their key groups, and errors about impossible keys."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pyspark_savepoint
from pyspark_savepoint.formats.errors import OptionError, SavepointError
from pyspark_savepoint.formats.metadata.identifiers import OperatorID
from pyspark_savepoint.formats.snapshot.savepoint import find_snapshots
from pyspark_savepoint.statebackends.open_table import open_table
from pyspark_savepoint.statebackends.requests.request import TableRequest
from pyspark_savepoint.statebackends.rows.json_values import from_json
from tests.data import located

#: Operators with timers in canonical state, on the heap, in RocksDB's own files, in ForSt's, and in raw keyed state.
TIMER_CASES = (
    ("lab/2.2.1-hashmap-canonical", {"uid": "kv-tuple"}),
    ("lab/2.2.1-hashmap-canonical", {"uid": "window-session"}),
    ("lab/1.20.5-hashmap-native", {"uid": "kv-tuple"}),
    ("lab/2.2.1-rocksdb-native", {"uid": "kv-tuple"}),
    ("lab/2.2.1-rocksdb-incr-checkpoint", {"uid": "window-session"}),
    ("lab/2.2.1-forst-native", {"uid": "kv-long"}),
    ("datastream/udf-rocksdb_heap_timers-savepoint-1.10", {"uid_hash": OperatorID.from_uid("by-long").hex}),
    pytest.param(
        "datastream/new-stateful-udf-migration-itcase-flink1.8-rocksdb-savepoint",
        {"uid_hash": "41e91aae0bee218c44306cf7d21940ad"},
        marks=pytest.mark.resources,
    ),
)
ROW = pa.struct([("x", pa.int8()), ("__row_kind", pa.string())])


@pytest.fixture
def lab(corpus: Path) -> str:
    return str(corpus / "lab" / "2.2.1-hashmap-canonical" / "savepoint")


def keys_of(path: str, uid: str, keys: Any, **options: Any) -> list[Any]:
    text = keys if isinstance(keys, str) else json.dumps(keys)
    table = open_table(TableRequest(path, uid=uid, keys=text, **options))
    return [key for part in table.partitions(4) for batch in part.batches() for key in batch.column("key").to_pylist()]


def test_no_key_is_found_where_none_is_wanted(lab: str) -> None:
    assert keys_of(lab, "kv-long", []) == []


def test_keys_of_a_state_that_some_key_groups_have_not(lab: str) -> None:
    """Maps of some keys are empty, so that a block has entries of other states alone."""
    savepoint = pyspark_savepoint.open(lab)
    chosen = savepoint.keyed_state("kv-long").to_arrow().column("key").to_pylist()[::7]
    with_a_map = savepoint.keyed_state("kv-long", state="map-sl").to_arrow().column("key").to_pylist()
    expected = set(chosen) & set(with_a_map)
    assert expected < set(chosen)
    assert set(keys_of(lab, "kv-long", chosen, state="map-sl")) == expected


def test_keys_may_be_given_twice_and_as_text(lab: str) -> None:
    assert sorted(keys_of(lab, "kv-long", [0, "0", "-9223372036854775808"])) == [-(2**63), 0]


def test_composite_keys_are_lists_or_objects(lab: str) -> None:
    wanted = {"f0": "t\u00e9-1", "f1": -19}

    assert keys_of(lab, "kv-tuple", [["t\u00e9-1", -19]], state="enum") == [wanted]
    assert keys_of(lab, "kv-tuple", [wanted], state="enum") == [wanted]


def test_keys_are_looked_up_in_windows(lab: str) -> None:
    options = {"table": "window_state"}

    assert keys_of(lab, "window-tumbling-reduce", [3, 99], **options) == [3, 3, 3, 3]


def timers_of(path: str, **options: Any) -> list[dict[str, Any]]:
    table = open_table(TableRequest(path, table="timers", **options))
    rows = [row for part in table.partitions(4) for batch in part.batches() for row in batch.to_pylist()]
    return sorted(rows, key=str)


@pytest.mark.parametrize(("case", "operator"), TIMER_CASES)
def test_keys_are_looked_up_in_timers(case: str, operator: dict[str, str]) -> None:
    path = find_snapshots(str(located(case)))[0].path
    rows = timers_of(path, **operator)
    wanted = {json.dumps(row["key"]) for row in rows[::7]}
    expected = [row for row in rows if json.dumps(row["key"]) in wanted]

    assert 0 < len(expected) < len(rows)
    assert timers_of(path, **operator, keys=f"[{', '.join(wanted)}]") == expected
    assert timers_of(path, **operator, keys="[]") == []


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ("[1", "option 'keys' is not a JSON list of keys"),
        ('{"a": 1}', "option 'keys' is not a JSON list of keys"),
        ("[" * 5000, "option 'keys' is not a JSON list of keys"),
        ('["one"]', "key must be a value of int64"),
        ("[1.5]", "key must be a value of int64"),
        ("[true]", "key must be a value of int64"),
        ("[9223372036854775808]", "key must be a value of int64"),
        ("[[1]]", "key must be a value of int64"),
    ],
)
def test_what_is_no_key_is_refused(lab: str, keys: str, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        keys_of(lab, "kv-long", keys)


def test_a_null_is_no_key_of_a_type_without_null(lab: str) -> None:
    with pytest.raises(OptionError, match="a key that is null"):
        keys_of(lab, "kv-long", [None])


def test_an_unknown_field_is_answered_with_the_nearest(lab: str) -> None:
    with pytest.raises(OptionError, match="did you mean 'f0'"):
        keys_of(lab, "kv-tuple", [{"f00": "a", "f1": 1}], state="enum")


@pytest.mark.parametrize(
    ("value", "kind", "expected"),
    [
        (None, pa.int32(), None),
        ("12.50", pa.decimal128(10, 2), "12.50"),
        (1.5, pa.float64(), "1.5"),
        ("NaN", pa.float32(), "nan"),
        (True, pa.bool_(), "True"),
        ("2024-02-29", pa.date32(), "2024-02-29"),
        ("2024-02-29T01:02:03.000004", pa.timestamp("us"), "2024-02-29 01:02:03.000004"),
        ("2024-02-29T01:02:03+02:00", pa.timestamp("us", tz="UTC"), "2024-02-28 23:02:03+00:00"),
        ("2024-02-29T01:02:03", pa.timestamp("us", tz="UTC"), "2024-02-29 01:02:03+00:00"),
        ("00ff", pa.binary(), "b'\\x00\\xff'"),
        ([1, None], pa.list_(pa.int8()), "[1, None]"),
        ({"a": 1}, pa.map_(pa.string(), pa.int8()), "[('a', 1)]"),
        ([[1, "b"]], pa.map_(pa.int8(), pa.string()), "[(1, 'b')]"),
        ([1], pa.struct([("x", pa.int8())]), "{'x': 1}"),
        ({}, pa.struct([("x", pa.int8())]), "{'x': None}"),
        ([1], ROW, "{'x': 1, '__row_kind': '+I'}"),
        ([1, "-D"], ROW, "{'x': 1, '__row_kind': '-D'}"),
        ({"x": 1}, ROW, "{'x': 1, '__row_kind': '+I'}"),
    ],
)
def test_json_becomes_values(value: Any, kind: pa.DataType, expected: object) -> None:
    found = pa.array([from_json(value, kind, "key")], kind)[0].as_py()

    assert found is None if expected is None else str(found) == expected


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("x", pa.decimal128(10, 2)),
        (300, pa.int8()),
        ("2024-02-30", pa.date32()),
        (20240229, pa.date32()),
        ("zz", pa.binary()),
        (5, pa.string()),
        ({"a": 1}, pa.list_(pa.int8())),
        (5, pa.map_(pa.string(), pa.int8())),
        ([1, 2], pa.map_(pa.string(), pa.int8())),
        ([1, 2], pa.struct([("x", pa.int8())])),
        (1, pa.bool_()),
    ],
)
def test_json_of_another_type_is_refused(value: Any, kind: pa.DataType) -> None:
    with pytest.raises(SavepointError):
        from_json(value, kind, "key")


def test_uuids_of_kryo_open_their_key_groups(corpus: Path) -> None:
    """Keys of the job KryoJob are ``new UUID(i % 30, 9)``, with the last i as the value."""
    savepoint = pyspark_savepoint.open(str(corpus / "real" / "kryo-120" / "sp" / "savepoint-67b79c-7921d70754bb"))
    options = {"uidHash": "719a9d5cb220578cc0f9a18518be4890"}
    wanted = "00000000-0000-0007-0000-000000000009"

    rows = savepoint.table("keyed_state", keys=f'["{wanted}", "00000000-0000-0063-0000-000000000009"]', **options)
    timers = savepoint.table("timers", keys=f'["{wanted}"]', **options).to_arrow().to_pylist()
    with pytest.raises(OptionError, match="not a UUID"):
        savepoint.table("keyed_state", keys='["seven"]', **options)

    assert rows.to_arrow().to_pylist() == [{"key": wanted, "plain": 37}]
    assert {row["key"] for row in timers} == {wanted}
    assert savepoint.table("keyed_state", **options).to_arrow().num_rows == 30
