"""A store in this process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pyspark_savepoint.formats.filesystems.filesystem import store_of
from tests.remote.measured_store import MeasuredStore, measured_store
from tests.remote.storage import CREDENTIALS


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> Iterator[MeasuredStore]:
    """An empty store, and the environment with keys of it."""
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    store_of.cache_clear()
    with measured_store() as store:
        yield store
    store_of.cache_clear()
