"""A store for all tests, and a proxy before it for each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pyspark_savepoint.formats.remote import connect
from remote.storage import CREDENTIALS, FaultyProxy, faulty_proxy, put, s3_store, upload

SHOP = Path(__file__).parents[1] / "oracle" / "savepoints" / "shop" / "savepoint"


@pytest.fixture(scope="session")
def store() -> Iterator[int]:
    """The port of an S3 server that has the shop's savepoint and a file of 9 MB in a bucket."""
    with s3_store() as port:
        put(port, "/bucket")
        upload(port, "bucket", SHOP, "savepoints/savepoint-shop")
        put(port, "/bucket/big", bytes(range(256)) * (9 << 12))
        yield port


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    connect.cache_clear()
    yield
    connect.cache_clear()


@pytest.fixture
def proxy(store: int) -> Iterator[FaultyProxy]:
    with faulty_proxy(store) as running:
        yield running
