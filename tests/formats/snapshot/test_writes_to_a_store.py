"""A copy in a store: what it asks for, and that a failing request changes nothing of its result."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pyspark_savepoint.formats.filesystems.filesystem import store_of
from tests.remote.conftest import SHOP
from tests.remote.faulty_writes import VERBS, run, swept
from tests.remote.measured_store import MeasuredStore, measured_store
from tests.remote.storage import CREDENTIALS


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> Iterator[MeasuredStore]:
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    store_of.cache_clear()
    with measured_store() as store:
        store.upload(SHOP, "shop")
        yield store
    store_of.cache_clear()


def test_the_requests_of_a_copy(measured: MeasuredStore) -> None:
    """Two for each file; the rest finds out whether the place is free, publishes, and cleans up."""
    assert run(measured, *VERBS["cp"]) == 0
    assert measured.kinds() == {"COPY": 2, "DELETES": 1, "GET": 5, "HEAD": 2, "LIST": 3, "PUT": 4}


def test_requests_that_fail_once(measured: MeasuredStore) -> None:
    assert set(swept(measured, "cp", 5, (503, "vanished"))) == {0}
