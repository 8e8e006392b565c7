"""Logs of streaming queries that were damaged, or lead elsewhere: an error of this package, and nothing quoted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pyspark_savepoint.api.spark.streaming_log import (
    StreamingState,
    _expect_no_links_out,
    _number,
    _sources,
    _variables,
    partitions_of,
)
from pyspark_savepoint.engines.spark.stream import Offsets
from pyspark_savepoint.errors import CorruptStateError, OptionError, SavepointError, UnsafePathError
from tests.mutations import mutations

METADATA = '{"batchWatermarkMs":41535000,"batchTimestampMs":1764240000000,"conf":{}}'
VARIABLE = {"stateName": "total", "stateVariableType": "ValueState", "ttlEnabled": False}


@pytest.mark.parametrize(
    "logged",
    [
        '{"orders":{"0":-1}}',
        '{"orders":{"0":1,"0":2}}',
        '{"orders":{"0":1},"orders":{"0":2}}',
        '{"orders":{"\u0663":1}}',
        '{"orders":{"-1":1}}',
        '{"orders":{"2147483648":1}}',
        '{"orders":{"' + "9" * 5000 + '":1}}',
        '{"orders":{"0":1e999}}',
        '{"orders":{"0":Infinity}}',
        '{"orders":{"0":9223372036854775808}}',
        '{"orders":{"0":' + "9" * 5000 + "}}",
        '{"orders":{"0":"1"}}',
        '{"orders":{"0":true}}',
        '{"a":' * 400 + "1" + "}" * 400,
        "",
        "{",
    ],
    ids=lambda text: text[:30],
)
def test_offsets_that_no_source_logs(logged: str) -> None:
    with pytest.raises(CorruptStateError, match="no whole offsets of source 0"):
        _sources("offsets/7", f"v1\n{METADATA}\n{logged}")


@pytest.mark.parametrize(
    ("logged", "partitions"),
    [
        ('{"orders":{"0":23,"10":7}}', {("orders", 0): 23, ("orders", 10): 7}),
        ('{"orders":{"0":9223372036854775807}}', {("orders", 0): (1 << 63) - 1}),
        ('{"logOffset":3}', None),
        ('{"shards":{"shardId-000":"49590338271490256608559692538361571095921575989136588898"}}', None),
        ('{"a":{"":1}}', None),
        ("17", None),
        ("{}", None),
    ],
)
def test_offsets_of_sources(logged: str, partitions: object) -> None:
    _, sources = _sources("offsets/7", f"v1\n{METADATA}\n{logged}")
    assert sources == {"0": logged}
    assert partitions_of(logged) == partitions


def test_metadata_of_a_batch() -> None:
    name = "batchWatermarkMs"
    assert _number("offsets/7", METADATA, name) == 41_535_000
    for change, other in mutations(json.loads(METADATA)):
        try:
            found = _number("offsets/7", json.dumps(other), name)
        except CorruptStateError:
            continue
        assert (found, type(found)) == (other.get(name, 0), int), change


def test_variables_of_an_operator() -> None:
    properties: dict[str, Any] = {"timeMode": "EventTime", "stateVariables": [VARIABLE]}
    assert _variables(properties, "/query") == [VARIABLE]
    assert StreamingState("total", "value").ttl is False
    for change, other in mutations(properties):
        try:
            found = _variables(other, "/query")
        except CorruptStateError:
            assert change.startswith("stateVariables"), change
        else:
            assert all(type(one["stateName"]) is str and type(one["ttlEnabled"]) is bool for one in found), change
    for wrong in (None, [], "text", 7):
        with pytest.raises(CorruptStateError, match="record of a stateful operator is damaged"):
            _variables(wrong, "/query")


def test_offsets_of_this_source() -> None:
    offsets = Offsets("/checkpoints", "keyed_state of accounts")
    snapshot = {"snapshot": "chk-7", "digest": "00ff", "time": 1_764_240_000_000_000}
    written = {
        "folder": "/checkpoints",
        "of": "keyed_state of accounts",
        "checkpoint": 7,
        **snapshot,
        "previous": 5,
        "between": {"6": {**snapshot, "snapshot": "chk-6"}},
        "left": {"0": "chk-4"},
        "from": {"checkpoint": 3, **snapshot, "snapshot": "chk-3"},
    }
    place = offsets.read(written)
    assert offsets.written(place) == written
    for change, other in mutations(written):
        try:
            read = offsets.read(other)
        except OptionError:
            continue
        again = offsets.read(json.loads(json.dumps(offsets.written(read))))
        assert again == read, change
    for number in ("\u0667", "-7", "9" * 5000, "7.0"):
        with pytest.raises(OptionError, match="none of this source"):
            offsets.read({**written, "between": {number: snapshot}})


def test_links_out_of_a_checkpoint_are_refused(tmp_path: Path) -> None:
    query = tmp_path / "query"
    (query / "state" / "0" / "_metadata").mkdir(parents=True)
    (query / "offsets").mkdir()
    (query / "offsets" / "0").write_text("v1")
    (query / "offsets" / "1").symlink_to("0")
    (tmp_path / "latest").symlink_to(query)
    secret = tmp_path / "secret"
    secret.write_text("do not quote me")
    for folder in (query, tmp_path / "latest"):
        _expect_no_links_out(str(folder))
        _expect_no_links_out(f"file://{folder}")
    for link in ("offsets/2", "state/0/_metadata/metadata", "commits", "sources"):
        (query / link).symlink_to(secret if "/" in link else tmp_path)
        for folder in (query, tmp_path / "latest"):
            with pytest.raises(UnsafePathError, match="leads out of the snapshot") as raised:
                _expect_no_links_out(str(folder))
            assert "quote" not in str(raised.value)
        (query / link).unlink()
    (query / "offsets" / "3").symlink_to(tmp_path / "gone")
    with pytest.raises(SavepointError):
        _expect_no_links_out(str(query))
    _expect_no_links_out("wasbs://container@account/query")
