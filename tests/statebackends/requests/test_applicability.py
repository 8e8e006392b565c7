"""Every option with every table: it has an effect, or is refused with a message that names where it applies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from pyspark_savepoint.formats.columns import Cursors
from pyspark_savepoint.formats.errors import OptionError, SavepointError, StateNotFoundError
from pyspark_savepoint.formats.metadata.identifiers import OperatorID
from pyspark_savepoint.formats.serializers.basic.primitives import BASE, NumberSerializer
from pyspark_savepoint.formats.snapshot.savepoint import find_snapshots
from pyspark_savepoint.options.option_fields import named
from pyspark_savepoint.options.options import SavepointReadOptions
from pyspark_savepoint.options.pickled_serializers import serializers_text
from pyspark_savepoint.statebackends.catalog.table import SCHEMAS
from pyspark_savepoint.statebackends.open_table import open_table, surveys
from pyspark_savepoint.statebackends.requests.applicability import (
    CATALOG,
    FEED,
    STREAM,
    SURVEYED,
    TABLES,
)
from tests.data import located, unpacked

SHOP = str(Path(__file__).parents[2] / "oracle" / "savepoints" / "shop" / "savepoint")
LAB, SQL, PYTHON = (
    "lab/2.2.1-hashmap-canonical/savepoint",
    "lab/2.2.1-hashmap-canonical-sql/savepoint",
    "real/pyf-120/sp",
)
APPLIES_TO = {name: found.metadata["tables"] for name, found in named(SavepointReadOptions) if found.metadata["doc"]}
OPTIONS = list(APPLIES_TO)
#: What selects the snapshot or the table, and what no small file can show: a bound of memory, files elsewhere, stores.
NOT_SHOWN = {
    "path", "table", "memory", "allowOutside", "checksums", "storageOptions", "node", "executionPlan",
    "streamGraphHasher", "versionAsOf", "timestampAsOf", "asOf", *FEED, *STREAM,
}  # fmt: skip

TRANSACTIONS = "connectors/2.3.0-txnsink"
ACCOUNTS, WINDOWS, STRINGS = {"uid": "accounts"}, {"uid": "orders-per-minute"}, {"uid": "kv-string"}
UNION = {"uid": "warehouse-export", "state": "exported_until"}
ROWS, KRYO = {"uid": "29_deduplicate"}, {"uid": "kv-kryo"}
PYFLINK, PYFLINK_WINDOWS = (
    {"uidHash": "43487588459d4ffdd9542da2da8250dd"},
    {"uidHash": "b00c6b12fa6d7e23a5fc7cadfeeca741"},
)


class Degrees(NumberSerializer):
    """A user's own serializer of a double."""

    @property
    def flink_type(self) -> str:
        return "DEGREES"

    def decode(self, at: Cursors) -> pa.Array:
        return pc.negate(super().decode(at))


BLOBS = {"uidHash": "6cdc5bb954874d922eaee11a8e7b5dd5"}
OPS = "real/ops-120/sp/savepoint-aa7dbf-00f6b2bc5fbb"
MONEY = "real/kryo-120/sp/savepoint-67b79c-7921d70754bb"
#: A value of each option that is refused, or accepted, by any table.
VALUES = {
    "uid": "accounts",
    "uidHash": "ffdd8bd9f03d703730273de9bc6fbec5",
    "operatorName": "accounts",
    "state": "total",
    "flatten": "true",
    "parallelism": "2",
    "undecodable": "error",
    "includeKeyGroup": "true",
    "includeTtl": "true",
    "includeStateWindow": "true",
    "fieldNames": '{"key": ["id"]}',
    "variants": "json",
    "includeInternal": "true",
    "includeRowKind": "true",
    "keys": "[1042]",
    "keyGroups": "0-5",
    "timestamps": "raw",
    "decimals": "string",
    "text": "replace",
    "raw": "total",
    "kryo": "2",
    "pickle": "true",
    "classes": str(unpacked() / "migration" / "classes"),
    "kryoTypes": "rd.KryoJob$Money(cents LONG, cur STRING)",
    "serializers": serializers_text({f"{BASE}DoubleSerializer$DoubleSerializerSnapshot": Degrees}),
    "connector": "kafka",
    "pyTypes": "v_long LONG",
    "recordTypes": '{"input 0": "LONG"}',
    "uids": "kv-string",
    "top": "1",
    "batchSize": "1",
}
#: Where the effect is seen: the file, the other options, and the value where it is another one.
Case = tuple[str, dict[str, str], str] | tuple[str, dict[str, str]]
SHOWN: dict[tuple[str, str], Case] = {
    ("keyed_state", "state"): (SHOP, ACCOUNTS),
    ("window_state", "state"): (LAB, {"uid": "window-global-count"}, "count"),
    ("timers", "state"): (SHOP, ACCOUNTS, "another"),
    ("operator_state", "state"): (LAB, {"uid": "op-list"}, "op-ints"),
    ("sizes", "state"): (SHOP, ACCOUNTS),
    ("heaviest_keys", "state"): (SHOP, ACCOUNTS),
    ("ttl_ages", "state"): (SHOP, ACCOUNTS),
    ("verification", "state"): (SHOP, ACCOUNTS),
    ("verification", "parallelism"): (SHOP, ACCOUNTS, "4"),
    ("verification", "keyGroups"): (SHOP, ACCOUNTS),
    ("verification", "batchSize"): (SHOP, ACCOUNTS),
    ("keyed_state", "flatten"): (SHOP, {**ACCOUNTS, "state": "recent_amounts"}),
    ("window_state", "flatten"): (LAB, {"uid": "window-tumbling-process"}),
    ("keyed_state", "parallelism"): (SHOP, ACCOUNTS),
    ("window_state", "parallelism"): (SHOP, WINDOWS),
    ("timers", "parallelism"): (SHOP, ACCOUNTS),
    ("operator_state", "parallelism"): (SHOP, UNION),
    ("sizes", "parallelism"): (SHOP, ACCOUNTS),
    ("heaviest_keys", "parallelism"): (SHOP, ACCOUNTS),
    ("ttl_ages", "parallelism"): (SHOP, ACCOUNTS),
    ("keyed_state", "undecodable"): (LAB, KRYO),
    ("keyed_state", "includeKeyGroup"): (SHOP, ACCOUNTS),
    ("window_state", "includeKeyGroup"): (SHOP, WINDOWS),
    ("timers", "includeKeyGroup"): (SHOP, ACCOUNTS),
    ("operator_state", "includeKeyGroup"): (SHOP, UNION),
    ("keyed_state", "includeTtl"): (SHOP, ACCOUNTS),
    ("window_state", "includeStateWindow"): (LAB, {"uid": "window-session"}),
    ("keyed_state", "fieldNames"): (SQL, ROWS),
    ("timers", "fieldNames"): (SQL, ROWS),
    ("states", "fieldNames"): (
        "sql/stream-exec-group-aggregate_1__group-aggregate-simple",
        {},
        '{"nodes": [{"id": 4, "type": "stream-exec-group-aggregate_1"}], "edges": []}',
    ),
    ("window_state", "fieldNames"): (
        "migration/sql/tumble-tvf/1.20.5-hashmap",
        {"uidHash": "f000e34621d6f6632f7734996d1780ad"},
    ),
    ("window_state", "includeInternal"): (OPS, {"uidHash": "f7b43fa0d92e9ecc5f5dea00de143f0a"}),
    ("keyed_state", "includeRowKind"): (SQL, ROWS),
    ("timers", "includeRowKind"): (SQL, ROWS),
    ("heaviest_keys", "includeRowKind"): (SQL, ROWS),
    ("states", "includeRowKind"): (SQL, {}),
    ("keyed_state", "keys"): (SHOP, ACCOUNTS),
    ("window_state", "keys"): (SHOP, WINDOWS, '["no such key"]'),
    ("timers", "keys"): (SHOP, ACCOUNTS),
    ("keyed_state", "keyGroups"): (SHOP, ACCOUNTS),
    ("window_state", "keyGroups"): (SHOP, WINDOWS),
    ("timers", "keyGroups"): (SHOP, ACCOUNTS),
    ("sizes", "keyGroups"): (SHOP, ACCOUNTS),
    ("heaviest_keys", "keyGroups"): (SHOP, ACCOUNTS),
    ("ttl_ages", "keyGroups"): (SHOP, ACCOUNTS),
    ("raw_keyed_state", "keyGroups"): (
        "datastream/udf-rocksdb_heap_timers-savepoint-1.10",
        {"uidHash": OperatorID.from_uid("by-long").hex},
        "0",
    ),
    ("keyed_state", "timestamps"): (LAB, STRINGS),
    ("window_state", "timestamps"): (SHOP, WINDOWS),
    ("timers", "timestamps"): (SHOP, WINDOWS),
    ("states", "timestamps"): (SHOP, {}),
    ("heaviest_keys", "timestamps"): (SHOP, WINDOWS),
    ("keyed_state", "decimals"): (LAB, {**STRINGS, "state": "big-int"}),
    ("states", "decimals"): (LAB, {}),
    ("keyed_state", "raw"): (SHOP, ACCOUNTS),
    ("window_state", "raw"): (SHOP, WINDOWS, "window"),
    ("timers", "raw"): (SHOP, ACCOUNTS, "key"),
    ("operator_state", "raw"): (SHOP, UNION, "exported_until"),
    ("keyed_state", "kryo"): (LAB, KRYO),
    ("keyed_state", "serializers"): (SHOP, ACCOUNTS),
    ("states", "serializers"): (SHOP, {}),
    ("keyed_state", "kryoTypes"): (MONEY, {"uid": "kryo", "state": "money"}),
    ("states", "kryoTypes"): (MONEY, {"uid": "kryo"}),
    ("keyed_state", "classes"): (MONEY, {"uid": "kryo", "state": "money"}, "/no/such.jar"),
    ("operator_state", "pickle"): (PYTHON, BLOBS),
    ("states", "pickle"): (PYTHON, BLOBS),
    ("keyed_state", "pyTypes"): (PYTHON, PYFLINK),
    ("keyed_state", "variants"): (PYTHON, PYFLINK),
    ("window_state", "pyTypes"): (PYTHON, PYFLINK_WINDOWS, "window-contents TUPLE<LONG, LONG>"),
    ("states", "pyTypes"): (PYTHON, PYFLINK),
    ("heaviest_keys", "top"): (SHOP, ACCOUNTS),
    ("states", "uids"): ("lab/1.20.5-hashmap-native/savepoint", {}),
    ("metadata", "uids"): ("lab/1.20.5-hashmap-native/savepoint", {}),
    ("states", "batchSize"): (SHOP, {}),
    ("metadata", "batchSize"): (SHOP, {}),
    ("statements", "batchSize"): (SHOP, {}),
    ("coordinator_state", "batchSize"): (SHOP, {}),
    ("keyed_state", "batchSize"): (SHOP, ACCOUNTS),
    ("window_state", "batchSize"): (SHOP, WINDOWS),
    ("timers", "batchSize"): (SHOP, ACCOUNTS),
    ("operator_state", "batchSize"): (SHOP, {"uid": "warehouse-export", "state": "pending_orders"}),
    ("sizes", "batchSize"): (SHOP, ACCOUNTS),
    ("heaviest_keys", "batchSize"): (SHOP, ACCOUNTS),
    ("ttl_ages", "batchSize"): (SHOP, ACCOUNTS),
    ("files", "uid"): (LAB, {}, "op-list"),
    ("files", "operatorName"): (LAB, {}, "no such"),
    ("files", "batchSize"): (SHOP, {}),
    ("splits", "connector"): (TRANSACTIONS, {}, "no such"),
    ("source_coordinator", "connector"): (TRANSACTIONS, {}, "no such"),
    ("committables", "connector"): (TRANSACTIONS, {}, "no such"),
    ("offsets", "connector"): (TRANSACTIONS, {}, "no such"),
    ("in_flight", "recordTypes"): (TRANSACTIONS, {}),
    ("in_flight", "state"): ("connectors/2.3.0-async", {}),
    ("committables", "batchSize"): (TRANSACTIONS, {}),
    **{
        (table, name): (SHOP, {})
        for table in ("states", "metadata", "sizes", "heaviest_keys", "statements", "coordinator_state")
        for name in ("uid", "operatorName")
    },
}


def test_tables_are_those_of_their_packages() -> None:
    assert tuple(SCHEMAS) == CATALOG
    assert tuple(surveys()) == SURVEYED


def read(path: str, **options: str) -> Any:
    """What a read shows: types, batches, rows, partitions; or what it is refused with."""
    try:
        if path != SHOP:
            options = {"path": find_snapshots(str(located(path)))[0].path, "allowOutside": "true", **options}
        parsed = SavepointReadOptions.parse({"path": SHOP, **options})
        table = open_table(parsed.request())
        partitions = table.partitions(parsed.parallelism or 1)
        batches = [batch for partition in partitions for batch in partition.batches()]
    except SavepointError as error:
        return str(error)
    rows = [str(row) for batch in batches for row in batch.to_pylist()]
    return str(table.schema), [len(batch) for batch in batches], rows, len(partitions)


@pytest.mark.parametrize("table", TABLES)
def test_what_does_not_apply_is_refused(table: str) -> None:
    operator = ACCOUNTS if table in APPLIES_TO["uid"] else {}
    for option in set(OPTIONS) - NOT_SHOWN:
        if table in APPLIES_TO[option]:
            continue
        text = read(SHOP, **{"table": table, **operator, option: VALUES[option]})
        assert isinstance(text, str), f"{option} is ignored"
        assert text.startswith(f"option '{option}' cannot apply to table '{table}'")
        assert "leave it out" in text or f"'{option}' is for {APPLIES_TO[option][0]}" in text


@pytest.mark.parametrize(("option", "value"), list(zip(STREAM, ("1", "false", "/pins"), strict=True)))
def test_options_of_streams_are_refused_by_reads(option: str, value: str) -> None:
    for table in TABLES:
        text = read(SHOP, **{"table": table, option: value})
        assert text == f"option '{option}' is for streams: spark.readStream"


def test_timers_are_rows_already() -> None:
    """``table=timers, flatten=true``: a timer is a row, so there is nothing to flatten."""
    text = read(SHOP, **ACCOUNTS, table="timers", flatten="true")
    assert text.startswith("option 'flatten' cannot apply to table 'timers'")
    assert "'flatten' is for keyed_state, window_state" in text


@pytest.mark.parametrize(
    ("pair", "case"),
    [
        pytest.param(pair, case, marks=[pytest.mark.resources] * case[0].startswith(("datastream/", "sql/")))
        for pair, case in SHOWN.items()
    ],
    ids=["-".join(pair) for pair in SHOWN],
)
def test_what_applies_has_an_effect(pair: tuple[str, str], case: Case) -> None:
    table, option = pair
    path, others = case[:2]
    value = case[2] if len(case) > 2 else VALUES[option]

    assert table in APPLIES_TO[option]
    without = read(path, table=table, **others)
    assert not isinstance(without, str) or option in ("timestamps", "state"), without
    assert read(path, **{"table": table, **others, option: value}) != without


def test_pairs_that_are_not_shown_are_few() -> None:
    """Of what applies: formats of values in tables whose values here have none of these types, operators by name."""
    accepted = {(t, o) for t in TABLES for o in set(OPTIONS) - NOT_SHOWN if t in APPLIES_TO[o]}
    assert set(SHOWN) <= accepted
    unshown = {option for _, option in accepted - set(SHOWN)}
    assert unshown <= {
        "uid", "uidHash", "operatorName", "undecodable", "includeRowKind", "timestamps", "decimals", "kryo", "pickle",
        "text", "batchSize", "includeTtl", "classes", "kryoTypes", "serializers", "variants",
    }  # fmt: skip


def test_the_table_that_is_read_without_being_named_counts() -> None:
    rates = {"uid": "currency-converter", "state": "rates"}
    text = read(SHOP, **rates, keys='["EUR"]', flatten="true")
    assert text.startswith("options 'flatten' and 'keys' cannot apply to table 'operator_state'")
    assert "'keys' is for keyed_state, window_state, timers" in text
    assert "cannot apply to table 'states'" in read(SHOP, keys="[1]")
    assert "'parallelism' cannot apply to broadcast state" in read(SHOP, **rates, parallelism="2")
    assert "option 'streamGraphHasher' is for operators" in read(SHOP, streamGraphHasher="v3")


def test_options_of_a_savepoint_hold_where_they_can() -> None:
    held = {"flatten": "true", "raw": "totl", "inherited": "flatten,RAW"}
    assert read(SHOP, **held) == read(SHOP)
    assert read(SHOP, **UNION, **held) == read(SHOP, **UNION)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({**ACCOUNTS, "raw": "totl"}, "option 'raw' names 'totl'(.|\n)*did you mean 'total'"),
        ({**ACCOUNTS, "raw": "window"}, "option 'raw' names 'window'"),
        ({**ACCOUNTS, "table": "timers", "raw": "total"}, "option 'raw' names 'total'"),
        ({**ACCOUNTS, "keyGroups": "5,128"}, "0 to 127, because its max parallelism is 128\n  found: 128"),
        ({**ACCOUNTS, "table": "sizes", "keyGroups": "128"}, "0 to 127, because its max parallelism is 128"),
    ],
)
def test_values_that_name_nothing_are_refused(options: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        open_table(SavepointReadOptions.parse({"path": SHOP, **options}).request())


def test_an_operator_without_operator_state_is_not_asked_for_a_name() -> None:
    with pytest.raises(StateNotFoundError, match=r"^the operator has no operator state\n"):
        open_table(SavepointReadOptions.parse({"path": SHOP, **ACCOUNTS, "table": "operator_state"}).request())


def test_union_state_is_read_in_as_many_parts_as_are_wanted() -> None:
    whole = read(SHOP, **UNION)
    for parts in ("2", "3", "7"):
        _, _, rows, count = read(SHOP, **UNION, parallelism=parts)
        assert rows == whole[2]
        assert count == min(int(parts), len(rows))
