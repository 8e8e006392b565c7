"""Tables of a real PyFlink job, against what its code, ``pyflink_states.py``, put into its states."""

from __future__ import annotations

import datetime as dt
import decimal
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.variant_utils import VariantUtils

import pyspark_savepoint
from pyspark_savepoint.command_line.warming import unpack
from pyspark_savepoint.formats.errors import CorruptStateError, OptionError, SavepointError, StateNotFoundError
from pyspark_savepoint.formats.snapshot.savepoint import find_snapshots
from pyspark_savepoint.formats.variant import VARIANT
from pyspark_savepoint.options.options import SavepointReadOptions
from pyspark_savepoint.statebackends.open_table import open_table

#: The same job on PyFlink 2.2.1.
OF_FLINK_2 = Path(__file__).parents[2] / "oracle" / "savepoints" / "pyflink" / "2.2.1.tar.xz"
STRING_KEYS, PICKLED_KEYS, TUPLE_KEYS = (
    "43487588459d4ffdd9542da2da8250dd",
    "f6108bddb22b242a688a7098e3b65f59",
    "e2762e0dfbb2ed8ef99099782c576122",
)
SESSIONS, AGGREGATED, REDUCED = (
    "6a1a8219566dd2992fabfbaf83d587a2",
    "b00c6b12fa6d7e23a5fc7cadfeeca741",
    "31f7a23b711d51ac0e19e779ae0e188c",
)
#: The types of the job's descriptors.
TYPES = (
    "v_long LONG; red REDUCING LONG; agg AGGREGATING TUPLE<LONG, LONG>; v_ttl LONG;"
    "v_tuple TUPLE<INT, STRING, BOOLEAN>;"
    "v_row ROW<id LONG, name STRING, score DOUBLE, at SQL_TIMESTAMP, dec BIG_DEC>; list LIST<LONG>; v_bytes BYTES;"
    "map MAP<STRING, LONG>; map_row MAP<TUPLE<STRING, INT>, ROW<LONG, STRING>>; v_list LIST<STRING>; v_date SQL_DATE;"
    "v_map MAP<STRING, INT>; v_instant INSTANT; `v_string` STRING; v_pickled PICKLED; list_pickled LIST PICKLED"
)
START = dt.datetime(2020, 1, 1)


def key_of(uid: str, i: int) -> Any:
    """The key of element ``i``."""
    if uid == STRING_KEYS:
        return f"k{i % 20}"
    return {"f0": i % 10, "f1": "z" if uid == PICKLED_KEYS else f"k{i % 20}"}


def expected(elements: list[int]) -> dict[str, Any]:
    """What the states of a key are behind its elements."""
    i = elements[-1]
    at = START + dt.timedelta(seconds=i % 60)
    pickled = {
        "i": i, "l": [1, "x", None, 2.5, True], "t": [i, "y"], "n": {"a": [{"key": 1, "value": 2}]}, "d": at,
        "dec": decimal.Decimal("1.5"), "b": b"\x00\x01", "big": decimal.Decimal(i * 10**20),
    }  # fmt: skip
    rows = {(("f0", "a"), ("f1", j % 3)): {"f0": j, "f1": f"r{j}"} for j in elements}
    return {
        "v_long": sum(elements),
        "v_string": f"s{i}é漢",
        "v_pickled": pickled,
        "v_custom": {"__class": "__main__.Custom", "i": i, "d": {"x": i}},
        "v_row": {
            "id": i, "name": f"n{i}", "score": i / 2, "at": at.replace(microsecond=123000), "dec": f"{i}.25",
        },
        "v_tuple": {"f0": i, "f1": f"t{i}", "f2": i % 2 == 0},
        "list": elements,
        "list_pickled": [{"e": j} for j in elements],
        "map": {f"m{j % 5}": j for j in elements},
        "map_row": rows,
        "red": sum(elements),
        "agg": {"f0": sum(elements), "f1": len(elements)},
        "v_list": [f"a{i}", "b"],
        "v_map": {f"k{i}": i},
        "v_date": dt.date(2020, 1, 1 + i % 28),
        "v_instant": dt.datetime(2020, 9, 13, 12, 26, 40, 5, tzinfo=dt.UTC) + dt.timedelta(seconds=i),
        "v_bytes": bytes([i % 256, 1]),
        "v_ttl": i,
    }  # fmt: skip


def plain(value: Any, kind: pa.DataType) -> Any:
    """A value of a column as the job has it."""
    if value is None:
        return None
    if kind == VARIANT:
        return VariantUtils.to_python(value["value"], value["metadata"])
    if pa.types.is_map(kind):
        return {tuple(k.items()) if isinstance(k, dict) else k: plain(v, kind.item_type) for k, v in value}
    if pa.types.is_list(kind):
        return [plain(item, kind.value_type) for item in value]
    return value


@pytest.fixture(scope="module")
def job(corpus: Path) -> str:
    return find_snapshots(str(corpus / "real/pyf-120/sp"))[0].path


@pytest.fixture
def table(job: str) -> Callable[..., Any]:
    def open_(**options: str) -> Any:
        return open_table(SavepointReadOptions.parse({"path": job, **options}).request())

    return open_


def rows_of(table: Any, parallelism: int = 1) -> pa.Table:
    batches = [batch for part in table.partitions(parallelism) for batch in part.batches()]
    return pa.Table.from_batches(batches, schema=table.schema)


def by_key(found: pa.Table) -> dict[str, dict[str, Any]]:
    kinds = {field.name: field.type for field in found.schema}
    return {
        repr(row["key"]): {name: plain(value, kinds[name]) for name, value in row.items() if name != "key"}
        for row in found.to_pylist()
    }


@pytest.mark.parametrize("uid", [STRING_KEYS, PICKLED_KEYS, TUPLE_KEYS])
def test_every_value_is_what_the_job_put_there(table: Callable[..., Any], uid: str) -> None:
    found = table(uidHash=uid, pyTypes=TYPES)
    elements: dict[str, list[int]] = {}
    for i in range(300):
        elements.setdefault(repr(key_of(uid, i)), []).append(i)

    assert not found.warnings
    assert by_key(rows_of(found, 3)) == {key: expected(mine) for key, mine in elements.items()}


def test_every_value_of_a_job_of_flink_2_is_what_it_put_there(tmp_path: Path) -> None:
    unpack(OF_FLINK_2, tmp_path)
    for given, uid in ((STRING_KEYS, "py-string"), (PICKLED_KEYS, "py-pickled-key"), (TUPLE_KEYS, "py-tuple-key")):
        options = {"path": str(tmp_path), "uid": uid, "pyTypes": TYPES}
        found = open_table(SavepointReadOptions.parse(options).request())
        elements: dict[str, list[int]] = {}
        for i in range(300):
            elements.setdefault(repr(key_of(given, i)), []).append(i)
        assert by_key(rows_of(found)) == {key: expected(mine) for key, mine in elements.items()}


def test_what_the_bytes_prove_is_decoded_and_the_rest_is_named(table: Callable[..., Any]) -> None:
    found = table(uidHash=STRING_KEYS)
    types = {field.name: str(field.type) for field in found.schema}

    proved = {"v_string", "v_list", "v_pickled", "v_custom", "list_pickled"}
    row, wanted = by_key(rows_of(found))["'k1'"], expected(list(range(1, 300, 20)))
    assert {name: row[name] for name in proved} == {name: wanted[name] for name in proved}
    assert types["map"] == "map<string, binary>"
    assert types["list"] == "list<element: binary>"
    assert {name for name, kind in types.items() if kind == "binary"} == {
        "v_long", "red", "agg", "v_ttl", "v_row", "v_tuple", "v_map", "v_date", "v_instant", "v_bytes",
    }  # fmt: skip
    (warning,) = found.warnings
    assert "option('pyTypes', 'v_long LONG; red LONG; agg TUPLE<LONG, LONG>" in warning
    assert table(uidHash=AGGREGATED).warnings[0].startswith("1 state of PyFlink is BINARY")


def test_states_show_their_own_names_kinds_and_types(job: str) -> None:
    sp = pyspark_savepoint.open(job)
    listed = sp.table("states", py_types=TYPES).to_arrow().to_pylist()
    rows = {row["state"]: row for row in listed if row["operator_uid_hash"] == PICKLED_KEYS}

    assert (rows["agg"]["kind"], rows["agg"]["value_type"]) == ("AGGREGATING", "TUPLE<LONG, LONG>")
    assert (rows["list"]["kind"], rows["list"]["spark_value_type"]) == ("LIST", "array<bigint>")
    assert rows["map_row"]["value_type"] == "MAP<TUPLE<STRING, INT>, ROW<LONG, STRING>>"
    assert (rows["red"]["key_type"], rows["red"]["spark_key_type"]) == ("PICKLED", "struct<f0:bigint,f1:string>")
    assert dict(rows["v_long"]["options"]) == {
        "uidHash": PICKLED_KEYS, "table": "keyed_state", "state": "v_long",
    }  # fmt: skip
    unsaid = {row["state"]: row for row in sp.table("states", uid_hash=STRING_KEYS).to_arrow().to_pylist()}
    assert "give it in option 'pyTypes'" in unsaid["v_long"]["note"]
    assert unsaid["v_pickled"]["spark_value_type"] == "variant"
    assert not any("python-state" in (row["state"] or "") for row in listed)


@pytest.mark.parametrize(
    ("uid", "key", "count"),
    [(STRING_KEYS, '"k7"', 15), (PICKLED_KEYS, '[7, "z"]', 30), (TUPLE_KEYS, '{"f0": 7, "f1": "k7"}', 15)],
)
def test_keys_are_looked_up_as_they_are_shown(table: Callable[..., Any], uid: str, key: str, count: int) -> None:
    found = table(uidHash=uid, state="list", pyTypes="list LIST<LONG>", keys=f"[{key}]")
    (row,) = rows_of(found).to_pylist()
    assert (row["key"], len(row["list"])) == (key_of(uid, 7), count)
    assert rows_of(found.select(["list"])).to_pylist() == [{"list": row["list"]}]

    timers = rows_of(table(uidHash=uid, table="timers", keys=f"[{key}]", includeKeyGroup="true")).to_pylist()
    events = sorted(timer["timestamp"] for timer in timers if timer["domain"] == "event")
    assert events == [5000000000000 + i for i in row["list"]]
    assert {timer["timestamp"] for timer in timers if timer["domain"] == "processing"} == {6000000000007}
    assert {repr(timer["key"]) for timer in timers} == {repr(key_of(uid, 7))}


def test_windows_of_pyflink(table: Callable[..., Any]) -> None:
    tuples = "window-contents TUPLE<INT, STRING>"
    sessions = rows_of(table(uidHash=SESSIONS, table="window_state", pyTypes=tuples.replace("s T", "s LIST T")))
    rows = {row["key"]: row["window-contents"] for row in sessions.to_pylist()}
    assert rows["k3"] == [{"f0": i, "f1": "k3"} for i in range(3, 300, 20)]

    merged = rows_of(table(uidHash=SESSIONS, table="keyed_state")).to_pylist()
    ((window, state_window),) = merged[0]["merging-window-set"]
    assert window["start"] == state_window["start"]
    assert window["end"] > state_window["end"]

    reduced = {
        row["key"]: row["window-contents"] for row in rows_of(table(uidHash=REDUCED, pyTypes=tuples)).to_pylist()
    }
    assert reduced["k3"] == {"f0": sum(range(3, 300, 20)), "f1": "k3"}
    longs = "window-contents AGGREGATING TUPLE<LONG, LONG>"
    averaged = {
        row["key"]: row["window-contents"] for row in rows_of(table(uidHash=AGGREGATED, pyTypes=longs)).to_pylist()
    }
    assert averaged["k3"] == {"f0": sum(range(3, 300, 20)), "f1": 15}


def test_times_of_last_access_and_elements(table: Callable[..., Any]) -> None:
    row = rows_of(table(uidHash=STRING_KEYS, state="v_ttl", pyTypes="v_ttl LONG", includeTtl="true")).to_pylist()[0]
    assert row["v_ttl__last_access"].year == 2026

    flat = {"uidHash": STRING_KEYS, "flatten": "true", "keys": '["k1"]', "pyTypes": TYPES}
    elements = rows_of(table(**flat, state="list")).to_pylist()
    assert elements[1] == {"key": "k1", "list_index": 1, "list_value": 21}
    entries = rows_of(table(**flat, state="map")).to_pylist()
    assert entries == [{"key": "k1", "map_key": "m1", "map_value": 281}]
    with pytest.raises(OptionError, match="one list or map state"):
        table(**flat, state="v_long")


def test_raw_shows_what_flink_stores(table: Callable[..., Any]) -> None:
    found = rows_of(table(uidHash=STRING_KEYS, state="v_long,list", raw="v_long,key", pyTypes="list LIST<LONG>"))
    assert str(found.schema.field("v_long").type) == "binary"
    assert str(found.schema.field("key").type) == "binary"


@pytest.mark.parametrize(
    ("types", "kind", "message"),
    [
        ("list LONG", OptionError, "it is a list state: option('pyTypes', 'list LIST LONG')"),
        ("v_string LONG", CorruptStateError, "the values of state 'v_string' are no LONG"),
        ("v_long INT", CorruptStateError, "give it the type that the job does"),
        ("v_tuple ROW<INT, STRING>", CorruptStateError, "are no ROW<INT, STRING>"),
        ("v_lnog LONG", StateNotFoundError, "did you mean 'v_long'"),
        ("map LONG", SavepointError, "a type that is not a map"),
        ("v_long LNG", OptionError, "LNG"),
        ("v_long", OptionError, "a name and a type per state"),
        ("v_long LONG; v_long INT", OptionError, "has two types"),
        ("v_long TUPLE<>", OptionError, "TUPLE"),
    ],
)
def test_wrong_types_are_refused(table: Callable[..., Any], types: str, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=re.escape(message)):
        rows_of(table(uidHash=STRING_KEYS, pyTypes=types))


@pytest.mark.parametrize("survey", ["sizes", "verification", "heaviest_keys", "ttl_ages"])
def test_surveys_have_the_names_of_the_job(table: Callable[..., Any], survey: str) -> None:
    every = rows_of(table(uidHash=PICKLED_KEYS, table=survey)).to_pylist()
    named = rows_of(table(uidHash=PICKLED_KEYS, table=survey, state="v_ttl")).to_pylist()
    assert not any("python-state" in (row["state"] or "") for row in every)
    assert {row["state"] for row in named if row["state"]} == {"v_ttl"}
    if survey == "heaviest_keys":
        keys = ",".join(row["key"] for row in named)
        found = rows_of(table(uidHash=PICKLED_KEYS, state="v_ttl", keys=f"[{keys}]"))
        assert len(found) == len(named) == 10
