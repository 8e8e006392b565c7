"""Ids of operators: those of Flink's documentation, and what holds for any graph. `tests/oracle` asks real Flink."""

from __future__ import annotations

import copy
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_savepoint.formats.errors import OptionError
from pyspark_savepoint.formats.metadata.identifiers import OperatorID
from pyspark_savepoint.statebackends.jobs.graph.operator_ids import generated_ids, operator_id_pairs
from pyspark_savepoint.statebackends.jobs.graph.stream_graph import StreamGraph, StreamGraphHasher
from pyspark_savepoint.statebackends.jobs.graph.stream_nodes import ChainingStrategy
from tests.oracle.topologies import described, random_job

V2, V3 = StreamGraphHasher.V2, StreamGraphHasher.V3


def source_with(chained: int) -> StreamGraph:
    graph = StreamGraph()
    source = graph.source("source")
    for number in range(chained):
        graph.operator(f"map {number}", source)
    return graph


@pytest.mark.parametrize(
    ("chained", "known"),
    [
        (0, "bc764cd8ddf7a0cff126f51c16239658"),
        (1, "cbc357ccb763df2852fee8c4fc7d55f2"),
        (2, "e3dfc0d7e9ecd8a43f85f0b68ebf3b80"),
    ],
)
def test_well_known_ids_of_sources(chained: int, known: str) -> None:
    graph = source_with(chained)
    assert str(generated_ids(graph)[1]) == known
    assert str(generated_ids(graph, V3)[1]) == "bc764cd8ddf7a0cff126f51c16239658"


def test_a_uid_is_the_id_whatever_stands_around() -> None:
    graph = StreamGraph()
    graph.operator("map", graph.source("source", uid="my-uid").key_by(), uid="other")
    assert str(generated_ids(graph)[1]) == "8409efe6adc6d20787611f16017c808f"
    assert generated_ids(graph) == generated_ids(graph, V3)


def test_a_uid_hash_is_an_alternative_and_version_2_another() -> None:
    graph = StreamGraph()
    graph.operator("map", graph.source("source"), uid_hash="00112233445566778899aabbccddeeff")
    own = OperatorID.from_hex("00112233445566778899aabbccddeeff")
    pairs = operator_id_pairs(graph)
    assert pairs[1].candidates == (("v2", generated_ids(graph)[1]),)
    assert pairs[2].candidates == (("uid hash", own), ("v2", generated_ids(graph)[2]))
    pairs = operator_id_pairs(graph, V3)
    older, newer = generated_ids(graph), generated_ids(graph, V3)
    assert pairs[1].candidates == (("v2", older[1]), ("v3", newer[1]))
    assert pairs[2].candidates == (("uid hash", own), ("v2", older[2]), ("v3", newer[2]))


def test_an_id_that_stays_is_tried_once() -> None:
    graph = StreamGraph()
    graph.operator("map", graph.source("source").key_by())
    # Nothing is chained, so that both versions agree.
    assert operator_id_pairs(graph, V3)[1].candidates == (("v3", generated_ids(graph)[1]),)


@given(st.integers(0, 1 << 32))
def test_version_3_does_not_change_when_chaining_does(seed: int) -> None:
    job = random_job(seed)
    other = copy.deepcopy(job)
    chance = random.Random(seed)
    other["chaining"] = not job.get("chaining", True)
    other["maxParallelism"] = 512
    for step in other["steps"]:
        step["parallelism"] = chance.choice((1, 2, 5))
        step["slotSharingGroup"] = chance.choice(("default", "green"))
        step["chaining"] = chance.choice(list(ChainingStrategy))
    first, second = described(job), described(other)
    assert generated_ids(first, V3) == generated_ids(second, V3)
    # Version 2 is the same as soon as nothing is chained.
    first.chaining = second.chaining = False
    assert generated_ids(first) == generated_ids(first, V3) == generated_ids(second)


def test_version_2_changes_when_chaining_does() -> None:
    graph = source_with(1)
    before = generated_ids(graph)
    graph.nodes[2].chaining = ChainingStrategy.NEVER
    assert generated_ids(graph) != before


@given(st.integers(0, 1 << 32))
def test_ids_are_all_different(seed: int) -> None:
    ids = generated_ids(described(random_job(seed)))
    assert len(set(ids.values())) == len(ids)


def test_one_uid_twice_is_refused() -> None:
    graph = StreamGraph()
    graph.operator("map", graph.source("source", uid="same"), uid="same")
    with pytest.raises(OptionError, match="two operators have the same uid"):
        generated_ids(graph)


def test_a_graph_in_parts_is_refused() -> None:
    graph = source_with(1)
    graph.nodes[1].source = None
    with pytest.raises(OptionError, match="not reached from a source"):
        generated_ids(graph)
