"""The part ``stores``: what verbs wait for in an object store that takes 50 ms for each request, beside raw reads.

Of each verb the figure is the time with a request under way, the name says how many there were and how many of them
waited for the one before, and how that compares with obstore reading and writing the same bytes once, 32 ranges or
objects at a time. Both run in processes of their own, so that they share no interpreter with the server. The stores are
the server of ``tests.remote``, in the words of S3 and of Google, and Azure's emulator Azurite behind a proxy.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from unittest import mock

import numpy as np

from pyspark_savepoint.formats.metadata.stream_handles import FileStateHandle
from pyspark_savepoint.formats.snapshot.relocation import streams_of
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from tests.benchmarks.data import UID, write_savepoint, write_wide_savepoint
from tests.benchmarks.measure import Figure, of_times
from tests.benchmarks.parts import session
from tests.benchmarks.rocksdb_data import IncrementalJob
from tests.remote.measured_azure import MeasuredAzure, measured_azure
from tests.remote.measured_store import MeasuredStore, Request, chain, measured_store, waited
from tests.remote.storage import ACCOUNT, ACCOUNT_KEY, AZURITE, CREDENTIALS

LATENCY = 0.05
#: Bytes in a second of one connection, for the second figures of some verbs.
BANDWIDTH = 50e6
RANGE = 8 << 20
CHECKPOINTS, MANY = 60, 500
#: Beyond so many keys, no checkpoint of RocksDB has more changes. Then it has 3/4 of the keys, in twice the files.
MOST_CHANGED = 1_000_000
NEWEST = f"{{store}}/job/chk-{CHECKPOINTS}"
#: Verbs that read, with how many times raw reads they may take.
READS: dict[str, tuple[tuple[str, ...], float]] = {
    "`ls`, 64 files": (("ls", "{store}/wide"), 2),
    f"`ls` of {CHECKPOINTS} checkpoints": (("ls", "{store}/job"), 2),
    f"`ls` of {MANY} checkpoints": (("ls", "{store}/many"), 2),
    "`--as-of 10`": (("ls", "{store}/job", "--as-of", "10"), 3),
    "`--as-of latest`": (("ls", "{store}/job", "--as-of", "latest"), 3),
    "`sizes`, 64 files": (("sizes", "{store}/wide"), 3),
    "`sizes`, small files": (("sizes", "{store}/small"), 3),
    "`verify`, 64 files": (("verify", "{store}/wide"), 2),
    "`verify`, 4 files": (("verify", "{store}/four"), 2),
    "`verify`, RocksDB": (("verify", NEWEST), 3),
    "`sizes`, RocksDB": (("sizes", NEWEST), 3),
    "`heaviest`, RocksDB": (("heaviest", NEWEST), 3),
    "`show --limit 20`, RocksDB": (("show", NEWEST, UID, "--limit", "20"), 5),
    "one key, RocksDB": (("show", NEWEST, UID, "--keys", "42"), 5),
    "read without Spark, 64 files": (("show", "{store}/wide", UID, "--json", "--limit", "0"), 2),
    "read without Spark, 4 files": (("show", "{store}/four", UID, "--json", "--limit", "0"), 2),
    "read without Spark, RocksDB": (("show", NEWEST, UID, "--json", "--limit", "0"), 2),
    "`diff`, RocksDB": (("diff", f"{{store}}/job/chk-{CHECKPOINTS - 1}", NEWEST), 3),
    "`changes`, RocksDB": (("changes", "{store}/job", UID, "--start", str(CHECKPOINTS - 1)), 3),
    "`doctor`": (("doctor", "{store}/wide"), 10),
    "`report`": (("report", "{store}/wide", "--file", "{folder}/report.html"), 10),
    "`erase --dry-run`": (("erase", "{store}/wide", "{store}/new", "--dry-run", "--keys", "42"), 10),
}
WRITES: dict[str, tuple[tuple[str, ...], float]] = {
    "`pin`, 64 files": (("pin", "{store}/wide", "{store}/pinned"), 3),
    "`cp`, 64 files": (("cp", "{store}/wide", "{store}/copied"), 3),
    "`rename` of an operator": (("rename", "{store}/wide", "{store}/renamed", f"{UID}=other"), 3),
    "`rename` of a state": (("rename", "{store}/wide", "{store}/state", f"{UID}.total=sum"), 3),
    "`remove-keys`": (("remove-keys", "{store}/wide", "{store}/less", UID, "--keys", "0"), 2),
}


Measured = MeasuredStore | MeasuredAzure


@dataclass(frozen=True)
class Kind:
    """A kind of store: how its rows are marked, where its bucket is, and what serves it."""

    mark: str
    bucket: str
    serve: Callable[[], AbstractContextManager[Measured]]
    options: Mapping[str, object] = field(default_factory=dict)


KINDS: Mapping[str, Kind] = {
    "s3": Kind("", "s3://bucket", measured_store),
    "google": Kind("Google: ", "gs://bucket", measured_store, {"anonymous": True}),
    "azure": Kind("Azure: ", f"abfs://bucket@{ACCOUNT}", measured_azure),
}


def stores(folder: Path, keys: int, only: str | None = None) -> Iterator[Figure]:
    """Yield a figure of each verb: seconds waited; aims are those of raw reads times what a verb may take."""
    data = _made(folder, keys)
    owner = {"AZURE_STORAGE_ACCOUNT": ACCOUNT, "AZURE_STORAGE_KEY": ACCOUNT_KEY}
    with mock.patch.dict(os.environ, CREDENTIALS | owner):
        for name, kind in KINDS.items():
            if only not in (None, name):
                continue
            if name == "azure" and AZURITE is None:
                print("Azure is left out: its emulator is not installed (npm install -g azurite).", file=sys.stderr)
                continue
            with kind.serve() as store:
                yield from _in_store(Bench(kind, store, folder), data, keys)


def _in_store(bench: Bench, data: Path, keys: int) -> Iterator[Figure]:
    store = bench.store
    for name in ("wide", "four", "small", "job"):
        store.upload(data / name, name)
    newest = (data / "job" / f"chk-{CHECKPOINTS}" / "_metadata").read_bytes()
    for number in range(1, MANY + 1):
        store.put(f"many/chk-{number}/_metadata", newest)
    store.latency = LATENCY
    for name, (words, most) in {**READS, **WRITES}.items():
        yield bench.command(name, words, most)
    store.bandwidth = BANDWIDTH
    for name in ("`verify`, 64 files", "`verify`, 4 files", "`verify`, RocksDB"):
        words, most = READS[name]
        yield bench.command(f"{name}, 50 MB/s a connection", words, most)
    store.bandwidth = 0.0
    yield from _with_spark(bench, keys)


def _made(folder: Path, keys: int) -> Path:
    """Make the snapshots, or find those that an earlier run has made in the folder of ``BENCH_CACHE``."""
    cache = os.environ.get("BENCH_CACHE")
    kept = (Path(cache) if cache else folder) / f"stores-{keys}"
    if kept.exists():
        return kept
    made = kept.with_name(f"{kept.name}-{os.getpid()}")
    write_savepoint(made / "wide", "long", keys, parallelism=64)
    write_savepoint(made / "four", "long", keys, parallelism=4)
    write_wide_savepoint(made / "small", min(100, max(5, keys // 10_000)), 64, keys=1000)
    count = keys if keys <= MOST_CHANGED else keys * 3 // 4
    job = IncrementalJob(made / "job", "long", count, parallelism=8 if keys <= MOST_CHANGED else 16)
    random = np.random.default_rng(1)
    for number in range(1, CHECKPOINTS + 1):
        changed = min(count, MOST_CHANGED) // 16
        rows = np.arange(count) if number == 1 else np.sort(random.choice(count, changed, replace=False))
        job.put(rows, random.integers(0, 1 << 30, len(rows)))
        job.checkpoint(number)
    job.close()
    last = [Snapshot.open(str(made / "job" / f"chk-{CHECKPOINTS - number}"), allow_outside=True) for number in range(3)]
    streams = (stream for one in last for operator in one.operators for stream in streams_of(operator))
    named = {Path(stream.path).name for stream in streams if isinstance(stream, FileStateHandle)}
    for file in (made / "job" / "shared").iterdir():
        if file.name not in named:  # no verb reads those of checkpoints before, which are most of them
            file.unlink()
    made.rename(kept)
    return kept


def _with_spark(bench: Bench, keys: int) -> Iterator[Figure]:
    options = {"storageOptions": json.dumps(bench.options), "uid": UID}
    with session() as spark:
        read = spark.read.format("savepoint").options(**options)

        def reading(path: str) -> Callable[[], object]:
            return lambda: read.load(bench.named(path)).write.format("noop").mode("overwrite").save()

        reading(NEWEST)()  # Python workers start
        for name, path in (("64 files", "{store}/wide"), ("RocksDB", NEWEST)):
            yield bench.figure(f"read with Spark, {name}", reading(path), 2)
        rows = spark.range(0, keys, 1, 2).selectExpr("id AS key", "id * 7 AS total")
        write = rows.write.format("savepoint").options(**options, maxParallelism=128).mode("append")
        yield bench.figure("`df.write`", lambda: write.save(bench.named("{store}/rows")), 2)


@dataclass(frozen=True)
class Bench:
    """Measures verbs in one store."""

    kind: Kind
    store: Measured
    folder: Path

    @property
    def options(self) -> dict[str, object]:
        """Return the storage options of the store."""
        return {"endpoint": self.store.endpoint, **self.kind.options}

    def named(self, word: str) -> str:
        """Return an argument with the places of this run."""
        return word.format(store=self.kind.bucket, folder=self.folder)

    def command(self, name: str, words: Sequence[str], most: float) -> Figure:
        """Run a command in a process of its own."""

        def run() -> None:
            given = [self.named(word) for word in words]
            command = [sys.executable, "-m", "pyspark_savepoint", *given]
            command += [f"--storage-option={name}={value}" for name, value in self.options.items()]
            ended = subprocess.run(command, capture_output=True, text=True, check=False)
            # 1 is a finding, and what Python itself ends with after an error.
            is_done = ended.returncode in (0, 1) and "Traceback" not in ended.stderr
            assert is_done, f"{words[0]} ended with {ended.returncode}: {ended.stderr}"

        return self.figure(name, run, most)

    def figure(self, name: str, run: Callable[[], object], most: float) -> Figure:
        """Run a verb, and then raw transfers of the same bytes."""
        before = self.store.sizes()
        self.store.log.clear()
        run()
        asked = list(self.store.log)
        assert asked, f"{name} asked the store for nothing"
        given, taken = (sum(getattr(one, way) for one in asked) / 1e6 for way in ("given", "taken"))
        raw = self._raw(asked)
        self.store.remove(self.store.sizes().keys() - before.keys())
        up = f", {taken:.1f} MB up" if taken >= 1 else ""
        said = (
            f"{self.kind.mark}{name}: {len(asked)} requests, {chain(asked)} in a chain, {given:.1f} MB{up}, "
            f"{waited(asked) / raw:.1f} times raw"
        )
        return of_times(said, [waited(asked)], round(most * raw, 2))

    def _raw(self, asked: list[Request]) -> float:
        """Return the seconds in which the bytes that a verb has read come in, and those that it wrote go out.

        Each once, 32 ranges or objects at a time.
        """
        sent = [(f"raw/{number}", one.taken) for number, one in enumerate(asked) if one.kind in ("PUT", "PART")]
        there = self.store.sizes()
        sizes: dict[str, int] = {}
        for one in asked:
            if one.kind == "GET" and one.given and one.key in there:
                sizes[one.key] = min(sizes.get(one.key, 0) + one.given, there[one.key])
        first = [(key, 0, size) for key, size in sizes.items() if key.endswith("_metadata")]
        rest = [
            (key, low, min(low + RANGE, size))
            for key, size in sizes.items()
            if not key.endswith("_metadata")
            for low in range(0, size, RANGE)
        ]
        self.store.log.clear()
        place = {"endpoint": self.store.endpoint, "is_azure": isinstance(self.store, MeasuredAzure)}
        wanted = json.dumps({**place, "ranges": [first, rest], "sent": sent})
        subprocess.run([sys.executable, "-m", "tests.benchmarks.raw_transfers"], input=wanted, text=True, check=True)
        return max(waited(self.store.log), LATENCY)
