"""Azure's blobs, by its emulator Azurite: with a key, and with a token for the blobs of one container.

Needs ``azurite-blob`` on the path: ``npm install -g azurite``.
"""

from __future__ import annotations

import gc
import time
import warnings
from collections.abc import Iterator

import pyarrow as pa
import pytest

from pyspark_savepoint.formats.errors import AccessDeniedError, ConcurrentWriteError, OutputError
from pyspark_savepoint.formats.filesystems.filesystem import locate
from pyspark_savepoint.formats.filesystems.storage_options import StorageOptions, StoragePath
from pyspark_savepoint.formats.snapshot.publication import Staging
from pyspark_savepoint.formats.snapshot.vacuum import vacuum
from pyspark_savepoint.statebackends.writing.committer import commit
from pyspark_savepoint.statebackends.writing.write_task import write_rows
from tests.remote.attack import in_azure
from tests.remote.storage import (
    ACCOUNT,
    ACCOUNT_KEY,
    AZURITE,
    HOST,
    azure_store,
    faulty_proxy,
    shared_access_signature,
)
from tests.statebackends.writing.written_operators import planned, read, write

pytestmark = pytest.mark.skipif(AZURITE is None, reason="needs Azurite: npm install -g azurite")
CREDENTIALS = ("key", "token", "?token")


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with azure_store() as found:
        yield found


@pytest.fixture(params=CREDENTIALS)
def path(request: pytest.FixtureRequest, port: int, monkeypatch: pytest.MonkeyPatch) -> StoragePath:
    """A path in the container, for a process with one kind of credentials."""
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT", ACCOUNT)
    if request.param == "key":
        monkeypatch.setenv("AZURE_STORAGE_KEY", ACCOUNT_KEY)
    else:
        monkeypatch.delenv("AZURE_STORAGE_KEY", raising=False)
        token = request.param.replace("token", shared_access_signature("bucket"))
        monkeypatch.setenv("AZURE_STORAGE_SAS_TOKEN", token)
    return at(port, f"sp-{CREDENTIALS.index(request.param)}")


def at(port: int, name: str) -> StoragePath:
    return StoragePath.of(f"abfs://bucket@{ACCOUNT}/{name}", StorageOptions.of({"endpoint": f"http://{HOST}:{port}"}))


def rows(value: int) -> pa.Table:
    return pa.table({"key": list(range(10)), "n": [value] * 10})


def test_it_is_written_overwritten_and_vacuumed(path: StoragePath) -> None:
    """A condition decides between two writers, and the leftovers of a dead one are removed."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # such as: is published without a conditional write
        write(path, [rows(1)])
        write(path, [rows(2)], uid="other")
        assert {row["n"] for row in read(path)} == {1}
        plans = [planned(path, rows(value).schema, overwrite=True, retention=0) for value in (3, 4)]
        written = [[write_rows(plan, 0, rows(3 + i).to_batches())] for i, plan in enumerate(plans)]
        commit(plans[0], written[0])
        with pytest.raises(ConcurrentWriteError):
            commit(plans[1], written[1])
        assert [row["n"] for row in read(path)] == [3] * 10
        assert [row["n"] for row in read(path, uid="other")] == [2] * 10
        dead = planned(path, rows(5).schema, overwrite=True, retention=0)
        write_rows(dead, 0, rows(5).to_batches())
        file = dead.staging.create_state(dead.staging.unique("0"))
        file.write(b"data")
        file.close()
        time.sleep(1.1)  # the store has times in seconds
        kinds = {leftover.kind for leftover in vacuum(path, 0)}
        assert kinds == {"pending", "unreferenced"}
        assert vacuum(path, 0) == []
    filesystem, directory = locate(path)
    named = [entry.name for entry in filesystem.list(directory) if not entry.is_directory]
    assert len(named) == 3, "the metadata, and a file of each operator"
    assert [row["n"] for row in read(path)] == [3] * 10


@pytest.mark.parametrize("token", ["expired", "of another container", "that may only read"])
def test_a_token_that_does_not_reach_is_not_told(port: int, monkeypatch: pytest.MonkeyPatch, token: str) -> None:
    given = {
        "expired": shared_access_signature("bucket", expiry="2020-01-01T00:00:00Z"),
        "of another container": shared_access_signature("other"),
        "that may only read": shared_access_signature("bucket", "rl"),
    }[token]
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT", ACCOUNT)
    monkeypatch.delenv("AZURE_STORAGE_KEY", raising=False)
    monkeypatch.setenv("AZURE_STORAGE_SAS_TOKEN", given)
    place = at(port, "denied")
    with pytest.raises((AccessDeniedError, OutputError), match="denies access") as told:
        write(place, [rows(1)])
    file = Staging.at(place).create_state("x")
    file.write(b"data")
    with pytest.raises((AccessDeniedError, OutputError), match="denies access") as also:
        file.close()
    signature = given.partition("sig=")[2]
    for text in (str(told.value), str(also.value), repr(also.value.__context__)):
        assert signature not in text
        assert signature[:20] not in text


@pytest.mark.parametrize("ends", ["close", "abort"])
def test_an_upload_that_fails_does_not_tell_the_token(
    port: int, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], ends: str
) -> None:
    """Also not by Arrow, which writes to standard error when a stream that could not be closed is destroyed."""
    token = shared_access_signature("bucket")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT", ACCOUNT)
    monkeypatch.delenv("AZURE_STORAGE_KEY", raising=False)
    monkeypatch.setenv("AZURE_STORAGE_SAS_TOKEN", token)
    with faulty_proxy(port) as proxy:
        file = Staging.at(in_azure(proxy, "cut")).filesystem.open_output("/cut/x")
        proxy.fault = lambda method, path: 403 if method == "PUT" else None
        file.write(b"data")
        if ends == "close":
            with pytest.raises(OutputError):
                file.close()
        file.abort()
        del file
        gc.collect()
    assert token.partition("sig=")[2] not in "".join(capfd.readouterr())
