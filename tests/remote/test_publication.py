"""A savepoint published in an object store is never lost, whatever fails and whatever else writes at the same time."""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pyspark_savepoint.command_line.main import main
from pyspark_savepoint.formats.errors import (
    AccessDeniedError,
    ConcurrentWriteError,
    FileReplacedError,
    OutputError,
    SavepointError,
    SavepointWarning,
    StoreBusyError,
    UncertainOutcomeError,
)
from pyspark_savepoint.formats.filesystems import filesystem as filesystems
from pyspark_savepoint.formats.filesystems.credentials import ProfileKeys, s3_credentials
from pyspark_savepoint.formats.filesystems.filesystem import locate
from pyspark_savepoint.formats.filesystems.object_store import (
    ObjectStore,
    object_store,
)
from pyspark_savepoint.formats.filesystems.remote import StoreTarget
from pyspark_savepoint.formats.filesystems.storage_options import StorageOptions, StoragePath
from pyspark_savepoint.formats.io.snapshot_files import Published
from pyspark_savepoint.formats.snapshot import publication
from pyspark_savepoint.formats.snapshot.publication import Staging, relative_files, roll_back
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot, find_snapshots
from pyspark_savepoint.formats.snapshot.vacuum import vacuum
from pyspark_savepoint.statebackends.writing.committer import commit
from pyspark_savepoint.statebackends.writing.planning.planned_write import WritePlan
from pyspark_savepoint.statebackends.writing.task_outputs import TaskOutput
from pyspark_savepoint.statebackends.writing.write_task import write_rows
from tests.remote.attack import IMPATIENT, attack, in_s3, read_rows, rows
from tests.remote.storage import FaultyProxy, delete, put
from tests.statebackends.writing.written_operators import planned, read, write


def of(proxy: FaultyProxy, name: str, **options: Any) -> str:
    return StoragePath.of(
        f"s3://bucket/{name}", StorageOptions.of({"endpoint": proxy.endpoint, **IMPATIENT, **options})
    )


def store_of(proxy: FaultyProxy, **options: Any) -> ObjectStore:
    return object_store(StoreTarget("s3", "bucket", StorageOptions.of({"endpoint": proxy.endpoint, **options}), False))


def overwrite(path: str, value: int) -> tuple[WritePlan, list[TaskOutput]]:
    """An overwrite of a savepoint with ones, to be committed."""
    if value == 2:
        write(path, [rows(1)])
    plan = planned(path, rows(value).schema, overwrite=True)
    return plan, [write_rows(plan, 0, rows(value).to_batches())]


# -- conditions of the store --------------------------------------------------------------------------------


def test_the_store_of_these_tests_has_conditions(proxy: FaultyProxy) -> None:
    """If-None-Match and If-Match on PutObject: without them, the tests below would prove nothing."""
    store = store_of(proxy)
    assert store.read_published("/conditions") is None
    store.put("/conditions", b"one", None)
    with pytest.raises(ConcurrentWriteError):
        store.put("/conditions", b"two", None)
    one = store.read_published("/conditions")
    assert one is not None
    assert one.data == b"one"
    store.put("/conditions", b"two", one)
    with pytest.raises(ConcurrentWriteError):
        store.put("/conditions", b"three", one)
    with pytest.raises(ConcurrentWriteError):
        store.put("/none", b"three", one)
    found = store.read_published("/conditions")
    assert found is not None
    assert found.data == b"two"


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (409, ConcurrentWriteError),
        (412, ConcurrentWriteError),
        (403, OutputError),
        (400, OutputError),
        (500, StoreBusyError),
        (503, StoreBusyError),
        (502, UncertainOutcomeError),
        (504, UncertainOutcomeError),
        ("drop", UncertainOutcomeError),
        ("lose", UncertainOutcomeError),
        (501, NotImplementedError),
        (405, NotImplementedError),
    ],
)
def test_answers_are_told_apart(proxy: FaultyProxy, fault: int | str, kind: type[Exception]) -> None:
    store = store_of(proxy, maxAttempts=5)
    proxy.fault = lambda method, path: fault if method == "PUT" else None
    with pytest.raises(kind) as raised:
        store.put("/answers", b"", Published(b"", (("e_tag", '"x"'),)))
    assert raised.type is kind
    assert len(proxy.requests) == 1


def test_only_objects_are_asked_for(proxy: FaultyProxy) -> None:
    """Not the bucket: credentials that are limited to objects, as Azure's signatures are, must do."""
    Staging.at(of(proxy, "limited")).begin().create_state("x").close()
    asked = {path.partition("?")[0] for _, path, _ in proxy.requests}
    assert len(asked) == 2, "the file and its checksums"
    assert all(path.startswith("/bucket/limited/") and not path.endswith("/") for path in asked)


def test_both_clients_use_one_endpoint(proxy: FaultyProxy, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    write(of(proxy, "endpoint"), [rows(1)])
    assert read(of(proxy, "endpoint")) == read_rows(1)


# -- who writes ---------------------------------------------------------------------------------------------


@pytest.fixture
def profiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Files of profiles, and no keys in the environment."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    filesystems.store_of.cache_clear()
    return tmp_path


KEYS = "aws_access_key_id = {}\naws_secret_access_key = y\n"


def test_keys_of_a_profile_are_found(profiles: Path, proxy: FaultyProxy, monkeypatch: pytest.MonkeyPatch) -> None:
    (profiles / "credentials").write_text(f"[default]\n{KEYS.format('a')}[b]\n{KEYS.format('b')}")
    (profiles / "config").write_text(f"[profile c]\n{KEYS.format('c')}aws_session_token = z\n")
    write(of(proxy, "profile"), [rows(1)])
    assert read(of(proxy, "profile")) == read_rows(1)
    for name in "bc":
        monkeypatch.setenv("AWS_PROFILE", name)
        found = s3_credentials(lambda: "eu-west-1")
        assert isinstance(found, ProfileKeys)
        assert found()["access_key_id"] == name
    assert found()["token"] == "z"
    monkeypatch.setenv("AWS_PROFILE", "none")
    with pytest.raises(AccessDeniedError, match="no credentials"):
        s3_credentials(lambda: "eu-west-1")


def test_whom_only_pyarrow_can_be_publishes_without_a_condition(proxy: FaultyProxy, store: int) -> None:
    """A role of the path is not assumed here: the store has no STS, so pyarrow is given another path."""
    with pytest.raises(LookupError, match="roleArn"):
        store_of(proxy, roleArn="arn:aws:iam::1:role/x")
    proxy.fault = lambda method, path: 501 if method == "PUT" and path.endswith("_metadata") and once() else None
    seen: list[int] = []

    def once() -> bool:
        seen.append(1)
        return len(seen) == 1

    with pytest.warns(SavepointWarning, match="published without a conditional write"):
        write(of(proxy, "unconditional"), [rows(1)])
    assert read(of(proxy, "unconditional")) == read_rows(1)


# -- faults -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", [503, 403, "drop"])
def test_a_published_savepoint_stays_where_nothing_can_be_deleted(proxy: FaultyProxy, fault: int | str) -> None:
    path = of(proxy, f"undeletable-{fault}")
    plan, outputs = overwrite(path, 2)
    proxy.fault = lambda method, path: fault if method == "DELETE" or (method == "POST" and "delete" in path) else None
    with pytest.warns(SavepointWarning, match="files that no savepoint needs"):
        commit(plan, outputs)
    proxy.fault = lambda method, path: None
    assert read(path) == read_rows(2)
    assert roll_back(plan.staging)  # Spark may still abort it
    assert read(path) == read_rows(2)


@pytest.mark.parametrize("fault", ["lose", "truncate"])
def test_an_answer_that_is_lost_is_found_by_reading(proxy: FaultyProxy, fault: str) -> None:
    path = of(proxy, f"lost-{fault}")
    plan, outputs = overwrite(path, 2)
    proxy.fault = lambda method, path: fault if method in ("PUT", "POST") and "_metadata" in path else None
    commit(plan, outputs)
    proxy.fault = lambda method, path: None
    assert read(path) == read_rows(2)


def test_a_store_that_refuses_keeps_what_it_has(proxy: FaultyProxy) -> None:
    path = of(proxy, "refused")
    plan, outputs = overwrite(path, 2)
    proxy.fault = lambda method, path: 403 if method == "PUT" and "_metadata" in path else None
    with pytest.raises(OutputError, match="denies access"):
        commit(plan, outputs)
    proxy.fault = lambda method, path: None
    assert read(path) == read_rows(1)
    left = [entry.name for entry in plan.staging.filesystem.list(plan.staging.directory)]
    assert not [name for name in left if plan.staging.token in name]


@pytest.mark.parametrize("there", [False, True])
def test_a_request_that_comes_late_finds_its_files(
    proxy: FaultyProxy, there: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The writer has given up and was aborted when its request arrives."""
    path = of(proxy, f"late-{there}")
    if there:
        plan, outputs = overwrite(path, 2)
    else:
        plan = planned(path, rows(2).schema)
        outputs = [write_rows(plan, 0, rows(2).to_batches())]
    sent: list[int] = []

    def fault(method: str, path: str) -> Any:
        if method != "PUT" or "_metadata" not in path:
            return None
        sent.append(1)
        return "late" if len(sent) == 1 else "drop"

    monkeypatch.setattr(publication, "PAUSES", (0.1, 0.1))
    proxy.delay, proxy.fault = 2.5, fault
    with pytest.raises(UncertainOutcomeError, match="unknown whether"):
        commit(plan, outputs)
    with pytest.warns(SavepointWarning, match="did not answer"):
        assert not roll_back(plan.staging)
    proxy.fault = lambda method, path: None
    if there:
        assert read(path) == read_rows(1)
    while proxy.held:
        time.sleep(0.05)
    assert read(path) == read_rows(2)
    assert roll_back(plan.staging)
    assert read(path) == read_rows(2)


def test_two_writers_that_begin_with_one_savepoint(proxy: FaultyProxy) -> None:
    path = of(proxy, "two")
    first = overwrite(path, 2)
    second = overwrite(path, 3)
    commit(*first)
    with pytest.raises(ConcurrentWriteError, match="another writer"):
        commit(*second)
    assert read(path) == read_rows(2)


# -- stores without conditions, and stores that lie ---------------------------------------------------------


@pytest.fixture
def ignoring(proxy: FaultyProxy) -> Iterator[FaultyProxy]:
    """A gateway that drops the headers of conditions: all puts of one process are found to be unconditional."""
    filesystems.store_of.cache_clear()
    proxy.ignores_conditions = True
    yield proxy
    filesystems.store_of.cache_clear()


def race(proxy: FaultyProxy, path: str, count: int) -> list[list[str]]:
    """Pairs of overwrites from one base each, and what each was told."""
    told = []
    for number in range(count):
        plans = [overwrite_of(path, 10 * number + value) for value in (2, 3)]
        start, said = threading.Barrier(2), ["", ""]

        def run(index: int, plans: Any = plans, start: Any = start, said: Any = said) -> None:
            start.wait()
            try:
                commit(*plans[index])
                said[index] = "published"
            except ConcurrentWriteError:
                said[index] = "another was faster"

        threads = [threading.Thread(target=run, args=(index,)) for index in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        told.append(said)
        published = [10 * number + value for value, what in zip((2, 3), said, strict=True) if what == "published"]
        if published:
            assert read(path) == read_rows(published[-1])
    return told


def overwrite_of(path: str, value: int) -> tuple[WritePlan, list[TaskOutput]]:
    plan = planned(path, rows(value).schema, overwrite=True)
    return plan, [write_rows(plan, 0, rows(value).to_batches())]


def test_writers_of_a_store_that_ignores_conditions_wait_for_each_other(
    ignoring: FaultyProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = of(ignoring, "ignoring")
    monkeypatch.setattr(publication, "PAUSES", (0.1, 0.2, 0.4, 0.8))
    with pytest.warns(SavepointWarning, match=r"ignoring/_metadata is published.*the store ignores the conditions"):
        write(path, [rows(1)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        told = race(ignoring, path, 6)
    assert all(said.count("published") <= 1 for said in told), told
    assert sum(said.count("published") for said in told) >= 3, told


@pytest.mark.parametrize("there", [False, True])
def test_conditions_can_be_required(ignoring: FaultyProxy, there: bool) -> None:
    path = of(ignoring, f"required-{there}", conditionalWrites="require")
    if there:
        with pytest.warns(SavepointWarning, match="'conditionalWrites' = 'require' refuses"):
            write(of(ignoring, f"required-{there}"), [rows(1)])
    with pytest.raises(OutputError, match=r"which option 'conditionalWrites' requires(.|\n)*ignores the conditions"):
        write(path, [rows(2)], overwrite=there)
    filesystem, folder = locate(path)
    assert [entry.name for entry in filesystem.list(folder) if ".pending" in entry.name] == [] if there else True
    assert read(path) == read_rows(1) if there else filesystem.info(f"{folder}/_metadata") is None
    ignoring.ignores_conditions = False
    filesystems.store_of.cache_clear()
    write(path, [rows(2)], overwrite=there)
    assert read(path) == read_rows(2)


@pytest.mark.parametrize("there", [False, True])
def test_required_conditions_are_tried_before_anything_is_written(ignoring: FaultyProxy, there: bool) -> None:
    name = f"planned-{there}"
    if there:
        with pytest.warns(SavepointWarning):
            write(of(ignoring, name), [rows(1)])
    ignoring.requests.clear()
    with pytest.raises(OutputError, match=r"which option 'conditionalWrites' requires"):
        planned(of(ignoring, name, conditionalWrites="require"), rows(2).schema, overwrite=there)
    puts = {path.partition("?")[0].rpartition("/")[2] for method, path, _ in ignoring.requests if method == "PUT"}
    assert puts <= {"publishing", ""}  # the empty file of the trial, and names of folders
    filesystem, folder = locate(of(ignoring, name))
    left = [entry.name for entry in filesystem.list(folder)] if there else filesystem.info(folder)
    assert not there or not [entry for entry in left or () if ".pending" in entry]
    assert there or left is None


def test_a_store_is_tried_once_per_process(proxy: FaultyProxy) -> None:
    filesystems.store_of.cache_clear()
    for count in (2, 0):
        proxy.requests.clear()
        write(of(proxy, f"tried-{count}"), [rows(1)])
        puts = [path for method, path, _ in proxy.requests if method == "PUT" and ".pending-" in path]
        assert len([path for path in puts if path.endswith("/conditions")]) == count
        assert len([path for path in puts if path.endswith("/publishing")]) == 1
        assert all(path.startswith(f"/bucket/tried-{count}/.pending-") for path in puts)


def test_a_store_that_does_not_answer_the_trial_keeps_what_it_has(proxy: FaultyProxy) -> None:
    path = of(proxy, "untried")
    plan, outputs = overwrite(path, 2)
    filesystems.store_of.cache_clear()
    proxy.fault = lambda method, path: 503 if method == "PUT" and "publishing" in path else None
    with pytest.raises(OutputError):
        commit(plan, outputs)
    proxy.fault = lambda method, path: None
    assert read(path) == read_rows(1)


@pytest.mark.parametrize("there", [False, True])
def test_what_a_store_acknowledges_and_does_not_keep_is_not_published(
    proxy: FaultyProxy, there: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = of(proxy, f"forgotten-{there}")
    if there:
        write(path, [rows(1)])
    monkeypatch.setattr(publication, "PAUSES", (0.05, 0.1))
    plan = planned(path, rows(2).schema, overwrite=there, retention=0)
    outputs = [write_rows(plan, 0, rows(2).to_batches())]
    proxy.fault = lambda method, path: "forget" if method == "PUT" and path.endswith("_metadata") else None
    with pytest.raises(UncertainOutcomeError, match=r"unknown whether(.|\n)*returns the one before"):
        commit(plan, outputs)
    with pytest.warns(SavepointWarning, match="did not answer"):
        assert not roll_back(plan.staging)
    proxy.fault = lambda method, path: None
    assert (read(path) == read_rows(1)) if there else not find_snapshots(path)


def test_a_put_that_is_kept_at_the_second_attempt_is_published(proxy: FaultyProxy) -> None:
    path = of(proxy, "kept-later")
    plan, outputs = overwrite(path, 2)
    answers = iter(["forget"])
    proxy.fault = lambda method, path: next(answers, None) if method == "PUT" and "_metadata" in path else None
    commit(plan, outputs)
    assert read(path) == read_rows(2)


def test_a_mark_of_a_writer_that_died_long_ago_keeps_nobody_waiting(
    ignoring: FaultyProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = of(ignoring, "stale")
    monkeypatch.setattr(publication, "PAUSES", (0.05,))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dead, _ = overwrite(path, 2)
        publication.mark(dead.staging)
        with pytest.raises(ConcurrentWriteError, match="another writer is publishing"):
            write(path, [rows(3)], overwrite=True)
        monkeypatch.setattr(publication, "STALE_MARK", 0.0)
        write(path, [rows(3)], overwrite=True)
    assert read(path) == read_rows(3)


# -- readers ------------------------------------------------------------------------------------------------


def test_a_file_that_is_replaced_while_it_is_read_is_noticed(proxy: FaultyProxy, store: int) -> None:
    """By one of the same size too; one that was replaced before it was opened, or deleted, is none of these."""
    put(store, "/bucket/replaced", bytes(1 << 20))
    filesystem, path = locate(of(proxy, "replaced"))
    file = filesystem.open_input(path)
    file.read_into(0, bytearray(10))
    put(store, "/bucket/replaced", b"x" * (1 << 20))
    with pytest.raises(FileReplacedError, match="replaced while it was read"):
        file.read_into(1 << 19, bytearray(10))
    file.close()
    proxy.requests.clear()
    again = filesystem.open_input(path)
    again.read_into(0, bytearray(10))
    again.close()
    assert [method for method, _, _ in proxy.requests] == ["GET"], "one request opens a file, and none closes it"
    unread = filesystem.open_input(path)
    put(store, "/bucket/replaced", b"y" * (1 << 20))
    unread.close()
    last = filesystem.open_input(path)
    last.read_into(0, bytearray(10))
    delete(store, "/bucket/replaced")
    last.close()


def test_a_small_file_is_read_in_one_version(proxy: FaultyProxy, store: int) -> None:
    """One request brings all of it, so that it cannot be replaced in between."""
    path = of(proxy, "replaced-state")
    write(path, [rows(1)])
    write(of(proxy, "other-state"), [rows(2)])
    (name,) = relative_files(Snapshot.open(path).metadata)
    (other,) = relative_files(Snapshot.open(of(proxy, "other-state")).metadata)
    filesystem, folder = locate(of(proxy, "other-state"))
    found = filesystem.read_published(f"{folder}/{other}")
    assert found is not None
    seen: list[str] = []

    def replacing(method: str, path: str) -> None:
        """When it is opened to be read, not when its head is read for the plan."""
        if method == "GET" and name in path:
            seen.append(path)
            if len(seen) == 2:
                put(store, f"/bucket/replaced-state/{name}", found.data)

    proxy.fault = replacing
    assert read(path) == read_rows(2)
    assert len(seen) == 3, "once for the plan, once for each task"


def test_metadata_that_are_replaced_while_they_are_read_are_read_again(proxy: FaultyProxy, store: int) -> None:
    path = of(proxy, "replaced-metadata")
    plan, outputs = overwrite(path, 2)
    seen: list[str] = []

    def replacing(method: str, path: str) -> None:
        if method == "GET" and "replaced-metadata/_metadata" in path:
            seen.append(path)
            if len(seen) == 1:
                commit(plan, outputs)

    proxy.fault = replacing
    assert read(path) == read_rows(2)


@pytest.mark.filterwarnings("ignore::pyspark_savepoint.formats.errors.SavepointWarning")
@pytest.mark.parametrize("ignores", [False, True])
def test_nothing_is_lost_at_random(proxy: FaultyProxy, ignores: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands: ``python -m tests.remote.attack``."""
    monkeypatch.setattr(publication, "PAUSES", (0.05, 0.1, 0.3, 0.5))
    proxy.ignores_conditions = ignores
    found = attack(in_s3(proxy, f"attacked-{ignores}"), proxy, 7, 12, 3)
    assert found.problems == []
    assert found.seen["overwrite: published"] > 6
    assert sum(count for what, count in found.seen.items() if what.startswith("fault ")) > 6
    assert ignores or found.seen["pair without: published"] == 2


def test_vacuum_in_a_store(proxy: FaultyProxy) -> None:
    """A writer dies whose tasks were on other machines; another's files, and what is published, stay."""
    path = of(proxy, "vacuumed")
    dead, _ = overwrite(path, 2)
    dead = replace(dead, staging=replace(dead.staging, near=None))
    outputs = [write_rows(dead, 0, rows(2).to_batches())]
    assert vacuum(path, 3600) == []
    found = vacuum(path, 0, dry_run=True)
    assert {left.kind for left in found} == {"pending"}
    assert all(left.path.startswith("s3://bucket/vacuumed/.pending-") for left in found)
    assert vacuum(path, 0) == found
    assert vacuum(path, 0) == []
    assert read(path) == read_rows(1)
    with pytest.raises(SavepointError):
        commit(dead, outputs)
    assert read(path) == read_rows(1)


# -- verbs that write whole savepoints --------------------------------------------------------------------------------

#: Of the shop's savepoint, to another path of the store.
VERBS = (
    ("pin",),
    ("migrate", "--flink", "2.3"),
    ("erase", "--keys", "1042"),
    ("remove-keys", "accounts", "--keys", "1042"),
)


@pytest.mark.parametrize("ignores", [False, True])
@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb[0])
def test_no_verb_tells_of_a_savepoint_that_the_store_has_not_kept(
    proxy: FaultyProxy, verb: tuple[str, ...], ignores: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    """The store acknowledges one object after the other, and all attempts to put it again, and keeps none."""
    proxy.ignores_conditions = ignores
    options = [f"--storage-option={name}={value}" for name, value in {"endpoint": proxy.endpoint, **IMPATIENT}.items()]

    def run(name: str, *words: str) -> int:
        return main([name, *words, *options])

    def written(target: str) -> int:
        name, *more = verb
        return run(name, "s3://bucket/savepoints/savepoint-shop", f"s3://bucket/{target}", *more)

    base = f"verbs/{verb[0]}-{ignores}"
    assert written(f"{base}/good") == 0
    puts = sum(method in ("PUT", "POST") for method, _, _ in proxy.requests)
    lost: list[str] = []

    def forget(number: int) -> Callable[[str, str], str | None]:
        seen = iter(range(10**6))

        def fault(method: str, path: str) -> str | None:
            place = path.partition("?")[0]
            if method in ("PUT", "POST") and next(seen) == number and method == "PUT":
                lost.append(place)
            return "forget" if method == "PUT" and place in lost else None

        return fault

    refused = 0
    for number in range(puts):
        lost.clear()
        proxy.fault = forget(number)
        code = written(f"{base}/{number}")
        proxy.fault = lambda method, path: None
        target = f"s3://bucket/{base}/{number}"
        whole = run("verify", target) == 0 and run("diff", f"s3://bucket/{base}/good", target) == 0
        told = capfd.readouterr().err
        assert whole is (code == 0), (number, lost, told)
        assert "this is a bug" not in told
        refused += code != 0
    assert refused > 2
