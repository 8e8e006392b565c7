"""Random programs of state calls, and what they leave in a state backend."""

from __future__ import annotations

from collections.abc import Iterator, MappingView
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from pyspark_savepoint.statebackends.processing.api.state_descriptors import AggregateFunction
from pyspark_savepoint.statebackends.processing.api.windows import TimeWindow
from pyspark_savepoint.statebackends.processing.backends.backend import KeyedStateBackend, RegisteredState
from pyspark_savepoint.statebackends.rows.descriptors import StateKind


class Average(AggregateFunction[int, tuple[int, int], float]):
    """Sum and count."""

    def create_accumulator(self) -> tuple[int, int]:
        return 0, 0

    def add(self, value: int, accumulator: tuple[int, int]) -> tuple[int, int]:
        return accumulator[0] + value, accumulator[1] + 1

    def get_result(self, accumulator: tuple[int, int]) -> float:
        return accumulator[0] / accumulator[1]

    def merge(self, a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
        return a[0] + b[0], a[1] + b[1]


def concatenate(a: str, b: str) -> str:
    """Associative, but it shows the order."""
    return a + b


PAIR = pa.struct([("f0", pa.int64()), ("f1", pa.int64())])
STATES = {
    StateKind.VALUE: RegisteredState("value", StateKind.VALUE, (pa.int64(),)),
    StateKind.LIST: RegisteredState("list", StateKind.LIST, (pa.string(),)),
    StateKind.MAP: RegisteredState("map", StateKind.MAP, (pa.string(), pa.int64())),
    StateKind.REDUCING: RegisteredState("reducing", StateKind.REDUCING, (pa.string(),), reduce=concatenate),
    StateKind.AGGREGATING: RegisteredState("aggregating", StateKind.AGGREGATING, (PAIR,), aggregate=Average()),
}
WINDOWS = [TimeWindow(start, start + 10) for start in (0, 10, 20)]

numbers = st.integers(-(2**63), 2**63 - 1)
words = st.sampled_from(["", "a", "ab", "ü", "\x00"])
CALLS: dict[StateKind, st.SearchStrategy[tuple[Any, ...]]] = {
    StateKind.VALUE: st.one_of(
        st.tuples(st.just("value")), st.tuples(st.just("update"), numbers), st.tuples(st.just("clear"))
    ),
    StateKind.LIST: st.one_of(
        st.tuples(st.just("get")),
        st.tuples(st.just("add"), words),
        st.tuples(st.sampled_from(["add_all", "update"]), st.lists(words, max_size=3)),
        st.tuples(st.just("clear")),
    ),
    StateKind.MAP: st.one_of(
        st.tuples(st.sampled_from(["get", "remove", "contains"]), words),
        st.tuples(st.just("put"), words, st.none() | numbers),
        st.tuples(st.just("put_all"), st.dictionaries(words, numbers, max_size=3)),
        st.tuples(st.sampled_from(["items", "keys", "values", "is_empty", "clear"])),
    ),
    StateKind.REDUCING: st.one_of(
        st.tuples(st.just("get")), st.tuples(st.just("add"), words), st.tuples(st.just("clear"))
    ),
    StateKind.AGGREGATING: st.one_of(
        st.tuples(st.just("get")), st.tuples(st.just("add"), st.integers(-9, 9)), st.tuples(st.just("clear"))
    ),
}
kinds = st.sampled_from(list(CALLS))
calls = kinds.flatmap(lambda kind: st.tuples(st.just(kind), CALLS[kind]))
merges = st.tuples(
    st.sampled_from([StateKind.LIST, StateKind.REDUCING, StateKind.AGGREGATING]),
    st.tuples(st.just("merge"), st.sampled_from(WINDOWS), st.lists(st.sampled_from(WINDOWS), unique=True)),
)
#: Records of some keys: (key, calls). A key is a self-delimiting byte string, as serialized keys are.
keys = st.sampled_from([b"\0\0\1a", b"\0\1\1a", b"\0\1\1b", b"\0\1\2ab"])
programs = st.lists(st.tuples(keys, st.lists(calls, max_size=6)), max_size=12)
windowed_programs = st.lists(
    st.tuples(keys, st.lists(st.tuples(st.sampled_from(WINDOWS), calls | merges), max_size=6)), max_size=12
)


@dataclass
class Collected:
    """An output that keeps what it is given."""

    found: dict[tuple[bytes, Any], Any] = field(default_factory=dict)

    def add(self, grouped_key: bytes, namespace: Any, content: Any) -> None:
        assert (grouped_key, namespace) not in self.found, "a key was left twice"
        self.found[grouped_key, namespace] = content


def plain(answer: Any) -> Any:
    """Return a result as plain values; the order of maps is ignored."""
    if isinstance(answer, str | int | float | bytes) or answer is None:
        return answer
    if isinstance(answer, MappingView):
        return sorted(answer, key=repr)
    return list(answer) if isinstance(answer, list) else tuple(answer)


def run(backend: KeyedStateBackend, program: list[Any], windowed: bool) -> tuple[list[Any], dict[str, Any]]:
    """Return the results of a program's calls, record by record, and the final content of every state."""
    outputs = {kind: Collected() for kind in STATES}
    states: dict[StateKind, Any] = {}
    for kind, state in STATES.items():
        registered = RegisteredState(
            state.name, kind, state.units, windowed, reduce=state.reduce, aggregate=state.aggregate
        )
        states[kind] = backend.create(registered, outputs[kind])
    answers = [answer for key, record in program for answer in _record(backend, states, key, record, windowed)]
    for _ in backend.finish():
        pass
    backend.close()
    return answers, {
        kind: {where: plain_content(each) for where, each in out.found.items()} for kind, out in outputs.items()
    }


def _record(backend: KeyedStateBackend, states: Any, key: bytes, record: list[Any], windowed: bool) -> Iterator[Any]:
    backend.set_current_key(key, key)
    for step in record:
        window, (kind, (name, *arguments)) = step if windowed else (None, step)
        state = states[kind]
        if windowed:
            backend.set_current_namespace(state, window)
        if name == "merge":
            target, sources = arguments
            backend.merge_namespaces(state, target, iter([each for each in sources if each != target]))
        else:
            yield backend.key, kind, name, plain(getattr(state, name)(*arguments))


def plain_content(content: Any) -> Any:
    """A content that compares whatever holds it."""
    if isinstance(content, dict | list | str | int):
        return content
    return tuple(content)
