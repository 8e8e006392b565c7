"""``python -m tests.remote.attack --overwrites 2000 --pairs 200``: writers in a store that fails at random.

Each overwrite replaces an operator beside another, through a proxy that loses answers, delays, cuts, denies and hands
on requests when the writer has given up, and acknowledges what it does not keep. Then what is there is read without
faults: it must be the old savepoint or the new one, complete, and what the writer was told must be true. Pairs are
two such writers at a time, from one base: at most one may be told that it has published, and then its savepoint must
be there; without faults, exactly one. With ``--ignore-conditions`` the store accepts every put, whatever its
condition, and of a pair without faults both may be told that another one was publishing.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import sys
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from pyspark_savepoint.formats.errors import ConcurrentWriteError, SavepointError, StorageError, UncertainOutcomeError
from pyspark_savepoint.formats.filesystems.storage_options import StorageOptions, StoragePath
from pyspark_savepoint.formats.snapshot.publication import Staging, roll_back
from pyspark_savepoint.formats.snapshot.vacuum import vacuum
from pyspark_savepoint.statebackends.writing.committer import commit
from pyspark_savepoint.statebackends.writing.write_task import write_rows
from tests.remote.storage import (
    ACCOUNT,
    ACCOUNT_KEY,
    CREDENTIALS,
    FaultyProxy,
    azure_store,
    faulty_proxy,
    put,
    s3_store,
)
from tests.statebackends.writing.written_operators import planned, read, write

#: The faults of requests, with their percentages.
FAULTS: dict[int | str, int] = {
    "lose": 25, "drop": 15, "truncate": 10, 500: 15, 503: 15, 403: 10, "late": 5, "slow": 5, "forget": 5
}  # fmt: skip
#: The same requests fail more often where it counts.
RATE, RATE_OF_METADATA = 0.04, 0.35
IMPATIENT = {"connectTimeout": 1, "requestTimeout": 1, "maxAttempts": 2}


@dataclass
class Attack:
    """A store, a proxy before it, and what was seen."""

    proxy: FaultyProxy
    through: StoragePath
    random: random.Random
    seen: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.proxy.delay = 1.3
        self.value = 0
        write(self.through, [rows(0)])
        write(self.through, [rows(-1)], uid="other")

    def fault(self, method: str, path: str) -> int | str | None:
        """What happens to a request."""
        rate = RATE_OF_METADATA if "_metadata" in path and method in ("PUT", "POST") else RATE
        if self.random.random() > rate:
            return None
        fault = self.random.choices(list(FAULTS), list(FAULTS.values()))[0]
        if fault == "forget" and method != "PUT":
            return None
        self.seen[f"fault {fault}"] += 1
        return fault

    def overwrite(self, value: int) -> str:
        """One overwrite with faults, and what became of it."""
        told = self._told(self._planned(value), value)
        self._check([(value, told)])
        return told

    def pair(self, first: int, second: int, faulty: bool) -> list[str]:
        """Two overwrites at a time."""
        plans = [self._planned(value) for value in (first, second)]
        told = ["", ""]
        start = threading.Barrier(2)

        def run(number: int, value: int) -> None:
            told[number] = self._told(plans[number], value, start.wait, faulty)

        threads = [threading.Thread(target=run, args=place) for place in enumerate((first, second))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        exact = not faulty and not self.proxy.ignores_conditions
        if told.count("published") > 1 or (exact and sorted(told) != ["another was faster", "published"]):
            self.problems.append(f"two writers, {'with' if faulty else 'without'} faults, were told {told}")
        self._check([(first, told[0]), (second, told[1])])
        return told

    def _planned(self, value: int) -> object:
        """A plan made without faults; impatient options take a server that others slow down for one that is gone."""
        self.proxy.fault = lambda method, path: None
        for _ in range(10):
            with contextlib.suppress(StorageError):
                return planned(self.through, rows(value).schema, overwrite=True, retention=0)
        raise AssertionError("the S3 server of the tests does not answer")

    def _told(self, plan: object, value: int, ready: Callable[[], object] = lambda: None, faulty: bool = True) -> str:
        """Write and commit, and return the outcome; as Spark does, abort if it raises."""
        if faulty:
            self.proxy.fault = self.fault
        try:
            outputs = [write_rows(plan, 0, rows(value).to_batches())]
        except SavepointError:
            outputs = []
        ready()
        try:
            if not outputs:
                raise SavepointError("a task failed")
            commit(plan, outputs)
        except UncertainOutcomeError:
            told = "not known"
        except ConcurrentWriteError:
            told = "another was faster"
        except SavepointError:
            told = "failed"
        else:
            return "published"
        staging: Staging = plan.staging
        roll_back(staging)
        return told

    def _check(self, writers: Sequence[tuple[int, str]]) -> None:
        """Check that the savepoint is the old or the new one, complete, as the writer reported."""
        self.proxy.fault = lambda method, path: None
        before, new = self.value, dict(writers)
        for moment in ("at once", "when late requests have come"):
            try:
                found = self._found()
            except SavepointError as error:
                self.problems.append(f"after {writers} over {before}, {moment}: {error}")
                return
            if found not in (before, *new):
                self.problems.append(f"after {writers} over {before}, {moment}: {found} is there")
            published = [value for value, told in writers if told == "published"]
            if published and found not in published:
                self.problems.append(
                    f"{published} was told to be published over {before}, {moment}, and {found} is there"
                )
            if found in new and found != before and new[found] in ("failed", "another was faster"):
                self.problems.append(f"{found} was told to have failed ({new[found]}), {moment}, and is there")
            if not self.proxy.held:
                break
            while self.proxy.held:
                time.sleep(0.05)
        self.value = found
        if self.proxy.ignores_conditions:
            # Marks of requests whose outcome was unknown would keep the next writers from publishing, for minutes.
            vacuum(self.through, 0)

    def _found(self) -> int:
        """Return the number that the savepoint was written with, after a check that all of its rows exist."""
        found = read(self.through)
        value = int(found[0]["n"])
        wanted = read_rows(value)
        if found != wanted or read(self.through, uid="other") != read_rows(-1):
            raise SavepointError(f"the savepoint of {value} is not whole", found=f"{len(found)} rows")
        return value


def rows(value: int) -> pa.Table:
    """A hundred keys with one number."""
    return pa.table({"key": list(range(100)), "n": [value] * 100})


def read_rows(value: int) -> list[dict[str, int]]:
    """The same as they are read."""
    return sorted(({"key": key, "n": value} for key in range(100)), key=lambda row: repr(sorted(row.items())))


def in_s3(proxy: FaultyProxy, name: str) -> StoragePath:
    """A savepoint in the bucket behind a proxy."""
    return StoragePath.of(f"s3://bucket/{name}", StorageOptions.of({"endpoint": proxy.endpoint, **IMPATIENT}))


def in_azure(proxy: FaultyProxy, name: str) -> StoragePath:
    """A savepoint in the container behind a proxy; pyarrow has no options for impatience there."""
    return StoragePath.of(f"abfs://bucket@{ACCOUNT}/{name}", StorageOptions.of({"endpoint": proxy.endpoint}))


def attack(through: StoragePath, proxy: FaultyProxy, seed: int, overwrites: int, pairs: int) -> Attack:
    """Run overwrites and pairs; return the findings."""
    running = Attack(proxy, through, random.Random(seed))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # files that stay, of which there are many
        for number in range(1, overwrites + 1):
            running.seen[f"overwrite: {running.overwrite(number)}"] += 1
            if number % 100 == 0 and overwrites > 100:
                print(f"{number} overwrites, {len(running.problems)} problems", flush=True)
        for number in range(pairs):
            faulty = number % 2 == 1
            kind = "with faults" if faulty else "without"
            for told in running.pair(10**6 + 2 * number, 10**6 + 2 * number + 1, faulty):
                running.seen[f"pair {kind}: {told}"] += 1
    return running


def main() -> int:
    """Run, and print what was found; return 1 if anything was lost."""
    parser = argparse.ArgumentParser(prog="python -m tests.remote.attack", description=__doc__)
    parser.add_argument("--overwrites", type=int, default=2000)
    parser.add_argument("--pairs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--store", choices=("s3", "azure"), default="s3", help="azure needs azurite-blob on the path")
    parser.add_argument("--ignore-conditions", action="store_true", help="the store ignores conditional headers")
    args = parser.parse_args()
    os.environ.update(CREDENTIALS | {"AZURE_STORAGE_ACCOUNT": ACCOUNT, "AZURE_STORAGE_KEY": ACCOUNT_KEY})
    began = time.monotonic()
    azure = args.store == "azure"
    with azure_store() if azure else s3_store() as port, faulty_proxy(port) as proxy:
        if not azure:
            put(port, "/bucket")
        proxy.ignores_conditions = args.ignore_conditions
        through = (in_azure if azure else in_s3)(proxy, "sp")
        found = attack(through, proxy, args.seed, args.overwrites, args.pairs)
    for what, count in sorted(found.seen.items()):
        print(f"{count:7}  {what}")
    print("\n".join(found.problems[:20]))
    print(f"{len(found.problems)} problems in {time.monotonic() - began:.0f} s")
    return bool(found.problems)


if __name__ == "__main__":
    sys.exit(main())
