"""FLIP-140's table of state backends: value get, update and add on single_key, heap and RocksDB, in one run.

    BENCH_KEYS=1000000 python -m pytest tests/benchmarks/test_state_backends.py -s

Three tables. "again": a call of a key whose entry was just used, ten for every key; the loop itself is not counted.
"first": as flink-benchmarks' ``ValueStateBenchmark`` has it, every call behind a ``setCurrentKey`` of the next key
(keys are not shuffled, FLIP-140), less what setting the keys costs alone; with ``single_key`` a call that writes has to
hand out what it left to the next key. "in all": keys, calls, and handing out everything in the end.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

import pyarrow as pa

from pyspark_savepoint.statebackends.model.descriptors import StateKind
from pyspark_savepoint.statebackends.processing.backends.backend import RegisteredState
from pyspark_savepoint.statebackends.processing.backends.backends import create_backend

KEYS = int(os.environ.get("BENCH_KEYS", "2000"))
#: Calls for each key.
CALLS = 10
RUNS = 3
TABLES = ("again", "first", "in all")
BACKENDS = ("single_key", "heap", "rocksdb")
LONG, STRING = pa.int64(), pa.string()
OPERATIONS: dict[str, tuple[Any, ...]] = {
    "value update": (StateKind.VALUE, "update", 7),
    "value get": (StateKind.VALUE, "value"),
    "value add": (StateKind.REDUCING, "add", 1),
    "list add": (StateKind.LIST, "add", 7),
    "map put": (StateKind.MAP, "put", "a", 7),
    "map get": (StateKind.MAP, "get", "a"),
}
#: What gives a state of each kind a value.
WRITING: dict[StateKind, tuple[Any, ...]] = {
    StateKind.VALUE: ("update", 7),
    StateKind.REDUCING: ("add", 1),
    StateKind.LIST: ("add", 7),
    StateKind.MAP: ("put", "a", 7),
}


class Nowhere:
    """An output that keeps nothing."""

    def add(self, place: bytes, namespace: Any, content: Any) -> None:
        """Forget it."""


def calls(call: Callable[..., Any], *arguments: Any) -> int:
    """Nanoseconds of some calls, with the loop around them."""
    start = time.perf_counter_ns()
    if not arguments:
        for _ in range(CALLS):
            call()
    elif len(arguments) == 1:
        (one,) = arguments
        for _ in range(CALLS):
            call(one)
    else:
        one, two = arguments
        for _ in range(CALLS):
            call(one, two)
    return time.perf_counter_ns() - start


def loop() -> int:
    """Nanoseconds of the loop alone."""
    start = time.perf_counter_ns()
    for _ in range(CALLS):
        pass
    return time.perf_counter_ns() - start


def operation(backend: Any, name: str) -> tuple[Callable[[], Any], Any, list[Any]]:
    """A state with one operation: what writes a value, so that there is one to read, a method and its arguments."""
    kind, method, *arguments = OPERATIONS[name]
    units = (STRING, LONG) if kind is StateKind.MAP else (LONG,)
    reduce = (lambda a, b: a + b) if kind is StateKind.REDUCING else None
    state = backend.create(RegisteredState(name, kind, units, reduce=reduce), Nowhere())
    write, *values = WRITING[kind]
    return partial(getattr(state, write), *values), getattr(state, method), arguments


def measure(name: str) -> dict[str, tuple[float, ...]]:
    """Nanoseconds of every operation, for each of :data:`TABLES`."""
    found = {}
    for each in OPERATIONS:
        backend = create_backend(name)
        try:
            write, call, arguments = operation(backend, each)
            again = []
            for place in new_places():
                backend.set_current_key(place, place)
                write()
                again.append((calls(call, *arguments) - loop()) / CALLS)
            backend.set_current_key(b"", b"")
            # What interrupts the process now and then is not the state's.
            keys = min(keyed(backend, None) for _ in range(RUNS))
            first = min(keyed(backend, call, *arguments) for _ in range(RUNS)) - keys
            found[each] = (sorted(again)[KEYS // 10], first, keyed(backend, call, *arguments, finish=True))
        finally:
            backend.close()
    return found


def keyed(backend: Any, call: Callable[..., Any] | None, *arguments: Any, finish: bool = False) -> float:
    """Nanoseconds of setting a key and one call (or none), over all keys; and of handing out what is there then."""
    places, set_key = new_places(), backend.set_current_key
    start = time.perf_counter_ns()
    if call is None:
        for place in places:
            set_key(place, place)
    elif not arguments:
        for place in places:
            set_key(place, place)
            call()
    elif len(arguments) == 1:
        (one,) = arguments
        for place in places:
            set_key(place, place)
            call(one)
    else:
        one, two = arguments
        for place in places:
            set_key(place, place)
            call(one, two)
    if finish:
        deque(backend.finish(), 0)
    return (time.perf_counter_ns() - start) / KEYS


def new_places() -> list[bytes]:
    """The keys' places: new objects, as every record has its own, so their hashes are not known yet."""
    return [i.to_bytes(10, "big") for i in range(KEYS)]


def show(title: str, found: dict[str, dict[str, float]]) -> None:
    print(f"\n{title:14}" + "".join(f"{name:>12}" for name in BACKENDS) + "     ratios")
    for operation in found["single_key"]:
        times = [found[name][operation] for name in BACKENDS]
        ratios = " : ".join(f"{each / times[0]:.1f}" for each in times)
        print(f"{operation:14}" + "".join(f"{each:12.0f}" for each in times) + f"     {ratios}")


def test_one_key_at_a_time_needs_no_look_up() -> None:
    found = {name: measure(name) for name in BACKENDS}
    print(f"\nns per operation, {KEYS} keys")
    for place, title in enumerate(TABLES):
        show(title, {name: {op: times[place] for op, times in each.items()} for name, each in found.items()})
    get = {name: each["value get"] for name, each in found.items()}
    # FLIP-140 has 2.4 : 1 and 19 : 1 for get, over keys that do not fit a cache; few keys on a busy machine show less.
    assert get["heap"][0] > 1.2 * get["single_key"][0]
    assert get["rocksdb"][0] > 5 * get["single_key"][0]
    assert get["heap"][1] > 1.5 * get["single_key"][1]
