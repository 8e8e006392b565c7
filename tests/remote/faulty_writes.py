"""Writes to a store that fails: the verbs, how a request of them fails, and what must be there afterwards."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import pyspark_savepoint
from pyspark_savepoint.command_line.main import main
from pyspark_savepoint.formats.filesystems.filesystem import store_of
from tests.remote.measured_store import MeasuredStore

NEW = "s3://bucket/out/new"
VERBS: dict[str, tuple[str, ...]] = {
    "cp": ("cp", "s3://bucket/shop", NEW),
    "pin": ("pin", "s3://bucket/shop", NEW),
    "rename": ("rename", "s3://bucket/shop", NEW, "accounts=customers"),
    "rename a state": ("rename", "s3://bucket/shop", NEW, "accounts.total=sum"),
    "remove-keys": ("remove-keys", "s3://bucket/shop", NEW, "accounts", "--keys", "1042"),
    "remove": ("remove", "s3://bucket/shop", NEW, "accounts"),
    "relocate": ("relocate", "s3://bucket/referred", "s3://bucket/shop", "s3://bucket/shop", NEW),
    "copy-operator": ("copy-operator", "s3://bucket/shop", NEW, "accounts", "other"),
    "set-max-parallelism": ("set-max-parallelism", "s3://bucket/shop", NEW, "64"),
    "migrate": ("migrate", "s3://bucket/shop", NEW, "--flink", "2.3"),
}


def run(store: MeasuredStore, *words: str, **options: object) -> int:
    store_of.cache_clear()
    store.requests.clear()
    given = {"endpoint": store.endpoint, **options}
    return main([*words, *(f"--storage-option={name}={value}" for name, value in given.items())])


def prepared(store: MeasuredStore, verb: str) -> dict[str, bytes]:
    """Return the objects that are there before a verb."""
    if verb == "relocate":
        source = pyspark_savepoint.open("s3://bucket/shop", storage_options={"endpoint": store.endpoint})
        source.write("s3://bucket/referred", files="reference")
    return dict(store.objects)


def once(number: int, fault: int | str) -> Callable[[str, str], int | str | None]:
    """Fail the request of a number."""
    lock, seen = threading.Lock(), [0]

    def failing(kind: str, key: str) -> int | str | None:
        with lock:
            seen[0] += 1
            return fault if seen[0] == number else None

    return failing


def busy_from(number: int, seconds: float) -> Callable[[str, str], int | None]:
    """Refuse every request for some seconds, from the one of a number on."""
    lock, seen, until = threading.Lock(), [0], [0.0]

    def failing(kind: str, key: str) -> int | None:
        with lock:
            seen[0] += 1
            if seen[0] == number:
                until[0] = time.monotonic() + seconds
            return 503 if time.monotonic() < until[0] else None

    return failing


def expect_whole(store: MeasuredStore, before: dict[str, bytes], done: int, new: str = "out/new") -> None:
    """There is the whole savepoint, and a write that says so; or what was there before, and an error."""
    store.fault = lambda kind, key: None
    assert {name: store.objects.get(name) for name in before} == before, "nothing is deleted"
    is_there = f"{new}/_metadata" in store.objects
    assert is_there == (done == 0)
    if is_there:
        assert run(store, "verify", f"s3://bucket/{new}", "--allow-outside") == 0
        left = {name for name in store.objects if name not in before and "/.pending-" in name}
        assert not left


def swept(store: MeasuredStore, verb: str, every: int, faults: tuple[int | str, ...]) -> Iterator[int]:
    """Fail each request of a verb once, in each way; yield what the verb has returned."""
    before = prepared(store, verb)
    assert run(store, *VERBS[verb]) == 0
    count = len(store.requests)
    for fault in faults:
        for number in range(1, count + 1, every):
            with store.lock:
                store.objects.clear()
                store.objects |= before
            store.fault = once(number, fault)
            done = run(store, *VERBS[verb], requestTimeout=1)
            expect_whole(store, before, done)
            yield done


def errors(text: str) -> int:
    """Return how many errors a command has told."""
    return sum(line.startswith("error: ") for line in text.splitlines())
