"""Verbs that read ask a store for each object once, many at a time, and bear what stores do."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import pyspark_savepoint
from pyspark_savepoint.engines.table_reads import partitions_of
from pyspark_savepoint.formats.errors import SavepointError
from pyspark_savepoint.formats.filesystems.filesystem import store_of
from pyspark_savepoint.formats.io.one_verb import one_verb
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from tests.benchmarks.data import UID, make_keys, write_savepoint
from tests.benchmarks.rocksdb_data import IncrementalJob
from tests.remote.conftest import SHOP
from tests.remote.faulty_writes import busy_from
from tests.remote.measured_store import MeasuredStore, chain, measured_store
from tests.remote.test_requests import at, run

KEYS, CHECKPOINTS, SUBTASKS, FILES = 20_000, 12, 6, 60
NEWEST = f"chk-{CHECKPOINTS}"


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checkpoints of a job with a database per subtask, and a savepoint of many files."""
    folder = tmp_path_factory.mktemp("inputs")
    write_savepoint(folder / "wide", "long", KEYS, parallelism=FILES)
    job, random = IncrementalJob(folder / "job", "long", KEYS, parallelism=SUBTASKS), np.random.default_rng(1)
    for number in range(1, CHECKPOINTS + 1):
        rows = np.sort(random.choice(KEYS, KEYS if number == 1 else KEYS // 16, replace=False))
        job.put(rows, random.integers(0, 1 << 30, len(rows)))
        job.checkpoint(number)
    job.close()
    return folder


@pytest.fixture
def filled(inputs: Path) -> Iterator[MeasuredStore]:
    store_of.cache_clear()
    with measured_store() as store:
        for name in ("wide", "job"):
            store.upload(inputs / name, name)
        store.upload(SHOP, "shop")
        yield store


#: Verbs, with the most requests of which each waits for the one before; busy machines make them twice as many.
VERBS: dict[str, tuple[tuple[str, ...], int]] = {
    "ls": (("ls", "shop"), 3),
    "ls of a folder": (("ls", "job"), 4),
    "ls of a checkpoint": (("ls", f"job/{NEWEST}"), 4),
    "as of a number": (("ls", "job", "--as-of", "5"), 6),
    "as of latest": (("ls", "job", "--as-of", "latest"), 7),
    "sizes": (("sizes", f"job/{NEWEST}"), 9),
    "verify": (("verify", f"job/{NEWEST}"), 9),
    "heaviest": (("heaviest", f"job/{NEWEST}", UID), 12),
    "show": (("show", f"job/{NEWEST}", UID, "--limit", "20"), 8),
    "diff": (("diff", f"job/chk-{CHECKPOINTS - 1}", f"job/{NEWEST}"), 16),
    "sizes of many files": (("sizes", "wide"), 7),
    "verify of many files": (("verify", "wide"), 7),
    "doctor": (("doctor", "wide"), 9),
    "report": (("report", "wide", "--file", "{tmp}/report.html"), 12),
    "doctor of a small one": (("doctor", "shop"), 4),
}


def words_of(words: tuple[str, ...], folder: Path) -> list[str]:
    paths = [
        f"s3://bucket/{word}" if word.partition("/")[0] in ("shop", "job", "wide", "new") else word for word in words
    ]
    return [word.format(tmp=folder) for word in paths]


@pytest.mark.parametrize("name", VERBS)
def test_each_object_is_asked_for_once(filled: MeasuredStore, tmp_path: Path, name: str) -> None:
    words, most = VERBS[name]
    filled.latency = 0.04
    assert run(filled, *words_of(words, tmp_path)) in (0, 1)
    found = [one for one in filled.requests if one.kind == "GET" and one.status in (200, 206)]
    counts = Counter(one.key for one in found)
    assert {key: count for key, count in counts.items() if count > 1} == {}
    again = sum(one.status == 304 for one in filled.requests)
    assert len(filled.requests) <= len(found) + again + 3, "a list, and what is looked for and is not there"
    assert again <= CHECKPOINTS, "metadata that this process has read for another verb"
    assert chain(filled.requests) <= 2 * most
    given = sum(one.given for one in found)
    assert given <= sum(len(filled.objects[key]) for key in counts), "no byte twice"


#: Of a folder of checkpoints: words, the exit code, and the most requests in a chain.
OF_A_FOLDER: dict[str, tuple[tuple[str, ...], int, int]] = {
    "retained": (("retained", "job"), 0, 5),
    "a verb of one snapshot": (("doctor", "job"), 2, 5),
    "as of latest": (("ls", "job", "--as-of", "latest"), 0, 5),
}


@pytest.mark.parametrize("name", OF_A_FOLDER)
def test_folders_are_looked_through_many_at_a_time(filled: MeasuredStore, tmp_path: Path, name: str) -> None:
    """Those that cannot be read are asked for again, since a job may have deleted them."""
    words, code, most = OF_A_FOLDER[name]
    damaged = range(2, CHECKPOINTS + 1) if "latest" in words else ()
    for number in damaged:
        filled.objects[f"job/chk-{number}/_metadata"] = b"damaged"
    filled.latency = 0.04
    assert run(filled, *words_of(words, tmp_path)) == code
    assert chain(filled.requests) <= 2 * most
    assert filled.kinds().get("HEAD", 0) <= 2 * len(damaged) + 3


def test_the_last_key_groups_are_compared_with_the_files_of_their_databases(tmp_path: Path) -> None:
    """The databases have no files in common. Those of both sides are opened before it is their turn."""
    for name, value in (("before", 1), ("after", 2)):
        job = IncrementalJob(tmp_path / name, "long", KEYS, parallelism=4 * SUBTASKS)
        job.put(np.arange(KEYS), np.full(KEYS, value))
        job.checkpoint(1)
        job.close()
    with measured_store() as store:
        store.upload(tmp_path, "jobs")
        before, after = (pyspark_savepoint.open(at(store, f"jobs/{name}/chk-1")) for name in ("before", "after"))
        options = replace(before.diff(after, UID).options, parallelism=2)
        partition = partitions_of(options, lambda schema: schema.names, workers=1)[2][-1]
        store.requests.clear()
        store.latency = 0.04
        with one_verb():
            assert 0 < sum(batch.num_rows for batch in partition.batches()) < KEYS
        assert chain(store.requests) <= 2 * 6
        assert set(Counter(one.key for one in store.requests).values()) == {1}


def test_what_is_planned_while_a_version_is_looked_at_is_of_that_version(tmp_path: Path) -> None:
    """An operator that is kept from before is used, and neither rows nor errors of it are, once it was replaced."""
    for name, value, text in (("before", 1, 0), ("after", 2, 0), ("texts", 2, 9)):
        job = IncrementalJob(tmp_path / name, "long", KEYS, parallelism=2, text=text)
        job.put(np.arange(KEYS), np.full(KEYS, value))
        job.checkpoint(1)
        job.close()
    with measured_store() as store:
        store.upload(tmp_path, "made")

        def publish(name: str) -> None:
            objects = {key: data for key, data in store.objects.items() if not key.startswith("job/")}
            made = f"made/{name}/"
            store.objects = objects | {key.replace(made, "job/"): objects[key] for key in objects if made in key}

        publish("before")
        options = pyspark_savepoint.open(at(store, "job/chk-1")).keyed_state(UID, state="total").options
        publish("after")
        partitions = partitions_of(options, lambda schema: schema.names, workers=2, for_tasks=True)[2]
        assert {value for one in partitions for batch in one.batches() for value in batch["total"].to_pylist()} == {2}
        publish("texts")
        of_texts = replace(options, state="note")
        assert (
            partitions_of(of_texts, lambda schema: schema.names, workers=2, for_tasks=True)[1].schema.names[1] == "note"
        )


def test_a_dry_run_of_an_erasure_reads_each_file_once(filled: MeasuredStore) -> None:
    """``_metadata`` is looked at again, since the base of a write must not change meanwhile."""
    assert run(filled, "erase", "s3://bucket/shop", "s3://bucket/new", "--dry-run", "--keys", "no-such-key") == 0
    counts = Counter(one.key for one in filled.requests if one.kind == "GET" and one.status in (200, 206))
    assert {key: count for key, count in counts.items() if count > 1 and not key.endswith("_metadata")} == {}
    assert len(filled.requests) <= 8


def test_one_key_is_a_few_requests(filled: MeasuredStore) -> None:
    """Of one database its catalog, and of each table file its end and a block at most."""
    filled.latency = 0.04
    first = int.from_bytes(make_keys("long", KEYS)[0][0].tobytes(), "big", signed=True)
    assert run(filled, "show", f"s3://bucket/job/{NEWEST}", UID, "--keys", str(first)) == 0
    databases = {one.key.rpartition("/")[2].partition("-")[0] for one in filled.requests if "/shared/" in one.key}
    assert len(databases) == 1
    assert max(Counter(one.key for one in filled.requests).values()) <= 2
    assert chain(filled.requests) <= 20


def test_a_read_fetches_the_files_of_its_states_alone(filled: MeasuredStore) -> None:
    name = f"job/{NEWEST}"
    table = pyspark_savepoint.open(at(filled, name)).keyed_state(UID, state="total")
    filled.requests.clear()
    assert table.to_arrow().num_rows == KEYS
    fetched = {one.key for one in filled.requests if one.key.endswith(".sst")}
    files = {key for key in filled.objects if key.endswith(".sst")}
    assert fetched < files
    again = Counter(one.key for one in filled.requests if one.key.endswith(".sst"))
    assert set(again.values()) == {1}


def test_what_a_verb_has_read_is_forgotten_at_its_end(filled: MeasuredStore) -> None:
    assert run(filled, "sizes", "s3://bucket/shop") == 0
    again = len(filled.requests)
    assert run(filled, "sizes", "s3://bucket/shop") == 0
    assert len(filled.requests) == again


# -- faults --------------------------------------------------------------------------------------------------

READS = ("ls of a folder", "verify", "diff", "show", "verify of many files", "report")


@pytest.mark.parametrize("fault", [503, 500, 429, "reset"])
@pytest.mark.parametrize("name", READS)
def test_every_request_of_a_read_may_fail_once(
    filled: MeasuredStore, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, fault: int | str
) -> None:
    words = words_of(VERBS[name][0], tmp_path)
    code = run(filled, *words)
    said = capsys.readouterr().out
    seen: set[tuple[str, str]] = set()

    def once(kind: str, key: str) -> int | str | None:
        if (kind, key) in seen:
            return None
        seen.add((kind, key))
        return fault

    filled.fault = once
    assert run(filled, *words) == code
    assert capsys.readouterr().out == said
    assert len(seen) > 3


def test_a_request_that_stalls_is_made_again(filled: MeasuredStore) -> None:
    stalls = iter(["stall"])
    filled.fault = lambda kind, key: next(stalls, None) if key.endswith(".sst") else None
    begin = time.monotonic()
    assert run(filled, "verify", f"s3://bucket/job/{NEWEST}", "--storage-option=requestTimeout=1") == 0
    assert next(stalls, "none left") == "none left"
    assert time.monotonic() - begin < 40


def test_a_burst_of_throttling_is_waited_for(filled: MeasuredStore) -> None:
    end = time.monotonic() + 5
    filled.fault = lambda kind, key: 503 if time.monotonic() < end else None
    assert run(filled, "sizes", "s3://bucket/wide") == 0


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["verify of many files", "show", "diff", "ls of a folder"])
@pytest.mark.parametrize("seconds", [5, 30, 60])
def test_a_long_burst_is_waited_for(
    filled: MeasuredStore, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, seconds: float
) -> None:
    """Each request that is open waits longer from time to time, and a verb tells what it tells without a burst."""
    words = words_of(VERBS[name][0], tmp_path)
    done, expected = run(filled, *words), sorted(capsys.readouterr().out.splitlines())
    number = random.Random(f"{name} {seconds}").randint(1, len(filled.requests) // 2)  # how much runs ahead varies
    filled.fault = busy_from(number, seconds)
    store_of.cache_clear()
    assert run(filled, *words) == done
    assert sorted(capsys.readouterr().out.splitlines()) == expected
    refused = Counter((one.kind, one.key) for one in filled.requests if one.status == 503)
    assert 3 <= max(refused.values()) <= 32, "two parts of a file may be asked for at once"


def test_a_verb_has_one_budget_for_all_of_its_requests(
    filled: MeasuredStore, capsys: pytest.CaptureFixture[str]
) -> None:
    """Files that are asked for together, and one after the other, do not add up."""
    filled.fault = lambda kind, key: None if key.endswith("_metadata") or kind == "LIST" else 503
    begin = time.monotonic()
    assert run(filled, "show", "s3://bucket/wide", UID, "--storage-option=retryLimit=2") == 2
    assert time.monotonic() - begin < 12
    error = capsys.readouterr().err
    assert len([line for line in error.splitlines() if line.startswith("error:")]) == 1
    assert "503" in error


def test_keys_that_rotate_while_a_verb_runs(filled: MeasuredStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "first")
    count = iter(range(1000))

    def rotated(kind: str, key: str) -> None:
        if next(count) == 5:
            monkeypatch.setenv("AWS_ACCESS_KEY_ID", "second")
            filled.refused.add("first")

    filled.fault = rotated
    assert run(filled, "verify", "s3://bucket/wide") == 0
    assert next(count) > 10


def test_a_file_that_is_replaced_while_it_is_read_is_an_error(filled: MeasuredStore) -> None:
    """Later ranges demand the version whose beginning was read."""
    name = "wide/state-0"
    filled.objects[name] = data = filled.objects[name] + bytes(1 << 20)
    snapshot = Snapshot.open(at(filled, "wide"))
    location = snapshot.resolve(snapshot.operators[0].subtasks[0].managed_keyed_state.delegate)
    with location.open() as source:
        assert source.read(0, 10) == data[:10]
        filled.objects[name] = bytes(len(data))
        with pytest.raises(SavepointError, match="replaced while it was read"):
            source.read(1 << 20, 10)
