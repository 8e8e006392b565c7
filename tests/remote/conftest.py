"""A store for all tests, and a proxy before it for each."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyspark_savepoint.formats.filesystems.filesystem import store_of
from tests.remote.storage import CREDENTIALS, FaultyProxy, faulty_proxy, put, s3_store, upload

SHOP = Path(__file__).parents[1] / "oracle" / "savepoints" / "shop" / "savepoint"
# Spark's workers have the environment that Spark was started with, which may be before the first of these tests.
os.environ.update(CREDENTIALS)


@pytest.fixture(scope="session")
def store() -> Iterator[int]:
    """The port of an S3 server that has the shop's savepoint and a file of 9 MB in a bucket."""
    with s3_store() as port:
        put(port, "/bucket")
        upload(port, "bucket", SHOP, "savepoints/savepoint-shop")
        put(port, "/bucket/big", bytes(range(256)) * (9 << 12))
        yield port


@pytest.fixture(autouse=True)
def _no_connections() -> Iterator[None]:
    """Ports are used again: what was connected to one store is not taken for another."""
    store_of.cache_clear()
    yield
    store_of.cache_clear()


@pytest.fixture
def proxy(store: int) -> Iterator[FaultyProxy]:
    with faulty_proxy(store) as running:
        yield running
