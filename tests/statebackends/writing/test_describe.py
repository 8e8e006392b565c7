"""Descriptors from schemas and options: the defaults, the effect of options, and every error before a task runs."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pyspark_savepoint.formats.data_view import DataInputView, DataOutputView
from pyspark_savepoint.formats.errors import (
    OptionError,
    SavepointError,
    StateNotFoundError,
    TypeNotationError,
    UndecodableStateError,
)
from pyspark_savepoint.formats.keyed.meta_info import KeyedBackendHeader
from pyspark_savepoint.formats.metadata.operator_handles import Mode
from pyspark_savepoint.formats.serializers.sql.rowdata import RowDataSerializer
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.statebackends.rows.descriptors import (
    KeyedDescriptor,
    OperatorStateDescriptor,
)
from pyspark_savepoint.statebackends.sources.open_operator import OpenOperator
from pyspark_savepoint.statebackends.writing.planning.describe_state import describe_keyed, describe_operator_state
from pyspark_savepoint.statebackends.writing.planning.exact_casts import timer_millis
from pyspark_savepoint.statebackends.writing.planning.flink_types import (
    DEFAULTS,
    REMEDIES,
    default_serializer,
    defaults_table,
)
from pyspark_savepoint.statebackends.writing.planning.write_request import WriteRequest

LONG, INT, TEXT = pa.int64(), pa.int32(), pa.string()
MOMENT = pa.timestamp("us", "UTC")
WINDOW = pa.struct([("start", MOMENT), ("end", MOMENT)])
PERSON = pa.struct([("id", LONG), ("name", TEXT)])
VARIANT = pa.struct(
    [pa.field("value", pa.binary(), False), pa.field("metadata", pa.binary(), False, metadata={b"variant": b"true"})]
)


def keyed(fields: dict[str, pa.DataType], **options: Any) -> KeyedDescriptor:
    options = {"key": ("id",), **options} if options.get("table") != "timers" else options
    return describe_keyed(pa.schema(list(fields.items())), WriteRequest("/new", uid="u", **options), None)


def states(fields: dict[str, pa.DataType], **options: Any) -> dict[str, tuple[str, str]]:
    described = keyed({"id": LONG, **fields}, **options)
    return {state.name: (state.kind.value, state.serializer.flink_type) for state in described.states}


def state(kind: pa.DataType, **options: Any) -> tuple[str, str]:
    return states({"x": kind}, **options)["x"]


# -- defaults ------------------------------------------------------------------------------------------------------

TYPES: list[tuple[pa.DataType, str, str]] = [
    (pa.bool_(), "VALUE", "BOOLEAN"),
    (pa.int8(), "VALUE", "BYTE"),
    (pa.int16(), "VALUE", "SHORT"),
    (INT, "VALUE", "INT"),
    (LONG, "VALUE", "LONG"),
    (pa.float32(), "VALUE", "FLOAT"),
    (pa.float64(), "VALUE", "DOUBLE"),
    (TEXT, "VALUE", "STRING"),
    (pa.large_string(), "VALUE", "STRING"),
    (pa.binary(), "VALUE", "PRIMITIVE_ARRAY<BYTE>"),
    (pa.date32(), "VALUE", "LOCAL_DATE"),
    (MOMENT, "VALUE", "INSTANT"),
    (pa.timestamp("us", "Asia/Tokyo"), "VALUE", "INSTANT"),
    (pa.timestamp("us"), "VALUE", "LOCAL_DATE_TIME"),
    (pa.time64("ns"), "VALUE", "LOCAL_TIME"),
    (pa.decimal128(10, 2), "VALUE", "BIG_DECIMAL"),
    (pa.decimal128(38, 0), "VALUE", "BIG_DECIMAL"),
    (pa.list_(LONG), "LIST", "LIST<LONG>"),
    (pa.list_(pa.list_(TEXT)), "LIST", "LIST<LIST<STRING>>"),
    (pa.map_(TEXT, pa.list_(INT)), "MAP", "MAP<STRING, LIST<INT>>"),
    (PERSON, "VALUE", "ROW<id LONG, name STRING>"),
    (pa.struct([("f0", LONG), ("f1", TEXT)]), "VALUE", "TUPLE<LONG, STRING>"),
    (pa.struct([("f0", LONG), ("f1", TEXT), ("__row_kind", TEXT)]), "VALUE", "ROW<LONG, STRING>"),
    (pa.struct([(f"f{i}", INT) for i in range(26)]), "VALUE", "ROW<" + ", ".join(["INT"] * 26) + ">"),
]


@pytest.mark.parametrize(("kind", "state_kind", "flink"), TYPES)
def test_default_types(kind: pa.DataType, state_kind: str, flink: str) -> None:
    assert state(kind) == (state_kind, flink)


def test_the_table_for_people_says_the_same() -> None:
    table = defaults_table()
    assert len(table.splitlines()) == len(DEFAULTS) + 2
    for _, _, flink in TYPES:
        name = flink.partition("<")[0]
        assert f"{name}" in table or flink in table


@pytest.mark.parametrize(
    ("kind", "remedy"),
    [
        (pa.duration("us"), REMEDIES["interval"]),
        (pa.null(), REMEDIES["void"]),
        (VARIANT, REMEDIES["variant"]),
        (pa.struct([]), "ROW<> or TUPLE<>"),
        (pa.list_(pa.duration("us")), "'x.element'"),
    ],
)
def test_types_without_a_counterpart(kind: pa.DataType, remedy: str) -> None:
    with pytest.raises(OptionError) as caught:
        state(kind)
    assert remedy in str(caught.value)
    assert "column 'x" in str(caught.value)
    assert "operator: u" in str(caught.value)


def test_what_newer_releases_have() -> None:
    assert state(VARIANT, flink_version=(2, 1)) == ("VALUE", "VARIANT")
    assert state(pa.list_(TEXT), types={"x": "SET<STRING>"}, flink_version=(2, 0)) == ("VALUE", "SET<STRING>")
    with pytest.raises(TypeNotationError, match=r"SET came with Flink 2\.0"):
        state(pa.list_(TEXT), types={"x": "SET<STRING>"})
    assert default_serializer(LONG) == default_serializer(LONG, "x", (2, 3))


# -- kinds and types -----------------------------------------------------------------------------------------------


def test_of_a_list_the_type_of_the_list_or_of_its_elements() -> None:
    for text in ("INT", "LIST<INT>"):
        assert state(pa.list_(LONG), types={"x": text}) == ("LIST", "LIST<INT>")
    assert state(pa.list_(pa.list_(LONG)), types={"x": "LIST<INT>"}) == ("LIST", "LIST<LIST<INT>>")
    assert state(pa.list_(LONG), types={"x": "PRIMITIVE_ARRAY<LONG>"}) == ("VALUE", "PRIMITIVE_ARRAY<LONG>")
    assert state(pa.list_(LONG), types={"x": "NULLABLE<LIST<LONG>>"}) == ("VALUE", "NULLABLE<LIST<LONG>>")
    assert state(pa.list_(LONG), types={"x": "LIST<LONG>"}, states={"x": "value"}) == ("VALUE", "LIST<LONG>")
    assert state(pa.map_(TEXT, LONG), states={"x": "VALUE"}) == ("VALUE", "MAP<STRING, LONG>")
    assert state(LONG, states={"x": "reducing"}) == ("REDUCING", "LONG")
    assert state(PERSON, states={"x": "aggregating"}, types={"x": "TUPLE<LONG, STRING>"})[0] == "AGGREGATING"


def test_types_of_parts() -> None:
    nested = pa.list_(pa.struct([("id", LONG), ("tags", pa.map_(TEXT, LONG))]))
    assert state(nested, types={"x.element.id": "INT", "x.element.tags.value": "NULLABLE<INT>"}) == (
        "LIST",
        "LIST<ROW<id INT, tags MAP<STRING, NULLABLE<INT>>>>",
    )


REFUSED: list[tuple[pa.DataType, dict[str, Any], str]] = [
    (TEXT, {"types": {"x": "LONG"}}, "cast it to bigint"),
    (TEXT, {"types": {"x": "LONGG"}}, "option 'types', 'x': not a type"),
    (TEXT, {"types": {"y": "LONG"}}, "option 'types' names column 'y'"),
    (PERSON, {"types": {"x.nmae": "LONG"}}, "did you mean 'x.name'"),
    (TEXT, {"states": {"y": "value"}}, "option 'states' names column 'y'"),
    (TEXT, {"states": {"x": "lsit"}}, "did you mean 'list'"),
    (TEXT, {"states": {"x": "timer"}}, "not a kind of state"),
    (TEXT, {"states": {"x": "list"}}, "cannot be list state"),
    (
        pa.map_(TEXT, TEXT),
        {"states": {"x": "map"}, "types": {"x": "LIST<STRING>"}},
        "cannot be written as LIST<STRING>",
    ),
    (pa.list_(TEXT), {"types": {"x": "LONG"}}, "cannot be written as LONG"),
    (TEXT, {"ttl": ("y",)}, "option 'ttl' names column 'y'"),
    (PERSON, {"types": {"x": "POJO<A>(id LONG, nome STRING)"}}, "did you mean 'name'?"),
    (pa.binary(), {"types": {"x": "KRYO<com.shop.Order>"}}, "option 'typesFrom'"),
]


@pytest.mark.parametrize(("kind", "options", "message"), REFUSED)
def test_refusals_name_column_and_remedy(kind: pa.DataType, options: dict[str, Any], message: str) -> None:
    with pytest.raises(SavepointError) as caught:
        state(kind, **options)
    assert message in str(caught.value)


def test_no_state_and_states_of_one_name() -> None:
    with pytest.raises(OptionError, match="no column for a state"):
        keyed({"id": LONG})
    with pytest.raises(OptionError, match="no column 'id' for the key"):
        keyed({"Id": LONG, "x": LONG})


# -- keys ----------------------------------------------------------------------------------------------------------


def key(fields: dict[str, pa.DataType], **options: Any) -> tuple[tuple[str, ...], str, bool]:
    found = keyed({**fields, "x": LONG}, key=tuple(fields), **options)
    return found.key_columns, found.key_serializer.flink_type, found.is_composite


def test_keys() -> None:
    assert key({"a": LONG}) == (("a",), "LONG", False)
    assert key({"a": LONG}, types={"a": "INT"}) == (("a",), "INT", False)
    assert key({"a": LONG}, types={"key": "INT"}) == (("a",), "INT", False)
    assert key({"a": LONG, "b": TEXT}) == (("a", "b"), "TUPLE<LONG, STRING>", True)
    assert key({"a": LONG, "b": TEXT}, types={"b": "CHAR"}) == (("a", "b"), "TUPLE<LONG, CHAR>", True)
    assert key({"a": LONG, "b": TEXT}, types={"key": "ROW<b STRING, a INT>"}) == (
        ("b", "a"),
        "ROW<b STRING, a INT>",
        True,
    )
    assert key({"a": LONG, "b": TEXT}, types={"key": "ROW<INT, STRING>"}) == (("a", "b"), "ROW<INT, STRING>", True)
    assert key({"a": PERSON}) == (("a",), "ROW<id LONG, name STRING>", False)
    # keyBy of a field makes tuples of one, SQL rows of one.
    assert key({"a": LONG}, types={"a": "TUPLE<LONG>"}) == (("a",), "TUPLE<LONG>", True)
    assert key({"a": LONG}, types={"key": "ROWDATA<id BIGINT NOT NULL>"})[::2] == (("a",), True)
    sql = keyed({"a": LONG, "b": TEXT, "x": LONG}, key=("a", "b"), types={"key": "ROWDATA<BIGINT, STRING>"})
    assert isinstance(sql.key_serializer, RowDataSerializer)
    assert sql.key_serializer.generated
    many = {f"c{i}": LONG for i in range(26)}
    with pytest.raises(OptionError, match=r"exceeds the 25 fields(.|\n)*ROW<"):
        key(many)
    assert key(many, types={"key": "ROW<" + ", ".join(["LONG"] * 26) + ">"})[2]


HASHLESS = [
    (TEXT, "SCALA_ENUM<com.shop.Color>(A=0, B=1)"),
    (PERSON, "POJO<com.shop.Person>(id LONG, name STRING)"),
    (PERSON, "TUPLE<LONG, SCALA_ENUM<com.shop.Color>(A=0)>"),
    (pa.list_(TEXT), "LIST<ENUM<com.shop.Color>(A, B)>"),
    (pa.struct([("_1", LONG)]), "CASE_CLASS<com.shop.Id>(_1 LONG)"),
]


@pytest.mark.parametrize(("kind", "text"), HASHLESS)
def test_keys_whose_hash_only_user_code_knows(kind: pa.DataType, text: str) -> None:
    with pytest.raises(UndecodableStateError, match=r"defined by the job's own code(.|\n)*option..keyGroup"):
        key({"a": kind}, types={"a": text})
    fields = {"a": kind, "group": INT, "x": LONG}
    given = keyed(fields, key=("a",), types={"a": text}, key_group="group")
    assert given.key_group == "group"
    assert [state.name for state in given.states] == ["x"]
    with pytest.raises(OptionError, match="no column 'groop'"):
        keyed(fields, key=("a",), types={"a": text}, key_group="groop")
    with pytest.raises(OptionError, match="is not an integer"):
        keyed({**fields, "group": TEXT}, key=("a",), types={"a": text}, key_group="group")


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (pa.binary(), "PRIMITIVE_ARRAY<BYTE>"),
        (pa.list_(LONG), "PRIMITIVE_ARRAY<LONG>"),
        (pa.list_(LONG), "OBJECT_ARRAY<LONG>"),
        (pa.struct([("f0", pa.list_(TEXT))]), "TUPLE<BASIC_ARRAY<STRING>>"),
        (pa.struct([("f0", pa.list_(LONG))]), "ROW<PRIMITIVE_ARRAY<LONG>>"),
        (TEXT, "ENUM<com.shop.Color>(A, B)"),
        (PERSON, "TUPLE<LONG, ENUM<com.shop.Color>(A)>"),
        (PERSON, "ROW<LONG, ENUM<com.shop.Color>(A)>"),
    ],
)
def test_arrays_and_enums_are_no_keys(kind: pa.DataType, text: str) -> None:
    what = r"is an enum(.|\n)*keyBy\(value -> value.name\(\)\)" if "ENUM" in text else "is an array"
    with pytest.raises(OptionError, match=f"refused by Flink: .*{what}"):
        key({"a": kind}, types={"a": text})
    with pytest.raises(OptionError, match="refused by Flink"):
        keyed({"a": kind, "group": INT, "x": LONG}, key=("a",), types={"a": text}, key_group="group")


def test_keys_of_pyflink_are_rows_of_bytes() -> None:
    assert key({"a": pa.binary()}, types={"a": "ROW<PRIMITIVE_ARRAY<BYTE>>"})[1:] == (
        "ROW<PRIMITIVE_ARRAY<BYTE>>",
        True,
    )


# -- time to live --------------------------------------------------------------------------------------------------


def test_units_with_a_time_to_live() -> None:
    fields = {"v": LONG, "l": pa.list_(LONG), "m": pa.map_(TEXT, LONG), "w": pa.list_(LONG)}
    kinds = {"w": "value"}
    assert states(fields, ttl=True, states=kinds) == {
        "v": ("VALUE", "TTL<LONG>"),
        "l": ("LIST", "LIST<TTL<LONG>>"),
        "m": ("MAP", "MAP<STRING, TTL<LONG>>"),
        "w": ("VALUE", "TTL<LIST<LONG>>"),
    }
    assert states(fields, ttl=("v",), states=kinds)["l"] == ("LIST", "LIST<LONG>")
    assert states({"v": LONG}, ttl=True, types={"v": "TTL<LONG>"}) == {"v": ("VALUE", "TTL<LONG>")}


def test_columns_of_last_access() -> None:
    fields = {"id": LONG, "m": pa.map_(TEXT, LONG), "m__last_access": pa.map_(TEXT, MOMENT), "y__last_access": LONG}
    described = keyed(fields, ttl=("m",))
    assert [(state.name, state.last_access) for state in described.states] == [
        ("m", "m__last_access"),
        ("y__last_access", None),
    ]
    with pytest.raises(OptionError, match=r"has no time to live(.|\n)*option\('ttl'"):
        keyed(fields)
    with pytest.raises(OptionError, match="'m__last_access' cannot be written"):
        keyed({**fields, "m__last_access": MOMENT}, ttl=("m",))


# -- windows and timers --------------------------------------------------------------------------------------------


def test_windows() -> None:
    fields = {"id": LONG, "window": WINDOW, "window-contents": pa.list_(LONG)}
    described = keyed(fields, table="window_state")
    assert described.namespace is not None
    assert described.namespace.flink_type == "TIME_WINDOW"
    assert described.namespace_column == "window"
    assert [state.namespace for state in described.states] == [described.namespace]
    for void in ({**fields, "window": pa.null()}, {name: fields[name] for name in ("id", "window-contents")}):
        options = {} if "window" in void else {"types": {"window": "GLOBAL_WINDOW"}}
        whole = keyed(void, table="window_state", **options)
        assert whole.namespace is not None
        assert (whole.namespace.flink_type, whole.namespace_column) == ("GLOBAL_WINDOW", None)
    slices = keyed({**fields, "window": LONG}, table="window_state", types={"window": "LONG"})
    assert slices.namespace is not None
    assert slices.namespace.flink_type == "LONG"
    with pytest.raises(OptionError, match=r"the type of 'window' is not known(.|\n)*COUNT_WINDOW"):
        keyed({**fields, "window": LONG}, table="window_state")
    with pytest.raises(OptionError, match="no column 'window'"):
        keyed({"id": LONG, "x": LONG}, table="window_state", types={"window": "TIME_WINDOW"})


def test_timers() -> None:
    fields = {"key": LONG, "timestamp": LONG, "domain": TEXT, "service": TEXT}
    described = keyed(fields, table="timers")
    names = ["_timer_state/event_user-timers", "_timer_state/processing_user-timers"]
    assert [state.name for state in described.states] == names
    assert {state.serializer.flink_type for state in described.states} == {"TIMER<LONG, VOID_NAMESPACE>"}
    assert [(state.domain, state.service) for state in described.states] == [
        ("event", "user-timers"),
        ("processing", "user-timers"),
    ]
    windows = keyed({**fields, "namespace": WINDOW}, table="timers")
    assert windows.states[0].name == "_timer_state/event_window-timers"
    assert windows.namespace_column == "namespace"
    several = keyed(fields, table="timers", state="a, b")
    assert [state.service for state in several.states] == ["a", "a", "b", "b"]
    for wrong, message in (
        ({"key": LONG, "domain": TEXT}, "no column 'timestamp'"),
        ({"key": LONG, "timestamp": LONG}, "one of event, processing"),
        ({**fields, "tmestamp": LONG}, "did you mean 'timestamp'"),
        ({**fields, "timestamp": TEXT}, "column 'timestamp' cannot be written"),
        ({**fields, "domain": LONG}, "column 'domain' cannot be written"),
    ):
        with pytest.raises(OptionError) as caught:
            keyed(wrong, table="timers")
        assert message in str(caught.value)


def test_times_of_timers() -> None:
    assert timer_millis(pa.array([-5, 7])).to_pylist() == [-5, 7]
    assert timer_millis(pa.array([1_500_000], pa.timestamp("us", "Asia/Tokyo"))).to_pylist() == [1500]
    with pytest.raises(SavepointError, match="whole milliseconds"):
        timer_millis(pa.array([1], MOMENT))


# -- operator state ------------------------------------------------------------------------------------------------


def operator_state(fields: dict[str, pa.DataType], **options: Any) -> OperatorStateDescriptor:
    return describe_operator_state(pa.schema(list(fields.items())), WriteRequest("/new", uid="u", **options))


def test_operator_state() -> None:
    one = operator_state({"x": PERSON}, table="operator_state", state="s", types={"x": "TUPLE<INT, STRING>"})
    assert (one.name, one.mode, one.element.flink_type, one.columns) == (
        "s",
        Mode.SPLIT_DISTRIBUTE,
        "TUPLE<INT, STRING>",
        ("x",),
    )
    assert (
        operator_state({"value": LONG}, table="operator_state", kind="union", state="s").meta_info().state_type
        == "UNION"
    )
    both = operator_state({"key": TEXT, "value": LONG}, table="operator_state", state="s", types={"value": "INT"})
    assert both.key is not None
    assert (both.key.flink_type, both.element.flink_type) == ("STRING", "INT")
    assert list(both.meta_info().serializers) == ["VALUE_SERIALIZER", "KEY_SERIALIZER"]
    for fields, options, message in (
        ({"x": LONG}, {"table": "operator_state"}, "option('state', ...)"),
        ({"x": LONG, "y": LONG}, {"table": "operator_state", "state": "s"}, "one column of structs"),
        ({"value": LONG, "y": LONG}, {"table": "operator_state", "state": "s"}, "'y' does not belong to a list state"),
        ({"value": LONG}, {"table": "operator_state", "kind": "broadcast", "state": "s"}, "no column 'key'"),
        ({"value": LONG}, {"table": "operator_state", "state": "s", "types": {"x": "INT"}}, "names column 'x'"),
    ):
        with pytest.raises(OptionError) as caught:
            operator_state(fields, **options)
        assert message in str(caught.value)


# -- from a savepoint ----------------------------------------------------------------------------------------------


@pytest.fixture
def lab(corpus: Path) -> Path:
    return corpus / "lab" / "2.2.1-hashmap-canonical" / "savepoint"


def test_types_from_a_savepoint(lab: Path) -> None:
    fields = {
        "key": LONG,
        "v-long": INT,
        "ttl-list": pa.list_(TEXT),
        "reduce-long": LONG,
        "agg-avg": pa.struct([("s", LONG), ("n", LONG)]),
    }
    found = keyed(fields, key=(), type_source=f"{lab}#kv-long")
    assert {state.name: (state.kind.value, state.serializer.flink_type) for state in found.states} == {
        "v-long": ("VALUE", "LONG"),
        "ttl-list": ("LIST", "LIST<TTL<STRING>>"),
        "reduce-long": ("REDUCING", "LONG"),
        "agg-avg": ("AGGREGATING", "TUPLE<LONG, LONG>"),
    }
    own = keyed({**fields, "new": LONG}, key=(), type_source=f"{lab}#kv-long", types={"new": "INT"})
    assert own.states[-1].serializer.flink_type == "INT"
    with pytest.raises(StateNotFoundError, match=r"no keyed state 'v-lomg'(.|\n)*did you mean 'v-long'"):
        keyed({"key": LONG, "v-lomg": LONG}, key=(), type_source=f"{lab}#kv-long")
    with pytest.raises(SavepointError, match="did you mean 'kv-long'"):
        keyed(fields, key=(), type_source=f"{lab}#kv-lomg")
    with pytest.raises(OptionError, match="'reduce-long' is value in option 'states', but the state is reducing"):
        keyed(fields, key=(), type_source=f"{lab}#kv-long", states={"reduce-long": "value"})
    with pytest.raises(UndecodableStateError, match=r"column 'no-default'(.|\n)*passes states"):
        keyed({"key": INT, "no-default": pa.binary()}, key=(), type_source=f"{lab}#kv-kryo")
    uid_hash = str(Snapshot.open(str(lab)).operator(uid="kv-long").operator_id)
    assert keyed(fields, key=(), type_source=f"{lab}#{uid_hash}").states == found.states


def test_the_key_of_the_operator_that_is_there(lab: Path) -> None:
    savepoint = Snapshot.open(str(lab))
    base = OpenOperator(savepoint, savepoint.operator(uid="kv-tuple")).keyed
    schema = pa.schema([("name", TEXT), ("number", LONG), ("timestamp", LONG), ("domain", TEXT)])
    request = WriteRequest("/new", uid="u", table="timers", key=("name", "number"))
    described = describe_keyed(schema, request, base)
    assert described.key_serializer == base.headers[0].key_serializer  # TUPLE<STRING, INT>
    assert described.key_columns == ("name", "number")


def test_descriptors_pickle_and_write_headers() -> None:
    described = keyed(
        {"id": LONG, "v": PERSON, "l": pa.list_(TEXT)}, types={"v": "POJO<A>(id LONG, name STRING)"}, ttl=True
    )
    assert pickle.loads(pickle.dumps(described)) == described
    view = DataOutputView()
    described.header(compressed=True).write(view)
    read = KeyedBackendHeader.read(DataInputView(view.getvalue()))
    assert read.compressed
    assert read.states == described.header().states


# -- types as a job infers them --------------------------------------------------------------------------------


ORDER = pa.struct([("id", LONG), ("lines", pa.list_(TEXT))])
WORDS = "POJO<com.shop.Order>(id LONG, lines LIST<STRING>)"
INFERRED = "POJO<com.shop.Order>(id LONG, lines NULLABLE<LIST<NULLABLE<STRING>>>)"


def test_types_are_declared_or_inferred() -> None:
    assert state(ORDER, types={"x": WORDS}) == ("VALUE", WORDS)
    assert state(ORDER, types={"x": WORDS}, inferred_by="2.2") == ("VALUE", INFERRED)
    # The list or map of a state is its own; one that is a value is a class to Flink.
    lists = pa.list_(ORDER)
    assert state(lists, types={"x": f"LIST<{WORDS}>"}, inferred_by="2.2") == ("LIST", f"LIST<{INFERRED}>")
    assert state(lists, types={"x": WORDS}, inferred_by="2.2") == ("LIST", f"LIST<{INFERRED}>")
    assert state(lists, types={"x": f"LIST<{WORDS}>"}, states={"x": "value"}, inferred_by="2.2") == (
        "VALUE",
        f"NULLABLE<LIST<NULLABLE<{INFERRED}>>>",
    )
    maps = pa.map_(TEXT, ORDER)
    assert state(maps, types={"x": f"MAP<STRING, {WORDS}>"}, inferred_by="2.2") == ("MAP", f"MAP<STRING, {INFERRED}>")
    # Parts of columns, and columns that nobody names.
    rows = pa.struct([("order", ORDER)])
    assert state(rows, types={"x.order": WORDS}, inferred_by="2.2") == ("VALUE", f"ROW<order {INFERRED}>")
    assert state(lists, inferred_by="2.2") == ("LIST", "LIST<ROW<id LONG, lines LIST<STRING>>>")
    found = operator_state({"x": ORDER}, table="operator_state", state="s", types={"x": WORDS}, inferred_by="2.2")
    assert found.element.flink_type == INFERRED


def test_what_a_release_leaves_to_kryo_is_refused() -> None:
    with pytest.raises(TypeNotationError, match=r"option 'types', 'x': Flink 1\.20 uses Kryo for lines") as caught:
        state(ORDER, types={"x": WORDS}, inferred_by="1.20")
    assert "2.0 and later have serializers for lists" in str(caught.value)


def test_types_from_class_files(corpus: Path) -> None:
    classes = (str(corpus / "migration" / "classes"),)
    address = pa.struct([("street", TEXT), ("zip", INT)])
    types = {"x": "miglab.Model$Addr"}
    expected = ("VALUE", "POJO<miglab.Model$Addr>(street STRING, zip INT)")
    assert state(address, types=types, inferred_by="2.2", class_path=classes) == expected
    with pytest.raises(TypeNotationError, match="class files"):
        state(address, types={"x": "POJO<miglab.Model$Addr>"})
