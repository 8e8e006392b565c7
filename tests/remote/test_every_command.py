"""Each request of every command may fail once: the command does what it does without the fault, or says one error."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from tests.remote.attack_verbs import FAULTS, Attack
from tests.remote.every_command import COMMANDS, fill, words_of
from tests.remote.measured_store import measured_store


@pytest.fixture(scope="module")
def attack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Attack]:
    files = tmp_path_factory.mktemp("files")
    with measured_store() as store:
        store.silence = 1.2
        fill(store, files)
        yield Attack(store, random.Random(1), files)


@pytest.mark.parametrize("name", COMMANDS)
def test_each_request_fails_once(attack: Attack, name: str) -> None:
    words = words_of(name, attack.files)
    for number in range(1, attack.without_faults(words).requests + 1):
        for fault in FAULTS:
            attack.attack(words, {number: fault})
    assert attack.problems == []
