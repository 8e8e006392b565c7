"""A failing request changes nothing of the result of a copy in a store."""

from __future__ import annotations

from tests.remote.conftest import SHOP
from tests.remote.faulty_writes import swept
from tests.remote.measured_store import MeasuredStore


def test_requests_that_fail_once(measured: MeasuredStore) -> None:
    measured.upload(SHOP, "shop")
    assert set(swept(measured, "cp", 5, (503, "vanished"))) == {0}
