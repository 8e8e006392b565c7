"""Snapshots in an object store: read like local ones, with bounded error messages."""

from __future__ import annotations

import contextlib
import io
import pickle
import time
from collections.abc import Iterator
from contextlib import redirect_stderr
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pyspark_savepoint.command_line.main import main
from pyspark_savepoint.formats.errors import (
    AccessDeniedError,
    CorruptStateError,
    FileReplacedError,
    OptionError,
    SavepointError,
    SnapshotNotFoundError,
    StateExistsError,
    StateFileNotFoundError,
    StorageError,
)
from pyspark_savepoint.formats.filesystems.filesystem import locate
from pyspark_savepoint.formats.filesystems.remote import region_of
from pyspark_savepoint.formats.filesystems.storage_options import StorageOptions, StoragePath
from pyspark_savepoint.formats.metadata.stream_handles import FileStateHandle
from pyspark_savepoint.formats.snapshot.publication import Staging
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot, find_snapshots
from pyspark_savepoint.formats.snapshot.write_folder import expect_folder
from pyspark_savepoint.statebackends.open_table import open_table
from pyspark_savepoint.statebackends.requests.request import TableRequest
from pyspark_savepoint.write.copying import pin_snapshot
from tests.remote.conftest import SHOP
from tests.remote.storage import FaultyProxy, delete, put, upload

BIG = 9 << 20
# Short timeouts for stores that do not answer.
HASTY = {"connectTimeout": 1, "requestTimeout": 1}


def of(proxy: FaultyProxy, path: str, **more: Any) -> str:
    return StoragePath.of(f"s3://bucket{path}", StorageOptions.of({"endpoint": proxy.endpoint, **more}))


def rows(path: str, **options: Any) -> list[dict[str, Any]]:
    table = open_table(TableRequest(path, **options))
    found = [row for part in table.partitions(2) for batch in part.batches() for row in batch.to_pylist()]
    return sorted(found, key=repr)


@pytest.mark.parametrize(
    "options",
    [{}, {"uid": "accounts"}, {"uid": "accounts", "table": "timers"}, {"uid": "currency-converter", "state": "rates"}],
)
def test_tables_are_those_of_the_same_files_here(proxy: FaultyProxy, options: dict[str, str]) -> None:
    assert rows(of(proxy, "/savepoints/savepoint-shop"), **options) == rows(str(SHOP), **options)


def outcome(path: str, asked: dict[str, str]) -> list[str]:
    """Rows as text, for NaN is not NaN; or what cannot be read, and why."""
    try:
        return list(map(repr, rows(path, **asked)))
    except SavepointError as error:
        return [error.message]


@pytest.mark.parametrize("case", ["1.20.5-hashmap-native", "2.2.1-rocksdb-incr-checkpoint", "2.2.1-forst-native"])
def test_every_backend_reads_ranges(proxy: FaultyProxy, store: int, corpus: Path, case: str) -> None:
    metadata = next((corpus / "lab" / case).rglob("_metadata"))
    here = metadata.parent
    upload(store, "bucket", here.parent, case)
    there = of(proxy, f"/{case}/{here.name}")
    tables = {
        (row["operator_uid_hash"], row["table"])
        for row in rows(str(here), table="states")
        if row["table"] in ("keyed_state", "timers")
    }
    assert tables
    for operator, table in tables:
        asked = {"uid_hash": operator, "table": table}
        assert outcome(there, asked) == outcome(str(here), asked)


@pytest.mark.parametrize("copies", [True, False], ids=["the store copies", "it refuses to"])
def test_a_checkpoint_is_held_by_the_store(proxy: FaultyProxy, store: int, corpus: Path, copies: bool) -> None:
    here = next((corpus / "lab" / "2.2.1-rocksdb-incr-checkpoint").rglob("_metadata")).parent
    folder = f"job-{copies}"
    upload(store, "bucket", here.parent, folder)
    refused = set()

    def first(method: str, path: str) -> int | None:
        """Refuse the first request for each copy."""
        name = path.partition("?")[0]
        if copies or method != "PUT" or "-copy-" not in name or name.endswith(".checksums") or name in refused:
            return None
        refused.add(name)
        return 403

    proxy.fault = first
    held, copied = pin_snapshot(Snapshot.open(of(proxy, f"/{folder}/{here.name}")), of(proxy, f"/held-{copies}"))
    assert (held, copied) == ((len(refused) + held, 0) if copies else (0, len(refused)))
    assert held + copied > 10
    for file in here.parent.rglob("*"):
        if file.is_file():
            delete(store, f"/bucket/{folder}/{file.relative_to(here.parent).as_posix()}")
    states = [row for row in rows(str(here), table="states") if row["table"] == "keyed_state"]
    assert states
    for operator in {row["operator_uid_hash"] for row in states}:
        asked = {"uid_hash": operator, "table": "keyed_state"}
        assert outcome(of(proxy, f"/held-{copies}"), asked) == outcome(str(here), asked)
    with pytest.raises(SavepointError):
        Snapshot.open(of(proxy, f"/{folder}/{here.name}"))


def test_the_endpoint_may_come_from_the_environment(proxy: FaultyProxy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.endpoint)
    assert Snapshot.open("s3a://bucket/savepoints/savepoint-shop").path == "s3://bucket/savepoints/savepoint-shop"
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", proxy.endpoint)
    assert Snapshot.open("s3://bucket/savepoints/savepoint-shop").operators


def test_options_of_a_local_snapshot_reach_the_store_that_its_handles_name(proxy: FaultyProxy) -> None:
    options = StorageOptions.of({"endpoint": proxy.endpoint})
    snapshot = Snapshot.open(StoragePath.of(str(SHOP), options), allow_outside=True)
    file = next(path for path in SHOP.iterdir() if path.name != "_metadata")
    handle = FileStateHandle(f"s3://bucket/savepoints/savepoint-shop/{file.name}", file.stat().st_size)

    location = pickle.loads(pickle.dumps(snapshot.location))
    with location.open(handle) as source:
        assert source.read(0, source.size) == file.read_bytes()


def test_snapshots_below_a_folder(proxy: FaultyProxy) -> None:
    (found,) = find_snapshots(of(proxy, "/savepoints"))
    assert (found.path, found.problem) == ("s3://bucket/savepoints/savepoint-shop", None)
    with pytest.raises(SnapshotNotFoundError, match="contains snapshots") as raised:
        Snapshot.open(of(proxy, "/savepoints"))
    assert raised.value.facts["found"] == "s3://bucket/savepoints/savepoint-shop"


# -- requests ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "kind"),
    [
        ("_delta_log/00000000000000000000.json", "a Delta table"),
        ("metadata/v1.metadata.json", "an Iceberg table"),
        (".hoodie/hoodie.properties", "a Hudi table"),
        ("year=2026/part-0.parquet", "Parquet files"),
        ("chk-7/_metadata", "a folder of snapshots"),
    ],
)
def test_a_prefix_of_something_else_is_no_place_for_a_savepoint(
    proxy: FaultyProxy, store: int, key: str, kind: str
) -> None:
    folder = f"/written/{kind.replace(' ', '-')}"
    put(store, f"/bucket{folder}/{key}", b"x")
    with pytest.raises(StateExistsError, match=kind):
        expect_folder(Staging.at(of(proxy, folder)))
    put(store, f"/bucket{folder}/new/.pending-0123456789ab/x", b"x")
    assert expect_folder(Staging.at(of(proxy, f"{folder}/new"))) == (True, None)
    assert expect_folder(Staging.at(of(proxy, f"{folder}/ne"))) == (False, None)


@pytest.fixture
def big(proxy: FaultyProxy) -> Iterator[Any]:
    filesystem, path = locate(of(proxy, "/big"))
    opened = filesystem.open_input(path)
    assert opened.size == BIG
    proxy.requests.clear()
    yield opened
    opened.close()


def expected(start: int, count: int) -> bytes:
    return bytes(range(start % 256, 256)) + bytes(range(256)) * (count // 256 + 1)


def check(opened: Any, start: int, count: int) -> None:
    buffer = np.zeros(count, np.uint8)
    opened.read_into(start, buffer)
    assert buffer.tobytes() == expected(start, count)[:count]


def test_small_reads_in_order_are_few_requests(big: Any, proxy: FaultyProxy) -> None:
    for start in range(0, BIG, 10_000):
        check(big, start, min(10_000, BIG - start))
    ranges = [sent for method, _, sent in proxy.requests if method == "GET"]
    assert len(ranges) <= 12  # 944 reads
    # Every byte was asked for once.
    bounds = sorted(tuple(map(int, str(sent).removeprefix("bytes=").split("-"))) for sent in ranges)
    assert [low for low, _ in bounds] == [1 << 18, *(high + 1 for _, high in bounds[:-1])]  # opening brought the rest
    assert bounds[-1][1] == BIG - 1


def test_reads_here_and_there_fetch_little(big: Any, proxy: FaultyProxy) -> None:
    for start in (5 << 20, 1 << 20, 8 << 20, 3):
        check(big, start, 100)
    bounds = [tuple(map(int, str(sent).removeprefix("bytes=").split("-"))) for _, _, sent in proxy.requests]
    assert [high - low + 1 for low, high in bounds] == [1 << 18] * 4
    check(big, 50, 100)
    assert len(proxy.requests) == 4


def test_a_large_read_comes_in_parts(big: Any, proxy: FaultyProxy) -> None:
    check(big, 1, BIG - 1)
    assert len(proxy.requests) == 3, "parts of 4 MB, and what opening brought"
    check(big, 1 << 20, 100)
    assert len(proxy.requests) == 3, "ranges of up to 16 MB are kept"


def test_windows_in_order_overlap_their_requests(big: Any, proxy: FaultyProxy) -> None:
    for start in range(0, BIG, 1 << 20):
        check(big, start, 1 << 20)
    assert len(proxy.requests) <= 9


def test_closing_while_something_is_fetched(proxy: FaultyProxy) -> None:
    filesystem, path = locate(of(proxy, "/big"))
    proxy.fault = lambda method, path: "drip" if method == "GET" else None
    opened = filesystem.open_input(path)
    for start in (0, 1000):
        check(opened, start, 1000)
    opened.close()
    opened.close()


# -- failures ------------------------------------------------------------------------------------------------


def first(fault: int | str, times: int = 1) -> Any:
    """Only the first GETs of data go wrong."""
    seen: list[str] = []

    def decide(method: str, path: str) -> int | str | None:
        if method != "GET" or "list-type" in path:
            return None
        seen.append(path)
        return fault if len(seen) <= times else None

    return decide


@pytest.mark.parametrize("fault", ["drop", 500, 503, "truncate"])
def test_what_fails_for_a_moment_is_not_noticed(proxy: FaultyProxy, fault: int | str) -> None:
    proxy.fault = first(fault)
    path = of(proxy, "/savepoints/savepoint-shop")
    assert rows(path, uid="accounts") == rows(str(SHOP), uid="accounts")


def test_a_stall_for_a_moment_is_not_noticed(proxy: FaultyProxy) -> None:
    proxy.fault = first("stall")
    assert Snapshot.open(of(proxy, "/savepoints/savepoint-shop", **HASTY, maxAttempts=2)).operators


@pytest.mark.parametrize(
    ("method", "fault", "kind", "message"),
    [
        ("GET", "drop", StorageError, "does not answer"),
        ("GET", "stall", StorageError, "does not answer"),
        ("GET", "stall-body", StorageError, "does not answer"),
        ("GET", "truncate", StorageError, "does not answer"),
        ("GET", "short", StorageError, "other bytes than were asked for"),
        ("GET", 500, StorageError, "answers with errors"),
        ("GET", 503, StorageError, "answers with errors"),
        ("GET", 403, AccessDeniedError, "denies access"),
        ("GET", 404, StateFileNotFoundError, "is missing"),
    ],
)
def test_what_fails_for_good_is_said_soon(
    proxy: FaultyProxy, method: str, fault: int | str, kind: type[SavepointError], message: str
) -> None:
    path = of(proxy, "/savepoints/savepoint-shop", **HASTY, maxAttempts=1)
    savepoint = Snapshot.open(path)
    proxy.fault = lambda asked, path: fault if asked == method else None
    started = time.monotonic()
    with pytest.raises(kind, match=message) as raised:
        savepoint.location.filesystem.open_input("/savepoints/savepoint-shop/_metadata").read_into(0, bytearray(10))
    assert time.monotonic() - started < 25
    assert raised.value.facts["path"] == "s3://bucket/savepoints/savepoint-shop/_metadata"
    assert pickle.loads(pickle.dumps(raised.value)).facts == raised.value.facts


def test_what_is_not_there_is_named(proxy: FaultyProxy) -> None:
    with pytest.raises(SnapshotNotFoundError) as raised:
        Snapshot.open(of(proxy, "/nothing"))
    assert "remedy" not in raised.value.facts
    with pytest.raises(SnapshotNotFoundError) as raised:
        Snapshot.open(StoragePath.of("s3://nobucket/x", StorageOptions(endpoint=proxy.endpoint)))
    assert "no bucket or container 'nobucket'" in raised.value.facts["remedy"]


def test_an_endpoint_where_nobody_listens(proxy: FaultyProxy) -> None:
    proxy.server_close()
    with pytest.raises(StorageError, match="does not answer") as raised:
        Snapshot.open(of(proxy, "/x", **HASTY, maxAttempts=2))
    assert "endpoint" in raised.value.facts["remedy"]


def test_an_endpoint_without_tls_or_address(proxy: FaultyProxy, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command line reports which of the two it is, whatever the credentials."""
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "never-shown-to-anybody")
    for endpoint, message in (
        (proxy.endpoint.replace("http:", "https:"), "the TLS connection to the storage fails"),
        (f"http://{'x' * 64}.invalid", "the host name of the storage cannot be resolved"),  # no DNS has such a label
    ):
        told = io.StringIO()
        options = ["--storage-option", f"endpoint={endpoint}", "--storage-option", "maxAttempts=1"]
        with redirect_stderr(told):
            assert main(["ls", "s3://bucket/x", *options]) == 2
        assert message in told.getvalue()
        assert "to do: check the" in told.getvalue()
        assert "never-shown" not in told.getvalue()


def test_a_file_that_vanishes_while_it_is_read(proxy: FaultyProxy, store: int) -> None:
    put(store, "/bucket/short-lived", bytes(1 << 20))
    filesystem, path = locate(of(proxy, "/short-lived"))
    opened = filesystem.open_input(path)
    opened.read_into(0, bytearray(10))
    delete(store, "/bucket/short-lived")
    with pytest.raises(StateFileNotFoundError, match="is missing") as raised:
        opened.read_into(1 << 19, bytearray(10))
    assert "newest checkpoints" in raised.value.facts["remedy"]


def test_a_file_that_is_replaced_by_a_shorter_one_while_it_is_read(proxy: FaultyProxy, store: int) -> None:
    put(store, "/bucket/replaced", bytes(1 << 20))
    filesystem, path = locate(of(proxy, "/replaced"))
    opened = filesystem.open_input(path)
    put(store, "/bucket/replaced", bytes(1 << 10))
    with pytest.raises(FileReplacedError, match="replaced while it was read"):
        opened.read_into(1 << 19, bytearray(200))
    with pytest.raises(CorruptStateError, match="truncated"):
        opened.read_into(1 << 20, bytearray(1))


def test_a_file_that_was_not_uploaded_whole(proxy: FaultyProxy, store: int) -> None:
    for file in SHOP.iterdir():
        whole = file.read_bytes()
        put(store, f"/bucket/partial/{file.name}", whole if file.name == "_metadata" else whole[:-10])
    with pytest.raises(CorruptStateError, match="shorter than the size in its handle") as raised:
        rows(of(proxy, "/partial"), uid="accounts")
    assert "accounts" in raised.value.facts["operator"]


def test_a_missing_file_of_a_snapshot_names_the_operator(proxy: FaultyProxy, store: int) -> None:
    put(store, "/bucket/damaged/_metadata", (SHOP / "_metadata").read_bytes())
    path = of(proxy, "/damaged")
    with pytest.raises(StateFileNotFoundError, match="is missing") as raised:
        rows(path, uid="accounts", table="keyed_state")
    assert raised.value.facts["operator"] == Snapshot.open(path).operator(uid="accounts").label


# -- what a path cannot contain ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("s3://bucket/x?endpoint_override=evil:9000", "cannot contain options"),
        ("s3://bucket?scheme=http", "cannot contain options"),
        ("s3a://bucket/x?access_key=AKIA&secret_key=hidden", "cannot contain options"),
        ("abfss://c@account.dfs.core.windows.net/x?blob_storage_authority=evil", "cannot contain options"),
        ("gs://bucket/x?endpoint_override=evil", "cannot contain options"),
        ("s3://key:hidden@bucket/x", "must not contain credentials"),
        ("s3://evil.example:80/x", "cannot have that name"),
        ("gs://evil.example:80/x", "cannot have that name"),
        ("s3:///x", "names no bucket"),
        ("abfss://container/x", "no container and account"),
        ("abfss://c@account.dfs.evil.example/x", "not a host of Azure"),
        ("abfss://c@account.evil.example/x", "not a host of Azure"),
        ("abfss://c@evil.example:80/x", "not a host of Azure"),
    ],
)
def test_what_a_path_cannot_say(path: str, message: str) -> None:
    with pytest.raises(OptionError, match=message) as raised:
        Snapshot.open(path)
    assert "hidden" not in str(raised.value)


def test_hdfs_without_its_library_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HADOOP_HOME", "ARROW_LIBHDFS_DIR"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(StorageError, match="libhdfs") as raised:
        Snapshot.open("hdfs://127.0.0.1:1/x")
    assert "CLASSPATH" in raised.value.facts["remedy"]


def test_a_bucket_that_cannot_be_asked_is_where_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    with contextlib.suppress(OSError):  # on a machine that reaches the cloud the error is that there is no such bucket
        assert region_of("bucket-of-nobody-at-all-1234567", StorageOptions()) == "eu-west-1"
