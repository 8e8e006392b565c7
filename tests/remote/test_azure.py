"""Azure's blobs, by its emulator Azurite: published on a condition, as in S3.

Needs ``azurite-blob`` on the path: ``npm install -g azurite``.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import shutil
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime

import pyarrow as pa
import pytest

from pyspark_savepoint.formats.errors import ConcurrentWriteError
from pyspark_savepoint.formats.io.storage_options import StorageOptions, StoragePath
from pyspark_savepoint.statebackends.writing.commit.committer import commit
from pyspark_savepoint.statebackends.writing.commit.write_task import write_rows
from tests.statebackends.writing.written_operators import planned, read, write

AZURITE = shutil.which("azurite-blob")
HOST, ACCOUNT, VERSION = "127.0.0.1", "devstoreaccount1", "2021-08-06"
#: The emulator's own key, which everybody knows.
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="

pytestmark = pytest.mark.skipif(AZURITE is None, reason="needs Azurite: npm install -g azurite")


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with socket.socket() as free:
        free.bind((HOST, 0))
        found = int(free.getsockname()[1])
    command = [str(AZURITE), "--silent", "--skipApiVersionCheck", "--inMemoryPersistence", "--blobPort", str(found)]
    process = subprocess.Popen([*command, "--disableTelemetry"])
    try:
        for _ in range(300):
            try:
                socket.create_connection((HOST, found), timeout=1).close()
                break
            except OSError:
                time.sleep(0.1)
        make_container(found, "bucket")
        yield found
    finally:
        process.terminate()
        process.wait(30)


def make_container(port: int, name: str) -> None:
    """Make a container, by a request that is signed with the account's key."""
    moment = datetime.now(UTC).strftime("%a, %d %b %Y %H:%M:%S GMT")
    headers = f"x-ms-date:{moment}\nx-ms-version:{VERSION}\n"
    text = "PUT" + "\n" * 12 + f"{headers}/{ACCOUNT}/{ACCOUNT}/{name}\nrestype:container"
    signature = base64.b64encode(hmac.digest(base64.b64decode(KEY), text.encode(), hashlib.sha256)).decode()
    request = urllib.request.Request(
        f"http://{HOST}:{port}/{ACCOUNT}/{name}?restype=container",
        method="PUT",
        headers={
            "x-ms-date": moment,
            "x-ms-version": VERSION,
            "Authorization": f"SharedKey {ACCOUNT}:{signature}",
            "Content-Length": "0",
        },
    )
    urllib.request.urlopen(request).close()


@pytest.fixture
def path(port: int, monkeypatch: pytest.MonkeyPatch) -> StoragePath:
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT", ACCOUNT)
    monkeypatch.setenv("AZURE_STORAGE_KEY", KEY)
    return StoragePath.of(f"abfs://bucket@{ACCOUNT}/sp", StorageOptions.of({"endpoint": f"http://{HOST}:{port}"}))


def rows(value: int) -> pa.Table:
    return pa.table({"key": list(range(10)), "n": [value] * 10})


def test_of_two_writers_one_publishes(path: StoragePath) -> None:
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
