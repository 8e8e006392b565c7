"""Restore plans: every key group and every element goes where Flink sends it, and none is lost."""

from __future__ import annotations

import pickle
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_savepoint.formats.errors import OptionError
from pyspark_savepoint.formats.metadata import OperatorState, OperatorSubtaskState, read_metadata
from pyspark_savepoint.formats.metadata.identifiers import OperatorID
from pyspark_savepoint.formats.metadata.key_groups import KeyGroupRangeOffsets, range_for_operator_index
from pyspark_savepoint.formats.metadata.keyed_handles import KeyGroupsSavepointStateHandle
from pyspark_savepoint.formats.metadata.operator_handles import Mode, OperatorStreamStateHandle, StateMetaInfo
from pyspark_savepoint.formats.metadata.stream_handles import ByteStreamStateHandle
from pyspark_savepoint.statebackends.sources.assignment import StateAssignment, assign_state

ID = OperatorID(bytes(16))


def operator_states(*subtasks: dict[str, tuple[Mode, list[int]]] | None) -> OperatorState:
    """An operator whose subtask i has these states; None for one that reported nothing."""
    handles = {
        index: OperatorStreamStateHandle(
            tuple(StateMetaInfo(name, mode, tuple(offsets)) for name, (mode, offsets) in states.items()),
            ByteStreamStateHandle(f"subtask {index}", b""),
        )
        for index, states in enumerate(subtasks)
        if states is not None
    }
    subtask_states = {index: OperatorSubtaskState(managed_operator_state=handle) for index, handle in handles.items()}
    return OperatorState(ID, len(subtasks), 128, subtasks=subtask_states)


def elements(assignment: StateAssignment, name: str) -> list[tuple[int, int]]:
    """Old subtask and offset of every element of a state that a vertex gets."""
    return [
        (part.subtask_index, offset)
        for part in assignment.managed_operator_state
        for state in part.handle.states
        if state.name == name
        for offset in state.offsets
    ]


# -- keyed --------------------------------------------------------------------------------------------------


def keyed_operator(max_parallelism: int, parallelism: int) -> OperatorState:
    def subtask(index: int) -> OperatorSubtaskState:
        owned = range_for_operator_index(max_parallelism, parallelism, index)
        offsets = KeyGroupRangeOffsets(owned, tuple(1000 + key_group for key_group in owned))
        handle = KeyGroupsSavepointStateHandle(offsets, ByteStreamStateHandle(str(index), b""))
        return OperatorSubtaskState(managed_keyed_state=handle, raw_keyed_state=handle if index % 2 else None)

    subtasks = {index: subtask(index) for index in reversed(range(parallelism))}
    return OperatorState(ID, parallelism, max_parallelism, subtasks=subtasks)


@given(st.integers(1, 300), st.data())
def test_every_key_group_is_restored_once_by_its_owner(max_parallelism: int, data: st.DataObject) -> None:
    old, new = data.draw(st.integers(1, max_parallelism)), data.draw(st.integers(1, max_parallelism))
    restored = []
    for assignment in assign_state(keyed_operator(max_parallelism, old), new):
        owned = range_for_operator_index(max_parallelism, new, assignment.index)
        assert assignment.key_group_range == owned
        subtasks = [state.subtask_index for state in assignment.managed_keyed_state]
        assert subtasks == sorted(subtasks)
        assert [s.subtask_index for s in assignment.raw_keyed_state] == [s for s in subtasks if s % 2]
        for state in assignment.managed_keyed_state:
            assert isinstance(state.handle, KeyGroupsSavepointStateHandle)
            for key_group, offset in state.handle.offsets:
                assert offset == 1000 + key_group
                assert key_group in owned
                restored.append(key_group)
    assert restored == list(range(max_parallelism))


@pytest.mark.parametrize("parallelism", [0, 129, -1])
def test_a_parallelism_that_cannot_be_is_an_option_error(parallelism: int) -> None:
    with pytest.raises(OptionError, match="1 to 128"):
        assign_state(keyed_operator(128, 2), parallelism)


# -- operator -----------------------------------------------------------------------------------------------


def test_split_state_is_dealt_in_runs_and_the_next_state_starts_with_the_next_receiver() -> None:
    # A Java hash map of capacity 16 holds "a" (97) in bucket 1 and "b" (98) in bucket 2.
    operator = operator_states(
        {"b": (Mode.SPLIT_DISTRIBUTE, [10]), "a": (Mode.SPLIT_DISTRIBUTE, [1, 2, 3])},
        {"a": (Mode.SPLIT_DISTRIBUTE, [1]), "b": (Mode.SPLIT_DISTRIBUTE, [20])},
    )
    dealt = assign_state(operator, 3)
    assert [elements(vertex, "a") for vertex in dealt] == [[(0, 1), (0, 2)], [(0, 3)], [(1, 1)]]
    assert [elements(vertex, "b") for vertex in dealt] == [[], [(0, 10)], [(1, 20)]]


def test_names_of_one_hash_are_dealt_out_newest_first() -> None:
    # "Aa" and "BB" have one Java hash; Flink's computeIfAbsent puts the later one before the earlier one.
    operator = operator_states(
        {"Aa": (Mode.SPLIT_DISTRIBUTE, [1])}, {"Aa": (Mode.SPLIT_DISTRIBUTE, []), "BB": (Mode.SPLIT_DISTRIBUTE, [2])}
    )
    dealt = assign_state(operator, 3)
    assert [elements(vertex, "BB") for vertex in dealt] == [[(1, 2)], [], []]
    assert [elements(vertex, "Aa") for vertex in dealt] == [[], [(0, 1)], []]


def test_the_hash_map_has_grown_when_a_call_found_thirteen_names() -> None:
    # "q" is in bucket 1 of 16 and in bucket 17 of 32: it comes before "b" (2) as long as the map is small.
    names = "bcdefghijklmq"

    def first_receivers(repeats: int) -> list[int]:
        states = {name: (Mode.SPLIT_DISTRIBUTE, [1]) for name in names}
        again = {"c": (Mode.SPLIT_DISTRIBUTE, [])} if repeats else {}
        dealt = assign_state(operator_states(states, again), 40)
        return [vertex.index for name in "bq" for vertex in dealt if elements(vertex, name)]

    assert first_receivers(0) == [1, 0]
    assert first_receivers(1) == [0, 12]


def test_unchanged_parallelism_moves_union_state_only() -> None:
    operator = operator_states(
        {"s": (Mode.SPLIT_DISTRIBUTE, [1, 2]), "u": (Mode.UNION, [5]), "b": (Mode.BROADCAST, [7])},
        {"s": (Mode.SPLIT_DISTRIBUTE, []), "u": (Mode.UNION, [6]), "b": (Mode.BROADCAST, [8])},
    )
    first, second = assign_state(operator, 2)
    assert (elements(first, "s"), elements(second, "s")) == ([(0, 1), (0, 2)], [])
    assert elements(first, "u") == elements(second, "u") == [(0, 5), (1, 6)]
    assert (elements(first, "b"), elements(second, "b")) == ([(0, 7)], [(1, 8)])


def test_broadcast_state_is_one_whole_copy_for_everyone() -> None:
    operator = operator_states({"b": (Mode.BROADCAST, [7])}, None, {"b": (Mode.BROADCAST, [8])})
    for parallelism, expected in (
        (1, [[(0, 7)]]),
        (3, [[(0, 7)], [(2, 8)], [(2, 8)]]),
        (5, [[(0, 7)], [(2, 8)], [(0, 7)], [(2, 8)], [(0, 7)]]),
    ):
        assert [elements(vertex, "b") for vertex in assign_state(operator, parallelism)] == expected


modes = st.sampled_from(Mode)


@st.composite
def any_operator(draw: st.DrawFn) -> OperatorState:
    """States with one mode each over all subtasks, as Flink has it."""
    known = draw(st.dictionaries(st.text(max_size=4), modes, max_size=4))
    offsets = st.lists(st.integers(0, 99), max_size=4)
    subtasks: list[dict[str, tuple[Mode, list[int]]] | None] = []
    for _ in range(draw(st.integers(1, 5))):
        reported = [name for name in sorted(known) if draw(st.booleans())]
        subtasks.append(
            {name: (known[name], [9] if known[name] is Mode.BROADCAST else draw(offsets)) for name in reported}
        )
    return operator_states(*subtasks)


@given(any_operator(), st.integers(1, 7))
def test_no_element_is_lost_or_doubled(operator: OperatorState, parallelism: int) -> None:
    dealt = assign_state(operator, parallelism)
    assert len(dealt) == parallelism
    old: dict[str, list[tuple[int, int]]] = {}
    mode_of: dict[str, Mode] = {}
    for index, subtask in sorted(operator.subtasks.items()):
        assert subtask.managed_operator_state is not None
        for state in subtask.managed_operator_state.states:
            old.setdefault(state.name, []).extend((index, offset) for offset in state.offsets)
            mode_of[state.name] = state.mode
    for name, mode in mode_of.items():
        given_out = [elements(vertex, name) for vertex in dealt]
        if mode is Mode.UNION:
            assert all(part == old[name] for part in given_out)
        elif mode is Mode.BROADCAST:
            assert all(len(part) == 1 and part[0] in old[name] for part in given_out)
        else:
            assert Counter(e for part in given_out for e in part) == Counter(old[name])
            if parallelism != operator.parallelism:
                assert {len(part) for part in given_out} <= {len(old[name]) // parallelism + extra for extra in (0, 1)}


def test_real_operator_state_is_dealt_out_whole(corpus: Path) -> None:
    checked = 0
    for path in corpus.glob("datastream/by-position-*/_metadata"):
        for operator in read_metadata(path.read_bytes()).operators:
            everything = Counter(
                (index, state.name, offset)
                for index, subtask in operator.subtasks.items()
                if subtask.managed_operator_state is not None
                for state in subtask.managed_operator_state.states
                if state.mode is Mode.SPLIT_DISTRIBUTE
                for offset in state.offsets
            )
            for parallelism in {1, 3, operator.parallelism} & set(range(operator.max_parallelism + 1)):
                dealt = assign_state(operator, parallelism)
                assert pickle.loads(pickle.dumps(dealt)) == dealt
                names = {name for _, name, _ in everything}
                got = Counter((i, name, offset) for a in dealt for name in names for i, offset in elements(a, name))
                assert got == everything
                checked += len(everything)
    assert checked > 20
