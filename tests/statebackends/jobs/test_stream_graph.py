"""Building graphs: derived settings, and refused calls."""

from __future__ import annotations

import pytest

from pyspark_savepoint.formats.errors import OptionError
from pyspark_savepoint.statebackends.jobs.graph.stream_graph import Chains, StreamGraph
from pyspark_savepoint.statebackends.jobs.graph.stream_nodes import ChainingStrategy, Partitioner, StreamEdge


def test_partitioners_follow_from_parallelism() -> None:
    graph = StreamGraph(parallelism=2)
    source = graph.source("source")
    graph.operator("same", source)
    graph.operator("other", source, parallelism=3)
    graph.operator("keyed", source.key_by())
    assert [edge.partitioner for edge in graph.nodes[1].out_edges] == ["FORWARD", "REBALANCE", "HASH"]


@pytest.mark.parametrize(
    ("method", "partitioner"),
    [
        ("key_by", Partitioner.HASH),
        ("broadcast", Partitioner.BROADCAST),
        ("rebalance", Partitioner.REBALANCE),
        ("rescale", Partitioner.RESCALE),
        ("shuffle", Partitioner.SHUFFLE),
        ("to_one", Partitioner.GLOBAL),
        ("forward", Partitioner.FORWARD),
        ("custom", Partitioner.CUSTOM),
    ],
)
def test_every_partitioner_has_its_method(method: str, partitioner: Partitioner) -> None:
    graph = StreamGraph()
    graph.operator("map", getattr(graph.source("source"), method)())
    assert graph.nodes[1].out_edges == [StreamEdge(1, 2, partitioner, 0)]


def test_a_union_is_one_input_and_connected_streams_are_two() -> None:
    graph = StreamGraph()
    first, second = graph.source("first"), graph.source("second")
    graph.operator("union", first.union(second))
    graph.operator("connect", first, second)
    assert [edge.port for edge in graph.node("union").in_edges] == [0, 0]
    assert [edge.port for edge in graph.node("connect").in_edges] == [0, 1]


def test_slot_sharing_groups_are_those_of_the_inputs_where_they_agree() -> None:
    graph = StreamGraph()
    red = graph.source("red", slot_sharing_group="red")
    blue = graph.source("blue", slot_sharing_group="blue")
    graph.operator("one", red)
    graph.operator("both", red.union(blue))
    graph.operator("own", red, slot_sharing_group="green")
    assert [graph.node(name).slot_sharing_group for name in ("one", "both", "own")] == ["red", "default", "green"]


def test_a_sink_is_a_writer_and_a_committer() -> None:
    graph = StreamGraph()
    source = graph.source("source")
    graph.sink("files", source, committer=True, uid="files", committer_uid_hash="cd" * 16)
    graph.sink("log", source)
    assert [(node.name, node.uid, node.yielding) for node in list(graph.nodes.values())[1:]] == [
        ("files: Writer", "files", True),
        ("files: Committer", "Sink Committer: files", False),
        ("log: Writer", None, True),
    ]
    assert str(graph.node("files: Committer").uid_hash) == "cd" * 16


def test_tasks_list_their_operators_from_the_ends_to_the_head() -> None:
    graph = StreamGraph()
    source = graph.source("source")
    first = graph.operator("first", source)
    graph.operator("behind the first", first)
    graph.operator("second", source)
    graph.operator("apart", source, chaining=ChainingStrategy.NEVER)
    names = {
        graph.nodes[head].name: [graph.nodes[k].name for k in chain] for head, chain in Chains(graph).tasks().items()
    }
    assert names == {"source": ["behind the first", "first", "second", "source"], "apart": ["apart"]}


def test_a_long_chain_is_one_task() -> None:
    graph = StreamGraph()
    stream = graph.source("source", legacy=True)
    for number in range(2_000):
        stream = graph.operator(f"map {number}", stream)
    graph.operator("asynchronous", stream, yielding=True)
    assert [len(chain) for chain in Chains(graph).tasks().values()] == [2_001, 1]


def test_operators_are_found_by_uid_then_by_name() -> None:
    graph = StreamGraph()
    source = graph.source("map", uid="source")
    graph.operator("map", source, uid="map")
    graph.operator("map", source)
    assert graph.node("map").id == 2
    assert graph.node("source").id == 1
    with pytest.raises(OptionError, match="did you mean 'source'"):
        graph.node("sources")
    graph.nodes[2].uid = None
    with pytest.raises(OptionError, match="3 operators of the job have the name 'map'"):
        graph.node("map")


def test_what_flink_refuses_is_refused() -> None:
    graph = StreamGraph()
    source = graph.source("source")
    with pytest.raises(OptionError, match="a forward edge cannot change the parallelism"):
        graph.operator("map", source.forward(), parallelism=2)
    with pytest.raises(OptionError, match="an operator needs at least one input"):
        graph.operator("map")
    with pytest.raises(OptionError, match="cannot be 0"):
        graph.operator("map", source, parallelism=0)
    with pytest.raises(OptionError, match="cannot be 40000"):
        graph.operator("map", source, max_parallelism=40_000)
    with pytest.raises(OptionError, match="to another graph"):
        StreamGraph().operator("map", source)
    with pytest.raises(OptionError, match="a uid hash has 32 hex digits"):
        graph.operator("map", source, uid_hash="12")
    with pytest.raises(OptionError, match="a union needs several streams"):
        _ = source.union(source).node
    with pytest.raises(OptionError, match="does not have"):
        graph.connect(StreamEdge(1, 9, Partitioner.FORWARD))
    with pytest.raises(OptionError, match="two nodes 1"):
        graph.add(graph.nodes[1])
    # Refused calls leave the graph unchanged.
    assert list(graph.nodes) == [1]


def test_without_generated_uids_every_operator_needs_one() -> None:
    graph = StreamGraph(auto_generate_uids=False)
    source = graph.source("source", uid="source")
    graph.operator("map", source, uid_hash="5af9c1d8a9b8e2f06e0f0a3c1d2e4b77")
    with pytest.raises(OptionError, match="uids are not generated") as caught:
        graph.operator("filter", source)
    assert caught.value.facts["operator"] == "filter"
    graph.sink("sink", source, uid="sink", committer=True)
    assert [node.uid for node in graph.nodes.values()] == ["source", None, "sink", "Sink Committer: sink"]
