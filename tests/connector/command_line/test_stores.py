"""What every command asks of a store, counted exactly: a change that adds a round trip is seen here."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from pyspark_savepoint.command_line import commands
from tests.remote.attack_verbs import Attack
from tests.remote.every_command import COMMANDS, REQUESTS, fill, words_of
from tests.remote.measured_store import chain, measured_store
from tests.remote.storage import CREDENTIALS


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
    kinds, most = REQUESTS[name]
    attack.store.latency = 0.03
    attack.run(words_of(name, attack.files))
    attack.store.latency = 0.0
    expected = {kind: int(count) for kind, count in (one.split() for one in kinds.split(", "))}
    asked = attack.store.kinds()
    assert asked.keys() == expected.keys()
    assert all(asked[kind] <= count for kind, count in expected.items()), asked  # one less, if a file came before
    assert chain(attack.store.requests) <= 2 * most, "on a busy machine"
