from __future__ import annotations

import dataclasses
import pickle
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_savepoint.formats.columns import DecodeOptions
from pyspark_savepoint.formats.errors import OptionError
from pyspark_savepoint.formats.redaction import elide
from pyspark_savepoint.options.option_fields import MAX_VALUE, named
from pyspark_savepoint.options.options import ELSEWHERE, SavepointReadOptions, options_table
from pyspark_savepoint.statebackends.requests.request import TableRequest

NAMES = [name for name, found in named(SavepointReadOptions) if found.metadata["doc"]]


def parse(**options: str) -> SavepointReadOptions:
    return SavepointReadOptions.parse({"path": "/sp", **options})


def problems(**options: str) -> str:
    with pytest.raises(OptionError) as raised:
        parse(**options)
    return str(raised.value)


@pytest.mark.parametrize(
    ("name", "text", "field", "value"),
    [
        ("uid", "summarize", "uid", "summarize"),
        ("uidHash", "0b637ce1b947c559bb5f723647b7cc8e", "uid_hash", "0b637ce1b947c559bb5f723647b7cc8e"),
        ("operatorName", "Source: orders", "operator_name", "Source: orders"),
        ("table", "Keyed_State", "table", "keyed_state"),
        ("state", "a, b", "state", "a, b"),
        ("flatten", "TRUE", "flatten", True),
        ("parallelism", " 7 ", "parallelism", 7),
        ("undecodable", "error", "undecodable", "error"),
        ("includeKeyGroup", "true", "include_key_group", True),
        ("includeTtl", "true", "include_ttl", True),
        ("includeInternal", "true", "include_internal", True),
        ("includeRowKind", "false", "include_row_kind", False),
        ("keys", '["a", 1]', "keys", '["a", 1]'),
        ("keyGroups", "40-45,77, 5 - 6, 6-8", "key_groups", ((5, 8), (40, 45), (77, 77))),
        ("timestamps", "truncate", "timestamps", "truncate"),
        ("decimals", "38, 18", "decimals", "38,18"),
        ("decimals", "String", "decimals", "string"),
        ("raw", "a, b,", "raw", ("a", "b")),
        ("kryo", "auto", "kryo", None),
        ("kryo", "2", "kryo", 2),
        ("classes", "/a.jar, /b", "classes", ("/a.jar", "/b")),
        ("classes", '["/a,b.jar"]', "classes", ("/a,b.jar",)),
        ("kryoTypes", " A(b LONG) ", "kryo_types", "A(b LONG)"),
        ("pickle", "true", "pickle", True),
        ("allowOutside", "true", "allow_outside", True),
        ("batchSize", "1", "batch_size", 1),
        ("memory", "512K", "memory", None),
        ("memory", "64mb", "memory", 64 << 20),
        ("memory", "1g", "memory", 1 << 30),
        ("memory", "2097152", "memory", 2 << 20),
    ],
)
def test_a_value(name: str, text: str, field: str, value: Any) -> None:
    if name == "memory" and value is None:
        assert problems(memory=text) == "option 'memory' is '512K', expected a size from 1m to 1t, such as 64m"
    else:
        assert getattr(parse(**{name: text}), field) == value


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("uid", "  "),
        ("table", "tables"),
        ("flatten", "yes"),
        ("flatten", "1"),
        ("parallelism", "0"),
        ("parallelism", "32769"),
        ("parallelism", "-1"),
        ("parallelism", "²"),
        ("parallelism", "9" * 5000),
        ("keys", '{"a": 1}'),
        ("keys", "[" * 100_000),
        ("keyGroups", "5-3"),
        ("keyGroups", "32768"),
        ("keyGroups", "1,,2"),
        ("decimals", "39,0"),
        ("decimals", "5,6"),
        ("decimals", "0,0"),
        ("raw", " , "),
        ("kryo", "4"),
        ("classes", "[1]"),
        ("kryoTypes", "A(b"),
        ("serializers", "gASVBQAAAAAAAABLAS4="),
        ("batchSize", "0"),
        ("memory", "1.5g"),
        ("memory", "9" * 13 + "t"),
    ],
)
def test_a_value_that_cannot_be(name: str, text: str) -> None:
    shown = elide(repr(text), MAX_VALUE)
    assert problems(**{name: text}).startswith(f"option '{name}' is {shown}, expected ")


def test_keys_are_case_insensitive() -> None:
    assert parse(UIDHASH="a", ParAllelism="3") == parse(uidhash="a", parallelism="3")


def test_everything_that_is_wrong_is_said_at_once() -> None:
    text = problems(tabel="states", flatten="yes", parallelism="many")
    assert text.splitlines() == [
        "3 things are wrong with the options:",
        "  there is no option 'tabel', did you mean 'table' or 'state'?",
        "  option 'flatten' is 'yes', expected true or false",
        "  option 'parallelism' is 'many', expected a whole number from 1 to 32768",
    ]


@pytest.mark.parametrize(
    ("typo", "name"),
    [("udi", "uid"), ("uid_hash", "uidHash"), ("keygroup", "keyGroups"), ("includettl_", "includeTtl")],
)
def test_an_unknown_option_leads_to_the_nearest(typo: str, name: str) -> None:
    assert f"did you mean '{name}'" in problems(**{typo: "1"})


@pytest.mark.parametrize("name", ELSEWHERE)
def test_an_option_of_another_source_leads_to_what_there_is(name: str) -> None:
    sentence = problems(**{name.upper(): "1"})
    assert sentence.startswith(f"there is no option '{name.upper()}': ")
    values = {"_change_type", "update_preimage", "update_postimage"}
    assert {*re.findall(r"'(\w+)'", sentence.partition(": ")[2])} <= {*NAMES, *values}
    assert name not in {each.lower() for each in NAMES}


def test_an_option_that_is_like_none_lists_all() -> None:
    assert problems(zzzz="1") == f"there is no option 'zzzz'; options are {', '.join(NAMES)}"


def test_an_operator_is_named_once() -> None:
    assert problems(uid="a", operatorName="b") == (
        "options 'uid' and 'operatorName' each name the operator: give one of them"
    )


def test_the_request_knows_which_options_were_given() -> None:
    parsed = parse(table="states", flatten="false", keys="[1]", timestamps="micros", raw="a", inherited="RAW")
    assert set(parsed.request().explicit_options) == {"path", "table", "keys"}


def test_a_path_is_needed() -> None:
    with pytest.raises(OptionError, match=r"no path is given(.|\n)*WITH \(path"):
        SavepointReadOptions.parse({})


def test_a_list_of_one_path_is_that_path() -> None:
    assert SavepointReadOptions.parse({"paths": '["/sp"]'}).path == "/sp"


@pytest.mark.parametrize("paths", ['["/a", "/b"]', "[]", "[1]", "{}", "no JSON"])
def test_several_paths_are_refused(paths: str) -> None:
    with pytest.raises(OptionError, match="load\\(\\) takes one path"):
        SavepointReadOptions.parse({"paths": paths})


def test_properties_that_create_table_adds_are_not_options() -> None:
    created = {"path": "file:/sp", "location": "file:/sp", "owner": "me", "provider": "savepoint", "comment": "x"}
    assert SavepointReadOptions.parse({**created, "uid": "a", "option.uid": "a", "foo": "bar"}).uid == "a"
    with pytest.raises(OptionError, match="no option 'udi'"):
        SavepointReadOptions.parse({**created, "udi": "a", "option.udi": "a"})


def test_the_table_of_options_has_every_option_and_its_default() -> None:
    lines = options_table().splitlines()[2:]
    assert [line.split("`")[1] for line in lines] == NAMES
    assert all(line.count("|") == 4 and all(cell.strip() for cell in line.split("|")[1:4:2]) for line in lines)
    defaults = {line.split("`")[1]: line.split("|")[2].strip() for line in lines}
    for name in ("flatten", "undecodable", "timestamps", "decimals", "kryo", "pickle", "batchSize", "memory"):
        assert parse(**{name: defaults[name]}) == parse()


def test_a_place_in_the_graph_needs_the_graph() -> None:
    together = "options 'node' and 'executionPlan' go together: an operator, and the graph that it is in"
    assert problems(node="1") == together
    assert problems(executionPlan="{}") == together
    both = "options 'uid' and 'node' each name the operator: give one of them"
    assert problems(uid="a", node="1", executionPlan="{}") == both
    assert "expected v2 or v3" in problems(node="1", executionPlan="{}", streamGraphHasher="v1")
    assert parse(node="1", executionPlan="{}", streamGraphHasher="V3").stream_graph_hasher == "v3"


def test_the_request_says_what_the_options_say() -> None:
    options = parse(
        uid="a", timestamps="raw", includeRowKind="true", pickle="true", batchSize="9", memory="2m", raw="s"
    )
    request = options.request()
    assert request == TableRequest(
        path="/sp",
        uid="a",
        raw=("s",),
        decode=DecodeOptions(timestamps="raw", row_kind=True, pickle=True),
        batch_rows=9,
        memory=2 << 20,
    )


def test_defaults_are_those_of_the_tables() -> None:
    assert parse().request() == TableRequest("/sp")


def test_options_are_frozen_and_picklable() -> None:
    options = parse(uid="a", keyGroups="1")
    assert pickle.loads(pickle.dumps(options)) == options
    with pytest.raises(dataclasses.FrozenInstanceError):
        options.uid = "b"  # type: ignore[misc]


@given(st.dictionaries(st.sampled_from(NAMES) | st.text(max_size=8), st.text(max_size=12)))
def test_any_options_are_parsed_or_refused(options: dict[str, str]) -> None:
    try:
        parsed = SavepointReadOptions.parse(options)
    except OptionError:
        return
    assert parsed.request().path.strip()
