"""The three state backends give equal results for every call, and the same final state."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings

from pyspark_savepoint.formats.errors import OptionError
from pyspark_savepoint.statebackends.processing.api.state_descriptors import (
    AggregatingStateDescriptor,
    ReducingStateDescriptor,
)
from pyspark_savepoint.statebackends.processing.api.windows import GlobalWindow
from pyspark_savepoint.statebackends.processing.backends.backend import RegisteredState
from pyspark_savepoint.statebackends.processing.backends.rocksdb_backend import RocksDBStateBackend
from pyspark_savepoint.statebackends.processing.operators.state_registry import BACKENDS, create_backend
from pyspark_savepoint.statebackends.rows.descriptors import StateKind
from tests.statebackends.processing.programs import STATES, WINDOWS, Collected, programs, run, windowed_programs

pytestmark = pytest.mark.many_sets


def in_order(program: list[Any]) -> list[Any]:
    """The records as the sorted input has them."""
    return sorted(program, key=lambda record: record[0])


@settings(max_examples=150, deadline=None)
@given(programs)
def test_heap_answers_as_one_key_at_a_time(program: list[Any]) -> None:
    sorted_program = in_order(program)
    assert run(create_backend("heap"), sorted_program, False) == run(
        create_backend("single_key"), sorted_program, False
    )
    # In the order of arrival every key gets the same answers, and what is left is the same.
    answers, left = run(create_backend("heap"), program, False)
    expected, kept = run(create_backend("single_key"), sorted_program, False)
    assert left == kept
    assert sorted(answers, key=lambda answer: answer[0]) == sorted(expected, key=lambda answer: answer[0])


#: Bytes of values that stay objects, and of encoded values in memory: all, some of both, none.
SIZES = [(1 << 20, 1 << 20), (1000, 300), (1, 100), (1, 1)]


@pytest.mark.parametrize(("kept", "memory"), SIZES)
@settings(max_examples=40, deadline=None)
@given(programs)
def test_rocksdb_answers_as_the_heap(kept: int, memory: int, program: list[Any]) -> None:
    found = run(RocksDBStateBackend(None, kept, memory), program, False)
    assert found == run(create_backend("heap"), program, False)


@pytest.mark.parametrize(("kept", "memory"), SIZES)
@settings(max_examples=40, deadline=None)
@given(windowed_programs)
def test_windows_of_the_backends_are_alike(kept: int, memory: int, program: list[Any]) -> None:
    heap = run(create_backend("heap"), program, True)
    assert run(RocksDBStateBackend(None, kept, memory), program, True) == heap
    assert run(create_backend("single_key"), in_order(program), True)[1] == heap[1]


def test_another_key_prunes() -> None:
    backend, output = create_backend("single_key"), Collected()
    value: Any = backend.create(STATES[StateKind.VALUE], output)
    backend.set_current_key("a", b"\0\0a")
    value.update(1)
    backend.set_current_key("a", b"\0\0a")
    assert (value.value(), output.found) == (1, {})
    backend.set_current_key("b", b"\0\0b")
    assert (value.value(), output.found) == (None, {(b"\0\0a", None): 1})


def test_a_key_without_output_leaves_nothing_to_the_next() -> None:
    backend, output = create_backend("single_key", drops=True), Collected()
    states: dict[StateKind, Any] = {kind: backend.create(state, output) for kind, state in STATES.items()}
    second: Any = backend.create(STATES[StateKind.VALUE], output)
    for place in (b"\0\0a", b"\0\0b"):
        backend.set_current_key(place, place)
        assert (states[StateKind.VALUE].value(), second.value()) == (None, None)
        assert (states[StateKind.LIST].get(), dict(states[StateKind.MAP].items())) == ([], {})
        states[StateKind.VALUE].update(1)
        second.update(2)
        states[StateKind.LIST].add("x")
        states[StateKind.MAP].put("a", 1)
        backend.set_current_key(place, place)
        assert (states[StateKind.VALUE].value(), second.value()) == (1, 2)
    list(backend.finish())
    assert output.found == {}


@pytest.mark.parametrize("drops", [False, True])
def test_what_was_handed_out_stays_when_the_key_changes(drops: bool) -> None:
    backend = create_backend("single_key", drops)
    elements: Any = backend.create(STATES[StateKind.LIST], Collected())
    backend.set_current_key("a", b"\0\0a")
    elements.add("x")
    seen = elements.get()
    backend.set_current_key("b", b"\0\0b")
    elements.add("y")
    assert (seen, elements.get()) == (["x"], ["y"])


@pytest.mark.parametrize("name", BACKENDS)
def test_none_is_no_element(name: str) -> None:
    backend = create_backend(name)
    elements: Any = backend.create(STATES[StateKind.LIST], Collected())
    backend.set_current_key("a", b"\0\0\1a")
    elements.add("x")
    for call in (lambda: elements.add(None), lambda: elements.add_all([None]), lambda: elements.update(["y", None])):
        with pytest.raises(TypeError, match="None cannot be added to list state 'list'"):
            call()
    assert elements.get() == ["x"]
    backend.close()


@pytest.mark.parametrize("name", BACKENDS)
def test_a_list_that_cannot_be_set_stays_as_it_was(name: str) -> None:
    def failing() -> Any:
        yield "y"
        raise LookupError

    backend = create_backend(name)
    elements: Any = backend.create(STATES[StateKind.LIST], Collected())
    backend.set_current_key("a", b"\0\0\1a")
    elements.add("x")
    for call in (elements.update, elements.add_all):
        with pytest.raises(LookupError):
            call(failing())
    assert elements.get() == ["x"]
    backend.close()


@pytest.mark.parametrize("name", BACKENDS)
def test_nothing_is_nobodys_list(name: str) -> None:
    backend = create_backend(name)
    elements: Any = backend.create(STATES[StateKind.LIST], Collected())
    backend.set_current_key("a", b"\0\0\1a")
    elements.get().append("x")
    assert elements.get() == []
    backend.close()


@pytest.mark.parametrize("name", BACKENDS)
def test_windows_of_all_kinds_come_back(name: str) -> None:
    backend, output = create_backend(name), Collected()
    value: Any = backend.create(replace(STATES[StateKind.VALUE], namespaced=True), output)
    backend.set_current_key("a", b"\0\0\1a")
    backend.set_current_namespace(value, GlobalWindow())
    value.update(1)
    for _ in backend.finish():
        pass
    assert output.found == {(b"\0\0\1a", GlobalWindow()): 1}
    backend.close()


def test_a_backend_is_named() -> None:
    with pytest.raises(OptionError, match="did you mean 'heap'"):
        create_backend("heaps")


@pytest.mark.parametrize(
    ("descriptor", "missing"),
    [(ReducingStateDescriptor("r", "LONG"), "reduce="), (AggregatingStateDescriptor("a", "LONG"), "aggregate=")],
)
def test_state_that_adds_needs_its_function(descriptor: Any, missing: str) -> None:
    with pytest.raises(OptionError, match=f"give its descriptor {missing}"):
        RegisteredState.of(descriptor, ())


WRITES: dict[StateKind, tuple[Any, ...]] = {
    StateKind.VALUE: ("update", 0),
    StateKind.LIST: ("add", ""),
    StateKind.MAP: ("put", "a", None),
    StateKind.REDUCING: ("add", ""),
    StateKind.AGGREGATING: ("add", 0),
}


@pytest.mark.parametrize("windowed", [False, True])
def test_a_new_key_resets_every_state(windowed: bool) -> None:
    backend = create_backend("single_key")
    outputs = {kind: Collected() for kind in STATES}
    states: dict[StateKind, Any] = {
        kind: backend.create(replace(state, namespaced=windowed), outputs[kind]) for kind, state in STATES.items()
    }
    window = WINDOWS[0] if windowed else None

    def contents() -> list[Any]:
        for state in states.values():
            if windowed:
                backend.set_current_namespace(state, window)
        return [
            states[StateKind.VALUE].value(),
            list(states[StateKind.LIST].get()),
            dict(states[StateKind.MAP].items()),
            states[StateKind.REDUCING].get(),
            states[StateKind.AGGREGATING].get(),
        ]

    nothing, written = [None, [], {}, None, None], [0, [""], {"a": None}, "", 0.0]
    for place in (b"\0\0\1a", b"\0\1\1b"):
        backend.set_current_key(place, place)
        assert contents() == nothing
        for kind, (method, *arguments) in WRITES.items():
            getattr(states[kind], method)(*arguments)
        backend.set_current_key(place, place)
        assert contents() == written, "the same key again"
    assert [list(output.found) for output in outputs.values()] == [[(b"\0\0\1a", window)]] * 5
    for _ in backend.finish():
        assert [len(output.found) for output in outputs.values()] == [2] * 5
    assert contents() == nothing
