from __future__ import annotations

import json
import os
import pickle
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_savepoint.formats.errors import OptionError
from pyspark_savepoint.formats.filesystems.filesystem import absolute
from pyspark_savepoint.formats.redaction import elide
from pyspark_savepoint.options.option_fields import MAX_VALUE
from pyspark_savepoint.options.write_options import ELSEWHERE, SavepointWriteOptions, write_options_table
from pyspark_savepoint.statebackends.writing.planning.write_request import WriteRequest

NAMES = [
    "path", "uid", "uidHash", "operatorName", "table", "state", "kind", "key", "states", "types",
    "inferredBy", "serializers", "maxParallelism", "parallelism", "compression", "ttl", "pyTypes", "classes",
    "kryoTypes", "flinkVersion", "sortMemory", "keyGroup", "allowOutside", "typesFrom", "storageOptions", "drop",
    "retention",
]  # fmt: skip


def parse(**options: str) -> SavepointWriteOptions:
    return SavepointWriteOptions.parse({"path": "/sp", "uid": "op", **options})


def problems(**options: str) -> str:
    with pytest.raises(OptionError) as raised:
        parse(**options)
    return str(raised.value)


@pytest.mark.parametrize("name", ELSEWHERE)
def test_an_option_of_another_sink_leads_to_what_there_is(name: str) -> None:
    sentence = problems(**{name.upper(): "1"})
    assert sentence.startswith(f"there is no option '{name.upper()}': ")
    assert {*re.findall(r"'(\w+)'", sentence.partition(": ")[2])} <= {*NAMES, "append", "overwrite"}
    assert name not in {each.lower() for each in NAMES}


@pytest.mark.parametrize(
    ("name", "text", "field", "value"),
    [
        ("key", " a , b ", "key", ("a", "b")),
        ("key", '["a,b", "c"]', "key", ("a,b", "c")),
        ("states", '{"n": "Reducing"}', "states", {"n": "reducing"}),
        ("types", '{"n": "LONG"}', "types", {"n": "LONG"}),
        ("maxParallelism", "32768", "max_parallelism", 32768),
        ("compression", "SNAPPY", "compression", "snappy"),
        ("ttl", "TRUE", "ttl", True),
        ("ttl", "a,b", "ttl", ("a", "b")),
        ("flinkVersion", " 1.20.5 ", "flink_version", (1, 20)),
        ("flinkVersion", "2.3", "flink_version", (2, 3)),
        ("sortMemory", "1g", "sort_memory", 1 << 30),
        ("keyGroup", "g", "key_group", "g"),
    ],
)
def test_values(name: str, text: str, field: str, value: Any) -> None:
    options = parse(**{name: text})
    assert getattr(options, field) == value
    assert getattr(options.request(False), field) == value


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("key", "["),
        ("key", "[1]"),
        ("key", " , "),
        ("states", '{"n": "vlaue"}'),
        ("states", "[]"),
        ("types", '{"n": 1}'),
        ("types", "[" * 100_000),
        ("maxParallelism", "0"),
        ("parallelism", "32769"),
        ("compression", "lz4"),
        ("flinkVersion", "3.0"),
        ("flinkVersion", "1"),
        ("sortMemory", "1"),
        ("uidHash", "abc"),
    ],
)
def test_a_value_that_cannot_be(name: str, text: str) -> None:
    assert f"option '{name}' is {elide(repr(text), MAX_VALUE)}, expected " in problems(**{name: text})


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"uidHash": "0" * 32}, "'uid' and 'uidHash' each name the operator"),
        ({"table": "operator_state"}, "set option 'state' to its name"),
        ({"kind": "union"}, "option 'kind' is for table 'operator_state'"),
        ({"table": "operator_state", "state": "s", "kind": "map"}, "list or union or broadcast"),
        ({"table": "operator_state", "state": "s", "key": "a"}, "table 'operator_state' has no keys, so 'key' cannot"),
        ({"table": "operator_state", "state": "s", "drop": "a"}, "'drop' cannot apply"),
        ({"table": "timers", "states": "{}"}, "'states' cannot apply"),
        ({"table": "operator_state", "state": "s", "ttl": "true"}, "has no time to live"),
        ({"parallelism": "4", "maxParallelism": "2"}, "expected at most 'maxParallelism', which is 2"),
        ({"table": "entries"}, "written by methods of Savepoint only"),
        ({"flinkVersion": "1.15"}, "expected a release from 1.16"),
        ({"keys": "[1]"}, "did you mean 'key'"),
        ({"max_parallelism": "1"}, "did you mean 'maxParallelism'"),
    ],
)
def test_what_does_not_go_together(options: dict[str, str], said: str) -> None:
    assert said in problems(**options)


def test_everything_that_is_wrong_is_said_at_once() -> None:
    with pytest.raises(OptionError) as raised:
        SavepointWriteOptions.parse({"path": "/sp", "tabel": "list", "ttl": "", "types": "{"})
    assert str(raised.value).splitlines() == [
        "4 things are wrong with the options:",
        "  there is no option 'tabel', did you mean 'table' or 'state' or 'states'?",
        """  option 'types' is '{', expected a JSON object of texts, such as {"column": "..."}""",
        "  option 'ttl' is '', expected names separated by commas",
        "  no operator is named: set option 'uid' to the uid that the job gives it",
    ]


def test_a_path_is_needed() -> None:
    with pytest.raises(OptionError, match="no path is given"):
        SavepointWriteOptions.parse({"uid": "a"})


def test_defaults_are_those_of_the_request() -> None:
    assert parse().request(True) == WriteRequest("/sp", uid="op", overwrite=True)
    assert pickle.loads(pickle.dumps(parse())) == parse()


def test_the_table_of_options_has_every_option_for_users() -> None:
    lines = write_options_table().splitlines()[2:]
    assert [line.split("`")[1] for line in lines] == NAMES
    assert all(line.count("|") == 4 for line in lines)


@given(st.dictionaries(st.sampled_from(NAMES) | st.text(max_size=8), st.text(max_size=12)))
def test_any_options_are_parsed_or_refused(options: dict[str, str]) -> None:
    try:
        parsed = SavepointWriteOptions.parse(options)
    except OptionError:
        return
    assert parsed.request(False).path == absolute(options["path"])


def test_paths_are_absolute_from_the_driver_on() -> None:
    """Tasks, and the process that commits, need not be where the write was planned."""
    parsed = parse(path="out/../sp", typesFrom="base#a//uid")
    assert (parsed.path, parsed.types_from) == (os.path.abspath("sp"), (os.path.abspath("base") + "#a//uid",))
    assert parse(path="s3://bucket/sp").path == "s3://bucket/sp"


def test_types_are_taken_from_a_savepoint_and_from_class_files(tmp_path: Path) -> None:
    (tmp_path / "classes").mkdir()
    (tmp_path / "sp").mkdir()
    (tmp_path / "sp" / "_metadata").write_bytes(b"")
    sources = [str(tmp_path / "sp"), str(tmp_path / "classes"), "/jobs/shop.jar", "s3://bucket/base#uid"]
    given = parse(typesFrom=json.dumps(sources[:3]), inferredBy="2.2.1", types='{"x": "LONG"}').request(False)
    assert (given.type_source, given.class_path, given.inferred_by) == (sources[0], tuple(sources[1:3]), "2.2")
    given = parse(typesFrom=sources[3]).request(False)
    assert (given.type_source, given.class_path, given.inferred_by) == (sources[3], (), None)
    assert parse(inferredBy="declared").request(False).inferred_by is None
    assert "option 'inferredBy' is '2.4', expected 'declared', or a release from 1.16" in problems(inferredBy="2.4")
    assert "set option 'inferredBy' to the release of Flink" in problems(typesFrom="/jobs/shop.jar")
    with pytest.raises(OptionError, match="two savepoints"):
        parse(typesFrom=json.dumps([sources[0], sources[3]]), inferredBy="2.2", types='{"x": "LONG"}').request(False)
