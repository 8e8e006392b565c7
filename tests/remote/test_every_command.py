"""Every command in S3 and in Google's store: with the same outcome, and whichever of its requests fails once."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.remote.attack_verbs import FAULTS, Attack
from tests.remote.every_command import COMMANDS, fill, usual, words_of
from tests.remote.measured_store import measured_store

#: Buckets in the words of S3 and of Google, and the options that each needs here.
BUCKETS: dict[str, dict[str, object]] = {"s3://bucket": {}, "gs://bucket": {"anonymous": True}}


@pytest.fixture(scope="module")
def attacks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Attack]]:
    """A filled store of each kind."""
    with ExitStack() as stack:
        found = {}
        for bucket, options in BUCKETS.items():
            store, files = stack.enter_context(measured_store()), tmp_path_factory.mktemp("files")
            store.silence = 1.2
            fill(store, files, bucket, **options)
            found[bucket] = Attack(store, random.Random(1), files, options)
        yield found


@pytest.mark.parametrize("name", COMMANDS)
def test_google_answers_as_s3_does(attacks: dict[str, Attack], name: str) -> None:
    """The same exit code, texts and files. In Google new files are read back, and files are deleted one by one."""
    s3, google = (attack.without_faults(words_of(name, attack.files, bucket)) for bucket, attack in attacks.items())
    texts = [
        [usual(text, bucket, attack.files) for text in (found.said, found.error)]
        for (bucket, attack), found in zip(attacks.items(), (s3, google), strict=True)
    ]
    assert (s3.code, texts[0], s3.written) == (google.code, texts[1], google.written)


@pytest.mark.parametrize("bucket", BUCKETS)
@pytest.mark.parametrize("name", COMMANDS)
def test_each_request_fails_once(attacks: dict[str, Attack], name: str, bucket: str) -> None:
    attack = attacks[bucket]
    words = words_of(name, attack.files, bucket)
    for number in range(1, attack.without_faults(words).requests + 1):
        for fault in FAULTS:
            attack.attack(words, {number: fault})
    assert attack.problems == []
