"""``python -m tests.remote.attack_verbs --runs 500 --seed 1``: verbs in a store in which requests fail at random.

Each run draws a verb, a snapshot (small, of 64 files, or an incremental checkpoint of RocksDB that shares files), and
up to three of its requests with a fault each. The verb must print and write what it does without faults, byte for byte,
and leave nothing else; or it ends with one error, the place is as it was, and the same verb then succeeds.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import io
import os
import random
import sys
import tempfile
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from pyspark_savepoint.command_line.main import main as command
from pyspark_savepoint.formats.filesystems.filesystem import store_of
from pyspark_savepoint.formats.kernels.interpretation import notice
from tests.benchmarks.data import UID, write_savepoint
from tests.benchmarks.rocksdb_data import IncrementalJob
from tests.remote.every_command import COMMANDS, VARYING, fill, words_of
from tests.remote.measured_store import MeasuredStore, measured_store
from tests.remote.storage import CREDENTIALS

NEW = "s3://bucket/out/new"
FAULTS: tuple[int | str, ...] = (503, 500, 429, "reset", "lost", "vanished", "stall", "hang", "cut", "cut-stall")
#: More snapshots: their place, an operator, a state of it, a key, and another max parallelism.
PLACES = {
    "wide": ("s3://bucket/wide", UID, "total", "42", "256"),
    "job": ("s3://bucket/incremental/chk-3", UID, "total", "42", "256"),
}
#: Commands that have more to do with these than with the shop.
VERBS: dict[str, tuple[str, ...]] = {
    "ls": ("ls", "{place}"),
    "sizes": ("sizes", "{place}"),
    "heaviest": ("heaviest", "{place}"),
    "verify": ("verify", "{place}", "--allow-outside"),
    "show": ("show", "{place}", "{uid}", "--json", "--limit", "0"),
    "show --keys": ("show", "{place}", "{uid}", "--json", "--keys", "{key}"),
    "show --limit": ("show", "{place}", "{uid}", "--json", "--limit", "3"),
    "doctor": ("doctor", "{place}"),
    "diff": ("diff", "{place}", "{other}"),
    "erase --dry-run": ("erase", "{place}", NEW, "--dry-run", "--keys", "{key}"),
    "ls of a folder": ("ls", "s3://bucket/incremental"),
    "--as-of": ("ls", "s3://bucket/incremental", "--as-of", "latest"),
    "changes": ("changes", "s3://bucket/incremental", UID, "--start", "2"),
    "cp": ("cp", "{place}", NEW),
    "pin": ("pin", "{place}", NEW),
    "rename": ("rename", "{place}", NEW, "{uid}=other"),
    "rename a state": ("rename", "{place}", NEW, "{uid}.{state}=sum"),
    "remove-keys": ("remove-keys", "{place}", NEW, "{uid}", "--keys", "{key}"),
    "erase": ("erase", "{place}", NEW, "--keys", "{key}"),
    "remove": ("remove", "{place}", NEW, "{uid}"),
    "copy-operator": ("copy-operator", "{place}", NEW, "{uid}", "another"),
    "set-max-parallelism": ("set-max-parallelism", "{place}", NEW, "{parallelism}"),
    "migrate": ("migrate", "{place}", NEW, "--flink", "2.3"),
}


@dataclass
class Outcome:
    """What a verb has done: its code, what it said, the files that it wrote and deleted, and its requests."""

    code: int
    said: str
    error: str
    written: tuple[str, ...]
    deleted: tuple[str, ...]
    requests: int
    seconds: float


@dataclass
class Attack:
    """A store, and what was seen."""

    store: MeasuredStore
    random: random.Random
    #: What :func:`fill` has put into a folder.
    files: Path
    options: Mapping[str, object] = field(default_factory=dict)
    seen: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    expected: dict[tuple[str, ...], Outcome] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.before = dict(self.store.objects)

    def draw(self) -> list[str]:
        """Return the words of a command: of any on the shop, or of one on a larger snapshot."""
        verb = self.random.choice([*COMMANDS, *VERBS])
        name = self.random.choice(list(PLACES))
        if verb not in VERBS or self.random.random() < 1 / 3:
            return words_of(verb, self.files) if verb in COMMANDS else self.draw()
        place, uid, state, key, parallelism = PLACES[name]
        other = place.replace("chk-3", "chk-2")
        given = {"place": place, "uid": uid, "state": state, "key": key, "parallelism": parallelism, "other": other}
        return [word.format(**given) for word in VERBS[verb]]

    def run(self, words: Sequence[str], fault: Callable[[str, str], int | str | None] | None = None) -> Outcome:
        """Run a command on the objects that were there in the beginning."""
        with self.store.lock:
            self.store.objects = dict(self.before)
            self.store.uploads.clear()
        return self.again(words, fault)

    def again(self, words: Sequence[str], fault: Callable[[str, str], int | str | None] | None = None) -> Outcome:
        """Run a command on the objects that are there now."""
        store_of.cache_clear()
        self.store.requests.clear()
        self.store.fault = fault or (lambda kind, key: None)
        said, error, begin = io.StringIO(), io.StringIO(), time.monotonic()
        options = {"endpoint": self.store.endpoint, "requestTimeout": 1 if fault else 30, **self.options}
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(error):
            code = command([*words, *(f"--storage-option={name}={value}" for name, value in options.items())])
        seconds = time.monotonic() - begin
        self.store.fault = lambda kind, key: None
        written = sorted(
            "_metadata" if name.endswith("/_metadata") else hashlib.sha256(data).hexdigest()
            for name, data in dict(self.store.objects).items()
            if name not in self.before
        )
        deleted = [name for name, data in self.before.items() if self.store.objects.get(name) != data]
        return Outcome(
            code, said.getvalue(), error.getvalue(), tuple(written), tuple(deleted), len(self.store.requests), seconds
        )

    def draw_faults(self, words: Sequence[str]) -> dict[int, int | str]:
        """Return up to three faults by the number of the request that has each."""
        most = self.without_faults(words).requests + 1
        return {self.random.randint(1, most): self.random.choice(FAULTS) for _ in range(self.random.randint(1, 3))}

    def without_faults(self, words: Sequence[str]) -> Outcome:
        """Return what a command does if nothing fails."""
        if (found := self.expected.get(tuple(words))) is None:
            found = self.expected[tuple(words)] = self.run(words)
        return found

    def attack(self, words: Sequence[str], chosen: Mapping[int, int | str]) -> None:
        """Run a command whose requests of some numbers fail, and compare."""
        expected = self.without_faults(words)
        lock, asked = threading.Lock(), [0]

        def fault(kind: str, key: str) -> int | str | None:
            with lock:
                asked[0] += 1
                return chosen.get(asked[0])

        found = self.run(words, fault)
        what = f"{' '.join(words)} with {chosen}"
        self.seen[f"{len(chosen)} faults, code {found.code}"] += 1
        if not set(found.deleted) <= set(expected.deleted):
            self.problems.append(f"{what}: an object of the source has changed")
        if found.code == expected.code:
            self._same(what, found, expected)
            return
        errors = sum(line.startswith("error: ") for line in found.error.splitlines())
        if errors != 1 or "Traceback" in found.error:
            self.problems.append(f"{what}: ended with {found.code} and {errors} errors: {found.error}")
        self.seen[f"error: {found.error.splitlines()[0] if found.error else ''}"] += 1
        if found.written:
            self.problems.append(f"{what}: failed ({found.error}) and left {found.written}")
        self._same(f"{what}, repeated", self.again(words), expected)

    def _same(self, what: str, found: Outcome, expected: Outcome) -> None:
        for of, one, other in (
            ("printed", VARYING.sub("", found.said), VARYING.sub("", expected.said)),
            ("warned", VARYING.sub("", found.error), VARYING.sub("", expected.error)),
            ("written", found.written, expected.written),
            ("deleted", found.deleted, expected.deleted),
        ):
            if one != other:
                self.problems.append(f"{what}: {of} {one!r}, where without faults {other!r}")
        if self.store.uploads:
            self.seen["uploads left"] += 1


def made(folder: Path, store: MeasuredStore) -> None:
    """Put the snapshots into a store."""
    fill(store, folder)
    store.upload(write_savepoint(folder / "wide", "long", 20_000, parallelism=64), "wide")
    job = IncrementalJob(folder / "job", "long", 60_000, parallelism=2)
    draw = np.random.default_rng(1)
    for number in (1, 2, 3):
        rows = np.arange(60_000) if number == 1 else np.sort(draw.choice(60_000, 4_000, replace=False))
        job.put(rows, draw.integers(0, 1 << 30, len(rows)))
        job.checkpoint(number)
    job.close()
    store.upload(folder / "job", "incremental")


def main() -> int:
    """Run, and print what was found; return 1 if anything was wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.remote.attack_verbs", description=__doc__)
    parser.add_argument("--runs", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    os.environ.update(CREDENTIALS)
    notice.silence()  # it is said once, where kernels are compiled, which is no result of a verb
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, measured_store() as store, warnings.catch_warnings():
        store.silence = 1.2
        made(Path(folder), store)
        attack = Attack(store, random.Random(given.seed), Path(folder))
        for number in range(1, given.runs + 1):
            words = attack.draw()
            attack.attack(words, attack.draw_faults(words))
            if number % 50 == 0:
                print(f"{number} runs, {len(attack.problems)} problems", flush=True)
    for what, count in sorted(attack.seen.items()):
        print(f"{count:7}  {what}")
    print("\n".join(problem[:1500] for problem in attack.problems[:20]))
    print(f"{len(attack.problems)} problems in {time.monotonic() - begin:.0f} s")
    return bool(attack.problems)


if __name__ == "__main__":
    sys.exit(main())
