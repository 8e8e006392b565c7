"""What all tests share."""

from __future__ import annotations

from pathlib import Path

import pytest

CORPUS = Path(__file__).parents[1].parent / "shared" / "corpus"


@pytest.fixture(scope="session")
def corpus() -> Path:
    """Files that real Flink wrote; their absence is a failure."""
    assert CORPUS.is_dir(), f"the corpus of real snapshots is not at {CORPUS}"
    return CORPUS
