"""Fixtures of the connector's tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

SHOP = Path(__file__).parents[1] / "oracle" / "savepoints" / "shop"


@pytest.fixture(scope="session")
def shop() -> Path:
    """The small savepoint that ships with the project."""
    return SHOP / "savepoint"


@pytest.fixture(scope="session")
def shop_states() -> dict[str, Any]:
    """Return the entries that Flink wrote, by state name."""
    expected = json.loads((SHOP / "expected.json").read_text())
    return {state["name"]: state["entries"] for operator in expected["operators"] for state in operator["states"]}
