"""Option ``plan``: what the fluent API passes to the data source, as data."""

from __future__ import annotations

import base64
import json
from dataclasses import astuple, fields, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_savepoint.formats.errors import OptionError
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.options.options import SavepointReadOptions
from pyspark_savepoint.options.plan_option import (
    comparison_plan,
    parse_read_plan,
    parse_write_plan,
    read_plan,
    write_plan,
)
from pyspark_savepoint.options.write_options import SavepointWriteOptions, parse_spec
from pyspark_savepoint.statebackends.model.request import EntriesRequest
from pyspark_savepoint.statebackends.model.table_options import InvalidOptionValueError
from pyspark_savepoint.statebackends.sources.open_operator import OpenOperator
from pyspark_savepoint.statebackends.writing.planning.write_request import WriteRequest, WriteSpec

SPEC = WriteSpec(
    key=("a", "b"),
    types={"a": "LONG"},
    type_source="/sp#op",
    flink_version=(1, 20),
    uid_hash="0" * 32,
    states={"n": "list"},
    ttl=("n",),
    max_parallelism=7,
)
ENTRIES = EntriesRequest((("total", False), None, ("_timer_state/event_t", True)), keys=True, max_parallelism=4)


COLUMNS = WriteSpec(table="entries", key=("id",), composite_key=True, entry_columns=((2, "n", None), (0, "m", "m_at")))


@pytest.mark.parametrize("spec", [WriteSpec(uid="u"), SPEC, replace(SPEC, ttl=True, type_source=None), COLUMNS])
def test_a_write_arrives_as_it_was_made(shop: Path, spec: WriteSpec) -> None:
    savepoint = Snapshot.open(str(shop))
    header = OpenOperator(savepoint, savepoint.operator(uid="accounts")).keyed.headers[0]
    text = write_plan(spec, "abc/op0k", header)
    request = SavepointWriteOptions.parse({"path": "/new", "plan": text}).request(overwrite=False)
    values = {found.name: value for found, value in zip(fields(spec), astuple(spec), strict=True)}
    assert request == WriteRequest("/new", **values, fragment="abc/op0k", header=request.header)
    assert request.header is not None
    assert request.header.states == header.states


def test_a_read_arrives_as_it_was_made() -> None:
    options = SavepointReadOptions.parse({"path": "/sp", "uid": "u", "plan": read_plan(ENTRIES)})
    assert options.request().entries == ENTRIES


def test_a_comparison_arrives_as_it_was_made() -> None:
    sides = [{"path": "/old", "uid": "u", "raw": "a"}, None]
    plan = comparison_plan(sides, ["a"])
    request = SavepointReadOptions.parse({"path": "/old", "plan": plan}).request()
    assert request.compared is not None
    before, after = request.compared.sides
    assert (before, after) == (SavepointReadOptions.parse(sides[0] or {}).request(), None)
    assert request.compared.states == ("a",)
    for wrong in (
        {"sides": [None]},
        {"sides": [None, {"uid": 1}], "states": None},
        {"sides": [None, None], "states": 1},
    ):
        with pytest.raises(InvalidOptionValueError, match="users do not set this option"):
            parse_read_plan(json.dumps({"version": 1, "compared": wrong}))


def test_bases_are_options_of_reads() -> None:
    base = {"path": "/old", "uid": "u", "plan": read_plan(ENTRIES)}
    text = write_plan(replace(SPEC, table="entries"), "abc/op0k", None, [base])
    request = SavepointWriteOptions.parse({"path": "/new", "plan": text}).request(overwrite=False)
    assert request.bases == (SavepointReadOptions.parse(base).request(),)


def test_a_plan_goes_alone() -> None:
    plan = write_plan(SPEC, "abc/op0k", None)
    with pytest.raises(OptionError, match="options 'uid' and 'ttl' cannot be combined with 'plan'"):
        SavepointWriteOptions.parse({"path": "/new", "plan": plan, "uid": "u", "ttl": "true"})


def changed(**values: Any) -> str:
    content = json.loads(write_plan(SPEC, "abc/op0k", None))
    return json.dumps({**content, "write": {**content["write"], **values}})


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{",
        "[" * 100_000,
        json.dumps({"version": 1, "write": []}),
        json.dumps({"version": 1, "entries": {}}),
        changed(fragment="../x"),
        changed(fragment=None),
        changed(path="/other"),
        changed(overwrite=True),
        changed(unknown=1),
        changed(max_parallelism="7"),
        changed(max_parallelism=True),
        changed(types={"a": 1}),
        changed(flink_version=[1]),
        changed(header="?"),
        changed(header=base64.b64encode(b"no header").decode()),
        changed(header=7),
    ],
)
def test_what_is_no_plan(text: str) -> None:
    with pytest.raises(InvalidOptionValueError, match="users do not set this option"):
        parse_write_plan(text)


def test_another_version_is_named() -> None:
    text = write_plan(SPEC, "abc/op0k", None).replace('"version": 1', '"version": 2')
    with pytest.raises(InvalidOptionValueError, match="the same version of pyspark-savepoint"):
        parse_write_plan(text)


NAMES = ["version", "write", "entries", "states", "keys", "fragment", "ttl"]
DATA = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(NAMES), inner),
)


@given(DATA)
def test_any_data_is_a_plan_or_refused(data: Any) -> None:
    for parse in (parse_write_plan, parse_read_plan):
        for value in (data, {"version": 1, "write": data}, {"version": 1, "entries": data}):
            try:
                parse(json.dumps(value))
            except InvalidOptionValueError:
                continue


def test_options_of_rows_need_no_savepoint() -> None:
    assert parse_spec({"key": "id", "types": '{"id": "LONG"}'}) == WriteSpec(key=("id",), types={"id": "LONG"})
    with pytest.raises(OptionError, match="'key' cannot apply"):
        parse_spec({"key": "id"}, table="operator_state", state="s")
