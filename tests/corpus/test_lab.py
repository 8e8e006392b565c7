"""A job with every kind of state and type, written by real Flink, reads to exactly the values that went in."""

from __future__ import annotations

import datetime as dt
import json
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pyspark_savepoint.formats.columns import DecodeOptions
from pyspark_savepoint.formats.errors import (
    OptionError,
    StateNotFoundError,
    UndecodableStateError,
    ValueRangeError,
)
from pyspark_savepoint.formats.metadata.key_groups import range_for_operator_index
from pyspark_savepoint.statebackends.open_table import open_table
from pyspark_savepoint.statebackends.requests.request import TableRequest
from tests.corpus.expected import RecordedSnapshot, differences, read
from tests.corpus.written import EXACT
from tests.oracle.compare import comparable

CANONICAL = (
    "1.18.1-rocksdb-canonical",
    "2.2.1-hashmap-canonical",
    "2.2.1-rocksdb-canonical-maxp1000",
    "2.3.0-hashmap-canonical-compressed",
)
NATIVE = "1.20.5-hashmap-native"
FILES_OF_A_DATABASE = ("2.2.1-forst-native", "2.2.1-rocksdb-native", "2.2.1-rocksdb-incr-checkpoint")
READABLE = (*CANONICAL, NATIVE, *FILES_OF_A_DATABASE)

#: What only the user's code can read. Writers on the heap do not record subclasses that nobody registered; entries of
#: the heap format have no lengths, so the state after such a value cannot be read.
CIRCLE, NO_DEFAULT = "flinklab.Model$Circle", "KRYO<flinklab.Model$NoDefault>"
UNDECODABLE = {
    "2.2.1-hashmap-canonical": {"kv-tuple/shape": CIRCLE},
    "2.3.0-hashmap-canonical-compressed": {"kv-tuple/shape": CIRCLE},
    NATIVE: {
        "kv-tuple/shape": CIRCLE,
        "kv-tuple/pojo-auto": CIRCLE,
        "kv-tuple/list-row": CIRCLE,
        "kv-tuple/enum": CIRCLE,
        "kv-kryo/no-default": NO_DEFAULT,
    },
}
#: Tables of one case, as options: one of each kind.
TABLES: tuple[dict[str, Any], ...] = (
    {"uid": "kv-long"},
    {"uid": "kv-long", "table": "timers"},
    {"uid": "kv-long", "state": "map-sl", "flatten": True},
    {"uid": "kv-string", "include_key_group": True},
    {"uid": "kv-pojo"},
    {"uid": "window-tumbling-process", "table": "window_state"},
    {"uid": "window-session", "table": "window_state", "flatten": False},
    {"uid": "op-list", "state": "op-tuples"},
    {"uid": "op-union"},
    {"uid": "op-broadcast"},
)


@pytest.fixture(params=READABLE)
def case(request: pytest.FixtureRequest, corpus: Path) -> RecordedSnapshot:
    return RecordedSnapshot(corpus / "lab" / request.param)


def lab(corpus: Path, name: str) -> RecordedSnapshot:
    return RecordedSnapshot(corpus / "lab" / name)


def request_of(snapshot: RecordedSnapshot, **options: Any) -> TableRequest:
    return TableRequest(snapshot.path, **{"decode": EXACT, **options})


def rows(table: pa.Table) -> Counter[object]:
    """Rows in no order."""
    return Counter(_freeze(row) for row in table.to_pylist())


def _freeze(value: Any) -> object:
    if isinstance(value, dict):
        return tuple((name, _freeze(item)) for name, item in value.items())
    if isinstance(value, (list, tuple)):
        return tuple(map(_freeze, value))
    return comparable(value)


def table_of(snapshot: RecordedSnapshot, parallelism: int = 2, **options: Any) -> pa.Table:
    return read(request_of(snapshot, **options), parallelism)


# -- content -------------------------------------------------------------------------------------------------------


def test_every_value_is_what_flink_put_in(case: RecordedSnapshot) -> None:
    assert differences(case) == []

    found = {label: error.facts["found"] for label, error in case.undecodable.items()}
    assert found == UNDECODABLE.get(case.folder.name, {})
    assert all("state" in error.facts and "option" in error.facts["remedy"] for error in case.undecodable.values())


@pytest.mark.parametrize(("memory", "batch_rows"), [(1 << 14, 20_000), (1 << 14, 7), (1 << 11, 1000)])
def test_little_memory_gives_the_same_values(case: RecordedSnapshot, memory: int, batch_rows: int) -> None:
    small = RecordedSnapshot(case.folder, {"memory": memory, "batch_rows": batch_rows}, parallelism=3)

    assert differences(small) == []
    assert small.undecodable.keys() == UNDECODABLE.get(case.folder.name, {}).keys()


def test_sessions_are_the_windows_that_the_merging_window_set_names(case: RecordedSnapshot) -> None:
    (operator,) = [o for o in case.expected["operators"] if o.get("uid") == "window-session"]
    contents = {
        (row["key"], row["window"]["start"], row["window"]["end"]): list(row["window-contents"].values())
        for row in case.table(operator, table="window_state").to_pylist()
    }

    sessions = [
        [row["key"], list(merged["f0"].values()), contents[row["key"], merged["f0"]["start"], merged["f0"]["end"]]]
        for row in case.table(operator, table="keyed_state").to_pylist()
        for merged in row["merging-window-set"]
    ]

    assert sorted(sessions) == sorted(operator["sessions"])


def test_values_of_an_unknown_subclass_are_there_as_bytes(corpus: Path) -> None:
    snapshot = lab(corpus, "2.2.1-hashmap-canonical")
    with pytest.raises(UndecodableStateError) as raised:
        table_of(snapshot, uid="kv-tuple")
    assert 'option("raw"' in raised.value.facts["remedy"]

    table = table_of(snapshot, uid="kv-tuple", raw=("shape",))

    assert table.schema.field("shape").type == pa.binary()
    circles = [value for value in table.column("shape").to_pylist() if CIRCLE.encode() in value]
    assert len(circles) == 40
    assert table.schema.field("row").type != pa.binary()


# -- partitions ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", TABLES, ids=str)
def test_every_number_of_partitions_gives_the_same_rows(case: RecordedSnapshot, options: dict[str, Any]) -> None:
    expected = rows(table_of(case, 1, **options))
    assert expected

    for parallelism in (2, 3, 7, 128):
        assert rows(table_of(case, parallelism, **options)) == expected


def test_a_partition_is_what_an_execution_vertex_restores(case: RecordedSnapshot) -> None:
    limit = case.expected["meta"]["maxParallelism"]
    request = request_of(case, uid="kv-long", include_key_group=True)

    for parallelism in (2, 3, 7):
        for index, partition in enumerate(open_table(request).partitions(parallelism)):
            owned = range_for_operator_index(limit, parallelism, index)
            groups = {group for batch in partition.batches() for group in batch.column("key_group").to_pylist()}
            assert groups
            assert groups <= set(owned)


def test_the_subtask_is_the_one_that_wrote_the_key(case: RecordedSnapshot) -> None:
    meta = case.expected["meta"]
    table = table_of(case, 5, uid="kv-long", include_key_group=True)

    for group, subtask in zip(table.column("key_group").to_pylist(), table.column("subtask").to_pylist(), strict=True):
        assert group in range_for_operator_index(meta["maxParallelism"], meta["parallelism"], subtask)


# -- options -------------------------------------------------------------------------------------------------------


def test_chosen_columns_come_in_their_order(case: RecordedSnapshot) -> None:
    whole = table_of(case, uid="kv-long")
    for columns in (["v-string", "key"], ["map-sl"], ["key"], ["ttl-list", "v-long"]):
        table = open_table(request_of(case, uid="kv-long")).select(columns)
        batches = [batch for partition in table.partitions(2) for batch in partition.batches()]

        assert table.schema.names == columns
        assert rows(pa.Table.from_batches(batches)) == rows(whole.select(columns))


def test_chosen_states_leave_out_keys_that_have_none_of_them(case: RecordedSnapshot) -> None:
    whole = table_of(case, uid="kv-long")
    some = table_of(case, uid="kv-long", state="list-int, map-ss")

    expected = whole.select(["key", *[name for name in whole.schema.names if name in ("list-int", "map-ss")]])
    assert rows(some) == rows(pa.Table.from_pylist(_without_empty(expected), schema=expected.schema))


def _without_empty(table: pa.Table) -> list[dict[str, Any]]:
    return [row for row in table.to_pylist() if row["list-int"] is not None or row["map-ss"] is not None]


@pytest.mark.parametrize(
    ("uid", "keys", "column"),
    [
        ("kv-long", [0, -1, 9223372036854775807, 12345], [0, -1, 9223372036854775807]),
        ("kv-string", ["", "\u6f22\u5b57", "key-11", "no such"], ["", "\u6f22\u5b57", "key-11"]),
        ("kv-pojo", [{"a": "p1", "b": -13}], [{"a": "p1", "b": -13}]),
    ],
)
def test_keys_are_looked_up(case: RecordedSnapshot, uid: str, keys: list[Any], column: list[Any]) -> None:
    options = {"uid": uid, "keys": json.dumps(keys)}

    found = table_of(case, 4, **options)

    expected = [row for row in table_of(case, uid=uid).to_pylist() if row["key"] in column]
    assert len(expected) == len(column)
    assert rows(found) == rows(pa.Table.from_pylist(expected, schema=found.schema))


def test_a_look_up_opens_only_the_key_groups_of_its_keys(case: RecordedSnapshot) -> None:
    places = {tuple(key) if isinstance(key, list) else key: group for key, group in _key_groups(case, "kv-long")}

    partitions: Any = open_table(request_of(case, uid="kv-long", keys="[0, -1]")).partitions(128)

    assert {group for partition in partitions for group in partition.split.key_groups} == {places[0], places[-1]}


def _key_groups(snapshot: RecordedSnapshot, uid: str) -> list[list[Any]]:
    (operator,) = [o for o in snapshot.expected["operators"] if o.get("uid") == uid]
    groups: list[list[Any]] = operator["keyGroups"]
    return groups


def test_a_look_up_in_a_flattened_map(case: RecordedSnapshot) -> None:
    table = table_of(case, uid="kv-long", state="map-sl", flatten=True, keys="[9223372036854775807]")

    entries = {row["map_key"]: row["map_value"] for row in table.to_pylist()}
    assert entries == {"k0": 1, "k1": 0}


def test_chosen_key_groups(case: RecordedSnapshot) -> None:
    chosen = ((0, 31), (77, 77))
    places = dict(_key_groups(case, "kv-long"))

    table = table_of(case, uid="kv-long", key_groups=chosen, include_key_group=True)

    inside = {key for key, group in places.items() if group <= 31 or group == 77}
    assert set(table.column("key").to_pylist()) == inside


@pytest.mark.parametrize(
    ("uid", "table", "state"),
    [
        ("kv-long", "keyed_state", "list-int"),
        ("kv-long", "keyed_state", "map-sl"),
        ("kv-long", "keyed_state", "map-ss"),
        ("kv-long", "keyed_state", "ttl-list"),
        ("kv-long", "keyed_state", "ttl-map"),
        ("kv-string", "keyed_state", "map-void"),
        ("window-tumbling-process", "window_state", "window-contents"),
        ("window-session", "keyed_state", "merging-window-set"),
    ],
)
@pytest.mark.parametrize("memory", [64 << 20, 1 << 12])
def test_a_flattened_state_has_a_row_per_element(
    case: RecordedSnapshot, uid: str, table: str, state: str, memory: int
) -> None:
    options = {"uid": uid, "table": table, "state": state, "include_ttl": True, "include_key_group": True}
    flat = table_of(case, 3, flatten=True, memory=memory, batch_rows=50, **options)

    expected = []
    for row in table_of(case, **options).to_pylist():
        times = row.pop(f"{state}__last_access", None)
        place = {name: row[name] for name in ("key", "window", "key_group", "subtask") if name in row}
        for index, element in enumerate(row[state]):
            one: dict[str, Any] = {**place}
            if isinstance(element, tuple):
                one |= {"map_key": element[0], "map_value": element[1]}
            else:
                one |= {"list_index": index, "list_value": element}
            if times is not None:
                time = times[index]
                one["last_access"] = time[1] if isinstance(time, tuple) else time
            expected.append({name: one[name] for name in flat.schema.names})
    assert rows(flat) == Counter(map(_freeze, expected))


def test_raw_states_are_the_bytes_of_values(case: RecordedSnapshot) -> None:
    typed = table_of(case, uid="kv-long")
    raw = table_of(case, uid="kv-long", raw=("v-long", "map-sl", "map-ss"))

    assert raw.schema.field("v-long").type == pa.binary()
    assert raw.schema.field("map-sl").type == pa.map_(pa.binary(), pa.binary())
    values = {row["key"]: row for row in typed.to_pylist()}
    for row in raw.to_pylist():
        value = values[row["key"]]
        assert row["v-long"] == (None if value["v-long"] is None else value["v-long"].to_bytes(8, "big", signed=True))
        assert _longs(row["map-sl"]) == (None if value["map-sl"] is None else dict(value["map-sl"]))
        assert _are_null(row["map-ss"]) == _are_null(value["map-ss"])


def _longs(entries: Sequence[tuple[bytes, bytes | None]] | None) -> dict[str, int | None] | None:
    if entries is None:
        return None
    # A string is its length plus one, one byte here, and its characters, of which one may take two bytes.
    return {
        "".join(_characters(key[1:])): None if value is None else int.from_bytes(value, "big", signed=True)
        for key, value in entries
    }


def _characters(data: bytes) -> list[str]:
    found, at = [], 0
    while at < len(data):
        code = data[at]
        if code >= 128:
            at += 1
            code = code & 127 | data[at] << 7
        found.append(chr(code))
        at += 1
    return found


def _are_null(entries: Sequence[tuple[Any, Any]] | None) -> Counter[bool] | None:
    return None if entries is None else Counter(value is None for _, value in entries)


def test_a_time_that_spark_cannot_hold_names_column_and_option(case: RecordedSnapshot) -> None:
    with pytest.raises(ValueRangeError) as raised:
        table_of(case, uid="kv-string", state="instant", decode=DecodeOptions())
    assert raised.value.facts["state"] == "instant"
    assert 'option("timestamps", "truncate")' in raised.value.facts["remedy"]

    table = table_of(case, uid="kv-string", state="instant,local-date-time", decode=DecodeOptions("truncate"))
    assert table.schema.field("instant").type == pa.timestamp("us", tz="UTC")
    assert table.schema.field("local-date-time").type == pa.timestamp("us")
    row = {row["key"]: row for row in table.to_pylist()}["key-9"]
    assert row["instant"].isoformat() == "1903-06-16T10:40:00.009000+00:00"
    assert row["local-date-time"].isoformat() == "1959-10-10T09:09:09.009000"


def test_what_is_asked_for_wrongly_is_answered_with_what_there_is(case: RecordedSnapshot) -> None:
    with pytest.raises(StateNotFoundError, match=r"did you mean 'v-string'"):
        table_of(case, uid="kv-long", state="v-strin")
    with pytest.raises(StateNotFoundError, match="option\\('table', 'window_state'\\) has it"):
        table_of(case, uid="window-tumbling-process", state="window-contents")
    with pytest.raises(OptionError, match="name it with option 'state'"):
        table_of(case, uid="kv-long", flatten=True)


def test_raw_operator_states_are_the_bytes_of_elements(case: RecordedSnapshot) -> None:
    ints = table_of(case, uid="op-list", state="op-ints").column("value").to_pylist()
    raw = table_of(case, uid="op-list", state="op-ints", raw=("op-ints",)).column("value").to_pylist()
    assert sorted(raw) == sorted(value.to_bytes(4, "big", signed=True) for value in ints)

    entries = table_of(case, uid="op-broadcast").to_pylist()
    found = table_of(case, uid="op-broadcast", raw=("bc",)).to_pylist()
    assert {"".join(_characters(row["key"][1:])): int.from_bytes(row["value"], "big") for row in found} == {
        row["key"]: row["value"] for row in entries
    }


# -- files of a database -------------------------------------------------------------------------------------------


@pytest.fixture(params=FILES_OF_A_DATABASE)
def database(request: pytest.FixtureRequest, corpus: Path) -> RecordedSnapshot:
    return RecordedSnapshot(corpus / "lab" / request.param)


def test_its_states_are_listed_with_their_types(database: RecordedSnapshot, corpus: Path) -> None:
    canonical = lab(corpus, "2.2.1-hashmap-canonical")

    rows_of = [read(TableRequest(snapshot.path)).to_pylist() for snapshot in (database, canonical)]
    listed, expected = ({_listed(row) for row in table} for table in rows_of)

    # What a database wrote has read subclasses too.
    assert {row[:3] for row in listed} == {row[:3] for row in expected}
    assert len(listed & expected) >= len(expected) - 1
    # Values that Kryo wrote are BINARY, with a note; databases delimit them, so other states can be read.
    assert all(row["note"] is None or "KRYO<" in row["note"] for row in rows_of[0] if row["table"] == "keyed_state")


def _listed(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["operator_uid"] or row["operator_name"], row["table"], row["state"], row["kind"], row["value_type"]


# -- what is inside ------------------------------------------------------------------------------------------------


def test_every_state_is_listed_with_the_options_that_read_it(case: RecordedSnapshot) -> None:
    listed = {(row["operator_uid_hash"], row["state"]): row for row in read(TableRequest(case.path)).to_pylist()}
    hashes = {known["uid"] or known["name"]: known["operatorId"] for known in case.expected["operatorIds"]}

    for operator in [*case.operators("keyed"), *case.operators("operator")]:
        for state in operator["states"]:
            row = listed[hashes[operator["uid"]], state["name"]]
            assert row["kind"].lower() == state["kind"]
            assert row["ttl"] == state.get("ttl", False)
            assert dict(row["options"])["state"] == state["name"]


# -- SQL -----------------------------------------------------------------------------------------------------------


class Sql:
    """The SQL job: what its queries must have in state."""

    def __init__(self, snapshot: RecordedSnapshot) -> None:
        self.snapshot = snapshot
        (self.expected,) = snapshot.expected["operators"]
        self.input = {row["id"]: row for row in self.expected["rows"]}

    def state(self, uid: str, state: str) -> dict[str, Any]:
        """A state by its key, which is one column."""
        table = table_of(self.snapshot, uid=uid, state=state, decode=DecodeOptions())
        return {row["key"]["f0"]: row[state] for row in table.to_pylist()}


@pytest.fixture
def sql(corpus: Path) -> Sql:
    return Sql(lab(corpus, "2.2.1-hashmap-canonical-sql"))


def in_words(value: Any) -> Any:
    """A value of SQL in the words of the input rows."""
    if isinstance(value, dt.datetime):
        text = value.isoformat(timespec="milliseconds").removesuffix(".000")
        return text.removesuffix(":00") if value.second == 0 == value.microsecond else text
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, dict):
        return {"kind": "+I", "row": list(value.values())}
    if isinstance(value, list) and value and isinstance(value[0], tuple):
        return {"map": sorted(map(list, value))}
    return value


def row_in_words(row: dict[str, Any], columns: Sequence[str]) -> dict[str, Any]:
    words = {column: in_words(value) for column, value in zip(columns, row.values(), strict=True)}
    return words | ({"props": {"map": []}} if words.get("props") == [] else {})


def columns_of(row: dict[str, Any], columns: Sequence[str]) -> dict[str, Any]:
    return {column: row[column] for column in columns}


def test_sql_aggregates(sql: Sql) -> None:
    accumulators = sql.state("4_group-aggregate", "accState")
    distinct = sql.state("4_group-aggregate", "distinctAcc_0")

    fields = ("count", "sumDec", "maxTs", "minVc", "sumD", "countD")
    for group in sql.expected["group-aggregate"]:
        row = [in_words(value) for value in accumulators.pop(group["k"]).values()]
        # An average begins with a sum of zero.
        assert row[:6] == [{**group, "sumD": group["sumD"] or 0.0}[name] for name in fields]
        assert row[6] == len(group["distinctVc"])
        assert row[7]["row"][0] == group["lastI"]
        assert row[8] == group["maxFlag"]
        assert sorted(value for value, _ in distinct[group["k"]]) == sorted(group["distinctVc"])
    assert not accumulators


def test_sql_joins(sql: Sql) -> None:
    sides = {
        "left-records": (("id", "k", "tags", "props", "sub"), sql.expected["join-left-ids"]),
        "right-records": (("id", "k", "dec", "ts"), sql.expected["join-right-ids"]),
    }
    for state, (columns, ids) in sides.items():
        records = sql.state("11_join", state)
        found = []
        for key, entries in records.items():
            rows_of_key = [row_in_words(row, columns) for row, count in entries if count == 1]
            assert {row["k"] for row in rows_of_key} == {key}
            found += rows_of_key
        expected = [columns_of(sql.input[number], columns) for number in ids]
        assert sorted(found, key=lambda row: row["id"]) == expected


def test_sql_ranks(sql: Sql) -> None:
    ranked = sql.state("17_rank", "data-state-with-append")

    found = [[row["f1"], row["f2"], row["f0"]] for entries in ranked.values() for _, rows in entries for row in rows]

    assert sorted(found, key=str) == sorted(sql.expected["top-n"], key=str)


def test_sql_deduplicates(sql: Sql) -> None:
    first = sql.state("23_deduplicate", "deduplicate-state")
    last = sql.state("29_deduplicate", "deduplicate-state")

    assert first == {key: True for key, _ in sql.expected["dedup-first"]}
    columns = [*sql.expected["columns"], "pt"]
    for expected in sql.expected["dedup-last"]:
        assert row_in_words(last.pop(expected["k"]), columns) == {**expected, "pt": None}
    assert not last


def test_sql_keys_are_in_the_key_groups_that_flink_computes(sql: Sql) -> None:
    keys = json.dumps([{"f0": f"k{number}"} for number in range(60)])

    assert table_of(sql.snapshot, uid="11_join", keys=keys).num_rows == 60
    whole: Any = open_table(request_of(sql.snapshot, uid="11_join")).partitions(128)
    chosen: Any = open_table(request_of(sql.snapshot, uid="11_join", keys=keys)).partitions(128)
    assert len(chosen) < len(whole)
