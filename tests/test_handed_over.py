"""Texts that are handed over with one thing changed: an error of this package, or the same kind of answer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pyspark_savepoint
from pyspark_savepoint.command_line.warming import unpack
from pyspark_savepoint.formats.errors import SavepointError, TypeNotationError
from pyspark_savepoint.formats.json_text import parse_json
from pyspark_savepoint.formats.serializers.notation.notation import NEWEST_VERSION, parse_type
from pyspark_savepoint.options.option_values import is_version
from pyspark_savepoint.statebackends.jobs.graph.operator_ids import generated_ids
from pyspark_savepoint.statebackends.jobs.graph.stream_plan import from_execution_plan, read_job_plan
from pyspark_savepoint.statebackends.rows.json_values import from_json
from tests.mutations import mutations
from tests.statebackends.jobs.test_stream_plan import PLAN

SAVEPOINTS = Path(__file__).parent / "oracle" / "savepoints"
REST: dict[str, Any] = {
    "jid": "65a294ca136017d8ec4399f050e1b402",
    "plan": {
        "nodes": [
            {
                "id": "cbc357ccb763df2852fee8c4fc7d55f2",
                "parallelism": 2,
                "description": "Source: orders<br/>+- count<br/>",
            }
        ]
    },
    "vertices": [{"id": "cbc357ccb763df2852fee8c4fc7d55f2", "maxParallelism": 128}],
}


@pytest.mark.parametrize(
    ("read", "plan"), [(lambda plan: generated_ids(from_execution_plan(plan)), PLAN), (read_job_plan, REST)]
)
def test_plans_of_jobs(read: Any, plan: dict[str, Any]) -> None:
    assert read(json.dumps(plan)) == read(plan)
    refused = 0
    for change, other in mutations(plan, items=3):
        for given in (other, json.dumps(other)):
            try:
                assert read(given) is not None, change
            except SavepointError:
                refused += 1
    assert refused > 100


def test_compiled_plans(tmp_path: Path) -> None:
    unpack(SAVEPOINTS / "sql-plans" / "2.2.1-one-phase.tar.xz", tmp_path)
    plan = json.loads((tmp_path / "plan.json").read_text())
    sp = pyspark_savepoint.open(tmp_path / "savepoint")
    for number, (change, other) in enumerate(mutations(plan)):
        if number % 97 == 0:
            try:
                rows = sp.table("states", fieldNames=json.dumps(other)).to_arrow()
            except SavepointError:
                continue
            assert rows.num_rows, change


@pytest.mark.parametrize(
    "keys",
    [
        "[" * 400 + "]" * 400,
        "[1e999]",
        "[Infinity]",
        "[\u0663]",
        '["\u0663"]',
        '[{"a":1,"a":2}]',
        "[" + "9" * 5000 + "]",
        '["' + "9" * 5000 + '"]',
        "[" * 100_000,
    ],
    ids=lambda text: text[:12],
)
def test_keys(keys: str) -> None:
    with pytest.raises(SavepointError):
        pyspark_savepoint.open(SAVEPOINTS / "shop" / "savepoint").table("keyed_state", "accounts", keys=keys)


@pytest.mark.parametrize(
    "notation",
    [
        "DECIMAL(" + "9" * 5000 + ")",
        "DECIMAL(-" + "9" * 5000 + ")",
        "DECIMAL(\u0663, 2)",
        "TIMESTAMP(" + "1" * 5000 + ")",
        "SCALA_ENUM<a.B>(x=" + "1" * 5000 + ")",
        "VARCHAR(\u0663)",
    ],
    ids=lambda text: text[:12],
)
def test_notations(notation: str) -> None:
    with pytest.raises(TypeNotationError):
        parse_type(notation, NEWEST_VERSION)


def test_digits_of_other_scripts_are_none() -> None:
    for kind in (pa.int32(), pa.float64(), pa.decimal128(10, 2), pa.date32(), pa.timestamp("us")):
        with pytest.raises(SavepointError):
            from_json("\u0663", kind, "key")
    with pytest.raises(SavepointError):
        is_version("\u0663")
    assert from_json("3", pa.int32(), "key") == 3


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"a": 1, "b": 2, "a": 1}', "name 'a' occurs twice"),
        ("[NaN]", "NaN is not a number"),
        ("[-1e999]", "out of range"),
        ("[" * 201 + "]" * 201, "too deep"),
        ("[" * 100_000, "too deep"),
        ("[1,]", "Expecting value|Illegal trailing comma"),
    ],
    ids=lambda text: text[:12],
)
def test_what_is_no_json(text: str, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        parse_json(text)
    assert parse_json("[" * 200 + "]" * 200)
    assert parse_json("[Infinity]", constants=True) == [float("inf")]
