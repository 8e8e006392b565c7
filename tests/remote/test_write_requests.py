"""What each verb that writes asks of a store, counted exactly, and how many bytes it sends and gets."""

from __future__ import annotations

import os
import re
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import pyspark_savepoint
from pyspark_savepoint.command_line.main import main
from pyspark_savepoint.formats.filesystems.filesystem import store_of
from tests.benchmarks.data import UID, write_savepoint
from tests.benchmarks.rocksdb_data import write_native_savepoint
from tests.remote.conftest import SHOP
from tests.remote.measured_store import MeasuredStore, chain, measured_store

FILES = 60
#: Requests of a write to a new path besides those for files of state: is there a file, are there names, is it inside of
#: a snapshot; ``_metadata`` of the snapshot, and before and after the publication; an empty file and the condition that
#: is tried with it, the mark, and ``_metadata`` itself; the new files and the leftovers, which are deleted.
LOOKS = {"HEAD": 2, "LIST": 1}
ENDS = {"GET": 3, "PUT": 4, "LIST": 2, "DELETES": 1}


@pytest.fixture
def measured(tmp_path: Path) -> Iterator[MeasuredStore]:
    """A store with a savepoint ``wide`` of many files, and the shop."""
    write_savepoint(tmp_path / "wide", "long", 20_000, parallelism=FILES)
    store_of.cache_clear()
    with measured_store() as store:
        store.upload(tmp_path / "wide", "wide")
        store.upload(SHOP, "shop")
        yield store


def run(store: MeasuredStore, *words: str) -> int:
    """Run a command as a process of its own does, which has not tried the conditions of the store yet."""
    store_of.cache_clear()
    store.requests.clear()
    return main([*words, f"--storage-option=endpoint={store.endpoint}"])


def total(*parts: dict[str, int]) -> dict[str, int]:
    return {
        kind: sum(part.get(kind, 0) for part in parts) for kind in sorted({kind for part in parts for kind in part})
    }


def state(store: MeasuredStore) -> int:
    return sum(len(data) for name, data in store.objects.items() if name.startswith("wide/state"))


@pytest.mark.parametrize(
    "words",
    [
        ("cp", "s3://bucket/wide", "s3://bucket/out/new"),
        ("pin", "s3://bucket/wide", "s3://bucket/out/new"),
        ("rename", "s3://bucket/wide", "s3://bucket/out/new", f"{UID}=other"),
        ("copy-operator", "s3://bucket/wide", "s3://bucket/out/new", UID, "other"),
    ],
    ids=lambda words: words[0],
)
def test_files_that_stay_are_copied_by_the_store(measured: MeasuredStore, words: tuple[str, ...]) -> None:
    """Two requests for each: its beginning, which shows that it is state, and the copy."""
    measured.latency = 0.02
    assert run(measured, *words) == 0
    assert measured.kinds() == total(LOOKS, ENDS, {"GET": FILES, "COPY": FILES})
    assert chain(measured.requests) < 20, "many at a time"
    first = min(one.begin for one in measured.requests if "state-" in one.key)
    looked = next(one for one in measured.requests if one.key == "out/new" and one.kind == "HEAD")
    assert looked.begin < first, "what is at the target, while the source is opened"
    assert sum(one.given for one in measured.requests if "state-" in one.key) < FILES * (16 << 10) + 1
    assert sum(one.taken for one in measured.requests) < 30_000, "_metadata, and no state"
    assert run(measured, "verify", "s3://bucket/out/new") == 0
    assert not [name for name in measured.objects if name.endswith("/") or "/.pending" in name]


def test_a_renamed_state_is_read_and_written_once(measured: MeasuredStore) -> None:
    """Each file: its header, its bytes, and the new file in one request; nothing is read for the table of changes."""
    assert run(measured, "rename", "s3://bucket/wide", "s3://bucket/out/new", f"{UID}.total=sum") == 0
    assert measured.kinds() == total(LOOKS, ENDS, {"GET": 2 * FILES, "PUT": FILES})
    sent = sum(one.taken for one in measured.requests if "-copy-" in one.key)
    assert state(measured) - 10 * FILES < sent < state(measured) + 10 * FILES


def test_copies_take_the_memory_of_their_files(measured: MeasuredStore) -> None:
    """All of them are under way together, each with a buffer of its own."""
    measured.latency = 0.2
    tracemalloc.start()
    try:
        assert run(measured, "rename", "s3://bucket/wide", "s3://bucket/out/new", f"{UID}.total=sum") == 0
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    sent = [one for one in measured.requests if "-copy-" in one.key]
    assert chain(sent) <= 2
    assert peak < 5 * state(measured) + (16 << 20)


def test_files_without_the_removed_keys_are_copied_by_the_store(measured: MeasuredStore) -> None:
    """Small files come with their headers: so the key is looked up and removed without another request."""
    measured.latency = 0.2
    assert run(measured, "remove-keys", "s3://bucket/wide", "s3://bucket/out/new", UID, "--keys", "0") == 0
    assert measured.kinds() == total(LOOKS, ENDS, {"GET": FILES, "PUT": 1, "COPY": FILES - 1})
    assert chain(measured.requests) <= 20
    before = {data for name, data in measured.objects.items() if name.startswith("wide/state")}
    after = {data for name, data in measured.objects.items() if re.search("out/new/.*-(op|copy)", name)}
    assert (len(after - before), len(before - after)) == (1, 1)
    assert run(measured, "verify", "s3://bucket/out/new") == 0


def test_removed_keys_cost_each_file_that_has_one_once(measured: MeasuredStore) -> None:
    """The headers, the files for the keys, and then each file once, by the task whose key groups it has."""
    keys = map(str, range(2000))
    assert run(measured, "remove-keys", "s3://bucket/wide", "s3://bucket/out/new", UID, "--keys", *keys) == 0
    kinds = measured.kinds()
    assert kinds["PUT"] == FILES + ENDS["PUT"], "what the operator's part is stays in this process"
    assert kinds["GET"] <= 3 * FILES + 8
    assert chain(measured.requests) < 4 * FILES
    assert sum(one.key == "wide/_metadata" for one in measured.requests) == 1


def test_what_a_store_does_not_compare_is_read_back_in_one_request(measured: MeasuredStore, tmp_path: Path) -> None:
    """As in Google's and Azure's stores; requests without a signature have no checksum either."""
    measured.upload(write_savepoint(tmp_path / "two", "long", 60_000, parallelism=2), "two")
    words = ("remove-keys", "s3://bucket/two", "s3://bucket/out/new", UID, "--keys", *map(str, range(20)))
    copied = ("cp", str(tmp_path / "two"), "s3://bucket/out/new")
    for each in (words, copied):
        assert run(measured, *each, "--storage-option=anonymous=true") == 0
        named = [one for one in measured.requests if one.key.startswith("out/new/")]
        new = [one for one in named if not one.key.endswith("_metadata")]
        sizes = {one.key: one.taken for one in new if one.kind == "PUT" and one.taken > 1 << 20}
        assert len(sizes) == 2
        assert {one.key: one.given for one in new if one.kind == "GET"} == sizes
        assert sum(one.kind == "GET" for one in new) == 2
        measured.remove([name for name in measured.objects if name.startswith("out/")])


def many_operators(path: Path, count: int, keys: int) -> None:
    savepoint = pyspark_savepoint.create(max_parallelism=128)
    rows = pa.table({"key": pa.array(range(keys)), "total": pa.array(range(keys))})
    for number in range(count):
        savepoint = savepoint.with_operator(f"op{number}", rows)
    savepoint.write(path)


def test_operators_are_rewritten_side_by_side(measured: MeasuredStore, tmp_path: Path) -> None:
    """Twenty operators, each with a header, a file, and a new file: one after the other they would be forty more."""
    many_operators(tmp_path / "many", 20, 60_000)
    measured.upload(tmp_path / "many", "many")
    measured.latency = 0.2
    assert run(measured, "set-max-parallelism", "s3://bucket/many", "s3://bucket/out/new", "64") == 0
    assert measured.kinds() == total(LOOKS, ENDS, {"GET": 2 * 20, "PUT": 20})
    assert chain(measured.requests) <= 20
    pyspark_savepoint.open(tmp_path / "many").with_max_parallelism(64).write(tmp_path / "here")
    here = sorted(file.read_bytes() for file in (tmp_path / "here").iterdir() if file.name != "_metadata")
    assert sorted(data for name, data in measured.objects.items() if re.search("out/new/.*-op", name)) == here


def test_operators_whose_keys_move_are_merged_a_few_at_a_time(measured: MeasuredStore, tmp_path: Path) -> None:
    """All of their files are read and sent together: what a merge takes besides is that of a few of them."""
    many_operators(tmp_path / "many", 20, 60_000)
    measured.upload(tmp_path / "many", "many")
    size = sum(len(data) for name, data in measured.objects.items() if name.startswith("many/"))
    measured.latency = 0.2
    tracemalloc.start()
    try:
        assert run(measured, "set-max-parallelism", "s3://bucket/many", "s3://bucket/out/new", "64") == 0
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 3 * size, "2.4 times, and 4.4 if all were merged together"


def test_an_erasure_waits_for_no_operator(measured: MeasuredStore, tmp_path: Path) -> None:
    """Of the files of twenty operators seven reads: header, look, search, edit; look and search anew, difference."""
    many_operators(tmp_path / "many", 20, 60_000)
    measured.upload(tmp_path / "many", "many")
    measured.latency = 0.2
    assert run(measured, "erase", "s3://bucket/many", "s3://bucket/out/new", "--keys", "42") == 0
    files = [one.kind for one in measured.requests if re.search("-op[0-9]", one.key)]
    assert (files.count("GET"), files.count("PUT"), len(files)) == (7 * 20, 20, 8 * 20)
    assert chain(measured.requests) <= 34


@pytest.fixture
def databases(measured: MeasuredStore, tmp_path: Path) -> MeasuredStore:
    """A native savepoint of RocksDB: two table files in each of eight databases, read in parts."""
    measured.upload(write_native_savepoint(tmp_path / "native", "long", 200_000, parallelism=8), "native")
    measured.latency = 0.2
    return measured


def given_of_tables(store: MeasuredStore) -> int:
    return sum(one.given for one in store.requests if one.key.startswith("native/") and one.key.endswith(".sst"))


def test_databases_whose_keys_move_are_read_in_order(databases: MeasuredStore) -> None:
    """Each new file has key groups from two databases, read by turns: both stay open, and are read ahead."""
    size = sum(len(data) for name, data in databases.objects.items() if name.endswith(".sst"))
    assert run(databases, "set-max-parallelism", "s3://bucket/native", "s3://bucket/out/new", "64") == 0
    assert chain(databases.requests) <= 18
    assert given_of_tables(databases) < 1.3 * size, "each block once, and the ends"
    assert run(databases, "verify", "s3://bucket/out/new") == 0


def test_an_erasure_searches_the_files_of_all_databases_ahead(databases: MeasuredStore) -> None:
    source = pyspark_savepoint.open("s3://bucket/native", storage_options={"endpoint": databases.endpoint})
    key = source.keyed_state(UID).to_arrow().column("key")[0].as_py()
    assert run(databases, "erase", "s3://bucket/native", "s3://bucket/out/new", "--keys", str(key)) == 0
    assert chain(databases.requests) <= 30


def test_the_first_operator_that_cannot_be_written_is_told(
    measured: MeasuredStore, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the order of operators, whichever fails first; the others end before anything is deleted."""
    many_operators(tmp_path / "many", 6, 1000)
    measured.upload(tmp_path / "many", "many")
    before = dict(measured.objects)
    for name, data in before.items():
        if "-op4k" in name or "-op2k" in name:
            measured.objects[name] = data[:-300] + b"\x7f" * 300
    damaged = dict(measured.objects)

    def slow(kind: str, key: str) -> None:
        time.sleep(0.5 * ("-op2k" in key))

    measured.fault = slow
    assert run(measured, "set-max-parallelism", "s3://bucket/many", "s3://bucket/out/new", "64") == 2
    assert "operator: op2 " in capsys.readouterr().err
    assert measured.objects == damaged


def test_a_relocated_savepoint_reads_no_file(measured: MeasuredStore) -> None:
    source = pyspark_savepoint.open("s3://bucket/wide", storage_options={"endpoint": measured.endpoint})
    source.write("s3://bucket/out/referred", files="reference")
    measured.requests.clear()
    words = ("relocate", "s3://bucket/out/referred", "s3://bucket/wide", "s3://bucket/wide", "s3://bucket/out/moved")
    assert run(measured, *words) == 0
    assert measured.kinds() == total(LOOKS, ENDS, {"HEAD": FILES}), "is the file beside the snapshot"
    assert run(measured, "verify", "s3://bucket/out/moved", "--allow-outside") == 0


def test_another_bucket_or_a_disk_gets_the_bytes(measured: MeasuredStore, tmp_path: Path) -> None:
    assert run(measured, "cp", "s3://bucket/shop", str(tmp_path / "here")) == 0
    assert measured.kinds() == {"GET": 3}
    assert run(measured, "cp", str(tmp_path / "here"), "s3://bucket/out/there") == 0
    assert measured.kinds() == total(LOOKS, ENDS, {"PUT": 2, "GET": -1})
    assert run(measured, "diff", "s3://bucket/shop", "s3://bucket/out/there") == 0


def test_a_copy_keeps_the_checksums_of_a_savepoint_that_has_them(measured: MeasuredStore, tmp_path: Path) -> None:
    pyspark_savepoint.open(SHOP).write(tmp_path / "checked")
    measured.upload(tmp_path / "checked", "checked")
    assert run(measured, "cp", "s3://bucket/checked", "s3://bucket/out/again") == 0
    assert measured.kinds()["COPY"] == 2
    options = {"endpoint": measured.endpoint}
    copied = pyspark_savepoint.open("s3://bucket/out/again", checksums="require", storage_options=options)
    expected = pyspark_savepoint.open(SHOP).keyed_state("accounts").to_arrow()
    assert copied.keyed_state("accounts").to_arrow().num_rows == expected.num_rows
    name = next(name for name in measured.objects if name.startswith("out/again/") and "-copy-" in name)
    measured.objects[name] = os.urandom(len(measured.objects[name]))
    assert run(measured, "verify", "s3://bucket/out/again") != 0


def test_a_file_of_up_to_16_mb_is_one_request_and_a_larger_one_parts(measured: MeasuredStore, tmp_path: Path) -> None:
    """Each with the checksum of its bytes, which the store compares."""
    write_savepoint(tmp_path / "single", "long", 340_000, parallelism=1)
    write_savepoint(tmp_path / "parts", "long", 390_000, parallelism=1)
    sent = {}
    for name in ("single", "parts"):
        assert run(measured, "cp", str(tmp_path / name), f"s3://bucket/out/{name}") == 0
        asked = zip(measured.requests, measured.headers[-len(measured.requests) :], strict=True)
        sent[name] = [one for one in asked if "-copy-" in one[0].key and one[0].kind != "GET"]
        expected = (tmp_path / name / "state-0").read_bytes()
        assert [data for key, data in measured.objects.items() if f"{name}/" in key and "-copy-" in key] == [expected]
        assert all(len(headers["x-amz-content-sha256"]) == 64 for _, headers in sent[name])
    assert [one.kind for one, _ in sent["single"]] == ["PUT"]
    assert 15 << 20 < sent["single"][0][0].taken <= 16 << 20
    assert sorted(one.kind for one, _ in sent["parts"]) == ["BEGIN", "COMPLETE", "PART", "PART", "PART"]


def test_files_of_new_keys_are_sent_many_at_a_time(measured: MeasuredStore) -> None:
    """Rows that were distributed through files of this machine: no file waits for the one before it."""
    measured.latency = 0.2
    assert run(measured, "rekey", "s3://bucket/wide", "s3://bucket/out/new", UID, "--type", "key=STRING") == 0
    assert measured.kinds() == total(LOOKS, ENDS, {"GET": FILES, "PUT": FILES})
    assert chain(measured.requests) <= 30


def test_damage_is_looked_for_in_many_files_at_a_time(measured: MeasuredStore) -> None:
    """Each small file comes with its header, once, and what is left is copied by the store."""
    measured.latency = 0.2
    damaged = next(name for name in measured.objects if name.startswith("wide/state"))
    del measured.objects[damaged]
    assert run(measured, "salvage", "s3://bucket/wide", "s3://bucket/out/new") == 0
    assert measured.kinds()["COPY"] == FILES - 1
    assert measured.kinds()["GET"] <= FILES + 5
    assert chain(measured.requests) <= 24
