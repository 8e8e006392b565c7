"""Descriptions of jobs: all forms in which a job can be given, and errors about wrong ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pyspark_savepoint.formats.errors import OptionError, TypeNotationError
from pyspark_savepoint.formats.metadata.identifiers import OperatorID
from pyspark_savepoint.formats.serializers.notation.notation import parse_type
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.statebackends.jobs.graph.operator_ids import generated_ids
from pyspark_savepoint.statebackends.jobs.graph.stream_graph import StreamGraph
from pyspark_savepoint.statebackends.jobs.restore.job_reader import describe_job, from_graph

SHOP = Path(__file__).parents[2] / "oracle" / "savepoints" / "shop" / "savepoint"

JOB: dict[str, Any] = {
    "parallelism": 4,
    "maxParallelism": 256,
    "flinkVersion": "2.2.1",
    "stateBackend": "rocksdb",
    "operators": [
        {
            "uid": "accounts",
            "parallelism": 8,
            "key": "LONG",
            "states": {
                "total": "DOUBLE",
                "recent": {"kind": "LIST", "type": "LONG", "ttl": True},
                "spent": {"kind": "map", "key": "STRING", "type": "LONG", "ttl": True},
                "contents": {"kind": "REDUCING", "type": parse_type("LONG"), "namespace": "TIME_WINDOW"},
            },
            "operatorStates": {
                "rates": {"kind": "BROADCAST", "key": "STRING", "type": "DOUBLE"},
                "open": "STRING",
            },
        },
        {"uidHash": "ab" * 16, "maxParallelism": 128},
        {"name": "source", "generatedId": "cd" * 16, "uidHash": "ef" * 16},
    ],
}


def test_a_mapping() -> None:
    job = describe_job(JOB)
    assert (job.flink_version, job.state_backend) == ((2, 2), "rocksdb")
    accounts, by_hash, by_place = job.operators
    assert (accounts.parallelism, accounts.max_parallelism) == (8, 256)
    assert accounts.ids.candidates == (("uid", OperatorID.from_uid("accounts")),)
    assert accounts.key == parse_type("LONG")
    assert {name: state.serializer.flink_type for name, state in (accounts.keyed_states or {}).items()} == {
        "total": "DOUBLE",
        "recent": "LIST<TTL<LONG>>",
        "spent": "MAP<STRING, TTL<LONG>>",
        "contents": "LONG",
    }
    states = accounts.operator_states or {}
    assert [(state.kind, state.serializer.flink_type) for state in states.values()] == [
        ("BROADCAST", "DOUBLE"),
        ("LIST", "STRING"),
    ]
    assert by_hash.ids.candidates == (("uid hash", OperatorID.from_hex("ab" * 16)),)
    assert (by_hash.parallelism, by_hash.max_parallelism, by_hash.keyed_states) == (4, 128, None)
    assert [by for by, _ in by_place.ids.candidates] == ["uid hash", "v2"]


def test_json_says_the_same() -> None:
    job = json.loads(json.dumps(JOB, default=lambda serializer: serializer.flink_type))
    assert describe_job(json.dumps(job)) == describe_job(JOB) == describe_job(describe_job(JOB))


def test_a_graph_with_types() -> None:
    graph = StreamGraph(parallelism=2)
    source = graph.source("orders", max_parallelism=64)
    graph.operator("parse", source, max_parallelism=128)
    graph.operator("count", source.key_by(), uid="count")
    types = {"count": {"key": "STRING", "states": {"n": "LONG"}}}
    job = from_graph(graph, types, flink_version="1.18", state_backend="hashmap")
    orders, parse, count = job.operators
    # The operator at the head of a task decides; in the task's list it is the last.
    assert (orders.max_parallelism, parse.max_parallelism, count.max_parallelism) == (64, 64, None)
    assert (orders.task, parse.task, orders.place, parse.place) == (1, 1, 1, 0)
    assert count.key == parse_type("STRING")
    assert (job.flink_version, job.state_backend) == ((1, 18), "hashmap")
    assert [operator.ids.generated for operator in job.operators] == list(generated_ids(graph).values())
    assert describe_job(graph, types=types, flink_version="1.18", state_backend="hashmap") == job
    assert "com.shop.Order" in describe_job(graph, types=types, java_classes=["com.shop.Order"]).user_classes
    with pytest.raises(OptionError, match="list of names of Java classes"):
        describe_job(graph, java_classes="com.shop.Order")


def test_plans() -> None:
    plan = {"nodes": [{"id": 1, "type": "Source: orders", "parallelism": 3}], "settings": {"1": {"uid": "orders"}}}
    (orders,) = describe_job(plan).operators
    assert (orders.ids.generated, orders.parallelism) == (OperatorID.from_uid("orders"), 3)
    rest = {"nodes": [{"id": "cd" * 16, "parallelism": 2, "description": "Source: orders<br/>+- parse<br/>"}]}
    job = describe_job(rest)
    assert [str(operator.ids.generated) for operator in job.operators] == ["cd" * 16]
    assert job.unidentified == ("parse",)
    assert job.notes


def test_another_snapshot() -> None:
    job = describe_job(Snapshot.open(str(SHOP)))
    accounts = next(operator for operator in job.operators if operator.label == "'accounts'")
    assert accounts.key == parse_type("LONG")
    assert set(accounts.keyed_states or ()) >= {"total", "profile", "recent_amounts"}
    converter = next(operator for operator in job.operators if operator.label == "'currency-converter'")
    assert [state.kind for state in (converter.operator_states or {}).values()] == ["BROADCAST"]


@pytest.mark.parametrize(
    ("job", "message"),
    [
        ("{", "a job given as text must be JSON"),
        ("7", "this is not the description of a job"),
        ({}, "the description of a job needs a list of operators"),
        ({"operators": [], "paralelism": 2}, "the job has no field 'paralelism'(.|\n)*did you mean \"parallelism\""),
        ({"operators": [{"uid": "a", "state": {}}]}, "operator 'a' has no field 'state'"),
        ({"operators": [{"name": "a"}]}, "the id of an operator without uid depends on the whole job"),
        ({"operators": [{"uidHash": "12"}]}, "a uid hash has 32 hex digits"),
        ({"operators": [{"uid": "a"}, {"uid": "a"}]}, "two operators have the same id"),
        ({"operators": [{"uid": "a", "parallelism": 0}]}, 'field "parallelism" is a number from 1 to 32768'),
        ({"operators": [{"uid": "a", "maxParallelism": True}]}, 'field "maxParallelism" is a number'),
        ({"operators": [], "flinkVersion": "two"}, "the Flink release is not known"),
        ({"operators": [], "stateBackend": "rocks"}, "unknown state backend(.|\n)*did you mean 'rocksdb'"),
        ({"operators": [{"uid": "a", "states": ["n"]}]}, "'states' has states by name"),
        (
            {"operators": [{"uid": "a", "states": {"n": {"kind": "UNION", "type": "LONG"}}}]},
            "unknown kind of state: UNION",
        ),
        ({"operators": [{"uid": "a", "states": {"n": {"kind": "MAP", "type": "LONG"}}}]}, "a MAP state has a key"),
        ({"operators": [{"uid": "a", "states": {"n": {"typ": "LONG"}}}]}, "state 'n' has no field 'typ'"),
        ({"operators": [{"uid": "a", "states": {"n": {"kind": "LIST"}}}]}, "a LIST state has a type"),
    ],
)
def test_what_is_wrong_is_said(job: Any, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        describe_job(job)


def test_types_are_checked_for_the_version() -> None:
    with pytest.raises(TypeNotationError):
        describe_job({"operators": [{"uid": "a", "key": "LONGG"}]})
    assert describe_job({"operators": [{"uid": "a", "key": "SET<LONG>"}]}).operators[0].key is not None
    with pytest.raises(TypeNotationError, match=r"SET came with Flink 2"):
        describe_job({"flinkVersion": "1.20", "operators": [{"uid": "a", "key": "SET<LONG>"}]})


def test_settings_of_graphs_are_for_graphs() -> None:
    with pytest.raises(OptionError, match="types apply to a stream graph"):
        describe_job(JOB, types={})
