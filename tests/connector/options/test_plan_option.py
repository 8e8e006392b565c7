"""Option ``plan`` of reads: what the fluent API passes to the data source, as data."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_savepoint.formats.errors import OptionError
from pyspark_savepoint.options.options import SavepointReadOptions
from pyspark_savepoint.options.plan_option import (
    comparison_plan,
    parse_read_plan,
    read_plan,
)
from pyspark_savepoint.options.write_options import parse_spec
from pyspark_savepoint.statebackends.requests.request import EntriesRequest
from pyspark_savepoint.statebackends.requests.table_options import InvalidOptionValueError
from pyspark_savepoint.statebackends.writing.planning.write_request import WriteSpec

ENTRIES = EntriesRequest((("total", False), None, ("_timer_state/event_t", True)), keys=True, max_parallelism=4)


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


def changed(**values: Any) -> str:
    content = json.loads(read_plan(ENTRIES))
    return json.dumps({**content, "entries": {**content["entries"], **values}})


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{",
        "[" * 100_000,
        json.dumps({"version": 1, "entries": []}),
        json.dumps({"version": 1, "write": {}}),
        changed(unknown=1),
        changed(max_parallelism="7"),
        changed(max_parallelism=True),
        changed(states=[["total"]]),
        changed(digest=7),
    ],
)
def test_what_is_no_plan(text: str) -> None:
    with pytest.raises(InvalidOptionValueError, match="users do not set this option"):
        parse_read_plan(text)


def test_another_version_is_named() -> None:
    text = read_plan(ENTRIES).replace('"version": 1', '"version": 2')
    with pytest.raises(InvalidOptionValueError, match="the same version of pyspark-savepoint"):
        parse_read_plan(text)


NAMES = ["version", "compared", "entries", "states", "keys", "sides"]
DATA = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(NAMES), inner),
)


@given(DATA)
def test_any_data_is_a_plan_or_refused(data: Any) -> None:
    for value in (data, {"version": 1, "compared": data}, {"version": 1, "entries": data}):
        try:
            parse_read_plan(json.dumps(value))
        except InvalidOptionValueError:
            continue


def test_options_of_rows_need_no_savepoint() -> None:
    assert parse_spec({"key": "id", "types": '{"id": "LONG"}'}) == WriteSpec(key=("id",), types={"id": "LONG"})
    with pytest.raises(OptionError, match="'key' cannot apply"):
        parse_spec({"key": "id"}, table="operator_state", state="s")
