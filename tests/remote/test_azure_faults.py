"""Each request of verbs fails once in Azure: the savepoint is whole then, or there is one error and none.

Needs ``azurite-blob`` on the path: ``npm install -g azurite``.
"""

from __future__ import annotations

import contextlib
import io
import re
import threading
from collections.abc import Callable, Iterator

import pytest

from pyspark_savepoint.command_line.main import main
from pyspark_savepoint.formats.filesystems.filesystem import store_of
from tests.remote.conftest import SHOP
from tests.remote.every_command import COMMANDS, fill, usual, words_of
from tests.remote.measured_azure import measured_azure
from tests.remote.measured_store import measured_store
from tests.remote.storage import ACCOUNT, ACCOUNT_KEY, AZURITE, FaultyProxy, azure_store, faulty_proxy

pytestmark = pytest.mark.skipif(AZURITE is None, reason="needs Azurite: npm install -g azurite")
FOLDER = f"abfs://bucket@{ACCOUNT}"
SOURCE = f"{FOLDER}/shop"
VERBS: dict[str, tuple[str, ...]] = {
    "cp": ("cp", SOURCE, "{new}"),
    "pin": ("pin", SOURCE, "{new}"),
    "rename": ("rename", SOURCE, "{new}", "accounts=customers"),
    "rename a state": ("rename", SOURCE, "{new}", "accounts.total=sum"),
    "remove-keys": ("remove-keys", SOURCE, "{new}", "accounts", "--keys", "1042"),
    "erase": ("erase", SOURCE, "{new}", "--keys", "1042"),
    "migrate": ("migrate", SOURCE, "{new}", "--flink", "2.3"),
    "remove": ("remove", SOURCE, "{new}", "accounts"),
    "copy-operator": ("copy-operator", SOURCE, "{new}", "accounts", "other"),
    "set-max-parallelism": ("set-max-parallelism", SOURCE, "{new}", "64"),
    "diff": ("diff", SOURCE, SOURCE),
    "verify": ("verify", SOURCE),
    "show": ("show", SOURCE, "accounts"),
    "sizes": ("sizes", SOURCE),
    "ls": ("ls", SOURCE),
}
#: An answer that the store is busy; a connection that breaks before the request is done, and one after it.
FAULTS: tuple[int | str, ...] = (503, "drop", "lose")


@pytest.fixture
def azure(monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultyProxy]:
    """A proxy before a container with the shop's savepoint."""
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT", ACCOUNT)
    monkeypatch.setenv("AZURE_STORAGE_KEY", ACCOUNT_KEY)
    with azure_store() as port, faulty_proxy(port) as proxy:
        assert run(proxy, "cp", str(SHOP), SOURCE) == 0
        yield proxy


#: Text of lists whose times the emulator sets.
TIMES = re.compile(r"\d{4}-\d\d-\d\dT[\d:]+\+00:00|(?<=time_seconds )[\d.]+")


@pytest.fixture(scope="module")
def answered(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], list[tuple[object, ...]]]]:
    """What S3 and Azure answer to a command: its exit code and texts, and how many files are new."""
    folders = {"s3://bucket": tmp_path_factory.mktemp("s3"), FOLDER: tmp_path_factory.mktemp("azure")}
    with pytest.MonkeyPatch.context() as patch, measured_store() as s3, measured_azure() as of_azure:
        patch.setenv("AZURE_STORAGE_ACCOUNT", ACCOUNT)
        patch.setenv("AZURE_STORAGE_KEY", ACCOUNT_KEY)
        stores = dict(zip(folders, (s3, of_azure), strict=True))
        for bucket, store in stores.items():
            fill(store, folders[bucket], bucket)
        before = {bucket: store.sizes().keys() for bucket, store in stores.items()}

        def answer(name: str) -> Iterator[tuple[object, ...]]:
            for bucket, store in stores.items():
                said, error = io.StringIO(), io.StringIO()
                words = words_of(name, folders[bucket], bucket)
                with contextlib.redirect_stdout(said), contextlib.redirect_stderr(error):
                    code = main([*words, f"--storage-option=endpoint={store.endpoint}"])
                texts = [TIMES.sub("", usual(one.getvalue(), bucket, folders[bucket])) for one in (said, error)]
                new = store.sizes().keys() - before[bucket]
                store.remove(new)
                yield code, texts, len(new)

        yield lambda name: list(answer(name))


@pytest.mark.parametrize("name", COMMANDS)
def test_azure_answers_as_s3_does(answered: Callable[[str], list[tuple[object, ...]]], name: str) -> None:
    s3, of_azure = answered(name)
    assert s3 == of_azure


def run(proxy: FaultyProxy, *words: str) -> int:
    store_of.cache_clear()
    proxy.requests.clear()
    return main([*words, f"--storage-option=endpoint={proxy.endpoint}"])


def once(number: int, fault: int | str) -> Callable[[str, str], int | str | None]:
    lock, seen = threading.Lock(), [0]

    def failing(method: str, path: str) -> int | str | None:
        with lock:
            seen[0] += 1
            return fault if seen[0] == number else None

    return failing


def swept(proxy: FaultyProxy, verb: str, every: int) -> None:
    """Fail each request of a verb once, in each way."""
    words = VERBS[verb]
    assert run(proxy, *(word.format(new=f"{FOLDER}/whole-{verb}") for word in words)) == 0
    count = len(proxy.requests)
    for fault in FAULTS:
        for number in range(1, count + 1, every):
            new = f"{FOLDER}/{verb}-{fault}-{number}".replace(" ", "-")
            proxy.fault = once(number, fault)
            done = run(proxy, *(word.format(new=new) for word in words))
            proxy.fault = lambda method, path: None
            assert done == 0, (verb, fault, number)
            if "{new}" in words:
                assert run(proxy, "verify", new, "--allow-outside") == 0, (verb, fault, number)
    assert run(proxy, "verify", SOURCE) == 0


@pytest.mark.parametrize("verb", ["rename a state", "remove-keys", "migrate"])
def test_bytes_that_change_on_the_way_are_not_published(
    azure: FaultyProxy, verb: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The store compares no checksum: each file is read back, and the verb succeeds without the fault."""
    words = [word.format(new=f"{FOLDER}/new") for word in VERBS[verb]]
    expect_refused(azure, words, capsys)


def test_a_copy_from_a_disk_is_read_back(azure: FaultyProxy, capsys: pytest.CaptureFixture[str]) -> None:
    expect_refused(azure, ["cp", str(SHOP), f"{FOLDER}/new"], capsys)


def expect_refused(azure: FaultyProxy, words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    azure.fault = lambda method, path: (
        "damage" if method == "PUT" and "/new/" in path and "/.pending" not in path else None
    )
    assert run(azure, *words) == 2
    assert "a file does not contain what was written to it" in capsys.readouterr().err
    azure.fault = lambda method, path: None
    assert run(azure, *words) == 0
    assert run(azure, "verify", f"{FOLDER}/new") == 0


@pytest.mark.parametrize("verb", ["cp", "remove-keys", "show"])
def test_some_requests_fail_once(azure: FaultyProxy, verb: str) -> None:
    swept(azure, verb, 7)


@pytest.mark.slow
@pytest.mark.parametrize("verb", VERBS)
def test_each_request_fails_once(azure: FaultyProxy, verb: str) -> None:
    swept(azure, verb, 1)
