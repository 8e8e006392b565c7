"""Which state an operator gets: the example of the StreamGraphHasherV3 document, and other cases."""

from __future__ import annotations

from pyspark_savepoint.formats.metadata import OperatorState
from pyspark_savepoint.formats.metadata.identifiers import OperatorID
from pyspark_savepoint.statebackends.jobs.graph.operator_ids import OperatorIDPair, operator_id_pairs
from pyspark_savepoint.statebackends.jobs.graph.stream_graph import StreamGraph, StreamGraphHasher
from pyspark_savepoint.statebackends.jobs.restore.restore_plan import match_operators


def job() -> StreamGraph:
    """A source and an operator that is chained to it, without uids; one has a uid hash from long ago."""
    graph = StreamGraph()
    graph.operator("map", graph.source("source"), uid_hash="ab" * 16)
    return graph


def state_of(operator_id: OperatorID) -> OperatorState:
    return OperatorState(operator_id, 1, 128)


def assigned_one_alternative_at_a_time(
    pairs: dict[int, OperatorIDPair], states: dict[OperatorID, OperatorState]
) -> dict[OperatorID, OperatorState | None]:
    """What the document reviews: every alternative is looked up on its own, and puts what it finds into the map."""
    left = dict(states)
    assigned: dict[OperatorID, OperatorState | None] = {}
    for pair in pairs.values():
        for _, alternative in (*pair.alternatives, ("none", None)):
            operator_id = alternative if alternative in left else pair.generated
            assigned[pair.generated] = left.pop(operator_id, None)
    return assigned


def test_the_documents_example_keeps_its_state() -> None:
    # The savepoint was made with version 3; the new job has version 3, and two legacy hashers.
    pairs = operator_id_pairs(job(), StreamGraphHasher.V3)
    assert [by for by, _ in pairs[1].candidates] == ["v2", "v3"]
    assert [by for by, _ in pairs[2].candidates] == ["uid hash", "v2", "v3"]
    states = {pair.generated: state_of(pair.generated) for pair in pairs.values()}
    lost = assigned_one_alternative_at_a_time(pairs, states)
    assert set(lost.values()) == {None}
    found = match_operators(pairs, states.values())
    assert {key: match.state.operator_id for key, match in found.items()} == {
        key: pair.generated for key, pair in pairs.items()
    }
    assert {match.by for match in found.values()} == {"v3"}


def test_a_savepoint_of_version_2_is_found_by_a_job_of_version_3() -> None:
    older = operator_id_pairs(job())
    found = match_operators(
        operator_id_pairs(job(), StreamGraphHasher.V3), [state_of(pair.generated) for pair in older.values()]
    )
    assert found[1].by == "v2"
    assert found[1].state.operator_id == older[1].generated
    assert found[2].state.operator_id == older[2].generated


def test_the_first_alternative_that_has_state_counts() -> None:
    pairs = operator_id_pairs(job(), StreamGraphHasher.V3)
    states = [state_of(operator_id) for _, operator_id in reversed(pairs[2].candidates)]
    found = match_operators({2: pairs[2]}, states)
    assert found[2].by == "uid hash"
    assert found[2].state.operator_id == OperatorID.from_hex("ab" * 16)


def test_state_goes_to_one_operator_alone() -> None:
    shared = OperatorID.from_uid("shared")
    first = OperatorIDPair(OperatorID.from_uid("first"), "uid", (("uid hash", shared),))
    second = OperatorIDPair(shared, "uid")
    found = match_operators({"first": first, "second": second}, [state_of(shared)])
    assert list(found) == ["first"]


def test_operators_without_state_find_none() -> None:
    assert match_operators(operator_id_pairs(job()), []) == {}
