"""What every command asks of a store, counted exactly: a change that adds a round trip is seen here."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from pyspark_savepoint.command_line import commands
from tests.remote.attack_verbs import Attack
from tests.remote.every_command import COMMANDS, fill, words_of
from tests.remote.measured_store import chain, measured_store
from tests.remote.storage import CREDENTIALS

#: The kinds of requests, and the longest chain of requests of which each waits for the one before.
EXPECTED: dict[str, tuple[str, int]] = {
    "ls": ("GET 3, LIST 1", 2),
    "retained": ("GET 2, LIST 3", 4),
    "show": ("GET 3", 2),
    "sizes": ("GET 3", 2),
    "heaviest": ("GET 3", 2),
    "offsets": ("GET 1", 1),
    "diff": ("GET 4", 2),
    "changes": ("GET 4, LIST 1", 3),
    "report": ("GET 3, LIST 2", 3),
    "schema": ("GET 3", 2),
    "verify": ("GET 3", 2),
    "doctor": ("GET 3", 2),
    "metrics": ("GET 3, LIST 1", 2),
    "verify-erasure": ("GET 8, LIST 2", 8),
    "check-restore": ("GET 3", 2),
    "catch-up": ("GET 1", 1),
    "check-migration": ("GET 3", 2),
    "export": ("GET 3", 2),
    "warm-up": ("GET 3", 2),
    "evolve": ("DELETES 1, GET 5, HEAD 2, LIST 3, PUT 5", 8),
    "set-offsets": ("DELETES 1, GET 3, HEAD 2, LIST 3, PUT 4", 6),
    "rename": ("COPY 2, DELETES 1, GET 5, HEAD 2, LIST 3, PUT 4", 7),
    "copy-operator": ("COPY 2, DELETES 1, GET 5, HEAD 2, LIST 3, PUT 4", 8),
    "remove": ("DELETES 1, GET 5, HEAD 2, LIST 3, PUT 4", 7),
    "remove-keys": ("COPY 1, DELETES 1, GET 6, HEAD 2, LIST 3, PUT 5", 10),
    "erase": ("COPY 1, DELETES 1, GET 12, HEAD 2, LIST 5, PUT 5", 16),
    "rename-class": ("DELETES 1, GET 7, HEAD 2, LIST 3, PUT 6", 9),
    "rekey": ("DELETES 1, GET 5, HEAD 2, LIST 3, PUT 6", 8),
    "set-max-parallelism": ("DELETES 1, GET 5, HEAD 2, LIST 3, PUT 8", 9),
    "salvage": ("COPY 1, DELETES 1, GET 5, HEAD 2, LIST 3, PUT 4", 8),
    "create": ("DELETES 1, GET 2, HEAD 2, LIST 3, PUT 5", 6),
    "put": ("COPY 2, DELETES 1, GET 5, HEAD 2, LIST 3, PUT 5", 8),
    "merge": ("COPY 2, DELETES 1, GET 6, HEAD 2, LIST 3, PUT 4", 8),
    "split": ("COPY 2, DELETES 2, GET 8, HEAD 6, LIST 7, PUT 6", 15),
    "migrate": ("COPY 2, DELETES 1, GET 5, HEAD 2, LIST 3, PUT 4", 8),
    "vacuum": ("DELETES 2, GET 1, HEAD 1, LIST 4", 8),
    "cp": ("COPY 2, DELETES 1, GET 5, HEAD 2, LIST 3, PUT 4", 7),
    "pin": ("COPY 2, DELETES 1, GET 5, HEAD 2, LIST 3, PUT 4", 7),
    "relocate": ("DELETES 1, GET 3, HEAD 4, LIST 3, PUT 4", 7),
}


@pytest.fixture(scope="module")
def attack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Attack]:
    """A filled store."""
    files = tmp_path_factory.mktemp("files")
    with pytest.MonkeyPatch.context() as patch, measured_store() as store:
        for name, value in CREDENTIALS.items():
            patch.setenv(name, value)
        fill(store, files)
        yield Attack(store, random.Random(1), files)


def test_every_command_of_a_store_is_here() -> None:
    stored = "--storage-option"
    names = {one.name for one in commands.COMMANDS if any(stored in part.names for part in one.all_arguments)}
    assert COMMANDS.keys() == names


@pytest.mark.parametrize("name", COMMANDS)
def test_requests(attack: Attack, name: str) -> None:
    kinds, most = EXPECTED[name]
    attack.store.latency = 0.03
    attack.run(words_of(name, attack.files))
    attack.store.latency = 0.0
    expected = {kind: int(count) for kind, count in (one.split() for one in kinds.split(", "))}
    asked = attack.store.kinds()
    assert asked.keys() == expected.keys()
    assert all(asked[kind] <= count for kind, count in expected.items()), asked  # one less, if a file came before
    assert chain(attack.store.requests) <= 2 * most, "on a busy machine"
