"""What each verb asks of a store, counted exactly: a change that adds a round trip is seen here."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import pyspark_savepoint
from pyspark_savepoint.command_line.main import main
from pyspark_savepoint.formats.errors import AccessDeniedError, SavepointError
from pyspark_savepoint.formats.filesystems import listing
from pyspark_savepoint.formats.filesystems.filesystem import locate, store_of
from pyspark_savepoint.formats.filesystems.storage_options import StorageOptions, StoragePath
from pyspark_savepoint.formats.io import one_verb as one_verb_module
from pyspark_savepoint.formats.io.one_verb import failing, look_again, one_verb
from pyspark_savepoint.formats.io.run_ahead import BytesAhead
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from tests.benchmarks.data import write_savepoint
from tests.benchmarks.rocksdb_data import IncrementalJob
from tests.remote.conftest import SHOP
from tests.remote.measured_store import MeasuredStore, chain, measured_store
from tests.statebackends.evolution.verdicts import changes

ACCOUNTS = "accounts"


@pytest.fixture
def measured() -> Iterator[MeasuredStore]:
    store_of.cache_clear()
    with measured_store() as store:
        yield store


def run(store: MeasuredStore, *words: str) -> int:
    store.requests.clear()
    return main([*words, f"--storage-option=endpoint={store.endpoint}"])


def at(store: MeasuredStore, name: str, **options: object) -> str:
    return StoragePath.of(f"s3://bucket/{name}", StorageOptions.of({"endpoint": store.endpoint, **options}))


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("ls", "s3://bucket/{}"), {"GET": 3, "LIST": 1}),
        (("sizes", "s3://bucket/{}"), {"GET": 3}),
        (("verify", "s3://bucket/{}"), {"GET": 3}),
        (("show", "s3://bucket/{}", ACCOUNTS, "--limit", "3"), {"GET": 3}),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_a_savepoint_of_three_objects(
    measured: MeasuredStore, words: tuple[str, ...], expected: dict[str, int], request: pytest.FixtureRequest
) -> None:
    name = f"shop-{request.node.callspec.id}"
    measured.upload(SHOP, name)
    assert run(measured, *(word.format(name) for word in words)) == 0
    assert measured.kinds() == expected
    assert sum(one.key.endswith("/_metadata") and one.kind == "GET" for one in measured.requests) == 1


def test_a_folder_of_checkpoints_is_one_list_and_a_request_each(measured: MeasuredStore) -> None:
    for number in range(1, 41):
        measured.upload(SHOP, f"folder/savepoint-{number}")
    assert run(measured, "ls", "s3://bucket/folder") in (0, 1)
    kinds = measured.kinds()
    assert kinds["LIST"] <= 2
    assert sum(kinds.values()) <= 40 + 6


def test_an_open_snapshot_is_looked_at_again_without_its_bytes(measured: MeasuredStore) -> None:
    measured.upload(SHOP, "again")
    Snapshot.open(at(measured, "again"))
    measured.requests.clear()
    Snapshot.open(at(measured, "again"))
    assert [(one.kind, one.status, one.given) for one in measured.requests] == [("GET", 304, 0)]


def endless(page: bytes) -> bytes:
    """A page after which there is always another one."""
    return page.replace(
        b"<IsTruncated>false</IsTruncated>",
        b"<IsTruncated>true</IsTruncated><NextContinuationToken>more</NextContinuationToken>",
    )


def endless_and_empty(page: bytes) -> bytes:
    return endless(re.sub(rb"<Contents>.*</Contents>|<CommonPrefixes>.*</CommonPrefixes>", b"", page))


@pytest.mark.parametrize("lie", [endless, endless_and_empty])
def test_a_list_that_never_ends_is_an_error(
    measured: MeasuredStore,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    lie: Callable[[bytes], bytes],
) -> None:
    """At each door of lists: a folder, its first names, all below it."""
    monkeypatch.setattr(listing, "UNSEEN_SECONDS", 0.3)
    measured.upload(SHOP, "more/chk-1")
    measured.listing = lie
    location = at(measured, "more", retryLimit=1, requestTimeout=1)
    filesystem, path = locate(location)
    for asked in (filesystem.list, filesystem.delete_directory):
        with pytest.raises(SavepointError, match="the store's list does not end") as caught:
            asked(path)
        assert caught.value.facts["path"] == "s3://bucket/more"
    assert run(measured, "ls", "s3://bucket/more", "--storage-option=retryLimit=1", "--storage-option=requestTimeout=1")
    assert "look at the store, or at the proxy" in capsys.readouterr().err
    time.sleep(0.2)  # the last answer may be on its way
    asked_for = len(measured.requests)
    time.sleep(0.3)
    assert len(measured.requests) == asked_for, "the client has stopped"
    assert measured.objects, "nothing is deleted"


def test_a_long_list_is_read_page_by_page(measured: MeasuredStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same entries as in one go, of files and folders on three pages."""
    measured.objects |= {f"long/{number:04}": b"x" for number in range(2500)}
    measured.objects |= {f"long/folder-{number}/file": b"x" for number in range(3)}
    filesystem, path = locate(at(measured, "long"))
    whole = filesystem.list(path)
    monkeypatch.setattr(listing, "UNSEEN_SECONDS", 0.0)
    assert filesystem.list(path) == whole
    assert len(whole) == 2503
    monkeypatch.setattr(listing, "MAX_NAMES", 2000)
    with pytest.raises(SavepointError, match="more than 2,000 names"):
        filesystem.list(path)


@pytest.fixture
def elsewhere(measured: MeasuredStore, monkeypatch: pytest.MonkeyPatch) -> Iterator[MeasuredStore]:
    """A second store, to which the first one sends all requests; keys that expire have a token."""
    monkeypatch.setenv("AWS_SESSION_TOKEN", "a-token")
    with measured_store() as second:
        measured.elsewhere = lambda key: f"http://localhost:{second.server_port}"
        for store in (measured, second):
            store.upload(SHOP, "sent")
        yield second


def test_redirects_to_another_host_are_not_followed(measured: MeasuredStore, elsewhere: MeasuredStore) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        assert name not in {variable.lower() for variable in os.environ}, "the environment names no proxy"
    filesystem, path = locate(at(measured, "sent"))
    begin = time.monotonic()
    for asked in (
        lambda: Snapshot.open(at(measured, "sent")),
        lambda: filesystem.list(path),
        lambda: filesystem.info(f"{path}/_metadata"),
        lambda: filesystem.delete_directory(path),
    ):
        with pytest.raises(SavepointError, match="redirects the request to another host"):
            asked()
    assert time.monotonic() - begin < 10, "not asked for again and again"
    with pytest.raises(SavepointError, match="307"):
        filesystem.open_output(f"{path}/new").close()
    assert elsewhere.requests == []
    assert "a-token" in measured.headers[0].values(), "there was something to send"


def test_a_proxy_of_the_environment_decides_and_gets_no_signature(
    measured: MeasuredStore, elsewhere: MeasuredStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What README says of redirects where the environment names a proxy."""
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    assert Snapshot.open(at(measured, "sent")).operators
    assert elsewhere.requests
    assert not any(name.lower() == "authorization" for headers in elsewhere.headers for name in headers)


# -- faults --------------------------------------------------------------------------------------------------


def test_every_request_of_a_copy_may_fail_once(measured: MeasuredStore) -> None:
    """By 503 with a body; the same savepoint is there in the end."""
    measured.upload(SHOP, "once-from")
    seen: set[tuple[str, str]] = set()

    def once(kind: str, key: str) -> int | None:
        if (kind, key) in seen:
            return None
        seen.add((kind, key))
        return 503

    measured.fault = once
    assert run(measured, "cp", "s3://bucket/once-from", "s3://bucket/once-to") == 0
    measured.fault = lambda kind, key: None
    assert len(seen) > 6
    assert run(measured, "diff", "s3://bucket/once-from", "s3://bucket/once-to") == 0


def test_an_upload_whose_end_is_acknowledged_by_an_error_is_found(measured: MeasuredStore) -> None:
    """The store completes the upload, answers 503, and does not know it any more when it is asked again."""
    filesystem, path = locate(at(measured, "large"))
    lost = iter(["lost"])
    measured.fault = lambda kind, key: next(lost, None) if kind == "COMPLETE" else None
    data = os.urandom(20 << 20)
    file = filesystem.open_output(path)
    file.write(data)
    file.close()
    assert measured.objects["large"] == data
    assert measured.kinds()["COMPLETE"] == 2
    assert measured.kinds()["HEAD"] == 1


def test_keys_that_were_replaced_are_read_again(measured: MeasuredStore, monkeypatch: pytest.MonkeyPatch) -> None:
    measured.upload(SHOP, "rotated")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "first")
    assert Snapshot.open(at(measured, "rotated")).operators
    measured.refused.add("first")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "second")
    assert Snapshot.open(at(measured, "rotated")).operators
    measured.refused.add("second")
    with pytest.raises(AccessDeniedError, match="they have expired"):
        Snapshot.open(at(measured, "rotated"))


def test_keys_of_a_profile_that_were_replaced_are_read_again(
    measured: MeasuredStore, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "keys"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    measured.upload(SHOP, "profile")
    for key in ("first", "second"):
        (tmp_path / "keys").write_text(f"[default]\naws_access_key_id = {key}\naws_secret_access_key = y\n")
        assert Snapshot.open(at(measured, "profile")).operators
        measured.refused.add(key)


def test_throttling_is_waited_for_within_the_budget(measured: MeasuredStore) -> None:
    measured.upload(SHOP, "busy")
    answers = iter([503] * 5)
    measured.fault = lambda kind, key: next(answers, None)
    assert Snapshot.open(at(measured, "busy")).operators
    assert len(measured.requests) == 6


def test_files_are_opened_many_at_a_time(measured: MeasuredStore, tmp_path: Path) -> None:
    """Sixty files of one operator: their number does not make the chain longer."""
    write_savepoint(tmp_path / "wide", "long", 20_000, parallelism=60)
    measured.upload(tmp_path / "wide", "wide")
    measured.latency = 0.02
    assert run(measured, "sizes", "s3://bucket/wide") == 0
    assert measured.kinds() == {"GET": 61}
    assert chain(measured.requests) < 15


@pytest.mark.parametrize(("words", "passes", "most"), [(("doctor",), 3, 25), (("report", "--file"), 5, 40)])
def test_surveys_read_headers_together_and_files_many_at_a_time(
    measured: MeasuredStore, tmp_path: Path, words: tuple[str, ...], passes: int, most: int
) -> None:
    """Once the headers of all files, and each survey once all files; no file waits for the one before it."""
    write_savepoint(tmp_path / "wide", "long", 20_000, parallelism=60)
    measured.upload(tmp_path / "wide", "surveyed")
    measured.latency = 0.02
    last = [str(tmp_path / "report.html")] if len(words) > 1 else []
    assert run(measured, words[0], "s3://bucket/surveyed", *words[1:], *last) == 0
    # A few files may be opened ahead after they were read.
    assert measured.kinds()["GET"] <= 60 * passes + 20
    assert chain(measured.requests) < most


@pytest.mark.parametrize("verb", ["command", "method", "check"])
def test_a_changed_query_is_decided_by_one_read_of_each_header(
    measured: MeasuredStore, tmp_path: Path, verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plans, their times to live and what belongs to them are all about the same headers."""
    if verb != "method":  # which reads them again for what it will write, unless they are kept
        monkeypatch.setattr(one_verb_module, "CACHE_BYTES", 0)
    case = changes() / "2.3.0" / "agg-reorder"
    old, new = case / "new.json", case / "old.json"  # the savepoint that is written has files: it goes back
    pyspark_savepoint.open(case / "before").evolve(new_plan=old, old_plan=new).write(tmp_path / "files")
    measured.upload(tmp_path / "files", f"evolved-{verb}")
    files = [name for name in measured.objects if "_metadata" not in name]
    plans = f"--old-plan={old}", f"--new-plan={new}"
    if verb == "command":
        assert run(measured, "evolve", f"s3://bucket/evolved-{verb}", "--dry-run", *plans) == 0
    elif verb == "method":
        pyspark_savepoint.open(at(measured, f"evolved-{verb}")).evolve(old, new)
    else:
        pyspark_savepoint.open(at(measured, f"evolved-{verb}")).check_evolution(old, new)
    assert len(files) == 1
    assert [one.kind for one in measured.requests if one.key in files] == ["GET"]
    assert sum(one.given > 0 for one in measured.requests if one.key.endswith("_metadata")) == 1


@pytest.fixture(scope="module")
def many_operators(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A savepoint of twenty operators, each with a file that is too large to come whole with its header."""
    path = tmp_path_factory.mktemp("operators") / "savepoint"
    savepoint = pyspark_savepoint.create(max_parallelism=128)
    rows = pa.table({"key": pa.array(range(60_000)), "total": pa.array(range(60_000))})
    for number in range(20):
        savepoint = savepoint.with_operator(f"op{number}", rows)
    savepoint.write(path)
    return path


@pytest.mark.parametrize(
    ("words", "most"),
    [
        (("ls", "{}"), 3),
        (("schema", "{}"), 3),
        (("sizes", "{}"), 3),
        (("check-restore", "{}", "{}"), 3),
        (("check-migration", "{}", "--flink", "2.3"), 4),
        (("migrate", "{}", "{}-new", "--flink", "1.20"), 12),
        (("doctor", "{}"), 6),
        (("rename-class", "{}", "{}-renamed", "a.B=a.C"), 4),
        (("erase", "{}", "{}-erased", "--dry-run", "--keys", "42"), 10),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_headers_of_all_operators_come_together(
    measured: MeasuredStore, many_operators: Path, words: tuple[str, ...], most: int
) -> None:
    """A chain of one request for each operator would be twenty more. No operator has the class that is renamed."""
    measured.upload(many_operators, "many")
    measured.latency = 0.05
    assert run(measured, *(word.format("s3://bucket/many") for word in words)) in (0, 1 + (words[0] == "rename-class"))
    assert chain(measured.requests) <= most


def test_files_of_all_operators_are_verified_by_one_read_of_each(measured: MeasuredStore, many_operators: Path) -> None:
    """The headers, and the bytes, which are compared with their checksums while the state in them is checked."""
    measured.upload(many_operators, "many")
    measured.latency = 0.2
    assert run(measured, "verify", "s3://bucket/many") == 0
    assert measured.kinds() == {"GET": 1 + 2 * 20}
    size = sum(len(data) for data in measured.objects.values())
    assert sum(one.given for one in measured.requests) < size + 20 * 1024
    assert chain(measured.requests) <= 6


def test_files_of_all_operators_are_compared_by_one_read_of_each(measured: MeasuredStore, many_operators: Path) -> None:
    """Files of the next operators come while one is compared, and each once: its header comes with its bytes."""
    measured.upload(many_operators, "many")
    measured.upload(many_operators, "other")
    measured.latency = 0.2
    assert run(measured, "diff", "s3://bucket/many", "s3://bucket/other") == 0
    assert measured.kinds() == {"GET": 2 * (1 + 20)}
    assert chain(measured.requests) <= 8


def test_all_files_of_two_checkpoints_are_compared_by_one_read(measured: MeasuredStore, tmp_path: Path) -> None:
    """Databases that have files in common, and those that were compacted: nothing waits for the ones before."""
    job = IncrementalJob(tmp_path / "job", "long", 40_000, parallelism=8)
    numbers = np.arange(40_000)
    job.put(numbers, numbers)
    job.checkpoint(1)
    job.put(numbers[::16], -numbers[::16])
    compacted = iter([True, False] * 8)
    job.each(lambda family: family.compact_range(None, None) if next(compacted) else family.flush())
    job.checkpoint(2)
    job.close()
    measured.upload(tmp_path / "job", "job")
    measured.latency = 0.2
    assert run(measured, "diff", "s3://bucket/job/chk-1", "s3://bucket/job/chk-2") == 1
    tables = sum(name.endswith(".sst") for name in measured.objects)
    assert measured.kinds() == {"GET": 2 + 2 * 8 * 3 + tables}
    assert chain(measured.requests) <= 5


def test_operator_state_of_all_operators_is_compared_together(measured: MeasuredStore, tmp_path: Path) -> None:
    """A header comes before the elements, of all operators together: the names of the states are in it."""
    savepoint = pyspark_savepoint.create(max_parallelism=128)
    row, elements = pa.table({"key": [1], "total": [2]}), pa.table({"value": pa.array(range(40_000))})
    for number in range(20):
        savepoint = savepoint.with_operator(f"op{number}", row).with_list_state(f"op{number}", "list", elements)
    savepoint.write(tmp_path / "lists")
    measured.upload(tmp_path / "lists", "many")
    measured.upload(tmp_path / "lists", "other")
    measured.latency = 0.05
    assert run(measured, "diff", "s3://bucket/many", "s3://bucket/other") == 0
    assert sum("_metadata" not in one.key for one in measured.requests) == 2 * 20 * 3
    assert chain(measured.requests) <= 24


def test_files_that_an_erasure_searches_are_read_many_at_a_time(measured: MeasuredStore, tmp_path: Path) -> None:
    """Each small file once, for its header, its rows, its bytes, and its rows again; none waits for the others."""
    write_savepoint(tmp_path / "wide", "long", 20_000, parallelism=60)
    measured.upload(tmp_path / "wide", "sought")
    measured.latency = 0.02
    assert run(measured, "erase", "s3://bucket/sought", "s3://bucket/new", "--dry-run", "--keys", "42") in (0, 1)
    assert measured.kinds()["GET"] <= 60 + 4
    assert chain(measured.requests) < 20


def test_keys_are_removed_from_many_files_at_a_time(measured: MeasuredStore, tmp_path: Path) -> None:
    """Each file: its header, its bytes, and the new file in one request."""
    write_savepoint(tmp_path / "wide", "long", 20_000, parallelism=60)
    measured.upload(tmp_path / "wide", "removed")
    measured.latency = 0.02
    keys = map(str, range(2000))
    assert run(measured, "remove-keys", "s3://bucket/removed", "s3://bucket/left", "bench", "--keys", *keys) == 0
    assert measured.kinds()["GET"] <= 60 * 2 + 8
    assert measured.kinds()["PUT"] <= 60 + 4
    assert chain(measured.requests) < 30


def test_all_parts_of_a_large_file_are_requested_together(measured: MeasuredStore, tmp_path: Path) -> None:
    """Its header was read before, so that its version is known: no part waits for another."""
    write_savepoint(tmp_path / "large", "long", 220_000, parallelism=1)
    measured.upload(tmp_path / "large", "parts")
    measured.latency = 0.2
    assert run(measured, "verify", "s3://bucket/parts") == 0
    parts = [one for one in measured.requests if one.given > 1 << 20]
    assert len(parts) == 3
    assert chain(parts) == 1
    size = len(measured.objects["parts/state-0"])
    assert size <= sum(one.given for one in measured.requests if one.key == "parts/state-0") < size + (16 << 10)


def test_memory_limits_what_is_read_ahead(measured: MeasuredStore, tmp_path: Path) -> None:
    """A read that stops at its first rows has fetched no more than option ``memory`` of the following files."""
    write_savepoint(tmp_path / "wide", "long", 400_000, parallelism=8)
    measured.upload(tmp_path / "wide", "ahead")
    given = []
    for memory in ("1m", "64m"):
        measured.requests.clear()
        batches = pyspark_savepoint.open(at(measured, "ahead")).keyed_state("bench", memory=memory).batches()
        for _ in range(3):
            next(batches)
        given.append(sum(one.given for one in measured.requests))
        batches.close()
    assert given[0] < given[1]
    assert BytesAhead.total == 0


def test_a_verb_without_end_has_its_budget_anew_for_each_look() -> None:
    """``changes --follow``: the requests of a day together fail for longer than those of one look may."""
    with one_verb():
        with failing().since(time.monotonic() - 50):
            pass
        look_again()
        assert failing().seconds >= 50, "what a verb has written is no reason"
        look_again(anew=True)
        assert failing().seconds < 1


def test_a_table_that_is_read_to_its_end_waits_for_no_file(measured: MeasuredStore, tmp_path: Path) -> None:
    """``_metadata``, all headers together, all files together; a reader that may stop opens a few first."""
    write_savepoint(tmp_path / "wide", "long", 20_000, parallelism=60)
    measured.upload(tmp_path / "wide", "whole")
    measured.latency = 0.2
    table = pyspark_savepoint.open(at(measured, "whole")).keyed_state("bench")
    measured.requests.clear()
    assert table.to_arrow().num_rows == 20_000
    assert measured.kinds()["GET"] <= 60 * 2 + 4
    assert chain(measured.requests) <= 4
    measured.requests.clear()
    batches = table.batches()
    next(batches)
    batches.close()
    assert measured.kinds()["GET"] <= 60 + 8, "headers, and a few files"


def test_a_folder_is_asked_for_once_if_its_files_are_gone(measured: MeasuredStore, tmp_path: Path) -> None:
    """Whether the checkpoint was moved with its folder of shared files, for all files that are not in it."""
    job = IncrementalJob(tmp_path / "gone", "long", 20_000, parallelism=8)
    for number in (1, 2):
        job.put(np.arange(20_000), np.arange(20_000))
        job.checkpoint(number)
    job.close()
    (tmp_path / "gone" / "shared").joinpath("left").write_bytes(b"\0")
    for file in (tmp_path / "gone" / "shared").glob("*.sst"):
        file.unlink()
    measured.upload(tmp_path / "gone", "gone")
    assert run(measured, "salvage", "s3://bucket/gone/chk-2", "s3://bucket/left") == 0
    asked = [one.kind for one in measured.requests if one.key.rstrip("/") == "gone/shared"]
    assert 0 < asked.count("LIST") <= 32, "by each that asks at the same time, of 96 files"
    assert sum(one.status == 404 for one in measured.requests) > 16
