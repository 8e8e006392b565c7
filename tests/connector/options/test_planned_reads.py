"""Reads that only plans have: entries and differences are no options of users, and reach tasks as they were made."""

from __future__ import annotations

import pickle
from dataclasses import replace

import pytest

from pyspark_savepoint.formats.errors import OptionError
from pyspark_savepoint.options.options import SavepointReadOptions
from pyspark_savepoint.options.write_options import parse_spec
from pyspark_savepoint.statebackends.requests.request import ComparisonRequest, EntriesRequest
from pyspark_savepoint.statebackends.writing.planning.write_request import WriteSpec

ENTRIES = EntriesRequest((("total", False), None, ("_timer_state/event_t", True)), keys=True, max_parallelism=4)


def test_a_read_arrives_as_it_was_made() -> None:
    read = replace(SavepointReadOptions.parse({"path": "/sp", "uid": "u"}), entries=ENTRIES)
    assert pickle.loads(pickle.dumps(read)).request() == read.request()
    assert read.request().entries == ENTRIES


def test_a_comparison_names_the_snapshots_of_its_sides() -> None:
    side = SavepointReadOptions.parse({"path": "/new", "uid": "u", "raw": "a"}).request()
    read = replace(SavepointReadOptions.parse({"path": "/old"}), compared=ComparisonRequest((None, side), ("a",)))
    assert pickle.loads(pickle.dumps(read)).request().compared == read.compared
    assert read.snapshots == ["/new"]


@pytest.mark.parametrize("name", ["entries", "compared", "versions"])
def test_users_do_not_set_them(name: str) -> None:
    with pytest.raises(OptionError, match="users do not set this option"):
        SavepointReadOptions.parse({"path": "/sp", name: "{}"})


def test_there_is_no_option_plan() -> None:
    with pytest.raises(OptionError, match="no option 'plan'"):
        SavepointReadOptions.parse({"path": "/sp", "plan": "{}"})


def test_options_of_rows_need_no_savepoint() -> None:
    assert parse_spec({"key": "id", "types": '{"id": "LONG"}'}) == WriteSpec(key=("id",), types={"id": "LONG"})
    with pytest.raises(OptionError, match="'key' cannot apply"):
        parse_spec({"key": "id"}, table="operator_state", state="s")
